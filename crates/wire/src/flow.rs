//! Flow control on the wire: concurrency and fairness keys.

use callboard_domain::task::flow::{FlowSource, MAX_KEY, MAX_KEY_LIMIT, MAX_WEIGHT, OnConflict};

use super::read::rule::{self, Parse};
use crate::answer::Given;
use crate::request;

request! {
    impl FlowSource as "FlowControl", answered as "Flow" {
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

/// The flow control of a definition or a task.
pub type FlowBody<'a> = Given<'a, FlowSource>;

fn key() -> impl Parse<String> {
    rule::text(rule::characters(1..=MAX_KEY))
}
