//! The server's certificate, and the authority of workers' certificates (docs/reference/cli.md): read
//! at the start, and again when the files change.
//!
//! A client may connect without a certificate; a route that needs one asks for [`Certificate`]. A
//! certificate that the authority has not signed ends the handshake.

mod validity;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant, SystemTime};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The wait between two looks at the files; a change counts within 10 s.
const LOOK: Duration = Duration::from_secs(5);

/// The time before the end of a certificate or a key from which on the server warns, in seconds.
pub(crate) const SOON: i64 = 14 * 24 * 3600;
/// The time between two warnings.
const DAY: Duration = Duration::from_hours(24);

/// The client certificate of a connection; an extension of its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certificate {
    /// The server asks for none.
    NotAsked,
    /// The client was asked, and has none.
    Missing,
    /// The client has one of the authority.
    Verified,
}

/// The files of a certificate, its key and the authority of clients, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The certificate, then those of its issuers.
    pub cert: PathBuf,
    /// The key of the certificate.
    pub key: PathBuf,
    /// The certificates of the authorities that sign workers' certificates; `None` asks for none.
    pub client_ca: Option<PathBuf>,
}

/// Makes TLS connections with the current certificate.
#[derive(Clone)]
pub struct Tls {
    files: Files,
    current: Arc<RwLock<Current>>,
}

/// A certificate in use.
struct Current {
    config: Arc<ServerConfig>,
    validity: Validity,
}

impl Tls {
    /// Reads the certificate and the key.
    ///
    /// # Errors
    /// The file, and its fault.
    pub fn load(files: Files) -> Result<Self, String> {
        let current = read(&files)?;
        current.validity.report(&files, now());
        Ok(Self { files, current: Arc::new(RwLock::new(current)) })
    }

    /// The time left of the certificate and of those of its issuers, and of the authority of workers' certificates, in
    /// seconds; negative once it is over.
    #[must_use]
    pub fn left(&self) -> Vec<(&'static str, i64)> {
        let now = now();
        self.current()
            .validity
            .ends()
            .map(|(name, last)| (name, last.saturating_sub(now)))
            .collect()
    }

    fn current(&self) -> RwLockReadGuard<'_, Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Speaks TLS on an accepted connection.
    ///
    /// # Errors
    /// The caller speaks another protocol, or is gone.
    pub async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
        let config = Arc::clone(&self.current().config);
        TlsAcceptor::from(config).accept(stream).await
    }

    /// The client certificate of an accepted connection.
    pub fn certificate<S>(&self, stream: &TlsStream<S>) -> Certificate {
        match (&self.files.client_ca, stream.get_ref().1.peer_certificates()) {
            (None, _) => Certificate::NotAsked,
            (Some(_), None) => Certificate::Missing,
            (Some(_), Some(_)) => Certificate::Verified,
        }
    }

    /// Reads the files again whenever they change. Files that cannot be used are logged, and the
    /// certificate stays. Never returns.
    pub async fn follow(self) {
        let mut read_at = self.changed_at();
        let mut reported_at = Instant::now();
        loop {
            tokio::time::sleep(LOOK).await;
            if reported_at.elapsed() >= DAY {
                reported_at = Instant::now();
                self.current().validity.report(&self.files, now());
            }
            let changed_at = self.changed_at();
            // The other file may follow.
            if changed_at != read_at && self.read_again() {
                read_at = changed_at;
            }
        }
    }

    /// Reads the files again; false, with a line in the log, if they cannot be used and the certificate stays.
    pub fn read_again(&self) -> bool {
        let now = now();
        let read = read(&self.files).and_then(|read| {
            let is_good = self.current().validity.fault(now).is_none();
            match read.validity.fault(now).filter(|_| is_good) {
                Some(fault) => Err(format!("{}: {fault}", self.files.cert.display())),
                None => Ok(read),
            }
        });
        match read {
            Ok(read) => {
                tracing::info!(cert = %self.files.cert.display(), "the certificate was read again");
                read.validity.report(&self.files, now);
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = read;
                true
            }
            Err(error) => {
                tracing::warn!(error, "the old certificate stays in use");
                false
            }
        }
    }

    fn changed_at(&self) -> [Option<SystemTime>; 3] {
        let changed =
            |path: &PathBuf| std::fs::metadata(path).and_then(|file| file.modified()).ok();
        let Files { cert, key, client_ca } = &self.files;
        [changed(cert), changed(key), client_ca.as_ref().and_then(changed)]
    }
}

/// The first and the last second of certificates, in Unix time; `None` where it cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Validity {
    /// The overlap of the server's chain.
    server: Option<(i64, i64)>,
    /// The earliest end of the authorities of workers.
    client_ca: Option<i64>,
}

impl Validity {
    /// The end of each kind of certificate.
    fn ends(self) -> impl Iterator<Item = (&'static str, i64)> {
        let server = self.server.map(|(_, last)| ("server", last));
        server.into_iter().chain(self.client_ca.map(|last| ("client_ca", last)))
    }

    /// The reason why clients refuse the certificate now.
    fn fault(self, now: i64) -> Option<String> {
        let (first, last) = self.server?;
        if now > last {
            return Some(format!("it has expired, at {}", shown(last)));
        }
        (now < first).then(|| format!("it is not valid before {}", shown(first)))
    }

    /// Logs a certificate that clients refuse, or that ends soon.
    fn report(self, files: &Files, now: i64) {
        let cert = files.cert.display();
        if let Some(fault) = self.fault(now) {
            tracing::error!(%cert, fault, "clients refuse the certificate");
        }
        for (certificate, last) in self.ends().filter(|(_, last)| last - now <= SOON) {
            let at = shown(last);
            tracing::warn!(certificate, at, "a certificate ends soon, or has ended: renew it");
        }
    }
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

fn shown(second: i64) -> String {
    jiff::Timestamp::from_second(second).map_or_else(|_| second.to_string(), |at| at.to_string())
}

/// The time in which all certificates are valid.
fn overlap<'c>(chain: impl Iterator<Item = &'c CertificateDer<'c>>) -> Option<(i64, i64)> {
    let each = chain.map(|certificate| validity::of(certificate));
    each.reduce(|one, other| {
        let ((first, last), (from, to)) = (one?, other?);
        Some((first.max(from), last.min(to)))
    })?
}

fn read(Files { cert, key, client_ca }: &Files) -> Result<Current, String> {
    let of = |path: &PathBuf, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(cert).map_err(|e| of(cert, &e))?.collect();
    let chain = chain.map_err(|error| of(cert, &error))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| of(key, &error))?;
    callboard_common::tls::install_provider();
    let mut validity = Validity { server: overlap(chain.iter()), client_ca: None };
    let builder = match client_ca {
        None => ServerConfig::builder().with_no_client_auth(),
        Some(path) => {
            let (verifier, last) = authorities(path).map_err(|error| of(path, &error))?;
            validity.client_ca = last;
            ServerConfig::builder().with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, private).map_err(|error| of(cert, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Current { config: Arc::new(config), validity })
}

/// Verifies the certificate of a client that presents one; with the earliest end of an authority.
fn authorities(path: &Path) -> Result<(Arc<dyn ClientCertVerifier>, Option<i64>), String> {
    let (mut roots, mut last) = (RootCertStore::empty(), None::<i64>);
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())? {
        let certificate = certificate.map_err(|error| error.to_string())?;
        let ends = validity::of(&certificate).map(|(_, ends)| ends);
        last = last.into_iter().chain(ends).min();
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).allow_unauthenticated().build();
    verifier.map(|verifier| (verifier, last)).map_err(|error| error.to_string())
}
