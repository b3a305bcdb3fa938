//! Cells and the projects that they have (docs/reference/cells.md).

use std::sync::Arc;

use callboard_domain::Error;
use callboard_domain::access::{Account, Caller};
use callboard_domain::audit::By;
use callboard_domain::cell::{Assigned, Cell};
use callboard_domain::id::{Mode, Slot, UserId};
use tokio::sync::watch;

use super::Handle;
use crate::items::accounts::Message;
use crate::node::rights;

impl Handle {
    /// The cells besides home.
    #[must_use]
    pub fn cells(&self) -> Arc<[Cell]> {
        self.node.state.accounts.cells()
    }

    /// The number of projects of another cell, or of this one.
    #[must_use]
    pub fn number_of_projects(&self, cell: Option<&str>) -> usize {
        let projects = self.node.state.accounts.projects();
        projects.iter().filter(|project| project.cell.as_deref() == cell).count()
    }

    /// Adds a cell, or gives one other addresses.
    ///
    /// # Errors
    /// [`Error::InvalidState`] if there are too many, [`Error::Unavailable`].
    pub async fn put_cell(&self, cell: Cell, by: By) -> Result<Cell, Error> {
        self.account_command(|reply| Message::PutCell(cell, by, reply)).await
    }

    /// Removes a cell.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InvalidState`] if it has projects, [`Error::Unavailable`].
    pub async fn remove_cell(&self, name: String, by: By) -> Result<Cell, Error> {
        self.account_command(|reply| Message::RemoveCell(name, by, reply)).await
    }

    /// The part of the list that a cell follows; `None` if there is no such cell.
    #[must_use]
    pub fn assigned_to(&self, cell: &str) -> Option<Assigned> {
        self.node.state.accounts.assigned_to(cell)
    }

    /// Brings the projects and people of this cell, `own`, up to date with home's list.
    ///
    /// # Errors
    /// [`Error::InvalidState`] if no place is free, [`Error::Unavailable`].
    pub async fn follow_home(&self, own: &str, assigned: Assigned) -> Result<(), Error> {
        self.account_command(|reply| Message::Follow(own.to_owned(), assigned, reply)).await
    }

    /// A notice after every change of accounts, projects and cells.
    #[must_use]
    pub fn account_changes(&self) -> watch::Receiver<()> {
        self.node.state.accounts.changes()
    }

    /// The cell of the project with this number, if it is another one.
    #[must_use]
    pub fn cell_of(&self, number: u32) -> Option<String> {
        self.node.state.accounts.cell_of(number)
    }

    /// The cell of the project of an identifier or a name, if it is another one.
    #[must_use]
    pub fn cell_named(&self, project: &str) -> Option<String> {
        self.node.state.accounts.cell_named(project)
    }

    /// True if this cell has the project with this number.
    #[must_use]
    pub fn has_project(&self, number: u32) -> bool {
        self.node.state.accounts.has_number(number)
    }

    /// The caller that a user of home is in a project of this cell.
    ///
    /// # Errors
    /// [`Error::NotFound`] of the project for a user who is no member, or who is not known here.
    pub fn caller_of_person(&self, user: UserId, project: Slot) -> Result<Caller, Error> {
        let (register, now) = (&self.node.state.accounts, self.node.now());
        register.check_here(project)?;
        if register.user(user).is_none() {
            let id = register.project_id(project.environment(Mode::Live));
            return Err(Error::not_found("project", id));
        }
        rights::caller_of(register, Account::User(user), project, now)
    }
}
