//! Users, API keys and sessions: one actor writes them, every request reads them live.
//!
//! The system spawns the actor. Every request reads role and existence from the last commit, so that a change counts
//! from the next request on (docs/reference/accounts.md). All accounts live in one partition: no two users may have
//! one e-mail, and one writer sees to it.

use std::sync::Arc;

use callboard_domain::Error;
use callboard_domain::access::Action;
use callboard_domain::audit::{By, Record};
use callboard_domain::credential::ENTROPY_BYTES;
use callboard_domain::id::{Environment, KeyId, Slot, UserId};
use callboard_domain::project::Project;
use callboard_store::table::Table;
use callboard_store::{Op, Outcome, Store, Ticket};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::node::Node;
use crate::node::register::Register;
use crate::tables::{
    CELLS, INVITATIONS, KEY_USES, KEYS, LEFT_WORK, MOVES, PROJECTS, SESSIONS, USERS,
};

mod audit;
mod cells;
mod ends;
mod invitations;
mod keys;
mod left;
mod moves;
mod projects;
mod reset;
mod sessions;
mod users;

pub(crate) use crate::messages::accounts::Message;
pub use crate::messages::accounts::{
    Invited, KnownKey, NewInvitation, NewKey, NewProject, NewUser, PasswordChange, SignedIn,
    UserChange,
};
pub use crate::node::rights::PermissionWatch;
pub(crate) use crate::node::rights::{caller_now, caller_of, caller_of_key, caller_of_session};
pub(crate) use left::{cancel as cancel_left_work, cancel_all};
pub use reset::OfflineAccounts;

/// All accounts live here.
const PARTITION: u8 = 0;
/// The environment of all accounts' rows, in which a key names the environment that it sees.
const NUMBER: u8 = Environment::LIVE.number();

/// The actor.
#[derive(Debug)]
pub(crate) struct Accounts(pub(crate) Arc<Node>);

impl Accounts {
    /// Reads all accounts.
    async fn load(&self) -> Result<(), callboard_store::Error> {
        let (store, register) = (&*self.0.shard(PARTITION).store, &self.0.state.accounts);
        each(&USERS, store, |_, user| register.put_user(user)).await?;
        for (_, part) in MOVES.scan(store, NUMBER, None, usize::from(Slot::COUNT)).await? {
            register.put_part(part);
        }
        let mut after = None;
        loop {
            let page = PROJECTS.scan(store, NUMBER, after.as_ref(), 1_000).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            for (_, project) in page {
                if let Some(slot) = project.slot.filter(|_| is_open(register, &project)) {
                    self.0.kernel.environments.put(slot);
                }
                register.put_project(Arc::new(project));
            }
        }
        let cells = CELLS.get(store, NUMBER, cells::ONLY).await?;
        register.put_cells(cells.unwrap_or_default());
        let left = |id, left| register.put_left(UserId::from_u128(id), left);
        each(&LEFT_WORK, store, left).await?;
        let mut after = None;
        loop {
            let page = KEYS.scan(store, NUMBER, after.as_ref(), 1_000).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            for (_, key) in page {
                register.put_key(key);
            }
        }
        each(&INVITATIONS, store, |_, open| register.put_invitation(open)).await?;
        each(&SESSIONS, store, |_, session| register.put_session(session)).await?;
        each(&KEY_USES, store, |id, at| register.put_use(KeyId::from_u128(id), at)).await
    }

    /// Passes if `by` may do this now: the right may have gone while the message waited.
    fn permit(&self, by: &By, action: Action) -> Result<(), Error> {
        match by.account {
            Some(account) => {
                let (register, now) = (&self.0.state.accounts, self.0.now());
                caller_of(register, account, by.project, now)?.may(action)
            }
            None => Ok(()),
        }
    }

    /// The result of `make` over random bytes.
    fn random<T>(&self, make: impl Fn(&[u8; ENTROPY_BYTES]) -> Option<T>) -> T {
        loop {
            let mut entropy = [0; ENTROPY_BYTES];
            for chunk in entropy.chunks_exact_mut(16) {
                chunk.copy_from_slice(&self.0.kernel.ports.entropy.bits().to_be_bytes());
            }
            if let Some(made) = make(&entropy) {
                return made;
            }
        }
    }

    /// Makes rows durable, together with their entries in the audit log.
    async fn store(&self, mut ops: Vec<Op>, records: Vec<Record>) -> Result<(), Error> {
        let ends = self.append_audit(&mut ops, records).await?;
        let stored = committed(self.0.shard(PARTITION).commit(PARTITION, ops)).await;
        if let Some(ends) = ends {
            // The store knows the end of the log after a failure.
            self.0.state.audit.set_ends(stored.is_ok().then_some(ends));
        }
        stored
    }
}

/// True for a project that is served from the start on: one that stands still is not.
fn is_open(register: &Register, project: &Project) -> bool {
    project.deleted_at.is_none() && register.open_part(project.id).is_none()
}

async fn committed(ticket: Ticket) -> Result<(), Error> {
    match ticket.await {
        Outcome::Committed => Ok(()),
        Outcome::Fenced | Outcome::Conflict(_) | Outcome::NotApplied(_) | Outcome::Unknown(_) => {
            Err(Error::Unavailable("the account could not be stored"))
        }
    }
}

