//! Users, API keys and sessions: one actor writes them, everybody reads them live.
//!
//! Spawned by the system. Role and existence are read at every request from what was committed last,
//! so that a change counts from the next request on (PROTOCOL.md 7). All accounts live in one
//! partition: no two users may have one e-mail, and one writer sees to it. Deliberately absent:
//! passwords in clear text, and access tokens; both are the edge's.

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::access::{Account, Caller, Role};
use callboard_domain::account::{Change, Email, PasswordHash, User, keep_an_admin};
use callboard_domain::credential::refresh::RefreshToken;
use callboard_domain::credential::{self, ApiKey, ENTROPY_BYTES, Kind, Secret};
use callboard_domain::digest::Digest;
use callboard_domain::id::{Environment, KeyId, SessionId, UserId};
use callboard_domain::rate::Tier;
use callboard_domain::{Error, Timestamp};
use callboard_store::table::Table;
use callboard_store::{Op, Outcome, Store, Ticket};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use crate::durable;
use crate::node::Node;
use crate::tables::{KEYS, SESSIONS, USERS};

mod register;
mod sessions;

pub(crate) use register::Register;
pub use sessions::SignedIn;

/// All accounts live here.
const PARTITION: u8 = 0;
/// Accounts are not divided by environment; a key says which one it sees.
const NUMBER: u8 = Environment::Live.number();

/// A user to be made.
#[derive(Debug, Clone)]
pub struct NewUser {
    /// By which it signs in.
    pub email: Email,
    /// What it is called.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The hash of its password.
    pub password_hash: PasswordHash,
}

/// A key to be made.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// What its maker calls it.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// What it sees.
    pub environment: Environment,
    /// Its plan, where it has one of its own.
    pub tier: Option<Tier>,
    /// How long it is valid.
    pub lifetime: Duration,
}

type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// What the accounts are told.
#[derive(Debug)]
pub(crate) enum Message {
    /// Make a user.
    CreateUser(NewUser, Reply<User>),
    /// Make the first admin, unless there is a user already.
    CreateFirstUser(NewUser, Reply<Option<User>>),
    /// Give a user another role.
    SetRole(UserId, Role, Reply<User>),
    /// Make a key.
    CreateKey(NewKey, Reply<(ApiKey, Secret)>),
    /// A user has signed in: begin a session.
    BeginSession(UserId, Reply<SignedIn>),
    /// A refresh token came in, at this instant.
    RenewSession(RefreshToken, Timestamp, Reply<SignedIn>),
    /// Forget sessions of which nothing is valid any more.
    ForgetSessions,
}

/// The actor.
#[derive(Debug)]
pub(crate) struct Accounts(pub(crate) Arc<Node>);

impl Accounts {
    async fn create_user(&self, new: NewUser) -> Result<User, Error> {
        let register = &self.0.accounts;
        if register.user_by_email(&new.email).is_some() {
            return Err(Error::EmailExists(new.email.as_str().to_owned()));
        }
        let user = User {
            id: UserId::from_u128(self.0.fresh_id(self.0.now(), PARTITION)),
            email: new.email,
            name: new.name,
            role: new.role,
            tier: None,
            password_hash: new.password_hash,
            created_at: self.0.now(),
        };
        self.store(vec![USERS.put(NUMBER, &user.id.as_u128(), &user, None)]).await?;
        register.put_user(user.clone());
        Ok(user)
    }

    async fn set_role(&self, id: UserId, role: Role) -> Result<User, Error> {
        let register = &self.0.accounts;
        let mut user = register.user(id).ok_or_else(|| Error::not_found("user", id))?;
        keep_an_admin(&register.users(), id, Change::Role(role))?;
        user.role = role;
        self.store(vec![USERS.put(NUMBER, &id.as_u128(), &user, None)]).await?;
        register.put_user(user.clone());
        Ok(user)
    }

