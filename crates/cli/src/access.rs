//! The shared options of all client commands: the server, the credentials, the format.

use std::path::PathBuf;

use callboard_client::{Client, Credential, Retry, Server, Session};
use clap::{Args, Subcommand};

use super::failure::Failure;
use super::output::{Output, status_line};
use super::secret;
use callboard_client::logins::{Store, Stored};

const DEFAULT_SERVER: &str = "http://127.0.0.1:8080";

/// The heading of the options that all client commands share.
pub(super) const HEADING: &str = "Server and output";

/// The server, the credentials and the format of the data.
#[derive(Debug, Clone, Args)]
pub struct Access {
    /// Server; default: the server of the last login, else <http://127.0.0.1:8080>.
    #[arg(
        long,
        env = "CALLBOARD_SERVER",
        hide_env_values = true,
        value_name = "URL",
        global = true,
        help_heading = HEADING
    )]
    pub server: Option<String>,
    /// File with an API key; default: `CALLBOARD_API_KEY`, `CALLBOARD_API_KEY_FILE`, the stored login.
    #[arg(long, value_name = "FILE", global = true, help_heading = HEADING)]
    pub api_key_file: Option<PathBuf>,
    /// Project, by name or id; default: `default`. An API key has a project of its own.
    #[arg(
        long,
        env = "CALLBOARD_PROJECT",
        hide_env_values = true,
        value_name = "PROJECT",
        global = true,
        help_heading = HEADING
    )]
    pub project: Option<String>,
    /// Cell whose audit log, backups, nodes or keys are meant; default: the project's cell, else home.
    #[arg(
        long,
        env = "CALLBOARD_CELL",
        hide_env_values = true,
        value_name = "CELL",
        global = true,
        help_heading = HEADING
    )]
    pub cell: Option<String>,
    /// The format of the data.
    #[command(flatten)]
    pub output: Output,
}

/// A group of commands that talk to a server.
#[derive(Debug, Clone, Args)]
pub struct Remote<C: Subcommand> {
    /// The server, the credentials and the format of the data.
    #[command(flatten)]
    pub access: Access,
    /// The command.
    #[command(subcommand)]
    pub command: C,
}

impl Access {
    /// A client of the server, with credentials if there are any.
    pub(super) fn client(&self) -> Result<Client, Failure> {
        let (server, credential) = self.credential()?;
        self.client_of(server, credential)
    }

    /// A client of the server with credentials; `None` without any.
    pub(super) fn known_client(&self) -> Result<Option<Client>, Failure> {
        match self.credential()? {
            (_, Credential::None) => Ok(None),
            (server, credential) => self.client_of(server, credential).map(Some),
        }
    }

    fn credential(&self) -> Result<(Server, Credential), Failure> {
        let store = Store::of_user();
        let server = self.address(store.as_ref().ok())?;
        let credential = match secret::api_key(self.api_key_file.as_deref())? {
            Some(key) => Credential::Key(key),
            None => match store?.read()?.login(&server.to_string()) {
                Some(login) => {
                    let store = Stored::new(Store::of_user()?, server.to_string());
                    Credential::Session(Box::new(Session::stored(login, Box::new(store))))
                }
                None => Credential::None,
            },
        };
        Ok((server, credential))
    }

    fn client_of(&self, server: Server, credential: Credential) -> Result<Client, Failure> {
        let client = Client::new(server, credential)?.on_retry(tell_retry);
        let client = match self.cell.as_deref().filter(|cell| !cell.is_empty()) {
            Some(cell) => client.in_cell(cell)?,
            None => client,
        };
        match self.project.as_deref().filter(|project| !project.is_empty()) {
            Some(project) => Ok(client.in_project(project)?),
            None => Ok(client),
        }
    }

    /// A client with the stored login of the server, in spite of a key; `None` without one.
    pub(super) fn stored_client(&self, store: Store) -> Result<Option<Client>, Failure> {
        let server = self.address(Some(&store))?;
        let Some(login) = store.read()?.login(&server.to_string()) else { return Ok(None) };
        let stored = Stored::new(store, server.to_string());
        let session = Session::stored(login, Box::new(stored));
        let client = Client::new(server, Credential::Session(Box::new(session)))?;
        Ok(Some(client.on_retry(tell_retry)))
    }

    /// The server to talk to.
    pub(super) fn address(&self, store: Option<&Store>) -> Result<Server, Failure> {
        if let Some(given) = self.server.as_deref().filter(|given| !given.is_empty()) {
            return Ok(Server::parse(given)?);
        }
        let last = store.map(Store::read).transpose()?.and_then(|logins| logins.current);
        Ok(Server::parse(last.as_deref().unwrap_or(DEFAULT_SERVER))?)
    }
}

/// Reports on standard error that a call is repeated.
pub(super) fn tell_retry(Retry { server, status, wait }: Retry<'_>) {
    status_line(&format!("{server} answered {status}: trying again in {wait:?}"));
}
