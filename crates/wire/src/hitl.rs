//! The approval settings of submitted work: the common part of `hitl` of a task, a template, an
//! execute and a deploy (docs/reference/approvals.md).

use callboard_domain::plan::MAX_REVIEW_MS;
use callboard_domain::task::Channels;
use utoipa::ToSchema;

use super::read::rule::{self, Parse};

/// The channels that notify reviewers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ToSchema)]
#[schema(rename_all = "lowercase")]
pub enum Channel {
    /// A mail to the assignee.
    Email,
    /// An event, for dashboards.
    #[default]
    Dashboard,
}

impl Channel {
    const ALL: [Self; 2] = [Self::Email, Self::Dashboard];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Dashboard => "dashboard",
        }
    }
}

/// The rule of `notifyChannels`.
pub(super) fn channels() -> impl Parse<Channels> {
    let channel = rule::one_of(&Channel::ALL, Channel::as_str);
    rule::list(0..=2, channel).map(|given| Channels {
        email: given.contains(&Channel::Email),
        dashboard: given.contains(&Channel::Dashboard),
    })
}

/// The rule of `hitl.timeoutMs`.
pub(crate) fn review_time() -> impl Parse<u64> {
    rule::whole(1..=MAX_REVIEW_MS)
}

/// The rule of `sampleRate`.
pub(super) fn sample_rate() -> impl Parse<f64> {
    rule::number(0.0..=1.0)
}
