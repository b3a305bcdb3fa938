//! Users: made, changed, deleted. A change ends the sessions and keys that it invalidates in the same
//! commit.

use std::sync::Arc;

use callboard_domain::access::{Account, Action as Permission, Role};
use callboard_domain::account::{Change, PasswordHash, User, WorkLeft, keep_an_admin};
use callboard_domain::audit::{Action, By, Record};
use callboard_domain::credential::ApiKey;
use callboard_domain::id::{InvitationId, SessionId, Slot, UserId};
use callboard_domain::machine::Machine;
use callboard_domain::session::{Event, Session, descendants};
use callboard_domain::{Error, Rule, Timestamp};
use callboard_store::Op;

use super::sessions::row;
use super::{Accounts, NUMBER, NewUser, PARTITION, PasswordChange, UserChange, left, projects};
use crate::messages::approval;
use crate::tables::{INVITATIONS, KEYS, USERS, views};

/// The sessions and keys that end with a change: rows, records, and the changes of the register once those
/// are durable.
#[derive(Default)]
pub(super) struct Endings {
    pub(super) ops: Vec<Op>,
    pub(super) records: Vec<Record>,
    keys: Vec<ApiKey>,
    sessions: Vec<Session>,
}

impl Accounts {
    pub(super) async fn create_user(&self, new: NewUser, by: By) -> Result<User, Error> {
        self.create_invited(new, None, by).await
    }

    pub(super) async fn create_first_admin(
        &self,
        new: NewUser,
        by: By,
    ) -> Result<Option<User>, Error> {
        if self.0.state.accounts.has_admin() {
            return Ok(None);
        }
        self.create_user(new, by).await.map(Some)
    }

    /// Makes a user, and uses up the invitation, if there is one.
    pub(super) async fn create_invited(
        &self,
        new: NewUser,
        invitation: Option<InvitationId>,
        by: By,
    ) -> Result<User, Error> {
        self.permit(&by, Permission::UsersManage)?;
        let register = &self.0.state.accounts;
        if register.user_by_email(&new.email).is_some() {
            return Err(Error::EmailExists(new.email.as_str().to_owned()));
        }
        let user = self.user_of(new);
        let record = Record::new(Action::UserCreated, by).of(user.id).with("role", user.role);
        let mut record = record.with("email", &user.email);
        if let Some(external) = &user.external {
            record = record.with("issuer", &external.issuer).with("subject", &external.subject);
        }
        let mut ops = vec![USERS.put(NUMBER, &user.id.as_u128(), &user, None)];
        if let Some(id) = invitation {
            record = record.with("invitation", id);
            ops.push(INVITATIONS.delete(NUMBER, &id.as_u128()));
        }
        self.store(ops, vec![record]).await?;
        register.put_user(user.clone());
        Ok(user)
    }

    /// The row of a new user.
    pub(super) fn user_of(&self, new: NewUser) -> User {
        User {
            id: UserId::from_u128(self.0.fresh_id(self.0.now(), PARTITION)),
            email: new.email,
            name: new.name,
            role: new.role,
            tier: new.tier,
            password_hash: new.password_hash,
            must_change_password: new.must_change_password,
            external: new.external,
            created_at: self.0.now(),
        }
    }

    /// The user of this identity, made or with this role.
    pub(super) async fn admit_external(&self, new: NewUser, by: By) -> Result<User, Error> {
        let known = new.external.as_ref().and_then(|id| self.0.state.accounts.user_by_external(id));
        match known {
            None => self.create_user(new, by).await,
            Some(user) if user.role == new.role => Ok(user),
            Some(user) => {
                let change = UserChange { role: Some(new.role), ..UserChange::default() };
                self.change_user(user.id, change, by).await
            }
        }
    }

    pub(super) async fn change_user(
        &self,
        id: UserId,
        change: UserChange,
        by: By,
    ) -> Result<User, Error> {
        self.permit(&by, Permission::UsersManage)?;
        let register = &self.0.state.accounts;
        let mut user = register.user(id).ok_or_else(|| Error::not_found("user", id))?;
        let mut record = Record::new(Action::UserChanged, by).of(id);
        let mut endings = Endings::default();
        if let Some(role) = change.role {
            keep_an_admin(&register.users(), id, Change::Role(role))?;
            record = record.with("role", role).with("previousRole", user.role);
            user.role = role;
            self.end_keys(&mut endings, id, Some((Slot::DEFAULT, Some(user.role))), by);
        }
        if let Some(tier) = change.tier {
            record = record.with("plan", tier.as_str());
            user.tier = Some(tier);
        }
        let must_change = change.must_change_password;
        if let Some(must_change) = must_change.or(change.password_hash.as_ref().map(|_| true)) {
            if must_change && change.password_hash.is_none() && user.external.is_some() {
                let message = format!("user {id} signs in at a provider, and has no password here");
                return Err(Error::InvalidState(message));
            }
            record = record.with("mustChangePassword", must_change);
            user.must_change_password = must_change;
        }
        if let Some(hash) = change.password_hash {
            record = record.with("password", "set");
            user.password_hash = hash;
            self.end_all_sessions(&mut endings, id, None, by, "password set by an admin");
        }
        endings.ops.push(USERS.put(NUMBER, &id.as_u128(), &user, None));
        endings.records.insert(0, record);
        self.end(endings).await?;
        register.put_user(user.clone());
        self.0.limits.concurrency.changed(register, &id.to_string());
        Ok(user)
    }

