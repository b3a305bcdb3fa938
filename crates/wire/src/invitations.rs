//! Invitations and forgotten passwords on the wire (docs/reference/accounts.md).

use std::time::Duration;

use callboard_domain::access::{Account, Role};
use callboard_domain::account::Email;
use callboard_domain::credential::Secret;
use callboard_domain::credential::invitation::{self, DEFAULT_LIFETIME, Invitation};
use callboard_domain::id::InvitationId;
use callboard_runtime::accounts::NewInvitation;
use serde::Serialize;
use serde_json::json;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::accounts::{name, new_password, role, secret};
use super::common::{Iso, Text};
use super::read::rule::{self, Parse};
use crate::request;

request! {
    /// An invitation to be made.
    #[derive(Debug, Clone)]
    pub struct CreateInvitation as "CreateInvitation" {
        /// The e-mail of the invited person; by default the person chooses one.
        email: Option<Email> = optional("email", email()),
        /// The name of the person, who may give another one.
        name: Option<String> = optional("name", name()),
        /// The role of the account.
        role: Role = required("role", role()),
        /// A number of days, `1d` to `30d`; by default `7d`.
        expires_in: Option<Duration> = optional("expiresIn", lifetime()),
    }
}

request! {
    /// The token of an invitation.
    pub struct PreviewInvitation as "PreviewInvitation" {
        /// The token at the end of the link.
        token: String = required("token", token()),
    }
}

request! {
    /// The person who accepts an invitation.
    pub struct AcceptInvitation as "AcceptInvitation" {
        /// The token at the end of the link.
        token: String = required("token", token()),
        /// 8 to 128 characters, none of the common ones.
        password: String = required("password", new_password()),
        /// The e-mail for signing in; only where the invitation is to no address.
        email: Option<Email> = optional("email", email()),
        /// The name, for people; by default the invitation's.
        name: Option<String> = optional("name", name()),
    }
}

request! {
    /// A user who has forgotten the password.
    #[derive(Debug, Clone)]
    pub struct ForgottenPassword as "ForgottenPassword" {
        /// The e-mail of the user.
        email: Email = required("email", email()),
    }
}

request! {
    /// Another password, by the link of a mail.
    pub struct ResetPassword as "ResetPassword" {
        /// The token at the end of the link.
        token: String = required("token", token()),
        /// 8 to 128 characters, none of the common ones.
        password: String = required("password", new_password()),
    }
}

fn email() -> impl Parse<Email> {
    rule::email().then(|email| Email::parse(&email))
}

fn token() -> impl Parse<String> {
    secret(rule::text(rule::characters(1..=256)))
}

fn lifetime() -> impl Parse<Duration> {
    rule::text(rule::characters(1..=16))
        .then(|text| invitation::lifetime(&text))
        .with(move || json!({"pattern": "^[1-9][0-9]?d$"}))
}

impl From<CreateInvitation> for NewInvitation {
    fn from(asked: CreateInvitation) -> Self {
        let CreateInvitation { email, name, role, expires_in } = asked;
        Self { email, name, role, lifetime: expires_in.unwrap_or(DEFAULT_LIFETIME) }
    }
}

/// An open invitation.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvitationBody {
    /// `inv_…`
    #[schema(value_type = String)]
    id: Text<InvitationId>,
    /// The e-mail of the invited person.
    email: Option<String>,
    /// The name of the person.
    name: Option<String>,
    /// The role of the account.
    role: &'static str,
    /// The creator: the id of a user or a key.
    created_by: Option<String>,
    /// The time of creation.
    created_at: Iso,
    /// The end of its validity.
    expires_at: Iso,
}

impl From<&Invitation> for InvitationBody {
    fn from(open: &Invitation) -> Self {
        Self {
            id: Text(open.id),
            email: open.email.as_ref().map(Email::to_string),
            name: open.name.clone(),
            role: open.role.as_str(),
            created_by: open.created_by.as_ref().map(Account::to_string),
            created_at: Iso(open.id.created_at()),
            expires_at: Iso(open.expires_at),
        }
    }
}

/// A new invitation with its link.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewInvitationBody {
    /// The invitation.
    #[serde(flatten)]
    invitation: InvitationBody,
    /// The address for the invited person, returned only here.
    url: String,
    /// The token alone.
    token: String,
    /// True if the server sends the link to the e-mail of the invitation.
    mailed: bool,
}

impl NewInvitationBody {
    /// The invitation whose link begins with `page`.
    #[must_use]
    pub fn new(open: &Invitation, secret: &Secret, page: &str, mailed: bool) -> Self {
        let token = secret.expose().to_owned();
        Self { invitation: open.into(), url: format!("{page}#invite={token}"), token, mailed }
    }

    /// The address for the invited person.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

/// An invitation as the invited person sees it.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvitationPreviewBody {
    /// The e-mail with which the account signs in; without it the person chooses one.
    email: Option<String>,
    /// The name, unless the person gives another one.
    name: Option<String>,
    /// The role of the account.
    role: &'static str,
    /// The end of its validity.
    expires_at: Iso,
}

impl From<&Invitation> for InvitationPreviewBody {
    fn from(open: &Invitation) -> Self {
        Self {
            email: open.email.as_ref().map(Email::to_string),
            name: open.name.clone(),
            role: open.role.as_str(),
            expires_at: Iso(open.expires_at),
        }
    }
}

/// The answer to a forgotten password, which is the same for every e-mail.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForgottenBody {
    /// True: if there is such a user, a mail with a link is on its way.
    accepted: bool,
}

impl ForgottenBody {
    /// The one answer.
    pub const ACCEPTED: Self = Self { accepted: true };
}
