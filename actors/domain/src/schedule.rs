//! Schedules: work that starts at instants of a timetable.
//!
//! ```text
//!   timetable ─▶ instants ─▶ due ─▶ catch-up: which of them run ─▶ overlap: now, later or not
//!                              ▲
//!                 the cursor: everything up to it is decided, and never again
//! ```
//!
//! An occurrence is an instant of its schedule. The cursor moves in the commit that starts the work, and
//! never back, so an occurrence happens once over crashes and jumps of the clock. Deliberately absent:
//! the clock, and the start of the work.

mod due;
mod occurrence;
mod running;
#[cfg(test)]
mod tests;
mod timetable;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Timestamp;
use crate::id::{ExecutionId, ScheduleId, TaskId};
use crate::names::names;

pub use due::{Due, MAX_CAUGHT_UP, ON_TIME};
pub use occurrence::Occurrence;
pub use running::Running;
pub use timetable::{Timetable, TimetableError};

/// The longest name of a schedule, in characters.
pub const MAX_NAME: usize = 100;
/// The longest cron expression, in bytes.
pub const MAX_CRON: usize = 256;
/// The longest random delay, in milliseconds.
pub const MAX_JITTER_MS: u64 = 3_600_000;
/// The most occurrences that wait for the end of a run.
pub const MAX_QUEUED: usize = 50;
/// The most runs of a schedule that are known to be under way; beyond it occurrences are skipped.
pub const MAX_RUNNING: usize = 100;

/// The reason why the occurrences that a deleted schedule leaves over do not run.
pub const DELETED: &str = "the schedule was deleted before the occurrence started";
const PAUSED_IN_QUEUE: &str =
    "the schedule was paused while the occurrence waited for an earlier run";
const PAUSED_IN_DELAY: &str = "the schedule was paused during the occurrence's delay (jitterMs)";
const MOVED: &str = "cron, at or timezone was changed during the occurrence's delay (jitterMs)";

names! {
    /// The policy for an occurrence during an earlier run.
    Overlap {
        /// The occurrence is left out.
        Skip = "skip",
        /// The occurrence waits until the runs before it have ended.
        Queue = "queue",
        /// The earlier runs are cancelled.
        CancelRunning = "cancel_running",
        /// The run starts beside the runs before it.
        Allow = "allow",
    }
}

names! {
    /// The missed occurrences, passed while the service could not start them, that are made up for.
    CatchUp {
        /// No occurrence.
        None = "none",
        /// The last occurrence.
        Last = "last",
        /// All occurrences, the last hundred at most.
        All = "all",
    }
}

/// The instants of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timing {
    /// A cron expression of five fields, read in a time zone.
    Cron {
        /// The expression.
        cron: String,
        /// The IANA name of the time zone.
        zone: String,
    },
    /// One instant.
    At(Timestamp),
}

/// The settings of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The name, for people.
    pub name: String,
    /// The instants.
    pub timing: Timing,
    /// The policy for an occurrence during an earlier run.
    pub overlap: Overlap,
    /// The missed occurrences that are made up for.
    pub catch_up: CatchUp,
    /// The longest random delay of an occurrence, in milliseconds.
    pub jitter_ms: u64,
    /// False while the schedule is paused.
    pub enabled: bool,
}

/// The work that an occurrence has started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Started {
    /// A task.
    Task(TaskId),
    /// An execution.
    Execution(ExecutionId),
}

names! {
    /// The outcome of an occurrence.
    Outcome {
        /// The occurrence started its work.
        Started = "started",
        /// The occurrence waits for the end of an earlier run.
        Queued = "queued",
        /// An earlier run was under way.
        Skipped = "skipped",
        /// The occurrence passed while the service could not start it, and is not made up for.
        Missed = "missed",
        /// The occurrence's work could not be started.
        Failed = "failed",
    }
}

/// The decision about an occurrence whose time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The occurrence's work starts.
    Start,
    /// The occurrence's work starts, and the runs under way are cancelled.
    CancelAndStart,
    /// The occurrence waits for the end of the runs under way.
    Queue,
    /// The occurrence is left out.
    Skip,
}

/// A schedule after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The schedule.
    pub schedule: Schedule,
    /// The occurrences whose time had come and that will not run, with the reason.
    pub dropped: Vec<(Timestamp, &'static str)>,
}

impl Overlap {
    /// The decision about an occurrence, with this number of runs under way and of occurrences waiting.
    #[must_use]
    pub const fn decide(self, running: usize, queued: usize) -> Decision {
        match self {
            Self::Allow if running >= MAX_RUNNING => Decision::Skip,
            Self::Allow => Decision::Start,
            Self::Skip | Self::Queue | Self::CancelRunning if running == 0 && queued == 0 => {
                Decision::Start
            }
            Self::Skip => Decision::Skip,
            Self::Queue if queued >= MAX_QUEUED => Decision::Skip,
            Self::Queue => Decision::Queue,
            Self::CancelRunning => Decision::CancelAndStart,
        }
    }

    /// True if the end of one of this number of runs can change the decision about an occurrence.
    #[must_use]
    pub const fn depends_on_ends(self, running: usize) -> bool {
        match self {
            Self::Allow => running >= MAX_RUNNING,
            Self::Skip | Self::Queue | Self::CancelRunning => running > 0,
        }
    }
}

