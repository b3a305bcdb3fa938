//! The shared state of handlers.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use callboard_common::secret::Secret;
use callboard_domain::Error;
use callboard_domain::access::{Account, Caller};
use callboard_domain::account::password::Rules;
use callboard_domain::account::recovery::Recoveries;
use callboard_domain::account::throttle::Throttle;
use callboard_domain::audit::{By, Record};
use callboard_domain::id::{Environment, TaskId, UserId};
use callboard_domain::worker::ConfidenceTrust;
use callboard_runtime::accounts::SignedIn;
use callboard_runtime::{Handle, Live};
use callboard_store::sled::SledStore;
use callboard_wire::accounts::SessionBody;
use callboard_wire::common::Iso;
use callboard_wire::read::{self, Format};
use callboard_wire::tasks::Defaults;
use ipnet::IpNet;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use url::Url;

use super::browser::Browsers;
use super::cells::Followers;
use super::cluster::ClusterDoor;
use super::extract::Unread;
use super::fair_semaphore::FairSemaphore;
use super::limit::{Limiter, OpenLimit};
use super::metrics::HttpMetrics;
use super::oidc::SignOn;
use super::pressure::{Bounds, Pressure};
use crate::auth::password::Passwords;
use crate::auth::setup::Setup;
use crate::auth::token::AccessTokens;
use crate::outbound::email::Email;
use crate::outbound::guard::{Guard, Sender};
use crate::outbound::traces::Traces;
use crate::outbound::webhook::WebhookSecrets;
use crate::tls::Tls;

/// The most worker connections that an account has open.
const WORKER_SOCKETS: u32 = 500;

/// The longest body that is parsed and read while others wait, in bytes: about a millisecond.
const fn brief(format: Format) -> usize {
    match format {
        Format::Json => 64 * 1024,
        Format::Yaml => 4 * 1024,
    }
}

/// The number of streams that read their whole item at once.
const ITEM_READS: usize = 2;

/// The number of searches of texts at once.
const SEARCHES: usize = 2;

/// The parts of the service.
pub struct Parts {
    /// The runtime's handle.
    pub handle: Handle,
    /// The defaults of requests.
    pub defaults: Defaults,
    /// The workers whose confidence counts.
    pub trust: ConfidenceTrust,
    /// The rate limits of all callers.
    pub limiter: Limiter,
    /// The most event streams and sockets that an account has open.
    pub streams: u32,
    /// The origins of pages that may open sockets, in lower case, besides the server's own.
    pub allowed_origins: Vec<String>,
    /// The longest wait of a chat completion for the end of its task.
    pub chat_wait: Duration,
    /// The most bytes of a file.
    pub file_bytes: u64,
    /// The days back whose tasks are searched for words of their texts; 0 for none.
    pub search_days: u16,
    /// Access tokens.
    pub tokens: AccessTokens,
    /// The hasher of passwords.
    pub passwords: Passwords,
    /// The rules of passwords.
    pub password_rules: Rules,
    /// The setup link of a server without an admin.
    pub setup: Option<Setup>,
    /// Sessions of browsers.
    pub browsers: Browsers,
    /// Settings that do not go together, as texts for people.
    pub warnings: Vec<&'static str>,
    /// Sign-in by OIDC.
    pub oidc: Option<SignOn>,
    /// Proxies whose `X-Forwarded-For` counts.
    pub trusted_proxies: Vec<IpNet>,
    /// The rules about targets of webhooks.
    pub guard: Arc<Guard>,
    /// The signers of webhooks.
    pub webhook_secrets: Arc<WebhookSecrets>,
    /// The client for mail, if a server for it is configured.
    pub mail: Option<Arc<Email>>,
    /// True if the metrics need no credential.
    pub metrics_public: bool,
    /// The directory of everything that is stored.
    pub data_dir: PathBuf,
    /// The disk and the memory that new work needs.
    pub bounds: Bounds,
    /// The store, for backups.
    pub store: Weak<SledStore>,
    /// The cluster, if the server is a node of one.
    pub cluster: Option<ClusterDoor>,
    /// Traces; `None` if they are off.
    pub traces: Option<Traces>,
    /// The server's certificate.
    pub tls: Option<Tls>,
}

