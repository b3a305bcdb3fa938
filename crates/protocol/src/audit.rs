//! An entry of the audit log on the wire, and the way back: a verifier of the log reads the entry that it
//! shows.

use std::collections::BTreeMap;

use callboard_domain::audit::{Action, Entry};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::history::Misread;

/// An entry of the audit log.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntryBody {
    /// `aud_…`
    pub id: String,
    /// The number, counted from 1 since the first start.
    pub number: u32,
    /// The action, such as key.revoked.
    pub action: String,
    /// The id of a user or a key, anonymous, or system.
    pub actor: String,
    /// The time of the action.
    #[schema(format = DateTime)]
    pub at: String,
    /// The address of the client.
    pub address: Option<String>,
    /// The id of the subject.
    pub target: Option<String>,
    /// Further texts by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Option<std::collections::HashMap<String, String>>)]
    pub details: BTreeMap<String, String>,
    /// The cell whose log has the entry, if the logs of all cells were asked for.
    pub cell: Option<String>,
    /// The hash of the entry before it; 64 zeros for the first.
    pub previous_hash: String,
    /// The hash of this one.
    pub hash: String,
}

impl AuditEntryBody {
    /// An entry on the wire.
    #[must_use]
    pub fn of(entry: &Entry) -> Self {
        Self {
            id: entry.id.to_string(),
            number: entry.number,
            action: entry.action.as_str().to_owned(),
            actor: entry.actor.clone(),
            at: entry.at.to_string(),
            address: entry.address.clone(),
            target: entry.target.clone(),
            details: entry.details.clone(),
            cell: None,
            previous_hash: entry.previous.to_string(),
            hash: entry.hash.to_string(),
        }
    }

    /// The entry that the body shows.
    ///
    /// # Errors
    /// [`Misread::Malformed`], if a member cannot be read.
    pub fn entry(&self) -> Result<Entry, Misread> {
        Ok(Entry {
            id: self.id.parse().map_err(|_| Misread::Malformed("id"))?,
            number: self.number,
            action: Action::parse(&self.action).ok_or(Misread::Malformed("action"))?,
            actor: self.actor.clone(),
            at: self.at.parse().map_err(|_| Misread::Malformed("at"))?,
            address: self.address.clone(),
            target: self.target.clone(),
            details: self.details.clone(),
            previous: self.previous_hash.parse().map_err(|_| Misread::Malformed("previousHash"))?,
            hash: self.hash.parse().map_err(|_| Misread::Malformed("hash"))?,
        })
    }
}
