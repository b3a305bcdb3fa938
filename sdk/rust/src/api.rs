//! Every operation of the HTTP interface as a method, with types.
//!
//! ```no_run
//! use callboard_client::types::CreateTask;
//! use callboard_client::{Callboard, Error};
//!
//! # async fn example() -> Result<(), Error> {
//! let cb = Callboard::new()?;
//! let answer = cb.tasks().run("Name three uses of a message queue.").await?;
//! let short = CreateTask::new().prompt("Name one.").max_tokens(80);
//! let task = cb.tasks().submit(short).await?.wait().await?;
//! # drop((answer, task));
//! # Ok(())
//! # }
//! ```
//!
//! The methods that are one call each (`calls.rs`) and the shapes (`types.rs`) are generated; the rest is here.
//! Deliberately absent: the routes of a browser, and OpenAI's interface, which has libraries of its own.

// Generated: the words are the server's, and so are the numbers of members.
#[allow(clippy::pedantic, rustdoc::bare_urls, reason = "the file is generated")]
mod calls;
mod events;
mod executions;
mod groups;
mod import;
mod live;
mod pages;
mod tasks;
mod text;
#[allow(clippy::pedantic, rustdoc::bare_urls, reason = "the file is generated")]
pub mod types;
mod whole;

use std::time::Duration;

use callboard_common::secret::Secret;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

use crate::{Call, Client, Credential, Error, Server};

pub use events::EventLog;
pub use groups::*;
pub use import::Imported;
pub use live::{Following, Item, Live};
pub use pages::Pages;
pub use tasks::Pieces;
pub use whole::Rows;

const DEFAULT_SERVER: &str = "http://127.0.0.1:8080";
/// The usual time for which a server that is away is borne.
const PATIENCE: Duration = Duration::from_mins(2);
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A client of one server. Clones share its connections and its login.
///
/// A call that is safe to repeat (a read, or one with an idempotency key, which the library makes where there
/// is none) is repeated while the server is away, for the time of [`Callboard::patience`]; waits and streams go
/// on by themselves.
#[derive(Debug, Clone)]
pub struct Callboard {
    client: Client,
    patience: Duration,
    key: Option<String>,
}

impl Callboard {
    /// The server and the credentials of the environment, in the order of the command line: `CALLBOARD_SERVER`,
    /// or the server of the last `callboard auth login`, or `http://127.0.0.1:8080`; `CALLBOARD_API_KEY`, or the
    /// key in the file `CALLBOARD_API_KEY_FILE`, or the stored login, which the library renews.
    ///
    /// # Errors
    /// An address, a key or a file cannot be used.
    pub fn new() -> Result<Self, Error> {
        let given = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let (server, stored) = stored(given("CALLBOARD_SERVER"))?;
        let file = || given("CALLBOARD_API_KEY_FILE").map(|path| key_of(&path)).transpose();
        let key = match given("CALLBOARD_API_KEY") {
            Some(key) => Some(key),
            None => file()?,
        };
        let credential = match key {
            Some(key) => Credential::Key(Secret::new(key.trim().to_owned())),
            None => stored,
        };
        Ok(Self::from(Client::new(server, credential)?))
    }

    /// A client of the server at this address, with an API key.
    ///
    /// # Errors
    /// The address or the key cannot be used.
    pub fn with_key(server: &str, key: impl Into<String>) -> Result<Self, Error> {
        let key = Credential::Key(Secret::new(key.into().trim().to_owned()));
        Ok(Self::from(Client::new(Server::parse(server)?, key)?))
    }

