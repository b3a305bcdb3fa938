//! The first admin, by the setup link: translate only.

use std::sync::Arc;

use axum::extract::State;
use callboard_domain::Error;
use callboard_domain::access::{Account, Role};
use callboard_domain::audit::{Action, By, Record};
use callboard_runtime::accounts::NewUser;
use callboard_wire::accounts::{SessionBody, SetUp};

use super::error::row;
use super::extract::Asker;
use super::{Answer, App, Body, Reply};

/// Make the first admin with the token of the setup link, and sign it in.
#[utoipa::path(
    post, path = "/api/auth/setup", tag = "auth",
    responses(
        (status = 201, description = "the link is used up", body = SessionBody),
        (status = 401, description = "no such token, or its hour is over"),
        (status = 409, description = "there is an admin already"),
    ),
)]
pub(super) async fn setup(
    State(app): State<Arc<App>>,
    Asker(by): Asker,
    Body(first): Body<SetUp>,
) -> Answer {
    let taken = || Error::InvalidState("there is an admin already: sign in".to_owned());
    if app.handle.has_admin() {
        return Err(taken().into());
    }
    let setup = app.setup.as_ref().ok_or_else(taken)?;
    if let Err(error) = setup.check(&first.token, app.handle.now()) {
        let record = Record::new(Action::SignInRefused, by).with("email", &first.email);
        app.record_refusal(record.with("code", row(&error).code)).await;
        return Err(error.into());
    }
    app.password_rules.check(&first.password, &first.email)?;
    let password_hash = app.passwords.hash(first.password).await?;
    let name = first.name.unwrap_or_else(|| first.email.local_part().to_owned());
    let (email, role) = (first.email, Role::Admin);
    let new = NewUser {
        email,
        name,
        role,
        tier: None,
        password_hash,
        must_change_password: false,
        external: None,
    };
    let user = app.handle.create_first_admin(new, by).await?.ok_or_else(taken)?;
    let by = By { account: Some(Account::User(user.id)), ..by };
    let signed_in = app.handle.sign_in(user, by).await?;
    Ok(Reply::created(&app.session(&signed_in)).secret())
}
