//! Budgets of many tasks.

mod prices;

use callboard_domain::Error;
use callboard_domain::approval::Decider;
use callboard_domain::budget::Money;
use callboard_domain::id::BudgetId;
use callboard_domain::plan::{MapSource, StepSource};
use callboard_domain::queue::QueueChange;
use callboard_domain::schema::Schema;
use callboard_domain::spending::{Budget, BudgetChange, Ledger, Match, OnExceed, Period};
use callboard_domain::task::{FailureKind, Gate, Routing};
use callboard_domain::template::Caller;
use callboard_domain::usage::Prices;

use super::executions::{plan, step};
use super::*;
use crate::handle::{Fork, Reject, Start};
use crate::items::submission::{Created, Options};

/// One dollar for each output token, and nothing for input tokens.
const PRICES: &str = r#"{"m": {"input_cost_per_token": 0, "output_cost_per_token": 1.0},
    "n": {"input_cost_per_token": 0, "output_cost_per_token": 1.0}}"#;

async fn bench() -> Bench {
    over(Arc::new(MemoryStore::new()), Instant::now()).await
}

async fn over(store: Arc<MemoryStore>, started: Instant) -> Bench {
    through(store.clone(), store, started).await
}

/// Over `shared`, which keeps its rows in `store`.
async fn through(store: Arc<MemoryStore>, shared: Arc<dyn Store>, started: Instant) -> Bench {
    let prices = Arc::new(Prices::parse(PRICES).expect("prices"));
    let settings = Settings { live: Live { prices, ..Live::default() }, ..settings() };
    let wall = Arc::new(AtomicU64::new(1_800_000_000_000));
    Bench::at((started, wall), settings, store, shared).await
}

async fn restart(bench: Bench) -> Bench {
    let store = Arc::new(bench.store.reopen());
    bench.system.stop().await;
    over(store, bench.started).await
}

fn budget(bench: &Bench, limit: f64, on_exceed: OnExceed) -> Budget {
    Budget {
        id: bench.handle.fresh_budget_id(),
        matches: Match::default(),
        limit: Money::from_usd(limit),
        period: Period::Day,
        timezone: "UTC".into(),
        alert_at: vec![0.5],
        on_exceed,
    }
}

fn costing(tokens: u64) -> Request {
    Request { max_tokens: Some(tokens), ..request() }
}

fn stands(bench: &Bench, id: BudgetId) -> (f64, f64) {
    let Ledger { spent, reserved, .. } =
        bench.handle.budget(Environment::LIVE, id).expect("it is there");
    (spent.as_usd(), reserved.as_usd())
}

/// Answers with so many tokens.
async fn answer(worker: &mut Worker, lease: LeaseToken, tokens: u64) {
    answer_with(worker, lease, "x", tokens).await;
}

async fn answer_with(worker: &mut Worker, lease: LeaseToken, output: &str, tokens: u64) {
    let usage = Usage { output: tokens, ..Usage::default() };
    let completion = Completion { usage, ..completion() };
    worker.link.say(WorkerMessage::Completed(lease, output.into(), completion));
    assert_eq!(worker.ack(lease, Of::Complete).await, AckResult::Applied);
}

/// The same request, for an answer that is a JSON object.
fn answered_by_an_object(request: Request) -> Request {
    let schema = serde_json::json!({"type": "object"});
    let schema = Schema::compile("outputSchema", &schema).expect("a schema");
    Request { inputs: Inputs { output_schema: Some(schema), ..request.inputs }, ..request }
}

