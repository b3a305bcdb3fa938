//! Accounts on the wire (docs/reference/accounts.md).

use std::time::Duration;

use callboard_domain::access::Role;
use callboard_domain::account::{Email, MAX_NAME, User, WorkLeft, display_name};
use callboard_domain::credential::{self, ApiKey, Secret};
use callboard_domain::id::{KeyId, Mode, SessionId, Slot, UserId};
use callboard_domain::query::Window;
use callboard_domain::rate::Tier;
use callboard_domain::session::Session;
use callboard_domain::session::signing::{SigningKeyId, SigningKeys};
use callboard_domain::worker::MAX_NAMES;
use callboard_domain::{Error, Rule, Timestamp};
use callboard_runtime::accounts::{KnownKey, NewKey};
use serde::Serialize;
use serde_json::json;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::common::{Iso, Paging, Text};
use super::read::rule::{self, Parse};
use super::read::{Fields, Refused, shape};
use super::tasks::queue;
use crate::request;

request! {
    /// E-mail and password.
    pub struct Login as "Login" {
        /// The registered e-mail, in upper or lower case.
        email: String = required("email", rule::text(rule::characters(1..=320))),
        /// The password.
        password: String = required("password", secret(rule::text(rule::characters(1..=1024)))),
    }
}

request! {
    /// The API keys to list.
    #[derive(Debug)]
    pub struct ListKeys as "ListKeys" {
        /// Active keys alone that end by themselves before this instant, the soonest first.
        expires_before: Option<Timestamp> = optional("expiresBefore", rule::instant()),
        /// The page.
        page: Paging = flat(shape::<Paging>()),
    }
}

impl ListKeys {
    /// The bound on the end of the keys, and the page.
    #[must_use]
    pub fn parts(&self) -> (Option<Timestamp>, Window) {
        (self.expires_before, self.page.window())
    }
}

request! {
    /// A refresh token.
    pub struct Refresh as "Refresh" {
        /// The token of the last login or refresh; each is valid once.
        refresh_token: String = required("refreshToken", secret(rule::text(rule::characters(1..=1024)))),
    }
}

request! {
    /// The first admin.
    pub struct SetUp as "SetUp" {
        /// The token at the end of the setup link that the server printed when it started.
        token: String = required("token", secret(rule::text(rule::characters(1..=256)))),
        /// The admin's e-mail.
        email: Email = required("email", rule::email().then(|email| Email::parse(&email))),
        /// 8 to 128 characters, none of the common ones.
        password: String = required("password", new_password()),
        /// The name, for people; by default the part of the e-mail before the @.
        name: Option<String> = optional("name", name()),
    }
}

request! {
    /// The start of a sign-in by OIDC.
    #[derive(Debug)]
    pub struct StartOidc as "StartOidc" {
        /// The port on 127.0.0.1 where a program waits for the code; by default the code goes to the page at /.
        port: Option<u16> = optional("port", rule::whole(1..=65_535)),
        /// The SHA-256 of a verifier, in base64url; the code counts only together with the verifier.
        challenge: Option<String> = optional("challenge", pkce()),
    }
    check a_port_needs_a_challenge
}

fn a_port_needs_a_challenge(start: StartOidc, fields: &Fields<'_>) -> Result<StartOidc, Refused> {
    if start.port.is_some() && start.challenge.is_none() {
        return Err(fields.refuse("challenge", Rule::Required, "is required together with port"));
    }
    Ok(start)
}

request! {
    /// The parameters of the identity provider, which may send more.
    #[derive(Debug)]
    pub struct OidcCallback as "OidcCallback" {
        /// The code of the sign-in.
        code: Option<String> = optional("code", rule::text(rule::bytes(1..=4096))),
        /// The state of the sign-in.
        state: Option<String> = optional("state", rule::text(rule::bytes(1..=512))),
        /// The reason why there is no code.
        error: Option<String> = optional("error", rule::text(rule::bytes(0..=256))),
    }
}

request! {
    /// A code of a sign-in by OIDC.
    pub struct ExchangeCode as "ExchangeCode" {
        /// The code; it counts once, for a minute.
        code: String = required("code", secret(rule::text(rule::characters(1..=256)))),
        /// The verifier, if the sign-in began with its challenge.
        verifier: Option<String> = optional("verifier", secret(rule::text(rule::characters(43..=128)))),
    }
}

request! {
    /// The rotation of the key that signs access tokens.
    #[derive(Debug, Clone, Copy)]
    pub struct RotateSigningKey as "RotateSigningKey" {
        /// The time for which tokens and sessions of the old key stay valid, such as 0s, 1h or 7d; by default 24h.
        overlap: Option<Duration> = optional("overlap", overlap()),
    }
}