    pub(super) async fn change_password(
        &self,
        change: PasswordChange,
        by: By,
    ) -> Result<User, Error> {
        let register = &self.0.state.accounts;
        let PasswordChange { user: id, session, verified, password_hash } = change;
        let mut user = register.user(id).ok_or_else(crate::node::rights::user_is_gone)?;
        // Another change was faster, or the session has ended since.
        if user.password_hash != verified || register.user_of_session(session) != Some(id) {
            return Err(Error::InvalidCredentials);
        }
        user.password_hash = password_hash;
        user.must_change_password = false;
        let mut endings = Endings::default();
        endings.records.push(Record::new(Action::PasswordChanged, by).of(id));
        self.end_all_sessions(&mut endings, id, Some(session), by, "password changed");
        endings.ops.push(USERS.put(NUMBER, &id.as_u128(), &user, None));
        self.end(endings).await?;
        register.put_user(user.clone());
        Ok(user)
    }

    /// Sets the password of a user who has shown a link that was mailed to the user.
    pub(super) async fn reset_password(
        &self,
        id: UserId,
        hash: PasswordHash,
        by: By,
    ) -> Result<User, Error> {
        let register = &self.0.state.accounts;
        let mut user = register.user(id).ok_or_else(crate::node::rights::user_is_gone)?;
        user.password_hash = hash;
        user.must_change_password = false;
        let mut endings = Endings::default();
        endings.records.push(Record::new(Action::PasswordReset, by).of(id));
        self.end_all_sessions(&mut endings, id, None, by, "password reset");
        endings.ops.push(USERS.put(NUMBER, &id.as_u128(), &user, None));
        self.end(endings).await?;
        register.put_user(user.clone());
        Ok(user)
    }

    pub(super) async fn delete_user(
        &self,
        id: UserId,
        work: Option<WorkLeft>,
        by: By,
    ) -> Result<User, Error> {
        self.permit(&by, Permission::UsersManage)?;
        let register = &self.0.state.accounts;
        let user = register.user(id).ok_or_else(|| Error::not_found("user", id))?;
        keep_an_admin(&register.users(), id, Change::Deletion)?;
        self.check_left(id, work)?;
        let mut endings = Endings::default();
        let record = Record::new(Action::UserDeleted, by).of(id).with("email", &user.email);
        endings.records.push(record);
        self.end_keys(&mut endings, id, None, by);
        self.end_all_sessions(&mut endings, id, None, by, "user deleted");
        endings.ops.push(USERS.delete(NUMBER, &id.as_u128()));
        endings.ops.extend(work.map(|left| left::row(id, left)));
        endings.ops.extend(self.without_views(Account::User(id)).await?);
        let projects = self.without_member(id);
        endings.ops.extend(projects.iter().flat_map(projects::put));
        self.end(endings).await?;
        for project in projects {
            self.keep(project);
        }
        if let Some(left) = work {
            register.put_left(id, left);
        }
        register.remove_user(&user);
        if work == Some(WorkLeft::ToCancel) {
            tokio::spawn(left::cancel(Arc::clone(&self.0)));
        }
        for item in self.0.limits.reviewers.items_of(id) {
            let shard = self.0.shard(item.task.partition());
            shard.approvals.send(item, approval::Message::AssigneeGone);
        }
        self.0.limits.concurrency.changed(register, &id.to_string());
        Ok(user)
    }

