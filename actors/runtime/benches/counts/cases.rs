//! The counted cases: the rules by themselves, rows and lists, and the whole runtime on the memory
//! store.
//!
//! Time stands, and random bits are counted up.

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use callboard_domain::Timestamp;
use callboard_domain::delivery::WebhookPolicy;
use callboard_domain::execution::program::TaskDefaults;
use callboard_domain::execution::{self, Execution, Report, StepDecision, StepState};
use callboard_domain::graph::Graph;
use callboard_domain::id::{Environment, ExecutionId, PlanId, TaskId, WorkerId};
use callboard_domain::machine::Machine;
use callboard_domain::plan::{PlanSource, StepSource};
use callboard_domain::query::Tasks;
use callboard_domain::queue::{Queue, Ready};
use callboard_domain::render::{Meta, Output, PromptTemplate, Scope};
use callboard_domain::retry::Policy;
use callboard_domain::session::signing::{SigningKeyId, SigningKeys};
use callboard_domain::task::{
    Chance, Completion, Event, Inputs, LeaseId, Origin, Request, Spec, Task,
};
use callboard_domain::usage::Usage;
use callboard_domain::worker::{LeasePolicy, Monotonic, Profile};
use callboard_runtime::handle::{Start, WorkerLink};
use callboard_runtime::ports::{Clock, Entropy, Ports};
use callboard_runtime::worker::{WorkerCommand, WorkerMessage};
use callboard_runtime::{Handle, Owner, Settings, System};
use callboard_store::probe::Probe;
use callboard_store::table::Table;
use callboard_store::testing::memory::MemoryStore;
use callboard_store::{Batch, BatchId, Entry, Filter, Order, Query, Store};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

/// Something that is counted.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// The number of runs.
    pub(crate) times: usize,
    /// How many operations one run is.
    pub(crate) operations: usize,
    pub(crate) run: fn(usize),
}

const fn case(name: &'static str, times: usize, operations: usize, run: fn(usize)) -> Case {
    Case { name, times, operations, run }
}

pub(crate) const CASES: [Case; 11] = [
    case("rules: a task, submitted to completed", 1_000, 1, task),
    case("rules: a step of a chain of 5", 200, 5, chain),
    case("rules: a prompt rendered", 1_000, 1, render),
    case("rules: queue of 10,000, push and take", 1_000, 1, queue),
    case("row: a step written", 1_000, 1, encode),
    case("row: a step read", 1_000, 1, decode),
    case("list: of 20,000 by two filters", 200, 1, list),
    case("runtime: submit", 500, 1, submit),
    case("runtime: a task read", 500, 1, read),
    case("runtime: submit, lease, complete", 500, 1, complete),
    case("runtime: an execution's step", 50, 5, execute),
];

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
const LEASE: LeaseId = LeaseId::from_random(7);
const OUTPUT: &str = "The customer wants the order of last week to be sent to the new address.";

fn id(number: usize) -> u128 {
    (number as u128 + 1) << 10
}

fn completion() -> Completion {
    Completion {
        usage: Usage::default(),
        confidence: None,
        confidence_source: None,
        finish_reason: Some("stop".into()),
        service_tier: None,
        judge: None,
        thinking: None,
    }
}

fn task(times: usize) {
    for number in 0..times {
        let spec = Spec {
            id: TaskId::from_u128(id(number)),
            account: "usr_01hf7yat3v0000000000001a7z".into(),
            model: "bench-model".into(),
            queue: "default".into(),
            priority: 5,
            timeout_ms: 300_000,
            tags: vec!["bench".into()],
            max_tokens: Some(256),
            temperature: Some(0.5),
            sampling: None,
            callback_url: None,
            labels: None,
            gate: None,
            retry: Policy::default(),
            origin: Origin::default(),
            checked: false,
            routing: None,
            flow: None,
            start_at: None,
        };
        let on =
            |task: Task, event| black_box(task.transition(event, NOW).expect("it applies").next);
        let task = Task::submitted(spec).next;
        let task = on(task, Event::Leased { lease: LEASE, worker: WorkerId::from_u128(7 << 10) });
        on(task, Event::Completed { lease: LEASE, completion: completion(), chance: Chance(0) });
    }
}

