//! The filters of executions, as the store knows them.

use callboard_domain::id::{Environment, ExecutionId, first_at};
use callboard_domain::query::{Executions, OfBatch};
use callboard_domain::task::EndingCode;
use callboard_store::{Error, Filter, Order, Query};

use crate::node::Node;
use crate::tables::{
    self, execution_list, execution_sort, execution_term, executions, instants_filter, term_of,
};

/// The executions that match, oldest first.
pub(crate) async fn matching(
    node: &Node,
    environment: Environment,
    query: &Executions,
) -> Result<Vec<u128>, Error> {
    let filters = filters(query);
    let (list, order) = (execution_list(environment), Order::Document);
    let query = Query { list, filters, order, descending: false, offset: 0, limit: usize::MAX };
    Ok(node.store().query(&query).await?.documents)
}

/// The filter of a list of executions.
pub(super) fn filters(query: &Executions) -> Vec<Filter> {
    let mut filters = Vec::new();
    if !query.statuses.is_empty() {
        let status =
            |status: &callboard_domain::execution::Status| Box::from(status.as_str().as_bytes());
        let statuses = query.statuses.iter().map(status).collect();
        filters.push(Filter::AnyOf(execution_term::STATUS, statuses));
    }
    if let Some(plan) = query.plan {
        let plan = Box::from(plan.as_u128().to_be_bytes());
        filters.push(Filter::AnyOf(execution_term::PLAN, vec![plan]));
    }
    if let Some(template) = &query.template {
        let filter = match &query.version {
            Some(version) => (execution_term::VERSION, executions::version_term(template, version)),
            None => (execution_term::TEMPLATE, term_of(template)),
        };
        filters.push(Filter::AnyOf(filter.0, vec![filter.1]));
    }
    if !query.tags.is_empty() {
        let tags = query.tags.iter().map(|tag| term_of(tag)).collect();
        filters.push(Filter::AllOf(execution_term::TAG, tags));
    }
    match query.batch {
        Some(OfBatch::Only(batch)) => {
            let (from, to) = callboard_domain::batch::executions(batch);
            filters.push(Filter::Documents { from: Some(from), to: Some(to) });
        }
        Some(OfBatch::None) => {
            let row = Box::from(execution_term::OF_BATCH);
            filters.push(Filter::NoneOf(execution_term::ROW, vec![row]));
        }
        None => {}
    }
    if query.created_after.is_some() || query.created_before.is_some() {
        let (from, to) = (query.created_after.map(first_at), query.created_before.map(first_at));
        filters.push(Filter::Documents { from, to });
    }
    let error_terms = |errors: &[EndingCode]| {
        errors.iter().map(|error| term_of(error.as_str())).collect::<Vec<_>>()
    };
    if !query.errors.is_empty() {
        filters.push(Filter::AnyOf(execution_term::ERROR, error_terms(&query.errors)));
    }
    if !query.except_errors.is_empty() {
        filters.push(Filter::NoneOf(execution_term::ERROR, error_terms(&query.except_errors)));
    }
    let id = query.search.as_ref().and_then(|text| text.parse().ok()).map(ExecutionId::as_u128);
    filters.extend(tables::search_filters(query.search.as_deref(), id));
    filters.extend(instants_filter(execution_sort::COMPLETED_AT, query.ended));
    filters
}
