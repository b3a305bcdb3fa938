//! The door of a node: it answers a request, or forwards it to the node that does.
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

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, COOKIE, HOST, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use callboard_domain::{Error, Timestamp};
use callboard_runtime::PermissionWatch;
use futures_util::StreamExt;
use hyper::body::Body as _;
use hyper::upgrade;
use hyper_util::rt::TokioIo;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::Instant;
use url::Url;

use super::cells::{Cells, Person, Place, Way};
use super::forwarded::{ClusterKey, FORWARDED, Forwarded};
use super::peers::{Peers, Unanswered};
use super::socket;
use super::store::FailedReads;
use crate::http::serve::Answers;
use crate::http::{Middleware, Refusal, without_active};
use crate::tls::Certificate;

/// The longest wait for a node that answers.
const PATIENCE: Duration = Duration::from_secs(10);
/// The wait before a node that was not reached is tried again.
const PAUSE: Duration = Duration::from_millis(100);
/// The nodes that may forward one request: a standby and the active node of its cell, of home, and of the project's
/// cell; and the map of the first may be old.
const MAX_HOPS: u8 = 6;
/// The refusal of a request that reached a node, which then ended.
const LOST: &str = "the node that was to answer is gone; the request may have been handled";

/// The header of a forwarded request's refusal by a node that is not active and has not handled it.
const NOT_HANDLED: HeaderName = HeaderName::from_static("callboard-not-handled");
/// The largest body of a request that is kept until another node has answered.
const KEPT: u32 = 64 << 10;
/// The bytes of all kept bodies. A request beyond them is forwarded without a copy.
const KEPT_IN_ALL: usize = 16 << 20;

