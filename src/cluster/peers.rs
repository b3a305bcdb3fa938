//! Connections to other nodes.
//!
//! HTTP/1.1, a request at a time on each, kept open between requests. A connection ends when its node is not the one
//! to ask any more, or is not heard any more, so that no answer is awaited for ever.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::Url;

use super::pulse::Pulses;

/// The time to open a connection.
const CONNECT: Duration = Duration::from_secs(1);
/// The idle connections to a node that are kept.
const IDLE: usize = 64;

/// A request that brought no answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// The node was not reached; the request was not sent, and may be sent elsewhere.
    NotSent(Box<Request>),
    /// The connection failed after the request was sent; the request may have been handled.
    Lost,
}

/// The connections.
#[derive(Debug, Default)]
pub(super) struct Peers {
    idle: Mutex<HashMap<Url, Vec<SendRequest<Body>>>>,
    pulses: Arc<Pulses>,
}

impl Peers {
    /// Ready once the node is not heard any more.
    pub(super) fn silence(&self, node: &Url) -> impl Future<Output = ()> + Send + use<> {
        let mut silence = self.pulses.silence(node);
        async move {
            if silence.wait_for(|is_silent| *is_silent).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Sends a request to a node, unless it is silent. Its connections end when `gone` is ready.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub(super) async fn send(
        self: &Arc<Self>,
        node: &Url,
        mut request: Request,
        gone: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Response<Incoming>, Unanswered> {
        if *self.pulses.silence(node).borrow() {
            return Err(Unanswered::NotSent(Box::new(request)));
        }
        while let Some(idle) = self.take_idle(node) {
            match self.send_on(node, idle, request).await {
                // The node closed the connection while it was idle.
                Err(Unanswered::NotSent(unsent)) => request = *unsent,
                answered => return answered,
            }
        }
        match tokio::time::timeout(CONNECT, connect(node, gone)).await {
            Ok(Ok(sender)) => self.send_on(node, sender, request).await,
            Ok(Err(error)) => {
                tracing::debug!(%node, %error, "a node cannot be reached");
                Err(Unanswered::NotSent(Box::new(request)))
            }
            Err(_) => {
                tracing::debug!(%node, "a node cannot be reached in time");
                Err(Unanswered::NotSent(Box::new(request)))
            }
        }
    }

    async fn send_on(
        self: &Arc<Self>,
        node: &Url,
        mut sender: SendRequest<Body>,
        request: Request,
    ) -> Result<Response<Incoming>, Unanswered> {
        match sender.try_send_request(request).await {
            Ok(response) => {
                let (peers, node) = (Arc::clone(self), node.clone());
                tokio::spawn(async move {
                    // The connection is ready again once the answer was read to its end.
                    if sender.ready().await.is_ok() {
                        peers.keep(node, sender);
                    }
                });
                Ok(response)
            }
            Err(mut error) => {
                if let Some(unsent) = error.take_message() {
                    return Err(Unanswered::NotSent(Box::new(unsent)));
                }
                tracing::debug!(%node, error = %error.into_error(), "a node did not answer");
                Err(Unanswered::Lost)
            }
        }
    }

    fn take_idle(&self, node: &Url) -> Option<SendRequest<Body>> {
        let mut idle = self.idle();
        let of_node = idle.get_mut(node)?;
        while let Some(sender) = of_node.pop() {
            if sender.is_ready() {
                return Some(sender);
            }
        }
        None
    }

    fn keep(&self, node: Url, sender: SendRequest<Body>) {
        let mut idle = self.idle();
        let of_node = idle.entry(node).or_default();
        of_node.retain(|sender| !sender.is_closed());
        if of_node.len() < IDLE {
            of_node.push(sender);
        }
    }

    fn idle(&self) -> MutexGuard<'_, HashMap<Url, Vec<SendRequest<Body>>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection to a node, which ends when `gone` is ready.
pub(super) async fn connect(
    node: &Url,
    gone: impl Future<Output = ()> + Send + 'static,
) -> io::Result<SendRequest<Body>> {
    let host = node.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = node.port_or_known_default().unwrap_or(80);
    let stream = TcpStream::connect((host.as_str(), port)).await?;
    stream.set_nodelay(true)?;
    if node.scheme() == "http" {
        return talk(stream, gone).await;
    }
    let config = callboard_common::tls::client().map_err(io::Error::other)?;
    let name = ServerName::try_from(host).map_err(io::Error::other)?;
    let stream = TlsConnector::from(config).connect(name, stream).await?;
    talk(stream, gone).await
}

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    gone: impl Future<Output = ()> + Send + 'static,
) -> io::Result<SendRequest<Body>> {
    let handshake = http1::handshake::<_, Body>(TokioIo::new(stream));
    let (sender, connection) = handshake.await.map_err(io::Error::other)?;
    tokio::spawn(async move {
        tokio::select! {
            ended = connection.with_upgrades() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection to a node ended early");
                }
            }
            () = gone => {}
        }
    });
    Ok(sender)
}
