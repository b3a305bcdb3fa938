//! Every credential that a test has held, and a search for them where none may stand.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use memchr::memmem::Finder;

static HELD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// The length of the end that is searched for.
const END: usize = 16;

/// Remembers a password, a key or a token. Texts too short to be one are left out.
pub(crate) fn keep(credential: &str) {
    // The ends are random; the beginnings of keys and tokens are alike, and a row may be compressed there.
    if let Some(end) = credential.len().checked_sub(END).and_then(|at| credential.get(at..)) {
        HELD.lock().expect("no thread panics with it").insert(end.to_owned());
    }
}

/// `file: …end of the credential`, for each in the files below `root`.
pub(crate) fn found_in(root: &Path) -> Vec<String> {
    let held = HELD.lock().expect("no thread panics with it").clone();
    let finders: Vec<_> = held.iter().map(|end| (end, Finder::new(end))).collect();
    let mut found = Vec::new();
    let mut unread = vec![root.to_owned()];
    while let Some(path) = unread.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a directory");
            unread.extend(entries.map(|entry| entry.expect("an entry").path()));
            continue;
        }
        let bytes = std::fs::read(&path).expect("a file");
        let here = finders.iter().filter(|(_, finder)| finder.find(&bytes).is_some());
        found.extend(here.map(|(end, _)| format!("{}: …{end}", path.display())));
    }
    found
}
