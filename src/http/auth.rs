//! Authentication, rate limits and permissions: the one way into every route.
//!
//! ```text
//!   credential ─▶ caller ─▶ counted, or 429 ─▶ no caller: 401, not allowed: 403 ─▶ handler
//! ```

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::HttpBody as _;
use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::header::{AUTHORIZATION, UPGRADE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use callboard_domain::access::{Action, Caller};
use callboard_domain::credential;
use callboard_domain::id::{SessionId, Slot, UserId};
use callboard_domain::{Error, Timestamp};

use super::body_budget::Share;
use super::limit::{self, Counted};
use super::routes::{Access, AccessTable, Own};
use super::{App, Edge, Failure, browser, pages, pressure};

/// The header of answers to a key that ends within two weeks: its end.
const KEY_EXPIRES_AT: HeaderName = HeaderName::from_static("callboard-key-expires-at");
/// The time before its end from which on a key is told of it.
const KEY_ENDS_SOON: Duration = Duration::from_hours(14 * 24);

/// The state of the guard.
pub(super) struct Guard {
    pub(super) app: Arc<App>,
    pub(super) access: AccessTable,
}

impl Guard {
    /// The permission that a request needs; `None` where there is no such route.
    fn access(&self, request: &Request) -> Option<Access> {
        let path = request.extensions().get::<MatchedPath>()?;
        // HEAD is answered by the handler of GET.
        let method = match request.method() {
            &Method::HEAD => &Method::GET,
            method => method,
        };
        let routes = self.access.get(path.as_str())?;
        routes.iter().find(|(known, _)| known == method).map(|(_, access)| *access)
    }
}

/// Authenticates the caller, counts the request, and lets it through if the caller has the permission.
pub(super) async fn guard(
    State(guard): State<Arc<Guard>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    mut request: Request,
    next: Next,
) -> Response {
    let app = &guard.app;
    let mut access = guard.access(&request).map(|access| access.with_metrics(app.metrics_public));
    // A page and its files need no credential, and are served from memory.
    if access.is_none() && pages::serves(&request) {
        access = Some(Access::Health);
    }
    if let Some(Access::AllowedLater(action)) = access {
        let is_later = request.headers().contains_key(UPGRADE) && !has_credentials(app, &request);
        access = Some(if is_later { Access::Public } else { Access::Allowed(action) });
    }
    let path = request.extensions().get::<MatchedPath>().cloned();
    let caller = match access {
        Some(Access::Health) => {
            let address = app.client_address(peer, request.headers());
            let standing = app.limiter.standing(Counted::address(address), app.handle.now());
            let mut response = next.run(request).await;
            limit::write(response.headers_mut(), standing);
            return remember(path, response);
        }
        Some(Access::Public) => None,
        Some(Access::Allowed(_) | Access::AllowedLater(_) | Access::Own(_) | Access::Metrics)
        | None => Some(caller(app, &request)),
    };
    let (who, plan) = match &caller {
        Some(Ok(caller)) => (caller.into(), caller.tier),
        Some(Err(_)) | None => {
            (Counted::address(app.client_address(peer, request.headers())), None)
        }
    };
    let is_public = matches!(access, Some(Access::Public));
    if let Some(share) = request.extensions().get::<Share>() {
        share.of(who, is_public, app.handle.sharing(who.project()));
    }
    if is_public && let Some(edge) = request.extensions_mut().get_mut::<Edge>() {
        *edge = edge.public();
    }
    let admitted = app.limiter.admit(who, plan, app.handle.now());
    let (response, standing) = match (admitted, access, caller) {
        (Err(refused), ..) => {
            let standing = refused.status;
            (Err(Error::from(refused)), standing)
        }
        (Ok(standing), Some(Access::Allowed(action)), Some(caller)) => {
            let is_new = path
                .as_ref()
                .is_some_and(|path| pressure::is_new_work(action, request.method(), path.as_str()));
            let room = |caller: &Caller| {
                if pressure::grows(action, request.method()) {
                    app.pressure.check_growth()?;
                }
                if !is_new {
                    return Ok(());
                }
                app.handle.check_open(caller.environment)?;
                app.pressure.check()
            };
            let allowed = caller.and_then(|caller| {
                caller.may(action)?;
                room(&caller)?;
                Ok(caller)
            });
            (allowed.map(Some), standing)
        }
        (Ok(standing), Some(Access::Own(own)), Some(caller)) => {
            let allowed = caller.and_then(|caller| may_own(&caller, own).map(|()| caller));
            (allowed.map(Some), standing)
        }
        // The route is public or absent, which the router finds out.
        (Ok(standing), ..) => (Ok(None), standing),
    };
    let mut response = match response {
        Ok(caller) => {
            if let Some(caller) = caller {
                if !request.body().is_end_stream() {
                    let sender = BodySender { app: Arc::clone(app), caller: caller.clone() };
                    request.extensions_mut().insert(sender);
                }
                request.extensions_mut().insert(caller);
            }
            if access.is_some_and(|access| runs_to_end(access, request.method())) {
                to_end(next.run(request)).await
            } else {
                next.run(request).await
            }
        }
        Err(error) => Failure(error).into_response(),
    };
    limit::write(response.headers_mut(), standing);
    if let Some(project) = who.project() {
        app.surface.answered_in(project, response.status());
    }
    if let Counted::Account(_, account) = who
        && let Some(ends_at) = app.handle.ends_soon(account, KEY_ENDS_SOON)
        && let Ok(ends_at) = HeaderValue::try_from(ends_at.to_string())
    {
        response.headers_mut().insert(KEY_EXPIRES_AT, ends_at);
    }
    remember(path, response)
}

/// True for a command that the audit log names: once its client has asked, it runs to its end.
/// Submissions and the messages of assistants are not in the log, and many wait for their results.
fn runs_to_end(access: Access, method: &Method) -> bool {
    let is_command = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    is_command
        && matches!(access, Access::Allowed(action)
        if !matches!(action, Action::TasksCreate | Action::TasksRead))
}

/// The response, which is made even if the client hangs up meanwhile.
async fn to_end(response: impl Future<Output = Response> + Send + 'static) -> Response {
    match tokio::spawn(response).await {
        Ok(response) => response,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Failure(Error::Internal).into_response(),
        },
    }
}

