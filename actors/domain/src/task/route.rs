//! The place of a task in its list of models: the model of the next or current lease.

use serde::{Deserialize, Serialize};

use super::{Called, Failure, FailureKind, State, Task};

/// The place in a list of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Route {
    /// The index of the model in `models`.
    #[serde(default)]
    index: u8,
    /// The failure of the model before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<FailureKind>,
}

impl Route {
    /// True at the first model, as an attempt begins.
    #[must_use]
    pub fn is_first(&self) -> bool {
        *self == Self::default()
    }
}

impl Task {
    /// The model of the current lease, or of the next one.
    #[must_use]
    pub fn model(&self) -> &str {
        let routing = self.spec.routing.as_deref();
        let listed = routing.and_then(|routing| routing.models.get(usize::from(self.route.index)));
        listed.map_or(&self.spec.model, String::as_str)
    }

    /// The one call of the current lease, or of the next one, for its highest cost.
    #[must_use]
    pub fn called_next(&self) -> Called<'_> {
        Called::one(self.model(), self.spec.service_tier())
    }

    /// The model that has the task or had it last; `None` before the first lease, and while another
    /// one is to follow.
    #[must_use]
    pub fn model_used(&self) -> Option<&str> {
        match self.state {
            State::Scheduled { .. } | State::Ready | State::Backoff { .. } => None,
            State::Running { .. }
            | State::AwaitingApproval { .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Cancelled { .. }
            | State::Rejected { .. } => self.worker.map(|_| self.model()),
        }
    }

    /// The failure after which the task went on to its present model.
    #[must_use]
    pub const fn fallback_reason(&self) -> Option<FailureKind> {
        self.route.reason
    }

    /// The place of the next model, if the task goes on to one after this failure.
    pub(super) fn fallback(&self, failure: &Failure) -> Option<Route> {
        self.fallback_on(failure.kind()?)
    }

    /// The place of the next model, if the task goes on to one after a failure of this kind.
    pub(super) fn fallback_on(&self, reason: FailureKind) -> Option<Route> {
        let routing = self.spec.routing.as_deref().filter(|it| it.falls_back_on(reason))?;
        let index = self.route.index + 1;
        let is_listed = usize::from(index) < routing.models.len();
        is_listed.then_some(Route { index, reason: Some(reason) })
    }
}
