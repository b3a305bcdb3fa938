//! A hash chain: entries that are only appended, each with the hash of the one before it.
//!
//! ```text
//!   hash of entry n = SHA-256 of a JSON object: the entry's strings by name, sorted, compact, and
//!                     `previous`, the hash of entry n - 1 (64 zeros for the first)
//! ```
//!
//! All members of that object are strings, so that any language writes the same bytes. A changed, removed or added
//! entry breaks the chain at that entry; removed last entries are detected because the length and the last hash are
//! stored apart. A writer of the database can compute a whole new chain: to detect that too, keep the last hash
//! elsewhere.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// An entry of a chain.
pub trait Linked {
    /// The number, counted from 1.
    fn number(&self) -> u32;
    /// The hash of the entry before.
    fn previous(&self) -> Digest;
    /// The hash that the entry claims.
    fn hash(&self) -> Digest;
}

/// The length and the last hash of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    /// The number of entries.
    pub length: u32,
    /// The hash of the last entry.
    pub head: Digest,
}

impl Default for Chain {
    fn default() -> Self {
        Self { length: 0, head: Digest::ZERO }
    }
}

impl Chain {
    /// The chain with one more entry.
    #[must_use]
    pub fn with(self, entry: &impl Linked) -> Self {
        Self { length: entry.number(), head: entry.hash() }
    }

    /// Verifies that these entries lead from `start` to this chain; `digest` is the correct hash of
    /// an entry.
    ///
    /// # Errors
    /// The first entry with a fault.
    pub fn verify_from<E: Linked>(
        self,
        start: Self,
        entries: &[E],
        digest: impl Fn(&E) -> Digest,
    ) -> Result<(), Broken> {
        let mut before = start;
        for entry in entries {
            let number = before.length + 1;
            let broken = |fault| Broken { number, fault };
            if entry.number() != number {
                return Err(broken(Fault::Missing));
            }
            if entry.previous() != before.head {
                return Err(broken(Fault::Unlinked));
            }
            if entry.hash() != digest(entry) {
                return Err(broken(Fault::Changed));
            }
            before = before.with(entry);
        }
        if before.length < self.length {
            return Err(Broken { number: before.length + 1, fault: Fault::Missing });
        }
        if before != self {
            return Err(Broken { number: before.length, fault: Fault::WrongEnd });
        }
        Ok(())
    }
}

/// The hashed text of an entry, which an auditor must reproduce to verify the chain.
#[must_use]
#[expect(clippy::missing_panics_doc, reason = "strings have a JSON form")]
pub fn canonical(texts: &BTreeMap<&str, String>) -> String {
    serde_json::to_string(texts).expect("strings have a JSON form")
}

/// A broken chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("entry {number} {fault}")]
pub struct Broken {
    /// The number of the first entry with a fault.
    pub number: u32,
    /// The fault.
    pub fault: Fault,
}

/// The fault of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The entry is missing.
    #[error("is missing")]
    Missing,
    /// `previous` is not the hash of the entry before.
    #[error("does not contain the hash of the entry before it")]
    Unlinked,
    /// The hash is not the hash of the content.
    #[error("was changed: its hash does not match its content")]
    Changed,
    /// Another length or last hash is on record.
    #[error("is not the last entry on record")]
    WrongEnd,
}
