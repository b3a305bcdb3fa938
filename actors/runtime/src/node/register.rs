//! The accounts as they were committed last, for every request to read.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use callboard_domain::access::{Account, Role};
use callboard_domain::account::external::ExternalId;
use callboard_domain::account::{Email, User, WorkLeft};
use callboard_domain::cell::Cell;
use callboard_domain::credential::ApiKey;
use callboard_domain::credential::invitation::Invitation;
use callboard_domain::credential::selection::KeySelection;
use callboard_domain::digest::Digest;
use callboard_domain::id::{InvitationId, KeyId, SessionId, Slot, UserId};
use callboard_domain::machine::Machine;
use callboard_domain::moving::Part;
use callboard_domain::project::Project;
use callboard_domain::rate::Tier;
use callboard_domain::session::Session;
use callboard_domain::session::signing::SigningKeys;
use callboard_domain::{Error, Timestamp};
use tokio::sync::watch;

use self::sessions::Sessions;
use crate::limits::Tiers;
use crate::messages::accounts::KnownKey;
use crate::observers::metrics::KeyEnd;

mod cells;
mod invitations;
mod left;
pub(crate) mod moves;
pub(crate) mod projects;
mod sessions;

/// A day, in milliseconds.
const DAY_MS: i64 = 24 * 3_600 * 1_000;
/// The most keys whose ends are reported.
const MOST_ENDS: usize = 200;

/// Users, keys and open sessions in memory.
#[derive(Debug)]
pub(crate) struct Register {
    inner: RwLock<Inner>,
    signing_keys: RwLock<SigningKeys>,
    /// The sender of a notice after every change that may take a right away.
    changes: watch::Sender<()>,
    /// True if a deleted user left work.
    pub(crate) anybody_left: AtomicBool,
}

#[derive(Debug, Default)]
pub(crate) struct Inner {
    pub(crate) users: BTreeMap<UserId, User>,
    pub(crate) emails: HashMap<String, UserId>,
    pub(crate) externals: BTreeMap<ExternalId, UserId>,
    pub(crate) keys: HashMap<[u8; 32], Arc<KnownKey>>,
    pub(crate) digests: BTreeMap<KeyId, [u8; 32]>,
    sessions: Sessions,
    /// The open invitations, expired ones too until they are forgotten.
    pub(crate) invitations: BTreeMap<InvitationId, Invitation>,
    /// The projects besides `default`, by their places.
    projects: BTreeMap<Slot, Arc<Project>>,
    /// The deleted projects that may still have rows.
    leaving: BTreeMap<Slot, Arc<Project>>,
    /// The projects of other cells by their numbers, deleted ones too.
    elsewhere: BTreeMap<u32, Arc<Project>>,
    /// The cells besides home.
    cells: Arc<[Cell]>,
    /// The parts of this cell in moves, by the projects' places here.
    parts: BTreeMap<Slot, Arc<Part>>,
    /// The projects whose state is being read: requests for them are refused.
    opening: BTreeSet<Slot>,
    /// The fate of the work of deleted users.
    pub(crate) left: BTreeMap<UserId, WorkLeft>,
}

impl Register {
    /// A register without users; these keys sign access tokens.
    pub(crate) fn new(signing_keys: SigningKeys) -> Self {
        Self {
            inner: RwLock::default(),
            signing_keys: RwLock::new(signing_keys),
            changes: watch::Sender::new(()),
            anybody_left: AtomicBool::new(false),
        }
    }

