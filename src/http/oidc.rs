//! Sign-in by OIDC (docs/reference/accounts.md): translate only.
//!
//! ```text
//!   browser ─ start ─▶ 302 to the provider ─▶ callback ─┬▶ 302 to /, with a code ─▶ token
//!                                                       └▶ 302 to /sign-in, with a ticket: the page asks
//!                                                          the user ─▶ program, with a code ─▶ token
//! ```
//!
//! A program's sign-in needs the user's press on a page of this server (RFC 8252, 8.6): anybody can listen on a
//! port of the user's machine and send the user a link to `start`.

use std::sync::Arc;

use axum::extract::{FromRequestParts, State};
use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY,
    SET_COOKIE,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use callboard_domain::Error;
use callboard_domain::access::Account;
use callboard_domain::account::User;
use callboard_domain::account::comparison::comparison_code;
use callboard_domain::account::external::{Admitted, ExternalId};
use callboard_domain::audit::{Action, By, Record};
use callboard_domain::id::UserId;
use callboard_runtime::accounts::NewUser;
use callboard_wire::accounts::{ExchangeCode, OidcCallback, SessionBody, StartOidc};
use callboard_wire::browser::{AnswerProgram, ProgramAnswerBody, ProgramBody, ProgramTicket};
use callboard_wire::read;
use url::form_urlencoded;

use super::accounts::session;
use super::browser::cookie;
use super::describe::{Input, Operation};
use super::error::row;
use super::extract::Asker;
use super::origin::Origin;
use super::{Answer, App, Body, Failure, Query, Reply};
use crate::auth::sign_on::{
    ATTEMPT_LIFETIME, Attempts, Brought, Codes, Proof, Waiting, challenge, receiver,
};
use crate::outbound::oidc::{AuthorizationGrant, Identity, Provider, Request};

/// Sign-in by OIDC, as configured.
pub struct SignOn {
    provider: Provider,
    attempts: Attempts,
    codes: Codes,
    /// Sign-ins of programs that wait for the user's answer.
    tickets: Codes,
    /// The address under which browsers reach this server, without a slash at the end.
    base: String,
}

impl SignOn {
    /// Sign-in at this provider; browsers reach this server at `base`.
    #[must_use]
    pub fn new(provider: Provider, base: &str) -> Self {
        let base = base.trim_end_matches('/').to_owned();
        let (attempts, codes) = (Attempts::default(), Codes::default());
        Self { provider, attempts, codes, tickets: Codes::lasting(ATTEMPT_LIFETIME), base }
    }

    /// Drops the codes of a user, whose sessions were ended.
    pub(super) fn forget(&self, user: UserId) {
        self.codes.forget(user);
        self.tickets.forget(user);
    }

    fn redirect_uri(&self) -> String {
        format!("{}/api/auth/oidc/callback", self.base)
    }

    fn is_secure(&self) -> bool {
        self.base.starts_with("https:")
    }

    /// The name of the cookie; over TLS one that no other host can set.
    fn cookie(&self) -> &'static str {
        if self.is_secure() { "__Host-callboard-oidc" } else { "callboard-oidc" }
    }

    fn set_cookie(&self, value: &str, seconds: u64) -> String {
        let secure = if self.is_secure() { "; Secure" } else { "" };
        let name = self.cookie();
        format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}")
    }

    /// The value of the cookie in a request.
    fn find<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        cookie(headers, self.cookie())
    }

    /// The header that takes the cookie away.
    fn forgotten(&self) -> HeaderValue {
        HeaderValue::try_from(self.set_cookie("", 0)).expect("it has no value")
    }

    /// The port and the challenge of the program whose sign-in began in this browser.
    fn program(&self, headers: &HeaderMap) -> Result<(u16, String), Error> {
        let waiting = self.find(headers).and_then(receiver).unwrap_or_default();
        waiting.port.zip(waiting.challenge).ok_or(Error::Internal)
    }

    fn redirect(&self, location: &str, cookie: &str, seconds: u64) -> Response {
        let headers = [
            (LOCATION, location),
            (SET_COOKIE, &self.set_cookie(cookie, seconds)),
            (CACHE_CONTROL, "no-store"),
            (REFERRER_POLICY, "no-referrer"),
        ];
        (StatusCode::FOUND, headers.map(|(name, value)| (name, value.to_owned()))).into_response()
    }
}

