use std::fs;
use std::os::unix::fs::FileExt;
use std::thread;

use tempfile::TempDir;

use super::*;

const KEY: &[u8] = b"key";
/// The number of rows in a batch, always the same rows; and of torn batches in a test.
const BATCH: u32 = 16;
const TORN: usize = 6;

/// Copies the files of `from` to a new directory; without snapshots if their names were lost.
fn copied(from: &Path, with_snapshots: bool) -> TempDir {
    let to = tempfile::tempdir().expect("a directory can be had");
    for file in fs::read_dir(from).expect("a directory of ours") {
        let file = file.expect("a directory of ours");
        let is_snapshot = file.file_name().to_string_lossy().starts_with("snap.");
        if file.file_type().expect("a file of ours").is_file() && (with_snapshots || !is_snapshot) {
            fs::copy(file.path(), to.path().join(file.file_name())).expect("a file can be copied");
        }
    }
    to
}

/// The row that sled finds after a power cut just after it opened a copy of `closed`. The cut keeps all of
/// its writes and loses the name of its snapshot.
fn found_after_a_cut(closed: &Path, anchored: bool) -> Option<Vec<u8>> {
    let opened = copied(closed, true);
    if anchored {
        set(opened.path()).expect("it is set");
    }
    let open = |path: &Path| ::sled::Config::new().path(path).open().expect("it opens");
    let tree = open(opened.path());
    let cut = copied(opened.path(), false);
    drop(tree);
    if anchored {
        set(cut.path()).expect("it is set");
    }
    open(cut.path()).get(KEY).expect("it can be read").map(|row| row.to_vec())
}

#[test]
fn a_power_cut_while_sled_opens_leaves_what_was_there() {
    let directory = tempfile::tempdir().expect("a directory can be had");
    let (mut lost, mut row) = (0, vec![0; 4000]);
    for round in 0..40_u32 {
        let tree = ::sled::Config::new().path(directory.path()).open().expect("it opens");
        for number in 0..20_u32 {
            row[..8].copy_from_slice(&(u64::from(round) << 32 | u64::from(number)).to_le_bytes());
            tree.insert(KEY, row.as_slice()).expect("it is written");
            tree.flush().expect("it is written");
        }
        drop(tree);
        let (anchored, bare) = thread::scope(|scope| {
            let bare = scope.spawn(|| found_after_a_cut(directory.path(), false));
            let anchored = found_after_a_cut(directory.path(), true);
            (anchored, bare.join().expect("it opens"))
        });
        assert_eq!(anchored.as_ref(), Some(&row), "round {round}");
        // The test of the test.
        lost += u32::from(bare.as_ref() != Some(&row));
    }
    assert!(lost > 0, "sled does this by itself now");
}

#[test]
fn where_something_is_torn_before_the_end_nothing_is_counted_on() {
    let directory = tempfile::tempdir().expect("a directory can be had");
    let tree = ::sled::Config::new().path(directory.path()).open().expect("it opens");
    for number in 0..400_u32 {
        tree.insert(number.to_le_bytes(), vec![7; 3000]).expect("it is written");
        tree.flush().expect("it is written");
    }
    drop(tree);
    let file = directory.path().join("db");
    let db = File::options().read(true).write(true).open(&file).expect("a file of ours");
    let valid =
        headers(&db).expect("it can be read").into_iter().filter_map(|header| match header {
            Header::Valid(segment) => Some(segment),
            Header::Empty | Header::Damaged(_) => None,
        });
    // sled writes a segment again whose rows have all moved, so the last one is not always at the end of the file.
    let mut segments: Vec<_> = valid.collect();
    segments.sort_unstable_by_key(|segment| segment.lsn);
    let [.., before, last] = &segments[..] else { panic!("there are two") };
    assert_eq!((before.lsn + SEGMENT, last.stable / SEGMENT * SEGMENT), (last.lsn, before.lsn));
    assert_eq!(last_segment(&db, 0).expect("it can be read").map(|is| is.lsn), Some(last.lsn));
    // sled looks from the snapshot's position on, if that is greater.
    let found = last_segment(&db, last.lsn + 1).expect("it can be read");
    assert_eq!(found.map(|is| is.lsn), Some(last.lsn));
    let found = last_segment(&db, last.lsn + SEGMENT).expect("it can be read");
    assert!(found.is_none());

    db.write_all_at(&[0; 512], before.at + SEGMENT / 2).expect("a file of ours");
    let found = last_segment(&db, 0).expect("it can be read");
    assert_eq!(found.map(|is| is.lsn), Some(before.lsn));
    set(directory.path()).expect("it is set");
    let found = headers(&db).expect("it can be read").into_iter();
    let stable = found.filter_map(|header| match header {
        Header::Valid(segment) => Some((segment.lsn, segment.stable)),
        Header::Empty | Header::Damaged(_) => None,
    });
    let stable: BTreeMap<_, _> = stable.collect();
    assert_eq!(stable[&last.lsn], last.stable, "it may be torn as well");
}

