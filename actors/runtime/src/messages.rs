//! The messages of each kind of actor, and the permits that travel in them.
//!
//! A sender knows this module and the addresses, and not the item that takes the message.

pub(crate) mod accounts;
pub(crate) mod approval;
pub(crate) mod batch;
pub(crate) mod capacity;
pub(crate) mod delivery;
pub(crate) mod execution;
pub(crate) mod permits;
pub(crate) mod queue;
pub(crate) mod schedule;
pub mod submission;
pub(crate) mod task;
pub(crate) mod templates;
pub(crate) mod worker;
