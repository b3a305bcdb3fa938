//! The keys that access tokens are signed with: configured, or made at the first start and kept in a
//! file that only its owner may read (docs/reference/accounts.md).
//!
//! ```text
//! signing.key   <the key that signs>
//!               <a key that signed before> until 2026-11-24T10:00:00.000Z
//! ```
//!
//! A rotation writes a new first line, and lets the keys before it count until the end of the overlap. Removing the
//! file, or replacing its key, ends every session.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use callboard_domain::session::signing::{SigningKeyId, SigningKeys};
use callboard_domain::{Error, Timestamp};

/// The shortest key, in bytes.
pub const MIN_BYTES: usize = 32;

/// The most keys that signed before and still count.
pub const MAX_PREVIOUS: usize = 16;

const MADE_BYTES: usize = 48;
const OWNER_ONLY: u32 = 0o600;
const UNTIL: &str = " until ";

/// A text of at least [`MIN_BYTES`]. Never shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey(String);

impl SigningKey {
    /// A configured key, taken as it is.
    ///
    /// # Errors
    /// [`KeyError::Short`].
    pub fn configured(text: &str) -> Result<Self, KeyError> {
        match text.len() {
            ..MIN_BYTES => Err(KeyError::Short(text.len())),
            MIN_BYTES.. => Ok(Self(text.to_owned())),
        }
    }

    fn made() -> Self {
        let mut random = [0; MADE_BYTES];
        rand::fill(&mut random);
        Self(URL_SAFE_NO_PAD.encode(random))
    }

    /// The key's bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The key's name, which its tokens carry as `kid`.
    #[must_use]
    pub fn id(&self) -> SigningKeyId {
        SigningKeyId::of(&self.0)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

/// The key that signs, and those that signed before and still count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyring {
    /// The key that signs.
    pub current: SigningKey,
    /// Keys that signed before, each with the instant from which it does not count; `None` is never.
    pub previous: Vec<(SigningKey, Option<Timestamp>)>,
    /// The file of the keys; `None` if they are configured.
    file: Option<PathBuf>,
}

/// The reason why there is no key to sign with; the service must not start.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The configured key is too short.
    #[error("the configured signing key has {0} bytes, it needs at least {MIN_BYTES}")]
    Short(usize),
    /// The key in the file is too short.
    #[error(
        "the signing key in {path} has {bytes} bytes, it needs at least {MIN_BYTES}; remove the file \
         to have a new one made, which ends every session"
    )]
    ShortFile {
        /// The file.
        path: PathBuf,
        /// The length of the key.
        bytes: usize,
    },
    /// A further line of the file is no previous key.
    #[error(
        "line {line} of {path} must be a previous signing key, \" until \", and an ISO 8601 instant"
    )]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
    /// The file could not be read or made.
    #[error("cannot {deed} the signing key {path}: {source}{}", callboard_store::advice(.source))]
    File {
        /// The action that failed.
        deed: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl From<SigningKey> for Keyring {
    fn from(current: SigningKey) -> Self {
        Self { current, previous: Vec::new(), file: None }
    }
}

impl Keyring {
    /// Configured keys: the one that signs, and the one that it replaces.
    #[must_use]
    pub fn configured(current: SigningKey, previous: Option<SigningKey>) -> Self {
        let previous = previous.map(|key| (key, None)).into_iter().collect();
        Self { current, previous, file: None }
    }

    /// The keys in the file `path` that count at `now`; without a file a new key, which is durable in a
    /// file of mode 0600 when this returns.
    ///
    /// A file that others may read is closed to them again, with a warning. At most one process may
    /// call this for a path at a time, which the lock on the data directory ensures. The call
    /// blocks.
    ///
    /// # Errors
    /// [`KeyError`]; an existing file is never replaced.
    pub fn stored(path: &Path, now: Timestamp) -> Result<Self, KeyError> {
        match fs::read_to_string(path) {
            Ok(text) => {
                close(path)?;
                read(path, &text, now)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let file = Some(path.to_owned());
                let made = Self { current: SigningKey::made(), previous: Vec::new(), file };
                made.save()?;
                tracing::info!(path = %path.display(), "made a signing key for access tokens");
                Ok(made)
            }
            Err(source) => Err(failed("read", path)(source)),
        }
    }

    /// These keys and a new one that signs. The keys until now count for `overlap` after `now` at
    /// most.
    ///
    /// # Errors
    /// [`Error::InvalidState`] if the key is configured, or too many earlier ones count still.
    pub fn rotated(&self, overlap: Duration, now: Timestamp) -> Result<Self, Error> {
        if self.file.is_none() {
            let message = "the signing key is configured: to rotate it, give the old one as \
                           auth.previous_signing_key_file and the new one as auth.signing_key_file, \
                           and start the server again";
            return Err(Error::InvalidState(message.to_owned()));
        }
        let end = now.after(overlap);
        let mut previous = vec![(self.current.clone(), Some(end))];
        let earlier = self.previous.iter();
        previous
            .extend(earlier.map(|(key, until)| (key.clone(), Some(until.unwrap_or(end).min(end)))));
        previous.retain(|(_, until)| until.is_none_or(|until| now < until));
        if previous.len() > MAX_PREVIOUS {
            let message = format!(
                "{MAX_PREVIOUS} earlier signing keys still count: rotate with a shorter overlap"
            );
            return Err(Error::InvalidState(message));
        }
        Ok(Self { current: SigningKey::made(), previous, file: self.file.clone() })
    }

    /// Writes the keys to their file, if they have one; durable when this returns. The call blocks.
    ///
    /// # Errors
    /// [`KeyError::File`].
    pub fn save(&self) -> Result<(), KeyError> {
        let Some(path) = &self.file else { return Ok(()) };
        let mut text = self.current.0.clone();
        for (key, until) in &self.previous {
            if let Some(until) = until {
                text = format!("{text}\n{}{UNTIL}{until}", key.0);
            }
        }
        write_private(path, text.as_bytes()).map_err(failed("write", path))
    }

    /// The names of the keys.
    #[must_use]
    pub fn ids(&self) -> SigningKeys {
        let previous = self.previous.iter().map(|(key, until)| (key.id(), *until)).collect();
        SigningKeys { current: self.current.id(), previous }
    }
}

fn read(path: &Path, text: &str, now: Timestamp) -> Result<Keyring, KeyError> {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    if first.len() < MIN_BYTES {
        return Err(KeyError::ShortFile { path: path.to_owned(), bytes: first.len() });
    }
    let mut previous = Vec::new();
    for (line, text) in lines.enumerate().filter(|(_, text)| !text.is_empty()) {
        let wrong = || KeyError::Line { path: path.to_owned(), line: line + 2 };
        let (key, until) = text.rsplit_once(UNTIL).ok_or_else(wrong)?;
        let until: Timestamp = until.parse().map_err(|_| wrong())?;
        let key = SigningKey::configured(key).map_err(|_| wrong())?;
        if now < until {
            previous.push((key, Some(until)));
        }
    }
    Ok(Keyring { current: SigningKey(first.to_owned()), previous, file: Some(path.to_owned()) })
}

fn close(path: &Path) -> Result<(), KeyError> {
    let mode = fs::metadata(path).map_err(failed("inspect", path))?.permissions().mode();
    if mode & 0o077 != 0 {
        tracing::warn!(path = %path.display(), "the signing key could be read by others");
        let owner_only = Permissions::from_mode(OWNER_ONLY);
        fs::set_permissions(path, owner_only).map_err(failed("protect", path))?;
    }
    Ok(())
}

/// Writes `bytes` to a file beside `path` and renames it, so that a crash leaves the whole file or
/// the one before; syncs the file and its directory, so that no token outlives its signing key.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    };
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let beside = path.with_added_extension("new");
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    File::open(directory)?.sync_all()
}