    pub(crate) fn signing_keys(&self) -> SigningKeys {
        self.signing_keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn put_signing_keys(&self, keys: SigningKeys) {
        *self.signing_keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
        self.changes.send_replace(());
    }

    /// The instant at which a session ends with its signing key; `None` is never.
    pub(crate) fn end_of_key(
        &self,
        session: &Session,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, Error> {
        let keys = self.signing_keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.end_of(session.signing_key, now)
    }

    pub(crate) fn put_user(&self, user: User) {
        let mut inner = self.write();
        inner.emails.insert(user.email.key(), user.id);
        if let Some(external) = &user.external {
            inner.externals.insert(external.clone(), user.id);
        }
        inner.users.insert(user.id, user);
        drop(inner);
        self.changes.send_replace(());
    }

    pub(crate) fn remove_user(&self, user: &User) {
        let mut inner = self.write();
        inner.emails.remove(&user.email.key());
        if let Some(external) = &user.external {
            inner.externals.remove(external);
        }
        inner.users.remove(&user.id);
        drop(inner);
        self.changes.send_replace(());
    }

    pub(crate) fn put_key(&self, key: ApiKey) {
        let mut inner = self.write();
        let digest = *key.digest.as_bytes();
        let uses = inner.keys.get(&digest).map(|known| Arc::clone(&known.uses)).unwrap_or_default();
        inner.digests.insert(key.id, digest);
        inner.keys.insert(digest, Arc::new(KnownKey { key, uses }));
        drop(inner);
        self.changes.send_replace(());
    }

    /// Forgets a key, which has no row.
    pub(crate) fn remove_key(&self, key: &ApiKey) {
        let mut inner = self.write();
        inner.digests.remove(&key.id);
        inner.keys.remove(key.digest.as_bytes());
    }

    /// Remembers the stored time of a key's last use.
    pub(crate) fn put_use(&self, id: KeyId, at: Timestamp) {
        if let Some(known) = self.key_by_id(id) {
            known.uses.last.store(at.as_millis(), Ordering::Relaxed);
            known.uses.stored.store(at.as_millis(), Ordering::Relaxed);
        }
    }

    /// The uses that are not stored yet.
    pub(crate) fn unstored_uses(&self) -> Vec<(KeyId, Timestamp)> {
        let inner = self.read();
        let unstored = |known: &&Arc<KnownKey>| {
            known.uses.last.load(Ordering::Relaxed) != known.uses.stored.load(Ordering::Relaxed)
        };
        let changed = inner.keys.values().filter(unstored);
        changed.filter_map(|known| Some((known.key.id, known.last_used_at()?))).collect()
    }

    /// Notes that these uses are stored now.
    pub(crate) fn stored_uses(&self, uses: &[(KeyId, Timestamp)]) {
        for (id, at) in uses {
            if let Some(known) = self.key_by_id(*id) {
                known.uses.stored.store(at.as_millis(), Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn key_by_id(&self, id: KeyId) -> Option<Arc<KnownKey>> {
        let inner = self.read();
        inner.digests.get(&id).and_then(|digest| inner.keys.get(digest)).cloned()
    }

    /// The person behind an account, as an identifier: a user, the user who answers for a key, or a key
    /// for which no user answers.
    pub(crate) fn person_of(&self, account: &str) -> String {
        let key = account.parse().ok().and_then(|id| self.key_by_id(id));
        let user = key.and_then(|known| known.key.user);
        user.map_or_else(|| account.to_owned(), |user| user.to_string())
    }

    /// The keys of a project, oldest first.
    pub(crate) fn keys_in(&self, slot: Slot) -> Vec<Arc<KnownKey>> {
        let mut keys = self.keys();
        keys.retain(|known| known.key.environment.slot() == slot);
        keys
    }

    /// All keys, oldest first.
    pub(crate) fn keys(&self) -> Vec<Arc<KnownKey>> {
        let inner = self.read();
        inner.digests.values().filter_map(|digest| inner.keys.get(digest)).cloned().collect()
    }

    /// The selected keys of a project that count at `now`, the oldest first.
    pub(crate) fn selected_keys(
        &self,
        slot: Slot,
        selection: KeySelection,
        now: Timestamp,
    ) -> Vec<Arc<KnownKey>> {
        let keys = self.keys_in(slot);
        let chosen = selection.of(keys.iter().map(|known| &known.key), now);
        let chosen: HashSet<_> = chosen.into_iter().map(|key| key.id).collect();
        keys.into_iter().filter(|known| chosen.contains(&known.key.id)).collect()
    }

    /// The keys that end by themselves, soonest first: those of the next times, and of the last day. At most 200.
    pub(crate) fn key_ends(&self, now: Timestamp) -> Vec<KeyEnd> {
        let signed = |at: Timestamp| i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
        let left = |key: &ApiKey| signed(key.expires_at) - signed(now);
        let mut keys: Vec<_> =
            self.keys().into_iter().filter(|it| it.key.revoked_at.is_none()).collect();
        keys.retain(|known| left(&known.key) > -DAY_MS);
        keys.sort_by_key(|known| known.key.expires_at);
        keys.truncate(MOST_ENDS);
        #[expect(clippy::cast_precision_loss, reason = "exact for many years")]
        let end = |known: &Arc<KnownKey>| KeyEnd {
            id: known.key.id.to_string(),
            name: known.key.name.clone(),
            role: known.key.role.as_str(),
            left_seconds: left(&known.key) as f64 / 1_000.0,
        };
        keys.iter().map(end).collect()
    }

    /// The receiver of a notice after every change that may take a right away.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
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

    pub(crate) fn user_by_external(&self, id: &ExternalId) -> Option<User> {
        let inner = self.read();
        inner.externals.get(id).and_then(|id| inner.users.get(id)).cloned()
    }

    pub(crate) fn has_admin(&self) -> bool {
        self.read().users.values().any(|user| user.role == Role::Admin)
    }

    /// The key of this digest. The digest of a secret of 190 bits reveals nothing by the time that
    /// its look-up takes.
    pub(crate) fn key(&self, digest: &Digest) -> Option<Arc<KnownKey>> {
        self.read().keys.get(digest.as_bytes()).cloned()
    }

    pub(crate) fn put_session(&self, session: Session) {
        let is_over = session.is_finished();
        self.write().sessions.put(session);
        if is_over {
            self.changes.send_replace(());
        }
    }

    pub(crate) fn forget_session(&self, id: SessionId) {
        self.write().sessions.remove(id);
        self.changes.send_replace(());
    }

    pub(crate) fn session(&self, id: SessionId) -> Option<Arc<Session>> {
        self.read().sessions.get(id).cloned()
    }

    /// All open sessions, in no order.
    pub(crate) fn sessions(&self) -> Vec<Arc<Session>> {
        self.read().sessions.all().cloned().collect()
    }

    /// The user of an open session.
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

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tiers for Register {
    fn tier(&self, account: Account) -> Option<Tier> {
        match account {
            Account::User(id) => self.user(id)?.tier,
            Account::Key(id) => self.key_by_id(id)?.key.tier,
        }
    }
}
