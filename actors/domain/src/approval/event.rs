//! The events of an approval, its effects, and its refusals.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{Assignee, Details};
use crate::Timestamp;
use crate::digest::Digest;
use crate::id::{DeliveryId, TaskId, UserId};

/// An event of an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A reviewer looks at the output.
    Claimed {
        /// The user or key.
        by: Decider,
    },
    /// A reviewer has turned away.
    Released {
        /// The user or key.
        by: Decider,
    },
    /// Somebody who may decide gives the output to a reviewer.
    Assigned {
        /// The user or key.
        by: Decider,
        /// The reviewer.
        asked: Assignee,
    },
    /// An operator gives the reviewers more time.
    Extended {
        /// The user or key.
        by: Decider,
        /// The time from now on, in milliseconds.
        timeout_ms: u64,
        /// The hash of the reason.
        reason: Option<Digest>,
    },
    /// A reviewer lets the output pass.
    Approved {
        /// The user or key.
        by: Decider,
        /// The hash of the text that replaces the output.
        edit: Option<Digest>,
        /// The hash of the reviewer's comment.
        comment: Option<Digest>,
    },
    /// A reviewer does not let the output pass.
    Rejected {
        /// The user or key.
        by: Decider,
        /// The hash of the reason.
        reason: Digest,
        /// The task that tries again.
        retry: Option<TaskId>,
    },
    /// Somebody who may takes the decision back, or asks for another one beside it.
    Reopened {
        /// The user or key.
        by: Decider,
        /// The reviewer.
        asked: Assignee,
        /// True if the decision before stands, because others have gone by it.
        corrects: bool,
    },
    /// The task was cancelled or failed.
    TaskEnded {
        /// The user or key.
        by: String,
    },
    /// The clock passed an instant that the approval had asked to be woken at.
    TimePassed {
        /// An admin, to be asked now.
        asked: Assignee,
    },
}

/// The decider, as recorded.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decider {
    /// The user's or the key's identifier.
    pub account: String,
    /// The reviewer in whose name the account decides: a key's claim, or another user named by an admin.
    pub reviewer: Option<String>,
    /// The number of outputs that the one act approves; `None` for a decision on this output alone.
    pub bulk: Option<u32>,
}

impl Decider {
    /// The name that is shown as the decider's.
    #[must_use]
    pub fn name(&self) -> &str {
        self.reviewer.as_deref().unwrap_or(&self.account)
    }

    pub(super) fn details(&self) -> Details {
        Details { reviewer: Some(self.name().to_owned()), bulk: self.bulk, ..Details::default() }
    }
}

/// An order to the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Wake the approval at this instant, instead of any instant asked for before.
    WakeAt(Timestamp),
    /// Cancel the approval's wake-up.
    ForgetWake,
    /// Count the approval among those that this user has to decide, and among no other's.
    Assign(Option<UserId>),
    /// Write to this reviewer, by a delivery of the same unit of work.
    Notify(UserId, MailCause),
}

/// A mail to a reviewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    /// The identifier of the delivery.
    pub id: DeliveryId,
    /// The task under review.
    pub task: TaskId,
    /// The recipient.
    pub to: UserId,
    /// The cause.
    pub cause: MailCause,
}

/// The reason why a mail is sent to a reviewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MailCause {
    /// The approval was assigned to the reviewer.
    Assigned,
    /// The approval has had no decision for some time.
    Escalated,
    /// The reviewers' time is over.
    Expired,
}

/// The reason why an event changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Another decision came first.
    AlreadyDecided {
        /// The user or key.
        by: String,
        /// The instant.
        at: Timestamp,
    },
    /// A review was asked for before, and waits for its decision.
    AlreadyAsked,
    /// The output waits for a decision: there is none to take back.
    Undecided,
    /// The step of the output has a task that is being stopped.
    StillStopping,
    /// The output was opened again as often as possible.
    ReopenedTooOften,
    /// The history has no room for another assignment.
    AssignedTooOften,
    /// The reviewers were given more time as often as possible.
    ExtendedTooOften,
    /// The task was cancelled.
    Cancelled,
    /// Another reviewer looks at the output.
    ClaimedBy {
        /// The user or key.
        by: String,
        /// The end of the claim.
        until: Timestamp,
    },
    /// The approval has no claim.
    NotClaimed,
    /// Nothing is due.
    NotDue,
}
