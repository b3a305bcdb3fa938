//! TLS as a client: the one choice of cryptography, and the certificates that the system trusts.
//!
//! `ring` builds without a C toolchain's extras, and the other crates here already bring it.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::{ClientConfig, RootCertStore};

/// Makes `ring` the process's provider, unless one was chosen before. Cheap, so every builder
/// of a client calls it.
pub fn install_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread was faster: it installed the same provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// The certificates of the authorities that the system trusts. They are read at the first need and kept: a process
/// without a connection over TLS never has them.
///
/// # Errors
/// The system has none; then the next call looks again.
pub fn system_roots() -> Result<Arc<RootCertStore>, String> {
    static ROOTS: Mutex<Option<Arc<RootCertStore>>> = Mutex::new(None);
    let mut kept = ROOTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(roots) = &*kept {
        return Ok(Arc::clone(roots));
    }
    let read = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(read.certs);
    if roots.is_empty() {
        let why = read.errors.first().map_or_else(String::new, |error| format!(": {error}"));
        return Err(format!("the system has no certificates of authorities{why}"));
    }
    Ok(Arc::clone(kept.insert(Arc::new(roots))))
}

/// A client that trusts the authorities of the system and presents no certificate.
///
/// # Errors
/// As [`system_roots`].
pub fn client() -> Result<Arc<ClientConfig>, String> {
    install_provider();
    let config = ClientConfig::builder().with_root_certificates(system_roots()?);
    Ok(Arc::new(config.with_no_client_auth()))
}

/// A refusal of the server's certificate in words, with the way out; any other error as it is.
#[must_use]
pub fn explained(error: String) -> String {
    const CAUSES: [(&str, &str); 3] = [
        (
            "CaUsedAsEndEntity",
            "the server's certificate is that of an authority (CA:TRUE). Let this authority sign another one for \
             the server, with CA:FALSE and the server's name",
        ),
        (
            "UnknownIssuer",
            "this machine does not trust the issuer of the server's certificate. Add the issuer's certificate to \
             those of the system, or name its file in SSL_CERT_FILE",
        ),
        (
            "UnsupportedCertVersion",
            "the server's certificate is not an X.509 certificate of version 3. Make a new one",
        ),
    ];
    let known = CAUSES.iter().find(|(name, _)| error.contains(name));
    known.map_or(error, |(_, words)| (*words).to_owned())
}

#[cfg(test)]
mod tests {
    use super::explained;

    #[test]
    fn a_refused_certificate_is_explained_and_any_other_error_stays() {
        let raw = "invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))".to_owned();
        let words = explained(raw);
        assert!(words.contains("CA:FALSE") && !words.contains("CaUsed"), "{words}");
        assert_eq!(explained("connection refused".into()), "connection refused");
    }
}
