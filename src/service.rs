//! The server as a whole: store, actors and HTTP, started in this order and stopped in the other.
//!
//! Deliberately absent: the work of any of them, and the command line.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use callboard_common::secret::Secret;
use callboard_domain::Timestamp;
use callboard_domain::access::Role;
use callboard_domain::account::password::Rules;
use callboard_domain::account::{Email, User, display_name};
use callboard_domain::approval;
use callboard_domain::audit::{Action, By, Record};
use callboard_domain::delivery::WebhookPolicy;
use callboard_domain::execution::program::TaskDefaults;
use callboard_domain::id::ProjectId;
use callboard_domain::retention;
use callboard_domain::session::signing::SigningKeys;
use callboard_domain::usage::Prices;
use callboard_domain::worker::LeasePolicy;
use callboard_otlp::{Exporter, Spans};
use callboard_runtime::accounts::NewUser;
use callboard_runtime::ports::{Mailer, Ports, Tracer, WebhookClient};
use callboard_runtime::system::OnBreak;
use callboard_runtime::{AllowedVariables, Handle, Live, Settings, System};
use callboard_store::Store;
use callboard_store::sled::SledStore;
use callboard_wire::accounts::SessionBody;
use callboard_wire::tasks::Defaults;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::auth::password::Passwords;
use crate::auth::setup::Setup;
use crate::auth::token::AccessTokens;
use crate::auth::token::key::{Keyring, SigningKey};
use crate::config::{self, Auth, Config, MissingConfidence, OnTimeout};
use crate::http::limit::Limiter;
use crate::http::serve::{Answers, Limits};
use crate::http::{self, App, Bounds, Browsers, ClusterDoor, Edge, Middleware, Parts, SignOn};
use crate::outbound::guard::Guard;
use crate::outbound::webhook::{self, WebhookSecret, WebhookSecrets, Webhooks};
use crate::outbound::{self, oidc::Provider};
use crate::sandbox;
use crate::templates;

mod files;
mod port;
mod reload;
mod reset;
mod store;

pub(crate) use files::within;
pub(crate) use port::{Place, Port};
pub(crate) use reload::Reload;
pub use reset::{AdminReset, ResetAdmin};
pub use store::{check_exists, compact};

use port::{Bound, prepare};
use store::{open_store, reserve};

/// The prices that come with the program.
const SHIPPED_PRICES: &str = include_str!("../config/models.json");
/// The time that running work has to leave a worker with an order to drain.
const DRAIN_DEADLINE: Duration = Duration::from_secs(20);
/// The exit code after the disk or an actor that all need has failed.
const BROKEN: i32 = 1;

/// The reason why the server could not start or did not end in order, and the remedy.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Error {
    /// The error of a deed `what` that failed because of `why`.
    pub(crate) fn new(what: &str, why: &dyn std::fmt::Display) -> Self {
        failed(what)(why)
    }
}

fn failed(what: &str) -> impl FnOnce(&dyn std::fmt::Display) -> Error {
    move |why| Error(format!("{what}: {why}"))
}

/// The actors over an open store, and the edge in front of them: everything that ends with the ownership
/// of the store.
pub(crate) struct Assembled {
    pub(crate) system: System,
    pub(crate) app: Arc<App>,
    pub(crate) edge: Edge,
    pub(crate) setup_url: Option<Secret>,
}

/// The warning of a server behind a TLS proxy that does not know its public address.
const INSECURE_COOKIE: &str = "server.behind_proxy is set, and server.public_url is not an https address: the \
    cookies of browsers have neither Secure nor the prefix __Host-, so they cross a network in clear text if a \
    page is opened over http; set server.public_url to the address that browsers use";

/// The store that actors are assembled over.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    /// The embedded store, if backups of it can be made.
    pub(crate) embedded: Weak<SledStore>,
    /// The cluster that shares the store.
    pub(crate) cluster: Option<ClusterDoor>,
}

