use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedReceiver;

use super::*;
use crate::batch::{Batch, BatchId};
use crate::testing::memory::MemoryStore;
use crate::{
    Epoch, LogId, Measured, Outcome, Page, Partition, PartitionSet, Query, ReadFuture, Record, Row,
    Stats, Ticket, WholeRow,
};

const ENVIRONMENT: u8 = 1;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    text: String,
}

const NOTES: Table<u128, Note> = Table::new(3, 2).upgraded_by(|_, mut old| {
    old["text"] = old["body"].take();
    old
});
const NAMES: Table<[u8; 2], u32> = Table::new(4, 1);
const TEXTS: Texts = Texts::new(5);
const DICTIONARY: &[u8] = br#"{"text":"the words that all of these have in common"}"#;
const COMPRESSED_NOTES: Table<u128, Note> = NOTES.compressed_with(DICTIONARY);
const COMPRESSED_TEXTS: Texts = Texts::new(5).compressed_with(DICTIONARY);

fn note(text: &str) -> Note {
    Note { text: text.into() }
}

async fn write(store: &MemoryStore, ops: Vec<Op>) {
    let batch = Batch { id: BatchId(0), guards: Vec::new(), ops };
    assert!(matches!(store.commit(batch).await, Outcome::Committed));
}

async fn write_raw(store: &MemoryStore, row: &[u8]) {
    let value = Bytes::copy_from_slice(row);
    write(store, vec![Op::Put { key: NOTES.key(ENVIRONMENT, &7), value, entry: None }]).await;
}

fn value(op: &Op) -> &[u8] {
    match op {
        Op::Put { value, .. } | Op::Insert { value, .. } => value,
        Op::Delete { .. } | Op::Append { .. } | Op::Trim { .. } => panic!("{op:?} has no value"),
    }
}

#[test]
fn a_row_keeps_its_bytes() {
    let op = NOTES.put(ENVIRONMENT, &7, &note("hi"), None);
    assert_eq!(value(&op), b"\x02\xd8\xc4\x47\xca{\"text\":\"hi\"}");
    assert_eq!(*NOTES.key(ENVIRONMENT, &7).0, *b"\x03\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x07");
}

#[test]
fn a_chunk_keeps_its_bytes() {
    let ops = TEXTS.put(ENVIRONMENT, 7, 9, "hi");
    assert_eq!(value(&ops[0]), b"\x01\xea\x4c\xf5\xb7\x02\0\0\0\xac\x2a\x93\xd8hi");
    let key = b"\x05\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x07\x09\0\0";
    assert!(matches!(&ops[0], Op::Put { key: at, .. } if *at.0 == *key));
}

#[tokio::test]
async fn rows_are_read_as_written() {
    let store = MemoryStore::new();
    write(&store, vec![NOTES.insert(ENVIRONMENT, &7, &note("hi"))]).await;
    assert_eq!(NOTES.get(&store, ENVIRONMENT, &7).await.unwrap(), Some(note("hi")));
    write(&store, vec![NOTES.delete(ENVIRONMENT, &7)]).await;
    assert_eq!(NOTES.get(&store, ENVIRONMENT, &7).await.unwrap(), None);
}

#[tokio::test]
async fn a_scan_goes_on_where_the_last_one_ended() {
    let store = MemoryStore::new();
    let names = [*b"a ", *b"ab", *b"b ", *b"c "];
    write(&store, names.iter().map(|name| NAMES.put(ENVIRONMENT, name, &1, None)).collect()).await;
    write(&store, vec![NAMES.put(ENVIRONMENT + 1, b"d ", &1, None)]).await;
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = NAMES.scan(&store, ENVIRONMENT, after.as_ref(), 3).await.unwrap();
        seen.extend(page.iter().map(|(name, _)| *name));
        after = seen.last().copied();
        if page.len() < 3 {
            break;
        }
    }
    assert_eq!(seen, names);
}

