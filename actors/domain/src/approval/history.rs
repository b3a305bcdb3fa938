//! The history of an approval: append-only, each entry chained to the one before it.
//!
//! ```text
//!   entry n: what happened, when, by whom, hashes of what was shown, said and written
//!     hash = SHA-256 of a JSON object: the entry's texts by name, sorted, compact, and
//!            `previous`, the hash of entry n - 1 (64 zeros for the first)
//! ```
//!
//! All members of that object are texts, so that any language writes the same bytes. Changing,
//! dropping or adding an entry breaks the chain at that entry; dropping the last ones is seen
//! because the approval itself knows its length and last hash. Whoever can write the database can
//! compute a whole new chain: keep the last hash elsewhere if that is to be seen, too.
//!
//! Deliberately absent: the texts themselves (output, comment, edit), which stand in rows of their
//! own and are compared with their hashes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::digest::Digest;
use crate::id::{ExecutionId, TaskId, UserId};
use crate::task::Why;

/// What is told in a history (PROTOCOL.md 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The output was held.
    Pending,
    /// A reviewer was chosen.
    Assigned,
    /// An admin was asked.
    Escalated,
    /// The reviewers' time is over.
    Expired,
    /// A reviewer looks at it.
    Claimed,
    /// The output passes.
    Approved,
    /// The output does not pass.
    Rejected,
    /// A task was made that tries again.
    Retried,
    /// The task ended without a decision.
    Cancelled,
    /// A mail was asked for and could not be written.
    NotificationSkipped,
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 10] = [
        Self::Pending,
        Self::Assigned,
        Self::Escalated,
        Self::Expired,
        Self::Claimed,
        Self::Approved,
        Self::Rejected,
        Self::Retried,
        Self::Cancelled,
        Self::NotificationSkipped,
    ];

    /// Its name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Assigned => "assigned",
            Self::Escalated => "escalated",
            Self::Expired => "expired",
            Self::Claimed => "claimed",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Retried => "retried",
            Self::Cancelled => "cancelled",
            Self::NotificationSkipped => "notification_skipped",
        }
    }

    /// The event that tells it to subscribers (PROTOCOL.md 10).
    #[must_use]
    pub const fn event(self) -> Option<&'static str> {
        match self {
            Self::Pending => Some("hitl.pending"),
            Self::Assigned => Some("hitl.assigned"),
            Self::Escalated => Some("hitl.escalated"),
            Self::Expired => Some("hitl.expired"),
            Self::Claimed => Some("hitl.claimed"),
            Self::Approved => Some("hitl.approved"),
            Self::Rejected => Some("hitl.rejected"),
            Self::Retried | Self::Cancelled | Self::NotificationSkipped => None,
        }
    }
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Counted from 1.
    pub number: u32,
    /// What happened.
    pub action: Action,
    /// When.
    pub at: Timestamp,
    /// By whom: the identifier of a user or a key, or `system`.
    pub actor: String,
    /// What else is known of it.
    #[serde(default, skip_serializing_if = "Details::is_empty")]
    pub details: Details,
    /// The hash of the entry before it.
    pub previous: Digest,
    /// The hash of this one.
    pub hash: Digest,
}

/// What else is known of what happened; which of these are there depends on the action.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Details {
    /// Why the output was held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
    /// The model's confidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
    /// The least confidence that passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// The execution that the task belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionId>,
    /// The step that the task is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The hash of the output that was shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<Digest>,
    /// The hash of the text that replaces it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edit: Option<Digest>,
    /// The hash of the comment, or of the reason of a rejection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<Digest>,
    /// Who is named as the reviewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reviewer: Option<String>,
    /// Who had to decide before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<UserId>,
    /// Who has to decide now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<UserId>,
    /// In words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long was waited, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_ms: Option<u64>,
    /// Until when: a claim, or the reviewers' time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The task that tries again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<TaskId>,
}

