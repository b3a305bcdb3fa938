//! Bulk jobs: one action on every task that a filter matched.
//!
//! ```text
//!   filter ─▶ the identifiers that match, frozen ─▶ parts of 64 ─▶ each acted on, then counted in one commit
//! ```
//!
//! A crash in the middle of a part repeats that part, so every action must be safe to repeat.
//! Deliberately absent: an action that approves, because a person looks at each output that passes,
//! and the store.

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::error::{Error, Rule};
use crate::id::BulkId;
use crate::names::names;
use crate::task::Status;

/// The most tasks of one job.
pub const MAX_ITEMS: usize = 100_000;
/// The tasks that are acted on between two commits of the progress.
pub const PART: usize = 64;
/// The most jobs that have not ended, of an environment.
pub const MAX_RUNNING: usize = 100;
/// The longest reason of a rejection, in characters.
pub const MAX_REASON: usize = 1_000;
/// The jobs that are remembered after their end, of an environment.
pub const KEPT: usize = 1_000;

names! {
    /// The action of a job.
    Action {
        /// Cancels tasks that have not ended.
        Cancel = "cancel",
        /// Submits tasks anew that failed, were cancelled or were rejected.
        Retry = "retry",
        /// Gives tasks that wait for a lease another priority.
        Reprioritize = "reprioritize",
        /// Rejects outputs that wait for a reviewer.
        Reject = "reject",
    }
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
        }
    }
}

/// The outcome of the action on one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The task is as the action wants it.
    Succeeded,
    /// The state of the task does not permit the action, or the task is gone.
    Skipped,
    /// The action was refused, or did not come about.
    Failed,
}

/// A job and its progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The identifier.
    pub id: BulkId,
    /// The action.
    pub action: Action,
    /// The new priority, of [`Action::Reprioritize`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// The reason of [`Action::Reject`]; `None` after the end, when the approvals have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The account that asked for the job, and that new tasks belong to.
    pub account: String,
    /// The idempotency key and the body of the request, as digests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<(String, String)>,
    /// The tasks that matched.
    pub total: u32,
    /// The tasks that are as the action wants them.
    pub succeeded: u32,
    /// The tasks that the action does not fit.
    pub skipped: u32,
    /// The tasks on which the action failed.
    pub failed: u32,
    /// The reason why tasks that matched do not count, or why the first task was skipped or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The reason why the job ended before it had acted on every task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}

impl Job {
    /// The number of tasks that were acted on.
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

    /// The job after a part, or at its creation if it has no tasks.
    #[must_use]
    pub fn after(mut self, outcomes: &[Outcome], now: Timestamp) -> Self {
        for outcome in outcomes {
            match outcome {
                Outcome::Succeeded => self.succeeded += 1,
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

    /// The job, which acts on no further task; one that has ended stays as it is.
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

/// Passes if a job may act on `matched` tasks.
///
/// # Errors
/// [`Error::InvalidState`] if the caller expected another number, [`Error::Invalid`] if there are more
/// than [`MAX_ITEMS`].
pub fn check(matched: usize, expect: Option<u64>) -> Result<(), Error> {
    if let Some(expect) = expect.filter(|expect| *expect != matched as u64) {
        return Err(Error::InvalidState(format!(
            "the filter matches {matched} tasks, not {expect}: nothing was done"
        )));
    }
    if matched > MAX_ITEMS {
        let says = format!("filter must match at most {MAX_ITEMS} tasks, and matches {matched}");
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
            priority: None,
            reason: None,
            account: "usr_1".into(),
            key: None,
            total,
            succeeded: 0,
            skipped: 0,
            failed: 0,
            ended_at: None,
            stopped: None,
            why: None,
        }
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
