//! The audit log, by page.

use callboard_domain::audit::Entry;
use callboard_domain::id::{Environment, first_at};
use callboard_domain::query::{AuditQuery, Page};
use callboard_store::{Error, Filter, Order, Query};

use super::{TOGETHER, together};
use crate::node::Node;
use crate::tables::{AUDIT, AUDIT_LIST, audit_term, term_of};

pub(crate) async fn entries(node: &Node, query: &AuditQuery) -> Result<Page<Entry>, Error> {
    let AuditQuery { actor, actions, since, until, window } = query;
    let mut filters = Vec::new();
    if let Some(actor) = actor {
        filters.push(Filter::AllOf(audit_term::ACTOR, vec![term_of(actor)]));
    }
    if !actions.is_empty() {
        let actions = actions.iter().map(|action| term_of(action.as_str())).collect();
        filters.push(Filter::AnyOf(audit_term::ACTION, actions));
    }
    if since.is_some() || until.is_some() {
        let (from, to) = (since.map(first_at), until.map(first_at));
        filters.push(Filter::Documents { from, to });
    }
    let query = Query {
        list: AUDIT_LIST,
        filters,
        order: Order::Document,
        descending: true,
        offset: window.offset,
        limit: window.limit,
    };
    let page = node.store().query(&query).await?;
    // An entry that was trimmed meanwhile is left out.
    let read = async |id| AUDIT.get(node.store(), Environment::LIVE.number(), &id).await;
    let items = together(TOGETHER, page.documents.into_iter().map(read)).await?;
    Ok(Page { items, total: page.total })
}