fn sign_on(app: &App) -> Result<&SignOn, Error> {
    app.oidc.as_ref().ok_or_else(|| {
        let message = "single sign-on is not set up: oidc.issuer is missing in the settings";
        Error::InvalidState(message.to_owned())
    })
}

/// Begin a sign-in at the identity provider.
#[utoipa::path(
    get, path = "/api/auth/oidc/start", tag = "auth",
    responses(
        (status = 302, description = "to the identity provider"),
        (status = 409, description = "single sign-on is not set up"),
    ),
)]
pub(super) async fn start(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Query(start): Query<StartOidc>,
) -> Result<Response, Failure> {
    shown(&headers, begin(&app, start).await)
}

async fn begin(app: &App, start: StartOidc) -> Result<Response, Error> {
    let on = sign_on(app)?;
    let waiting = Waiting { port: start.port, challenge: start.challenge };
    let attempt = on.attempts.begin(&waiting, app.handle.now());
    let derived = on.attempts.derive(&attempt);
    let request = Request {
        state: &derived.state,
        nonce: &derived.nonce,
        challenge: &challenge(&derived.verifier),
        redirect_uri: &on.redirect_uri(),
    };
    let url = on.provider.authorization_url(request).await?;
    Ok(on.redirect(url.as_str(), attempt.as_str(), ATTEMPT_LIFETIME.as_secs()))
}

/// End a sign-in at the identity provider: the browser brings its code.
#[utoipa::path(
    get, path = "/api/auth/oidc/callback", tag = "auth",
    responses(
        (status = 302, description = "to the page at /, or for a program to the page that asks the user"),
        (status = 401, description = "the sign-in did not begin in this browser, or its code is not valid"),
        (status = 403, description = "this user may not sign in"),
        (status = 409, description = "single sign-on is not set up, or another user has the e-mail"),
    ),
)]
pub(super) async fn callback(
    State(app): State<Arc<App>>,
    Asker(by): Asker,
    headers: HeaderMap,
    Callback(callback): Callback,
) -> Result<Response, Failure> {
    shown(&headers, finish(&app, by, &headers, callback).await)
}

async fn finish(
    app: &App,
    by: By,
    headers: &HeaderMap,
    callback: OidcCallback,
) -> Result<Response, Error> {
    let on = sign_on(app)?;
    let (cookie, now) = (on.find(headers), app.handle.now());
    let (attempt, waiting) = match on.attempts.finish(cookie, callback.state.as_deref(), now) {
        Ok(finished) => finished,
        Err(error) => return Err(refuse(app, by, None, error).await),
    };
    let derived = on.attempts.derive(&attempt);
    let signed_in = match (callback.code, callback.error) {
        (Some(code), None) => {
            let redirect_uri = &on.redirect_uri();
            let (verifier, nonce) = (&*derived.verifier, &*derived.nonce);
            let grant = AuthorizationGrant { code: &code, verifier, nonce, redirect_uri };
            admit(app, on, by, grant).await
        }
        (_, error) => {
            let error: String = error.unwrap_or_default().chars().take(64).collect();
            let message = format!("the identity provider gave no code: {error:?}");
            Err(refuse(app, by, None, Error::Forbidden(message)).await)
        }
    };
    let issued = signed_in.and_then(|user| match (waiting.port, waiting.challenge) {
        (Some(_), _) => on.tickets.issue((user.id, None), Proof::of(&attempt), now),
        (None, Some(challenge)) => on.codes.issue((user.id, None), Proof::Verifier(challenge), now),
        (None, None) => on.codes.issue((user.id, None), Proof::of(&attempt), now),
    });
    let location = match (issued, waiting.port) {
        (Ok(ticket), Some(_)) => format!("{}/sign-in#{}", on.base, query(&[("program", &ticket)])),
        (Ok(code), None) => format!("{}/#{}", on.base, query(&[("code", &code)])),
        // The program would wait in vain.
        (Err(error), Some(port)) => return Ok(on.redirect(&told(port, &error), "", 0)),
        (Err(error), None) => return Err(error),
    };
    // The cookie stays: the code and the ticket count only with it.
    Ok(on.redirect(&location, attempt.as_str(), ATTEMPT_LIFETIME.as_secs()))
}

