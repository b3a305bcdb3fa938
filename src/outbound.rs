//! The clients for other services: mails, webhooks, traces, and calls to an identity provider.

pub mod email;
pub mod guard;
pub mod oidc;
pub mod traces;
pub mod webhook;

use std::net::SocketAddr;
use std::sync::Arc;

use callboard_otlp::Exporter;

use crate::config::{Config, Otel};
use email::{Email, NotUsable};

/// The export of traces, if a receiver is configured, by a setting or by OpenTelemetry's own variables.
///
/// # Errors
/// The receiver or the headers cannot be used.
pub fn exporter(config: &Config) -> Result<Option<Exporter>, callboard_otlp::Error> {
    let Otel { endpoint, headers, .. } = &config.otel;
    if config.paused || (endpoint.is_none() && !callboard_otlp::named_by_environment()) {
        return Ok(None);
    }
    let (endpoint, headers) = (endpoint.clone(), headers.clone());
    let options = callboard_otlp::Options { service: "callboard", endpoint, headers };
    Exporter::start(options).map(Some)
}

/// The client for mail, if a server for it is configured. Mails link to `server.public_url`, else
/// to the listening address.
///
/// # Errors
/// Those of [`Email::new`].
pub fn mailer(config: &Config, listening: SocketAddr) -> Result<Option<Arc<Email>>, NotUsable> {
    let Some(smtp) = &config.smtp else { return Ok(None) };
    if smtp.shows_its_password() {
        tracing::warn!(
            host = smtp.host,
            "smtp.tls is none: the password goes over the network in the clear"
        );
    }
    let base = config.server.public_url.as_ref().map_or_else(
        || {
            let scheme = if config.tls.is_some() { "https" } else { "http" };
            let base = format!("{scheme}://{listening}");
            tracing::warn!(base, "server.public_url is not set: mails link to the server itself");
            base
        },
        ToString::to_string,
    );
    Ok(Some(Arc::new(Email::new(smtp, &base)?)))
}
