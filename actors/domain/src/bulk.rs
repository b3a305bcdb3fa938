//! Bulk jobs: one action on every task and execution that a filter matched.
//!
//! ```text
//!   filter ─▶ the identifiers that match, frozen ─▶ parts of 64 ─▶ each acted on, then counted in one commit
//! ```
//!
//! A crash in the middle of a part repeats that part, so every action must be safe to repeat.
//! Deliberately absent: an action that approves, because a person looks at each output that passes,
//! and the store.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Timestamp;
use crate::access::Action as Permission;
use crate::error::{Error, Rule};
use crate::execution;
use crate::id::{BulkId, ExecutionId, TaskId};
use crate::names::names;
use crate::task::Status;

/// The most items of one job.
pub const MAX_ITEMS: usize = 100_000;
/// The items that are acted on between two commits of the progress.
pub const PART: usize = 64;
/// The most jobs that have not ended, of an environment.
pub const MAX_RUNNING: usize = 100;
/// The longest reason of a rejection, in characters.
pub const MAX_REASON: usize = 1_000;
/// The longest reason of an erasure, in characters: the audit log keeps it.
pub const MAX_ERASURE_REASON: usize = 256;
/// The jobs that are remembered after their end, of an environment.
pub const KEPT: usize = 1_000;

names! {
    /// The action of a job.
    Action {
        /// Cancels items that have not ended.
        Cancel = "cancel",
        /// Submits tasks anew that failed, were cancelled or were rejected; goes on with executions that failed or
        /// were cancelled.
        Retry = "retry",
        /// Gives tasks that wait for a lease another priority.
        Reprioritize = "reprioritize",
        /// Rejects outputs that wait for a reviewer.
        Reject = "reject",
        /// Erases the texts of items that have ended.
        Erase = "erase",
    }
}

names! {
    /// The kind of items that a job acts on.
    #[derive(Default)]
    Kind {
        /// Tasks, those of steps among them.
        #[default]
        Tasks = "tasks",
        /// Executions, with their tasks.
        Executions = "executions",
        /// Executions and tasks.
        All = "all",
    }
}

impl Kind {
    /// True if tasks are among the items.
    #[must_use]
    pub const fn has_tasks(self) -> bool {
        matches!(self, Self::Tasks | Self::All)
    }

    /// True if executions are among the items.
    #[must_use]
    pub const fn has_executions(self) -> bool {
        matches!(self, Self::Executions | Self::All)
    }

    /// True for tasks alone, which jobs of earlier versions act on.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    const fn is_tasks(&self) -> bool {
        matches!(self, Self::Tasks)
    }
}

/// An item that a job acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Item {
    /// A task.
    Task(TaskId),
    /// An execution.
    Execution(ExecutionId),
}

impl Action {
    /// The statuses of the tasks that the action may fit; `None` is any, of which the caller knows those that are held.
    #[must_use]
    pub const fn fits(self) -> Option<&'static [Status]> {
        match self {
            Self::Cancel => Some(&[Status::Pending, Status::Running]),
            Self::Retry => Some(&[Status::Failed, Status::Cancelled, Status::Rejected]),
            Self::Reprioritize => Some(&[Status::Pending]),
            Self::Reject => None,
            Self::Erase => {
                Some(&[Status::Completed, Status::Failed, Status::Cancelled, Status::Rejected])
            }
        }
    }

    /// The statuses of the executions that the action may fit; none for an action on tasks alone.
    #[must_use]
    pub const fn fits_executions(self) -> &'static [execution::Status] {
        use execution::Status as S;
        match self {
            Self::Cancel => &[S::Pending, S::Running],
            Self::Retry => &[S::Failed, S::Cancelled],
            Self::Erase => &[S::Completed, S::Failed, S::Cancelled],
            Self::Reprioritize | Self::Reject => &[],
        }
    }

    /// The permission that a job needs from its beginning to its end.
    #[must_use]
    pub const fn permission(self) -> Permission {
        match self {
            Self::Cancel | Self::Retry | Self::Reprioritize | Self::Reject => Permission::BulkRun,
            Self::Erase => Permission::TextsErase,
        }
    }
}

/// The number of items whose texts were erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Erased {
    /// Executions whose own texts were erased.
    pub executions: u64,
    /// Tasks, those of the executions among them.
    pub tasks: u64,
    /// Payloads of signals.
    pub signals: u64,
}

impl std::ops::AddAssign for Erased {
    fn add_assign(&mut self, other: Self) {
        self.executions += other.executions;
        self.tasks += other.tasks;
        self.signals += other.signals;
    }
}

/// The outcome of the action on one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The item is as the action wants it.
    Succeeded,
    /// The texts of the item are erased, these of them by this job.
    Erased(Erased),
    /// The state of the item does not permit the action, or the item is gone.
    Skipped,
    /// The action was refused, or did not come about.
    Failed,
}

/// A job and its progress.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The identifier.
    pub id: BulkId,
    /// The action.
    pub action: Action,
    /// The items that the job acts on.
    #[serde(rename = "of", default, skip_serializing_if = "Kind::is_tasks")]
    pub kind: Kind,
    /// The new priority, of [`Action::Reprioritize`].
    pub priority: Option<u8>,
    /// The reason of [`Action::Reject`] or [`Action::Erase`]; `None` after the end, when the approvals or the audit
    /// log have it.
    pub reason: Option<String>,
    /// The account that asked for the job, and that new tasks belong to.
    pub account: String,
    /// The idempotency key and the body of the request, as digests.
    pub key: Option<(String, String)>,
    /// The items that matched.
    pub total: u32,
    /// The items that are as the action wants them.
    pub succeeded: u32,
    /// The items that the action does not fit.
    pub skipped: u32,
    /// The items on which the action failed.
    pub failed: u32,
    /// The erased texts, of [`Action::Erase`].
    pub erased: Option<Erased>,
    /// The reason why tasks that matched do not count, or why the first task was skipped or failed.
    pub why: Option<String>,
    /// The end.
    pub ended_at: Option<Timestamp>,
    /// The reason why the job ended before it had acted on every item.
    pub stopped: Option<String>,
}

