//! The command line of the program: the commands of [`callboard_cli`], and those that start a server or
//! open its data directory.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use callboard_cli::Access;
use callboard_cli::completions::{self, Shell};
use callboard_cli::early;
use callboard_cli::process::exit;
use callboard_cli::worker::{self, Provider, Worker};
use callboard_domain::Error;
use callboard_domain::template::Template;
use callboard_protocol::document::Format;
use callboard_wire::templates::source_from;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

mod admin;
mod compact;
mod dev;
mod doctor;
mod examples;
mod first;
mod manual;
mod migrate;
mod notify;
mod serve;
mod support;
mod upgrade;

/// The version, with the commit if the build knows it: `0.1.0 (4f1c2d3e5a6b)`.
const VERSION: &str = env!("CALLBOARD_VERSION");

/// A durable, self-hosted orchestrator for prompt-driven work on language models.
#[derive(Debug, Parser)]
#[command(name = "callboard", version = VERSION, about, propagate_version = true)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands of the program.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Try Callboard: start a server, an admin, keys and a worker in one process.
    Dev(Dev),
    /// Start the server.
    Serve(Serve),
    /// Start a worker, which runs tasks on a model.
    Worker(Worker),
    /// Talk to a server.
    #[command(flatten)]
    Client(callboard_cli::Command),
    /// Reset the password of an admin, on a stopped server.
    Admin {
        /// The command.
        #[command(subcommand)]
        command: AdminCommand,
    },
    /// Shrink the data directory of a stopped server.
    Compact(Compact),
    /// Copy the data of a stopped server to an empty `PostgreSQL` database, and compare every row.
    #[command(after_help = "Examples:
  callboard migrate --from ./callboard-data --to postgres://callboard@db.example.com/callboard")]
    Migrate(Migrate),
    /// Write a file for a ticket: versions, settings without secrets, health, metrics, checks and limits.
    ///
    /// The file contains no text of a task and no secret. Run the command on the server, as the user that the server
    /// runs as.
    SupportBundle(SupportBundle),
    /// Show what the next start of this program changes in the data, and whether there is a way back.
    Upgrade(Upgrade),
    /// Print the completion script of a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write the man pages.
    #[command(hide = true)]
    Manual {
        /// Directory of the pages.
        directory: PathBuf,
    },
}

impl Command {
    /// True if the command writes data of a server. The others may start programs of the user's, an editor or
    /// a browser, which keep the user's umask; the files that they write themselves have modes of their own.
    const fn writes_data(&self) -> bool {
        match self {
            Self::Dev(_)
            | Self::Serve(_)
            | Self::Admin { .. }
            | Self::Compact(_)
            | Self::Migrate(_)
            | Self::Client(callboard_cli::Command::Backup(_)) => true,
            Self::Worker(_)
            | Self::Client(_)
            | Self::Completions { .. }
            | Self::Upgrade(_)
            | Self::SupportBundle(_)
            | Self::Manual { .. } => false,
        }
    }
}

/// The options of a server's start.
#[derive(Debug, Clone, Args)]
pub struct Serve {
    /// Address to listen on; port 0 lets the system choose.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Data directory.
    #[arg(long, value_name = "DIRECTORY")]
    pub data_dir: Option<PathBuf>,
    /// A `PostgreSQL` database in place of the embedded store: `postgres://USER@HOST/DATABASE`. The password
    /// can stand in PGPASSWORD.
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// File with the settings; see config/callboard.toml.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Write a commented settings file to the path of --config, or else to callboard.toml, and exit. --listen,
    /// --data-dir and --store become settings in it.
    #[arg(long, conflicts_with = "paused")]
    pub init: bool,
    /// Check the settings, show what a start would change in the data, and exit. The server may be running.
    /// `callboard doctor` checks the machine too.
    #[arg(long, conflicts_with_all = ["init", "paused"])]
    pub check: bool,
    /// Start paused, to look at a restored copy: no webhook or mail is sent, no task is leased, no schedule runs,
    /// and nothing is removed by age.
    #[arg(long)]
    pub paused: bool,
}

/// The commands for the owner of the data.
#[derive(Debug, Clone, Subcommand)]
pub enum AdminCommand {
    /// Give an admin a new password, or make an admin.
    ///
    /// The server must be stopped; on `PostgreSQL`, all nodes. The password comes from
    /// `CALLBOARD_NEW_PASSWORD(_FILE)`; without one, the command makes and prints one that must be changed at the next
    /// sign-in.
    Reset(Reset),
}

