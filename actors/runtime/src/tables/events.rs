//! The records of the event log, and the events that are made of them.
//!
//! A record holds the change; an item's request stands in its own row, and so does a task that has
//! ended and changes no more. A listener makes the log read those rows. Deliberately absent: the
//! listeners.

use std::borrow::Cow;
use std::sync::Arc;

use callboard_domain::Timestamp;
use callboard_domain::approval::Approval;
use callboard_domain::batch::{Batch, Progress as BatchProgress};
use callboard_domain::bulk::Job;
use callboard_domain::delivery::Delivery;
use callboard_domain::execution::{DispatchState, Execution, Head, Progress};
use callboard_domain::id::{Environment, ExecutionId, TaskId, WorkerId};
use callboard_domain::task::{Spec, Task};
use callboard_store::{Error, Op, Store};
use serde::{Deserialize, Serialize};

use super::EVENTS;
use super::approvals::ApprovalRow;
use super::control::{BudgetEvent, QueueChanged};
use super::deliveries;
use super::executions::{self, HeadRow};
use super::schedules::{RunRow, ScheduleRow};
use super::tasks::{self, TaskRow};
use crate::read::runs::how_far;
use crate::worker::View;

/// One record of the event log: of a task, a worker, an execution, an approval or a webhook. The events
/// of a step of an execution stand in the records of its task and of the execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct EventRow {
    /// The event's name, such as `task.started`; empty if the subject holds several facts.
    #[serde(rename = "n", default, skip_serializing_if = "str::is_empty")]
    event: Cow<'static, str>,
    /// The instant.
    #[serde(rename = "t")]
    at: Timestamp,
    /// The task that the event happened to, as it was then, unless that was its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task: Option<(TaskId, Option<TaskRow>)>,
    /// The worker that the event happened to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    worker: Option<WorkerRow>,
    /// The execution that the event happened to, as it was then, and all its facts at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    execution: Option<OfExecution>,
    /// The approval that the event happened to, as it was then, and all its facts at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    approval: Option<OfApproval>,
    /// The webhook that the event happened to, as it was then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delivery: Option<Delivery>,
    /// The schedule that the event happened to, as it was then, and the occurrence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schedule: Option<OfSchedule>,
    /// The queue whose settings changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    queue: Option<QueueChanged>,
    /// The bulk job that the event happened to, as it was then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bulk: Option<Job>,
    /// The batch that the event happened to, as it was then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    batch: Option<OfBatch>,
    /// The budget that the event happened to, as it was then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    budget: Option<BudgetEvent>,
    /// The progress of the execution's steps.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    progress: Option<ProgressRow>,
    /// The item that each fact of the execution is about; empty if none is about an item.
    #[serde(rename = "i", default, skip_serializing_if = "Vec::is_empty")]
    items: Vec<Option<u16>>,
}

/// The progress of the steps of an execution. The states of the tasks of dispatched steps stand in their
/// own rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProgressRow {
    /// All, completed, dispatched, waiting, failed, cancelled and skipped.
    #[serde(rename = "n")]
    counts: [u32; 7],
    /// The tasks of dispatched steps, as many as stand here.
    #[serde(rename = "t", default, skip_serializing_if = "Vec::is_empty")]
    tasks: Vec<TaskId>,
}

/// The most tasks of dispatched steps that a record names; further ones count as running.
const MAX_DISPATCHED: usize = 16;

