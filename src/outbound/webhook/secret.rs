//! The secret that signs webhooks: configured, or made at first start and kept in a file that only its
//! owner may read (docs/reference/webhooks.md).
//!
//! The sandbox has a secret of its own, which is derived from that of production: every node of a cluster and
//! every restored backup has the same, and nobody who knows it can sign for production.
//!
//! ```text
//!   rotate ─▶ webhook.secret.previous: the old secret and its end ─▶ webhook.secret: the new one
//!             until then both sign the headers, and the old one signs the member of the body
//! ```
//!
//! A crash between the two files leaves the old secret in both, which signs once.

use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use callboard_common::secret::Secret;
use callboard_domain::id::{Mode, ProjectId};
use callboard_domain::{Error, Timestamp};
use zeroize::Zeroizing;

use crate::auth::signature::{HmacSha256, hmac_sha256, sign};
use crate::auth::token::key::write_private;

const PREFIX: &str = "whsec_";
/// The number of bytes to which the part behind the prefix decodes (Standard Webhooks).
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// The bytes of a fresh secret.
const MADE_BYTES: usize = 32;

/// The form of a secret.
pub const RIGHT: &str = "whsec_ and then 24 to 64 bytes in base64, such as the output of: \
                         echo whsec_$(head -c 32 /dev/urandom | base64)";

/// A secret of production, and that of the sandbox.
#[derive(Debug, Clone)]
pub struct SecretPair {
    live: Arc<WebhookSecret>,
    sandbox: Arc<WebhookSecret>,
}

impl SecretPair {
    fn of(live: WebhookSecret) -> Self {
        let derived = sign(live.header_key(), b"callboard sandbox");
        let text = format!("{PREFIX}{}", STANDARD.encode(derived));
        Self { live: Arc::new(live), sandbox: Arc::new(WebhookSecret::of(&text, &derived)) }
    }

    /// The secrets of a project, which are derived from those of `default`: no project can sign for another one.
    #[must_use]
    pub fn of_project(&self, project: ProjectId) -> Self {
        if project == ProjectId::DEFAULT {
            return self.clone();
        }
        let message = format!("callboard project {project}");
        let derived = sign(self.live.header_key(), message.as_bytes());
        let text = format!("{PREFIX}{}", STANDARD.encode(derived));
        Self::of(WebhookSecret::of(&text, &derived))
    }

    /// The secret of production or of the sandbox.
    #[must_use]
    pub const fn of_mode(&self, mode: Mode) -> &Arc<WebhookSecret> {
        match mode {
            Mode::Live => &self.live,
            Mode::Test => &self.sandbox,
        }
    }
}

/// The secrets that sign at a moment.
#[derive(Debug, Clone)]
pub struct Signing {
    /// The secret that receivers are given.
    pub current: SecretPair,
    /// The one before it, and the end of its validity.
    pub previous: Option<(SecretPair, Timestamp)>,
}

/// The secrets of a server.
#[derive(Debug)]
pub struct WebhookSecrets {
    signing: RwLock<Signing>,
    /// The file of the secret; `None` if the settings give it.
    path: Option<PathBuf>,
}

impl WebhookSecrets {
    /// The secrets of a server whose production signs with this one, which the settings give.
    #[must_use]
    pub fn of(live: WebhookSecret) -> Self {
        let signing = Signing { current: SecretPair::of(live), previous: None };
        Self { signing: RwLock::new(signing), path: None }
    }

    /// The secrets in the file `path` and the file of the one before; a missing secret is made. The call blocks.
    ///
    /// # Errors
    /// A file cannot be read or made, or holds something else.
    pub fn kept(path: &Path) -> Result<Self, String> {
        let current = WebhookSecret::kept(path)?;
        let previous = previous(path)?.filter(|(secret, _)| secret.expose() != current.expose());
        let previous = previous.map(|(secret, until)| (SecretPair::of(secret), until));
        let signing = Signing { current: SecretPair::of(current), previous };
        Ok(Self { signing: RwLock::new(signing), path: Some(path.to_owned()) })
    }

    /// The secrets that sign at `now`.
    #[must_use]
    pub fn at(&self, now: Timestamp) -> Signing {
        let mut signing = self.signing.read().unwrap_or_else(PoisonError::into_inner).clone();
        signing.previous = signing.previous.filter(|(_, until)| now < *until);
        signing
    }

