//! What rows take on disk: as they come, while old ones go and new ones come, and after most are
//! gone. Printed beside what they would take if nothing else were stored.
//!
//!     cargo bench -p callboard-store --bench space -- [items, in thousands]
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::cast_precision_loss, reason = "figures are rounded anyway")]

use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use callboard_store::sled::{SledOptions, SledStore};
use callboard_store::{Batch, BatchId, Entry, Key, Op, Outcome, Store};

/// About what a task leaves: the row by which it is listed, and a text.
const LISTED: usize = 440;
const TEXT: usize = 760;
/// How many items a lot of removals takes at once, as the runtime does.
const LOT: usize = 64;

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
    /// Adds a lot, and removes the oldest if `remove`: each item is a batch of its own.
    fn step(&mut self, add: bool, remove: bool) {
        let mut tickets = Vec::with_capacity(2 * LOT);
        let mut commit = |store: &SledStore, ops: Vec<Op>| {
            tickets.push(store.commit(Batch { id: BatchId(0), guards: Vec::new(), ops }));
        };
        for _ in 0..if add { LOT } else { 0 } {
            let number = self.next;
            self.next += 1;
            self.there.push_back(number);
            let ops = item(number);
            self.live += size(&ops);
            commit(&self.store, ops);
        }
        for _ in 0..if remove { LOT } else { 0 } {
            let Some(number) = self.there.pop_front() else { break };
            let ops = item(number);
            self.live -= size(&ops);
            let keys = ops.into_iter().filter_map(|op| match op {
                Op::Put { key, .. } => Some(key),
                Op::Insert { .. } | Op::Delete { .. } | Op::Append { .. } | Op::Trim { .. } => None,
            });
            commit(&self.store, keys.map(|key| Op::Delete { key }).collect());
        }
        self.runtime.block_on(async {
            for ticket in tickets {
                let outcome = ticket.await;
                assert!(matches!(outcome, Outcome::Committed), "{outcome:?}");
            }
        });
    }

    fn tell(&self, what: &str) {
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

/// The rows of an item; their bytes do not repeat.
fn item(number: u64) -> Vec<Op> {
    let noise = |length: usize, salt: u64| -> Bytes {
        let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt;
        let byte = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            b'a' + (state % 26) as u8
        };
        std::iter::repeat_with(byte).take(length).collect()
    };
    // As identifiers: nearly ascending.
    let document = u128::from(number / 4) << 80 | u128::from(number.wrapping_mul(0x9e37_79b9));
    let listed = Key::new(0x81, 0, &document.to_be_bytes());
    let text = Key::new(0x10, 0, &[&document.to_be_bytes()[..], &[0, 0, 0]].concat());
    let entry = Entry {
        list: [0x80, 0],
        terms: vec![(0, Box::from(*b"completed")), (1, Box::from(*b"model"))],
        sort: [Some(5), Some(number)],
    };
    vec![
        Op::Put { key: listed, value: noise(LISTED, 1), entry: Some(entry) },
        Op::Put { key: text, value: noise(TEXT, 2), entry: None },
    ]
}

fn size(ops: &[Op]) -> u64 {
    let size = |op: &Op| match op {
        Op::Put { key, value, .. } => key.0.len() + value.len(),
        Op::Insert { .. } | Op::Delete { .. } | Op::Append { .. } | Op::Trim { .. } => 0,
    };
    ops.iter().map(size).sum::<usize>() as u64
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
    let thousands = std::env::args().find_map(|argument| argument.parse::<u64>().ok());
    let items = thousands.unwrap_or(100) * 1_000;
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
    (0..lots).for_each(|_| bench.step(true, false));
    bench.tell("as they came");
    bench.rest(5);
    bench.tell("after a rest");
    for round in 1..=6 {
        (0..lots).for_each(|_| bench.step(true, true));
        bench.tell(&format!("all replaced, {round} times"));
    }
    bench.rest(5);
    bench.tell("after a rest");
    (0..lots * 9 / 10).for_each(|_| bench.step(false, true));
    bench.tell("nine in ten removed");
    bench.rest(20);
    bench.tell("after a rest");
    (0..lots * 9 / 10).for_each(|_| bench.step(true, false));
    bench.tell("as many as before");
    (0..lots * 9 / 10).for_each(|_| bench.step(false, true));
    let Bench { runtime, store, directory, next, there, live, began } = bench;
    drop(store);
    let store = open(directory.path());
    let mut bench = Bench { runtime, store, directory, next, there, live, began };
    bench.tell("nine in ten removed, reopened");
    for round in 1..=3 {
        (0..lots / 10).for_each(|_| bench.step(true, true));
        bench.tell(&format!("the rest replaced, {round} times"));
    }
}
