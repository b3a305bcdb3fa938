//! The clocks of a model run: those of a machine, whose wall clock is set and which sleeps, and those of each start of
//! the process on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use callboard_domain::Timestamp;
use callboard_domain::worker::Monotonic;
use tokio::time::Instant;

use crate::kernel::clock::ProcessTime;
use crate::kernel::ports::Clock;

/// The wall-clock time at the start of a run, in milliseconds.
const BEGINNING: u64 = 1_800_000_000_000;

/// The clocks of the machine.
#[derive(Debug)]
pub(super) struct Machine {
    began: Instant,
    /// The time for which the machine slept, in milliseconds.
    slept: AtomicU64,
    /// The time by which the wall clock was set, in milliseconds.
    set: AtomicI64,
    /// The latest time that any clock showed before one was set.
    latest: AtomicU64,
}

impl Machine {
    pub(super) fn new() -> Arc<Self> {
        let (slept, set) = (AtomicU64::new(0), AtomicI64::new(0));
        Arc::new(Self { began: Instant::now(), slept, set, latest: AtomicU64::new(0) })
    }

    fn running(&self) -> u64 {
        let awake = u64::try_from(self.began.elapsed().as_millis()).expect("hours");
        awake + self.slept.load(Ordering::SeqCst)
    }

    fn wall_millis(&self) -> i64 {
        (BEGINNING + self.running()).cast_signed() + self.set.load(Ordering::SeqCst)
    }

    /// The wall clock.
    pub(super) fn wall(&self) -> Timestamp {
        Timestamp::from_millis(self.wall_millis().unsigned_abs())
    }

    /// The machine sleeps: its clocks go on, but for that of intervals.
    pub(super) fn sleep(&self, millis: u64) {
        self.slept.fetch_add(millis, Ordering::SeqCst);
    }

    /// Somebody sets the wall clock, while the clock of the process shows `now`.
    pub(super) fn set(&self, by: i64, now: Timestamp) {
        self.seen(now);
        self.set.fetch_add(by, Ordering::SeqCst);
        self.seen(now);
    }

    /// Remembers what the clocks show now.
    pub(super) fn seen(&self, now: Timestamp) {
        let now = now.max(self.wall()).as_millis();
        self.latest.fetch_max(now, Ordering::SeqCst);
    }

    /// The machine sleeps until the clock of the process, which shows `now`, is as late as any ever was: all that
    /// waits is due in time.
    pub(super) fn catch_up(&self, now: impl Fn() -> Timestamp) {
        self.seen(now());
        let latest = Timestamp::from_millis(self.latest.load(Ordering::SeqCst));
        // A clock that is ahead of the wall clock goes on by less than the machine sleeps.
        while now() < latest {
            self.sleep(u64::try_from(latest.since(now()).as_millis()).expect("hours"));
        }
    }

    /// The clocks of a process that starts now.
    pub(super) fn process(self: &Arc<Self>) -> ProcessClock {
        let time = ProcessTime::new(self.wall_millis());
        ProcessClock { machine: Arc::clone(self), started: self.running(), time }
    }
}

/// The clocks of a process.
#[derive(Debug)]
pub(super) struct ProcessClock {
    machine: Arc<Machine>,
    started: u64,
    time: ProcessTime,
}

impl Clock for ProcessClock {
    fn now(&self) -> Timestamp {
        self.time.at(self.machine.running() - self.started, || self.machine.wall_millis())
    }

    fn wall(&self) -> Timestamp {
        self.machine.wall()
    }

    fn moment(&self) -> Monotonic {
        Monotonic::default().after(self.machine.began.elapsed())
    }
}
