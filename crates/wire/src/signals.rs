//! Signals on the wire.

use callboard_domain::Rule;
use callboard_domain::execution::signal::MAX_PAYLOAD;
use serde_json::Value;

use super::read::rule::{self, Parse};
use crate::request;

request! {
    /// A signal to an execution.
    #[derive(Debug, Clone, Default)]
    pub struct SignalRequest as "SignalRequest" {
        /// The payload, which is the output of the step that waits; any JSON of at most 256 KiB.
        payload: Option<Value> = optional("payload", payload()),
        /// True replaces an earlier signal that no step has used; by default false.
        replace: Option<bool> = optional("replace", rule::flag()),
    }
}

fn payload() -> impl Parse<Value> {
    let fits = |value: &Value| value.to_string().len() <= MAX_PAYLOAD;
    rule::any().only(fits, Rule::Length, "must have at most 262144 bytes as compact JSON")
}
