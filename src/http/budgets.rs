//! Budgets of many tasks, and usage: translate only.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use callboard_domain::access::Caller;
use callboard_domain::audit::{Action, Record};
use callboard_domain::id::BudgetId;
use callboard_domain::spending::{BudgetChange, Ledger};
use callboard_wire::budgets::{
    AskUsage, BudgetBody, ChangeBudget, CreateBudget, ListBudgets, UsageGroupsBody,
};

use super::extract::Asker;
use super::{Answer, App, Body, Id, Query, Reply};

/// Create a budget.
#[utoipa::path(
    post, path = "/api/budgets", tag = "budgets",
    responses(
        (status = 200, description = "the budget is durable and holds", body = BudgetBody),
        (status = 409, description = "there are too many"),
    ),
)]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Body(budget): Body<CreateBudget>,
) -> Answer {
    let budget = budget.budget(app.handle.fresh_budget_id());
    let ledger = app.handle.create_budget(caller.environment, budget).await?;
    app.record(record(Action::BudgetCreated, by, &ledger)).await;
    Ok(Reply::ok(&BudgetBody::of(&ledger)))
}

/// Budgets as they stand, the newest first.
#[utoipa::path(
    get, path = "/api/budgets", tag = "budgets",
    responses((status = 200, body = [BudgetBody])),
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Query(list): Query<ListBudgets>,
) -> Answer {
    let window = list.page.window();
    let page = app.handle.budgets(caller.environment, window);
    let items: Vec<_> = page.items.iter().map(BudgetBody::of).collect();
    Ok(Reply::page(&items, page.total, window))
}

/// A budget as it stands.
#[utoipa::path(
    get, path = "/api/budgets/{id}", tag = "budgets",
    responses((status = 200, body = BudgetBody)),
)]
pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<BudgetId>,
) -> Answer {
    Ok(Reply::ok(&BudgetBody::of(&app.handle.budget(caller.environment, id)?)))
}

/// Change the limit, the alerts or the rule of a budget; the spent amount stays.
#[utoipa::path(
    patch, path = "/api/budgets/{id}", tag = "budgets",
    responses((status = 200, description = "the change is durable and holds", body = BudgetBody)),
)]
pub(super) async fn change(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(id): Id<BudgetId>,
    Body(change): Body<ChangeBudget>,
) -> Answer {
    let ledger =
        app.handle.change_budget(caller.environment, id, BudgetChange::from(change)).await?;
    app.record(record(Action::BudgetChanged, by, &ledger)).await;
    Ok(Reply::ok(&BudgetBody::of(&ledger)))
}

/// Delete a budget; tasks that wait for it go on.
#[utoipa::path(
    delete, path = "/api/budgets/{id}", tag = "budgets",
    responses((status = 200, description = "it holds no more", body = BudgetBody)),
)]
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(id): Id<BudgetId>,
) -> Answer {
    let ledger = app.handle.delete_budget(caller.environment, id).await?;
    app.record(record(Action::BudgetDeleted, by, &ledger)).await;
    Ok(Reply::ok(&BudgetBody::of(&ledger)))
}

/// The usage of the tasks whose results came in a period and that are still stored, in groups; at most 100,000 tasks.
#[utoipa::path(
    get, path = "/api/usage", tag = "budgets",
    responses((status = 200, body = UsageGroupsBody)),
)]
pub(super) async fn usage(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Query(asked): Query<AskUsage>,
) -> Answer {
    let asked = asked.at(app.handle.now());
    let usages = app.handle.usage(caller.environment, &asked).await?;
    Ok(Reply::ok(&UsageGroupsBody::of(&asked, &usages)))
}

fn record(action: Action, by: callboard_domain::audit::By, ledger: &Ledger) -> Record {
    let budget = &ledger.budget;
    Record::new(action, by)
        .of(budget.id)
        .with("limit", budget.limit.as_usd())
        .with("period", budget.period)
        .with("onExceed", budget.on_exceed)
}
