//! The members that steer the choice of tokens, on the wire.

use callboard_domain::task::{MAX_PENALTY, MAX_STOP, MAX_STOPS, Sampling};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::read::rule::{self, Parse};
use super::read::{Components, Field, Refused};
use crate::request;

request! {
    impl Sampling as "SamplingRequest" {
        /// The seed: a provider that takes one chooses the same tokens again where it can.
        seed = optional("seed", seed()),
        /// The next token is chosen from the most probable ones that have this share of the probability.
        top_p = optional("topP", share()),
        /// The output ends before the first of these sequences: a string, or at most 16.
        stop = or_default("stop", Stops),
        /// Tokens that have come are less probable the more often they have; if negative, more probable.
        frequency_penalty = optional("frequencyPenalty", penalty()),
    }
}

/// A seed.
pub(super) fn seed() -> impl Parse<i64> {
    rule::whole(i64::MIN..=i64::MAX)
}

/// A share of the probability.
pub(super) fn share() -> impl Parse<f64> {
    rule::number(0.0..=1.0)
}

/// A penalty of repeated tokens.
pub(super) fn penalty() -> impl Parse<f64> {
    rule::number(-MAX_PENALTY..=MAX_PENALTY)
}

/// The sequences that end an output: a string, or a list of strings.
pub(super) struct Stops;

impl Parse<Vec<String>> for Stops {
    fn parse(&self, field: Field<'_>) -> Result<Vec<String>, Refused> {
        if field.value.is_string() {
            return sequence().parse(field).map(|sequence| vec![sequence]);
        }
        sequences().parse(field)
    }

    fn schema(&self, components: &mut Components) -> Value {
        json!({"oneOf": [sequence().schema(components), sequences().schema(components)]})
    }
}

fn sequence() -> impl Parse<String> {
    rule::text(rule::characters(1..=MAX_STOP))
}

fn sequences() -> impl Parse<Vec<String>> {
    rule::list(0..=MAX_STOPS, sequence())
}

/// The members as they were given; none where nothing was.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SamplingBody<'a> {
    /// The seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    /// 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0.0, maximum = 1.0)]
    top_p: Option<f64>,
    /// The sequences before which the output ends.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop: &'a [String],
    /// -2 to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -2.0, maximum = 2.0)]
    frequency_penalty: Option<f64>,
}

impl<'a> From<&'a Sampling> for SamplingBody<'a> {
    fn from(Sampling { seed, top_p, stop, frequency_penalty }: &'a Sampling) -> Self {
        Self { seed: *seed, top_p: *top_p, stop, frequency_penalty: *frequency_penalty }
    }
}
