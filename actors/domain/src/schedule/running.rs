//! The runs of a schedule that are under way, in few bytes: a row of the store holds 4 KB.
//!
//! The identifier of a run is made of its schedule and its instant, so the instant is enough.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Started;
use crate::Timestamp;
use crate::id::{ExecutionId, ScheduleId, TaskId};

/// The runs that are not known to have ended, by their instants.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Running {
    #[serde(rename = "t", default, skip_serializing_if = "Vec::is_empty")]
    tasks: Vec<Timestamp>,
    #[serde(rename = "e", default, skip_serializing_if = "Vec::is_empty")]
    executions: Vec<Timestamp>,
}

impl Running {
    /// The number of runs under way.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.tasks.len() + self.executions.len()
    }

    /// True if no run is under way.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The runs, with their instants.
    #[must_use]
    pub fn of(&self, schedule: ScheduleId) -> Vec<(Timestamp, Started)> {
        let task = |at: &Timestamp| (*at, Started::task(schedule, *at));
        let execution = |at: &Timestamp| (*at, Started::execution(schedule, *at));
        self.tasks.iter().map(task).chain(self.executions.iter().map(execution)).collect()
    }

    /// Adds a run.
    pub fn add(&mut self, at: Timestamp, started: Started) {
        match started {
            Started::Task(_) => self.tasks.push(at),
            Started::Execution(_) => self.executions.push(at),
        }
    }
}

impl Started {
    /// The task of an occurrence.
    #[must_use]
    pub fn task(schedule: ScheduleId, at: Timestamp) -> Self {
        Self::Task(TaskId::from_u128(number(schedule, at)))
    }

    /// The execution of an occurrence.
    #[must_use]
    pub fn execution(schedule: ScheduleId, at: Timestamp) -> Self {
        Self::Execution(ExecutionId::from_u128(number(schedule, at)))
    }

    /// The number of the identifier.
    #[must_use]
    pub const fn number(self) -> u128 {
        match self {
            Self::Task(id) => id.as_u128(),
            Self::Execution(id) => id.as_u128(),
        }
    }
}

/// The number of the work of an occurrence: the same whenever it is made.
fn number(schedule: ScheduleId, at: Timestamp) -> u128 {
    let mut hash = Sha256::new();
    hash.update(b"occurrence");
    hash.update(schedule.as_u128().to_be_bytes());
    hash.update(at.as_millis().to_be_bytes());
    let bytes: [u8; 32] = hash.finalize().into();
    let (head, _) = bytes.split_first_chunk().expect("a digest has 32 bytes");
    let chance = u128::from_be_bytes(*head) >> 58;
    (u128::from(at.as_millis()) << 80) | (chance << 10) | u128::from(schedule.partition())
}
