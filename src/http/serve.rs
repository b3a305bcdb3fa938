//! Connections: accepting, limits of time and number, and the end of them all.
//!
//! ```text
//! listener ─▶ slot free? ─▶ share left? ─▶ connection ─▶ request ─▶ … keep-alive … ─▶ closed, slot free
//!               │ no: wait,      │ no: 429, closed           │ upgrade: the socket keeps the slot
//!               │ callers queue in the kernel
//! ```
//!
//! An address has a share of the slots, so that its idle connections keep nobody else out. An answer 429
//! closes its connection: one who asks too much holds no slot meanwhile.
//!
//! When no slot is left, connections that have sent no whole head within a second make room (`silent`), so that
//! half-sent requests keep nobody out.
//!
//! Deliberately absent: HTTP/2, which a proxy in front speaks to its callers. A request's own limits (its
//! body, its headers) are in [`super::middleware`].

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::header::{CONNECTION, EXPECT};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use callboard_domain::Error;
use futures_util::FutureExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use ipnet::IpNet;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Sleep;

use callboard_wire::system::Component;

use super::limit::{Counted, OpenLimit, OpenPermit};
use super::{Refusal, Reply};
use crate::tls::{Certificate, Tls};

mod rest;
mod silent;

use rest::Dropped;
use silent::{Silent, SilentPermit};

/// The pause between two looks for a slot when none is left.
const LOOK: Duration = Duration::from_millis(100);

/// The size of headers from which the parser refuses them, with a bare 431. Headers between
/// [`super::Edge::max_header_bytes`] and this size are refused in the envelope.
const HARD_HEADER_LIMIT: usize = 64 * 1024;

/// The pause when the system is out of file descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// The longest time for which a client may take nothing of the bytes written to it.
const STALLED: Duration = Duration::from_mins(1);

/// The most connections beyond the shares of their addresses that are told so at once; further ones are
/// closed without an answer.
const REFUSED_AT_ONCE: usize = 64;

/// The time for the request of a connection that is refused.
const REFUSED_WITHIN: Duration = Duration::from_secs(2);

/// The limits of connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The time for a request's headers, counted from the end of the request before: so also the
    /// longest idle time of a connection.
    pub header_timeout: Duration,
    /// The most open connections, sockets included. Further ones wait in the kernel's queue until
    /// one closes.
    pub max_connections: u32,
    /// The most open connections from one address, or from the /64 of one of IPv6.
    pub per_address: u32,
    /// The networks of proxies, whose connections are many callers'.
    pub proxies: Arc<[IpNet]>,
    /// The time in which open requests and sockets may finish once the service stops.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_timeout: Duration::from_secs(10),
            max_connections: 20_000,
            per_address: 5_000,
            proxies: Arc::default(),
            grace: Duration::from_secs(25),
        }
    }
}

/// The service that answers the requests of all connections.
pub(crate) trait Answers: Clone + Send + Sync + 'static {
    /// Answers a request.
    fn answer(self, request: Request) -> impl Future<Output = Response> + Send;

    /// Takes the slots of connections, and their number in all.
    fn connects_by(&self, slots: &Arc<Semaphore>, all: usize);

    /// True for the address of a node that forwards requests of many callers.
    fn is_node(&self, _: IpAddr) -> bool {
        false
    }
}

/// The answer to the first request of a connection beyond the share of its address.
#[derive(Clone)]
struct Refusing(u32);

impl Answers for Refusing {
    async fn answer(self, request: Request) -> Response {
        // A probe from an address with many callers learns that the process lives.
        if request.uri().path() == "/health/live" {
            return Reply::bare(StatusCode::OK, &Component::ok()).into_response();
        }
        Refusal::of(&request).answer(Error::TooManyConnections { limit: self.0 })
    }

    fn connects_by(&self, _: &Arc<Semaphore>, _: usize) {}
}

/// The phase of the service's life; only ever moves to a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Serving,
    Finishing,
    Over,
}

