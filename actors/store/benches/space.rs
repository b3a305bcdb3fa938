//! Bytes on disk: as rows come, while old ones go and new ones come, and after most are gone. Printed
//! beside the bytes of the ended items alone.
//!
//!     cargo bench -p callboard-store --bench space -- [items, in thousands]
//!     cargo bench -p callboard-store --bench space -- long <seconds> <texts a second>
//!
//! The second has long texts come and go, with a small row of each that stays.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::cast_precision_loss, reason = "figures are rounded anyway")]

use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use callboard_store::sled::{SledOptions, SledStore};
use callboard_store::{Batch, BatchId, Entry, Key, LogId, Op, Outcome, Store};

/// The rows of an ended task, about: its listed row and a text.
const LISTED: usize = 440;
const TEXT: usize = 760;
/// Both with their keys.
const SIZE: u64 = (LISTED + 18 + TEXT + 21) as u64;
/// Its row while it has not ended, which is written twice.
const LIVE: usize = 110;
/// The log of what happened to it: how many records and how long each, and how many are kept when
/// the log is trimmed, after so many items.
const LOG: LogId = LogId(0);
const RECORDS: u64 = 3;
const RECORD: usize = 240;
const KEPT: u64 = 5_000;
const TRIMMED_AFTER: u64 = 8_192;
/// The number of items in a lot of removals, as in the runtime.
const LOT: usize = 64;
/// A long text: how many rows, and of how many bytes; and how many there are at a time.
const LONG: u8 = 25;
const CHUNK: usize = 4_000;
const LONG_TEXTS: u64 = 200;

struct Bench {
    runtime: tokio::runtime::Runtime,
    store: SledStore,
    directory: tempfile::TempDir,
    next: u64,
    there: VecDeque<u64>,
    live: u64,
    began: Instant,
}

impl Bench {
    /// Adds a lot, and removes the oldest if `remove`; now and then the log is trimmed.
    fn step(&mut self, add: bool, remove: bool) {
        let mut tickets = Vec::with_capacity(4 * LOT);
        let mut commit = |store: &SledStore, ops: Vec<Op>| {
            tickets.push(store.commit(Batch { id: BatchId(0), guards: Vec::new(), ops }));
        };
        for _ in 0..if add { LOT } else { 0 } {
            let number = self.next;
            self.next += 1;
            self.there.push_back(number);
            self.live += SIZE;
            commit(&self.store, vec![live_row(number), record()]);
            commit(&self.store, vec![live_row(number), record()]);
            let mut ops = vec![Op::Delete { key: live_key(number) }, record()];
            ops.extend(item(number));
            commit(&self.store, ops);
        }
        for _ in 0..if remove { LOT } else { 0 } {
            let Some(number) = self.there.pop_front() else { break };
            self.live -= SIZE;
            let keys = item(number).into_iter().filter_map(|op| match op {
                Op::Put { key, .. } => Some(key),
                Op::Insert { .. } | Op::Delete { .. } | Op::Append { .. } | Op::Trim { .. } => None,
            });
            commit(&self.store, keys.map(|key| Op::Delete { key }).collect());
        }
        if add && self.next.is_multiple_of(TRIMMED_AFTER) {
            let before = (RECORDS * self.next).saturating_sub(KEPT);
            commit(&self.store, vec![Op::Trim { log: LOG, before }]);
        }
        self.runtime.block_on(async {
            for ticket in tickets {
                let outcome = ticket.await;
                assert!(matches!(outcome, Outcome::Committed), "{outcome:?}");
            }
        });
    }

    /// Adds a long text with its row, and removes the text that is the oldest.
    fn long(&mut self) {
        let number = self.next;
        self.next += 1;
        let text = |number, chunk| {
            Key::new(0x10, 0, &[&document(number).to_be_bytes()[..], &[0, 0, chunk]].concat())
        };
        let row = Key::new(0x81, 0, &document(number).to_be_bytes());
        let mut ops = vec![Op::Put { key: row, value: noise(number, LIVE), entry: None }];
        self.live += LIVE as u64;
        for chunk in 0..LONG {
            let value = noise(number << 8 | u64::from(chunk), CHUNK);
            ops.push(Op::Put { key: text(number, chunk), value, entry: None });
            if let Some(old) = number.checked_sub(LONG_TEXTS) {
                ops.push(Op::Delete { key: text(old, chunk) });
            } else {
                self.live += CHUNK as u64;
            }
        }
        let ticket = self.store.commit(Batch { id: BatchId(0), guards: Vec::new(), ops });
        let outcome = self.runtime.block_on(ticket);
        assert!(matches!(outcome, Outcome::Committed), "{outcome:?}");
    }

