//! Sessions: begun, renewed, revoked, forgotten. The rule is [`callboard_domain::session`].
//!
//! A revoked session has no row: it is taken away in the commit that revokes it, and a session that is not there is
//! over.

use std::sync::Arc;

use callboard_domain::access::{Account, Action as Permission};
use callboard_domain::account::PasswordHash;
use callboard_domain::audit::{Action, By, Record};
use callboard_domain::credential::refresh::RefreshToken;
use callboard_domain::id::{SessionId, UserId};
use callboard_domain::machine::Machine;
use callboard_domain::session::signing::SigningKeys;
use callboard_domain::session::{Event, Refusal, Session, descendants, evicted_by_login};
use callboard_domain::{Error, Timestamp};
use callboard_store::Op;

use super::users::Endings;
use super::{Accounts, NUMBER, PARTITION};
use crate::messages::accounts::SignedIn;
use crate::tables::SESSIONS;

/// The number of sessions that one commit forgets.
const PAGE: usize = 1_000;

/// The row of a step of a session; one that is over has none.
pub(super) fn row(session: &Session) -> Op {
    let id = session.id.as_u128();
    if session.is_finished() {
        SESSIONS.delete(NUMBER, &id)
    } else {
        SESSIONS.put(NUMBER, &id, session, None)
    }
}

impl Accounts {
    /// Begins a session of a user whose password was compared with `verified`, unless it was
    /// changed since then; with a parent, one that ends with it.
    pub(super) async fn begin_session(
        &self,
        user: UserId,
        verified: &PasswordHash,
        parent: Option<SessionId>,
        by: By,
    ) -> Result<SignedIn, Error> {
        let register = &self.0.state.accounts;
        let user = register.user(user).ok_or(Error::InvalidCredentials)?;
        if user.password_hash != *verified {
            return Err(Error::InvalidCredentials);
        }
        let refresh_token = self.random(RefreshToken::new_family);
        let id = SessionId::from_u128(self.0.fresh_id(self.0.now(), PARTITION));
        let lifetime = self.0.settings.refresh_token;
        let signing_key = register.signing_keys().current;
        let mut session = Session::new(id, user.id, &refresh_token, lifetime, signing_key);
        let mut record = Record::new(Action::SignedIn, by).of(id);
        let others = register.sessions_of(user.id);
        if let Some(parent) = parent {
            let found = others.iter().find(|known| known.id == parent);
            let found = found.ok_or_else(revoked)?;
            register.end_of_key(found, self.0.now())?;
            session = session.child_of(found)?;
            record = record.with("parent", parent);
        }
        let mut endings = Endings::default();
        if let Some(crowded) = evicted_by_login(&others, parent)? {
            endings.end_session(crowded, &others, (Event::Evicted, self.0.now()), by, "evicted");
        }
        endings.ops.push(row(&session));
        endings.records.push(record);
        self.end(endings).await?;
        register.put_session(session);
        Ok(SignedIn { user, session: id, refresh_token })
    }

    /// Renews the session that `token`, which came in at `at`, belongs to.
    pub(super) async fn renew_session(
        &self,
        token: RefreshToken,
        at: Timestamp,
        by: By,
    ) -> Result<SignedIn, Error> {
        let register = &self.0.state.accounts;
        let session = register.session_of_family(&token.family()).ok_or_else(|| {
            Error::InvalidToken("the refresh token is not known: sign in again".to_owned())
        })?;
        let user = register.user(session.user).ok_or_else(crate::node::rights::user_is_gone)?;
        register.end_of_key(&session, at)?;
        let refresh_token = self.random(|entropy| token.rotated(entropy));
        let event = Event::Presented {
            token: token.digest(),
            successor: refresh_token.digest(),
            lifetime: self.0.settings.refresh_token,
            latest: self.end_of_parent(&session)?,
            signing_key: register.signing_keys().current,
        };
        let step = session.transition(event, at)?;
        let is_over = step.next.is_finished();
        let by = By { account: Some(Account::User(user.id)), ..by };
        let mut endings = Endings::default();
        if is_over {
            endings.records.push(Record::new(Action::TokenReused, by).of(session.id));
            let family = register.sessions_of(user.id);
            endings.end_descendants(session.id, &family, at, by);
        }
        endings.ops.push(row(&step.next));
        self.end(endings).await?;
        register.put_session(step.next);
        if is_over {
            let (session, user) = (session.id, user.id);
            tracing::warn!(%session, %user, "a used refresh token came back: its session is over");
            return Err(Error::InvalidToken(
                "the refresh token was used before: sign in again".to_owned(),
            ));
        }
        Ok(SignedIn { user, session: session.id, refresh_token })
    }

