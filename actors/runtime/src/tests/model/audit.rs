//! Compares the books with the store.
//!
//! Everything is read as a client reads it; every answer is durable, so it must agree with every acknowledgement, at
//! any moment.

mod approvals;
mod events;
mod executions;
mod limits;
mod rest;
mod tasks;

use std::collections::BTreeMap;

use callboard_domain::id::{ExecutionId, TaskId};

use super::disk::WARM;
use super::world::World;
use crate::read::TaskDetail;
use crate::read::approvals::ApprovalDetail;
use crate::read::runs::ExecutionDetail;

/// Every item of the store.
pub(super) struct Picture {
    pub(super) tasks: BTreeMap<TaskId, TaskDetail>,
    pub(super) approvals: BTreeMap<TaskId, ApprovalDetail>,
    pub(super) executions: BTreeMap<ExecutionId, ExecutionDetail>,
}

/// `Err` with the fault, unless it holds.
fn must(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

impl World {
    /// Reads everything and compares it.
    ///
    /// # Errors
    /// Something is not as it was acknowledged, or does not fit together.
    pub(super) async fn audit(&self) -> Result<Picture, String> {
        self.shared().hear();
        // Several reads see one state.
        self.disk.pause(0);
        let picture = Picture {
            tasks: self.all_tasks().await?,
            approvals: self.all_approvals().await?,
            executions: self.all_executions().await?,
        };
        self.disk.pause(WARM);
        let mut shared = self.shared();
        let oracle = &mut shared.oracle;
        tasks::judge(oracle, &picture)?;
        approvals::judge(oracle, &picture)?;
        executions::judge(oracle, &picture)?;
        drop(shared);
        self.judge_counts(&picture)?;
        self.verdict()?;
        Ok(picture)
    }
}
