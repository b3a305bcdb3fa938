//! `callboard dev`: a server, an admin, keys and a worker in one process, for trying it out.
//!
//! The worker is the one of `callboard worker` and talks to the server over its socket. Admin and
//! keys are made at the first start and printed once; the keys stay in a file of mode 0600 in the
//! data directory, because the worker needs its own again. The command line is signed in as the admin for
//! as long as the server runs.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use callboard_cli::TemporaryLogin;
use callboard_cli::process::{Signals, announce, block_on, exit};
use callboard_cli::worker::{ProviderName, provider};
use callboard_common::secret::Secret;
use callboard_domain::access::Role;
use callboard_domain::account::User;
use callboard_domain::id::{Environment, TaskId};
use callboard_domain::retry::Policy;
use callboard_domain::task::{Channels, Gate, Hold, Inputs, Request, Status};
use callboard_runtime::ports::Ports;
use callboard_runtime::{Handle, Owner};
use callboard_worker::provider::Provider;
use callboard_worker::{self as worker, Options};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::serve::start;
use super::{Dev, first};
use crate::config::Admin;
use crate::service::Service;
use crate::telemetry;

const ADMIN: &str = "admin@callboard.example";
/// The longest wait for the end of the first task.
const FIRST_TASK: Duration = Duration::from_mins(5);

/// The keys that a first start makes.
#[derive(Serialize, Deserialize)]
struct Credentials {
    #[serde(rename = "apiKey")]
    api_key: String,
    #[serde(rename = "workerKey")]
    worker_key: String,
}

/// Runs until a signal. Returns the exit code.
pub(super) fn run(mut dev: Dev) -> u8 {
    if dev.simulated {
        dev.provider.provider = ProviderName::Simulated;
    }
    exit(prepare(dev).and_then(|prepared| block_on(prepared.run())))
}

struct Prepared {
    dev: Dev,
    config: crate::config::Config,
    provider: Arc<dyn Provider>,
    keys: PathBuf,
    password: Option<String>,
}

fn prepare(dev: Dev) -> Result<Prepared, String> {
    let mut config = start(&dev.serve)?;
    if std::env::var_os(telemetry::VARIABLE).is_none() && config.server.log == telemetry::DEFAULT {
        // The greeting is for a person: what went well stands in it.
        telemetry::set_filter("warn").map_err(|error| error.to_string())?;
    }
    if let Some(model) = &dev.model {
        config.models.default.clone_from(model);
    } else if dev.provider.provider == ProviderName::Simulated {
        "simulated".clone_into(&mut config.models.default);
    }
    let keys = config.server.data_dir.join("dev-keys.json");
    let mut password = None;
    if config.admin.is_none() && !keys.exists() {
        let fresh = format!("{:032x}", rand::random::<u128>());
        config.admin = Some(Admin { email: ADMIN.into(), password: Secret::new(fresh.clone()) });
        password = Some(fresh);
    }
    let provider = provider(&dev.provider)?;
    Ok(Prepared { dev, config, provider, keys, password })
}

