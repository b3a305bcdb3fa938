//! The stored state of models: limits that an admin set, and the end of a cooldown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use callboard_domain::Timestamp;
use callboard_domain::id::Environment;
use callboard_domain::model_limits::{Closure, ModelLimits};
use callboard_domain::query::{TaskOrder, Tasks, Window};
use callboard_domain::task::Status;
use callboard_domain::worker::Monotonic;
use callboard_store::{Error, Op, Outcome};
use sha2::{Digest, Sha256};

use crate::limits::models::{Models, before, is_metering, meter_of};
use crate::node::Node;
use crate::read;
use crate::tables::{MODELS, ModelRow};

/// All rows of models live here.
const PARTITION: u8 = 0;
/// The age at which a call no longer counts.
const COUNTED: Duration = Duration::from_secs(61);
/// The pages of ended tasks that a start looks at.
const PAGES: usize = 100;
/// The tasks of a page.
const PAGE: usize = 100;

/// The key of a model's row.
fn key(model: &str) -> [u8; 32] {
    Sha256::digest(model.as_bytes()).into()
}

impl Models {
    /// The limits of a model: those of its row, else those of the settings.
    fn limits_of(&self, row: &ModelRow) -> ModelLimits {
        row.limits.or_else(|| self.configured().get(&row.name).copied()).unwrap_or_default()
    }

    fn configured(&self) -> MutexGuard<'_, BTreeMap<String, ModelLimits>> {
        self.configured.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Other limits count from now on.
    fn set_limits(&self, model: &str, limits: ModelLimits) {
        {
            let mut meters = self.shared.lock();
            meter_of(&mut meters, model).1.set_limits(limits);
            self.shared
                .is_metering
                .store(is_metering(&meters), std::sync::atomic::Ordering::Release);
        }
        self.shared.notify_queues();
    }

    fn load(&self, row: &ModelRow, now: Timestamp) {
        let moment = self.shared.clock.moment();
        let mut meters = self.shared.lock();
        let meter = meter_of(&mut meters, &row.name).1;
        meter.set_limits(self.limits_of(row));
        if let Some(until) = row.closed_until.filter(|until| *until > now) {
            meter.cool_down_until(moment.after(until.since(now)), row.closed_because);
        }
        self.shared.is_metering.store(is_metering(&meters), std::sync::atomic::Ordering::Release);
    }

    /// The end of a model's closure and its reason, if the end lies ahead.
    fn closure(&self, model: &str) -> Option<(Monotonic, Closure)> {
        let now = self.shared.clock.moment();
        let meters = self.shared.lock();
        let meter = meters.get(model)?;
        Some((meter.closed_until()?, meter.closed_because(now)?))
    }

    fn count(&self, model: &str, age: Duration, input: u64, output: u64) {
        let now = self.shared.clock.moment();
        if let Some(meter) = self.shared.lock().get_mut(model) {
            meter.count(before(now, age), input, output, now);
        }
    }
}

impl Node {
    /// Reads the limits and the closures of a project, and counts the tasks that ended in the last minute.
    pub(crate) async fn load_models(&self, environment: Environment) -> Result<(), Error> {
        let (mut after, now) = (None, self.now());
        let models = self.limits.models_of(environment);
        loop {
            let number = environment.number();
            let page = MODELS.scan(self.store(), number, after.as_ref(), PAGE).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            for (_, row) in &page {
                models.load(row, now);
            }
        }
        let is_limited =
            |status: &callboard_domain::model_limits::MeterStatus| !status.limits.is_none();
        if models.statuses().iter().any(|(_, status)| is_limited(status)) {
            self.count_ended(models, now).await?;
        }
        Ok(())
    }

    /// The settings have other limits, which count for the models without limits of their own. A model whose row
    /// cannot be read keeps its limits until the next start.
    pub(crate) async fn configure_models(&self, limits: BTreeMap<String, ModelLimits>) {
        let before = std::mem::replace(
            &mut *self.limits.configured_models.lock().unwrap_or_else(PoisonError::into_inner),
            limits.clone(),
        );
        let names: BTreeSet<_> = before.keys().chain(limits.keys()).collect();
        let is_changed = |name: &&String| before.get(*name) != limits.get(*name);
        let names: Vec<_> = names.into_iter().filter(is_changed).collect();
        for &environment in &*self.environments() {
            let Some(models) = self.limits.models(environment) else { continue };
            let _writing = Arc::clone(&models.writing).lock_owned().await;
            for &name in &names {
                match MODELS.get(self.store(), environment.number(), &key(name)).await {
                    Ok(row) if row.as_ref().and_then(|row| row.limits).is_some() => {}
                    Ok(_) => models.set_limits(name, limits.get(name).copied().unwrap_or_default()),
                    Err(error) => {
                        tracing::warn!(model = name, %error, "the model keeps its limits");
                    }
                }
            }
        }
    }

