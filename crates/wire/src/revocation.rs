//! The revocation of many keys on the wire.

use std::sync::Arc;

use callboard_domain::access::Account;
use callboard_domain::credential::selection::KeySelection;
use callboard_domain::id::{KeyId, UserId};
use callboard_domain::{Error, Rule, Timestamp};
use callboard_runtime::accounts::KnownKey;
use serde::Serialize;
use utoipa::ToSchema;

use crate::accounts::KeySummaryBody;
use crate::common::Text;
use crate::read::rule::{self, Parse};
use crate::read::{Fields, Refused};
use crate::request;

/// The longest reason, in characters; an entry of the audit log holds as many.
const MAX_REASON: usize = 256;
/// The most keys that an answer shows.
const SHOWN: usize = 1_000;

request! {
    /// The keys to revoke together: those that match every member, or all.
    #[derive(Debug, Clone, Default)]
    pub struct RevokeKeys as "RevokeKeys" {
        /// True for every key; without it, one of the next members is required.
        all: bool = or_default("all", rule::flag()),
        /// Keys that this user or key made, and those that they made in turn; a key counts as made by itself.
        made_by: Option<Account> = optional("madeBy", account()),
        /// Keys that this user answers for.
        user_id: Option<UserId> = optional("userId", user()),
        /// Keys that were made before this instant.
        before: Option<Timestamp> = optional("before", rule::instant()),
        /// The reason, which the audit log keeps with each key.
        reason: Option<String> = optional("reason", rule::text(rule::characters(1..=MAX_REASON))),
        /// The number of keys that must match; with another one nothing is done.
        expect: Option<u64> = optional("expect", rule::whole(0..=u64::from(u32::MAX))),
        /// True only lists them; by default false.
        dry_run: bool = or_default("dryRun", rule::flag()),
    }
    check names_keys
}

fn account() -> impl Parse<Account> {
    let is_account = |text: &String| text.parse::<Account>().is_ok();
    rule::text(rule::characters(1..=64))
        .only(is_account, Rule::Format, "must be the id of a user or a key: usr_… or key_…")
        .then(|text| text.parse().map_err(|_| Error::Internal))
}

fn user() -> impl Parse<UserId> {
    let is_user = |text: &String| text.parse::<UserId>().is_ok();
    rule::text(rule::characters(1..=64))
        .only(is_user, Rule::Format, "must be the id of a user: usr_…")
        .then(|text| text.parse().map_err(|_| Error::Internal))
}

fn names_keys(keys: RevokeKeys, fields: &mut Fields<'_>) -> Result<RevokeKeys, Refused> {
    let is_chosen = keys.made_by.is_some() || keys.user_id.is_some() || keys.before.is_some();
    if !keys.all && !is_chosen {
        let says = "is required without madeBy, userId and before: send true to select every key";
        return Err(fields.refuse("all", Rule::Required, says));
    }
    if keys.all && is_chosen {
        let says = "selects every key: leave out madeBy, userId and before, or leave out all";
        return Err(fields.refuse("all", Rule::Unknown, says));
    }
    Ok(keys)
}

impl RevokeKeys {
    /// The selection, without the key of the request.
    #[must_use]
    pub const fn selection(&self, own: Option<KeyId>) -> KeySelection {
        let Self { made_by, user_id, before, .. } = self;
        KeySelection { made_by: *made_by, user: *user_id, before: *before, except: own }
    }
}

/// The keys that were revoked together, or would be.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevokedKeysBody {
    /// True if nothing was done.
    dry_run: bool,
    /// The number of the keys.
    total: usize,
    /// The keys, at most 1,000.
    keys: Vec<KeySummaryBody>,
    /// The key of the request, which stays; revoke it by its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    kept: Option<Text<KeyId>>,
}

impl RevokedKeysBody {
    /// The answer; `own` is the key of the request.
    #[must_use]
    pub fn new(keys: &[Arc<KnownKey>], own: Option<KeyId>, dry_run: bool, now: Timestamp) -> Self {
        let shown = keys.iter().take(SHOWN).map(|known| KeySummaryBody::new(known, now));
        Self { dry_run, total: keys.len(), keys: shown.collect(), kept: own.map(Text) }
    }
}