/// The caller whose body arrives; an extension of a request that has a body.
#[derive(Clone)]
pub(super) struct BodySender {
    app: Arc<App>,
    caller: Caller,
}

impl BodySender {
    /// Passes if the caller's credential still counts, with the same role.
    ///
    /// # Errors
    /// [`Error::InvalidToken`], [`Error::TokenExpired`], [`Error::Forbidden`].
    pub(super) fn check(&self) -> Result<(), Error> {
        let now = self.app.handle.caller_now(&self.caller)?;
        if now.role == self.caller.role {
            return Ok(());
        }
        Err(Error::Forbidden(
            "the caller's role changed while the body arrived: send this again".into(),
        ))
    }
}

/// Sessions and passwords are signed-in users'. An admin's key may see and end sessions as well.
fn may_own(caller: &Caller, own: Own) -> Result<(), Error> {
    let is_for_key = match own {
        Own::PasswordIsOwn => {
            caller.check_password()?;
            caller.may(Action::UsersManage).is_ok()
        }
        Own::Always => false,
    };
    if caller.session.is_some() || is_for_key {
        Ok(())
    } else {
        Err(Error::Forbidden(
            "only a signed-in user may do this, because an API key has no session: sign in".into(),
        ))
    }
}

/// Passes the matched route on to the middleware.
fn remember(path: Option<MatchedPath>, mut response: Response) -> Response {
    if let Some(path) = path {
        response.extensions_mut().insert(path);
    }
    response
}

fn has_credentials(app: &App, request: &Request) -> bool {
    request.extensions().get::<Vouched>().is_some()
        || request.headers().contains_key(AUTHORIZATION)
        || browser::has_cookie(app, request.headers())
        || parameter(request.uri().query(), "api_key").is_some()
}

/// The name of the header by which a session names its project.
pub(super) const PROJECT: HeaderName = HeaderName::from_static("callboard-project");

/// The identifier or the name of the project that a request names, by its header or else its parameter.
pub(crate) fn project_of(headers: &HeaderMap, query: Option<&str>) -> Option<String> {
    let header = headers.get(&PROJECT).map(|it| String::from_utf8_lossy(it.as_bytes()).into());
    header.or_else(|| parameter(query, "project"))
}