fn chain(times: usize) {
    let steps = (0..5_u16).map(|step| (format!("step-{step}"), step.checked_sub(1)));
    let graph = Arc::new(Graph::new(steps).expect("no cycle"));
    for number in 0..times {
        let spec = execution::Spec {
            id: ExecutionId::from_u128(id(number)),
            plan: PlanId::from_u128(2 << 10),
            template: None,
            account: "usr_01hf7yat3v0000000000001a7z".into(),
            tags: Vec::new(),
            callback_url: None,
            labels: None,
            fail_fast: false,
            timeout_ms: Some(300_000),
            max_cost: None,
            output_checked: None,
            start_at: None,
            forked_from: None,
            occurrence: None,
            row_of: None,
            idempotency_key: None,
            created_at: NOW,
            trace: None,
        };
        let first = Execution::started(spec, Arc::clone(&graph), NOW).next;
        black_box((0..5).fold(first, |execution, step| {
            let task = TaskId::from_u128(id(step.into()));
            let decision = StepDecision::Run { task, worst_cost: None };
            let usage = Usage { input: 100, output: 20, total_cost: 0.000_1, ..Usage::default() };
            let report = Report {
                task,
                item: None,
                started_at: Some(NOW),
                attempt: 1,
                usage,
                confidence: None,
                finish_reason: None,
                fallback: None,
            };
            let on = |execution: Execution, event| {
                execution.transition(event, NOW).expect("it applies").next
            };
            let execution = on(execution, execution::Event::Decided { step, decision });
            on(execution, execution::Event::StepCompleted { step, report })
        }));
    }
}

struct Known(Map<String, Value>);

impl Scope for Known {
    fn input(&self) -> &Map<String, Value> {
        &self.0
    }

    fn output(&self, _: &str) -> Output<'_> {
        Output::Completed(OUTPUT)
    }

    fn env(&self, _: &str) -> Option<&str> {
        None
    }

    fn meta(&self, _: Meta) -> Option<&str> {
        Some("exec")
    }
}

fn render(times: usize) {
    let source = "{{input.who}}: {{first.output}} and {{second.output}} of {{meta.executionId}}";
    let text = PromptTemplate::parse(source).0;
    let known = Known(Map::from_iter([("who".to_owned(), Value::from("somebody"))]));
    for _ in 0..times {
        black_box(text.render(black_box(&known)).expect("everything is known"));
    }
}

fn queue(times: usize) {
    let mut queue = Queue::new(Duration::from_mins(1));
    let ready = |number: usize| Ready {
        task: TaskId::from_u128(id(number)),
        model: "bench-model".into(),
        priority: u8::try_from(number % 10 + 1).expect("1 to 10"),
        since: NOW,
        account: "usr_1".into(),
        flow: None,
    };
    (0..10_000).for_each(|number| queue.push(ready(number)));
    for number in 10_000..10_000 + times {
        queue.push(ready(number));
        black_box(queue.take(|_| true, |_| true));
    }
}

const STEPS: Table<(u128, u16), StepState> = Table::new(0x18, 1);

fn step() -> StepState {
    let steps = [("only".to_owned(), vec![])];
    let graph = Arc::new(Graph::new(steps).expect("no cycle"));
    let spec = execution::Spec {
        id: ExecutionId::from_u128(id(0)),
        plan: PlanId::from_u128(id(1)),
        template: None,
        account: "usr_01hf7yat3v0000000000001a7z".into(),
        tags: Vec::new(),
        callback_url: None,
        labels: None,
        fail_fast: false,
        timeout_ms: None,
        max_cost: None,
        output_checked: None,
        start_at: None,
        forked_from: None,
        occurrence: None,
        row_of: None,
        idempotency_key: None,
        created_at: NOW,
        trace: None,
    };
    let decision = StepDecision::Run { task: TaskId::from_u128(id(2)), worst_cost: None };
    let first = Execution::started(spec, graph, NOW).next;
    let event = execution::Event::Decided { step: 0, decision };
    let execution = first.transition(event, NOW).expect("it applies").next;
    let (_, step) = execution.steps().next().expect("it has one");
    step.clone()
}