#[tokio::test]
async fn a_row_of_an_older_version_is_upgraded() {
    let store = MemoryStore::new();
    let payload = br#"{"body":"old"}"#;
    let crc = crc32fast::hash(payload).to_le_bytes();
    write_raw(&store, &[&[1], &crc[..], payload].concat()).await;
    assert_eq!(NOTES.get(&store, ENVIRONMENT, &7).await.unwrap(), Some(note("old")));
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_an_error_that_names_it() {
    let store = MemoryStore::new();
    let crc = |payload: &[u8]| crc32fast::hash(payload).to_le_bytes();
    let rows = [
        (b"".to_vec(), "it is empty"),
        (b"\x02\0".to_vec(), "it is cut short"),
        (b"\x02\0\0\0\0{}".to_vec(), "its checksum does not match"),
        ([&[3], &crc(b"{}")[..], b"{}"].concat(), "it has version 3, of a newer program"),
        ([&[2], &crc(b"{}")[..], b"{}"].concat(), "missing field `text` at line 1 column 2"),
    ];
    for (row, expected) in rows {
        write_raw(&store, &row).await;
        match NOTES.get(&store, ENVIRONMENT, &7).await {
            Err(Error::Corrupt { path, reason }) => {
                assert_eq!(path, "(table 3, key 030100000000000000000000000000000007)");
                assert_eq!(reason, expected);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn texts_of_every_length_come_back() {
    let store = MemoryStore::new();
    assert_eq!(TEXTS.get(&store, ENVIRONMENT, 7, 1).await.unwrap(), None);
    for length in [0, 1, 4045, 4046, 4047, 4054, 8100, 200_000, 2 << 20, 5000, 0] {
        let text: String = ('a'..='z').cycle().take(length).collect();
        write(&store, TEXTS.put(ENVIRONMENT, 7, 1, &text)).await;
        let read = TEXTS.get(&store, ENVIRONMENT, 7, 1).await.unwrap();
        assert!(read.as_deref() == Some(&text), "{length} bytes");
    }
    assert_eq!(TEXTS.get(&store, ENVIRONMENT, 7, 2).await.unwrap(), None);
}

#[tokio::test]
async fn deleted_texts_leave_nothing() {
    let store = MemoryStore::new();
    let text = "x".repeat(500_000);
    write(&store, TEXTS.put(ENVIRONMENT, 7, 1, &text)).await;
    write(&store, TEXTS.delete(ENVIRONMENT, 7, 1, text.len())).await;
    assert!(TEXTS.delete_all(&store, ENVIRONMENT, 7).await.unwrap().is_empty());

    write(&store, TEXTS.put(ENVIRONMENT, 7, 1, &text)).await;
    write(&store, TEXTS.put(ENVIRONMENT, 7, 2, "short")).await;
    write(&store, TEXTS.put(ENVIRONMENT, 8, 1, "another's")).await;
    let ops = TEXTS.delete_all(&store, ENVIRONMENT, 7).await.unwrap();
    write(&store, ops).await;
    assert_eq!(TEXTS.get(&store, ENVIRONMENT, 7, 1).await.unwrap(), None);
    assert_eq!(TEXTS.get(&store, ENVIRONMENT, 7, 2).await.unwrap(), None);
    assert!(TEXTS.get(&store, ENVIRONMENT, 8, 1).await.unwrap().is_some());
}

#[tokio::test]
async fn the_texts_of_many_documents_are_read_page_by_page() {
    let (store, long) = (MemoryStore::new(), "lorem ipsum ".repeat(2_000));
    let texts = [
        (7, 1, "one"),
        (7, 2, long.as_str()),
        (8, 0, "two"),
        (9, 3, long.as_str()),
        (10, 1, "behind"),
    ];
    for (document, field, text) in texts {
        write(&store, TEXTS.put(ENVIRONMENT, document, field, text)).await;
    }
    for limit in 1..12 {
        let (mut read, mut from) = (Vec::new(), Some((7, 0)));
        while let Some(next) = from {
            let page = TEXTS.page(&store, ENVIRONMENT, next, 10, limit).await.unwrap();
            let text = |it: &StoredText| (it.document(), TEXTS.read_stored(it).unwrap());
            read.extend(page.0.iter().map(text));
            from = page.1;
        }
        let expected = texts[..4].iter().map(|(document, _, text)| (*document, (*text).to_owned()));
        assert_eq!(read, expected.collect::<Vec<_>>(), "{limit} rows a page");
    }
}

#[tokio::test]
async fn a_text_with_another_texts_chunk_is_refused() {
    let store = MemoryStore::new();
    write(&store, TEXTS.put(ENVIRONMENT, 7, 1, &"a".repeat(9000))).await;
    let mut other = TEXTS.put(ENVIRONMENT, 7, 1, &"b".repeat(9000));
    write(&store, vec![other.remove(1)]).await;
    let error = TEXTS.get(&store, ENVIRONMENT, 7, 1).await.unwrap_err();
    assert!(error.to_string().contains("its chunks do not belong together"), "{error}");
}

/// A store in which something is committed between the first chunk of a text and the others.
struct Interrupted(MemoryStore, Mutex<Option<Vec<Op>>>);

impl Store for Interrupted {
    fn commit(&self, batch: Batch) -> Ticket {
        self.0.commit(batch)
    }
    fn get<'a>(&'a self, key: &'a Key) -> ReadFuture<'a, Option<Bytes>> {
        self.0.get(key)
    }
    fn scan(&self, from: Key, to: Key, limit: usize) -> ReadFuture<'_, Vec<Row>> {
        if let Some(ops) = self.1.lock().expect("no panic").take() {
            drop(self.0.commit(Batch { id: BatchId(0), guards: Vec::new(), ops }));
        }
        self.0.scan(from, to, limit)
    }
    fn scan_whole(&self, from: Key, to: Key, limit: usize) -> ReadFuture<'_, Vec<WholeRow>> {
        self.0.scan_whole(from, to, limit)
    }
    fn query<'a>(&'a self, query: &'a Query) -> ReadFuture<'a, Page> {
        self.0.query(query)
    }
    fn scan_partitions(
        &self,
        partitions: PartitionSet,
        from: Key,
        to: Key,
        limit: usize,
    ) -> ReadFuture<'_, Vec<Row>> {
        self.0.scan_partitions(partitions, from, to, limit)
    }
    fn read_log(&self, log: LogId, after: u64, limit: usize) -> ReadFuture<'_, Vec<Record>> {
        self.0.read_log(log, after, limit)
    }
    fn log_bounds(&self, log: LogId) -> ReadFuture<'_, (u64, u64)> {
        self.0.log_bounds(log)
    }
    fn tail(&self) -> UnboundedReceiver<Vec<Record>> {
        self.0.tail()
    }
    fn epoch(&self, partition: Partition) -> Option<Epoch> {
        self.0.epoch(partition)
    }
    fn measure(&self, after: Vec<u8>) -> ReadFuture<'_, Measured> {
        self.0.measure(after)
    }
    fn stats(&self) -> Stats {
        self.0.stats()
    }
}

