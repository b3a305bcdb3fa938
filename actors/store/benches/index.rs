//! Lists over a million documents: the latency of each kind of query, and the memory.
//!
//! Memory that the allocator keeps after the loading counts as resident; with `MALLOC_TRIM_THRESHOLD_=0` in
//! the environment it returns that.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::fs;
use std::time::{Duration, Instant};

use callboard_store::probe::Probe;
use callboard_store::{Entry, Filter, Order, Query};
use criterion::Criterion;

const DOCUMENTS: u64 = 1_000_000;
const LIST: [u8; 2] = [1, 1];

/// A number that looks random and is the same every time.
fn mix(n: u64) -> u64 {
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}

fn document(n: u64) -> u128 {
    // Creation in milliseconds, then chance: as ids are.
    u128::from(1_700_000_000_000 + n * 3) << 80 | u128::from(mix(n))
}

/// Status, queue, model, user and two tags; a priority, and when it was changed.
fn entry(n: u64, status: u64) -> Entry {
    let r = mix(n ^ 0xabcd);
    let term = |field: u8, of: u64| (field, format!("{field}-{of}").into_bytes().into());
    let terms = vec![
        term(1, status),
        term(2, r % 40),
        term(3, (r >> 8) % 12),
        term(4, (r >> 16) % 500),
        term(5, (r >> 32) % 100),
        term(5, 100 + (r >> 40) % 1000),
    ];
    let changed = !(r >> 4).is_multiple_of(100);
    let sort =
        [Some(1 + r % 10), changed.then_some(1_700_000_000_000 + n * 3 + (r >> 20) % 60_000)];
    Entry { list: LIST, terms, sort }
}

/// Of ten statuses the last one is by far the most frequent, as "completed" is.
fn status(n: u64) -> u64 {
    mix(n ^ 0x77).leading_zeros().into()
}

fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .map_or(0, |pages: u64| pages * 4096)
}

fn any(field: u8, values: &[u64]) -> Filter {
    Filter::AnyOf(
        field,
        values.iter().map(|of| format!("{field}-{of}").into_bytes().into()).collect(),
    )
}

fn all(field: u8, values: &[u64]) -> Filter {
    Filter::AllOf(
        field,
        values.iter().map(|of| format!("{field}-{of}").into_bytes().into()).collect(),
    )
}

fn queries() -> Vec<(String, Query)> {
    let within =
        |from, to| Filter::Documents { from: Some(document(from)), to: Some(document(to)) };
    let filters = [
        ("none", vec![]),
        ("frequent status", vec![any(1, &[0])]),
        ("rare status", vec![any(1, &[9])]),
        ("status and queue", vec![any(1, &[0]), any(2, &[3])]),
        ("statuses, models, tag", vec![any(1, &[0, 1, 2]), any(3, &[1, 2, 3, 4]), any(5, &[7])]),
        ("ten queues, two tags", vec![any(2, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), all(5, &[3, 107])]),
        ("the older half", vec![any(1, &[0, 1]), within(0, DOCUMENTS / 2)]),
        ("a day in the middle", vec![within(DOCUMENTS / 3, DOCUMENTS / 3 + 50_000)]),
    ];
    let orders =
        [("id", Order::Document), ("priority", Order::Sort(0)), ("changed", Order::Sort(1))];
    let mut queries = Vec::new();
    for (filter, filters) in filters {
        for (order_name, order) in orders {
            for descending in [false, true] {
                for offset in [0, 10_000] {
                    let direction = if descending { "down" } else { "up" };
                    let name = format!("{filter}, by {order_name} {direction}, from {offset}");
                    let filters = filters.clone();
                    let query =
                        Query { list: LIST, filters, order, descending, offset, limit: 100 };
                    queries.push((name, query));
                }
            }
        }
    }
    queries
}

fn main() {
    let before = resident();
    let begin = Instant::now();
    let mut probe = Probe::load((0..DOCUMENTS).map(|n| (document(n), entry(n, status(n)))));
    println!(
        "load of {DOCUMENTS} documents: {:.2?}, {} bytes each resident",
        begin.elapsed(),
        (resident() - before) / DOCUMENTS
    );

    // A life: documents come nearly in order, and change soon and late.
    let before = resident();
    let begin = Instant::now();
    let count = DOCUMENTS / 10;
    for n in DOCUMENTS..DOCUMENTS + count {
        let n = n ^ 3;
        probe.put(document(n), None, &entry(n, 8));
        probe.put(
            document(n - 50),
            Some(&entry(n - 50, if n - 50 < DOCUMENTS { status(n - 50) } else { 8 })),
            &entry(n - 50, 0),
        );
    }
    let old = DOCUMENTS / 2;
    for n in old..old + count {
        probe.put(document(n), Some(&entry(n, status(n))), &entry(n + 1, 0));
    }
    println!(
        "a put takes {:.2?} on average; {} bytes more resident for each new document",
        begin.elapsed() / u32::try_from(3 * count).expect("fits"),
        (resident().saturating_sub(before)) / count
    );

    let mut worst = (Duration::ZERO, String::new());
    println!("{:<60} {:>9} {:>9} {:>9}", "query", "total", "p50 ms", "p99 ms");
    for (name, query) in queries() {
        let mut taken: Vec<_> = (0..100)
            .map(|_| {
                let begin = Instant::now();
                std::hint::black_box(probe.query(&query));
                begin.elapsed()
            })
            .collect();
        taken.sort_unstable();
        let total = probe.query(&query).total;
        let ms = |at: usize| taken[at].as_secs_f64() * 1e3;
        println!("{name:<60} {total:>9} {:>9.3} {:>9.3}", ms(50), ms(98));
        if taken[98] > worst.0 {
            worst = (taken[98], name);
        }
    }
    println!("the slowest p99: {:.3?} ({})", worst.0, worst.1);

    let mut criterion = Criterion::default().configure_from_args().sample_size(20);
    for (name, query) in queries().into_iter().filter(|(name, _)| name.starts_with("frequent")) {
        criterion.bench_function(&name, |b| b.iter(|| probe.query(&query)));
    }
    criterion.final_summary();
}
