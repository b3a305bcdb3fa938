//! Accounts on the wire (SPEC.md, Authentication endpoints; PROTOCOL.md 7).

use std::time::Duration;

use callboard_domain::Rule;
use callboard_domain::access::Role;
use callboard_domain::account::{Email, MAX_NAME, User, display_name};
use callboard_domain::credential::{self, ApiKey, Secret};
use callboard_domain::id::{Environment, KeyId, UserId};
use callboard_domain::rate::Tier;
use callboard_runtime::accounts::NewKey;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::common::{Iso, Text};
use super::read::rule::{self, Parse};
use super::read::{Fields, Refused};
use crate::request;

request! {
    /// E-mail and password.
    pub struct Login as "Login" {
        /// As it was registered, in upper or lower case.
        email: String = required("email", rule::text(rule::characters(1..=320))),
        /// The password.
        password: String = required("password", secret(rule::text(rule::characters(1..=1024)))),
    }
}

request! {
    /// A refresh token.
    pub struct Refresh as "Refresh" {
        /// The one of the last login or refresh; each is taken once.
        refresh_token: String = required("refreshToken", secret(rule::text(rule::characters(1..=1024)))),
    }
}

request! {
    /// A user to be made.
    pub struct CreateUser as "CreateUser" {
        /// By which it signs in.
        email: Email = required("email", rule::email().then(|email| Email::parse(&email))),
        /// 8 to 128 characters, none of the common ones.
        password: String = required("password", new_password()),
        /// For people; by default the part of the e-mail before the @.
        name: Option<String> = optional("name", name()),
        /// What it may do.
        role: Role = required("role", role()),
    }
}

request! {
    /// What of a user is changed.
    #[derive(Debug, Clone, Copy)]
    pub struct ChangeUser as "ChangeUser" {
        /// What it may do.
        role: Role = required("role", role()),
    }
}

request! {
    /// A key to be made.
    #[derive(Debug, Clone)]
    pub struct CreateKey as "CreateKey" {
        /// For people.
        name: String = required("name", name()),
        /// What it may do.
        role: Role = required("role", role()),
        /// A number of days, `1d` to `36500d`; by default `90d`.
        expires_in: Option<Duration> = optional("expiresIn", lifetime()),
        /// Where it works; by default live. A test key is of an operator or a viewer.
        environment: Option<Environment> = optional("environment", rule::one_of(&Environment::ALL, environment_name)),
        /// Its rate limits; by default `[limits] plan`.
        plan: Option<Tier> = optional("plan", rule::one_of(&Tier::ALL, Tier::as_str)),
    }
    check test_keys_are_small
}

fn test_keys_are_small(key: CreateKey, fields: &Fields<'_>) -> Result<CreateKey, Refused> {
    let is_test = key.environment == Some(Environment::Test);
    if is_test && !matches!(key.role, Role::Operator | Role::Viewer) {
        let says = "must be operator or viewer for a test key";
        return Err(fields.refuse("role", Rule::Enum, says));
    }
    Ok(key)
}

fn role() -> impl Parse<Role> {
    rule::one_of(&Role::ALL, Role::as_str)
}

fn name() -> impl Parse<String> {
    rule::text(rule::characters(1..=MAX_NAME)).then(|name| display_name(&name))
}

fn lifetime() -> impl Parse<Duration> {
    rule::text(rule::characters(1..=16))
        .then(|text| credential::lifetime(&text))
        .with(json!({"pattern": "^[1-9][0-9]{0,4}d$"}))
}

/// A password, whose length the domain checks.
fn new_password() -> impl Parse<String> {
    secret(rule::text(rule::bytes(0..=4096))).with(json!({"minLength": 8, "maxLength": 128}))
}

fn secret(text: impl Parse<String>) -> impl Parse<String> {
    text.with(json!({"format": "password"}))
}

const fn environment_name(environment: Environment) -> &'static str {
    match environment {
        Environment::Live => "live",
        Environment::Test => "test",
    }
}

impl From<CreateKey> for NewKey {
    fn from(key: CreateKey) -> Self {
        let CreateKey { name, role, expires_in, environment, plan } = key;
        let lifetime = expires_in.unwrap_or(credential::DEFAULT_LIFETIME);
        let environment = environment.unwrap_or(Environment::Live);
        Self { name, role, environment, tier: plan, lifetime }
    }
}

/// A user as it is told.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserBody {
    /// `usr_…`
    #[schema(value_type = String)]
    pub id: Text<UserId>,
    /// By which it signs in.
    pub email: String,
    /// What it is called.
    pub name: String,
    /// What it may do.
    pub role: &'static str,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Iso,
}

impl From<&User> for UserBody {
    fn from(user: &User) -> Self {
        Self {
            id: Text(user.id),
            email: user.email.as_str().to_owned(),
            name: user.name.clone(),
            role: user.role.as_str(),
            created_at: Iso(user.created_at),
        }
    }
}

/// A session.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionBody {
    /// The access token, for `Authorization: Bearer`.
    pub token: String,
    /// What the session is gone on with, once, at `POST /api/auth/refresh`.
    pub refresh_token: String,
    /// Until when the access token is taken.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Iso,
    /// Who has signed in.
    pub user: UserBody,
}

/// A key as it is told once, when it is made.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyBody {
    /// `key_…`
    #[schema(value_type = String)]
    pub id: Text<KeyId>,
    /// Its text, told here and never again.
    pub key: String,
    /// What it is called.
    pub name: String,
    /// What it may do.
    pub role: &'static str,
    /// live or test.
    pub environment: &'static str,
    /// `svc_live_`, `svc_test_` or `svc_worker_`.
    pub prefix: String,
    /// The last four characters of its text.
    pub last4: String,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Iso,
    /// Until when it is taken.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Iso,
}

impl KeyBody {
    /// The answer to its making.
    #[must_use]
    pub fn new(key: &ApiKey, secret: &Secret) -> Self {
        Self {
            id: Text(key.id),
            key: secret.expose().to_owned(),
            name: key.name.clone(),
            role: key.role.as_str(),
            environment: environment_name(key.environment),
            prefix: key.prefix.clone(),
            last4: key.last4.clone(),
            created_at: Iso(key.created_at),
            expires_at: Iso(key.expires_at),
        }
    }
}
