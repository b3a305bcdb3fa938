//! Sessions: begun, renewed, revoked, forgotten. The rule is [`callboard_domain::session`].
//!
//! A revoked session has no row: it is taken away in the commit that revokes it, and what is not
//! there is over. Deliberately absent: access tokens, which the edge signs.

use callboard_domain::account::User;
use callboard_domain::credential::refresh::RefreshToken;
use callboard_domain::id::{Environment, SessionId, UserId};
use callboard_domain::machine::{Machine, Step};
use callboard_domain::session::{Event, Session, crowded_out};
use callboard_domain::{Error, Timestamp};
use callboard_store::Op;

use super::{Accounts, NUMBER, PARTITION, committed};
use crate::durable::{self, Persist};
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

impl Persist for Session {
    /// The rows of what changes with it.
    type Texts = Vec<Op>;

    fn partition(&self) -> u8 {
        PARTITION
    }

    fn rows(
        Step { next, .. }: &Step<Self>,
        _: Environment,
        _: Timestamp,
        mut others: Vec<Op>,
    ) -> Vec<Op> {
        let id = next.id.as_u128();
        others.push(if next.is_finished() {
            SESSIONS.delete(NUMBER, &id)
        } else {
            SESSIONS.put(NUMBER, &id, next, None)
        });
        others
    }
}

impl Accounts {
    pub(super) async fn begin_session(&self, user: UserId) -> Result<SignedIn, Error> {
        let register = &self.0.accounts;
        let user = register.user(user).ok_or(Error::InvalidCredentials)?;
        let refresh_token = self.random(RefreshToken::first);
        let id = SessionId::from_u128(self.0.fresh_id(PARTITION));
        let lifetime = self.0.settings.refresh_token;
        let session = Session::begun(id, user.id, &refresh_token, lifetime);
        let others = register.sessions_of(user.id);
        let crowded = match crowded_out(others.iter().map(AsRef::as_ref)) {
            Some(session) => Some(session.transition(Event::CrowdedOut, self.0.now())?),
            None => None,
        };
        let now = self.0.now();
        let rows = |over| Session::rows(over, Environment::Live, now, Vec::new());
        let rows = crowded.iter().flat_map(rows);
        self.settle(Step::to(session), rows.collect()).await?;
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
        let refresh_token = self.random(|entropy| token.sibling(entropy));
        let event = Event::Presented {
            token: token.digest(),
            successor: refresh_token.digest(),
            lifetime: self.0.settings.refresh_token,
        };
        let step = session.transition(event, at)?;
        let is_over = step.next.is_finished();
        self.settle(step, Vec::new()).await?;
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
    async fn settle(&self, step: Step<Session>, extra: Vec<Op>) -> Result<(), Error> {
        let (shard, now) = (self.0.shard(PARTITION), self.0.now());
        let rows = Session::rows(&step, Environment::Live, now, extra);
        committed(durable::commit_rows(shard, PARTITION, rows)).await?;
        self.0.accounts.put_session(step.next);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
