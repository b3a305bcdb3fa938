//! Callboard's actors: supervision, durability, recovery.
//!
//! Read [`system`] first (the tree of supervision), then `durable` (the way of a step to the disk),
//! `task` (the actor that most of the rest is about) and [`handle`] (the questions of the edge).
//! Deliberately absent: every rule (in `callboard_domain`), bytes on disk (in `callboard_store`) and
//! sockets (in the root package).

pub mod accounts;
mod approval;
pub mod batch;
mod budgets;
mod bulk;
mod capacity;
pub mod catalog;
mod clock;
mod compute;
mod concurrency;
mod delivery;
mod directory;
mod durable;
pub mod events;
mod execution;
mod finish;
mod flow;
pub mod handle;
mod handoff;
mod holdings;
mod housekeeping;
mod item;
mod join;
pub mod membership;
pub mod metrics;
mod models;
mod node;
mod pause;
mod permits;
mod planted;
pub mod ports;
mod queue;
pub mod read;
mod recovery;
mod retention;
mod review_stats;
mod reviewers;
pub mod schedule;
mod shard;
mod sources;
pub mod submission;
mod supervisor;
pub mod system;
pub mod tables;
mod task;
pub mod texts;
mod timers;
pub mod worker;

pub use handle::{Handle, Owner};
pub use node::{Live, Settings};
pub use queue::SANDBOX_QUEUE;
pub use submission::Submitted;
pub use system::System;

#[cfg(test)]
mod tests;
