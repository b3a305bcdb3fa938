//! `callboard auth`: signing in once, so that later commands need no key.

use callboard_client::{Call, Client, Credential, Login};
use clap::Subcommand;
use serde_json::{Value, json};

use super::access::{Access, Remote, tell_retry};
use super::failure::Failure;
use super::input::Body;
use super::output::{details, status_line};
use super::secret;
use callboard_client::logins::Store;

mod browser;

/// The commands on the stored login.
#[derive(Debug, Clone, Subcommand)]
pub enum Auth {
    /// Sign in.
    ///
    /// The password comes from `CALLBOARD_PASSWORD(_FILE)`, the terminal or standard input.
    Login {
        /// E-mail of the user.
        #[arg(long, required_unless_present = "oidc")]
        email: Option<String>,
        /// Sign in at the identity provider, in a browser on this machine.
        #[arg(long, conflicts_with = "email")]
        oidc: bool,
    },
    /// Create the first admin, and sign in.
    ///
    /// The token of the setup link comes from `CALLBOARD_SETUP_TOKEN(_FILE)`, the password from
    /// `CALLBOARD_PASSWORD(_FILE)`; without these, both come from the terminal or standard input.
    Setup {
        /// E-mail of the admin.
        #[arg(long)]
        email: String,
        /// Name of the admin; by default the part of the e-mail before the @.
        #[arg(long)]
        name: Option<String>,
    },
    /// End the stored login, here and at the server.
    Logout {
        /// End all sessions of the user, on other machines too.
        #[arg(long)]
        all: bool,
    },
    /// Change your password.
    ///
    /// The current password comes from `CALLBOARD_PASSWORD(_FILE)`, the new one from
    /// `CALLBOARD_NEW_PASSWORD(_FILE)`; without these, both come from the terminal.
    Password,
    /// Create a new key that signs access tokens; tokens and sessions of the old one end after the overlap.
    RotateSigningKey {
        /// Time for which the old key stays valid: 0s, 1h, 24h, 7d.
        #[arg(long, default_value = "24h")]
        overlap: String,
    },
    /// Print a link that signs a browser in to the dashboard as you; valid once, within an hour.
    Link,
    /// Show the signed-in user, and check the login at the server.
    Status,
}

/// Runs the command.
pub(super) async fn run(Remote { access, command }: Remote<Auth>) -> Result<(), Failure> {
    match command {
        Auth::Login { email: Some(email), .. } => login(&access, &email).await,
        Auth::Login { email: None, .. } => browser::login(&access).await,
        Auth::Setup { email, name } => setup(&access, &email, name).await,
        Auth::RotateSigningKey { overlap } => rotate_signing_key(&access, &overlap).await,
        Auth::Logout { all } => logout(&access, all).await,
        Auth::Password => password(&access).await,
        Auth::Link => link(&access).await,
        Auth::Status => status(&access).await,
    }
}

async fn login(access: &Access, email: &str) -> Result<(), Failure> {
    let (store, client) = anonymous(access)?;
    let password = secret::password("CALLBOARD_PASSWORD", "Password").await?;
    let login = client.log_in(email, &password).await?;
    keep(access, &store, &client, &login).await
}

async fn setup(access: &Access, email: &str, name: Option<String>) -> Result<(), Failure> {
    let (store, client) = anonymous(access)?;
    let token = secret::password("CALLBOARD_SETUP_TOKEN", "Setup token").await?;
    // The user may enter the whole link.
    let token = token.expose().rsplit("#token=").next().unwrap_or_default();
    let password = secret::password("CALLBOARD_PASSWORD", "Password").await?;
    let body = Body::default()
        .set("token", Some(token))
        .set("email", Some(email))
        .set("password", Some(password.expose()))
        .set("name", name)
        .value();
    let made = client.data(Call::post(&["auth", "setup"]).json(&body)).await?;
    keep(access, &store, &client, &session(&made)?).await
}

async fn rotate_signing_key(access: &Access, overlap: &str) -> Result<(), Failure> {
    let call = Call::post(&["auth", "signing-key", "rotate"]).json(&json!({"overlap": overlap}));
    let keys = access.client()?.data(call).await?;
    access.output.item(&keys, |keys| {
        let mut text = format!("key {} signs from now on", keys["id"].as_str().unwrap_or_default());
        for key in keys["previous"].as_array().into_iter().flatten() {
            let part = |name: &str| key[name].as_str().unwrap_or_default().to_owned();
            text = format!("{text}\nkey {} stays valid until {}", part("id"), part("validUntil"));
        }
        text
    })
}

