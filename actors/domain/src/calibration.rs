//! Calibration: the reliability of confidences as predictors of rejections, and the effect of another
//! threshold (docs/reference/approvals.md).
//!
//! Every output that a gate examined is counted by its template, step, method, model and confidence,
//! in bins of 0.01; a confidence of exactly 1 has the last bin to itself, so that every threshold that is a
//! multiple of 0.01 lies between two bins. The effect of a threshold is known for outputs that a
//! reviewer decided on, and estimated for the others, see [`MissRate`].
//!
//! - A *reviewed* output was approved, edited or rejected by a reviewer.
//! - An *undecided* output waits, or its task ended before a decision, or a time-out rejected it: the
//!   clock is no judge of an output.
//! - An *unreviewed* output passed its gate, or is undecided.
//! - Outputs without a confidence are counted apart. No threshold applies to them, so they count in
//!   no figure of a threshold.
//!
//! An edit counts as an approval: a threshold is judged by rejections, and edits are shown beside
//! them.
//!
//! Deliberately absent: time. The counts cover all records of any prompt or gate; a threshold for
//! another model or method needs records of that model and method, which a query can ask for.

mod backtest;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use backtest::{Backtest, MissRate, Threshold};

use crate::approval::{GateOutcome, Record, SYSTEM};
use crate::confidence::Source;

/// One bin for each hundredth, and one for 1.
const BINS: usize = 101;
/// Bins per decile; the last decile has the bin of 1 too.
const DECILE: usize = 10;
/// The most origins with counts of their own; outputs of further ones count only in the whole, so that
/// steps with invented names do not fill the memory.
const MAX_SERIES: usize = 10_000;

/// A set of outputs, counted by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcomes {
    /// Outputs that a reviewer approved without a change.
    pub approved: u32,
    /// Outputs that a reviewer approved with another text.
    pub edited: u32,
    /// Outputs that a reviewer rejected.
    pub rejected: u32,
    /// Outputs that passed the gate without a review.
    pub passed: u32,
    /// Held outputs without a reviewer's decision.
    pub undecided: u32,
    /// Reviewed outputs that were held only as a sample of those that pass.
    pub sampled: u32,
    /// Sampled outputs that were rejected.
    pub sampled_rejected: u32,
}

/// The counts of an environment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    series: BTreeMap<Origin, Series>,
    /// The outputs of pairs beyond [`MAX_SERIES`].
    others: Series,
}

/// The origin of outputs that have a calibration of their own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Origin {
    /// The template; a task of no template has none.
    pub template: Option<String>,
    /// The step; a task of no execution has none.
    pub step: Option<String>,
    /// The name of the method that made the confidences; unknown for older records.
    pub method: Option<&'static str>,
    /// The model that answered; unknown for older records.
    pub model: Option<String>,
}

impl From<&Record> for Origin {
    fn from(record: &Record) -> Self {
        Self {
            template: record.template.clone(),
            step: record.step.clone(),
            method: record.method.map(Source::as_str),
            model: record.model.clone(),
        }
    }
}

/// The fewest decisions of reviewers with which a confidence counts as tested.
pub const TESTED: u32 = 20;

/// Outcomes by bin; `None` is the bin of outputs without a confidence.
type Series = BTreeMap<Option<u8>, Outcomes>;

/// A request for a calibration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    /// Restricts to outputs of this template.
    pub template: Option<String>,
    /// Restricts to steps with this id; of any template, if none is named.
    pub step: Option<String>,
    /// Restricts to confidences made by this method.
    pub method: Option<Source>,
    /// Restricts to outputs of this model.
    pub model: Option<String>,
    /// The thresholds to backtest.
    pub thresholds: Vec<Threshold>,
}

/// The outcomes by confidence, and a backtest of each threshold.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// The outcomes by confidence: below 0.1, below 0.2, …, the last from 0.9 to 1 inclusive.
    pub deciles: [Outcomes; 10],
    /// The outcomes of outputs without a confidence.
    pub unknown: Outcomes,
    /// The backtests, in the order of the query's thresholds.
    pub thresholds: Vec<Backtest>,
}