fn pkce() -> impl Parse<String> {
    let is_base64url = |text: &String| {
        text.len() == 43 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    rule::text(rule::characters(43..=43))
        .only(is_base64url, Rule::Pattern, "must be a SHA-256 in base64url: 43 characters")
        .with(move || json!({"pattern": "^[A-Za-z0-9_-]{43}$"}))
}

request! {
    /// A user to be made.
    pub struct CreateUser as "CreateUser" {
        /// The e-mail for signing in.
        email: Email = required("email", rule::email().then(|email| Email::parse(&email))),
        /// 8 to 128 characters, none of the common ones.
        password: String = required("password", new_password()),
        /// The name, for people; by default the part of the e-mail before the @.
        name: Option<String> = optional("name", name()),
        /// The role.
        role: Role = required("role", role()),
        /// The plan of rate limits; by default `[limits] plan`.
        plan: Option<Tier> = optional("plan", plan()),
        /// True if the password permits nothing but the choice of another one; by default false.
        must_change_password: Option<bool> = optional("mustChangePassword", rule::flag()),
    }
}

request! {
    /// A change of a user; at least one of the members.
    pub struct ChangeUser as "ChangeUser" {
        /// The role.
        role: Option<Role> = optional("role", role()),
        /// The plan of rate limits.
        plan: Option<Tier> = optional("plan", plan()),
        /// The password from now on; all sessions of the user end.
        password: Option<String> = optional("password", new_password()),
        /// True if the user may do nothing but choose another password; by default true with a password.
        must_change_password: Option<bool> = optional("mustChangePassword", rule::flag()),
    }
    check something_changes
}

fn something_changes(change: ChangeUser, fields: &Fields<'_>) -> Result<ChangeUser, Refused> {
    let has_secret = change.password.is_some() || change.must_change_password.is_some();
    if change.role.is_none() && change.plan.is_none() && !has_secret {
        let says = "is missing: role, plan, password or mustChangePassword must be given";
        return Err(fields.refuse("role", Rule::Required, says));
    }
    Ok(change)
}

request! {
    /// A user's own change of the password.
    pub struct ChangePassword as "ChangePassword" {
        /// The password until now.
        current: String = required("current", secret(rule::text(rule::characters(1..=1024)))),
        /// 8 to 128 characters, none of the common ones.
        new: String = required("new", new_password()),
    }
}

request! {
    /// The sessions to end.
    #[derive(Debug, Clone, Copy)]
    pub struct Logout as "Logout" {
        /// All sessions of the user; by default this one alone.
        all: Option<bool> = optional("all", rule::flag()),
    }
}

request! {
    /// The sessions to list.
    #[derive(Debug, Clone, Copy)]
    pub struct ListSessions as "ListSessions" {
        /// Only sessions of this user; by default an admin's list shows all users. Others may name only themselves.
        user_id: Option<UserId> = optional("userId", user_id()),
        /// The page.
        page: Paging = flat(shape::<Paging>()),
    }
}

request! {
    /// The rotation of a key.
    #[derive(Debug, Clone, Copy)]
    pub struct RotateKey as "RotateKey" {
        /// The time for which the old key stays valid, such as 30s, 15m, 1h or 7d; by default none.
        overlap: Option<Duration> = optional("overlap", overlap()),
    }
}

request! {
    /// A key to be made.
    #[derive(Debug, Clone)]
    pub struct CreateKey as "CreateKey" {
        /// The text for people.
        name: String = required("name", name()),
        /// The role.
        role: Role = required("role", role()),
        /// A number of days, `1d` to `36500d`; by default `90d`.
        expires_in: Option<Duration> = optional("expiresIn", lifetime()),
        /// The environment; by default live. A test key is of an operator, a reviewer or a viewer.
        environment: Option<Mode> = optional("environment", rule::one_of(&Mode::ALL, Mode::as_str)),
        /// The plan of rate limits; by default `[limits] plan`.
        plan: Option<Tier> = optional("plan", plan()),
        /// The queues that a worker key may serve; by default every queue. A key with queues reads only the
        /// tasks that it holds.
        queues: Option<Vec<String>> = optional("queues", queues()),
    }
    check role_fits
}

fn role_fits(key: CreateKey, fields: &Fields<'_>) -> Result<CreateKey, Refused> {
    if key.queues.is_some() && key.role != Role::Worker {
        let says = "is for keys of the role worker";
        return Err(fields.refuse("queues", Rule::Enum, says));
    }
    let is_test = key.environment == Some(Mode::Test);
    if is_test && !matches!(key.role, Role::Operator | Role::Reviewer | Role::Viewer) {
        let says = "must be operator, reviewer or viewer for a test key";
        return Err(fields.refuse("role", Rule::Enum, says));
    }
    Ok(key)
}

fn queues() -> impl Parse<Vec<String>> {
    rule::list(1..=MAX_NAMES, queue()).map(|named| {
        let mut queues = Vec::with_capacity(named.len());
        for queue in named {
            if !queues.contains(&queue) {
                queues.push(queue);
            }
        }
        queues
    })
}

pub(super) fn role() -> impl Parse<Role> {
    rule::one_of(&Role::ALL, Role::as_str)
}

pub(super) fn name() -> impl Parse<String> {
    rule::text(rule::characters(1..=MAX_NAME)).then(|name| display_name(&name))
}

fn plan() -> impl Parse<Tier> {
    rule::one_of(&Tier::ALL, Tier::as_str)
}

request! {
    /// The fate of the work of a user who is deleted.
    #[derive(Debug, Clone, Copy)]
    pub struct DeleteUser as "DeleteUser" {
        /// The fate of the user's unfinished work: `cancel`, or the identifier of another user, who answers for it
        /// from now on. Required if there is such work.
        work: Option<WorkLeft> = optional("work", work()),
    }
}

fn work() -> impl Parse<WorkLeft> {
    rule::text(rule::characters(1..=64)).then(move |text| {
        let heir = || text.parse().map(WorkLeft::HandedOver);
        if text == "cancel" { Ok(WorkLeft::ToCancel) } else { heir() }.map_err(|_| {
            let message = "work must be cancel, or the identifier of a user";
            Error::invalid("work", Rule::Format, message)
        })
    })
}

fn user_id() -> impl Parse<UserId> {
    let is_id = |text: &String| text.parse::<UserId>().is_ok();
    rule::text(rule::characters(1..=64))
        .only(is_id, Rule::Format, "must be the id of a user: usr_…")
        .with(move || json!({"pattern": "^usr_[0-9a-hjkmnp-tv-z]{26}$"}))
        .then(|text| text.parse().map_err(|_| Error::Internal))
}

pub(super) fn overlap() -> impl Parse<Duration> {
    rule::text(rule::characters(1..=16))
        .then(|text| credential::overlap(&text))
        .with(move || json!({"pattern": "^(0|[1-9][0-9]{0,9})[smhd]$"}))
}

fn lifetime() -> impl Parse<Duration> {
    rule::text(rule::characters(1..=16))
        .then(|text| credential::lifetime(&text))
        .with(move || json!({"pattern": "^[1-9][0-9]{0,4}d$"}))
}

/// A password, whose length the domain checks.
pub(super) fn new_password() -> impl Parse<String> {
    secret(rule::text(rule::bytes(0..=4096)))
        .with(move || json!({"minLength": 8, "maxLength": 128}))
}

pub(super) fn secret(text: impl Parse<String>) -> impl Parse<String> {
    text.with(move || json!({"format": "password"}))
}

impl CreateKey {
    /// The key in a project.
    #[must_use]
    pub fn within(self, project: Slot) -> NewKey {
        let Self { name, role, expires_in, environment, plan, queues } = self;
        let lifetime = expires_in.unwrap_or(credential::DEFAULT_LIFETIME);
        let environment = project.environment(environment.unwrap_or(Mode::Live));
        let queues = queues.unwrap_or_default();
        NewKey { name, role, environment, tier: plan, queues, lifetime }
    }
}

/// A user.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserBody {
    /// `usr_…`
    #[schema(value_type = String)]
    pub id: Text<UserId>,
    /// The e-mail for signing in.
    pub email: String,
    /// The name.
    pub name: String,
    /// The role.
    pub role: &'static str,
    /// free, pro or enterprise, if it has one of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<&'static str>,
    /// Set while the password must be changed first.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(value_type = Option<bool>)]
    pub password_change_required: bool,
    /// The time of creation.
    pub created_at: Iso,
}

