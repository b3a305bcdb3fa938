//! The plan endpoints.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use callboard_domain::access::Caller;
use callboard_domain::id::PlanId;
use callboard_domain::plan::PlanSource;
use callboard_domain::query::Plans;
use callboard_runtime::Owner;
use callboard_wire::executions::{DryRunBody, ExecutePlan, ExecutionBody};
use callboard_wire::plans::{self, ListPlans, PlanBody};

use super::executions::started;
use super::extract::{Json, OptionalBody};
use super::idempotency::IdempotencyKey;
use super::names::Known;
use super::templates::asking;
use super::trace::Trace;
use super::{Answer, App, Id, Query, Reply};

/// Make a plan.
#[utoipa::path(
    post, path = "/api/plans", tag = "plans",
    responses((status = 201, description = "the plan is durable", body = PlanBody)),
)]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Json(definition, _): Json<PlanSource>,
) -> Answer {
    let environment = caller.environment;
    let source = move |app: &App, value| plans::source(value, app.handle.env_allow(environment));
    let read = app.read(Some((caller.account, caller.environment)), definition, source).await?;
    let known = Known::among(&app, caller.environment, read.unfit()).await?;
    let source = read.finish(|unfit| known.has(unfit))?;
    let plan = app.handle.create_plan(&Owner::of(&caller, None), source).await?;
    Ok(Reply::created(&PlanBody::whole(&plan)))
}

/// A plan with its prompts.
#[utoipa::path(
    get, path = "/api/plans/{id}", tag = "plans",
    responses((status = 200, body = PlanBody)),
)]
pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<PlanId>,
) -> Answer {
    let account = caller.account.to_string();
    let asking = asking(&caller, &account);
    let plan = app.handle.plan(caller.environment, asking, id).await?;
    Ok(Reply::ok(&PlanBody::whole(&plan)))
}

/// Plans, the newest first; their steps without prompts.
#[utoipa::path(
    get, path = "/api/plans", tag = "plans",
    responses((status = 200, body = [PlanBody])),
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Query(list): Query<ListPlans>,
) -> Answer {
    let plans = Plans::from(list);
    let account = caller.account.to_string();
    let asking = asking(&caller, &account);
    let page = app.handle.plans(caller.environment, asking, &plans).await?;
    let items: Vec<_> = page.items.iter().map(PlanBody::summary).collect();
    Ok(Reply::page(&items, page.total, plans.window))
}

/// Start an execution of a plan, or, with `options.dryRun`, make a dry run.
#[utoipa::path(
    post, path = "/api/plans/{id}/execute", tag = "plans",
    responses(
        (status = 201, description = "the execution is durable", body = ExecutionBody),
        (status = 200, description = "what it would do", body = DryRunBody),
    ),
)]
pub(super) async fn execute(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<PlanId>,
    trace: Trace,
    IdempotencyKey(key): IdempotencyKey,
    OptionalBody(execute): OptionalBody<ExecutePlan>,
) -> Answer {
    let (is_dry, start) = (execute.is_dry(), execute.into_start());
    app.check_callback(&caller, "callbackUrl", start.named.callback_url.as_deref())?;
    let owner = Owner::of(&caller, trace.0);
    if is_dry {
        let run = app.handle.dry_run(&owner, id, start).await?;
        return Ok(Reply::ok(&DryRunBody::of_plan(id, &run)));
    }
    started(&app.handle.execute(&owner, id, start, key.as_deref()).await?)
}