impl Assembled {
    /// Brings back unfinished work, and puts the edge in front.
    ///
    /// # Errors
    /// The obstacle and its remedy.
    pub(crate) async fn over(
        opened: Opened,
        mut config: Config,
        place: &Place,
        on_break: OnBreak,
    ) -> Result<Self, Error> {
        let (dir, address) = (config.server.data_dir.clone(), place.address);
        let ports = Ports::of_this_machine();
        let keys = keyring(&dir.join("signing.key"), &config.auth, ports.clock.now()).await?;
        let signing_keys = keys.ids();
        let tokens = AccessTokens::new(keys, config.auth.access_token_ttl)
            .ok_or_else(|| Error("auth.access_token_ttl must be 1s to 7d".into()))?;
        let password_rules = Rules::with_minimum(config.auth.password_min_length)
            .ok_or_else(|| Error("auth.password_min_length must be 8 to 128".into()))?;

        let record = settings_record(Action::ServerStarted, &config)
            .with("auth.signing_key", signing_keys.current);
        let settings = settings(&config, signing_keys)?;
        let mail = outbound::mailer(&config, address).map_err(|e| Error(e.to_string()))?;
        let mailer = mail.clone().map(|mail| mail as Arc<dyn Mailer>);
        let guard = config
            .projects
            .iter()
            .fold(Guard::new(config.webhooks.allow.clone()), |guard, (id, project)| {
                guard.with(*id, project.webhooks_allow.clone())
            });
        let guard = Arc::new(guard);
        let webhook_secrets = Arc::new(webhook_secrets(&config, &dir).await?);
        let webhooks = Webhooks::new(Arc::clone(&guard), Arc::clone(&webhook_secrets));
        let webhooks: Option<Arc<dyn WebhookClient>> = Some(Arc::new(webhooks));
        let traces = place.traces.clone();
        let spans = traces.clone().map(|traces| Arc::new(traces) as Arc<dyn Tracer>);
        let ports = Ports { mailer, webhooks, tracer: spans, ..ports };
        let system = System::start(opened.store, settings, ports, on_break)
            .await
            .map_err(|e| failed("the service cannot be started")(&e))?;
        let handle = system.handle();
        let passwords = Passwords::new();
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        let own = format!("{scheme}://{address}");
        let base = config.server.public_url.as_ref().map_or(own, ToString::to_string);
        let browsers = Browsers::new(&base, config.auth.refresh_token_ttl);
        if config.paused {
            tracing::warn!(
                "the server was started with --paused: no webhook, mail or trace leaves it, no task is leased, no \
                 schedule runs, and nothing is removed by age"
            );
        }
        let warnings = warnings(&config, &browsers);
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        let oidc = config.oidc.take().map(Provider::new).transpose();
        let oidc = oidc.map_err(|e| failed("[oidc]")(&e))?.map(|it| SignOn::new(it, &base));
        let (setup, setup_url) =
            first_admin(&config, &handle, &passwords, password_rules, &base).await?.unzip();

        handle.record(record).await.map_err(|e| failed("the audit log")(&e))?;
        let edge = Edge {
            body_timeout: config.server.body_timeout,
            bodies_max_bytes: config.server.bodies_max_bytes,
            ..Edge::default()
        };
        let bounds = Bounds {
            disk: opened.cluster.is_none().then(|| reserve(&config)),
            min_free_bytes: config.store.min_free_bytes,
            memory_bytes: config.server.memory_bytes,
        };
        let app = App::new(Parts {
            bounds,
            handle,
            mail,
            defaults: Defaults {
                model: config.models.default,
                pass_unknown_confidence: config.hitl.missing_confidence == MissingConfidence::Pass,
            },
            trust: config.worker.trust_confidence,
            limiter: Limiter::new(config.limits.plans),
            streams: config.limits.streams,
            allowed_origins: allowed_origins(&config.server),
            chat_wait: config.server.chat_wait,
            file_bytes: config.limits.file_bytes,
            search_days: config.search.days,
            tokens,
            passwords,
            password_rules,
            setup,
            browsers,
            warnings,
            oidc,
            trusted_proxies: config.server.trusted_proxies,
            guard,
            webhook_secrets,
            metrics_public: config.metrics.public,
            data_dir: dir,
            store: opened.embedded,
            cluster: opened.cluster,
            traces,
            tls: place.tls.clone(),
        });
        Ok(Self { system, app: Arc::new(app), edge, setup_url })
    }
}

/// A server that is ready to answer.
pub struct Service {
    assembled: Assembled,
    port: Port,
    limits: Limits,
    reload: Reload,
}

