//! Events on the wire (docs/reference/events.md).
//!
//! ```text
//!   {"cursor":"e2","prev":"e1", │ "event":…,"at":…,"resource":…,"data":…}
//!   each subscriber's           │ the same for all, written once
//! ```

use std::fmt::Write;

use callboard_domain::access::Action;
use callboard_domain::event::{EventName, ResourceKind};
use callboard_domain::id::{ExecutionId, TaskId};
use callboard_domain::plan::{MAX_TAG, MAX_TAGS};
use callboard_domain::task::Spec;
use callboard_domain::{Error, Rule, Timestamp};
use callboard_runtime::events::{Cursor, Delta, QueueDepth, StreamItem, Transient};
use callboard_runtime::tables::{self, Subject, WorkerRow};
use serde::Serialize;
use serde_json::{Value, json};

use super::approvals::ApprovalBody;
use super::batches::BatchBody;
use super::budgets::BudgetBody;
use super::bulk::BulkBody;
use super::common::{Iso, tags};
use super::executions::{ExecutionBody, StepSummary};
use super::queues::QueueSettingsBody;
use super::read::rule::{self, Parse};
use super::schedules::{ScheduleBody, ScheduleEvent, ScheduleRunBody};
use super::tasks::TaskBody;
use super::webhooks::DeliveryBody;
use crate::request;

/// The names of events.
fn names() -> impl Iterator<Item = &'static str> {
    EventName::ALL.into_iter().map(EventName::as_str)
}

/// The groups of the names: `*`, `task.*` and so on.
fn groups() -> impl Iterator<Item = String> {
    std::iter::once("*".to_owned()).chain(ResourceKind::ALL.map(|kind| format!("{kind}.*")))
}

request! {
    /// The events that a subscriber wants: by default all that the role may see.
    #[derive(Debug, Clone, Default)]
    pub struct Wanted as "EventFilter" {
        /// Names, or groups such as `task.*`.
        events: Option<Vec<String>> = optional("events", rule::commas(1..=64, pattern())),
        /// Only events of this task.
        task_id: Option<String> = optional("taskId", name()),
        /// Only events of this execution.
        execution_id: Option<String> = optional("executionId", name()),
        /// Only items of this queue.
        queue: Option<String> = optional("queue", name()),
        /// Only events of tasks that have all of these tags.
        tags: Option<Vec<String>> = optional("tags", tags()),
    }
}

request! {
    /// The items of a socket's subscription; an event must match all members.
    #[derive(Debug, Clone, Default)]
    pub struct Filter as "SubscriptionFilter" {
        /// Only events of this task.
        task_id: Option<String> = optional("taskId", name()),
        /// Only events of this execution.
        execution_id: Option<String> = optional("executionId", name()),
        /// Only items of this queue.
        queue: Option<String> = optional("queue", name()),
        /// Only events of tasks that have all of these tags.
        tags: Option<Vec<String>> = optional("tags", tag_list()),
    }
}

request! {
    /// A `subscribe` frame, without its type and id.
    #[derive(Debug, Clone)]
    pub struct Subscribe as "Subscribe" {
        /// The subscriber's name for the subscription.
        sub: String = required("sub", name()),
        /// Names, or groups such as `task.*`.
        events: Vec<String> = required("events", rule::list(1..=64, pattern())),
        /// The items of the events.
        filter: Option<Filter> = optional("filter", rule::object::<Filter>()),
        /// The cursor after which the subscription begins.
        resume: Option<Cursor> = optional("resume", place()),
    }
}

request! {
    /// An `unsubscribe` frame, without its type and id.
    #[derive(Debug, Clone)]
    pub struct Unsubscribe as "Unsubscribe" {
        /// The subscription.
        sub: String = required("sub", name()),
    }
}

impl Subscribe {
    /// The events that the subscription asks for.
    #[must_use]
    pub fn wanted(self) -> Wanted {
        let Filter { task_id, execution_id, queue, tags } = self.filter.unwrap_or_default();
        Wanted { events: Some(self.events), task_id, execution_id, queue, tags }
    }
}

