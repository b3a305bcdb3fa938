//! The flags of the title and the callback of a task or an execution.

use clap::Args;

use super::input::Body;

/// The title, and the receiver of webhooks.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct Labels {
    /// Title, for people.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// URL to which webhooks are sent.
    #[arg(long, value_name = "URL")]
    callback_url: Option<String>,
    /// Events of which webhooks are sent, separated by commas: completed, failed, cancelled, rejected (of tasks),
    /// `awaiting_approval`.
    #[arg(long, value_name = "EVENT", value_delimiter = ',', requires = "callback_url")]
    callback_events: Vec<String>,
}

impl Labels {
    /// The body with these members.
    pub(super) fn add_to(&self, body: Body) -> Body {
        body.set("title", self.title.clone())
            .set("callbackUrl", self.callback_url.clone())
            .list("callbackEvents", &self.callback_events)
    }
}
