use std::fs;

use tempfile::TempDir;

use super::*;

const KEY: &[u8] = b"key";

/// Copies what is in `from` to a new directory; without snapshots if their names were lost.
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

/// What sled finds after a power cut just after it opened a copy of `closed`: all that it had written is
/// there, but for the name of its snapshot. `anchored` does what this module is for.
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
        assert_eq!(found_after_a_cut(directory.path(), true).as_ref(), Some(&row), "round {round}");
        // The test of the test.
        lost += u32::from(found_after_a_cut(directory.path(), false).as_ref() != Some(&row));
    }
    assert!(lost > 0, "sled does this by itself now");
}

#[test]
fn where_something_is_torn_before_the_end_nothing_is_counted_on() {
    use std::os::unix::fs::FileExt;

    let directory = tempfile::tempdir().expect("a directory can be had");
    let tree = ::sled::Config::new().path(directory.path()).open().expect("it opens");
    for number in 0..400_u32 {
        tree.insert(number.to_le_bytes(), vec![7; 3000]).expect("it is written");
        tree.flush().expect("it is written");
    }
    drop(tree);
    let file = directory.path().join("db");
    let db = File::options().read(true).write(true).open(&file).expect("a file of ours");
    let mut segments: Vec<_> = headers(&db).expect("it can be read").into_iter().collect();
    let Some(Header::Right(last)) = segments.pop() else { panic!("a segment is the last") };
    let Some(Header::Right(before)) = segments.pop() else { panic!("there is one before it") };
    assert_eq!((before.lsn + SEGMENT, last.stable / SEGMENT * SEGMENT), (last.lsn, before.lsn));
    assert_eq!(last_that_follows(&db, 0).expect("it can be read").map(|is| is.lsn), Some(last.lsn));
    // Where the snapshot goes further, it is from there on that sled looks.
    let found = last_that_follows(&db, last.lsn + 1).expect("it can be read");
    assert_eq!(found.map(|is| is.lsn), Some(last.lsn));
    let found = last_that_follows(&db, last.lsn + SEGMENT).expect("it can be read");
    assert!(found.is_none());

    db.write_all_at(&[0; 512], before.at + SEGMENT / 2).expect("a file of ours");
    let found = last_that_follows(&db, 0).expect("it can be read");
    assert_eq!(found.map(|is| is.lsn), Some(before.lsn));
    set(directory.path()).expect("it is set");
    let found = headers(&db).expect("it can be read").into_iter();
    let stable = found.filter_map(|header| match header {
        Header::Right(segment) => Some((segment.lsn, segment.stable)),
        Header::Free | Header::Damaged(_) => None,
    });
    let stable: BTreeMap<_, _> = stable.collect();
    assert_eq!(stable[&last.lsn], last.stable, "it may be torn as well");
}
