//! The server's certificate (PROTOCOL.md 13, `[tls]`): read at the start, and again when its files change.
//!
//! Deliberately absent: TLS as a client, which is [`callboard_common::tls`].

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The wait between two looks at the files; a change counts within 10 s.
const LOOK: Duration = Duration::from_secs(5);

/// Where a certificate and its key are, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The certificate, then those of its issuers.
    pub cert: PathBuf,
    /// The key of the certificate.
    pub key: PathBuf,
}

/// Makes TLS connections with the certificate of today.
#[derive(Clone)]
pub struct Tls {
    files: Files,
    config: Arc<RwLock<Arc<ServerConfig>>>,
}

impl Tls {
    /// Reads the certificate and the key.
    ///
    /// # Errors
    /// The file, and what is wrong with it.
    pub fn load(files: Files) -> Result<Self, String> {
        let config = Arc::new(RwLock::new(Arc::new(read(&files)?)));
        Ok(Self { files, config })
    }

    /// Speaks TLS on an accepted connection.
    ///
    /// # Errors
    /// The caller speaks something else, or is gone.
    pub async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
        let config = Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner));
        TlsAcceptor::from(config).accept(stream).await
    }

    /// Reads the files again whenever they change. Files that cannot be used are logged, and the
    /// certificate stays. Never returns.
    pub async fn follow(self) {
        let mut read_at = self.changed_at();
        loop {
            tokio::time::sleep(LOOK).await;
            let changed_at = self.changed_at();
            if changed_at == read_at {
                continue;
            }
            match read(&self.files) {
                Ok(config) => {
                    let mut current = self.config.write().unwrap_or_else(PoisonError::into_inner);
                    *current = Arc::new(config);
                    read_at = changed_at;
                    tracing::info!(cert = %self.files.cert.display(), "the certificate was read again");
                }
                // The other file may follow.
                Err(error) => tracing::warn!(error, "the old certificate stays in use"),
            }
        }
    }

    fn changed_at(&self) -> [Option<SystemTime>; 2] {
        let changed = |path| std::fs::metadata(path).and_then(|file| file.modified()).ok();
        [changed(&self.files.cert), changed(&self.files.key)]
    }
}

fn read(Files { cert, key }: &Files) -> Result<ServerConfig, String> {
    let of = |path: &PathBuf, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(cert).map_err(|e| of(cert, &e))?.collect();
    let chain = chain.map_err(|error| of(cert, &error))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| of(key, &error))?;
    callboard_common::tls::install_provider();
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| of(cert, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
