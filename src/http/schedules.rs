//! The schedule endpoints: translate only.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use callboard_domain::access::Caller;
use callboard_domain::audit::{Action, Record};
use callboard_domain::id::ScheduleId;
use callboard_domain::query::Schedules;
use callboard_runtime::Owner;
use callboard_runtime::handle::GivenTarget;
use callboard_runtime::schedule::Target;
use callboard_wire::common::Paging;
use callboard_wire::schedules::{
    ChangeSchedule, CreateSchedule, ListSchedules, ScheduleBody, ScheduleRunBody, given,
};

use super::extract::Asker;
use super::{Answer, App, Body, Failure, Id, Query, Reply};

/// Make a schedule.
#[utoipa::path(
    post, path = "/api/schedules", tag = "schedules",
    responses((status = 201, description = "the schedule is durable", body = ScheduleBody)),
)]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Body(schedule): Body<CreateSchedule>,
) -> Answer {
    let (settings, target) = schedule.into_parts(&app.defaults);
    check(&app, &caller, &target)?;
    let made = app.handle.create_schedule(&Owner::of(&caller, None), settings, target).await?;
    let id = made.row.schedule.id;
    app.record(Record::new(Action::ScheduleCreated, by).of(id)).await;
    Ok(Reply::created(&ScheduleBody::whole(&made)))
}

/// Schedules, the newest first.
#[utoipa::path(
    get, path = "/api/schedules", tag = "schedules",
    responses((status = 200, body = [ScheduleBody])),
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Query(list): Query<ListSchedules>,
) -> Answer {
    let query = Schedules::from(list);
    let page = app.handle.schedules(caller.environment, &query).await?;
    let items: Vec<_> = page.items.iter().map(|row| ScheduleBody::summary(&row.schedule)).collect();
    Ok(Reply::page(&items, page.total, query.window))
}

/// A schedule with its target.
#[utoipa::path(
    get, path = "/api/schedules/{id}", tag = "schedules",
    responses((status = 200, body = ScheduleBody)),
)]
pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<ScheduleId>,
) -> Answer {
    let detail = app.handle.schedule(caller.environment, id).await?;
    Ok(Reply::ok(&ScheduleBody::whole(&detail)))
}

/// Change a schedule; a member that is left out stays as it is.
#[utoipa::path(
    patch, path = "/api/schedules/{id}", tag = "schedules",
    responses(
        (status = 200, description = "the change is durable", body = ScheduleBody),
        (status = 409, description = "it was changed at the same time"),
    ),
)]
pub(super) async fn change(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(id): Id<ScheduleId>,
    Body(change): Body<ChangeSchedule>,
) -> Answer {
    let ChangeSchedule { name, timing, target } = change;
    let target = target.map(|target| given(target, &app.defaults));
    target.iter().try_for_each(|target| check(&app, &caller, target))?;
    let apply = |before| ChangeSchedule::apply(name, timing, before);
    let changed = app.handle.change_schedule(&Owner::of(&caller, None), id, apply, target).await?;
    app.record(Record::new(Action::ScheduleChanged, by).of(id)).await;
    Ok(Reply::ok(&ScheduleBody::whole(&changed)))
}

/// Delete a schedule; its running work goes on.
#[utoipa::path(
    delete, path = "/api/schedules/{id}", tag = "schedules",
    responses((status = 200, description = "it starts nothing any more", body = ScheduleBody)),
)]
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(id): Id<ScheduleId>,
) -> Answer {
    let row = app.handle.delete_schedule(caller.environment, id).await?;
    app.record(Record::new(Action::ScheduleDeleted, by).of(id)).await;
    Ok(Reply::ok(&ScheduleBody::summary(&row.schedule)))
}

/// The occurrences of a schedule that are remembered: the last thousand, the newest first.
#[utoipa::path(
    get, path = "/api/schedules/{id}/runs", tag = "schedules",
    responses((status = 200, body = [ScheduleRunBody])),
)]
pub(super) async fn runs(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<ScheduleId>,
    Query(page): Query<Paging>,
) -> Answer {
    let window = page.window();
    let page = app.handle.schedule_runs(caller.environment, id, window).await?;
    let items: Vec<_> = page.items.iter().map(ScheduleRunBody::of).collect();
    Ok(Reply::page(&items, page.total, window))
}

/// Start the work of a schedule now, be it enabled or not.
#[utoipa::path(
    post, path = "/api/schedules/{id}/trigger", tag = "schedules",
    responses(
        (status = 200, description = "what became of it", body = ScheduleRunBody),
        (status = 409, description = "a run is under way, and overlap lets none start beside it"),
    ),
)]
pub(super) async fn trigger(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(id): Id<ScheduleId>,
) -> Answer {
    let run = app.handle.trigger_schedule(caller.environment, id).await?;
    app.record(Record::new(Action::ScheduleTriggered, by).of(id)).await;
    Ok(Reply::ok(&ScheduleRunBody::of(&run)))
}

/// Passes unless a task of the schedule would call an address that it must not.
fn check(app: &App, caller: &Caller, target: &GivenTarget) -> Result<(), Failure> {
    let (field, url) = match &target.target {
        Target::Task(request) => ("target.task.callbackUrl", &request.callback_url),
        Target::Plan(_, start) | Target::Template(_, _, start) => {
            ("target.callbackUrl", &start.named.callback_url)
        }
    };
    Ok(app.check_callback(caller, field, url.as_deref())?)
}