    async fn count_ended(&self, models: &Models, now: Timestamp) -> Result<(), Error> {
        for page in 0..PAGES {
            let query = Tasks {
                statuses: vec![Status::Completed],
                order: TaskOrder::CompletedAt,
                window: Window { limit: PAGE, offset: page * PAGE },
                ..Tasks::default()
            };
            let tasks = read::tasks(self.store(), models.environment, &query).await?.items;
            let count = tasks.len();
            for task in tasks {
                let Some(at) = task.completed_at() else { continue };
                let age = now.since(at);
                if age > COUNTED {
                    return Ok(());
                }
                let usage = task.result.as_ref().map(|result| result.usage).unwrap_or_default();
                models.count(task.model(), age, usage.input, usage.output);
            }
            if count < PAGE {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sets the limits of a model, durably.
    ///
    /// # Errors
    /// The row could not be stored.
    pub(crate) async fn set_model_limits(
        self: Arc<Self>,
        environment: Environment,
        model: String,
        limits: ModelLimits,
    ) -> Result<(), callboard_domain::Error> {
        let models = self.limits.models_of(environment);
        let writing = Arc::clone(&models.writing).lock_owned().await;
        let row = self.model_row(models, &model, Some(limits));
        let shard = self.shard(PARTITION);
        let stored = shard.commit(PARTITION, vec![put(environment, &row)]).await;
        if let Outcome::Committed = stored {
            models.set_limits(&model, limits);
            drop(writing);
            return Ok(());
        }
        Err(callboard_domain::Error::Unavailable("the limits could not be stored"))
    }

    /// Opens a model whose provider refused calls, durably.
    ///
    /// # Errors
    /// The row could not be stored.
    pub(crate) async fn end_pause(
        self: Arc<Self>,
        environment: Environment,
        model: String,
    ) -> Result<(), callboard_domain::Error> {
        let models = self.limits.models_of(environment);
        let _writing = Arc::clone(&models.writing).lock_owned().await;
        let stored = MODELS.get(self.store(), environment.number(), &key(&model)).await;
        let stored =
            stored.map_err(|_| callboard_domain::Error::Unavailable("the store cannot be read"))?;
        if let Some(row) = stored.filter(|row| row.closed_until.is_some()) {
            let row = ModelRow { closed_until: None, closed_because: Closure::default(), ..row };
            let shard = self.shard(PARTITION);
            let outcome = shard.commit(PARTITION, vec![put(environment, &row)]).await;
            let Outcome::Committed = outcome else {
                return Err(callboard_domain::Error::Unavailable(
                    "the end of the model's pause could not be stored",
                ));
            };
        }
        models.reopen(&model);
        Ok(())
    }

    /// Stores the end of a model's closure, so that a restart does not call the model earlier.
    pub(crate) fn keep_closure(self: &Arc<Self>, environment: Environment, model: &str) {
        if self.limits.models(environment).and_then(|models| models.closure(model)).is_none() {
            return;
        }
        let (node, model) = (Arc::clone(self), model.to_owned());
        tokio::spawn(async move {
            let models = node.limits.models_of(environment);
            let _writing = Arc::clone(&models.writing).lock_owned().await;
            let number = environment.number();
            let row = MODELS.get(node.store(), number, &key(&model)).await.ok().flatten();
            let row = node.model_row(models, &model, row.and_then(|row| row.limits));
            let until = row.closed_until.map(|until| until.to_string());
            let because = row.closed_because.as_str();
            tracing::info!(model, until, because, "a model is closed: its provider takes no calls");
            let shard = node.shard(PARTITION);
            let _ = shard.commit(PARTITION, vec![put(environment, &row)]).await;
        });
    }

    fn model_row(&self, models: &Models, model: &str, limits: Option<ModelLimits>) -> ModelRow {
        let closure = models.closure(model);
        ModelRow {
            name: model.to_owned(),
            limits,
            closed_until: closure.map(|(until, _)| self.wall_clock(until)),
            closed_because: closure.map_or_else(Closure::default, |(_, cause)| cause),
        }
    }

    /// An instant of the monotonic clock as wall-clock time.
    pub(crate) fn wall_clock(&self, at: Monotonic) -> Timestamp {
        let ahead = at.0.saturating_sub(self.kernel.ports.clock.moment().0);
        self.now().after(Duration::from_millis(ahead))
    }
}

fn put(environment: Environment, row: &ModelRow) -> Op {
    MODELS.put(environment.number(), &key(&row.name), row, None)
}
