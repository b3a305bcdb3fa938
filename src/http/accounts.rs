//! Login, users and keys (SPEC.md, Authentication endpoints): translate only.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, State};
use axum::http::HeaderMap;
use callboard_domain::Error;
use callboard_domain::account::Email;
use callboard_domain::account::throttle::{Admission, Outcome};
use callboard_domain::credential::refresh::RefreshToken;
use callboard_domain::id::UserId;
use callboard_runtime::accounts::{NewUser, SignedIn};

use super::{Answer, App, Body, Id, Query, Reply};
use crate::wire::accounts::{
    ChangeUser, CreateKey, CreateUser, KeyBody, Login, Refresh, SessionBody, UserBody,
};
use crate::wire::common::{Iso, Paging};

/// Sign in with e-mail and password.
#[utoipa::path(
    post, path = "/api/auth/login", tag = "auth",
    responses(
        (status = 200, body = SessionBody),
        (status = 401, description = "wrong e-mail or password"),
    ),
)]
pub(super) async fn login(
    State(app): State<Arc<App>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    Body(login): Body<Login>,
) -> Answer {
    // What is no e-mail is nobody's: the answer is the same as for a wrong password.
    let email = Email::parse(&login.email).map_err(|_| Error::InvalidCredentials)?;
    let address = app.client_address(peer, &headers);
    let permit = loop {
        let freed = app.tries_settled.notified();
        let admission = app.throttle().acquire(&email, address, app.handle.now());
        match admission {
            Admission::Admitted(permit) => break permit,
            Admission::Refused(error) => return Err(error.into()),
            Admission::Wait => freed.await,
        }
    };
    let user = app.handle.user_by_email(&email);
    let hash = user.as_ref().map(|user| user.password_hash.clone());
    let checked = app.passwords.verify(login.password, hash).await;
    let outcome = match checked {
        Err(Error::InvalidCredentials) => Outcome::Failed,
        Ok(()) | Err(_) => Outcome::Harmless,
    };
    app.throttle().release(permit, outcome, app.handle.now());
    app.tries_settled.notify_waiters();
    checked?;
    let user = user.ok_or(Error::InvalidCredentials)?;
    Ok(session(&app, &app.handle.sign_in(user.id).await?))
}

/// Go on with a session: the refresh token is replaced by the one in the answer.
#[utoipa::path(
    post, path = "/api/auth/refresh", tag = "auth",
    responses(
        (status = 200, body = SessionBody),
        (status = 401, description = "no such token, or it was taken before"),
    ),
)]
pub(super) async fn refresh(State(app): State<Arc<App>>, Body(request): Body<Refresh>) -> Answer {
    let token = RefreshToken::parse(&request.refresh_token)?;
    Ok(session(&app, &app.handle.refresh(token).await?))
}

fn session(app: &App, signed_in: &SignedIn) -> Reply {
    let SignedIn { user, session, refresh_token } = signed_in;
    let issued = app.tokens.issue(user.id, *session, &App::fresh_name(), app.handle.now());
    Reply::ok(&SessionBody {
        token: issued.token,
        refresh_token: refresh_token.expose().to_owned(),
        expires_at: Iso(issued.expires_at),
        user: user.into(),
    })
}

/// Make a user.
#[utoipa::path(
    post, path = "/api/auth/users", tag = "auth",
    responses(
        (status = 201, body = UserBody),
        (status = 409, description = "another user has this e-mail"),
    ),
)]
pub(super) async fn create_user(
    State(app): State<Arc<App>>,
    Body(user): Body<CreateUser>,
) -> Answer {
    app.password_rules.check(&user.password, &user.email)?;
    let password_hash = app.passwords.hash(user.password).await?;
    let name = user.name.unwrap_or_else(|| user.email.local_part().to_owned());
    let new = NewUser { email: user.email, name, role: user.role, password_hash };
    let user = app.handle.create_user(new).await?;
    Ok(Reply::created(&UserBody::from(&user)))
}

/// All users.
#[utoipa::path(
    get, path = "/api/auth/users", tag = "auth",
    responses((status = 200, body = [UserBody])),
)]
pub(super) async fn list_users(
    State(app): State<Arc<App>>,
    Query(paging): Query<Paging>,
) -> Answer {
    let mut users = app.handle.users();
    users.reverse();
    let window = paging.window();
    let total = users.len() as u64;
    let page: Vec<_> =
        users.iter().skip(window.offset).take(window.limit).map(UserBody::from).collect();
    Ok(Reply::page(&page, total, window))
}

/// Give a user another role.
#[utoipa::path(
    patch, path = "/api/auth/users/{id}", tag = "auth", responses((status = 200, body = UserBody)),
)]
pub(super) async fn change_user(
    State(app): State<Arc<App>>,
    Id(id): Id<UserId>,
    Body(change): Body<ChangeUser>,
) -> Answer {
    let user = app.handle.set_role(id, change.role).await?;
    Ok(Reply::ok(&UserBody::from(&user)))
}

/// Make an API key; its text is told here and never again.
#[utoipa::path(
    post, path = "/api/auth/keys", tag = "auth",
    responses((status = 201, body = KeyBody)),
)]
pub(super) async fn create_key(State(app): State<Arc<App>>, Body(key): Body<CreateKey>) -> Answer {
    let (key, secret) = app.handle.create_key(key.into()).await?;
    Ok(Reply::created(&KeyBody::new(&key, &secret)))
}
