//! The runtime as a whole, on the memory store: submit, lease, answer, break, recover.

mod approvals;
mod budgets;
mod bulk;
mod caps;
mod deliveries;
mod deltas;
mod executions;
mod figures;
mod files;
mod flow;
mod maps;
mod model;
mod models;
mod moves;
mod pause;
mod plans;
mod projects;
mod queues;
mod recovery;
mod reopens;
mod repeats;
mod retention;
mod schedules;
mod search;
mod shares;
mod takeover;
mod waits;
mod webhooks;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use callboard_domain::Timestamp;
use callboard_domain::approval;
use callboard_domain::caps::Caps;
use callboard_domain::delivery::WebhookPolicy;
use callboard_domain::event::EventName;
use callboard_domain::id::{Environment, TaskId};
use callboard_domain::query::Tasks;
use callboard_domain::retention::Policy as Keeping;
use callboard_domain::retry::Policy;
use callboard_domain::session::signing::{SigningKeyId, SigningKeys};
use callboard_domain::task::{
    Completion, Ending, EndingCode, Failure, Inputs, LeaseId, LeaseToken, Request, State, Status,
    Task,
};
use callboard_domain::usage::Usage;
use callboard_domain::worker::{LeasePolicy, Monotonic, Profile};
use callboard_store::Store;
use callboard_store::testing::faulty::{Fault, FaultyStore};
use callboard_store::testing::memory::MemoryStore;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::handle::WorkerLink;
use crate::items::worker::{AckResult, Assignment, Of, WorkerCommand, WorkerMessage};
use crate::kernel::ports::{Clock, Ports};
use crate::{Handle, Live, Owner, Settings, System};
use callboard_domain::execution::program::TaskDefaults;

pub(crate) fn settings() -> Settings {
    Settings {
        shards: 4,
        active: 1_000,
        aging: Duration::from_mins(1),
        terms: LeasePolicy {
            lease: Duration::from_secs(30),
            silent_after: Duration::from_secs(15),
        },
        heartbeat: Duration::from_secs(10),
        drain_deadline: Duration::from_secs(20),
        live: Live::default(),
        stands_still: false,
        approvals: approval::Policy { escalate_after: 0.5, rejects: false, four_eyes: false },
        keep_events: Duration::from_hours(24),
        keep_events_max: 100_000,
        retention: Keeping::default(),
        outage_patience: callboard_domain::retry::OUTAGE_PATIENCE,
        task_defaults: Arc::new(TaskDefaults { model: "m".into(), ..TaskDefaults::default() }),
        env_allow: Vec::new(),
        projects: BTreeMap::new(),
        weights: BTreeMap::new(),
        built_in: Vec::new(),
        refresh_token: Duration::from_hours(30 * 24),
        signing_keys: SigningKeys::new(SigningKeyId::of("a key")),
        keep_audit: None,
        webhooks: WebhookPolicy {
            events: vec![EventName::TaskCompleted],
            waits: [5, 300, 1_800].map(Duration::from_secs).into(),
        },
    }
}

/// A clock that goes with tokio's, which a test may pause. The wall clock may jump besides.
pub(crate) struct TestClock {
    pub(crate) started: Instant,
    pub(crate) wall: Arc<AtomicU64>,
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let wall = Duration::from_millis(self.wall.load(Ordering::SeqCst));
        Timestamp::from_millis(0).after(wall).after(self.started.elapsed())
    }

    fn moment(&self) -> Monotonic {
        Monotonic::default().after(self.started.elapsed())
    }
}

struct Bench {
    system: System,
    handle: Handle,
    store: Arc<MemoryStore>,
    /// The wall-clock time at the start of the test, in milliseconds; a test may move it.
    wall: Arc<AtomicU64>,
    started: Instant,
}

/// The pauses between looks at something that is waited for. They grow with the time that has passed: a paused clock
/// moves by them alone, and a look at each 5 ms of a lease is six thousand looks.
struct Pauses(Instant);

impl Pauses {
    fn begin() -> Self {
        Self(Instant::now())
    }

    async fn one(&self) {
        let part = self.0.elapsed() / 8;
        tokio::time::sleep(part.clamp(Duration::from_millis(5), Duration::from_secs(1))).await;
    }
}

