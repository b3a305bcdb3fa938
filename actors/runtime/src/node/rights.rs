//! The account that a credential stands for now, and the time for which an open stream may go on.
//!
//! ```text
//!   a key revoked, a role changed, a session ended ─▶ Register ─▶ every watch looks again
//!   the end of the credential's time ─────────────────────────▶ its watch looks again
//! ```

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::access::{Account, Action, Caller};
use callboard_domain::account::User;
use callboard_domain::digest::Digest;
use callboard_domain::id::{Mode, SessionId, Slot, UserId};
use callboard_domain::{Error, Timestamp};
use tokio::sync::watch;

use crate::messages::accounts::KnownKey;
use crate::node::Node;
use crate::node::register::Register;

/// The longest time without a look: the wall clock may jump.
const LOOK: Duration = Duration::from_mins(1);

/// The caller of a valid key.
pub(crate) fn caller_of_key(
    register: &Register,
    digest: &Digest,
    now: Timestamp,
) -> Result<Caller, Error> {
    let known = register
        .key(digest)
        .ok_or_else(|| Error::InvalidToken("the API key is not known".to_owned()))?;
    let caller = of_key(&known, now)?;
    known.used(now);
    Ok(caller)
}

/// The caller of an open session: the user as it is now, not as the token says.
pub(crate) fn caller_of_session(
    register: &Register,
    session: SessionId,
    (user, slot): (UserId, Slot),
    now: Timestamp,
) -> Result<Caller, Error> {
    let session = register
        .session(session)
        .filter(|session| session.user == user)
        .ok_or_else(|| Error::InvalidToken("the session was revoked: sign in again".to_owned()))?;
    let expires_at = register.end_of_key(&session, now)?;
    let user = register.user(user).ok_or_else(user_is_gone)?;
    Ok(Caller { expires_at, ..register.caller_in(slot, &user, Some(session.id))? })
}

/// The caller that an account is now in a project, with any credential.
pub(crate) fn caller_of(
    register: &Register,
    account: Account,
    slot: Slot,
    now: Timestamp,
) -> Result<Caller, Error> {
    match account {
        Account::Key(id) => {
            let known = register.key_by_id(id);
            let known = known.filter(|known| known.key.environment.slot() == slot);
            let known =
                known.ok_or_else(|| Error::InvalidToken("the API key is not known".to_owned()))?;
            of_key(&known, now)
        }
        Account::User(id) => {
            let user = register.user(id).ok_or_else(user_is_gone)?;
            register.caller_in(slot, &user, None)
        }
    }
}

/// The caller that these credentials are now.
pub(crate) fn caller_now(
    node: &Node,
    (account, slot): (Account, Slot),
    session: Option<SessionId>,
) -> Result<Caller, Error> {
    let (register, now) = (&node.state.accounts, node.now());
    match (account, session) {
        (Account::User(user), Some(session)) => {
            caller_of_session(register, session, (user, slot), now)
        }
        (account, _) => caller_of(register, account, slot, now),
    }
}

fn of_key(known: &KnownKey, now: Timestamp) -> Result<Caller, Error> {
    let key = &known.key;
    key.check(now)?;
    Ok(Caller {
        account: Account::Key(key.id),
        name: key.name.clone(),
        role: key.role,
        environment: key.environment,
        tier: key.tier,
        queues: key.queues.clone(),
        session: None,
        must_change_password: false,
        expires_at: Some(key.ends_at()),
    })
}

pub(crate) fn of_user(user: &User, slot: Slot, session: Option<SessionId>) -> Caller {
    Caller {
        account: Account::User(user.id),
        name: user.email.as_str().to_owned(),
        role: user.role,
        environment: slot.environment(Mode::Live),
        tier: user.tier,
        queues: Vec::new(),
        session,
        must_change_password: user.must_change_password,
        expires_at: None,
    }
}

pub(crate) fn user_is_gone() -> Error {
    Error::InvalidToken("the user does not exist any more".to_owned())
}

/// A caller's right to one action, which an open stream or socket holds.
#[derive(Clone)]
pub struct PermissionWatch {
    node: Arc<Node>,
    account: Account,
    slot: Slot,
    session: Option<SessionId>,
    expires_at: Option<Timestamp>,
    action: Action,
    changes: watch::Receiver<()>,
    /// The caller at the last change, if it has any right left.
    known: Option<Caller>,
}

impl std::fmt::Debug for PermissionWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PermissionWatch").field("account", &self.account).finish_non_exhaustive()
    }
}

impl PermissionWatch {
    pub(crate) fn new(node: Arc<Node>, caller: &Caller, action: Action) -> Self {
        let changes = node.state.accounts.changes();
        let Caller { account, session, expires_at, environment, .. } = *caller;
        let (slot, known) = (environment.slot(), None);
        let mut right = Self { node, account, slot, session, expires_at, action, changes, known };
        right.changes.mark_changed();
        right
    }

    /// True if the caller may do this now; asked for every event. The end of the credential's time is
    /// left to [`Self::lost`].
    pub fn permits(&mut self, action: Action) -> bool {
        if self.changes.has_changed().unwrap_or(true) {
            self.changes.borrow_and_update();
            self.known = self.caller().ok();
        }
        self.known.as_ref().is_some_and(|caller| caller.may(action).is_ok())
    }

    /// Waits until the right is gone, and returns the error with which a request would be refused.
    pub async fn lost(&mut self) -> Error {
        loop {
            self.changes.borrow_and_update();
            let wait = match self.check() {
                Ok(left) => left.min(LOOK),
                Err(error) => return error,
            };
            tokio::select! {
                // The sender lives in the node.
                _ = self.changes.changed() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    fn caller(&self) -> Result<Caller, Error> {
        self.node.state.accounts.check_here(self.slot)?;
        caller_now(&self.node, (self.account, self.slot), self.session)
    }

    /// The time that is left.
    fn check(&self) -> Result<Duration, Error> {
        let (caller, now) = (self.caller()?, self.node.now());
        caller.may(self.action)?;
        let ends = [self.expires_at, caller.expires_at].into_iter().flatten().min();
        match ends {
            Some(end) if end <= now => Err(Error::TokenExpired("credential")),
            Some(end) => Ok(end.since(now)),
            None => Ok(LOOK),
        }
    }
}
