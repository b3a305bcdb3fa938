//! Every setting, typed and checked before anything starts.
//!
//! The defaults are `config/callboard.toml` itself, built into the program, so the file that is
//! shipped cannot disagree with them. The purpose of each setting stands there. Deliberately absent:
//! settings that change while the service runs.

mod error;
mod oidc;
mod read;
mod rule;
mod shown;
mod smtp;
mod source;
mod store;
mod template;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use callboard_common::secret::Secret;
use callboard_domain::caps::Caps;
use callboard_domain::event::EventName;
use callboard_domain::id::ProjectId;
use callboard_domain::model_limits::ModelLimits;
use callboard_domain::rate::Quotas;
use callboard_domain::share::ProjectWeight;
use callboard_domain::worker::ConfidenceTrust;
use callboard_store::postgres::Address;
use ipnet::IpNet;
use url::Url;

use crate::tls::Files;

pub use error::{Error, Place};
pub use oidc::Oidc;
pub(crate) use oidc::is_private;
use read::read_file;
pub use smtp::{Login, Smtp, Tls};
use source::Source;

/// The whole configuration; each part is a section of `config/callboard.toml`.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `[server]`.
    pub server: Server,
    /// `[runtime]`.
    pub runtime: Runtime,
    /// `[queue]`.
    pub queue: Queue,
    /// `[tasks]`.
    pub tasks: Tasks,
    /// `[worker]`.
    pub worker: Worker,
    /// `[models]`.
    pub models: Models,
    /// `[projects]`, by their identifiers.
    pub projects: BTreeMap<ProjectId, OfProject>,
    /// `[limits]`.
    pub limits: Limits,
    /// `[tls]`; `None` without a certificate.
    pub tls: Option<Files>,
    /// `[auth]`.
    pub auth: Auth,
    /// `[oidc]`; `None` without an issuer.
    pub oidc: Option<Oidc>,
    /// `[store]`.
    pub store: Store,
    /// `[cluster]`.
    pub cluster: Cluster,
    /// `[events]`.
    pub events: Events,
    /// `[retention]`.
    pub retention: Retention,
    /// `[search]`.
    pub search: Search,
    /// `[audit]`.
    pub audit: Audit,
    /// `[metrics]`.
    pub metrics: Metrics,
    /// `[otel]`.
    pub otel: Otel,
    /// `[templates]`.
    pub templates: Templates,
    /// `[hitl]`.
    pub hitl: Hitl,
    /// `[webhooks]`.
    pub webhooks: Webhooks,
    /// `[smtp]`; `None` without a host.
    pub smtp: Option<Smtp>,
    /// The first administrator, from `CALLBOARD_ADMIN_EMAIL` and `CALLBOARD_ADMIN_PASSWORD(_FILE)`.
    pub admin: Option<Admin>,
    /// `--paused`: nothing leaves the server, and it leases nothing.
    pub paused: bool,
    /// Warnings about variables that are named like settings and are none.
    pub ignored: Vec<String>,
}

/// `[server]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Address and port to listen on.
    pub listen: SocketAddr,
    /// Directory of everything that is stored.
    pub data_dir: PathBuf,
    /// Address under which people reach the service.
    pub public_url: Option<Url>,
    /// Networks whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Origins of pages that may open sockets, besides the server's own.
    pub allowed_origins: Vec<String>,
    /// A proxy in front speaks TLS, so that plain HTTP may be served beyond loopback.
    pub behind_proxy: bool,
    /// The time for a request's headers, and the longest idle time of a connection.
    pub header_timeout: Duration,
    /// The time for a request's body.
    pub body_timeout: Duration,
    /// The most open connections.
    pub max_connections: u32,
    /// The most open connections from one address; by default a quarter of all.
    pub connections_per_address: Option<u32>,
    /// The most bytes of all requests' bodies at once.
    pub bodies_max_bytes: usize,
    /// The longest wait of a chat completion for the end of its task.
    pub chat_wait: Duration,
    /// The memory of the process; `None` is the limit of the control group.
    pub memory_bytes: Option<u64>,
    /// The filter of the log; `CALLBOARD_LOG` takes precedence.
    pub log: String,
}