/// Serves `service` on `listener` until `shutdown` is ready; then takes no new connection, closes
/// idle ones, lets open requests finish within [`Limits::grace`], and returns when all is closed
/// or that time is over. With `tls`, connections speak TLS only. The caller's address is an extension, [`ConnectInfo`].
///
/// # Errors
///
/// The listener has no address. A connection that cannot be accepted is logged, not returned.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<Tls>,
    service: impl Answers,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    tracing::debug!(%address, "serving");
    let slots = Arc::new(Semaphore::new(limits.max_connections as usize));
    service.connects_by(&slots, limits.max_connections as usize);
    let shares = OpenLimit::new("connections", limits.per_address);
    let refusals = Arc::new(Semaphore::new(REFUSED_AT_ONCE));
    let silent = Silent::default();
    let (phase, _) = watch::channel(Phase::Serving);
    let mut shutdown = pin!(shutdown);
    loop {
        let next = accept(&listener, &slots, &silent);
        let (stream, peer, slot) = tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = next => accepted,
        };
        let (address, within) = (peer.ip().to_canonical(), limits.header_timeout);
        let of_many =
            limits.proxies.iter().any(|net| net.contains(&address)) || service.is_node(address);
        let share = (!of_many).then(|| shares.open(Counted::address(address))).transpose();
        let (tls, phase) = (tls.clone(), phase.subscribe());
        if let Ok(share) = share {
            let stream = CountedConnection { stream, _slot: slot, _share: share, stalled: None };
            let service = service.clone();
            drop(tokio::spawn(accepted(
                stream,
                peer,
                (tls, silent.enter()),
                service,
                within,
                phase,
            )));
        } else if let Ok(slot) = Arc::clone(&refusals).try_acquire_owned() {
            tracing::debug!(%peer, "a connection beyond the share of its address is refused");
            let stream = CountedConnection { stream, _slot: slot, _share: None, stalled: None };
            let (refusing, within) = (Refusing(limits.per_address), within.min(REFUSED_WITHIN));
            drop(tokio::spawn(accepted(
                stream,
                peer,
                (tls, silent.enter()),
                refusing,
                within,
                phase,
            )));
        }
    }
    drop(listener);
    phase.send_replace(Phase::Finishing);
    let all_closed = slots.acquire_many(limits.max_connections);
    if tokio::time::timeout(limits.grace, all_closed).await.is_err() {
        let open = limits.max_connections as usize - slots.available_permits();
        tracing::warn!(open, "connections were cut off: their time to finish is over");
    }
    phase.send_replace(Phase::Over);
    Ok(())
}

/// Serves an accepted connection; its TLS handshake and the headers of each request must come `within`.
async fn accepted(
    stream: CountedConnection,
    peer: SocketAddr,
    (tls, silent): (Option<Tls>, SilentPermit),
    service: impl Answers,
    within: Duration,
    phase: watch::Receiver<Phase>,
) {
    let closing = silent.closing();
    tokio::select! {
        () = closing.notified() => {
            tracing::debug!(%peer, "a connection without a request is closed: no slot is left");
        }
        () = spoken(stream, peer, (tls, silent), service, within, phase) => {}
    }
}

/// Serves an accepted connection to its end.
async fn spoken(
    stream: CountedConnection,
    peer: SocketAddr,
    (tls, silent): (Option<Tls>, SilentPermit),
    service: impl Answers,
    within: Duration,
    phase: watch::Receiver<Phase>,
) {
    let Some(tls) = tls else {
        let from = (peer, Certificate::NotAsked, silent);
        return converse(stream, from, service, within, phase).await;
    };
    match tokio::time::timeout(within, tls.accept(stream)).await {
        Ok(Ok(stream)) => {
            let from = (peer, tls.certificate(&stream), silent);
            converse(stream, from, service, within, phase).await;
        }
        Ok(Err(error)) => {
            tracing::info!(%peer, %error, "a connection was closed: this port speaks TLS only");
        }
        Err(_) => tracing::debug!(%peer, "a TLS handshake took too long"),
    }
}

