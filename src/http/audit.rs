//! The audit log (docs/reference/accounts.md): translate only.

use std::sync::Arc;

use axum::extract::State;
use callboard_domain::query::AuditQuery;
use callboard_protocol::audit::AuditEntryBody;
use callboard_wire::audit::ListAudit;

use super::{Answer, App, Query, Reply};

/// The audit log: actor, action, time and address, the newest first.
#[utoipa::path(
    get, path = "/api/audit", tag = "audit",
    responses((status = 200, body = [AuditEntryBody])),
)]
pub(super) async fn list(State(app): State<Arc<App>>, Query(list): Query<ListAudit>) -> Answer {
    let query = AuditQuery::from(list);
    let page = app.handle.audit(&query).await?;
    let items: Vec<_> = page.items.iter().map(AuditEntryBody::of).collect();
    Ok(Reply::page(&items, page.total, query.window))
}
