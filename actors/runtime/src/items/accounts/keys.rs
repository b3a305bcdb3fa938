//! API keys: made, rotated, revoked, and the times of their last uses.

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::Error;
use callboard_domain::access::{Account, Action as Permission};
use callboard_domain::audit::{Action, By, Record};
use callboard_domain::credential::selection::KeySelection;
use callboard_domain::credential::{self, ApiKey, Kind, Secret};
use callboard_domain::id::{KeyId, UserId};

use super::users::Endings;
use super::{Accounts, KnownKey, NUMBER, NewKey, PARTITION};
use crate::tables::{KEY_USES, KEYS};

/// The most bytes of the names of queues in a record of the audit log.
const SHOWN: usize = 1_000;

/// Names for the audit log, the first of them if they are many.
fn shown(queues: &[String]) -> String {
    let shown = queues.join(", ");
    if shown.len() <= SHOWN {
        return shown;
    }
    format!("{}… ({} queues)", &shown[..shown.floor_char_boundary(SHOWN)], queues.len())
}

/// The number of keys that one commit revokes.
const LOT: usize = 200;

/// The number of uses that one commit stores.
const PAGE: usize = 1_000;

impl Accounts {
    pub(super) async fn create_key(&self, new: NewKey, by: By) -> Result<(ApiKey, Secret), Error> {
        self.permit(&by, Permission::KeysManage)?;
        let (key, secret) = self.new_key(new, by)?;
        let record = Record::new(Action::KeyCreated, by).of(key.id).with("name", &key.name);
        let mut record = record.with("role", key.role).with("expiresAt", key.expires_at);
        if !key.queues.is_empty() {
            record = record.with("queues", shown(&key.queues));
        }
        let ops = KEYS.put(NUMBER, key.id.as_u128(), &key, None);
        self.store(ops, vec![record]).await?;
        self.0.state.accounts.put_key(key.clone());
        Ok((key, secret))
    }

    fn new_key(&self, new: NewKey, by: By) -> Result<(ApiKey, Secret), Error> {
        let kind = Kind::of(new.role, new.environment.mode())?;
        let project = self.0.state.accounts.project_at(new.environment.slot());
        let number = project.map_or(0, |project| project.number);
        let secret = self.random(|entropy| credential::mint(kind, number, entropy));
        let now = self.0.now();
        let key = ApiKey {
            id: KeyId::from_u128(self.0.fresh_id(now, PARTITION)),
            name: new.name,
            role: new.role,
            environment: new.environment,
            tier: new.tier,
            queues: new.queues,
            digest: secret.digest(),
            prefix: kind.prefix().to_owned(),
            last4: secret.last4().to_owned(),
            created_at: now,
            expires_at: now.after(new.lifetime),
            revoked_at: None,
            created_by: by.account,
            user: self.answering(by),
        };
        Ok((key, secret))
    }

    /// The user who answers for a key that `by` makes.
    fn answering(&self, by: By) -> Option<UserId> {
        match by.account? {
            Account::User(user) => Some(user),
            Account::Key(key) => self.0.state.accounts.key_by_id(key)?.key.user,
        }
    }

    pub(super) async fn revoke_key(&self, id: KeyId, by: By) -> Result<Arc<KnownKey>, Error> {
        self.permit(&by, Permission::KeysManage)?;
        let known = self.known(id, by)?;
        let now = self.0.now();
        if known.key.check(now).is_ok() {
            let mut endings = Endings::default();
            endings.revoke(known.key.clone().revoked(now), by, "revoked");
            self.end(endings).await?;
        }
        self.known(id, by)
    }

    /// Revokes the selected keys; returns them as they are then.
    pub(super) async fn revoke_keys(
        &self,
        selection: KeySelection,
        expect: Option<u64>,
        reason: Option<String>,
        by: By,
    ) -> Result<Vec<Arc<KnownKey>>, Error> {
        self.permit(&by, Permission::KeysManage)?;
        let now = self.0.now();
        let selected = self.0.state.accounts.selected_keys(by.project, selection, now);
        if let Some(expect) = expect.filter(|expect| *expect != selected.len() as u64) {
            let found = selected.len();
            return Err(Error::InvalidState(format!(
                "{found} keys match, not {expect}: nothing was done"
            )));
        }
        let why = reason.as_deref().unwrap_or("revoked with others");
        for lot in selected.chunks(LOT) {
            let mut endings = Endings::default();
            for known in lot {
                endings.revoke(known.key.clone().revoked(now), by, why);
            }
            self.end(endings).await?;
        }
        selected.iter().map(|known| self.known(known.key.id, by)).collect()
    }

    pub(super) async fn rotate_key(
        &self,
        id: KeyId,
        overlap: Duration,
        by: By,
    ) -> Result<(ApiKey, Secret), Error> {
        self.permit(&by, Permission::KeysManage)?;
        let old = &self.known(id, by)?.key;
        let now = self.0.now();
        old.check_rotation(now)?;
        let new = NewKey {
            name: old.name.clone(),
            role: old.role,
            environment: old.environment,
            tier: old.tier,
            queues: old.queues.clone(),
            lifetime: old.lifetime(),
        };
        let (key, secret) = self.new_key(new, by)?;
        let old = old.clone().revoked(now.after(overlap));
        let record = Record::new(Action::KeyRotated, by).of(id).with("successor", key.id);
        let record = record.with("name", &key.name).with("endsAt", old.ends_at());
        let ops = [&key, &old].map(|key| KEYS.put(NUMBER, key.id.as_u128(), key, None)).concat();
        self.store(ops, vec![record]).await?;
        self.0.state.accounts.put_key(key.clone());
        self.0.state.accounts.put_key(old);
        Ok((key, secret))
    }

    /// A key of the project within which somebody acts.
    fn known(&self, id: KeyId, by: By) -> Result<Arc<KnownKey>, Error> {
        let known = self.0.state.accounts.key_by_id(id);
        let known = known.filter(|known| known.key.environment.slot() == by.project);
        known.ok_or_else(|| Error::not_found("key", id))
    }

    /// Stores the uses since the last call.
    pub(super) async fn store_uses(&self) -> Result<(), Error> {
        for page in self.0.state.accounts.unstored_uses().chunks(PAGE) {
            let ops = page.iter().map(|(id, at)| KEY_USES.put(NUMBER, &id.as_u128(), at, None));
            self.store(ops.collect(), Vec::new()).await?;
            self.0.state.accounts.stored_uses(page);
        }
        Ok(())
    }
}
