//! The address of a database, and sessions with it: TLS, the hosts in turn, the settings of a session.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::error::Severity;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::errors::{explain, is_misdirected, passes, reason};

/// The time for a session with one host: the connection, TLS, the password and the settings.
const CONNECT: Duration = Duration::from_secs(5);

/// The address of a PostgreSQL database and the way to it.
#[derive(Clone)]
pub struct Address {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    /// The host of the last session, which is asked first: another one may be silent.
    first: Arc<AtomicUsize>,
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        self.config == other.config
    }
}

impl Eq for Address {}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Address").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Address {
    /// Reads a URL, `postgres://user:password@host:port/database?sslmode=…&sslrootcert=PATH`, or the
    /// key-value form of libpq. `password` is taken where the URL has none.
    ///
    /// TLS verifies the server's certificate and name, by the system's roots or `sslrootcert`. Without
    /// `sslmode`, TLS is required unless every host is this machine.
    ///
    /// # Errors
    /// A clause about the URL, which never contains the password.
    pub fn parse(url: &str, password: Option<&str>) -> Result<Self, String> {
        let (url, mode, root) = split_tls(url)?;
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            format!("it cannot be read: {}", source.unwrap_or_else(|| error.to_string()))
        })?;
        if config.get_password().is_none()
            && let Some(password) = password
        {
            config.password(password);
        }
        if config.get_hosts().is_empty() {
            return Err("it names no host".into());
        }
        if config.get_user().is_none() {
            return Err("it names no user".into());
        }
        let is_local = config.get_hosts().iter().all(is_this_machine);
        let mode = mode.unwrap_or(if is_local { SslMode::Prefer } else { SslMode::Require });
        config.ssl_mode(mode).application_name("callboard").connect_timeout(CONNECT);
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        config.keepalives_idle(Duration::from_secs(5)).keepalives_interval(Duration::from_secs(2));
        config.keepalives_retries(3).tcp_user_timeout(Duration::from_secs(10));
        let tls = (mode != SslMode::Disable).then(|| tls(root)).transpose()?;
        Ok(Self { config, tls, first: Arc::default() })
    }

    /// A session with the first host that gives one to a writer.
    pub(super) async fn connect(&self, runtime: &Handle) -> Result<(Client, Warned), NoSession> {
        let mut none = NoSession(Vec::new());
        let (hosts, first) = (self.config.get_hosts().len(), self.first.load(Ordering::Relaxed));
        for at in (first..hosts).chain(0..first) {
            let one = of_host(&self.config, at);
            let cause = match tokio::time::timeout(CONNECT, self.session(&one, runtime)).await {
                Ok(Ok(session)) => {
                    self.first.store(at, Ordering::Relaxed);
                    return Ok(session);
                }
                Ok(Err(error)) => Some(error),
                Err(_) => None,
            };
            none.0.push((shown(&one), cause));
        }
        Err(none)
    }

    /// A session, whose other end runs on `runtime`.
    async fn session(
        &self,
        config: &Config,
        runtime: &Handle,
    ) -> Result<(Client, Warned), tokio_postgres::Error> {
        let warned = Warned::default();
        let client = if let Some(tls) = &self.tls {
            let (client, connection) = config.connect(tls.clone()).await?;
            runtime.spawn(run(connection, warned.clone()));
            client
        } else {
            let (client, connection) = config.connect(NoTls).await?;
            runtime.spawn(run(connection, warned.clone()));
            client
        };
        // Every statement finds its rows by a primary key, however small the statistics say a table is.
        let settings = "SET synchronous_commit = on; SET enable_seqscan = off; SET jit = off; \
                        SET default_transaction_isolation = 'read committed'; \
                        SET statement_timeout = 0; SET lock_timeout = 0";
        client.batch_execute(settings).await?;
        Ok((client, warned))
    }
}

/// The settings with one of the hosts alone: the client waits for a silent host for ever, and asks no other.
fn of_host(all: &Config, at: usize) -> Config {
    let mut one = Config::new();
    let ports = all.get_ports();
    one.port(ports.get(at).or_else(|| ports.first()).copied().unwrap_or(5432));
    match &all.get_hosts()[at] {
        Host::Tcp(name) => one.host(name),
        Host::Unix(path) => one.host_path(path),
    };
    if let Some(address) = all.get_hostaddrs().get(at) {
        one.hostaddr(*address);
    }
    if let Some(user) = all.get_user() {
        one.user(user);
    }
    if let Some(password) = all.get_password() {
        one.password(password);
    }
    if let Some(name) = all.get_dbname() {
        one.dbname(name);
    }
    if let Some(options) = all.get_options() {
        one.options(options);
    }
    if let Some(name) = all.get_application_name() {
        one.application_name(name);
    }
    if let Some(limit) = all.get_connect_timeout() {
        one.connect_timeout(*limit);
    }
    if let Some(limit) = all.get_tcp_user_timeout() {
        one.tcp_user_timeout(*limit);
    }
    if let Some(interval) = all.get_keepalives_interval() {
        one.keepalives_interval(interval);
    }
    if let Some(retries) = all.get_keepalives_retries() {
        one.keepalives_retries(retries);
    }
    one.keepalives(all.get_keepalives()).keepalives_idle(all.get_keepalives_idle());
    one.ssl_mode(all.get_ssl_mode()).ssl_negotiation(all.get_ssl_negotiation());
    one.channel_binding(all.get_channel_binding());
    one.target_session_attrs(all.get_target_session_attrs());
    one.load_balance_hosts(all.get_load_balance_hosts());
    one
}

