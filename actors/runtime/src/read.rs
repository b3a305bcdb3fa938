//! Reads from the store, at the last commit, with no actor asked.

pub(crate) mod answers;
pub mod approvals;
pub(crate) mod audit;
pub(crate) mod batch;
pub mod batches;
pub(crate) mod deliveries;
pub mod items;
pub mod runs;
pub mod usage;

use callboard_domain::id::{Environment, TaskId, first_at};
use callboard_domain::machine::Machine;
use callboard_domain::query::{Page, TaskOrder, Tasks};
use callboard_domain::task::{Inputs, Task};
use callboard_store::{Error, Filter, Order, Query, Store};
use futures_util::{StreamExt, stream};

use crate::tables::{self, sort, term};

/// The reads of one page that run side by side. A store behind a network answers those together.
pub(crate) const TOGETHER: usize = 128;

/// The items that were found by reads that run side by side, in the order of the reads.
pub(crate) async fn together<T, F>(
    most: usize,
    reads: impl IntoIterator<Item = F>,
) -> Result<Vec<T>, Error>
where
    F: Future<Output = Result<Option<T>, Error>>,
{
    // Collected first: a closure that lives across the waits would have to be valid for every lifetime.
    let reads: Vec<_> = reads.into_iter().collect();
    let mut reads = stream::iter(reads).buffered(most);
    let mut items = Vec::new();
    while let Some(found) = reads.next().await {
        match found {
            Ok(found) => items.extend(found),
            // One item never keeps a list from its others.
            Err(Error::Corrupt { path, reason }) => {
                tracing::error!(path, reason, "an item cannot be read, and is left out of a list");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(items)
}

/// A task with its texts.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskDetail {
    /// The task.
    pub task: Task,
    /// The query.
    pub inputs: Inputs,
    /// The results.
    pub output: Option<String>,
    /// The model's thinking before the output.
    pub thinking: Option<String>,
}

pub(crate) async fn task(
    store: &dyn Store,
    environment: Environment,
    id: TaskId,
) -> Result<Option<TaskDetail>, Error> {
    let Some(mut found) = tables::task(store, environment, id).await? else {
        return Ok(None);
    };
    let read = async {
        let inputs = found.inputs(store, environment).await?;
        let output = found.output(store, environment).await?;
        Ok((inputs, output, found.thinking(store, environment).await?))
    };
    let read = read.await;
    // The task's texts may have gone while they were read.
    if found.task.is_finished() && tables::is_removed(store, environment, id).await? {
        return Ok(None);
    }
    let (inputs, output, thinking) = read?;
    Ok(Some(TaskDetail { task: found.task, inputs, output, thinking }))
}

pub(crate) async fn tasks(
    store: &dyn Store,
    environment: Environment,
    tasks: &Tasks,
) -> Result<Page<Task>, Error> {
    let query = query(environment, tasks);
    let page = store.query(&query).await?;
    let read = async |document| {
        let found = tables::task(store, environment, TaskId::from_u128(document)).await?;
        Ok(found.map(|found| found.task))
    };
    let items = together(TOGETHER, page.documents.into_iter().map(read)).await?;
    Ok(Page { items, total: page.total })
}

/// The identifiers of all tasks that a filter matches, oldest first.
pub(crate) async fn matching(
    store: &dyn Store,
    environment: Environment,
    tasks: &Tasks,
) -> Result<Vec<TaskId>, Error> {
    let query = Query { limit: usize::MAX, offset: 0, ..query(environment, tasks) };
    let query = Query { order: Order::Document, descending: false, ..query };
    let found = store.query(&query).await?.documents;
    Ok(found.into_iter().map(TaskId::from_u128).collect())
}

pub(crate) fn query(environment: Environment, tasks: &Tasks) -> Query {
    let text = |text: &String| tables::term_of(text);
    let mut filters = Vec::new();
    if !tasks.statuses.is_empty() {
        filters.push(Filter::AnyOf(term::STATUS, tables::status_terms(&tasks.statuses)));
    }
    filters.extend(tasks.model.as_ref().map(|model| Filter::AnyOf(term::MODEL, vec![text(model)])));
    filters.extend(tasks.queue.as_ref().map(|queue| Filter::AnyOf(term::QUEUE, vec![text(queue)])));
    if !tasks.tags.is_empty() {
        filters.push(Filter::AllOf(term::TAG, tasks.tags.iter().map(text).collect()));
    }
    let batch = tasks.batch.map(|id| tables::number_term(id.as_u128()));
    filters.extend(batch.map(|batch| Filter::AnyOf(term::BATCH, vec![batch])));
    if tasks.created_after.is_some() || tasks.created_before.is_some() {
        let (from, to) = (tasks.created_after.map(first_at), tasks.created_before.map(first_at));
        filters.push(Filter::Documents { from, to });
    }
    let id = tasks.search.as_ref().and_then(|text| text.parse().ok()).map(TaskId::as_u128);
    filters.extend(tables::search_filters(tasks.search.as_deref(), id));
    filters.extend(tables::instants_filter(sort::COMPLETED_AT, tasks.ended));
    Query {
        list: tables::task_list(environment),
        filters,
        order: match tasks.order {
            TaskOrder::CreatedAt => Order::Document,
            TaskOrder::CompletedAt => Order::Sort(sort::COMPLETED_AT),
            TaskOrder::Priority => Order::Sort(sort::PRIORITY),
        },
        descending: !tasks.ascending,
        offset: tasks.window.offset,
        limit: tasks.window.limit,
    }
}
