//! Sessions: begun, renewed, revoked, forgotten. The rule is [`callboard_domain::session`].
//!
//! A revoked session has no row: it is taken away in the commit that revokes it, and what is not
//! there is over. Deliberately absent: access tokens, which the edge signs.

use callboard_domain::account::User;
use callboard_domain::credential::refresh::RefreshToken;
use callboard_domain::id::{SessionId, UserId};
use callboard_domain::machine::{Machine, Step};
use callboard_domain::session::{Event, Session, evicted_by_login};
use callboard_domain::{Error, Timestamp};
use callboard_store::Op;

use super::{Accounts, NUMBER, PARTITION, committed};
use crate::durable;
use crate::tables::SESSIONS;

/// How many sessions are forgotten in one commit.
const PAGE: usize = 1_000;

/// A session that was begun or renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedIn {
    /// Who signed in, as it is now.
    pub user: User,
    /// What the access token names.
    pub session: SessionId,
    /// What the session is renewed with; told here and never again.
    pub refresh_token: RefreshToken,
}

/// The row of a step of a session; one that is over has none.
fn row(session: &Session) -> Op {
    let id = session.id.as_u128();
    if session.is_finished() {
        SESSIONS.delete(NUMBER, &id)
    } else {
        SESSIONS.put(NUMBER, &id, session, None)
    }
}

impl Accounts {
    pub(super) async fn begin_session(&self, user: UserId) -> Result<SignedIn, Error> {
        let register = &self.0.accounts;
        let user = register.user(user).ok_or(Error::InvalidCredentials)?;
        let refresh_token = self.random(RefreshToken::new_family);
        let id = SessionId::from_u128(self.0.fresh_id(self.0.now(), PARTITION));
        let lifetime = self.0.settings.refresh_token;
        let session = Session::new(id, user.id, &refresh_token, lifetime);
        let others = register.sessions_of(user.id);
        let crowded = match evicted_by_login(others.iter().map(AsRef::as_ref)) {
            Some(session) => Some(session.transition(Event::Evicted, self.0.now())?),
            None => None,
        };
        let rows = crowded.iter().map(|over| row(&over.next)).collect();
        self.commit_step(Step::to(session), rows).await?;
        if let Some(over) = crowded {
            register.put_session(over.next);
        }
        Ok(SignedIn { user, session: id, refresh_token })
    }

    /// Renews the session that `token`, which came in at `at`, belongs to.
    pub(super) async fn renew_session(
        &self,
        token: RefreshToken,
        at: Timestamp,
    ) -> Result<SignedIn, Error> {
        let register = &self.0.accounts;
        let session = register
            .session_of_family(&token.family())
            .ok_or_else(|| Error::InvalidToken("the refresh token is not known".to_owned()))?;
        let user = register.user(session.user).ok_or_else(super::user_is_gone)?;
        let refresh_token = self.random(|entropy| token.rotated(entropy));
        let event = Event::Presented {
            token: token.digest(),
            successor: refresh_token.digest(),
            lifetime: self.0.settings.refresh_token,
        };
        let step = session.transition(event, at)?;
        let is_over = step.next.is_finished();
        self.commit_step(step, Vec::new()).await?;
        if is_over {
            let (session, user) = (session.id, user.id);
            tracing::warn!(%session, %user, "a used refresh token came back: its session is over");
            return Err(Error::InvalidToken("the refresh token was used before".to_owned()));
        }
        Ok(SignedIn { user, session: session.id, refresh_token })
    }

    /// Takes away the rows of sessions of which nothing is valid any more.
    pub(super) async fn forget_sessions(&self) -> Result<(), Error> {
        let ids = self.0.accounts.forgettable_sessions(self.0.now());
        for page in ids.chunks(PAGE) {
            let ops = page.iter().map(|id| SESSIONS.delete(NUMBER, &id.as_u128())).collect();
            self.store(ops).await?;
            for id in page {
                self.0.accounts.forget_session(*id);
            }
        }
        Ok(())
    }

    /// Makes a step durable, with `extra` rows; from then on everybody reads it.
    async fn commit_step(&self, step: Step<Session>, extra: Vec<Op>) -> Result<(), Error> {
        let (shard, mut rows) = (self.0.shard(PARTITION), extra);
        rows.push(row(&step.next));
        committed(durable::commit_rows(shard, PARTITION, rows)).await?;
        self.0.accounts.put_session(step.next);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
