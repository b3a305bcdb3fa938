//! Bulk jobs.

pub(crate) mod rows;

use std::collections::HashSet;

use callboard_domain::bulk::{self, Action, Item, Job, Kind};
use callboard_domain::digest::Digest;
use callboard_domain::id::{BulkId, Environment, ExecutionId, TaskId};
use callboard_domain::query::{Executions, Page, Tasks, Window};
use callboard_domain::{Error, Rule};

use super::Handle;
use crate::messages::submission::Owner;
use crate::read::{self, approvals, runs, unreadable};
use crate::tables;

/// A job to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkOrder {
    /// The action.
    pub action: Action,
    /// The new priority, of a job that reprioritizes.
    pub priority: Option<u8>,
    /// The reason, of a job that rejects or erases.
    pub reason: Option<String>,
    /// The filter of the tasks, without its order and its window; `None` if the job acts on no tasks.
    pub tasks: Option<Tasks>,
    /// The same of the executions.
    pub executions: Option<Executions>,
    /// The number of items that must match.
    pub expect: Option<u64>,
}

impl BulkOrder {
    /// The kind of the items.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match (&self.tasks, &self.executions) {
            (_, None) => Kind::Tasks,
            (None, Some(_)) => Kind::Executions,
            (Some(_), Some(_)) => Kind::All,
        }
    }
}

impl Handle {
    /// The number of items that a job would act on.
    ///
    /// # Errors
    /// Those of [`Handle::start_bulk`].
    pub async fn dry_bulk(
        &self,
        owner: &Owner,
        order: &BulkOrder,
    ) -> Result<(usize, Option<String>), Error> {
        let (matched, why) = self.matched(owner, order).await?;
        Ok((matched.len(), why))
    }

    /// The items that a job acts on: the executions that match, and then the tasks; of these the held ones if it
    /// rejects, and those of no execution if it retries. With the reason why others do not count.
    async fn matched(
        &self,
        owner: &Owner,
        order: &BulkOrder,
    ) -> Result<(Vec<Item>, Option<String>), Error> {
        let (mut items, mut why) = (Vec::new(), None);
        if let Some(filter) = &order.executions {
            let mut filter = filter.clone();
            if filter.statuses.is_empty() {
                filter.statuses = order.action.fits_executions().to_vec();
            }
            let matched = runs::matching(&self.node, owner.environment, &filter).await;
            let matched = matched.map_err(|error| unreadable(&error))?;
            items.extend(matched.into_iter().map(ExecutionId::from_u128).map(Item::Execution));
        }
        if let Some(filter) = &order.tasks {
            let matched = self.matched_tasks(owner, order.action, filter.clone()).await?;
            items.extend(matched.0.into_iter().map(Item::Task));
            why = matched.1;
        }
        bulk::check(items.len(), order.expect)?;
        Ok((items, why))
    }

    async fn matched_tasks(
        &self,
        owner: &Owner,
        action: Action,
        mut filter: Tasks,
    ) -> Result<(Vec<TaskId>, Option<String>), Error> {
        let (store, environment) = (self.node.store(), owner.environment);
        if let (true, Some(fits)) = (filter.statuses.is_empty(), action.fits()) {
            filter.statuses = fits.to_vec();
        }
        let mut matched = if filter.waiting_for.is_empty() {
            let matched = read::matching(store, environment, &filter).await;
            matched.map_err(|error| unreadable(&error))?
        } else {
            self.waiting_tasks(environment, &filter).await?
        };
        if action == Action::Reject {
            let held = approvals::undecided(store, environment).await;
            let held: HashSet<_> = held.map_err(|error| unreadable(&error))?.into_iter().collect();
            matched.retain(|task| held.contains(task));
        }
        let all = matched.len();
        if action == Action::Retry && all <= bulk::MAX_ITEMS {
            let alone = async |task: TaskId| {
                let found = tables::task(store, environment, task).await?;
                Ok(found.filter(|found| found.task.spec.origin.step.is_none()).map(|_| task))
            };
            let alone = read::together(read::TOGETHER, matched.into_iter().map(alone)).await;
            matched = alone.map_err(|error| unreadable(&error))?;
        }
        let left_out = all - matched.len();
        let why = (left_out > 0).then(|| {
            format!(
                "{left_out} more tasks match, and are steps of executions: these are retried as a whole, with POST \
                 /api/plans/executions/{{id}}/retry, or POST /api/batches/{{id}}/retry for rows of a batch"
            )
        });
        Ok((matched, why))
    }