/// An answer to a browser or a program; a browser gets a refusal as a page.
fn shown(headers: &HeaderMap, answer: Result<Response, Error>) -> Result<Response, Failure> {
    let accepts = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    match answer {
        Err(error) if accepts.is_some_and(|types| types.contains("text/html")) => Ok(page(&error)),
        answer => answer.map_err(Failure),
    }
}

/// The page of a refused sign-in: its reason, and the way back.
fn page(error: &Error) -> Response {
    let reason = error.to_string();
    let escaped: String = reason.chars().map(escaped).collect();
    let text = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Not signed in</title>\
         <h1>Not signed in</h1><p>{escaped}</p><p><a href=\"/sign-in\">Sign in another way</a></p></html>"
    );
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'; form-action 'none'"),
    ];
    (row(error).status, headers, text).into_response()
}

/// A character of a text, in HTML.
fn escaped(character: char) -> String {
    match character {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        '\'' => "&#39;".to_owned(),
        other => other.to_string(),
    }
}

fn query(pairs: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

/// The address that tells a program that it is not signed in.
fn told(port: u16, error: &Error) -> String {
    let pairs = [("error", row(error).code), ("message", &error.to_string())];
    format!("http://127.0.0.1:{port}/?{}", query(&pairs))
}

/// The user of the provider's code, made at the first sign-in, with the current role.
async fn admit(
    app: &App,
    on: &SignOn,
    by: By,
    grant: AuthorizationGrant<'_>,
) -> Result<User, Error> {
    let Identity { subject, claims } = match on.provider.identify(grant).await {
        Ok(identity) => identity,
        Err(error) => return Err(refuse(app, by, None, error).await),
    };
    let settings = on.provider.settings();
    let external = ExternalId { issuer: settings.issuer.clone(), subject };
    let known = app.handle.user_by_external(&external);
    let admitted = match settings.policy.admit(&claims) {
        Ok(admitted) => admitted,
        Err(error) => {
            // A user who may not sign in any more may not go on either.
            if let Some(user) = &known {
                app.end_sessions(user.id, by).await?;
            }
            return Err(refuse(app, by, Some(&external), error).await);
        }
    };
    let Admitted { email, name, role } = admitted;
    let password_hash = match known {
        Some(user) => user.password_hash,
        None => app.passwords.hash(App::fresh_name()).await?,
    };
    let external = Some(external);
    let new = NewUser {
        email,
        name,
        role,
        tier: None,
        password_hash,
        must_change_password: false,
        external: external.clone(),
    };
    match app.handle.admit_external(new, by).await {
        Ok(user) => Ok(user),
        Err(error) => Err(refuse(app, by, external.as_ref(), error).await),
    }
}

/// Writes a refused sign-in to the audit log.
async fn refuse(app: &App, by: By, who: Option<&ExternalId>, error: Error) -> Error {
    let mut record = Record::new(Action::SignInRefused, by).with("code", row(&error).code);
    record = record.with("reason", &error);
    if let Some(ExternalId { issuer, subject }) = who {
        record = record.with("issuer", issuer).with("subject", subject);
    }
    app.record_refusal(record).await;
    error
}

/// Exchange the code of a sign-in for a session.
#[utoipa::path(
    post, path = "/api/auth/oidc/token", tag = "auth",
    responses(
        (status = 200, body = SessionBody),
        (status = 401, description = "no such code, or it was used before"),
        (status = 409, description = "single sign-on is not set up"),
    ),
)]
pub(super) async fn token(
    State(app): State<Arc<App>>,
    Asker(by): Asker,
    headers: HeaderMap,
    Body(exchange): Body<ExchangeCode>,
) -> Answer {
    let on = sign_on(&app)?;
    let brought = Brought { verifier: exchange.verifier.as_deref(), cookie: on.find(&headers) };
    let taken = on.codes.take(&exchange.code, brought, app.handle.now());
    let user = match taken.map(|(id, _)| app.handle.user(id)) {
        Ok(user) => user.ok_or(Error::InvalidCredentials)?,
        Err(error) => return Err(refuse(&app, by, None, error).await.into()),
    };
    let by = By { account: Some(Account::User(user.id)), ..by };
    let reply = session(&app, &app.handle.sign_in(user, by).await?);
    Ok(if exchange.verifier.is_none() { reply.header(SET_COOKIE, on.forgotten()) } else { reply })
}

