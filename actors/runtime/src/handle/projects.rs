//! Projects and their members (docs/reference/projects.md).

use std::sync::Arc;

use callboard_domain::Error;
use callboard_domain::access::{Account, Caller, Role};
use callboard_domain::account::User;
use callboard_domain::audit::By;
use callboard_domain::id::{Environment, Mode, ProjectId, Slot, UserId};
use callboard_domain::project::{Change, Member, Project};

use super::Handle;
use crate::items::accounts::{Message, NewProject};
use crate::node::register::moves::MOVING;
use crate::node::register::projects::may_see;
use crate::read::projects::{self, Figures};
use crate::read::usage;

impl Handle {
    /// The projects that a caller may see, oldest first: all for an admin of the server, else those in which the user has
    /// a role, or the key's own.
    #[must_use]
    pub fn projects(&self, caller: &Caller) -> Vec<Arc<Project>> {
        let register = &self.node.state.accounts;
        let mut projects = register.projects();
        projects.retain(|project| may_see(caller, project));
        let is_known = match caller.account {
            Account::User(_) => true,
            Account::Key(_) => caller.environment.slot().is_default(),
        };
        if is_known {
            projects.insert(0, Arc::new(Project::default_one()));
        }
        projects
    }

    /// The projects whose rows are in this cell, oldest first.
    #[must_use]
    pub fn projects_here(&self) -> Vec<Arc<Project>> {
        let mut projects = self.node.state.accounts.projects();
        projects.insert(0, Arc::new(Project::default_one()));
        projects.retain(|project| project.slot.is_some());
        projects
    }

    /// The project of this identifier or name, if the caller may see it.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn project(&self, named: &str, caller: &Caller) -> Result<Arc<Project>, Error> {
        let mut seen = self.projects(caller).into_iter();
        let found = seen.find(|project| project.is_named(named));
        found.ok_or_else(|| Error::not_found("project", named))
    }

    /// The identifier of the project of an environment.
    #[must_use]
    pub fn project_id(&self, environment: Environment) -> ProjectId {
        self.node.state.accounts.project_id(environment)
    }

    /// The role of a user in a project, if the user is its member.
    #[must_use]
    pub fn role_of(&self, project: &Project, user: UserId) -> Option<Role> {
        self.node.state.accounts.role_of(project, user)
    }

    /// The users of a project, each with the role there, oldest first.
    #[must_use]
    pub fn users_of(&self, project: &Project) -> Vec<User> {
        self.node.state.accounts.users_of(project)
    }

    /// The project of an identifier or a name.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`] for a project that is about to come to this cell.
    pub fn slot_of(&self, named: &str) -> Result<Slot, Error> {
        let register = &self.node.state.accounts;
        let refusal = || {
            if register.may_come(named) { MOVING } else { Error::not_found("project", named) }
        };
        register.slot_named(named).ok_or_else(refusal)
    }

    /// The figures of a project of this cell, for whoever may know its costs.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn figures_of(&self, project: Slot, asked: &usage::Asked) -> Result<Figures, Error> {
        let environment = project.environment(Mode::Live);
        projects::figures(self.node.store(), environment, asked).await
    }

    /// The names of the projects that are here, with their places.
    #[must_use]
    pub fn project_names(&self) -> Vec<(Slot, String)> {
        self.node.state.accounts.project_names()
    }

    /// The environment variables that plans and templates of an environment may use.
    #[must_use]
    pub fn env_allow(&self, environment: Environment) -> &[String] {
        self.node.env_allow(environment)
    }

    /// The number of members of a project.
    #[must_use]
    pub fn member_count(&self, project: &Project) -> usize {
        self.node.state.accounts.member_count(project)
    }

    /// Passes unless the caller's project takes no new work.
    ///
    /// # Errors
    /// [`Error::InvalidState`].
    pub fn check_open(&self, environment: Environment) -> Result<(), Error> {
        let project = self.node.state.accounts.project_at(environment.slot());
        project.map_or(Ok(()), |project| project.check_open())
    }

    /// Makes a project.
    ///
    /// # Errors
    /// [`Error::InvalidState`] for a name that another project has, or if there are too many,
    /// [`Error::Unavailable`].
    pub async fn create_project(&self, new: NewProject, by: By) -> Result<Arc<Project>, Error> {
        self.account_command(|reply| Message::CreateProject(new, by, reply)).await
    }

    /// Changes a project.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InvalidState`] for `default` and for a name that another project has,
    /// [`Error::Unavailable`].
    pub async fn change_project(
        &self,
        id: ProjectId,
        change: Change,
        by: By,
    ) -> Result<Arc<Project>, Error> {
        self.account_command(|reply| Message::ChangeProject(id, change, by, reply)).await
    }

    /// Deletes a project whose name is `confirm`. Nobody sees it from then on; its work is cancelled, and its rows are
    /// removed, in the background.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Invalid`], [`Error::InvalidState`] for `default`, [`Error::Unavailable`].
    pub async fn delete_project(
        &self,
        id: ProjectId,
        confirm: String,
        by: By,
    ) -> Result<Arc<Project>, Error> {
        self.account_command(|reply| Message::DeleteProject(id, confirm, by, reply)).await
    }

    /// Notes that so many rows of a deleted project were removed and none is left; true if its place is free.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub(crate) async fn purged_project(
        &self,
        project: Arc<Project>,
        rows: u64,
        is_free: bool,
    ) -> Result<(), Error> {
        self.account_command(|reply| Message::PurgedProject(project, rows, is_free, reply)).await
    }

    /// Gives a user a role in a project. The role counts once this returns.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Invalid`] for a role that is for keys, [`Error::InvalidState`],
    /// [`Error::Unavailable`].
    pub async fn set_member(
        &self,
        id: ProjectId,
        user: UserId,
        role: Role,
        by: By,
    ) -> Result<Member, Error> {
        self.account_command(|reply| Message::SetMember(id, user, role, by, reply)).await
    }

    /// Ends a user's membership of a project, with the keys that the user answers for there.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InvalidState`], [`Error::Unavailable`].
    pub async fn remove_member(
        &self,
        id: ProjectId,
        user: UserId,
        by: By,
    ) -> Result<Member, Error> {
        self.account_command(|reply| Message::RemoveMember(id, user, by, reply)).await
    }
}
