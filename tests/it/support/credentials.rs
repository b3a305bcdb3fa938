//! Every credential that a test has held, and a search for them where none may stand.
//!
//! `./test --long`, and a run with `CALLBOARD_SCAN=1`, search the log at its most verbose and the data of
//! every server that a test starts, over each of its restarts, and the databases of clusters. Not searched:
//! the servers that the benchmark starts, whose keys no test knows.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use memchr::memmem::Finder;
use serde_json::Value;

static HELD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// The length of the end that is searched for.
const END: usize = 16;
/// The members of bodies and files that hold a credential.
const MEMBERS: [&str; 7] = ["token", "refreshToken", "key", "secret", "password", "current", "new"];
/// The files in which a secret of the server belongs.
const SECRET_FILES: [&str; 3] = ["signing.key", "webhook.secret", "worker.key"];

/// True if every server is searched.
pub(crate) fn are_searched() -> bool {
    ["CALLBOARD_LONG", "CALLBOARD_SCAN"].iter().any(|name| std::env::var_os(name).is_some())
}

/// Remembers a password, a key or a token. Texts too short to be one are left out.
pub(crate) fn keep(credential: &str) {
    // The ends are random; the beginnings of keys and tokens are alike, and a row may be compressed there.
    if let Some(end) = credential.len().checked_sub(END).and_then(|at| credential.get(at..)) {
        HELD.lock().expect("no thread panics with it").insert(end.to_owned());
    }
}

/// Remembers the credentials in a body.
pub(crate) fn keep_in(body: &Value) {
    for name in MEMBERS {
        keep(body[name].as_str().unwrap_or_default());
    }
}

/// Remembers the keys in a text of the command line.
pub(crate) fn keep_printed(text: &str) {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("svc_")).for_each(keep);
}

/// Remembers a setting of a server that is a secret itself.
pub(crate) fn keep_setting(name: &str, value: &str) {
    let is_path = value.starts_with('/');
    if !is_path && ["KEY", "SECRET", "PASSWORD"].iter().any(|end| name.ends_with(end)) {
        keep(value);
    }
}

/// Fails if a credential stands in a file below one of these, and notes that it has looked.
pub(crate) fn assert_none_in(roots: &[&Path]) {
    let (found, searched) = search(roots);
    assert_eq!(found, Vec::<String>::new());
    let (files, bytes) = searched;
    let held = HELD.lock().expect("no thread panics with it").len();
    eprintln!("searched {files} files, {bytes} bytes for {held} credentials");
}

/// `file: …end of the credential`, for each in the files below `root`.
pub(crate) fn found_in(root: &Path) -> Vec<String> {
    search(&[root]).0
}

/// The credentials found, and how many files and bytes were searched.
fn search(roots: &[&Path]) -> (Vec<String>, (usize, usize)) {
    let held = HELD.lock().expect("no thread panics with it").clone();
    let finders: Vec<_> = held.iter().map(|end| (end, Finder::new(end))).collect();
    let (mut found, mut files, mut length) = (Vec::new(), 0, 0);
    let mut unread: Vec<_> = roots.iter().map(|root| root.to_path_buf()).collect();
    while let Some(path) = unread.pop() {
        // A database removes files meanwhile, and has a socket among them.
        let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() {
            let entries = std::fs::read_dir(&path).into_iter().flatten();
            unread.extend(entries.map(|entry| entry.expect("an entry").path()));
            continue;
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !metadata.is_file() || SECRET_FILES.contains(&name) {
            continue;
        }
        let Ok(bytes) = std::fs::read(&path) else { continue };
        (files, length) = (files + 1, length + bytes.len());
        let here = finders.iter().filter(|(_, finder)| finder.find(&bytes).is_some());
        found.extend(here.map(|(end, _)| format!("{}: …{end}", path.display())));
    }
    (found, (files, length))
}
