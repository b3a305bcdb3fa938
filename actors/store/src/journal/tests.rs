use std::fs;

use tempfile::TempDir;

use super::*;

const START: Checkpoint = Checkpoint { group: 0, salt: 42 };

fn open(directory: &TempDir, checkpoint: Checkpoint) -> Result<(Journal, Vec<Bytes>), Error> {
    let new = !directory.path().join(FILES[0]).exists();
    Journal::open(directory.path(), checkpoint, new)
}

fn put(journal: &mut Journal, key: &str, value: &[u8]) {
    let mut group = Group::default();
    group.put(key.as_bytes(), value);
    let (_, rows) = journal.append(group).expect("the disk works");
    assert_eq!(
        rows,
        [(Bytes::copy_from_slice(key.as_bytes()), Some(Bytes::copy_from_slice(value)))]
    );
}

fn keys(groups: &[Bytes]) -> Vec<String> {
    let rows = groups.iter().flat_map(|group| decode(group).expect("they make sense"));
    rows.map(|(key, _)| String::from_utf8(key.to_vec()).expect("a text")).collect()
}

/// A journal of nine groups: six in the first file, three in the second.
fn used() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory can be had");
    let (mut journal, replayed) = open(&directory, START).expect("it opens");
    assert_eq!(replayed.len(), 0);
    for number in 1..=9 {
        put(&mut journal, &number.to_string(), &vec![7; number * 100]);
        if number == 6 {
            assert_eq!(journal.switch(), 6);
        }
    }
    directory
}

fn reason(directory: &TempDir, checkpoint: Checkpoint) -> String {
    match open(directory, checkpoint) {
        Err(Error::Corrupt { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

/// The file and the offset of group `number`.
fn place(directory: &TempDir, number: u64) -> (usize, usize) {
    for (at, file) in FILES.iter().enumerate() {
        let bytes = Bytes::from(fs::read(directory.path().join(file)).expect("it is there"));
        for start in (0..bytes.len()).step_by(SECTOR) {
            if group(&bytes.slice(start..), START.salt).is_some_and(|(found, _)| found == number) {
                return (at, start);
            }
        }
    }
    panic!("no group {number}")
}

fn damage(directory: &TempDir, number: u64) {
    let (file, start) = place(directory, number);
    let path = directory.path().join(FILES[file]);
    let mut bytes = fs::read(&path).expect("it is there");
    bytes[start + HEADER + 9] ^= 4;
    fs::write(path, bytes).expect("it can be written");
}

#[test]
fn what_sled_does_not_have_comes_back_in_order() {
    let directory = used();
    let (_, replayed) = open(&directory, START).expect("it opens");
    assert_eq!(keys(&replayed), ["1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    let (journal, replayed) = open(&directory, Checkpoint { group: 7, ..START }).expect("it opens");
    assert_eq!((keys(&replayed), journal.last()), (vec!["8".to_owned(), "9".to_owned()], 9));
    let (journal, replayed) = open(&directory, Checkpoint { group: 9, ..START }).expect("it opens");
    assert_eq!((replayed.len(), journal.last()), (0, 9));
}

#[test]
fn a_group_may_put_and_delete() {
    let directory = tempfile::tempdir().expect("a directory can be had");
    let (mut journal, _) = open(&directory, START).expect("it opens");
    let mut group = Group::default();
    group.put(b"a", b"");
    group.delete(b"b");
    group.put(b"", &[9; 5000]);
    let (_, written) = journal.append(group).expect("the disk works");
    let (_, replayed) = open(&directory, START).expect("it opens");
    assert_eq!(decode(&replayed[0]), Some(written));
}

#[test]
fn numbers_go_on_over_openings_and_old_groups_are_no_new_ones() {
    let directory = used();
    for last in [9, 12, 15, 18] {
        let checkpoint = Checkpoint { group: last, ..START };
        let (mut journal, replayed) = open(&directory, checkpoint).expect("it opens");
        assert_eq!(replayed.len(), 0);
        for number in last + 1..=last + 3 {
            put(&mut journal, &number.to_string(), b"x");
        }
        let (_, replayed) = open(&directory, checkpoint).expect("it opens");
        assert_eq!(replayed.len(), 3, "after {last}");
    }
}

#[test]
fn a_broken_group_at_the_end_was_not_acknowledged() {
    let directory = used();
    damage(&directory, 9);
    let (journal, replayed) = open(&directory, Checkpoint { group: 6, ..START }).expect("it opens");
    assert_eq!((keys(&replayed), journal.last()), (vec!["7".to_owned(), "8".to_owned()], 8));
}

#[test]
fn a_broken_group_before_a_whole_one_is_damage() {
    for number in [7, 8] {
        let directory = used();
        damage(&directory, number);
        let refusal = reason(&directory, Checkpoint { group: 6, ..START });
        let expected = format!("group {number} of its journal is damaged, and a later one is not");
        assert_eq!(refusal, expected);
    }
}

#[test]
fn an_end_that_sled_lost_is_made_good_or_told() {
    let directory = used();
    let (_, replayed) = open(&directory, Checkpoint { group: 4, ..START }).expect("it opens");
    assert_eq!(replayed.len(), 5);
    // The first file is overwritten: sled had all of it.
    let (mut journal, _) = open(&directory, Checkpoint { group: 9, ..START }).expect("it opens");
    put(&mut journal, "10", &[1; 6000]);
    let refusal = reason(&directory, Checkpoint { group: 4, ..START });
    assert_eq!(refusal, "group 5 of its journal is damaged, and a later one is not");
}

#[test]
fn a_missing_file_and_another_directory_s_groups_are_not_taken() {
    let directory = used();
    let (_, replayed) = open(&directory, Checkpoint { salt: 43, ..START }).expect("it opens");
    assert_eq!(replayed.len(), 0);
    fs::remove_file(directory.path().join(FILES[1])).expect("it is there");
    assert_eq!(reason(&directory, START), "its file journal.1 is missing");
}

#[test]
fn a_file_is_used_again_rather_than_grown() {
    let directory = tempfile::tempdir().expect("a directory can be had");
    let (mut journal, _) = open(&directory, START).expect("it opens");
    for round in 0..20_u8 {
        for _ in 0..20 {
            put(&mut journal, "k", &[round; 4000]);
        }
        journal.switch();
    }
    for file in FILES {
        let length = fs::metadata(directory.path().join(file)).expect("it is there").len();
        assert_eq!(length, GROWTH as u64);
    }
}
