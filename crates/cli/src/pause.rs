//! `callboard pause` and `callboard resume`.

use callboard_client::Call;
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::access::Access;
use super::failure::Failure;
use super::input::Body;
use super::output::details;

/// The treatment of submissions during a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Submissions {
    /// They are accepted, and wait.
    Accept,
    /// They are refused with 503.
    Refuse,
}

/// A pause of everything.
#[derive(Debug, Clone, Args)]
pub struct Pause {
    #[command(flatten)]
    access: Access,
    /// Pause every queue; `queues pause NAME` pauses one.
    #[arg(long, required = true)]
    all: bool,
    /// Reason, which health, the dashboard and the audit log show.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Treatment of submissions.
    #[arg(long, value_enum, default_value_t = Submissions::Accept)]
    submissions: Submissions,
}

/// The end of a pause of everything.
#[derive(Debug, Clone, Args)]
pub struct Resume {
    #[command(flatten)]
    access: Access,
    /// End the pause of all queues; `queues resume NAME` resumes one.
    #[arg(long, required = true)]
    all: bool,
}

/// Pauses.
pub(super) async fn pause(
    Pause { access, all, reason, submissions }: Pause,
) -> Result<(), Failure> {
    assert!(all, "clap asks for the flag");
    let submissions = match submissions {
        Submissions::Accept => "accept",
        Submissions::Refuse => "refuse",
    };
    let body = Body::default().set("reason", Some(reason)).set("submissions", Some(submissions));
    run(&access, Call::post(&["system", "pause"]).json(&body.value())).await
}

/// Resumes.
pub(super) async fn resume(Resume { access, all }: Resume) -> Result<(), Failure> {
    assert!(all, "clap asks for the flag");
    run(&access, Call::delete(&["system", "pause"])).await
}

async fn run(access: &Access, call: Call<'_>) -> Result<(), Failure> {
    let shown = access.client()?.data(call).await?;
    access.output.item(&shown, in_words)
}

fn in_words(pause: &Value) -> String {
    let names = ["paused", "since", "reason", "by", "submissions"];
    details(pause, &names.map(|name| (name, name)), &[])
}
