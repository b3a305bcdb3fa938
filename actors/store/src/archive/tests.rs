use std::sync::Arc;

use super::*;
use crate::batch::{Batch, BatchId, Entry, Key, Op};
use crate::query::{Order, Page, Query};
use crate::sled::{Piece, Restore, SledOptions, SledStore};
use crate::testing::contract::block_on;
use crate::{Outcome, Store};

struct Fixture {
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a directory can be had") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn open(&self, name: &str) -> SledStore {
        let on_failure = Box::new(|error: &Error| panic!("{error}"));
        let options = SledOptions::new(self.path(name), 8 << 20, on_failure);
        SledStore::open(SledOptions {
            archive: Some(self.path("archive")),
            checkpoint_bytes: 64 << 10,
            ..options
        })
        .expect("it opens")
    }

    /// A snapshot of a store with one row, and the store's lineage.
    fn first_snapshot(&self) -> (Vec<Piece>, u32) {
        let store = self.open("store");
        put(&store, 0, "first");
        let pieces: Vec<_> =
            store.snapshot().expect("it begins").collect::<Result<_, _>>().expect("it can be read");
        let Piece::Origin { lineage, .. } = pieces[0] else { panic!("it begins with its origin") };
        (pieces, lineage)
    }

    /// Restores `pieces`, and the archive's groups after them up to `until`.
    fn restore(&self, pieces: &[Piece], until: Option<u64>, name: &str) -> Result<u64, Error> {
        let mut restore = Restore::begin(&self.path(name), 8 << 20)?;
        let rows = pieces.iter().filter(|piece| matches!(piece, Piece::Rows(_)));
        let rest = pieces.iter().filter(|piece| !matches!(piece, Piece::Rows(_)));
        let (mut lineage, mut last) = (0, 0);
        for piece in rows.chain(rest) {
            match piece {
                Piece::Origin { lineage: of, group } => (lineage, last) = (*of, *group),
                Piece::Overlay(ops) | Piece::Rows(ops) => restore.write(ops)?,
                Piece::Group { number, ops } => {
                    assert_eq!(*number, last + 1);
                    last = *number;
                    restore.write(ops)?;
                }
                Piece::End { group } => assert_eq!(*group, last),
            }
        }
        if let Some(until) = until {
            let reader = ArchiveReader::open(&self.path("archive"), lineage, last)?;
            last = reader.read(until, |_, epoch, group| {
                restore.raise_epoch(epoch);
                restore.write(&journal::ops(group))
            })?;
        }
        restore.finish(last)?;
        Ok(last)
    }
}

/// Every listed row.
fn all() -> Query {
    Query {
        list: [1, 1],
        filters: Vec::new(),
        order: Order::Document,
        descending: false,
        offset: 0,
        limit: 10_000,
    }
}

fn key(number: u64) -> Key {
    let mut rest = [0; 16];
    rest[8..].copy_from_slice(&number.to_be_bytes());
    Key::new(0x80, 1, &rest)
}

fn put(store: &SledStore, number: u64, value: &str) {
    let entry =
        Entry { list: [1, 1], terms: vec![(1, value.as_bytes().into())], ..Entry::default() };
    let value = Bytes::copy_from_slice(format!("{value}{}", "x".repeat(300)).as_bytes());
    commit(store, vec![Op::Put { key: key(number), value, entry: Some(entry) }]);
}

fn commit(store: &SledStore, ops: Vec<Op>) {
    let batch = Batch { id: BatchId(0), guards: Vec::new(), ops };
    assert!(matches!(block_on(store.commit(batch)), Outcome::Committed));
}

/// Every row and record, and the list.
fn contents(store: &SledStore) -> (Vec<crate::Row>, Page, Vec<crate::Record>) {
    block_on(async {
        let (from, to) = (Key([0].into()), Key([255].into()));
        let rows = store.scan(from, to, usize::MAX).await.expect("it can be read");
        let page = store.query(&all()).await.expect("it can be read");
        let log = store.read_log(crate::LogId(1), 0, usize::MAX).await.expect("it can be read");
        (rows, page, log)
    })
}

