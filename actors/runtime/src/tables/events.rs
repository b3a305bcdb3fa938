//! The records of the event log, and the events that are made of them.
//!
//! A record holds the change; an item's request stands in its own row, and so does a task that has ended and changes
//! no more. A listener makes the log read those rows.

use std::borrow::Cow;
use std::sync::Arc;

use callboard_domain::Timestamp;
use callboard_domain::approval::Approval;
use callboard_domain::batch::{Batch, Progress as BatchProgress};
use callboard_domain::bulk::Job;
use callboard_domain::delivery::{Delivery, TASK_ENDS};
use callboard_domain::execution::{DispatchState, Head, Progress};
use callboard_domain::id::{Environment, ExecutionId, TaskId, WorkerId};
use callboard_domain::task::{Spec, Task};
use callboard_store::{Error, Store};
use serde::{Deserialize, Serialize};

use super::approvals::ApprovalRow;
use super::control::{BudgetEvent, QueueChanged};
use super::deliveries;
use super::executions::how_far;
use super::executions::{self, HeadRow};
use super::log::ProgressRow;
use super::schedules::{RunRow, ScheduleRow};
use super::tasks::{self, TaskRow};

/// One record of the event log, as it is read ([`super::log`] writes it). The events of a step of an execution stand
/// in the records of its task and of the execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct EventRow {
    /// The event's name, such as `task.started`; empty if the subject holds several facts.
    #[serde(rename = "n", default, skip_serializing_if = "str::is_empty")]
    pub(super) event: Cow<'static, str>,
    /// The instant.
    #[serde(rename = "t")]
    pub(super) at: Timestamp,
    /// The subject; `None` in a record of a kind that a newer program knows.
    #[serde(flatten)]
    pub(super) of: Option<Of>,
    /// The progress of the execution's steps.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub(super) progress: Option<ProgressRow>,
    /// The item that each fact of the execution is about; empty if none is about an item.
    #[serde(rename = "i", default, skip_serializing_if = "Vec::is_empty")]
    pub(super) items: Vec<Option<u16>>,
}

impl ProgressRow {
    /// The counts, with the tasks of dispatched steps as they are now.
    async fn read(self, store: &dyn Store, environment: Environment) -> Result<Progress, Error> {
        let [total, completed, running, pending, failed, cancelled, skipped] = self.counts;
        let awaiting_approval = 0;
        let mut progress = Progress {
            total,
            completed,
            running,
            pending,
            failed,
            cancelled,
            skipped,
            awaiting_approval,
        };
        for task in self.tasks {
            let state = super::unfinished_state(store, environment, task).await?;
            let live = state.map_or(DispatchState::Running, |state| how_far(&state));
            if live != DispatchState::Running && progress.running > 0 {
                progress.running -= 1;
                progress.pending += 1;
                progress.awaiting_approval += u32::from(live == DispatchState::AwaitingApproval);
            }
        }
        Ok(progress)
    }
}

/// The subject of a record, as it was then.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Of {
    /// A task, unless the event was its end: then its own row has it.
    Task(TaskId, Option<TaskRow>),
    Worker(WorkerRow),
    /// An execution, its changing part, and all its facts at once: the name of each, and the step that it is about.
    Execution(ExecutionId, HeadRow, Vec<(String, Option<String>)>),
    /// An approval, by its task, and the names of all its facts at once.
    Approval(TaskId, ApprovalRow, Vec<Cow<'static, str>>),
    /// A webhook.
    Delivery(Delivery),
    /// A schedule, and the outcome of an occurrence of it.
    Schedule(OfSchedule),
    /// A queue whose settings changed.
    Queue(QueueChanged),
    /// A bulk job.
    Bulk(Job),
    /// A batch, and the number of its rows in each status.
    Batch(OfBatch),
    /// A budget of many tasks.
    Budget(BudgetEvent),
}

/// A schedule, and the outcome of an occurrence of it.
type OfSchedule = Box<(ScheduleRow, Option<RunRow>)>;

/// The shown state of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerRow {
    /// The worker's identifier.
    pub id: WorkerId,
    /// The worker's name, if the worker has said it.
    pub name: Option<String>,
    /// The queues that the worker serves.
    pub queues: Vec<String>,
}

/// A batch, and the number of its rows in each status.
type OfBatch = Box<(Batch, BatchProgress)>;

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The event's name, such as `task.started`.
    pub event: Cow<'static, str>,
    /// The instant.
    pub at: Timestamp,
    /// The subject of the event, as it was then.
    pub subject: Subject,
}

