//! Saved views: a named set of filters of a list, of one account or of all who may see the project.

use serde::{Deserialize, Serialize};

use crate::access::{Account, Caller, Role};
use crate::error::Error;
use crate::names::names;

/// The longest name, in characters.
pub const MAX_NAME: usize = 80;
/// The longest query, in bytes.
pub const MAX_QUERY: usize = 2_048;
/// The most private views of an account in a project.
pub const MAX_PRIVATE: usize = 100;
/// The most shared views of a project.
pub const MAX_SHARED: usize = 200;

names! {
    /// The list that a view is of: the path of its page.
    List {
        /// Tasks, each a prompt or a call of a function.
        Tasks = "tasks",
        /// Executions of plans and templates.
        Executions = "executions",
        /// Outputs that wait for a reviewer, and decided ones.
        Review = "review",
        /// Batches of rows.
        Batches = "batches",
        /// Templates in their versions.
        Templates = "templates",
        /// Plans that were submitted or deployed.
        Plans = "plans",
        /// Schedules with their next occurrences.
        Schedules = "schedules",
        /// Outputs that a reviewer decided.
        Decided = "review/decided",
        /// Webhooks and mails that were sent.
        Deliveries = "admin/deliveries",
        /// Entries of the audit log.
        Audit = "admin/audit",
    }
}

/// A saved view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// The name, for people.
    pub name: String,
    /// The list.
    pub page: List,
    /// The query string of the list's address, without its `?`.
    pub query: String,
    /// True if everybody who may use views sees it.
    pub shared: bool,
    /// The maker.
    pub created_by: Account,
}

/// A change of a view; a member that is `None` stays as it is.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// The name.
    pub name: Option<String>,
    /// The query string.
    pub query: Option<String>,
    /// True to share the view, false to take it back.
    pub shared: Option<bool>,
}

impl View {
    /// Passes if the caller, who sees the view, may change or delete it: its maker and admins.
    ///
    /// # Errors
    /// [`Error::Forbidden`].
    pub fn check_change(&self, caller: &Caller) -> Result<(), Error> {
        if self.created_by == caller.account || caller.role == Role::Admin {
            return Ok(());
        }
        Err(Error::Forbidden("a shared view is changed by its maker or an admin".into()))
    }

    /// The view after a change by the caller, who may change it.
    ///
    /// # Errors
    /// [`Error::Forbidden`] if another than the maker takes the view back.
    pub fn changed(&self, caller: &Caller, change: Change) -> Result<Self, Error> {
        let Change { name, query, shared } = change;
        let shared = shared.unwrap_or(self.shared);
        if self.shared && !shared && self.created_by != caller.account {
            let says = "a shared view is made private by its maker alone: delete it".to_owned();
            return Err(Error::Forbidden(says));
        }
        let (name, query) = (name.unwrap_or_else(|| self.name.clone()), query);
        let query = query.unwrap_or_else(|| self.query.clone());
        Ok(Self { name, query, shared, ..self.clone() })
    }
}
