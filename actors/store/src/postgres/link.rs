//! Connections to PostgreSQL: TLS, the settings of a session, and calls that outlast an outage.
//!
//! A read that fails with its connection is repeated on a new one, for as long as the store's patience
//! lasts. Deliberately absent: the repetition of commits, which is the engine's.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::Error;

/// The least version of PostgreSQL, as `server_version_num` says it.
const LEAST_VERSION: u32 = 150_000;
const CONNECT: Duration = Duration::from_secs(5);
/// The pause between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(100);
/// The connections for reads.
const READERS: usize = 4;

/// The address of a PostgreSQL database and the way to it.
#[derive(Clone)]
pub struct Address {
    config: Config,
    tls: Option<MakeRustlsConnect>,
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
        Ok(Self { config, tls })
    }

    /// A connection, whose other end runs on `runtime`.
    async fn connect(&self, runtime: &Handle) -> Result<(Client, Warned), tokio_postgres::Error> {
        let warned = Warned::default();
        let client = if let Some(tls) = &self.tls {
            let (client, connection) = self.config.connect(tls.clone()).await?;
            runtime.spawn(run(connection, warned.clone()));
            client
        } else {
            let (client, connection) = self.config.connect(NoTls).await?;
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

/// The connections of a store.
pub(super) struct Link {
    address: Address,
    runtime: Handle,
    patience: Duration,
    readers: [Mutex<Option<Arc<Client>>>; READERS],
    turn: AtomicUsize,
    closing: AtomicBool,
    /// True once a connection was made.
    opened: AtomicBool,
}

impl Link {
    pub(super) fn new(address: Address, runtime: Handle, patience: Duration) -> Self {
        Self {
            address,
            runtime,
            patience,
            readers: std::array::from_fn(|_| Mutex::new(None)),
            turn: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
            opened: AtomicBool::new(false),
        }
    }

    /// Ends every wait for a connection.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// The time at which a call that begins now gives up.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.patience
    }

    /// A connection of the caller's own; waits for the database until `deadline`.
    pub(super) async fn connect(&self, deadline: Instant) -> Result<Client, Error> {
        Ok(self.connect_watched(deadline).await?.0)
    }

    /// The same, with the connection's warnings.
    pub(super) async fn connect_watched(
        &self,
        deadline: Instant,
    ) -> Result<(Client, Warned), Error> {
        for attempt in 0_u32.. {
            // The connection belongs to the store's runtime, whichever runtime asks for it.
            let (address, runtime) = (self.address.clone(), self.runtime.clone());
            let connect = async move { address.connect(&runtime).await };
            match self.runtime.spawn(connect).await.map_err(|_| Error::Stopped)? {
                Ok(connected) => {
                    self.opened.store(true, Ordering::Relaxed);
                    return Ok(connected);
                }
                // A right address may fail like this after a change of the network or of a certificate,
                // and then works again; one that never worked is wrong.
                Err(error) if !self.opened.load(Ordering::Relaxed) && is_misdirected(&error) => {
                    return Err(failed(&error));
                }
                Err(error) => {
                    if attempt == 0 {
                        tracing::warn!(error = %explain(&error), "the database cannot be reached yet");
                    }
                    self.pause(&error, deadline).await?;
                }
            }
        }
        Err(Error::Stopped)
    }

    /// Waits before the next attempt, unless the error stays or the time is over.
    pub(super) async fn pause(
        &self,
        error: &tokio_postgres::Error,
        deadline: Instant,
    ) -> Result<(), Error> {
        if !passes(error) || Instant::now() >= deadline {
            return Err(failed(error));
        }
        tracing::debug!(error = %explain(error), "the database does not answer; the call is repeated");
        self.runtime.spawn(tokio::time::sleep(PAUSE)).await.map_err(|_| Error::Stopped)?;
        if self.closing.load(Ordering::Relaxed) { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Reads by `call`, again on a new connection if the first one fails.
    pub(super) async fn read<T, F>(&self, call: impl Fn(Arc<Client>) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, tokio_postgres::Error>>,
    {
        let deadline = self.deadline();
        loop {
            let client = self.reader(deadline).await?;
            match call(client).await {
                Ok(read) => return Ok(read),
                Err(error) => self.pause(&error, deadline).await?,
            }
        }
    }

    async fn reader(&self, deadline: Instant) -> Result<Arc<Client>, Error> {
        let at = self.turn.fetch_add(1, Ordering::Relaxed) % READERS;
        let mut reader = self.readers[at].lock().await;
        if let Some(client) = reader.as_ref().filter(|client| !client.is_closed()) {
            return Ok(Arc::clone(client));
        }
        let client = Arc::new(self.connect(deadline).await?);
        *reader = Some(Arc::clone(&client));
        Ok(client)
    }

    /// Refuses a server that is too old, and warns of one that may lose acknowledged commits.
    pub(super) async fn check(&self) -> Result<(), Error> {
        let settings = self
            .read(async |client| {
                let names = "SELECT current_setting('server_version_num'), \
                             current_setting('synchronous_standby_names'), \
                             current_setting('fsync'), current_setting('full_page_writes')";
                client.query_one(names, &[]).await
            })
            .await?;
        let version: u32 = settings.get::<_, &str>(0).parse().unwrap_or(0);
        if version < LEAST_VERSION {
            let text =
                format!("PostgreSQL {} is too old: 15 is the least version", version / 10_000);
            return Err(Error::Io(text.into()));
        }
        if settings.get::<_, &str>(2) == "off" || settings.get::<_, &str>(3) == "off" {
            let text =
                "the server runs with fsync or full_page_writes off: a crash may destroy the data";
            return Err(Error::Io(text.into()));
        }
        if settings.get::<_, &str>(1).is_empty() {
            tracing::warn!(
                "PostgreSQL replicates to no synchronous standby: a failover may lose acknowledged work; \
                 set synchronous_standby_names (Patroni: synchronous_mode_strict)"
            );
        }
        Ok(())
    }
}

/// True if the same call may succeed later: the connection broke, or the server starts, stops, lacks
/// resources, or is a standby for now.
pub(super) fn passes(error: &tokio_postgres::Error) -> bool {
    let Some(code) = error.code() else {
        // The error comes from the network, not from the server.
        return true;
    };
    let class = &code.code()[..2];
    matches!(class, "08" | "40" | "53" | "57" | "58")
        || *code == SqlState::READ_ONLY_SQL_TRANSACTION
}

/// True if the server refuses TLS or its certificate is refused, or its name does not exist.
fn is_misdirected(error: &tokio_postgres::Error) -> bool {
    let mut causes =
        std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    let io = causes.find_map(|cause| cause.downcast_ref::<io::Error>());
    let is_of_tls = explain(error).contains("TLS handshake");
    match io {
        Some(io) => {
            let cause = io.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
            cause.is_some() || is_no_name(io)
        }
        None => is_of_tls,
    }
}

fn is_no_name(error: &io::Error) -> bool {
    let text = error.to_string();
    text.starts_with("failed to lookup address") && !text.contains("Temporary failure")
}

pub(super) fn failed(error: &tokio_postgres::Error) -> Error {
    Error::Io(format!("PostgreSQL: {}", explain(error)).into())
}

/// The error with its causes.
fn explain(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
