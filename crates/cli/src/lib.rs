//! The command line: the commands that talk to a server, and the worker.
//!
//! The program adds the commands that start a server or open its data directory, and hands in the
//! check of a template. Deliberately absent: secrets as a flag's value, which come from the
//! environment or from files.

use clap::Subcommand;

mod access;
mod audit;
mod auth;
mod backup;
mod batches;
mod budgets;
mod bulk;
mod cells;
mod cluster;
pub mod completions;
pub mod doctor;
pub mod early;
mod events;
mod executions;
mod failure;
mod files;
mod functions;
mod gate;
mod health;
mod hitl;
mod input;
mod keys;
mod labels;
mod login;
pub mod mcp;
mod models;
mod output;
mod pause;
mod people;
mod plans;
pub mod process;
mod projects;
mod queues;
mod schedules;
mod search;
mod secret;
mod sessions;
mod start;
mod storage;
pub mod support;
mod tasks;
mod templates;
mod turns;
mod users;
mod wait;
mod watch;
mod webhooks;
pub mod worker;
mod workers;

pub use access::Access;
pub use login::TemporaryLogin;
pub use templates::ValidateTemplate;

use access::Remote;
use failure::Failure;

/// A command that talks to a server.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Submit, list, show, cancel, retry and erase tasks, and wait for them.
    Tasks(Box<Remote<tasks::Tasks>>),
    /// Create, list, show and execute plans.
    Plans(Remote<plans::Plans>),
    /// List, show, watch, cancel, signal, fork and retry executions.
    Executions(Remote<executions::Executions>),
    /// Create, list, show, pause, resume, trigger and delete schedules.
    Schedules(Remote<schedules::Schedules>),
    /// List, show, validate, publish and deploy templates.
    Templates(Remote<templates::Templates>),
    /// Search the prompts and outputs of tasks for words.
    Search(search::Search),
    /// Follow events as they happen.
    Events(Remote<events::Events>),
    /// Review held outputs: list, show, approve, reject, verify.
    Hitl(Remote<hitl::Hitl>),
    /// Sign in and out.
    Auth(Remote<auth::Auth>),
    /// Create, list, rotate and revoke API keys.
    Keys(Remote<keys::Keys>),
    /// Create, list, change and archive projects, and manage their members.
    Projects(Remote<projects::Projects>),
    /// List, add and remove cells.
    Cells(Remote<cells::Cells>),
    /// Create, list, change and delete users.
    Users(Remote<users::Users>),
    /// List and end sessions.
    Sessions(Remote<sessions::Sessions>),
    /// List the audit log, and verify its chain.
    Audit(Remote<audit::Audit>),
    /// Back up a server; list, verify, restore and prune backups.
    Backup(Remote<backup::Backup>),
    /// List the nodes of a cluster, and drain one.
    Cluster(Remote<cluster::Cluster>),
    /// List and repeat deliveries of webhooks and mails; show the signing secret.
    Webhooks(Remote<webhooks::Webhooks>),
    /// Create, list, change and delete budgets.
    Budgets(Remote<budgets::Budgets>),
    /// Sum up the usage of tasks by tag, account, template, model or day.
    Usage(budgets::Usage),
    /// Run a template over the rows of a file: create, watch, list, export and retry batches.
    Batches(Remote<batches::Batches>),
    /// Upload, list, download and delete files: images and documents for tasks.
    Files(Remote<files::Files>),
    /// Cancel, retry, reprioritize or reject all tasks that match, in the background.
    Bulk(Remote<bulk::Bulk>),
    /// List, pause, resume, limit and purge queues.
    Queues(Remote<queues::Queues>),
    /// Pause everything: no task of any queue is leased until `resume --all`; running tasks go on.
    Pause(pause::Pause),
    /// Resume everything after `pause --all`.
    Resume(pause::Resume),
    /// List and drain workers.
    Workers(Remote<workers::Workers>),
    /// List the functions that connected workers run.
    Functions(Remote<functions::Functions>),
    /// List models, and limit their requests and tokens a minute.
    Models(Remote<models::Models>),
    /// Serve an assistant over standard input and output, by the Model Context Protocol.
    ///
    /// Its tools submit tasks, deploy templates, and show what they made and what waits for a reviewer. They may do
    /// what your credentials may, and decide no approval. Give this command to the assistant, with an API key.
    Mcp(mcp::Mcp),
    /// Show how many rows and bytes each kind of data takes.
    Storage(Access),
    /// Show whether a server works; the exit code says so too.
    Health(Access),
    /// Check the server, the connection, the credentials, the clock and the model provider; on a server, its machine too.
    Doctor(Box<doctor::Doctor>),
}

