//! The work of a worker whose power is cut, and the check afterwards.
//!
//! Each writer makes its batches one after the other, and batch `n` of a writer is always the same. So a
//! store is right if it holds, for every writer, exactly the batches up to some number that is not smaller
//! than the last acknowledged one. The model is the store in memory.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use callboard_disk::{Counts, Random};
use callboard_store::sled::{SledOptions, SledStore};
use callboard_store::table::{Table, Texts};
use callboard_store::testing::contract::block_on;
use callboard_store::testing::memory::MemoryStore;
use callboard_store::{
    Batch, BatchId, Entry, Filter, Key, LogId, Op, Order, Outcome, Query, Store,
};

pub(crate) const WRITERS: usize = 6;

const ENVIRONMENT: u8 = 1;
const HEADS: Table<u128, u32> = Table::new(1, 1);
const ROWS: u8 = 2;
const TEXTS: Texts = Texts::new(3);
const OPEN: Table<u128, String> = Table::new(0x80, 1);
const DONE: Table<u128, String> = Table::new(0x81, 1);
const LIST: [u8; 2] = [1, 1];
const LOG: LogId = LogId(1);

/// The last batch of each writer; `None` without one.
pub(crate) type Progress = [Option<u32>; WRITERS];

fn document(writer: usize, n: u32) -> u128 {
    u128::from(n) << 64 | writer as u128
}

pub(crate) fn filler(writer: usize, n: u32, length: usize) -> Vec<u8> {
    let mut random = Random::new((writer as u64) << 32 | u64::from(n));
    (0..length).map(|_| u8::try_from(random.below(256)).expect("a byte")).collect()
}

fn text(writer: usize, n: u32) -> String {
    let length = if n.is_multiple_of(50) { 200_000 } else { 30_000 };
    filler(writer, n, length).iter().map(|byte| char::from(b'a' + byte % 26)).collect()
}

fn records(writer: usize, n: u32) -> Vec<Bytes> {
    let length = |at: usize| {
        if n.is_multiple_of(17) && at == 0 { 20_000 } else { 8 + filler(writer, n, 3)[at] as usize }
    };
    let record = |at: usize| {
        let name = [writer.to_be_bytes(), u64::from(n).to_be_bytes(), at.to_be_bytes()].concat();
        Bytes::from([name, filler(writer, n, length(at))].concat())
    };
    (0..=n as usize % 3).map(record).collect()
}

fn listed(writer: usize, n: u32, status: &str) -> Entry {
    let terms = vec![(1, status.as_bytes().into()), (2, n.to_string().as_bytes().into())];
    Entry {
        list: LIST,
        terms,
        sort: [Some(u64::from(n % 7)), (!n.is_multiple_of(5)).then_some(writer as u64)],
    }
}

/// Batch `n` of a writer.
fn ops(writer: usize, n: u32) -> Vec<Op> {
    let row = |n: u32| Key::new(ROWS, ENVIRONMENT, &document(writer, n).to_be_bytes());
    let sizes = filler(writer, n, 2);
    let size = if n.is_multiple_of(4) {
        4000 + sizes[0] as usize % 76
    } else {
        sizes[0] as usize * sizes[1] as usize % 4000
    };
    let mut ops = vec![
        HEADS.put(ENVIRONMENT, &(writer as u128), &n, None),
        Op::Insert { key: row(n), value: filler(writer, n, size).into() },
        OPEN.put(
            ENVIRONMENT,
            &document(writer, n),
            &"open".into(),
            Some(listed(writer, n, "open")),
        ),
    ];
    ops.extend(records(writer, n).into_iter().map(|record| Op::Append { log: LOG, record }));
    if let Some(old) = n.checked_sub(4) {
        let put = DONE.put(
            ENVIRONMENT,
            &document(writer, old),
            &"done".into(),
            Some(listed(writer, old, "done")),
        );
        let delete = OPEN.delete(ENVIRONMENT, &document(writer, old));
        ops.extend(if n.is_multiple_of(2) { [put, delete] } else { [delete, put] });
    }
    if let Some(old) = n.checked_sub(10).filter(|old| old.is_multiple_of(3)) {
        ops.push(DONE.delete(ENVIRONMENT, &document(writer, old)));
        ops.push(Op::Delete { key: row(old) });
    }
    if n % 25 == 3 {
        ops.extend(TEXTS.put(ENVIRONMENT, writer as u128, 1, &text(writer, n - 3)));
    }
    if writer == 0 && n.is_multiple_of(10) {
        ops.push(Op::Trim { log: LOG, before: u64::from(n) });
    }
    ops
}

