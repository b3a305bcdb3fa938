//! Numbers that many threads add to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use callboard_domain::Timestamp;

use super::{QUANTILES, WINDOW};

/// A sum that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The number of values up to each bound, and their sum.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    /// The counts, one more than bounds: the last is of the values beyond.
    counts: Box<[Counter]>,
    sum: Counter,
}

/// A histogram's state, in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// Each bound, and the number of values up to it and beyond the one before; the last bound is
    /// infinite.
    pub buckets: Vec<(f64, u64)>,
    /// The number of values.
    pub count: u64,
    /// The sum of values.
    pub sum: f64,
}

impl Histogram {
    /// No value yet.
    #[must_use]
    pub fn new(bounds: &'static [u64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| Counter::default()).collect();
        Self { bounds, counts, sum: Counter::default() }
    }

    /// Adds a value.
    pub fn record(&self, value: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket].add(1);
        self.sum.add(value);
    }

    /// The counts and the sum in seconds; `second` is a second in the unit of the values.
    #[must_use]
    pub fn read(&self, second: f64) -> Distribution {
        #[expect(clippy::cast_precision_loss, reason = "exact for 250 years")]
        let seconds = |value: u64| value as f64 / second;
        let bounds = self.bounds.iter().map(|bound| seconds(*bound)).chain([f64::INFINITY]);
        let buckets: Vec<_> = bounds.zip(self.counts.iter().map(Counter::get)).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        Distribution { buckets, count, sum: seconds(self.sum.get()) }
    }
}

/// Durations: their number and sum since the start, and their quantiles within the [`WINDOW`], with an
/// error of at most 1 %.
///
/// Two halves take turns: one fills for half of the window while the other stays as it is.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    window: Mutex<Option<Window>>,
    sum: Counter,
    count: Counter,
}

#[derive(Debug)]
struct Window {
    filling: hdrhistogram::Histogram<u32>,
    full: hdrhistogram::Histogram<u32>,
    since: Timestamp,
}

/// Longer durations count as this one in quantiles, which bounds the memory.
const LONGEST: Duration = Duration::from_hours(30 * 24);

impl Summary {
    pub(crate) fn record(&self, duration: Duration, now: Timestamp) {
        self.sum.add(super::millis(duration));
        self.count.add(1);
        let mut window = self.lock();
        let window = window.get_or_insert_with(|| Window::new(now));
        window.turn(now);
        // Fails only if the histogram cannot grow so far, and up to the longest duration it can.
        let _ = window.filling.record(super::millis(duration.min(LONGEST)));
    }

    /// The quantiles; none if no duration was recorded within the window.
    pub(crate) fn quantiles(&self, now: Timestamp) -> Option<[Duration; QUANTILES.len()]> {
        let mut window = self.lock();
        let window = window.as_mut()?;
        window.turn(now);
        let mut both = window.full.clone();
        both.add(&window.filling).ok()?;
        let quantile = |quantile| Duration::from_millis(both.value_at_quantile(quantile));
        (!both.is_empty()).then(|| QUANTILES.map(quantile))
    }

    pub(crate) fn sum(&self) -> Duration {
        Duration::from_millis(self.sum.get())
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.get()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Window>> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Window {
    fn new(now: Timestamp) -> Self {
        // Two digits: an error of 1 %.
        let empty = || hdrhistogram::Histogram::new(2).expect("two digits are allowed");
        Self { filling: empty(), full: empty(), since: now }
    }

    /// Empties the slots that are older than the window.
    fn turn(&mut self, now: Timestamp) {
        let filled = now.since(self.since);
        if filled < WINDOW / 2 {
            return;
        }
        std::mem::swap(&mut self.filling, &mut self.full);
        self.filling.reset();
        if filled >= WINDOW {
            self.full.reset();
        }
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_a_value_at_the_first_bound_that_it_does_not_exceed() {
        let histogram = Histogram::new(&[10, 100]);
        for value in [0, 10, 11, 100, 101, 5_000] {
            histogram.record(value);
        }
        let Distribution { buckets, count, sum } = histogram.read(1_000.0);
        assert_eq!(buckets, [(0.01, 2), (0.1, 2), (f64::INFINITY, 2)]);
        assert_eq!((count, sum), (6, 5.222));
    }

    #[test]
    fn quantiles_tell_of_the_last_minutes_and_the_sum_of_everything() {
        let (summary, minute) = (Summary::default(), Duration::from_mins(1));
        let start = Timestamp::from_millis(1_000_000);
        assert_eq!(summary.quantiles(start), None);
        for millis in 1..=100 {
            summary.record(Duration::from_millis(millis * 10), start);
        }
        let near = |quantile: Duration, millis: u64| {
            let (found, wanted) = (quantile.as_secs_f64() * 1_000.0, Duration::from_millis(millis));
            (found / (wanted.as_secs_f64() * 1_000.0) - 1.0).abs() <= 0.01
        };
        let [half, most, nearly_all] = summary.quantiles(start).expect("there are some");
        assert!(near(half, 500) && near(most, 900) && near(nearly_all, 990));

        let later = start.after(5 * minute);
        summary.record(minute, later);
        let [half, _, nearly_all] = summary.quantiles(later).expect("both halves");
        assert!(near(half, 510) && near(nearly_all, 1_000));
        let [half, ..] = summary.quantiles(later.after(5 * minute)).expect("the younger half");
        assert!(near(half, 60_000));
        assert_eq!(summary.quantiles(later.after(20 * minute)), None);
        assert_eq!((summary.count(), summary.sum()), (101, Duration::from_millis(110_500)));
        // A clock that goes back loses nothing.
        summary.record(Duration::from_secs(1), start);
        assert!(summary.quantiles(start).is_some());
    }

    #[test]
    fn a_duration_beyond_a_month_is_one_of_a_month() {
        let (summary, now) = (Summary::default(), Timestamp::from_millis(0));
        summary.record(Duration::MAX, now);
        let [half, ..] = summary.quantiles(now).expect("one");
        assert!(half >= LONGEST && half < LONGEST.mul_f64(1.02));
    }
}
