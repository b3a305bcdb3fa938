//! The messages of an approval's actor.

use callboard_domain::approval::{Approval, Decider, ReviewWay};
use callboard_domain::id::UserId;
use callboard_domain::task::Task;
use callboard_domain::{Error, Timestamp};
use tokio::sync::oneshot;

pub(crate) type Reply = oneshot::Sender<Result<Approval, Error>>;

/// A message to an approval.
#[derive(Debug)]
pub(crate) enum Message {
    /// A caller asks for a review of an output that has passed.
    Ask(ReviewWay, Reply),
    /// Somebody takes the decision back that was made then, and no other.
    Reopen {
        by: Decider,
        /// If the decision was used, they get another one beside it with `true`, and the uses with `false`.
        may_correct: bool,
        decided_at: Option<Timestamp>,
        reply: Reply,
    },
    /// A reviewer decides.
    Decide(Box<Decision>, Reply),
    /// A reviewer looks at the output.
    Claim(Decider, Reply),
    /// A reviewer gives the claim up.
    Release(Decider, Reply),
    /// An operator gives the reviewers more time, in milliseconds from now on, with a reason.
    Extend(Decider, u64, Option<String>, Reply),
    /// The output is given to this reviewer.
    Assign(Decider, UserId, Reply),
    /// The reviewer whom the output was assigned to was deleted, or has left the project.
    AssigneeGone,
    /// The task is to stop.
    TaskStops(Stop),
    /// The task has ended without the approval.
    TaskEnded,
    /// The approval's timer fired.
    TimePassed,
}

/// A reviewer's decision, with the texts.
#[derive(Debug)]
pub(crate) enum Decision {
    /// The output counts.
    Approve {
        /// The reviewer.
        by: Decider,
        /// The text that replaces the output.
        edit: Option<String>,
        /// The reviewer's comment.
        comment: Option<String>,
    },
    /// The output does not count.
    Reject {
        /// The reviewer.
        by: Decider,
        reason: String,
        /// The prompt of a new try, if the reviewer asks for one.
        retry: Option<NextPrompt>,
    },
}

/// The prompt of the task that tries a rejected output again; the reason follows it.
#[derive(Debug)]
pub(crate) enum NextPrompt {
    /// The prompt of the rejected task.
    AsBefore,
    /// The reviewer's own.
    Given(String),
}

/// The reason why a held task is to stop.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The named account cancels the task.
    Cancelled(String, oneshot::Sender<Result<Task, Error>>),
    /// The task's execution lets go of the task.
    LetGo,
}
