//! An item that ended long ago goes with all its rows, through any crash; an unfinished one stays.

use callboard_domain::approval::{Action, Decider};
use callboard_domain::execution::Status as Phase;
use callboard_domain::id::{ExecutionId, PlanId};
use callboard_domain::plan::{MapSource, PlanSource, StepSource, WaitSource};
use callboard_domain::query::{Approvals, Executions, Plans};
use callboard_domain::retention::Policy;
use callboard_domain::task::Gate;
use callboard_domain::template::{Caller, Template, TemplateSource};
use callboard_domain::{Error, access};
use callboard_store::Key;

use super::executions::diamond;
use super::*;
use crate::handle::{Approve, Deploy, Reject, SendSignal, Start};
use crate::items::submission::Created;

/// A reader of every plan.
const ADMIN: Caller<'_> = Caller { account: "", role: access::Role::Admin };
const HOUR: u64 = 3_600_000;
/// Where rows stay when their task is gone: its record, deliveries, its history; and the keys.
const KEPT: [u8; 5] = [0x11, 0x1b, 0x1e, 0x89, 0x8a];

fn keeping(ended: u64, history: Option<u64>) -> Settings {
    let hours = |hours: u64| Duration::from_millis(hours * HOUR);
    let retention = Policy::new(Some(hours(ended)), history.map(hours));
    Settings { retention, built_in: vec![template()], ..settings() }
}

/// One step.
fn template() -> Template {
    let step = StepSource { id: "a".into(), prompt: "p".into(), ..StepSource::default() };
    let source = TemplateSource {
        name: "t".into(),
        version: "1.0.0".into(),
        industry: "custom".into(),
        input_schema: serde_json::json!({"type": "object"}),
        steps: vec![step],
        ..TemplateSource::default()
    };
    Template::compile(source, &[]).expect("it is right")
}

async fn bench(settings: Settings) -> Bench {
    over(settings, Arc::new(MemoryStore::new()), Arc::new(AtomicU64::new(1_800_000_000_000))).await
}

async fn over(settings: Settings, store: Arc<MemoryStore>, wall: Arc<AtomicU64>) -> Bench {
    let shared: Arc<dyn Store> = store.clone();
    Bench::at((Instant::now(), wall), settings, store, shared).await
}

fn by(name: &str) -> Decider {
    Decider { account: name.into(), reviewer: None, bulk: None }
}

fn approve(edit: &str) -> Approve {
    Approve { by: by("usr_a"), modified_output: Some(edit.into()), comment: Some("so".into()) }
}

fn reject(retry: bool) -> Reject {
    Reject { by: by("usr_a"), reason: "no".into(), retry, retry_prompt: None }
}

fn held_request() -> Request {
    Request { gate: Some(Gate { timeout_ms: 60_000, ..Gate::ALWAYS }), ..request() }
}

fn long_request() -> Request {
    // More chunks than one commit removes.
    let inputs = Inputs { prompt: "x".repeat(3_000_000), ..Inputs::default() };
    Request { inputs, ..request() }
}

fn gated() -> PlanSource {
    let mut source = diamond();
    source.steps[1].requires_approval = true;
    source
}

/// Everything that ended.
struct Past {
    tasks: Vec<TaskId>,
    executions: Vec<ExecutionId>,
    /// The tasks that executions' steps name.
    steps: Vec<(ExecutionId, TaskId)>,
    plan: PlanId,
}

impl Bench {
    async fn later(&self, hours: u64) {
        self.wall.fetch_add(hours * HOUR, Ordering::SeqCst);
        // Looks come once a minute at least.
        tokio::time::sleep(Duration::from_mins(3)).await;
    }

    async fn answer(&self, worker: &mut Worker, output: &str) -> TaskId {
        let assignment = worker.assignment_while_beating().await;
        worker.complete(assignment.lease, output).await;
        assignment.task.spec.id
    }

    async fn deploy(&self) -> (ExecutionId, PlanId) {
        let caller = Caller { account: "usr_1", role: access::Role::Admin };
        let begun =
            self.handle.deploy(&owner(), caller, template().id(), Deploy::default(), None).await;
        let Created::Execution(execution) = begun.expect("it starts").made else {
            panic!("an execution")
        };
        (execution.head.spec.id, execution.head.spec.plan)
    }

