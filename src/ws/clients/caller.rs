//! The beginning and the end of a client's connection: the caller, and the codes of a close.
//!
//! Deliberately absent: what is sent in between.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::StatusCode;
use axum::http::request::Parts;
use callboard_domain::Error;
use callboard_domain::access::{Action, Caller};
use futures_util::StreamExt;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::{self, Message};

use super::frames::{self, Asked, Refused};
use super::{Overrun, Socket};
use crate::http::describe::{Input, Operation};
use crate::http::error::row;
use crate::http::origin::Origin;
use crate::http::{App, Counted, Failure, OpenPermit, caller_of, project_of};

/// The time in which a client without credentials in its request must send them.
const AUTH_WITHIN: Duration = Duration::from_secs(10);

/// The caller, or the address of a request without credentials.
pub(crate) enum Known {
    Caller(Caller),
    /// With the project that the request names.
    Address(IpAddr, Option<String>),
}

impl Known {
    pub(super) fn counted(&self) -> Counted {
        match self {
            Self::Caller(caller) => caller.into(),
            Self::Address(address, _) => Counted::address(*address),
        }
    }
}

impl FromRequestParts<Arc<App>> for Known {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        if let Some(caller) = parts.extensions.get::<Caller>() {
            return Ok(Self::Caller(caller.clone()));
        }
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let ConnectInfo(peer) = peer.expect("the server knows every connection's peer");
        let project = project_of(&parts.headers, parts.uri.query());
        Ok(Self::Address(app.client_address(*peer, &parts.headers), project))
    }
}

impl Input for Known {
    fn describe(_: &mut Operation) {}
}

/// A request that no foreign page makes: without an origin, or from one that is allowed.
pub(crate) struct OwnOrigin;

impl FromRequestParts<Arc<App>> for OwnOrigin {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        match Origin::of(app, &parts.headers) {
            Origin::None | Origin::Own => Ok(Self),
            Origin::Foreign => Err(Origin::refusal().into()),
        }
    }
}

impl Input for OwnOrigin {
    fn describe(_: &mut Operation) {}
}

/// The code and the reason of a close.
pub(super) struct End(pub(super) u16, pub(super) &'static str);

impl End {
    /// The close for a right that is gone, or was never there.
    pub(super) fn of(error: &Error) -> Self {
        match row(error).status {
            StatusCode::UNAUTHORIZED => Self(4401, "credentials are not valid"),
            StatusCode::TOO_MANY_REQUESTS => Self(4429, "too many open streams"),
            StatusCode::SERVICE_UNAVAILABLE => Self(1013, "try again later"),
            _ => Self(4403, "forbidden"),
        }
    }

    /// The close for a socket that cannot be read any further; `None` if the socket is gone.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others mean that the socket is gone")]
    pub(super) fn of_read(error: &tungstenite::Error) -> Option<Self> {
        match error {
            tungstenite::Error::Capacity(_) => Some(Self(1009, "a frame may have 64 KiB")),
            tungstenite::Error::Utf8(_) => Some(Self(1007, "a frame must be UTF-8")),
            tungstenite::Error::Protocol(_) => Some(Self(1002, "not the WebSocket protocol")),
            tungstenite::Error::Io(error) => Overrun::of(error).map(|overrun| match overrun {
                Overrun::NoRoom(error) => Self::of(error),
                Overrun::TooSlow(_) => Self(1008, "the frame took too long"),
            }),
            _ => None,
        }
    }
}

/// Waits for the frame that authenticates the client.
pub(super) async fn authenticate(
    app: &App,
    socket: &mut Socket,
    project: Option<&str>,
) -> Result<(OpenPermit, Caller), End> {
    let first = async {
        loop {
            match socket.next().await {
                Some(Ok(Message::Text(text))) => break Ok(text),
                Some(Ok(Message::Binary(_))) => break Err(End(1003, "a frame must be text")),
                Some(Ok(Message::Close(_))) | None => break Err(End(1000, "")),
                Some(Ok(_)) => {}
                Some(Err(error)) => break Err(End::of_read(&error).unwrap_or(End(1000, ""))),
            }
        }
    };
    let late = End(4401, "credentials did not come within 10 seconds");
    let text = timeout(AUTH_WITHIN, first).await.map_err(|_| late)??;
    match frames::parse(text.as_str()).1 {
        Ok(Asked::Auth(token)) => {
            let caller = caller_of(app, &token, project).map_err(|error| End::of(&error))?;
            caller.may(Action::EventsRead).map_err(|error| End::of(&error))?;
            let permit = app.streams.open(&caller).map_err(|error| End::of(&error))?;
            Ok((permit, caller))
        }
        Err(Refused::BadFrame) => Err(End(4400, "a frame must be a JSON object")),
        Ok(_) | Err(Refused::Error(_)) => Err(End(4401, "the first frame must be auth")),
    }
}
