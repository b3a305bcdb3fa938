//! The front of a node: it answers a request, or forwards it to the node that does.
//!
//! ```text
//! request ─▶ active here? ─ yes ─▶ the service
//!               │ no: another node is ─▶ forwarded, its answer returned as it is, sockets included
//!               └ no node is, as during a takeover ─▶ held for up to 10 s, then 503; health is told at once
//! ```
//!
//! The active node of a cell answers for the cell's projects, and passes on what is another cell's (`cells`).
//!
//! A request that was not sent, or that a node was not active to answer, may be sent again; one whose answer was lost
//! is a 503, and its caller knows whether to repeat it.

mod forward;

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{ConnectInfo, Request};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use callboard_domain::{Error, Timestamp};
use callboard_runtime::PermissionWatch;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::Instant;
use url::Url;

use self::forward::{LOST, Next, PAUSE};
use super::cells::{Cells, Way};
use super::forwarded::{ClusterKey, FORWARDED, Forwarded};
use super::peers::Peers;
use super::store::FailedReads;
use crate::http::serve::Answers;
use crate::http::{Middleware, Refusal, without_active};
use crate::tls::Certificate;

/// The longest wait for a node that answers.
const PATIENCE: Duration = Duration::from_secs(10);
/// The nodes that may forward one request: a standby and the active node of its cell, of home, and of the project's
/// cell; and the map of the first may be old.
const MAX_HOPS: u8 = 6;

/// The header of a forwarded request's refusal by a node that is not active and has not handled it.
const NOT_HANDLED: HeaderName = HeaderName::from_static("callboard-not-handled");
/// The bytes of all kept bodies. A request beyond them is forwarded without a copy.
const KEPT_IN_ALL: usize = 16 << 20;

/// The role of this node.
#[derive(Clone)]
pub(crate) enum Role {
    /// This node answers, as long as `is_current` returns true.
    Active {
        service: Middleware,
        /// True as long as this node may answer.
        is_current: Arc<dyn Fn() -> bool + Send + Sync>,
        /// The reads of the store that failed.
        failed: FailedReads,
        /// The other cells, if there may be any.
        cells: Option<Arc<Cells>>,
        /// Each request under way holds a clone of the sender.
        _handling: mpsc::Sender<()>,
    },
    /// The node at this address answers, if there is one.
    Standby(Option<Url>),
}

impl Role {
    /// True while this node neither answers nor knows which node does.
    fn is_waiting(&self) -> bool {
        match self {
            Self::Active { is_current, .. } => !is_current(),
            Self::Standby(active) => active.is_none(),
        }
    }

    fn asks(&self, node: &Url) -> bool {
        matches!(self, Self::Standby(Some(active)) if active == node)
    }
}

/// A reason, if there is one now.
pub(super) type Fault = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// A node's door.
#[derive(Clone)]
pub(crate) struct Front(Arc<Inner>);

struct Inner {
    key: ClusterKey,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    /// The reason why the database does not take the node's calls.
    fault: Fault,
    started: Instant,
    peers: Arc<Peers>,
    role: watch::Sender<Role>,
    /// True once the node stops: sockets and streams through it end.
    is_stopping: watch::Sender<bool>,
    connections: Mutex<Option<(Arc<Semaphore>, usize)>>,
    body_timeout: Duration,
    room: Arc<Semaphore>,
    /// The addresses from which nodes have forwarded requests.
    nodes: Mutex<HashSet<IpAddr>>,
}

impl Front {
    /// A node that waits for an active one. A body that is kept arrives within `body_timeout`; health names the
    /// `fault` of the database.
    pub(crate) fn new(
        key: ClusterKey,
        body_timeout: Duration,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
        fault: Fault,
    ) -> Self {
        let (peers, role) = (Arc::default(), watch::Sender::new(Role::Standby(None)));
        let (clock, connections) = (Box::new(clock), Mutex::default());
        let room = Arc::new(Semaphore::new(KEPT_IN_ALL));
        let (nodes, started) = (Mutex::default(), Instant::now());
        let is_stopping = watch::Sender::new(false);
        Self(Arc::new(Inner {
            key,
            clock,
            fault,
            started,
            peers,
            role,
            is_stopping,
            connections,
            body_timeout,
            room,
            nodes,
        }))
    }

    /// Sets the node's role.
    pub(crate) fn set_role(&self, role: Role) {
        if let (Role::Active { service, .. }, Some((slots, all))) = (&role, &*self.connections()) {
            service.connects_by(slots, *all);
        }
        self.0.role.send_replace(role);
    }

    /// Ends every socket and stream of events that passes through this node.
    pub(crate) fn stop(&self) {
        self.0.is_stopping.send_replace(true);
    }

    /// Ready once `node` is not the one to ask any more, or is not heard any more.
    fn gone(&self, node: &Url, is_cell: bool) -> impl Future<Output = ()> + Send + use<> {
        let (mut role, silent) = (self.0.role.subscribe(), self.0.peers.silence(node));
        let node = node.clone();
        async move {
            tokio::select! {
                _ = role.wait_for(|role| !role.asks(&node)), if !is_cell => {}
                () = silent => {}
            }
        }
    }

