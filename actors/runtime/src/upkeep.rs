//! Care of the state: recovery at a start, retention, sums of budgets, and the work of every minute.

pub(crate) mod budgets;
pub(crate) mod files;
pub(crate) mod holdings;
pub(crate) mod housekeeping;
pub(crate) mod recovery;
pub(crate) mod retention;
pub(crate) mod stored;
