//! The makers of work: schedules, batches, bulk jobs. They are clients of the door, within the process.

pub(crate) mod batch;
pub(crate) mod bulk;
pub(crate) mod moves;
pub(crate) mod purge;
pub mod schedule;