    /// Makes another secret, durable before it signs; the old one signs beside it for `overlap`, and one before that
    /// no more. The call blocks.
    ///
    /// # Errors
    /// [`Error::InvalidState`] if the settings give the secret, [`Error::Unavailable`] if a file cannot be written:
    /// the secrets stay as they were.
    pub fn rotate(&self, overlap: Duration, now: Timestamp) -> Result<Signing, Error> {
        let Some(path) = &self.path else {
            let why = "the secret is set by webhooks.secret, webhooks.secret_file or CALLBOARD_WEBHOOK_SECRET: \
                       change it there, and restart the server";
            return Err(Error::InvalidState(why.into()));
        };
        let mut signing = self.signing.write().unwrap_or_else(PoisonError::into_inner);
        let (old, until) = (signing.current.clone(), now.after(overlap));
        let fresh = WebhookSecret::fresh();
        let failed = |error: io::Error| {
            tracing::error!(path = %path.display(), %error, "the webhook secret is not rotated");
            Error::Unavailable("the webhook secret cannot be written")
        };
        let row = Zeroizing::new(format!("{} {}\n", old.live.expose(), until.as_millis()));
        write_private(&beside(path), row.as_bytes()).map_err(failed)?;
        write_private(path, fresh.as_bytes()).map_err(failed)?;
        let live = WebhookSecret::parse(&fresh).ok_or(Error::Internal)?;
        let previous = (now < until).then_some((old, until));
        *signing = Signing { current: SecretPair::of(live), previous };
        Ok(signing.clone())
    }
}

/// The file of the secret before.
fn beside(path: &Path) -> PathBuf {
    path.with_added_extension("previous")
}

/// The secret before the one of the file `path`, and its end.
fn previous(path: &Path) -> Result<Option<(WebhookSecret, Timestamp)>, String> {
    let path = beside(path);
    let text = match fs::read_to_string(&path).map(Zeroizing::new) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
    };
    let parts = text.trim_end().split_once(' ');
    let read = parts.and_then(|(secret, until)| {
        let until = Timestamp::from_millis(until.parse().ok()?);
        Some((WebhookSecret::parse(secret)?, until))
    });
    read.map(Some).ok_or_else(|| {
        format!(
            "{} must hold a secret and its end in milliseconds; remove it: webhooks are then signed with the current \
             secret alone",
            path.display()
        )
    })
}

/// A secret in its two uses. Never shown by `Debug`.
pub struct WebhookSecret {
    text: Secret,
    /// The key of the member `signature`: the bytes of the text as it is shown.
    body: HmacSha256,
    /// The key of the header `webhook-signature`: the decoded part behind the prefix.
    header: HmacSha256,
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}