impl From<&User> for UserBody {
    fn from(user: &User) -> Self {
        Self {
            id: Text(user.id),
            email: user.email.as_str().to_owned(),
            name: user.name.clone(),
            role: user.role.as_str(),
            plan: user.tier.map(Tier::as_str),
            password_change_required: user.must_change_password,
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
    /// The token that renews the session, once, at `POST /api/auth/refresh`.
    pub refresh_token: String,
    /// The end of the access token's validity.
    pub expires_at: Iso,
    /// The signed-in user.
    pub user: UserBody,
}

/// The result of a logout.
#[derive(Debug, Serialize, ToSchema)]
pub struct LoggedOut {
    /// The number of ended sessions.
    pub ended: usize,
}

/// An open session as it is listed.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenSessionBody {
    /// `ses_…`
    #[schema(value_type = String)]
    pub id: Text<SessionId>,
    /// The owner.
    #[schema(value_type = String)]
    pub user_id: Text<UserId>,
    /// True if the request was made in this session.
    pub current: bool,
    /// The time of the sign-in.
    pub created_at: Iso,
    /// The time of the last renewal.
    pub refreshed_at: Option<Iso>,
    /// The end of the session, unless it is renewed.
    pub expires_at: Option<Iso>,
}

impl OpenSessionBody {
    /// A session; `current` is the one of the request.
    #[must_use]
    pub fn new(session: &Session, current: Option<SessionId>) -> Self {
        Self {
            id: Text(session.id),
            user_id: Text(session.user),
            current: current == Some(session.id),
            created_at: Iso(session.id.created_at()),
            refreshed_at: session.renewed_at().map(Iso),
            expires_at: session.expires_at().map(Iso),
        }
    }
}

/// The keys that sign access tokens, by name.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SigningKeysBody {
    /// The key that signs: the `kid` of new tokens.
    pub id: String,
    /// Keys that signed before, the latest first.
    pub previous: Vec<PreviousKeyBody>,
}

