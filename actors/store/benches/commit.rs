//! Durable commits a second, beside their baseline in the same run: a disk's figures change from run to run,
//! their ratios do not.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::cast_precision_loss, reason = "figures are rounded anyway")]

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use callboard_store::sled::{SledOptions, SledStore};
use callboard_store::{Batch, BatchId, Entry, Key, LogId, Op, Order, Outcome, Query, Store};
use criterion::{Criterion, Throughput};

const ROW: usize = 1024;

/// The batches of a writer.
#[derive(Debug, Clone, Copy)]
enum Work {
    /// One plain row of 1 KB.
    Row,
    /// One listed row of 1 KB with six terms, and a log record of 200 bytes.
    Listed,
}

struct Bench {
    runtime: tokio::runtime::Runtime,
    store: Arc<SledStore>,
    next: Arc<AtomicU64>,
}

impl Bench {
    /// Makes `commits` commits from `writers` tasks. Returns the time of all and of each one, sorted.
    fn run(&self, work: Work, writers: u64, commits: u64) -> (Duration, Vec<Duration>) {
        let quota = Arc::new(AtomicU64::new(commits));
        let begin = Instant::now();
        let tasks: Vec<_> = (0..writers)
            .map(|_| {
                let (store, next, quota) = (self.store.clone(), self.next.clone(), quota.clone());
                self.runtime.spawn(async move {
                    let take = |left: u64| left.checked_sub(1);
                    let mut taken = Vec::new();
                    while quota.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
                        let at = Instant::now();
                        let batch = batch(work, next.fetch_add(1, Ordering::Relaxed));
                        let outcome = store.commit(batch).await;
                        assert!(matches!(outcome, Outcome::Committed), "{outcome:?}");
                        taken.push(at.elapsed());
                    }
                    taken
                })
            })
            .collect();
        let mut taken = Vec::new();
        for task in tasks {
            taken.extend(self.runtime.block_on(task).expect("no writer panics"));
        }
        taken.sort_unstable();
        (begin.elapsed(), taken)
    }
}

fn batch(work: Work, n: u64) -> Batch {
    let document = u128::from(n) << 64 | u128::from(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let value = Bytes::from(vec![7; ROW]);
    let ops = match work {
        Work::Row => {
            vec![Op::Put { key: Key::new(1, 1, &document.to_be_bytes()), value, entry: None }]
        }
        Work::Listed => {
            let terms =
                (0..6).map(|field| (field, vec![u8::try_from(n % 10).expect("a digit")].into()));
            let entry =
                Entry { list: [1, 1], terms: terms.collect(), sort: [Some(n % 10), Some(n)] };
            let key = Key::new(Key::FIRST_LISTED, 1, &document.to_be_bytes());
            let record = Bytes::from(vec![8; 200]);
            vec![Op::Put { key, value, entry: Some(entry) }, Op::Append { log: LogId(1), record }]
        }
    };
    Batch { id: BatchId(document), guards: Vec::new(), ops }
}

/// Appends one record and syncs it, `times` over.
fn baseline(file: &mut File, times: u64) -> Vec<Duration> {
    let record = vec![7; ROW];
    let one = |_| {
        let begin = Instant::now();
        file.write_all(&record).and_then(|()| file.sync_data()).expect("the disk works");
        begin.elapsed()
    };
    let mut taken: Vec<_> = (0..times).map(one).collect();
    taken.sort_unstable();
    taken
}

/// The baseline of one commit of one row: sled, its flush and the sync, without any thread.
fn bare(path: &Path, times: u64) -> Vec<Duration> {
    let tree = sled::Config::new().path(path).open().expect("sled opens");
    let db = File::open(path.join("db")).expect("sled has a file");
    let one = |n: u64| {
        let begin = Instant::now();
        tree.insert(n.to_be_bytes(), vec![7; ROW]).expect("the disk works");
        tree.flush().expect("the disk works");
        db.sync_data().expect("the disk works");
        begin.elapsed()
    };
    let mut taken: Vec<_> = (0..times).map(one).collect();
    taken.sort_unstable();
    taken
}

fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    sorted[(sorted.len() - 1) * percent / 100].as_secs_f64() * 1e3
}

fn open(directory: &Path) -> SledStore {
    let on_failure = Box::new(|error: &_| panic!("{error}"));
    let options = SledOptions::new(directory.join("data"), 256 << 20, on_failure);
    SledStore::open(options).expect("the store opens")
}

fn main() {
    let directory =
        tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory can be had");
    let bench = Bench {
        runtime: tokio::runtime::Runtime::new().expect("a runtime can be had"),
        store: Arc::new(open(directory.path())),
        next: Arc::default(),
    };
    let mut file = File::create(directory.path().join("baseline")).expect("a file can be made");

    println!(
        "                        commits/s    p50 ms    p99 ms   × p50 of sled (alone), × rate of the baseline   batches a sync"
    );
    let taken = baseline(&mut file, 2000);
    let baseline_rate = taken.len() as f64 / taken.iter().sum::<Duration>().as_secs_f64();
    let baseline_p50 = percentile(&taken, 50);
    println!(
        "append + fdatasync     {baseline_rate:>10.0}  {baseline_p50:>8.3}  {:>8.3}",
        percentile(&taken, 99)
    );
    let taken = bare(&directory.path().join("bare"), 2000);
    let bare_p50 = percentile(&taken, 50);
    let bare_rate = taken.len() as f64 / taken.iter().sum::<Duration>().as_secs_f64();
    println!(
        "sled, flush, fdatasync {bare_rate:>10.0}  {bare_p50:>8.3}  {:>8.3}",
        percentile(&taken, 99)
    );
    for work in [Work::Row, Work::Listed] {
        for (writers, commits) in [(1, 2_000), (64, 150_000), (256, 150_000)] {
            let before = bench.store.stats();
            let (total, taken) = bench.run(work, writers, commits);
            let after = bench.store.stats();
            let rate = commits as f64 / total.as_secs_f64();
            let p50 = percentile(&taken, 50);
            let ratio = if writers == 1 { p50 / bare_p50 } else { rate / baseline_rate };
            let shared =
                (after.batches - before.batches) as f64 / (after.syncs - before.syncs) as f64;
            let name = format!("{work:?}, {writers} writers");
            println!(
                "{name:<22} {rate:>10.0}  {p50:>8.3}  {:>8.3}   {ratio:>6.2} {shared:>35.1}",
                percentile(&taken, 99)
            );
        }
    }

    let listed = Query {
        list: [1, 1],
        filters: Vec::new(),
        order: Order::Document,
        descending: true,
        offset: 0,
        limit: 1,
    };
    let Bench { runtime, store, next } = bench;
    drop(Arc::into_inner(store).expect("the writers have ended"));
    let begin = Instant::now();
    let store = open(directory.path());
    let opened = begin.elapsed();
    let total = runtime.block_on(store.query(&listed)).expect("the store answers").total;
    println!(
        "opened after {opened:.2?}; {total} listed rows indexed after {:.2?}",
        begin.elapsed()
    );
    let bench = Bench { runtime, store: Arc::new(store), next };

    let mut criterion = Criterion::default().configure_from_args().sample_size(10);
    let mut group = criterion.benchmark_group("commit");
    group.throughput(Throughput::Elements(1));
    group.bench_function("baseline", |b| {
        b.iter_custom(|times| baseline(&mut file, times).iter().sum());
    });
    for writers in [1, 64, 256] {
        group.bench_function(format!("{writers} writers"), |b| {
            b.iter_custom(|times| bench.run(Work::Row, writers, times).0);
        });
    }
    group.finish();
    criterion.final_summary();
}
