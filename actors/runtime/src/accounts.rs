//! Users, API keys and sessions: one actor writes them, every request reads them live.
//!
//! The system spawns the actor. Every request reads role and existence from the last commit,
//! so that a change counts from the next request on (docs/reference/accounts.md). All accounts live in one
//! partition: no two users may have one e-mail, and one writer sees to it. Deliberately absent:
//! passwords in clear text, and access tokens; both are the edge's.

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::access::{Action, Role};
use callboard_domain::account::external::ExternalId;
use callboard_domain::account::{Email, PasswordHash, User, WorkLeft};
use callboard_domain::audit::{By, Record};
use callboard_domain::credential::invitation::Invitation;
use callboard_domain::credential::refresh::RefreshToken;
use callboard_domain::credential::selection::KeySelection;
use callboard_domain::credential::{ApiKey, ENTROPY_BYTES, Secret};
use callboard_domain::id::{Environment, InvitationId, KeyId, SessionId, UserId};
use callboard_domain::rate::Tier;
use callboard_domain::session::Session;
use callboard_domain::session::signing::SigningKeys;
use callboard_domain::{Error, Timestamp};
use callboard_store::table::Table;
use callboard_store::{Op, Outcome, Store, Ticket};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use crate::durable;
use crate::node::Node;
use crate::tables::{INVITATIONS, KEY_USES, KEYS, LEFT_WORK, SESSIONS, USERS};

mod audit;
mod ends;
mod invitations;
mod keys;
mod left;
mod register;
mod reset;
mod rights;
mod sessions;
mod users;

pub(crate) use audit::AuditLog;
pub use invitations::Invited;
pub(crate) use left::cancel as cancel_left_work;
pub use register::KnownKey;
pub(crate) use register::Register;
pub use reset::OfflineAccounts;
pub use rights::PermissionWatch;
pub(crate) use rights::{caller_now, caller_of, caller_of_key, caller_of_session};
pub use sessions::SignedIn;

/// All accounts live here.
const PARTITION: u8 = 0;
/// The environment of all accounts' rows, in which a key names the environment that it sees.
const NUMBER: u8 = Environment::Live.number();

/// A user to be made.
#[derive(Debug, Clone)]
pub struct NewUser {
    /// The e-mail by which the user signs in.
    pub email: Email,
    /// The name.
    pub name: String,
    /// The role.
    pub role: Role,
    /// The billing tier; `None` means the configured default.
    pub tier: Option<Tier>,
    /// The hash of the user's password; that of an unknown one if the user signs in elsewhere.
    pub password_hash: PasswordHash,
    /// True if the user must choose another password first.
    pub must_change_password: bool,
    /// The identity of a user who signs in at a provider.
    pub external: Option<ExternalId>,
}

/// A change that an admin makes to a user; `None` leaves a member as it is.
#[derive(Debug, Clone, Default)]
pub struct UserChange {
    /// The role.
    pub role: Option<Role>,
    /// The billing tier.
    pub tier: Option<Tier>,
    /// The hash of a password.
    pub password_hash: Option<PasswordHash>,
    /// True if the user must choose another password first; by default if there is a new hash.
    pub must_change_password: Option<bool>,
}

/// An invitation to be made.
#[derive(Debug, Clone)]
pub struct NewInvitation {
    /// The e-mail of the invited person, if it is known.
    pub email: Option<Email>,
    /// The name of the person.
    pub name: Option<String>,
    /// The role of the account.
    pub role: Role,
    /// The time for which the invitation counts.
    pub lifetime: Duration,
}

/// A user's own change of the password.
#[derive(Debug, Clone)]
pub struct PasswordChange {
    /// The user.
    pub user: UserId,
    /// The session that asks, which goes on.
    pub session: SessionId,
    /// The hash that the current password was compared with.
    pub verified: PasswordHash,
    /// The hash of the new password.
    pub password_hash: PasswordHash,
}

/// A key to be made.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// The name that the key's maker gave.
    pub name: String,
    /// The role.
    pub role: Role,
    /// The environment.
    pub environment: Environment,
    /// The key's own tier, if it has one.
    pub tier: Option<Tier>,
    /// The queues that a worker key is bound to, if it is.
    pub queues: Vec<String>,
    /// The time for which the key is valid.
    pub lifetime: Duration,
}