fn encode(times: usize) {
    let step = step();
    for number in 0..times {
        black_box(STEPS.put(1, &(id(number), 0), black_box(&step), None));
    }
}

fn decode(times: usize) {
    let store = MemoryStore::new();
    let ops = vec![STEPS.put(1, &(id(0), 0), &step(), None)];
    block_on(async {
        store.commit(Batch { id: BatchId(1), guards: Vec::new(), ops }).await;
        for _ in 0..times {
            let step = STEPS.get(&store, 1, &(id(0), 0)).await;
            black_box(step.expect("it can be read").expect("it is there"));
        }
    });
}

fn list(times: usize) {
    const LIST: [u8; 2] = [1, 1];
    let term = |field: u8, of: u64| (field, of.to_be_bytes().to_vec().into_boxed_slice());
    let documents = (0..20_000_u64).map(|number| {
        let terms = vec![term(0, number % 3), term(1, number % 12), term(2, number % 10)];
        let sort = [Some(number % 10 + 1), Some(number)];
        (id(usize::try_from(number).expect("it fits")), Entry { list: LIST, terms, sort })
    });
    let probe = Probe::load(documents);
    let any = |field: u8, of: &[u64]| {
        Filter::AnyOf(field, of.iter().map(|of| term(field, *of).1).collect())
    };
    let query = Query {
        list: LIST,
        filters: vec![any(0, &[0, 1]), any(1, &[3, 4, 5])],
        order: Order::Sort(0),
        descending: true,
        offset: 1_000,
        limit: 20,
    };
    for _ in 0..times {
        black_box(probe.query(black_box(&query)));
    }
}

/// Time that stands still.
struct Standing;

impl Clock for Standing {
    fn now(&self) -> Timestamp {
        NOW
    }

    fn moment(&self) -> Monotonic {
        Monotonic::default()
    }
}

/// Bits that are counted up.
struct Counted(AtomicU64);

impl Entropy for Counted {
    fn bits(&self) -> u128 {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        u128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64 | u128::from(number)
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().expect("a runtime can be had").block_on(work)
}

/// Everything on the memory store, with a worker.
struct Whole {
    _system: System,
    handle: Handle,
    link: WorkerLink,
    commands: mpsc::UnboundedReceiver<WorkerCommand>,
}

impl Whole {
    async fn new() -> Self {
        let settings = Settings {
            shards: 1,
            active: 50_000,
            aging: Duration::from_mins(1),
            terms: LeasePolicy {
                lease: Duration::from_secs(30),
                silent_after: Duration::from_secs(15),
            },
            heartbeat: Duration::from_secs(10),
            drain_deadline: Duration::from_secs(20),
            live: callboard_runtime::Live::default(),
            stands_still: false,
            approvals: callboard_domain::approval::Policy {
                escalate_after: 0.5,
                rejects: false,
                four_eyes: false,
            },
            keep_events: Duration::from_hours(24),
            keep_events_max: 100_000,
            retention: callboard_domain::retention::Policy::default(),
            outage_patience: callboard_domain::retry::OUTAGE_PATIENCE,
            task_defaults: Arc::new(TaskDefaults {
                model: "m".into(),
                env: HashMap::new(),
                pass_unknown: false,
            }),
            env_allow: Vec::new(),
            projects: BTreeMap::new(),
            weights: BTreeMap::new(),
            built_in: Vec::new(),
            keep_audit: None,
            webhooks: WebhookPolicy { events: Vec::new(), waits: Arc::new([]) },
            refresh_token: Duration::from_hours(30 * 24),
            signing_keys: SigningKeys::new(SigningKeyId::of("a key")),
        };
        let entropy = Arc::new(Counted(AtomicU64::new(1)));
        let ports = Ports { clock: Arc::new(Standing), entropy, ..Ports::of_this_machine() };
        let on_break = Box::new(|why| panic!("the system broke: {why}"));
        let store = Arc::new(MemoryStore::new());
        let system = System::start(store, settings, ports, on_break).await.expect("it starts");
        let handle = system.handle();
        let profile = Profile {
            name: "w".into(),
            version: "0".into(),
            // One that nothing is submitted to, until a case does.
            queues: vec!["run".into()],
            models: vec!["*".into()],
            functions: [].into(),
            concurrency: 16,
        };
        let (outgoing, commands) = mpsc::unbounded_channel();
        let connected = handle.connect_worker(&owner(), profile, None, outgoing).await;
        let (link, _) = connected.expect("it is let in");
        Self { _system: system, handle, link, commands }
    }