/// The shared state of handlers.
pub struct App {
    pub(crate) handle: Handle,
    pub(super) defaults: Defaults,
    pub(crate) trust: ConfidenceTrust,
    pub(super) limiter: Limiter,
    pub(crate) streams: OpenLimit,
    /// The turns of streams that read a whole item.
    pub(super) item_reads: FairSemaphore,
    /// The turns of searches of texts.
    pub(super) searches: FairSemaphore,
    pub(super) search_days: u16,
    pub(crate) allowed_origins: Vec<String>,
    /// True once the service stops: sockets and streams end.
    pub(crate) stopping: watch::Sender<bool>,
    pub(super) chats: OpenLimit,
    /// The messages of assistants that are being answered.
    pub(super) assistants: OpenLimit,
    pub(super) chat_wait: Duration,
    pub(super) file_bytes: u64,
    pub(crate) worker_sockets: OpenLimit,
    pub(super) tokens: AccessTokens,
    pub(super) passwords: Passwords,
    pub(super) password_rules: Rules,
    pub(super) setup: Option<Setup>,
    pub(super) oidc: Option<SignOn>,
    pub(super) browsers: Browsers,
    pub(super) warnings: Vec<&'static str>,
    /// The one rotation of the signing key under way holds the lock.
    pub(super) rotation: tokio::sync::Mutex<()>,
    /// Wakes waiting attempts at a password once another one has ended.
    pub(super) try_ended: Notify,
    pub(super) started: Instant,
    pub(super) surface: HttpMetrics,
    pub(super) metrics_public: bool,
    pub(super) data_dir: PathBuf,
    pub(super) pressure: Arc<Pressure>,
    /// The embedded store; dropped once the service stops.
    pub(super) store: Weak<SledStore>,
    pub(super) cluster: Option<ClusterDoor>,
    /// The cells that follow this server's list of projects.
    pub(super) followers: Followers,
    pub(super) traces: Option<Traces>,
    pub(super) tls: Option<Tls>,
    throttle: Mutex<Throttle>,
    pub(super) mail: Option<Arc<Email>>,
    pub(super) recoveries: Mutex<Recoveries>,
    trusted_proxies: Vec<IpNet>,
    guard: Arc<Guard>,
    pub(super) webhook_secrets: Arc<WebhookSecrets>,
}

