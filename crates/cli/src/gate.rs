//! The conditions for a review: the common options of `tasks submit`, `plans execute` and
//! `templates deploy`.

use std::time::Duration;

use clap::Args;

use super::input::{self, Body};

/// The conditions under which outputs wait for a reviewer, and the notification of reviewers.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct Gate {
    /// Minimum confidence to skip review, 0 to 1.
    #[arg(long, value_name = "CONFIDENCE")]
    threshold: Option<f64>,
    /// Time for the review, such as 30m; by default 1h.
    #[arg(long, value_parser = input::duration, value_name = "DURATION")]
    review_timeout: Option<Duration>,
    /// Share of the passing outputs to review anyway, 0 to 1.
    #[arg(long, value_name = "SHARE")]
    sample_rate: Option<f64>,
    /// Channels that notify reviewers: email, dashboard.
    #[arg(long, value_name = "CHANNEL", value_delimiter = ',')]
    notify: Vec<String>,
}

impl Gate {
    /// The note on a task with these flags alone: any of them gives the task a gate with a
    /// threshold.
    pub(super) fn implied(&self) -> Option<&'static str> {
        let is_gated =
            self.review_timeout.is_some() || self.sample_rate.is_some() || !self.notify.is_empty();
        (is_gated && self.threshold.is_none()).then_some(
            "the output waits for a reviewer if its confidence is below 0.85 or missing; --threshold \
             sets another, --require-approval holds it in any case",
        )
    }

    /// Adds the members of a body's `hitl`.
    pub(super) fn add_to(&self, body: Body) -> Body {
        body.set("confidenceThreshold", self.threshold)
            .set("timeoutMs", self.review_timeout.map(input::millis))
            .set("sampleRate", self.sample_rate)
            .list("notifyChannels", &self.notify)
    }
}
