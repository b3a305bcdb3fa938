//! The pause of everything on the wire.

use callboard_domain::pause::{MAX_REASON, Pause, Submissions};
use serde::Serialize;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::common::Iso;
use super::read::rule;
use crate::request;

request! {
    /// A pause of everything.
    #[derive(Debug)]
    pub struct PauseAll as "PauseAll" {
        /// The reason, for people.
        reason: String = required("reason", rule::text(rule::characters(1..=MAX_REASON))),
        /// The treatment of submissions; accept by default.
        submissions: Option<Submissions> =
            optional("submissions", rule::one_of(&Submissions::ALL, Submissions::as_str)),
    }
}

/// The pause of everything.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PauseBody {
    /// True if no task is leased.
    paused: bool,
    /// True if the server was started with --paused: nothing leaves it, and only a start without ends that.
    stands_still: bool,
    /// The reason.
    reason: Option<String>,
    /// The account that paused.
    by: Option<String>,
    /// The beginning of the pause.
    since: Option<Iso>,
    /// accept or refuse: the treatment of submissions.
    submissions: Option<&'static str>,
}

impl PauseBody {
    /// The pause of a server.
    #[must_use]
    pub fn of(pause: Option<&Pause>, stands_still: bool) -> Self {
        Self {
            paused: stands_still || pause.is_some(),
            stands_still,
            reason: pause.map(|pause| pause.reason.clone()),
            by: pause.map(|pause| pause.by.clone()),
            since: pause.map(|pause| Iso(pause.since)),
            submissions: pause.map(|pause| pause.submissions.as_str()),
        }
    }
}