impl Prepared {
    async fn run(self) -> Result<(), String> {
        let Self { dev, config, provider, keys, password } = self;
        let model = config.models.default.clone();
        let begun = Ports::of_this_machine().clock.now();
        let service = Service::start(config).await.map_err(|error| error.to_string())?;
        let (handle, url) = (service.handle(), service.url());
        // A directory of another server has its own admin already.
        let is_new = |user: &User| user.email.as_str() == ADMIN && user.created_at >= begun;
        let password = password.filter(|_| handle.users().iter().any(is_new));
        let credentials = credentials(&handle, &keys).await?;
        let loan = signed_in(&service, &url).await;
        let link = link(&service);
        let mut signals = Signals::listen()?;
        let (leave, leaves) = oneshot::channel();
        let (stop, stops) = oneshot::channel();
        let options = Options {
            server: url.clone(),
            key: credentials.worker_key.clone(),
            identity: None,
            name: "dev".into(),
            queues: vec![Request::DEFAULT_QUEUE.into()],
            models: None,
            concurrency: u32::from(dev.provider.concurrency),
            provider,
            spans: service.spans(),
            grace: worker::GRACE,
        };
        let server = tokio::spawn(service.serve(received(stops)));
        let mut worker = tokio::spawn(worker::run(options, received(leaves)));
        welcome(&url, &keys, password.as_deref(), &model, &dev);
        if let Some(link) = &link {
            announce(&format!("  dashboard  {}  (signs in once)", link.expose()));
        }
        if let Some(loan) = &loan {
            announce(&format!("  signed in  {}", loan.path().display()));
        }
        let is_first = password.is_some() && !dev.first_prompt.is_empty();
        let first = async {
            if is_first {
                example_review(&handle, &model).await;
            }
            if !dev.first_prompt.is_empty() {
                first_task(&handle, loan.is_some(), &keys, &model, &dev.first_prompt).await;
            }
            std::future::pending::<()>().await;
        };
        let refused = tokio::select! {
            () = signals.first() => None,
            () = first => None,
            ended = &mut worker => Some(ended),
        };
        let is_refused = refused.is_some();
        announce("stopping: running tasks have 25 s; Ctrl-C again ends at once");
        if let Some(loan) = loan
            && let Err(why) = loan.give_back().await
        {
            tracing::warn!(why, "the login of the command line could not be removed");
        }
        let stopped = async {
            // The worker's last results need a server that listens. A send fails if the receiver has ended.
            let _ = leave.send(());
            if !is_refused {
                let _ = worker.await;
            }
            let _ = stop.send(());
            server.await
        };
        let stopped = match signals.finish(stopped).await {
            Ok(outcome) => outcome.map_err(|error| error.to_string()),
            Err(error) => Err(format!("the server failed: {error}")),
        };
        match refused {
            Some(Ok(Err(error))) => Err(format!("the worker has stopped: {error}")),
            Some(Err(error)) => Err(format!("the worker failed: {error}")),
            Some(Ok(Ok(()))) | None => stopped,
        }
    }
}

/// Waits until the sender sends or is dropped.
async fn received(word: oneshot::Receiver<()>) {
    let _ = word.await;
}

/// Signs the command line in as the admin. The server runs without that too.
async fn signed_in(service: &Service, url: &str) -> Option<TemporaryLogin> {
    let admin = service.handle().users().into_iter().find(|user| user.role == Role::Admin)?;
    let signed_in = async {
        let session = service.sign_in(admin).await.map_err(|error| error.to_string())?;
        let session = serde_json::to_value(&session).map_err(|error| error.to_string())?;
        TemporaryLogin::take(url, &session).await
    };
    let warn = |why: &String| tracing::warn!(why, "the command line could not be signed in");
    signed_in.await.inspect_err(warn).ok()
}

/// The address that signs the admin in, in a browser. The server runs without that too.
fn link(service: &Service) -> Option<Secret> {
    let admin = service.handle().users().into_iter().find(|user| user.role == Role::Admin)?;
    let warn =
        |why: &crate::service::Error| tracing::warn!(%why, "the sign-in link could not be made");
    service.sign_in_url(&admin).inspect_err(warn).ok()
}

/// The keys of an earlier start; fresh ones if there are none, or they are not valid any more.
async fn credentials(handle: &Handle, path: &Path) -> Result<Credentials, String> {
    let cannot = |what: &str, error: &dyn std::fmt::Display| {
        format!("{} cannot be {what}: {error}", path.display())
    };
    match fs::read(path) {
        Ok(bytes) => {
            let known: Credentials =
                serde_json::from_slice(&bytes).map_err(|error| cannot("understood", &error))?;
            if [&known.api_key, &known.worker_key].into_iter().all(|key| first::counts(handle, key))
            {
                return Ok(known);
            }
            fs::remove_file(path).map_err(|error| cannot("replaced", &error))?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(cannot("read", &error)),
    }
    let api_key = first::key(handle, "dev", Role::Admin).await?;
    let worker_key = first::key(handle, "dev worker", Role::Worker).await?;
    let credentials = Credentials { api_key, worker_key };
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| cannot("made", &error))?;
    let text = serde_json::to_string_pretty(&credentials).expect("keys have a JSON form");
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(|error| cannot("written", &error))?;
    Ok(credentials)
}

