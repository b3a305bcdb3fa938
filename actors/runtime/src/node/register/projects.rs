//! The projects in memory, and the roles of users in them.

use std::sync::Arc;

use callboard_domain::Error;
use callboard_domain::access::{Account, Caller, Role};
use callboard_domain::account::User;
use callboard_domain::id::{Environment, ProjectId, SessionId, Slot, UserId};
use callboard_domain::project::{DEFAULT_NAME, Project};

use super::{Inner, Register};
use crate::node::rights::of_user;

impl Register {
    /// Notes a project, which is durable.
    pub(crate) fn put_project(&self, project: Arc<Project>) {
        let mut inner = self.write();
        if project.deleted_at.is_some() {
            inner.projects.remove(&project.slot);
            inner.leaving.insert(project.slot, project);
        } else {
            inner.projects.insert(project.slot, project);
        }
        drop(inner);
        self.changes.send_replace(());
    }

    /// The deleted projects that may still have rows.
    pub(crate) fn leaving_projects(&self) -> Vec<Arc<Project>> {
        self.read().leaving.values().cloned().collect()
    }

    /// Forgets a deleted project, which has no rows.
    pub(crate) fn forget_project(&self, slot: Slot) {
        self.write().leaving.remove(&slot);
    }

    /// The project at a place.
    pub(crate) fn project_at(&self, slot: Slot) -> Option<Arc<Project>> {
        self.read().projects.get(&slot).cloned()
    }

    /// The identifier of the project of an environment.
    pub(crate) fn project_id(&self, environment: Environment) -> ProjectId {
        let project = self.project_at(environment.slot());
        project.map_or(ProjectId::DEFAULT, |project| project.id)
    }

    /// The project of an identifier.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub(crate) fn project(&self, id: ProjectId) -> Result<Arc<Project>, Error> {
        let found = self.read().projects.values().find(|project| project.id == id).cloned();
        found.ok_or_else(|| Error::not_found("project", id))
    }

    /// The place of the project of an identifier or a name.
    pub(crate) fn slot_named(&self, text: &str) -> Option<Slot> {
        if text == DEFAULT_NAME || text.parse() == Ok(ProjectId::DEFAULT) {
            return Some(Slot::DEFAULT);
        }
        let inner = self.read();
        inner.projects.values().find(|it| it.is_named(text)).map(|project| project.slot)
    }

    /// The number of members of a project; `default` has every user.
    pub(crate) fn member_count(&self, project: &Project) -> usize {
        if project.slot.is_default() { self.read().users.len() } else { project.members.len() }
    }

    /// All projects, oldest first, without `default`.
    pub(crate) fn projects(&self) -> Vec<Arc<Project>> {
        let mut projects: Vec<_> = self.read().projects.values().cloned().collect();
        projects.sort_by_key(|project| project.number);
        projects
    }

    /// The role of a user in a project, if the user is its member.
    pub(crate) fn role_in(&self, slot: Slot, user: UserId) -> Option<Role> {
        let inner = self.read();
        inner.users.get(&user).and_then(|user| inner.role_in(slot, user))
    }

    /// The users of a project, each with the role there, oldest first.
    pub(crate) fn users_in(&self, slot: Slot) -> Vec<User> {
        let inner = self.read();
        let member = |user: &User| Some(User { role: inner.role_in(slot, user)?, ..user.clone() });
        inner.users.values().filter_map(member).collect()
    }

    /// The caller that a user is in a project.
    ///
    /// # Errors
    /// [`Error::NotFound`] of the project for a user who is no member.
    pub(crate) fn caller_in(
        &self,
        slot: Slot,
        user: &User,
        session: Option<SessionId>,
    ) -> Result<Caller, Error> {
        let inner = self.read();
        let Some(role) = inner.role_in(slot, user) else {
            let id = inner.projects.get(&slot).map_or(ProjectId::DEFAULT, |project| project.id);
            return Err(Error::not_found("project", id));
        };
        Ok(of_user(&User { role, ..user.clone() }, slot, session))
    }
}

impl Inner {
    pub(super) fn role_in(&self, slot: Slot, user: &User) -> Option<Role> {
        if slot.is_default() {
            return Some(user.role);
        }
        self.projects.get(&slot)?.members.get(&user.id).map(|member| member.role)
    }
}

/// True if the caller may see the project.
pub(crate) fn may_see(caller: &Caller, project: &Project) -> bool {
    let of_server = caller.environment.slot().is_default() && caller.role == Role::Admin;
    let is_own = match caller.account {
        Account::User(user) => project.members.contains_key(&user),
        Account::Key(_) => caller.environment.slot() == project.slot,
    };
    of_server || is_own
}
