//! `[smtp]`, read: only with a host is there a server for mail.
//!
//! Deliberately absent: defaults, which stand in `config/callboard.toml` alone, and a try whether
//! the server answers: mails wait for a server that does not.

use std::net::IpAddr;
use std::path::Path;

use lettre::message::Mailbox;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::error::{Error, Place};
use super::read::{read_file, secret};
use super::source::Source;
use super::{Secret, rule};

const SECTION: &str = "smtp";

/// `[smtp]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Smtp {
    /// Name or address of the server.
    pub host: String,
    /// The server's port.
    pub port: u16,
    /// The encryption of the connection.
    pub tls: Tls,
    /// The certificates that are trusted; none means those of the system.
    pub ca: Vec<CertificateDer<'static>>,
    /// Sender of the mails.
    pub from: Mailbox,
    /// The login.
    pub login: Option<Login>,
}

/// The encryption of a connection to an SMTP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// No encryption.
    None,
    /// Encryption after a greeting in the clear; a server that offers none gets no mail.
    Starttls,
    /// Encryption from the first byte.
    Tls,
}

/// The login at an SMTP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The user's name.
    pub username: String,
    /// The user's password.
    pub password: Secret,
}

impl Smtp {
    pub(super) fn read(source: &mut Source) -> Result<Option<Self>, Error> {
        const TLS: &[(&str, Tls)] =
            &[("none", Tls::None), ("starttls", Tls::Starttls), ("tls", Tls::Tls)];
        let host = source.optional(SECTION, "host", rule::host)?.flatten();
        let port = source.get(SECTION, "port", rule::whole(1..=u16::MAX))?;
        let tls = source.get(SECTION, "tls", rule::one_of(TLS))?;
        let ca = source.optional(SECTION, "ca", rule::path)?;
        let from = source.optional(SECTION, "from", rule::mailbox)?;
        let username = source.optional(SECTION, "username", rule::text)?;
        let password = secret(source, SECTION, ("password", "password_file"))?;
        let Some(host) = host else { return Ok(None) };
        let missing = |place: Place, says: &str| Error { place, says: says.to_owned() };
        let from = from.ok_or_else(|| {
            missing(source.place(SECTION, "host"), "smtp.from must be set too, the sender of mails")
        })?;
        let login = match (username, password) {
            (None, None) => None,
            (Some(username), Some((_, password))) => {
                Some(Login { username, password: Secret::new(password) })
            }
            (Some(_), None) => {
                let says = "CALLBOARD_SMTP__PASSWORD or smtp.password_file must be set too";
                return Err(missing(source.place(SECTION, "username"), says));
            }
            (None, Some((place, _))) => {
                return Err(missing(place, "smtp.username must be set too"));
            }
        };
        let ca = match ca {
            None => Vec::new(),
            Some(path) => certificates(&path, source.place(SECTION, "ca"))?,
        };
        Ok(Some(Self { host, port, tls, ca, from, login }))
    }

    /// True if the password would cross, in the clear, a network on which others can listen.
    #[must_use]
    pub fn shows_its_password(&self) -> bool {
        let is_loopback = self.host.eq_ignore_ascii_case("localhost")
            || self.host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
        self.tls == Tls::None && self.login.is_some() && !is_loopback
    }
}

fn certificates(path: &Path, place: Place) -> Result<Vec<CertificateDer<'static>>, Error> {
    let text = read_file(path, place.clone())?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) | Err(_) => {
            let says = format!("{} contains no certificates in PEM form", path.display());
            Err(Error { place, says })
        }
    }
}