/// The admin who gets a new password, and the store.
#[derive(Debug, Clone, Args)]
pub struct Reset {
    /// E-mail of the admin. A user with another role becomes an admin; an unknown user is created. Needed unless
    /// there is exactly one admin.
    #[arg(long)]
    pub email: Option<String>,
    /// Data directory.
    #[arg(long, value_name = "DIRECTORY")]
    pub data_dir: Option<PathBuf>,
    /// The `PostgreSQL` database, if the server runs on one; the password can stand in PGPASSWORD.
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// File with the settings; see config/callboard.toml.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// The store to compact.
#[derive(Debug, Clone, Args)]
pub struct Compact {
    /// Data directory.
    #[arg(long, value_name = "DIRECTORY")]
    pub data_dir: Option<PathBuf>,
    /// File with the settings; see config/callboard.toml.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// The store to look at.
#[derive(Debug, Clone, Args)]
pub struct Upgrade {
    /// Only look, and change nothing. The server may be running.
    #[arg(long, required = true)]
    pub check: bool,
    /// Data directory.
    #[arg(long, value_name = "DIRECTORY")]
    pub data_dir: Option<PathBuf>,
    /// The `PostgreSQL` database, if the server runs on one; the password can stand in PGPASSWORD.
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// File with the settings; see config/callboard.toml.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// The sources of a support bundle, and its destination.
#[derive(Debug, Clone, Args)]
pub struct SupportBundle {
    /// The server, the credentials and the format.
    #[command(flatten)]
    pub access: Access,
    /// File with the server's settings.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The server's data directory.
    #[arg(long, value_name = "DIRECTORY")]
    pub data_dir: Option<PathBuf>,
    /// File with the server's log, whose last 500 lines are taken; keys in them are masked.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// The file to write; by default callboard-support-TIME.json.
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
}

/// The store to copy, and its destination.
#[derive(Debug, Clone, Args)]
pub struct Migrate {
    /// Data directory of the stopped server.
    #[arg(long, value_name = "DIRECTORY")]
    pub from: PathBuf,
    /// The database; the password can stand in PGPASSWORD.
    #[arg(long, value_name = "URL")]
    pub to: String,
    /// File with the settings; see config/callboard.toml.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// The options of a trial.
#[derive(Debug, Clone, Args)]
pub struct Dev {
    /// The server.
    #[command(flatten)]
    pub serve: Serve,
    /// Provider that runs the model.
    #[command(flatten)]
    pub provider: Provider,
    /// Model of tasks that name none.
    #[arg(long)]
    pub model: Option<String>,
    /// Use the simulated model.
    #[arg(long)]
    pub simulated: bool,
    /// Prompt of the first task; empty for no first task.
    #[arg(long, default_value = "Name three uses of a message queue, one short line each.")]
    pub first_prompt: String,
}

/// The definition of the command line, with examples in each command's help.
#[must_use]
pub fn command() -> clap::Command {
    examples::added(Cli::command()).after_help(
        "--server, --api-key-file, --output and --quiet may stand before or after the command.",
    )
}

/// Reads the words that the program was called with; on a mistake, prints it and ends the process.
#[must_use]
pub fn read(line: impl IntoIterator<Item = OsString>) -> Cli {
    let matches = command().get_matches_from(early::moved(line));
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Runs a command. Returns the exit code.
#[must_use]
pub fn run(cli: Cli) -> u8 {
    if cli.command.writes_data() {
        // Only the owner may read what is written, under any umask.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    }
    match cli.command {
        Command::Dev(dev) => dev::run(dev),
        Command::Serve(serve) => serve::run(&serve),
        Command::Worker(worker) => exit(serve::begin().and_then(|()| worker::run(worker))),
        Command::Client(callboard_cli::Command::Doctor(asked)) => doctor::run(*asked),
        Command::Client(command) => callboard_cli::run(command, validate),
        Command::Admin { command } => exit(admin::run(command)),
        Command::Compact(asked) => exit(compact::run(asked)),
        Command::Migrate(asked) => exit(migrate::run(asked)),
        Command::SupportBundle(asked) => exit(support::run(asked)),
        Command::Upgrade(asked) => exit(upgrade::run(asked)),
        Command::Completions { shell } => completions::run(shell),
        Command::Manual { directory } => exit(manual::run(&directory)),
    }
}

/// The server's check of a template.
fn validate(text: &[u8], format: Format, env_allow: &[String]) -> Result<Template, Error> {
    let source = source_from(text, format)?;
    Template::compile(source, env_allow).map_err(Error::InvalidDefinition)
}
