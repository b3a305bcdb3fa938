//! The history of an approval: append-only, each entry chained to the one before it.
//!
//! An entry holds an action, its time, and commitments to the output, the edit and the comment; the
//! chain is [`crate::chain`]'s. The approval itself stores the length and the last hash.
//!
//! | version | a commitment is | the hash covers `version` |
//! |---|---|---|
//! | 1 | the SHA-256 of the text | no |
//! | 2 | the SHA-256 of the [`Salt`](super::Salt) and the text | yes |
//!
//! Deliberately absent: the texts themselves (output, comment, edit), which have rows of their own
//! and are compared with their commitments.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Timestamp;
use crate::chain::{self, Linked};
use crate::digest::Digest;
use crate::event::EventName;
use crate::id::{ExecutionId, TaskId, UserId};
use crate::names::names;
use crate::task::HoldReason;

pub use crate::chain::{Broken, Chain, Fault};

names! {
    /// The action of an entry.
    Action {
        /// The gate held the output.
        Pending = "pending",
        /// A reviewer was chosen.
        Assigned = "assigned",
        /// The approval was handed to an admin.
        Escalated = "escalated",
        /// The review time ended.
        Expired = "expired",
        /// A reviewer announced to be working on the approval.
        Claimed = "claimed",
        /// The reviewer gave the claim up.
        Released = "released",
        /// An operator gave the reviewers more time.
        Extended = "extended",
        /// The decision was taken back, or another one was asked for beside it.
        Reopened = "reopened",
        /// The output passed.
        Approved = "approved",
        /// The output did not pass.
        Rejected = "rejected",
        /// A new task retries the rejected one.
        Retried = "retried",
        /// The task ended without a decision.
        Cancelled = "cancelled",
        /// A requested mail could not be written.
        NotificationSkipped = "notification_skipped",
    }
}

impl Action {
    /// The event that reports the action, if there is one.
    #[must_use]
    pub const fn event(self) -> Option<EventName> {
        match self {
            Self::Pending => Some(EventName::HitlPending),
            Self::Assigned => Some(EventName::HitlAssigned),
            Self::Escalated => Some(EventName::HitlEscalated),
            Self::Expired => Some(EventName::HitlExpired),
            Self::Claimed => Some(EventName::HitlClaimed),
            Self::Approved => Some(EventName::HitlApproved),
            Self::Rejected => Some(EventName::HitlRejected),
            Self::Released => Some(EventName::HitlReleased),
            Self::Extended => Some(EventName::HitlExtended),
            Self::Reopened => Some(EventName::HitlReopened),
            Self::Cancelled => Some(EventName::HitlCancelled),
            Self::Retried | Self::NotificationSkipped => None,
        }
    }
}

/// The version of an entry's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum Version {
    /// Commitments without a salt, as before erasure existed.
    #[default]
    Plain,
    /// Commitments with the salt of the approval.
    Salted,
}

impl From<Version> for u8 {
    fn from(version: Version) -> Self {
        match version {
            Version::Plain => 1,
            Version::Salted => 2,
        }
    }
}

impl TryFrom<u8> for Version {
    type Error = &'static str;

    fn try_from(number: u8) -> Result<Self, &'static str> {
        match number {
            1 => Ok(Self::Plain),
            2 => Ok(Self::Salted),
            _ => Err("the version of a history entry must be 1 or 2"),
        }
    }
}

impl Version {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    const fn is_plain(&self) -> bool {
        matches!(self, Self::Plain)
    }
}

/// An entry of the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The version of the entry's format.
    #[serde(default, skip_serializing_if = "Version::is_plain")]
    pub version: Version,
    /// The number, counted from 1.
    pub number: u32,
    /// The action.
    pub action: Action,
    /// The time of the action.
    pub at: Timestamp,
    /// The identifier of a user or a key, or `system`.
    pub actor: String,
    /// The details of the action.
    #[serde(default, skip_serializing_if = "Details::is_empty")]
    pub details: Details,
    /// The hash of the previous entry.
    pub previous: Digest,
    /// The hash of this one.
    pub hash: Digest,
}

