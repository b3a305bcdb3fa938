//! Sessions of browsers on the wire (docs/reference/accounts.md).

use callboard_domain::Timestamp;
use callboard_domain::access::{Action, Caller};
use callboard_domain::account::User;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::accounts::UserBody;
use super::common::Iso;
use super::read::rule::{self, Parse};
use crate::request;

request! {
    /// The token of a sign-in link.
    pub struct ExchangeLink as "ExchangeLink" {
        /// The part of the link after `#link=`; the exchange counts once, for an hour.
        token: String = required("token", rule::text(rule::characters(1..=256)).with(move || json!({"format": "password"}))),
    }
}

request! {
    /// A sign-in of a program that the identity provider has granted and the user has not.
    pub struct ProgramTicket as "ProgramTicket" {
        /// The part of the address after `#program=`.
        ticket: String = required("ticket", ticket()),
    }
}

request! {
    /// The user's answer to a program that wants to sign in.
    pub struct AnswerProgram as "AnswerProgram" {
        /// The part of the address after `#program=`; it counts once, for ten minutes.
        ticket: String = required("ticket", ticket()),
        /// True signs the program in.
        allow: bool = required("allow", rule::flag()),
    }
}

fn ticket() -> impl Parse<String> {
    rule::text(rule::characters(1..=256)).with(move || json!({"format": "password"}))
}

/// The user whom a link signs in.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LinkPreviewBody {
    /// The e-mail of the user.
    email: String,
    /// The name of the user.
    name: String,
    /// The end of the link's validity.
    expires_at: Iso,
}

impl LinkPreviewBody {
    /// The user of a link that counts until `expires_at`.
    #[must_use]
    pub fn new(user: &User, expires_at: Timestamp) -> Self {
        let (email, name) = (user.email.as_str().to_owned(), user.name.clone());
        Self { email, name, expires_at: Iso(expires_at) }
    }
}

/// A program that wants to sign in.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProgramBody {
    /// The e-mail of the user as whom it wants to sign in.
    email: String,
    /// The name of the user.
    name: String,
    /// The code that the program shows: three groups of four characters.
    comparison: String,
    /// The port on 127.0.0.1 where it waits.
    port: u16,
}

impl ProgramBody {
    /// The program that waits at this port with this comparison code.
    #[must_use]
    pub fn new(user: &User, comparison: String, port: u16) -> Self {
        let (email, name) = (user.email.as_str().to_owned(), user.name.clone());
        Self { email, name, comparison, port }
    }
}

/// The address at which the program waits for the answer.
#[derive(Debug, Serialize, ToSchema)]
pub struct ProgramAnswerBody {
    /// The address to go to.
    pub location: String,
}

/// The user of a session, with the permitted actions.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhoBody {
    /// The user.
    user: UserBody,
    /// The permitted actions, as the routes name them in `x-callboard-action`, such as `tasks: create`.
    actions: Vec<&'static str>,
    /// The latest end of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Iso>,
}

impl WhoBody {
    /// A user, with the actions that its session permits.
    #[must_use]
    pub fn of(user: &User, caller: &Caller) -> Self {
        let actions = Action::ALL.into_iter().filter(|action| caller.may(*action).is_ok());
        Self {
            user: user.into(),
            actions: actions.map(Action::as_str).collect(),
            expires_at: caller.expires_at.map(Iso),
        }
    }
}

/// The ways to sign in.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "each is a member of the answer")]
pub struct MethodsBody {
    /// True if users can sign in by e-mail and password.
    pub password: bool,
    /// True if users can sign in at an identity provider.
    pub oidc: bool,
    /// True if there is no admin yet: the setup link makes the first one.
    pub setup: bool,
    /// True if a user who has forgotten the password gets a link by mail.
    pub password_reset: bool,
}

/// A link that signs in.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LinkBody {
    /// The address to open in a browser.
    url: String,
    /// The token alone.
    token: String,
    /// The end of its validity.
    expires_at: Iso,
}

impl LinkBody {
    /// A link with this token.
    #[must_use]
    pub const fn new(url: String, token: String, expires_at: Timestamp) -> Self {
        Self { url, token, expires_at: Iso(expires_at) }
    }

    /// The address to open.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}
