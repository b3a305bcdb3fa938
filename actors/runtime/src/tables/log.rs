//! Records of the event log, as they are written: each with its subject under the name of its kind.
//!
//! A record borrows what it says.

use callboard_domain::Timestamp;
use callboard_domain::execution::{DispatchState, Execution, Progress};
use callboard_domain::id::{Environment, TaskId};
use callboard_store::Op;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use super::{EVENTS, event_log};

/// The kinds of subjects, by the names of [`super::events::Of`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Task,
    Worker,
    Execution,
    Approval,
    Delivery,
    Schedule,
    Queue,
    Bulk,
    Batch,
    Budget,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Worker => "worker",
            Self::Execution => "execution",
            Self::Approval => "approval",
            Self::Delivery => "delivery",
            Self::Schedule => "schedule",
            Self::Queue => "queue",
            Self::Bulk => "bulk",
            Self::Batch => "batch",
            Self::Budget => "budget",
        }
    }
}

/// The progress of the steps of an execution. The states of the tasks of dispatched steps stand in their
/// own rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProgressRow {
    /// All, completed, dispatched, waiting, failed, cancelled and skipped.
    #[serde(rename = "n")]
    pub(super) counts: [u32; 7],
    /// The tasks of dispatched steps, as many as stand here.
    #[serde(rename = "t", default, skip_serializing_if = "Vec::is_empty")]
    pub(super) tasks: Vec<TaskId>,
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
}

/// The most facts in one record.
pub(crate) const MAX_FACTS: usize = 60;

/// A record.
pub(crate) struct Record<'r, T> {
    /// The event's name; empty if the subject holds several facts.
    pub(crate) event: &'r str,
    pub(crate) at: Timestamp,
    pub(crate) kind: Kind,
    /// The subject, in the form that [`super::events::Of`] reads.
    pub(crate) of: T,
    /// The progress of an execution's steps.
    pub(crate) progress: Option<ProgressRow>,
    /// The item that each fact of an execution is about.
    pub(crate) items: Vec<Option<u16>>,
}

impl<T: Serialize> Serialize for Record<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if !self.event.is_empty() {
            map.serialize_entry("n", self.event)?;
        }
        map.serialize_entry("t", &self.at)?;
        map.serialize_entry(self.kind.name(), &self.of)?;
        if let Some(progress) = &self.progress {
            map.serialize_entry("p", progress)?;
        }
        if self.items.iter().any(Option::is_some) {
            map.serialize_entry("i", &self.items)?;
        }
        map.end()
    }
}

impl<T: Serialize> Record<'_, T> {
    /// Puts the record into the log.
    pub(crate) fn append(&self, environment: Environment) -> Op {
        EVENTS.append_as(event_log(environment), self)
    }
}

/// Puts an event of a subject into the log.
pub(crate) fn append<T: Serialize>(
    environment: Environment,
    (event, at): (&str, Timestamp),
    kind: Kind,
    of: T,
) -> Op {
    let record = Record { event, at, kind, of, progress: None, items: Vec::new() };
    record.append(environment)
}
