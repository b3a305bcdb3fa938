//! The nodes of a cluster: translate only.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use callboard_domain::Error;
use callboard_domain::audit::{Action, Record};
use callboard_runtime::membership::{Membership, Term};
use callboard_store::Ownership;
use callboard_store::ownership::{NodeId, NodeRow, View};
use callboard_wire::cluster::{ChangeNode, NodeBody, NodeName};
use callboard_wire::common::Paging;
use callboard_wire::metrics::ClusterFigures;
use tokio::sync::watch;

use super::extract::Asker;
use super::{Answer, App, Body, Id, Query, Reply};

/// The longest wait for a view with a node that has joined: a view comes once a second at least.
const NEXT_VIEW: Duration = Duration::from_secs(2);

/// The cluster, as one of its nodes sees it.
#[derive(Clone)]
pub struct ClusterDoor {
    view: watch::Receiver<Option<Arc<View>>>,
    term: Term,
    ownership: Arc<dyn Ownership>,
}

impl ClusterDoor {
    /// The cluster of this member.
    #[must_use]
    pub fn new(membership: &Membership, ownership: Arc<dyn Ownership>) -> Self {
        Self { view: membership.view(), term: membership.term(), ownership }
    }

    /// The reason why the database does not take this node's calls.
    pub(super) fn fault(&self) -> Option<String> {
        self.ownership.fault()
    }

    /// The figures of the view; `None` before the first.
    pub(super) fn figures(&self) -> Option<ClusterFigures> {
        let view = self.view.borrow().clone()?;
        let mut nodes = [0; 3];
        for node in &view.nodes {
            let status = NodeBody::of(&view, node).status;
            let at = ["active", "standby", "lost"].iter().position(|it| *it == status)?;
            nodes[at] += 1;
        }
        let owned = |node: &NodeRow| view.owned_by(node.id).len() as u64;
        let partitions_owned = view.nodes.iter().filter(|node| node.is_alive()).map(owned).sum();
        Some(ClusterFigures { nodes, partitions_owned, term_left: self.term.left() })
    }

    fn nodes(&self) -> Vec<NodeBody> {
        let view = self.view.borrow().clone();
        let view = view.as_deref();
        let nodes = view.into_iter().flat_map(|view| view.nodes.iter().map(move |it| (view, it)));
        nodes.map(|(view, node)| NodeBody::of(view, node)).collect()
    }

    /// The node with this identifier. One that has just joined comes with the next view.
    async fn node(&self, id: NodeId) -> Option<NodeBody> {
        let mut view = self.view.clone();
        let joined =
            |view: &Option<Arc<View>>| view.as_ref().is_some_and(|it| it.node(id).is_some());
        let joined = tokio::time::timeout(NEXT_VIEW, view.wait_for(joined)).await;
        let view = joined.ok()?.ok()?.clone()?;
        view.node(id).map(|node| NodeBody::of(&view, node))
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
    let node = door.node(node).await.map(|node| NodeBody { draining: change.draining, ..node });
    Ok(Reply::ok(&node.ok_or_else(unknown)?))
}
