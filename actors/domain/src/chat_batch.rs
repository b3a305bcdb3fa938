//! Batches in the form of OpenAI's interface: a task for each line of a file.
//!
//! ```text
//!   validating ─▶ in_progress ─▶ finalizing ─▶ completed
//!       │              ├─ the time is over ─▶ finalizing ─▶ expired
//!       │              └─ cancel, or the account has lost its right ─▶ cancelling ─▶ cancelled
//!       ├─ faults ─▶ failed
//!       └─ cancel ─▶ cancelled
//! ```
//!
//! The identifier of a task follows from the batch and the number of its line, so a line becomes one task, however
//! often its submission is tried. Deliberately absent: the notation of the lines, and the tasks.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::batch::{PARTITION_BITS, ROW_BITS, head};
use crate::id::{ChatBatchId, FileId, TaskId};
use crate::names::names;
use crate::{Error, Timestamp};

/// The most lines of a batch.
pub const MAX_LINES: u32 = 100_000;
/// The most bytes of the input file.
pub const MAX_INPUT: u64 = 200_000_000;
/// The most batches of an environment that have not ended.
pub const MAX_OPEN: u32 = 100;
/// The most faults that are kept.
pub const MAX_FAULTS: usize = 100;
/// The shortest and the longest time for the tasks of a batch, in hours.
pub const WINDOW: std::ops::RangeInclusive<u64> = 1..=30 * 24;

names! {
    /// The status of a batch.
    #[derive(PartialOrd, Ord)]
    Status {
        /// The lines are checked.
        Validating = "validating",
        /// The file has faults; no task was made.
        Failed = "failed",
        /// Tasks are submitted and run.
        InProgress = "in_progress",
        /// The answers are written.
        Finalizing = "finalizing",
        /// Every line has its answer.
        Completed = "completed",
        /// The time was over before every line had its answer.
        Expired = "expired",
        /// Tasks are cancelled, then the answers that there are are written.
        Cancelling = "cancelling",
        /// Stopped on request or with its account's right; each line has its answer.
        Cancelled = "cancelled",
    }
}

impl Status {
    /// True if nothing happens to the batch any more.
    #[must_use]
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Failed | Self::Completed | Self::Expired | Self::Cancelled)
    }
}

names! {
    /// The reason why tasks of a batch are cancelled.
    Stop {
        /// On request, or because the account has lost its right.
        Cancelled = "batch_cancelled",
        /// The time is over.
        Expired = "batch_expired",
    }
}

/// A fault of the input file.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineFault {
    /// The fault's name, for programs.
    pub code: String,
    /// The number of the line, from 1; `None` for a fault of the whole.
    pub line: Option<u64>,
    /// The fault, for people.
    pub message: String,
    /// The member of the line.
    pub param: Option<String>,
}

/// The place of the next line to be submitted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The number of lines before it that are not blank.
    pub line: u32,
    /// The number of bytes before it.
    pub offset: u64,
}

/// The lines by their outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Lines with an output.
    pub completed: u32,
    /// Lines that ended without one.
    pub failed: u32,
}

/// The answers of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// The file with the outputs; `None` if there are none.
    pub output: Option<FileId>,
    /// The file with the errors; `None` if there are none.
    pub errors: Option<FileId>,
    /// The lines in them.
    pub counts: Counts,
}

/// The settings of a batch.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The file with the lines.
    pub input: FileId,
    /// The time for the tasks, in hours.
    pub hours: u64,
    /// The time as the client wrote it.
    pub window: String,
    /// Pairs of the client's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// The queue of the tasks, if it is not the default one.
    pub queue: Option<String>,
    /// The priority of the tasks, if it is not the default one.
    pub priority: Option<u8>,
}

/// A batch.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatBatch {
    /// The identifier.
    pub id: ChatBatchId,
    /// The account that the tasks belong to.
    pub account: String,
    /// The settings.
    pub order: Order,
    /// The idempotency key and the body of the request, as digests.
    pub key: Option<(String, String)>,
    /// The status.
    pub status: Status,
    /// The reason why tasks are cancelled, if they are.
    pub stop: Option<Stop>,
    /// The faults of the input file, or the reason of a stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<LineFault>,
    /// The lines that are not blank; 0 until they are checked.
    pub total: u32,
    /// The next line to be submitted.
    pub next: Cursor,
    /// The lines before it of which no task could be made.
    pub refused: u32,
    /// The answers, once they are written.
    pub answers: Answers,
    /// The instants at which the batch took each status.
    pub times: BTreeMap<Status, Timestamp>,
    /// True once the rows of the lines are removed.
    pub cleared: bool,
}