impl ProgressRow {
    pub(crate) fn of(execution: &Execution) -> Self {
        let progress = execution.progress(|_| DispatchState::Running);
        let Progress { total, completed, running, pending, failed, cancelled, skipped, .. } =
            progress;
        Self {
            counts: [total, completed, running, pending, failed, cancelled, skipped],
            tasks: execution.steps_out().map(|(_, task)| task).take(MAX_DISPATCHED).collect(),
        }
    }

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

/// An approval, by its task, and the names of facts.
type OfApproval = (TaskId, ApprovalRow, Vec<Cow<'static, str>>);

/// An execution, its changing part, and facts: the name of each, and the step that it is about.
type OfExecution = (ExecutionId, HeadRow, Vec<(String, Option<String>)>);

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

/// The record of something that happened to a task; without a row, of its end.
pub(crate) fn append_of_task(
    environment: Environment,
    event: &'static str,
    at: Timestamp,
    task: (TaskId, Option<&TaskRow>),
) -> Op {
    /// The written form of [`EventRow`].
    #[derive(Serialize)]
    struct TaskEventRow<'l> {
        #[serde(rename = "n")]
        event: &'static str,
        #[serde(rename = "t")]
        at: Timestamp,
        task: (TaskId, Option<&'l TaskRow>),
    }
    EVENTS.append_as(super::events(environment), &TaskEventRow { event, at, task })
}

impl EventRow {
    /// The most facts in one record.
    pub(crate) const MAX_FACTS: usize = 60;

    const fn blank(event: &'static str, at: Timestamp) -> Self {
        Self {
            event: Cow::Borrowed(event),
            at,
            task: None,
            worker: None,
            execution: None,
            approval: None,
            delivery: None,
            schedule: None,
            queue: None,
            bulk: None,
            batch: None,
            budget: None,
            progress: None,
            items: Vec::new(),
        }
    }

    pub(crate) fn of_worker(event: &'static str, at: Timestamp, worker: WorkerRow) -> Self {
        Self { worker: Some(worker), ..Self::blank(event, at) }
    }

    pub(crate) fn of_delivery(event: &'static str, at: Timestamp, delivery: Delivery) -> Self {
        Self { delivery: Some(delivery), ..Self::blank(event, at) }
    }

    pub(crate) fn of_schedule(
        event: &'static str,
        at: Timestamp,
        schedule: (ScheduleRow, Option<RunRow>),
    ) -> Self {
        Self { schedule: Some(Box::new(schedule)), ..Self::blank(event, at) }
    }

    pub(crate) fn of_queue(event: &'static str, at: Timestamp, queue: QueueChanged) -> Self {
        Self { queue: Some(queue), ..Self::blank(event, at) }
    }

    pub(crate) fn of_bulk(event: &'static str, at: Timestamp, job: Job) -> Self {
        Self { bulk: Some(job), ..Self::blank(event, at) }
    }

    pub(crate) fn of_batch(
        event: &'static str,
        at: Timestamp,
        batch: (Batch, BatchProgress),
    ) -> Self {
        Self { batch: Some(Box::new(batch)), ..Self::blank(event, at) }
    }

    pub(crate) fn of_budget(event: &'static str, at: Timestamp, budget: BudgetEvent) -> Self {
        Self { budget: Some(budget), ..Self::blank(event, at) }
    }

    /// The record of at most [`Self::MAX_FACTS`] facts.
    pub(crate) fn of_execution(at: Timestamp, execution: OfExecution) -> Self {
        Self { execution: Some(execution), ..Self::blank("", at) }
    }

    /// The same, with the item that each fact is about.
    pub(crate) fn with_items(self, items: Vec<Option<u16>>) -> Self {
        let is_of_items = items.iter().any(Option::is_some);
        Self { items: if is_of_items { items } else { Vec::new() }, ..self }
    }

    /// The same record, with the progress of the execution's steps.
    pub(crate) fn with_progress(self, progress: ProgressRow) -> Self {
        Self { progress: Some(progress), ..self }
    }

    pub(crate) fn of_approval(
        at: Timestamp,
        (task, row, names): (TaskId, ApprovalRow, Vec<&'static str>),
    ) -> Self {
        let names = names.into_iter().map(Cow::Borrowed).collect();
        Self { approval: Some((task, row, names)), ..Self::blank("", at) }
    }

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
        let at = self.at;
        if let Some((id, row)) = self.task {
            let row = match row {
                Some(row) => Some(row.with_words(store, environment, id).await?),
                None => tasks::end(store, environment, id).await?,
            };
            let made = tasks::made(store, environment, id).await?;
            let task = row.zip(made).map(|(row, made)| Arc::new(row.of(made.spec)));
            return Ok(task.map_or_else(Vec::new, |task| of_task(self.event, at, task)));
        }
        if let Some((id, head, facts)) = self.execution {
            let begun = executions::begun(store, environment, id).await?;
            let Some(begun) = begun else { return Ok(Vec::new()) };
            let head = head.with_words(store, environment, id).await?;
            let head = Arc::new(head.of(begun.spec));
            let progress = match self.progress {
                Some(row) => Some(row.read(store, environment).await?),
                None => None,
            };
            let items = self.items.into_iter().chain(std::iter::repeat(None));
            let event = |((event, step), item): ((String, Option<String>), Option<u16>)| Event {
                event: event.into(),
                at,
                subject: match step {
                    Some(step) => Subject::Step(Arc::clone(&head), step, item),
                    None => Subject::Execution(Arc::clone(&head), progress),
                },
            };
            return Ok(facts.into_iter().zip(items).map(event).collect());
        }
        if let Some((id, row, facts)) = self.approval {
            let made = tasks::made(store, environment, id).await?;
            let Some(approval) = made.map(|made| Arc::new(row.of(made.spec))) else {
                return Ok(Vec::new());
            };
            let subject = || Subject::Approval(Arc::clone(&approval));
            let event = |event| Event { event, at, subject: subject() };
            return Ok(facts.into_iter().map(event).collect());
        }
        if let Some(mut delivery) = self.delivery {
            deliveries::put_words_back(store, environment, &mut delivery).await?;
            let made = match delivery.cargo.subject().task() {
                Some(task) => tasks::made(store, environment, task).await?,
                None => None,
            };
            let subject = Subject::Delivery(Box::new(delivery), made.map(|made| made.spec));
            return Ok(vec![Event { event: self.event, at, subject }]);
        }
        if let Some(schedule) = self.schedule {
            let subject = Subject::Schedule(schedule);
            return Ok(vec![Event { event: self.event, at, subject }]);
        }
        // A record without any subject is of a kind that a newer program knows.
        let subject = self.worker.map(Subject::Worker).or(self.queue.map(Subject::Queue));
        let subject = subject.or(self.bulk.map(Subject::Bulk));
        let subject = subject.or(self.batch.map(Subject::Batch));
        let subject = subject.or(self.budget.map(Subject::Budget));
        Ok(subject
            .into_iter()
            .map(|subject| Event { event: self.event.clone(), at, subject })
            .collect())
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
const MAX_QUEUES: usize = 64;

impl WorkerRow {
    pub(crate) fn of(view: &View) -> Self {
        let profile = view.worker.profile.as_ref();
        Self {
            id: view.worker.id,
            name: profile.map(|profile| profile.name.clone()),
            queues: profile
                .map(|profile| profile.queues.iter().take(MAX_QUEUES).cloned().collect())
                .unwrap_or_default(),
        }
    }
}
