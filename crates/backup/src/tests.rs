use std::fs;
use std::path::PathBuf;

use bytes::Bytes;
use callboard_store::sled::{Piece, SledOptions, SledStore};
use callboard_store::testing::contract::block_on;
use callboard_store::{Batch, BatchId, Key, Op, Outcome, Store};

use super::*;

struct Fixture(tempfile::TempDir);

impl Fixture {
    /// A data directory whose store has rows.
    fn new(rows: u32) -> Self {
        let fixture = Self(tempfile::tempdir().expect("a directory can be had"));
        fs::create_dir(fixture.path("data")).expect("it can be made");
        fixture.put(0..rows, 1);
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn open(&self, data: &str) -> SledStore {
        let path = self.path(data).join("store");
        let options = SledOptions::new(path, 8 << 20, Box::new(|error| panic!("{error}")));
        SledStore::open(options).expect("it opens")
    }

    fn put(&self, rows: std::ops::Range<u32>, value: u8) {
        let store = self.open("data");
        for row in rows {
            let key = Key::new(1, 1, &row.to_be_bytes());
            let op = Op::Put { key, value: Bytes::from(vec![value; 500]), entry: None };
            let batch = Batch { id: BatchId(0), guards: Vec::new(), ops: vec![op] };
            assert!(matches!(block_on(store.commit(batch)), Outcome::Committed));
        }
    }

    fn rows(&self, data: &str) -> Vec<callboard_store::Row> {
        let store = self.open(data);
        let (from, to) = (Key([0].into()), Key([255].into()));
        block_on(store.scan(from, to, usize::MAX)).expect("it can be read")
    }

    fn repository(&self) -> Repository {
        Repository::init(&self.path("backups")).expect("it opens")
    }

    fn back_up(&self, repository: &Repository, id: &str) -> Manifest {
        let writer = Writer::begin(repository, id, "0").expect("it begins");
        back_up(&self.path("data"), None, writer).expect("it is backed up")
    }
}

#[test]
fn a_second_backup_stores_the_changed_rows_only_and_each_restores() {
    let fixture = Fixture::new(5000);
    fs::write(fixture.path("data").join("signing.key"), "secret").expect("it can be written");
    let repository = fixture.repository();
    let first = fixture.back_up(&repository, "1");
    assert!(first.rows >= 5000 && first.chunks.len() > 5, "{first:?}");
    assert_eq!(first.new_bytes, first.bytes);
    let then = fixture.rows("data");
    fixture.put(100..103, 2);
    fixture.put(9000..9010, 2);
    let second = fixture.back_up(&repository, "2");
    assert!(second.new_bytes * 3 < second.bytes, "{} of {}", second.new_bytes, second.bytes);
    for (manifest, name, rows) in [(&first, "one", then), (&second, "two", fixture.rows("data"))] {
        assert_eq!(&repository.find(Some(&manifest.id)).expect("it is there"), manifest);
        repository.verify(manifest).expect("it is intact");
        manifest.try_restore(&repository).expect("it restores");
        restore(&repository, manifest, &fixture.path(name), None).expect("it restores");
        assert_eq!(fixture.rows(name), rows);
        let secret = fs::read(fixture.path(name).join("signing.key")).expect("it is there");
        assert_eq!(secret, b"secret");
    }
    // Over a store it does not restore.
    assert!(restore(&repository, &first, &fixture.path("two"), None).is_err());
    // Pruning keeps the chunks of the newest.
    let pruned = repository.prune(Keep::last(1)).expect("it prunes");
    assert!(pruned.backups.len() == 1 && pruned.chunks > 0, "{pruned:?}");
    repository.verify(&second).expect("it is intact");
    assert!(matches!(repository.find(Some("1")), Err(Error::NotFound(_))));
    assert_eq!(repository.prune(Keep::last(1)).expect("it prunes").chunks, 0);
}

#[test]
fn damage_is_reported_by_its_file_and_nothing_is_restored() {
    let fixture = Fixture::new(2000);
    let repository = fixture.repository();
    let manifest = fixture.back_up(&repository, "1");
    for chunk in manifest.all_chunks() {
        let path =
            fixture.path("backups").join("chunks").join(&chunk.sha256[..2]).join(&chunk.sha256);
        let bytes = fs::read(&path).expect("it can be read");
        let mut flipped = bytes.clone();
        flipped[bytes.len() / 2] ^= 1;
        fs::write(&path, flipped).expect("it can be written");
        let Err(Error::Damaged(text)) = repository.verify(&manifest) else {
            panic!("it is damaged")
        };
        assert!(text.contains(&chunk.sha256), "{text}");
        let to = fixture.path(&format!("to {}", chunk.sha256));
        assert!(restore(&repository, &manifest, &to, None).is_err());
        fs::remove_file(&path).expect("it can be removed");
        let missing = repository.verify(&manifest).expect_err("it is missing").to_string();
        assert!(missing.ends_with("is missing"), "{missing}");
        fs::write(&path, bytes).expect("it can be written");
    }
    let manifest = fixture.path("backups/backups/1.json");
    let text =
        fs::read_to_string(&manifest).expect("it can be read").replace("\"rows\":", "\"rows\":1");
    fs::write(&manifest, text).expect("it can be written");
    assert!(matches!(repository.list(), Err(Error::Damaged(_))));
}

#[test]
fn the_next_backup_mends_a_chunk_that_was_damaged() {
    let fixture = Fixture::new(2000);
    let repository = fixture.repository();
    let first = fixture.back_up(&repository, "1");
    for chunk in &first.chunks {
        let path =
            fixture.path("backups").join("chunks").join(&chunk.sha256[..2]).join(&chunk.sha256);
        let mut bytes = fs::read(&path).expect("it can be read");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).expect("it can be written");
    }
    assert!(repository.verify(&first).is_err());
    let second = fixture.back_up(&repository, "2");
    repository.verify(&second).expect("it is intact");
    let shared = second.chunks.iter().filter(|chunk| first.chunks.contains(chunk)).count();
    assert!(shared > 0, "the backups share chunks");
}