fn welcome(url: &str, keys: &Path, password: Option<&str>, model: &str, dev: &Dev) {
    announce(&format!("listening on {url}"));
    let runs = match dev.provider.provider {
        ProviderName::Simulated => "simulated: no model runs, answers are made up".to_owned(),
        ProviderName::Openai | ProviderName::Anthropic => match &dev.provider.base_url {
            Some(base) => format!("{model} at {base}"),
            None => model.to_owned(),
        },
    };
    announce(&format!("  model      {runs}"));
    if let Some(password) = password {
        announce(&format!("  admin      {ADMIN}  password {password}  (shown only once)"));
    }
    announce(&format!("  keys       {}", keys.display()));
}

/// The prompt of the example. A reviewer decides on the output in any case.
const EXAMPLE: &str =
    "Answer this customer in two short sentences: \"My parcel is a week late. Where is it?\"";

/// Submits the example of a review, which the dashboard shows at a first start.
async fn example_review(handle: &Handle, model: &str) {
    let gate = Gate {
        hold: Hold::Always,
        threshold: None,
        timeout_ms: 24 * 60 * 60 * 1000,
        pass_unknown: false,
        sample_rate: 0.0,
        notify: Channels::default(),
    };
    let request = Request { gate: Some(gate), ..request(model, "example", EXAMPLE) };
    if let Err(error) = handle.submit(&owner(), vec![request], false, None).await {
        tracing::warn!(%error, "the example of a review could not be submitted");
    }
}

fn owner() -> Owner {
    Owner {
        id: "dev".into(),
        environment: Environment::LIVE,
        role: Role::Admin,
        trace: None,
        bound: Arc::default(),
    }
}

fn request(model: &str, tag: &str, prompt: &str) -> Request {
    Request {
        model: model.to_owned(),
        queue: Request::DEFAULT_QUEUE.into(),
        priority: Request::DEFAULT_PRIORITY,
        timeout_ms: Request::DEFAULT_TIMEOUT_MS,
        tags: vec![tag.into()],
        max_tokens: Some(80),
        temperature: None,
        sampling: None,
        callback_url: None,
        labels: None,
        gate: None,
        routing: None,
        flow: None,
        start_at: None,
        retry: Policy::default(),
        inputs: Inputs { prompt: prompt.to_owned(), ..Inputs::default() },
    }
}

/// Submits a task, waits for its end, and prints the result and the command that does the same.
async fn first_task(handle: &Handle, is_signed_in: bool, keys: &Path, model: &str, prompt: &str) {
    let (request, owner) = (request(model, "first", prompt), owner());
    announce(&format!("\na first task: {prompt}"));
    let submitted = match handle.submit(&owner, vec![request], false, None).await {
        Ok(submitted) => submitted,
        Err(error) => return announce(&format!("the task was refused: {error}")),
    };
    let Some(task) = submitted.made.tasks().first() else { return };
    let id = task.spec.id;
    let deadline = tokio::time::Instant::now() + FIRST_TASK;
    let detail = loop {
        match handle.task(Environment::LIVE, id).await {
            Ok(detail) if !matches!(detail.task.status(), Status::Pending | Status::Running) => {
                break detail;
            }
            Ok(_) if tokio::time::Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Ok(_) | Err(_) => {
                announce(&format!(
                    "{id} has not ended after {} minutes; it goes on",
                    FIRST_TASK.as_secs() / 60
                ));
                return again(is_signed_in, keys, id);
            }
        }
    };
    announce(&format!("{}: {}\n", id, detail.task.status().as_str()));
    if let Some(output) = &detail.output {
        announce(output.trim());
    }
    if let Some(error) = &detail.task.error {
        announce(&format!("{}: {}", error.code.as_str(), error.message));
    }
    again(is_signed_in, keys, id);
}

/// Prints commands for another terminal.
fn again(is_signed_in: bool, keys: &Path, id: TaskId) {
    let program = std::env::args().next().unwrap_or_else(|| "callboard".to_owned());
    let key = if is_signed_in {
        String::new()
    } else {
        let keys = keys.display();
        format!(
            "  export CALLBOARD_API_KEY=$(sed -n 's/.*\"apiKey\": \"\\(.*\\)\".*/\\1/p' {keys})\n"
        )
    };
    announce(&format!(
        "\nnext, in another terminal:\n{key}  \
         {program} tasks list\n  \
         {program} tasks show {id}\n  \
         {program} tasks submit \"Say hello.\" --wait\n"
    ));
}
