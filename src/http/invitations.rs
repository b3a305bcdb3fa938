//! Invitations, and passwords that were forgotten: translate only.

use std::sync::{Arc, PoisonError};

use axum::extract::State;
use callboard_domain::Error;
use callboard_domain::access::Account;
use callboard_domain::account::{Email, User};
use callboard_domain::audit::{Action, By, Record};
use callboard_domain::credential::invitation;
use callboard_domain::id::InvitationId;
use callboard_runtime::accounts::{Invited, SignedIn};
use callboard_wire::accounts::SessionBody;
use callboard_wire::browser::LinkPreviewBody;
use callboard_wire::common::Paging;
use callboard_wire::invitations::{
    AcceptInvitation, CreateInvitation, ForgottenBody, ForgottenPassword, InvitationBody,
    InvitationPreviewBody, NewInvitationBody, PreviewInvitation, ResetPassword,
};

use super::error::row;
use super::extract::Asker;
use super::{Answer, App, Body, Id, Query, Reply, accounts};
use crate::auth::sign_on::{Brought, Proof};
use crate::outbound::email::{Link, LinkMail};

/// Invite a person; the link is returned only here. If the invitation is to an e-mail and the server sends mail, the
/// person gets the link by mail too.
#[utoipa::path(
    post, path = "/api/auth/invitations", tag = "auth",
    responses(
        (status = 201, body = NewInvitationBody),
        (status = 409, description = "a user has this e-mail, or too many invitations are open"),
    ),
)]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Asker(by): Asker,
    Body(asked): Body<CreateInvitation>,
) -> Answer {
    let (open, secret) = app.handle.invite(asked.into(), by).await?;
    let mail = app.mail.clone().zip(open.email.clone());
    let made = NewInvitationBody::new(&open, &secret, &app.browsers.sign_in_page(), mail.is_some());
    if let Some((mail, to)) = mail {
        let (link, at) = (made.url().to_owned(), app.handle.now());
        let what = Link::Invitation(open.role, open.expires_at);
        let (letter, id) = (LinkMail { to, name: open.name, link, at, what }, open.id);
        tokio::spawn(async move {
            if let Err(error) = mail.send_link(&letter).await {
                tracing::warn!(invitation = %id, error = error.message, "an invitation was not sent by mail");
            }
        });
    }
    Ok(Reply::created(&made).secret())
}

/// The open invitations, the newest first.
#[utoipa::path(
    get, path = "/api/auth/invitations", tag = "auth",
    responses((status = 200, body = [InvitationBody])),
)]
pub(super) async fn list(State(app): State<Arc<App>>, Query(paging): Query<Paging>) -> Answer {
    let (open, window) = (app.handle.invitations(), paging.window());
    let page = open.iter().skip(window.offset).take(window.limit).map(InvitationBody::from);
    Ok(Reply::page(&page.collect::<Vec<_>>(), open.len() as u64, window))
}

/// Revoke an open invitation.
#[utoipa::path(
    delete, path = "/api/auth/invitations/{id}", tag = "auth",
    responses((status = 200, description = "its link is refused from now on", body = InvitationBody)),
)]
pub(super) async fn revoke(
    State(app): State<Arc<App>>,
    Asker(by): Asker,
    Id(id): Id<InvitationId>,
) -> Answer {
    let revoked = app.handle.revoke_invitation(id, by).await?;
    Ok(Reply::ok(&InvitationBody::from(&revoked)))
}

/// Show an invitation to the invited person; it is not used up.
#[utoipa::path(
    post, path = "/api/auth/invitations/preview", tag = "auth",
    responses(
        (status = 200, body = InvitationPreviewBody),
        (status = 401, description = "no such invitation: it was accepted or revoked, or its time is over"),
    ),
)]
pub(super) async fn preview(
    State(app): State<Arc<App>>,
    Body(shown): Body<PreviewInvitation>,
) -> Answer {
    let open = app.handle.invitation(&invitation::parse(&shown.token)?)?;
    Ok(Reply::ok(&InvitationPreviewBody::from(&open)).secret())
}

/// Make the account of the invited person, with a password of their own, and sign it in.
#[utoipa::path(
    post, path = "/api/auth/invitations/accept", tag = "auth",
    responses(
        (status = 201, description = "the invitation is used up", body = SessionBody),
        (status = 401, description = "no such invitation: it was accepted or revoked, or its time is over"),
        (status = 409, description = "another user has this e-mail"),
    ),
)]
pub(super) async fn accept(
    State(app): State<Arc<App>>,
    Asker(by): Asker,
    Body(accept): Body<AcceptInvitation>,
) -> Answer {
    let user = match accepted(&app, by, accept).await {
        Ok(user) => user,
        Err(error) => return Err(refused(&app, by, error).await.into()),
    };
    Ok(Reply::created(&app.session(&begun(&app, user, by).await?)).secret())
}

/// The account of an invited person. A password is hashed only for a token that counts.
async fn accepted(app: &App, by: By, accept: AcceptInvitation) -> Result<User, Error> {
    let AcceptInvitation { token, password, email, name } = accept;
    let digest = invitation::parse(&token)?;
    let own = app.handle.invitation(&digest)?.email_of(email.clone())?;
    if app.handle.user_by_email(&own).is_some() {
        return Err(Error::EmailExists(own.as_str().to_owned()));
    }
    app.password_rules.check(&password, &own)?;
    let password_hash = app.passwords.hash(password).await?;
    app.handle.accept_invitation(Invited { digest, email, name, password_hash }, by).await
}

