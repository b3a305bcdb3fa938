//! `POST /mcp`: the Model Context Protocol over streamable HTTP (docs/how-to/mcp.md).
//!
//! ```text
//! assistant ─ message ─▶ guard ─▶ Bridge ─ calls of the API, with the caller's credentials ─▶ middleware
//!     ◀─ JSON, or events: progress, then the answer ─┘                (within the process)
//! ```
//!
//! Each message is served by itself, so a restart ends the calls that wait and nothing else. Deliberately absent:
//! sessions and the stream of GET, which the protocol has no more since its revision 2026-07-28, and which assistants
//! of the earlier ones can do without.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, FromRequest, Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use callboard_cli::mcp::Bridge;
use callboard_client::{Carried, Client, Credential, Server};
use callboard_domain::access::{Action, Caller};
use callboard_domain::{Error, Rule};
use futures_util::{FutureExt, StreamExt};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use super::auth::{PROJECT, Vouched, key_in, project_of};
use super::describe::{Input, Operation};
use super::headers::{RequestId, X_REQUEST_ID};
use super::origin::Origin;
use super::serve::ConnectionHandle;
use super::{App, Failure, Middleware, body};

/// The path, whose requests carry the middleware as an extension.
pub(super) const PATH: &str = "/mcp";
/// The headers of a message that its calls carry too.
const CARRIED: [HeaderName; 6] = [
    AUTHORIZATION,
    COOKIE,
    ORIGIN,
    HOST,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("traceparent"),
];
/// The longest refusal of the protocol's library, in bytes.
const MAX_REFUSAL: usize = 4 * 1024;

/// Answers one message of an assistant.
pub(super) async fn serve(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(connection): Extension<ConnectionHandle>,
    Message { client, request }: Message,
) -> Result<Response, Failure> {
    if Origin::of(&app, request.headers()) == Origin::Foreign {
        return Err(Origin::refusal().into());
    }
    let permit = app.assistants.open(&caller)?;
    let (mut right, mut stopping) =
        (app.handle.right(&caller, Action::TasksRead), app.stopping.subscribe());
    let over = async move {
        tokio::select! {
            _ = right.lost() => {}
            _ = stopping.wait_for(|stopping| *stopping) => {}
        }
    };
    let over = over.boxed().shared();
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        // The server listens by the names of its proxies; the origin was looked at.
        .disable_allowed_hosts();
    let sessions = Arc::new(NeverSessionManager::default());
    let bridge = Bridge::new(client);
    let service = StreamableHttpService::new(move || Ok(bridge.clone()), sessions, config);
    let response = tokio::select! {
        response = service.handle(request) => response,
        () = over.clone() => return Err(Error::Unavailable("the server is stopping").into()),
    };
    let (parts, body) = response.into_parts();
    let kind = parts.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let (is_json, is_stream) =
        (kind == Some(b"application/json"), kind == Some(b"text/event-stream"));
    if parts.status.is_client_error() && !is_json {
        return Err(refusal(Body::new(body)).await.into());
    }
    if !is_stream {
        return Ok(Response::from_parts(parts, Body::new(body)));
    }
    let watch = connection.close_when(over.clone(), super::events::UNREAD_FOR);
    let pieces = Body::new(body).into_data_stream().take_until(over).map(move |piece| {
        let _held = (&permit, &watch);
        piece
    });
    Ok(Response::from_parts(parts, Body::from_stream(pieces)))
}

/// A refusal of the protocol's library, which it writes as a plain text.
async fn refusal(body: Body) -> Error {
    let text = to_bytes(body, MAX_REFUSAL).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    Error::invalid("message", Rule::Format, text)
}

/// A message that was received, and the API as its sender calls it.
pub(super) struct Message {
    client: Client,
    request: Request,
}

impl FromRequest<Arc<App>> for Message {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &Arc<App>) -> Result<Self, Failure> {
        body::expect_json(request.headers())?;
        let client = client(&request).ok_or(Error::Internal)?;
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let headers = request.headers().clone();
        let mut message = Request::new(Body::from(body::read(request).await?));
        (*message.method_mut(), *message.uri_mut(), *message.headers_mut()) =
            (method, uri, headers);
        Ok(Self { client, request: message })
    }
}

impl Input for Message {
    fn describe(_: &mut Operation) {}
}

/// The API as the sender of a request calls it: within the process, from the same address.
fn client(request: &Request) -> Option<Client> {
    let extensions = request.extensions();
    let middleware = extensions.get::<Middleware>()?.clone();
    let peer = *extensions.get::<ConnectInfo<SocketAddr>>()?;
    let (given, query) = (request.headers(), request.uri().query());
    let mut headers = HeaderMap::new();
    for name in CARRIED {
        headers.extend(given.get(&name).map(|value| (name, value.clone())));
    }
    let mut add = |name, text: String| {
        headers.extend(HeaderValue::try_from(text).ok().map(|value| (name, value)));
    };
    if let (None, Some(key)) = (given.get(AUTHORIZATION), key_in(query)) {
        add(AUTHORIZATION, format!("Bearer {key}"));
    }
    if let Some(project) = project_of(given, query) {
        add(PROJECT, project);
    }
    if let Some(id) = extensions.get::<RequestId>() {
        add(X_REQUEST_ID, id.as_str().to_owned());
    }
    let person = extensions.get::<Vouched>().copied();
    let carry = move |call: callboard_client::Request| -> Carried {
        let (middleware, headers) = (middleware.clone(), headers.clone());
        Box::pin(async move {
            let response = match axum::http::Request::try_from(call) {
                Ok(call) => {
                    let mut call = call.map(Body::new);
                    call.headers_mut().extend(headers);
                    call.extensions_mut().insert(peer);
                    if let Some(person) = person {
                        call.extensions_mut().insert(person);
                    }
                    call.extensions_mut().insert(ConnectionHandle::default());
                    middleware.answer(call).await
                }
                Err(_) => StatusCode::BAD_REQUEST.into_response(),
            };
            let pieces = |body: Body| reqwest::Body::wrap_stream(body.into_data_stream());
            response.map(pieces).into()
        })
    };
    // The address is in no answer.
    let server = Server::parse("http://callboard").ok()?;
    Some(Client::in_process(server, Credential::None, carry))
}