/// Something that happens to a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The file has so many lines, and no fault.
    Validated(u32),
    /// The file has faults.
    Invalid(Vec<LineFault>),
    /// Every line before the place is durable as a task or as a refusal; so many more were refused.
    Submitted(Cursor, u32),
    /// Every line is submitted, and every task has ended.
    TasksEnded,
    /// The time is over.
    Expired,
    /// The batch is to be cancelled, perhaps for this reason.
    Cancel(Option<LineFault>),
    /// The answers are durable.
    Written(Answers),
    /// The rows of the lines are removed.
    Cleared,
}

impl ChatBatch {
    /// A new batch.
    #[must_use]
    pub fn new(
        id: ChatBatchId,
        account: String,
        order: Order,
        key: Option<(String, String)>,
    ) -> Self {
        let status = Status::Validating;
        Self {
            id,
            account,
            order,
            key,
            status,
            stop: None,
            faults: Vec::new(),
            total: 0,
            next: Cursor::default(),
            refused: 0,
            answers: Answers::default(),
            times: BTreeMap::from([(status, id.created_at())]),
            cleared: false,
        }
    }

    /// The end of the time for the tasks.
    #[must_use]
    pub fn expires_at(&self) -> Timestamp {
        self.id.created_at().after(Duration::from_hours(self.order.hours))
    }

    /// True once every line is a task or a refusal.
    #[must_use]
    pub const fn is_submitted(&self) -> bool {
        self.next.line >= self.total
    }

    /// The instant at which the batch took a status.
    #[must_use]
    pub fn at(&self, status: Status) -> Option<Timestamp> {
        self.times.get(&status).copied()
    }

    /// The batch after an event.
    ///
    /// # Errors
    /// [`Error::InvalidState`] if the event does not fit its status; the batch stays as it is.
    pub fn on(&self, event: Event, now: Timestamp) -> Result<Self, Error> {
        use Status as S;
        let mut next = self.clone();
        let status = match (self.status, event) {
            (S::Validating, Event::Validated(total)) => {
                next.total = total;
                S::InProgress
            }
            (S::Validating, Event::Invalid(faults)) => {
                next.faults = faults;
                S::Failed
            }
            (S::Validating, Event::Cancel(fault)) => {
                next.faults.extend(fault);
                next.times.insert(S::Cancelling, now);
                S::Cancelled
            }
            (S::InProgress | S::Cancelling | S::Finalizing, Event::Submitted(place, refused)) => {
                next.next = place;
                next.refused += refused;
                self.status
            }
            (S::InProgress, Event::TasksEnded) if self.is_submitted() => S::Finalizing,
            (S::InProgress, Event::Expired) => {
                next.stop = Some(Stop::Expired);
                S::Finalizing
            }
            (S::InProgress, Event::Cancel(fault)) => {
                next.faults.extend(fault);
                next.stop = Some(Stop::Cancelled);
                S::Cancelling
            }
            (S::Cancelling | S::Cancelled, Event::Cancel(_)) => self.status,
            (S::Cancelling | S::Finalizing, Event::Written(answers)) => {
                next.answers = answers;
                match self.stop {
                    None => S::Completed,
                    Some(Stop::Cancelled) => S::Cancelled,
                    Some(Stop::Expired) => S::Expired,
                }
            }
            (S::Failed | S::Completed | S::Expired | S::Cancelled, Event::Cleared) => {
                next.cleared = true;
                self.status
            }
            (
                S::Validating
                | S::Failed
                | S::InProgress
                | S::Finalizing
                | S::Completed
                | S::Expired
                | S::Cancelling
                | S::Cancelled,
                _,
            ) => {
                let says = format!("batch {} is already {}", self.id, self.status);
                return Err(Error::InvalidState(says));
            }
        };
        if status != self.status {
            next.status = status;
            next.times.insert(status, now);
        }
        Ok(next)
    }
}

/// The task of a line, by its number from 0: the same whenever it is made.
#[must_use]
pub fn task(batch: ChatBatchId, line: u32) -> TaskId {
    let line = u128::from(line) << PARTITION_BITS;
    TaskId::from_u128(head(batch.as_u128()) | line | u128::from(batch.partition()))
}

