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
        match project.slot {
            Some(slot) if project.deleted_at.is_some() => {
                inner.projects.remove(&slot);
                inner.leaving.insert(slot, project);
            }
            Some(slot) => {
                inner.elsewhere.remove(&project.number);
                inner.projects.insert(slot, project);
            }
            None => {
                inner.projects.retain(|_, known| known.id != project.id);
                inner.elsewhere.insert(project.number, project);
            }
        }
        drop(inner);
        self.changes.send_replace(());
    }

    /// The deleted projects that may still have rows.
    pub(crate) fn leaving_projects(&self) -> Vec<(Slot, Arc<Project>)> {
        self.read().leaving.iter().map(|(slot, project)| (*slot, Arc::clone(project))).collect()
    }

    /// Forgets the project at a place, which is another cell's now.
    pub(crate) fn let_go(&self, slot: Slot) {
        self.write().projects.remove(&slot);
        self.changes.send_replace(());
    }

    /// The place of an open project of this cell.
    pub(crate) fn slot_of(&self, id: ProjectId) -> Option<Slot> {
        let inner = self.read();
        inner.projects.iter().find(|(_, project)| project.id == id).map(|(slot, _)| *slot)
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
        let found = self.read().all().find(|project| project.id == id).cloned();
        found.ok_or_else(|| Error::not_found("project", id))
    }

    /// The place of the project of an identifier or a name.
    pub(crate) fn slot_named(&self, text: &str) -> Option<Slot> {
        if text == DEFAULT_NAME || text.parse() == Ok(ProjectId::DEFAULT) {
            return Some(Slot::DEFAULT);
        }
        let inner = self.read();
        inner.projects.values().find(|it| it.is_named(text)).and_then(|project| project.slot)
    }

    /// The number of members of a project; `default` has every user.
    pub(crate) fn member_count(&self, project: &Project) -> usize {
        if project.is_default() { self.read().users.len() } else { project.members.len() }
    }

    /// All projects, oldest first, without `default`; those of other cells too.
    pub(crate) fn projects(&self) -> Vec<Arc<Project>> {
        let mut projects: Vec<_> = self.read().all().cloned().collect();
        projects.sort_by_key(|project| project.number);
        projects
    }

    /// The names of the projects that are here, with their places.
    pub(crate) fn project_names(&self) -> Vec<(Slot, String)> {
        let inner = self.read();
        let others = inner.projects.iter().map(|(slot, project)| (*slot, project.name.clone()));
        [(Slot::DEFAULT, DEFAULT_NAME.to_owned())].into_iter().chain(others).collect()
    }

    /// The role of a user in a project, if the user is its member.
    pub(crate) fn role_of(&self, project: &Project, user: UserId) -> Option<Role> {
        let inner = self.read();
        inner.users.get(&user).and_then(|user| role_of(project, user))
    }

    /// The role of a user in the project at a place, if the user is its member.
    pub(crate) fn role_in(&self, slot: Slot, user: UserId) -> Option<Role> {
        let inner = self.read();
        inner.users.get(&user).and_then(|user| inner.role_in(slot, user))
    }

    /// The users of a project, each with the role there, oldest first.
    pub(crate) fn users_of(&self, project: &Project) -> Vec<User> {
        let member = |user: &User| Some(User { role: role_of(project, user)?, ..user.clone() });
        self.read().users.values().filter_map(member).collect()
    }

    /// The users of the project at a place, each with the role there, oldest first.
    pub(crate) fn users_in(&self, slot: Slot) -> Vec<User> {
        if slot.is_default() {
            return self.users_of(&Project::default_one());
        }
        self.project_at(slot).map_or_else(Vec::new, |project| self.users_of(&project))
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
    fn role_in(&self, slot: Slot, user: &User) -> Option<Role> {
        if slot.is_default() {
            return Some(user.role);
        }
        self.projects.get(&slot).and_then(|project| role_of(project, user))
    }

    /// All projects but `default` and deleted ones.
    fn all(&self) -> impl Iterator<Item = &Arc<Project>> {
        let elsewhere = self.elsewhere.values().filter(|project| project.deleted_at.is_none());
        self.projects.values().chain(elsewhere)
    }
}

/// The role of a user in a project; in `default` it is the user's own.
fn role_of(project: &Project, user: &User) -> Option<Role> {
    if project.is_default() {
        return Some(user.role);
    }
    project.members.get(&user.id).map(|member| member.role)
}

/// True if the caller may see the project.
pub(crate) fn may_see(caller: &Caller, project: &Project) -> bool {
    let is_own = match caller.account {
        Account::User(user) => project.members.contains_key(&user),
        Account::Key(_) => project.slot == Some(caller.environment.slot()),
    };
    caller.is_admin_of_server() || is_own
}
