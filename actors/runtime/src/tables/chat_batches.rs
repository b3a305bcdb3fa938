//! The rows of batches in the form of `OpenAI`'s interface, and of their lines.

use callboard_domain::chat_batch::{self, ChatBatch, Counts};
use callboard_domain::id::{ChatBatchId, Environment, TaskId};
use callboard_domain::query::{Keyset, Page};
use callboard_domain::task::Status;
use callboard_store::{Entry, Error, Filter, Op, Order, Query, Store};
use serde::{Deserialize, Serialize};

use super::{
    CHAT_BATCHES, CHAT_LINES, behind, chat_batch_list, status_terms, task_list, term, term_of,
};

/// A line that is durable: its task is there, or it was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatLine {
    /// The client's identifier of the line.
    #[serde(rename = "c")]
    pub custom_id: String,
    /// The refusal: no task was made.
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
}

/// The answer to a line of which no task was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The status.
    #[serde(rename = "s")]
    pub status: u16,
    /// The body, in JSON.
    #[serde(rename = "b")]
    pub body: String,
}

/// The index term of batches that are not cleared.
const OPEN: u8 = 0;
/// The idempotency key, as a digest.
const KEY: u8 = 1;

/// The row of a batch.
pub(crate) fn put(environment: Environment, batch: &ChatBatch) -> Vec<Op> {
    let mut terms = Vec::new();
    terms.extend((!batch.cleared).then(|| (OPEN, Box::from([]))));
    terms.extend(batch.key.as_ref().map(|(scope, _)| (KEY, term_of(scope))));
    let entry = Entry { list: chat_batch_list(environment), terms, sort: [None; 2] };
    CHAT_BATCHES.put(environment.number(), batch.id.as_u128(), batch, Some(entry))
}

/// A batch.
pub(crate) async fn batch(
    store: &dyn Store,
    environment: Environment,
    id: ChatBatchId,
) -> Result<Option<ChatBatch>, Error> {
    CHAT_BATCHES.get(store, environment.number(), id.as_u128()).await
}

/// Batches, the newest first, read on from one; with the number of all that follow it.
pub(crate) async fn batches(
    store: &dyn Store,
    environment: Environment,
    Keyset { after, ascending, limit }: Keyset,
) -> Result<Page<ChatBatch>, Error> {
    let filters = after.map(|after| behind(after, ascending)).into_iter().collect();
    let query = Query { descending: !ascending, limit, ..query(environment, filters) };
    found(store, environment, &query).await
}

/// The batches that are not cleared.
pub(crate) async fn open(
    store: &dyn Store,
    environment: Environment,
) -> Result<Vec<ChatBatch>, Error> {
    let filters = vec![Filter::AnyOf(OPEN, vec![Box::from([])])];
    Ok(found(store, environment, &query(environment, filters)).await?.items)
}

/// The batch that an idempotency key made.
pub(crate) async fn of_key(
    store: &dyn Store,
    environment: Environment,
    scope: &str,
) -> Result<Option<ChatBatch>, Error> {
    let filters = vec![Filter::AnyOf(KEY, vec![term_of(scope)])];
    let query = Query { limit: 1, ..query(environment, filters) };
    Ok(found(store, environment, &query).await?.items.pop())
}

fn query(environment: Environment, filters: Vec<Filter>) -> Query {
    let (list, order) = (chat_batch_list(environment), Order::Document);
    Query { list, filters, order, descending: false, offset: 0, limit: usize::MAX }
}

async fn found(
    store: &dyn Store,
    environment: Environment,
    query: &Query,
) -> Result<Page<ChatBatch>, Error> {
    let page = store.query(query).await?;
    let mut items = Vec::with_capacity(page.documents.len());
    for id in page.documents {
        items.extend(batch(store, environment, ChatBatchId::from_u128(id)).await?);
    }
    Ok(Page { items, total: page.total })
}

/// A line of a batch.
pub(crate) async fn line(
    store: &dyn Store,
    environment: Environment,
    (batch, line): (ChatBatchId, u32),
) -> Result<Option<ChatLine>, Error> {
    CHAT_LINES.get(store, environment.number(), &(batch.as_u128(), line)).await
}

/// The lines of a batch from a number on, at most `limit`.
pub(crate) async fn lines(
    store: &dyn Store,
    environment: Environment,
    (batch, from): (ChatBatchId, u32),
    limit: usize,
) -> Result<Vec<(u32, ChatLine)>, Error> {
    let id = batch.as_u128();
    // The key before the first line of a batch is that of no line.
    let after = from.checked_sub(1).map_or((id.saturating_sub(1), u32::MAX), |line| (id, line));
    let rows = CHAT_LINES.scan(store, environment.number(), Some(&after), limit).await?;
    let own = rows.into_iter().take_while(|((of, _), _)| *of == id);
    Ok(own.map(|((_, line), row)| (line, row)).collect())
}

/// Writes a line.
pub(crate) fn put_line(
    environment: Environment,
    (batch, line): (ChatBatchId, u32),
    row: &ChatLine,
) -> Op {
    CHAT_LINES.put(environment.number(), &(batch.as_u128(), line), row, None)
}

/// Tasks of a batch in these statuses, at most `limit`, and the number of all.
pub(crate) async fn tasks(
    store: &dyn Store,
    environment: Environment,
    batch: ChatBatchId,
    statuses: &[Status],
    limit: usize,
) -> Result<(Vec<TaskId>, u64), Error> {
    let (from, to) = chat_batch::tasks(batch);
    let filters = vec![
        Filter::Documents { from: Some(from), to: Some(to) },
        Filter::AnyOf(term::STATUS, status_terms(statuses)),
    ];
    let (list, order) = (task_list(environment), Order::Document);
    let query = Query { list, filters, order, descending: false, offset: 0, limit };
    let page = store.query(&query).await?;
    Ok((page.documents.into_iter().map(TaskId::from_u128).collect(), page.total))
}

/// The lines of a batch by their outcome so far.
pub(crate) async fn counts(
    store: &dyn Store,
    environment: Environment,
    batch: &ChatBatch,
) -> Result<Counts, Error> {
    if batch.status.is_over() {
        return Ok(batch.answers.counts);
    }
    let count = async |statuses: &[Status]| {
        let (_, count) = tasks(store, environment, batch.id, statuses, 0).await?;
        Ok::<_, Error>(u32::try_from(count).unwrap_or(u32::MAX))
    };
    let failed = count(&[Status::Failed, Status::Cancelled, Status::Rejected]).await?;
    let completed = count(&[Status::Completed]).await?;
    Ok(Counts { completed, failed: failed + batch.refused })
}
