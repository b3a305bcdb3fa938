//! The sums of an environment while their records are read and change.
//!
//! A change is reported after its commit, so a record may be read before or after its report,
//! and may be read both as open and as ended. Until every entry read so far has surely been reported, the
//! sums therefore remember their part of each task: nothing is counted twice or lost. Afterwards
//! each report carries the record's former state.
//!
//! Deliberately absent: the end of loading. [`super::ReviewStats`] decides it.

use std::collections::HashMap;

use callboard_domain::approval::Record;
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
    /// The tasks that were only read as ended, in ascending order: as many as are stored, so only their
    /// names. Such a record is final.
    ended: Vec<TaskId>,
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
        if loading.has_ended(task) {
            return;
        }
        let before = loading.counted.insert(task, after.clone());
        self.replace(before.as_ref(), after);
    }

    /// An open approval was read. A report about its task is as new or newer.
    pub(super) fn found_open(&mut self, task: TaskId, record: &Record) {
        let Some(loading) = &mut self.loading else { return };
        if loading.has_ended(task) || loading.counted.contains_key(&task) {
            return;
        }
        loading.counted.insert(task, record.clone());
        self.replace(None, record);
    }

    /// The record of an output that has passed or was decided was read; in ascending order. Nothing
    /// is newer.
    pub(super) fn found_ended(&mut self, task: TaskId, record: &Record) {
        let Some(loading) = &mut self.loading else { return };
        let counted = loading.counted.get_mut(&task);
        let before = counted.map(|counted| std::mem::replace(counted, record.clone()));
        if before.is_none() {
            loading.ended.push(task);
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
    fn has_ended(&self, task: TaskId) -> bool {
        self.ended.binary_search(&task).is_ok()
    }
}

#[cfg(test)]
mod tests;