    /// Passes if somebody has said what becomes of a user's unfinished work, or there is none.
    fn check_left(&self, id: UserId, work: Option<WorkLeft>) -> Result<(), Error> {
        match work {
            Some(WorkLeft::HandedOver(to)) => {
                let heir = self.0.state.accounts.user(to).filter(|_| to != id);
                let heir = heir.ok_or_else(|| {
                    let message =
                        "work must be cancel, or the id of another user who takes it over";
                    Error::invalid("work", Rule::Enum, message)
                })?;
                if crate::node::rights::of_user(&heir, Slot::DEFAULT, None)
                    .may(Permission::TasksCreate)
                    .is_err()
                {
                    let message = format!(
                        "user {} may not submit tasks and cannot take the work over: name another user",
                        heir.id
                    );
                    return Err(Error::invalid("work", Rule::Enum, message));
                }
                Ok(())
            }
            Some(WorkLeft::ToCancel | WorkLeft::Cancelled) => Ok(()),
            None => {
                let accounts = self.0.state.accounts.accounts_of(id);
                let (tasks, schedules) = self.0.limits.holdings.unfinished(&accounts);
                if tasks + schedules == 0 {
                    return Ok(());
                }
                Err(Error::InvalidState(format!(
                    "the user has {tasks} unfinished tasks and {schedules} schedules: cancel them with \
                     work=cancel, or hand them to another user with work=USER"
                )))
            }
        }
    }

    /// The keys that `id` answers for and could not give any more. `now` is the project whose role changed and the new
    /// role there; `None` for a deleted user.
    pub(super) fn end_keys(
        &self,
        endings: &mut Endings,
        id: UserId,
        now: Option<(Slot, Option<Role>)>,
        by: By,
    ) {
        let at = self.0.now();
        let (keys, role, why) = match now {
            Some((slot, Some(role))) => {
                (self.0.state.accounts.keys_in(slot), Some(role), "role of its user changed")
            }
            Some((slot, None)) => {
                (self.0.state.accounts.keys_in(slot), None, "user left the project")
            }
            None => (self.0.state.accounts.keys(), None, "user deleted"),
        };
        for known in keys {
            let key = &known.key;
            if key.ends_with(id, role) && key.check(at).is_ok() {
                endings.revoke(key.clone().revoked(at), by, why);
            }
        }
    }

    pub(super) fn end_all_sessions(
        &self,
        endings: &mut Endings,
        user: UserId,
        except: Option<SessionId>,
        by: By,
        why: &str,
    ) {
        for session in self.0.state.accounts.sessions_of(user) {
            if Some(session.id) == except {
                endings.release(&session);
            } else {
                endings.end_session(&session, &[], (Event::Ended, self.0.now()), by, why);
            }
        }
    }

    /// Makes endings durable; from then on every request knows of them.
    pub(super) async fn end(&self, endings: Endings) -> Result<(), Error> {
        let Endings { mut ops, records, keys, sessions } = endings;
        for key in &keys {
            ops.extend(self.without_views(Account::Key(key.id)).await?);
        }
        self.store(ops, records).await?;
        let register = &self.0.state.accounts;
        for session in sessions {
            register.put_session(session);
        }
        for key in keys {
            register.put_key(key);
        }
        Ok(())
    }

    /// The rows that delete the private views of an account in every project.
    async fn without_views(&self, account: Account) -> Result<Vec<Op>, Error> {
        let mut ops = Vec::new();
        for &environment in &*self.0.environments() {
            let all = views::all(self.0.store(), environment, Some(account)).await;
            let all = all.map_err(|_| Error::Unavailable("the views could not be read"))?;
            ops.extend(all.iter().map(|(id, view)| views::delete(environment, *id, view)));
        }
        Ok(ops)
    }
}

impl Endings {
    /// Adds a key that is revoked.
    pub(super) fn revoke(&mut self, key: ApiKey, by: By, why: &str) {
        let record = Record::new(Action::KeyRevoked, by).of(key.id).with("name", &key.name);
        self.records.push(record.with("reason", why));
        self.ops.extend(KEYS.put(NUMBER, key.id.as_u128(), &key, None));
        self.keys.push(key);
    }

    /// Adds a session that ends, and its descendants in `family`.
    pub(super) fn end_session(
        &mut self,
        session: &Session,
        family: &[Arc<Session>],
        (event, at): (Event, Timestamp),
        by: By,
        why: &str,
    ) {
        // A session that is over has no row and stands in no register.
        let Ok(step) = session.transition(event, at) else { return };
        if matches!(event, Event::Ended) {
            let record = Record::new(Action::SessionEnded, by).of(session.id);
            self.records.push(record.with("user", session.user).with("reason", why));
        }
        self.ops.push(row(&step.next));
        self.sessions.push(step.next);
        self.end_descendants(session.id, family, at, by);
    }

    /// Adds the descendants of a session that ends.
    pub(super) fn end_descendants(
        &mut self,
        of: SessionId,
        family: &[Arc<Session>],
        at: Timestamp,
        by: By,
    ) {
        let why = "the session that made its link is over";
        for session in descendants(of, family) {
            self.end_session(session, &[], (Event::Ended, at), by, why);
        }
    }

    /// Keeps a session whose parent ends, without a parent.
    fn release(&mut self, session: &Session) {
        if session.parent.is_some() {
            let released = Session { parent: None, ..session.clone() };
            self.ops.push(row(&released));
            self.sessions.push(released);
        }
    }
}
