//! Every limit at once, for a while, with kills, steps of the clock and cut ways to the database: at the end every sum
//! is right, nothing is reserved, and no row is left of what was removed.
//!
//! Eight seconds in the short form, an hour in the long one, or as many seconds as `CALLBOARD_SOAK_SECONDS` says.
//! Items are removed seconds after their end; in the last third they are kept, so that their usage can be read.
//! `CALLBOARD_SEED` repeats the faults of a seed, as far as time allows.

mod fresh;
mod ledger;
mod limits;
mod load;
mod place;
mod site;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use callboard_disk::Random;
use serde_json::Value;

use ledger::{Call, Sum};
use limits::{Access, SETTINGS};
use place::{Clocked, Place, Rows, SALTS};
use site::{Asker, Site};
use worker::{Habit, Worker};

/// The tables whose rows stay: key uses, the audit log, starts, idempotency keys (a day), deliveries that have ended
/// (30 days), outcomes at gates, limits of models, the last bulk jobs, and costs that are added to their budgets each
/// minute.
const KEPT: [u8; 10] = [0x21, 0x22, 0x88, 0x45, 0x11, 0x8a, 0x1b, 0x30, 0x41, 0x44];
/// Seconds that no clock was ahead before.
const AHEAD: i64 = 3 * 3_600;
/// The longest time in which everything ends once the faults are over: after an hour some thousand items wait for
/// limits.
const PATIENCE: Duration = Duration::from_mins(20);
/// The time after which the lists say how much is left.
const TELLS: Duration = Duration::from_secs(10);