fn name() -> impl Parse<String> {
    rule::text(rule::characters(1..=128))
}

fn tag_list() -> impl Parse<Vec<String>> {
    rule::list(1..=MAX_TAGS, rule::text(rule::characters(1..=MAX_TAG)))
}

fn place() -> impl Parse<Cursor> {
    rule::text(rule::characters(1..=26)).then(|text| {
        let says = "resume must be the cursor of an event";
        parse_cursor(&text).ok_or_else(|| Error::invalid("resume", Rule::Format, says))
    })
}

fn pattern() -> impl Parse<String> {
    let is_known = |pattern: &String| names().any(|name| matches(pattern, name));
    let says = "must name events such as task.completed or task.*";
    let patterns = || names().map(str::to_owned).chain(groups()).collect::<Vec<_>>();
    rule::text(rule::characters(1..=128))
        .only(is_known, Rule::Enum, says)
        .with(move || json!({"enum": patterns()}))
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(group) => name.starts_with(group) && (group.is_empty() || group.ends_with('.')),
        None => pattern == name,
    }
}

/// The permission that an event of this name needs.
#[must_use]
pub fn action(name: &str) -> Action {
    let kind = name.split_once('.').and_then(|(kind, _)| ResourceKind::parse(kind));
    match kind {
        // The depth of a queue counts its tasks.
        Some(ResourceKind::Task | ResourceKind::Queue) | None => Action::TasksRead,
        Some(ResourceKind::Execution | ResourceKind::Step) => Action::ExecutionsRead,
        Some(ResourceKind::Hitl) => Action::HitlRead,
        Some(ResourceKind::Worker) => Action::WorkersRead,
        Some(ResourceKind::Budget) => Action::BudgetsRead,
        Some(ResourceKind::Bulk) => Action::BulkRead,
        Some(ResourceKind::Batch) => Action::BatchesRead,
        Some(ResourceKind::Webhook) => Action::DeliveriesRead,
        Some(ResourceKind::Schedule) => Action::SchedulesRead,
    }
}

impl Wanted {
    fn names(&self, event: &str) -> bool {
        let all = self.events.as_ref().is_none_or(Vec::is_empty);
        all || self.events.iter().flatten().any(|pattern| matches(pattern, event))
    }

    /// The kinds of passing events that a subscriber with this filter receives.
    #[must_use]
    pub fn passing(&self) -> Transient {
        Transient { deltas: self.names(DELTA), depths: self.names(DEPTH) }
    }

    /// True if a subscriber with this filter receives the event.
    #[must_use]
    pub fn wants(&self, item: &StreamItem) -> bool {
        match item {
            StreamItem::Gap(..) => true,
            StreamItem::Delta(delta) => self.names(DELTA) && self.is_of(&delta.task),
            StreamItem::Depth(depth) => {
                self.names(DEPTH)
                    && self.is_of_no_item()
                    && self.queue.as_ref().is_none_or(|queue| **queue == *depth.queue)
            }
            StreamItem::Stored(_, row) => self.names(&row.event) && self.is_about(&row.subject),
        }
    }

    fn is_of_no_item(&self) -> bool {
        self.task_id.is_none() && self.execution_id.is_none() && self.tags.is_none()
    }

    fn is_task(&self, task: TaskId) -> bool {
        self.task_id.as_ref().is_none_or(|wanted| *wanted == task.to_string())
    }

    fn is_of(&self, task: &Spec) -> bool {
        let execution = || task.origin.step.as_ref().map(|(id, _)| id.to_string());
        self.is_task(task.id)
            && (self.execution_id.is_none() || self.execution_id == execution())
            && self.queue.as_ref().is_none_or(|queue| *queue == task.queue)
            && self.tags.iter().flatten().all(|tag| task.tags.contains(tag))
    }