#[test]
fn a_snapshot_of_a_store_in_use_is_the_store_after_its_last_group() {
    let fixture = Fixture::new();
    let store = Arc::new(fixture.open("store"));
    for number in 0..2000 {
        put(&store, number, "before");
    }
    // sled does not have this row when its first rows are read.
    put(&store, 0, "just before");
    let mut snapshot = store.snapshot().expect("it begins");
    assert!(store.snapshot().is_err(), "one at a time");
    let mut pieces = Vec::new();
    for (round, piece) in (0..).zip(snapshot.by_ref()) {
        pieces.push(piece.expect("it can be read"));
        // Rows before and behind the reader change, come and go, and checkpoints bring them to sled.
        for number in [1, 500 + round, 1500 + round, 5000 + round] {
            put(&store, number, "during");
        }
        commit(
            &store,
            vec![Op::Delete { key: key(100 + round) }, Op::Delete { key: key(1800 + round) }],
        );
        let record = Bytes::from(format!("record {round}"));
        commit(&store, vec![Op::Append { log: crate::LogId(1), record }]);
    }
    assert!(matches!(pieces.last(), Some(Piece::End { .. })));
    // The pieces end with the last group before the reader saw the end.
    let after = contents(&store);
    let last = fixture.restore(&pieces, None, "restored").expect("it restores");
    let restored = fixture.open("restored");
    let (rows, page, _) = contents(&restored);
    let groups = pieces.iter().filter(|piece| matches!(piece, Piece::Group { .. })).count();
    assert!(groups > 10, "{groups} groups were committed meanwhile");
    assert_eq!(page.total, rows.len() as u64);
    assert!(last > 0);
    // With the archive's groups behind the snapshot, the two are the same.
    drop(store);
    fixture.restore(&pieces, Some(u64::MAX), "whole").expect("it restores");
    assert_eq!(contents(&fixture.open("whole")), after);
    // The next snapshot begins.
    drop(snapshot);
    assert!(restored.snapshot().is_ok());
}

#[test]
fn an_archive_restores_any_moment_over_openings_and_compactions() {
    let fixture = Fixture::new();
    let store = fixture.open("store");
    put(&store, 1, "first");
    let pieces: Vec<_> =
        store.snapshot().expect("it begins").collect::<Result<_, _>>().expect("it can be read");
    let mut moments = Vec::new();
    drop(store);
    for round in 0..3_u64 {
        let store = fixture.open("store");
        for number in 0..50 {
            put(&store, number, &format!("round {round}"));
        }
        let then = contents(&store);
        drop(store);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later").as_millis();
        moments.push((u64::try_from(now).expect("it is soon"), then));
        std::thread::sleep(Duration::from_millis(5));
        let archive = Some(fixture.path("archive"));
        crate::sled::compact(&fixture.path("store"), 8 << 20, archive).expect("it compacts");
    }
    for (at, (moment, then)) in moments.iter().enumerate() {
        let name = format!("at {at}");
        fixture.restore(&pieces, Some(*moment), &name).expect("it restores");
        let restored = fixture.open(&name);
        assert_eq!(&contents(&restored), then);
        // A row written now is newer than every restored one.
        put(&restored, 7, "now");
        assert_eq!(block_on(restored.query(&all())).expect("it works").total, then.1.total);
    }
}

#[test]
fn a_lost_segment_is_a_gap_and_a_torn_end_is_none() {
    let fixture = Fixture::new();
    let (pieces, lineage) = fixture.first_snapshot();
    for round in 1..4 {
        let store = fixture.open("store");
        put(&store, round, "later");
        drop(store);
        std::thread::sleep(Duration::from_millis(5));
    }
    let all = segments(&fixture.path("archive"), lineage).expect("it can be read");
    let paths: Vec<_> = all.values().cloned().collect();
    assert!(paths.len() >= 4, "{paths:?}");
    // A torn last record.
    let last = paths.last().expect("there is one");
    let bytes = fs::read(last).expect("it can be read");
    fs::write(last, &bytes[..bytes.len() - 1]).expect("it can be written");
    let until = fixture.restore(&pieces, Some(u64::MAX), "torn").expect("it restores");
    fs::write(last, bytes).expect("it can be written");
    let whole = fixture.restore(&pieces, Some(u64::MAX), "whole").expect("it restores");
    assert_eq!(until + 1, whole);
    // A bit of the last header, behind which there are groups.
    let mut damaged = fs::read(last).expect("it can be read");
    damaged[7] ^= 0x10;
    let intact = std::mem::replace(&mut damaged, fs::read(last).expect("it can be read"));
    fs::write(last, intact).expect("it can be written");
    let header = fixture.restore(&pieces, Some(u64::MAX), "header").expect_err("it is damaged");
    assert!(header.to_string().contains("is damaged behind"), "{header}");
    fs::write(last, damaged).expect("it can be written");
    // A segment in the middle. What comes behind it may be later than the moment.
    let before = Segment::read(&paths[paths.len() - 3]).expect("it can be read").expect("whole");
    let (until, _) = before.records().last().expect("there is one");
    fs::remove_file(&paths[paths.len() - 2]).expect("it can be removed");
    for (until, name) in [(u64::MAX, "gap"), (until + 1, "gap until")] {
        let missing = fixture.restore(&pieces, Some(until), name).expect_err("a group is missing");
        assert!(missing.to_string().contains("is not in it"), "{missing}");
    }
    // Pruning keeps the chunks that a later backup needs.
    assert_eq!(
        prune_archive(&fixture.path("archive"), lineage, whole).expect("it works"),
        paths.len() - 2
    );
    assert_eq!(segments(&fixture.path("archive"), lineage).expect("it works").len(), 1);
}