fn length() -> Duration {
    let chosen = std::env::var("CALLBOARD_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    let is_long = std::env::var_os("CALLBOARD_LONG").is_some();
    Duration::from_secs(chosen.unwrap_or(if is_long { 3_600 } else { 8 }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soak_every_sum_is_right_after_kills_and_steps_of_the_clock() {
    let prices = Prices::new();
    let mut place = Clocked::one(&prices.settings());
    let Place::One(server) = &place.place else { unreachable!("it is one") };
    let admin = server.key("admin").await;
    soak(&mut place, &admin).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soak_every_sum_is_right_on_two_nodes_whose_database_is_cut_off() {
    let prices = Prices::new();
    let mut place = Clocked::two(&prices.settings()).await;
    let Place::Two(cluster) = &place.place else { unreachable!("they are two") };
    let admin = cluster.key(0, "admin").await;
    soak(&mut place, &admin).await;
}

/// The file of the prices.
struct Prices {
    _directory: tempfile::TempDir,
    file: String,
}

impl Prices {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("prices.json");
        std::fs::write(&file, limits::prices().to_string()).expect("it is written");
        let file = file.to_str().expect("UTF-8").to_owned();
        Self { _directory: directory, file }
    }

    fn settings(&self) -> Vec<(&str, &str)> {
        let mut settings = SETTINGS.to_vec();
        settings.push(("MODELS__PRICES", &self.file));
        settings
    }
}

async fn soak(place: &mut Clocked, admin: &str) {
    let (mut random, seed) = Random::from_env();
    eprintln!("CALLBOARD_SEED={seed}");
    let site = Site::begin().await;
    site.moved(place.urls());
    let access = Access::set_up(&site, admin).await;
    let before = place.rows().await;
    site.moved(place.urls());
    let asker = Asker::new(&site, admin);
    let is_short = length() < Duration::from_mins(1);
    let calls_a_minute = if is_short { 150 } else { 500 };
    limits::limit_models(&asker, true, calls_a_minute).await;

    let mut all = load::begin(&site, &access, seed);
    all.spawn(limits::steward(Arc::clone(&site), Arc::clone(&access), seed));
    for (number, habit) in
        [Habit::Stays, Habit::Stays, Habit::Dies, Habit::FallsSilent].into_iter().enumerate()
    {
        let seed = seed ^ (number as u64) << 50;
        all.spawn(Worker::new(&site, &access.worker, habit, seed).run());
    }
    misfortune(place, &site, &mut random).await;

    site.close();
    // A start takes the clock as it is: waits that began by a clock that was ahead end by one that is further ahead.
    place.set_all(AHEAD);
    place.restart_all(&[]);
    site.moved(place.urls());
    limits::limit_models(&asker, false, 0).await;
    limits::lift(&asker, &access).await;
    all_ends(&asker).await;
    site.stop();
    while let Some(ended) = all.join_next().await {
        ended.expect("nobody panics");
    }
    tell(&site);
    all_is_told(&site).await;
    let mut wrong = limits::wrong_budgets(&asker, &access).await;
    wrong.extend(wrong_items(&site));
    wrong.extend(wrong_usage(&asker).await);
    wrong.extend(counts_left(&asker).await);
    wrong.append(&mut site.ledger().faults);
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    limits::limit_models(&asker, true, 100_000).await;
    fresh::every_limit_is_whole(&site, &access).await;
    limits::limit_models(&asker, false, 0).await;
    nothing_is_left(place, &asker, &before).await;
}

/// Faults, until the time is over. From two thirds on nothing that has ended is removed.
async fn misfortune(place: &mut Clocked, site: &Site, random: &mut Random) {
    let (begun, length) = (Instant::now(), length());
    let is_short = length < Duration::from_mins(1);
    let (mut keeps, mut ends_at) = (false, length);
    while begun.elapsed() < ends_at || !keeps {
        let pause = if is_short { 800 + random.below(1_200) } else { 3_000 + random.below(12_000) };
        tokio::time::sleep(Duration::from_millis(pause as u64)).await;
        if !keeps && begun.elapsed() > length * 2 / 3 {
            keeps = true;
            place.restart_all(&[("RETENTION__ENDED", "1d"), ("RETENTION__HISTORY", "1d")]);
            site.keep();
            ends_at = length.max(begun.elapsed() + length / 4);
        } else {
            let fault = place.draw(random);
            eprintln!("{:6.1} s  {fault:?}", begun.elapsed().as_secs_f64());
            place.suffer(fault).await;
        }
        site.moved(place.urls());
    }
}

/// The lists of what is unfinished.
const UNFINISHED: [&str; 3] = [
    "/api/tasks?status=pending,running&limit=3",
    "/api/plans/executions?status=pending,running&limit=3",
    "/api/hitl/pending?includeExpired=true&limit=3",
];

/// Deletes the schedules that are there; one whose answer was lost makes work for ever. Returns their number.
async fn end_schedules(asker: &Asker) -> u64 {
    let schedules = asker.get("/api/schedules?limit=100").await;
    let mut count = 0;
    for schedule in schedules.as_array().into_iter().flatten() {
        let path = format!("/api/schedules/{}", schedule["id"].as_str().expect("an id"));
        asker.ask("DELETE", &path, &Value::Null, "").await;
        count += 1;
    }
    count
}

/// Everything comes to its end by itself.
async fn all_ends(asker: &Asker) {
    let (begun, mut told_at) = (Instant::now(), Instant::now());
    loop {
        let mut left = vec![end_schedules(asker).await];
        for path in UNFINISHED {
            left.push(asker.total(path).await);
        }
        if left.iter().all(|count| *count == 0) {
            eprintln!("all has ended after {:?}", begun.elapsed());
            return;
        }
        if told_at.elapsed() > TELLS {
            told_at = Instant::now();
            eprintln!("schedules, tasks, executions and approvals that are left: {left:?}");
        }
        if begun.elapsed() > PATIENCE {
            let tasks = asker.get(UNFINISHED[0]).await;
            panic!("it does not end, {left:?} are left: {tasks:#}");
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn tell(site: &Site) {
    let ledger = site.ledger();
    let of = |fate| ledger.calls.values().filter(|call| call.fate == fate).count();
    eprintln!(
        "{} items, {} ends, {:?}; results: {} counted, {} refused, {} doubtful, {} never sent; refusals {:?}",
        ledger.made.len(),
        ledger.ends.len(),
        ledger.counts,
        of(ledger::Fate::Counted),
        of(ledger::Fate::Refused),
        of(ledger::Fate::Doubtful),
        of(ledger::Fate::Open),
        ledger.refusals,
    );
}

/// The end of each item whose submission was acknowledged is told by a webhook, which holds up its removal.
async fn all_is_told(site: &Site) {
    let untold = || {
        let ledger = site.ledger();
        let untold = ledger.made.iter().filter(|id| !ledger.ends.contains_key(*id));
        untold.cloned().collect::<Vec<_>>()
    };
    for _ in 0..300 {
        if untold().is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let untold = untold();
    panic!("the end of {} items is not told, such as {:?}", untold.len(), untold.first());
}

/// The tasks and executions whose cost is not what the workers say.
fn wrong_items(site: &Site) -> Vec<String> {
    let ledger = site.ledger();
    let sums = ledger.sums();
    let mut wrong = Vec::new();
    for (id, end) in &ledger.ends {
        let sum = sums.get(id.as_str()).copied().unwrap_or_default();
        let (told, counts) = if end["taskId"].is_string() {
            (&end["details"]["totalCost"], end["status"] != "cancelled")
        } else {
            (&end["usage"]["totalCost"], end["status"] == "completed")
        };
        if counts && !sum.is(told) {
            let calls: Vec<&Call> = ledger
                .calls
                .values()
                .filter(|call| call.task == *id || call.execution.as_deref() == Some(id))
                .collect();
            wrong.push(format!("{id} costs {told}, and the workers say {sum:?}: {end} {calls:?}"));
        }
    }
    wrong
}

/// The usage of what was submitted in the last third, by model.
async fn wrong_usage(asker: &Asker) -> Vec<String> {
    let usage = asker.get("/api/usage?groupBy=tag").await;
    let groups = usage["groups"].as_array().cloned().unwrap_or_default();
    let late = groups.iter().find(|group| group["key"] == "late").cloned().unwrap_or_default();
    let ledger = asker.site.ledger();
    let calls =
        || ledger.calls.values().filter(|call| call.about.tags.iter().any(|tag| tag == "late"));
    let sum = Sum::of(calls());
    let is_right = sum.is(&late["totalCost"]);
    if is_right { Vec::new() } else { vec![format!("usage {late}, and the workers say {sum:?}")] }
}

/// What the lists and figures say is still running or waiting.
async fn counts_left(asker: &Asker) -> Vec<String> {
    let mut left = Vec::new();
    let queues = asker.get("/api/queues").await;
    for queue in queues.as_array().into_iter().flatten() {
        if queue["running"] != 0 || queue["depth"] != 0 {
            left.push(format!("queue {queue}"));
        }
    }
    let models = asker.get("/api/models").await;
    for model in models.as_array().into_iter().flatten() {
        if model["used"]["inFlight"].as_u64().is_some_and(|calls| calls > 0) {
            left.push(format!("model {model}"));
        }
    }
    let figures = asker.request("/metrics").send().await.expect("an answer");
    let figures = figures.text().await.expect("a text");
    let names = [
        "svc_project_tasks_running",
        "svc_project_queue_depth",
        "svc_tasks_waiting{",
        "svc_hitl_pending_count",
    ];
    for line in figures.lines().filter(|line| names.iter().any(|name| line.starts_with(name))) {
        let value = line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
        if value != Some(0.0) {
            left.push(line.to_owned());
        }
    }
    left
}

/// Once retention has removed everything, the rows are those of before the load.
async fn nothing_is_left(place: &mut Clocked, asker: &Asker, before: &Rows) {
    place.set_all(2 * AHEAD);
    place.restart_all(&[("RETENTION__ENDED", "1s"), ("RETENTION__HISTORY", "1s")]);
    asker.site.moved(place.urls());
    let begun = Instant::now();
    for path in ["/api/tasks?limit=1", "/api/plans/executions?limit=1", "/api/hitl?limit=1"] {
        while asker.total(path).await > 0 {
            assert!(begun.elapsed() < PATIENCE, "{path}: {} stay", asker.total(path).await);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    // Rows that nobody sees go after the others.
    let mut left = BTreeMap::new();
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut after = place.rows().await;
        asker.site.moved(place.urls());
        let salts = after.remove(&SALTS).unwrap_or_default();
        assert!(salts <= asker.site.ledger().batches as u64, "{salts} salts");
        left = after;
        left.retain(|table, count| !KEPT.contains(table) && before.get(table) != Some(count));
        if left.is_empty() {
            return;
        }
    }
    let left: Vec<_> = left.iter().map(|(table, count)| format!("{table:#x}: {count}")).collect();
    panic!("rows are left, by table {left:?}; before the load there were {before:x?}");
}