    fn is_about(&self, subject: &Subject) -> bool {
        match subject {
            Subject::Task(task) | Subject::TaskOfStep(_, _, task) => self.is_of(&task.spec),
            Subject::Approval(approval) => self.is_of(&approval.task),
            Subject::Execution(head, _) | Subject::Step(head, ..) => {
                let is_it = |wanted: &String| *wanted == head.spec.id.to_string();
                self.task_id.is_none()
                    && self.tags.is_none()
                    && self.queue.is_none()
                    && self.execution_id.as_ref().is_none_or(is_it)
            }
            Subject::Delivery(_, Some(task)) => self.is_of(task),
            Subject::Delivery(delivery, None) => {
                let about = delivery.notification.subject();
                let execution = about.execution().map(|id| id.to_string());
                about.task().map_or(self.task_id.is_none(), |task| self.is_task(task))
                    && (self.execution_id.is_none() || self.execution_id == execution)
                    && self.tags.is_none()
                    && self.queue.is_none()
            }
            Subject::Schedule(_) | Subject::Bulk(_) | Subject::Batch(_) | Subject::Budget(_) => {
                self.is_of_no_item() && self.queue.is_none()
            }
            Subject::Queue(queue) => {
                self.is_of_no_item() && self.queue.as_ref().is_none_or(|name| *name == queue.name)
            }
            Subject::Worker(WorkerRow { queues, .. }) => {
                self.is_of_no_item()
                    && self.queue.as_ref().is_none_or(|queue| queues.contains(queue))
            }
        }
    }
}

/// The names of the events that are not stored.
const DELTA: &str = EventName::TaskDelta.as_str();
const DEPTH: &str = EventName::QueueDepth.as_str();

/// The name of an item's event.
#[must_use]
pub fn name_of(item: &StreamItem) -> &str {
    match item {
        StreamItem::Stored(_, row) => &row.event,
        StreamItem::Delta(_) => DELTA,
        StreamItem::Depth(_) => DEPTH,
        StreamItem::Gap(..) => "gap",
    }
}

/// The place that a client's text names; `None` for any other text.
#[must_use]
pub fn parse_cursor(text: &str) -> Option<Cursor> {
    let number = |digits: &str, most: usize| {
        // The parser would take a sign, capitals and more zeros too.
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_written = digits.len() <= most && digits.bytes().all(is_digit);
        u64::from_str_radix(digits, 16).ok().filter(|_| is_written)
    };
    let text = text.strip_prefix('e')?;
    let (place, mark) = text.split_once('-').map_or((text, None), |(at, mark)| (at, Some(mark)));
    // The greatest number is no place: another place follows each.
    let place = number(place, 16).filter(|place| *place < u64::MAX)?;
    let mark = match mark {
        Some(mark) => Some(number(mark, 8).and_then(|mark| u32::try_from(mark).ok())?),
        None => None,
    };
    Some(Cursor { place, mark })
}