/// A schedule: its settings, and its progress through its occurrences.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// The identifier.
    pub id: ScheduleId,
    /// The account that gave the target, in whose name the work starts.
    pub account: String,
    /// The settings.
    pub settings: Settings,
    /// Changes since creation: the version of the resource in events.
    pub version: u64,
    /// The instant of the last change.
    pub updated_at: Timestamp,
    /// The last instant up to which every occurrence is decided.
    pub cursor: Timestamp,
    /// The next occurrence, without jitter; `None` if there is none, or it is paused.
    pub next: Option<Timestamp>,
    /// The occurrence after `next`, before which the delay of `next` ends; known if there is a delay.
    pub following: Option<Timestamp>,
    /// The occurrence that started work last.
    pub last_started: Option<Timestamp>,
    /// The runs that are not known to have ended.
    #[serde(default, skip_serializing_if = "Running::is_empty")]
    pub running: Running,
    /// The occurrences that wait for the end of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queued: Vec<Timestamp>,
}

impl Schedule {
    /// A schedule made at `now`.
    #[must_use]
    pub fn created(
        id: ScheduleId,
        account: String,
        settings: Settings,
        timetable: &Timetable,
        now: Timestamp,
    ) -> Self {
        let blank = Self {
            id,
            account,
            settings,
            version: 1,
            updated_at: now,
            cursor: now,
            next: None,
            following: None,
            last_started: None,
            running: Running::default(),
            queued: Vec::new(),
        };
        blank.planned(timetable)
    }

    /// The schedule with other settings from `now` on, once everything that was due is decided. Occurrences that
    /// passed while it was paused are over. An occurrence that is delayed or waits for a run goes with the
    /// new settings, or is dropped.
    #[must_use]
    pub fn changed(&self, settings: Settings, timetable: &Timetable, now: Timestamp) -> Changed {
        let delayed = self.next.filter(|next| *next <= now);
        let is_paused = !settings.enabled;
        let is_moved = settings.timing != self.settings.timing;
        let goes_on = self.settings.enabled && !is_paused && !is_moved;
        let mut dropped = Vec::new();
        let mut next = Self {
            settings,
            version: self.version + 1,
            updated_at: now,
            // The cursor is ahead of a clock that jumped back.
            cursor: if goes_on { self.cursor } else { self.cursor.max(now) },
            ..self.clone()
        };
        if is_paused {
            let queued = std::mem::take(&mut next.queued);
            dropped.extend(queued.into_iter().map(|at| (at, PAUSED_IN_QUEUE)));
        }
        let why = if is_paused { PAUSED_IN_DELAY } else { MOVED };
        dropped.extend(delayed.filter(|_| !goes_on).map(|at| (at, why)));
        Changed { schedule: next.planned(timetable), dropped }
    }

    /// The occurrences that end with the schedule at `now`: those that wait, and one that is delayed.
    pub fn left_over(&self, now: Timestamp) -> impl Iterator<Item = Timestamp> {
        self.queued.iter().copied().chain(self.next.filter(|next| *next <= now))
    }

    /// The schedule with its next occurrence by this timetable: another one than before if the data of the
    /// time zone are others.
    #[must_use]
    pub fn planned(mut self, timetable: &Timetable) -> Self {
        let is_enabled = self.settings.enabled;
        self.next = timetable.next_after(self.cursor).filter(|_| is_enabled);
        let is_delayed = self.settings.jitter_ms > 0;
        self.following =
            self.next.filter(|_| is_delayed).and_then(|next| timetable.next_after(next));
        self
    }

    /// The runs and occurrences in the way of another occurrence, as the subject of a sentence.
    #[must_use]
    pub fn in_the_way(&self) -> String {
        let runs = self.running.of(self.id);
        let newest = runs.iter().max_by_key(|(at, _)| *at).map(|(_, run)| match run {
            Started::Task(id) => format!("task {id}"),
            Started::Execution(id) => format!("execution {id}"),
        });
        let more = runs.len().saturating_sub(1);
        match newest {
            Some(newest) if more == 0 => format!("{newest} is in progress"),
            Some(newest) => format!("{newest} and {more} more are in progress"),
            None => "an earlier occurrence waits".to_owned(),
        }
    }

    /// The reason why an occurrence is left out.
    #[must_use]
    pub fn reason_to_skip(&self) -> String {
        let why = match self.settings.overlap {
            Overlap::Queue => {
                format!(", and {} occurrences wait, which is the limit", self.queued.len())
            }
            Overlap::Allow => ", which is the limit".to_owned(),
            Overlap::Skip | Overlap::CancelRunning => String::new(),
        };
        self.in_the_way() + &why
    }

    /// The end of an occurrence's delay: random, but the same whenever it is asked for, and before the
    /// occurrence that follows it.
    #[must_use]
    pub fn starts_at(&self, at: Timestamp, following: Option<Timestamp>) -> Timestamp {
        at.after(due::delay(self.id, (at, following), self.settings.jitter_ms))
    }

    /// The wake-up for the next occurrence.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Timestamp> {
        self.next.map(|next| self.starts_at(next, self.following))
    }

    /// The occurrences whose time has come, and those of them that run.
    #[must_use]
    pub fn due(&self, timetable: &Timetable, now: Timestamp) -> Option<Due> {
        due::due(self, timetable, now)
    }

    /// The schedule once everything up to `cursor` is decided.
    #[must_use]
    pub fn decided(&self, cursor: Timestamp, timetable: &Timetable) -> Self {
        let next =
            Self { version: self.version + 1, cursor: self.cursor.max(cursor), ..self.clone() };
        next.planned(timetable)
    }
}
