//! Erasure of the texts of a step's task, after the execution has ended (PROTOCOL.md 16).

use super::{Execution, Refusal};
use crate::id::TaskId;
use crate::machine::{Machine, Step};
use crate::task::Ending;

impl Execution {
    /// The execution without what its steps quote of the texts of `task`; a step that completed with
    /// it cannot feed a retry any more.
    ///
    /// # Errors
    /// [`Refusal::Running`] while the execution may still use the output.
    pub fn without_texts_of(&self, task: TaskId) -> Result<Step<Self>, Refusal> {
        if !self.is_finished() {
            return Err(Refusal::Running);
        }
        let mut next = self.clone();
        let found = self.steps().find(|(_, row)| row.task == Some(task)).map(|(step, _)| step);
        if let Some(step) = found {
            next.head.version += 1;
            let row = next.rows.at(step);
            row.erased = true;
            row.correction = None;
            row.error = row.error.as_ref().map(Ending::erased);
            if let Some(cause) = next.head.error.as_mut().filter(|cause| cause.step == Some(step)) {
                cause.ending = cause.ending.erased();
            }
        }
        Ok(Step { next, facts: Vec::new(), effects: Vec::new() })
    }

    /// True if the texts of a completed step were erased: later steps cannot be rendered.
    #[must_use]
    pub fn has_erased_output(&self) -> bool {
        self.steps().any(|(_, row)| row.erased)
    }
}
