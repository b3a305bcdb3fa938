//! The caps of an account: unfinished tasks, schedules and stored bytes, over ends, removals and restarts.

use callboard_domain::Error;
use callboard_domain::id::{ScheduleId, UserId};
use callboard_domain::query::Schedules;
use callboard_domain::rate::{Quota, Quotas, Tier};
use callboard_domain::retention::Policy;
use callboard_domain::schedule::{CatchUp, Overlap, Settings as Timed, Timing};
use serde_json::json;
use tokio::task::JoinSet;

use super::executions::diamond;
use super::*;
use crate::handle::{GivenTarget, Start};
use crate::jobs::schedule::Target;

const HOUR: Duration = Duration::from_hours(1);

fn capped(unfinished_tasks: Option<u32>, stored_bytes: Option<u64>) -> Settings {
    let retention = Policy::new(Some(HOUR), None);
    let caps = Caps { unfinished_tasks, stored_bytes, schedules: Some(3) };
    Settings { retention, live: Live { caps, ..Live::default() }, ..settings() }
}

async fn bench(settings: Settings, store: MemoryStore) -> Bench {
    let store = Arc::new(store);
    let shared: Arc<dyn Store> = store.clone();
    let wall = Arc::new(AtomicU64::new(1_800_000_000_000));
    Bench::at((Instant::now(), wall), settings, store, shared).await
}

/// As after a crash, with the same settings.
async fn restarted(bench: Bench, settings: Settings) -> Bench {
    let store = Arc::new(bench.store.reopen());
    let shared: Arc<dyn Store> = store.clone();
    bench.system.stop().await;
    Bench::at((bench.started, bench.wall), settings, store, shared).await
}

/// Texts that do not compress.
fn noise(bytes: usize) -> Request {
    let prompt = (0..bytes).map(|_| char::from(rand::random_range(b'0'..b'z'))).collect();
    Request { inputs: Inputs { prompt, ..Inputs::default() }, ..request() }
}

impl Bench {
    async fn tried(&self, requests: Vec<Request>) -> Result<(), Error> {
        self.handle.submit(&owner(), requests, true, None).await.map(drop)
    }
}

