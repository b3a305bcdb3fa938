//! The key that access tokens are signed with: configured, or made at first start and kept in a
//! file that only its owner may read (PROTOCOL.md 7).
//!
//! Deliberately absent: rotation. Whoever removes the file ends every access token.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The shortest key, in bytes.
pub const MIN_BYTES: usize = 32;

const MADE_BYTES: usize = 48;
const OWNER_ONLY: u32 = 0o600;

/// A key of at least [`MIN_BYTES`]: the bytes of a text, as they are. Never shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey(Vec<u8>);

impl SigningKey {
    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

/// Why there is no key to sign with; the service must not start.
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
        /// What it holds.
        bytes: usize,
    },
    /// The file could not be read or made.
    #[error("cannot {deed} the signing key {path}: {source}{}", callboard_store::advice(.source))]
    File {
        /// What was attempted.
        deed: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// The key to sign with: `configured`, taken as it is; else what stands in the file `path`, but for
/// a line end; else a new one, which is durable in the file of mode 0600 when this returns.
///
/// A file that others may read is closed to them again, with a warning. At most one process may
/// call this for a path at a time, which the lock on the data directory sees to. It blocks.
///
/// # Errors
/// [`KeyError`]; an existing file is never replaced.
pub fn signing_key(path: &Path, configured: Option<&str>) -> Result<SigningKey, KeyError> {
    if let Some(text) = configured {
        return match text.len() {
            ..MIN_BYTES => Err(KeyError::Short(text.len())),
            MIN_BYTES.. => Ok(SigningKey(text.as_bytes().to_vec())),
        };
    }
    match fs::read(path) {
        Ok(bytes) => stored(path, bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => made(path),
        Err(source) => Err(failed("read", path)(source)),
    }
}

fn stored(path: &Path, mut bytes: Vec<u8>) -> Result<SigningKey, KeyError> {
    while bytes.last().is_some_and(|byte| b"\r\n".contains(byte)) {
        bytes.pop();
    }
    if bytes.len() < MIN_BYTES {
        return Err(KeyError::ShortFile { path: path.to_owned(), bytes: bytes.len() });
    }
    let mode = fs::metadata(path).map_err(failed("inspect", path))?.permissions().mode();
    if mode & 0o077 != 0 {
        tracing::warn!(path = %path.display(), "the signing key could be read by others");
        let owner_only = Permissions::from_mode(OWNER_ONLY);
        fs::set_permissions(path, owner_only).map_err(failed("protect", path))?;
    }
    Ok(SigningKey(bytes))
}

/// Written beside its place and renamed, so that a crash leaves the whole key or none; synced with
/// its directory, so that no token outlives the key it was signed with.
fn made(path: &Path) -> Result<SigningKey, KeyError> {
    let mut random = [0; MADE_BYTES];
    rand::fill(&mut random);
    let text = URL_SAFE_NO_PAD.encode(random);
    write(path, text.as_bytes()).map_err(failed("make", path))?;
    tracing::info!(path = %path.display(), "made a signing key for access tokens");
    Ok(SigningKey(text.into_bytes()))
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
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

    fn mode(path: &Path) -> u32 {
        let metadata = fs::metadata(path).expect("the file is there");
        metadata.permissions().mode() & 0o777
    }

    #[test]
    fn a_configured_key_is_taken_as_it_is_and_no_file_is_made() {
        let (_directory, path) = directory();
        let text = format!(" {LONG}\n");
        let key = signing_key(&path, Some(&text)).expect("long enough");
        assert_eq!(key.as_bytes(), text.as_bytes());
        assert!(!path.exists());
    }

    #[test]
    fn a_configured_key_of_31_bytes_is_refused_and_of_32_taken() {
        let (_directory, path) = directory();
        assert!(signing_key(&path, Some(LONG)).is_ok());
        let error = signing_key(&path, Some(&LONG[1..])).expect_err("too short");
        let message = "the configured signing key has 31 bytes, it needs at least 32";
        assert_eq!(error.to_string(), message);
        assert!(signing_key(&path, Some("")).is_err());
    }

    #[test]
    fn the_first_start_makes_a_key_that_later_starts_find() {
        let (directory, path) = directory();
        let key = signing_key(&path, None).expect("a writable directory");
        assert!(key.as_bytes().len() >= MIN_BYTES);
        assert_eq!(mode(&path), 0o600);
        assert_eq!(signing_key(&path, None).expect("a key"), key);
        let names = fs::read_dir(directory.path()).expect("the directory").count();
        assert_eq!(names, 1, "nothing is left beside it");
    }

    #[test]
    fn two_first_starts_make_two_keys() {
        let (_one, one) = directory();
        let (_other, other) = directory();
        assert_ne!(
            signing_key(&one, None).expect("a key"),
            signing_key(&other, None).expect("a key")
        );
    }

    #[test]
    fn a_data_directory_that_is_not_there_yet_is_made() {
        let (directory, _) = directory();
        let path = directory.path().join("data/signing.key");
        assert!(signing_key(&path, None).is_ok());
        assert_eq!(mode(&directory.path().join("data")), 0o700);
    }

    #[test]
    fn what_a_crash_left_beside_is_replaced() {
        let (_directory, path) = directory();
        let beside = path.with_added_extension("new");
        fs::write(&beside, "half").expect("a writable directory");
        fs::set_permissions(&beside, Permissions::from_mode(0o644)).expect("our own file");
        assert!(signing_key(&path, None).is_ok());
        assert_eq!(mode(&path), 0o600);
        assert!(!beside.exists());
    }

    #[test]
    fn a_key_that_others_may_read_is_closed_to_them() {
        let (_directory, path) = directory();
        fs::write(&path, format!("{LONG}\n")).expect("a writable directory");
        fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("our own file");
        let key = signing_key(&path, None).expect("a key");
        assert_eq!(key.as_bytes(), LONG.as_bytes(), "the line end is no part of it");
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn a_file_with_too_little_is_refused_and_left_alone() {
        let (_directory, path) = directory();
        for text in ["", "short\n"] {
            fs::write(&path, text).expect("a writable directory");
            let error = signing_key(&path, None).expect_err("too short");
            assert!(matches!(error, KeyError::ShortFile { .. }), "{error}");
            assert_eq!(fs::read_to_string(&path).expect("still there"), text);
        }
    }

    #[test]
    fn a_path_that_cannot_be_read_is_an_error_that_names_it() {
        let (directory, _) = directory();
        let error = signing_key(directory.path(), None).expect_err("a directory");
        let text = error.to_string();
        assert!(text.starts_with("cannot read the signing key"), "{text}");
        assert!(text.contains(&directory.path().display().to_string()), "{text}");
    }

    #[test]
    fn a_key_is_not_shown() {
        let (_directory, path) = directory();
        let key = signing_key(&path, Some(LONG)).expect("long enough");
        assert_eq!(format!("{key:?}"), "SigningKey(…)");
    }
}
