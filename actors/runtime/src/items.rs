//! The items: each a supervised actor that alone changes its row.

pub mod accounts;
pub(crate) mod approval;
pub mod catalog;
pub(crate) mod delivery;
pub(crate) mod execution;
pub(crate) mod models;
pub(crate) mod queue;
pub(crate) mod submission;
pub(crate) mod task;
pub(crate) mod worker;