type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// A message to the accounts.
#[derive(Debug)]
pub(crate) enum Message {
    /// Make a user.
    CreateUser(NewUser, By, Reply<User>),
    /// Make the first admin, unless there is one.
    CreateFirstAdmin(NewUser, By, Reply<Option<User>>),
    /// Make the user whom a provider signed in, or give the known user this role.
    AdmitExternal(NewUser, By, Reply<User>),
    /// Give a user another role, tier or password.
    ChangeUser(UserId, UserChange, By, Reply<User>),
    /// Replace a user's password by the user's own wish.
    ChangePassword(PasswordChange, By, Reply<User>),
    /// Set the password of a user who has shown the link of a mail; all sessions end.
    ResetPassword(UserId, PasswordHash, By, Reply<User>),
    /// Invite a person.
    Invite(NewInvitation, By, Reply<(Invitation, Secret)>),
    RevokeInvitation(InvitationId, By, Reply<Invitation>),
    /// Make the account of an invited person.
    AcceptInvitation(Invited, By, Reply<User>),
    DeleteUser(UserId, Option<WorkLeft>, By, Reply<User>),
    /// Make a key.
    CreateKey(NewKey, By, Reply<(ApiKey, Secret)>),
    RevokeKey(KeyId, By, Reply<Arc<KnownKey>>),
    /// Revoke these keys, if they are as many as expected.
    RevokeKeys(KeySelection, Option<u64>, Option<String>, By, Reply<Vec<Arc<KnownKey>>>),
    /// Replace a key; the old one ends after the overlap.
    RotateKey(KeyId, Duration, By, Reply<(ApiKey, Secret)>),
    /// A user has signed in with the password of this hash, or with a link of this session: begin a session.
    BeginSession(UserId, PasswordHash, Option<SessionId>, By, Reply<SignedIn>),
    /// A refresh token came in, at this instant.
    RenewSession(RefreshToken, Timestamp, By, Reply<SignedIn>),
    EndSession(SessionId, By, Reply<Arc<Session>>),
    /// End all sessions of a user.
    EndSessions(UserId, By, Reply<usize>),
    /// Other keys sign access tokens.
    ChangeSigningKeys(SigningKeys, By, Reply<()>),
    /// Store the last uses of keys.
    StoreUses(Reply<()>),
    /// Write the audit records that wait.
    WriteAudit,
    /// Forget expired sessions, and do the other work that is due once a minute.
    Tidy,
}

/// The actor.
#[derive(Debug)]
pub(crate) struct Accounts(pub(crate) Arc<Node>);

impl Accounts {
    /// Reads all accounts.
    async fn load(&self) -> Result<(), callboard_store::Error> {
        let (store, register) = (&*self.0.shard(PARTITION).store, &self.0.accounts);
        each(&USERS, store, |_, user| register.put_user(user)).await?;
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
            Some(account) => caller_of(&self.0.accounts, account, self.0.now())?.may(action),
            None => Ok(()),
        }
    }

    /// The result of `make` over random bytes.
    fn random<T>(&self, make: impl Fn(&[u8; ENTROPY_BYTES]) -> Option<T>) -> T {
        loop {
            let mut entropy = [0; ENTROPY_BYTES];
            for chunk in entropy.chunks_exact_mut(16) {
                chunk.copy_from_slice(&self.0.ports.entropy.bits().to_be_bytes());
            }
            if let Some(made) = make(&entropy) {
                return made;
            }
        }
    }

    /// Makes rows durable, together with their entries in the audit log.
    async fn store(&self, mut ops: Vec<Op>, records: Vec<Record>) -> Result<(), Error> {
        let ends = self.append_audit(&mut ops, records).await?;
        let stored = committed(durable::commit_rows(self.0.shard(PARTITION), PARTITION, ops)).await;
        if let Some(ends) = ends {
            // The store knows the end of the log after a failure.
            self.0.audit.set_ends(stored.is_ok().then_some(ends));
        }
        stored
    }
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
                let made = if self.0.accounts.has_admin() {
                    Ok(None)
                } else {
                    self.create_user(new, by).await.map(Some)
                };
                let _ = reply.send(made);
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