impl WebhookSecret {
    /// The secret as it is written; `None` unless it is [`RIGHT`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let decoded = STANDARD.decode(text.strip_prefix(PREFIX)?).ok().map(Zeroizing::new)?;
        BYTES.contains(&decoded.len()).then(|| Self::of(text, &decoded))
    }

    /// The secret with this text, whose part behind the prefix is `decoded`.
    fn of(text: &str, decoded: &[u8]) -> Self {
        Self {
            text: Secret::new(text.to_owned()),
            body: hmac_sha256(text.as_bytes()),
            header: hmac_sha256(decoded),
        }
    }

    /// The secret in the file `path`; if there is none, a new one, which is durable in the file of
    /// mode 0600 when this returns. The call blocks.
    ///
    /// # Errors
    /// The file cannot be read or made, or holds something else; it is never replaced.
    pub fn kept(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let failed = |deed: &str, error: &io::Error| {
            format!("cannot {deed} {shown}: {error}{}", callboard_store::advice(error))
        };
        let text = match fs::read(path).map(Zeroizing::new) {
            Ok(bytes) => {
                let meta = fs::metadata(path).map_err(|e| failed("inspect", &e))?;
                if meta.permissions().mode() & 0o077 != 0 {
                    tracing::warn!(path = %shown, "the webhook secret could be read by others");
                    fs::set_permissions(path, Permissions::from_mode(0o600))
                        .map_err(|e| failed("protect", &e))?;
                }
                Zeroizing::new(String::from_utf8_lossy(&bytes).into_owned())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let text = Self::fresh();
                write_private(path, text.as_bytes()).map_err(|e| failed("make", &e))?;
                tracing::info!(path = %shown, "made a secret for webhooks");
                text
            }
            Err(error) => return Err(failed("read", &error)),
        };
        Self::parse(text.trim_end()).ok_or_else(|| {
            format!(
                "{shown} must hold {RIGHT}; if the file is damaged, restore it from a backup; \
                 if it is lost, remove it: the next start makes a new secret, which every receiver needs"
            )
        })
    }

    fn fresh() -> Zeroizing<String> {
        let mut random = Zeroizing::new([0; MADE_BYTES]);
        rand::fill(&mut *random);
        Zeroizing::new(format!("{PREFIX}{}", STANDARD.encode(*random)))
    }

    /// The text that receivers are given.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.text.expose()
    }

    /// The key of the member `signature`.
    pub(super) const fn body_key(&self) -> &HmacSha256 {
        &self.body
    }

    /// The key of the header `webhook-signature`.
    pub(super) const fn header_key(&self) -> &HmacSha256 {
        &self.header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_whsec_and_24_to_64_bytes() {
        let of = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
        for (bytes, is_right) in [(23, false), (24, true), (64, true), (65, false)] {
            assert_eq!(WebhookSecret::parse(&of(bytes)).is_some(), is_right, "{bytes}");
        }
        for wrong in ["", "whsec_", "whsec_not base64!", &of(32)[6..], &of(32).to_uppercase()] {
            assert!(WebhookSecret::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn the_sandbox_has_a_secret_of_its_own_at_every_start() {
        let secret = |byte: u8| {
            let text = format!("whsec_{}", STANDARD.encode([byte; 32]));
            WebhookSecrets::of(WebhookSecret::parse(&text).expect("a secret"))
        };
        let text = |secrets: &WebhookSecrets, mode| {
            let now = Timestamp::from_millis(0);
            secrets.at(now).current.of_mode(mode).expose().to_owned()
        };
        let (live, sandbox) = (Mode::Live, Mode::Test);
        assert_ne!(text(&secret(1), live), text(&secret(1), sandbox));
        assert_eq!(text(&secret(1), sandbox), text(&secret(1), sandbox));
        assert_ne!(text(&secret(1), sandbox), text(&secret(2), sandbox));
    }

    fn bits_of(path: &Path) -> u32 {
        fs::metadata(path).expect("the file is there").permissions().mode() & 0o777
    }

    #[test]
    fn the_first_start_makes_a_secret_that_later_starts_find() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("webhook.secret");
        let made = WebhookSecret::kept(&path).expect("a writable directory");
        assert!(made.expose().len() > 40);
        assert_eq!(bits_of(&path), 0o600);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("our own file");
        let found = WebhookSecret::kept(&path).expect("a secret");
        assert_eq!(found.expose(), made.expose());
        assert_eq!(bits_of(&path), 0o600, "it is closed to others again");
        assert_eq!(format!("{made:?}"), "WebhookSecret(…)");
    }

    #[test]
    fn a_rotation_lets_the_old_secret_sign_until_its_end_also_after_a_restart() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("webhook.secret");
        let (now, hour) = (Timestamp::from_millis(1_000), Duration::from_hours(1));
        let secrets = WebhookSecrets::kept(&path).expect("a writable directory");
        let text = |pair: &SecretPair| pair.of_mode(Mode::Live).expose().to_owned();
        let first = text(&secrets.at(now).current);
        let rotated = secrets.rotate(hour, now).expect("a writable directory");
        let second = text(&rotated.current);
        assert_ne!(first, second);
        for secrets in [secrets, WebhookSecrets::kept(&path).expect("both files")] {
            let during = secrets.at(now.after(hour / 2));
            let (previous, until) = during.previous.expect("the old one counts");
            assert_eq!((text(&during.current), text(&previous)), (second.clone(), first.clone()));
            assert_eq!(until, now.after(hour));
            assert!(secrets.at(now.after(hour)).previous.is_none());
        }
        assert_eq!(bits_of(&beside(&path)), 0o600);
        let again = WebhookSecrets::kept(&path).expect("both files");
        let third = again.rotate(Duration::ZERO, now).expect("a writable directory");
        assert!(third.previous.is_none(), "nothing else signs");
        assert!(WebhookSecrets::kept(&path).expect("both files").at(now).previous.is_none());
        // A crash between the two files.
        fs::write(&path, &first).expect("a writable directory");
        fs::write(beside(&path), format!("{first} 9000000")).expect("a writable directory");
        assert!(WebhookSecrets::kept(&path).expect("both files").at(now).previous.is_none());
        let given = WebhookSecrets::of(WebhookSecret::parse(&first).expect("a secret"));
        assert!(matches!(given.rotate(hour, now), Err(Error::InvalidState(_))));
    }

    #[test]
    fn a_file_with_something_else_is_refused_and_left_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("webhook.secret");
        fs::write(&path, "short").expect("a writable directory");
        let refused = WebhookSecret::kept(&path).expect_err("no secret");
        assert!(refused.contains("must hold whsec_") && !refused.contains("short"), "{refused}");
        assert_eq!(fs::read_to_string(&path).expect("still there"), "short");
        fs::write(&path, b"whsec_\xff").expect("a writable directory");
        let refused = WebhookSecret::kept(&path).expect_err("no secret");
        assert!(refused.contains("restore it from a backup"), "{refused}");
    }
}
