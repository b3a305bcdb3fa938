//! The sums of an environment while their records are read and change.
//!
//! A change is reported after its commit, so a record may be read before or after its report,
//! and may be read both as open and as ended. Until every entry read so far has surely been reported, the
//! sums therefore remember their part of each task: nothing is counted twice or lost. Afterwards
//! each report carries the record's former state.
//!
//! Deliberately absent: the end of loading. [`super::ReviewStats`] decides it.

use std::collections::HashMap;

use callboard_domain::approval::{GateOutcome, Record};
use callboard_domain::calibration::Counts;
use callboard_domain::id::TaskId;
use callboard_domain::review_stats::Totals;

/// The sums, and the records that are remembered for a while.
#[derive(Debug, Clone)]
pub(super) struct Sums {
    /// The statistics of approvals.
    pub(super) statistics: Totals,
    /// The track record of confidences.
    pub(super) counts: Counts,
    loading: Option<Loading>,
}

/// The record of each task in the sums.
#[derive(Debug, Clone, Default)]
struct Loading {
    /// The records that were read as open or have changed: as many as are under way.
    counted: HashMap<TaskId, Record>,
    /// The tasks that were only read as decided, in ascending order: as many as are stored, so only their
    /// names. Such a record changes only by a report that names it.
    decided: Vec<TaskId>,
    /// The tasks that were only read as passed, in ascending order. Such a record changes if a review is requested.
    passed: Vec<TaskId>,
}

impl Default for Sums {
    fn default() -> Self {
        let loading = Some(Loading::default());
        Self { statistics: Totals::default(), counts: Counts::default(), loading }
    }
}

impl Sums {
    /// A record is durable now.
    pub(super) fn changed(&mut self, task: TaskId, before: Option<&Record>, after: &Record) {
        let Some(loading) = &mut self.loading else {
            return self.replace(before, after);
        };
        let (has_passed, has_decided) = (loading.has_passed(task), loading.has_decided(task));
        let taken_back = before.filter(|before| has_decided && before.is_decided());
        let is_newer = taken_back.is_some() || loading.counted.contains_key(&task);
        if has_decided && !is_newer || has_passed && after.fate == GateOutcome::Passed {
            return;
        }
        let counted = loading.counted.insert(task, after.clone());
        let passed = (counted.is_none() && has_passed).then(|| after.when_passed());
        self.replace(counted.or(passed).as_ref().or(taken_back), after);
    }

    /// An open approval was read. A report about its task is as new or newer.
    pub(super) fn found_open(&mut self, task: TaskId, record: &Record) {
        let Some(loading) = &mut self.loading else { return };
        if loading.has_decided(task) || loading.counted.contains_key(&task) {
            return;
        }
        let passed = loading.has_passed(task).then(|| record.when_passed());
        loading.counted.insert(task, record.clone());
        self.replace(passed.as_ref(), record);
    }

    /// The record of an output that has passed or was decided was read; in ascending order. Nothing
    /// is newer than a decision.
    pub(super) fn found_ended(&mut self, task: TaskId, record: &Record) {
        let Some(loading) = &mut self.loading else { return };
        let has_passed = record.fate == GateOutcome::Passed;
        if has_passed && loading.counted.contains_key(&task) {
            // A report is as new or newer: a review was requested since.
            return;
        }
        let counted = loading.counted.get_mut(&task);
        let before = counted.map(|counted| std::mem::replace(counted, record.clone()));
        if before.is_none() {
            let read = if has_passed { &mut loading.passed } else { &mut loading.decided };
            read.push(task);
        }
        self.replace(before.as_ref(), record);
    }

    /// Every entry read so far has been reported, if it ever will be.
    pub(super) fn finish_loading(&mut self) {
        self.loading = None;
    }

    fn replace(&mut self, before: Option<&Record>, after: &Record) {
        self.statistics.replace(before, after);
        self.counts.replace(before, after);
    }
}

impl Loading {
    fn has_decided(&self, task: TaskId) -> bool {
        self.decided.binary_search(&task).is_ok()
    }

    fn has_passed(&self, task: TaskId) -> bool {
        self.passed.binary_search(&task).is_ok()
    }
}

#[cfg(test)]
mod tests;