impl Service {
    /// Opens the store, brings back unfinished work, and listens. When this returns, the first
    /// connection can be made; its answer comes once [`Service::serve`] runs.
    ///
    /// # Errors
    /// The obstacle and its remedy.
    pub async fn start(config: Config) -> Result<Self, Error> {
        if config.store.shared.is_some() {
            return Err(Error("store.url: only callboard serve runs on PostgreSQL".into()));
        }
        let tls = prepare(&config)?;
        let store = open_store(&config).await?;
        // Mails link to the port, which is known from here on; the port takes no connection yet.
        let bound = Bound::new(&config, tls)?;
        let opened = Opened { embedded: Arc::downgrade(&store), store, cluster: None };
        let place = bound.place(&config);
        let on_break = Box::new(|why: String| broken(&why));
        let assembled = Assembled::over(opened, config.clone(), &place, on_break).await?;
        let port = bound.listen(&config)?;
        let limits = limits(&config);
        let reload = Reload::new(config, port.tls.clone());
        reload.serves(&assembled.app);
        Ok(Self { assembled, port, limits, reload })
    }

    /// The reader of settings while the server runs.
    pub(crate) fn reload(&self) -> Reload {
        self.reload.clone()
    }

    /// The address of the port.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.port.address
    }

    /// The URL at which the server listens.
    #[must_use]
    pub fn url(&self) -> String {
        self.port.url()
    }

    /// The secret link with which the first admin is made; `None` if there is an admin.
    #[must_use]
    pub const fn setup_url(&self) -> Option<&Secret> {
        self.assembled.setup_url.as_ref()
    }

    /// Begins a session of a user without a password, for `callboard dev`.
    ///
    /// # Errors
    /// The session cannot be stored.
    pub async fn sign_in(&self, user: User) -> Result<SessionBody, Error> {
        let signed_in = self.handle().sign_in(user, By::SYSTEM).await;
        signed_in
            .map(|it| self.assembled.app.session(&it))
            .map_err(|e| failed("the sign-in failed")(&e))
    }

    /// The secret address that signs a user in once, in a browser: for `callboard dev`.
    ///
    /// # Errors
    /// Too many such links wait.
    pub fn sign_in_url(&self, user: &User) -> Result<Secret, Error> {
        self.assembled
            .app
            .sign_in_link(user.id)
            .map_err(|e| failed("no sign-in link can be made")(&e))
    }

    /// The runtime's handle.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.assembled.system.handle()
    }

    /// The sender of spans to the exporter, if traces are on.
    #[must_use]
    pub fn spans(&self) -> Option<Spans> {
        self.port.exporter.as_ref().map(Exporter::spans)
    }

    /// Answers until `shutdown` is ready; then gives out no more work, lets open requests finish,
    /// and stops.
    ///
    /// # Errors
    /// The listener failed.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        self.serve_behind(|_, _, _| None::<(Middleware, JoinHandle<()>)>, shutdown).await
    }

    /// As [`Self::serve`], behind a door if there is one; its task ends with the server.
    ///
    /// # Errors
    /// The listener failed.
    pub(crate) async fn serve_behind<A: Answers>(
        self,
        door: impl FnOnce(&Config, Middleware, &Arc<App>) -> Option<(A, JoinHandle<()>)>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let Assembled { app, edge, .. } = &self.assembled;
        let service = http::service(Arc::clone(app), *edge);
        match door(&self.reload.config(), service.clone(), app) {
            None => self.answer_with(service, shutdown).await,
            Some((door, task)) => {
                let served = self.answer_with(door, shutdown).await;
                task.abort();
                served
            }
        }
    }

    async fn answer_with(
        self,
        service: impl Answers,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let Self { assembled: Assembled { system, app, .. }, port, limits, .. } = self;
        let (stopping, mut stopped) = watch::channel(false);
        let sandbox = tokio::spawn(sandbox::run(system.handle()));
        let batches = tokio::spawn(http::run_batches(Arc::clone(&app)));
        let served = port.serve(service, limits, async move {
            // The wait fails only if the sender is gone, which is a reason to stop as well.
            let _ = stopped.wait_for(|stop| *stop).await;
        });
        let stop = async {
            shutdown.await;
            tracing::info!("stopping");
            system.drain();
            app.stopping.send_replace(true);
            stopping.send_replace(true);
        };
        let (served, ()) = tokio::join!(served, stop);
        system.store_uses().await;
        system.stop().await;
        sandbox.abort();
        batches.abort();
        served
    }
}

