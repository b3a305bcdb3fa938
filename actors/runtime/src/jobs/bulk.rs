//! Bulk jobs: one action on every task and execution that a filter matched.
//!
//! ```text
//!   request ─▶ parts, each a row ─▶ the job's row: from here on it survives a crash ─▶ answer
//!   runner  ─▶ a part of a job, then one of the next ─▶ the job with its counts, and the part's row gone,
//!              in one commit
//! ```
//!
//! The runner stands beside the supervision tree. A part that a crash interrupted is acted on again: cancellations,
//! priorities, rejections and erasures are the same the second time, and a retry has the job and its task as its
//! idempotency key.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use callboard_domain::Error;
use callboard_domain::access::Role;
use callboard_domain::approval::Decider;
use callboard_domain::audit::{self, By, Record};
use callboard_domain::bulk::{Action, Erased, Item, Job, Outcome, PART};
use callboard_domain::id::{BulkId, Environment, TaskId};
use callboard_domain::task::Status;
use callboard_store::Error as StoreError;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::handle::bulk::rows::commit;
use crate::handle::{Handle, Reject};
use crate::items::accounts::caller_of;
use crate::items::task;
use crate::kernel::address::TaskAddress;
use crate::messages::submission::Owner;
use crate::node::Node;
use crate::node::bulks::{Bulks, LastTurns};
use crate::tables::{self, BULK_PARTS, BULKS};

/// The number of rows that are read or written at a time.
const PAGE: usize = 64;
/// The attempts at an action that the server is too busy for, and the wait in between.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(500);
/// The time that an actor may take for one task.
const PATIENCE: Duration = Duration::from_secs(10);

type Key = (Environment, BulkId);

impl Bulks {
    /// Reads the jobs, and removes the parts of those that a crash kept from being created.
    pub(crate) async fn load(
        &self,
        node: &Node,
        environments: &[Environment],
    ) -> Result<(), StoreError> {
        for &environment in environments {
            let (store, number) = (node.store(), environment.number());
            let mut after = None;
            loop {
                let page = BULKS.scan(store, number, after.as_ref(), PAGE).await?;
                let Some((last, _)) = page.last() else { break };
                after = Some(*last);
                self.jobs().extend(page.into_iter().map(|(_, job)| ((environment, job.id), job)));
            }
            let mut after = None;
            loop {
                let page = BULK_PARTS.scan(store, number, after.as_ref(), PAGE).await?;
                let Some((last, _)) = page.last() else { break };
                after = Some(*last);
                let orphans = page.iter().filter(|((id, _), _)| {
                    let job = self.get(environment, BulkId::from_u128(*id));
                    job.is_none_or(|job| job.ended_at.is_some())
                });
                let ops: Vec<_> = orphans.map(|(key, _)| BULK_PARTS.delete(number, key)).collect();
                if !ops.is_empty() {
                    commit(node, ops).await?;
                }
            }
        }
        Ok(())
    }
}

