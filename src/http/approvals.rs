//! The endpoints of human approval (docs/reference/approvals.md).

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use callboard_domain::Error;
use callboard_domain::access::{Action as Permission, Caller, allows};
use callboard_domain::approval::{self, Decider};
use callboard_domain::audit::{Action, Record};
use callboard_domain::id::TaskId;
use callboard_domain::query::Approvals;
use callboard_runtime::handle::{Approve, Reject};
use callboard_wire::approvals::entry::{EntryBody, Texts};
use callboard_wire::approvals::{
    ApprovalBody, ApproveBody, Approved, AssignBody, Assigned, Claimed, ExtendBody, Extended,
    ListApprovals, ListPending, RejectBody, Rejected, ReopenBody, Reopened, ReviewerNameBody,
};
use callboard_wire::common::Paging;
use callboard_wire::review_stats::{Calibrate, CalibrationBody, StatisticsBody};

use super::extract::{Asker, OptionalBody};
use super::{Answer, App, Body, Id, Query, Reply};

/// Outputs that wait for a reviewer, the latest first.
#[utoipa::path(
    get, path = "/api/hitl/pending", tag = "hitl",
    responses((status = 200, body = [ApprovalBody])),
)]
pub(super) async fn list_pending(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Query(list): Query<ListPending>,
) -> Answer {
    page(&app, &caller, &list.into()).await
}

/// Approvals, decided or not, the latest first.
#[utoipa::path(
    get, path = "/api/hitl", tag = "hitl",
    responses((status = 200, body = [ApprovalBody])),
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Query(list): Query<ListApprovals>,
) -> Answer {
    page(&app, &caller, &list.into()).await
}

async fn page(app: &App, caller: &Caller, query: &Approvals) -> Answer {
    let page = app.handle.approvals(caller.environment, query).await?;
    let now = app.handle.now();
    let items: Vec<_> = page.items.iter().map(|item| ApprovalBody::listed(item, now)).collect();
    Ok(Reply::page(&items, page.total, query.window))
}

/// An approval with all that a reviewer needs.
#[utoipa::path(
    get, path = "/api/hitl/{taskId}", tag = "hitl",
    responses((status = 200, body = ApprovalBody)),
)]
pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<TaskId>,
) -> Answer {
    let detail = app.handle.approval(caller.environment, id).await?;
    Ok(Reply::ok(&ApprovalBody::whole(&detail, app.handle.now())))
}

/// Let an output pass, as it is or with another text in its place.
#[utoipa::path(
    post, path = "/api/hitl/{taskId}/approve", tag = "hitl",
    responses(
        (status = 200, description = "the task is completed", body = Approved),
        (status = 409, description = "already decided, or not waiting for a decision"),
    ),
)]
pub(super) async fn approve(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by_asker): Asker,
    Id(id): Id<TaskId>,
    OptionalBody(body): OptionalBody<ApproveBody>,
) -> Answer {
    let ApproveBody { comment, modified_output, bulk, reviewer_id } = body;
    let by = Decider { bulk, ..decider(&app, &caller, reviewer_id)? };
    let comment = comment.filter(|comment| !comment.is_empty());
    let approve = Approve { by, modified_output, comment: comment.clone() };
    let approval = app.handle.approve(caller.environment, id, approve).await?;
    app.record(Record::new(Action::Approved, by_asker).of(id)).await;
    let approved = Approved::of(&approval, comment.as_deref()).ok_or(Error::Internal)?;
    Ok(Reply::ok(&approved))
}

/// Do not let an output pass; another task may try again.
#[utoipa::path(
    post, path = "/api/hitl/{taskId}/reject", tag = "hitl",
    responses(
        (status = 200, description = "the task is rejected", body = Rejected),
        (status = 409, description = "already decided, or not waiting for a decision"),
    ),
)]
pub(super) async fn reject(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by_asker): Asker,
    Id(id): Id<TaskId>,
    Body(body): Body<RejectBody>,
) -> Answer {
    let RejectBody { reason, retry, retry_prompt, reviewer_id } = body;
    let by = decider(&app, &caller, reviewer_id)?;
    let retry = retry.unwrap_or_default();
    let reject = Reject { by, reason: reason.clone(), retry, retry_prompt };
    let approval = app.handle.reject(caller.environment, id, reject).await?;
    app.record(Record::new(Action::Rejected, by_asker).of(id)).await;
    let rejected = Rejected::of(&approval, &reason).ok_or(Error::Internal)?;
    Ok(Reply::ok(&rejected))
}

/// Take a decision back, if nothing has used the output; or ask for another decision beside it.
#[utoipa::path(
    post, path = "/api/hitl/{taskId}/reopen", tag = "hitl",
    responses(
        (status = 200, description = "it waits for a decision again", body = Reopened),
        (status = 403, description = "a reviewer takes back only their own decisions"),
        (status = 409, description = "the output was used, which details.usedBy lists; or nothing was decided"),
    ),
)]
pub(super) async fn reopen(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by_asker): Asker,
    Id(id): Id<TaskId>,
    OptionalBody(ReopenBody { as_correction }): OptionalBody<ReopenBody>,
) -> Answer {
    let by = decider(&app, &caller, None)?;
    let may_correct = as_correction.unwrap_or_default();
    let approval = app.handle.reopen(&caller, id, by, may_correct).await?;
    app.record(Record::new(Action::Reopened, by_asker).of(id)).await;
    Ok(Reply::ok(&Reopened::of(&approval)))
}