#[test]
fn a_lineage_without_a_backup_is_removed_whole_once_another_is_written_to() {
    let fixture = Fixture::new();
    let (_, first) = fixture.first_snapshot();
    let store = fixture.open("store");
    put(&store, 1, "later");
    drop(store);
    let archive = fixture.path("archive");
    let left = |lineage| segments(&archive, lineage).expect("it works").len();
    assert_eq!(prune_lineages(&archive, &[]).expect("it works"), 0);
    assert_eq!(left(first), 2, "a server may be writing to it");

    std::thread::sleep(Duration::from_millis(5));
    let store = fixture.open("restored");
    let next = store.snapshot().expect("it begins").next().expect("a piece").expect("it is read");
    let Piece::Origin { lineage: next, .. } = next else { panic!("it begins with its origin") };
    put(&store, 2, "restored");
    drop(store);
    for (kept, removed) in [(&[first][..], 0), (&[first, next], 0), (&[next], 2), (&[next], 0)] {
        assert_eq!(prune_lineages(&archive, kept).expect("it works"), removed, "{kept:?}");
    }
    assert_eq!((left(first), left(next)), (0, 1));
}

#[test]
fn damage_in_the_last_segment_is_no_torn_end() {
    let fixture = Fixture::new();
    let (pieces, lineage) = fixture.first_snapshot();
    let store = fixture.open("store");
    (1..4).for_each(|number| put(&store, number, "later"));
    drop(store);
    let all = segments(&fixture.path("archive"), lineage).expect("it can be read");
    let last = all.values().next_back().expect("there is one");
    let bytes = fs::read(last).expect("it can be read");
    let segment = Segment::read(last).expect("it can be read").expect("it has a header");
    let records: Vec<_> = segment.records().collect();
    assert!(records.len() >= 3, "{}", records.len());
    let whole = number(&records[records.len() - 1].1);
    let prefix = Format::CURRENT.prefix_length();
    let final_record = bytes.len() - records[records.len() - 1].1.len() - prefix;
    let earlier_record = final_record - records[records.len() - 2].1.len() - prefix;
    // A bit at each place of the last records: of the time, its checksum, the magic, the length, the number,
    // the checksum, the rows.
    for (at, begin) in [("earlier", earlier_record), ("final", final_record)] {
        for place in [0, 3, 7, 9, 12, 17, 20, 29, 52] {
            let mut damaged = bytes.clone();
            damaged[begin + place] ^= 0x10;
            fs::write(last, damaged).expect("it can be written");
            let name = format!("{at} {place}");
            let restored = fixture.restore(&pieces, Some(u64::MAX), &name);
            let error = restored.expect_err(&name).to_string();
            assert!(error.contains("is damaged behind"), "{name}: {error}");
            // A damaged time may be any: the moment of the record itself is not restored without it.
            let until = Some(records[records.len() - 1].0);
            assert!(fixture.restore(&pieces, until, &format!("{name} until")).is_err(), "{name}");
        }
    }
    fs::write(last, &bytes).expect("it can be written");
    assert_eq!(fixture.restore(&pieces, Some(u64::MAX), "whole").expect("it restores"), whole);
    // The ends that a crash leaves.
    for cut in (earlier_record..bytes.len()).step_by(7).chain([final_record, final_record + prefix])
    {
        for zeros in [0, 100, 4096] {
            let torn = [&bytes[..cut], &vec![0; zeros]].concat();
            fs::write(last, torn).expect("it can be written");
            let segment = Segment::read(last).expect("it can be read").expect("it has a header");
            let mut records = segment.records();
            records.by_ref().for_each(drop);
            assert!(!records.is_damaged(u64::MAX), "{cut} {zeros}");
        }
    }
}

