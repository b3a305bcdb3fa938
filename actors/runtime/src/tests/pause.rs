//! The pause of everything.

use callboard_domain::Error;
use callboard_domain::pause::Submissions;

use super::*;

impl Bench {
    async fn paused(&self, submissions: Submissions) {
        let paused = self.handle.pause_all("costs run away".into(), submissions, "usr_2".into());
        paused.await.expect("it is stored");
    }

    /// No worker is given anything for a minute.
    async fn gives_nothing(&self, worker: &mut Worker) {
        let given = tokio::time::timeout(Duration::from_mins(1), worker.assignment_while_beating());
        assert!(given.await.is_err(), "a task was leased");
    }
}

#[tokio::test(start_paused = true)]
async fn while_everything_is_paused_no_task_is_leased_also_after_a_restart() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(2).await;
    let running = bench.submit(request()).await;
    let lease = worker.assignment().await.lease;
    bench.paused(Submissions::Accept).await;
    let waiting = bench.submit(request()).await;
    // What runs goes on and ends.
    assert_eq!(worker.complete(lease, "x").await, AckResult::Applied);
    assert_eq!(bench.task(running).await.status(), Status::Completed);
    bench.gives_nothing(&mut worker).await;
    let task = bench.task(waiting).await;
    assert_eq!(bench.handle.waiting_in(Environment::LIVE, &task), Some("paused"));
    let figures = bench.handle.figures().await.expect("everybody answers");
    assert!(figures.paused);

    let bench = bench.restart().await;
    let pause = bench.handle.pause().expect("it is stored");
    assert_eq!((&*pause.reason, &*pause.by), ("costs run away", "usr_2"));
    let mut worker = bench.worker(2).await;
    bench.gives_nothing(&mut worker).await;
    assert_eq!(bench.handle.resume().await, Ok(true));
    assert_eq!(worker.assignment_while_beating().await.task.spec.id, waiting);
    assert_eq!(bench.handle.resume().await, Ok(false));
    let bench = bench.restart().await;
    assert_eq!(bench.handle.pause(), None);
}

#[tokio::test(start_paused = true)]
async fn a_pause_between_the_queue_and_the_lease_leaves_the_task_in_its_queue() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(50).await;
    let mut submitted = Vec::new();
    for _ in 0..50 {
        submitted.push(bench.submit(request()).await);
    }
    bench.paused(Submissions::Accept).await;
    // Some were leased before; no other one is once the pause holds.
    let is_pending = async |id: &TaskId| bench.task(*id).await.status() == Status::Pending;
    let mut before = 0;
    for id in &submitted {
        before += u32::from(is_pending(id).await);
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    let mut after = 0;
    for id in &submitted {
        after += u32::from(is_pending(id).await);
    }
    assert!(after >= before, "{before} waited, {after} wait");
    bench.handle.resume().await.expect("it is stored");
    for _ in 0..50 {
        worker.assignment_while_beating().await;
    }
}

#[tokio::test]
async fn a_pause_that_refuses_submissions_names_its_reason_and_keeps_schedules() {
    let bench = Bench::new().await;
    bench.paused(Submissions::Accept).await;
    let since = bench.handle.pause().expect("a pause").since;
    bench.paused(Submissions::Refuse).await;
    let refused = bench.handle.submit(&owner(), vec![request()], false, None).await;
    let reason = "costs run away".to_owned();
    assert_eq!(refused.map(drop), Err(Error::Paused { since, reason }));
    bench.handle.resume().await.expect("it is stored");
    bench.submit(request()).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stands_still_leases_nothing_and_cannot_be_resumed() {
    let bench = Bench::new().await;
    let waiting = bench.submit(request()).await;
    let store = Arc::new(bench.store.reopen());
    let at = (bench.started, Arc::clone(&bench.wall));
    bench.system.stop().await;
    let still = Settings { stands_still: true, ..settings() };
    let bench = Bench::at(at, still, store.clone(), store).await;
    let mut worker = bench.worker(1).await;
    bench.gives_nothing(&mut worker).await;
    assert!(matches!(bench.handle.resume().await, Err(Error::InvalidState(_))));
    let task = bench.task(waiting).await;
    assert_eq!(bench.handle.waiting_in(Environment::LIVE, &task), Some("paused"));
    let bench = bench.restart().await;
    let mut worker = bench.worker(1).await;
    assert_eq!(worker.assignment().await.task.spec.id, waiting);
}

#[tokio::test]
async fn a_bulk_job_without_a_status_counts_only_tasks_that_its_action_fits() {
    use callboard_domain::bulk::Action;

    use crate::handle::BulkOrder;

    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    bench.submit(request()).await;
    let lease = worker.assignment().await.lease;
    worker.complete(lease, "x").await;
    let cancelled = bench.submit(Request { queue: "idle".into(), ..request() }).await;
    bench.handle.cancel(Environment::LIVE, cancelled, "usr_1").await.expect("it waits");
    for _ in 0..3 {
        bench.submit(Request { queue: "idle".into(), ..request() }).await;
    }
    for (action, count) in [(Action::Cancel, 3), (Action::Retry, 1), (Action::Reprioritize, 3)] {
        let (filter, priority) = (Tasks::default(), Some(7));
        let order = BulkOrder {
            action,
            priority,
            reason: None,
            tasks: Some(filter),
            executions: None,
            expect: None,
        };
        assert_eq!(bench.handle.dry_bulk(&owner(), &order).await, Ok((count, None)), "{action}");
    }
}
