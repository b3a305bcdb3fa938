//! The accounts as they were committed last, for every request to read.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use callboard_domain::Timestamp;
use callboard_domain::account::{Email, User};
use callboard_domain::credential::ApiKey;
use callboard_domain::digest::Digest;
use callboard_domain::id::{SessionId, UserId};
use callboard_domain::session::Session;

use self::sessions::Sessions;

mod sessions;

/// Users, keys and open sessions in memory.
#[derive(Debug, Default)]
pub(crate) struct Register(RwLock<Inner>);

#[derive(Debug, Default)]
struct Inner {
    users: BTreeMap<UserId, User>,
    emails: HashMap<String, UserId>,
    keys: HashMap<[u8; 32], Arc<ApiKey>>,
    sessions: Sessions,
}

impl Register {
    pub(crate) fn put_user(&self, user: User) {
        let mut inner = self.write();
        inner.emails.insert(user.email.key(), user.id);
        inner.users.insert(user.id, user);
    }

    pub(crate) fn put_key(&self, key: ApiKey) {
        self.write().keys.insert(*key.digest.as_bytes(), Arc::new(key));
    }

    pub(crate) fn user(&self, id: UserId) -> Option<User> {
        self.read().users.get(&id).cloned()
    }

    pub(crate) fn user_by_email(&self, email: &Email) -> Option<User> {
        let inner = self.read();
        inner.emails.get(&email.key()).and_then(|id| inner.users.get(id)).cloned()
    }

    /// All users, oldest first.
    pub(crate) fn users(&self) -> Vec<User> {
        self.read().users.values().cloned().collect()
    }

    pub(crate) fn has_users(&self) -> bool {
        !self.read().users.is_empty()
    }

    /// The key of this digest. The digest of a secret of 190 bits tells nothing by the time that
    /// its look-up takes.
    pub(crate) fn key(&self, digest: &Digest) -> Option<Arc<ApiKey>> {
        self.read().keys.get(digest.as_bytes()).cloned()
    }

    pub(crate) fn put_session(&self, session: Session) {
        self.write().sessions.put(session);
    }

    pub(crate) fn forget_session(&self, id: SessionId) {
        self.write().sessions.remove(id);
    }

    /// Who an open session is of.
    pub(crate) fn user_of_session(&self, id: SessionId) -> Option<UserId> {
        self.read().sessions.get(id).map(|session| session.user)
    }

    /// The session whose refresh tokens are of this family.
    pub(crate) fn session_of_family(&self, family: &Digest) -> Option<Arc<Session>> {
        self.read().sessions.of_family(family).cloned()
    }

    pub(crate) fn sessions_of(&self, user: UserId) -> Vec<Arc<Session>> {
        self.read().sessions.of_user(user).cloned().collect()
    }

    /// The sessions of which nothing is valid any more.
    pub(crate) fn forgettable_sessions(&self, now: Timestamp) -> Vec<SessionId> {
        self.read().sessions.forgettable(now)
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
