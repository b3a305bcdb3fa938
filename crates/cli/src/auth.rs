//! `callboard auth`: signing in once, so that later commands need no key.

use callboard_client::{Call, Client, Credential, Login};
use clap::Subcommand;
use serde_json::{Value, json};

use super::access::{Access, Remote, tell_retry};
use super::failure::Failure;
use super::login::Store;
use super::output::{details, note};
use super::secret;

/// What to do about the stored login.
#[derive(Debug, Clone, Subcommand)]
pub enum Auth {
    /// Sign in; the password comes from `CALLBOARD_PASSWORD(_FILE)`, the terminal or standard input.
    Login {
        /// Who signs in.
        #[arg(long)]
        email: String,
    },
    /// End the stored login, at the server too.
    Logout {
        /// All sessions of the user, on other machines too.
        #[arg(long)]
        all: bool,
    },
    /// Change the own password; the current one comes from `CALLBOARD_PASSWORD(_FILE)` or the terminal, the
    /// new one from `CALLBOARD_NEW_PASSWORD(_FILE)` or the terminal.
    Password,
    /// Say who is signed in, and whether the server agrees.
    Status,
}

/// Does it.
pub(super) async fn run(Remote { access, command }: Remote<Auth>) -> Result<(), Failure> {
    match command {
        Auth::Login { email } => login(&access, &email).await,
        Auth::Logout { all } => logout(&access, all).await,
        Auth::Password => password(&access).await,
        Auth::Status => status(&access).await,
    }
}

async fn login(access: &Access, email: &str) -> Result<(), Failure> {
    let store = Store::of_user()?;
    let client = Client::new(access.address(Some(&store))?, Credential::None)?;
    let client = client.on_retry(tell_retry);
    let server = client.server();
    if !server.is_local() && !server.is_encrypted() {
        note(&format!("warning: the password travels to {server} unencrypted"));
    }
    let password = secret::password("CALLBOARD_PASSWORD", "Password").await?;
    let login = client.log_in(email, &password).await?;
    let server = server.to_string();
    let lock = store.lock().await?;
    store.change(&lock, |logins| logins.keep(&server, login.clone()))?;
    drop(lock);
    let known = known(&server, &login);
    access.output.item(&known, shown)
}

async fn password(access: &Access) -> Result<(), Failure> {
    let client = access.stored_client(Store::of_user()?)?.ok_or_else(|| {
        Failure::Usage("sign in first: callboard auth login --email …".to_owned())
    })?;
    let current = secret::password("CALLBOARD_PASSWORD", "Current password").await?;
    let new = secret::password("CALLBOARD_NEW_PASSWORD", "New password").await?;
    let body = json!({"current": current.expose(), "new": new.expose()});
    client.data(Call::post(&["auth", "password"]).json(&body)).await?;
    note("the password is changed, and all other sessions are ended");
    Ok(())
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
        (false, _) => note(&format!("there was no login at {server}")),
        (true, Ok(())) => note(&format!("the login at {server} is ended")),
        // The tokens are gone from here in any case.
        (true, Err(error)) => {
            let error = Failure::from(error);
            note(&format!(
                "the login at {server} is forgotten here and not ended there: {}",
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
    // A token that was about to end is another one by now.
    let mut known = match client.credential() {
        Credential::Session(session) => known(&server, &session.login().await),
        Credential::Key(_) => json!({"server": server, "signedInWith": "API key"}),
        Credential::None => return probe,
    };
    known["accepted"] = Value::Bool(probe.is_ok());
    access.output.item(&known, shown)?;
    probe
}

/// Whether the credentials are taken: what every role may read, as little of it as possible.
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