fn batch(ops: Vec<Op>) -> Batch {
    Batch { id: BatchId(0), guards: Vec::new(), ops }
}

fn open(
    path: &Path,
    checkpoint_bytes: usize,
    on_failure: fn(&callboard_store::Error),
) -> Result<SledStore, String> {
    let options = SledOptions::new(path.into(), 8 << 20, Box::new(on_failure));
    SledStore::open(SledOptions { checkpoint_bytes, ..options })
        .map_err(|error| format!("it does not open: {error}"))
}

/// The order of a worker.
pub(crate) struct Work {
    /// The directory of the store.
    pub(crate) data: PathBuf,
    /// The file of acknowledged batches, a line each.
    pub(crate) acks: PathBuf,
    /// The number of batches that each writer adds.
    pub(crate) batches: u32,
    /// True if the worker closes the store at the end.
    pub(crate) orderly: bool,
    /// The shim's counts: the writers go on until the shim has counted a fault. The scheduler decides how
    /// many changes a number of batches makes, and how soon a thread of sled's runs.
    pub(crate) until_fault: Option<PathBuf>,
}

/// The pause of a writer before each batch beyond its number.
const PAUSE: Duration = Duration::from_millis(10);

/// Opens the store and has every writer make its batches. The process ends with exit code 1 if the
/// store fails.
pub(crate) fn work(work: &Work) {
    let batches = work.batches;
    // From a checkpoint after each group to one at the end.
    let checkpoint_bytes = [1, 50_000, 500_000, usize::MAX / 2][batches as usize % 4];
    let store = open(&work.data, checkpoint_bytes, |error| end(error));
    let store = store.unwrap_or_else(|error| end(&error));
    let acks = Mutex::new(std::fs::File::create(&work.acks).expect("a file can be made"));
    let is_over = |made: u32| {
        let faults = |counts: &PathBuf| Counts::read(counts).faults;
        made >= batches && work.until_fault.as_ref().is_none_or(|counts| faults(counts) > 0)
    };
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (store, acks) = (&store, &acks);
            scope.spawn(move || {
                block_on(async {
                    let first = head(store, writer).await.map_or(0, |head| head + 1);
                    for n in (first..).take_while(|n| !is_over(n - first)) {
                        if n - first >= batches {
                            thread::sleep(PAUSE);
                        }
                        let outcome = store.commit(batch(ops(writer, n))).await;
                        if !matches!(outcome, Outcome::Committed) {
                            end(&format!("{outcome:?}"));
                        }
                        let mut acks = acks.lock().expect("no writer panics");
                        acks.write_all(format!("{writer} {n}\n").as_bytes())
                            .expect("the disk works");
                    }
                });
            });
        }
    });
    if work.orderly {
        drop(store);
    } else {
        std::process::exit(0);
    }
}

/// Ends the process with an error.
fn end(error: &dyn std::fmt::Display) -> ! {
    eprintln!("the store has failed: {error}");
    std::process::exit(1);
}

async fn head(store: &dyn Store, writer: usize) -> Option<u32> {
    HEADS.get(store, ENVIRONMENT, &(writer as u128)).await.expect("the head can be read")
}

/// Counts lines of the file of acknowledged batches.
pub(crate) fn acknowledge(progress: &mut Progress, lines: &str) {
    for line in lines.lines() {
        let (writer, n) = line.split_once(' ').expect("two numbers");
        let writer: usize = writer.parse().expect("a number");
        progress[writer] = Some(n.parse().expect("a number"));
    }
}

/// Opens the store at `path` and compares all of it with the model. Returns its progress.
pub(crate) fn check(path: &Path, acknowledged: Progress) -> Result<Progress, String> {
    let check = || {
        let store = open(path, 1 << 20, |error| panic!("{error}"))?;
        let mut found = Err(String::new());
        block_on(async {
            found = compare(&store, acknowledged).await;
        });
        found
    };
    let caught = std::panic::catch_unwind(check);
    caught.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Err(format!("panic: {}", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?")))
    })
}

