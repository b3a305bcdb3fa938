//! The figures of batches that move: what is spent, what waits, and how fast rows end.
//!
//! They are in memory. What is spent is added when a result is durable; a start counts it anew for batches that
//! have not ended, before anything moves.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use callboard_domain::Timestamp;
use callboard_domain::batch::Spent;
use callboard_domain::budget::Money;
use callboard_domain::id::{Environment, TemplateBatchId};
use callboard_domain::usage::Usage;

type Key = (Environment, TemplateBatchId);

/// The samples of the rate: one a second.
const SAMPLES: usize = 60;

/// The figures of one batch.
#[derive(Debug, Default)]
struct Live {
    /// What was spent when it was last counted or written; `None` if the stored row says so.
    base: Option<Spent>,
    since: Spent,
    pending: Option<u32>,
    /// The number of rows that had ended, at some instants.
    samples: VecDeque<(Timestamp, u32)>,
    moved: bool,
    /// The reason why rows are put off.
    put_off: Option<String>,
}

/// The batches of this node.
#[derive(Debug, Default)]
pub(crate) struct LiveBatches {
    batches: Mutex<HashMap<Key, Live>>,
    /// The lock of whoever begins an upload, so that one key makes one batch.
    pub(crate) creating: tokio::sync::Mutex<()>,
}

impl LiveBatches {
    fn batches(&self) -> MutexGuard<'_, HashMap<Key, Live>> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, key: Key, change: impl FnOnce(&mut Live) -> T) -> T {
        change(self.batches().entry(key).or_default())
    }

    /// Adds the usage of a result, which is durable.
    pub(crate) fn spend(&self, key: Key, before: Usage, after: Usage) {
        let nanos = |usage: Usage| Money::from_usd(usage.total_cost).as_nanos();
        let more = Spent {
            cost: Money::from_nanos(nanos(after).saturating_sub(nanos(before))),
            input: after.input.saturating_sub(before.input),
            output: after.output.saturating_sub(before.output),
            price_unknown: after.price_unknown,
            saved: Money::ZERO,
        };
        self.change(key, |live| live.since = live.since.plus(more));
    }

    /// Adds the cost of answers that were taken over, which is durable.
    pub(crate) fn save(&self, key: Key, saved: Money) {
        self.change(key, |live| live.since.saved += saved);
    }

    /// What is spent, if the stored row says `stored`.
    pub(crate) fn spent(&self, key: Key, stored: Spent) -> Spent {
        let batches = self.batches();
        batches.get(&key).map_or(stored, |live| live.base.unwrap_or(stored).plus(live.since))
    }

    /// The same, to be written.
    pub(crate) fn fold(&self, key: Key, stored: Spent) -> Spent {
        self.change(key, |live| {
            let all = live.base.unwrap_or(stored).plus(std::mem::take(&mut live.since));
            live.base = Some(all);
            all
        })
    }

    /// Replaces what is spent by what was counted.
    pub(crate) fn put_spent(&self, key: Key, spent: Spent) {
        self.change(key, |live| (live.base, live.since) = (Some(spent), Spent::default()));
    }

    /// The number of rows that wait to be started; `None` if the stored row says so.
    pub(crate) fn pending(&self, key: Key) -> Option<u32> {
        self.batches().get(&key).and_then(|live| live.pending)
    }

    pub(crate) fn put_pending(&self, key: Key, pending: u32) {
        self.change(key, |live| live.pending = Some(pending));
    }

    /// Notes how many rows have ended; while none is started, there is no rate.
    pub(crate) fn sample(&self, key: Key, now: Timestamp, ended: u32, runs: bool) {
        self.change(key, |live| {
            let before = live.samples.back().map(|(_, ended)| *ended);
            live.moved = before != Some(ended);
            if !runs {
                live.samples.clear();
                return;
            }
            live.samples.push_back((now, ended));
            while live.samples.len() > SAMPLES {
                live.samples.pop_front();
            }
        });
    }

    /// True if the last sample differs from the one before.
    pub(crate) fn has_moved(&self, key: Key) -> bool {
        self.batches().get(&key).is_some_and(|live| live.moved)
    }

    /// The rows that end in a minute, over the last one.
    pub(crate) fn rate(&self, key: Key, now: Timestamp, ended: u32) -> Option<f64> {
        let batches = self.batches();
        let (since, before) = *batches.get(&key)?.samples.front()?;
        let seconds = now.since(since).as_secs_f64();
        let more = ended.saturating_sub(before);
        (seconds >= 1.0).then(|| f64::from(more) * 60.0 / seconds)
    }

    /// Says why rows are put off; `None` once they are not.
    pub(crate) fn put_off(&self, key: Key, why: Option<String>) {
        self.change(key, |live| live.put_off = why);
    }

    /// The reason why rows are put off.
    pub(crate) fn why_put_off(&self, key: Key) -> Option<String> {
        self.batches().get(&key).and_then(|live| live.put_off.clone())
    }

    /// True if rows are put off.
    pub(crate) fn is_put_off(&self, key: Key) -> bool {
        self.batches().get(&key).is_some_and(|live| live.put_off.is_some())
    }

    /// Forgets a batch that was removed.
    pub(crate) fn forget(&self, key: Key) {
        self.batches().remove(&key);
    }
}