#[tokio::test]
async fn a_task_that_does_not_fit_waits_until_others_give_back_what_they_reserved() {
    let bench = bench().await;
    let budget = budget(&bench, 10.0, OnExceed::Wait);
    let id =
        bench.handle.create_budget(Environment::LIVE, budget).await.expect("it is taken").budget.id;
    let mut worker = bench.worker(5).await;
    bench.submit(costing(6)).await;
    let first = worker.assignment().await.lease;
    assert_eq!(stands(&bench, id), (0.0, 6.0));
    let second = bench.submit(costing(6)).await;
    loop {
        let task = bench.task(second).await;
        if bench.handle.waiting_in(Environment::LIVE, &task) == Some("budget") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    answer(&mut worker, first, 3).await;
    let lease = worker.assignment().await.lease;
    assert_eq!((lease.task, stands(&bench, id)), (second, (3.0, 6.0)));

    let bench = restart(bench).await;
    assert_eq!(stands(&bench, id), (3.0, 6.0), "the running task's reservation is made again");
    let mut worker = bench.resumed(5, Some((&worker, vec![lease]))).await;
    answer(&mut worker, lease, 4).await;
    assert_eq!(stands(&bench, id), (7.0, 0.0));
    let bench = restart(bench).await;
    assert_eq!(stands(&bench, id), (7.0, 0.0));
}

#[tokio::test]
async fn a_failed_attempt_gives_back_its_reservation_and_costs_nothing() {
    let bench = bench().await;
    let budget = budget(&bench, 10.0, OnExceed::Wait);
    let id =
        bench.handle.create_budget(Environment::LIVE, budget).await.expect("it is taken").budget.id;
    let mut worker = bench.worker(1).await;
    bench.submit(costing(6)).await;
    let lease = worker.assignment().await.lease;
    worker.link.say(WorkerMessage::Failed(lease, failure(true)));
    assert_eq!(worker.ack(lease, Of::Fail).await, AckResult::Applied);
    assert_eq!(stands(&bench, id), (0.0, 0.0));
    let lease = worker.assignment().await.lease;
    assert_eq!(stands(&bench, id), (0.0, 6.0));
    bench.handle.cancel(Environment::LIVE, lease.task, "usr_1").await.expect("it can be");
    assert_eq!(stands(&bench, id), (0.0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn an_answer_whose_commit_fails_is_charged_once_when_it_comes_again() {
    // Commits: the mark of the start, the budget, the worker's event, the task, its lease, and then its answer.
    let memory = Arc::new(MemoryStore::new());
    let faulty = Arc::new(FaultyStore::new(memory.clone(), 6, Fault::NotApplied));
    let bench = through(memory, faulty.clone(), Instant::now()).await;
    let budget = budget(&bench, 10.0, OnExceed::Wait);
    let id =
        bench.handle.create_budget(Environment::LIVE, budget).await.expect("it is taken").budget.id;
    let mut worker = bench.worker(1).await;
    bench.submit(costing(6)).await;
    let lease = worker.assignment().await.lease;
    let usage = Usage { output: 4, ..Usage::default() };
    let dearer = Completion { usage, ..completion() };
    worker.link.say(WorkerMessage::Completed(lease, "x".into(), dearer));
    while !matches!(worker.commands.recv().await.expect("it hears of it"), WorkerCommand::Close) {}
    assert!(faulty.has_failed());
    assert_eq!(
        stands(&bench, id),
        (0.0, 6.0),
        "nothing is spent, and the task may still be answered"
    );
    let mut back = bench.resumed(1, Some((&worker, vec![lease]))).await;
    answer(&mut back, lease, 3).await;
    assert_eq!(stands(&bench, id), (3.0, 0.0));
    let bench = restart(bench).await;
    assert_eq!(stands(&bench, id), (3.0, 0.0));
}

#[tokio::test]
async fn an_answer_that_does_not_match_its_schema_is_charged_at_once_and_once() {
    let bench = bench().await;
    let budget = budget(&bench, 20.0, OnExceed::Wait);
    let id =
        bench.handle.create_budget(Environment::LIVE, budget).await.expect("it is taken").budget.id;
    let mut worker = bench.worker(1).await;
    bench.submit(answered_by_an_object(costing(6))).await;
    let lease = worker.assignment().await.lease;
    answer_with(&mut worker, lease, "[]", 2).await;
    let lease = worker.assignment().await.lease;
    assert_eq!(stands(&bench, id), (2.0, 6.0));

    let bench = restart(bench).await;
    assert_eq!(stands(&bench, id), (2.0, 6.0));
    let mut worker = bench.resumed(1, Some((&worker, vec![lease]))).await;
    answer_with(&mut worker, lease, "{}", 3).await;
    assert_eq!(stands(&bench, id), (5.0, 0.0));
    let bench = restart(bench).await;
    assert_eq!(stands(&bench, id), (5.0, 0.0));
}

#[tokio::test]
async fn the_answers_of_two_models_in_one_attempt_are_both_charged() {
    let bench = bench().await;
    let budget = budget(&bench, 20.0, OnExceed::Wait);
    let id =
        bench.handle.create_budget(Environment::LIVE, budget).await.expect("it is taken").budget.id;
    let mut worker = bench.worker(1).await;
    let fallback_on = Some(vec![FailureKind::OutputInvalid]);
    let models = vec!["m".to_owned(), "n".to_owned()];
    let routing = Routing { models, fallback_on, service_tier: None };
    let both = Request { routing: Some(Box::new(routing)), ..costing(6) };
    bench.submit(answered_by_an_object(both)).await;
    let lease = worker.assignment().await.lease;
    answer_with(&mut worker, lease, "[]", 2).await;
    let second = worker.assignment().await;
    assert_eq!((second.task.model(), second.task.attempt), ("n", 1));
    answer_with(&mut worker, second.lease, "{}", 3).await;
    assert_eq!(stands(&bench, id), (5.0, 0.0));
    let bench = restart(bench).await;
    assert_eq!(stands(&bench, id), (5.0, 0.0));
}

#[tokio::test]
async fn the_tasks_of_a_budget_without_room_do_not_keep_others_from_theirs() {
    let bench = bench().await;
    let tagged = |tag: &str, tokens| Request { tags: vec![tag.into()], ..costing(tokens) };
    for (tag, limit) in [("a", 1.0), ("b", 6.0)] {
        let matches = Match { tags: vec![tag.into()], ..Match::default() };
        let budget = Budget { matches, ..budget(&bench, limit, OnExceed::Wait) };
        bench.handle.create_budget(Environment::LIVE, budget).await.expect("it is taken");
    }
    let mut worker = bench.worker(2).await;
    bench.submit(tagged("b", 6)).await;
    let first = worker.assignment().await.lease;
    let mut waiting = Vec::new();
    for tag in ["a"; 9].into_iter().chain(["b"]) {
        waiting.push(bench.submit(tagged(tag, 6)).await);
    }
    for task in &waiting {
        while bench.handle.waiting_in(Environment::LIVE, &bench.task(*task).await) != Some("budget")
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    answer(&mut worker, first, 0).await;
    let next = tokio::time::timeout(Duration::from_secs(20), worker.assignment()).await;
    let next = next.expect("it has its turn").lease.task;
    assert_eq!(Some(&next), waiting.last());
}

#[tokio::test]
async fn another_attempt_with_twice_the_tokens_reserves_twice_as_much() {
    let bench = bench().await;
    let budget = budget(&bench, 20.0, OnExceed::Wait);
    let id =
        bench.handle.create_budget(Environment::LIVE, budget).await.expect("it is taken").budget.id;
    let mut worker = bench.worker(1).await;
    bench.submit(answered_by_an_object(costing(6))).await;
    let lease = worker.assignment().await.lease;
    let usage = Usage { output: 6, ..Usage::default() };
    let cut = Completion { usage, finish_reason: Some("length".into()), ..completion() };
    worker.link.say(WorkerMessage::Completed(lease, "{".into(), cut));
    assert_eq!(worker.ack(lease, Of::Complete).await, AckResult::Applied);
    worker.assignment().await;
    assert_eq!(stands(&bench, id), (6.0, 12.0));
    let bench = restart(bench).await;
    assert_eq!(stands(&bench, id), (6.0, 12.0));
}

#[tokio::test]
async fn a_budget_that_rejects_has_room_for_another_attempt_or_the_task_waits() {
    let bench = bench().await;
    let budget = budget(&bench, 20.0, OnExceed::Reject);
    let id =
        bench.handle.create_budget(Environment::LIVE, budget).await.expect("it is taken").budget.id;
    let mut worker = bench.worker(1).await;
    let cut = |tokens| {
        let usage = Usage { output: tokens, ..Usage::default() };
        Completion { usage, finish_reason: Some("length".into()), ..completion() }
    };
    bench.submit(answered_by_an_object(costing(4))).await;
    let lease = worker.assignment().await.lease;
    worker.link.say(WorkerMessage::Completed(lease, "{".into(), cut(4)));
    assert_eq!(worker.ack(lease, Of::Complete).await, AckResult::Applied);
    let lease = worker.assignment().await.lease;
    assert_eq!(stands(&bench, id), (4.0, 8.0), "twice the tokens are reserved");
    let bench = restart(bench).await;
    assert_eq!(stands(&bench, id), (4.0, 8.0));
    let mut worker = bench.resumed(1, Some((&worker, vec![lease]))).await;
    answer_with(&mut worker, lease, "{}", 8).await;
    assert_eq!(stands(&bench, id), (12.0, 0.0));

    // Another attempt would cost up to 10, and 3 are left.
    let task = bench.submit(answered_by_an_object(costing(5))).await;
    let lease = worker.assignment().await.lease;
    worker.link.say(WorkerMessage::Completed(lease, "{".into(), cut(5)));
    assert_eq!(worker.ack(lease, Of::Complete).await, AckResult::Applied);
    let waits = async |bench: &Bench| {
        let task = bench.until(task, |task| task.state == State::Ready).await;
        while bench.handle.waiting_in(Environment::LIVE, &task) != Some("budget") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(stands(bench, id), (17.0, 0.0));
    };
    waits(&bench).await;
    let bench = restart(bench).await;
    let mut worker = bench.worker(1).await;
    waits(&bench).await;
    let change = BudgetChange { limit: Some(Money::from_usd(30.0)), ..BudgetChange::default() };
    bench.handle.change_budget(Environment::LIVE, id, change).await.expect("it is taken");
    assert_eq!(worker.assignment().await.task.spec.id, task);
    assert_eq!(stands(&bench, id), (17.0, 10.0));
}

#[tokio::test]
async fn what_is_summed_up_is_the_same_after_a_restart() {
    let bench = bench().await;
    let budget = budget(&bench, 1_000.0, OnExceed::Alert);
    let id =
        bench.handle.create_budget(Environment::LIVE, budget).await.expect("it is taken").budget.id;
    let mut worker = bench.worker(1).await;
    for round in 1..=3 {
        bench.submit(costing(6)).await;
        let lease = worker.assignment().await.lease;
        answer(&mut worker, lease, 5).await;
        if round < 3 {
            bench.handle.fold_budgets().await;
        }
    }
    let change = BudgetChange { limit: Some(Money::from_usd(5.0)), ..BudgetChange::default() };
    bench.handle.change_budget(Environment::LIVE, id, change).await.expect("it is taken");
    assert_eq!(stands(&bench, id), (15.0, 0.0));
    let bench = restart(bench).await;
    assert_eq!(stands(&bench, id), (15.0, 0.0));
    bench.handle.delete_budget(Environment::LIVE, id).await.expect("it is there");
    let bench = restart(bench).await;
    assert!(matches!(bench.handle.budget(Environment::LIVE, id), Err(Error::NotFound { .. })));
}

#[tokio::test]
async fn a_budget_that_rejects_counts_the_whole_batch() {
    let bench = bench().await;
    let budget = budget(&bench, 10.0, OnExceed::Reject);
    let id =
        bench.handle.create_budget(Environment::LIVE, budget).await.expect("it is taken").budget.id;
    let batch = vec![costing(6), costing(6)];
    let refused = bench.handle.submit(&owner(), batch, true, None).await;
    assert!(matches!(refused, Err(Error::BudgetExceeded(_))));
    assert_eq!(stands(&bench, id), (0.0, 0.0), "nothing of what was refused is reserved");
    bench.submit(costing(6)).await;
    let bench = restart(bench).await;
    assert_eq!(stands(&bench, id), (0.0, 6.0));
    let mut worker = bench.worker(1).await;
    let lease = worker.assignment().await.lease;
    assert_eq!(stands(&bench, id), (0.0, 6.0));
    answer(&mut worker, lease, 6).await;
    assert_eq!(stands(&bench, id), (6.0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn tasks_that_wait_for_a_budget_use_up_no_rate_of_their_queue() {
    let bench = bench().await;
    let budget = Budget {
        matches: Match { tags: vec!["dear".into()], ..Match::default() },
        ..budget(&bench, 1.0, OnExceed::Wait)
    };
    bench.handle.create_budget(Environment::LIVE, budget).await.expect("it is taken");
    let change = QueueChange { requests_per_minute: Some(3), ..QueueChange::default() };
    bench.handle.change_queue(Environment::LIVE, "default", change).await.expect("it is taken");
    let mut worker = bench.worker(20).await;
    let dear = Request { tags: vec!["dear".into()], ..costing(6) };
    for _ in 0..12 {
        bench.submit(dear.clone()).await;
    }
    let started = Instant::now();
    for _ in 0..3 {
        let id = bench.submit(costing(1)).await;
        let given = worker.assignment_while_beating().await;
        assert_eq!(given.task.spec.id, id);
        answer(&mut worker, given.lease, 1).await;
    }
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn under_a_budget_that_waits_a_task_without_a_price_fails_and_says_why() {
    let bench = bench().await;
    let id = bench.submit(Request { model: "free".into(), ..costing(1) }).await;
    let budget = budget(&bench, 10.0, OnExceed::Wait);
    bench.handle.create_budget(Environment::LIVE, budget).await.expect("it is taken");
    let _worker = bench.worker(1).await;
    let task = bench.until(id, |task| task.status() == Status::Failed).await;
    let error = task.error.expect("it failed");
    assert_eq!(error.code, EndingCode::BudgetExceeded);
    assert!(error.message.starts_with("model free has no price"), "{}", error.message);
}

#[tokio::test(start_paused = true)]
async fn a_cost_counts_for_as_many_budgets_as_there_are() {
    let bench = bench().await;
    let mut ids = Vec::new();
    for _ in 0..200 {
        let budget = budget(&bench, 100.0, OnExceed::Alert);
        let budget = Budget { alert_at: Vec::new(), ..budget };
        ids.push(
            bench
                .handle
                .create_budget(Environment::LIVE, budget)
                .await
                .expect("it is taken")
                .budget
                .id,
        );
    }
    let mut worker = bench.worker(1).await;
    bench.submit(costing(6)).await;
    let lease = worker.assignment().await.lease;
    answer(&mut worker, lease, 4).await;
    let bench = restart(bench).await;
    for id in &ids {
        assert_eq!(stands(&bench, *id), (4.0, 0.0));
    }
    bench.handle.fold_budgets().await;
    let bench = restart(bench).await;
    for id in ids {
        assert_eq!(stands(&bench, id), (4.0, 0.0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_task_waits_for_no_budget() {
    let bench = bench().await;
    let budget = budget(&bench, 1.0, OnExceed::Wait);
    let id =
        bench.handle.create_budget(Environment::LIVE, budget).await.expect("it is taken").budget.id;
    let _worker = bench.worker(1).await;
    let task = bench.submit(costing(6)).await;
    while bench.handle.waiting_in(Environment::LIVE, &bench.task(task).await) != Some("budget") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    bench.handle.cancel(Environment::LIVE, task, "usr_1").await.expect("it waits");
    bench.handle.delete_budget(Environment::LIVE, id).await.expect("it is there");
    assert!(
        bench.handle.is_without_budgets(),
        "of no budget and no task that waits nothing is kept"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn steps_that_come_due_together_never_reserve_more_than_a_budget_has() {
    let bench = bench().await;
    let budget = Budget {
        matches: Match { model: Some("n".into()), ..Match::default() },
        ..budget(&bench, 20.0, OnExceed::Reject)
    };
    let id =
        bench.handle.create_budget(Environment::LIVE, budget).await.expect("it is taken").budget.id;
    let dear = |name: &str| StepSource {
        max_tokens: Some(6),
        model: Some("n".into()),
        ..step(name, &["a"])
    };
    let cheap = StepSource { max_tokens: Some(1), model: Some("m".into()), ..step("a", &[]) };
    let source = plan(vec![cheap, dear("b"), dear("c"), dear("d"), dear("e")]);
    let mut runs = Vec::new();
    for _ in 0..30 {
        runs.push(bench.start(source.clone(), Start::default()).await);
    }
    let mut worker = bench.worker(200).await;
    let mut leases = Vec::new();
    for _ in &runs {
        leases.push(worker.assignment().await.lease);
    }
    for lease in leases {
        worker.link.say(WorkerMessage::Completed(lease, "x".into(), completion()));
    }
    let (mut given, mut most) = (0, 0.0_f64);
    loop {
        most = most.max(stands(&bench, id).1);
        let next = tokio::time::timeout(Duration::from_millis(500), worker.assignment()).await;
        let Ok(next) = next else { break };
        assert_eq!(next.task.spec.model, "n");
        given += 1;
    }
    assert_eq!((given, most), (3, 18.0), "three of six dollars fit into twenty");
}

#[tokio::test(start_paused = true)]
async fn a_fork_needs_no_budget_for_items_whose_outputs_it_takes_over() {
    let bench = bench().await;
    let mut source = maps::source(MapSource::default());
    source.steps[0].max_tokens = Some(5);
    source.steps[1].max_tokens = Some(1);
    let plan = bench.handle.create_plan(&owner(), source).await.expect("a plan").id;
    let options = Options { max_cost: Some(Money::from_usd(20.0)), ..Options::default() };
    let start = Start { options, ..maps::over(3) };
    let begun = bench.handle.execute(&owner(), plan, start, None).await.expect("it starts");
    let Created::Execution(first) = begun.made else { panic!("an execution") };
    let mut worker = bench.worker(1).await;
    for _ in 0..4 {
        let lease = worker.assignment().await.lease;
        answer_with(&mut worker, lease, "{}", 1).await;
    }
    let id = first.head.spec.id;
    bench.ended(id).await;
    // Five items of 5 USD at most; three of them are there.
    let fork = Fork { input: Some(maps::over(5).input), ..Fork::default() };
    let caller = Caller { account: "usr_1", role: callboard_domain::access::Role::Admin };
    let forked = bench.handle.fork(&owner(), caller, id, fork, None).await.expect("it starts");
    let Created::Execution(forked) = forked.made else { panic!("an execution") };
    for _ in 0..3 {
        let lease = worker.assignment().await.lease;
        answer_with(&mut worker, lease, "{}", 1).await;
    }
    let ended = bench.ended(forked.head.spec.id).await;
    assert_eq!(ended.overview.execution.status(), callboard_domain::execution::Status::Completed);
}

#[tokio::test]
async fn a_reviewer_s_retry_is_admitted_like_a_submission() {
    let bench = bench().await;
    let id =
        bench.handle.create_budget(Environment::LIVE, budget(&bench, 10.0, OnExceed::Reject)).await;
    let id = id.expect("it is taken").budget.id;
    let mut worker = bench.worker(5).await;
    let held = bench.submit(Request { gate: Some(Gate::ALWAYS), ..costing(6) }).await;
    let lease = worker.assignment().await.lease;
    answer(&mut worker, lease, 6).await;
    assert_eq!(stands(&bench, id), (6.0, 0.0));
    let reject = |retry, retry_prompt: Option<&str>| Reject {
        by: Decider { account: "usr_eve".into(), reviewer: None, bulk: None },
        reason: "no".into(),
        retry,
        retry_prompt: retry_prompt.map(str::to_owned),
    };
    for prompt in [None, Some("another one")] {
        let refused = bench.handle.reject(Environment::LIVE, held, reject(true, prompt)).await;
        assert!(matches!(refused, Err(Error::BudgetExceeded(_))), "{refused:?}");
        assert_eq!(stands(&bench, id), (6.0, 0.0));
    }
    assert_eq!(bench.task(held).await.status(), Status::Pending, "the output still waits");
    let change = BudgetChange { limit: Some(Money::from_usd(12.0)), ..BudgetChange::default() };
    bench.handle.change_budget(Environment::LIVE, id, change).await.expect("it is there");
    let rejected = bench.handle.reject(Environment::LIVE, held, reject(true, None)).await;
    rejected.expect("there is room");
    assert_eq!(stands(&bench, id), (6.0, 6.0));
    let lease = worker.assignment().await.lease;
    answer(&mut worker, lease, 1).await;
    assert_eq!(stands(&bench, id), (7.0, 0.0));
}

async fn fails(worker: &mut Worker, lease: LeaseToken, usage: Option<Usage>) {
    let ending = Ending { code: EndingCode::ProviderError, message: "503".into() };
    let failure = Failure { usage, ..Failure::new(ending, true) };
    worker.link.say(WorkerMessage::Failed(lease, failure));
    assert_eq!(worker.ack(lease, Of::Fail).await, AckResult::Applied);
}

async fn waits_for_a_budget(bench: &Bench, task: TaskId) {
    let pauses = Pauses::begin();
    while bench.handle.waiting_in(Environment::LIVE, &bench.task(task).await) != Some("budget") {
        pauses.one().await;
    }
}

#[tokio::test]
async fn a_budget_of_a_model_is_for_the_calls_that_fall_back_to_it() {
    let bench = bench().await;
    let matches = Match { model: Some("n".into()), ..Match::default() };
    let of_n = Budget { matches, ..budget(&bench, 10.0, OnExceed::Reject) };
    let id =
        bench.handle.create_budget(Environment::LIVE, of_n).await.expect("it is taken").budget.id;
    let mut worker = bench.worker(1).await;
    let models = vec!["m".to_owned(), "n".to_owned()];
    let routing = Some(Box::new(Routing { models, ..Routing::default() }));
    let listed = || Request { routing: routing.clone(), ..costing(6) };
    bench.submit(listed()).await;
    let lease = worker.assignment().await.lease;
    assert_eq!(stands(&bench, id), (0.0, 0.0), "the first model is none of it");
    fails(&mut worker, lease, None).await;
    let lease = worker.assignment().await.lease;
    assert_eq!(stands(&bench, id), (0.0, 6.0), "the reservation moves with the call");
    answer(&mut worker, lease, 6).await;
    assert_eq!(stands(&bench, id), (6.0, 0.0));
    let second = bench.submit(listed()).await;
    let lease = worker.assignment().await.lease;
    fails(&mut worker, lease, None).await;
    waits_for_a_budget(&bench, second).await;
    assert_eq!(stands(&bench, id), (6.0, 0.0));
}

#[tokio::test]
async fn a_call_that_failed_costs_what_its_worker_saw_of_it() {
    let bench = bench().await;
    let id =
        bench.handle.create_budget(Environment::LIVE, budget(&bench, 10.0, OnExceed::Wait)).await;
    let id = id.expect("it is taken").budget.id;
    let mut worker = bench.worker(1).await;
    let task = bench.submit(costing(4)).await;
    let lease = worker.assignment().await.lease;
    let usage = Usage { output: 3, ..Usage::default() };
    fails(&mut worker, lease, Some(usage)).await;
    assert_eq!(stands(&bench, id), (3.0, 0.0));
    let bench = restart(bench).await;
    assert_eq!(stands(&bench, id), (3.0, 0.0));
    let mut worker = bench.worker(1).await;
    let lease = worker.assignment().await.lease;
    assert_eq!(lease.task, task);
    answer(&mut worker, lease, 1).await;
    assert_eq!(stands(&bench, id), (4.0, 0.0), "once, with the answer that counts");
    let usage = bench.task(task).await.result.expect("a result").usage;
    assert_eq!(usage.output, 4);
}

#[tokio::test]
async fn the_tasks_that_wait_for_a_budget_go_on_in_the_order_of_a_queue() {
    let bench = bench().await;
    let id =
        bench.handle.create_budget(Environment::LIVE, budget(&bench, 10.0, OnExceed::Wait)).await;
    id.expect("it is taken");
    let mut worker = bench.worker(5).await;
    bench.submit(costing(6)).await;
    let first = worker.assignment().await.lease;
    let mut waiting = Vec::new();
    for priority in [2, 9, 5] {
        let task = bench.submit(Request { priority, ..costing(6) }).await;
        waits_for_a_budget(&bench, task).await;
        waiting.push(task);
    }
    answer(&mut worker, first, 0).await;
    for expected in [waiting[1], waiting[2], waiting[0]] {
        let lease = worker.assignment().await.lease;
        assert_eq!(lease.task, expected);
        answer(&mut worker, lease, 0).await;
    }
}

#[tokio::test]
async fn there_are_a_thousand_budgets_however_many_are_made_at_once() {
    let bench = bench().await;
    let make = async || {
        bench.handle.create_budget(Environment::LIVE, budget(&bench, 10.0, OnExceed::Wait)).await
    };
    for _ in 0..999 {
        make().await.expect("there is room");
    }
    let five = futures_util::future::join_all((0..5).map(|_| make())).await;
    assert_eq!(five.iter().filter(|one| one.is_ok()).count(), 1);
    let says = "there are 1000 budgets, which is the limit: delete one".into();
    assert_eq!(make().await.err(), Some(Error::InvalidState(says)));
}

#[tokio::test]
async fn changes_of_a_budget_at_once_both_count_and_none_brings_a_deleted_one_back() {
    let bench = bench().await;
    let made = bench.handle.create_budget(Environment::LIVE, budget(&bench, 20.0, OnExceed::Wait));
    let id = made.await.expect("it is taken").budget.id;
    let change = |change| bench.handle.change_budget(Environment::LIVE, id, change);
    let limit = |usd| BudgetChange { limit: Some(Money::from_usd(usd)), ..BudgetChange::default() };
    let rejects = BudgetChange { on_exceed: Some(OnExceed::Reject), ..BudgetChange::default() };
    let (one, other) = tokio::join!(change(limit(30.0)), change(rejects));
    assert!(one.is_ok() && other.is_ok(), "{one:?} {other:?}");
    let after = bench.handle.budget(Environment::LIVE, id).expect("it is there").budget;
    assert_eq!((after.limit.as_usd(), after.on_exceed), (30.0, OnExceed::Reject));
    let deleted = bench.handle.delete_budget(Environment::LIVE, id);
    let (deleted, changed) = tokio::join!(deleted, change(limit(40.0)));
    deleted.expect("it is there");
    assert!(matches!(changed, Err(Error::NotFound { .. })), "{changed:?}");
    assert!(bench.handle.budget(Environment::LIVE, id).is_err(), "it stays deleted");
}
