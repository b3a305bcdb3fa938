//! Schedules on the memory store: downtimes, jumps of the clock, crashes at every commit.

mod dropped;
mod occurrence;

use std::collections::{BTreeMap, HashSet};

use callboard_domain::Error;
use callboard_domain::id::ScheduleId;
use callboard_domain::query::{Schedules, Window};
use callboard_domain::schedule::{CatchUp, Outcome, Overlap, Settings as Timed, Started, Timing};
use serde_json::json;

use super::*;
use crate::handle::GivenTarget;
use crate::jobs::schedule::Target;
use crate::tables::{RunRow, ScheduleRow};

const ALL: Window = Window { limit: 100_000, offset: 0 };
const MINUTE: u64 = 60_000;

fn settings_of(cron: &str, overlap: Overlap, catch_up: CatchUp) -> Timed {
    Timed {
        name: "s".into(),
        timing: Timing::Cron { cron: cron.into(), zone: "UTC".into() },
        overlap,
        catch_up,
        jitter_ms: 0,
        enabled: true,
    }
}

fn target() -> GivenTarget {
    GivenTarget { target: Target::Task(Box::new(request())), given: json!({"task": {}}) }
}

impl Bench {
    async fn scheduled(&self, settings: Timed) -> ScheduleId {
        let made = self.handle.create_schedule(&owner(), settings, target()).await;
        made.expect("it is sound").row.schedule.id
    }

    async fn runs(&self, id: ScheduleId) -> Vec<RunRow> {
        let runs = self.handle.schedule_runs(Environment::LIVE, id, ALL).await;
        let mut runs = runs.expect("it is there").items;
        runs.reverse();
        runs
    }

    async fn outcomes(&self, id: ScheduleId) -> Vec<Outcome> {
        self.runs(id).await.into_iter().map(|run| run.outcome).collect()
    }

