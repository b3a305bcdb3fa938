//! Projects and their members: made and changed by the one writer of accounts. The rules are
//! [`callboard_domain::project`].

use std::sync::Arc;

use callboard_domain::Error;
use callboard_domain::access::{Account, Action as Permission, Role};
use callboard_domain::audit::{Action, By, Record};
use callboard_domain::cell::cell_for;
use callboard_domain::id::{ProjectId, UserId};
use callboard_domain::project::{Change, DEFAULT_NAME, Member, Project, next_number};
use callboard_store::Op;

use super::users::Endings;
use super::{Accounts, NUMBER, PARTITION};
use crate::messages::accounts::NewProject;
use crate::messages::approval;
use crate::tables::{KEY_USES, KEYS, PROJECT_NUMBER, PROJECTS};

/// The key of the only row of [`PROJECT_NUMBER`].
const ONLY: u128 = 0;

impl Accounts {
    /// Makes a project, here or in another cell; its maker is its first admin.
    pub(super) async fn create_project(
        &self,
        new: NewProject,
        by: By,
    ) -> Result<Arc<Project>, Error> {
        self.permit(&by, Permission::ProjectsManage)?;
        self.check_name(&new.name, None)?;
        let (register, now) = (&self.0.state.accounts, self.0.now());
        let cell = cell_for(new.cell.as_deref(), &register.cells(), &register.projects())?;
        let last = PROJECT_NUMBER.get(self.0.store(), NUMBER, &ONLY).await;
        let number = next_number(last.map_err(unreadable)?.unwrap_or_default())?;
        let mut project = Project {
            id: ProjectId::from_u128(self.0.fresh_id(now, PARTITION)),
            number,
            name: new.name,
            description: new.description,
            created_by: by.account,
            slot: None,
            cell,
            ..Project::default_one()
        };
        if let Some(Account::User(user)) = by.account {
            project.admit(user, Role::Admin, now)?;
        }
        let record = Record::new(Action::ProjectCreated, by).of(project.id);
        let mut record = record.with("name", &project.name);
        if let Some(cell) = &project.cell {
            record = record.with("cell", cell);
        }
        let number = PROJECT_NUMBER.put(NUMBER, &ONLY, &number, None);
        if project.cell.is_some() {
            let ops = [put(&project), vec![number]].concat();
            self.store(ops, vec![record]).await?;
            return Ok(self.keep(project));
        }
        self.open(project, vec![number], vec![record]).await
    }

    /// Gives a project a place in the store of this cell.
    pub(super) async fn open(
        &self,
        project: Project,
        mut ops: Vec<Op>,
        records: Vec<Record>,
    ) -> Result<Arc<Project>, Error> {
        let slot = self.free_place()?;
        let project = Project { slot: Some(slot), cell: None, ..project };
        ops.extend(put(&project));
        ops.extend(self.0.open_project(slot).await.map_err(unreadable)?);
        self.store(ops, records).await?;
        Ok(self.keep(project))
    }

    pub(super) async fn change_project(
        &self,
        id: ProjectId,
        change: Change,
        by: By,
    ) -> Result<Arc<Project>, Error> {
        self.permit_in(id, &by, Permission::ProjectsManage)?;
        let before = self.changeable(id)?;
        if let Some(name) = &change.name {
            self.check_name(name, Some(id))?;
        }
        let mut record = Record::new(Action::ProjectChanged, by).of(id);
        if let Some(name) = change.name.as_ref().filter(|name| **name != before.name) {
            record = record.with("name", name).with("previousName", &before.name);
        }
        if let Some(days) = change.retention_days {
            record = record.with("retentionDays", days);
        }
        if let Some(archived) = change.archived {
            record = record.with("archived", archived);
        }
        let after = (*before).clone().with(change, self.0.now());
        if after == *before {
            return Ok(before);
        }
        self.store(put(&after), vec![record]).await?;
        Ok(self.keep(after))
    }

    /// Deletes a project: nobody sees it from then on, its keys are revoked; its work is cancelled, and its rows are
    /// removed, in the background.
    pub(super) async fn delete_project(
        &self,
        id: ProjectId,
        confirm: &str,
        by: By,
    ) -> Result<Arc<Project>, Error> {
        self.permit_in(id, &by, Permission::ProjectsManage)?;
        let before = self.changeable(id)?;
        before.check_settled()?;
        let now = self.0.now();
        let deleted = (*before).clone().deleted(confirm, now)?;
        let mut endings = Endings::default();
        let record = Record::new(Action::ProjectDeleted, by).of(id);
        endings.records.push(record.with("name", &deleted.name));
        let keys = before.slot.map(|slot| self.0.state.accounts.keys_in(slot));
        for known in keys.unwrap_or_default() {
            if known.key.check(now).is_ok() {
                endings.revoke(known.key.clone().revoked(now), by, "project deleted");
            }
        }
        endings.ops.extend(put(&deleted));
        self.end(endings).await?;
        let deleted = self.keep(deleted);
        self.0.state.purging.notify_one();
        Ok(deleted)
    }

