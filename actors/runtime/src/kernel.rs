//! The machinery below every item: actors that are woken by address, supervision, ports, the pool that computes.
//!
//! It knows no table, no limit and no kind of item.

pub(crate) mod address;
pub(crate) mod clock;
pub(crate) mod compute;
pub(crate) mod directory;
pub(crate) mod environments;
pub(crate) mod finish;
pub(crate) mod handoff;
pub(crate) mod item;
pub(crate) mod join;
pub(crate) mod planted;
pub mod ports;
pub(crate) mod project_pool;
pub(crate) mod removal_locks;
pub(crate) mod standstill;
pub(crate) mod supervisor;
pub(crate) mod together;
pub(crate) mod walks;
