//! Queues that operators pause and limit.

use callboard_domain::queue::{QueueChange, QueueSettings};

use super::*;

const NONE: QueueChange = QueueChange { paused: None, concurrent: None, requests_per_minute: None };

async fn change(bench: &Bench, change: QueueChange) -> QueueSettings {
    bench
        .handle
        .change_queue(Environment::LIVE, "default", change)
        .await
        .expect("it is taken")
        .settings
}

fn waits_for(bench: &Bench, task: &Task) -> Option<&'static str> {
    bench.handle.waiting_in(Environment::LIVE, task)
}

/// True if no task comes within a while.
pub(super) async fn nothing_comes(worker: &mut Worker) -> bool {
    tokio::time::timeout(Duration::from_millis(100), worker.assignment()).await.is_err()
}

#[tokio::test]
async fn a_paused_queue_gives_no_lease_over_a_restart_either_until_it_is_resumed() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(2).await;
    let running = bench.submit(request()).await;
    let lease = worker.assignment().await.lease;
    change(&bench, QueueChange { paused: Some(true), ..NONE }).await;
    let waiting = bench.submit(request()).await;
    assert_eq!(waits_for(&bench, &bench.task(waiting).await), Some("queue_paused"));
    assert!(nothing_comes(&mut worker).await);
    assert_eq!(worker.complete(lease, "what runs goes on").await, AckResult::Applied);
    assert_eq!(bench.task(running).await.status(), Status::Completed);

    let bench = bench.restart().await;
    let mut worker = bench.worker(2).await;
    assert_eq!(waits_for(&bench, &bench.task(waiting).await), Some("queue_paused"));
    assert!(nothing_comes(&mut worker).await);
    let page =
        bench.handle.queues(Environment::LIVE, callboard_domain::query::Window::default()).await;
    let view = page.expect("a list").items.remove(0);
    assert_eq!((&*view.name, view.depth, view.running, view.workers), ("default", 1, 0, 1));
    assert!(view.settings.paused);

    let settings = change(&bench, QueueChange { paused: Some(false), ..NONE }).await;
    assert!(settings.is_default());
    assert_eq!(worker.assignment().await.task.spec.id, waiting);
}

#[tokio::test(start_paused = true)]
async fn a_limit_counts_the_lease_that_is_on_its_way() {
    // Whatever the lease has come to when the limit is set.
    for hops in 0..40 {
        let bench = Bench::new().await;
        let first = bench.submit(request()).await;
        let limit = async {
            for _ in 0..hops {
                tokio::task::yield_now().await;
            }
            change(&bench, QueueChange { concurrent: Some(1), ..NONE }).await
        };
        let (mut worker, _) = tokio::join!(bench.worker(2), limit);
        bench.submit(request()).await;
        assert_eq!(worker.assignment().await.task.spec.id, first, "after {hops}");
        assert!(nothing_comes(&mut worker).await, "after {hops}");
    }
}

#[tokio::test]
async fn a_limit_counts_the_tasks_that_ran_before_it_and_holds_over_a_restart() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(5).await;
    bench.submit(request()).await;
    bench.submit(request()).await;
    let held = [worker.assignment().await.lease, worker.assignment().await.lease];
    for lease in held {
        bench.until(lease.task, |task| task.status() == Status::Running).await;
    }
    change(&bench, QueueChange { concurrent: Some(2), ..NONE }).await;
    let third = bench.submit(request()).await;
    assert!(nothing_comes(&mut worker).await);
    assert_eq!(waits_for(&bench, &bench.task(third).await), Some("limit"));

    let bench = bench.restart().await;
    let mut worker = bench.resumed(5, Some((&worker, held.to_vec()))).await;
    assert!(nothing_comes(&mut worker).await);
    assert_eq!(worker.complete(held[0], "x").await, AckResult::Applied);
    let next = worker.assignment().await.lease;
    assert_eq!(next.task, third);
    let fourth = bench.submit(request()).await;
    assert!(nothing_comes(&mut worker).await);
    worker.complete(next, "x").await;
    assert_eq!(worker.assignment().await.lease.task, fourth);
}

#[tokio::test(start_paused = true)]
async fn a_rate_lets_so_many_leases_pass_in_a_minute_and_then_wakes_the_queue() {
    let bench = Bench::new().await;
    change(&bench, QueueChange { requests_per_minute: Some(2), ..NONE }).await;
    let mut worker = bench.worker(5).await;
    for _ in 0..3 {
        bench.submit(request()).await;
    }
    let started = Instant::now();
    for lease in [worker.assignment().await.lease, worker.assignment().await.lease] {
        worker.complete(lease, "x").await;
    }
    assert!(started.elapsed() < Duration::from_secs(1));
    let waiting = loop {
        let page = bench.handle.tasks(Environment::LIVE, &Tasks::default()).await.expect("a list");
        let mut waiting = page.items.into_iter().filter(|task| task.status() == Status::Pending);
        match (waiting.next(), waiting.next()) {
            (Some(one), None) => break one,
            _ => tokio::task::yield_now().await,
        }
    };
    assert_eq!(waits_for(&bench, &waiting), Some("limit"));
    assert_eq!(worker.assignment_while_beating().await.task.spec.id, waiting.spec.id);
    let waited = started.elapsed();
    assert!(waited >= Duration::from_mins(1) && waited < Duration::from_secs(63), "{waited:?}");
}

#[tokio::test]
async fn a_thousand_queues_have_settings_however_many_are_set_at_once() {
    let bench = Bench::new().await;
    let set = async |n: u32| {
        let change = QueueChange { concurrent: Some(n + 1), ..NONE };
        bench.handle.change_queue(Environment::LIVE, &format!("q{n}"), change).await
    };
    for n in 0..999 {
        set(n).await.expect("there is room");
    }
    let made = futures_util::future::join_all((999..1_004).map(set)).await;
    assert_eq!(made.iter().filter(|one| one.is_ok()).count(), 1);
    let refused = set(2_000).await.expect_err("they are too many").to_string();
    assert!(refused.contains("1000 queues have settings"), "{refused}");
    set(5).await.expect("it has settings already");
}