    /// Starts a job on the items that match now. After `Ok` the job survives a power cut, and acts on
    /// these items, once on each. Returns true if the key had started it before.
    ///
    /// # Errors
    /// [`Error::InvalidState`] if another number than expected matches, or too many jobs run,
    /// [`Error::Invalid`] if too many match, [`Error::IdempotencyKeyReused`], [`Error::Unavailable`].
    pub async fn start_bulk(
        &self,
        owner: &Owner,
        order: &BulkOrder,
        idempotency_key: Option<&str>,
    ) -> Result<(Job, bool), Error> {
        let bulks = &self.node.state.bulks;
        let _creating = bulks.creating.lock().await;
        let jobs = bulks.all(owner.environment);
        let key = idempotency_key.map(|key| {
            let key = self.scoped_key(owner, "bulk", key, &format!("{order:?}"));
            (Digest::of(&format!("{:?}", key.scope)).to_string(), key.body)
        });
        let before = key.as_ref().and_then(|(scope, _)| {
            jobs.iter().find(|job| job.key.as_ref().is_some_and(|(of, _)| of == scope))
        });
        if let Some(before) = before {
            if before.key != key {
                return Err(Error::IdempotencyKeyReused);
            }
            return Ok((before.clone(), true));
        }
        let running = jobs.iter().filter(|job| job.ended_at.is_none()).count();
        if running >= bulk::MAX_RUNNING {
            return Err(Error::InvalidState(format!(
                "{running} bulk jobs run, which is the limit: wait for one to end"
            )));
        }
        let (matched, why) = self.matched(owner, order).await?;
        let now = self.node.now();
        let too_many = || {
            Error::invalid(
                "filter",
                Rule::Length,
                "filter matches too many items: choose a narrower filter",
            )
        };
        let job = Job {
            id: BulkId::from_u128(self.node.fresh_id(now, 0)),
            action: order.action,
            kind: order.kind(),
            priority: order.priority,
            reason: order.reason.clone(),
            account: owner.id.clone(),
            key,
            total: u32::try_from(matched.len()).map_err(|_| too_many())?,
            succeeded: 0,
            skipped: 0,
            failed: 0,
            erased: (order.action == Action::Erase).then(bulk::Erased::default),
            ended_at: None,
            stopped: None,
            why,
        };
        let job = job.after(&[], now);
        let created = bulks.create(&self.node, owner.environment, job.clone(), &matched).await;
        created.map_err(|_| Error::Unavailable("the job could not be stored"))?;
        Ok((job, false))
    }

    /// A job and its progress.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn bulk(&self, environment: Environment, id: BulkId) -> Result<Job, Error> {
        self.node.state.bulks.get(environment, id).ok_or_else(|| Error::not_found("bulk job", id))
    }

    /// Stops a job: it acts on no further item. What it has done stays. After `Ok` a restart does not go on with it.
    /// One that has ended stays as it is.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn stop_bulk(&self, owner: &Owner, id: BulkId) -> Result<Job, Error> {
        let (environment, bulks) = (owner.environment, &self.node.state.bulks);
        self.bulk(environment, id)?;
        let why = format!("{} stopped it", owner.id);
        let stopped = bulks.stop(&self.node, (environment, id), why).await;
        stopped.map_err(|_| Error::Unavailable("the job could not be stored"))?;
        self.bulk(environment, id)
    }

    /// The jobs, newest first.
    #[must_use]
    pub fn bulks(&self, environment: Environment, window: Window) -> Page<Job> {
        let mut jobs = self.node.state.bulks.all(environment);
        jobs.reverse();
        let total = jobs.len() as u64;
        let items = jobs.into_iter().skip(window.offset).take(window.limit).collect();
        Page { items, total }
    }
}
