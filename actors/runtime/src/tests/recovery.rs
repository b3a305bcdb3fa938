//! A start after a while without a server: what time did meanwhile, and what may act before the state is whole.

use callboard_domain::plan::{MapSource, PlanSource, StepSource};
use callboard_domain::query::{Executions, Plans};
use callboard_domain::task::EndingCode;

use super::maps::{over, source};
use super::*;
use crate::items::submission::{Created, Options};
use crate::kernel::planted::{Fault as Planting, Planted};
use crate::observers::events::{Cursor, StreamItem, Subscription, Transient};

const SECOND: Duration = Duration::from_secs(1);

impl Bench {
    /// As after a crash, and a while without a server.
    pub(super) async fn restart_after(self, downtime: Duration) -> Self {
        let store = Arc::new(self.store.reopen());
        self.system.stop().await;
        tokio::time::sleep(downtime).await;
        Self::at((self.started, self.wall), settings(), store.clone(), store).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_cursor_of_events_that_a_restored_server_does_not_have_is_told_as_a_gap() {
    let bench = Bench::new().await;
    let mut events = bench.follow(None).await;
    bench.submit(request()).await;
    let before = bench.place_of_next(&mut events).await;
    let copy = Arc::new(bench.store.reopen());
    bench.submit(request()).await;
    let lost = bench.place_of_next(&mut events).await;
    bench.system.stop().await;

    let bench = Bench::at((bench.started, bench.wall), settings(), copy.clone(), copy).await;
    for _ in 0..3 {
        bench.submit(request()).await;
    }
    assert!(!bench.follow(Some(lost)).await.resumed(), "another event has its place");
    let mut events = bench.follow(Some(before)).await;
    assert!(events.resumed());
    let next = bench.place_of_next(&mut events).await;
    assert_eq!((next.place, next == lost), (lost.place, false));
    let unmarked = Cursor { mark: None, ..lost };
    assert!(bench.follow(Some(unmarked)).await.resumed(), "as an earlier version wrote it");

    let bench = bench.restart().await;
    assert!(bench.follow(Some(before)).await.resumed() && bench.follow(Some(next)).await.resumed());
    assert!(!bench.follow(Some(lost)).await.resumed());
}

impl Bench {
    async fn follow(&self, cursor: Option<Cursor>) -> Subscription {
        let subscribed = self.handle.subscribe(Environment::LIVE, cursor, Transient::default());
        subscribed.await.expect("the store answers")
    }

    async fn place_of_next(&self, events: &mut Subscription) -> Cursor {
        let item = events.next().await.expect("the store answers");
        let Some(StreamItem::Stored(place, _)) = item else { panic!("an event, not {item:?}") };
        place
    }
}

fn within(limit: Duration) -> Request {
    let timeout_ms = u64::try_from(limit.as_millis()).expect("short");
    Request { timeout_ms, ..request() }
}

/// The outcome of a result that came after its time limit, which had passed without a server; `None` if the worker was
/// told that its lease is over.
async fn kept_result(planted: Option<Planting>) -> Option<(AckResult, Status)> {
    let _planted = Planted::set(planted);
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let id = bench.submit(within(10 * SECOND)).await;
    let lease = worker.assignment().await.lease;
    let bench = bench.restart_after(14 * SECOND).await;
    tokio::time::sleep(3 * SECOND).await;
    let mut worker = bench.resumed(1, Some((&worker, vec![lease]))).await;
    if worker.kept != [lease] {
        return None;
    }
    let ack = worker.complete(lease, "kept").await;
    Some((ack, bench.task(id).await.status()))
}

#[tokio::test(start_paused = true)]
async fn a_result_that_a_worker_kept_counts_although_its_time_limit_passed_without_a_server() {
    assert_eq!(kept_result(None).await, Some((AckResult::Applied, Status::Completed)));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_without_a_term_to_be_heard_from_is_found() {
    let found = kept_result(Some(Planting::ActsWhileRecovering)).await;
    assert_ne!(found, Some((AckResult::Applied, Status::Completed)));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_not_done_a_term_after_the_start_has_timed_out() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let id = bench.submit(within(10 * SECOND)).await;
    let lease = worker.assignment().await.lease;
    let bench = bench.restart_after(14 * SECOND).await;
    let mut worker = bench.resumed(1, Some((&worker, vec![lease]))).await;
    let restarted = Instant::now();
    loop {
        worker.link.say(WorkerMessage::Heartbeat(vec![lease], vec![]));
        match tokio::time::timeout(5 * SECOND, worker.commands.recv()).await {
            Ok(Some(WorkerCommand::Cancel(cancelled, _))) => {
                assert_eq!(cancelled, lease);
                break;
            }
            Ok(Some(_)) | Err(_) => {}
            Ok(None) => panic!("it is connected"),
        }
        tokio::time::sleep(SECOND).await;
    }
    let waited = restarted.elapsed();
    assert!(waited >= 29 * SECOND && waited < 40 * SECOND, "{waited:?}");
    assert_ne!(bench.task(id).await.status(), Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passed_without_a_server_is_kept_once_everything_is_counted() {
    let bench = Bench::new().await;
    let map = MapSource { max_items: Some(1_000), ..MapSource::default() };
    let plan = bench.handle.create_plan(&owner(), source(map)).await.expect("a plan");
    let options = Options { timeout_ms: Some(5_000), ..Options::default() };
    let start = crate::handle::Start { options, ..over(700) };
    for _ in 0..2 {
        bench.handle.execute(&owner(), plan.id, start.clone(), None).await.expect("it runs");
    }
    tokio::time::sleep(SECOND).await;
    let waiting = async |bench: &Bench| {
        let pending = Tasks { statuses: vec![Status::Pending], ..Tasks::default() };
        bench.handle.tasks(Environment::LIVE, &pending).await.expect("a list").total
    };
    assert_eq!(waiting(&bench).await, 1_400);
    let bench = bench.restart_after(10 * SECOND).await;
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(waiting(&bench).await, 0);
    let mut worker = bench.worker(1).await;
    bench.submit(request()).await;
    worker.assignment().await;
}

/// A plan that the settings of its time allowed to use an environment variable.
#[tokio::test(start_paused = true)]
async fn a_name_that_the_settings_allow_no_more_takes_nothing_from_what_is_stored() {
    let step = |id: &str, prompt: &str, depends_on: &[&str]| StepSource {
        id: id.into(),
        prompt: prompt.into(),
        depends_on: depends_on.iter().map(|id| (*id).into()).collect(),
        ..StepSource::default()
    };
    let steps = vec![step("a", "a {{env.TEAM}}", &[]), step("b", "b {{env.TEAM}}", &["a"])];
    let source = PlanSource { name: "p".into(), steps, ..PlanSource::default() };
    let (start, store) = (
        (Instant::now(), Arc::new(AtomicU64::new(1_800_000_000_000))),
        Arc::new(MemoryStore::new()),
    );
    let env = BTreeMap::from([("TEAM".to_owned(), "red".to_owned())]);
    let defaults = TaskDefaults {
        model: "m".into(),
        env: env.into_iter().collect(),
        ..TaskDefaults::default()
    };
    let (env_allow, task_defaults) = (vec!["TEAM".into()], Arc::new(defaults));
    let allowing = Settings { task_defaults, env_allow, ..settings() };
    let bench = Bench::at(start, allowing, store.clone(), store).await;
    let plan = bench.handle.create_plan(&owner(), source.clone()).await.expect("a plan").id;
    let begun = bench.handle.execute(&owner(), plan, crate::handle::Start::default(), None).await;
    let Created::Execution(execution) = begun.expect("it runs").made else { panic!("one") };
    let mut worker = bench.worker(1).await;
    let given = worker.assignment().await;
    assert_eq!(given.inputs.prompt, "a red");

    let bench = bench.restart().await;
    let id = execution.head.spec.id;
    let reader = owner();
    let plans = bench.handle.plans(Environment::LIVE, reader.caller(), &Plans::default()).await;
    let runs = bench.handle.executions(Environment::LIVE, &Executions::default()).await;
    let listed = (plans.expect("a list").items.len(), runs.expect("a list").items.len());
    assert_eq!(listed, (1, 1));
    assert!(bench.handle.create_plan(&owner(), source).await.is_err(), "a new one is refused");
    let mut worker = bench.resumed(1, Some((&worker, vec![given.lease]))).await;
    assert_eq!(worker.complete(given.lease, "paid").await, AckResult::Applied);
    let ended = bench.ended(id).await;
    assert_eq!(ended.outputs[&0], "paid");
    let error = ended.overview.execution.head.error.as_ref().map(|cause| cause.ending.code);
    assert_eq!(error, Some(EndingCode::RenderFailed), "b would have asked without its team");
    bench.handle.retry_execution(Environment::LIVE, id).await.expect("it failed");
}