/// The next connection, once there is a slot for it.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
    silent: &Silent,
) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    if slots.available_permits() == 0 {
        tracing::warn!("the most connections are open, further ones wait");
    }
    let slot = loop {
        let slot = tokio::time::timeout(LOOK, Arc::clone(slots).acquire_owned()).await;
        if let Ok(slot) = slot {
            break slot.expect("the semaphore is never closed");
        }
        let closed = silent.close_slow();
        if closed > 0 {
            tracing::warn!(closed, "connections without a request were closed to make room");
        }
    };
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // An answer is written at once, so Nagle's algorithm would only delay it.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "a connection was gone before it was served");
                }
                return (stream, peer, slot);
            }
            Err(error) if is_of_the_caller(&error) => {}
            Err(error) => {
                tracing::error!(%error, "no connection can be accepted, trying again");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_of_the_caller(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}

/// Serves one connection until it closes or the service is over.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    (peer, certificate, silent): (SocketAddr, Certificate, SilentPermit),
    service: impl Answers,
    within: Duration,
    mut phase: watch::Receiver<Phase>,
) {
    let handle = ConnectionHandle::default();
    let of_request = handle.clone();
    let silent = Mutex::new(Some(silent));
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        drop(silent.lock().unwrap_or_else(PoisonError::into_inner).take());
        request.extensions_mut().insert(ConnectInfo(peer));
        request.extensions_mut().insert(certificate);
        request.extensions_mut().insert(of_request.clone());
        let waits = request.headers().contains_key(EXPECT);
        // A caller who waits for a word has sent nothing, and would be told to go on.
        let whole = |body| if waits { Body::new(body) } else { Body::new(Dropped::of(body)) };
        let answer = service.clone().answer(request.map(whole));
        answer.map(|response| Ok::<_, Infallible>(closed_if_refused(response)))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(within)
        .max_header_size(HARD_HEADER_LIMIT)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    let mut ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = handle.ending.notified() => None,
        _ = phase.wait_for(|phase| *phase >= Phase::Finishing) => None,
    };
    if ended.is_none() {
        connection.as_mut().graceful_shutdown();
        ended = tokio::select! {
            ended = connection => Some(ended),
            () = handle.closing.notified() => return,
            _ = phase.wait_for(|phase| *phase >= Phase::Over) => None,
        };
    }
    if let Some(Err(error)) = ended {
        // Time-outs, malformed requests, callers that leave: the server cannot mend any of these.
        tracing::debug!(%error, "a connection ended early");
    }
}

/// The answer, which closes its connection if it is 429.
fn closed_if_refused(mut response: Response) -> Response {
    if response.status() == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The connection of a request, as an extension of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionHandle {
    /// The connection takes no further request.
    ending: Arc<Notify>,
    closing: Arc<Notify>,
    /// Ends with the connection.
    watches: Arc<Mutex<JoinSet<()>>>,
}

impl ConnectionHandle {
    /// Ends the connection with the answer once `over` is ready, and `unread_for` later even if the
    /// client has not read all of it. The answer holds the watch, so the end of another answer
    /// changes nothing.
    pub(crate) fn close_when(
        &self,
        over: impl Future<Output = ()> + Send + 'static,
        unread_for: Duration,
    ) -> ConnectionWatch {
        let (ending, closing) = (Arc::clone(&self.ending), Arc::clone(&self.closing));
        let (held, dropped) = oneshot::channel::<()>();
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        while watches.try_join_next().is_some() {}
        watches.spawn(async move {
            tokio::select! {
                // An answer that ends because `over` is ready is dropped at the same time.
                biased;
                () = over => {}
                _ = dropped => return,
            }
            ending.notify_one();
            tokio::time::sleep(unread_for).await;
            closing.notify_one();
        });
        ConnectionWatch { _held: held }
    }
}

/// The watch of [`ConnectionHandle::close_when`]; dropping it ends the watch.
#[derive(Debug)]
#[must_use]
pub(crate) struct ConnectionWatch {
    _held: oneshot::Sender<()>,
}

/// A connection that frees its slot when it is dropped, also as a socket after an upgrade. The
/// connection breaks if its client takes none of the written bytes for [`STALLED`].
#[derive(Debug)]
struct CountedConnection {
    stream: TcpStream,
    _slot: OwnedSemaphorePermit,
    /// The part of its address's share; `None` for proxies and nodes.
    _share: Option<OpenPermit>,
    /// Runs while a write waits for the client.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl CountedConnection {
    fn write(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut TcpStream>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let written = write(Pin::new(&mut self.stream), cx);
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(STALLED)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for CountedConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for CountedConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, |stream, cx| stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, |stream, cx| stream.poll_write_vectored(cx, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
