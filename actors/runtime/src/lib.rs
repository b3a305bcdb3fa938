//! Callboard's actors: supervision, durability, recovery.
//!
//! ```text
//!   system ─▶ jobs ─▶ handle, upkeep ─▶ items ─▶ commit ─▶ read ─▶ node ─▶ messages ─▶ limits, observers ─▶ tables ─▶ kernel
//! ```
//!
//! A module names those to its right alone, which a test checks. Read [`system`] first (the tree of supervision),
//! then `commit` (the way of a step to the disk), `items::task` (the actor that most of the rest is about) and
//! [`handle`] (the questions of the edge). Deliberately absent: every rule (in `callboard_domain`), bytes on disk
//! (in `callboard_store`) and sockets (in the root package).

mod commit;
pub mod handle;
mod items;
mod jobs;
mod kernel;
mod limits;
pub mod membership;
mod messages;
mod node;
mod observers;
pub mod read;
pub mod system;
pub mod tables;
mod upkeep;

pub use handle::Handle;
pub use items::{accounts, catalog};
pub use jobs::schedule;
pub use kernel::address::SANDBOX_QUEUE;
pub use kernel::ports;
pub use messages::submission::{self, Owner, Submitted};
/// Workers, for the edge.
pub mod worker {
    pub use crate::messages::worker::{
        AckResult, Assignment, Called, Of, Registration, WorkerCommand, WorkerMessage,
    };
    pub use crate::node::roster::View;
}
pub use node::rights::PermissionWatch;
pub use node::{AllowedVariables, Live, Settings};
pub use observers::{events, metrics, texts};
pub use system::System;

/// Batches, for the edge.
pub mod batch {
    pub use crate::handle::batches::{BatchUpload, GivenRow, Rejected, TriedUpload};
    pub use crate::messages::batch::Retry;
    pub use crate::read::batches::estimate::Estimate;
}

#[cfg(test)]
mod tests;
