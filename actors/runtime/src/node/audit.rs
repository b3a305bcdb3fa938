//! The audit log in memory: its ends, and the entries that wait to be written.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use callboard_domain::Timestamp;
use callboard_domain::audit::{Ends, Record, RefusalBudget, Refused};

use crate::messages::accounts::Reply;

/// The state of the audit log in memory.
#[derive(Debug, Default)]
pub(crate) struct AuditLog {
    /// `None` before the first use, and after a commit with an unknown outcome.
    pub(crate) ends: Mutex<Option<Ends>>,
    pub(crate) pending: Mutex<Vec<(Record, Reply<()>)>>,
    pub(crate) refusals: Mutex<RefusalBudget>,
    /// The day, since 1970, on which the ends of keys were reported last.
    pub(crate) day: AtomicU64,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AuditLog {
    pub(crate) fn set_ends(&self, ends: Option<Ends>) {
        *lock(&self.ends) = ends;
    }

    /// Puts a record in line; the actor of the accounts writes it.
    pub(crate) fn add(&self, record: Record, reply: Reply<()>) {
        lock(&self.pending).push((record, reply));
    }

    /// True at the first call with this day, since 1970.
    pub(crate) fn begins_day(&self, day: u64) -> bool {
        self.day.swap(day, Ordering::Relaxed) != day
    }

    /// True if a refused sign-in at `now` gets an entry of its own.
    pub(crate) fn admits_refusal(&self, now: Timestamp) -> bool {
        lock(&self.refusals).admit(now) == Refused::Written
    }
}