impl Details {
    /// Whether nothing else is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn texts(&self) -> [(&'static str, Option<String>); 15] {
        /// A detail as a text.
        fn text<T: ToString>(value: Option<&T>) -> Option<String> {
            value.map(ToString::to_string)
        }
        [
            ("afterMs", text(self.after_ms.as_ref())),
            ("commentHash", text(self.comment.as_ref())),
            ("confidence", text(self.confidence.as_ref())),
            ("editHash", text(self.edit.as_ref())),
            ("from", text(self.from.as_ref())),
            ("outputHash", text(self.shown.as_ref())),
            ("planExecutionId", text(self.execution.as_ref())),
            ("reason", self.reason.clone()),
            ("retryTaskId", text(self.retry.as_ref())),
            ("reviewerId", self.reviewer.clone()),
            ("stepId", self.step.clone()),
            ("threshold", text(self.threshold.as_ref())),
            ("to", text(self.to.as_ref())),
            ("until", text(self.until.as_ref())),
            ("why", self.why.map(|why| why.as_str().to_owned())),
        ]
    }
}

impl Entry {
    /// The text that is hashed: what an auditor has to write to check the chain.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "texts have a JSON form")]
    pub fn canonical(&self, task: TaskId) -> String {
        let mut texts: BTreeMap<&str, String> = BTreeMap::from([
            ("action", self.action.as_str().to_owned()),
            ("actor", self.actor.clone()),
            ("number", self.number.to_string()),
            ("previous", self.previous.to_string()),
            ("taskId", task.to_string()),
            ("timestamp", self.at.to_string()),
        ]);
        let details = self.details.texts().into_iter();
        texts.extend(details.filter_map(|(name, text)| text.map(|text| (name, text))));
        serde_json::to_string(&texts).expect("texts have a JSON form")
    }

    /// What its hash must be.
    #[must_use]
    pub fn digest(&self, task: TaskId) -> Digest {
        Digest::of(&self.canonical(task))
    }
}

/// How long a history is, and how it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    /// How many entries there are.
    pub length: u32,
    /// The hash of the last.
    pub head: Digest,
}

impl Default for Chain {
    fn default() -> Self {
        Self { length: 0, head: Digest::ZERO }
    }
}

impl Chain {
    /// The next entry; the chain ends with it from now on.
    pub(super) fn grow(
        &mut self,
        task: TaskId,
        action: Action,
        at: Timestamp,
        actor: &str,
        details: Details,
    ) -> Entry {
        let number = self.length + 1;
        let actor = actor.to_owned();
        let (previous, hash) = (self.head, Digest::ZERO);
        let mut entry = Entry { number, action, at, actor, details, previous, hash };
        entry.hash = entry.digest(task);
        *self = Self { length: number, head: entry.hash };
        entry
    }

    /// Whether these entries are the whole history of the task, and none was changed.
    ///
    /// # Errors
    /// The first entry that is not as it must be.
    pub fn verify(self, task: TaskId, entries: &[Entry]) -> Result<(), Broken> {
        let mut before = Digest::ZERO;
        for (number, entry) in (1..).zip(entries) {
            let broken = |fault| Broken { number, fault };
            if entry.number != number {
                return Err(broken(Fault::Missing));
            }
            if entry.previous != before {
                return Err(broken(Fault::NotChained));
            }
            if entry.hash != entry.digest(task) {
                return Err(broken(Fault::Changed));
            }
            before = entry.hash;
        }
        let length = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        if length < self.length {
            return Err(Broken { number: length + 1, fault: Fault::Missing });
        }
        if length > self.length || before != self.head {
            return Err(Broken { number: length, fault: Fault::NotTheEnd });
        }
        Ok(())
    }
}

/// Where a history is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("entry {number} {fault}")]
pub struct Broken {
    /// Of the first entry that is not as it must be.
    pub number: u32,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is not there.
    #[error("is missing")]
    Missing,
    /// It does not name the hash of the one before it.
    #[error("does not follow the one before it")]
    NotChained,
    /// It has another hash than its content.
    #[error("was changed: its hash is not that of its content")]
    Changed,
    /// It is not what the approval knows as the last.
    #[error("is not the last that was written")]
    NotTheEnd,
}