/// The admin that a first start makes.
#[derive(Debug, Clone, Copy)]
pub struct FirstAdmin<'a> {
    /// The e-mail address with which the admin signs in.
    pub email: &'a str,
    /// The password, in clear text.
    pub password: &'a str,
}

impl FirstAdmin<'_> {
    /// Makes the admin, unless there is a user already.
    ///
    /// # Errors
    /// E-mail or password break a rule, or the admin could not be stored.
    pub async fn make(
        self,
        handle: &Handle,
        passwords: &Passwords,
        rules: Rules,
    ) -> Result<bool, Error> {
        if handle.has_admin() {
            return Ok(false);
        }
        let refused = |e: callboard_domain::Error| failed("the first admin cannot be made")(&e);
        let email = Email::parse(self.email).map_err(refused)?;
        rules.check(self.password, &email).map_err(refused)?;
        let password_hash = passwords.hash(self.password.to_owned()).await.map_err(refused)?;
        let name = display_name(email.local_part()).map_err(refused)?;
        let new = NewUser {
            email,
            name,
            role: Role::Admin,
            tier: None,
            must_change_password: false,
            external: None,
            password_hash,
        };
        let made = handle.create_first_admin(new, By::SYSTEM).await.map_err(refused)?;
        Ok(made.is_some())
    }
}

/// Settings that do not go together, as texts for people.
fn warnings(config: &Config, browsers: &Browsers) -> Vec<&'static str> {
    if config.server.behind_proxy && !browsers.is_secure() {
        return vec![INSECURE_COOKIE];
    }
    Vec::new()
}

/// The configured secret, or the one that is kept in the data directory.
async fn webhook_secrets(config: &Config, dir: &Path) -> Result<WebhookSecrets, Error> {
    if let Some(secret) = &config.webhooks.secret {
        return WebhookSecret::parse(secret.expose())
            .map(WebhookSecrets::of)
            .ok_or_else(|| Error(format!("webhooks.secret must be {}", webhook::RIGHT)));
    }
    let path = dir.join("webhook.secret");
    let kept = blocking(move || WebhookSecrets::kept(&path)).await?;
    kept.map_err(|e| failed("the webhook secret cannot be had")(&e))
}

/// Makes the admin that the settings name. Without one, and without an admin in the store, returns the
/// setup and its link.
///
/// # Errors
/// The admin was refused, or clear text would leave this machine before there is an admin.
async fn first_admin(
    config: &Config,
    handle: &Handle,
    passwords: &Passwords,
    rules: Rules,
    base: &str,
) -> Result<Option<(Setup, Secret)>, Error> {
    if config.cluster.cell.is_some() {
        // People are home's.
        return Ok(None);
    }
    if let Some(admin) = &config.admin {
        let first = FirstAdmin { email: &admin.email, password: admin.password.expose() };
        if !first.make(handle, passwords, rules).await? {
            tracing::warn!(
                "CALLBOARD_ADMIN_EMAIL and CALLBOARD_ADMIN_PASSWORD(_FILE) are ignored: they make the first admin, and \
                 there is one; callboard admin reset gives an admin a new password"
            );
        }
    }
    if handle.has_admin() { Ok(None) } else { setup_link(config, handle.now(), base).map(Some) }
}

/// The link with which the first admin is made.
fn setup_link(config: &Config, now: Timestamp, base: &str) -> Result<(Setup, Secret), Error> {
    let hint = "set CALLBOARD_ADMIN_EMAIL and CALLBOARD_ADMIN_PASSWORD (or \
                CALLBOARD_ADMIN_PASSWORD_FILE) to make the first admin";
    if !config.server.listen.ip().is_loopback() {
        return Err(Error(format!(
            "there is no admin yet, so only loopback addresses may be listened on; {hint}"
        )));
    }
    tracing::warn!("there is no admin yet: open the setup link, or {hint}");
    let (setup, token) = Setup::new(now);
    let base = base.trim_end_matches('/');
    Ok((setup, Secret::new(format!("{base}/setup#token={}", token.expose()))))
}

/// The audit record of the settings, without secrets.
fn settings_record(action: Action, config: &Config) -> Record {
    let record = Record::new(action, By::SYSTEM).with("version", env!("CARGO_PKG_VERSION"));
    config.shown().into_iter().fold(record, |record, (name, value)| record.with(name, value))
}

