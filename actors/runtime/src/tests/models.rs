//! Limits of models, closures after a 429, and fallback.

use callboard_domain::model_limits::{Allowance, Closure, ModelLimits, Reported};
use callboard_domain::queue::QueueChange;
use callboard_domain::schema::Schema;
use callboard_domain::task::{FailureKind, Routing, ServiceTier};
use callboard_domain::usage::Prices;

use super::*;

fn of(model: &str) -> Request {
    Request { model: model.into(), ..request() }
}

fn listed(models: &[&str]) -> Request {
    let models = models.iter().map(|model| (*model).to_owned()).collect();
    let routing = Some(Box::new(Routing { models, ..Routing::default() }));
    Request { routing, ..of("a") }
}

fn too_many(retry_after_s: Option<u64>) -> Failure {
    let ending = Ending { code: EndingCode::ProviderRateLimited, message: "429".into() };
    let retry_after = retry_after_s.map(Duration::from_secs);
    Failure { retry_after, ..Failure::new(ending, true) }
}

fn used(input: u64, output: u64) -> Completion {
    Completion { usage: Usage { input, output, ..Usage::default() }, ..completion() }
}

fn limits(requests_per_minute: u64) -> ModelLimits {
    ModelLimits { requests_per_minute: Some(requests_per_minute), ..ModelLimits::default() }
}

impl Bench {
    async fn limit(&self, model: &str, limits: ModelLimits) {
        self.handle.set_model_limits(Environment::LIVE, model, limits).await.expect("it is stored");
    }

    fn waits(&self, task: &Task) -> (Option<&'static str>, Option<u64>) {
        let until = self.handle.waiting_until(Environment::LIVE, task);
        let ms = until.map(|until| {
            u64::try_from(until.since(self.handle.now()).as_millis()).unwrap_or(u64::MAX)
        });
        (self.handle.waiting_for(Environment::LIVE, task), ms)
    }
}

impl Worker {
    async fn fail(&mut self, lease: LeaseToken, failure: Failure) {
        self.link.say(WorkerMessage::Failed(lease, failure));
        assert_eq!(self.ack(lease, Of::Fail).await, AckResult::Applied);
    }