impl Server {
    /// The most open connections from one address.
    #[must_use]
    pub fn connections_per_address(&self) -> u32 {
        self.connections_per_address.unwrap_or((self.max_connections / 4).max(1))
    }
}

/// `[runtime]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    /// The number of awake items from which on commands are refused.
    pub active: usize,
    /// Shards that the partitions are shared out among; another number is taken at each start.
    pub shards: u16,
}

/// `[queue]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// The waiting time that counts as one priority step.
    pub aging: Duration,
}

/// `[tasks]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tasks {
    /// The time for which an outage of its provider uses up no attempt of a task.
    pub outage_patience: Duration,
}

/// `[worker]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// Time without a sign of life after which a task is taken back.
    pub lease: Duration,
    /// Time between signs of life.
    pub heartbeat: Duration,
    /// Silence after which no new task is given.
    pub silent_after: Duration,
    /// The workers whose confidence may pass a gate.
    pub trust_confidence: ConfidenceTrust,
}

/// `[models]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Models {
    /// Model of a task that names none.
    pub default: String,
    /// File of prices; none means the built-in ones.
    pub prices: Option<PathBuf>,
    /// `[models.limits."name"]`: the limits of models, by name.
    pub limits: BTreeMap<String, ModelLimits>,
}

/// `[projects."prj_…"]`: the access that the operator gives to a project besides `default`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OfProject {
    /// Networks that its webhooks may be sent to although they are not public.
    pub webhooks_allow: Vec<IpNet>,
    /// Environment variables that its plans and templates may use.
    pub env_allow: Vec<String>,
    /// Its weight among the projects that share the server.
    pub weight: ProjectWeight,
}

/// `[limits]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The most event streams and sockets that an account has open.
    pub streams: u32,
    /// The most bytes of a file.
    pub file_bytes: u64,
    /// The caps of an account.
    pub caps: Caps,
    /// The grants of each plan: `[limits.free]`, `[limits.pro]`, `[limits.enterprise]`; and `plan`, that of an
    /// account without one.
    pub plans: Quotas,
}

/// `[auth]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Auth {
    /// Life of an access token.
    pub access_token_ttl: Duration,
    /// Life of a refresh token.
    pub refresh_token_ttl: Duration,
    /// The fewest characters of a password.
    pub password_min_length: usize,
    /// The key that signs tokens; none means one made in the data directory.
    pub signing_key: Option<Secret>,
    /// The earlier key that signed tokens, and still counts.
    pub previous_signing_key: Option<Secret>,
}

/// `[store]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// The PostgreSQL database of several nodes; `None` for the embedded store.
    pub shared: Option<Address>,
    /// Memory for cached rows.
    pub cache_bytes: u64,
    /// The directory that gets a copy of the journal.
    pub archive: Option<PathBuf>,
    /// Free bytes of the disk below which new work is refused.
    pub min_free_bytes: u64,
    /// The bytes of the file that is given back to a full disk.
    pub reserve_bytes: u64,
    /// True if a data directory without a store is an error.
    pub must_exist: bool,
}

/// `[cluster]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// The address at which the other nodes reach this one; `None` is the listening address.
    pub advertise: Option<Url>,
    /// The key that all nodes share.
    pub key: Option<Secret>,
    /// The time without a sign of life after which another node takes over.
    pub term: Duration,
    /// The cell that this node belongs to; `None` is home.
    pub cell: Option<String>,
    /// The addresses of home's nodes, for a node of another cell.
    pub home: Vec<Url>,
}

/// `[events]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Events {
    /// The time that events are kept.
    pub keep: Duration,
    /// The most events that are kept.
    pub keep_max: u64,
}

/// `[retention]`; `None` is forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// The retention of ended items.
    pub ended: Option<Duration>,
    /// The retention of the histories of approvals.
    pub history: Option<Duration>,
}

/// `[search]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Search {
    /// The days back whose texts are searched; 0 for none.
    pub days: u16,
}

/// `[audit]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Audit {
    /// The time that entries are kept; `None` is forever.
    pub keep: Option<Duration>,
}

/// `[metrics]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metrics {
    /// True if the metrics need no credential.
    pub public: bool,
}

/// `[otel]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Otel {
    /// The receiver of traces; none leaves it to the variables of OpenTelemetry.
    pub endpoint: Option<Url>,
    /// Headers for the receiver.
    pub headers: Option<Secret>,
    /// Share of the traces that begin here and are recorded, 0 to 1.
    pub sample_ratio: f64,
}

