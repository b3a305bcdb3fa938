//! The figures of a project: counts and costs, and no text.

use callboard_domain::Error;
use callboard_domain::execution;
use callboard_domain::id::Environment;
use callboard_domain::task::Status;
use callboard_store::{Filter, Order, Query, Store};

use super::usage::{self, Asked, Sum};
use super::{approvals, unreadable};
use crate::tables::{self, execution_term, term};

/// The figures of a project's production.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Figures {
    /// The stored tasks by status.
    pub tasks: Vec<(&'static str, u64)>,
    /// The stored executions by status.
    pub executions: Vec<(&'static str, u64)>,
    /// The outputs that wait for a reviewer.
    pub reviews: u64,
    /// The usage of the period; `None` for more tasks than one request looks at.
    pub usage: Option<Sum>,
}

/// The figures of an environment.
pub(crate) async fn figures(
    store: &dyn Store,
    environment: Environment,
    asked: &Asked,
) -> Result<Figures, Error> {
    let usage = match usage::of(store, environment, asked).await {
        Ok(usages) => Some(usages.total),
        Err(Error::Invalid(_)) => None,
        Err(error) => return Err(error),
    };
    let counts = async {
        let (tasks, executions) =
            (tables::task_list(environment), tables::execution_list(environment));
        Ok(Figures {
            tasks: by_status(store, tasks, term::STATUS, &Status::ALL.map(Status::as_str)).await?,
            executions: by_status(
                store,
                executions,
                execution_term::STATUS,
                &execution::Status::ALL.map(execution::Status::as_str),
            )
            .await?,
            reviews: approvals::count_undecided(store, &[environment]).await?,
            usage,
        })
    };
    counts.await.map_err(|error| unreadable(&error))
}

/// The number of items in a list with each of these statuses.
async fn by_status(
    store: &dyn Store,
    list: [u8; 2],
    field: u8,
    statuses: &[&'static str],
) -> Result<Vec<(&'static str, u64)>, callboard_store::Error> {
    let mut counts = Vec::with_capacity(statuses.len());
    for status in statuses {
        let query = Query {
            list,
            filters: vec![Filter::AnyOf(field, vec![status.as_bytes().into()])],
            order: Order::Document,
            descending: false,
            offset: 0,
            limit: 0,
        };
        counts.push((*status, store.query(&query).await?.total));
    }
    Ok(counts)
}