    /// Ready once a stream through `node` ends: the node is gone, or the caller's right is, or this node stops.
    fn over(
        &self,
        node: &Url,
        is_cell: bool,
        right: Option<PermissionWatch>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (gone, mut stopping) = (self.gone(node, is_cell), self.0.is_stopping.subscribe());
        let lost = async move {
            match right {
                Some(mut right) => drop(right.lost().await),
                None => std::future::pending().await,
            }
        };
        async move {
            tokio::select! {
                () = gone => {}
                _ = stopping.wait_for(|stops| *stops) => {}
                () = lost => {}
            }
        }
    }

    fn connections(&self) -> std::sync::MutexGuard<'_, Option<(Arc<Semaphore>, usize)>> {
        self.0.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn nodes(&self) -> std::sync::MutexGuard<'_, HashSet<IpAddr>> {
        self.0.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the header of another node from a request; the caller's address and certificate become those of the
    /// header.
    fn take_forwarded(&self, request: &mut Request) -> Forwarded {
        let text = request.headers_mut().remove(FORWARDED);
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
        let certificate = request.extensions().get::<Certificate>().copied();
        let of = (request.method(), request.uri());
        let forwarded = text.and_then(|text| self.0.key.read(&text, of, (self.0.clock)()));
        if let Some(forwarded) = forwarded {
            self.nodes().extend(peer.map(|peer| peer.ip().to_canonical()));
            request.extensions_mut().insert(ConnectInfo(forwarded.client));
            request.extensions_mut().insert(forwarded.certificate);
            if let Some(person) = forwarded.person {
                request.extensions_mut().insert(person);
            }
            return forwarded;
        }
        let client = peer.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)));
        Forwarded {
            hops: 0,
            client,
            certificate: certificate.unwrap_or(Certificate::NotAsked),
            person: None,
        }
    }

    async fn route(self, mut request: Request) -> Response {
        let forwarded = self.take_forwarded(&mut request);
        if request.uri().path() == "/health/live" {
            // The answer is about this process, active or not.
            return alive();
        }
        let (mut role, until) = (self.0.role.subscribe(), Instant::now() + PATIENCE);
        loop {
            let current = role.borrow_and_update().clone();
            if current.is_waiting() {
                let path = request.uri().path();
                let health = without_active(path, (self.0.fault)(), self.0.started.elapsed());
                if let Some(health) = health {
                    return Refusal::of(&request).dress(health);
                }
            }
            match current {
                Role::Active { service, is_current, failed, cells, _handling } if is_current() => {
                    if let Some(cells) = cells {
                        match cells.way(&mut request, forwarded) {
                            Way::Here => cells.introduce(&self, &mut request),
                            Way::Answered(answer) => return answer.await,
                            Way::Refused(error) => return Refusal::of(&request).answer(error),
                            Way::There(place) => {
                                return self.to_cell(place, forwarded, request).await;
                            }
                        }
                    }
                    let (refusal, before) = (Refusal::of(&request), failed.count());
                    let response = service.answer(request).await;
                    // An actor that ended with its active period, or with the connection to the database, leaves
                    // its caller without an answer.
                    let is_broken = response.status() == StatusCode::INTERNAL_SERVER_ERROR;
                    let is_cut_off = || !is_current() || failed.count() != before;
                    if is_broken && is_cut_off() {
                        return between_nodes(refusal, LOST);
                    }
                    return response;
                }
                Role::Standby(Some(active)) if forwarded.hops < MAX_HOPS => {
                    let next = Next { node: active, right: None, is_cell: false };
                    match self.forward(next, forwarded, request).await {
                        Ok(response) => return response,
                        Err(unsent) => request = *unsent,
                    }
                    if Instant::now() < until {
                        let _ = tokio::time::timeout(PAUSE, role.changed()).await;
                        continue;
                    }
                }
                // A node further back has waited, and asks the right one next time.
                Role::Standby(_) | Role::Active { .. } if forwarded.hops > 0 => {}
                Role::Standby(_) | Role::Active { .. } => {
                    let changed = tokio::time::timeout_at(until, role.changed()).await;
                    if matches!(changed, Ok(Ok(()))) {
                        continue;
                    }
                }
            }
            let reason = match &*self.0.role.borrow() {
                Role::Standby(Some(_)) => "the active node cannot be reached from this one",
                Role::Standby(None) | Role::Active { .. } => "no node of the cluster is active",
            };
            let mut refused = between_nodes(Refusal::of(&request), reason);
            if forwarded.hops > 0 {
                refused.headers_mut().insert(NOT_HANDLED, HeaderValue::from_static("1"));
            }
            return refused;
        }
    }
}

impl Answers for Front {
    fn answer(self, request: Request) -> impl Future<Output = Response> + Send {
        self.route(request)
    }

    fn connects_by(&self, slots: &Arc<Semaphore>, all: usize) {
        *self.connections() = Some((Arc::clone(slots), all));
    }

    fn is_node(&self, address: IpAddr) -> bool {
        self.nodes().contains(&address)
    }
}

/// The refusal of a request while the nodes change places. It may be repeated soon, because the next one is held until a
/// node answers it.
fn between_nodes(refusal: Refusal, reason: &'static str) -> Response {
    let mut refused = refusal.answer(Error::Unavailable(reason));
    refused.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    refused
}

fn alive() -> Response {
    let json = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    (json, r#"{"status":"ok"}"#).into_response()
}

#[cfg(test)]
mod tests;
