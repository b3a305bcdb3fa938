//! `models`, `fallbackOn` and `serviceTier` on the wire.

use callboard_domain::grammar;
use callboard_domain::task::{FailureKind, MAX_TARGET, MODELS, Routing, ServiceTier};
use serde_json::json;

use super::read::rule::{self, Parse};
use super::read::{Fields, Refused};
use crate::answer::Given;
use crate::request;

request! {
    impl Routing as "RoutingRequest", answered as "Routing" {
        /// 2 to 5 models, in place of `model`: after a failure the next lease calls the next one.
        models = or_default("models", models()),
        /// The failures after which the next model is called; by default rate_limited, unavailable and timeout.
        fallback_on = optional("fallbackOn", rule::list(
            0..=FailureKind::ALL.len(),
            kind().map(Kind),
        ).map(|kinds| kinds.into_iter().map(|Kind(kind)| kind).collect::<Vec<_>>())),
        /// The service tier to ask the provider for.
        service_tier = optional("serviceTier", rule::one_of(&ServiceTier::ALL, ServiceTier::as_str)),
    }
}

/// The members as they were given.
pub type RoutingBody<'a> = Given<'a, Routing>;

/// A kind in a list; the default takes the place of a broken one.
struct Kind(FailureKind);

impl Default for Kind {
    fn default() -> Self {
        Self(FailureKind::Unavailable)
    }
}

fn kind() -> impl Parse<FailureKind> {
    rule::one_of(&FailureKind::ALL, FailureKind::as_str)
}

/// The names of models, which the domain checks.
fn models() -> impl Parse<Vec<String>> {
    let name = rule::text(rule::bytes(0..=usize::MAX))
        .with(|| json!({"minLength": 1, "maxLength": MAX_TARGET}));
    rule::list(0..=usize::MAX, rule::name(grammar::Kind::Model, name))
        .with(|| json!({"minItems": MODELS.start(), "maxItems": MODELS.end()}))
}

/// Passes if the members fit each other and a `model` beside them.
pub(super) fn checked<T>(
    value: T,
    (routing, has_model): (&Routing, bool),
    fields: &Fields<'_>,
) -> Result<T, Refused> {
    let mut refused = None;
    for (name, rule, says) in routing.faults(has_model) {
        refused = Some(fields.refuse(&name, rule, says));
    }
    refused.map_or(Ok(value), Err)
}