/// The event of an item as JSON; `before` stands in front of its members. `prev` is the place that
/// was sent before.
#[must_use]
pub fn written(item: &StreamItem, before: &str, prev: Option<Cursor>) -> String {
    let shared = shared(item);
    let mut json = String::with_capacity(before.len() + shared.len() + 48);
    json.push('{');
    json.push_str(before);
    let place = match item {
        StreamItem::Stored(at, _) => Some(*at),
        StreamItem::Delta(_) | StreamItem::Depth(_) | StreamItem::Gap(..) => None,
    };
    if let Some(at) = place {
        let written = match prev {
            Some(prev) => write!(json, r#""cursor":"{at}","prev":"{prev}","#),
            None => write!(json, r#""cursor":"{at}","prev":null,"#),
        };
        // A string takes every write.
        let _ = written;
    }
    json.push_str(shared);
    json
}

/// The members of an event that are the same for every subscriber, and the closing brace. Written once.
#[must_use]
pub fn shared(item: &StreamItem) -> &str {
    match item {
        StreamItem::Stored(at, row) => row.written(|row| stored(at.place, row)),
        StreamItem::Delta(delta) => delta.written(|Delta { task, version, offset, text, at }| {
            let resource = json!({"kind": "task", "id": task.id.to_string(), "version": version});
            tail(DELTA, *at, &resource, &json!({"text": text, "offset": offset}))
        }),
        StreamItem::Depth(depth) => depth.written(|QueueDepth { queue, depth, at }| {
            let resource = json!({"kind": "queue", "id": queue, "version": at.as_millis()});
            tail(DEPTH, *at, &resource, &json!({"queue": queue, "depth": depth}))
        }),
        StreamItem::Gap(..) => "}",
    }
}

fn tail(name: &str, at: Timestamp, resource: &Value, data: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Tail<'a, T> {
        event: &'a str,
        at: Iso,
        resource: &'a Value,
        data: &'a T,
    }
    let tail = Tail { event: name, at: Iso(at), resource, data };
    let mut json = serde_json::to_string(&tail).expect("an event has a JSON form");
    json.remove(0);
    json
}

/// A step and a worker have no version of their own: the place of their event in the log serves as
/// one.
fn stored(place: u64, row: &tables::Event) -> String {
    let (name, at) = (&*row.event, row.at);
    match &row.subject {
        Subject::Task(task) => {
            let id = task.spec.id.to_string();
            let resource = json!({"kind": "task", "id": id, "version": task.version});
            tail(name, at, &resource, &TaskBody::summary(task, None))
        }
        Subject::TaskOfStep(execution, step, task) => tail(
            name,
            at,
            &of_step(step, *execution, place),
            &StepSummary::of_task(step, *execution, &row.event, task),
        ),
        Subject::Execution(head, progress) => {
            let id = head.spec.id.to_string();
            let resource = json!({"kind": "execution", "id": id, "version": head.version});
            tail(name, at, &resource, &ExecutionBody::in_event(head, *progress))
        }
        Subject::Step(head, step, item) => tail(
            name,
            at,
            &of_step(step, head.spec.id, place),
            &StepSummary::named(step, *item, head.spec.id, &row.event),
        ),
        Subject::Approval(approval) => {
            let id = approval.id().to_string();
            let resource = json!({"kind": "hitl", "id": id, "version": approval.version});
            tail(name, at, &resource, &ApprovalBody::in_event(approval, row.at))
        }
        Subject::Delivery(delivery, _) => {
            let id = delivery.notification.id().to_string();
            let resource = json!({"kind": "webhook", "id": id, "version": delivery.attempts});
            tail(name, at, &resource, &DeliveryBody::of(delivery))
        }
        Subject::Schedule(of) => {
            let (row, run) = &**of;
            let id = row.schedule.id.to_string();
            let resource = json!({"kind": "schedule", "id": id, "version": row.schedule.version});
            let (schedule, run) =
                (ScheduleBody::summary(&row.schedule), run.as_ref().map(ScheduleRunBody::of));
            tail(name, at, &resource, &ScheduleEvent { schedule, run })
        }
        Subject::Budget(budget) => {
            let id = budget.budget.id.to_string();
            let resource = json!({"kind": "budget", "id": id, "version": place});
            tail(name, at, &resource, &BudgetBody::in_event(budget))
        }
        Subject::Bulk(job) => {
            let resource = json!({"kind": "bulk", "id": job.id.to_string(), "version": job.done()});
            tail(name, at, &resource, &BulkBody::of(job))
        }
        Subject::Batch(of) => {
            let (batch, progress) = &**of;
            let id = batch.id.to_string();
            let resource = json!({"kind": "batch", "id": id, "version": batch.revision});
            tail(name, at, &resource, &BatchBody::in_event(batch, *progress))
        }
        Subject::Queue(queue) => {
            let resource = json!({"kind": "queue", "id": queue.name, "version": place});
            tail(name, at, &resource, &QueueSettingsBody::of(&queue.name, queue.settings))
        }
        Subject::Worker(worker) => {
            let id = worker.id.to_string();
            let resource = json!({"kind": "worker", "id": id, "version": place});
            tail(
                name,
                at,
                &resource,
                &json!({"id": id, "name": worker.name, "queues": worker.queues}),
            )
        }
    }
}

fn of_step(step: &str, execution: ExecutionId, version: u64) -> Value {
    json!({"kind": "step", "id": step, "executionId": execution.to_string(), "version": version})
}