impl Bench {
    async fn on(store: MemoryStore) -> Self {
        let store = Arc::new(store);
        let shared: Arc<dyn Store> = store.clone();
        Self::over(store, shared).await
    }

    /// On `shared`, which keeps its rows in `store`.
    async fn over(store: Arc<MemoryStore>, shared: Arc<dyn Store>) -> Self {
        let (started, wall) = (Instant::now(), Arc::new(AtomicU64::new(1_800_000_000_000)));
        Self::at((started, wall), settings(), store, shared).await
    }

    /// The same with a clock that goes already, and with other settings.
    async fn at(
        (started, wall): (Instant, Arc<AtomicU64>),
        settings: Settings,
        store: Arc<MemoryStore>,
        shared: Arc<dyn Store>,
    ) -> Self {
        let on_break = Box::new(|why| panic!("the system broke: {why}"));
        let clock = Arc::new(TestClock { started, wall: Arc::clone(&wall) });
        let ports = Ports { clock, ..Ports::of_this_machine() };
        let system = System::start(shared, settings, ports, on_break).await.expect("it starts");
        let handle = system.handle();
        Self { system, handle, store, wall, started }
    }

    async fn new() -> Self {
        Self::on(MemoryStore::new()).await
    }

    async fn with(settings: Settings) -> Self {
        let store = Arc::new(MemoryStore::new());
        let shared: Arc<dyn Store> = store.clone();
        let began = (Instant::now(), Arc::new(AtomicU64::new(1_800_000_000_000)));
        Self::at(began, settings, store, shared).await
    }

    /// As after a crash: the actors are gone, every commit is there.
    async fn restart(self) -> Self {
        self.restart_after(Duration::ZERO).await
    }

    async fn submit(&self, request: Request) -> TaskId {
        let made =
            self.handle.submit(&owner(), vec![request], false, None).await.expect("it is taken");
        made.made.tasks()[0].spec.id
    }

    async fn task(&self, id: TaskId) -> Task {
        self.handle.task(Environment::LIVE, id).await.expect("it is there").task
    }

    async fn until(&self, id: TaskId, wanted: impl Fn(&Task) -> bool) -> Task {
        let pauses = Pauses::begin();
        loop {
            let task = self.task(id).await;
            if wanted(&task) {
                return task;
            }
            pauses.one().await;
        }
    }

    async fn worker(&self, concurrency: usize) -> Worker {
        self.resumed(concurrency, None).await
    }

    async fn resumed(
        &self,
        concurrency: usize,
        before: Option<(&Worker, Vec<LeaseToken>)>,
    ) -> Worker {
        self.serving(&owner(), "default", concurrency, before).await
    }

    async fn serving(
        &self,
        owner: &Owner,
        queue: &str,
        concurrency: usize,
        before: Option<(&Worker, Vec<LeaseToken>)>,
    ) -> Worker {
        let profile = Profile {
            name: "w".into(),
            version: "0".into(),
            queues: vec![queue.into()],
            models: vec!["*".into()],
            functions: [].into(),
            concurrency,
        };
        let (outgoing, commands) = mpsc::unbounded_channel();
        let resume = before.map(|(worker, leases)| (worker.link.worker(), leases));
        let (link, leases) = self
            .handle
            .connect_worker(owner, profile, resume, outgoing)
            .await
            .expect("it is let in");
        Worker { link, commands, kept: leases.renewed, lost: leases.lost }
    }
}

struct Worker {
    link: WorkerLink,
    commands: mpsc::UnboundedReceiver<WorkerCommand>,
    kept: Vec<LeaseToken>,
    lost: Vec<LeaseToken>,
}

impl Worker {
    async fn assignment(&mut self) -> Assignment {
        loop {
            if let WorkerCommand::Assign(assignment) =
                self.commands.recv().await.expect("it is connected")
            {
                return *assignment;
            }
        }
    }

    /// The next task, or nothing if the connection ends before.
    async fn assignment_or_end(&mut self) -> Option<Assignment> {
        loop {
            match self.commands.recv().await? {
                WorkerCommand::Assign(assignment) => return Some(*assignment),
                WorkerCommand::Close => return None,
                WorkerCommand::Leases(..)
                | WorkerCommand::Ack(..)
                | WorkerCommand::Cancel(..)
                | WorkerCommand::Drain(_) => {}
            }
        }
    }