/// A person whose session home has verified: an extension of a request that a node of home has forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Vouched {
    pub(crate) user: UserId,
    pub(crate) session: SessionId,
    pub(crate) expires_at: Option<Timestamp>,
}

/// Marks a request that names a project of another cell, and that home answers: it is about people or projects.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OfHome;

/// The signed-in person behind a request; `None` for a key, and without credentials.
pub(crate) fn person(app: &App, request: &Request) -> Option<Result<Caller, Error>> {
    match caller_in(app, request, None) {
        Ok(caller) => caller.session.is_some().then_some(Ok(caller)),
        Err(Error::Unauthorized(_)) => None,
        Err(error) => Some(Err(error)),
    }
}

fn caller(app: &App, request: &Request) -> Result<Caller, Error> {
    let extensions = request.extensions();
    let project = project_of(request.headers(), request.uri().query());
    if let Some(vouched) = extensions.get::<Vouched>() {
        let slot = project.map_or(Ok(Slot::DEFAULT), |named| app.handle.slot_of(&named))?;
        let caller = app.handle.caller_of_person(vouched.user, slot)?;
        return Ok(Caller { expires_at: vouched.expires_at, ..caller });
    }
    let is_of_home = extensions.get::<OfHome>().is_some();
    caller_in(app, request, project.filter(|_| !is_of_home))
}

fn caller_in(app: &App, request: &Request, project: Option<String>) -> Result<Caller, Error> {
    let query = request.uri().query();
    if let Some(header) = request.headers().get(AUTHORIZATION) {
        let text = header
            .to_str()
            .ok()
            .and_then(|text| text.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim_start())
            .ok_or_else(|| {
                Error::Unauthorized(
                    "the header Authorization must be Bearer and a key or token".into(),
                )
            })?;
        return caller_of(app, text, project.as_deref());
    }
    match key_in(query) {
        // An access token would stay in logs and histories.
        Some(key) if credential::has_service_prefix(&key) => {
            caller_of(app, &key, project.as_deref())
        }
        Some(_) => Err(Error::InvalidToken("the parameter api_key must be an API key".to_owned())),
        None => match browser::session_cookie(app, request.headers()) {
            Some(token) => {
                let project =
                    project.map_or(Ok(Slot::DEFAULT), |named| app.handle.slot_of(&named))?;
                browser::caller_of_cookie(app, token, request.method(), request.headers(), project)
            }
            None => Err(Error::Unauthorized(
                "credentials are missing: send an API key or an access token as Authorization: Bearer"
                    .into(),
            )),
        },
    }
}

/// The caller of a key or an access token. A session sees the project that the request names, else `default`; a key
/// sees its own, and another one does not exist for it.
pub(crate) fn caller_of(app: &App, text: &str, project: Option<&str>) -> Result<Caller, Error> {
    let named = project.map(|named| (named, app.handle.slot_of(named)));
    if credential::has_service_prefix(text) {
        let (_, digest) = credential::parse(text)?;
        let caller =
            app.handle.caller_of_key(&digest).map_err(
                |refusal| match credential::project_named(text) {
                    Some(number) => app.handle.unless_on_its_way(refusal, number),
                    None => refusal,
                },
            )?;
        match named {
            Some((named, slot)) if slot != Ok(caller.environment.slot()) => {
                Err(Error::not_found("project", named))
            }
            Some(_) | None => Ok(caller),
        }
    } else {
        let access = app.tokens.verify(text, app.handle.now())?;
        let slot = named.map_or(Ok(Slot::DEFAULT), |(_, slot)| slot)?;
        let mut caller = app.handle.caller_of_session(access.session, access.user, slot)?;
        let end_of_key = caller.expires_at.unwrap_or(access.expires_at);
        caller.expires_at = Some(end_of_key.min(access.expires_at));
        Ok(caller)
    }
}

/// The API key that a request has as a parameter.
pub(crate) fn key_in(query: Option<&str>) -> Option<String> {
    parameter(query, "api_key")
}

/// A parameter of a query.
pub(crate) fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    url::form_urlencoded::parse(query?.as_bytes())
        .find(|(known, _)| known == name)
        .map(|(_, value)| value.into_owned())
}
