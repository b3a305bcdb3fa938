//! Cells: at home their list, in a cell the projects and people that home gives it.

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard_domain::Error;
use callboard_domain::access::{Action as Permission, Role};
use callboard_domain::account::{PasswordHash, User};
use callboard_domain::audit::{Action, By, Record};
use callboard_domain::cell::{Assigned, Cell, MAX_CELLS, Person};
use callboard_domain::id::UserId;
use callboard_domain::moving::Stage;
use callboard_domain::project::{Change, Project};

use super::projects::put;
use super::{Accounts, NUMBER};
use crate::tables::{CELLS, USERS};

/// The key of the only row of [`CELLS`].
pub(super) const ONLY: u128 = 0;

impl Accounts {
    /// Adds a cell, or gives one other addresses.
    pub(super) async fn put_cell(&self, cell: Cell, by: By) -> Result<Cell, Error> {
        self.permit(&by, Permission::ClusterManage)?;
        let mut cells = self.0.state.accounts.cells().to_vec();
        let known = cells.iter().position(|known| known.name == cell.name);
        let added_at = known.map_or(cell.added_at, |at| cells.remove(at).added_at);
        if cells.len() >= MAX_CELLS {
            let message =
                format!("there are {MAX_CELLS} cells, which is the limit: remove one first");
            return Err(Error::InvalidState(message));
        }
        let cell = Cell { added_at, ..cell };
        cells.push(cell.clone());
        let record = Record::new(Action::CellAdded, by).with("name", &cell.name);
        let record = record.with("nodes", cell.nodes.join(" "));
        self.store_cells(cells, record).await?;
        Ok(cell)
    }

    /// Removes a cell that has no project.
    pub(super) async fn remove_cell(&self, name: &str, by: By) -> Result<Cell, Error> {
        self.permit(&by, Permission::ClusterManage)?;
        let register = &self.0.state.accounts;
        let mut cells = register.cells().to_vec();
        let at = cells.iter().position(|cell| cell.name == name);
        let cell = cells.remove(at.ok_or_else(|| Error::not_found("cell", name))?);
        let projects = register.projects();
        if let Some(there) = projects.iter().find(|it| it.is_or_comes_to(name)) {
            let message =
                format!("cell {name} has projects, {} is one: delete them first", there.name);
            return Err(Error::InvalidState(message));
        }
        let record = Record::new(Action::CellRemoved, by).with("name", name);
        self.store_cells(cells, record).await?;
        Ok(cell)
    }

    async fn store_cells(&self, cells: Vec<Cell>, record: Record) -> Result<(), Error> {
        self.store(CELLS.put(NUMBER, ONLY, &cells, None), vec![record]).await?;
        self.0.state.accounts.put_cells(cells);
        Ok(())
    }

    /// Brings projects, members and people up to date with home's list. What the list does not name stays: only a
    /// project that home says was deleted is.
    pub(super) async fn follow(
        &self,
        own: &str,
        Assigned { projects, people, .. }: Assigned,
    ) -> Result<(), Error> {
        self.put_people(people).await?;
        self.drop_unnamed(&projects).await?;
        for given in projects {
            self.take_order(Some(own), given.clone(), Vec::new()).await?;
            if given.cell.as_deref() != Some(own) {
                continue;
            }
            match self.0.state.accounts.project(given.id) {
                Ok(known) if given.deleted_at.is_some() => {
                    self.delete_project(known.id, &known.name, By::SYSTEM).await?;
                }
                Ok(known) => self.follow_project(&known, given).await?,
                Err(_) if given.deleted_at.is_some() => {}
                Err(_) => {
                    let record = Record::new(Action::ProjectCreated, By::SYSTEM).of(given.id);
                    let record = record.with("name", &given.name);
                    self.open(given, Vec::new(), vec![record]).await?;
                }
            }
        }
        Ok(())
    }

    /// Drops what has come of projects that home's list does not name: their moves were given up.
    async fn drop_unnamed(&self, projects: &[Project]) -> Result<(), Error> {
        for part in self.0.state.accounts.parts() {
            let is_named = projects.iter().any(|given| given.id == part.project);
            let comes = matches!(part.stage, Stage::Coming | Stage::Copied);
            if comes && !is_named {
                self.drop_part(&part).await?;
            }
        }
        Ok(())
    }

    async fn follow_project(&self, known: &Arc<Project>, given: Project) -> Result<(), Error> {
        let id = known.id;
        for user in known.members.keys().filter(|user| !given.members.contains_key(user)) {
            self.remove_member(id, *user, By::SYSTEM).await?;
        }
        let mut after = self.0.state.accounts.project(id)?;
        if let Some(archived_at) = given.archived_at.filter(|_| after.archived_at.is_none()) {
            // The time is home's.
            let archived = Project { archived_at: Some(archived_at), ..(*after).clone() };
            self.store(put(&archived), Vec::new()).await?;
            after = self.keep(archived);
        }
        let change = Change {
            name: (after.name != given.name).then_some(given.name),
            description: (after.description != given.description)
                .then(|| given.description.unwrap_or_default()),
            retention_days: (after.retention_days != given.retention_days)
                .then(|| given.retention_days.unwrap_or_default()),
            archived: (after.archived_at.is_some() != given.archived_at.is_some())
                .then_some(given.archived_at.is_some()),
        };
        if change != Change::default() {
            self.change_project(id, change, By::SYSTEM).await?;
        }
        for (user, member) in given.members {
            if after.members.get(&user).is_none_or(|known| known.role != member.role) {
                self.set_member(id, user, member.role, By::SYSTEM).await?;
            }
        }
        Ok(())
    }

    /// Notes the people of home. A person whom home does not name any more has no right here, and keeps the name in
    /// histories.
    async fn put_people(&self, people: Vec<Person>) -> Result<(), Error> {
        let register = &self.0.state.accounts;
        let mut users: BTreeMap<_, _> =
            people.into_iter().map(|person| (person.id, of_home(person))).collect();
        for known in register.users().into_iter().filter(|known| known.role != Role::Viewer) {
            users.entry(known.id).or_insert(User { role: Role::Viewer, ..known });
        }
        users.retain(|id, user| register.user(*id).is_none_or(|known| known != *user));
        if !users.is_empty() {
            let put = |(id, user): (&UserId, &User)| USERS.put(NUMBER, &id.as_u128(), user, None);
            self.store(users.iter().map(put).collect(), Vec::new()).await?;
            for user in users.into_values() {
                register.put_user(user);
            }
        }
        Ok(())
    }
}

/// A person of home as a user of this cell, who has no password here.
fn of_home(Person { id, email, name, role, tier, created_at }: Person) -> User {
    User {
        id,
        email,
        name,
        role,
        tier,
        password_hash: PasswordHash::new(String::new()),
        must_change_password: false,
        external: None,
        created_at,
    }
}