    /// The next task, with a heartbeat now and then while there is none.
    async fn assignment_while_beating(&mut self) -> Assignment {
        loop {
            self.link.say(WorkerMessage::Heartbeat(vec![], vec![]));
            let next = tokio::time::timeout(Duration::from_secs(5), self.assignment());
            if let Ok(assignment) = next.await {
                return assignment;
            }
        }
    }

    async fn complete(&mut self, lease: LeaseToken, output: &str) -> AckResult {
        self.link.say(WorkerMessage::Completed(lease, output.into(), completion()));
        self.ack(lease, Of::Complete).await
    }

    async fn ack(&mut self, lease: LeaseToken, of: Of) -> AckResult {
        loop {
            if let WorkerCommand::Ack(acked, what, settled) =
                self.commands.recv().await.expect("it is connected")
            {
                assert_eq!((acked, what), (lease, of));
                return settled;
            }
        }
    }
}

fn owner() -> Owner {
    Owner {
        id: "usr_1".into(),
        environment: Environment::LIVE,
        role: callboard_domain::access::Role::Operator,
        trace: None,
        bound: Arc::default(),
    }
}

pub(crate) fn request() -> Request {
    Request {
        model: "m".into(),
        queue: "default".into(),
        priority: 5,
        timeout_ms: 60_000,
        tags: vec![],
        max_tokens: None,
        temperature: None,
        sampling: None,
        callback_url: None,
        labels: None,
        gate: None,
        routing: None,
        flow: None,
        start_at: None,
        retry: Policy::default(),
        inputs: Inputs { prompt: "p".into(), ..Inputs::default() },
    }
}

pub(crate) fn completion() -> Completion {
    Completion {
        usage: Usage::default(),
        confidence: None,
        confidence_source: None,
        finish_reason: None,
        service_tier: None,
        judge: None,
        thinking: None,
    }
}

#[tokio::test]
async fn a_task_runs_on_a_worker_and_its_actor_goes_to_sleep() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let id = bench.submit(request()).await;
    let assignment = worker.assignment().await;
    assert_eq!((assignment.task.spec.id, assignment.inputs.prompt.as_str()), (id, "p"));
    assert_eq!(worker.complete(assignment.lease, "out").await, AckResult::Applied);
    let detail = bench.handle.task(Environment::LIVE, id).await.expect("it is there");
    assert_eq!((detail.task.status(), detail.output.as_deref()), (Status::Completed, Some("out")));
    assert_eq!(worker.complete(assignment.lease, "other").await, AckResult::Duplicate);
    while bench.handle.awake() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_worker_never_has_more_leases_than_it_asked_for() {
    let bench = Bench::new().await;
    for _ in 0..10 {
        bench.submit(request()).await;
    }
    let mut worker = bench.worker(3).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(worker.assignment().await.lease);
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(worker.commands.try_recv().is_err(), "no fourth");
    for _ in 0..7 {
        let lease = held.pop().expect("it holds some");
        worker.complete(lease, "x").await;
        held.push(worker.assignment().await.lease);
    }
    assert_eq!(held.len(), 3);
}

#[tokio::test]
async fn a_worker_that_comes_back_while_it_is_given_a_task_has_no_lease_too_many() {
    let bench = Bench::new().await;
    let worker = bench.worker(1).await;
    let two = vec![request(), request()];
    bench.handle.submit(&owner(), two, true, None).await.expect("they are taken");
    // The first task is on its way to the former connection.
    let mut back = bench.resumed(1, Some((&worker, vec![]))).await;
    let mut done = Vec::new();
    for _ in 0..2 {
        let given = back.assignment().await;
        let more = tokio::time::timeout(Duration::from_millis(50), back.assignment()).await;
        assert!(more.is_err(), "a second lease for a worker of one task");
        assert_eq!((given.task.attempt, given.task.losses), (1, 0));
        back.complete(given.lease, "x").await;
        done.push(given.task.spec.id);
    }
    done.dedup();
    assert_eq!(done.len(), 2);
}

