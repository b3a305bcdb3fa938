//! A session: one login and its family of refresh tokens, which are rotated (docs/reference/accounts.md).
//!
//! ```text
//!   login ─▶ Open ── the current token ─▶ Open, with another current token
//!             │ ├── a token replaced within REUSE_GRACE ─▶ refused, nothing changes
//!             │ └── a token replaced earlier, evicted or ended ─▶ Revoked, with its access tokens
//!             └── not renewed in time: refused as expired; access tokens stay valid to their end
//!   renewed ─▶ bound to the key that signs now; a session whose key is gone is refused ([`signing`])
//! ```
//!
//! A session that a sign-in link began is the **child** of the session that made the link: it expires with its
//! parent at the latest, and ends with it, whatever ends that.
//!
//! A replaced token that comes back late was stolen, or the current one was; the thief cannot be
//! distinguished from the user, so both lose the session. One that comes back at once is more likely a
//! second tab or a lost answer. Deliberately absent: the user's role and existence, which are read
//! live; the content of access tokens, which only name their session; and revoked sessions in the
//! store, because a missing session is just as invalid.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Timestamp;
use crate::credential::refresh::RefreshToken;
use crate::digest::Digest;
use crate::error::Error;
use crate::id::{SessionId, UserId};
use crate::machine::{Machine, Step};

use self::signing::SigningKeyId;

pub mod signing;

/// The time during which a replaced token is refused without revoking the session.
pub const REUSE_GRACE: Duration = Duration::from_secs(10);

/// The longest life of a session, however often it is renewed: that of the longest refresh token.
pub const MAX_LIFETIME: Duration = Duration::from_hours(90 * 24);

/// The longest life of an access token.
pub const MAX_ACCESS_LIFETIME: Duration = Duration::from_hours(7 * 24);

/// The most sessions of a user; a further login evicts one.
pub const MAX_PER_USER: usize = 100;

/// The most replaced tokens that are remembered. An honest client renews less often within
/// [`REUSE_GRACE`].
const MAX_REPLACED: usize = 4;

/// A session as it is stored.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The identifier, which the access tokens carry as `sid` and which holds the time of the login.
    pub id: SessionId,
    /// The user who signed in.
    pub user: UserId,
    /// The digest of the part that all refresh tokens of the session share.
    pub family: Digest,
    /// The key that signed the session's latest access token; the session ends with that key.
    pub signing_key: Option<SigningKeyId>,
    /// The session that made the link by which this one began.
    pub parent: Option<SessionId>,
    /// Open or revoked.
    pub state: State,
}

/// The state of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The current refresh token renews the session.
    Open {
        /// The current refresh token.
        token: Digest,
        /// The issue time of the current token.
        renewed_at: Timestamp,
        /// The first instant at which the current token is refused.
        expires_at: Timestamp,
        /// Recently replaced tokens, the latest at the end.
        #[serde(default, skip_serializing_if = "<[Replaced]>::is_empty")]
        replaced: Box<[Replaced]>,
    },
    /// Final: no token of the session is valid, access tokens included.
    Revoked,
}

/// A refresh token with a successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replaced {
    /// The token.
    pub token: Digest,
    /// The issue time of the successor.
    pub at: Timestamp,
}

impl Replaced {
    fn is_recent(&self, now: Timestamp) -> bool {
        now.since(self.at) <= REUSE_GRACE
    }
}

/// An event in the life of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A client presented a refresh token of the family.
    Presented {
        /// The presented token.
        token: Digest,
        /// The token that replaces the sent one if that is the current one.
        successor: Digest,
        /// The lifetime of the successor.
        lifetime: Duration,
        /// The end of the parent's current token, beyond which the successor is not valid.
        latest: Option<Timestamp>,
        /// The key that signs now.
        signing_key: SigningKeyId,
    },
    /// A new login exceeded [`MAX_PER_USER`].
    Evicted,
    /// The user or an admin ended the session, or the user is gone.
    Ended,
}

/// The reason why an event changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The token was replaced within [`REUSE_GRACE`].
    JustReplaced,
    /// The current token is past its lifetime.
    Expired,
    /// The session was revoked before.
    Revoked,
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::JustReplaced => {
                Self::InvalidToken("the refresh token was already used: sign in again".to_owned())
            }
            Refusal::Expired => Self::TokenExpired("refresh token"),
            Refusal::Revoked => {
                Self::InvalidToken("the session was revoked: sign in again".to_owned())
            }
        }
    }
}

impl Session {
    /// A new session with its first token.
    #[must_use]
    pub fn new(
        id: SessionId,
        user: UserId,
        token: &RefreshToken,
        lifetime: Duration,
        signing_key: SigningKeyId,
    ) -> Self {
        let state = open(id, token.digest(), id.created_at(), lifetime, Vec::new());
        let signing_key = Some(signing_key);
        Self { id, user, family: token.family(), signing_key, parent: None, state }
    }