/// A key that signed access tokens before.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviousKeyBody {
    /// The name.
    pub id: String,
    /// The instant from which its tokens and sessions are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<Iso>,
}

impl From<&SigningKeys> for SigningKeysBody {
    fn from(keys: &SigningKeys) -> Self {
        let shown = |(id, until): &(SigningKeyId, Option<Timestamp>)| PreviousKeyBody {
            id: id.to_string(),
            valid_until: until.map(Iso),
        };
        let previous = keys.previous.iter().map(shown).collect();
        Self { id: keys.current.to_string(), previous }
    }
}

/// A key as it is listed.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeySummaryBody {
    /// `key_…`
    #[schema(value_type = String)]
    pub id: Text<KeyId>,
    /// The name.
    pub name: String,
    /// The role.
    pub role: &'static str,
    /// live or test.
    pub environment: &'static str,
    /// free, pro or enterprise, if it has one of its own.
    pub plan: Option<&'static str>,
    /// The queues that a worker key is bound to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<String>>)]
    pub queues: Vec<String>,
    /// active, expired or revoked.
    pub status: &'static str,
    /// `svc_live_`, `svc_test_` or `svc_worker_`.
    pub prefix: String,
    /// The last four characters of its text.
    pub last4: String,
    /// The creator: the id of a user or a key.
    pub created_by: Option<String>,
    /// The user whose loss of the right to give the key's role ends the key.
    #[schema(value_type = Option<String>)]
    pub user_id: Option<Text<UserId>>,
    /// The time of creation.
    pub created_at: Iso,
    /// The latest end of its validity.
    pub expires_at: Iso,
    /// The instant from which the key is refused; in the future while a rotated key still works.
    pub revoked_at: Option<Iso>,
    /// The time of the last use; up to a minute earlier after a crash.
    pub last_used_at: Option<Iso>,
}

impl KeySummaryBody {
    /// A key as it is at `now`.
    #[must_use]
    pub fn new(known: &KnownKey, now: Timestamp) -> Self {
        let key = &known.key;
        Self {
            id: Text(key.id),
            name: key.name.clone(),
            role: key.role.as_str(),
            environment: key.environment.mode().as_str(),
            plan: key.tier.map(Tier::as_str),
            queues: key.queues.clone(),
            status: key.status(now).as_str(),
            prefix: key.prefix.clone(),
            last4: key.last4.clone(),
            created_by: key.created_by.map(|account| account.to_string()),
            user_id: key.user.map(Text),
            created_at: Iso(key.created_at),
            expires_at: Iso(key.expires_at),
            revoked_at: key.revoked_at.map(Iso),
            last_used_at: known.last_used_at().map(Iso),
        }
    }
}

/// A new key with its text.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyBody {
    /// `key_…`
    #[schema(value_type = String)]
    pub id: Text<KeyId>,
    /// The key's text, returned only here.
    pub key: String,
    /// The name.
    pub name: String,
    /// The role.
    pub role: &'static str,
    /// live or test.
    pub environment: &'static str,
    /// The queues that a worker key is bound to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<String>>)]
    pub queues: Vec<String>,
    /// `svc_live_`, `svc_test_` or `svc_worker_`.
    pub prefix: String,
    /// The last four characters of its text.
    pub last4: String,
    /// The time of creation.
    pub created_at: Iso,
    /// The end of its validity.
    pub expires_at: Iso,
}

impl KeyBody {
    /// The answer to the creation of the key.
    #[must_use]
    pub fn new(key: &ApiKey, secret: &Secret) -> Self {
        Self {
            id: Text(key.id),
            key: secret.expose().to_owned(),
            name: key.name.clone(),
            role: key.role.as_str(),
            environment: key.environment.mode().as_str(),
            queues: key.queues.clone(),
            prefix: key.prefix.clone(),
            last4: key.last4.clone(),
            created_at: Iso(key.created_at),
            expires_at: Iso(key.expires_at),
        }
    }
}