fn failed(deed: &'static str, path: &Path) -> impl FnOnce(io::Error) -> KeyError {
    let path = path.to_owned();
    move |source| KeyError::File { deed, path, source }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    const LONG: &str = "0123456789abcdef0123456789abcdef";

    fn directory() -> (TempDir, PathBuf) {
        let directory = TempDir::new().expect("a directory");
        let path = directory.path().join("signing.key");
        (directory, path)
    }

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn stored(path: &Path) -> Result<SigningKey, KeyError> {
        Keyring::stored(path, NOW).map(|keys| keys.current)
    }

    fn mode(path: &Path) -> u32 {
        let metadata = fs::metadata(path).expect("the file is there");
        metadata.permissions().mode() & 0o777
    }

    #[test]
    fn a_configured_key_is_taken_as_it_is_and_no_file_is_made() {
        let (_directory, path) = directory();
        let text = format!(" {LONG}\n");
        let key = SigningKey::configured(&text).expect("long enough");
        assert_eq!(key.as_bytes(), text.as_bytes());
        Keyring::from(key).save().expect("nothing is written");
        assert!(!path.exists());
    }

    #[test]
    fn a_configured_key_of_31_bytes_is_refused_and_of_32_taken() {
        assert!(SigningKey::configured(LONG).is_ok());
        let error = SigningKey::configured(&LONG[1..]).expect_err("too short");
        let message = "the configured signing key has 31 bytes, it needs at least 32";
        assert_eq!(error.to_string(), message);
        assert!(SigningKey::configured("").is_err());
    }

    #[test]
    fn the_first_start_makes_a_key_that_later_starts_find() {
        let (directory, path) = directory();
        let key = stored(&path).expect("a writable directory");
        assert!(key.as_bytes().len() >= MIN_BYTES);
        assert_eq!(mode(&path), 0o600);
        assert_eq!(stored(&path).expect("a key"), key);
        let names = fs::read_dir(directory.path()).expect("the directory").count();
        assert_eq!(names, 1, "nothing is left beside it");
    }

    #[test]
    fn two_first_starts_make_two_keys() {
        let (_one, one) = directory();
        let (_other, other) = directory();
        assert_ne!(stored(&one).expect("a key"), stored(&other).expect("a key"));
    }

    #[test]
    fn a_data_directory_that_is_not_there_yet_is_made() {
        let (directory, _) = directory();
        let path = directory.path().join("data/signing.key");
        assert!(stored(&path).is_ok());
        assert_eq!(mode(&directory.path().join("data")), 0o700);
    }

    #[test]
    fn what_a_crash_left_beside_is_replaced() {
        let (_directory, path) = directory();
        let beside = path.with_added_extension("new");
        fs::write(&beside, "half").expect("a writable directory");
        fs::set_permissions(&beside, Permissions::from_mode(0o644)).expect("our own file");
        assert!(stored(&path).is_ok());
        assert_eq!(mode(&path), 0o600);
        assert!(!beside.exists());
    }

    #[test]
    fn a_key_that_others_may_read_is_closed_to_them() {
        let (_directory, path) = directory();
        fs::write(&path, format!("{LONG}\n")).expect("a writable directory");
        fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("our own file");
        let key = stored(&path).expect("a key");
        assert_eq!(key.as_bytes(), LONG.as_bytes(), "the line end is no part of it");
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn a_file_with_too_little_is_refused_and_left_alone() {
        let (_directory, path) = directory();
        for text in ["", "short\n"] {
            fs::write(&path, text).expect("a writable directory");
            let error = stored(&path).expect_err("too short");
            assert!(matches!(error, KeyError::ShortFile { .. }), "{error}");
            assert_eq!(fs::read_to_string(&path).expect("still there"), text);
        }
    }

    #[test]
    fn a_path_that_cannot_be_read_is_an_error_that_names_it() {
        let (directory, _) = directory();
        let error = stored(directory.path()).expect_err("a directory");
        let text = error.to_string();
        assert!(text.starts_with("cannot read the signing key"), "{text}");
        assert!(text.contains(&directory.path().display().to_string()), "{text}");
    }

    #[test]
    fn a_key_is_not_shown() {
        let key = SigningKey::configured(LONG).expect("long enough");
        assert_eq!(format!("{key:?}"), "SigningKey(…)");
        assert!(!format!("{:?}", Keyring::from(key)).contains(LONG));
    }

    #[test]
    fn a_rotated_key_counts_until_the_overlap_ends() {
        let (_directory, path) = directory();
        let first = Keyring::stored(&path, NOW).expect("a writable directory");
        let day = Duration::from_hours(24);
        let second = first.rotated(2 * day, NOW).expect("it is kept in a file");
        second.save().expect("a writable directory");
        assert_eq!(mode(&path), 0o600);
        assert_eq!(Keyring::stored(&path, NOW).expect("keys"), second);
        assert_eq!(second.previous, [(first.current.clone(), Some(NOW.after(2 * day)))]);
        assert_ne!(second.current, first.current);
        let late = Keyring::stored(&path, NOW.after(2 * day)).expect("keys");
        assert_eq!((late.current, late.previous), (second.current.clone(), Vec::new()));
        // A shorter overlap holds for all earlier keys.
        let third = second.rotated(day, NOW).expect("it is kept in a file");
        let end = Some(NOW.after(day));
        assert_eq!(third.previous, [(second.current, end), (first.current, end)]);
        let alone = third.rotated(Duration::ZERO, NOW).expect("it is kept in a file");
        assert_eq!(alone.previous, []);
    }

    #[test]
    fn a_configured_key_is_not_rotated_and_no_file_grows_without_end() {
        let (_directory, path) = directory();
        let key = SigningKey::configured(LONG).expect("long enough");
        let error = Keyring::from(key).rotated(Duration::ZERO, NOW).expect_err("configured");
        assert!(error.to_string().contains("auth.previous_signing_key_file"), "{error}");
        let mut keys = Keyring::stored(&path, NOW).expect("a writable directory");
        for _ in 0..MAX_PREVIOUS {
            keys = keys.rotated(Duration::from_secs(9), NOW).expect("not too many");
        }
        assert!(matches!(keys.rotated(Duration::from_secs(9), NOW), Err(Error::InvalidState(_))));
        assert!(keys.rotated(Duration::ZERO, NOW).is_ok());
    }

    #[test]
    fn a_line_that_is_no_previous_key_is_refused_by_its_number() {
        let (_directory, path) = directory();
        for line in [
            LONG,
            "short until 2030-01-01T00:00:00Z",
            "0123456789abcdef0123456789abcdef until soon",
        ] {
            fs::write(&path, format!("{LONG}\n\n{line}\n")).expect("a writable directory");
            let error = Keyring::stored(&path, NOW).expect_err("no previous key");
            assert!(error.to_string().starts_with("line 3 of "), "{error}");
        }
    }
}
