//! The pause of everything: translate only.

use std::sync::Arc;

use axum::extract::State;
use callboard_domain::audit::{Action, Record};
use callboard_domain::pause::Submissions;
use callboard_domain::project::check_server;
use callboard_wire::pause::{PauseAll, PauseBody};

use super::extract::Asker;
use super::{Answer, App, Body, Reply};

/// True if no task is leased, and why.
#[utoipa::path(
    get, path = "/api/system/pause", tag = "system",
    responses((status = 200, body = PauseBody)),
)]
pub(super) async fn show(State(app): State<Arc<App>>) -> Answer {
    Ok(Reply::ok(&shown(&app)))
}

/// Lease no task until somebody resumes; running tasks go on.
#[utoipa::path(
    post, path = "/api/system/pause", tag = "system",
    responses((status = 200, description = "the pause is durable and holds", body = PauseBody)),
)]
pub(super) async fn pause(
    State(app): State<Arc<App>>,
    Asker(by): Asker,
    Body(PauseAll { reason, submissions }): Body<PauseAll>,
) -> Answer {
    check_server(by.project, "the pause of everything")?;
    let submissions = submissions.unwrap_or(Submissions::Accept);
    let record = Record::new(Action::SystemPaused, by).with("reason", &reason);
    app.handle.pause_all(reason, submissions, by.actor()).await?;
    app.record(record.with("submissions", submissions)).await;
    Ok(Reply::ok(&shown(&app)))
}

/// Lease tasks again.
#[utoipa::path(
    delete, path = "/api/system/pause", tag = "system",
    responses(
        (status = 200, description = "the end is durable and holds", body = PauseBody),
        (status = 409, description = "the server was started with --paused"),
    ),
)]
pub(super) async fn resume(State(app): State<Arc<App>>, Asker(by): Asker) -> Answer {
    check_server(by.project, "the pause of everything")?;
    if app.handle.resume().await? {
        app.record(Record::new(Action::SystemResumed, by)).await;
    }
    Ok(Reply::ok(&shown(&app)))
}

fn shown(app: &App) -> PauseBody {
    PauseBody::of(app.handle.pause().as_deref(), app.handle.stands_still())
}
