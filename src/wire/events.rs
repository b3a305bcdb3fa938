//! Events on the wire (PROTOCOL.md 10).

use callboard_domain::Rule;
use callboard_domain::Timestamp;
use callboard_domain::id::TaskId;
use callboard_domain::task::Spec;
use callboard_runtime::events::StreamItem;
use callboard_runtime::tables::{self, Subject, WorkerRow};
use serde::Serialize;
use serde_json::json;

use super::approvals::ApprovalBody;
use super::common::{Iso, tags};
use super::executions::{ExecutionBody, StepSummary};
use super::read::rule::{self, Parse};
use super::tasks::TaskBody;
use crate::request;

/// All event names (PROTOCOL.md 10). What no part of the service tells yet is never sent.
pub const NAMES: &[&str] = &[
    "task.created",
    "task.started",
    "task.delta",
    "task.retrying",
    "task.awaiting_approval",
    "task.completed",
    "task.failed",
    "task.cancelled",
    "task.rejected",
    "execution.started",
    "execution.progress",
    "execution.completed",
    "execution.failed",
    "execution.cancelled",
    "step.started",
    "step.awaiting_approval",
    "step.retrying",
    "step.skipped",
    "step.completed",
    "step.failed",
    "step.cancelled",
    "hitl.pending",
    "hitl.assigned",
    "hitl.claimed",
    "hitl.escalated",
    "hitl.expired",
    "hitl.approved",
    "hitl.rejected",
    "worker.connected",
    "worker.draining",
    "worker.disconnected",
];

/// The groups of the names.
const GROUPS: [&str; 6] = ["*", "task.*", "execution.*", "step.*", "hitl.*", "worker.*"];

request! {
    /// Which events are sent: by default all that the role may see.
    #[derive(Debug, Clone, Default)]
    pub struct Wanted as "EventFilter" {
        /// Names, or groups such as `task.*`.
        events: Option<Vec<String>> = optional("events", rule::commas(1..=64, pattern())),
        /// Of this task.
        task_id: Option<String> = optional("taskId", name()),
        /// Of this execution.
        execution_id: Option<String> = optional("executionId", name()),
        /// Of this queue.
        queue: Option<String> = optional("queue", name()),
        /// Of tasks that have all of these tags.
        tags: Option<Vec<String>> = optional("tags", tags()),
    }
}

fn name() -> impl Parse<String> {
    rule::text(rule::characters(1..=128))
}

fn pattern() -> impl Parse<String> {
    let is_known = |pattern: &String| NAMES.iter().any(|name| matches(pattern, name));
    let says = "must name events such as task.completed or task.*";
    let patterns = || NAMES.iter().copied().chain(GROUPS).collect::<Vec<_>>();
    name().only(is_known, Rule::Enum, says).with(move || json!({"enum": patterns()}))
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(group) => name.starts_with(group),
        None => pattern == name,
    }
}

impl Wanted {
    fn names(&self, event: &str) -> bool {
        let all = self.events.as_ref().is_none_or(Vec::is_empty);
        all || self.events.iter().flatten().any(|pattern| matches(pattern, event))
    }

    /// Whether a subscriber with these wishes is told this.
    #[must_use]
    pub fn wants(&self, told: &StreamItem) -> bool {
        match told {
            StreamItem::Delta { task, .. } => {
                // A piece of output says nothing of its queue or its tags.
                let narrowed =
                    self.queue.is_some() || self.tags.is_some() || self.execution_id.is_some();
                self.names("task.delta") && !narrowed && self.is_task(*task)
            }
            StreamItem::Stored(_, row) => self.names(&row.event) && self.is_about(&row.subject),
        }
    }

    fn is_task(&self, task: TaskId) -> bool {
        self.task_id.as_ref().is_none_or(|wanted| *wanted == task.to_string())
    }

    fn is_of(&self, task: &Spec) -> bool {
        let execution = task.origin.step.as_ref().map(|(id, _)| id.to_string());
        self.is_task(task.id)
            && (self.execution_id.is_none() || self.execution_id == execution)
            && self.queue.as_ref().is_none_or(|queue| *queue == task.queue)
            && self.tags.iter().flatten().all(|tag| task.tags.contains(tag))
    }

