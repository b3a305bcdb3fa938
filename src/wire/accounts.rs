//! Accounts on the wire (SPEC.md, Authentication endpoints; PROTOCOL.md 7).

use std::time::Duration;

use callboard_domain::access::Role;
use callboard_domain::account::{Email, User, display_name};
use callboard_domain::credential::{self, ApiKey, Secret};
use callboard_domain::id::{Environment, KeyId, UserId};
use callboard_domain::rate::Tier;
use callboard_domain::{Error, Rule};
use callboard_runtime::accounts::NewKey;
use serde::Serialize;
use utoipa::ToSchema;

use super::common::{Iso, Text};
use super::read::{Fields, Read, rule};

/// E-mail and password.
#[derive(ToSchema)]
pub struct Login {
    /// As it was registered; upper and lower case are the same.
    #[schema(value_type = String, format = Email)]
    pub email: String,
    /// The password.
    #[schema(format = Password)]
    pub password: String,
}

impl Read for Login {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Error> {
        Ok(Self {
            email: fields.required("email", rule::text(rule::characters(1..=320)))?,
            password: fields.required("password", rule::text(rule::characters(1..=1024)))?,
        })
    }
}

/// A refresh token.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct Refresh {
    /// The one of the last login or refresh; each is taken once.
    #[schema(format = Password)]
    pub refresh_token: String,
}

impl Read for Refresh {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let refresh_token =
            fields.required("refreshToken", rule::text(rule::characters(1..=1024)))?;
        Ok(Self { refresh_token })
    }
}

/// A user to be made.
#[derive(ToSchema)]
pub struct CreateUser {
    /// By which it signs in.
    #[schema(value_type = String, format = Email)]
    pub email: Email,
    /// 8 to 128 characters, none of the common ones.
    #[schema(format = Password)]
    pub password: String,
    /// What it is called; by default the part of the e-mail before the @.
    pub name: String,
    /// admin, operator, viewer or worker.
    #[schema(value_type = String)]
    pub role: Role,
}

impl Read for CreateUser {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let email = Email::parse(&fields.required("email", rule::email)?)?;
        // Any length is taken here: the password rules speak of it themselves.
        let password = fields.required("password", rule::text(rule::bytes(0..=4096)))?;
        let name = fields.optional("name", rule::text(rule::characters(1..=100)))?;
        let name = match name {
            Some(name) => display_name(&name)?,
            None => email.local_part().to_owned(),
        };
        let role = fields.required("role", rule::one_of(&Role::ALL, Role::as_str))?;
        Ok(Self { email, password, name, role })
    }
}

/// What of a user is changed.
#[derive(Debug, Clone, Copy, ToSchema)]
pub struct ChangeUser {
    /// admin, operator, viewer or worker.
    #[schema(value_type = String)]
    pub role: Role,
}

impl Read for ChangeUser {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Error> {
        Ok(Self { role: fields.required("role", rule::one_of(&Role::ALL, Role::as_str))? })
    }
}

/// A key to be made.
#[derive(Debug, Clone, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct CreateKey {
    /// What it is called.
    pub name: String,
    /// admin, operator, viewer or worker.
    #[schema(value_type = String)]
    pub role: Role,
    /// A number of days, `1d` to `36500d`; by default `90d`.
    #[schema(value_type = Option<String>)]
    pub expires_in: Duration,
    /// live or test; by default live.
    #[schema(value_type = Option<String>)]
    pub environment: Environment,
    /// free, pro or enterprise; by default `[limits] plan`.
    #[schema(value_type = Option<String>)]
    pub plan: Option<Tier>,
}

const fn environment_name(environment: Environment) -> &'static str {
    match environment {
        Environment::Live => "live",
        Environment::Test => "test",
    }
}

impl Read for CreateKey {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let name = fields.required("name", rule::text(rule::characters(1..=100)))?;
        let name = display_name(&name)?;
        let role = fields.required("role", rule::one_of(&Role::ALL, Role::as_str))?;
        let expires_in = fields.optional("expiresIn", rule::text(rule::characters(1..=16)))?;
        let expires_in = match expires_in {
            Some(text) => credential::lifetime(&text)?,
            None => credential::DEFAULT_LIFETIME,
        };
        let environment =
            fields.optional("environment", rule::one_of(&Environment::ALL, environment_name))?;
        let environment = environment.unwrap_or(Environment::Live);
        let plan = fields.optional("plan", rule::one_of(&Tier::ALL, Tier::as_str))?;
        let sandboxed = environment == Environment::Test;
        if sandboxed && !matches!(role, Role::Operator | Role::Viewer) {
            return Err(fields.refuse(
                "role",
                Rule::Enum,
                "must be operator or viewer for a test key",
            ));
        }
        Ok(Self { name, role, expires_in, environment, plan })
    }
}

impl From<CreateKey> for NewKey {
    fn from(key: CreateKey) -> Self {
        let CreateKey { name, role, expires_in: lifetime, environment, plan } = key;
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
