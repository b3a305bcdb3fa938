//! The server's certificate, and the authority of workers' certificates (docs/reference/cli.md): read
//! at the start, and again when the files change.
//!
//! A client may connect without a certificate; a route that needs one asks for [`Certificate`]. A
//! certificate that the authority has not signed ends the handshake.
//!
//! Deliberately absent: TLS as a client, which is [`callboard_common::tls`].

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The wait between two looks at the files; a change counts within 10 s.
const LOOK: Duration = Duration::from_secs(5);

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
    config: Arc<RwLock<Arc<ServerConfig>>>,
}

impl Tls {
    /// Reads the certificate and the key.
    ///
    /// # Errors
    /// The file, and its fault.
    pub fn load(files: Files) -> Result<Self, String> {
        let config = Arc::new(RwLock::new(Arc::new(read(&files)?)));
        Ok(Self { files, config })
    }

    /// Speaks TLS on an accepted connection.
    ///
    /// # Errors
    /// The caller speaks another protocol, or is gone.
    pub async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
        let config = Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner));
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
        loop {
            tokio::time::sleep(LOOK).await;
            let changed_at = self.changed_at();
            // The other file may follow.
            if changed_at != read_at && self.read_again() {
                read_at = changed_at;
            }
        }
    }

    /// Reads the files again; false, with a line in the log, if they cannot be used and the certificate stays.
    pub fn read_again(&self) -> bool {
        let read = read(&self.files).map(|config| {
            *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
        });
        match &read {
            Ok(()) => {
                tracing::info!(cert = %self.files.cert.display(), "the certificate was read again")
            }
            Err(error) => tracing::warn!(error, "the old certificate stays in use"),
        }
        read.is_ok()
    }

    fn changed_at(&self) -> [Option<SystemTime>; 3] {
        let changed =
            |path: &PathBuf| std::fs::metadata(path).and_then(|file| file.modified()).ok();
        let Files { cert, key, client_ca } = &self.files;
        [changed(cert), changed(key), client_ca.as_ref().and_then(changed)]
    }
}

fn read(Files { cert, key, client_ca }: &Files) -> Result<ServerConfig, String> {
    let of = |path: &PathBuf, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(cert).map_err(|e| of(cert, &e))?.collect();
    let chain = chain.map_err(|error| of(cert, &error))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| of(key, &error))?;
    callboard_common::tls::install_provider();
    let builder = match client_ca {
        None => ServerConfig::builder().with_no_client_auth(),
        Some(path) => {
            let verifier = authorities(path).map_err(|error| of(path, &error))?;
            ServerConfig::builder().with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, private).map_err(|error| of(cert, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Verifies the certificate of a client that presents one.
fn authorities(path: &Path) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())? {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).allow_unauthenticated().build();
    verifier.map_err(|error| error.to_string())
}
