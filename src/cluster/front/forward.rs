//! The way of a request to another node: sent on with its signed header, and given back if that node has not handled it.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_TYPE, COOKIE, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
    TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Version};
use axum::response::Response;
use bytes::Bytes;
use callboard_domain::Error;
use callboard_runtime::PermissionWatch;
use futures_util::StreamExt;
use hyper::body::Body as _;
use hyper::upgrade;
use hyper_util::rt::TokioIo;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use url::Url;

use super::super::cells::{Person, Place};
use super::super::forwarded::{FORWARDED, Forwarded};
use super::super::peers::Unanswered;
use super::super::socket;
use super::{Front, MAX_HOPS, NOT_HANDLED, PATIENCE, between_nodes};
use crate::http::Refusal;

/// The largest body of a request that is kept until another node has answered.
pub(super) const KEPT: u32 = 64 << 10;
/// Headers of one connection, which are not forwarded.
const OF_CONNECTION: [HeaderName; 6] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
];
/// The refusal of a request that reached a node, which then ended.
pub(super) const LOST: &str =
    "the node that was to answer is gone; the request may have been handled";
/// The wait before a node that was not reached is tried again.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

impl Front {
    /// Sends a request to another cell, trying its nodes for a while.
    pub(super) async fn to_cell(
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
    pub(in crate::cluster) async fn ask(
        &self,
        method: Method,
        nodes: &[Url],
        path: &str,
    ) -> Option<Response> {
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
    pub(super) async fn forward(
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
            Err(Unanswered::Lost) => Ok(between_nodes(refusal, LOST)),
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

/// The node that is asked next.
pub(super) struct Next {
    pub(super) node: Url,
    /// The right with which streams end.
    pub(super) right: Option<PermissionWatch>,
    /// True if it is a node of another cell, else it is the active one of this.
    pub(super) is_cell: bool,
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

fn without_connection(headers: &mut HeaderMap) {
    for name in OF_CONNECTION {
        headers.remove(name);
    }
}
