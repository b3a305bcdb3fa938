//! Figures: counted once, in production only, and right at once after a start.

use callboard_domain::schema::Schema;
use callboard_domain::task::{Ending, EndingCode, Failure, FailureKind, Routing};

use super::*;
use crate::observers::metrics::{Figures, Model, Queue};
use crate::read::usage;

impl Bench {
    async fn figures(&self) -> Figures {
        self.handle.figures().await.expect("everybody answers")
    }
}

fn model<'a>(figures: &'a Figures, name: &str) -> &'a Model {
    let found = figures.models.iter().find(|(known, _)| known == name);
    &found.unwrap_or_else(|| panic!("no model {name}: {figures:?}")).1
}

fn queue<'a>(figures: &'a Figures, name: &str) -> &'a Queue {
    let found = figures.queues.iter().find(|(known, _)| known == name);
    &found.unwrap_or_else(|| panic!("no queue {name}: {figures:?}")).1
}

/// The entries into pending, running, completed, failed, cancelled, rejected.
fn entries(figures: &Figures, name: &str) -> [u64; 6] {
    let entries: Vec<_> = model(figures, name).entries.iter().map(|(_, count)| *count).collect();
    entries.try_into().expect("six statuses")
}

/// The leases of all queues that ended because their worker was lost.
fn lost(figures: &Figures) -> u64 {
    figures.queues.iter().map(|(_, queue)| queue.lost).sum()
}

#[tokio::test(start_paused = true)]
async fn a_task_is_counted_in_each_status_that_it_enters() {
    let bench = Bench::new().await;
    let id = bench.submit(request()).await;
    assert_eq!(entries(&bench.figures().await, "m"), [1, 0, 0, 0, 0, 0]);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let waiting = bench.figures().await;
    let Queue { depth, oldest, .. } = queue(&waiting, "default");
    assert_eq!((*depth, oldest.as_secs(), waiting.workers_active), (1, 20, 0));

    let mut worker = bench.worker(1).await;
    let lease = worker.assignment().await.lease;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let ending = Ending { code: EndingCode::ProviderRateLimited, message: "busy".into() };
    let failure = Failure::new(ending, true);
    worker.link.say(WorkerMessage::Failed(lease, failure));
    worker.ack(lease, Of::Fail).await;
    let lease = worker.assignment_while_beating().await.lease;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let usage = Usage { input: 7, output: 5, total_cost: 0.25, ..Usage::default() };
    worker.link.say(WorkerMessage::Completed(
        lease,
        "out".into(),
        Completion { usage, ..completion() },
    ));
    worker.ack(lease, Of::Complete).await;
    assert_eq!(bench.task(id).await.status(), Status::Completed);

    let figures = bench.figures().await;
    assert_eq!(entries(&figures, "m"), [2, 2, 1, 0, 0, 0]);
    let Model { quantiles, ended, runs, input, output, .. } = model(&figures, "m");
    let [half, ..] = quantiles.expect("one task ended");
    assert!(half >= Duration::from_secs(25) && half < Duration::from_mins(1), "{half:?}");
    assert_eq!((*ended, runs.count, *input, *output), (1, 2, 7, 5));
    assert!((5.0..5.1).contains(&runs.sum), "{}", runs.sum);
    let Queue { depth, waits, .. } = queue(&figures, "default");
    assert_eq!((*depth, waits.count), (0, 1));
    assert!((20.0..20.1).contains(&waits.sum), "{}", waits.sum);
    assert!(figures.retries.contains(&("PROVIDER_RATE_LIMITED", 1)));
    assert_eq!((lost(&figures), figures.workers_active), (0, 1));
    assert!(figures.commits.count >= 3 && figures.store_batches >= 3);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_falls_silent_is_counted_by_its_lost_leases() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let id = bench.submit(request()).await;
    worker.assignment().await;
    bench.until(id, |task| task.losses == 1).await;
    // The actor counts a moment after the commit that can be read.
    while lost(&bench.figures().await) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let figures = bench.figures().await;
    assert_eq!((lost(&figures), figures.workers_active), (1, 0));
    assert_eq!(entries(&figures, "m")[..2], [2, 1]);
    assert_eq!(queue(&figures, "default").depth, 1);
}