/// Send a user who has forgotten the password a mail with a link. The answer is the same for every e-mail.
#[utoipa::path(
    post, path = "/api/auth/password/forgotten", tag = "auth",
    responses(
        (status = 200, description = "if there is such a user, a mail is on its way", body = ForgottenBody),
        (status = 409, description = "the server sends no mail"),
        (status = 429, description = "too many requests from this address"),
    ),
)]
pub(super) async fn forgotten(
    State(app): State<Arc<App>>,
    Asker(by): Asker,
    Body(ForgottenPassword { email }): Body<ForgottenPassword>,
) -> Answer {
    if app.mail.is_none() {
        let message =
            "this server sends no mail, as [smtp] is not set: ask an admin for another password";
        return Err(Error::InvalidState(message.to_owned()).into());
    }
    let now = app.handle.now();
    let address = by.address.ok_or(Error::Internal)?;
    app.recoveries.lock().unwrap_or_else(PoisonError::into_inner).admit(address, now)?;
    // Nothing that depends on the user happens before the answer, so its time tells nothing.
    tokio::spawn(send(app, by, email));
    Ok(Reply::ok(&ForgottenBody::ACCEPTED))
}

/// Sends the mail, if there is a user with a password here and not too many mails went to that user.
async fn send(app: Arc<App>, by: By, email: Email) {
    let (now, mail) = (app.handle.now(), app.mail.clone());
    let user = app.handle.user_by_email(&email).filter(|user| user.external.is_none());
    let (Some(user), Some(mail)) = (user, mail) else { return };
    let may = app.recoveries.lock().unwrap_or_else(PoisonError::into_inner).may_mail(&email, now);
    if !may {
        tracing::info!(user = %user.id, "too many mails about a forgotten password: none was sent");
        return;
    }
    let Ok(token) = app.browsers.resets().issue((user.id, None), Proof::Nothing, now) else {
        return;
    };
    let link = format!("{}#reset={token}", app.browsers.sign_in_page());
    app.record(Record::new(Action::PasswordForgotten, by).of(user.id)).await;
    let (to, name, what) = (user.email, Some(user.name), Link::Password);
    let letter = LinkMail { to, name, link, at: now, what };
    if let Err(error) = mail.send_link(&letter).await {
        tracing::warn!(user = %user.id, error = error.message, "the mail about a forgotten password was not sent");
    }
}

/// Show whose password a link sets; the link is not used up.
#[utoipa::path(
    post, path = "/api/auth/password/reset/preview", tag = "auth",
    responses(
        (status = 200, body = LinkPreviewBody),
        (status = 401, description = "no such link, it was used before, or its hour is over"),
    ),
)]
pub(super) async fn preview_reset(
    State(app): State<Arc<App>>,
    Body(shown): Body<PreviewInvitation>,
) -> Answer {
    let now = app.handle.now();
    let ((user, _), expires_at) =
        app.browsers.resets().look(&shown.token, Brought::default(), now)?;
    let user = app.handle.user(user).ok_or(Error::InvalidCredentials)?;
    Ok(Reply::ok(&LinkPreviewBody::new(&user, expires_at)).secret())
}

/// Set another password with the link of a mail, and sign in; all sessions of the user end before.
#[utoipa::path(
    post, path = "/api/auth/password/reset", tag = "auth",
    responses(
        (status = 200, description = "the link is used up", body = SessionBody),
        (status = 401, description = "no such link, it was used before, or its hour is over"),
    ),
)]
pub(super) async fn reset(
    State(app): State<Arc<App>>,
    Asker(by): Asker,
    Body(reset): Body<ResetPassword>,
) -> Answer {
    match reset_by(&app, by, reset).await {
        Ok(user) => Ok(accounts::session(&app, &begun(&app, user, by).await?)),
        Err(error) => Err(refused(&app, by, error).await.into()),
    }
}

async fn reset_by(
    app: &App,
    by: By,
    ResetPassword { token, password }: ResetPassword,
) -> Result<User, Error> {
    let resets = app.browsers.resets();
    let ((id, _), _) = resets.look(&token, Brought::default(), app.handle.now())?;
    let user = app.handle.user(id).ok_or(Error::InvalidCredentials)?;
    app.password_rules.check(&password, &user.email)?;
    let password_hash = app.passwords.hash(password).await?;
    // Of two requests with one link, the first one here counts.
    resets.take(&token, Brought::default(), app.handle.now())?;
    app.forget_codes(id);
    app.handle.reset_password(id, password_hash, by).await
}

/// A session of the user, who has just set the password.
async fn begun(app: &App, user: User, by: By) -> Result<SignedIn, Error> {
    let by = By { account: Some(Account::User(user.id)), ..by };
    app.handle.sign_in(user, by).await
}

/// The refusal, with an entry in the audit log if the token was refused.
async fn refused(app: &App, by: By, error: Error) -> Error {
    if matches!(error, Error::InvalidToken(_) | Error::TokenExpired(_)) {
        let record = Record::new(Action::SignInRefused, by).with("code", row(&error).code);
        app.record_refusal(record).await;
    }
    error
}
