//! `callboard users`.

use callboard_client::{Call, Client};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::access::Remote;
use super::failure::Failure;
use super::input::{self, Body};
use super::output::{Column, details};
use super::people;
use super::secret;

const COLUMNS: [Column; 7] = [
    ("ID", "id"),
    ("E-MAIL", "email"),
    ("ROLE", "role"),
    ("NAME", "name"),
    ("PLAN", "plan"),
    ("MUST CHANGE", "passwordChangeRequired"),
    ("CREATED", "createdAt"),
];

const INVITATION: [Column; 6] = [
    ("ID", "id"),
    ("E-MAIL", "email"),
    ("ROLE", "role"),
    ("NAME", "name"),
    ("CREATED", "createdAt"),
    ("EXPIRES", "expiresAt"),
];

/// The commands on users.
#[derive(Debug, Clone, Subcommand)]
pub enum Users {
    /// List users, the newest first.
    List {
        /// Items to list, 1 to 100; by default 20.
        #[arg(long)]
        limit: Option<u64>,
        /// Items to skip.
        #[arg(long)]
        offset: Option<u64>,
    },
    /// Create a user.
    ///
    /// The password comes from `CALLBOARD_NEW_PASSWORD(_FILE)`, the terminal or standard input.
    Create(Create),
    /// Invite a person by a link, which is shown only once; the person chooses the password.
    Invite(Invite),
    /// List the open invitations, the newest first.
    Invitations {
        /// Items to list, 1 to 100; by default 20.
        #[arg(long)]
        limit: Option<u64>,
        /// Items to skip.
        #[arg(long)]
        offset: Option<u64>,
    },
    /// Revoke an open invitation.
    Uninvite {
        /// The invitation, by id.
        #[arg(value_name = "INVITATION", value_parser = input::id)]
        id: String,
    },
    /// Change the role of a user.
    #[command(alias = "set-role")]
    Role {
        /// The user, by e-mail or id.
        #[arg(value_name = "USER", value_parser = input::id)]
        id: String,
        /// Role: admin, operator, reviewer, viewer, worker or backup.
        role: String,
    },
    /// Change the rate limit plan of a user.
    Plan {
        /// The user, by e-mail or id.
        #[arg(value_name = "USER", value_parser = input::id)]
        id: String,
        /// Rate limit plan: free, pro or enterprise.
        plan: String,
    },
    /// Set a user's password, which the user must change at the next sign-in.
    ///
    /// The password comes from `CALLBOARD_NEW_PASSWORD(_FILE)`, the terminal or standard input.
    Password {
        /// The user, by e-mail or id.
        #[arg(value_name = "USER", value_parser = input::id)]
        id: String,
    },
    /// Require that a user chooses another password before anything else.
    MustChange {
        /// The user, by e-mail or id.
        #[arg(value_name = "USER", value_parser = input::id)]
        id: String,
    },
    /// Delete a user, with all sessions and keys of the user.
    Delete {
        /// The user, by e-mail or id.
        #[arg(value_name = "USER", value_parser = input::id)]
        id: String,
        /// Cancel the user's unfinished work.
        #[arg(long, conflicts_with = "hand_over_to")]
        cancel_work: bool,
        /// Hand the unfinished work to this user, by e-mail or id.
        #[arg(long, value_name = "USER", value_parser = input::id)]
        hand_over_to: Option<String>,
    },
}

/// The properties of the user.
#[derive(Debug, Clone, Args)]
pub struct Create {
    /// E-mail of the user.
    #[arg(value_name = "EMAIL", required_unless_present = "email", conflicts_with = "email")]
    user: Option<String>,
    /// E-mail of the user, in place of the argument.
    #[arg(long, value_name = "EMAIL")]
    email: Option<String>,
    /// Name of the user; by default the part of the e-mail before the @.
    #[arg(long)]
    name: Option<String>,
    /// Role: admin, operator, reviewer, viewer, worker or backup.
    #[arg(long)]
    role: String,
    /// Rate limit plan: free, pro or enterprise; by default the server's.
    #[arg(long)]
    plan: Option<String>,
    /// Require another password before anything else.
    #[arg(long)]
    must_change_password: bool,
}

