//! `confidence` of a task, a step or the defaults of a template: the way to make it.
//!
//! Deliberately absent: the figure itself, which is a number beside it.

use callboard_domain::confidence::ask::{Ask, CALLS, MAX_FIELD, MAX_FIELDS, MAX_RUBRIC, Method};
use serde_json::json;

use super::definitions::{model, text, texts};
use super::read::rule::{self, Parse};
use crate::answer::Given;
use crate::request;

request! {
    impl Ask as "ConfidenceRequest", answered as "Confidence" {
        /// auto (logprobs where the model gives them, else none), logprobs, samples, judge or none.
        method = default_shown("method", rule::one_of(&Method::ALL, Method::as_str)),
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

/// The requested source of a confidence.
pub type ConfidenceBody<'a> = Given<'a, Ask>;

/// A number of calls, whose range the domain checks.
fn calls() -> impl Parse<u8> {
    rule::whole(0..=u8::MAX).with(|| json!({"minimum": CALLS.start(), "maximum": CALLS.end()}))
}