/// Show the program that wants to sign in, for its user to compare: nothing is used up.
#[utoipa::path(
    post, path = "/api/auth/oidc/program/preview", tag = "auth",
    responses(
        (status = 200, body = ProgramBody),
        (status = 401, description = "no such sign-in in this browser, it was answered, or its time is over"),
        (status = 409, description = "single sign-on is not set up"),
    ),
)]
pub(super) async fn preview_program(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Body(ProgramTicket { ticket }): Body<ProgramTicket>,
) -> Answer {
    let on = sign_on(&app)?;
    let brought = Brought { verifier: None, cookie: on.find(&headers) };
    let ((user, _), _) = on.tickets.look(&ticket, brought, app.handle.now())?;
    let user = app.handle.user(user).ok_or(Error::InvalidCredentials)?;
    let (port, challenge) = on.program(&headers)?;
    let body = ProgramBody::new(&user, comparison_code(&challenge), port);
    Ok(Reply::ok(&body).secret())
}

/// Sign a program in, or refuse it: the answer of the user, who compared its code.
#[utoipa::path(
    post, path = "/api/auth/oidc/program", tag = "auth",
    responses(
        (status = 200, description = "the program hears the answer at this address", body = ProgramAnswerBody),
        (status = 401, description = "no such sign-in in this browser, it was answered, or its time is over"),
        (status = 409, description = "single sign-on is not set up"),
    ),
)]
pub(super) async fn answer_program(
    State(app): State<Arc<App>>,
    Asker(by): Asker,
    headers: HeaderMap,
    Body(AnswerProgram { ticket, allow }): Body<AnswerProgram>,
) -> Answer {
    let on = sign_on(&app)?;
    if Origin::of(&app, &headers) == Origin::Foreign {
        return Err(Origin::refusal().into());
    }
    let (brought, now) = (Brought { verifier: None, cookie: on.find(&headers) }, app.handle.now());
    let bearer = match on.tickets.take(&ticket, brought, now) {
        Ok(bearer) => bearer,
        Err(error) => return Err(refuse(&app, by, None, error).await.into()),
    };
    let (port, challenge) = on.program(&headers)?;
    let location = if allow {
        let code = on.codes.issue(bearer, Proof::Verifier(challenge), now)?;
        format!("http://127.0.0.1:{port}/?{}", query(&[("code", &code)]))
    } else {
        let by = By { account: Some(Account::User(bearer.0)), ..by };
        let message = "the sign-in was refused in the browser";
        told(port, &refuse(&app, by, None, Error::Forbidden(message.to_owned())).await)
    };
    let reply = Reply::ok(&ProgramAnswerBody { location }).secret();
    Ok(reply.header(SET_COOKIE, on.forgotten()))
}

/// The query that a provider sends back, of which only some parameters are known here.
pub(super) struct Callback(OidcCallback);

impl<S: Send + Sync> FromRequestParts<S> for Callback {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let is_known = |pair: &&str| {
            let name = pair.split_once('=').map_or(*pair, |(name, _)| name);
            matches!(name, "code" | "state" | "error")
        };
        let pairs = parts.uri.query().unwrap_or_default().split('&').filter(is_known);
        Ok(Self(read::query::parse(&pairs.collect::<Vec<_>>().join("&"))?))
    }
}

impl Input for Callback {
    fn describe(operation: &mut Operation) {
        let parameters = operation.components.parameters::<OidcCallback>();
        operation.parameters.extend(parameters);
        operation.refusals.insert(400);
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;

    #[tokio::test]
    async fn a_browser_gets_a_refusal_as_a_page_and_a_program_as_json() {
        let refused = || Err(Error::Forbidden("the claim <b>&email\"'".to_owned()));
        let accept =
            |types: &'static str| HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(types))]);
        let browser = accept("text/html,application/xhtml+xml,*/*;q=0.8");
        let page = shown(&browser, refused()).expect("a page");
        assert_eq!(page.status(), StatusCode::FORBIDDEN);
        assert_eq!(page.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
        let text = to_bytes(page.into_body(), 4096).await.expect("a body");
        let text = String::from_utf8(text.into()).expect("UTF-8");
        assert!(text.contains("<p>the claim &lt;b&gt;&amp;email&quot;&#39;</p>"), "{text}");
        for program in [accept("*/*"), accept("application/json"), HeaderMap::new()] {
            assert!(shown(&program, refused()).is_err(), "{program:?}");
        }
    }
}
