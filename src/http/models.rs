//! Models and their limits: translate only.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use callboard_domain::access::Caller;
use callboard_domain::audit::{Action, Record};
use callboard_domain::grammar::Kind;
use callboard_domain::model_limits::ModelLimits;
use callboard_domain::task::MAX_TARGET;
use callboard_domain::{Error, Rule};
use callboard_wire::common::Paging;
use callboard_wire::models::ModelBody;

use super::extract::{Asker, ModelName};
use super::{Answer, App, Body, Id, Query, Reply, names};

/// Models by name: those that workers announce, those with limits or figures, and the default.
#[utoipa::path(
    get, path = "/api/models", tag = "system",
    responses((status = 200, body = [ModelBody])),
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Query(paging): Query<Paging>,
) -> Answer {
    let (window, models) = (paging.window(), app.handle.models(caller.environment));
    let page: Vec<_> =
        models.iter().skip(window.offset).take(window.limit).map(ModelBody::of).collect();
    Ok(Reply::page(&page, models.len() as u64, window))
}

/// Set all limits of a model, in place of those before and of the settings; they count at once.
#[utoipa::path(
    put, path = "/api/models/{name}/limits", tag = "system",
    responses((status = 200, description = "the limits are durable", body = ModelBody)),
)]
pub(super) async fn set_limits(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(ModelName(name)): Id<ModelName>,
    Body(limits): Body<ModelLimits>,
) -> Answer {
    if !(1..=MAX_TARGET).contains(&name.chars().count()) {
        let message = format!("name must have 1 to {MAX_TARGET} characters");
        return Err(Error::invalid("name", Rule::Length, message).into());
    }
    names::check(&app, caller.environment, Kind::Model, "name", &[&name]).await?;
    let view = app.handle.set_model_limits(caller.environment, &name, limits).await?;
    let shown = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |it| it.to_string());
    let record = Record::new(Action::ModelLimitsSet, by)
        .of(&name)
        .with("requestsPerMinute", shown(limits.requests_per_minute))
        .with("inputTokensPerMinute", shown(limits.input_tokens_per_minute))
        .with("outputTokensPerMinute", shown(limits.output_tokens_per_minute))
        .with("tokensPerMinute", shown(limits.tokens_per_minute))
        .with("concurrent", shown(limits.concurrent));
    app.record(record).await;
    Ok(Reply::ok(&ModelBody::of(&view)))
}

/// End the pause of a model after a 429 or 529: its tasks go on at once.
#[utoipa::path(
    delete, path = "/api/models/{name}/pause", tag = "system",
    responses((status = 200, description = "the model is open, also after a restart", body = ModelBody)),
)]
pub(super) async fn end_pause(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(ModelName(name)): Id<ModelName>,
) -> Answer {
    let view = app.handle.end_pause(caller.environment, &name).await?;
    app.record(Record::new(Action::ModelPauseEnded, by).of(&name)).await;
    Ok(Reply::ok(&ModelBody::of(&view)))
}