#[tokio::test]
async fn what_was_under_way_goes_on_after_a_restart() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let running = bench.submit(request()).await;
    let assignment = worker.assignment().await;
    let waiting = bench.submit(request()).await;
    bench.until(running, |task| task.status() == Status::Running).await;

    let bench = bench.restart().await;
    let mut back = bench.resumed(2, Some((&worker, vec![assignment.lease]))).await;
    assert_eq!((back.kept.len(), back.lost.len()), (1, 0));
    let next = back.assignment().await;
    assert_eq!(next.task.spec.id, waiting);
    assert_eq!(back.complete(assignment.lease, "late but current").await, AckResult::Applied);
    assert_eq!(bench.task(running).await.attempt, 1);
}

#[tokio::test]
async fn restarts_before_a_worker_hears_of_its_task_use_up_nothing() {
    let mut bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    bench.submit(request()).await;
    for _ in 0..6 {
        let task = worker.assignment().await.task;
        assert_eq!((task.attempt, task.losses), (1, 0));
        // The server was killed before this went out: the worker does not know of it.
        bench = bench.restart().await;
        worker = bench.resumed(1, Some((&worker, vec![]))).await;
    }
    let lease = worker.assignment().await.lease;
    assert_eq!(worker.complete(lease, "x").await, AckResult::Applied);
}

#[tokio::test]
async fn a_task_that_its_worker_comes_back_without_again_and_again_fails() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let id = bench.submit(request()).await;
    for _ in 0..5 {
        worker.assignment().await;
        worker = bench.resumed(1, Some((&worker, vec![]))).await;
    }
    let failed = bench.until(id, |task| task.status() == Status::Failed).await;
    assert_eq!(failed.error.map(|error| error.code), Some(EndingCode::WorkerLost));
}

#[tokio::test]
async fn a_worker_that_gives_tasks_back_loses_none_however_often() {
    let bench = Bench::new().await;
    let id = bench.submit(request()).await;
    for _ in 0..7 {
        let mut worker = bench.worker(1).await;
        let lease = worker.assignment().await.lease;
        worker.link.say(WorkerMessage::Draining);
        let other = LeaseToken { lease: LeaseId::from_random(7), ..lease };
        worker.link.say(WorkerMessage::Returned(vec![other, lease]));
        let task = bench.until(id, |task| task.status() == Status::Pending).await;
        assert_eq!((task.losses, task.retries), (0, 0));
        // What comes under the lease changes nothing any more.
        assert_eq!(worker.complete(lease, "late").await, AckResult::Stale);
    }
    let mut worker = bench.worker(1).await;
    let lease = worker.assignment().await.lease;
    assert_eq!(worker.complete(lease, "out").await, AckResult::Applied);
    assert_eq!(bench.task(id).await.attempt, 1);
}

#[tokio::test]
async fn a_zombie_changes_nothing() {
    let bench = Bench::new().await;
    let mut zombie = bench.worker(1).await;
    let id = bench.submit(request()).await;
    let old = zombie.assignment().await.lease;
    // It comes back without remembering the lease: its task goes to another.
    let mut back = bench.resumed(1, Some((&zombie, vec![]))).await;
    let new = back.assignment().await.lease;
    let before = bench
        .until(
            id,
            |task| matches!(&task.state, State::Running { lease, .. } if *lease == new.lease),
        )
        .await;

    let mut third = bench.worker(1).await;
    assert_eq!(third.complete(old, "zombie").await, AckResult::Stale);
    third.link.say(WorkerMessage::Failed(old, failure(false)));
    assert_eq!(third.ack(old, Of::Fail).await, AckResult::Stale);
    third.link.say(WorkerMessage::Heartbeat(vec![old], vec![]));
    let Some(WorkerCommand::Leases(leases, _)) = third.commands.recv().await else {
        panic!("an answer")
    };
    assert_eq!((leases.renewed.len(), leases.lost.len()), (0, 1));
    third.link.say(WorkerMessage::Delta(old, "zombie".into()));
    assert_eq!(bench.task(id).await, before);
    assert_eq!(back.complete(new, "right").await, AckResult::Applied);
}

