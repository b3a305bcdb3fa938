//! The upgrade of a request to a WebSocket (RFC 6455).

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::Request;
use axum::http::request::Parts;
use axum::response::Response;
use callboard_domain::{Error, Rule};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::incoming::{Incoming, Limits, PIECE};
use crate::http::Failure;
use crate::http::describe::{Input, Operation};

pub(crate) type Socket = WebSocketStream<Incoming<TokioIo<Upgraded>>>;

/// A request that asks for a socket.
pub(crate) struct Upgrade {
    upgrade: OnUpgrade,
    response: Response,
}

impl Upgrade {
    /// The answer; `talk` begins once it was sent.
    pub(crate) fn answer<F>(
        self,
        limits: Limits,
        talk: impl FnOnce(Socket) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = ()> + Send,
    {
        let Self { upgrade, response } = self;
        tokio::spawn(async move {
            let upgraded = match upgrade.await {
                Ok(upgraded) => TokioIo::new(upgraded),
                Err(error) => return tracing::debug!(%error, "a socket was gone before it was one"),
            };
            // A socket keeps this much memory, and clears it for each read.
            let config = WebSocketConfig::default()
                .read_buffer_size(PIECE)
                .max_message_size(Some(limits.max_message))
                .max_frame_size(Some(limits.max_message));
            let incoming = Incoming::new(upgraded, limits);
            talk(Socket::from_raw_socket(incoming, Role::Server, Some(config)).await).await;
        });
        response
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Upgrade {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let refused = |why: &dyn std::fmt::Display| {
            let message = format!("this path takes WebSocket connections: {why}").to_lowercase();
            Error::invalid("Upgrade", Rule::Required, message)
        };
        let mut asked = Request::builder().method(&parts.method).version(parts.version);
        if let Some(headers) = asked.headers_mut() {
            headers.clone_from(&parts.headers);
        }
        let asked = asked.body(()).map_err(|error| refused(&error))?;
        let response = create_response_with_body(&asked, Body::empty);
        let response = response.map_err(|error| refused(&error))?;
        let upgrade = parts.extensions.remove::<OnUpgrade>();
        let upgrade = upgrade.ok_or_else(|| refused(&"the connection cannot be upgraded"))?;
        Ok(Self { upgrade, response })
    }
}

impl Input for Upgrade {
    fn describe(operation: &mut Operation) {
        operation.refusals.insert(400);
    }
}