    /// Notes that a deleted project has no rows; if its place is free, it is forgotten with its keys.
    pub(super) async fn purged_project(
        &self,
        project: &Project,
        rows: u64,
        is_free: bool,
    ) -> Result<(), Error> {
        let (store, register) = (self.0.store(), &self.0.state.accounts);
        let mut records = Vec::new();
        if project.purged_at.is_none() {
            let record = Record::new(Action::ProjectPurged, By::SYSTEM).of(project.id);
            records.push(record.with("name", &project.name).with("rows", rows));
        }
        if !is_free {
            let purged_at = project.purged_at.or_else(|| Some(self.0.now()));
            let purged = Project { purged_at, ..project.clone() };
            self.store(put(&purged), records).await?;
            self.keep(purged);
            return Ok(());
        }
        let Some(slot) = project.slot else { return Err(Error::Internal) };
        let id = project.id.as_u128();
        let mut ops = PROJECTS.delete(store, NUMBER, id).await.map_err(unreadable)?;
        let keys = register.keys_in(slot);
        for known in &keys {
            let key = known.key.id.as_u128();
            ops.extend(KEYS.delete(store, NUMBER, key).await.map_err(unreadable)?);
            ops.push(KEY_USES.delete(NUMBER, &key));
        }
        self.store(ops, records).await?;
        for known in keys {
            register.remove_key(&known.key);
        }
        register.forget_project(slot);
        Ok(())
    }

    /// Gives a user a role in a project.
    pub(super) async fn set_member(
        &self,
        id: ProjectId,
        user: UserId,
        role: Role,
        by: By,
    ) -> Result<Member, Error> {
        self.permit_in(id, &by, Permission::MembersManage)?;
        let before = self.changeable(id)?;
        let register = &self.0.state.accounts;
        register.user(user).ok_or_else(|| Error::not_found("user", user))?;
        let mut after = (*before).clone();
        if after.admit(user, role, self.0.now())? {
            let mut endings = Endings::default();
            let record = Record::new(Action::MemberSet, by).of(id).with("user", user);
            endings.records.push(record.with("role", role));
            if let Some(slot) = after.slot {
                self.end_keys(&mut endings, user, Some((slot, Some(role))), by);
            }
            endings.ops.extend(put(&after));
            self.end(endings).await?;
            self.keep(after.clone());
        }
        Ok(after.members[&user])
    }

    /// Ends a user's membership: sessions see the project no more, keys that the user answers for are revoked, and
    /// reviews are assigned anew.
    pub(super) async fn remove_member(
        &self,
        id: ProjectId,
        user: UserId,
        by: By,
    ) -> Result<Member, Error> {
        self.permit_in(id, &by, Permission::MembersManage)?;
        let before = self.changeable(id)?;
        let mut after = (*before).clone();
        let gone = after.members.remove(&user).ok_or_else(|| Error::not_found("member", user))?;
        let mut endings = Endings::default();
        endings.records.push(Record::new(Action::MemberRemoved, by).of(id).with("user", user));
        let Some(slot) = after.slot else {
            self.store(put(&after), endings.records).await?;
            self.keep(after);
            return Ok(gone);
        };
        self.end_keys(&mut endings, user, Some((slot, None)), by);
        endings.ops.extend(put(&after));
        self.end(endings).await?;
        self.keep(after);
        let items = self.0.limits.reviewers.items_of(user);
        for item in items.into_iter().filter(|item| item.environment.slot() == slot) {
            let shard = self.0.shard(item.task.partition());
            shard.approvals.send(item, approval::Message::AssigneeGone);
        }
        Ok(gone)
    }

    /// The rows of the projects without a deleted user.
    pub(super) fn without_member(&self, user: UserId) -> Vec<Project> {
        let projects = self.0.state.accounts.projects();
        let of = projects.iter().filter(|project| project.members.contains_key(&user));
        let without = |project: &Arc<Project>| {
            let mut project = (**project).clone();
            project.members.remove(&user);
            project
        };
        of.map(without).collect()
    }

    pub(super) fn keep(&self, project: Project) -> Arc<Project> {
        let project = Arc::new(project);
        self.0.state.accounts.put_project(Arc::clone(&project));
        project
    }

    /// Passes if `by` may do this in the project: as an admin of the server, or of the project.
    fn permit_in(&self, id: ProjectId, by: &By, action: Permission) -> Result<(), Error> {
        self.permit(by, action)?;
        let own = self.0.state.accounts.project_at(by.project).map(|project| project.id);
        if by.project.is_default() || own == Some(id) {
            return Ok(());
        }
        Err(Error::not_found("project", id))
    }

    /// A project that can be changed.
    pub(super) fn changeable(&self, id: ProjectId) -> Result<Arc<Project>, Error> {
        if id == ProjectId::DEFAULT {
            let message = "the project default cannot be changed: every user of the server is its member, with the \
                           role that /api/auth/users gives";
            return Err(Error::InvalidState(message.to_owned()));
        }
        self.0.state.accounts.project(id)
    }

    /// Passes unless another project has the name.
    fn check_name(&self, name: &str, own: Option<ProjectId>) -> Result<(), Error> {
        let projects = self.0.state.accounts.projects();
        let mut others = projects.iter().filter(|project| Some(project.id) != own);
        if name == DEFAULT_NAME || others.any(|project| project.name == name) {
            let message = format!("name {name} belongs to another project: choose another name");
            return Err(Error::InvalidState(message));
        }
        Ok(())
    }
}

pub(super) fn unreadable(_: callboard_store::Error) -> Error {
    Error::Unavailable("the store cannot be read")
}

pub(super) fn put(project: &Project) -> Vec<Op> {
    PROJECTS.put(NUMBER, project.id.as_u128(), project, None)
}
