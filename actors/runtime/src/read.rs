//! Reads from the store, at the last commit, with no actor asked.

pub(crate) mod answers;
pub mod approvals;
pub(crate) mod audit;
pub(crate) mod batch;
pub mod batches;
pub(crate) mod deliveries;
pub mod items;
pub mod projects;
pub mod runs;
pub mod search;
pub mod usage;

use callboard_domain::id::{Environment, TaskId, first_at};
use callboard_domain::machine::Machine;
use callboard_domain::query::{Page, TaskOrder, Tasks, named};
use callboard_domain::task::{Inputs, Task};
use callboard_store::{Error, Filter, Order, Query, Store};

use self::approvals::Correction;
use crate::tables::{self, sort, term};

pub(crate) use crate::kernel::together::{TOGETHER, together};

/// The refusal of a search with too short a word.
const VAGUE: &str = "has a word that more than 10,000 different words begin with: write more of it";

/// The error of a read for its caller.
pub(crate) fn unreadable(error: &Error) -> callboard_domain::Error {
    if matches!(error, Error::Vague) {
        return callboard_domain::Error::invalid("search", callboard_domain::Rule::Length, VAGUE);
    }
    tracing::error!(%error, "a read failed");
    callboard_domain::Error::Unavailable("the store cannot be read")
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
    /// The second decision on the output.
    pub correction: Option<Box<Correction>>,
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
        let correction = match found.task.spec.gate {
            Some(_) => approvals::correction(store, environment, id).await?,
            None => None,
        };
        Ok((inputs, output, found.thinking(store, environment).await?, correction.map(Box::new)))
    };
    let read = read.await;
    // The task's texts may have gone while they were read.
    if found.task.is_finished() && tables::is_removed(store, environment, id).await? {
        return Ok(None);
    }
    let (inputs, output, thinking, correction) = read?;
    Ok(Some(TaskDetail { task: found.task, inputs, output, thinking, correction }))
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
    filters.extend(tasks.queue.as_ref().map(|any| {
        let terms = named(any).map(tables::term_of).collect();
        Filter::AnyOf(term::QUEUE, terms)
    }));
    if !tasks.tags.is_empty() {
        filters.push(Filter::AllOf(term::TAG, tasks.tags.iter().map(text).collect()));
    }
    filters.extend(tables::batch_filter(term::BATCH, tasks.batch));
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
