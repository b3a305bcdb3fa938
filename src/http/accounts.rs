//! Login, users and keys: translate only.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::header::SET_COOKIE;
use callboard_domain::Error;
use callboard_domain::access::{Account, Action as Permission, Caller};
use callboard_domain::account::throttle::{Admission, Outcome, Permit, Reached};
use callboard_domain::account::{Email, User};
use callboard_domain::audit::{Action, By, Record};
use callboard_domain::credential::refresh::RefreshToken;
use callboard_domain::id::{KeyId, SessionId, UserId};
use callboard_domain::session::Session;
use callboard_runtime::accounts::{KnownKey, NewUser, PasswordChange, SignedIn, UserChange};
use callboard_wire::accounts::{
    ChangePassword, ChangeUser, CreateKey, CreateUser, DeleteUser, KeyBody, KeySummaryBody,
    ListKeys, ListSessions, LoggedOut, Login, Logout, OpenSessionBody, Refresh, RotateKey,
    SessionBody, UserBody,
};
use callboard_wire::common::Paging;

use super::error::row;
use super::extract::{Asker, OptionalBody};
use super::{Answer, App, Body, Id, Query, Reply};

/// The longest wait of a try of a password for the ends of other tries.
const TRY_WITHIN: Duration = Duration::from_secs(5);

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
    Asker(by): Asker,
    Body(login): Body<Login>,
) -> Answer {
    // A text that is no e-mail has no user: the answer is the same as for a wrong password.
    let email = Email::parse(&login.email).map_err(|_| Error::InvalidCredentials)?;
    let user = check_password(&app, by, &email, login.password).await?;
    let by = By { account: Some(Account::User(user.id)), ..by };
    Ok(session(&app, &app.handle.sign_in(user, by).await?))
}

/// The user with this e-mail, if the password is right.
async fn check_password(
    app: &Arc<App>,
    by: By,
    email: &Email,
    password: String,
) -> Result<User, Error> {
    let checked = try_password(app, by, email, password).await;
    if let Err(error @ (Error::InvalidCredentials | Error::RateLimited { .. })) = &checked {
        let record = Record::new(Action::SignInRefused, by).with("email", email);
        app.record_refusal(record.with("code", row(error).code)).await;
    }
    checked
}

async fn try_password(
    app: &Arc<App>,
    by: By,
    email: &Email,
    password: String,
) -> Result<User, Error> {
    let address = by.address.ok_or(Error::Internal)?;
    let attempt = Attempt::begin(app, email, address);
    let attempt = tokio::time::timeout(TRY_WITHIN, attempt).await;
    let attempt = attempt.map_err(|_| {
        Error::Unavailable("too many sign-ins at once: try again in a few seconds")
    })??;
    let slot = app.passwords.slot().await?;
    let user = app.handle.user_by_email(email);
    let hash = user.as_ref().map(|user| user.password_hash.clone());
    let passwords = app.passwords.clone();
    // An attempt counts even if the client leaves before the answer.
    let checked = tokio::spawn(async move {
        let checked = passwords.verify(slot, password, hash).await;
        attempt.end(match checked {
            Ok(()) => Outcome::Right,
            Err(Error::InvalidCredentials) => Outcome::Failed,
            Err(_) => Outcome::Harmless,
        });
        checked
    });
    checked.await.map_err(|_| Error::Internal)??;
    user.ok_or(Error::InvalidCredentials)
}

/// A try of a password. A try that is dropped before the password was compared counts for nothing.
struct Attempt {
    app: Arc<App>,
    email: String,
    address: IpAddr,
    permit: Option<Permit>,
}

impl Attempt {
    /// Waits until the tries that this one depends on have ended.
    async fn begin(app: &Arc<App>, email: &Email, address: IpAddr) -> Result<Self, Error> {
        let permit = loop {
            let freed = app.try_ended.notified();
            let admission = app.throttle().acquire(email, address, app.handle.now());
            match admission {
                Admission::Admitted(permit) => break Some(permit),
                Admission::Refused(error) => return Err(error),
                Admission::Wait => freed.await,
            }
        };
        Ok(Self { app: Arc::clone(app), email: email.to_string(), address, permit })
    }

    fn end(mut self, outcome: Outcome) {
        self.release(outcome);
    }

