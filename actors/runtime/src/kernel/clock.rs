//! The time of a running process: that of the wall clock at its start, and from then on as much later as has passed.
//!
//! A wall clock that is set while the process runs would end every wait at once, or none for as long as it was put
//! back. The time of the process goes on, and follows the wall clock by [`slew`]; a start takes it as it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use callboard_domain::Timestamp;
use callboard_domain::time::slew;
use callboard_domain::worker::Monotonic;

use crate::kernel::ports::{Clock, Ports, SystemEntropy};

/// The shortest time between two looks at the wall clock, in milliseconds.
const LOOK: u64 = 8;
/// The difference that the log tells of, in milliseconds.
const APART: i64 = 1_000;

/// The clocks of the machine.
#[derive(Debug)]
pub(crate) struct MachineClock {
    started: Running,
    /// The beginning of the clock of intervals, which stands still while the machine sleeps: its workers may
    /// sleep with it, and no lease runs out meanwhile.
    awake_since: tokio::time::Instant,
    time: ProcessTime,
}

impl MachineClock {
    pub(crate) fn new() -> Self {
        Self {
            started: Running::now(),
            awake_since: tokio::time::Instant::now(),
            time: ProcessTime::new(wall()),
        }
    }
}

impl Ports {
    /// The real ones, without mail, webhooks and traces.
    #[must_use]
    pub fn of_this_machine() -> Self {
        let (clock, entropy) = (Arc::new(MachineClock::new()), Arc::new(SystemEntropy));
        Self { clock, entropy, mailer: None, webhooks: None, tracer: None }
    }
}

/// The time of a process, out of the time for which it runs and the wall clock.
#[derive(Debug)]
pub(crate) struct ProcessTime {
    /// The time of the process less the running time, in milliseconds.
    offset: AtomicI64,
    /// The running time at the last look at the wall clock, in milliseconds.
    looked_at: AtomicU64,
    is_apart: AtomicBool,
}

impl ProcessTime {
    /// The time of a process that starts at this time of the wall clock, in milliseconds.
    pub(crate) const fn new(wall: i64) -> Self {
        Self {
            offset: AtomicI64::new(wall),
            looked_at: AtomicU64::new(0),
            is_apart: AtomicBool::new(false),
        }
    }

    /// The time after the process has been running for so many milliseconds; looks at the wall clock now and then.
    pub(crate) fn at(&self, running: u64, wall: impl FnOnce() -> i64) -> Timestamp {
        let looked_at = self.looked_at.load(Ordering::Relaxed);
        let since = running.saturating_sub(looked_at);
        let mine = |at: &AtomicU64| {
            at.compare_exchange(looked_at, running, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        if since >= LOOK && mine(&self.looked_at) {
            self.follow(running, since, wall());
        }
        let millis = self.offset.load(Ordering::Relaxed).saturating_add_unsigned(running);
        Timestamp::from_millis(u64::try_from(millis).unwrap_or(0))
    }

    /// Follows the wall clock.
    fn follow(&self, running: u64, since: u64, wall: i64) {
        let ours = self.offset.load(Ordering::Relaxed).saturating_add_unsigned(running);
        let behind = wall - ours;
        self.offset.fetch_add(slew(behind, since), Ordering::Relaxed);
        let is_apart = behind.abs() >= APART;
        if self.is_apart.swap(is_apart, Ordering::Relaxed) == is_apart {
            return;
        }
        if is_apart {
            tracing::warn!(
                by_ms = behind,
                "the machine's clock was set; the server's time follows it by an eighth, and at once after a restart; \
                 while it is a minute ahead, nothing is removed by its age"
            );
        } else {
            tracing::info!("the server's time is that of the machine's clock again");
        }
    }
}

impl Clock for MachineClock {
    fn now(&self) -> Timestamp {
        self.time.at(self.started.millis(), wall)
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(u64::try_from(wall()).unwrap_or(0))
    }

    fn moment(&self) -> Monotonic {
        Monotonic::default().after(self.awake_since.elapsed())
    }
}

fn wall() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// An instant of a clock that only runs on, while the machine sleeps too.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct Running(rustix::time::Timespec);

#[cfg(target_os = "linux")]
impl Running {
    fn now() -> Self {
        Self(rustix::time::clock_gettime(rustix::time::ClockId::Boottime))
    }

    fn millis(&self) -> u64 {
        let Self(now) = Self::now();
        let (seconds, nanos) = (now.tv_sec - self.0.tv_sec, now.tv_nsec - self.0.tv_nsec);
        u64::try_from(seconds * 1_000 + nanos.div_euclid(1_000_000)).unwrap_or(0)
    }
}

#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
struct Running(tokio::time::Instant);

#[cfg(not(target_os = "linux"))]
impl Running {
    fn now() -> Self {
        Self(tokio::time::Instant::now())
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_process_goes_on_when_the_machines_clock_was_set() {
        let clock = MachineClock::new();
        let began = clock.now();
        assert!(clock.wall().since(began).as_millis() < 1_000);
        // As after a clock that was put back by an hour.
        clock.time.offset.fetch_add(3_600_000, Ordering::Relaxed);
        let later = clock.now();
        clock.time.follow(clock.started.millis(), 1_000, wall());
        let (now, of_machine) = (clock.now(), clock.wall());
        assert!(later.since(began).as_secs() >= 3_599 && now.since(of_machine).as_secs() >= 3_599);
        assert!(later.since(now).as_millis() <= 125);
        assert!(clock.time.is_apart.load(Ordering::Relaxed));
        clock.time.offset.fetch_sub(3_600_000, Ordering::Relaxed);
        clock.time.follow(clock.started.millis(), 1_000, wall());
        assert!(!clock.time.is_apart.load(Ordering::Relaxed));
    }
}
