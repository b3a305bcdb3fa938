//! Runs whose end a schedule waits for, so that their commits cost others nothing.
//!
//! The watches are in memory only: a start of the server wakes every schedule with waiting occurrences,
//! which watches its runs again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use callboard_domain::id::Environment;
use callboard_domain::schedule::Started;
use foldhash::HashMap;

use crate::kernel::address::ScheduleAddress;

/// The runs that schedules wait for.
#[derive(Debug, Default)]
pub(crate) struct RunWatch {
    count: AtomicUsize,
    runs: Mutex<HashMap<(Environment, Started), ScheduleAddress>>,
}

impl RunWatch {
    /// Watches a run for a schedule.
    pub(crate) fn watch(&self, run: (Environment, Started), schedule: ScheduleAddress) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.insert(run, schedule);
        self.count.store(runs.len(), Ordering::Release);
    }

    /// The schedule that waits for this run, which has ended.
    pub(crate) fn ended(&self, run: (Environment, Started)) -> Option<ScheduleAddress> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let schedule = runs.remove(&run);
        self.count.store(runs.len(), Ordering::Release);
        schedule
    }
}