    /// One of each kind, ended.
    async fn past(&self) -> Past {
        let mut worker = self.worker(1).await;
        let mut tasks = vec![self.submit(long_request()).await];
        self.answer(&mut worker, &"y".repeat(10_000)).await;
        tasks.push(self.submit(held_request()).await);
        self.answer(&mut worker, "held").await;
        let edited = self.handle.approve(Environment::LIVE, tasks[1], approve("better")).await;
        edited.expect("it waits");
        tasks.push(self.submit(request()).await);
        let cancelled = worker.assignment_while_beating().await;
        self.handle.cancel(Environment::LIVE, tasks[2], "usr_1").await.expect("it runs");
        worker.complete(cancelled.lease, "late").await;

        // A rejected try, which no step names any more, and the one after it.
        let diamond = self.start(gated(), Start::default()).await;
        let mut steps = Vec::new();
        for _ in 0..3 {
            steps.push(self.answer(&mut worker, "o").await);
        }
        tasks.extend(&steps);
        let held = self.handle.approvals(Environment::LIVE, &Approvals::default()).await;
        let waits =
            held.expect("a list").items.into_iter().find(|one| one.approval.decision.is_none());
        let waits = waits.expect("one waits").approval.id();
        self.handle.reject(Environment::LIVE, waits, reject(true)).await.expect("it waits");
        let again = self.answer(&mut worker, "again").await;
        self.handle.approve(Environment::LIVE, again, approve("best")).await.expect("it waits");
        let last = self.answer(&mut worker, "end").await;
        tasks.extend([again, last]);
        steps.retain(|task| *task != waits);
        steps.extend([again, last]);
        let mut steps: Vec<_> = steps.into_iter().map(|task| (diamond, task)).collect();
        assert_eq!(self.ended(diamond).await.overview.execution.status(), Phase::Completed);

        let (deployed, plan) = self.deploy().await;
        let step = self.answer(&mut worker, "o").await;
        tasks.push(step);
        steps.push((deployed, step));
        self.ended(deployed).await;
        Past { tasks, executions: vec![diamond, deployed], steps, plan }
    }

    /// Rows in whose keys an item stands, but for those that outlive it.
    async fn left_of(&self, past: &Past) -> Vec<Key> {
        let ids = past.tasks.iter().map(|id| id.as_u128());
        let ids = ids.chain(past.executions.iter().map(|id| id.as_u128()));
        let ids: Vec<_> = ids.chain([past.plan.as_u128()]).map(u128::to_be_bytes).collect();
        let all = self.store.scan(Key(Box::new([0])), Key(Box::new([u8::MAX; 64])), usize::MAX);
        let names = |key: &Key| key.0.windows(16).any(|part| ids.iter().any(|id| id == part));
        let keys = all.await.expect("they are read").into_iter().map(|(key, _)| key);
        keys.filter(|key| !KEPT.contains(&key.0[0]) && names(key)).collect()
    }

    /// How much is seen of it: each is whole or not there, and of an execution that is gone no step is.
    async fn seen_of(&self, past: &Past) -> usize {
        let mut seen = 0;
        for id in &past.tasks {
            match self.handle.task(Environment::LIVE, *id).await {
                Ok(detail) => {
                    seen += 1;
                    assert!(!detail.inputs.prompt.is_empty());
                    assert_eq!(detail.output.is_some(), detail.task.result.is_some(), "{id}");
                }
                Err(error) => assert!(matches!(error, Error::NotFound { .. }), "{error:?}"),
            }
        }
        for id in &past.executions {
            match self.handle.execution(Environment::LIVE, *id).await {
                Ok(detail) => {
                    seen += 1;
                    assert_eq!(detail.overview.progress.completed, detail.overview.progress.total);
                    assert!(detail.outputs.texts().values().all(|output| !output.is_empty()));
                }
                Err(error) => assert!(matches!(error, Error::NotFound { .. }), "{error:?}"),
            }
        }
        for (execution, task) in &past.steps {
            if self.handle.execution(Environment::LIVE, *execution).await.is_err() {
                let task = self.handle.task(Environment::LIVE, *task).await;
                assert!(task.is_err(), "{execution} is gone, and not {task:?}");
            }
        }
        seen
    }