fn failure(retryable: bool) -> Failure {
    let ending = Ending { code: EndingCode::ProviderError, message: "no".into() };
    Failure::new(ending, retryable)
}

#[tokio::test(start_paused = true)]
async fn a_silent_worker_loses_its_task_to_another() {
    let bench = Bench::new().await;
    let mut silent = bench.worker(1).await;
    let id = bench.submit(request()).await;
    let old = silent.assignment().await.lease;
    // Nothing is heard for the length of a lease.
    tokio::time::sleep(Duration::from_secs(32)).await;
    let mut other = bench.worker(1).await;
    let assignment = other.assignment().await;
    assert_eq!((assignment.task.spec.id, assignment.task.attempt), (id, 1));
    assert_eq!(assignment.task.losses, 1);
    assert_eq!(
        silent.commands.recv().await.map(|command| matches!(command, WorkerCommand::Close)),
        Some(true)
    );
    assert_eq!(other.complete(old, "late").await, AckResult::Stale);
}

#[tokio::test]
async fn a_failure_is_tried_again_after_a_while() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let id = bench.submit(request()).await;
    let lease = worker.assignment().await.lease;
    worker.link.say(WorkerMessage::Failed(lease, failure(true)));
    assert_eq!(worker.ack(lease, Of::Fail).await, AckResult::Applied);
    assert_eq!(bench.handle.waiting_for(Environment::LIVE, &bench.task(id).await), Some("backoff"));
    let again = worker.assignment().await;
    assert_eq!(again.task.attempt, 2);
    worker.link.say(WorkerMessage::Failed(again.lease, failure(false)));
    assert_eq!(worker.ack(again.lease, Of::Fail).await, AckResult::Applied);
    assert_eq!(bench.task(id).await.status(), Status::Failed);
}

#[tokio::test]
async fn cancelling_a_running_task_tells_its_worker_and_frees_its_place() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let id = bench.submit(request()).await;
    let lease = worker.assignment().await.lease;
    let cancelled = bench.handle.cancel(Environment::LIVE, id, "usr_1").await.expect("it can be");
    assert_eq!(cancelled.status(), Status::Cancelled);
    let Some(WorkerCommand::Cancel(cancelled, _)) = worker.commands.recv().await else {
        panic!("a cancel frame")
    };
    assert_eq!(cancelled, lease);
    bench.submit(request()).await;
    worker.assignment().await;
    assert_eq!(worker.complete(lease, "too late").await, AckResult::Stale);
    assert!(bench.handle.cancel(Environment::LIVE, id, "usr_1").await.is_err());
}

#[tokio::test]
async fn a_task_that_is_cancelled_before_its_maker_hears_of_it_stays_cancelled() {
    let memory = Arc::new(MemoryStore::new());
    let late = Arc::new(FaultyStore::new(memory.clone(), 2, Fault::Late));
    let bench = Bench::over(memory, late).await;
    let handle = bench.handle.clone();
    let submitting =
        tokio::spawn(async move { handle.submit(&owner(), vec![request()], false, None).await });
    // It is in the list as soon as it is committed; the answer to the commit comes later.
    let id = loop {
        tokio::task::yield_now().await;
        let page = bench.handle.tasks(Environment::LIVE, &Tasks::default()).await.expect("a list");
        if let Some(task) = page.items.first() {
            break task.spec.id;
        }
    };
    bench.handle.cancel(Environment::LIVE, id, "usr_1").await.expect("it waits");
    submitting.await.expect("no panic").expect("it is taken");
    let mut worker = bench.worker(2).await;
    let next = bench.submit(request()).await;
    assert_eq!(worker.assignment().await.task.spec.id, next);
    assert_eq!(bench.task(id).await.status(), Status::Cancelled);
}

#[tokio::test]
async fn a_million_waiting_tasks_are_no_actors() {
    let bench = Bench::new().await;
    for _ in 0..20 {
        let hundred = vec![request(); 100];
        bench.handle.submit(&owner(), hundred, true, None).await.expect("taken");
    }
    let page = bench.handle.tasks(Environment::LIVE, &Tasks::default()).await.expect("a list");
    assert_eq!((page.total, bench.handle.awake()), (2_000, 0));
}

