//! The size of what is stored, by kind, as it was measured last.

use std::collections::BTreeMap;
use std::time::Duration;

use callboard_domain::Timestamp;
use callboard_store::{Measured, Size};
use tokio::sync::{Notify, watch};

use crate::tables::kinds::kind_of;

/// A measurement of what is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stored {
    /// The time of the measurement; `None` before the first has read anything.
    pub measured_at: Option<Timestamp>,
    /// True once everything was read; false while the first measurement goes on.
    pub is_whole: bool,
    /// True if the figures are estimated from a sample.
    pub is_sample: bool,
    /// The sizes, by the names of kinds.
    pub kinds: BTreeMap<&'static str, Size>,
}

impl Stored {
    /// Adds a part of the measurement.
    pub(crate) fn add(&mut self, part: &Measured) {
        self.is_sample |= part.is_sample;
        for (table, size) in &part.tables {
            *self.kinds.entry(kind_of(*table)).or_default() += *size;
        }
    }
}

/// The last measurement, and the wish for another one.
#[derive(Debug, Default)]
pub(crate) struct Measurement {
    /// Told when somebody wants to know, and the last measurement is old.
    pub(crate) wanted: Notify,
    /// The last measurement, with the time that it took.
    pub(crate) last: watch::Sender<(Stored, Duration)>,
}