/// Tell other reviewers for five minutes that somebody looks at it.
#[utoipa::path(
    post, path = "/api/hitl/{taskId}/claim", tag = "hitl",
    responses((status = 200, body = Claimed), (status = 409, description = "nothing waits, or another claimed it")),
)]
pub(super) async fn claim(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<TaskId>,
) -> Answer {
    let by = decider(&app, &caller, None)?;
    let approval = app.handle.claim(caller.environment, id, by).await?;
    Ok(Reply::ok(&Claimed::of(&approval, app.handle.now())))
}

/// Take a claim back.
#[utoipa::path(
    post, path = "/api/hitl/{taskId}/release", tag = "hitl",
    responses((status = 200, body = Claimed), (status = 409, description = "nothing waits")),
)]
pub(super) async fn release(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<TaskId>,
) -> Answer {
    let by = decider(&app, &caller, None)?;
    let approval = app.handle.release(caller.environment, id, by).await?;
    Ok(Reply::ok(&Claimed::of(&approval, app.handle.now())))
}

/// Give the reviewers more time.
#[utoipa::path(
    post, path = "/api/hitl/{taskId}/extend", tag = "hitl",
    responses(
        (status = 200, body = Extended),
        (status = 409, description = "nothing waits, or it was extended 32 times"),
    ),
)]
pub(super) async fn extend(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<TaskId>,
    Body(ExtendBody { timeout_ms, reason }): Body<ExtendBody>,
) -> Answer {
    let by = decider(&app, &caller, None)?;
    let approval = app.handle.extend(caller.environment, id, by, (timeout_ms, reason)).await?;
    Ok(Reply::ok(&Extended::of(&approval)))
}

/// Give an output to a reviewer, who is then its assignee.
#[utoipa::path(
    post, path = "/api/hitl/{taskId}/assign", tag = "hitl",
    responses(
        (status = 200, body = Assigned),
        (status = 409, description = "nothing waits, or it was assigned too often"),
    ),
)]
pub(super) async fn assign(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<TaskId>,
    Body(AssignBody { assignee }): Body<AssignBody>,
) -> Answer {
    let by = decider(&app, &caller, None)?;
    let approval = app.handle.assign(caller.environment, id, by, assignee).await?;
    Ok(Reply::ok(&Assigned::of(&approval)))
}

/// All that happened to an approval, oldest first, each entry chained to the one before it.
#[utoipa::path(
    get, path = "/api/hitl/{taskId}/history", tag = "hitl",
    responses((status = 200, body = [EntryBody])),
)]
pub(super) async fn history(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<TaskId>,
) -> Answer {
    let entries = app.handle.approval_history(caller.environment, id).await?;
    let body = |entry: &callboard_runtime::read::approvals::HistoryEntry| {
        let texts = Texts {
            comment: entry.comment.as_deref(),
            edit: entry.edit.as_deref(),
            salt: entry.salt,
        };
        EntryBody::of(&entry.entry, texts)
    };
    Ok(Reply::ok(&entries.iter().map(body).collect::<Vec<_>>()))
}

/// The statistics of approvals.
#[utoipa::path(
    get, path = "/api/hitl/stats", tag = "hitl",
    responses((status = 200, body = StatisticsBody)),
)]
pub(super) async fn statistics(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Answer {
    let summary = app.handle.statistics(caller.environment).await?;
    Ok(Reply::ok(&StatisticsBody::from(&summary)))
}

/// The calibration of confidences, and the effect of other thresholds.
#[utoipa::path(
    get, path = "/api/hitl/calibration", tag = "hitl",
    responses((status = 200, body = CalibrationBody)),
)]
pub(super) async fn calibration(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Query(asked): Query<Calibrate>,
) -> Answer {
    let query = asked.into();
    let found = app.handle.calibration(caller.environment, &query).await?;
    Ok(Reply::ok(&CalibrationBody::of(&query, &found)))
}

/// The users who decide, by name: admins, operators and reviewers; none in the sandbox.
#[utoipa::path(
    get, path = "/api/hitl/reviewers", tag = "hitl",
    responses((status = 200, body = [ReviewerNameBody])),
)]
pub(super) async fn reviewers(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Query(paging): Query<Paging>,
) -> Answer {
    let mut users = app.handle.users_in(caller.environment.slot());
    // The sandbox has no accounts.
    users.retain(|user| caller.environment.is_live() && allows(user.role, Permission::HitlDecide));
    users.sort_by(|one, other| (&one.name, one.id).cmp(&(&other.name, other.id)));
    let (window, total) = (paging.window(), users.len() as u64);
    let page = users.iter().skip(window.offset).take(window.limit);
    Ok(Reply::page(&page.map(ReviewerNameBody::from).collect::<Vec<_>>(), total, window))
}

fn decider(app: &App, caller: &Caller, claimed: Option<String>) -> Result<Decider, Error> {
    let users = app.handle.users_in(caller.environment.slot());
    let is_user = |user| users.iter().any(|known| known.id == user);
    approval::decider(caller, claimed, is_user)
}
