//! The models of a task: the first, those that follow after a failure, and the service tier.
//!
//! ```text
//! attempt:  models[0] ─failure of a kind in fallbackOn─▶ models[1] ─▶ … ─▶ the attempt has failed
//! ```
//!
//! One lease calls one model. An attempt begins with the first model and goes through the list
//! without a wait; only after the last model does it count as failed. Deliberately absent: limits of
//! models, which decide the time of a lease, not its model.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{EndingCode, Failure, MAX_TARGET};
use crate::error::Rule;
use crate::names::names;

/// The number of models that a list may have.
pub const MODELS: std::ops::RangeInclusive<usize> = 2..=5;

names! {
    /// The kind of a failure after which another model may be called.
    FailureKind {
        /// The provider has too many requests (429), or is overloaded (529).
        RateLimited = "rate_limited",
        /// The provider cannot be reached, or failed (5xx).
        Unavailable = "unavailable",
        /// The attempt took too long.
        Timeout = "timeout",
        /// The output does not match its schema.
        OutputInvalid = "output_invalid",
    }
}

/// The kinds of a list of models without `fallbackOn`.
const DEFAULT_KINDS: [FailureKind; 3] =
    [FailureKind::RateLimited, FailureKind::Unavailable, FailureKind::Timeout];

names! {
    /// The service tier that is asked of the provider.
    ServiceTier {
        /// The provider's usual one.
        Auto = "auto",
        /// Cheaper, and slower.
        Flex = "flex",
        /// Faster, and dearer.
        Priority = "priority",
    }
}

impl Failure {
    /// The kind of the failure; `None` for a refusal or a fault of the request, after which no other
    /// model is called.
    #[must_use]
    pub fn kind(&self) -> Option<FailureKind> {
        match self.ending.code {
            EndingCode::ProviderRateLimited if self.retryable => Some(FailureKind::RateLimited),
            EndingCode::ProviderError if self.retryable => Some(FailureKind::Unavailable),
            EndingCode::TaskTimeout => Some(FailureKind::Timeout),
            EndingCode::OutputInvalid | EndingCode::OutputTruncated => {
                Some(FailureKind::OutputInvalid)
            }
            EndingCode::ProviderRateLimited
            | EndingCode::ProviderError
            | EndingCode::WorkerLost
            | EndingCode::RenderFailed
            | EndingCode::ConditionFailed
            | EndingCode::DependencyFailed
            | EndingCode::ExecutionTimeout
            | EndingCode::BudgetExceeded
            | EndingCode::Rejected
            | EndingCode::Cancelled
            | EndingCode::InternalError => None,
        }
    }
}

/// The members `models`, `fallbackOn` and `serviceTier` of a task, a step or defaults.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Routing {
    /// The models in their order; none for a task with one `model`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// The kinds of failures after which the next model is called.
    pub fallback_on: Option<Vec<FailureKind>>,
    /// The service tier.
    pub service_tier: Option<ServiceTier>,
}

impl Routing {
    /// True if no member was given.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// True if the next model is called after a failure of this kind.
    #[must_use]
    pub fn falls_back_on(&self, kind: FailureKind) -> bool {
        self.fallback_on.as_deref().unwrap_or(&DEFAULT_KINDS).contains(&kind)
    }

    /// The members of a step, with those of `defaults` where it has none. The step's own `model`
    /// takes the place of a list.
    #[must_use]
    pub fn or(&self, defaults: &Self, has_model: bool) -> Self {
        let models = if self.models.is_empty() && !has_model {
            defaults.models.clone()
        } else {
            self.models.clone()
        };
        // A step's own model has no other to fall back on.
        let fallback_on = defaults.fallback_on.as_ref().filter(|_| !models.is_empty());
        Self {
            models,
            fallback_on: self.fallback_on.clone().or_else(|| fallback_on.cloned()),
            service_tier: self.service_tier.or(defaults.service_tier),
        }
    }

    /// The faults of `models` beside a `model`: field, rule, and words that follow the field's name.
    #[must_use]
    pub fn faults(&self, has_model: bool) -> Vec<(String, Rule, String)> {
        let mut faults = Vec::new();
        let mut fault = |field: String, rule, says: String| faults.push((field, rule, says));
        let count = self.models.len();
        if count > 0 && !MODELS.contains(&count) {
            let says = format!("must have {} to {} models", MODELS.start(), MODELS.end());
            fault("models".into(), Rule::Length, says);
        }
        if count > 0 && has_model {
            fault("models".into(), Rule::Format, "must not be given beside model".into());
        }
        for (index, model) in self.models.iter().enumerate() {
            let field = format!("models[{index}]");
            if !(1..=MAX_TARGET).contains(&model.chars().count()) {
                fault(field, Rule::Length, format!("must have 1 to {MAX_TARGET} characters"));
            } else if self.models[..index].contains(model) {
                fault(field, Rule::Format, "must not be named twice".into());
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::Ending;

    fn failure(code: EndingCode, retryable: bool) -> Failure {
        let ending = Ending { code, message: "no".into() };
        Failure::new(ending, retryable)
    }

    #[test]
    fn a_refusal_and_a_fault_of_the_request_have_no_kind() {
        assert_eq!(failure(EndingCode::ProviderError, false).kind(), None);
        assert_eq!(failure(EndingCode::ProviderRateLimited, false).kind(), None);
        assert_eq!(failure(EndingCode::WorkerLost, true).kind(), None);
        let kind = failure(EndingCode::ProviderError, true).kind();
        assert_eq!(kind, Some(FailureKind::Unavailable));
        let kind = failure(EndingCode::OutputInvalid, false).kind();
        assert_eq!(kind, Some(FailureKind::OutputInvalid));
    }

    #[test]
    fn an_invalid_output_falls_back_only_where_it_is_listed() {
        let plain = Routing::default();
        assert!(!plain.falls_back_on(FailureKind::OutputInvalid));
        assert!(plain.falls_back_on(FailureKind::Timeout));
        let fallback_on = Some(vec![FailureKind::OutputInvalid]);
        let listed = Routing { fallback_on, ..plain };
        assert!(listed.falls_back_on(FailureKind::OutputInvalid));
        assert!(!listed.falls_back_on(FailureKind::Timeout));
    }

    #[test]
    fn a_list_has_two_to_five_different_models_and_none_beside_it() {
        let fields = |models: &[&str], has_model| {
            let models = models.iter().map(|model| (*model).to_owned()).collect();
            let routing = Routing { models, ..Routing::default() };
            let faults = routing.faults(has_model);
            faults.into_iter().map(|(field, rule, _)| (field, rule)).collect::<Vec<_>>()
        };
        assert_eq!(fields(&["a", "b"], false), []);
        assert_eq!(fields(&[], true), []);
        assert_eq!(fields(&["a"], false), [("models".into(), Rule::Length)]);
        assert_eq!(fields(&["a", "b"], true), [("models".into(), Rule::Format)]);
        let wrong = fields(&["a", "a", ""], false);
        assert_eq!(wrong, [("models[1]".into(), Rule::Format), ("models[2]".into(), Rule::Length)]);
    }

    #[test]
    fn a_step_with_a_model_of_its_own_has_no_list_of_the_defaults() {
        let models = vec!["a".to_owned(), "b".to_owned()];
        let defaults = Routing { models, service_tier: Some(ServiceTier::Flex), fallback_on: None };
        let step = Routing::default();
        assert_eq!(step.or(&defaults, false), defaults);
        assert_eq!(step.or(&defaults, true), Routing { models: Vec::new(), ..defaults });
    }
}