    /// How many tasks, executions, approvals and plans are listed.
    async fn totals(&self) -> [u64; 4] {
        let handle = &self.handle;
        let tasks = handle.tasks(Environment::LIVE, &Tasks::default()).await.expect("a list");
        let executions = handle.executions(Environment::LIVE, &Executions::default()).await;
        let approvals = handle.approvals(Environment::LIVE, &Approvals::default()).await;
        let plans =
            handle.plans(Environment::LIVE, ADMIN, &Plans::default()).await.expect("a list");
        let [executions, approvals] =
            [executions.expect("a list").total, approvals.expect("a list").total];
        [tasks.total, executions, approvals, plans.total]
    }
}

#[tokio::test(start_paused = true)]
async fn what_ended_long_ago_is_gone_with_all_its_rows_and_what_has_not_stays() {
    let bench = bench(keeping(1, None)).await;
    let past = bench.past().await;
    // The unfinished ones: one that waits, one that is held, an execution with one step done.
    let mut worker = bench.worker(1).await;
    let held = bench.submit(held_request()).await;
    bench.answer(&mut worker, "held").await;
    let running = bench.start(diamond(), Start::default()).await;
    let step = bench.answer(&mut worker, "A").await;
    assert_eq!(bench.totals().await, [past.tasks.len() as u64 + 4, 3, 4, 3]);

    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(bench.seen_of(&past).await, past.tasks.len() + 2, "nothing goes early");
    bench.later(2).await;
    assert_eq!((bench.seen_of(&past).await, bench.left_of(&past).await), (0, vec![]));
    // The steps b and c of the second diamond are under way; of plans, those made by hand stay.
    assert_eq!(bench.totals().await, [4, 1, 1, 2]);
    for id in [held, step] {
        assert!(bench.handle.task(Environment::LIVE, id).await.is_ok());
    }
    let gone = bench.handle.plan(Environment::LIVE, ADMIN, past.plan).await;
    assert!(matches!(gone, Err(Error::NotFound { .. })), "{gone:?}");

    // The remaining ones go on.
    let mut worker = bench.worker(1).await;
    bench.handle.approve(Environment::LIVE, held, approve("yes")).await.expect("it waits");
    for _ in 0..3 {
        bench.answer(&mut worker, "o").await;
    }
    assert_eq!(bench.ended(running).await.overview.execution.status(), Phase::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_commit_of_a_removal_leaves_nothing_half_seen_and_nothing_behind() {
    // Everything ends once; each crash begins from there.
    let first = bench(keeping(1_000_000, None)).await;
    let past = first.past().await;
    let (store, wall) = (Arc::clone(&first.store), Arc::clone(&first.wall));
    first.system.stop().await;
    wall.fetch_add(2 * HOUR, Ordering::SeqCst);
    let mut k = 1;
    loop {
        let ended = Arc::new(store.reopen());
        let faulty = FaultyStore::new(ended.clone(), k, Fault::CrashBefore);
        let faulty = Arc::new(faulty);
        let shared: Arc<dyn Store> = faulty.clone();
        let clock = (Instant::now(), Arc::clone(&wall));
        let bench = Bench::at(clock, keeping(1, None), ended.clone(), shared).await;
        tokio::time::sleep(Duration::from_mins(3)).await;
        bench.seen_of(&past).await;
        let crashed = faulty.has_failed();
        bench.system.stop().await;

        let store = Arc::new(ended.reopen());
        let bench = over(keeping(1, None), store, Arc::clone(&wall)).await;
        bench.seen_of(&past).await;
        tokio::time::sleep(Duration::from_mins(3)).await;
        assert_eq!((bench.seen_of(&past).await, bench.left_of(&past).await), (0, vec![]), "{k}");
        assert_eq!(bench.totals().await, [0, 0, 0, 1], "{k}");
        bench.system.stop().await;
        if !crashed {
            break;
        }
        k += 1;
    }
    assert!(k > 8, "there were commits to crash at: {k}");
}

#[tokio::test(start_paused = true)]
async fn an_old_execution_that_runs_again_stays() {
    let bench = bench(keeping(1, None)).await;
    let mut worker = bench.worker(1).await;
    let id = bench.start(diamond(), Start::default()).await;
    let first = worker.assignment_while_beating().await;
    worker.link.say(WorkerMessage::Failed(first.lease, failure(false)));
    assert_eq!(bench.ended(id).await.overview.execution.status(), Phase::Failed);
    bench.wall.fetch_add(2 * HOUR, Ordering::SeqCst);
    bench.handle.retry_execution(Environment::LIVE, id).await.expect("it failed");
    tokio::time::sleep(Duration::from_mins(10)).await;
    let mut worker = bench.worker(1).await;
    for _ in 0..4 {
        bench.answer(&mut worker, "o").await;
    }
    assert_eq!(bench.ended(id).await.overview.execution.status(), Phase::Completed);
    bench.later(2).await;
    assert_eq!(bench.totals().await, [0, 0, 0, 1], "the task of the failed run is gone as well");
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_a_deploy_made_goes_with_the_last_execution_of_it() {
    let bench = bench(keeping(1, None)).await;
    let mut worker = bench.worker(1).await;
    let (first, plan) = bench.deploy().await;
    bench.answer(&mut worker, "o").await;
    bench.ended(first).await;
    bench.wall.fetch_add(HOUR / 2, Ordering::SeqCst);
    // The template is private: its plans are an admin's, like itself.
    let admin = Owner { role: access::Role::Admin, ..owner() };
    let again = bench.handle.execute(&owner(), plan, Start::default(), None).await;
    assert!(matches!(again, Err(Error::NotFound { .. })), "{again:?}");
    let again = bench.handle.execute(&admin, plan, Start::default(), None).await;
    let Created::Execution(again) = again.expect("it starts").made else { panic!("an execution") };
    bench.answer(&mut worker, "o").await;
    bench.ended(again.head.spec.id).await;
    bench.wall.fetch_add(HOUR / 2, Ordering::SeqCst);
    bench.later(0).await;
    assert_eq!(bench.totals().await, [1, 1, 0, 1], "the second keeps it");
    bench.later(2).await;
    assert_eq!(bench.totals().await, [0, 0, 0, 0]);
    let gone = bench.handle.execute(&admin, plan, Start::default(), None).await;
    assert!(matches!(gone, Err(Error::NotFound { .. })), "{gone:?}");
}

#[tokio::test(start_paused = true)]
async fn a_key_makes_nothing_twice_though_what_it_made_is_gone() {
    let bench = bench(keeping(1, None)).await;
    let mut worker = bench.worker(1).await;
    let submit = async || bench.handle.submit(&owner(), vec![request()], false, Some("k")).await;
    submit().await.expect("it is taken");
    bench.answer(&mut worker, "o").await;
    assert!(submit().await.expect("it is known").replayed);
    bench.later(2).await;
    let again = submit().await;
    assert!(matches!(again, Err(Error::InvalidState(_))), "{again:?}");
    bench.later(24).await;
    assert!(!submit().await.expect("the key is forgotten").replayed);
}

#[tokio::test(start_paused = true)]
async fn a_history_outlives_its_task_for_as_long_as_is_asked() {
    let bench = bench(keeping(1, Some(5))).await;
    let mut worker = bench.worker(1).await;
    let id = bench.submit(held_request()).await;
    bench.answer(&mut worker, "o").await;
    bench.handle.approve(Environment::LIVE, id, approve("e")).await.expect("it waits");
    let chain = bench.approval(id).await.chain;
    bench.later(2).await;
    assert_eq!(bench.totals().await, [0, 0, 0, 0]);
    let history = bench.handle.approval_history(Environment::LIVE, id).await.expect("it stays");
    assert!(history.iter().all(|entry| entry.edit.is_none() && entry.comment.is_none()));
    let entries: Vec<_> = history.into_iter().map(|entry| entry.entry).collect();
    assert_eq!(chain.verify(id, &entries), Ok(()));
    assert_eq!(entries.last().map(|entry| entry.action), Some(Action::Approved));
    bench.later(4).await;
    let gone = bench.handle.approval_history(Environment::LIVE, id).await;
    assert!(matches!(gone, Err(Error::NotFound { .. })), "{gone:?}");
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_a_schedule_runs_stays_until_the_schedule_goes() {
    use callboard_domain::schedule::{CatchUp, Overlap, Settings as Timed, Timing};
    let bench = bench(keeping(1, None)).await;
    let mut worker = bench.worker(1).await;
    let (deployed, plan) = bench.deploy().await;
    bench.answer(&mut worker, "o").await;
    bench.ended(deployed).await;
    let target = crate::jobs::schedule::Target::Plan(plan, crate::jobs::schedule::Start::default());
    let target = crate::handle::GivenTarget { target, given: serde_json::json!({}) };
    let settings = Timed {
        name: "s".into(),
        timing: Timing::Cron { cron: "0 0 1 1 *".into(), zone: "UTC".into() },
        overlap: Overlap::Allow,
        catch_up: CatchUp::None,
        jitter_ms: 0,
        enabled: true,
    };
    let admin = Owner { role: access::Role::Admin, ..owner() };
    let made = bench.handle.create_schedule(&admin, settings, target).await;
    let schedule = made.expect("it is sound").row.schedule.id;
    bench.later(3).await;
    assert_eq!(bench.totals().await, [0, 0, 0, 1], "the schedule keeps it");
    bench.handle.trigger_schedule(Environment::LIVE, schedule).await.expect("it starts");
    let mut worker = bench.worker(1).await;
    bench.answer(&mut worker, "o").await;
    bench.later(3).await;
    assert_eq!(bench.totals().await, [0, 0, 0, 1]);
    bench.handle.delete_schedule(Environment::LIVE, schedule).await.expect("it is there");
    assert_eq!(bench.totals().await, [0, 0, 0, 0], "it goes with it");
}

/// The number of rows in each table, but for those whose rows stay.
async fn rows(bench: &Bench) -> BTreeMap<u8, usize> {
    let (first, last) = (Key(Box::new([0])), Key(Box::new([u8::MAX; 64])));
    let all = bench.store.scan(first, last, usize::MAX).await.expect("they are read");
    let mut rows = BTreeMap::new();
    for table in all.iter().filter_map(|(key, _)| key.table()) {
        if !KEPT.contains(&table) {
            *rows.entry(table).or_default() += 1;
        }
    }
    rows
}

#[tokio::test(start_paused = true)]
async fn nothing_stays_of_a_large_execution_and_the_signals_that_it_took() {
    let bench = bench(keeping(1, None)).await;
    let mut source = maps::source(MapSource::default());
    let wait = |signal: &str| Some(WaitSource { signal: signal.into(), schema: None });
    for (name, signal) in [("paid", "payment"), ("sent", "shipment")] {
        let wait = StepSource { id: name.into(), wait: wait(signal), ..StepSource::default() };
        source.steps.push(wait);
    }
    let plan = bench.handle.create_plan(&owner(), source).await.expect("a plan").id;
    let before = rows(&bench).await;
    let begun = bench.handle.execute(&owner(), plan, maps::over(300), None).await;
    let Created::Execution(execution) = begun.expect("it starts").made else { panic!("one") };
    let id = execution.head.spec.id;
    for (name, length) in [("payment", 200_000), ("shipment", 10)] {
        let payload = serde_json::json!("p".repeat(length));
        let signal =
            SendSignal { name: name.into(), payload, replace: false, key: Some("k".into()) };
        bench.handle.signal(Environment::LIVE, id, "usr_1", signal).await.expect("it waits");
    }
    let mut worker = bench.worker(1).await;
    for _ in 0..301 {
        bench.answer(&mut worker, "{}").await;
    }
    assert_eq!(bench.ended(id).await.overview.execution.status(), Phase::Completed);
    assert!(rows(&bench).await.values().sum::<usize>() > before.values().sum::<usize>() + 600);
    bench.later(2).await;
    assert_eq!(rows(&bench).await, before);
}