/// A client without credentials, and the store that keeps its login.
fn anonymous(access: &Access) -> Result<(Store, Client), Failure> {
    let store = Store::of_user()?;
    let client = Client::new(access.address(Some(&store))?, Credential::None)?;
    let server = client.server();
    if !server.is_local() && !server.is_encrypted() {
        status_line(&format!(
            "warning: {server} is not encrypted: passwords and keys can be read on the way"
        ));
    }
    Ok((store, client.on_retry(tell_retry)))
}

/// The login in the server's answer to a sign-in.
fn session(answer: &Value) -> Result<Login, Failure> {
    let strange = || Failure::Other("the server answered without a session".to_owned());
    Login::read(answer).ok_or_else(strange)
}

/// Stores a login, and shows it.
async fn keep(
    access: &Access,
    store: &Store,
    client: &Client,
    login: &Login,
) -> Result<(), Failure> {
    let server = client.server().to_string();
    let lock = store.lock().await?;
    store.change(&lock, |logins| logins.keep(&server, login.clone()))?;
    drop(lock);
    access.output.item(&known(&server, login), shown)
}

async fn password(access: &Access) -> Result<(), Failure> {
    let client = access.stored_client(Store::of_user()?)?.ok_or_else(|| {
        Failure::Usage("sign in first: callboard auth login --email …".to_owned())
    })?;
    let current = secret::password("CALLBOARD_PASSWORD", "Current password").await?;
    let new = secret::password("CALLBOARD_NEW_PASSWORD", "New password").await?;
    let body = json!({"current": current.expose(), "new": new.expose()});
    // A wrong password is answered as a wrong token is.
    let call = Call::post(&["auth", "password"]).json(&body).without_renewal();
    client.data(call).await?;
    status_line("the password was changed; all other sessions have ended");
    Ok(())
}

async fn link(access: &Access) -> Result<(), Failure> {
    let client = access.stored_client(Store::of_user()?)?.ok_or_else(|| {
        Failure::Usage("sign in first: callboard auth login --email …".to_owned())
    })?;
    let link = client.data(Call::post(&["auth", "links"])).await?;
    access.output.item(&link, |link| format!("{}\n", link["url"].as_str().unwrap_or_default()))
}

async fn logout(access: &Access, all: bool) -> Result<(), Failure> {
    let store = Store::of_user()?;
    let server = access.address(Some(&store))?.to_string();
    let ended = match access.stored_client(store.clone())? {
        Some(client) => {
            let call = Call::post(&["auth", "logout"]).json(&json!({"all": all}));
            client.data(call).await.map(drop)
        }
        None => Ok(()),
    };
    let lock = store.lock().await?;
    let mut found = false;
    store.change(&lock, |logins| found = logins.forget(&server))?;
    match (found, ended) {
        (false, _) => status_line(&format!("you were not signed in at {server}")),
        (true, Ok(())) => status_line(&format!("signed out at {server}")),
        // The tokens are removed here in any case.
        (true, Err(error)) => {
            let error = Failure::from(error);
            status_line(&format!(
                "the login was removed from this machine, but {server} has not ended it: {}",
                error.words()
            ));
        }
    }
    Ok(())
}

async fn status(access: &Access) -> Result<(), Failure> {
    let client = access.client()?;
    let server = client.server().to_string();
    let probe = probe(&client).await;
    // The client has replaced a token that was about to end.
    let mut known = match client.credential() {
        Credential::Session(session) => known(&server, &session.login().await),
        Credential::Key(_) => json!({"server": server, "signedInWith": "API key"}),
        Credential::None => return probe,
    };
    known["accepted"] = Value::Bool(probe.is_ok());
    access.output.item(&known, shown)?;
    probe
}

/// Passes if the server takes the credentials: makes the smallest read that every role may make.
pub(super) async fn probe(client: &Client) -> Result<(), Failure> {
    client.page(Call::get(&["tasks"]).query("limit", Some(1))).await?;
    Ok(())
}

fn known(server: &str, login: &Login) -> Value {
    json!({
        "server": server,
        "signedInWith": "login",
        "email": login.email,
        "role": login.role,
        "expiresAt": login.expires_at,
    })
}

fn shown(known: &Value) -> String {
    let fields = [
        ("server", "server"),
        ("signed in with", "signedInWith"),
        ("e-mail", "email"),
        ("role", "role"),
        ("token until", "expiresAt"),
        ("accepted", "accepted"),
    ];
    details(known, &fields, &[])
}