/// Calls `visit` with every row of a table.
async fn each<V: Serialize + DeserializeOwned>(
    table: &Table<u128, V>,
    store: &dyn Store,
    visit: impl Fn(u128, V),
) -> Result<(), callboard_store::Error> {
    let mut after = None;
    loop {
        let page = table.scan(store, NUMBER, after.as_ref(), 1_000).await?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = Some(*last);
        for (id, row) in page {
            visit(id, row);
        }
    }
}

impl Actor for Accounts {
    type Msg = Message;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Message>, (): ()) -> Result<(), ActorProcessingErr> {
        self.load().await?;
        self.end_sessions_without_key(By::SYSTEM).await?;
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<Message>,
        message: Message,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        // The client may have left; the change is durable all the same.
        match message {
            Message::CreateUser(new, by, reply) => {
                let _ = reply.send(self.create_user(new, by).await);
            }
            Message::CreateFirstAdmin(new, by, reply) => {
                let _ = reply.send(self.create_first_admin(new, by).await);
            }
            Message::AdmitExternal(new, by, reply) => {
                let _ = reply.send(self.admit_external(new, by).await);
            }
            Message::ChangeUser(id, change, by, reply) => {
                let _ = reply.send(self.change_user(id, change, by).await);
            }
            Message::ChangePassword(change, by, reply) => {
                let _ = reply.send(self.change_password(change, by).await);
            }
            Message::ResetPassword(id, hash, by, reply) => {
                let _ = reply.send(self.reset_password(id, hash, by).await);
            }
            Message::Invite(new, by, reply) => {
                let _ = reply.send(self.invite(new, by).await);
            }
            Message::RevokeInvitation(id, by, reply) => {
                let _ = reply.send(self.revoke_invitation(id, by).await);
            }
            Message::AcceptInvitation(invited, by, reply) => {
                let _ = reply.send(self.accept_invitation(invited, by).await);
            }
            Message::DeleteUser(id, work, by, reply) => {
                let _ = reply.send(self.delete_user(id, work, by).await);
            }
            Message::CreateProject(new, by, reply) => {
                let _ = reply.send(self.create_project(new, by).await);
            }
            Message::ChangeProject(id, change, by, reply) => {
                let _ = reply.send(self.change_project(id, change, by).await);
            }
            Message::PutCell(cell, by, reply) => {
                let _ = reply.send(self.put_cell(cell, by).await);
            }
            Message::RemoveCell(name, by, reply) => {
                let _ = reply.send(self.remove_cell(&name, by).await);
            }
            Message::Follow(own, assigned, reply) => {
                let _ = reply.send(self.follow(&own, assigned).await);
            }
            Message::Move(command) => self.take(command).await,
            Message::DeleteProject(id, confirm, by, reply) => {
                let _ = reply.send(self.delete_project(id, &confirm, by).await);
            }
            Message::PurgedProject(project, rows, is_free, reply) => {
                let _ = reply.send(self.purged_project(&project, rows, is_free).await);
            }
            Message::SetMember(id, user, role, by, reply) => {
                let _ = reply.send(self.set_member(id, user, role, by).await);
            }
            Message::RemoveMember(id, user, by, reply) => {
                let _ = reply.send(self.remove_member(id, user, by).await);
            }
            Message::CreateKey(new, by, reply) => {
                let _ = reply.send(self.create_key(new, by).await);
            }
            Message::RevokeKey(id, by, reply) => {
                let _ = reply.send(self.revoke_key(id, by).await);
            }
            Message::RevokeKeys(selection, expect, reason, by, reply) => {
                let _ = reply.send(self.revoke_keys(selection, expect, reason, by).await);
            }
            Message::RotateKey(id, overlap, by, reply) => {
                let _ = reply.send(self.rotate_key(id, overlap, by).await);
            }
            Message::BeginSession(user, hash, parent, by, reply) => {
                let _ = reply.send(self.begin_session(user, &hash, parent, by).await);
            }
            // A renewal whose holder has left replaces no token: the holder, who may try again, would
            // be left without one.
            Message::RenewSession(_, _, _, reply) if reply.is_closed() => {}
            Message::RenewSession(token, at, by, reply) => {
                let _ = reply.send(self.renew_session(token, at, by).await);
            }
            Message::EndSession(id, by, reply) => {
                let _ = reply.send(self.end_session(id, by).await);
            }
            Message::EndSessions(user, by, reply) => {
                let _ = reply.send(self.end_sessions(user, by).await);
            }
            Message::ChangeSigningKeys(keys, by, reply) => {
                let _ = reply.send(self.change_signing_keys(keys, by).await);
            }
            Message::StoreUses(reply) => {
                let _ = reply.send(self.store_uses().await);
            }
            Message::WriteAudit => self.write_audit().await,
            Message::Tidy => self.tidy().await,
        }
        Ok(())
    }
}

impl Accounts {
    async fn tidy(&self) {
        let failed = |error| tracing::warn!(%error, "could not tidy up the accounts");
        let _ = self.end_sessions_without_key(By::SYSTEM).await.map_err(failed);
        let _ = self.forget_sessions().await.map_err(failed);
        let _ = self.forget_invitations().await.map_err(failed);
        let _ = self.store_uses().await.map_err(failed);
        let _ = self.summarise_refusals().await.map_err(failed);
        let _ = self.trim_audit().await.map_err(failed);
        self.warn_of_ends();
        let _ = self.mail_of_ends().await.map_err(failed);
    }
}
