//! The notices before a key ends by its lifetime: 14 days and 3 days before.
//!
//! Deliberately absent: the memory of sent notices. The instant of a notice is part of the identifier of its mail,
//! so that a mail exists once.

use std::time::Duration;

use super::ApiKey;
use crate::Timestamp;

/// The times before the end of a key at which admins are told, the longest first.
pub const NOTICES: [Duration; 2] = [Duration::from_hours(14 * 24), Duration::from_hours(3 * 24)];

impl ApiKey {
    /// The instant of the last notice before `now`. `None` before the first one, once the key has ended, for a key
    /// that was revoked or rotated, and for one whose whole lifetime is shorter than the notice.
    #[must_use]
    pub fn notice(&self, now: Timestamp) -> Option<Timestamp> {
        if self.revoked_at.is_some() || self.expires_at <= now {
            return None;
        }
        let left = self.expires_at.since(now);
        let due = NOTICES.into_iter().rev().find(|before| left <= *before)?;
        (self.lifetime() > due).then(|| {
            let before = u64::try_from(due.as_millis()).unwrap_or(u64::MAX);
            Timestamp::from_millis(self.expires_at.as_millis().saturating_sub(before))
        })
    }
}
