//! Flow control on the wire: concurrency and fairness keys.

use callboard_domain::task::flow::{
    Flow, FlowSource, MAX_KEY, MAX_KEY_LIMIT, MAX_WEIGHT, OnConflict,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::read::rule::{self, Parse};
use crate::request;

request! {
    impl FlowSource as "FlowControl" {
        /// At most `concurrencyLimit` tasks with this key run at the same time.
        concurrency_key = optional("concurrencyKey", key()),
        /// The limit; by default 1.
        concurrency_limit = optional("concurrencyLimit", rule::whole(1..=MAX_KEY_LIMIT)),
        /// The rule for one more task: queue (by default), reject, or cancel_running, which cancels the oldest.
        on_conflict = optional("onConflict", rule::one_of(&OnConflict::ALL, OnConflict::as_str)),
        /// Keys of the same priority take turns in their queue.
        fairness_key = optional("fairnessKey", key()),
        /// The share of the turns of the key; by default 1.
        weight = optional("weight", rule::whole(1..=MAX_WEIGHT)),
    }
}

fn key() -> impl Parse<String> {
    rule::text(rule::characters(1..=MAX_KEY))
}

/// Flow control: which tasks run together, and which take turns.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FlowBody<'a> {
    /// At most `concurrencyLimit` tasks with this key run at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency_key: Option<&'a str>,
    /// The number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10_000)]
    concurrency_limit: Option<u32>,
    /// queue, reject or `cancel_running`.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_conflict: Option<&'static str>,
    /// Keys of the same priority take turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    fairness_key: Option<&'a str>,
    /// The share of the turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    weight: Option<u8>,
}

impl<'a> FlowBody<'a> {
    /// The flow control of a task.
    #[must_use]
    pub fn of(flow: Option<&'a Flow>) -> Self {
        let Some(Flow { concurrency, fairness }) = flow else { return Self::default() };
        Self {
            concurrency_key: concurrency.as_ref().map(|it| it.key.as_str()),
            concurrency_limit: concurrency.as_ref().map(|it| it.limit),
            on_conflict: concurrency.as_ref().map(|it| it.on_conflict.as_str()),
            fairness_key: fairness.as_ref().map(|it| it.key.as_str()),
            weight: fairness.as_ref().map(|it| it.weight),
        }
    }

    /// The flow control of a definition, as it was given.
    #[must_use]
    pub fn given(source: &'a FlowSource) -> Self {
        Self {
            concurrency_key: source.concurrency_key.as_deref(),
            concurrency_limit: source.concurrency_limit,
            on_conflict: source.on_conflict.map(OnConflict::as_str),
            fairness_key: source.fairness_key.as_deref(),
            weight: source.weight,
        }
    }
}
