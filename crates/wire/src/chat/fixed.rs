//! The members that change nothing, or are taken only with the values that change nothing.
//!
//! A fault says what to do instead. Deliberately absent: members that become a part of the task.

use callboard_domain::Rule;
use callboard_domain::task::ServiceTier;
use serde_json::{Value, json};

use crate::read::rule::{self, Parse};
use crate::read::{Fields, Refused};
use crate::request;

/// The faults of members with another effect.
const ONE: &str = "must be 1: send the request once for each choice";
const PENALTY: &str = "must be 0: it is not supported; leave it out, or send frequency_penalty";
const TOOLS: &str = "is not supported: ask for JSON with response_format instead \
     (instructor: mode=Mode.JSON_SCHEMA; LangChain: method=\"json_schema\")";
const LOGPROBS: &str =
    "is not supported: leave it out, and read the task's confidence at GET /api/tasks/ID";
const ABSENT: &str = "is not supported: leave it out";
const TEXT: &str = "must be [\"text\"]: no other content is supported";
const MEDIUM: &str = "must be medium: say in the prompt how long the answer is to be";

request! {
    /// The members that change nothing.
    #[derive(Debug)]
    pub struct Fixed as "FixedChatOptions" {
        /// One choice.
        n: () = or_default("n", only(&["1", "1.0"], ONE)),
        /// No penalty.
        presence_penalty: () = or_default("presence_penalty", only(&["0", "0.0"], PENALTY)),
        /// No bias.
        logit_bias: () = or_default("logit_bias", only(&["{}"], ABSENT)),
        /// No probabilities.
        logprobs: () = or_default("logprobs", only(&["false"], LOGPROBS)),
        /// No probabilities.
        top_logprobs: () = or_default("top_logprobs", only(&["0"], LOGPROBS)),
        /// No tools.
        tools: () = or_default("tools", only(&["[]"], TOOLS)),
        /// No tools.
        tool_choice: () = or_default("tool_choice", only(&["\"none\"", "\"auto\""], TOOLS)),
        /// No tools.
        parallel_tool_calls: () = or_default("parallel_tool_calls", only(&["true", "false"], TOOLS)),
        /// No functions.
        functions: () = or_default("functions", only(&["[]"], TOOLS)),
        /// No functions.
        function_call: () = or_default("function_call", only(&["\"none\"", "\"auto\""], TOOLS)),
        /// No effort.
        reasoning_effort: () = or_default("reasoning_effort", only(&[], ABSENT)),
        /// The usual length.
        verbosity: () = or_default("verbosity", only(&["\"medium\""], MEDIUM)),
        /// Text.
        modalities: () = or_default("modalities", only(&["[\"text\"]"], TEXT)),
        /// A task is stored in any case, and by Callboard alone.
        store: () = or_default("store", rule::flag().map(drop)),
        /// A mark for a provider's cache, without effect.
        prompt_cache_key: () = or_default("prompt_cache_key", any_text()),
        /// A term of a provider's cache, without effect.
        prompt_cache_retention: () = or_default("prompt_cache_retention", any_text()),
        /// A mark of the person who asks, without effect.
        safety_identifier: () = or_default("safety_identifier", any_text()),
    }
}

fn any_text() -> impl Parse<()> {
    rule::text(rule::bytes(0..=usize::MAX)).map(drop)
}

/// One of these values, as JSON; null is taken everywhere. `says` follows the member's name.
pub(super) fn only(values: &'static [&'static str], says: &'static str) -> impl Parse<()> {
    let is_known = |value: &Value| values.contains(&value.to_string().as_str());
    let variants = || values.iter().filter_map(|value| serde_json::from_str(value).ok());
    rule::any()
        .only(is_known, Rule::Unknown, says)
        .with(move || json!({"enum": variants().collect::<Vec<Value>>()}))
        .map(drop)
}

/// The service tier; `auto` and `default` leave it to the provider.
pub(super) fn tier() -> impl Parse<Option<ServiceTier>> {
    const TIERS: &[&str] = &["auto", "default", "flex", "priority"];
    rule::one_of(TIERS, |tier| tier).map(|tier| match tier {
        "flex" => Some(ServiceTier::Flex),
        "priority" => Some(ServiceTier::Priority),
        _ => None,
    })
}

/// Takes unknown members that are null: a client's library may send every member that it knows.
#[expect(clippy::unnecessary_wraps, reason = "the signature of a check")]
pub(super) fn nulls_are_absent<T>(shape: T, fields: &mut Fields<'_>) -> Result<T, Refused> {
    fields.forget_nulls();
    Ok(shape)
}
