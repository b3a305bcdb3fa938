//! How good confidences are, and what another threshold would have cost (PROTOCOL.md 6).
//!
//! Every output that a gate looked at is counted by its template, its step and its confidence, in bins
//! of 0.01; an output of exactly 1 has a bin of its own, the last, so that every threshold that is a
//! multiple of 0.01 lies between two bins. What a threshold would have done is known for the outputs
//! that a reviewer decided on, and estimated for the others: [`Share`] says how.
//!
//! - *Reviewed* is an output that a reviewer let pass, edited it or rejected it.
//! - *Undecided* is one that waits, or whose task ended before a decision, or that a time-out rejected:
//!   the clock is no judge of an output.
//! - *Unreviewed* is whatever nobody decided on: it passed its gate, or is undecided.
//! - Outputs without a confidence are told apart. No threshold has anything to say of them, so they
//!   count in no figure of a threshold.
//!
//! An edit is an approval here: rejections are what a threshold is judged by, and edits are told
//! beside them.
//!
//! Deliberately absent: time. The counts are of everything ever recorded, whichever model, prompt or
//! gate it came from; a threshold for another model needs a track record of its own.

mod backtest;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use backtest::{Backtest, Share, Threshold};

use crate::approval::{Fate, Record, SYSTEM};

/// How many bins there are: one for each hundredth, and one for 1.
const BINS: usize = 101;
/// How many bins make a decile; the last decile has the bin of 1 too.
const DECILE: usize = 10;
/// How many pairs of template and step are told apart; what comes with a further one is counted only
/// in the whole, so that steps with invented names do not fill the memory.
const MAX_SERIES: usize = 10_000;

/// What became of some outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// A reviewer let them pass as they were.
    pub approved: u32,
    /// A reviewer let them pass with another text.
    pub edited: u32,
    /// A reviewer did not let them pass.
    pub rejected: u32,
    /// They passed their gate, and nobody looked at them.
    pub passed: u32,
    /// They were held, and nobody decided on them.
    pub undecided: u32,
    /// Those of the reviewed ones that were held only to learn how good such outputs are.
    pub sampled: u32,
    /// Those of the sampled ones that were rejected.
    pub sampled_rejected: u32,
}

/// The counts of an environment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    series: BTreeMap<Source, Series>,
    /// What came when there were too many series.
    others: Series,
}

/// Where outputs come from: the template and the step, if they have any.
type Source = (Option<String>, Option<String>);

/// By bin; `None` is no confidence.
type Series = BTreeMap<Option<u8>, Tally>;

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    /// Of this template only.
    pub template: Option<String>,
    /// Of steps of this name only, whichever template they belong to if none is named.
    pub step: Option<String>,
    /// The thresholds to try.
    pub thresholds: Vec<Threshold>,
}

/// How good confidences are.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// What became of outputs by confidence: below 0.1, below 0.2, …, the last up to 1 and with it.
    pub deciles: [Tally; 10],
    /// What became of those without a confidence.
    pub unknown: Tally,
    /// What each threshold would have done, in the order of the question.
    pub thresholds: Vec<Backtest>,
}

impl Tally {
    /// How many a reviewer decided on.
    #[must_use]
    pub const fn reviewed(&self) -> u32 {
        self.approved + self.edited + self.rejected
    }

    /// How many nobody decided on.
    #[must_use]
    pub const fn unreviewed(&self) -> u32 {
        self.passed + self.undecided
    }

    fn of(record: &Record) -> Self {
        let mut one = Self::default();
        match &record.fate {
            Fate::Passed => one.passed = 1,
            Fate::Approved { edited: true, .. } => one.edited = 1,
            Fate::Approved { edited: false, .. } => one.approved = 1,
            Fate::Rejected { by, .. } if by != SYSTEM => one.rejected = 1,
            Fate::Rejected { .. } | Fate::Open { .. } | Fate::Cancelled => one.undecided = 1,
        }
        if record.sampled {
            one.sampled = one.reviewed();
            one.sampled_rejected = one.rejected;
        }
        one
    }

    fn with(self, other: &Self, count: fn(u32, u32) -> u32) -> Self {
        Self {
            approved: count(self.approved, other.approved),
            edited: count(self.edited, other.edited),
            rejected: count(self.rejected, other.rejected),
            passed: count(self.passed, other.passed),
            undecided: count(self.undecided, other.undecided),
            sampled: count(self.sampled, other.sampled),
            sampled_rejected: count(self.sampled_rejected, other.sampled_rejected),
        }
    }
}

impl Counts {
    /// A record has changed, or is new. `before` is what was counted of it, if anything was.
    pub fn replace(&mut self, before: Option<&Record>, after: &Record) {
        if let Some(before) = before {
            self.count(before, u32::saturating_sub);
        }
        self.count(after, u32::saturating_add);
    }

    /// What is known of the outputs that are asked for.
    #[must_use]
    pub fn view(&self, query: &Query) -> Calibration {
        let mut bins = [Tally::default(); BINS];
        let mut unknown = Tally::default();
        let asked = |(template, step): &Source| {
            (query.template.is_none() || *template == query.template)
                && (query.step.is_none() || *step == query.step)
        };
        let whole = query.template.is_none() && query.step.is_none();
        let matching = self.series.iter().filter(|(source, _)| asked(source));
        let matching = matching.map(|(_, series)| series).chain(whole.then_some(&self.others));
        for (bin, tally) in matching.flatten() {
            let sum = bin.map_or(&mut unknown, |bin| &mut bins[usize::from(bin)]);
            *sum = sum.with(tally, u32::saturating_add);
        }
        let deciles = backtest::deciles(&bins);
        let tried = query.thresholds.iter();
        let thresholds = tried.map(|at| Backtest::of(*at, &bins, &deciles)).collect();
        Calibration { deciles, unknown, thresholds }
    }

    fn count(&mut self, record: &Record, count: fn(u32, u32) -> u32) {
        let source = (record.template.clone(), record.step.clone());
        let full = self.series.len() >= MAX_SERIES;
        // A series is never given up, so a record is taken away from where it was added.
        let series = match self.series.get_mut(&source) {
            Some(series) => series,
            None if full => &mut self.others,
            None => self.series.entry(source).or_default(),
        };
        let bin = record.confidence.map(bin_of);
        let tally = series.entry(bin).or_default();
        *tally = tally.with(&Tally::of(record), count);
        if *tally == Tally::default() {
            series.remove(&bin);
        }
    }
}

/// The last bin that begins at this confidence or below. It is found by the comparison that a gate
/// makes: `0.29 * 100` is less than 29.
fn bin_of(confidence: f64) -> u8 {
    let begins = |bin: &u8| Threshold::hundredths(*bin).is_some_and(|at| at.value() <= confidence);
    (0..=100).rev().find(begins).unwrap_or(0)
}
