//! A session: what a login begins, and the family of refresh tokens that goes on with it (SPEC.md,
//! "JWT sessions"; PROTOCOL.md 7).
//!
//! ```text
//!   login ─▶ Open ── the current token ─▶ Open, with another current token
//!             │ ├── one replaced within GRACE ─▶ refused, nothing changes
//!             │ └── one replaced before, or crowded out ─▶ Revoked: its access tokens too
//!             └── not renewed in time: refused as expired; its access tokens live their time out
//! ```
//!
//! A token that comes back late was taken from somebody: there is no telling who holds the current
//! one, so nobody goes on. One that comes back at once is more likely a second tab or a lost answer.
//! Deliberately absent: the user's role and existence, which are read live; access tokens, which name
//! their session and hold nothing else of it; and revoked sessions in the store, because one that is
//! not there is over just the same.

use std::convert::Infallible;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::credential::refresh::RefreshToken;
use crate::digest::Digest;
use crate::error::Error;
use crate::id::{SessionId, UserId};
use crate::machine::{Machine, Step};

/// For how long a replaced token is refused without harm (PROTOCOL.md 7).
pub const GRACE: Duration = Duration::from_secs(10);

/// How long a session lasts at most, however often it is renewed: as long as a refresh token may at
/// most (SPEC.md, "JWT sessions").
pub const MAX_LIFETIME: Duration = Duration::from_hours(90 * 24);

/// How long an access token lives at most (SPEC.md, "JWT sessions").
pub const MAX_ACCESS_LIFETIME: Duration = Duration::from_hours(7 * 24);

/// How many sessions a user has at most.
pub const MAX_PER_USER: usize = 100;

/// How many replaced tokens are known to be recent. Nobody who means well renews more often within
/// [`GRACE`].
const MAX_REPLACED: usize = 4;

/// A session as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its identifier, which its access tokens carry as `sid`. Says when it began.
    pub id: SessionId,
    /// Who signed in.
    pub user: UserId,
    /// What all its refresh tokens are known by.
    pub family: Digest,
    /// How it stands.
    pub state: State,
}

/// How a session stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It can be gone on with.
    Open {
        /// The one refresh token that is taken.
        token: Digest,
        /// When that was made.
        renewed_at: Timestamp,
        /// The first instant at which it is no longer taken.
        expires_at: Timestamp,
        /// The tokens replaced last, the latest at the end.
        #[serde(default, skip_serializing_if = "<[Replaced]>::is_empty")]
        replaced: Box<[Replaced]>,
    },
    /// It is over, and its access tokens with it.
    Revoked,
}

/// A refresh token that another took the place of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replaced {
    /// Which.
    pub token: Digest,
    /// When.
    pub at: Timestamp,
}

impl Replaced {
    fn is_recent(&self, now: Timestamp) -> bool {
        now.since(self.at) <= GRACE
    }
}

/// What happens to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A refresh token of its family came in.
    Presented {
        /// Which.
        token: Digest,
        /// The token that takes its place if it is the current one.
        successor: Digest,
        /// How long that one is to live.
        lifetime: Duration,
    },
    /// Its user has begun too many others.
    CrowdedOut,
}

/// Why a session stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The token was replaced just now.
    JustReplaced,
    /// The current token is too old.
    Expired,
    /// The session was revoked.
    Over,
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::JustReplaced => {
                Self::InvalidToken("the refresh token was used already".to_owned())
            }
            Refusal::Expired => Self::TokenExpired("refresh token"),
            Refusal::Over => Self::InvalidToken("the session is over".to_owned()),
        }
    }
}

impl Session {
    /// The session that `token`, which lives for `lifetime`, is the first of.
    #[must_use]
    pub fn begun(id: SessionId, user: UserId, token: &RefreshToken, lifetime: Duration) -> Self {
        let state = open(id, token.digest(), id.created_at(), lifetime, Vec::new());
        Self { id, user, family: token.family(), state }
    }

    /// Whether no token of its can be valid any more, access tokens included.
    #[must_use]
    pub fn is_forgettable(&self, now: Timestamp) -> bool {
        match self.state {
            State::Open { expires_at, .. } => now.since(expires_at) >= MAX_ACCESS_LIFETIME,
            State::Revoked => true,
        }
    }

    fn renewed_at(&self) -> Option<Timestamp> {
        match self.state {
            State::Open { renewed_at, .. } => Some(renewed_at),
            State::Revoked => None,
        }
    }

    fn with(&self, state: State) -> Step<Self> {
        Step::to(Self { id: self.id, user: self.user, family: self.family, state })
    }
}

/// A session that stands open from `now` on with this token.
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
                Event::Presented { token, successor, lifetime },
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
                Ok(self.with(open(self.id, successor, now, lifetime, recent)))
            }
            (State::Open { .. }, Event::CrowdedOut) => Ok(self.with(State::Revoked)),
            (State::Revoked, Event::Presented { .. } | Event::CrowdedOut) => Err(Refusal::Over),
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

/// Which of a user's sessions ends when another begins: the one that was not renewed for longest,
/// once there are [`MAX_PER_USER`].
#[must_use]
pub fn crowded_out<'a>(sessions: impl IntoIterator<Item = &'a Session>) -> Option<&'a Session> {
    let sessions: Vec<_> = sessions.into_iter().collect();
    if sessions.len() < MAX_PER_USER {
        return None;
    }
    sessions.into_iter().min_by_key(|session| (session.renewed_at(), session.id))
}

#[cfg(test)]
mod tests;