/// Headers of one connection, which are not forwarded.
const OF_CONNECTION: [HeaderName; 6] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
];

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
                        return refusal.answer(Error::Unavailable(LOST));
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
            let mut refused = Refusal::of(&request).answer(Error::Unavailable(reason));
            if forwarded.hops > 0 {
                refused.headers_mut().insert(NOT_HANDLED, HeaderValue::from_static("1"));
            }
            return refused;
        }
    }

    /// Sends a request to another cell, trying its nodes for a while.
    async fn to_cell(
        &self,
        Place { name, nodes, person }: Place,
        forwarded: Forwarded,
        mut request: Request,
    ) -> Response {
        let refusal = Refusal::of(&request);
        let forwarded = Forwarded { person: person.as_ref().map(Person::vouched), ..forwarded };
        let until = Instant::now() + PATIENCE;
        // It would go in a circle beyond them.
        let nodes = if forwarded.hops < MAX_HOPS { nodes } else { Vec::new() };
        loop {
            for node in &nodes {
                let right = person.as_ref().map(Person::right);
                let next = Next { node: node.clone(), right, is_cell: true };
                match self.forward(next, forwarded, request).await {
                    Ok(response) => return response,
                    Err(unsent) => request = *unsent,
                }
            }
            if nodes.is_empty() || Instant::now() >= until {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        tracing::warn!(cell = name, "no node of a cell can be reached");
        refusal.answer(Error::Unavailable("the project's cell cannot be reached"))
    }

    /// Asks another cell; `None` if none of the nodes answers.
    pub(super) async fn ask(&self, method: Method, nodes: &[Url], path: &str) -> Option<Response> {
        let forwarded = Forwarded::of_cell();
        for node in nodes {
            let request = Request::builder().method(method.clone()).uri(path);
            let request = request.header(HOST, node.authority()).body(Body::empty());
            let (_, request) = self.outgoing(forwarded, request.ok()?);
            let silent = self.0.peers.silence(node);
            if let Ok(response) = self.0.peers.send(node, request, silent).await {
                return Some(response.map(Body::new));
            }
        }
        None
    }

    /// Sends a request on; gives it back if it was not sent or not handled.
    async fn forward(
        &self,
        next: Next,
        forwarded: Forwarded,
        request: Request,
    ) -> Result<Response, Box<Request>> {
        let refusal = Refusal::of(&request);
        let is_read = request.method() == Method::GET;
        let is_websocket = asks_for_websocket(request.headers());
        let room = if forwarded.hops == 0 { self.room_for(&request) } else { None };
        let (request, kept) = if let Some(room) = room {
            let mut request = request;
            request.extensions_mut().insert(room);
            let kept = tokio::time::timeout(self.0.body_timeout, keep(request)).await;
            let Ok(kept) = kept else {
                let seconds = self.0.body_timeout.as_secs();
                return Ok(refusal.answer(Error::BodyTooSlow { seconds }));
            };
            kept
        } else {
            (request, None)
        };
        let (caller, request) = self.outgoing(forwarded, request);
        let Next { node, right, is_cell } = next;
        let (gone, over) = (self.gone(&node, is_cell), self.over(&node, is_cell, right));
        match self.0.peers.send(&node, request, gone).await {
            Ok(mut response) => {
                if forwarded.hops == 0
                    && response.headers_mut().remove(NOT_HANDLED).is_some()
                    && let Some(kept) = kept
                {
                    return Err(Box::new(kept));
                }
                if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                    if let Some(caller) = caller {
                        let ends = (caller, upgrade::on(&mut response));
                        tokio::spawn(join(ends, is_websocket, over));
                    }
                    return Ok(response.map(Body::new));
                }
                response.headers_mut().remove(TRANSFER_ENCODING);
                without_connection(response.headers_mut());
                if is_read && is_events(response.headers()) {
                    // It never ends by itself; its reader resumes it at another node.
                    let over = Box::pin(over);
                    let events = |body| Body::new(body).into_data_stream().take_until(over);
                    return Ok(response.map(|body| Body::from_stream(events(body))));
                }
                Ok(response.map(Body::new))
            }
            Err(Unanswered::NotSent(unsent)) => {
                let mut unsent = unsent;
                if let Some(caller) = caller {
                    unsent.extensions_mut().insert(caller);
                }
                Err(unsent)
            }
            Err(Unanswered::Lost) => Ok(refusal.answer(Error::Unavailable(LOST))),
        }
    }

    /// The room for a request's body, if that is small and there is some; a request that was kept before
    /// has its room.
    fn room_for(&self, request: &Request) -> Option<Room> {
        if let Some(room) = request.extensions().get::<Room>() {
            return Some(room.clone());
        }
        let size = u32::try_from(request.body().size_hint().exact()?).ok()?;
        if size > KEPT || request.headers().contains_key(UPGRADE) {
            return None;
        }
        let room = Arc::clone(&self.0.room).try_acquire_many_owned(size).ok()?;
        Some(Room { _permit: Arc::new(room) })
    }

    /// The request as it goes to another node, and the caller's side of the socket that it asks for.
    fn outgoing(
        &self,
        forwarded: Forwarded,
        mut request: Request,
    ) -> (Option<upgrade::OnUpgrade>, Request) {
        let is_socket = request.headers().contains_key(UPGRADE);
        let caller = is_socket.then(|| upgrade::on(&mut request));
        if !is_socket {
            without_connection(request.headers_mut());
        }
        if forwarded.person.is_some() {
            for credential in [AUTHORIZATION, COOKIE] {
                request.headers_mut().remove(credential);
            }
        }
        let next = Forwarded { hops: forwarded.hops + 1, ..forwarded };
        let text = self.0.key.sign(next, (request.method(), request.uri()), (self.0.clock)());
        request.headers_mut().insert(FORWARDED, text);
        request.headers_mut().remove(TRANSFER_ENCODING);
        *request.version_mut() = Version::HTTP_11;
        (caller, request)
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

/// The node that is asked next.
struct Next {
    node: Url,
    /// The right with which streams end.
    right: Option<PermissionWatch>,
    /// True if it is a node of another cell, else it is the active one of this.
    is_cell: bool,
}

/// The room of a body that is kept, as long as the request or its copy is there.
#[derive(Clone)]
struct Room {
    _permit: Arc<OwnedSemaphorePermit>,
}

/// A request and its copy; none if its caller broke off.
async fn keep(request: Request) -> (Request, Option<Request>) {
    let (parts, body) = request.into_parts();
    match axum::body::to_bytes(body, KEPT as usize).await {
        Ok(bytes) => {
            let kept = Request::from_parts(parts.clone(), Body::from(bytes.clone()));
            (Request::from_parts(parts, Body::from(bytes)), Some(kept))
        }
        // The caller broke off: so does the request to the other node.
        Err(error) => {
            let broken = futures_util::stream::iter([Err::<Bytes, _>(error)]);
            (Request::from_parts(parts, Body::from_stream(broken)), None)
        }
    }
}

/// Passes bytes between the sockets of a caller and of the node that answers, until one closes or it is over.
async fn join(
    (caller, active): (upgrade::OnUpgrade, upgrade::OnUpgrade),
    is_websocket: bool,
    over: impl Future<Output = ()>,
) {
    let (Ok(caller), Ok(active)) = tokio::join!(caller, active) else { return };
    socket::pass(TokioIo::new(caller), TokioIo::new(active), is_websocket, over).await;
}

fn asks_for_websocket(headers: &HeaderMap) -> bool {
    headers.get(UPGRADE).is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

fn is_events(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|it| it.as_bytes().starts_with(b"text/event-stream"))
}

fn alive() -> Response {
    let json = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    (json, r#"{"status":"ok"}"#).into_response()
}

fn without_connection(headers: &mut HeaderMap) {
    for name in OF_CONNECTION {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests;
