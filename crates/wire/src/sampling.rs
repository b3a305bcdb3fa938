//! The members that steer the choice of tokens, on the wire.

use callboard_domain::task::{MAX_PENALTY, MAX_STOP, MAX_STOPS, Sampling};
use serde_json::{Value, json};

use super::read::rule::{self, Parse};
use super::read::{Components, Field, Refused};
use crate::answer::Given;
use crate::request;

request! {
    impl Sampling as "SamplingRequest", answered as "Sampling" {
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

/// The members as they were given.
pub type SamplingBody<'a> = Given<'a, Sampling>;

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
        if components.is_of_answers() {
            return sequences().schema(components);
        }
        json!({"oneOf": [sequence().schema(components), sequences().schema(components)]})
    }
}

fn sequence() -> impl Parse<String> {
    rule::text(rule::characters(1..=MAX_STOP))
}

fn sequences() -> impl Parse<Vec<String>> {
    rule::list(0..=MAX_STOPS, sequence())
}
