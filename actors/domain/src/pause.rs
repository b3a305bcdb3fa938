//! A pause of everything: no task is leased until somebody resumes (docs/reference/control.md).

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::error::Error;
use crate::names::names;

/// The longest reason, in characters.
pub const MAX_REASON: usize = 1_000;

names! {
    /// The treatment of submissions during a pause.
    Submissions {
        /// They are accepted, and wait.
        Accept = "accept",
        /// They are refused.
        Refuse = "refuse",
    }
}

/// A pause of everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// The reason, for people.
    pub reason: String,
    /// The account that paused.
    pub by: String,
    /// The beginning.
    pub since: Timestamp,
    /// The treatment of submissions.
    pub submissions: Submissions,
}

impl Pause {
    /// Passes if new work may be submitted.
    ///
    /// # Errors
    /// [`Error::Paused`].
    pub fn admit(&self) -> Result<(), Error> {
        match self.submissions {
            Submissions::Accept => Ok(()),
            Submissions::Refuse => {
                Err(Error::Paused { since: self.since, reason: self.reason.clone() })
            }
        }
    }

    /// The pause in words.
    #[must_use]
    pub fn detail(&self) -> String {
        format!("paused since {}: {}", self.since, self.reason)
    }
}