/// The life of one task: submitted, given out, failed once, tried again, completed.
async fn a_whole_life(bench: &Bench, submitted: &mut Option<TaskId>) -> Option<TaskId> {
    let patience = Duration::from_mins(1);
    let life = async {
        let made = bench.handle.submit(&owner(), vec![request()], false, None).await.ok()?;
        let id = made.made.tasks()[0].spec.id;
        *submitted = Some(id);
        let mut worker = bench.worker(1).await;
        let first = worker.assignment_or_end().await?;
        worker.link.say(WorkerMessage::Failed(first.lease, failure(true)));
        let second = worker.assignment_or_end().await?;
        worker.link.say(WorkerMessage::Completed(second.lease, "out".into(), completion()));
        while let Some(command) = worker.commands.recv().await {
            if let WorkerCommand::Ack(_, Of::Complete, settled) = command {
                assert_eq!(settled, AckResult::Applied);
                return Some(id);
            }
        }
        None
    };
    tokio::time::timeout(patience, life).await.ok().flatten()
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_commit_loses_nothing_that_was_acknowledged() {
    let counted = Arc::new(MemoryStore::new());
    let store = Arc::new(FaultyStore::transparent(counted.clone()));
    let bench = Bench::over(counted, store.clone()).await;
    a_whole_life(&bench, &mut None).await.expect("nothing fails");
    let commits = store.commits();
    assert!(commits >= 6, "{commits}");

    for fault in [Fault::CrashBefore, Fault::CrashAfter] {
        for k in 1..=commits {
            let memory = Arc::new(MemoryStore::new());
            let faulty = FaultyStore::new(memory.clone(), k, fault);
            let bench = Bench::over(memory, Arc::new(faulty)).await;
            let mut submitted = None;
            let completed = a_whole_life(&bench, &mut submitted).await;

            // The process is gone; only the disk counts.
            let bench = bench.restart().await;
            let tasks =
                bench.handle.tasks(Environment::LIVE, &Tasks::default()).await.expect("a list");
            let there: Vec<_> = tasks.items.iter().map(|task| task.spec.id).collect();
            assert!(
                there.len() <= 1 && submitted.is_none_or(|id| there == [id]),
                "{fault:?} at {k}"
            );
            if let Some(id) = completed {
                assert_eq!(bench.task(id).await.status(), Status::Completed, "{fault:?} at {k}");
            }
            if let Some(task) = tasks.items.first() {
                let mut worker = bench.worker(1).await;
                let id = task.spec.id;
                while bench.task(id).await.status() != Status::Completed {
                    let given = worker.assignment_while_beating().await;
                    let settled = worker.complete(given.lease, "out").await;
                    assert_eq!(settled, AckResult::Applied, "{fault:?} at {k}");
                }
                let detail = bench.handle.task(Environment::LIVE, id).await.expect("it is there");
                assert_eq!(detail.output.as_deref(), Some("out"), "{fault:?} at {k}");
            }
            bench.system.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_actor_whose_commit_fails_starts_again_from_its_snapshot() {
    // Commits: the mark of the start, the worker's event, the task, its lease, and then its answer, which fails.
    for fault in [Fault::NotApplied, Fault::UnknownLost] {
        let memory = Arc::new(MemoryStore::new());
        let faulty = Arc::new(FaultyStore::new(memory.clone(), 5, fault));
        let bench = Bench::over(memory, faulty.clone()).await;
        let mut worker = bench.worker(1).await;
        let id = bench.submit(request()).await;
        let lease = worker.assignment().await.lease;
        bench.until(id, |task| task.status() == Status::Running).await;
        worker.link.say(WorkerMessage::Completed(lease, "out".into(), completion()));
        // Nothing was acknowledged: the worker is sent away, comes back and says it again.
        while !matches!(worker.commands.recv().await.expect("it hears of it"), WorkerCommand::Close)
        {
        }
        assert!(faulty.has_failed());
        let mut back = bench.resumed(1, Some((&worker, vec![lease]))).await;
        assert_eq!(back.kept, [lease]);
        assert_eq!(back.complete(lease, "out").await, AckResult::Applied);
        assert_eq!(bench.task(id).await.status(), Status::Completed);
    }
}