    /// Ends a session: the caller's own, or any one for an admin. Another's does not exist for others.
    pub(super) async fn end_session(&self, id: SessionId, by: By) -> Result<Arc<Session>, Error> {
        let session = self.0.state.accounts.session(id);
        let session = session.ok_or_else(|| Error::not_found("session", id))?;
        if by.account != Some(Account::User(session.user)) {
            let permitted = self.permit(&by, Permission::UsersManage);
            permitted.map_err(|_| Error::not_found("session", id))?;
        }
        let mut endings = Endings::default();
        let family = self.0.state.accounts.sessions_of(session.user);
        endings.end_session(&session, &family, (Event::Ended, self.0.now()), by, "ended");
        self.end(endings).await?;
        Ok(session)
    }

    /// The end of the current token of a session's parent; `None` for a session without a parent.
    fn end_of_parent(&self, session: &Session) -> Result<Option<Timestamp>, Error> {
        let Some(parent) = session.parent else { return Ok(None) };
        let parent = self.0.state.accounts.session(parent).ok_or_else(revoked)?;
        Ok(parent.expires_at())
    }

    /// Ends all sessions of a user; returns their number.
    pub(super) async fn end_sessions(&self, user: UserId, by: By) -> Result<usize, Error> {
        let mut endings = Endings::default();
        self.end_all_sessions(&mut endings, user, None, by, "ended");
        let count = endings.records.len();
        self.end(endings).await?;
        Ok(count)
    }

    /// Takes away the rows of sessions of which nothing is valid any more.
    pub(super) async fn forget_sessions(&self) -> Result<(), Error> {
        let ids = self.0.state.accounts.forgettable_sessions(self.0.now());
        for page in ids.chunks(PAGE) {
            let ops = page.iter().map(|id| SESSIONS.delete(NUMBER, &id.as_u128())).collect();
            self.store(ops, Vec::new()).await?;
            for id in page {
                self.0.state.accounts.forget_session(*id);
            }
        }
        Ok(())
    }

    /// Makes other keys sign: the record is durable when this returns.
    pub(super) async fn change_signing_keys(&self, keys: SigningKeys, by: By) -> Result<(), Error> {
        self.permit(&by, Permission::KeysManage)?;
        let mut record = Record::new(Action::SigningKeyRotated, by).of(keys.current);
        for (key, until) in &keys.previous {
            let until =
                until.map_or("the end of its setting".to_owned(), |until| until.to_string());
            record = record.with(&format!("until.{key}"), until);
        }
        self.store(Vec::new(), vec![record]).await?;
        self.0.state.accounts.put_signing_keys(keys);
        self.end_sessions_without_key(by).await
    }

    /// Ends the sessions whose signing key is gone.
    pub(super) async fn end_sessions_without_key(&self, by: By) -> Result<(), Error> {
        let (register, now) = (&self.0.state.accounts, self.0.now());
        let all = register.sessions();
        let is_over = |session: &&Arc<Session>| register.end_of_key(session, now).is_err();
        let mut over: Vec<_> = all.iter().filter(is_over).cloned().collect();
        let children = over.iter().flat_map(|session| descendants(session.id, &all));
        over.extend(children.cloned().collect::<Vec<_>>());
        over.sort_by_key(|session| session.id);
        over.dedup_by_key(|session| session.id);
        for page in over.chunks(PAGE) {
            let record = Record::new(Action::SessionsEnded, by).with("count", page.len());
            let record = record.with("reason", "their signing key is gone");
            let rows = page.iter().map(|session| SESSIONS.delete(NUMBER, &session.id.as_u128()));
            self.store(rows.collect(), vec![record]).await?;
            for session in page {
                register.forget_session(session.id);
            }
        }
        Ok(())
    }
}

fn revoked() -> Error {
    Refusal::Revoked.into()
}

#[cfg(test)]
mod tests;