/// The segment at `path` as format 1 has it.
fn to_format_1(path: &Path) {
    let segment = Segment::read(path).expect("it can be read").expect("it has a header");
    assert_eq!(segment.format, Format::Two);
    let mut bytes = Vec::from(*b"cba1");
    bytes.extend_from_slice(&segment.salt.to_le_bytes());
    bytes.extend_from_slice(&segment.epoch.0.to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    for (time, group) in segment.records() {
        bytes.extend_from_slice(&time.to_le_bytes());
        bytes.extend_from_slice(&group);
    }
    fs::write(path, bytes).expect("it can be written");
}

#[test]
fn segments_of_format_1_are_read_and_one_of_a_newer_format_is_refused() {
    let fixture = Fixture::new();
    let (pieces, lineage) = fixture.first_snapshot();
    let paths = || -> Vec<_> {
        let all = segments(&fixture.path("archive"), lineage).expect("it can be read");
        all.into_values().collect()
    };
    for round in 1..3 {
        let store = fixture.open("store");
        (0..5).for_each(|number| put(&store, number, &format!("round {round}")));
        drop(store);
        // The archive that an older program left; the next opening goes on behind it.
        let last = paths().pop().expect("there is one");
        to_format_1(&last);
        let old = Segment::read(&last).expect("it can be read").expect("it has a header");
        assert_eq!(old.format, Format::One);
    }
    let store = fixture.open("store");
    put(&store, 9, "in format 2");
    let then = contents(&store);
    drop(store);
    fixture.restore(&pieces, Some(u64::MAX), "whole").expect("it restores");
    assert_eq!(contents(&fixture.open("whole")), then);
    let last = paths().pop().expect("there is one");
    let mut bytes = fs::read(&last).expect("it can be read");
    bytes[3] = b'9';
    let crc = crc32fast::hash(&bytes[..HEADER - CHECKSUM]).to_le_bytes();
    bytes[HEADER - CHECKSUM..HEADER].copy_from_slice(&crc);
    fs::write(&last, bytes).expect("it can be written");
    let refused = fixture.restore(&pieces, Some(u64::MAX), "newer").expect_err("it is refused");
    assert!(refused.to_string().contains("has the format of a newer program"), "{refused}");
}

#[test]
fn the_bytes_before_a_group_are_those_of_its_format() {
    let group = Bytes::from_static(b"cbj1 a header of 20 b, and rows");
    let time = 0x0102_0304_0506_0708;
    assert_eq!(Format::One.prefix(time, &group), [8, 7, 6, 5, 4, 3, 2, 1]);
    let two = Format::Two.prefix(time, &group);
    assert_eq!(two, [8, 7, 6, 5, 4, 3, 2, 1, 202, 193, 212, 115]);
}

#[test]
fn an_archive_that_cannot_be_written_stops_no_commit_and_says_so() {
    let fixture = Fixture::new();
    let store = fixture.open("store");
    put(&store, 0, "first");
    let archive = fixture.path("archive");
    while fs::read_dir(&archive).expect("it is there").next().is_none() {
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(store);
    let store = fixture.open("store");
    fs::remove_dir_all(&archive).expect("it can be removed");
    put(&store, 1, "second");
    let fault = || store.protection().archive.and_then(|archive| archive.fault);
    while fault().is_none() {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!archive.exists(), "it is never made anew");
    init_archive(&archive).expect("it can be made");
    put(&store, 2, "third");
    while fault().is_some() {
        std::thread::sleep(Duration::from_millis(10));
    }
    // The gap is a fault of its own, until a backup covers it.
    let ends = || {
        let pieces = store.snapshot().expect("it begins").map(|piece| piece.expect("it is read"));
        let Some(Piece::End { group }) = pieces.last() else { panic!("it has an end") };
        group
    };
    assert!(store.protection().fault().is_some_and(|fault| fault.contains("no backup")));
    assert!(store.record_backup(1, ends() + 1).is_err(), "a group that is not there");
    store.record_backup(1, ends()).expect("it is noted");
    assert_eq!(store.protection().fault(), None);
    drop(store);
    assert_eq!(fixture.open("store").protection().fault(), None);
}

#[test]
fn an_archive_whose_disk_is_not_mounted_is_a_gap_and_no_new_archive() {
    let fixture = Fixture::new();
    let store = fixture.open("store");
    put(&store, 0, "first");
    let end = || store.protection();
    assert_eq!(end().restorable(9), None);
    let last = store.snapshot().expect("it begins").last().expect("an end").expect("it is read");
    let Piece::End { group } = last else { panic!("it has an end") };
    store.record_backup(1, group).expect("it is noted");
    assert_eq!(end().restorable(9), Some((1, 9)));
    drop(store);
    let (archive, mounted) = (fixture.path("archive"), fixture.path("mounted"));
    fs::rename(&archive, &mounted).expect("it is ours");
    fs::create_dir(&archive).expect("the mount point");
    let store = fixture.open("store");
    let fault = store.protection().fault().expect("it is told");
    assert!(fault.contains("mount its disk"), "{fault}");
    put(&store, 1, "second");
    drop(store);
    assert_eq!(fs::read_dir(&archive).expect("it is there").count(), 0, "nothing is written");
    fs::remove_dir(&archive).expect("it is empty");
    fs::rename(&mounted, &archive).expect("it is ours");
    let store = fixture.open("store");
    let fault = store.protection().fault().expect("the gap is told");
    assert!(fault.contains("a gap behind the last backup"), "{fault}");
    let (from, to) = store.protection().restorable(u64::MAX).expect("there is a backup");
    assert!(from == 1 && to < u64::MAX, "{from} {to}");
    // An empty directory becomes an archive when somebody says so; another one does not.
    assert!(!init_archive(&archive).expect("it is one"));
    fs::create_dir(fixture.path("other")).expect("it is ours");
    fs::write(fixture.path("other/file"), "").expect("it is ours");
    assert!(init_archive(&fixture.path("other")).is_err());
}

#[test]
fn an_archive_whose_disk_does_not_answer_stops_nobody_and_goes_on_behind_a_gap() {
    let fixture = Fixture::new();
    let store = fixture.open("store");
    put(&store, 0, "first");
    drop(store);
    let all = segments(&fixture.path("archive"), lineage_of(&fixture)).expect("it can be read");
    let segment = Segment::read(all.values().next().expect("one")).expect("read").expect("whole");
    let groups: Vec<_> = segment.records().map(|(_, group)| group).collect();
    let (appends, orders) = mpsc::channel::<Append>();
    let coverage = Coverage::read(fixture.directory.path()).expect("it can be read");
    let place = fixture.path("archive");
    let archive = Archive::of(appends, Duration::from_millis(50), &place, Arc::new(coverage));
    archive.append(groups.clone());
    assert!(archive.fault().is_some_and(|fault| fault.contains("does not answer")));
    // While it holds on, nobody waits for it.
    let begun = std::time::Instant::now();
    (0..100).for_each(|_| archive.append(groups.clone()));
    assert!(begun.elapsed() < Duration::from_millis(50));
    let (_, done) = orders.try_recv().expect("the first append");
    assert!(orders.try_recv().is_err(), "the others are the gap");
    done.send(Ok(())).expect("it is awaited");
    let answering = std::thread::spawn(move || orders.recv().expect("one").1.send(Ok(())));
    archive.append(groups);
    assert_eq!(archive.fault(), None);
    answering.join().expect("no panic").expect("it is awaited");
}

fn lineage_of(fixture: &Fixture) -> u32 {
    let files = fs::read_dir(fixture.path("archive")).expect("it is there");
    let mut names = files.map(|file| file.expect("read").file_name().into_string().expect("text"));
    let name = names.find(|name| name.ends_with(SUFFIX)).expect("one");
    u32::from_str_radix(&name[..8], 16).expect("a lineage")
}

#[test]
fn an_older_copy_of_a_directory_is_not_mixed_with_the_archive_of_a_newer_one() {
    let fixture = Fixture::new();
    let store = fixture.open("store");
    put(&store, 0, "base");
    drop(store);
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([fixture.path("store"), fixture.path("copy")])
        .status();
    assert!(copied.expect("it runs").success());
    let store = fixture.open("store");
    (1..4).for_each(|number| put(&store, number, "old"));
    drop(store);
    let on_failure = Box::new(|error: &Error| panic!("{error}"));
    let options = SledOptions::new(fixture.path("copy"), 8 << 20, on_failure);
    let options = SledOptions { archive: Some(fixture.path("archive")), ..options };
    let refused = SledStore::open(options).expect_err("the archive is ahead").to_string();
    assert!(refused.contains("an older copy; name another archive"), "{refused}");
    drop(fixture.open("store"));
}

#[test]
fn a_directory_whose_restore_was_not_completed_is_no_store() {
    let fixture = Fixture::new();
    let (pieces, _) = fixture.first_snapshot();
    let mut restore = Restore::begin(&fixture.path("half"), 8 << 20).expect("it begins");
    for piece in &pieces {
        if let Piece::Rows(ops) | Piece::Overlay(ops) = piece {
            restore.write(ops).expect("it can be written");
        }
    }
    drop(restore);
    let options = SledOptions::new(fixture.path("half"), 8 << 20, Box::new(|_| ()));
    let refused = SledStore::open(options).expect_err("it is not complete").to_string();
    assert!(refused.contains("its restore was not completed"), "{refused}");
}