impl Outcomes {
    /// The number that a reviewer decided on.
    #[must_use]
    pub const fn reviewed(&self) -> u32 {
        self.approved + self.edited + self.rejected
    }

    /// The number without a reviewer's decision.
    #[must_use]
    pub const fn unreviewed(&self) -> u32 {
        self.passed + self.undecided
    }

    fn of(record: &Record) -> Self {
        let mut one = Self::default();
        match &record.fate {
            GateOutcome::Passed => one.passed = 1,
            GateOutcome::Approved { edited: true, .. } => one.edited = 1,
            GateOutcome::Approved { edited: false, .. } => one.approved = 1,
            GateOutcome::Rejected { by, .. } if by != SYSTEM => one.rejected = 1,
            GateOutcome::Rejected { .. } | GateOutcome::Open { .. } | GateOutcome::Cancelled => {
                one.undecided = 1;
            }
        }
        if record.sampled {
            one.sampled = one.reviewed();
            one.sampled_rejected = one.rejected;
        }
        one
    }

    /// Adds or subtracts `other` field by field.
    fn combine(self, other: &Self, count: fn(u32, u32) -> u32) -> Self {
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
    /// Counts a new or changed record; `before` is the record as it was counted before.
    pub fn replace(&mut self, before: Option<&Record>, after: &Record) {
        if let Some(before) = before {
            self.count(before, u32::saturating_sub);
        }
        self.count(after, u32::saturating_add);
    }

    /// The calibration of the outputs that match the query.
    #[must_use]
    pub fn view(&self, query: &Query) -> Calibration {
        let mut bins = [Outcomes::default(); BINS];
        let mut unknown = Outcomes::default();
        let method = query.method.map(Source::as_str);
        let asked = |of: &Origin| {
            (query.template.is_none() || of.template == query.template)
                && (query.step.is_none() || of.step == query.step)
                && (method.is_none() || of.method == method)
                && (query.model.is_none() || of.model == query.model)
        };
        let whole = query.template.is_none()
            && query.step.is_none()
            && method.is_none()
            && query.model.is_none();
        let matching = self.series.iter().filter(|(origin, _)| asked(origin));
        let matching = matching.map(|(_, series)| series).chain(whole.then_some(&self.others));
        for (bin, outcomes) in matching.flatten() {
            let sum = bin.map_or(&mut unknown, |bin| &mut bins[usize::from(bin)]);
            *sum = sum.combine(outcomes, u32::saturating_add);
        }
        let deciles = backtest::deciles(&bins);
        let tried = query.thresholds.iter();
        let thresholds = tried.map(|at| Backtest::of(*at, &bins, &deciles)).collect();
        Calibration { deciles, unknown, thresholds }
    }

    /// True if reviewers decided on fewer than [`TESTED`] outputs of this origin.
    #[must_use]
    pub fn is_untested(&self, origin: &Origin) -> bool {
        let outcomes = self.series.get(origin).into_iter().flatten();
        let decided = outcomes.map(|(_, outcomes)| outcomes.reviewed());
        decided.fold(0, u32::saturating_add) < TESTED
    }

    fn count(&mut self, record: &Record, count: fn(u32, u32) -> u32) {
        let source = Origin::from(record);
        let full = self.series.len() >= MAX_SERIES;
        // A series is never dropped, so a record is subtracted where it was added.
        let series = match self.series.get_mut(&source) {
            Some(series) => series,
            None if full => &mut self.others,
            None => self.series.entry(source).or_default(),
        };
        let bin = record.confidence.map(bin_of);
        let outcomes = series.entry(bin).or_default();
        *outcomes = outcomes.combine(&Outcomes::of(record), count);
        if *outcomes == Outcomes::default() {
            series.remove(&bin);
        }
    }
}

/// The last bin that begins at this confidence or below. Found by the comparison that a gate makes,
/// because `0.29 * 100` is less than 29.
fn bin_of(confidence: f64) -> u8 {
    let begins = |bin: &u8| Threshold::hundredths(*bin).is_some_and(|at| at.value() <= confidence);
    (0..=100).rev().find(begins).unwrap_or(0)
}
