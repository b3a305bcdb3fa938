//! The parts of this cell in moves of projects, in memory.

use std::sync::Arc;

use callboard_domain::Error;
use callboard_domain::id::{MoveId, ProjectId, Slot};
use callboard_domain::moving::{Part, Stage};

use super::Register;

/// The refusal of a request for a project that stands still.
pub(crate) const MOVING: Error = Error::Unavailable("the project is being moved to another cell");

impl Register {
    /// Notes a part, which is durable.
    pub(crate) fn put_part(&self, part: Part) {
        self.write().parts.insert(part.slot, Arc::new(part));
        self.changes.send_replace(());
    }

    /// Forgets a part, which has no row. If the project `comes`, it is refused until [`Self::opened`].
    pub(crate) fn remove_part(&self, slot: Slot, comes: bool) {
        let mut inner = self.write();
        inner.parts.remove(&slot);
        if comes {
            inner.opening.insert(slot);
        }
        drop(inner);
        self.changes.send_replace(());
    }

    /// The part of this cell in a move of a project that goes on.
    pub(crate) fn open_part(&self, project: ProjectId) -> Option<Arc<Part>> {
        let inner = self.read();
        inner.parts.values().find(|it| it.project == project && it.stage.is_open()).cloned()
    }

    /// The part in a move.
    pub(crate) fn part_in(&self, id: MoveId) -> Option<Arc<Part>> {
        self.read().parts.values().find(|part| part.id == id).cloned()
    }

    /// All parts.
    pub(crate) fn parts(&self) -> Vec<Arc<Part>> {
        self.read().parts.values().cloned().collect()
    }

    /// The projects whose rows are here, and whose state in memory is not.
    pub(crate) fn opening(&self) -> Vec<Slot> {
        self.read().opening.iter().copied().collect()
    }

    /// A project is open.
    pub(crate) fn opened(&self, slot: Slot) {
        self.write().opening.remove(&slot);
        self.changes.send_replace(());
    }

    /// True if a project of this number, of which nothing else is known here, comes to this cell or has left it.
    pub(crate) fn is_on_its_way(&self, number: u32) -> bool {
        let inner = self.read();
        inner.parts.values().any(|part| part.number == number && part.stage != Stage::Dropped)
    }

    /// True if a project of this identifier, or perhaps of this name, comes to this cell.
    pub(crate) fn may_come(&self, named: &str) -> bool {
        let (inner, id) = (self.read(), named.parse::<ProjectId>().ok());
        let is_it = |part: &Part| id.is_none_or(|id| part.project == id);
        inner.parts.values().any(|part| part.stage == Stage::Copied && is_it(part))
    }

    /// Passes unless a project stands still, or is being opened.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub(crate) fn check_here(&self, slot: Slot) -> Result<(), Error> {
        let inner = self.read();
        let stands_still = |part: &Arc<Part>| matches!(part.stage, Stage::Leaving | Stage::Copied);
        if inner.opening.contains(&slot) || inner.parts.get(&slot).is_some_and(stands_still) {
            return Err(MOVING);
        }
        Ok(())
    }
}
