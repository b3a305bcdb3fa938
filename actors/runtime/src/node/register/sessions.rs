//! Open sessions in memory, some 400 bytes each: found by identifier for every request, by family
//! for a refresh, by user for a login.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use callboard_domain::Timestamp;
use callboard_domain::digest::Digest;
use callboard_domain::id::{SessionId, UserId};
use callboard_domain::machine::Machine;
use callboard_domain::session::Session;

/// Open sessions.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    all: HashMap<SessionId, Arc<Session>>,
    families: HashMap<Digest, SessionId>,
    users: BTreeSet<(UserId, SessionId)>,
}

impl Sessions {
    /// Takes a session as it is now; one that is over is not kept.
    pub(super) fn put(&mut self, session: Session) {
        if session.is_finished() {
            self.remove(session.id);
        } else {
            self.families.insert(session.family, session.id);
            self.users.insert((session.user, session.id));
            self.all.insert(session.id, Arc::new(session));
        }
    }

    pub(super) fn remove(&mut self, id: SessionId) {
        if let Some(session) = self.all.remove(&id) {
            self.families.remove(&session.family);
            self.users.remove(&(session.user, id));
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Session>> {
        self.all.values()
    }

    pub(super) fn get(&self, id: SessionId) -> Option<&Arc<Session>> {
        self.all.get(&id)
    }

    pub(super) fn of_family(&self, family: &Digest) -> Option<&Arc<Session>> {
        self.families.get(family).and_then(|id| self.all.get(id))
    }

    pub(super) fn of_user(&self, user: UserId) -> impl Iterator<Item = &Arc<Session>> {
        let (first, last) = (SessionId::from_u128(0), SessionId::from_u128(u128::MAX));
        let range = self.users.range((user, first)..=(user, last));
        range.filter_map(|(_, id)| self.all.get(id))
    }

    pub(super) fn forgettable(&self, now: Timestamp) -> Vec<SessionId> {
        let old = self.all.values().filter(|session| session.is_purgeable(now));
        old.map(|session| session.id).collect()
    }
}