    /// This new session as the child of `parent`.
    ///
    /// # Errors
    /// [`Error::InvalidToken`] if the parent was revoked, [`Error::TokenExpired`] if it has expired.
    pub fn child_of(mut self, parent: &Self) -> Result<Self, Error> {
        let begun = self.id.created_at();
        let latest = parent.expires_at().ok_or(Refusal::Revoked)?;
        if latest <= begun {
            return Err(Refusal::Expired.into());
        }
        self.parent = Some(parent.id);
        if let State::Open { expires_at, .. } = &mut self.state {
            *expires_at = latest.min(*expires_at);
        }
        Ok(self)
    }

    /// True if no token of the session can be valid any more, access tokens included.
    #[must_use]
    pub fn is_purgeable(&self, now: Timestamp) -> bool {
        match self.state {
            State::Open { expires_at, .. } => now.since(expires_at) >= MAX_ACCESS_LIFETIME,
            State::Revoked => true,
        }
    }

    /// The issue time of the current refresh token; `None` once revoked.
    #[must_use]
    pub const fn renewed_at(&self) -> Option<Timestamp> {
        match self.state {
            State::Open { renewed_at, .. } => Some(renewed_at),
            State::Revoked => None,
        }
    }

    /// The end of the current refresh token; `None` once revoked.
    #[must_use]
    pub const fn expires_at(&self) -> Option<Timestamp> {
        match self.state {
            State::Open { expires_at, .. } => Some(expires_at),
            State::Revoked => None,
        }
    }

    fn with(&self, state: State) -> Step<Self> {
        Step::to(Self { state, ..self.clone() })
    }
}

/// The open state with a token issued at `now`.
fn open(
    id: SessionId,
    token: Digest,
    now: Timestamp,
    lifetime: Duration,
    replaced: Vec<Replaced>,
) -> State {
    let end = id.created_at().after(MAX_LIFETIME);
    let expires_at = now.after(lifetime).min(end);
    State::Open { token, renewed_at: now, expires_at, replaced: replaced.into() }
}

impl Machine for Session {
    type Event = Event;
    type Fact = Infallible;
    type Effect = Infallible;
    type Refusal = Refusal;

    fn transition(&self, event: Event, now: Timestamp) -> Result<Step<Self>, Refusal> {
        match (&self.state, event) {
            (
                State::Open { token: current, expires_at, replaced, .. },
                Event::Presented { token, successor, lifetime, latest, signing_key },
            ) => {
                let mut recent: Vec<_> =
                    replaced.iter().filter(|one| one.is_recent(now)).copied().collect();
                if token != *current {
                    return if recent.iter().any(|one| one.token == token) {
                        Err(Refusal::JustReplaced)
                    } else {
                        Ok(self.with(State::Revoked))
                    };
                }
                if *expires_at <= now {
                    return Err(Refusal::Expired);
                }
                recent.push(Replaced { token, at: now });
                recent.drain(..recent.len().saturating_sub(MAX_REPLACED));
                let lifetime = latest.map_or(lifetime, |latest| lifetime.min(latest.since(now)));
                let state = open(self.id, successor, now, lifetime, recent);
                Ok(Step::to(Self { signing_key: Some(signing_key), state, ..self.clone() }))
            }
            (State::Open { .. }, Event::Evicted | Event::Ended) => Ok(self.with(State::Revoked)),
            (State::Revoked, Event::Presented { .. } | Event::Evicted | Event::Ended) => {
                Err(Refusal::Revoked)
            }
        }
    }

    fn outstanding(&self) -> Vec<Infallible> {
        Vec::new()
    }

    fn is_finished(&self) -> bool {
        match self.state {
            State::Open { .. } => false,
            State::Revoked => true,
        }
    }
}

/// The descendants of a session among the sessions of its user.
#[must_use]
pub fn descendants(of: SessionId, sessions: &[Arc<Session>]) -> Vec<&Arc<Session>> {
    let mut found: Vec<&Arc<Session>> = Vec::new();
    let mut parents = vec![of];
    while let Some(parent) = parents.pop() {
        for session in sessions.iter().filter(|session| session.parent == Some(parent)) {
            parents.push(session.id);
            found.push(session);
        }
    }
    found
}

/// The session that a new login of the same user evicts: the least recently renewed one, once there
/// are [`MAX_PER_USER`]. The session that made the link of the login, and those before it, stay.
///
/// # Errors
/// [`Error::InvalidState`] if all sessions are such.
pub fn evicted_by_login(
    sessions: &[Arc<Session>],
    parent: Option<SessionId>,
) -> Result<Option<&Arc<Session>>, Error> {
    if sessions.len() < MAX_PER_USER {
        return Ok(None);
    }
    let mut ancestors = Vec::new();
    let mut next = parent;
    while let Some(id) = next {
        ancestors.push(id);
        let found = sessions.iter().find(|session| session.id == id);
        next = found.and_then(|session| session.parent).filter(|id| !ancestors.contains(id));
    }
    let others = sessions.iter().filter(|session| !ancestors.contains(&session.id));
    let evicted = others.min_by_key(|session| (session.renewed_at(), session.id));
    evicted.map(Some).ok_or_else(|| {
        let message =
            format!("the user has {MAX_PER_USER} sessions, each of which began the next: end one");
        Error::InvalidState(message)
    })
}

#[cfg(test)]
mod tests;
