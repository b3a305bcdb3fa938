//! The tasks of a batch.
//!
//! A batch has no row: its tasks name it, and their identifiers follow that of the batch, with few
//! others in between, because one loop makes them. Deliberately absent: removed tasks.

use callboard_domain::id::{BatchId, Environment, TaskId, partition_of};
use callboard_domain::task::Task;
use callboard_store::{Error, Filter, Order, Query, Store};

use super::{TOGETHER, together};
use crate::tables;

/// The identifiers that are read at a time.
const PAGE: usize = 1_000;
/// The identifiers of other tasks in a row after which no task of the batch follows: the submissions
/// of all other callers while one batch of 100 is given its identifiers.
const GAP: usize = 5_000;

/// The tasks of a batch, oldest first.
pub(crate) async fn tasks(
    store: &dyn Store,
    environment: Environment,
    batch: BatchId,
) -> Result<Vec<Task>, Error> {
    let (mut found, mut others) = (Vec::new(), 0);
    let mut from = batch.as_u128();
    loop {
        let query = Query {
            list: tables::task_list(environment),
            filters: vec![Filter::Documents { from: Some(from), to: None }],
            order: Order::Document,
            descending: false,
            offset: 0,
            limit: PAGE,
        };
        let page = store.query(&query).await?.documents;
        let read = async |id: u128| {
            let is_near = partition_of(id) == batch.partition();
            let id = is_near.then(|| TaskId::from_u128(id));
            let Some(id) = id else { return Ok(Some(None)) };
            tables::task(store, environment, id).await.map(Some)
        };
        for task in together(TOGETHER, page.iter().copied().map(read)).await? {
            others += 1;
            if let Some(task) = task.map(|found| found.task)
                && task.spec.origin.batch == Some(batch)
            {
                found.push(task);
                others = 0;
            }
        }
        match page.last() {
            Some(last) if page.len() == PAGE && others < GAP => from = last + 1,
            Some(_) | None => return Ok(found),
        }
    }
}