    async fn submit(&self, queue: &str) -> TaskId {
        let request = Request {
            model: "m".into(),
            queue: queue.into(),
            priority: 5,
            timeout_ms: 60_000,
            tags: vec!["bench".into()],
            max_tokens: Some(256),
            temperature: Some(0.5),
            sampling: None,
            callback_url: None,
            labels: None,
            gate: None,
            routing: None,
            flow: None,
            start_at: None,
            retry: Policy::default(),
            inputs: Inputs {
                prompt: "Sum up what the customer wants.".into(),
                ..Inputs::default()
            },
        };
        let submitted = self.handle.submit(&owner(), vec![request], false, None).await;
        submitted.expect("it is taken").made.tasks()[0].spec.id
    }

    /// Answers so many tasks.
    async fn answer(&mut self, tasks: usize) {
        let mut left = tasks;
        while left > 0 {
            match self.commands.recv().await.expect("it is connected") {
                WorkerCommand::Assign(assignment) => {
                    self.link.say(WorkerMessage::Completed(
                        assignment.lease,
                        OUTPUT.into(),
                        completion(),
                    ));
                }
                WorkerCommand::Ack(..) => left -= 1,
                WorkerCommand::Leases(..)
                | WorkerCommand::Cancel(..)
                | WorkerCommand::Drain(_)
                | WorkerCommand::Close => {}
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

fn submit(times: usize) {
    block_on(async {
        let whole = Whole::new().await;
        for _ in 0..times {
            black_box(whole.submit("waits").await);
        }
    });
}

fn read(times: usize) {
    block_on(async {
        let mut whole = Whole::new().await;
        let id = whole.submit("run").await;
        whole.answer(1).await;
        for _ in 0..times {
            black_box(whole.handle.task(Environment::LIVE, id).await.expect("it is there"));
        }
    });
}

fn complete(times: usize) {
    block_on(async {
        let mut whole = Whole::new().await;
        for _ in 0..times {
            whole.submit("run").await;
            whole.answer(1).await;
        }
        let tasks = Tasks::default();
        let ended = whole.handle.tasks(Environment::LIVE, &tasks).await.expect("a list").total;
        assert_eq!(usize::try_from(ended), Ok(times));
    });
}

fn execute(times: usize) {
    let steps = (0..5).map(|number: usize| StepSource {
        id: format!("s{number}"),
        prompt: match number.checked_sub(1) {
            Some(before) => format!("Go on: {{{{s{before}.output}}}}"),
            None => "Begin.".into(),
        },
        queue: Some("run".into()),
        depends_on: number.checked_sub(1).map(|before| format!("s{before}")).into_iter().collect(),
        ..StepSource::default()
    });
    let steps = steps.collect();
    let source = PlanSource { name: "p".into(), steps, ..PlanSource::default() };
    block_on(async {
        let mut whole = Whole::new().await;
        let plan = whole.handle.create_plan(&owner(), source).await.expect("a plan").id;
        for _ in 0..times {
            let begun = whole.handle.execute(&owner(), plan, Start::default(), None).await;
            begun.expect("it starts");
            whole.answer(5).await;
        }
    });
}
