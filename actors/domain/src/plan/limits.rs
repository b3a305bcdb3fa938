//! The limits of definitions, and the checks of single values.
//!
//! Deliberately absent: checks that involve more than one field.

use std::fmt;

use crate::error::Rule;
use crate::problem::Problem;
pub use crate::retry::MAX_BACKOFF_MS;
use crate::task::FlowSource;
use crate::task::flow::{MAX_KEY, MAX_KEY_LIMIT, MAX_WEIGHT};

/// The longest name, in characters.
pub const MAX_NAME: usize = 100;
/// The longest description, in characters.
pub const MAX_DESCRIPTION: usize = 500;
/// The most tags.
pub const MAX_TAGS: usize = 32;
/// The longest tag, in characters.
pub const MAX_TAG: usize = 64;
/// The most steps.
pub const MAX_STEPS: usize = 500;
/// The longest step id, in characters.
pub const MAX_ID: usize = 64;
/// The longest time limit of an attempt, in milliseconds.
pub const MAX_TIMEOUT_MS: u64 = 86_400_000;
/// The longest review time, in milliseconds: 30 days.
pub const MAX_REVIEW_MS: u64 = 30 * 86_400_000;
/// The longest text of `files` of a step, in bytes, as it is written.
pub const MAX_FILE_SOURCE: usize = 2_000;
/// The most texts that a step shows its reviewer.
pub const MAX_SHOWN: usize = 8;
/// The longest template of such a text, in characters.
pub const MAX_SHOWN_SOURCE: usize = 2_000;
/// The most bytes of such texts of a task; what is longer is cut.
pub const MAX_SHOWN_BYTES: usize = 256 * 1024;
/// The most attempts.
pub const MAX_ATTEMPTS: u32 = 20;

pub(crate) fn check_length(
    problems: &mut Vec<Problem>,
    field: &str,
    text: &str,
    min: usize,
    max: usize,
) {
    let length = text.chars().take(max + 1).count();
    if length < min || length > max {
        let says = format!("must have {min} to {max} characters");
        problems.push(Problem::rule(Rule::Length, field, says));
    }
}

pub(crate) fn check_tags(problems: &mut Vec<Problem>, tags: &[String]) {
    if tags.len() > MAX_TAGS {
        let says = format!("must have at most {MAX_TAGS} tags");
        problems.push(Problem::rule(Rule::Length, "tags", says));
        return;
    }
    for (index, tag) in tags.iter().enumerate() {
        check_length(problems, &format!("tags[{index}]"), tag, 1, MAX_TAG);
    }
}

pub(crate) fn check_timeout(problems: &mut Vec<Problem>, field: &str, timeout_ms: Option<u64>) {
    check_range(problems, field, timeout_ms, 1, MAX_TIMEOUT_MS);
}

pub(crate) fn check_max_tokens(problems: &mut Vec<Problem>, field: &str, max_tokens: Option<u64>) {
    if max_tokens == Some(0) {
        problems.push(Problem::rule(Rule::Range, field, "must be at least 1"));
    }
}

/// A temperature or a confidence: 0 to 1.
pub(crate) fn check_fraction(problems: &mut Vec<Problem>, field: &str, fraction: Option<f64>) {
    check_range(problems, field, fraction, 0.0, 1.0);
}

/// Flow control: the lengths of keys, and the ranges of limits and weights.
pub(crate) fn check_flow(problems: &mut Vec<Problem>, prefix: &str, flow: &FlowSource) {
    let FlowSource { concurrency_key, concurrency_limit, on_conflict: _, fairness_key, weight } =
        flow;
    for (name, key) in [("concurrencyKey", concurrency_key), ("fairnessKey", fairness_key)] {
        if let Some(key) = key {
            check_length(problems, &format!("{prefix}{name}"), key, 1, MAX_KEY);
        }
    }
    let field = format!("{prefix}concurrencyLimit");
    check_range(problems, &field, *concurrency_limit, 1, MAX_KEY_LIMIT);
    check_range(problems, &format!("{prefix}weight"), *weight, 1, MAX_WEIGHT);
}

/// Flow control that is complete: each member has its key.
pub(crate) fn check_whole_flow(problems: &mut Vec<Problem>, prefix: &str, flow: &FlowSource) {
    check_flow(problems, prefix, flow);
    for (field, says) in flow.missing() {
        problems.push(Problem::rule(Rule::Required, format!("{prefix}{field}"), says));
    }
}

pub(super) fn check_range<N>(
    problems: &mut Vec<Problem>,
    field: &str,
    number: Option<N>,
    min: N,
    max: N,
) where
    N: Copy + PartialOrd + fmt::Display,
{
    if number.is_some_and(|number| !(min..=max).contains(&number)) {
        problems.push(Problem::rule(Rule::Range, field, format!("must be {min} to {max}")));
    }
}
