//! Connections: accepting, limits of time and number, and the end of them all.
//!
//! ```text
//! listener ─▶ slot free? ─▶ connection ─▶ request ─▶ … keep-alive … ─▶ closed, slot free
//!               │ no: wait, callers queue in the kernel     │ upgrade: the socket keeps the slot
//! ```
//!
//! Deliberately absent: HTTP/2, which a proxy in front speaks to its callers. A request's own limits (its
//! body, its headers) are in [`super::middleware`].

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::response::Response;
use futures_util::FutureExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Sleep;

use crate::tls::{Certificate, Tls};

/// The size of headers from which the parser refuses them, with a bare 431. Headers between
/// [`super::Edge::max_header_bytes`] and this size are refused in the envelope.
const HARD_HEADER_LIMIT: usize = 64 * 1024;

/// The pause when the system is out of file descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// The longest time for which a client may take nothing of the bytes written to it.
const STALLED: Duration = Duration::from_mins(1);

/// The limits of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The time for a request's headers, counted from the end of the request before: so also the
    /// longest idle time of a connection.
    pub header_timeout: Duration,
    /// The most open connections, sockets included. Further ones wait in the kernel's queue until
    /// one closes.
    pub max_connections: u32,
    /// The time in which open requests and sockets may finish once the service stops.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_timeout: Duration::from_secs(10),
            max_connections: 20_000,
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
    let (phase, _) = watch::channel(Phase::Serving);
    let mut shutdown = pin!(shutdown);
    loop {
        let next = accept(&listener, &slots);
        let (stream, peer) = tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = next => accepted,
        };
        let service = service.clone();
        let phase = phase.subscribe();
        match tls.clone() {
            None => {
                let from = (peer, Certificate::NotAsked);
                drop(tokio::spawn(converse(stream, from, service, limits, phase)));
            }
            Some(tls) => drop(tokio::spawn(async move {
                match tokio::time::timeout(limits.header_timeout, tls.accept(stream)).await {
                    Ok(Ok(stream)) => {
                        let from = (peer, tls.certificate(&stream));
                        converse(stream, from, service, limits, phase).await;
                    }
                    Ok(Err(error)) => {
                        tracing::info!(%peer, %error, "a connection was closed: this port speaks TLS only");
                    }
                    Err(_) => tracing::debug!(%peer, "a TLS handshake took too long"),
                }
            })),
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

/// The next connection, once there is a slot for it.
async fn accept(listener: &TcpListener, slots: &Arc<Semaphore>) -> (CountedConnection, SocketAddr) {
    if slots.available_permits() == 0 {
        tracing::warn!("the most connections are open, further ones wait");
    }
    let slot = Arc::clone(slots).acquire_owned().await;
    let slot = slot.expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // An answer is written at once, so Nagle's algorithm would only delay it.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "a connection was gone before it was served");
                }
                return (CountedConnection { stream, _slot: slot, stalled: None }, peer);
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
    (peer, certificate): (SocketAddr, Certificate),
    service: impl Answers,
    limits: Limits,
    mut phase: watch::Receiver<Phase>,
) {
    let handle = ConnectionHandle::default();
    let of_request = handle.clone();
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        request.extensions_mut().insert(certificate);
        request.extensions_mut().insert(of_request.clone());
        service.clone().answer(request.map(Body::new)).map(Ok::<_, Infallible>)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
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
