//! The cost of the rules alone: the transitions of tasks and executions, a long queue, the text form
//! of identifiers.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use callboard_domain::Timestamp;
use callboard_domain::execution::{self, Execution, Report, StepDecision};
use callboard_domain::graph::Graph;
use callboard_domain::id::{ExecutionId, Generator, PlanId, TaskId, WorkerId};
use callboard_domain::machine::Machine;
use callboard_domain::queue::{Queue, Ready};
use callboard_domain::retry::{Jitter, Policy};
use callboard_domain::task::{
    Chance, Completion, Ending, EndingCode, Event, Failure, LeaseId, Origin, Spec, Task,
};
use callboard_domain::usage::Usage;
use criterion::{BatchSize, Criterion};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const LEASE: LeaseId = LeaseId::from_random(7);
const WORKER: WorkerId = WorkerId::from_u128(7 << 10);
const JITTER: Jitter = Jitter(u16::MAX / 2);
const WAITING: u64 = 100_000;

fn spec() -> Spec {
    Spec {
        id: TaskId::from_u128(1 << 10),
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
    }
}

fn on(task: &Task, event: Event, now: Timestamp) -> Task {
    let step = task.transition(event, now).expect("the event applies");
    black_box(step.next)
}

fn completed(spec: Spec) -> Task {
    let completion = Completion {
        usage: Usage::default(),
        confidence: None,
        confidence_source: None,
        finish_reason: Some("stop".into()),
        service_tier: None,
        judge: None,
        thinking: None,
    };
    let task = Task::submitted(spec).next;
    let task = on(&task, Event::Leased { lease: LEASE, worker: WORKER }, NOW);
    on(&task, Event::Completed { lease: LEASE, completion, chance: Chance(0) }, NOW)
}

fn retried(spec: Spec) -> Task {
    let ending = Ending { code: EndingCode::ProviderError, message: "503".into() };
    let failure = Failure::new(ending, true);
    let later = NOW.after(Duration::from_mins(1));
    let task = Task::submitted(spec).next;
    let task = on(&task, Event::Leased { lease: LEASE, worker: WORKER }, NOW);
    let task = on(
        &task,
        Event::AttemptFailed { lease: LEASE, failure, patience: Duration::ZERO, jitter: JITTER },
        NOW,
    );
    on(&task, Event::TimePassed { jitter: JITTER }, later)
}

/// A task with one of ten priorities; a higher number is a later task.
fn ready(number: u64) -> Ready {
    Ready {
        task: TaskId::from_u128(u128::from(number) << 10),
        model: "bench-model".into(),
        priority: u8::try_from(number % 10 + 1).expect("1 to 10"),
        since: Timestamp::from_millis(NOW.as_millis() + number),
        account: "usr_1".into(),
        flow: None,
    }
}

/// A graph of `size` steps with the dependencies that `list` returns.
fn graph(size: u16, list: impl Fn(u16) -> Vec<u16>) -> Arc<Graph> {
    let steps = (0..size).map(|step| (format!("step-{step}"), list(step)));
    Arc::new(Graph::new(steps).expect("no cycle"))
}

fn started(graph: &Arc<Graph>) -> Execution {
    let spec = execution::Spec {
        id: ExecutionId::from_u128(1 << 10),
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
    Execution::started(spec, Arc::clone(graph), NOW).next
}

fn decided(step: u16) -> execution::Event {
    let task = TaskId::from_u128(u128::from(step) << 10);
    execution::Event::Decided { step, decision: StepDecision::Run { task, worst_cost: None } }
}

fn answered(step: u16) -> execution::Event {
    let task = TaskId::from_u128(u128::from(step) << 10);
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
    execution::Event::StepCompleted { step, report }
}

fn next(execution: &Execution, event: execution::Event) -> Execution {
    let step = execution.transition(event, NOW).expect("the event applies");
    black_box(step.next)
}

fn executions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("execution");
    let chain = graph(5, |step| step.checked_sub(1).into_iter().collect());
    group.bench_function("chain of 5, its 10 transitions", |b| {
        b.iter_batched(
            || started(&chain),
            |first| (0..5).fold(first, |e, step| next(&next(&e, decided(step)), answered(step))),
            BatchSize::SmallInput,
        );
    });
    let wide = graph(500, |step| if step == 0 { vec![] } else { vec![0] });
    let first = next(&started(&wide), decided(0));
    group.bench_function("500 steps, the one before 499", |b| {
        b.iter(|| next(&first, answered(0)));
    });
    let open = next(&first, answered(0));
    group.bench_function("500 steps, one dispatch", |b| b.iter(|| next(&open, decided(250))));
    let out = (1..500).fold(open, |e, step| next(&e, decided(step)));
    group.bench_function("500 steps, one completion", |b| b.iter(|| next(&out, answered(250))));
    let after = next(&out, answered(250));
    group.bench_function("500 steps, the rows that changed", |b| {
        b.iter(|| black_box(after.changed_since(&out).count()));
    });
    group.bench_function("500 steps, progress with 499 out", |b| {
        b.iter(|| black_box(out.progress(|_| execution::DispatchState::Running)));
    });
    group.bench_function("500 steps, cancelled with 499 out", |b| {
        b.iter(|| next(&out, execution::Event::CancelRequested));
    });
    group.finish();
}

fn task(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("task");
    group.bench_function("submit, lease, complete", |b| {
        b.iter_batched(spec, completed, BatchSize::SmallInput);
    });
    group.bench_function("submit, lease, fail, retry", |b| {
        b.iter_batched(spec, retried, BatchSize::SmallInput);
    });
    group.finish();
}

fn queue(criterion: &mut Criterion) {
    let mut queue = Queue::new(Duration::from_mins(1));
    (0..WAITING).for_each(|number| queue.push(ready(number)));
    let mut number = WAITING;
    criterion.bench_function("queue of 100,000, push and take", |b| {
        b.iter(|| {
            queue.push(ready(number));
            number += 1;
            black_box(queue.take(|_| true, |_| true))
        });
    });
}

fn id(criterion: &mut Criterion) {
    let id = TaskId::from_u128(Generator::default().next(NOW, 42, u128::MAX / 3));
    criterion.bench_function("id to text and back", |b| {
        b.iter(|| black_box(id).to_string().parse::<TaskId>());
    });
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    task(&mut criterion);
    executions(&mut criterion);
    queue(&mut criterion);
    id(&mut criterion);
    criterion.final_summary();
}