/// `[templates]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Templates {
    /// Environment variables that plans and templates may use.
    pub env_allow: Vec<String>,
}

/// `[hitl]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Hitl {
    /// The treatment of an output without a confidence at a threshold.
    pub missing_confidence: MissingConfidence,
    /// Share of a reviewer's time after which an admin is asked, 0 to 1.
    pub escalate_after: f64,
    /// The action when the reviewers' time is over.
    pub on_timeout: OnTimeout,
    /// True if a submitter may not approve the own output.
    pub four_eyes: bool,
}

/// `[webhooks]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhooks {
    /// Ends of a task that are announced.
    pub events: Vec<EventName>,
    /// The wait after each failed attempt.
    pub waits: Vec<Duration>,
    /// Private networks that may be called.
    pub allow: Vec<IpNet>,
    /// The key that signs webhooks; none means one made in the data directory.
    pub secret: Option<Secret>,
}

/// The action on an output that no reviewer decided in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnTimeout {
    /// The output waits, and can still be decided.
    Wait,
    /// The output is rejected.
    Reject,
}

/// The treatment of an output without a confidence at an approval threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingConfidence {
    /// The output waits for a reviewer.
    Hold,
    /// The output passes.
    Pass,
}

/// The first administrator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// The account.
    pub email: String,
    /// The account's password, not yet checked against the rules of passwords.
    pub password: Secret,
}

/// The settings on the command line.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--listen`.
    pub listen: Option<String>,
    /// `--data-dir`.
    pub data_dir: Option<String>,
    /// `--store`.
    pub store: Option<String>,
    /// `--paused`.
    pub paused: bool,
}

impl Config {
    /// The defaults, overlaid by the file named by `--config`, `environment` and `flags`.
    ///
    /// # Errors
    ///
    /// The first setting that is unknown or has a bad value, or a file that cannot be read.
    pub fn load(
        flags: Flags,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Error> {
        let mut source = Source::new()?;
        if let Some(path) = &flags.config {
            let place = Place::Line(path.display().to_string(), None);
            source.add_file(&path.display().to_string(), &read_file(path, place)?)?;
        }
        source.add_variables(environment);
        if let Some(listen) = flags.listen {
            source.add_flag("--listen", ("server", "listen"), listen);
        }
        if let Some(data_dir) = flags.data_dir {
            source.add_flag("--data-dir", ("server", "data_dir"), data_dir);
        }
        if let Some(store) = flags.store {
            source.add_flag("--store", ("store", "url"), store);
        }
        Ok(Self { paused: flags.paused, ..Self::read(&mut source)? })
    }

    /// The environment of this process, for [`Self::load`]. A value that is no text is shown with
    /// replacement characters, so that its setting is refused rather than passed over.
    #[must_use]
    pub fn environment() -> Vec<(String, String)> {
        let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        let variables = std::env::vars_os();
        variables.map(|(name, value)| (text(name), text(value))).collect()
    }

    fn read(source: &mut Source) -> Result<Self, Error> {
        let mut config = Self {
            server: Server::read(source)?,
            runtime: Runtime::read(source)?,
            queue: Queue::read(source)?,
            tasks: Tasks::read(source)?,
            worker: Worker::read(source)?,
            models: Models::read(source)?,
            projects: read::projects(source)?,
            limits: Limits::read(source)?,
            tls: read::tls(source)?,
            auth: Auth::read(source)?,
            oidc: Oidc::read(source)?,
            store: Store::read(source)?,
            cluster: Cluster::read(source)?,
            events: Events::read(source)?,
            retention: Retention::read(source)?,
            search: Search::read(source)?,
            audit: Audit::read(source)?,
            metrics: Metrics::read(source)?,
            otel: Otel::read(source)?,
            templates: Templates::read(source)?,
            hitl: Hitl::read(source)?,
            webhooks: Webhooks::read(source)?,
            smtp: Smtp::read(source)?,
            admin: Admin::read(source)?,
            paused: false,
            ignored: Vec::new(),
        };
        source.finish()?;
        config.ignored = source.ignored();
        read::trust_fits(&config, source)?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests;