    fn release(&mut self, outcome: Outcome) {
        let Some(permit) = self.permit.take() else { return };
        let reached = self.app.throttle().release(permit, outcome, self.app.handle.now());
        self.app.try_ended.notify_waiters();
        let (address, email) = (self.address, &self.email);
        match reached {
            None => {}
            Some(Reached::Pair) => tracing::warn!(
                %address, %email,
                "too many wrong passwords: sign-ins to this account from this address wait"
            ),
            Some(Reached::Address) => tracing::warn!(
                %address, "too many wrong passwords: sign-ins from this address wait"
            ),
            Some(Reached::Account) => tracing::warn!(
                %address, %email,
                "too many wrong passwords: sign-ins to this account from new addresses wait"
            ),
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.release(Outcome::Harmless);
    }
}

/// Go on with a session: the refresh token is replaced by the one in the answer.
#[utoipa::path(
    post, path = "/api/auth/refresh", tag = "auth",
    responses(
        (status = 200, body = SessionBody),
        (status = 401, description = "no such token, or it was taken before"),
    ),
)]
pub(super) async fn refresh(
    State(app): State<Arc<App>>,
    Asker(by): Asker,
    Body(request): Body<Refresh>,
) -> Answer {
    let token = RefreshToken::parse(&request.refresh_token)?;
    Ok(session(&app, &app.handle.refresh(token, by).await?))
}

/// The answer to a sign-in.
pub(super) fn session(app: &App, signed_in: &SignedIn) -> Reply {
    Reply::ok(&app.session(signed_in)).secret()
}

/// End this session, or all sessions of the user.
#[utoipa::path(
    post, path = "/api/auth/logout", tag = "auth",
    responses((status = 200, description = "their tokens are refused from now on", body = LoggedOut)),
)]
pub(super) async fn logout(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    OptionalBody(logout): OptionalBody<Logout>,
) -> Answer {
    let (user, session) = own_session(&caller)?;
    let ended = if logout.all.unwrap_or_default() {
        app.end_sessions(user, by).await?
    } else {
        app.handle.end_session(session, by).await?;
        1
    };
    let cleared = app.browsers.clear();
    Ok(Reply::ok(&LoggedOut { ended }).header(SET_COOKIE, cleared))
}

/// Change the own password; all other sessions end.
#[utoipa::path(
    post, path = "/api/auth/password", tag = "auth",
    responses(
        (status = 200, description = "only the new password signs in", body = UserBody),
        (status = 401, description = "the current password is wrong"),
    ),
)]
pub(super) async fn change_password(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Body(change): Body<ChangePassword>,
) -> Answer {
    let (user, session) = own_session(&caller)?;
    let email = app.handle.user(user).ok_or(Error::InvalidCredentials)?.email;
    let is_same = change.current == change.new;
    let checked = check_password(&app, by, &email, change.current).await?;
    if is_same {
        return Err(Error::WeakPassword("must differ from the current one".into()).into());
    }
    app.password_rules.check(&change.new, &email)?;
    let password_hash = app.passwords.hash(change.new).await?;
    let verified = checked.password_hash;
    let change = PasswordChange { user, session, verified, password_hash };
    let changed = app.handle.change_password(change, by).await?;
    app.forget_codes(user);
    Ok(Reply::ok(&UserBody::from(&changed)))
}

/// A user's id and session; a key has neither.
pub(super) fn own_session(caller: &Caller) -> Result<(UserId, SessionId), Error> {
    match (caller.account, caller.session) {
        (Account::User(user), Some(session)) => Ok((user, session)),
        (Account::User(_) | Account::Key(_), _) => Err(Error::Forbidden(
            "only a signed-in user may do this, because an API key has no session: sign in".into(),
        )),
    }
}

/// Open sessions, the newest first: one's own, or for an admin everybody's.
#[utoipa::path(
    get, path = "/api/auth/sessions", tag = "auth",
    responses((status = 200, body = [OpenSessionBody])),
)]
pub(super) async fn list_sessions(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Query(list): Query<ListSessions>,
) -> Answer {
    let user = match list.user_id {
        wanted if caller.may(Permission::UsersManage).is_ok() => wanted,
        wanted => {
            let (own, _) = own_session(&caller)?;
            if wanted.is_some_and(|user| user != own) {
                let message = "only an admin may list the sessions of others";
                return Err(Error::Forbidden(message.into()).into());
            }
            Some(own)
        }
    };
    let (sessions, window) = (app.handle.sessions(user), list.page.window());
    let shown = |session: &Arc<Session>| OpenSessionBody::new(session, caller.session);
    let page: Vec<_> = sessions.iter().skip(window.offset).take(window.limit).map(shown).collect();
    Ok(Reply::page(&page, sessions.len() as u64, window))
}