/// The settings that may change while the system runs.
fn live(config: &Config) -> Result<Live, Error> {
    let prices = match &config.models.prices {
        None => SHIPPED_PRICES.to_owned(),
        Some(path) => std::fs::read_to_string(path)
            .map_err(|e| failed(&format!("models.prices: {}", path.display()))(&e))?,
    };
    let prices = Prices::parse(&prices).map_err(|e| failed("models.prices")(&e))?;
    Ok(Live {
        prices: Arc::new(prices),
        model_limits: config.models.limits.clone(),
        caps: config.limits.caps,
        quotas: config.limits.plans,
    })
}

fn settings(config: &Config, signing_keys: SigningKeys) -> Result<Settings, Error> {
    Ok(Settings {
        shards: usize::from(config.runtime.shards),
        active: config.runtime.active,
        aging: config.queue.aging,
        terms: LeasePolicy { lease: config.worker.lease, silent_after: config.worker.silent_after },
        heartbeat: config.worker.heartbeat,
        drain_deadline: DRAIN_DEADLINE,
        live: live(config)?,
        approvals: approval::Policy {
            escalate_after: config.hitl.escalate_after,
            rejects: config.hitl.on_timeout == OnTimeout::Reject,
            four_eyes: config.hitl.four_eyes,
        },
        keep_events: config.events.keep,
        keep_events_max: config.events.keep_max,
        retention: retention::Policy::new(config.retention.ended, config.retention.history),
        refresh_token: config.auth.refresh_token_ttl,
        signing_keys,
        keep_audit: config.audit.keep,
        webhooks: WebhookPolicy {
            events: config.webhooks.events.clone(),
            waits: config.webhooks.waits.clone().into(),
        },
        stands_still: config.paused,
        outage_patience: config.tasks.outage_patience,
        task_defaults: Arc::new(TaskDefaults {
            model: config.models.default.clone(),
            env: variables(&config.templates.env_allow),
            pass_unknown: config.hitl.missing_confidence == MissingConfidence::Pass,
        }),
        env_allow: config.templates.env_allow.clone(),
        projects: config.projects.iter().map(of_project).collect(),
        weights: config.projects.iter().map(|(id, project)| (*id, project.weight)).collect(),
        built_in: templates::built_in(&config.templates.env_allow)
            .map_err(|e| failed("a built-in template is not valid")(&e))?,
    })
}

/// The limits of connections.
pub(crate) fn limits(config: &Config) -> Limits {
    let max_connections = files::permitted(config.server.max_connections);
    let of_address = config.server.connections_per_address.unwrap_or((max_connections / 4).max(1));
    Limits {
        header_timeout: config.server.header_timeout,
        max_connections,
        per_address: of_address.min(max_connections),
        proxies: config.server.trusted_proxies.clone().into(),
        ..Limits::default()
    }
}

/// The origins of pages that may open sockets, besides that of the server as they reach it.
fn allowed_origins(server: &config::Server) -> Vec<String> {
    let public = server.public_url.as_ref().map(|url| url.origin().ascii_serialization());
    server.allowed_origins.iter().cloned().chain(public).collect()
}

/// The variables of a project.
fn of_project((id, project): (&ProjectId, &config::OfProject)) -> (ProjectId, AllowedVariables) {
    let names = project.env_allow.clone();
    (*id, AllowedVariables { values: variables(&names), names })
}

/// The allowed environment variables at the start; one that is not set has no value.
fn variables(names: &[String]) -> HashMap<String, String> {
    names.iter().filter_map(|name| Some((name.clone(), std::env::var(name).ok()?))).collect()
}

/// The configured keys, else those in the data directory.
async fn keyring(path: &Path, auth: &Auth, now: Timestamp) -> Result<Keyring, Error> {
    let key = |secret: &Secret| SigningKey::configured(secret.expose());
    let keys = if let Some(current) = &auth.signing_key {
        key(current).and_then(|current| {
            let previous = auth.previous_signing_key.as_ref().map(key).transpose()?;
            Ok(Keyring::configured(current, previous))
        })
    } else {
        let path = path.to_owned();
        blocking(move || Keyring::stored(&path, now)).await?
    };
    keys.map_err(|e| failed("the signing key cannot be had")(&e))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|e| failed("a thread broke")(&e))
}

/// Ends the process after the disk or an actor that all need has failed; the next start recovers
/// the durable state.
pub(crate) fn broken(why: &str) {
    tracing::error!(why, "the process ends: it cannot go on safely");
    std::process::exit(BROKEN);
}