#[test]
fn a_failed_restore_leaves_nothing_behind() {
    let fixture = Fixture::new(100);
    for name in ["signing.key", "webhook.secret"] {
        fs::write(fixture.path("data").join(name), name).expect("it can be written");
    }
    let repository = fixture.repository();
    let manifest = fixture.back_up(&repository, "1");
    let last = manifest.files.last().expect("there are files").name.clone();
    let to = fixture.path("to");
    fs::create_dir_all(to.join(&last)).expect("it can be made");
    assert!(restore(&repository, &manifest, &to, None).is_err());
    let left: Vec<_> = fs::read_dir(&to).expect("it is there").flatten().collect();
    assert!(left.len() == 1 && left[0].file_name() == *last, "{left:?}");
    fs::remove_dir(to.join(&last)).expect("it can be removed");
    // A restore that was killed before its end.
    fs::write(to.join("signing.key"), "signing.key").expect("it can be written");
    restore(&repository, &manifest, &to, None).expect("it restores");
    assert_eq!(fixture.rows("to"), fixture.rows("data"));
}

#[test]
fn the_remains_of_killed_runs_are_in_nobodys_way() {
    let fixture = Fixture::new(100);
    let backups = fixture.path("backups");
    // Killed while the marker was written.
    for begun in ["", "1", "1\n"] {
        fs::create_dir(&backups).expect("it can be made");
        fs::write(backups.join("new"), begun).expect("it can be written");
        drop(fixture.repository());
        fs::remove_dir_all(&backups).expect("it can be removed");
    }
    // A file of somebody else, and a directory of that name.
    for foreign in ["new", "other"] {
        fs::create_dir(&backups).expect("it can be made");
        fs::write(backups.join(foreign), "a letter").expect("it can be written");
        let refused = Repository::init(&backups).expect_err("it is somebody else's");
        assert!(refused.to_string().contains("is not empty"), "{refused}");
        fs::remove_dir_all(&backups).expect("it can be removed");
    }
    // Killed while a restore was tried, by a process of the same number.
    let repository = fixture.repository();
    let manifest = fixture.back_up(&repository, "1");
    for process in [1, std::process::id()] {
        let trial = backups.join(format!(".trial-{process}/store"));
        fs::create_dir_all(&trial).expect("it can be made");
        fs::write(trial.join("db"), "half").expect("it can be written");
    }
    manifest.try_restore(&repository).expect("it restores");
    let left = fs::read_dir(&backups).expect("it is there").flatten().map(|it| it.file_name());
    let left: std::collections::BTreeSet<_> = left.collect();
    assert_eq!(left, ["backups", "callboard-backups", "chunks"].map(Into::into).into());
}

