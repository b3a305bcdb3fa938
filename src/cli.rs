//! The command line: what is asked for, and nothing of how it is done.
//!
//! Deliberately absent: secrets as a flag's value. They come from the environment or from files.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

mod access;
mod auth;
mod bench;
mod compact;
mod dev;
mod doctor;
mod executions;
mod failure;
mod gate;
mod hitl;
mod input;
mod keys;
mod login;
mod output;
mod plans;
mod secret;
mod serve;
mod start;
mod tasks;
mod templates;
mod users;
mod wait;
mod watch;
mod worker;
mod workers;

use access::{Access, Remote};
use failure::Failure;

/// A durable, self-hosted orchestrator for prompt-driven work on language models.
#[derive(Debug, Parser)]
#[command(name = "callboard", version, about, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the program does.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start everything for trying it out: a server, an admin, a key and a worker, in one process.
    Dev(Dev),
    /// Start the server.
    Serve(Serve),
    /// Start a worker, which runs tasks on a model.
    Worker(Worker),
    /// Submit, list, show, cancel tasks, and wait for them.
    Tasks(Remote<tasks::Tasks>),
    /// Create, list, show and execute plans.
    Plans(Remote<plans::Plans>),
    /// List, show, watch, cancel and retry executions.
    Executions(Remote<executions::Executions>),
    /// List, show, validate, publish and deploy templates.
    Templates(Remote<templates::Templates>),
    /// Review outputs that wait for a person: list, show, approve, reject, verify.
    Hitl(Remote<hitl::Hitl>),
    /// Sign in and out.
    Auth(Remote<auth::Auth>),
    /// Make API keys.
    Keys(Remote<keys::Keys>),
    /// List and make users, and give them roles.
    Users(Remote<users::Users>),
    /// List and drain workers.
    Workers(Remote<workers::Workers>),
    /// Find out what stands between this machine and a server that works.
    Doctor(Access),
    /// Make the data directory as small as what is in it. The server must not be running.
    Compact(Compact),
    /// Measure how fast this program is on this machine, beside what the machine can do.
    Bench(bench::Bench),
    /// What a measurement is held against; `bench` starts it.
    #[command(hide = true)]
    BenchFloor(bench::BenchFloor),
    /// Write what a shell needs to complete commands, to standard output.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// How the server is started.
#[derive(Debug, Clone, Args)]
pub struct Serve {
    /// Where to listen; port 0 lets the system choose.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Where everything is kept.
    #[arg(long, value_name = "DIRECTORY")]
    pub data_dir: Option<PathBuf>,
    /// The settings; see config/callboard.toml.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// What is compacted.
#[derive(Debug, Clone, Args)]
pub struct Compact {
    /// Where everything is kept.
    #[arg(long, value_name = "DIRECTORY")]
    pub data_dir: Option<PathBuf>,
    /// The settings; see config/callboard.toml.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Which models a worker runs, and how.
#[derive(Debug, Clone, Args)]
pub struct Provider {
    /// Who runs the model.
    #[arg(long, value_enum, default_value_t = ProviderName::Openai)]
    pub provider: ProviderName,
    /// Where the provider is, such as <http://127.0.0.1:11434/v1>.
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// How many tasks run at once.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub concurrency: u16,
    /// How long the simulated provider takes to answer.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 0)]
    pub simulated_delay: u64,
}

/// The providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProviderName {
    /// Any OpenAI-compatible server: OpenAI, vLLM, Ollama, llama.cpp; key from `OPENAI_API_KEY`.
    Openai,
    /// Anthropic; key from `ANTHROPIC_API_KEY`.
    Anthropic,
    /// No model at all: answers that are a function of the prompt.
    Simulated,
}

/// How a worker is started.
#[derive(Debug, Clone, Args)]
pub struct Worker {
    /// The server.
    #[arg(
        long,
        env = "CALLBOARD_SERVER",
        value_name = "URL",
        default_value = "http://127.0.0.1:8080"
    )]
    pub server: String,
    /// A file that holds the worker's key; or `CALLBOARD_API_KEY`, or `CALLBOARD_API_KEY_FILE`.
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// What people see in the list of workers; by default the host's name.
    #[arg(long)]
    pub name: Option<String>,
    /// The queues to serve, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "default")]
    pub queues: Vec<String>,
    /// The models to announce, separated by commas: names, prefixes such as `gpt-*`; by default all.
    #[arg(long, value_delimiter = ',')]
    pub models: Option<Vec<String>>,
    /// Who runs the model.
    #[command(flatten)]
    pub provider: Provider,
}

/// How everything is started for trying it out.
#[derive(Debug, Clone, Args)]
pub struct Dev {
    /// The server.
    #[command(flatten)]
    pub serve: Serve,
    /// Who runs the model.
    #[command(flatten)]
    pub provider: Provider,
    /// The model that tasks run on unless they name one.
    #[arg(long)]
    pub model: Option<String>,
    /// Use no model at all.
    #[arg(long)]
    pub simulated: bool,
    /// What the first task asks; empty for no first task.
    #[arg(long, default_value = "Name three uses of a message queue, one short line each.")]
    pub first_prompt: String,
}

/// Does what was asked for. Returns the exit code (PROTOCOL.md 13).
#[must_use]
pub fn run(cli: Cli) -> u8 {
    match cli.command {
        Command::Dev(dev) => dev::run(dev),
        Command::Serve(serve) => serve::run(&serve),
        Command::Worker(worker) => worker::run(worker),
        Command::Tasks(asked) => remote(tasks::run(asked)),
        Command::Plans(asked) => remote(plans::run(asked)),
        Command::Executions(asked) => remote(executions::run(asked)),
        Command::Templates(asked) => remote(templates::run(asked)),
        Command::Hitl(asked) => remote(hitl::run(asked)),
        Command::Auth(asked) => remote(auth::run(asked)),
        Command::Keys(asked) => remote(keys::run(asked)),
        Command::Users(asked) => remote(users::run(asked)),
        Command::Workers(asked) => remote(workers::run(asked)),
        Command::Doctor(access) => remote(doctor::run(&access)),
        Command::Bench(asked) => remote(bench::run(asked)),
        Command::Compact(asked) => serve::exit(compact::run(asked)),
        Command::BenchFloor(asked) => serve::exit(serve::block_on(bench::be_floor(asked))),
        Command::Completions { shell } => exit(&completions(shell)),
    }
}

/// Runs a client command on this thread.
fn remote(work: impl Future<Output = Result<(), Failure>>) -> u8 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => {
            let outcome = runtime.block_on(work);
            // A read from a terminal that nobody answers must not keep the process.
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Err(Failure::Other(format!("cannot start: {error}"))),
    };
    exit(&outcome)
}

fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "callboard", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

fn exit(outcome: &Result<(), Failure>) -> u8 {
    match outcome {
        Ok(()) => 0,
        Err(failure) => {
            failure.tell();
            failure.exit_code()
        }
    }
}
