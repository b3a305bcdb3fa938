//! `confidence` of a task, a step or the defaults of a template: the way to make it.
//!
//! Deliberately absent: the figure itself, which is a number beside it.

use callboard_domain::confidence::ask::{Ask, CALLS, MAX_FIELD, MAX_FIELDS, MAX_RUBRIC, Method};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::definitions::{model, text, texts};
use super::read::rule::{self, Parse};
use crate::request;

request! {
    impl Ask as "ConfidenceRequest" {
        /// auto (logprobs where the model gives them, else none), logprobs, samples, judge or none.
        method = or_default("method", rule::one_of(&Method::ALL, Method::as_str)),
        /// The samples besides the answer, or the verdicts of a judge without logprobs: 2 to 9; by
        /// default 3.
        n = optional("n", calls()),
        /// The members of a JSON output that samples must agree on; by default those of the schema.
        fields = or_default("fields", texts(MAX_FIELDS, text(1..=MAX_FIELD))),
        /// The model that judges; required for judge.
        judge_model = optional("judgeModel", model()),
        /// The criteria of the judge: at most 16 KiB.
        rubric = optional("rubric", text(1..=MAX_RUBRIC)),
    }
}

/// A number of calls, whose range the domain checks.
fn calls() -> impl Parse<u8> {
    rule::whole(0..=u8::MAX).with(|| json!({"minimum": CALLS.start(), "maximum": CALLS.end()}))
}

/// The source of a confidence.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfidenceBody<'a> {
    /// auto, logprobs, samples, judge or none.
    method: &'static str,
    /// The samples or verdicts; by default 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<u8>,
    /// The members that samples must agree on; by default those of the schema.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    fields: &'a [String],
    /// The model that judges.
    #[serde(skip_serializing_if = "Option::is_none")]
    judge_model: Option<&'a str>,
    /// The criteria of the judge.
    #[serde(skip_serializing_if = "Option::is_none")]
    rubric: Option<&'a str>,
}

impl<'a> From<&'a Ask> for ConfidenceBody<'a> {
    fn from(ask: &'a Ask) -> Self {
        Self {
            method: ask.method.as_str(),
            n: ask.n,
            fields: &ask.fields,
            judge_model: ask.judge_model.as_deref(),
            rubric: ask.rubric.as_deref(),
        }
    }
}
