//! The middleware around every request, in this order.
//!
//! ```text
//! in   request id ─ headers too large? 431 ─▶ handler (a panic is 500)
//! out  log line ◀─ security headers ◀─ envelope ◀─ axum's own refusals put into ours
//! ```
//!
//! Rate limits and authentication go inside of this, so that their refusals are dressed like all
//! others. Deliberately absent: cross-origin headers. The service is no API for foreign pages.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::Router;
use axum::extract::{ConnectInfo, MatchedPath, Request};
use axum::http::header::{ALLOW, CONTENT_TYPE};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use callboard_domain::{Error, Rule};
use futures_util::FutureExt;
use tokio::sync::Semaphore;
use tower::ServiceExt;

use super::body_budget::BodyBudget;
use super::envelope::{self, Draft, Shape};
use super::headers::{self, RequestId};
use super::limit::{self, Counted};
use super::serve::Answers;
use super::{App, Failure, body, mcp, trace};
use crate::outbound::traces::Answered;

/// The largest body that a public endpoint reads, in bytes.
const MAX_PUBLIC_BODY: usize = 8 * 1024;
/// The time in which the body of a public request must arrive.
const PUBLIC_BODY_WITHIN: Duration = Duration::from_secs(5);

/// The limits of one request at the edge; an extension of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The time in which a body, or a frame of a socket, must arrive.
    pub body_timeout: Duration,
    /// The most bytes of a body.
    pub max_body: usize,
    /// The most bytes of the request's line and headers.
    pub max_header_bytes: usize,
    /// The most bytes of all bodies and frames that are held at once.
    pub bodies_max_bytes: usize,
}

impl Default for Edge {
    fn default() -> Self {
        Self {
            body_timeout: Duration::from_secs(30),
            max_body: body::MAX_BODY,
            max_header_bytes: 16 * 1024,
            bodies_max_bytes: 128 << 20,
        }
    }
}

impl Edge {
    /// The limits of a request to a public endpoint: a small body that arrives soon.
    pub(super) fn public(self) -> Self {
        let body_timeout = self.body_timeout.min(PUBLIC_BODY_WITHIN);
        Self { body_timeout, max_body: MAX_PUBLIC_BODY, ..self }
    }
}

/// A router, and everything around its routes. The router itself has no layer: a layer would cost
/// boxed futures for every request, and axum writes `Allow` outside of layers.
#[derive(Clone)]
pub struct Middleware {
    router: Router,
    edge: Edge,
    budget: BodyBudget,
    app: Option<Arc<App>>,
}

impl Middleware {
    /// Wraps everything around the routes of `router`, which must all be there. A layer within
    /// names the matched route, by an extension of the response.
    #[must_use]
    pub fn new(router: Router, edge: Edge) -> Self {
        Self { router, edge, budget: BodyBudget::new(edge.bodies_max_bytes), app: None }
    }

    /// The same middleware, with the rate headers of the caller's address on answers that no route
    /// gave.
    #[must_use]
    pub fn with_rates_of(self, app: Arc<App>) -> Self {
        Self { app: Some(app), ..self }
    }

    /// Answers a request.
    pub async fn answer(self, mut request: Request) -> Response {
        if request.uri().path() == mcp::PATH {
            request.extensions_mut().insert(self.clone());
        }
        let Self { router, edge, budget, app } = self;
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
        // The look-up costs next to nothing unless the peer is a trusted proxy.
        let address =
            app.as_ref().zip(peer).map(|(app, peer)| app.client_address(peer, request.headers()));
        let mut response = handle(router, edge, &budget, app.as_deref(), request).await;
        if let Some(app) = &app {
            app.surface.answered(response.status());
        }
        if let (Some(app), Some(address), false) =
            (app, address, !limit::written(&response).is_empty())
        {
            let standing = app.limiter.standing(Counted::address(address), app.handle.now());
            limit::write(response.headers_mut(), standing);
        }
        response
    }
}