    /// Nothing is due any more.
    async fn caught_up(&self, id: ScheduleId) {
        loop {
            let detail = self.handle.schedule(Environment::LIVE, id).await.expect("it is there");
            if detail.row.schedule.wakes_at().is_none_or(|at| at > self.handle.now()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Nothing is due of any schedule.
    async fn all_caught_up(&self) {
        loop {
            let all = Schedules { enabled: None, window: ALL };
            let page = self.handle.schedules(Environment::LIVE, &all).await.expect("a list");
            let now = self.handle.now();
            let is_due = |row: &ScheduleRow| row.schedule.wakes_at().is_some_and(|at| at <= now);
            if !page.items.iter().any(is_due) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn tasks(&self) -> u64 {
        let all = Tasks { window: ALL, ..Tasks::default() };
        self.handle.tasks(Environment::LIVE, &all).await.expect("a list").total
    }
}

#[tokio::test(start_paused = true)]
async fn a_schedule_starts_its_work_at_its_instants_and_sleeps_between_them() {
    let bench = Bench::new().await;
    let id = bench.scheduled(settings_of("*/10 * * * *", Overlap::Allow, CatchUp::None)).await;
    assert_eq!((bench.handle.awake(), bench.handle.timer_count()), (0, 1));
    tokio::time::sleep(Duration::from_mins(35)).await;
    let runs = bench.runs(id).await;
    assert_eq!(runs.iter().map(|run| run.outcome).collect::<Vec<_>>(), [Outcome::Started; 3]);
    for run in &runs {
        let Some(Started::Task(task)) = run.started else { panic!("{run:?}") };
        let late = run.decided_at.since(run.at);
        assert!(run.decided_at >= run.at && late < Duration::from_secs(2), "{late:?} late");
        assert_eq!(bench.task(task).await.spec.id.created_at(), run.at);
    }
    assert_eq!(bench.tasks().await, 3);
}

#[tokio::test(start_paused = true)]
async fn no_schedule_runs_while_the_server_stands_still_and_none_is_lost() {
    let bench = Bench::new().await;
    let id = bench.scheduled(settings_of("0 * * * *", Overlap::Allow, CatchUp::All)).await;
    let (store, at) = (bench.store.reopen(), (bench.started, Arc::clone(&bench.wall)));
    bench.system.stop().await;
    let store = Arc::new(store);
    let still = Settings { stands_still: true, ..settings() };
    let bench = Bench::at(at.clone(), still, store.clone(), store).await;
    tokio::time::sleep(Duration::from_hours(3)).await;
    assert!(bench.outcomes(id).await.is_empty());
    let refused = bench.handle.trigger_schedule(Environment::LIVE, id).await;
    assert!(matches!(refused, Err(Error::InvalidState(says)) if says.contains("--paused")));
    let store = Arc::new(bench.store.reopen());
    bench.system.stop().await;
    let bench = Bench::at(at, settings(), store.clone(), store).await;
    bench.caught_up(id).await;
    assert_eq!(bench.outcomes(id).await, [Outcome::Started; 3]);
}

#[tokio::test(start_paused = true)]
async fn what_passed_while_the_server_was_down_is_made_up_for_as_the_policy_says() {
    let bench = Bench::new().await;
    let mut ids = Vec::new();
    for catch_up in CatchUp::ALL {
        ids.push(bench.scheduled(settings_of("* * * * *", Overlap::Allow, catch_up)).await);
    }
    let store = Arc::new(bench.store.reopen());
    bench.system.stop().await;
    // Down for a hundred occurrences, and half a minute.
    bench.wall.fetch_add(100 * MINUTE + 30_000, Ordering::SeqCst);
    let bench = Bench::at((bench.started, bench.wall), settings(), store.clone(), store).await;
    for id in &ids {
        bench.caught_up(*id).await;
    }
    let count = |outcomes: &[Outcome], wanted| outcomes.iter().filter(|it| **it == wanted).count();
    for (id, (started, missed)) in ids.iter().zip([(1, 1), (1, 1), (100, 0)]) {
        let outcomes = bench.outcomes(*id).await;
        let found = (count(&outcomes, Outcome::Started), count(&outcomes, Outcome::Missed));
        assert_eq!(found, (started, missed));
    }
    assert_eq!(bench.tasks().await, 102);
}

/// A stretch of the wall clock up to an instant.
struct Stretch {
    until: Timestamp,
    /// True if the server ran at every moment of it; else it came to itself at the end.
    is_seen: bool,
}

/// The outcomes of a schedule that is due at one minute of every hour, by the words of the protocol
/// alone: an instant that is seen starts, those that passed unseen are made up for as the policy says. No
/// run ends, and at most a hundred are under way.
fn expected(
    minute: u64,
    made: Timestamp,
    catch_up: CatchUp,
    stretches: &[Stretch],
) -> BTreeMap<Timestamp, Outcome> {
    let hour = 60 * MINUTE;
    let mut outcomes = BTreeMap::new();
    let (mut decided, mut running) = (made.as_millis(), 0);
    for Stretch { until, is_seen } in stretches {
        let until = until.as_millis();
        let hours = decided / hour..=until / hour;
        let instants = hours.map(|number| number * hour + minute * MINUTE);
        let instants: Vec<_> = instants.filter(|at| decided < *at && *at <= until).collect();
        let Some(last) = instants.last() else { continue };
        let started = match catch_up {
            _ if *is_seen => instants.len(),
            CatchUp::All => instants.len().min(100),
            CatchUp::Last => 1,
            CatchUp::None => usize::from(until - last <= MINUTE),
        };
        let (missed, started) = instants.split_at(instants.len() - started);
        // One row stands for all that are left out.
        let missed = missed.last().map(|at| (at, Outcome::Missed));
        let run = started.iter().map(|at| {
            running += 1;
            (at, if running <= 100 { Outcome::Started } else { Outcome::Skipped })
        });
        let all = missed.into_iter().chain(run);
        outcomes.extend(all.map(|(at, outcome)| (Timestamp::from_millis(*at), outcome)));
        decided = *last;
    }
    outcomes
}

#[tokio::test(start_paused = true)]
async fn each_occurrence_of_many_schedules_is_as_the_policy_says_over_jumps_and_a_downtime() {
    let is_long = std::env::var_os("CALLBOARD_LONG").is_some();
    let hour = 60 * MINUTE;
    let bench = Bench::new().await;
    let mut schedules = Vec::new();
    for number in 0..if is_long { 10_000 } else { 1_200_u64 } {
        // Each policy at each minute. To make up for all takes a hundred tasks each.
        let (minute, round) = (number % 60, number / 60);
        let catch_up = match round {
            0 => CatchUp::All,
            even if even % 2 == 0 => CatchUp::None,
            _ => CatchUp::Last,
        };
        let cron = format!("{minute} * * * *");
        let id = bench.scheduled(settings_of(&cron, Overlap::Allow, catch_up)).await;
        schedules.push((id, minute, bench.handle.now(), catch_up));
    }
    assert_eq!(bench.handle.awake(), 0);
    let mut stretches = Vec::new();
    let mut until = |until, is_seen| stretches.push(Stretch { until, is_seen });
    // Half a minute after an instant, so that each instant is clearly on time or late.
    let passed = Duration::from_millis(bench.handle.now().as_millis() % hour);
    tokio::time::sleep(Duration::from_secs(30 * 60 + 30).saturating_sub(passed)).await;
    until(bench.handle.now(), true);
    bench.wall.fetch_add(hour, Ordering::SeqCst);
    until(bench.handle.now(), false);
    tokio::time::sleep(Duration::from_mins(2)).await;
    until(bench.handle.now(), true);
    // The time that passes a second time starts nothing a second time.
    bench.wall.fetch_sub(hour, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_mins(58)).await;
    let bench = {
        let store = Arc::new(bench.store.reopen());
        bench.system.stop().await;
        bench.wall.fetch_add(102 * hour, Ordering::SeqCst);
        Bench::at((bench.started, bench.wall), settings(), store.clone(), store).await
    };
    until(bench.handle.now(), false);
    bench.all_caught_up().await;
    until(bench.handle.now(), true);

    let mut tasks = HashSet::new();
    let mut total = 0;
    for (id, minute, made, catch_up) in schedules {
        let runs = bench.runs(id).await;
        let found: BTreeMap<_, _> = runs.iter().map(|run| (run.at, run.outcome)).collect();
        let expected = expected(minute, made, catch_up, &stretches);
        assert_eq!(found, expected, "at minute {minute}, {catch_up}");
        assert_eq!(found.len(), runs.len(), "none twice");
        for run in &runs {
            assert_eq!(run.started.is_some(), run.outcome == Outcome::Started, "{run:?}");
        }
        let started = runs.iter().filter_map(|run| run.started);
        total += started.clone().count() as u64;
        tasks.extend(started);
    }
    assert_eq!((tasks.len() as u64, bench.tasks().await), (total, total), "each start is one task");
}

#[tokio::test(start_paused = true)]
async fn while_a_run_is_under_way_the_overlap_policy_says_what_happens() {
    for (overlap, expected) in [
        (Overlap::Skip, [Outcome::Started, Outcome::Skipped, Outcome::Skipped]),
        (Overlap::Queue, [Outcome::Started, Outcome::Queued, Outcome::Queued]),
        (Overlap::CancelRunning, [Outcome::Started; 3]),
        (Overlap::Allow, [Outcome::Started; 3]),
    ] {
        let bench = Bench::new().await;
        let id = bench.scheduled(settings_of("* * * * *", overlap, CatchUp::None)).await;
        tokio::time::sleep(Duration::from_secs(175)).await;
        let outcomes = bench.outcomes(id).await;
        assert_eq!(outcomes[..2], expected[..2], "{overlap}");
        assert!(outcomes.ends_with(&expected[2..]), "{overlap}: {outcomes:?}");
        if overlap == Overlap::Skip {
            let runs = bench.runs(id).await;
            let Some(Started::Task(task)) = runs[0].started else { panic!("{runs:?}") };
            let why = format!("task {task} is in progress");
            assert_eq!(runs[1].error.as_deref(), Some(why.as_str()));
        }
        let triggered = bench.handle.trigger_schedule(Environment::LIVE, id).await;
        let refused = matches!(triggered, Err(Error::InvalidState(_)));
        assert_eq!(refused, matches!(overlap, Overlap::Skip | Overlap::Queue), "{triggered:?}");
        if overlap == Overlap::CancelRunning {
            let open = Tasks { statuses: vec![Status::Pending], window: ALL, ..Tasks::default() };
            let open = bench.handle.tasks(Environment::LIVE, &open).await.expect("a list");
            assert_eq!(open.total, 1, "the others are cancelled");
        }
        if overlap == Overlap::Queue {
            // Also after a restart, the end of a run starts the next.
            let bench = bench.restart().await;
            let mut worker = bench.worker(1).await;
            let first = worker.assignment().await;
            worker.complete(first.lease, "x").await;
            let second = worker.assignment_while_beating().await;
            assert!(second.task.spec.id > first.task.spec.id);
            let detail = bench.handle.schedule(Environment::LIVE, id).await.expect("it is there");
            assert_eq!(detail.row.schedule.running.len(), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_occurrence_that_waits_starts_when_the_run_before_it_ends() {
    for waiting in [1, 2] {
        let bench = Bench::new().await;
        let settings = settings_of("* * * * *", Overlap::Queue, CatchUp::None);
        let id = bench.scheduled(settings).await;
        tokio::time::sleep(Duration::from_secs(60 * (waiting + 1) + 20)).await;
        assert_eq!(bench.outcomes(id).await.len() as u64, waiting + 1);
        let mut worker = bench.worker(1).await;
        let mut ends = bench.handle.now();
        for number in 0..=waiting {
            let assigned = worker.assignment_while_beating().await;
            let waited = bench.handle.now().since(ends);
            assert!(waited < Duration::from_secs(2), "run {number} of {waiting}: {waited:?}");
            worker.complete(assigned.lease, "x").await;
            ends = bench.handle.now();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_schedule_rests_a_changed_one_follows_and_a_deleted_one_is_gone() {
    let bench = Bench::new().await;
    let id = bench.scheduled(settings_of("* * * * *", Overlap::Allow, CatchUp::All)).await;
    let enabled = |enabled| move |settings| Ok(Timed { enabled, ..settings });
    let changed = bench.handle.change_schedule(&owner(), id, enabled(false), None).await;
    assert_eq!(changed.expect("it is there").row.schedule.next, None);
    assert_eq!(bench.handle.timer_count(), 0);
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(bench.tasks().await, 0);
    let list = |enabled| Schedules { enabled, window: ALL };
    let paused = bench.handle.schedules(Environment::LIVE, &list(Some(false))).await;
    assert_eq!(paused.expect("a list").total, 1);
    bench.handle.trigger_schedule(Environment::LIVE, id).await.expect("by hand");
    assert_eq!(bench.tasks().await, 1);
    bench.handle.change_schedule(&owner(), id, enabled(true), None).await.expect("it is there");
    tokio::time::sleep(Duration::from_secs(125)).await;
    // The pause is not made up for.
    assert_eq!(bench.tasks().await, 3);
    bench.handle.delete_schedule(Environment::LIVE, id).await.expect("it is there");
    let gone = bench.handle.schedule(Environment::LIVE, id).await;
    assert!(matches!(gone, Err(Error::NotFound { .. })), "{gone:?}");
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!((bench.tasks().await, bench.handle.timer_count()), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_commit_of_a_schedule_runs_each_occurrence_once() {
    let life = async |bench: &Bench| {
        let settings = settings_of("* * * * *", Overlap::Allow, CatchUp::All);
        let made = bench.handle.create_schedule(&owner(), settings, target()).await;
        tokio::time::sleep(Duration::from_secs(215)).await;
        made.is_ok()
    };
    let counted = Arc::new(MemoryStore::new());
    let store = Arc::new(FaultyStore::transparent(counted.clone()));
    assert!(life(&Bench::over(counted, store.clone()).await).await);
    let commits = store.commits();
    assert!(commits >= 4, "{commits}");
    for (fault, k) in (1..=commits).flat_map(|k| [(Fault::CrashBefore, k), (Fault::CrashAfter, k)])
    {
        let memory = Arc::new(MemoryStore::new());
        let faulty = FaultyStore::new(memory.clone(), k, fault);
        let bench = Bench::over(memory, Arc::new(faulty)).await;
        let made = life(&bench).await;
        let bench = bench.restart().await;
        tokio::time::sleep(Duration::from_mins(2)).await;
        let all = Schedules { enabled: None, window: ALL };
        let page = bench.handle.schedules(Environment::LIVE, &all).await.expect("a list");
        let Some(found) = page.items.first() else {
            assert!(!made, "{fault:?} at {k}: it was acknowledged");
            continue;
        };
        let runs = bench.runs(found.schedule.id).await;
        let passed = found.schedule.cursor.since(runs[0].at).as_millis() / u128::from(MINUTE) + 1;
        assert_eq!(runs.len() as u128, passed, "{fault:?} at {k}: one for each minute");
        assert!(runs.iter().all(|run| run.started.is_some()), "{fault:?} at {k}: {runs:?}");
        assert_eq!(bench.tasks().await, runs.len() as u64, "{fault:?} at {k}: each once");
        bench.system.stop().await;
    }
}
