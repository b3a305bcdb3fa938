//! The audit log (docs/reference/accounts.md): translate only.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use callboard_domain::cell::HOME;
use callboard_domain::query::{AuditQuery, Window};
use callboard_domain::{Error, Rule};
use callboard_protocol::audit::AuditEntryBody;
use callboard_wire::audit::ListAudit;
use serde::{Deserialize, Serialize};

use super::elsewhere::Elsewhere;
use super::{Answer, App, Query, Reply};

/// The entries that can be reached in the logs of all cells.
const MOST_EVERYWHERE: usize = 1_000;

/// The first entries of a cell's log, and the number of all that were asked for.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct First {
    entries: Vec<AuditEntryBody>,
    total: u64,
}

/// The audit log: actor, action, time and address, the newest first.
#[utoipa::path(
    get, path = "/api/audit", tag = "audit",
    responses((status = 200, body = [AuditEntryBody])),
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    elsewhere: Elsewhere,
    RawQuery(query): RawQuery,
    Query(list): Query<ListAudit>,
) -> Answer {
    if list.everywhere == Some(true) {
        return everywhere(&app, &elsewhere, &query.unwrap_or_default(), list).await;
    }
    let query = AuditQuery::from(list);
    let page = app.handle.audit(&query).await?;
    let items: Vec<_> = page.items.iter().map(AuditEntryBody::of).collect();
    Ok(Reply::page(&items, page.total, query.window))
}

/// The logs of all cells as one; each entry names its cell.
async fn everywhere(app: &App, elsewhere: &Elsewhere, query: &str, list: ListAudit) -> Answer {
    let window = list.page.window();
    if window.offset + window.limit > MOST_EVERYWHERE {
        let message = format!(
            "must leave limit and offset at most {MOST_EVERYWHERE} together with everywhere=true: give since or until"
        );
        return Err(Error::invalid("offset", Rule::Range, message).into());
    }
    let here = app.audit_up_to(list).await?;
    // A credential in the query stays at home.
    let pairs = query.split('&').filter(|pair| !pair.starts_with("api_key="));
    let path = format!("audit?{}", pairs.collect::<Vec<_>>().join("&"));
    let heard = elsewhere.ask::<First>(&path).await;
    let (mut entries, mut total) = (Vec::new(), 0);
    for (cell, first) in [(HOME.to_owned(), here)].into_iter().chain(heard.answers) {
        total += first.total;
        let of_cell = |entry| AuditEntryBody { cell: Some(cell.clone()), ..entry };
        entries.extend(first.entries.into_iter().map(of_cell));
    }
    entries.sort_by(|one, other| (&other.at, &other.id).cmp(&(&one.at, &one.id)));
    let page: Vec<_> = entries.into_iter().skip(window.offset).take(window.limit).collect();
    Ok(Reply::page(&page, total, window).without(&heard.silent))
}

impl App {
    /// This cell's entries up to the end of the page.
    pub(super) async fn audit_up_to(&self, list: ListAudit) -> Result<First, Error> {
        let query = AuditQuery::from(list);
        let limit = query.window.offset.saturating_add(query.window.limit).min(MOST_EVERYWHERE);
        let query = AuditQuery { window: Window { limit, offset: 0 }, ..query };
        let page = self.handle.audit(&query).await?;
        let entries = page.items.iter().map(AuditEntryBody::of).collect();
        Ok(First { entries, total: page.total })
    }
}