#[tokio::test]
async fn a_text_that_is_erased_or_replaced_while_it_is_read_is_not_damaged() {
    let (long, other) = ("a".repeat(9000), "b".repeat(9000));
    let texts = [None, Some("short"), Some(other.as_str())];
    for text in texts {
        let store = MemoryStore::new();
        write(&store, TEXTS.put(ENVIRONMENT, 7, 1, &long)).await;
        let ops = match text {
            None => TEXTS.delete_all(&store, ENVIRONMENT, 7).await.unwrap(),
            Some(text) => {
                let all = TEXTS.delete_all(&store, ENVIRONMENT, 7).await.unwrap();
                [all, TEXTS.put(ENVIRONMENT, 7, 1, text)].concat()
            }
        };
        let store = Interrupted(store, Mutex::new(Some(ops)));
        let read = TEXTS.get(&store, ENVIRONMENT, 7, 1).await.unwrap();
        assert_eq!(read.as_deref(), text);
    }
}

#[test]
fn a_compressed_row_keeps_its_bytes() {
    let alike = note("the words that all of these have in common, and some more");
    let row = COMPRESSED_NOTES.put(ENVIRONMENT, &7, &alike, None);
    assert_eq!(value(&row), b"\x82pZ\xe3\xdfD\x0f5\x00 \xf0\x02, and some more\"}");
    let other = note("nothing of that kind");
    let (compressed, plain) = (
        COMPRESSED_NOTES.put(ENVIRONMENT, &7, &other, None),
        NOTES.put(ENVIRONMENT, &7, &other, None),
    );
    assert_eq!(value(&compressed), value(&plain));
}

#[tokio::test]
async fn compressed_rows_and_older_ones_are_read_as_written() {
    let store = MemoryStore::new();
    let alike = note("the words that all of these have in common, and some more");
    for (key, table) in [(1, NOTES), (2, COMPRESSED_NOTES)] {
        write(&store, vec![table.put(ENVIRONMENT, &key, &alike, None)]).await;
        let read = COMPRESSED_NOTES.get(&store, ENVIRONMENT, &key).await;
        assert_eq!(read.expect("it is readable"), Some(note(&alike.text)));
    }
    // A program without the dictionary does not take it for something else.
    let error = NOTES.get(&store, ENVIRONMENT, &2).await.expect_err("it is compressed");
    assert!(error.to_string().contains("of a newer program"), "{error}");
    // Nor is damage that passes the checksum.
    let crc = crc32fast::hash(b"\xff\xff\x03garbage").to_le_bytes();
    write_raw(&store, &[&[2 | 0x80], &crc[..], b"\xff\xff\x03garbage"].concat()).await;
    let error = COMPRESSED_NOTES.get(&store, ENVIRONMENT, &7).await.expect_err("it is no row");
    assert!(error.to_string().contains("cannot be decompressed"), "{error}");
}

#[tokio::test]
async fn compressed_texts_of_every_length_come_back() {
    let store = MemoryStore::new();
    let mut noise = 1_u32;
    for length in [0, 1, 63, 64, 500, 4045, 9_000, 200_000, 256 << 10, (256 << 10) + 1, 2 << 20] {
        let alike: String =
            "the words that all of these have ".chars().cycle().take(length).collect();
        let unlike = (0..length).map(|_| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from(b' ' + noise.to_be_bytes()[0] % 90)
        });
        for text in [alike, unlike.collect()] {
            let ops = COMPRESSED_TEXTS.put(ENVIRONMENT, 7, 1, &text);
            assert!(ops.len() <= TEXTS.put(ENVIRONMENT, 7, 1, &text).len(), "{length}");
            write(&store, ops).await;
            let read = COMPRESSED_TEXTS.get(&store, ENVIRONMENT, 7, 1).await;
            assert!(read.expect("it is readable").as_deref() == Some(&text), "{length} bytes");
        }
    }
    let text = "the words that all of these have in common, once and again";
    write(&store, TEXTS.put(ENVIRONMENT, 8, 1, text)).await;
    let read = COMPRESSED_TEXTS.get(&store, ENVIRONMENT, 8, 1).await;
    assert_eq!(read.expect("it is readable").as_deref(), Some(text));
    assert_eq!(COMPRESSED_TEXTS.put(ENVIRONMENT, 7, 1, &text.repeat(500)).len(), 1);
}