#[tokio::test]
async fn an_answer_that_did_not_count_is_its_own_models_and_its_retry_has_its_code() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let schema = Schema::compile("outputSchema", &serde_json::json!({"type": "object"}));
    let routing = Routing {
        models: vec!["m".into(), "b".into()],
        fallback_on: Some(vec![FailureKind::OutputInvalid]),
        service_tier: None,
    };
    let mut request = Request { routing: Some(Box::new(routing)), ..request() };
    request.inputs.output_schema = Some(schema.expect("a schema"));
    let id = bench.submit(request).await;
    for (model, output) in [("m", 10), ("b", 20)] {
        let asked = worker.assignment().await;
        assert_eq!(asked.task.model(), model);
        let usage = Usage { input: 1, output, total_cost: 0.5, ..Usage::default() };
        let paid = Completion { usage, ..completion() };
        worker.link.say(WorkerMessage::Completed(asked.lease, "no object".into(), paid));
        worker.ack(asked.lease, Of::Complete).await;
    }
    bench.until(id, |task| task.retries == 1).await;
    bench.handle.cancel(Environment::LIVE, id, "usr_1").await.expect("it can be");
    let figures = bench.figures().await;
    assert_eq!((model(&figures, "m").output, model(&figures, "b").output), (10, 20));
    assert_eq!((model(&figures, "m").input, model(&figures, "b").input), (1, 1));
    let retries: Vec<_> = figures.retries.iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(retries, [&("OUTPUT_INVALID", 2)]);
}

#[tokio::test]
async fn a_restart_resets_counters_and_keeps_what_waits() {
    let bench = Bench::new().await;
    for _ in 0..3 {
        bench.submit(request()).await;
    }
    let bench = bench.restart().await;
    let figures = bench.figures().await;
    assert_eq!(queue(&figures, "default").depth, 3);
    assert!(figures.models.iter().all(|(_, model)| model.entries.iter().all(|(_, n)| *n == 0)));
}

#[tokio::test]
async fn the_sandbox_has_no_figures() {
    let bench = Bench::new().await;
    let sandbox = Owner { environment: Environment::TEST, ..owner() };
    let other = Request { model: "x".into(), queue: "y".into(), ..request() };
    bench.handle.submit(&sandbox, vec![other], false, None).await.expect("it is taken");
    let figures = bench.figures().await;
    assert!(figures.models.iter().all(|(name, _)| name != "x"));
    assert!(figures.queues.iter().all(|(name, queue)| name != "y" && queue.depth == 0));
}

#[tokio::test(start_paused = true)]
async fn usage_of_more_tasks_than_one_answer_counts_is_refused_and_not_cut() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let asked = |from: u64| usage::Asked {
        group_by: usage::GroupBy::Model,
        zone: "UTC".into(),
        tag_key: String::new(),
        from: Timestamp::from_millis(from),
        to: Timestamp::from_millis(u64::MAX >> 16),
    };
    for _ in 0..usage::MAX_TASKS {
        bench.submit(request()).await;
        let lease = worker.assignment_while_beating().await.lease;
        assert_eq!(worker.complete(lease, "done").await, AckResult::Applied);
    }
    let all = bench
        .handle
        .usage(Environment::LIVE, &asked(0))
        .await
        .expect("as many as an answer counts");
    assert_eq!(all.total.tasks, usage::MAX_TASKS);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let later = bench.handle.now().as_millis();
    bench.submit(request()).await;
    let lease = worker.assignment_while_beating().await.lease;
    assert_eq!(worker.complete(lease, "done").await, AckResult::Applied);
    let refused = bench.handle.usage(Environment::LIVE, &asked(0)).await.expect_err("one more");
    assert!(refused.to_string().contains("choose a shorter time"), "{refused}");
    let one = bench.handle.usage(Environment::LIVE, &asked(later)).await.expect("a shorter time");
    assert_eq!(one.total.tasks, 1);
}

#[tokio::test(start_paused = true)]
async fn each_project_has_figures_of_its_own_and_their_sum_is_that_of_all() {
    let bench = Bench::new().await;
    let other = bench.other_project("search").await;
    bench.submit(request()).await;
    for _ in 0..3 {
        bench.handle.submit(&other, vec![request()], false, None).await.expect("it is taken");
    }
    let mut worker = bench.serving(&other, "default", 2, None).await;
    let lease = worker.assignment().await.lease;
    worker.assignment().await;
    let usage = Usage { input: 7, output: 5, total_cost: 0.25, ..Usage::default() };
    let done = Completion { usage, ..completion() };
    worker.link.say(WorkerMessage::Completed(lease, "out".into(), done));
    worker.ack(lease, Of::Complete).await;
    let figures = bench.figures().await;
    let of = |name: &str| {
        let found = figures.projects.iter().find(|(known, _)| known == name);
        &found.unwrap_or_else(|| panic!("no project {name}: {figures:?}")).1
    };
    let (default, search) = (of("default"), of("search"));
    assert_eq!((default.depth, default.running), (1, 0));
    assert_eq!((search.depth + search.running, search.input, search.output), (2, 7, 5));
    assert!((default.cost + search.cost - model(&figures, "m").cost).abs() < 1e-9);
    for (at, (status, count)) in model(&figures, "m").entries.iter().enumerate() {
        assert_eq!(default.entries[at].1 + search.entries[at].1, *count, "{status}");
    }
}