/// A power cut in a batch: of the last segment, in which it ends, only the first half is there.
struct Torn {
    directory: TempDir,
    /// The segment in which it begins, and the last one.
    before: Segment,
    last: Segment,
    /// The position of its manifest.
    manifest: u64,
    number: u32,
}

fn torn_batches() -> Vec<Torn> {
    let directory = tempfile::tempdir().expect("a directory can be had");
    let tree = ::sled::Config::new().path(directory.path()).open().expect("it opens");
    let mut torn = Vec::new();
    for number in 0_u32.. {
        let mut batch = ::sled::Batch::default();
        for row in 0..BATCH {
            batch.insert(&row.to_be_bytes(), [&number.to_le_bytes()[..], &[7; 4000]].concat());
        }
        tree.apply_batch(batch).expect("it is written");
        tree.flush().expect("it is written");
        torn.extend(torn_if_in_two(directory.path(), number).filter(|_| number > 40));
        if torn.len() == TORN {
            break;
        }
    }
    torn
}

/// The last batch, torn, if it is the only one in the last segment and began in the one before.
fn torn_if_in_two(directory: &Path, number: u32) -> Option<Torn> {
    let directory = copied(directory, true);
    let db = File::options().read(true).write(true).open(directory.path().join("db"));
    let db = db.expect("a file of ours");
    let mut segments: Vec<_> = headers(&db).expect("it can be read").into_iter().collect();
    segments
        .sort_by_key(|header| if let Header::Valid(segment) = header { segment.lsn } else { 0 });
    let Some(Header::Valid(last)) = segments.pop() else { return None };
    let Some(Header::Valid(before)) = segments.pop() else { return None };
    let messages = last.messages(&db).expect("it can be read");
    let begun = before.messages(&db).expect("it can be read").batches.pop();
    let (manifest, _) = begun.filter(|(_, to)| *to > last.lsn && messages.batches.is_empty())?;
    let half = (messages.end - last.lsn) / 2;
    let rest = usize::try_from(SEGMENT - half).expect("small");
    db.write_all_at(&vec![0; rest], last.at + half).expect("a file of ours");
    Some(Torn { directory, before, last, manifest, number })
}

impl Torn {
    fn db(&self) -> File {
        let db = File::options().read(true).write(true).open(self.directory.path().join("db"));
        db.expect("a file of ours")
    }

    /// sled opens it, and is killed when it has wiped the segment from the batch on.
    fn is_opened_and_killed(&self) {
        let wiped = self.before.lsn + SEGMENT - self.manifest;
        let wiped = vec![0; usize::try_from(wiped).expect("small")];
        let at = self.before.at + self.manifest - self.before.lsn;
        self.db().write_all_at(&wiped, at).expect("a file of ours");
    }

    /// True if the whole previous batch is there, and nothing of this one.
    fn is_as_before(&self) -> bool {
        let tree = ::sled::Config::new().path(self.directory.path()).open().expect("it opens");
        let number_of = |row: u32| {
            let value = tree.get(row.to_be_bytes()).expect("it can be read")?;
            Some(u32::from_le_bytes(*value.first_chunk().expect("a row of ours")))
        };
        (0..BATCH).all(|row| number_of(row) == Some(self.number - 1))
    }
}

#[test]
fn an_opening_that_is_killed_where_a_batch_is_torn_takes_nothing_of_it() {
    for torn in torn_batches() {
        set(torn.directory.path()).expect("it is set");
        torn.is_opened_and_killed();
        set(torn.directory.path()).expect("it is set");
        assert!(torn.is_as_before(), "batch {}", torn.number);
    }
}

#[test]
fn of_a_torn_batch_sled_takes_a_part_if_the_last_segment_is_anchored() {
    let mut taken = 0;
    for torn in torn_batches() {
        // The test of the test.
        let anchored = Segment { stable: torn.last.lsn, ..torn.last };
        anchored.write_header(&torn.db()).expect("a file of ours");
        torn.is_opened_and_killed();
        taken += u32::from(!torn.is_as_before());
    }
    assert!(taken > 0, "sled takes nothing of it now");
}

#[test]
fn what_was_before_a_torn_batch_survives_a_power_cut_while_sled_opens() {
    for mut torn in torn_batches() {
        set(torn.directory.path()).expect("it is set");
        let tree = ::sled::Config::new().path(torn.directory.path()).open().expect("it opens");
        let cut = copied(torn.directory.path(), false);
        drop(tree);
        torn.directory = cut;
        set(torn.directory.path()).expect("it is set");
        assert!(torn.is_as_before(), "batch {}", torn.number);
    }
}
