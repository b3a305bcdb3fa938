//! The one choice of cryptography for everything that speaks TLS as a client.
//!
//! `ring` builds without a C toolchain's extras, and the other crates here already bring it.
//! Deliberately absent: certificates and roots, which the system keeps.

/// Makes `ring` the process's provider, unless one was chosen before. Cheap, so every builder
/// of a client calls it.
pub fn install_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Another thread was faster: it installed the same provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