    /// The time for which a server that is away is borne; by default 2 minutes.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The same client, whose calls that take an idempotency key carry this one: the same call with the same key
    /// is done once, for 24 hours.
    ///
    /// ```no_run
    /// # async fn example(cb: callboard_client::Callboard) -> Result<(), callboard_client::Error> {
    /// cb.keyed("order-7").tasks().submit("Summarise order 7.").await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn keyed(&self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self.clone() }
    }

    /// The client of single calls, for a call that the library has no method for.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Signs in with a password, and returns a client with the login, which lives in this process alone.
    ///
    /// # Errors
    /// [`Error::NotSignedIn`] for a wrong password.
    pub async fn log_in(&self, email: &str, password: &str) -> Result<Self, Error> {
        let login = self.client.log_in(email, &Secret::new(password.to_owned())).await?;
        let session = Credential::Session(Box::new(crate::Session::new(login)));
        let client = Client::new(self.client.server().clone(), session)?;
        Ok(Self { client, ..self.clone() })
    }

    /// Sends a call, and again while that is safe and may help.
    pub(crate) async fn sent(&self, call: &Call<'_>) -> Result<crate::Answer, Error> {
        let mut outage = Outage::new(self.patience);
        loop {
            match self.client.send(call).await {
                Err(error) if call.is_safe_to_repeat() => outage.pause(error).await?,
                other => return other,
            }
        }
    }

    /// Sends a call, with an idempotency key if it takes one, and reads its data.
    pub(crate) async fn one<T: DeserializeOwned>(
        &self,
        call: Call<'_>,
        keyed: bool,
    ) -> Result<T, Error> {
        let call = if keyed { call.idempotency_key(Some(&self.fresh_key()))? } else { call };
        let answer = self.sent(&call).await?;
        self.read(answer.data)
    }

    pub(crate) async fn live<T: Item>(
        &self,
        call: Call<'_>,
        keyed: bool,
    ) -> Result<Live<T>, Error> {
        Ok(Live::new(self, self.one(call, keyed).await?))
    }

    pub(crate) fn read<T: DeserializeOwned>(&self, data: Value) -> Result<T, Error> {
        serde_json::from_value(data).map_err(|error| self.unexpected(&error))
    }

    pub(crate) fn unexpected(&self, problem: &dyn std::fmt::Display) -> Error {
        let problem = format!("in another form than this version knows: {problem}");
        Error::UnexpectedAnswer { server: self.client.server().to_string(), problem }
    }

    /// The given idempotency key, or one that no other call has.
    pub(crate) fn fresh_key(&self) -> String {
        self.key.clone().unwrap_or_else(random_key)
    }
}

impl From<Client> for Callboard {
    fn from(client: Client) -> Self {
        Self { client, patience: PATIENCE, key: None }
    }
}

impl AsRef<Client> for Callboard {
    fn as_ref(&self) -> &Client {
        &self.client
    }
}

pub(crate) fn random_key() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// The JSON of a request.
fn json(body: &impl Serialize) -> Value {
    serde_json::to_value(body).expect("the shapes of requests have a JSON form")
}

fn key_of(path: &str) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|error| {
        Error::Setup(format!("the key in CALLBOARD_API_KEY_FILE cannot be read: {path}: {error}"))
    })
}

/// The server, and the login that the command line has stored for it.
#[cfg(unix)]
fn stored(given: Option<String>) -> Result<(Server, Credential), Error> {
    use crate::logins::{Store, Stored};
    // Without a home there is no login.
    let Ok(store) = Store::of_user() else { return unstored(given.as_deref()) };
    let logins = store.read().map_err(Error::Store)?;
    let address = given.or_else(|| logins.current.clone());
    let server = Server::parse(address.as_deref().unwrap_or(DEFAULT_SERVER))?;
    let credential = logins.login(&server.to_string()).map_or(Credential::None, |login| {
        let stored = Box::new(Stored::new(store, server.to_string()));
        Credential::Session(Box::new(crate::Session::stored(login, stored)))
    });
    Ok((server, credential))
}

#[cfg(not(unix))]
fn stored(given: Option<String>) -> Result<(Server, Credential), Error> {
    unstored(given.as_deref())
}

fn unstored(given: Option<&str>) -> Result<(Server, Credential), Error> {
    Ok((Server::parse(given.unwrap_or(DEFAULT_SERVER))?, Credential::None))
}

/// A time in which the server is away.
pub(crate) struct Outage {
    patience: Duration,
    since: Option<Instant>,
    pause: Duration,
}

impl Outage {
    pub(crate) const fn new(patience: Duration) -> Self {
        Self { patience, since: None, pause: FIRST_PAUSE }
    }

    /// Notes an answer.
    pub(crate) fn over(&mut self) {
        *self = Self::new(self.patience);
    }

    /// Waits before another try; the error, if it is for good or has lasted too long.
    pub(crate) async fn pause(&mut self, error: Error) -> Result<(), Error> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if !error.is_transient() || since.elapsed() > self.patience {
            return Err(error);
        }
        // Shorter by up to a half, so that the clients of a server that comes back do not all come at once.
        let wait = self.pause.mul_f64(1.0 - rand::random::<f64>() / 2.0);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        tokio::time::sleep(wait).await;
        Ok(())
    }
}