    fn is_about(&self, subject: &Subject) -> bool {
        match subject {
            Subject::Task(task) | Subject::TaskOfStep(_, _, task) => self.is_of(&task.spec),
            Subject::Approval(approval) => self.is_of(&approval.task),
            Subject::Execution(head) | Subject::Step(head, _) => {
                let id = head.spec.id.to_string();
                self.task_id.is_none()
                    && self.tags.is_none()
                    && self.queue.is_none()
                    && self.execution_id.as_ref().is_none_or(|wanted| *wanted == id)
            }
            Subject::Worker(WorkerRow { queues, .. }) => {
                self.task_id.is_none()
                    && self.execution_id.is_none()
                    && self.tags.is_none()
                    && self.queue.as_ref().is_none_or(|queue| queues.contains(queue))
            }
        }
    }
}

/// A place in the event log, opaque to clients.
#[must_use]
pub fn cursor(sequence: u64) -> String {
    format!("e{sequence:x}")
}

/// The place that a client names, if it is one.
#[must_use]
pub fn parse_cursor(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix('e')?, 16).ok()
}

#[derive(Serialize)]
struct Event<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prev: Option<serde_json::Value>,
    #[serde(rename = "event")]
    name: &'a str,
    at: Iso,
    resource: serde_json::Value,
    data: serde_json::Value,
}

/// An event as it is told: its name, its cursor unless it is not stored, and its JSON.
#[must_use]
pub fn written(
    told: &StreamItem,
    prev: Option<u64>,
    now: Timestamp,
) -> (String, Option<String>, String) {
    match told {
        StreamItem::Delta { task, offset, text } => {
            let event = Event {
                cursor: None,
                prev: None,
                name: "task.delta",
                at: Iso(now),
                resource: json!({"kind": "task", "id": task.to_string()}),
                data: json!({"text": &**text, "offset": offset}),
            };
            (event.name.to_owned(), None, to_json(&event))
        }
        StreamItem::Stored(sequence, row) => {
            let (resource, data) = subject(row);
            let event = Event {
                cursor: Some(cursor(*sequence)),
                prev: Some(prev.map_or(serde_json::Value::Null, |prev| cursor(prev).into())),
                name: &row.event,
                at: Iso(row.at),
                resource,
                data,
            };
            (row.event.to_string(), event.cursor.clone(), to_json(&event))
        }
    }
}

fn subject(row: &tables::Event) -> (serde_json::Value, serde_json::Value) {
    match &row.subject {
        Subject::Task(task) => (
            json!({"kind": "task", "id": task.spec.id.to_string(), "version": task.version}),
            json!(TaskBody::summary(task, None)),
        ),
        Subject::TaskOfStep(execution, step, task) => (
            json!({"kind": "step", "id": step, "executionId": execution.to_string()}),
            json!(StepSummary::of_task(step, *execution, &row.event, task)),
        ),
        Subject::Execution(head) => (
            json!({"kind": "execution", "id": head.spec.id.to_string(), "version": head.version}),
            json!(ExecutionBody::in_event(head)),
        ),
        Subject::Step(head, step) => (
            json!({"kind": "step", "id": step, "executionId": head.spec.id.to_string()}),
            json!(StepSummary::named(step, head.spec.id, &row.event)),
        ),
        Subject::Approval(approval) => (
            json!({"kind": "hitl", "id": approval.id().to_string(), "version": approval.version}),
            json!(ApprovalBody::in_event(approval, row.at)),
        ),
        Subject::Worker(WorkerRow { id, name, queues }) => (
            json!({"kind": "worker", "id": id.to_string()}),
            json!({"id": id.to_string(), "name": name, "queues": queues}),
        ),
    }
}

fn to_json(event: &Event<'_>) -> String {
    serde_json::to_string(event).expect("an event has a JSON form")
}