    fn report(&self, what: &str) {
        let (disk, live) = (on_disk(self.directory.path()), self.live);
        let mb = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        println!(
            "{:6.1} s  {what:32} {:8} items  {:7.1} MB live  {:7.1} MB on disk  {:5.2} ×",
            self.began.elapsed().as_secs_f64(),
            self.there.len(),
            mb(live),
            mb(disk),
            disk as f64 / live.max(1) as f64,
        );
    }

    /// Gives sled's collector, which runs beside its flusher, time without load.
    fn rest(&self, seconds: u64) {
        self.runtime.block_on(async { tokio::time::sleep(Duration::from_secs(seconds)).await });
    }
}

/// The rows that an ended item leaves; their bytes do not repeat.
fn item(number: u64) -> Vec<Op> {
    let document = document(number).to_be_bytes();
    let listed = Key::new(0x81, 0, &document);
    let text = Key::new(0x10, 0, &[&document[..], &[0, 0, 0]].concat());
    vec![
        Op::Put { key: listed, value: noise(number, LISTED), entry: Some(entry(number)) },
        Op::Put { key: text, value: noise(!number, TEXT), entry: None },
    ]
}

/// The listed row of an item that has not ended.
fn live_row(number: u64) -> Op {
    let value = noise(number << 1, LIVE);
    Op::Put { key: live_key(number), value, entry: Some(entry(number)) }
}

fn live_key(number: u64) -> Key {
    Key::new(0x80, 0, &document(number).to_be_bytes())
}

fn record() -> Op {
    Op::Append { log: LOG, record: Bytes::from_static(&[b'r'; RECORD]) }
}

/// Nearly ascending, as identifiers are.
fn document(number: u64) -> u128 {
    u128::from(number / 4) << 80 | u128::from(number.wrapping_mul(0x9e37_79b9))
}

fn entry(number: u64) -> Entry {
    Entry {
        list: [0x80, 0],
        terms: vec![(0, Box::from(*b"completed")), (1, Box::from(*b"model"))],
        sort: [Some(5), Some(number)],
    }
}

fn noise(seed: u64, length: usize) -> Bytes {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        b'a' + (state % 26) as u8
    };
    std::iter::repeat_with(byte).take(length).collect()
}

fn on_disk(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).expect("it is there").flatten();
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => on_disk(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    };
    entries.map(size).sum()
}

fn open(directory: &Path) -> SledStore {
    let on_failure = Box::new(|error: &callboard_store::Error| panic!("{error}"));
    let options = SledOptions::new(directory.join("store"), 16 << 20, on_failure);
    SledStore::open(options).expect("it opens")
}

fn main() {
    let numbers: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let items = numbers.first().unwrap_or(&100) * 1_000;
    let lots = items / LOT as u64;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let mut bench = Bench {
        runtime: runtime.expect("a runtime"),
        store: open(directory.path()),
        directory,
        next: 0,
        there: VecDeque::new(),
        live: 0,
        began: Instant::now(),
    };
    if std::env::args().any(|argument| argument == "long") {
        let [seconds, rate] = numbers[..] else { panic!("long <seconds> <texts a second>") };
        for second in 1..=seconds {
            (0..rate).for_each(|_| bench.long());
            let until = Duration::from_secs(second).saturating_sub(bench.began.elapsed());
            std::thread::sleep(until);
            if second % 10 == 0 {
                bench.report(&format!("{} long texts came", bench.next));
            }
        }
        return;
    }
    (0..lots).for_each(|_| bench.step(true, false));
    bench.report("as they came");
    bench.rest(5);
    bench.report("after a rest");
    for round in 1..=12 {
        (0..lots).for_each(|_| bench.step(true, true));
        bench.report(&format!("all replaced, {round} times"));
    }
    bench.rest(5);
    bench.report("after a rest");
    (0..lots * 9 / 10).for_each(|_| bench.step(false, true));
    bench.report("nine in ten removed");
    bench.rest(20);
    bench.report("after a rest");
    (0..lots * 9 / 10).for_each(|_| bench.step(true, false));
    bench.report("as many as before");
    (0..lots * 9 / 10).for_each(|_| bench.step(false, true));
    let Bench { runtime, store, directory, next, there, live, began } = bench;
    drop(store);
    let store = open(directory.path());
    let mut bench = Bench { runtime, store, directory, next, there, live, began };
    bench.report("nine in ten removed, reopened");
    for round in 1..=3 {
        (0..lots / 10).for_each(|_| bench.step(true, true));
        bench.report(&format!("the rest replaced, {round} times"));
    }
}
