//! Concurrency keys and fairness keys.

use callboard_domain::Error;
use callboard_domain::id::UserId;
use callboard_domain::rate::{Quota, Quotas, Tier};
use callboard_domain::task::{Concurrency, Fairness, Flow, OnConflict};
use tokio::task::JoinSet;

use super::queues::nothing_comes;
use super::*;

fn keyed(limit: u32, on_conflict: OnConflict) -> Request {
    let concurrency = Some(Concurrency { key: "k".into(), limit, on_conflict });
    let flow = Some(Arc::new(Flow { concurrency, fairness: None }));
    Request { flow, ..request() }
}

fn fair(key: &str) -> Request {
    let fairness = Some(Fairness { key: key.into(), weight: 1 });
    let flow = Some(Arc::new(Flow { concurrency: None, fairness }));
    Request { flow, ..request() }
}

#[tokio::test]
async fn a_key_runs_no_more_tasks_than_its_limit_over_a_restart_either() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(5).await;
    let first = bench.submit(keyed(1, OnConflict::Queue)).await;
    let lease = worker.assignment().await.lease;
    let second = bench.submit(keyed(1, OnConflict::Queue)).await;
    let other = bench.submit(request()).await;
    assert_eq!(worker.assignment().await.task.spec.id, other);
    assert!(nothing_comes(&mut worker).await);
    let waiting = bench.task(second).await;
    assert_eq!(bench.handle.waiting_in(Environment::LIVE, &waiting), Some("limit"));
    bench.until(first, |task| task.status() == Status::Running).await;

    let bench = bench.restart().await;
    let mut worker = bench.resumed(5, Some((&worker, vec![lease]))).await;
    let third = bench.submit(keyed(1, OnConflict::Queue)).await;
    // The task without a key was not resumed, and comes again.
    assert_eq!(worker.assignment().await.task.spec.id, other);
    assert!(nothing_comes(&mut worker).await);
    assert_eq!(worker.complete(lease, "x").await, AckResult::Applied);
    let lease = worker.assignment().await.lease;
    assert_eq!(lease.task, second);
    worker.link.say(WorkerMessage::Failed(lease, failure(false)));
    assert_eq!(worker.ack(lease, Of::Fail).await, AckResult::Applied);
    assert_eq!(worker.assignment().await.task.spec.id, third, "a failure frees the key too");
}

#[tokio::test]
async fn a_task_that_rejects_is_refused_while_its_key_is_used_up_and_a_batch_with_it() {
    let bench = Bench::new().await;
    let first = bench.submit(keyed(1, OnConflict::Reject)).await;
    for (tasks, as_batch) in [
        (vec![keyed(1, OnConflict::Reject)], false),
        (vec![request(), keyed(1, OnConflict::Reject)], true),
    ] {
        let refused = bench.handle.submit(&owner(), tasks, as_batch, None).await;
        let Err(Error::InvalidState(message)) = refused else { panic!("a refusal") };
        assert!(message.contains('k'), "{message}");
    }
    let page = bench.handle.tasks(Environment::LIVE, &Tasks::default()).await.expect("a list");
    assert_eq!(page.total, 1, "nothing of what was refused is there");
    let two = vec![keyed(2, OnConflict::Reject), keyed(2, OnConflict::Reject)];
    let refused = bench.handle.submit(&owner(), two, true, None).await;
    assert!(matches!(refused, Err(Error::InvalidState(_))), "the batch itself passes the limit");
    bench.handle.cancel(Environment::LIVE, first, "usr_1").await.expect("it can be");
    bench.submit(keyed(1, OnConflict::Reject)).await;
}

#[tokio::test]
async fn a_task_that_cancels_ends_the_oldest_of_its_key() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let running = bench.submit(keyed(2, OnConflict::Queue)).await;
    let lease = worker.assignment().await.lease;
    let waiting = bench.submit(keyed(2, OnConflict::Queue)).await;
    let newest = bench.submit(keyed(2, OnConflict::CancelRunning)).await;
    bench.until(running, |task| task.status() == Status::Cancelled).await;
    let next = worker.assignment().await.lease;
    assert_eq!(next.task, waiting);
    assert_eq!(worker.complete(lease, "too late").await, AckResult::Stale);
    worker.complete(next, "x").await;
    assert_eq!(worker.assignment().await.task.spec.id, newest);
}

