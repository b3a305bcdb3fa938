//! Mixed load for a while, with restarts in between: nothing grows. Ten minutes in the long form of
//! `./test`, with a restart each minute; in the short form less than half a minute, with two.
//!
//! A restart gives back what a process has lost hold of. So in the long form the last process goes on for
//! another five minutes, in which nothing may grow either.
//!
//! Disk is the most that was ever needed at once: the file is used again, and never shrinks.
//!
//! The pace is steady and far below what the server takes.

pub(crate) mod gauges;
mod load;
mod sums;

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::support::{Client, Server};
use gauges::{Reading, flat};
use load::{Access, Site};

/// How long the load goes on between two restarts, how many restarts, how long the last process goes on
/// beyond that, and what is kept.
struct Shape {
    between: Duration,
    restarts: u32,
    last: Option<Duration>,
    ended: &'static str,
}

fn shape() -> Shape {
    if std::env::var_os("CALLBOARD_LONG").is_some() {
        let (between, last) = (Duration::from_mins(1), Some(Duration::from_mins(5)));
        Shape { between, restarts: 9, last, ended: "20s" }
    } else {
        Shape { between: Duration::from_secs(8), restarts: 2, last: None, ended: "2s" }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soak_nothing_grows_under_mixed_load_with_restarts_in_between() {
    let Shape { between, restarts, last, ended } = shape();
    let mut server = Server::with(&[
        ("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "10000000"),
        ("RETENTION__ENDED", ended),
        ("RETENTION__HISTORY", ended),
        ("EVENTS__KEEP_MAX", "5000"),
        ("WORKER__LEASE", "2s"),
        ("WORKER__HEARTBEAT", "500ms"),
        ("WORKER__SILENT_AFTER", "1s"),
    ]);
    let (operator, worker) = (server.key("operator").await, server.key("worker").await);
    let client = Client::new(&server.url, &operator);
    let plan = client.plan(&load::steps()).await;
    let template = client.post("/api/templates", &load::template()).await.expect(201);
    let template = template["id"].as_str().expect("an id").to_owned();
    let access = Access { operator, worker, plan, template };
    let site = Site::at(&server.url);
    let mut all = load::begin(&site, &access);

    let started = Instant::now();
    let (mut readings, mut of_the_last) = (Vec::new(), Vec::new());
    for part in 0..=restarts {
        watch(&server, &access, started, started.elapsed() + between, &mut readings).await;
        if part < restarts {
            if part % 2 == 0 {
                assert!(server.terminate(), "it ends in order");
            } else {
                server.kill();
            }
            server.restart();
            site.moved(&server.url);
        }
    }
    if let Some(time) = last {
        watch(&server, &access, started, started.elapsed() + time, &mut of_the_last).await;
    }
    site.close();
    all_is_removed(&server, &access).await;
    site.stop();
    while all.join_next().await.is_some() {}
    tell(&readings);
    tell(&of_the_last);
    let faults = site.faults.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert!(faults.is_empty(), "{} answers, such as {:?}", faults.len(), faults.first());
    assert!(site.answered.load(Ordering::Relaxed) > 500, "there was load");
    assert_eq!(last.is_some(), !of_the_last.is_empty());
    for readings in [readings, of_the_last].iter().filter(|readings| !readings.is_empty()) {
        for (name, of, slack) in GAUGES {
            let values: Vec<_> = readings.iter().map(of).collect();
            if let Err(grows) = flat(name, &values, slack) {
                panic!("{grows}");
            }
        }
    }
}

type Gauge = (&'static str, fn(&Reading) -> f64, f64);

/// What must not grow, and how much it may go up and down besides.
const GAUGES: [Gauge; 5] = [
    ("memory in MB", |reading| reading.memory, 6.0),
    ("threads", |reading| reading.threads, 2.0),
    ("open files", |reading| reading.files, 12.0),
    ("disk in MB", |reading| reading.disk, 4.0),
    ("listed tasks", |reading| reading.listed, 100.0),
];

/// Reads the gauges twice a second.
async fn watch(
    server: &Server,
    access: &Access,
    started: Instant,
    until: Duration,
    readings: &mut Vec<Reading>,
) {
    let client = Client::new(&server.url, &access.operator);
    while started.elapsed() < until {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let page = client.get("/api/tasks?limit=1").await;
        let listed = page.body["pagination"]["total"].as_u64().expect("a total");
        let at = started.elapsed().as_secs_f64();
        readings.extend(Reading::take(at, server.pid(), &server.data(), listed));
    }
}

/// What the gauges were, about forty lines of it.
fn tell(readings: &[Reading]) {
    for reading in readings.iter().step_by(readings.len().div_ceil(40).max(1)) {
        let Reading { at, memory, threads, files, disk, listed } = reading;
        eprintln!(
            "{at:6.1} s  {memory:6.1} MB  {threads:3} threads  {files:3} files  {disk:6.1} MB on disk  \
             {listed:6} tasks"
        );
    }
}

/// Once nothing comes any more, all ends, and all that ended is removed: but for the plan that
/// was made by hand.
async fn all_is_removed(server: &Server, access: &Access) {
    let client = Client::new(&server.url, &access.operator);
    let mut left = [0; 4];
    for _ in 0..600 {
        for (left, list) in left.iter_mut().zip(["tasks", "plans/executions", "hitl", "plans"]) {
            let page = client.get(&format!("/api/{list}?limit=1")).await;
            *left = page.body["pagination"]["total"].as_u64().expect("a total");
        }
        if left == [0, 0, 0, 1] {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("of tasks, executions, approvals and plans there are still {left:?}");
}
