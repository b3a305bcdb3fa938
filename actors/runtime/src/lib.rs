//! Callboard's actors: supervision, durability, recovery.
//!
//! Read [`system`] first (who supervises whom), then `durable` (how a step becomes durable), `task`
//! (the actor that most of it is about) and [`handle`] (what the edge may ask).
//! Deliberately absent: every rule (in `callboard_domain`), bytes on disk (in `callboard_store`) and
//! sockets (in the root package).

pub mod accounts;
mod advance;
mod approval;
pub mod catalog;
mod concurrency;
mod delivery;
mod directory;
mod durable;
pub mod events;
mod execution;
mod finish;
pub mod floor;
pub mod handle;
mod housekeeping;
pub mod intake;
mod newborn;
mod node;
pub mod ports;
mod queue;
pub mod read;
mod recovery;
mod retention;
mod reviewers;
pub mod script;
mod seat;
mod shard;
mod supervisor;
pub mod system;
pub mod tables;
mod task;
mod timers;
mod track;
pub mod worker;

pub use handle::{Handle, Owner};
pub use intake::Submitted;
pub use node::Settings;
pub use system::System;

#[cfg(test)]
mod planted;
#[cfg(test)]
mod tests;