#[tokio::test]
async fn keys_take_turns_whatever_the_backlog_of_one() {
    let bench = Bench::new().await;
    let mut a = Vec::new();
    for _ in 0..4 {
        a.push(bench.submit(fair("a")).await);
    }
    let b = [bench.submit(fair("b")).await, bench.submit(fair("b")).await];
    let mut worker = bench.worker(1).await;
    let mut order = Vec::new();
    for _ in 0..6 {
        let lease = worker.assignment().await.lease;
        order.push(lease.task);
        worker.complete(lease, "x").await;
    }
    assert_eq!(order, [a[0], b[0], a[1], b[1], a[2], a[3]]);
}

/// Runs many tasks of many queues; returns the most that ran at once.
async fn most_at_once(
    bench: &Bench,
    owner: &Owner,
    request: Request,
    count: impl Fn() -> u32,
) -> u32 {
    const QUEUES: usize = 8;
    const ROUNDS: usize = 40;
    let mut workers = JoinSet::new();
    for number in 0..QUEUES {
        let queue = format!("q{number}");
        let mut worker = bench.serving(owner, &queue, ROUNDS, None).await;
        let request = Request { queue, ..request.clone() };
        bench.handle.submit(owner, vec![request; ROUNDS], true, None).await.expect("it is taken");
        workers.spawn(async move {
            for _ in 0..ROUNDS {
                let lease = worker.assignment().await.lease;
                worker.link.say(WorkerMessage::Completed(lease, "x".into(), completion()));
            }
        });
    }
    let mut most = 0;
    while !workers.is_empty() {
        most = most.max(count());
        workers.try_join_next().transpose().expect("it does not panic");
        tokio::task::yield_now().await;
    }
    most
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn queues_that_look_at_once_give_out_no_more_than_a_key_or_an_account_may_run() {
    let free = Quota { concurrent_tasks: Some(2), requests: 60 };
    let quotas = Quotas { default: Tier::Free, free, ..Quotas::default() };
    let settings = Settings { live: Live { quotas, ..Live::default() }, ..settings() };
    let bench = Bench::with(settings).await;
    let of_key = || bench.handle.running_of_key(Environment::LIVE, "k");
    let most = most_at_once(&bench, &owner(), keyed(1, OnConflict::Queue), of_key).await;
    assert_eq!(most, 1, "of one key");
    let owner = Owner { id: UserId::from_u128(1).to_string(), ..owner() };
    let most = most_at_once(&bench, &owner, request(), || bench.handle.running_of(&owner.id)).await;
    assert_eq!(most, 2, "of one account");
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_actor_breaks_keeps_its_place_while_its_worker_goes_on() {
    for refused in 1.. {
        let store = Arc::new(MemoryStore::new());
        let faulty = Arc::new(FaultyStore::new(store.clone(), refused, Fault::NotApplied));
        let bench = Bench::over(store, faulty.clone()).await;
        let mut worker = bench.worker(2).await;
        let submit = async || {
            let requests = vec![keyed(1, OnConflict::Queue)];
            bench.handle.submit(&owner(), requests, false, None).await
        };
        while submit().await.is_err() {}
        while submit().await.is_err() {}
        let task = worker.assignment().await.lease.task;
        // The actor breaks where this is refused.
        let _ = bench.handle.cancel(Environment::LIVE, task, "usr_1").await;
        for _ in 0..40 {
            let running = bench.handle.running_of_key(Environment::LIVE, "k");
            assert!(running <= 1, "{running} after commit {refused} was refused");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if !faulty.has_failed() {
            assert!(refused > 4, "two submissions, a lease and a cancellation");
            break;
        }
    }
}