    async fn create_key(&self, new: NewKey) -> Result<(ApiKey, Secret), Error> {
        let kind = Kind::of(new.role, new.environment)?;
        let secret = self.random(|entropy| credential::mint(kind, entropy));
        let now = self.0.now();
        let key = ApiKey {
            id: KeyId::from_u128(self.0.fresh_id(self.0.now(), PARTITION)),
            name: new.name,
            role: new.role,
            environment: new.environment,
            tier: new.tier,
            digest: secret.digest(),
            prefix: kind.prefix().to_owned(),
            last4: secret.last4().to_owned(),
            created_at: now,
            expires_at: now.after(new.lifetime),
            revoked_at: None,
        };
        self.store(vec![KEYS.put(NUMBER, &key.id.as_u128(), &key, None)]).await?;
        self.0.accounts.put_key(key.clone());
        Ok((key, secret))
    }

    /// What `make` makes of random bytes.
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

    async fn store(&self, ops: Vec<Op>) -> Result<(), Error> {
        committed(durable::commit_rows(self.0.shard(PARTITION), PARTITION, ops)).await
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
    visit: impl Fn(V),
) -> Result<(), callboard_store::Error> {
    let mut after = None;
    loop {
        let page = table.scan(store, NUMBER, after.as_ref(), 1_000).await?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = Some(*last);
        for (_, row) in page {
            visit(row);
        }
    }
}

impl Actor for Accounts {
    type Msg = Message;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Message>, (): ()) -> Result<(), ActorProcessingErr> {
        let (store, register) = (&*self.0.shard(PARTITION).store, &self.0.accounts);
        each(&USERS, store, |user| register.put_user(user)).await?;
        each(&KEYS, store, |key| register.put_key(key)).await?;
        each(&SESSIONS, store, |session| register.put_session(session)).await?;
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<Message>,
        message: Message,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        // Whoever asked may have left; what was made is there all the same.
        match message {
            Message::CreateUser(new, reply) => {
                let _ = reply.send(self.create_user(new).await);
            }
            Message::CreateFirstUser(new, reply) => {
                let made = if self.0.accounts.has_users() {
                    Ok(None)
                } else {
                    self.create_user(new).await.map(Some)
                };
                let _ = reply.send(made);
            }
            Message::SetRole(id, role, reply) => {
                let _ = reply.send(self.set_role(id, role).await);
            }
            Message::CreateKey(new, reply) => {
                let _ = reply.send(self.create_key(new).await);
            }
            Message::BeginSession(user, reply) => {
                let _ = reply.send(self.begin_session(user).await);
            }
            // For nobody a token is not replaced: its holder, who may try again, would be left
            // without one.
            Message::RenewSession(_, _, reply) if reply.is_closed() => {}
            Message::RenewSession(token, at, reply) => {
                let _ = reply.send(self.renew_session(token, at).await);
            }
            Message::ForgetSessions => {
                if let Err(error) = self.forget_sessions().await {
                    tracing::warn!(%error, "could not forget old sessions");
                }
            }
        }
        Ok(())
    }
}

/// Who a key stands for, if it is valid now.
pub(crate) fn caller_of_key(
    register: &Register,
    digest: &Digest,
    now: Timestamp,
) -> Result<Caller, Error> {
    let key = register
        .key(digest)
        .ok_or_else(|| Error::InvalidToken("the API key is not known".to_owned()))?;
    key.check(now)?;
    Ok(Caller {
        account: Account::Key(key.id),
        name: key.name.clone(),
        role: key.role,
        environment: key.environment,
        tier: key.tier,
    })
}

/// Who a session stands for, unless it is over: the user as it is now, not as the token says.
pub(crate) fn caller_of_session(
    register: &Register,
    session: SessionId,
    user: UserId,
) -> Result<Caller, Error> {
    if register.user_of_session(session) != Some(user) {
        return Err(Error::InvalidToken("the session was revoked".to_owned()));
    }
    let user = register.user(user).ok_or_else(user_is_gone)?;
    Ok(Caller {
        account: Account::User(user.id),
        name: user.email.as_str().to_owned(),
        role: user.role,
        environment: Environment::Live,
        tier: user.tier,
    })
}

fn user_is_gone() -> Error {
    Error::InvalidToken("the user does not exist any more".to_owned())
}
