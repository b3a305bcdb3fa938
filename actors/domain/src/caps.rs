//! The caps of an account: unfinished tasks, schedules and stored bytes (docs/reference/limits.md).
//!
//! The stored bytes are measured now and then, and every byte stored from the beginning of a measurement on is added:
//! the figure is never too low, and too high by no more than the bytes added or removed since then.

use crate::error::Error;

/// The caps, the same for every account; `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Caps {
    /// Tasks that have not ended.
    pub unfinished_tasks: Option<u32>,
    /// Schedules, enabled or not.
    pub schedules: Option<u32>,
    /// The bytes of texts as stored, and of files.
    pub stored_bytes: Option<u64>,
}

/// The unfinished tasks, schedules and stored bytes of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Holdings {
    unfinished: u32,
    schedules: u32,
    /// The stored bytes that the last measurement found.
    measured: u64,
    /// The bytes stored since that measurement began.
    added: u64,
    /// The bytes stored since the start of the measurement under way.
    lately: u64,
}

impl Holdings {
    /// The unfinished tasks, and the schedules.
    #[must_use]
    pub fn unfinished(&self) -> (u64, u64) {
        (self.unfinished.into(), self.schedules.into())
    }

    /// Passes if `tasks` more fit, and counts them; an account at exactly the cap of bytes still passes.
    ///
    /// # Errors
    /// [`Error::TooManyUnfinished`], [`Error::QuotaExceeded`].
    pub fn admit(&mut self, caps: &Caps, tasks: u32) -> Result<(), Error> {
        let unfinished = self.unfinished.saturating_add(tasks);
        if let Some(limit) = caps.unfinished_tasks.filter(|limit| tasks > 0 && unfinished > *limit)
        {
            return Err(Error::TooManyUnfinished { has: self.unfinished, limit });
        }
        if let Some(limit) = caps.stored_bytes.filter(|limit| self.stored() >= *limit) {
            return Err(Error::QuotaExceeded { stored: self.stored(), limit });
        }
        self.unfinished = unfinished;
        Ok(())
    }

    /// Counts tasks that are not refused: those of work that goes on.
    pub fn begin(&mut self, tasks: u32) {
        self.unfinished = self.unfinished.saturating_add(tasks);
    }

    /// A task has ended, or has not come to be.
    pub fn end(&mut self) {
        self.unfinished = self.unfinished.saturating_sub(1);
    }

    /// Passes if one more schedule fits, and counts it.
    ///
    /// # Errors
    /// [`Error::TooManySchedules`].
    pub fn admit_schedule(&mut self, caps: &Caps) -> Result<(), Error> {
        if let Some(limit) = caps.schedules.filter(|limit| self.schedules >= *limit) {
            return Err(Error::TooManySchedules { has: self.schedules, limit });
        }
        self.find_schedule();
        Ok(())
    }

    /// Counts a schedule that is stored.
    pub fn find_schedule(&mut self) {
        self.schedules = self.schedules.saturating_add(1);
    }

    /// A schedule was deleted, belongs to another account, or has not come to be.
    pub fn lose_schedule(&mut self) {
        self.schedules = self.schedules.saturating_sub(1);
    }

    /// Adds stored bytes.
    pub fn store(&mut self, bytes: u64) {
        self.added += bytes;
        self.lately += bytes;
    }

    /// A measurement begins.
    pub fn measurement_begins(&mut self) {
        self.lately = 0;
    }

    /// Ends a measurement, which found this number of bytes.
    pub fn measured(&mut self, bytes: u64) {
        (self.measured, self.added) = (bytes, self.lately);
    }

    /// The bytes that are stored, or somewhat more.
    #[must_use]
    pub const fn stored(&self) -> u64 {
        self.measured + self.added
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPS: Caps =
        Caps { unfinished_tasks: Some(3), schedules: Some(2), stored_bytes: Some(100) };

    #[test]
    fn tasks_fit_up_to_the_cap_and_again_as_others_end() {
        let mut holdings = Holdings::default();
        assert_eq!(holdings.admit(&CAPS, 2), Ok(()));
        let full = Err(Error::TooManyUnfinished { has: 2, limit: 3 });
        assert_eq!(holdings.admit(&CAPS, 2), full, "a refusal counts nothing");
        assert_eq!(holdings.admit(&CAPS, 1), Ok(()));
        assert_eq!(holdings.admit(&CAPS, 0), Ok(()), "a plan is no task");
        holdings.begin(1);
        holdings.end();
        assert!(holdings.admit(&CAPS, 1).is_err());
        holdings.end();
        assert_eq!(holdings.admit(&CAPS, 1), Ok(()));
        assert_eq!(Holdings::default().admit(&Caps::default(), u32::MAX), Ok(()));
    }

    #[test]
    fn schedules_fit_up_to_the_cap_and_again_as_others_go() {
        let mut holdings = Holdings::default();
        holdings.find_schedule();
        assert_eq!(holdings.admit_schedule(&CAPS), Ok(()));
        let full = Err(Error::TooManySchedules { has: 2, limit: 2 });
        assert_eq!(holdings.admit_schedule(&CAPS), full);
        holdings.lose_schedule();
        assert_eq!(holdings.admit_schedule(&CAPS), Ok(()));
        assert_eq!(holdings.admit_schedule(&CAPS), full, "a refusal counts nothing");
        assert_eq!(holdings.admit_schedule(&Caps::default()), Ok(()));
    }

    #[test]
    fn bytes_are_never_counted_too_low_and_are_given_back_by_a_measurement() {
        let mut holdings = Holdings::default();
        holdings.store(99);
        assert_eq!(holdings.admit(&CAPS, 1), Ok(()), "what reaches the cap passes");
        holdings.measurement_begins();
        holdings.store(30);
        let full = Err(Error::QuotaExceeded { stored: 129, limit: 100 });
        assert_eq!(holdings.admit(&CAPS, 1), full);
        // 59 of 99 were removed; the measurement may have seen the 30 or not.
        holdings.measured(40);
        assert_eq!(holdings.stored(), 70);
        assert_eq!(holdings.admit(&CAPS, 1), Ok(()));
        holdings.measurement_begins();
        holdings.measured(70);
        assert_eq!(holdings.stored(), 70);
    }
}