/// The properties of the invitation.
#[derive(Debug, Clone, Args)]
pub struct Invite {
    /// E-mail of the person; by default the person enters one.
    #[arg(value_name = "EMAIL", conflicts_with = "email")]
    person: Option<String>,
    /// Role of the account: admin, operator, reviewer, viewer, worker or backup.
    #[arg(long)]
    role: String,
    /// E-mail of the person, in place of the argument.
    #[arg(long, value_name = "EMAIL")]
    email: Option<String>,
    /// Name of the person, who may give another one.
    #[arg(long)]
    name: Option<String>,
    /// Days for which the invitation is valid, 1d to 30d; by default 7d.
    #[arg(long)]
    expires_in: Option<String>,
}

/// Runs the command.
pub(super) async fn run(Remote { access, command }: Remote<Users>) -> Result<(), Failure> {
    let client = access.client()?;
    let user = match command {
        Users::List { limit, offset } => {
            let call = Call::get(&["auth", "users"]).query("limit", limit).query("offset", offset);
            return access.output.list("users", &client.page(call).await?, &COLUMNS);
        }
        Users::Invitations { limit, offset } => {
            let call = Call::get(&["auth", "invitations"]).query("limit", limit);
            let page = client.page(call.query("offset", offset)).await?;
            return access.output.list("invitations", &page, &INVITATION);
        }
        Users::Invite(Invite { person, role, email, name, expires_in }) => {
            let body = Body::default()
                .set("role", Some(role))
                .set("email", person.or(email))
                .set("name", name)
                .set("expiresIn", expires_in)
                .value();
            let made = client.data(Call::post(&["auth", "invitations"]).json(&body)).await?;
            return access.output.item(&made, invited);
        }
        Users::Uninvite { id } => {
            let revoked = client.data(Call::delete(&["auth", "invitations", &id])).await?;
            return access.output.item(&revoked, invited);
        }
        Users::MustChange { id } => {
            change(&client, &id, &json!({"mustChangePassword": true})).await?
        }
        Users::Create(Create { user, email, name, role, plan, must_change_password }) => {
            let email = user.or(email);
            let password =
                secret::password("CALLBOARD_NEW_PASSWORD", "Password of the user").await?;
            let body = Body::default()
                .set("email", email)
                .set("password", Some(password.expose()))
                .set("name", name)
                .set("role", Some(role))
                .set("plan", plan)
                .set("mustChangePassword", must_change_password.then_some(true))
                .value();
            client.data(Call::post(&["auth", "users"]).json(&body)).await?
        }
        Users::Role { id, role } => change(&client, &id, &json!({"role": role})).await?,
        Users::Plan { id, plan } => change(&client, &id, &json!({"plan": plan})).await?,
        Users::Password { id } => {
            let id = people::user(&client, id).await?;
            let password =
                secret::password("CALLBOARD_NEW_PASSWORD", "Password of the user").await?;
            change(&client, &id, &json!({"password": password.expose()})).await?
        }
        Users::Delete { id, cancel_work, hand_over_to } => {
            let id = people::user(&client, id).await?;
            let work = match hand_over_to {
                Some(heir) => Some(people::user(&client, heir).await?),
                None => cancel_work.then(|| "cancel".to_owned()),
            };
            client.data(Call::delete(&["auth", "users", &id]).query("work", work)).await?
        }
    };
    access.output.item(&user, shown)
}

async fn change(client: &Client, user: &str, body: &Value) -> Result<Value, Failure> {
    let id = people::user(client, user.to_owned()).await?;
    Ok(client.data(Call::patch(&["auth", "users", &id]).json(body)).await?)
}

fn invited(open: &Value) -> String {
    let mailed = [("mailed", "mailed")].into_iter().filter(|_| open["mailed"].is_boolean());
    let url = [("url", "url")].into_iter().filter(|_| open["url"].is_string());
    let columns: Vec<_> =
        INVITATION.map(|(_, path)| (path, path)).into_iter().chain(url).chain(mailed).collect();
    details(open, &columns, &[])
}

fn shown(user: &Value) -> String {
    details(user, &COLUMNS.map(|(_, path)| (path, path)), &[])
}
