//! The rows of batches: the batch, and its rows.

use callboard_domain::Timestamp;
use callboard_domain::batch::{self, Batch, Progress, Row, Status};
use callboard_domain::event::EventName;
use callboard_domain::id::{Environment, TemplateBatchId};
use callboard_domain::query::{self, Page};
use callboard_store::{Entry, Error, Filter, Op, Order, Query, Store};

use super::log::{self, Kind};
use super::{
    BATCH_ROWS, BATCHES, TEXTS, batch_list, batch_term as term, number_term, tag_terms, term_of,
    text,
};

/// The row of a batch.
pub(crate) fn put(environment: Environment, batch: &Batch) -> Vec<Op> {
    let mut terms = vec![
        (term::STATUS, batch.status.as_str().as_bytes().into()),
        (term::TEMPLATE, term_of(&batch.template)),
        (term::VERSION, term_of(&batch.version)),
        (term::PLAN, number_term(batch.plan.as_u128())),
    ];
    terms.extend(tag_terms(term::TAG, &batch.tags));
    terms.extend(batch.key.as_ref().map(|(scope, _)| (term::KEY, term_of(scope))));
    let entry = Entry { list: batch_list(environment), terms, sort: [None; 2] };
    BATCHES.put(environment.number(), batch.id.as_u128(), batch, Some(entry))
}

/// The record of something that happened to a batch.
pub(crate) fn event(
    environment: Environment,
    name: EventName,
    at: Timestamp,
    batch: (Batch, Progress),
) -> Op {
    log::append(environment, (name.as_str(), at), Kind::Batch, batch)
}

/// A batch, one that is being removed too.
pub(crate) async fn batch(
    store: &dyn Store,
    environment: Environment,
    id: TemplateBatchId,
) -> Result<Option<Batch>, Error> {
    BATCHES.get(store, environment.number(), id.as_u128()).await
}

/// The batch that an idempotency key made.
pub(crate) async fn of_key(
    store: &dyn Store,
    environment: Environment,
    scope: &str,
) -> Result<Option<Batch>, Error> {
    let filters = vec![Filter::AnyOf(term::KEY, vec![term_of(scope)])];
    let page = list(store, environment, filters, query::Window { limit: 1, offset: 0 }).await?;
    Ok(page.items.into_iter().next())
}

/// Batches, the newest first, and their total number.
pub(crate) async fn batches(
    store: &dyn Store,
    environment: Environment,
    query: &query::Batches,
) -> Result<Page<Batch>, Error> {
    let mut filters = Vec::new();
    if !query.statuses.is_empty() {
        let statuses = query.statuses.iter().map(|status| status.as_str().as_bytes().into());
        filters.push(Filter::AnyOf(term::STATUS, statuses.collect()));
    }
    let texts = [(term::TEMPLATE, &query.template), (term::VERSION, &query.version)];
    for (field, text) in texts {
        filters.extend(text.as_ref().map(|text| Filter::AnyOf(field, vec![term_of(text)])));
    }
    if !query.tags.is_empty() {
        filters.push(Filter::AllOf(term::TAG, query.tags.iter().map(|tag| term_of(tag)).collect()));
    }
    if query.from.is_some() || query.to.is_some() {
        let first = callboard_domain::id::first_at;
        filters.push(Filter::Documents { from: query.from.map(first), to: query.to.map(first) });
    }
    list(store, environment, filters, query.window).await
}

async fn list(
    store: &dyn Store,
    environment: Environment,
    mut filters: Vec<Filter>,
    window: query::Window,
) -> Result<Page<Batch>, Error> {
    let gone = Status::Deleting.as_str().as_bytes().into();
    filters.push(Filter::NoneOf(term::STATUS, vec![gone]));
    let query::Window { limit, offset } = window;
    let (list, order) = (batch_list(environment), Order::Document);
    let page = Query { list, filters, order, descending: true, offset, limit };
    let page = store.query(&page).await?;
    let mut items = Vec::with_capacity(page.documents.len());
    for document in page.documents {
        items.extend(batch(store, environment, TemplateBatchId::from_u128(document)).await?);
    }
    Ok(Page { items, total: page.total })
}

/// The rows of a batch after a number, or from the first, at most `limit`.
pub(crate) async fn rows(
    store: &dyn Store,
    environment: Environment,
    id: TemplateBatchId,
    after: Option<u32>,
    limit: usize,
) -> Result<Vec<(u32, Row)>, Error> {
    let id = id.as_u128();
    // The key before the first row of the batch is that of no row.
    let after = after.map_or_else(|| (id.saturating_sub(1), u32::MAX), |after| (id, after));
    let rows = BATCH_ROWS.scan(store, environment.number(), Some(&after), limit).await?;
    let own = rows.into_iter().take_while(|((of, _), _)| *of == id);
    Ok(own.map(|((_, number), row)| (number, row)).collect())
}

/// A row of a batch.
pub(crate) async fn row(
    store: &dyn Store,
    environment: Environment,
    (id, number): (TemplateBatchId, u32),
) -> Result<Option<Row>, Error> {
    BATCH_ROWS.get(store, environment.number(), &(id.as_u128(), number)).await
}

/// Writes a row.
pub(crate) fn put_row(
    environment: Environment,
    (id, number): (TemplateBatchId, u32),
    row: &Row,
) -> Op {
    BATCH_ROWS.put(environment.number(), &(id.as_u128(), number), row, None)
}

/// Writes the input of a row.
pub(crate) fn put_input(
    environment: Environment,
    (id, number): (TemplateBatchId, u32),
    input: &str,
) -> Vec<Op> {
    let execution = batch::execution(id, number).as_u128();
    TEXTS.put(environment.number(), execution, text::ROW_INPUT, input)
}

/// The input of a row that is not started.
pub(crate) async fn input(
    store: &dyn Store,
    environment: Environment,
    (id, number): (TemplateBatchId, u32),
) -> Result<Option<String>, Error> {
    let execution = batch::execution(id, number).as_u128();
    TEXTS.get(store, environment.number(), execution, text::ROW_INPUT).await
}

/// Deletes the input of a row, which has at most `length` bytes.
pub(crate) fn delete_input(
    environment: Environment,
    (id, number): (TemplateBatchId, u32),
    length: usize,
) -> Vec<Op> {
    let execution = batch::execution(id, number).as_u128();
    TEXTS.delete(environment.number(), execution, text::ROW_INPUT, length)
}