async fn handle(
    router: Router,
    edge: Edge,
    budget: &BodyBudget,
    app: Option<&App>,
    mut request: Request,
) -> Response {
    let traces = app.and_then(|app| app.traces.as_ref());
    let (started, began) = (Instant::now(), SystemTime::now());
    let id = RequestId::of(request.headers());
    let method = request.method().clone();
    let form = Shape::of(request.uri().path());

    let place = trace::place(traces, &request);

    // The share drops with the answer: until then the body is in memory.
    let share = budget.share();
    let mut response = if headers::size(&request) > edge.max_header_bytes {
        let limit = edge.max_header_bytes;
        Failure(Error::HeadersTooLarge { limit }).into_response()
    } else {
        request.extensions_mut().insert(id.clone());
        request.extensions_mut().insert(edge);
        request.extensions_mut().insert(share.clone());
        if let Some(place) = place {
            request.extensions_mut().insert(place);
        }
        // The panic hook has logged it.
        let handled = AssertUnwindSafe(router.oneshot(request)).catch_unwind().await;
        handled.map_or_else(|_| Failure(Error::Internal).into_response(), Result::into_response)
    };

    let path = response.extensions_mut().remove::<MatchedPath>();
    response = adopt(response, &method);
    let duration = started.elapsed();
    if let Some(app) = app
        && !waits_for_work(path.as_ref())
    {
        app.surface.took(&response, duration);
    }
    envelope::finish(&mut response, form, &id, duration, &method, &share);
    headers::stamp(response.headers_mut(), &id);
    if let (Some(traces), Some(place)) = (traces, place) {
        let route = path.as_ref().map(MatchedPath::as_str);
        let status = response.status().as_u16();
        traces.answered(place, &Answered { method: method.as_str(), route, status, began });
    }
    tracing::debug!(
        target: "callboard::access",
        request_id = id.as_str(),
        %method,
        path = path.as_ref().map_or("-", MatchedPath::as_str),
        status = response.status().as_u16(),
        duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        "answered"
    );
    response
}

/// True for a route whose answer is that of a model.
fn waits_for_work(path: Option<&MatchedPath>) -> bool {
    path.is_some_and(|path| ["/v1/chat/completions", mcp::PATH].contains(&path.as_str()))
}

/// Rewrites the refusals that axum makes itself, in plain text or without a body, in the service's
/// form. Axum's `Allow` answers an OPTIONS request.
fn adopt(response: Response, method: &Method) -> Response {
    let standing = limit::written(&response);
    let mut response = adopted(response, method);
    response.headers_mut().extend(standing);
    response
}

fn adopted(response: Response, method: &Method) -> Response {
    let status = response.status();
    let refused = status.is_client_error() || status.is_server_error();
    if !refused || response.extensions().get::<Draft>().is_some() || !is_plain(&response) {
        return response;
    }
    if status == StatusCode::METHOD_NOT_ALLOWED {
        let allow = allowed(response.headers().get(ALLOW));
        if method == Method::OPTIONS {
            return (StatusCode::NO_CONTENT, [(ALLOW, allow)]).into_response();
        }
        let method = method.to_string();
        return Failure(Error::MethodNotAllowed { method, allow }).into_response();
    }
    Failure(meaning(status)).into_response()
}

fn is_plain(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    kind.is_none_or(|kind| kind.as_bytes().starts_with(b"text/plain"))
}

/// The methods of axum's `Allow`, spaced, and OPTIONS, which is answered everywhere.
fn allowed(given: Option<&HeaderValue>) -> String {
    let given = given.and_then(|given| given.to_str().ok()).unwrap_or("");
    let methods = given.split(',').map(str::trim).filter(|method| !method.is_empty());
    let methods: Vec<_> = methods.chain(["OPTIONS"]).collect();
    methods.join(", ")
}

fn meaning(status: StatusCode) -> Error {
    match status {
        StatusCode::NOT_FOUND => Error::NoRoute,
        StatusCode::PAYLOAD_TOO_LARGE => Error::PayloadTooLarge { limit: body::MAX_BODY },
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Error::UnsupportedMediaType("application/json"),
        StatusCode::UPGRADE_REQUIRED => Error::invalid(
            "request",
            Rule::Format,
            "this path is for sockets: ask for an upgrade to websocket",
        ),
        StatusCode::SERVICE_UNAVAILABLE => {
            Error::Unavailable("the server is busy: send this again in a few seconds")
        }
        status if status.is_client_error() => {
            Error::invalid("request", Rule::Format, "the request is malformed for this path")
        }
        _ => Error::Internal,
    }
}

/// A refusal of a request that reaches no route, dressed like all others.
pub(crate) struct Refusal {
    shape: Shape,
    id: RequestId,
    method: Method,
}

impl Refusal {
    /// The refusal of this request.
    pub(crate) fn of(request: &Request) -> Self {
        let (shape, id) = (Shape::of(request.uri().path()), RequestId::of(request.headers()));
        Self { shape, id, method: request.method().clone() }
    }

    pub(crate) fn answer(self, error: Error) -> Response {
        self.dress(Failure(error))
    }

    /// Another answer without a route.
    pub(crate) fn dress(self, answer: impl IntoResponse) -> Response {
        let Self { shape, id, method } = self;
        let mut response = answer.into_response();
        envelope::refuse(&mut response, shape, &id, &method);
        headers::stamp(response.headers_mut(), &id);
        response
    }
}

impl Answers for Middleware {
    fn answer(self, request: Request) -> impl Future<Output = Response> + Send {
        Self::answer(self, request)
    }

    fn connects_by(&self, slots: &Arc<Semaphore>, all: usize) {
        if let Some(app) = &self.app {
            app.surface.connects_by(slots, all);
        }
    }
}

#[cfg(test)]
mod tests;