/// Runs a command; `validate` is the server's check of a template. Returns the exit code.
#[must_use]
pub fn run(command: Command, validate: ValidateTemplate) -> u8 {
    match command {
        Command::Tasks(asked) => block_on(tasks::run(*asked)),
        Command::Plans(asked) => block_on(plans::run(asked)),
        Command::Executions(asked) => block_on(executions::run(asked)),
        Command::Schedules(asked) => block_on(schedules::run(asked)),
        Command::Templates(asked) => block_on(templates::run(asked, validate)),
        Command::Search(asked) => block_on(search::run(asked)),
        Command::Events(asked) => block_on(events::run(asked)),
        Command::Hitl(asked) => block_on(hitl::run(asked)),
        Command::Auth(asked) => block_on(auth::run(asked)),
        Command::Keys(asked) => block_on(keys::run(asked)),
        Command::Projects(asked) => block_on(projects::run(asked)),
        Command::Cells(asked) => block_on(cells::run(asked)),
        Command::Users(asked) => block_on(users::run(asked)),
        Command::Sessions(asked) => block_on(sessions::run(asked)),
        Command::Audit(asked) => block_on(audit::run(asked)),
        Command::Backup(asked) => block_on(backup::run(asked)),
        Command::Cluster(asked) => block_on(cluster::run(asked)),
        Command::Webhooks(asked) => block_on(webhooks::run(asked)),
        Command::Budgets(asked) => block_on(budgets::run(asked)),
        Command::Usage(asked) => block_on(budgets::usage(asked)),
        Command::Batches(asked) => block_on(batches::run(asked)),
        Command::Files(asked) => block_on(files::run(asked)),
        Command::Bulk(asked) => block_on(bulk::run(asked)),
        Command::Queues(asked) => block_on(queues::run(asked)),
        Command::Pause(asked) => block_on(pause::pause(asked)),
        Command::Resume(asked) => block_on(pause::resume(asked)),
        Command::Workers(asked) => block_on(workers::run(asked)),
        Command::Functions(asked) => block_on(functions::run(asked)),
        Command::Models(asked) => block_on(models::run(asked)),
        Command::Mcp(asked) => block_on(mcp::run(asked)),
        Command::Storage(access) => block_on(async { storage::run(&access).await }),
        Command::Health(access) => block_on(async { health::run(&access).await }),
        Command::Doctor(asked) => examine(*asked, None),
    }
}

/// Runs `doctor`, beside the checks of this machine. Returns the exit code.
#[must_use]
pub fn examine(asked: doctor::Doctor, machine: Option<doctor::Machine>) -> u8 {
    block_on(doctor::run(asked, machine))
}

/// Runs a command on this thread.
fn block_on(work: impl Future<Output = Result<(), Failure>>) -> u8 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => {
            let outcome = runtime.block_on(work);
            // An unanswered read from a terminal must not keep the process.
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Err(Failure::Other(format!("cannot start: {error}"))),
    };
    exit(&outcome)
}

fn exit(outcome: &Result<(), Failure>) -> u8 {
    match outcome {
        Ok(()) => 0,
        Err(failure) => {
            failure.print();
            failure.exit_code()
        }
    }
}