impl Job {
    /// The number of items that were acted on.
    #[must_use]
    pub const fn done(&self) -> u32 {
        self.succeeded + self.skipped + self.failed
    }

    /// The number of the next part; `None` after the end.
    #[must_use]
    pub fn part(&self) -> Option<u16> {
        let part = usize::try_from(self.done()).unwrap_or(usize::MAX) / PART;
        if self.ended_at.is_some() { None } else { u16::try_from(part).ok() }
    }

    /// The job after a part, or at its creation if it has no items.
    #[must_use]
    pub fn after(mut self, outcomes: &[Outcome], now: Timestamp) -> Self {
        for outcome in outcomes {
            match outcome {
                Outcome::Succeeded => self.succeeded += 1,
                Outcome::Erased(erased) => {
                    self.succeeded += 1;
                    *self.erased.get_or_insert_default() += *erased;
                }
                Outcome::Skipped => self.skipped += 1,
                Outcome::Failed => self.failed += 1,
            }
        }
        if self.done() >= self.total && self.ended_at.is_none() {
            self.ended_at = Some(now);
            self.reason = None;
        }
        self
    }

    /// The job, which acts on no further item; one that has ended stays as it is.
    #[must_use]
    pub fn stopped(mut self, why: String, now: Timestamp) -> Self {
        if self.ended_at.is_none() {
            self.ended_at = Some(now);
            self.reason = None;
            self.stopped = Some(why);
        }
        self
    }
}

/// Passes if a job may act on `matched` items.
///
/// # Errors
/// [`Error::InvalidState`] if the caller expected another number, [`Error::Invalid`] if there are more
/// than [`MAX_ITEMS`].
pub fn check(matched: usize, expect: Option<u64>) -> Result<(), Error> {
    if let Some(expect) = expect.filter(|expect| *expect != matched as u64) {
        return Err(Error::InvalidState(format!(
            "the filter matches {matched} items, not {expect}: nothing was done"
        )));
    }
    if matched > MAX_ITEMS {
        let says = format!("filter must match at most {MAX_ITEMS} items, and matches {matched}");
        return Err(Error::invalid("filter", Rule::Length, says));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1);

    fn job(total: u32) -> Job {
        Job {
            id: BulkId::from_u128(1 << 10),
            action: Action::Cancel,
            kind: Kind::Tasks,
            priority: None,
            reason: None,
            account: "usr_1".into(),
            key: None,
            total,
            succeeded: 0,
            skipped: 0,
            failed: 0,
            erased: None,
            ended_at: None,
            stopped: None,
            why: None,
        }
    }

    #[test]
    fn the_report_of_an_erasure_is_the_sum_of_its_parts() {
        let part = Erased { executions: 1, tasks: 3, signals: 1 };
        let erased = Job { action: Action::Erase, ..job(3) }
            .after(&[Outcome::Erased(part), Outcome::Skipped], NOW)
            .after(&[Outcome::Erased(part)], NOW);
        let sum = Erased { executions: 2, tasks: 6, signals: 2 };
        assert_eq!((erased.erased, erased.succeeded, erased.skipped), (Some(sum), 2, 1));
    }

    #[test]
    fn another_number_than_expected_is_refused_and_so_are_too_many() {
        assert_eq!(check(3, Some(3)), Ok(()));
        assert_eq!(check(3, None), Ok(()));
        assert!(matches!(check(3, Some(4)), Err(Error::InvalidState(_))));
        assert!(matches!(check(MAX_ITEMS + 1, None), Err(Error::Invalid(_))));
    }

    #[test]
    fn a_job_that_was_stopped_counts_what_was_under_way_and_stays_stopped() {
        let stopped = job(100).stopped("by ann".into(), NOW);
        assert_eq!(stopped.part(), None);
        let later = Timestamp::from_millis(2);
        let counted =
            stopped.after(&[Outcome::Succeeded; 64], later).stopped("again".into(), later);
        assert_eq!((counted.done(), counted.ended_at), (64, Some(NOW)));
        assert_eq!(counted.stopped.as_deref(), Some("by ann"));
        let whole = job(1).after(&[Outcome::Succeeded], NOW).stopped("too late".into(), later);
        assert_eq!(whole.stopped, None);
    }

    #[test]
    fn a_job_without_tasks_ends_at_once() {
        assert_eq!(job(0).after(&[], NOW).ended_at, Some(NOW));
    }

    proptest! {
        #[test]
        fn the_parts_follow_each_other_and_the_job_ends_with_the_last(total in 1_usize..1_000) {
            let mut job = job(u32::try_from(total).expect("small"));
            let parts: Vec<_> = (0..total).collect();
            for (number, part) in parts.chunks(PART).enumerate() {
                prop_assert_eq!(job.part().map(usize::from), Some(number));
                let outcomes: Vec<_> = part
                    .iter()
                    .map(|at| [Outcome::Succeeded, Outcome::Skipped, Outcome::Failed][at % 3])
                    .collect();
                job = job.after(&outcomes, NOW);
            }
            prop_assert_eq!(job.part(), None);
            prop_assert_eq!(job.done() as usize, total);
        }
    }
}