/// The details of an action; the action decides which of them are present.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Details {
    /// The reason for the hold.
    pub why: Option<HoldReason>,
    /// The model's confidence.
    pub confidence: Option<f64>,
    /// The minimum confidence to skip review.
    pub threshold: Option<f64>,
    /// The execution of the task.
    pub execution: Option<ExecutionId>,
    /// The step's id.
    pub step: Option<String>,
    /// The item of the step's list, from 0.
    pub item: Option<u16>,
    /// The commitment to the held output.
    pub shown: Option<Digest>,
    /// The commitment to the text that replaces the output.
    pub edit: Option<Digest>,
    /// The commitment to the comment, or to the reason of a rejection.
    pub comment: Option<Digest>,
    /// The reviewer named in the request.
    pub reviewer: Option<String>,
    /// The number of outputs that one act of the reviewer approved.
    pub bulk: Option<u32>,
    /// The previous assignee.
    pub from: Option<UserId>,
    /// The new assignee.
    pub to: Option<UserId>,
    /// The reason, as text.
    pub reason: Option<String>,
    /// The wait, in milliseconds.
    pub after_ms: Option<u64>,
    /// The end of a claim or of the review time.
    pub until: Option<Timestamp>,
    /// The task that retries.
    pub retry: Option<TaskId>,
}

impl Details {
    /// True without details.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn texts(&self) -> [(&'static str, Option<String>); 17] {
        /// A detail as a string.
        fn text<T: ToString>(value: Option<&T>) -> Option<String> {
            value.map(ToString::to_string)
        }
        [
            ("afterMs", text(self.after_ms.as_ref())),
            ("bulk", text(self.bulk.as_ref())),
            ("commentHash", text(self.comment.as_ref())),
            ("confidence", text(self.confidence.as_ref())),
            ("editHash", text(self.edit.as_ref())),
            ("from", text(self.from.as_ref())),
            ("item", text(self.item.as_ref())),
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
    /// The hashed text, which an auditor must reproduce to verify the chain.
    #[must_use]
    pub fn canonical(&self, task: TaskId) -> String {
        let mut texts: BTreeMap<&str, String> = BTreeMap::from([
            ("action", self.action.as_str().to_owned()),
            ("actor", self.actor.clone()),
            ("number", self.number.to_string()),
            ("previous", self.previous.to_string()),
            ("taskId", task.to_string()),
            ("timestamp", self.at.to_string()),
        ]);
        if self.version == Version::Salted {
            texts.insert("version", u8::from(self.version).to_string());
        }
        let details = self.details.texts().into_iter();
        texts.extend(details.filter_map(|(name, text)| text.map(|text| (name, text))));
        chain::canonical(&texts)
    }

    /// The correct hash of the entry.
    #[must_use]
    pub fn digest(&self, task: TaskId) -> Digest {
        Digest::of(&self.canonical(task))
    }
}

impl Linked for Entry {
    fn number(&self) -> u32 {
        self.number
    }

    fn previous(&self) -> Digest {
        self.previous
    }

    fn hash(&self) -> Digest {
        self.hash
    }
}

impl Chain {
    /// Appends an entry and returns it.
    pub(super) fn append(
        &mut self,
        version: Version,
        task: TaskId,
        action: Action,
        at: Timestamp,
        actor: &str,
        details: Details,
    ) -> Entry {
        let number = self.length + 1;
        let actor = actor.to_owned();
        let (previous, hash) = (self.head, Digest::ZERO);
        let mut entry = Entry { version, number, action, at, actor, details, previous, hash };
        entry.hash = entry.digest(task);
        *self = self.with(&entry);
        entry
    }

    /// Verifies that these entries are the whole, unchanged history of the task.
    ///
    /// # Errors
    /// The first entry with a fault.
    pub fn verify(self, task: TaskId, entries: &[Entry]) -> Result<(), Broken> {
        self.verify_from(Self::default(), entries, |entry| entry.digest(task))
    }
}
