//! Sessions of browsers: the cookie, the links that begin one, and the dashboard's own requests.
//!
//! ```text
//!   login, setup, oidc/token, link ─▶ tokens ─▶ POST /api/auth/cookie ─▶ the same session, in a cookie
//! ```
//!
//! The cookie is out of a script's reach and names the session; its token counts nowhere else, and an access
//! token does not count as a cookie. A write by cookie needs the server's own origin. Deliberately absent: the
//! ways to sign in, which stand in [`super::accounts`], [`super::setup`] and [`super::oidc`].

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, Method};
use callboard_domain::Error;
use callboard_domain::access::{Account, Caller};
use callboard_domain::audit::{Action, By, Record};
use callboard_domain::id::{Slot, UserId};
use callboard_runtime::accounts::SignedIn;
use callboard_wire::accounts::SessionBody;
use callboard_wire::browser::{ExchangeLink, LinkBody, LinkPreviewBody, MethodsBody, WhoBody};

use super::accounts::own_session;
use super::error::row;
use super::extract::Asker;
use super::origin::Origin;
use super::{Answer, App, Body, Reply, accounts};
use crate::auth::sign_on::{Bearer, Brought, Codes, Proof};

/// The time for which a sign-in link counts.
const LINK_LIFETIME: Duration = Duration::from_hours(1);

/// The server's state of browsers.
pub struct Browsers {
    links: Codes,
    /// The links that set a forgotten password.
    resets: Codes,
    /// The address under which browsers reach this server, without a slash at the end.
    base: String,
    /// The life of a cookie: that of a session which is not renewed.
    lifetime: Duration,
}

impl Browsers {
    /// Browsers that reach this server at `base`; a session of theirs lasts for `lifetime`.
    #[must_use]
    pub fn new(base: &str, lifetime: Duration) -> Self {
        let base = base.trim_end_matches('/').to_owned();
        let [links, resets] = [(); 2].map(|()| Codes::lasting(LINK_LIFETIME));
        Self { links, resets, base, lifetime }
    }

    /// A link that signs this user in, once, unless the session that made it has ended.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if too many wait.
    pub(super) fn link(&self, app: &App, bearer: Bearer) -> Result<LinkBody, Error> {
        let now = app.handle.now();
        let token = self.links.issue(bearer, Proof::Nothing, now)?;
        let url = format!("{}#link={token}", self.sign_in_page());
        Ok(LinkBody::new(url, token, now.after(LINK_LIFETIME)))
    }

    /// The links that set a forgotten password, once, within an hour.
    pub(super) fn resets(&self) -> &Codes {
        &self.resets
    }

    /// The address of the page that takes links.
    pub(super) fn sign_in_page(&self) -> String {
        format!("{}/sign-in", self.base)
    }

    /// Drops the links of a user, whose sessions were ended, but for those that end with their session.
    pub(super) fn forget(&self, user: UserId) {
        self.links.forget(user);
        self.resets.forget(user);
    }

    /// The name of the cookie; over TLS one that no other host can set.
    fn name(&self) -> &'static str {
        if self.is_secure() { "__Host-callboard-session" } else { "callboard-session" }
    }

    /// True if browsers reach this server over TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.base.starts_with("https:")
    }

    fn set(&self, token: &str, seconds: u64) -> HeaderValue {
        let (name, secure) = (self.name(), if self.is_secure() { "; Secure" } else { "" });
        let text =
            format!("{name}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
        HeaderValue::try_from(text).expect("a token is base64url and dots")
    }

    /// The header that takes the cookie away.
    pub(super) fn clear(&self) -> HeaderValue {
        self.set("", 0)
    }
}

/// The value of a cookie in a request.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|it| it.split_once('='));
    pairs.find(|(known, _)| known.trim() == name).map(|(_, value)| value.trim())
}

/// The token of the session cookie, if the request has one.
pub(super) fn session_cookie<'a>(app: &App, headers: &'a HeaderMap) -> Option<&'a str> {
    cookie(headers, app.browsers.name()).filter(|token| !token.is_empty())
}

/// The caller of a session cookie. A browser sends the cookie with the requests of foreign pages of
/// the same site too, so a request that changes something or opens a socket must come from a page
/// of this server.
///
/// # Errors
/// [`Error::InvalidToken`], [`Error::TokenExpired`], [`Error::Forbidden`].
pub(super) fn caller_of_cookie(
    app: &App,
    token: &str,
    method: &Method,
    headers: &HeaderMap,
    project: Slot,
) -> Result<Caller, Error> {
    let is_read = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    let is_upgrade = headers.contains_key(axum::http::header::UPGRADE);
    let is_allowed = match Origin::of(app, headers) {
        Origin::Own => true,
        Origin::None => is_read && !is_upgrade,
        Origin::Foreign => false,
    };
    if !is_allowed {
        return Err(Origin::refusal());
    }
    let access = app.tokens.verify_cookie(token, app.handle.now())?;
    let mut caller = app.handle.caller_of_session(access.session, access.user, project)?;
    let end_of_key = caller.expires_at.unwrap_or(access.expires_at);
    caller.expires_at = Some(end_of_key.min(access.expires_at));
    Ok(caller)
}

