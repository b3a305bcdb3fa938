//! The items and the event that a unit begins with, and the reasons why an event changes nothing.

use crate::approval::{self, Approval, Decider, Record, ReviewWay, Salt};
use crate::error::Error;
use crate::execution::Use;
use crate::task::{self, Completion, Inputs, OutputFault, Task};
/// The items that an event concerns.
#[derive(Debug, Clone, Copy)]
pub struct Items<'a> {
    /// The task; `None` for events of the approval alone.
    pub task: Option<&'a Task>,
    /// The approval of the task's output, if there is one.
    pub approval: Option<&'a Approval>,
}

impl Items<'_> {
    /// The salt of the approval's commitments.
    pub(super) fn salt(&self) -> Option<Salt> {
        self.approval.and_then(|approval| approval.salt)
    }

    /// True if nothing waits for the decision.
    pub(super) fn is_unawaited(&self) -> bool {
        self.approval.is_some_and(Approval::is_unawaited)
    }
}

/// The event of a unit.
#[derive(Debug)]
pub enum Event {
    /// An event of the task; `output` comes with [`task::Event::Completed`].
    Task {
        /// The event.
        event: task::Event,
        /// The model's output.
        output: Option<String>,
    },
    /// An event that only the approval hears: a claim, a release, the end of its task.
    Approval(approval::Event),
    /// The approval's timer fired.
    ReviewTimePassed,
    /// An operator gives the reviewers more time.
    Extend {
        /// The user or key.
        by: Decider,
        /// The time from now on, in milliseconds.
        timeout_ms: u64,
        /// The reason.
        reason: Option<String>,
    },
    /// The decision on an output that nothing has used is taken back: the output is held again.
    Reopen {
        /// The user or key.
        by: Decider,
    },
    /// A second decision is asked for, beside the one that others have gone by.
    Correct {
        /// The user or key.
        by: Decider,
    },
    /// A caller asks for a review of an output that has passed.
    AskReview {
        /// The output.
        output: String,
        /// The way in which it is reviewed.
        way: ReviewWay,
        /// The record that the output passed its gate, if it has one.
        before: Option<Record>,
    },
    /// A reviewer lets the output pass.
    Approve {
        /// The reviewer.
        by: Decider,
        /// The text that replaces the output.
        edit: Option<String>,
        /// The reviewer's comment.
        comment: Option<String>,
    },
    /// A reviewer rejects the output.
    Reject {
        /// The reviewer.
        by: Decider,
        /// The reason.
        reason: String,
        /// The task that tries again, if the reviewer asks for one.
        retry: Option<NextTry>,
    },
    /// The held task ends without a decision.
    EndHeld {
        /// The account that ends the approval.
        by: String,
        /// The task's event: a cancellation, or giving up.
        event: task::Event,
    },
}

/// The task that tries a rejected one again.
#[derive(Debug)]
pub struct NextTry {
    /// The texts, with the reviewer's words in the prompt.
    pub inputs: Inputs,
    /// True if the prompt is the reviewer's own, who then submits the task.
    pub rewritten: bool,
}

/// An answer whose output must match a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer<'e> {
    /// The output.
    pub output: &'e str,
    /// True if the output was cut at the token limit.
    pub is_cut: bool,
}

impl Event {
    /// The answer that the event is for `task`, if its output must match a schema and the lease is
    /// the task's current one. The owner checks the output before it decides.
    #[must_use]
    pub fn answer_to_check(&self, task: &Task) -> Option<Answer<'_>> {
        if let Self::Task { event: answer, output: Some(output) } = self
            && let task::Event::Completed { lease, completion, .. } = answer
            && task.spec.checked
            && task.is_held_under(*lease)
        {
            let is_cut = task::is_cut(completion.finish_reason.as_deref());
            return Some(Answer { output, is_cut });
        }
        None
    }

    /// True if a reviewer decides.
    #[must_use]
    pub const fn is_decision(&self) -> bool {
        matches!(self, Self::Approve { .. } | Self::Reject { .. })
    }

    /// The event with the repaired output in place of the one that came.
    #[must_use]
    pub fn repaired(self, text: String) -> Self {
        if let Self::Task { event, output: Some(_) } = self {
            return Self::Task { event, output: Some(text) };
        }
        self
    }

    /// The event of an answer whose output has a fault; the event keeps the output, to be shown.
    #[must_use]
    pub fn faulted(self, fault: OutputFault) -> Self {
        if let Self::Task { event: task::Event::Completed { lease, completion, .. }, output } = self
        {
            // A broken or cut output has no confidence, and its thinking is of no use.
            let completion = Completion {
                confidence: None,
                confidence_source: None,
                thinking: None,
                ..completion
            };
            let event = task::Event::OutputInvalid { lease, completion, fault };
            return Self::Task { event, output };
        }
        self
    }
}

/// The reason why an event changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The task refuses.
    Task(task::Refusal),
    /// The approval refuses.
    Approval(approval::Refusal),
    /// The task that tries again is not admitted.
    NotAdmitted(Box<Error>),
    /// The output was used, so that the decision on it stays.
    Used(Vec<Use>),
}

impl From<task::Refusal> for Refusal {
    fn from(refusal: task::Refusal) -> Self {
        Self::Task(refusal)
    }
}

impl From<approval::Refusal> for Refusal {
    fn from(refusal: approval::Refusal) -> Self {
        Self::Approval(refusal)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::NotAdmitted(Box::new(error))
    }
}
