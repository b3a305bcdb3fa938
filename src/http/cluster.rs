//! The nodes of a cluster: translate only.

use std::sync::Arc;

use axum::extract::State;
use callboard_domain::Error;
use callboard_domain::audit::{Action, Record};
use callboard_store::Ownership;
use callboard_store::ownership::View;
use tokio::sync::watch;

use super::extract::Asker;
use super::{Answer, App, Body, Id, Query, Reply};
use crate::wire::cluster::{ChangeNode, NodeBody, NodeName};
use crate::wire::common::Paging;

/// The cluster, as one of its nodes sees it.
#[derive(Clone)]
pub struct ClusterDoor {
    view: watch::Receiver<Option<Arc<View>>>,
    ownership: Arc<dyn Ownership>,
}

impl ClusterDoor {
    /// The cluster of this view.
    #[must_use]
    pub fn new(view: watch::Receiver<Option<Arc<View>>>, ownership: Arc<dyn Ownership>) -> Self {
        Self { view, ownership }
    }

    fn nodes(&self) -> Vec<NodeBody> {
        let view = self.view.borrow().clone();
        let view = view.as_deref();
        let nodes = view.into_iter().flat_map(|view| view.nodes.iter().map(move |it| (view, it)));
        nodes.map(|(view, node)| NodeBody::of(view, node)).collect()
    }
}

impl App {
    fn cluster(&self) -> Result<&ClusterDoor, Error> {
        let alone = "this server has a store of its own and is no node of a cluster";
        self.cluster.as_ref().ok_or_else(|| Error::InvalidState(alone.into()))
    }
}

/// The nodes of the cluster.
#[utoipa::path(
    get, path = "/api/cluster", tag = "system",
    responses(
        (status = 200, body = [NodeBody]),
        (status = 409, description = "the server is no node of a cluster"),
    ),
)]
pub(super) async fn nodes(State(app): State<Arc<App>>, Query(paging): Query<Paging>) -> Answer {
    let nodes = app.cluster()?.nodes();
    let (window, total) = (paging.window(), nodes.len() as u64);
    let page: Vec<_> = nodes.into_iter().skip(window.offset).take(window.limit).collect();
    Ok(Reply::page(&page, total, window))
}

/// Have a node hand its work to another one, or let it take work again.
#[utoipa::path(
    patch, path = "/api/cluster/nodes/{id}", tag = "system",
    responses(
        (status = 200, body = NodeBody),
        (status = 409, description = "the server is no node of a cluster"),
    ),
)]
pub(super) async fn change(
    State(app): State<Arc<App>>,
    Asker(by): Asker,
    Id(NodeName(node)): Id<NodeName>,
    Body(change): Body<ChangeNode>,
) -> Answer {
    let door = app.cluster()?;
    let id = node.to_string();
    let unknown = || Error::not_found("node", &id);
    let changed = door.ownership.drain(node, change.draining).await;
    let unreachable = |error: &callboard_store::Error| {
        tracing::error!(%error, "a node could not be drained");
        Error::Unavailable("the database cannot be reached")
    };
    if !changed.map_err(|error| unreachable(&error))? {
        return Err(unknown().into());
    }
    let record = Record::new(Action::NodeDrained, by).with("node", &id);
    app.record(record.with("draining", change.draining)).await;
    let found = door.nodes().into_iter().find(|found| found.id == id);
    let node = found.map(|node| NodeBody { draining: change.draining, ..node });
    Ok(Reply::ok(&node.ok_or_else(unknown)?))
}