    async fn idles(&mut self, time: Duration) -> bool {
        self.link.say(WorkerMessage::Heartbeat(vec![], vec![]));
        tokio::time::timeout(time, self.assignment()).await.is_err()
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_at_its_limit_waits_and_does_not_block_the_tasks_behind_it() {
    let bench = Bench::new().await;
    bench.limit("a", limits(2)).await;
    let mut worker = bench.worker(10).await;
    let mut leases = Vec::new();
    for _ in 0..2 {
        bench.submit(of("a")).await;
        leases.push(worker.assignment().await);
    }
    let third = bench.submit(Request { priority: 10, ..of("a") }).await;
    let other = bench.submit(of("b")).await;
    let assignment = worker.assignment().await;
    assert_eq!(
        assignment.task.spec.id, other,
        "the limited model's task goes before it in the queue"
    );
    worker.complete(assignment.lease, "x").await;
    for given in leases {
        worker.link.say(WorkerMessage::Completed(given.lease, "x".into(), used(1, 1)));
        worker.ack(given.lease, Of::Complete).await;
    }
    let (waits_for, until) = bench.waits(&bench.task(third).await);
    assert_eq!(waits_for, Some("limit"));
    assert!(until.is_some_and(|ms| (50_000..=60_510).contains(&ms)), "{until:?}");
    assert!(worker.idles(Duration::from_secs(10)).await);
    let before = Instant::now();
    let assignment = worker.assignment_while_beating().await;
    assert_eq!(assignment.task.spec.id, third);
    assert!(before.elapsed() >= Duration::from_secs(50), "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn one_429_closes_the_model_for_all_its_tasks_until_retry_after() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(10).await;
    let first = bench.submit(of("a")).await;
    let lease = worker.assignment().await.lease;
    worker.fail(lease, too_many(Some(20))).await;
    let second = bench.submit(of("a")).await;
    let other = bench.submit(of("b")).await;
    assert_eq!(worker.assignment().await.task.spec.id, other);
    assert_eq!(bench.waits(&bench.task(second).await), (Some("limit"), Some(20_000)));
    assert!(worker.idles(Duration::from_secs(13)).await);
    // One probe; the rest waits for its end.
    let probe = worker.assignment_while_beating().await;
    let third = bench.submit(of("a")).await;
    assert!(worker.idles(Duration::from_secs(5)).await);
    assert_eq!(bench.waits(&bench.task(third).await), (Some("limit"), None));
    assert_eq!(worker.complete(probe.lease, "x").await, AckResult::Applied);
    let rest = [
        worker.assignment_while_beating().await.task.spec.id,
        worker.assignment_while_beating().await.task.spec.id,
    ];
    let mut expected = [first, second, third].to_vec();
    expected.retain(|id| *id != probe.task.spec.id);
    assert_eq!(rest.to_vec(), expected);
    assert_eq!(bench.task(first).await.attempt, 2, "a refused call is an attempt");
}

fn unreachable() -> Failure {
    Failure::of_worker("PROVIDER_UNAVAILABLE", "connection refused".into(), true)
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_ten_minutes_costs_no_attempt_and_one_call_at_a_time_tries() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(10).await;
    let once = Policy { max_attempts: 1, ..Policy::default() };
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(bench.submit(Request { retry: once, ..of("a") }).await);
    }
    for _ in 0..3 {
        let lease = worker.assignment().await.lease;
        worker.fail(lease, unreachable()).await;
    }
    let begun = Instant::now();
    let mut calls = 0;
    while begun.elapsed() < Duration::from_mins(10) {
        let lease = worker.assignment_while_beating().await.lease;
        assert!(worker.idles(Duration::from_millis(10)).await, "one call at a time");
        worker.fail(lease, unreachable()).await;
        calls += 1;
    }
    // 1, 2, 4, 8, 16, 32 seconds, then a minute each.
    assert!((12..=15).contains(&calls), "{calls} calls");
    let view = bench
        .handle
        .models(Environment::LIVE)
        .into_iter()
        .find(|view| &*view.name == "a")
        .expect("known");
    let because = view.status.expect("it is metered").closed_because;
    assert_eq!(because.map(Closure::as_str), Some("unavailable"));
    for _ in 0..3 {
        let lease = worker.assignment_while_beating().await.lease;
        assert_eq!(worker.complete(lease, "x").await, AckResult::Applied);
    }
    for id in ids {
        let task = bench.task(id).await;
        assert_eq!((task.status(), task.attempt, task.retries), (Status::Completed, 1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_goes_to_the_next_model_of_a_list() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(10).await;
    bench.submit(listed(&["a", "b"])).await;
    let lease = worker.assignment().await.lease;
    worker.fail(lease, unreachable()).await;
    assert_eq!(worker.assignment().await.task.model(), "b");
}

fn sized(tokens: usize) -> Request {
    Request { inputs: Inputs { prompt: "word".repeat(tokens), ..Inputs::default() }, ..of("a") }
}

#[tokio::test(start_paused = true)]
async fn a_large_prompt_waits_for_its_own_room_and_small_ones_do_not_overtake_it() {
    let bench = Bench::new().await;
    let limit = ModelLimits { input_tokens_per_minute: Some(1_000), ..ModelLimits::default() };
    bench.limit("a", limit).await;
    let mut worker = bench.worker(10).await;
    bench.submit(sized(600)).await;
    let first = worker.assignment().await.lease;
    worker.link.say(WorkerMessage::Completed(first, "x".into(), used(600, 1)));
    worker.ack(first, Of::Complete).await;
    let large = bench.submit(sized(700)).await;
    assert!(worker.idles(Duration::from_secs(1)).await);
    let small = bench.submit(sized(10)).await;
    assert!(worker.idles(Duration::from_secs(10)).await);
    assert_eq!(worker.assignment_while_beating().await.task.spec.id, large);
    assert_eq!(worker.assignment_while_beating().await.task.spec.id, small);
}

/// A worker that has used 300 of 1,000 tokens, and a task of 900 that waits for room.
async fn one_waits_for_room(bench: &Bench) -> (Worker, TaskId) {
    let limit = ModelLimits { input_tokens_per_minute: Some(1_000), ..ModelLimits::default() };
    bench.limit("a", limit).await;
    let mut worker = bench.worker(10).await;
    bench.submit(sized(300)).await;
    let first = worker.assignment().await.lease;
    worker.link.say(WorkerMessage::Completed(first, "x".into(), used(300, 1)));
    worker.ack(first, Of::Complete).await;
    let large = bench.submit(sized(900)).await;
    assert!(worker.idles(Duration::from_secs(1)).await);
    (worker, large)
}

#[tokio::test(start_paused = true)]
async fn no_room_is_kept_for_a_task_that_was_cancelled() {
    let bench = Bench::new().await;
    let (mut worker, large) = one_waits_for_room(&bench).await;
    let small = bench.submit(sized(10)).await;
    assert!(worker.idles(Duration::from_secs(1)).await, "the large one goes first");
    bench.handle.cancel(Environment::LIVE, large, "usr_1").await.expect("it waits");
    assert_eq!(worker.assignment().await.task.spec.id, small);
}

#[tokio::test(start_paused = true)]
async fn no_room_is_kept_for_a_task_of_a_paused_queue() {
    let bench = Bench::new().await;
    let (mut worker, large) = one_waits_for_room(&bench).await;
    let mut other = bench.serving(&owner(), "other", 10, None).await;
    let small = bench.submit(Request { queue: "other".into(), ..sized(10) }).await;
    assert!(other.idles(Duration::from_secs(1)).await, "the large one goes first");
    let pause = |paused| QueueChange { paused: Some(paused), ..QueueChange::default() };
    bench
        .handle
        .change_queue(Environment::LIVE, "default", pause(true))
        .await
        .expect("it is taken");
    assert_eq!(other.assignment().await.task.spec.id, small);
    bench
        .handle
        .change_queue(Environment::LIVE, "default", pause(false))
        .await
        .expect("it is taken");
    assert_eq!(worker.assignment_while_beating().await.task.spec.id, large);
}

#[tokio::test(start_paused = true)]
async fn calls_in_flight_are_limited_and_a_cancelled_one_makes_room() {
    let bench = Bench::new().await;
    bench.limit("a", ModelLimits { concurrent: Some(1), ..ModelLimits::default() }).await;
    let mut worker = bench.worker(10).await;
    let first = bench.submit(of("a")).await;
    worker.assignment().await;
    let second = bench.submit(of("a")).await;
    assert!(worker.idles(Duration::from_secs(3)).await);
    bench.handle.cancel(Environment::LIVE, first, "usr_1").await.expect("it runs");
    assert_eq!(worker.assignment().await.task.spec.id, second);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_says_it_has_nothing_left_is_believed() {
    let bench = Bench::new().await;
    bench.limit("a", limits(100)).await;
    let mut worker = bench.worker(10).await;
    bench.submit(of("a")).await;
    let lease = worker.assignment().await.lease;
    let requests = Some(Allowance { limit: 100, remaining: 0, reset_ms: Some(8_000) });
    let reported = Box::new(Reported { requests, ..Reported::default() });
    worker.link.say(WorkerMessage::Reported(lease, reported));
    worker.complete(lease, "x").await;
    let next = bench.submit(of("a")).await;
    assert_eq!(bench.waits(&bench.task(next).await), (Some("limit"), Some(8_000)));
    assert!(worker.idles(Duration::from_secs(7)).await);
    assert_eq!(worker.assignment_while_beating().await.task.spec.id, next);
}

#[tokio::test(start_paused = true)]
async fn limits_closures_and_the_last_minute_survive_a_crash() {
    let bench = Bench::new().await;
    bench.limit("a", limits(2)).await;
    let mut worker = bench.worker(10).await;
    bench.submit(of("a")).await;
    let ended = worker.assignment().await.lease;
    worker.link.say(WorkerMessage::Completed(ended, "x".into(), used(7, 3)));
    worker.ack(ended, Of::Complete).await;
    bench.submit(of("a")).await;
    let running = worker.assignment().await.lease;
    bench.submit(of("c")).await;
    let refused = worker.assignment().await.lease;
    worker.fail(refused, too_many(Some(300))).await;
    // The end of the closure is written beside the answer.
    tokio::time::sleep(Duration::from_millis(50)).await;

    let bench = bench.restart().await;
    let status = |name: &str| {
        let models = bench.handle.models(Environment::LIVE);
        models.into_iter().find(|view| *view.name == *name).expect("it is known")
    };
    let limited = status("a").status.expect("it has limits");
    assert_eq!(limited.limits, limits(2));
    assert_eq!((limited.requests, limited.in_flight), (2, 1), "{limited:?}");
    let closed = status("c").closed_until.expect("it is closed");
    assert!(closed.since(bench.handle.now()) > Duration::from_secs(290));
    let mut back = bench.resumed(10, Some((&worker, vec![running]))).await;
    let (third, other) = (bench.submit(of("a")).await, bench.submit(of("c")).await);
    assert!(back.idles(Duration::from_secs(10)).await);
    assert_eq!(bench.waits(&bench.task(third).await).0, Some("limit"));
    assert_eq!(bench.waits(&bench.task(other).await).0, Some("limit"));
    assert_eq!(back.complete(running, "x").await, AckResult::Applied);
    assert_eq!(status("a").status.map(|status| status.in_flight), Some(0));
    assert_eq!(back.assignment_while_beating().await.task.spec.id, third);
}

/// A bench with this price table.
async fn priced(table: &str) -> Bench {
    let prices = Arc::new(Prices::parse(table).expect("it is a table"));
    let store = Arc::new(MemoryStore::new());
    let start = (Instant::now(), Arc::new(AtomicU64::new(1_800_000_000_000)));
    Bench::at(
        start,
        Settings { live: Live { prices, ..Live::default() }, ..settings() },
        store.clone(),
        store,
    )
    .await
}

#[tokio::test]
async fn the_next_lease_calls_the_next_model_with_the_same_attempt() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let id = bench.submit(listed(&["a", "b"])).await;
    let first = worker.assignment().await;
    assert_eq!((first.task.model(), first.task.attempt), ("a", 1));
    worker.fail(first.lease, too_many(None)).await;
    let second = worker.assignment().await;
    assert_eq!((second.task.model(), second.task.attempt, second.task.spec.id), ("b", 1, id));
    assert_eq!(worker.complete(second.lease, "x").await, AckResult::Applied);
    let task = bench.restart().await.task(id).await;
    assert_eq!(task.model_used(), Some("b"));
    assert_eq!(task.fallback_reason(), Some(FailureKind::RateLimited));
    assert_eq!((task.status(), task.retries), (Status::Completed, 0));
}

#[tokio::test]
async fn a_call_is_priced_by_the_model_the_tier_and_the_cache_that_were_used() {
    let table = r#"{
        "a": {"input_cost_per_token": 100, "output_cost_per_token": 100},
        "b": {"input_cost_per_token": 4, "output_cost_per_token": 8,
              "cache_read_input_token_cost": 1,
              "input_cost_per_token_flex": 2, "output_cost_per_token_flex": 4,
              "cache_read_input_token_cost_flex": 0.5}
    }"#;
    let bench = priced(table).await;
    let mut worker = bench.worker(1).await;
    let mut request = listed(&["a", "b"]);
    request.routing.as_mut().expect("it is listed").service_tier = Some(ServiceTier::Flex);
    let id = bench.submit(request).await;
    let first = worker.assignment().await.lease;
    worker.fail(first, too_many(None)).await;
    let second = worker.assignment().await.lease;
    let mut completion = used(100, 10);
    completion.usage.cache_read = 60;
    worker.link.say(WorkerMessage::Completed(second, "x".into(), completion));
    worker.ack(second, Of::Complete).await;
    let usage = bench.task(id).await.result.expect("it has one").usage;
    assert!((usage.total_cost - (40.0 * 2.0 + 60.0 * 0.5 + 10.0 * 4.0)).abs() < 1e-9, "{usage:?}");
    assert_eq!((usage.input, usage.cache_read), (100, 60));
}

#[tokio::test]
async fn after_a_cut_answer_the_next_attempt_begins_with_the_first_model_and_its_limit() {
    let table = r#"{
        "a": {"input_cost_per_token": 1, "output_cost_per_token": 1, "max_output_tokens": 150},
        "b": {"input_cost_per_token": 1, "output_cost_per_token": 1, "max_output_tokens": 100}
    }"#;
    let bench = priced(table).await;
    let mut worker = bench.worker(1).await;
    let schema = Schema::compile("outputSchema", &serde_json::json!({"type": "object"}));
    let mut request = Request { max_tokens: Some(100), ..listed(&["a", "b"]) };
    request.inputs.output_schema = Some(schema.expect("a schema"));
    let id = bench.submit(request).await;
    let first = worker.assignment().await.lease;
    worker.fail(first, too_many(None)).await;
    let second = worker.assignment().await;
    assert_eq!(second.task.model(), "b");
    let cut = Completion { finish_reason: Some("length".into()), ..completion() };
    worker.link.say(WorkerMessage::Completed(second.lease, "{".into(), cut));
    worker.ack(second.lease, Of::Complete).await;
    let third = worker.assignment().await;
    assert_eq!((third.task.model(), third.max_tokens), ("a", Some(150)));
    worker.fail(third.lease, too_many(None)).await;
    let fourth = worker.assignment().await;
    assert_eq!((fourth.task.model(), fourth.max_tokens), ("b", Some(100)), "its own limit");
    worker.complete(fourth.lease, "{}").await;
    assert_eq!(bench.task(id).await.status(), Status::Completed);
}

#[tokio::test]
async fn after_a_cut_answer_a_later_model_that_can_say_more_is_asked_for_more() {
    let table = r#"{
        "a": {"input_cost_per_token": 1, "output_cost_per_token": 1, "max_output_tokens": 100},
        "b": {"input_cost_per_token": 1, "output_cost_per_token": 1, "max_output_tokens": 150}
    }"#;
    let bench = priced(table).await;
    let mut worker = bench.worker(1).await;
    let schema = Schema::compile("outputSchema", &serde_json::json!({"type": "object"}));
    let schema = schema.expect("a schema");
    for (kind, calls) in [
        (FailureKind::OutputInvalid, &[("a", 100), ("b", 100), ("a", 100), ("b", 150)][..]),
        (FailureKind::Timeout, &[("a", 100)]),
    ] {
        let mut request = Request { max_tokens: Some(100), ..listed(&["a", "b"]) };
        request.routing.as_mut().expect("it is listed").fallback_on = Some(vec![kind]);
        request.inputs.output_schema = Some(schema.clone());
        let id = bench.submit(request).await;
        for call in calls {
            let asked = worker.assignment().await;
            assert_eq!((asked.task.model(), asked.max_tokens), (call.0, Some(call.1)));
            let cut = Completion { finish_reason: Some("length".into()), ..completion() };
            worker.link.say(WorkerMessage::Completed(asked.lease, "{".into(), cut));
            worker.ack(asked.lease, Of::Complete).await;
        }
        let ended = bench.task(id).await;
        assert_eq!(ended.error.map(|error| error.code), Some(EndingCode::OutputTruncated));
    }
}

#[tokio::test(start_paused = true)]
async fn a_crowd_behind_a_refusing_provider_is_let_in_slowly_and_all_of_it_is_answered() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(50).await;
    let mut waiting = std::collections::HashSet::new();
    for _ in 0..50 {
        waiting.insert(bench.submit(of("a")).await);
    }
    // The provider takes ten calls in any five seconds.
    let (mut taken, mut refused) = (std::collections::VecDeque::new(), 0);
    let began = Instant::now();
    while !waiting.is_empty() {
        assert!(began.elapsed() < Duration::from_mins(5), "{} of 50 wait", waiting.len());
        let heard = tokio::time::timeout(Duration::from_secs(1), worker.commands.recv()).await;
        let Ok(command) = heard else {
            worker.link.say(WorkerMessage::Heartbeat(vec![], vec![]));
            continue;
        };
        let WorkerCommand::Assign(assignment) = command.expect("it is connected") else { continue };
        let now = Instant::now();
        while taken.front().is_some_and(|at| now.duration_since(*at) >= Duration::from_secs(5)) {
            taken.pop_front();
        }
        if taken.len() < 10 {
            taken.push_back(now);
            waiting.remove(&assignment.lease.task);
            worker.link.say(WorkerMessage::Completed(assignment.lease, "x".into(), completion()));
        } else {
            refused += 1;
            worker.link.say(WorkerMessage::Failed(assignment.lease, too_many(Some(2))));
        }
    }
    assert!(refused < 90, "{refused} calls were refused");
}

#[tokio::test(start_paused = true)]
async fn a_worker_of_one_queue_closes_the_model_for_this_queue_and_limits_nobody_by_its_reports() {
    let bench = Bench::new().await;
    bench.limit("a", limits(100)).await;
    let own = |queue: &str| Request { queue: queue.into(), ..of("a") };
    let bound = Owner { bound: ["bound".to_owned()].into(), ..owner() };
    let mut outsider = bench.serving(&bound, "bound", 1, None).await;
    let mut worker = bench.worker(5).await;
    bench.submit(own("bound")).await;
    let lease = outsider.assignment().await.lease;
    let allowance = Allowance { limit: 1, remaining: 0, reset_ms: Some(60_000) };
    let reported = Reported { requests: Some(allowance), ..Reported::default() };
    outsider.link.say(WorkerMessage::Reported(lease, Box::new(reported)));
    outsider.fail(lease, too_many(Some(86_400))).await;
    bench.submit(own("default")).await;
    let lease = worker.assignment().await.lease;
    worker.complete(lease, "x").await;
    let second = bench.submit(own("bound")).await;
    let (waits_for, until) = bench.waits(&bench.task(second).await);
    assert_eq!((waits_for, until), (Some("limit"), Some(300_000)), "five minutes at most");
    let view = bench.handle.end_pause(Environment::LIVE, "a").await.expect("it is known");
    assert_eq!(view.closed_queues, []);
    assert_eq!(outsider.assignment_while_beating().await.task.spec.id, second);
}

#[tokio::test(start_paused = true)]
async fn an_admin_ends_a_pause_and_a_restart_does_not_begin_it_again() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(5).await;
    bench.submit(of("a")).await;
    let lease = worker.assignment().await.lease;
    worker.fail(lease, too_many(Some(86_400))).await;
    let second = bench.submit(of("a")).await;
    assert_eq!(bench.waits(&bench.task(second).await), (Some("limit"), Some(300_000)));
    assert!(matches!(
        bench.handle.end_pause(Environment::LIVE, "z").await,
        Err(callboard_domain::Error::NotFound { .. })
    ));
    bench.handle.end_pause(Environment::LIVE, "a").await.expect("it is known");
    assert_eq!(worker.assignment().await.task.spec.id, second);
    let bench = bench.restart().await;
    assert_eq!(
        bench.handle.models(Environment::LIVE).iter().find_map(|model| model.closed_until),
        None
    );
}
