//! The limits of definitions, and the checks of single values.
//!
//! Deliberately absent: checks that involve more than one field.

use std::fmt;

use crate::error::Rule;
use crate::problem::Problem;

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
/// The most attempts.
pub const MAX_ATTEMPTS: u32 = 20;
/// The longest first backoff, in milliseconds: that of any backoff.
pub const MAX_BACKOFF_MS: u64 = 300_000;

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