#[test]
fn an_incomplete_stream_is_no_backup() {
    let fixture = Fixture::new(10);
    let repository = fixture.repository();
    let store = fixture.open("data");
    let pieces: Vec<_> =
        store.snapshot().expect("it begins").collect::<Result<_, _>>().expect("it can be read");
    let write = |pieces: &[Piece]| -> Result<Manifest, Error> {
        let mut writer = Writer::begin(&repository, "1", "0")?;
        let mut frames = Frames::default();
        for piece in pieces {
            // A byte at a time.
            for byte in &encode(Ok(piece)) {
                frames.push(std::slice::from_ref(byte));
            }
            while let Some(piece) = frames.next_piece()? {
                writer.push(&piece)?;
            }
        }
        writer.finish(None)
    };
    for cut in 0..pieces.len() {
        assert!(matches!(write(&pieces[..cut]), Err(Error::Incomplete(_))), "{cut}");
    }
    let group = |number| Piece::Group { number, ops: Bytes::new() };
    let Some(Piece::End { group: last }) = pieces.last() else { panic!("it has an end") };
    let mut skipped = pieces.clone();
    skipped.insert(pieces.len() - 1, group(last + 2));
    assert!(matches!(write(&skipped), Err(Error::Incomplete(_))));
    let mut frames = Frames::default();
    frames.push(&encode(Err("the disk failed")));
    assert_eq!(
        frames.next_piece().expect_err("a fault").to_string(),
        "the backup is incomplete: the disk failed"
    );
    write(&pieces).expect("it is complete");
    assert!(write(&pieces).is_err(), "there is one with this id");
}

#[test]
fn a_backup_that_fails_leaves_no_chunk_and_no_repository_is_made_by_chance() {
    let fixture = Fixture::new(2000);
    let absent = Repository::open(&fixture.path("backups")).expect_err("there is none");
    assert!(absent.to_string().contains("callboard backup init --in"), "{absent}");
    assert!(!fixture.path("backups").exists());
    let repository = fixture.repository();
    let first = fixture.back_up(&repository, "1");
    fixture.put(0..2000, 2);
    let files = || {
        let chunks = fs::read_dir(fixture.path("backups/chunks")).expect("it is there").flatten();
        let all = chunks.flat_map(|folder| fs::read_dir(folder.path()).expect("it is there"));
        all.map(|file| file.expect("it is there").path()).collect::<std::collections::BTreeSet<_>>()
    };
    let before = files();
    let store = fixture.open("data");
    let mut writer = Writer::begin(&repository, "2", "0").expect("it begins");
    for piece in store.snapshot().expect("it begins") {
        writer.push(&piece.expect("it can be read")).expect("it is written");
    }
    assert!(files().len() > before.len());
    // As after a disk that became full.
    drop(writer);
    assert_eq!(files(), before);
    repository.verify(&first).expect("it is intact");
    assert_eq!(repository.list().expect("it can be read"), [first]);
}