/// End a session: one's own, or for an admin anybody's.
#[utoipa::path(
    delete, path = "/api/auth/sessions/{id}", tag = "auth",
    responses((status = 200, description = "its tokens are refused from now on", body = OpenSessionBody)),
)]
pub(super) async fn end_session(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(id): Id<SessionId>,
) -> Answer {
    let session = app.handle.end_session(id, by).await?;
    Ok(Reply::ok(&OpenSessionBody::new(&session, caller.session)))
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
    Asker(by): Asker,
    Body(user): Body<CreateUser>,
) -> Answer {
    app.password_rules.check(&user.password, &user.email)?;
    let CreateUser { email, password, name, role, plan: tier, must_change_password } = user;
    let password_hash = app.passwords.hash(password).await?;
    let name = name.unwrap_or_else(|| email.local_part().to_owned());
    let must_change_password = must_change_password.unwrap_or_default();
    let new =
        NewUser { email, name, role, tier, password_hash, must_change_password, external: None };
    let user = app.handle.create_user(new, by).await?;
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

/// Give a user another role, plan or password.
#[utoipa::path(
    patch, path = "/api/auth/users/{id}", tag = "auth",
    responses(
        (status = 200, body = UserBody),
        (status = 409, description = "it is the last admin, or there is unfinished work and no `work`"),
    ),
)]
pub(super) async fn change_user(
    State(app): State<Arc<App>>,
    Asker(by): Asker,
    Id(id): Id<UserId>,
    Body(change): Body<ChangeUser>,
) -> Answer {
    let ChangeUser { role, plan, password, must_change_password } = change;
    let user = app.handle.user(id).ok_or_else(|| Error::not_found("user", id))?;
    let password_hash = match password {
        Some(password) => {
            app.password_rules.check(&password, &user.email)?;
            Some(app.passwords.hash(password).await?)
        }
        None => None,
    };
    let change = UserChange { role, tier: plan, password_hash, must_change_password };
    let user = app.handle.change_user(id, change, by).await?;
    app.forget_codes(id);
    Ok(Reply::ok(&UserBody::from(&user)))
}

/// Delete a user, with all sessions and the keys that the user answers for.
#[utoipa::path(
    delete, path = "/api/auth/users/{id}", tag = "auth",
    responses(
        (status = 200, description = "the user as it was", body = UserBody),
        (status = 409, description = "it is the last admin"),
    ),
)]
pub(super) async fn delete_user(
    State(app): State<Arc<App>>,
    Asker(by): Asker,
    Id(id): Id<UserId>,
    Query(delete): Query<DeleteUser>,
) -> Answer {
    let user = app.handle.delete_user(id, delete.work, by).await?;
    Ok(Reply::ok(&UserBody::from(&user)))
}

/// Make an API key; its text is returned only here.
#[utoipa::path(
    post, path = "/api/auth/keys", tag = "auth",
    responses((status = 201, body = KeyBody)),
)]
pub(super) async fn create_key(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Body(key): Body<CreateKey>,
) -> Answer {
    let (key, secret) = app.handle.create_key(key.within(caller.environment.slot()), by).await?;
    Ok(Reply::created(&KeyBody::new(&key, &secret)).secret())
}

/// All keys, the newest first, revoked and expired ones too; or those that end soon.
#[utoipa::path(
    get, path = "/api/auth/keys", tag = "auth",
    responses((status = 200, body = [KeySummaryBody])),
)]
pub(super) async fn list_keys(
    State(app): State<Arc<App>>,
    Asker(by): Asker,
    Query(list): Query<ListKeys>,
) -> Answer {
    let (mut keys, now) = (app.handle.keys(by.project), app.handle.now());
    let (expires_before, window) = list.parts();
    if let Some(before) = expires_before {
        keys.retain(|known| {
            let key = &known.key;
            key.revoked_at.is_none() && now < key.expires_at && key.expires_at < before
        });
        keys.sort_by_key(|known| known.key.expires_at);
    }
    let shown = |known: &Arc<KnownKey>| KeySummaryBody::new(known, now);
    let page: Vec<_> = keys.iter().skip(window.offset).take(window.limit).map(shown).collect();
    Ok(Reply::page(&page, keys.len() as u64, window))
}

/// Revoke a key.
#[utoipa::path(
    delete, path = "/api/auth/keys/{id}", tag = "auth",
    responses((status = 200, description = "it is refused from now on", body = KeySummaryBody)),
)]
pub(super) async fn revoke_key(
    State(app): State<Arc<App>>,
    Asker(by): Asker,
    Id(id): Id<KeyId>,
) -> Answer {
    let known = app.handle.revoke_key(id, by).await?;
    Ok(Reply::ok(&KeySummaryBody::new(&known, app.handle.now())))
}

/// Replace a key by a new one, whose text is returned only here.
#[utoipa::path(
    post, path = "/api/auth/keys/{id}/rotate", tag = "auth",
    responses(
        (status = 201, description = "the old key ends after the overlap", body = KeyBody),
        (status = 409, description = "the key has ended, or was rotated before"),
    ),
)]
pub(super) async fn rotate_key(
    State(app): State<Arc<App>>,
    Asker(by): Asker,
    Id(id): Id<KeyId>,
    OptionalBody(rotate): OptionalBody<RotateKey>,
) -> Answer {
    let (key, secret) = app.handle.rotate_key(id, rotate.overlap.unwrap_or_default(), by).await?;
    Ok(Reply::created(&KeyBody::new(&key, &secret)).secret())
}