/// The item of an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Subject {
    /// A task.
    Task(Arc<Task>),
    /// A step of an execution, as its task shows it.
    TaskOfStep(ExecutionId, String, Arc<Task>),
    /// An execution, and the progress of its steps then, if the record has it.
    Execution(Arc<Head>, Option<Progress>),
    /// A step of an execution, or the item of this number of a step.
    Step(Arc<Head>, String, Option<u16>),
    /// An approval.
    Approval(Arc<Approval>),
    /// A worker.
    Worker(WorkerRow),
    /// A schedule, and an occurrence of it if the event is of one.
    Schedule(OfSchedule),
    /// A queue.
    Queue(QueueChanged),
    /// A bulk job.
    Bulk(Job),
    /// A batch, and the number of its rows in each status.
    Batch(OfBatch),
    /// A budget of many tasks.
    Budget(BudgetEvent),
    /// A webhook, and its task unless that was removed.
    Delivery(Box<Delivery>, Option<Arc<Spec>>),
}

impl EventRow {
    /// The instant.
    pub(crate) const fn at(&self) -> Timestamp {
        self.at
    }

    /// The events, with the parts from other rows; none if those are gone.
    pub(crate) async fn whole(
        self,
        store: &dyn Store,
        environment: Environment,
    ) -> Result<Vec<Event>, Error> {
        let Self { event, at, of, progress, items } = self;
        let Some(of) = of else { return Ok(Vec::new()) };
        let subject = match of {
            Of::Task(id, row) => {
                let row = match row {
                    Some(row) => Some(row.with_words(store, environment, id).await?),
                    None => tasks::end(store, environment, id).await?,
                };
                let made = tasks::made(store, environment, id).await?;
                let task = row.zip(made).map(|(row, made)| Arc::new(row.of(made.spec)));
                // An end that was taken back since, before an end of another kind.
                let is_of_now = |task: &Arc<Task>| {
                    let is_end = TASK_ENDS.iter().any(|end| end.as_str() == event);
                    !is_end || event.strip_prefix("task.") == Some(task.status().as_str())
                };
                let task = task.filter(is_of_now);
                return Ok(task.map_or_else(Vec::new, |task| of_task(event, at, task)));
            }
            Of::Execution(id, head, facts) => {
                let begun = executions::begun(store, environment, id).await?;
                let Some(begun) = begun else { return Ok(Vec::new()) };
                let head = head.with_words(store, environment, id).await?;
                let head = Arc::new(head.of(begun.spec));
                let progress = match progress {
                    Some(row) => Some(row.read(store, environment).await?),
                    None => None,
                };
                let items = items.into_iter().chain(std::iter::repeat(None));
                let event = |((event, step), item): ((String, Option<String>), _)| Event {
                    event: event.into(),
                    at,
                    subject: match step {
                        Some(step) => Subject::Step(Arc::clone(&head), step, item),
                        None => Subject::Execution(Arc::clone(&head), progress),
                    },
                };
                return Ok(facts.into_iter().zip(items).map(event).collect());
            }
            Of::Approval(id, row, facts) => {
                let made = tasks::made(store, environment, id).await?;
                let Some(approval) = made.map(|made| Arc::new(row.of(made.spec))) else {
                    return Ok(Vec::new());
                };
                let subject = || Subject::Approval(Arc::clone(&approval));
                let event = |event| Event { event, at, subject: subject() };
                return Ok(facts.into_iter().map(event).collect());
            }
            Of::Delivery(mut delivery) => {
                deliveries::put_words_back(store, environment, &mut delivery).await?;
                let made = match delivery.notification.subject().task() {
                    Some(task) => tasks::made(store, environment, task).await?,
                    None => None,
                };
                Subject::Delivery(Box::new(delivery), made.map(|made| made.spec))
            }
            Of::Schedule(schedule) => Subject::Schedule(schedule),
            Of::Worker(worker) => Subject::Worker(worker),
            Of::Queue(queue) => Subject::Queue(queue),
            Of::Bulk(job) => Subject::Bulk(job),
            Of::Batch(batch) => Subject::Batch(batch),
            Of::Budget(budget) => Subject::Budget(budget),
        };
        Ok(vec![Event { event, at, subject }])
    }
}

/// The events of a task, and thereby of its step.
fn of_task(event: Cow<'static, str>, at: Timestamp, task: Arc<Task>) -> Vec<Event> {
    let of_step = match &*event {
        "task.started" => Some("step.started"),
        "task.retrying" => Some("step.retrying"),
        "task.awaiting_approval" => Some("step.awaiting_approval"),
        _ => None,
    };
    let step = of_step.zip(task.spec.origin.step.clone()).map(|(event, (execution, step))| Event {
        event: event.into(),
        at,
        subject: Subject::TaskOfStep(execution, step, Arc::clone(&task)),
    });
    let mut events = vec![Event { event, at, subject: Subject::Task(task) }];
    events.extend(step);
    events
}

/// The most of a worker's queues that an event names: a record has 64 KiB at most.
pub(crate) const MAX_QUEUES: usize = 64;