/// The identifiers of a batch's tasks: the first number, and the one behind the last.
#[must_use]
pub fn tasks(batch: ChatBatchId) -> (u128, u128) {
    let first = head(batch.as_u128());
    (first, first + (1 << (ROW_BITS + PARTITION_BITS)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    fn batch() -> ChatBatch {
        let order = Order {
            input: FileId::from_u128(1),
            hours: 24,
            window: "24h".into(),
            metadata: BTreeMap::new(),
            queue: None,
            priority: None,
        };
        let id = ChatBatchId::from_u128(crate::id::first_at(NOW) | 7 << 10);
        ChatBatch::new(id, "usr_1".into(), order, None)
    }

    fn after(events: &[Event]) -> ChatBatch {
        let on = |batch: ChatBatch, event: &Event| batch.on(event.clone(), NOW).expect("it fits");
        events.iter().fold(batch(), on)
    }

    fn place(line: u32) -> Cursor {
        Cursor { line, offset: u64::from(line) * 10 }
    }

    #[test]
    fn a_batch_completes_once_every_line_is_submitted_and_its_tasks_have_ended() {
        let begun = after(&[Event::Validated(3), Event::Submitted(place(2), 1)]);
        assert!(begun.on(Event::TasksEnded, NOW).is_err(), "a line is left");
        let answers = Answers { output: Some(FileId::from_u128(9)), ..Answers::default() };
        let events = [Event::Submitted(place(3), 1), Event::TasksEnded, Event::Written(answers)];
        let whole =
            events.into_iter().fold(begun, |batch, event| batch.on(event, NOW).expect("it fits"));
        assert_eq!((whole.status, whole.refused, whole.answers), (Status::Completed, 2, answers));
        for status in ["validating", "in_progress", "finalizing", "completed"] {
            assert_eq!(whole.at(Status::parse(status).expect("one")), Some(NOW), "{status}");
        }
        assert!(whole.on(Event::Cancel(None), NOW).is_err(), "it is over");
    }

    #[test]
    fn a_stop_decides_the_end_and_a_second_cancel_changes_nothing() {
        let written = Event::Written(Answers::default());
        let cancelled = after(&[Event::Validated(3), Event::Cancel(None)]);
        assert_eq!(cancelled.on(Event::Cancel(None), NOW), Ok(cancelled.clone()));
        let cancelled = cancelled.on(written.clone(), NOW).expect("it fits");
        assert_eq!(
            (cancelled.status, cancelled.on(Event::Cancel(None), NOW)),
            (Status::Cancelled, Ok(cancelled.clone()))
        );
        let expired = after(&[Event::Validated(3), Event::Expired, written]);
        assert_eq!((expired.status, expired.stop), (Status::Expired, Some(Stop::Expired)));
        assert_eq!(after(&[Event::Cancel(None)]).status, Status::Cancelled);
        let day = Duration::from_hours(24);
        assert_eq!(batch().expires_at().since(NOW), day);
    }

    proptest! {
        #[test]
        fn a_refusal_or_an_end_is_final(events in prop::collection::vec(0_usize..8, 0..12)) {
            let all = [
                Event::Validated(2), Event::Invalid(Vec::new()), Event::Submitted(place(2), 0),
                Event::TasksEnded, Event::Expired, Event::Cancel(None),
                Event::Written(Answers::default()), Event::Cleared,
            ];
            let mut batch = batch();
            for event in events {
                let Ok(next) = batch.on(all[event].clone(), NOW) else { continue };
                prop_assert!(!batch.status.is_over() || next.status == batch.status);
                batch = next;
            }
        }

        #[test]
        fn the_tasks_of_a_batch_are_a_range_in_the_order_of_its_lines(
            line in 0..MAX_LINES - 1, chance in any::<u128>(),
        ) {
            let id = ChatBatchId::from_u128((crate::id::first_at(NOW) | chance >> 48) & !0x3ff | chance & 0xff);
            let (first, end) = tasks(id);
            let task_of = task(id, line);
            prop_assert!((first..end).contains(&task_of.as_u128()));
            prop_assert!(task_of < task(id, line + 1));
            prop_assert_eq!((task_of.partition(), task_of.created_at()), (id.partition(), id.created_at()));
        }
    }
}