#[tokio::test(start_paused = true)]
async fn unfinished_tasks_are_capped_until_some_end_also_after_a_restart() {
    let settings = capped(Some(5), None);
    let bench = bench(settings.clone(), MemoryStore::new()).await;
    let mut tries = JoinSet::new();
    for _ in 0..20 {
        let handle = bench.handle.clone();
        tries.spawn(async move { handle.submit(&owner(), vec![request()], true, None).await });
    }
    let tries: Vec<_> = tries.join_all().await.into_iter().map(|tried| tried.map(drop)).collect();
    assert_eq!(tries.iter().filter(|tried| tried.is_ok()).count(), 5, "never more");
    let full = Error::TooManyUnfinished { has: 5, limit: 5 };
    assert!(tries.iter().all(|tried| tried.as_ref().err().is_none_or(|error| *error == full)));

    let mut worker = bench.worker(1).await;
    for _ in 0..2 {
        let assignment = worker.assignment().await;
        worker.complete(assignment.lease, "y").await;
    }
    let more = Err(Error::TooManyUnfinished { has: 3, limit: 5 });
    assert_eq!(bench.tried(vec![request(); 3]).await, more, "all or none");
    drop(worker);
    let bench = restarted(bench, settings).await;
    assert_eq!(bench.tried(vec![request(); 3]).await, more);
    assert_eq!(bench.tried(vec![request(); 2]).await, Ok(()));
    let pending = bench.handle.tasks(Environment::LIVE, &Tasks::default()).await.expect("a list");
    let waiting = pending.items.iter().find(|task| task.status() == Status::Pending);
    let id = waiting.expect("one waits").spec.id;
    bench.handle.cancel(Environment::LIVE, id, "usr_1").await.expect("it waits");
    assert_eq!(bench.tried(vec![request()]).await, Ok(()));
    let other = Owner { id: "usr_2".into(), ..owner() };
    assert!(bench.handle.submit(&other, vec![request()], false, None).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn steps_count_and_work_that_goes_on_is_not_refused() {
    let bench = bench(capped(Some(2), None), MemoryStore::new()).await;
    let plan = bench.handle.create_plan(&owner(), diamond()).await.expect("it is taken");
    let start = async || bench.handle.execute(&owner(), plan.id, Start::default(), None).await;
    start().await.expect("it starts");
    bench.submit(request()).await;
    let full = start().await.expect_err("there are two tasks");
    assert_eq!(full, Error::TooManyUnfinished { has: 2, limit: 2 });
    let mut worker = bench.worker(1).await;
    // The first step and the task; then the two steps behind the first, and the last.
    for _ in 0..5 {
        let assignment = worker.assignment_while_beating().await;
        worker.complete(assignment.lease, "y").await;
    }
    assert_eq!(bench.handle.holdings("usr_1"), callboard_domain::caps::Holdings::default());
}

#[tokio::test(start_paused = true)]
async fn stored_bytes_are_capped_and_given_back_when_they_are_removed() {
    let settings = capped(None, Some(20_000));
    let bench = bench(settings.clone(), MemoryStore::new()).await;
    let mut made = 0;
    let refused = loop {
        match bench.tried(vec![noise(3_000)]).await {
            Ok(()) => made += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::QuotaExceeded { limit: 20_000, .. }), "{refused}");
    assert!((6..=9).contains(&made), "{made}");
    let stored = bench.handle.holdings("usr_1").stored();
    assert!((20_000..24_000).contains(&stored), "{stored}");
    let source = diamond();
    let plan = bench.handle.create_plan(&owner(), source).await.map(drop);
    assert!(matches!(plan, Err(Error::QuotaExceeded { .. })), "{plan:?}");

    // The stored bytes are measured anew after a restart.
    let bench = restarted(bench, settings).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let again = bench.handle.holdings("usr_1").stored();
    assert!(again.abs_diff(stored) < 1_000, "{again}, {stored} before");
    assert!(bench.tried(vec![request()]).await.is_err());

    let mut worker = bench.worker(1).await;
    for _ in 0..made {
        let assignment = worker.assignment_while_beating().await;
        worker.complete(assignment.lease, &"y".repeat(3_000)).await;
    }
    assert!(bench.handle.holdings("usr_1").stored() > again, "outputs count");
    bench.wall.fetch_add(3 * 3_600_000, Ordering::SeqCst);
    tokio::time::sleep(HOUR + Duration::from_mins(10)).await;
    assert_eq!(bench.handle.holdings("usr_1").stored(), 0);
    assert_eq!(bench.tried(vec![request()]).await, Ok(()));
}

fn daily() -> Timed {
    Timed {
        name: "daily".into(),
        timing: Timing::Cron { cron: "0 3 * * *".into(), zone: "UTC".into() },
        overlap: Overlap::Skip,
        catch_up: CatchUp::None,
        jitter_ms: 0,
        enabled: false,
    }
}

fn of_task(task: Request) -> GivenTarget {
    let given = json!({"task": {"prompt": task.inputs.prompt}});
    GivenTarget { target: Target::Task(Box::new(task)), given }
}

impl Bench {
    async fn tried_schedule(&self, owner: &Owner, task: Request) -> Result<ScheduleId, Error> {
        let made = self.handle.create_schedule(owner, daily(), of_task(task)).await;
        made.map(|made| made.row.schedule.id)
    }
}

#[tokio::test(start_paused = true)]
async fn schedules_are_capped_until_some_are_deleted_also_after_a_restart() {
    let settings = capped(None, None);
    let bench = bench(settings.clone(), MemoryStore::new()).await;
    let mut tries = JoinSet::new();
    for _ in 0..10 {
        let handle = bench.handle.clone();
        tries.spawn(
            async move { handle.create_schedule(&owner(), daily(), of_task(request())).await },
        );
    }
    let full = Error::TooManySchedules { has: 3, limit: 3 };
    let (made, refused): (Vec<_>, Vec<_>) =
        tries.join_all().await.into_iter().partition(Result::is_ok);
    assert_eq!(made.len(), 3, "never more");
    assert!(refused.into_iter().all(|refused| refused == Err(full.clone())));

    let bench = restarted(bench, settings).await;
    assert_eq!(bench.tried_schedule(&owner(), request()).await, Err(full.clone()));
    let id = made[0].as_ref().expect("it is made").row.schedule.id;
    bench.handle.delete_schedule(Environment::LIVE, id).await.expect("it is there");
    let again = bench.tried_schedule(&owner(), request()).await.expect("there is room");

    // A target of another account makes the schedule that account's.
    let other = Owner { id: "usr_2".into(), ..owner() };
    let take = async || {
        let change = Ok;
        bench.handle.change_schedule(&other, again, change, Some(of_task(request()))).await
    };
    for _ in 0..3 {
        bench.tried_schedule(&other, request()).await.expect("there is room");
    }
    assert_eq!(take().await, Err(full.clone()));
    let schedules = bench.handle.schedules(Environment::LIVE, &Schedules::default()).await;
    let of_other = schedules.expect("a list").items;
    let of_other =
        of_other.iter().find(|row| row.schedule.account == "usr_2").expect("there are three");
    bench
        .handle
        .delete_schedule(Environment::LIVE, of_other.schedule.id)
        .await
        .expect("it is there");
    take().await.expect("there is room");
    take().await.expect("it is its own");
    assert_eq!(bench.tried_schedule(&other, request()).await, Err(full));
    bench.tried_schedule(&owner(), request()).await.expect("the first account has one less");
}

#[tokio::test(start_paused = true)]
async fn the_target_of_a_schedule_counts_as_stored() {
    let settings = capped(None, Some(20_000));
    let bench = bench(settings.clone(), MemoryStore::new()).await;
    let id = bench.tried_schedule(&owner(), noise(12_000)).await.expect("there is room");
    let stored = bench.handle.holdings("usr_1").stored();
    assert!((10_000..14_000).contains(&stored), "{stored}");

    let bench = restarted(bench, settings).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let measured = bench.handle.holdings("usr_1").stored();
    assert!(measured.abs_diff(stored) < 100, "{measured}, {stored} before");

    let change = bench.handle.change_schedule(&owner(), id, Ok, Some(of_task(noise(12_000)))).await;
    change.expect("it is below the cap");
    let refused = bench.handle.change_schedule(&owner(), id, Ok, Some(of_task(request()))).await;
    assert!(matches!(refused, Err(Error::QuotaExceeded { limit: 20_000, .. })), "{refused:?}");
    let refused = bench.tried_schedule(&owner(), request()).await;
    assert!(matches!(refused, Err(Error::QuotaExceeded { .. })), "{refused:?}");

    bench.handle.delete_schedule(Environment::LIVE, id).await.expect("it is there");
    tokio::time::sleep(HOUR + Duration::from_mins(10)).await;
    assert_eq!(bench.handle.holdings("usr_1").stored(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_a_user_has_in_one_project_uses_up_no_cap_in_another_one() {
    let settings = capped(Some(2), Some(20_000));
    let bench = bench(settings.clone(), MemoryStore::new()).await;
    let other = bench.other_project("search").await;
    assert_eq!(bench.tried(vec![noise(30_000), request()]).await, Ok(()));
    assert!(matches!(bench.tried(vec![request()]).await, Err(Error::TooManyUnfinished { .. })));
    let in_other = async |bench: &Bench, count| {
        bench.handle.submit(&other, vec![request(); count], true, None).await.map(drop)
    };
    assert_eq!(in_other(&bench, 1).await, Ok(()));
    let bench = restarted(bench, settings).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(bench.handle.holdings("usr_1").stored() > 20_000, "measured anew");
    assert_eq!(in_other(&bench, 1).await, Ok(()));
    let full = Err(Error::TooManyUnfinished { has: 2, limit: 2 });
    assert_eq!(in_other(&bench, 1).await, full, "the same cap counts here too");
}

#[tokio::test(start_paused = true)]
async fn a_user_s_running_tasks_in_one_project_keep_none_in_another_one_waiting() {
    let free = Quota { concurrent_tasks: Some(1), requests: 60 };
    let quotas = Quotas { default: Tier::Free, free, ..Quotas::default() };
    let settings = Settings { live: Live { quotas, ..Live::default() }, ..settings() };
    let bench = bench(settings, MemoryStore::new()).await;
    let owner = Owner { id: UserId::from_u128(1).to_string(), ..owner() };
    let other =
        Owner { environment: bench.other_project("search").await.environment, ..owner.clone() };
    for owner in [&owner, &other] {
        for _ in 0..2 {
            bench.handle.submit(owner, vec![request()], false, None).await.expect("it is taken");
        }
    }
    let mut first = bench.serving(&owner, "default", 2, None).await;
    let mut second = bench.serving(&other, "default", 2, None).await;
    first.assignment().await;
    second.assignment().await;
    assert_eq!(bench.handle.running_of(&owner.id), 2, "one in each");
}