/// Keep this session in a cookie, which scripts cannot read.
#[utoipa::path(
    post, path = "/api/auth/cookie", tag = "auth",
    responses((status = 200, description = "the cookie is set; it is HttpOnly and SameSite=Strict", body = WhoBody)),
)]
pub(super) async fn set_cookie(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Answer {
    let (user, session) = own_session(&caller)?;
    let now = app.handle.now();
    let open = app.handle.sessions(Some(user)).into_iter().find(|known| known.id == session);
    // A cookie outlives no session, however often it is set.
    let left = open.and_then(|open| open.expires_at()).map_or(Duration::ZERO, |end| end.since(now));
    let lifetime = app.browsers.lifetime.min(left);
    if lifetime.as_secs() == 0 {
        return Err(Error::TokenExpired("session").into());
    }
    let issued = app.tokens.issue_cookie(user, session, &App::fresh_name(), now, lifetime);
    let cookie = app.browsers.set(&issued.token, lifetime.as_secs());
    let caller = Caller { expires_at: Some(issued.expires_at), ..caller };
    Ok(who_is(&app, &caller)?.header(SET_COOKIE, cookie))
}

/// The user of this session, and the actions that it may take.
#[utoipa::path(
    get, path = "/api/auth/session", tag = "auth",
    responses((status = 200, body = WhoBody)),
)]
pub(super) async fn who(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Answer {
    Ok(who_is(&app, &caller)?)
}

fn who_is(app: &App, caller: &Caller) -> Result<Reply, Error> {
    let (id, _) = own_session(caller)?;
    let user = app.handle.user(id).ok_or(Error::InvalidCredentials)?;
    Ok(Reply::ok(&WhoBody::of(&user, caller)).secret())
}

/// The ways to sign in to this server.
#[utoipa::path(
    get, path = "/api/auth/methods", tag = "auth",
    responses((status = 200, body = MethodsBody)),
)]
pub(super) async fn methods(State(app): State<Arc<App>>) -> Answer {
    let setup = app.setup.is_some() && !app.handle.has_admin();
    let (oidc, password_reset) = (app.oidc.is_some(), app.mail.is_some());
    Ok(Reply::ok(&MethodsBody { password: true, oidc, setup, password_reset }))
}

/// Make a link that signs the caller in once, within an hour, in a browser.
#[utoipa::path(
    post, path = "/api/auth/links", tag = "auth",
    responses((status = 201, description = "the link, returned only here", body = LinkBody)),
)]
pub(super) async fn create_link(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
) -> Answer {
    let (user, session) = own_session(&caller)?;
    let link = app.browsers.link(&app, (user, Some(session)))?;
    app.record(Record::new(Action::LinkCreated, by).of(session)).await;
    Ok(Reply::created(&link).secret())
}

/// Show whom a sign-in link signs in; the link is not used up.
#[utoipa::path(
    post, path = "/api/auth/links/preview", tag = "auth",
    responses(
        (status = 200, body = LinkPreviewBody),
        (status = 401, description = "no such link, it was used before, its hour is over, or the session that made it has ended"),
    ),
)]
pub(super) async fn preview_link(
    State(app): State<Arc<App>>,
    Body(exchange): Body<ExchangeLink>,
) -> Answer {
    let now = app.handle.now();
    let found = app.browsers.links.look(&exchange.token, Brought::default(), now)?;
    let ((user, parent), expires_at) = found;
    if let Some(parent) = parent {
        app.handle.caller_of_session(parent, user, Slot::DEFAULT)?;
    }
    let user = app.handle.user(user).ok_or(Error::InvalidCredentials)?;
    Ok(Reply::ok(&LinkPreviewBody::new(&user, expires_at)).secret())
}

/// Exchange the token of a sign-in link for a session.
#[utoipa::path(
    post, path = "/api/auth/links/exchange", tag = "auth",
    responses(
        (status = 200, body = SessionBody),
        (status = 401, description = "no such link, it was used before, its hour is over, or the session that made it has ended"),
    ),
)]
pub(super) async fn exchange_link(
    State(app): State<Arc<App>>,
    Asker(by): Asker,
    Body(exchange): Body<ExchangeLink>,
) -> Answer {
    // A link of a session that was ended, by a new password too, begins no other one.
    match follow(&app, &exchange.token, by).await {
        Ok(signed_in) => Ok(accounts::session(&app, &signed_in)),
        Err(error) => {
            let record = Record::new(Action::SignInRefused, by).with("code", row(&error).code);
            app.record_refusal(record).await;
            Err(error.into())
        }
    }
}

/// Begins the session of a link, which ends with the one that made the link.
async fn follow(app: &App, token: &str, by: By) -> Result<SignedIn, Error> {
    let (user, parent) = app.browsers.links.take(token, Brought::default(), app.handle.now())?;
    let user = app.handle.user(user).ok_or(Error::InvalidCredentials)?;
    let by = By { account: Some(Account::User(user.id)), ..by };
    app.handle.sign_in_within(parent, user, by).await
}

/// True if a request carries the session cookie.
pub(super) fn has_cookie(app: &App, headers: &HeaderMap) -> bool {
    session_cookie(app, headers).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_found_by_its_whole_name() {
        let header = HeaderValue::from_static("a=1; callboard-session=x.y.z ;b=2");
        let headers = HeaderMap::from_iter([(COOKIE, header)]);
        assert_eq!(cookie(&headers, "callboard-session"), Some("x.y.z"));
        assert_eq!(cookie(&headers, "session"), None);
        assert_eq!(cookie(&headers, "b"), Some("2"));
    }

    #[test]
    fn the_cookie_is_out_of_reach_of_scripts_and_foreign_sites() {
        let plain = Browsers::new("http://127.0.0.1:8080/", Duration::from_mins(1));
        assert_eq!(
            plain.set("t", 60),
            "callboard-session=t; Path=/; Max-Age=60; HttpOnly; SameSite=Strict"
        );
        let secure = Browsers::new("https://board.example", Duration::from_mins(1));
        assert_eq!(
            secure.clear(),
            "__Host-callboard-session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict; Secure"
        );
    }
}
