//! The promises of the embedded store only: a clear error for a directory that it cannot use, and a file
//! that does not grow without end.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use callboard_store::sled::{SledOptions, SledStore};
use callboard_store::testing::contract::block_on;
use callboard_store::{Batch, BatchId, Error, Key, Op, Outcome, ROWS, Store};

fn open(path: &Path) -> Result<SledStore, Error> {
    let on_failure = Box::new(|error: &_| panic!("{error}"));
    SledStore::open(SledOptions::new(path.into(), 8 << 20, on_failure))
}

/// A directory with some rows, closed.
fn used(rows: u16) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    block_on(async {
        for row in 0..rows {
            let key = Key::new(1, 1, &row.to_be_bytes());
            let op = Op::Put { key, value: Bytes::from(vec![7; 2000]), entry: None };
            let batch = Batch { id: BatchId(0), guards: Vec::new(), ops: vec![op] };
            assert!(matches!(store.commit(batch).await, Outcome::Committed));
        }
    });
    drop(store);
    directory
}

fn reason(path: &Path) -> String {
    match open(path) {
        Err(Error::Corrupt { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_directory_in_use_is_locked_and_then_free() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    assert!(matches!(open(directory.path()), Err(Error::Locked(_))));
    drop(store);
    open(directory.path()).unwrap();
}

fn assert_newer(path: &Path, names: &str) {
    match open(path) {
        Err(error @ Error::Newer { .. }) => {
            let text = error.to_string();
            assert!(text.contains(names), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

/// Puts the note about the rows, or removes it.
fn note(path: &Path, rows: Option<&[u8]>) {
    let db = sled::Config::new().path(path).open().unwrap();
    match rows {
        Some(rows) => db.insert("mf", rows).unwrap(),
        None => db.remove("mf").unwrap(),
    };
    db.flush().unwrap();
    drop(db);
    // Its length is not that of the last shutdown.
    fs::remove_file(path.join("callboard-state")).unwrap();
}

#[test]
fn a_directory_whose_files_are_a_newer_programs_is_refused() {
    let directory = used(1);
    let format = directory.path().join("callboard-format");
    assert_eq!(fs::read_to_string(&format).unwrap(), "4\n", "which programs of format 3 refuse");
    // Without a name it may be any digit of a damaged file.
    fs::write(&format, "5\n").unwrap();
    let refused = open(directory.path()).unwrap_err();
    assert!(matches!(refused, Error::Corrupt { .. }), "{refused:?}");
    assert!(
        refused.to_string().contains("a newer one wrote it, or it is damaged; restore it"),
        "{refused}"
    );
    fs::write(&format, "5 0.9.1\n").unwrap();
    assert_newer(directory.path(), "start callboard of version 0.9.1 or a later one");
    fs::write(&format, "4\n").unwrap();
    open(directory.path()).unwrap();
}

#[test]
fn a_directory_whose_rows_are_a_newer_programs_is_refused_and_stays_as_it_was() {
    let directory = used(1);
    let newer = [&(ROWS + 1).to_le_bytes()[..], b"0.9.1"].concat();
    note(directory.path(), Some(&newer));
    assert_newer(directory.path(), "start callboard of version 0.9.1 or a later one");
    assert_newer(directory.path(), "start callboard of version 0.9.1 or a later one");
    // The newer program, which knows them, finds all as it left it.
    note(directory.path(), Some(&[&ROWS.to_le_bytes()[..], b"0.9.1"].concat()));
    let store = open(directory.path()).unwrap();
    let row = block_on(async { store.get(&Key::new(1, 1, &0_u16.to_be_bytes())).await.unwrap() });
    assert_eq!(row.map(|row| row.len()), Some(2000));
}

#[test]
fn a_directory_of_before_the_note_is_taken_over_and_noted() {
    let directory = used(300);
    note(directory.path(), None);
    fs::write(directory.path().join("callboard-format"), "3\n").unwrap();
    drop(open(directory.path()).unwrap());
    assert_eq!(fs::read_to_string(directory.path().join("callboard-format")).unwrap(), "4\n");
    let db = sled::Config::new().path(directory.path()).open().unwrap();
    let note = db.get("mf").unwrap().expect("the rows have a note");
    assert_eq!(&note[..4], ROWS.to_le_bytes());
    assert_eq!(&note[4..], env!("CARGO_PKG_VERSION").as_bytes());
}

#[test]
fn a_blob_is_an_alarm() {
    let directory = used(1);
    fs::write(directory.path().join("blobs/0000"), "large").unwrap();
    let reason = reason(directory.path());
    assert!(reason.ends_with("blobs/0000 should not be there"), "{reason}");
}

#[test]
fn lost_contents_are_no_new_store() {
    for lost in [&["db"][..], &["db", "conf", "snap."]] {
        let directory = used(300);
        for file in fs::read_dir(directory.path()).unwrap() {
            let file = file.unwrap();
            let name = file.file_name().into_string().unwrap();
            if lost.iter().any(|lost| name.starts_with(lost)) {
                fs::remove_file(file.path()).unwrap();
            }
        }
        reason(directory.path());
    }
}

/// True if all rows of [`used`] are there.
fn is_whole(store: &SledStore, rows: u16) -> Result<bool, Error> {
    let mut whole = Ok(true);
    block_on(async {
        for row in 0..rows {
            match store.get(&Key::new(1, 1, &row.to_be_bytes())).await {
                Ok(value) if value == Some(Bytes::from(vec![7; 2000])) => {}
                Ok(_) => whole = Ok(false),
                Err(error) => return whole = Err(error),
            }
        }
    });
    whole
}

#[test]
fn a_flipped_bit_never_makes_commits_go_away_in_silence() {
    let before = used(400);
    let whole = fs::read(before.path().join("db")).unwrap();
    let places: Vec<_> = (1000..whole.len()).step_by(whole.len() / 40).collect();
    let outcomes = callboard_disk::in_parallel(4, places, |at| {
        let directory = tempfile::tempdir().unwrap();
        callboard_disk::copy(before.path(), directory.path());
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        fs::write(directory.path().join("db"), bytes).unwrap();
        match open(directory.path()) {
            Ok(store) => {
                let whole = is_whole(&store, 400).ok();
                assert_ne!(whole, Some(false), "{at}");
                (false, whole == Some(true))
            }
            Err(Error::Corrupt { reason, .. }) => {
                // A refusal must not repair the directory.
                assert!(open(directory.path()).is_err(), "{at}: {reason}");
                (reason.starts_with("its file db is damaged at"), false)
            }
            Err(other) => panic!("{at}: {other}"),
        }
    });
    let left_out = outcomes.iter().filter(|outcome| outcome.0).count();
    let made_good = outcomes.iter().filter(|outcome| outcome.1).count();
    assert!(left_out > 0 && made_good > 0, "{left_out} {made_good}");
}

#[test]
fn a_missing_or_shortened_file_is_told() {
    let directory = used(300);
    fs::remove_file(directory.path().join("callboard-mark")).unwrap();
    assert_eq!(reason(directory.path()), "its file callboard-mark is missing");

    let directory = used(300);
    let db = fs::OpenOptions::new().write(true).open(directory.path().join("db")).unwrap();
    db.set_len(200_000).unwrap();
    let reason = reason(directory.path());
    assert!(reason.starts_with("its file db has 200000 bytes, and had"), "{reason}");
}

#[test]
fn a_directory_of_a_program_without_a_journal_is_taken_over() {
    let directory = used(300);
    for file in ["callboard-mark", "callboard-state", "journal.0", "journal.1"] {
        fs::remove_file(directory.path().join(file)).unwrap();
    }
    // Removes the journal's traces.
    fs::write(directory.path().join("callboard-format"), "1\n").unwrap();
    let db = sled::Config::new().path(directory.path()).open().unwrap();
    for note in ["mj", "ms"] {
        db.remove(note).unwrap();
    }
    db.flush().unwrap();
    drop(db);
    drop(open(directory.path()).unwrap());
    assert!(directory.path().join("callboard-mark").exists());
    open(directory.path()).unwrap();
}

#[test]
fn garbage_is_an_error_and_no_panic() {
    let directory = used(300);
    let db = directory.path().join("db");
    let length = fs::metadata(&db).unwrap().len();
    fs::write(&db, vec![0x5a; usize::try_from(length).unwrap()]).unwrap();
    reason(directory.path());
}

#[test]
fn broken_files_that_can_be_made_again_are() {
    let directory = used(300);
    // sled writes its snapshot when it opens an existing directory.
    drop(open(directory.path()).unwrap());
    let mut broken = 0;
    for file in fs::read_dir(directory.path()).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        if name == "conf" || name.starts_with("snap.") {
            let mut bytes = fs::read(file.path()).unwrap();
            bytes[3] ^= 0xff;
            fs::write(file.path(), bytes).unwrap();
            broken += 1;
        }
    }
    assert!(broken >= 2);
    let store = open(directory.path()).unwrap();
    block_on(async {
        for row in 0..300_u16 {
            let value = store.get(&Key::new(1, 1, &row.to_be_bytes())).await.unwrap();
            assert_eq!(value.map(|value| value.len()), Some(2000));
        }
    });
}

#[test]
fn a_second_directory_level_is_made() {
    let directory = tempfile::tempdir().unwrap();
    open(&directory.path().join("a/b")).unwrap();
    assert!(directory.path().join("a/b/callboard-format").exists());
}

#[test]
fn the_last_commit_before_a_kill_damaged_in_the_journal_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    let mut other = None;
    for number in 1..100_u16 {
        let key = Key::new(1, 1, &number.to_be_bytes());
        let op = Op::Put { key, value: Bytes::from(vec![7; 2000]), entry: None };
        let batch = Batch { id: BatchId(0), guards: Vec::new(), ops: vec![op] };
        block_on(async {
            assert!(matches!(store.commit(batch).await, Outcome::Committed));
        });
        // As a killed process leaves it.
        let copy = tempfile::tempdir().unwrap();
        callboard_disk::copy(directory.path(), copy.path());
        for journal in ["journal.0", "journal.1"].map(|name| copy.path().join(name)) {
            let mut bytes = fs::read(&journal).unwrap();
            if let Some(last) = bytes.iter().rposition(|byte| *byte == 7) {
                bytes[last] ^= 1;
            }
            fs::write(&journal, bytes).unwrap();
        }
        let before = number - 1;
        let expected =
            format!("its newest commit is {before}, and commit {number} was acknowledged");
        match open(copy.path()) {
            Err(Error::Corrupt { reason, .. }) if reason == expected => return,
            // A checkpoint came before the copy, or during it.
            opened => other = Some(opened.map(drop)),
        }
    }
    panic!("no damage was told: {other:?}");
}

/// Three megabytes of texts a second, of which 20 MB stay, and a small row of each that stays for good.
/// The short form has a fifth of that. Only the long form fails if sled collects its garbage too seldom; it
/// does with every 500 ms.
#[test]
fn soak_what_long_texts_leave_is_used_again() {
    const CHUNKS: u8 = 25;
    const CHUNK: usize = 4_000;
    const PER_SECOND: u64 = 30;
    let long = std::env::var_os("CALLBOARD_LONG").is_some();
    let (texts, seconds) = if long { (200, 150) } else { (40, 4) };
    let key = |table, number: u64, chunk| {
        Key::new(table, 0, &[&number.to_be_bytes()[..], &[chunk]].concat())
    };
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    let begun = Instant::now();
    for number in 0..seconds * PER_SECOND {
        let row = Op::Put { key: key(2, number, 0), value: Bytes::from(vec![7; 110]), entry: None };
        let mut ops = vec![row];
        for chunk in 0..CHUNKS {
            let value = Bytes::from(vec![chunk; CHUNK]);
            ops.push(Op::Put { key: key(1, number, chunk), value, entry: None });
            let old = number.checked_sub(texts);
            ops.extend(old.map(|old| Op::Delete { key: key(1, old, chunk) }));
        }
        let batch = Batch { id: BatchId(0), guards: Vec::new(), ops };
        block_on(async { assert!(matches!(store.commit(batch).await, Outcome::Committed)) });
        let due = Duration::from_secs(number) / u32::try_from(PER_SECOND).unwrap();
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
    }
    let disk = fs::metadata(directory.path().join("db")).unwrap().len();
    let live = texts * u64::from(CHUNKS) * u64::try_from(CHUNK).unwrap();
    eprintln!("{disk} bytes hold {live} after {seconds} s");
    assert!(disk < 4 * live, "{disk} bytes hold {live}");
}