impl App {
    /// The service as made of these parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let pressure = Pressure::watch(parts.bounds, &parts.handle);
        Self {
            handle: parts.handle,
            defaults: parts.defaults,
            trust: parts.trust,
            limiter: parts.limiter,
            item_reads: FairSemaphore::new(ITEM_READS),
            searches: FairSemaphore::new(SEARCHES),
            search_days: parts.search_days,
            allowed_origins: parts.allowed_origins,
            stopping: watch::Sender::new(false),
            streams: OpenLimit::new("event streams", parts.streams),
            chats: OpenLimit::new("chat completions", parts.streams),
            assistants: OpenLimit::new("calls of assistants", parts.streams),
            chat_wait: parts.chat_wait,
            file_bytes: parts.file_bytes,
            worker_sockets: OpenLimit::new("worker connections", WORKER_SOCKETS),
            tokens: parts.tokens,
            passwords: parts.passwords,
            password_rules: parts.password_rules,
            setup: parts.setup,
            oidc: parts.oidc,
            browsers: parts.browsers,
            warnings: parts.warnings,
            rotation: tokio::sync::Mutex::default(),
            try_ended: Notify::new(),
            started: Instant::now(),
            surface: HttpMetrics::default(),
            metrics_public: parts.metrics_public,
            data_dir: parts.data_dir,
            pressure,
            store: parts.store,
            cluster: parts.cluster,
            followers: Followers::default(),
            traces: parts.traces,
            tls: parts.tls,
            throttle: Mutex::default(),
            mail: parts.mail,
            recoveries: Mutex::default(),
            trusted_proxies: parts.trusted_proxies,
            guard: parts.guard,
            webhook_secrets: parts.webhook_secrets,
        }
    }

    /// Takes other settings of those that may change while the server runs.
    pub(crate) async fn adopt(&self, streams: u32, live: Live) {
        self.limiter.set_quotas(live.quotas);
        self.streams.set_limit(streams);
        self.chats.set_limit(streams);
        self.assistants.set_limit(streams);
        self.handle.adopt(live).await;
    }

    /// Parses and reads a body: here and now if it is short, else once it is the turn of its sender.
    ///
    /// # Errors
    /// [`Error::InvalidJson`], [`Error::InvalidYaml`]; [`Error::TooMuchWaits`] and
    /// [`Error::Unavailable`] if too much waits for its turn.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        sender: Option<(Account, Environment)>,
        Unread { bytes, format }: Unread,
        finish: impl FnOnce(&Self, Value) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let Some((account, environment)) = sender.filter(|_| bytes.len() > brief(format)) else {
            return Ok(finish(self, read::parse(&bytes, format)?));
        };
        let (app, held) = (Arc::clone(self), bytes.len());
        let work = move || Ok(finish(&app, read::parse(&bytes, format)?));
        let account = account.to_string();
        Box::pin(self.handle.compute(environment, &account, Some(held), work)).await?
    }

    /// The tokens of a sign-in.
    pub(crate) fn session(&self, signed_in: &SignedIn) -> SessionBody {
        let SignedIn { user, session, refresh_token } = signed_in;
        let issued = self.tokens.issue(user.id, *session, &Self::fresh_name(), self.handle.now());
        SessionBody {
            token: issued.token,
            refresh_token: refresh_token.expose().to_owned(),
            expires_at: Iso(issued.expires_at),
            user: user.into(),
        }
    }

    /// The secret address that signs this user in once, in a browser.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if too many wait.
    pub(crate) fn sign_in_link(&self, user: UserId) -> Result<Secret, Error> {
        self.browsers.link(self, (user, None)).map(|link| Secret::new(link.url().to_owned()))
    }

    /// Ends all sessions of a user, and the codes and links that would begin one; returns the number
    /// of sessions.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub(super) async fn end_sessions(&self, user: UserId, by: By) -> Result<usize, Error> {
        self.forget_codes(user);
        self.handle.end_sessions(user, by).await
    }

    /// Drops the codes and links that would begin a session of this user.
    pub(super) fn forget_codes(&self, user: UserId) {
        self.browsers.forget(user);
        self.oidc.iter().for_each(|on| on.forget(user));
    }

    /// Passes if the caller may read this task: a bound worker reads those that it holds.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub(super) fn may_read(&self, caller: &Caller, id: TaskId) -> Result<(), Error> {
        let account = || caller.account.to_string();
        if caller.is_bound() && !self.handle.held_by(caller.environment, &account()).contains(&id) {
            return Err(Error::not_found("task", id));
        }
        Ok(())
    }

    /// Passes unless a callback URL evidently leads to an address that may not be called.
    ///
    /// # Errors
    /// [`Error::CallbackForbidden`].
    pub(super) fn check_callback(
        &self,
        caller: &Caller,
        field: &str,
        url: Option<&str>,
    ) -> Result<(), Error> {
        let Some(url) = url else { return Ok(()) };
        let project = self.handle.project_id(caller.environment);
        let sender = Sender { project, mode: caller.environment.mode() };
        let may = Url::parse(url).is_ok_and(|url| self.guard.may_create(&url, sender));
        if may {
            return Ok(());
        }
        Err(Error::CallbackForbidden { field: field.to_owned(), url: url.to_owned() })
    }

    /// Writes a past action to the audit log: if that fails, the action stands.
    pub(crate) async fn record(&self, record: Record) {
        let action = record.action;
        if let Err(error) = self.handle.record(record).await {
            tracing::error!(%action, %error, "an action is not in the audit log");
        }
    }

    /// Writes a refused sign-in to the audit log.
    pub(super) async fn record_refusal(&self, record: Record) {
        self.surface.sign_ins_refused.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = self.handle.record_refusal(record).await {
            tracing::error!(%error, "a refused sign-in is not in the audit log");
        }
    }

    /// An unguessable name, for a token.
    pub(super) fn fresh_name() -> String {
        format!("{:032x}", rand::random::<u128>())
    }

    pub(super) fn throttle(&self) -> MutexGuard<'_, Throttle> {
        self.throttle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address from which a request comes: the peer's, or, behind trusted proxies, the last
    /// address of `X-Forwarded-For` that is not one of them.
    pub(crate) fn client_address(&self, peer: SocketAddr, headers: &HeaderMap) -> IpAddr {
        let trusted = |ip: IpAddr| self.trusted_proxies.iter().any(|net| net.contains(&ip));
        let mut client = peer.ip().to_canonical();
        if !trusted(client) {
            return client;
        }
        let forwarded = headers.get_all("x-forwarded-for");
        let forwarded: Vec<_> = forwarded.iter().filter_map(|value| value.to_str().ok()).collect();
        for hop in forwarded.iter().flat_map(|value| value.split(',')).rev() {
            if !trusted(client) {
                break;
            }
            let Ok(ip) = hop.trim().parse::<IpAddr>() else { break };
            client = ip.to_canonical();
        }
        client
    }
}
