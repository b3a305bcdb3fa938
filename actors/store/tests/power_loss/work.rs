//! What is written while the power is cut, and what must be there afterwards.
//!
//! Each writer makes its batches one after the other, and batch `n` of a writer is the same
//! whenever it is made. So a store is right if it holds, for every writer, exactly the batches up
//! to some number, and that number is not smaller than the last that was acknowledged. The model
//! of what they come to is the store in memory.

use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use bytes::Bytes;
use callboard_disk::Random;
use callboard_store::contract::block_on;
use callboard_store::memory::MemoryStore;
use callboard_store::sled::{Sabotage, SledOptions, SledStore};
use callboard_store::table::{Table, Texts};
use callboard_store::{
    Batch, BatchId, Entry, Filter, Key, LogId, Op, Order, Outcome, Query, Store,
};

pub(crate) const WRITERS: usize = 6;

const ENVIRONMENT: u8 = 1;
const HEADS: Table<u128, u32> = Table::new(1, 1);
const ROWS: u8 = 2;
const TEXTS: Texts = Texts::new(3);
const LARGE: u8 = 4;
const OPEN: Table<u128, String> = Table::new(0x80, 1);
const DONE: Table<u128, String> = Table::new(0x81, 1);
const LIST: [u8; 2] = [1, 1];
const LOG: LogId = LogId(1);

/// How many batches of each writer there are; `None` for none.
pub(crate) type Progress = [Option<u32>; WRITERS];

fn document(writer: usize, n: u32) -> u128 {
    u128::from(n) << 64 | writer as u128
}

fn filler(writer: usize, n: u32, length: usize) -> Vec<u8> {
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
fn ops(writer: usize, n: u32, large: bool) -> Vec<Op> {
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
    if large && n % 6 == 5 {
        let key = Key::new(LARGE, ENVIRONMENT, &document(writer, n).to_be_bytes());
        ops.push(Op::Put { key, value: filler(writer, n, 200_000).into(), entry: None });
    }
    ops
}

fn batch(ops: Vec<Op>) -> Batch {
    Batch { id: BatchId(0), guards: Vec::new(), ops }
}

/// `round`: how many bytes stand in the journal until they are brought to sled.
fn open(
    path: &Path,
    sabotage: Option<Sabotage>,
    round: usize,
    on_failure: fn(&callboard_store::Error),
) -> Result<SledStore, String> {
    let options = SledOptions::new(path.into(), 8 << 20, Box::new(on_failure));
    let options = SledOptions { sabotage, round, ..options };
    SledStore::open(options).map_err(|error| format!("it does not open: {error}"))
}

/// Opens the store at `path` and has every writer make `count` batches after those that are
/// there. Acknowledged batches go to `acks`, a line each. `orderly`: the store is closed at the end.
/// The process ends with exit code 1 if the store fails.
pub(crate) fn work(
    path: &Path,
    acks: &Path,
    count: u32,
    orderly: bool,
    sabotage: Option<Sabotage>,
) {
    // From every group by itself to all of them at the end.
    let round = [1, 50_000, 500_000, usize::MAX / 2][count as usize % 4];
    let store = open(path, sabotage, round, |error| end(error)).unwrap_or_else(|error| end(&error));
    let acks = std::fs::File::create(acks).expect("a file can be made");
    let acks = Mutex::new(acks);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (store, acks) = (&store, &acks);
            scope.spawn(move || {
                block_on(async {
                    let first = head(store, writer).await.map_or(0, |head| head + 1);
                    for n in first..first + count {
                        let outcome = store
                            .commit(batch(ops(writer, n, sabotage == Some(Sabotage::LargeRows))))
                            .await;
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
    if orderly {
        drop(store);
    } else {
        std::process::exit(0);
    }
}

/// Ends the process in words.
fn end(error: &dyn std::fmt::Display) -> ! {
    eprintln!("the store has failed: {error}");
    std::process::exit(1);
}

async fn head(store: &dyn Store, writer: usize) -> Option<u32> {
    HEADS.get(store, ENVIRONMENT, &(writer as u128)).await.expect("the head can be read")
}

/// Adds what a line of acknowledgements says.
pub(crate) fn acknowledge(progress: &mut Progress, lines: &str) {
    for line in lines.lines() {
        let (writer, n) = line.split_once(' ').expect("two numbers");
        let writer: usize = writer.parse().expect("a number");
        progress[writer] = Some(n.parse().expect("a number"));
    }
}

/// Opens the store at `path` and compares all of it with the model. Returns what is there.
pub(crate) fn check(
    path: &Path,
    acknowledged: Progress,
    sabotage: Option<Sabotage>,
) -> Result<Progress, String> {
    let check = || {
        let store = open(path, sabotage, 1 << 20, |error| panic!("{error}"))?;
        let mut found = Err(String::new());
        block_on(async {
            found = compare(&store, acknowledged, sabotage == Some(Sabotage::LargeRows)).await;
        });
        found
    };
    let caught = std::panic::catch_unwind(check);
    caught.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Err(format!("panic: {}", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?")))
    })
}

async fn compare(
    store: &dyn Store,
    acknowledged: Progress,
    large: bool,
) -> Result<Progress, String> {
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
            let outcome = model.commit(batch(ops(writer, n, false))).await;
            assert!(matches!(outcome, Outcome::Committed), "{outcome:?}");
            if large && n % 6 == 5 {
                let key = Key::new(LARGE, ENVIRONMENT, &document(writer, n).to_be_bytes());
                let row = store.get(&key).await.map_err(|error| error.to_string())?;
                if row != Some(filler(writer, n, 200_000).into()) {
                    return Err(format!(
                        "the large row of batch {n} of writer {writer} is not right"
                    ));
                }
            }
        }
    }
    let error = |error: callboard_store::Error| error.to_string();
    let (from, to) = (Key::new(0, 0, &[]), Key::new(255, 255, &[255; 32]));
    let mut rows = store.scan(from.clone(), to.clone(), usize::MAX).await.map_err(error)?;
    rows.retain(|(key, _)| key.0[0] != LARGE);
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
    // It must go on, and not only be readable.
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