/// Works on the jobs, a part of each in turn, for as long as the process lives.
pub(crate) async fn run(node: Arc<Node>) {
    // The part of a job that a crash may have interrupted.
    let mut resumed: HashSet<Key> = node.state.bulks.jobs().keys().copied().collect();
    let mut last = LastTurns::default();
    loop {
        let served = node.environments();
        let Some((environment, job)) = node.state.bulks.next(&mut last, &served) else {
            node.state.bulks.wake.notified().await;
            continue;
        };
        let key = (environment, job.id);
        if let Err(error) = work(&node, environment, job, resumed.remove(&key)).await {
            tracing::warn!(job = %key.1, %error, "a bulk job pauses");
            resumed.insert(key);
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Acts on the next part of a job.
async fn work(
    node: &Arc<Node>,
    environment: Environment,
    job: Job,
    again: bool,
) -> Result<(), StoreError> {
    let Some(part) = job.part() else { return Ok(()) };
    if let Err(error) = may_go_on(node, environment, &job) {
        let why = format!("the account {} may no longer do this: {error}", job.account);
        return node.state.bulks.stop(node, (environment, job.id), why).await;
    }
    let (number, key) = (environment.number(), (job.id.as_u128(), part));
    let items = BULK_PARTS.get(node.store(), number, &key).await?.unwrap_or_default();
    // Executions first: their tasks may be among the items.
    let (executions, tasks): (Vec<_>, Vec<_>) =
        items.into_iter().partition(|item| matches!(item, Item::Execution(_)));
    let mut outcomes = Vec::new();
    for items in [executions, tasks] {
        let mut acting = JoinSet::new();
        for item in items {
            let act = Act { node: Arc::clone(node), environment, item, again };
            let job = job.clone();
            acting.spawn(async move { act.patiently(&job).await });
        }
        outcomes.extend(acting.join_all().await);
    }
    let (mut outcomes, refusals): (Vec<_>, Vec<_>) = outcomes.into_iter().unzip();
    // A part that is not there cannot be acted on, and must not stop the job.
    let size = usize::try_from(job.total - job.done()).unwrap_or(usize::MAX).min(PART);
    outcomes.resize(size, Outcome::Failed);
    let _writing = node.state.bulks.writing.lock().await;
    // It may have been stopped meanwhile.
    let before = node.state.bulks.get(environment, job.id).unwrap_or(job);
    let reason = before.reason.clone().unwrap_or_default();
    let mut job = before.after(&outcomes, node.now());
    job.why = job.why.or_else(|| refusals.into_iter().flatten().next());
    if let (Some(erased), true) = (job.erased, part_ends(&job)) {
        // Before the end is durable: a crash in between repeats the entry rather than losing it.
        report(node, environment, &job, erased, reason).await;
    }
    let mut ops = node.state.bulks.rows(node, environment, &job);
    ops.push(BULK_PARTS.delete(number, &key));
    commit(node, ops).await?;
    node.state.bulks.keep(environment, job);
    Ok(())
}

/// Passes if the account of a job may run it still, with the credential that began it.
fn may_go_on(node: &Node, environment: Environment, job: &Job) -> Result<(), Error> {
    let Ok(account) = job.account.parse() else { return Ok(()) };
    caller_of(&node.state.accounts, account, environment.slot(), node.now())?
        .may(job.action.permission())
}

/// True if the job has just acted on its last item.
const fn part_ends(job: &Job) -> bool {
    job.ended_at.is_some() && job.stopped.is_none()
}

/// Writes the report of an erasure to the audit log.
async fn report(
    node: &Arc<Node>,
    environment: Environment,
    job: &Job,
    erased: Erased,
    reason: String,
) {
    let project = environment.slot();
    let by = By { account: job.account.parse().ok(), address: None, project };
    let record = Record::new(audit::Action::BulkErased, by)
        .of(job.id)
        .with("reason", reason)
        .with("matched", job.total)
        .with("executions", erased.executions)
        .with("tasks", erased.tasks)
        .with("signals", erased.signals)
        .with("skipped", job.skipped)
        .with("failed", job.failed)
        .with("stays", audit::STAYS);
    if let Err(error) = Handle::owed(Arc::clone(node)).record(record).await {
        tracing::error!(job = %job.id, %error, "an erasure is not in the audit log");
    }
}

/// The action of a job on one item.
struct Act {
    node: Arc<Node>,
    environment: Environment,
    item: Item,
    /// The item may have been acted on before a crash.
    again: bool,
}

impl Act {
    /// Acts, and returns the refusal of an item that was skipped or failed.
    async fn patiently(&self, job: &Job) -> (Outcome, Option<String>) {
        let mut again = self.again;
        for _ in 0..TRIES {
            match self.act(job).await {
                Ok(outcome) => return (outcome, None),
                Err(
                    error @ (Error::InvalidState(_)
                    | Error::NotFound { .. }
                    | Error::AlreadyDecided { .. }),
                ) => {
                    let before = if again { end_of(job.action) } else { None };
                    return if before.is_some() && self.status().await == before {
                        (Outcome::Succeeded, None)
                    } else {
                        (Outcome::Skipped, Some(error.to_string()))
                    };
                }
                Err(Error::Unavailable(_) | Error::IdempotencyKeyInUse | Error::Internal) => {
                    // It may have been acted on all the same.
                    again = true;
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => {
                    tracing::info!(job = %job.id, item = ?self.item, %error, "an item was passed over");
                    return (Outcome::Failed, Some(error.to_string()));
                }
            }
        }
        (Outcome::Failed, None)
    }

    async fn act(&self, job: &Job) -> Result<Outcome, Error> {
        // The job was accepted before.
        let (handle, environment) = (Handle::owed(Arc::clone(&self.node)), self.environment);
        match (job.action, self.item) {
            (Action::Erase, Item::Task(task)) => {
                let mut erased = Erased::default();
                if handle.task(environment, task).await?.task.erased_at.is_none() {
                    handle.erase_texts(environment, task).await?;
                    erased.tasks = 1;
                }
                return Ok(Outcome::Erased(erased));
            }
            (Action::Erase, Item::Execution(id)) => {
                let erased = handle.erase_execution(environment, id).await?.erased;
                return Ok(Outcome::Erased(erased));
            }
            (Action::Cancel, Item::Execution(id)) => {
                handle.cancel_one_of_many(environment, id).await?;
            }
            (Action::Retry, Item::Execution(id)) => {
                handle.retry_execution(environment, id).await?;
            }
            (Action::Reprioritize | Action::Reject, Item::Execution(_)) => {
                return Err(Error::Internal);
            }
            (_, Item::Task(task)) => self.act_on_task(job, task, &handle).await?,
        }
        Ok(Outcome::Succeeded)
    }

    async fn act_on_task(&self, job: &Job, id: TaskId, handle: &Handle) -> Result<(), Error> {
        match job.action {
            Action::Cancel => {
                let cancel = |reply| task::Message::Cancel(job.account.clone(), reply);
                self.ask(id, cancel).await.map(drop)
            }
            Action::Reprioritize => {
                let priority = job.priority.ok_or(Error::Internal)?;
                self.ask(id, |reply| task::Message::Reprioritize(priority, reply)).await
            }
            Action::Erase => handle.erase_texts(self.environment, id).await.map(drop),
            Action::Reject => {
                let by = Decider {
                    account: job.account.clone(),
                    reviewer: None,
                    bulk: (job.total > 1).then_some(job.total),
                };
                let reason = job.reason.clone().ok_or(Error::Internal)?;
                let reject = Reject { by, reason, retry: false, retry_prompt: None };
                let handle = Handle::new(Arc::clone(&self.node));
                handle.reject(self.environment, id, reject).await.map(drop)
            }
            Action::Retry => {
                let owner = Owner {
                    id: job.account.clone(),
                    environment: self.environment,
                    role: Role::Operator,
                    trace: None,
                    bound: Arc::default(),
                };
                let key = job.id.to_string();
                handle.retry_task(&owner, id, Some(&key)).await.map(drop)
            }
        }
    }

    async fn ask<T>(
        &self,
        id: TaskId,
        message: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> task::Message,
    ) -> Result<T, Error> {
        let store = &*self.node.shard(id.partition()).store;
        let found = tables::task(store, self.environment, id).await;
        if found.map_err(|_| Error::Unavailable("the store cannot be read"))?.is_none() {
            return Err(Error::not_found("task", id));
        }
        let (reply, answer) = oneshot::channel();
        let address = TaskAddress { environment: self.environment, task: id };
        self.node.send(address, message(reply));
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        answer
            .map_err(|_| {
                Error::Unavailable("the server takes too long: send this again in a few seconds")
            })?
            .map_err(|_| Error::Internal)?
    }

    /// The item's status on the wire.
    async fn status(&self) -> Option<&'static str> {
        match self.item {
            Item::Task(id) => {
                let store = &*self.node.shard(id.partition()).store;
                let found = tables::task(store, self.environment, id).await;
                found.ok().flatten().map(|it| it.task.status().as_str())
            }
            Item::Execution(id) => {
                let handle = Handle::owed(Arc::clone(&self.node));
                let found = handle.overview(self.environment, id).await;
                found.ok().map(|it| it.execution.status().as_str())
            }
        }
    }
}

/// The status by which an item shows that an action was done before a crash.
const fn end_of(action: Action) -> Option<&'static str> {
    match action {
        Action::Cancel => Some(Status::Cancelled.as_str()),
        Action::Reject => Some(Status::Rejected.as_str()),
        Action::Retry | Action::Reprioritize | Action::Erase => None,
    }
}
