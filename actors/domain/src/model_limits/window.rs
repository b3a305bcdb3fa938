//! The calls of the last minute, in steps of ten milliseconds.

use std::collections::VecDeque;

use super::reported::ExternalUse;
use super::{Demand, ModelLimits};
use crate::rate::WINDOW_MS;
use crate::worker::Monotonic;

/// The time beyond a minute for which an entry counts: two calls need different times to their provider.
const SKEW_MS: u64 = 500;
/// Calls that begin within this time share an entry, so a window has at most 6,050 of them.
const GRAIN_MS: u64 = 10;

/// A number of requests and tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Load {
    pub(super) requests: u64,
    pub(super) input: u64,
    pub(super) output: u64,
}

impl Load {
    /// One request without tokens.
    pub(super) const REQUEST: Self = Self { requests: 1, input: 0, output: 0 };

    const fn tokens(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(other.requests),
            input: self.input.saturating_sub(other.input),
            output: self.output.saturating_sub(other.output),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// The beginning of the entry, in milliseconds, a multiple of the grain.
    at: u64,
    load: Load,
}

impl Entry {
    const fn ends(&self) -> u64 {
        self.at + GRAIN_MS + WINDOW_MS + SKEW_MS
    }
}

/// The entries, oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Window {
    entries: VecDeque<Entry>,
    sum: Load,
}

impl Window {
    pub(super) const fn sum(&self) -> Load {
        self.sum
    }

    pub(super) fn evict(&mut self, now: Monotonic) {
        while let Some(oldest) = self.entries.front().filter(|oldest| oldest.ends() <= now.0) {
            self.sum = self.sum.minus(oldest.load);
            self.entries.pop_front();
        }
    }

    pub(super) fn add(&mut self, at: Monotonic, load: Load) {
        self.sum = self.sum.plus(load);
        let at = grain(at);
        match self.entries.binary_search_by_key(&at, |entry| entry.at) {
            Ok(index) => self.entries[index].load = self.entries[index].load.plus(load),
            Err(index) => self.entries.insert(index, Entry { at, load }),
        }
    }

    /// Replaces a part of an entry; false if the entry is gone.
    pub(super) fn change(&mut self, at: Monotonic, from: Load, to: Load) -> bool {
        let at = grain(at);
        let Ok(index) = self.entries.binary_search_by_key(&at, |entry| entry.at) else {
            return false;
        };
        let load = &mut self.entries[index].load;
        *load = load.minus(from).plus(to);
        self.sum = self.sum.minus(from).plus(to);
        true
    }

    /// The first instant from `now` on at which the demand fits, if nothing else begins. A demand
    /// above a limit fits once nothing else counts.
    pub(super) fn room_at(
        &self,
        limits: ModelLimits,
        foreign: &ExternalUse,
        demand: Demand,
        now: Monotonic,
    ) -> Monotonic {
        let Demand { input, output, .. } = demand;
        let both = input.saturating_add(output);
        let at = |limit: Option<u64>, need, of, foreign| {
            limit.map(|limit| self.fits_at(Metric { limit, need, of, foreign }, now))
        };
        let earliest = [
            at(
                limits.requests_per_minute,
                demand.requests(),
                |load| load.requests,
                foreign.requests,
            ),
            at(limits.input_tokens_per_minute, input, |load| load.input, foreign.input),
            at(limits.output_tokens_per_minute, output, |load| load.output, foreign.output),
            at(limits.tokens_per_minute, both, Load::tokens, foreign.tokens),
        ];
        earliest.into_iter().flatten().max().unwrap_or(now)
    }

    fn fits_at(&self, metric: Metric, now: Monotonic) -> Monotonic {
        let Metric { limit, need, of, foreign } = metric;
        let room = limit.saturating_sub(need.min(limit));
        let foreign = foreign.filter(|(_, until)| *until > now);
        let fits = |own: u64, at: Monotonic| {
            let others = foreign.filter(|(_, until)| *until > at).map_or(0, |(load, _)| load);
            own.saturating_add(others) <= room
        };
        let mut own = of(&self.sum);
        if fits(own, now) {
            return now;
        }
        // The foreign load ends in between: that may be the instant.
        let foreign_ends = foreign.map(|(_, until)| until);
        for entry in &self.entries {
            let at = Monotonic(entry.ends().max(now.0));
            if let Some(ends) = foreign_ends.filter(|ends| *ends <= at && own <= room) {
                return ends;
            }
            own = own.saturating_sub(of(&entry.load));
            if fits(own, at) {
                return at;
            }
        }
        foreign_ends.unwrap_or(now)
    }
}

/// One limit, and a call's need of it.
#[derive(Clone, Copy)]
struct Metric {
    limit: u64,
    need: u64,
    /// The amount in a load.
    of: fn(&Load) -> u64,
    /// The use by others, and its end.
    foreign: Option<(u64, Monotonic)>,
}

const fn grain(at: Monotonic) -> u64 {
    at.0 - at.0 % GRAIN_MS
}