/// The host and port of settings with one host.
fn shown(one: &Config) -> String {
    let port = one.get_ports().first().copied().unwrap_or(5432);
    match one.get_hosts().first() {
        Some(Host::Tcp(name)) => format!("{name}:{port}"),
        Some(Host::Unix(path)) => format!("{}:{port}", path.display()),
        None => String::new(),
    }
}

/// The reason why each host gave no session; none for a host that was not heard in time.
#[derive(Debug)]
pub(super) struct NoSession(Vec<(String, Option<tokio_postgres::Error>)>);

impl NoSession {
    /// True if no host was heard.
    pub(super) fn is_silence(&self) -> bool {
        self.0.iter().all(|(_, error)| error.is_none())
    }

    /// The causes, as anybody may read them.
    pub(super) fn reason(&self) -> String {
        let silence = || "it takes connections and says nothing".to_owned();
        let cause = |(_, error): &(_, Option<_>)| error.as_ref().map_or_else(silence, reason);
        let mut causes: Vec<_> = self.0.iter().map(cause).collect();
        causes.dedup();
        causes.join("; ")
    }

    /// True if another try brings nothing. A right address may fail like a misdirected one after a change of the
    /// network or of a certificate, and then works again; one that never worked is wrong.
    pub(super) fn is_final(&self, has_worked: bool) -> bool {
        let is_final =
            |error: &tokio_postgres::Error| !passes(error) || !has_worked && is_misdirected(error);
        self.0.iter().all(|(_, error)| error.as_ref().is_some_and(is_final))
    }
}

impl std::fmt::Display for NoSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, (host, error)) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            write!(f, "{separator}PostgreSQL at {host} ")?;
            match error.as_ref().map(explain) {
                None => write!(
                    f,
                    "takes connections and says nothing: no session began within {} s",
                    CONNECT.as_secs()
                )?,
                Some(text) if text.contains("password missing") => f.write_str(
                    "asks for a password, and none is set: set store.password_file, PGPASSWORD, or the \
                     password in store.url",
                )?,
                Some(text) => write!(f, "gives no session: {text}")?,
            }
        }
        Ok(())
    }
}

/// True once the server has sent a warning on a connection.
///
/// A commit whose wait for a synchronous standby is cancelled succeeds with a warning: its transaction is
/// committed on the primary alone, and a failover may lose it.
#[derive(Debug, Clone, Default)]
pub(super) struct Warned(Arc<AtomicBool>);

impl Warned {
    /// Forgets the warnings up to now; true if there was one.
    pub(super) fn take(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }
}

/// Runs the other end of a connection until it closes.
async fn run<S, T>(mut connection: Connection<S, T>, warned: Warned)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(message) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
        match message {
            Ok(AsyncMessage::Notice(notice)) => {
                let is_warning = notice.parsed_severity() == Some(Severity::Warning);
                if is_warning {
                    warned.0.store(true, Ordering::SeqCst);
                }
                tracing::debug!(
                    severity = notice.severity(),
                    text = notice.message(),
                    "PostgreSQL"
                );
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(error = %explain(&error), "a connection to the database ended");
                return;
            }
        }
    }
}

/// Takes the settings of TLS out of a URL: those that verify, and the file of roots, are unknown to the
/// parser of the rest.
fn split_tls(url: &str) -> Result<(String, Option<SslMode>, Option<PathBuf>), String> {
    let is_url = url.contains("://");
    let (base, pairs, joint) = match url.split_once('?') {
        Some((base, query)) if is_url => (base, query.split('&').collect(), "&"),
        _ if is_url => (url, Vec::new(), "&"),
        _ => ("", url.split_ascii_whitespace().collect(), " "),
    };
    let (mut kept, mut mode, mut root) = (Vec::new(), None, None);
    for pair in pairs {
        match pair.split_once('=') {
            Some(("sslmode", name)) => {
                mode = Some(match name {
                    "disable" => SslMode::Disable,
                    "prefer" => SslMode::Prefer,
                    "require" | "verify-ca" | "verify-full" => SslMode::Require,
                    _ => {
                        return Err(
                            "sslmode must be disable, prefer, require or verify-full".into()
                        );
                    }
                });
            }
            Some(("sslrootcert", path)) => root = Some(PathBuf::from(path)),
            _ => kept.push(pair),
        }
    }
    let kept = kept.join(joint);
    let mark = if is_url && !kept.is_empty() { "?" } else { "" };
    Ok((format!("{base}{mark}{kept}"), mode, root))
}

fn is_this_machine(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost"
                || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    }
}

fn tls(root: Option<PathBuf>) -> Result<MakeRustlsConnect, String> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let roots = match root {
        Some(path) => {
            let mut roots = rustls::RootCertStore::empty();
            let shown = path.display();
            let read = CertificateDer::pem_file_iter(&path).and_then(Iterator::collect);
            let read: Vec<_> = read.map_err(|error| format!("sslrootcert {shown}: {error}"))?;
            for certificate in read {
                roots.add(certificate).map_err(|error| format!("sslrootcert {shown}: {error}"))?;
            }
            Arc::new(roots)
        }
        // Where TLS is only preferred, a machine without certificates must not fail over them.
        None => callboard_common::tls::system_roots()
            .unwrap_or_else(|_| Arc::new(rustls::RootCertStore::empty())),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
