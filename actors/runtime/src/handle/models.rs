//! Models, their limits, and the waits for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard_domain::id::Environment;
use callboard_domain::model_limits::{MeterStatus, ModelLimits, NoRoom};
use callboard_domain::task::{State, Task};
use callboard_domain::usage::Rates;
use callboard_domain::{Error, Timestamp};

use super::Handle;
use crate::kernel::finish::Finish;

/// A model as the node knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelView {
    /// The name.
    pub name: Arc<str>,
    /// The connected workers that announce the model by its exact name.
    pub workers: usize,
    /// The price in USD per token; `None` if the price table has none.
    pub rates: Option<Rates>,
    /// The limits, the use of the last minute and the closure; `None` for a model without any.
    pub status: Option<MeterStatus>,
    /// The instant until which the model is closed.
    pub closed_until: Option<Timestamp>,
    /// The queues for which alone the model is closed, each with the instant.
    pub closed_queues: Vec<(Arc<str>, Timestamp)>,
}

impl Handle {
    /// The models that workers announce by name, those with limits or figures, and the default.
    #[must_use]
    pub fn models(&self, environment: Environment) -> Vec<ModelView> {
        let mut models: BTreeMap<Arc<str>, (usize, Option<MeterStatus>)> = BTreeMap::new();
        models.entry(self.node.settings.task_defaults.model.as_str().into()).or_default();
        let moment = self.moment();
        for view in self.workers(environment) {
            if !view.worker.is_reachable(moment) {
                continue;
            }
            for name in view.worker.profile.iter().flat_map(|profile| &profile.models) {
                if !name.ends_with('*') {
                    models.entry(name.as_str().into()).or_default().0 += 1;
                }
            }
        }
        for (name, status) in self.node.limits.models_of(environment).statuses() {
            models.entry(name).or_default().1 = Some(status);
        }
        let prices = self.node.limits.prices.get();
        let view = |(name, (workers, status)): (Arc<str>, (usize, Option<MeterStatus>))| {
            let price = prices.get(&name);
            let closed_until = status.as_ref().and_then(|status| status.closed_until);
            let wall_clock =
                |(queue, at): &(Arc<str>, _)| (Arc::clone(queue), self.node.wall_clock(*at));
            let queues = status.iter().flat_map(|status| &status.closed_queues);
            ModelView {
                closed_queues: queues.map(wall_clock).collect(),
                rates: price.and_then(|price| price.rates(0)),
                closed_until: closed_until.map(|until| self.node.wall_clock(until)),
                name,
                workers,
                status,
            }
        };
        models.into_iter().map(view).collect()
    }

    /// Sets the limits of a model, in place of those of the settings. After `Ok` the limits survive a
    /// power cut, and count for every call that begins.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn set_model_limits(
        &self,
        environment: Environment,
        model: &str,
        limits: ModelLimits,
    ) -> Result<ModelView, Error> {
        let node = Arc::clone(&self.node);
        Finish::new(node.set_model_limits(environment, model.to_owned(), limits)).await?;
        let found = self.models(environment).into_iter().find(|view| *view.name == *model);
        found.ok_or(Error::Internal)
    }

    /// Ends the pause of a model: its tasks go on, whatever its provider refused. After `Ok` a restart does not close
    /// it again.
    ///
    /// # Errors
    /// [`Error::NotFound`] for a model that nobody announces and nothing is known of, [`Error::Unavailable`].
    pub async fn end_pause(
        &self,
        environment: Environment,
        model: &str,
    ) -> Result<ModelView, Error> {
        let find = || self.models(environment).into_iter().find(|view| *view.name == *model);
        find().ok_or_else(|| Error::not_found("model", model))?;
        let node = Arc::clone(&self.node);
        Finish::new(node.end_pause(environment, model.to_owned())).await?;
        find().ok_or(Error::Internal)
    }

    /// The instant until which a pending task waits at least, if that is known.
    #[must_use]
    pub fn waiting_until(&self, environment: Environment, task: &Task) -> Option<Timestamp> {
        match task.state {
            State::Ready => {
                let until =
                    self.model_room(environment, task).err().and_then(|no_room| no_room.until);
                until.map(|until| self.node.wall_clock(until))
            }
            State::Backoff { until: at } | State::Scheduled { at } => Some(at),
            State::Running { .. }
            | State::AwaitingApproval { .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Cancelled { .. }
            | State::Rejected { .. } => None,
        }
    }

    /// Passes if the model of a ready task has room; otherwise returns the reason.
    pub(super) fn model_room(&self, environment: Environment, task: &Task) -> Result<(), NoRoom> {
        let models = self.node.limits.models(environment);
        models.map_or(Ok(()), |models| models.room(task.model(), &task.spec.queue))
    }
}