async fn compare(store: &dyn Store, acknowledged: Progress) -> Result<Progress, String> {
    let model = MemoryStore::new();
    let mut progress = Progress::default();
    for (writer, reached) in progress.iter_mut().enumerate() {
        *reached = head(store, writer).await;
        if *reached < acknowledged[writer] {
            return Err(format!(
                "writer {writer}: {:?} was acknowledged, {reached:?} is there",
                acknowledged[writer]
            ));
        }
        for n in 0..reached.map_or(0, |reached| reached + 1) {
            let outcome = model.commit(batch(ops(writer, n))).await;
            assert!(matches!(outcome, Outcome::Committed), "{outcome:?}");
        }
    }
    let error = |error: callboard_store::Error| error.to_string();
    let (from, to) = (Key::new(0, 0, &[]), Key::new(255, 255, &[255; 32]));
    let rows = store.scan(from.clone(), to.clone(), usize::MAX).await.map_err(error)?;
    let expected = model.scan(from, to, usize::MAX).await.map_err(error)?;
    if let Some((row, other)) = rows.iter().zip(&expected).find(|(row, other)| row != other) {
        return Err(format!("the row {:?} should be {:?}", row.0, other.0));
    }
    if rows.len() != expected.len() {
        return Err(format!("{} rows are there, and should be {}", rows.len(), expected.len()));
    }
    for (writer, reached) in progress.iter().enumerate() {
        let read = TEXTS.get(store, ENVIRONMENT, writer as u128, 1).await.map_err(error)?;
        let last = reached.and_then(|reached| Some(reached.checked_sub(3)? / 25 * 25));
        if read != last.map(|n| text(writer, n)) {
            return Err(format!("the text of writer {writer} is not that of batch {last:?}"));
        }
    }
    compare_queries(store, &model).await?;
    compare_log(store, &model, progress).await?;
    // The store must be writable, too.
    let outcome =
        store.commit(batch(vec![Op::Append { log: LogId(9), record: Bytes::new() }])).await;
    if !matches!(outcome, Outcome::Committed) {
        return Err(format!("it takes no further batch: {outcome:?}"));
    }
    Ok(progress)
}

async fn compare_queries(store: &dyn Store, model: &MemoryStore) -> Result<(), String> {
    let status = |text: &str| vec![Filter::AnyOf(1, vec![text.as_bytes().into()])];
    let number = |n: u32| vec![Filter::AllOf(2, vec![n.to_string().as_bytes().into()])];
    for filters in [vec![], status("open"), status("done"), number(3), number(24)] {
        for order in [Order::Document, Order::Sort(0), Order::Sort(1)] {
            let query = Query {
                list: LIST,
                filters: filters.clone(),
                order,
                descending: true,
                offset: 1,
                limit: 500,
            };
            let page = store.query(&query).await.map_err(|error| error.to_string())?;
            if Ok(&page) != model.query(&query).await.as_ref().map_err(|_| ()) {
                return Err(format!("the answer to {query:?} is not right"));
            }
        }
    }
    Ok(())
}

async fn compare_log(
    store: &dyn Store,
    model: &MemoryStore,
    progress: Progress,
) -> Result<(), String> {
    let bounds = store.log_bounds(LOG).await.map_err(|error| error.to_string())?;
    let expected = model.log_bounds(LOG).await.map_err(|error| error.to_string())?;
    if bounds != expected {
        return Err(format!("the log has {bounds:?}, and should have {expected:?}"));
    }
    let found = store.read_log(LOG, 0, usize::MAX).await.map_err(|error| error.to_string())?;
    if !found.iter().map(|record| record.sequence).eq(bounds.0.max(1)..=bounds.1) {
        return Err("the numbers of the log have gaps".into());
    }
    // Writers are mixed, but of each one the newest records are there, in its order.
    for (writer, reached) in progress.iter().enumerate() {
        let name = writer.to_be_bytes();
        let of_writer: Vec<_> = found
            .iter()
            .map(|record| &record.bytes)
            .filter(|bytes| bytes.starts_with(&name))
            .collect();
        let made: Vec<_> = (0..reached.map_or(0, |reached| reached + 1))
            .flat_map(|n| records(writer, n))
            .collect();
        if !made.iter().rev().zip(of_writer.iter().rev()).all(|(made, found)| made == *found)
            || of_writer.len() > made.len()
        {
            return Err(format!("the records of writer {writer} are not those that were appended"));
        }
    }
    Ok(())
}
