//! Bulk jobs.

use callboard_domain::Error;
use callboard_domain::approval::{self, Decider};
use callboard_domain::bulk::{Action, Job};
use callboard_domain::id::BulkId;

use crate::handle::{Approve, BulkOrder};

use super::*;

fn order(action: Action, status: Status) -> BulkOrder {
    let filter = Tasks { statuses: vec![status], ..Tasks::default() };
    BulkOrder {
        action,
        priority: None,
        reason: None,
        tasks: Some(filter),
        executions: None,
        expect: None,
    }
}

async fn ended(bench: &Bench, id: BulkId) -> Job {
    loop {
        let job = bench.handle.bulk(Environment::LIVE, id).expect("it is there");
        if job.ended_at.is_some() {
            return job;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn started(bench: &Bench, order: &BulkOrder) -> Job {
    bench.handle.start_bulk(&owner(), order, None).await.expect("it is taken").0
}

/// So many tasks that wait; their ids.
async fn waiting(bench: &Bench, count: usize) -> Vec<TaskId> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(bench.submit(Request { queue: "idle".into(), ..request() }).await);
    }
    ids
}

async fn statuses(bench: &Bench) -> Vec<Status> {
    let window = callboard_domain::query::Window { limit: 1_000, offset: 0 };
    let page = bench.handle.tasks(Environment::LIVE, &Tasks { window, ..Tasks::default() }).await;
    page.expect("a list").items.iter().map(Task::status).collect()
}

#[tokio::test]
async fn a_job_acts_on_what_matched_and_on_nothing_that_came_later() {
    let bench = Bench::new().await;
    waiting(&bench, 150).await;
    let cancel = order(Action::Cancel, Status::Pending);
    let wrong = BulkOrder { expect: Some(149), ..cancel.clone() };
    let refused = bench.handle.start_bulk(&owner(), &wrong, None).await;
    assert!(matches!(refused, Err(Error::InvalidState(_))));
    assert_eq!(bench.handle.dry_bulk(&owner(), &cancel).await, Ok((150, None)));
    assert!(statuses(&bench).await.iter().all(|status| *status == Status::Pending));

    let right = BulkOrder { expect: Some(150), ..cancel };
    let (job, _) = bench.handle.start_bulk(&owner(), &right, None).await.expect("it is taken");
    let later = waiting(&bench, 3).await;
    let job = ended(&bench, job.id).await;
    assert_eq!((job.succeeded, job.skipped, job.failed, job.total), (150, 0, 0, 150));
    for id in later {
        assert_eq!(bench.task(id).await.status(), Status::Pending);
    }
}

#[tokio::test]
async fn a_job_that_a_crash_interrupts_goes_on_and_acts_on_each_task_once() {
    let mut bench = Bench::new().await;
    let old = waiting(&bench, 200).await;
    let cancelled = started(&bench, &order(Action::Cancel, Status::Pending)).await;
    ended(&bench, cancelled.id).await;
    let job = started(&bench, &order(Action::Retry, Status::Cancelled)).await;
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(3)).await;
        bench = bench.restart().await;
    }
    let job = ended(&bench, job.id).await;
    assert_eq!((job.succeeded, job.total), (200, 200));
    let window = callboard_domain::query::Window { limit: 1_000, offset: 0 };
    let query = Tasks { statuses: vec![Status::Pending], window, ..Tasks::default() };
    let page = bench.handle.tasks(Environment::LIVE, &query).await.expect("a list");
    let mut retried: Vec<_> =
        page.items.iter().filter_map(|task| task.spec.origin.retry_of).collect();
    retried.sort_unstable();
    assert_eq!(retried, old, "each was retried once");
}

#[tokio::test]
async fn another_priority_changes_the_order_and_a_running_task_is_passed_over() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let running = bench.submit(request()).await;
    let lease = worker.assignment().await.lease;
    bench.until(running, |task| task.status() == Status::Running).await;
    let first = bench.submit(request()).await;
    let tagged = bench.submit(Request { tags: vec!["t".into()], ..request() }).await;
    let urgent = BulkOrder {
        action: Action::Reprioritize,
        priority: Some(10),
        reason: None,
        tasks: Some(Tasks { tags: vec!["t".into()], ..Tasks::default() }),
        executions: None,
        expect: None,
    };
    let job = started(&bench, &urgent).await;
    assert_eq!(ended(&bench, job.id).await.succeeded, 1);
    let figures = bench.handle.figures().await.expect("everybody answers");
    let (_, model) = figures.models.iter().find(|(name, _)| name == "m").expect("it is known");
    assert_eq!(model.entries[0], ("pending", 3), "a change of priority enters no status");
    let all = BulkOrder { tasks: Some(Tasks::default()), priority: Some(6), ..urgent };
    let skipped = BulkOrder {
        tasks: Some(Tasks { statuses: vec![Status::Running], ..Tasks::default() }),
        ..all
    };
    let job = started(&bench, &skipped).await;
    assert_eq!(ended(&bench, job.id).await.skipped, 1);

    let bench = bench.restart().await;
    assert_eq!(bench.task(tagged).await.priority(), 10);
    let mut worker = bench.resumed(1, Some((&worker, vec![lease]))).await;
    worker.complete(lease, "x").await;
    let lease = worker.assignment().await.lease;
    assert_eq!(lease.task, tagged);
    worker.complete(lease, "x").await;
    assert_eq!(worker.assignment().await.task.spec.id, first);
}

#[tokio::test]
async fn a_key_starts_one_job() {
    let bench = Bench::new().await;
    waiting(&bench, 2).await;
    let cancel = order(Action::Cancel, Status::Pending);
    let start = |order: BulkOrder| {
        let handle = bench.handle.clone();
        async move { handle.start_bulk(&owner(), &order, Some("key")).await }
    };
    let (first, replayed) = start(cancel.clone()).await.expect("it is taken");
    assert!(!replayed);
    let (again, replayed) = start(cancel.clone()).await.expect("it is taken");
    assert!(replayed && again.id == first.id);
    let other = start(BulkOrder { expect: Some(2), ..cancel }).await;
    assert_eq!(other.map(|_| ()), Err(Error::IdempotencyKeyReused));
}

#[tokio::test]
async fn a_job_rejects_what_waits_for_a_reviewer_and_goes_on_after_crashes() {
    let mut bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let mut held = Vec::new();
    for _ in 0..100 {
        held.push(bench.held(&mut worker, "x").await);
    }
    let passed = bench.submit(request()).await;
    let lease = worker.assignment().await.lease;
    worker.complete(lease, "x").await;
    waiting(&bench, 1).await;
    let by = Decider { account: "usr_2".into(), reviewer: None, bulk: None };
    let approve = Approve { by, modified_output: None, comment: None };
    bench.handle.approve(Environment::LIVE, held[0], approve).await.expect("it waits");

    let reject = BulkOrder {
        action: Action::Reject,
        priority: None,
        reason: Some("superseded".into()),
        tasks: Some(Tasks::default()),
        executions: None,
        expect: Some(99),
    };
    assert_eq!(
        bench.handle.dry_bulk(&owner(), &reject).await,
        Ok((99, None)),
        "only what waits counts"
    );
    let job = started(&bench, &reject).await;
    for _ in 0..3 {
        bench = bench.restart().await;
    }
    let job = ended(&bench, job.id).await;
    assert_eq!((job.succeeded, job.skipped, job.failed, job.total), (99, 0, 0, 99));
    assert_eq!(job.reason, None, "the approvals have it");
    assert_eq!(bench.task(held[0]).await.status(), Status::Completed);
    assert_eq!(bench.task(passed).await.status(), Status::Completed);
    for id in &held[1..] {
        assert_eq!(bench.task(*id).await.status(), Status::Rejected);
    }
    let history = bench.handle.approval_history(Environment::LIVE, held[1]).await;
    let history = history.expect("a history");
    let rejected = &history.last().expect("an entry").entry;
    assert_eq!(rejected.action, approval::Action::Rejected);
    assert_eq!(
        (rejected.details.bulk, rejected.details.reviewer.as_deref()),
        (Some(99), Some(&*owner().id))
    );
    let again = started(&bench, &BulkOrder { expect: None, ..reject }).await;
    assert_eq!(ended(&bench, again.id).await.total, 0);
}

#[tokio::test]
async fn a_stopped_job_acts_on_no_further_task_also_after_a_restart() {
    let bench = Bench::new().await;
    waiting(&bench, 300).await;
    let job = started(&bench, &order(Action::Cancel, Status::Pending)).await;
    let stopped = bench.handle.stop_bulk(&owner(), job.id).await.expect("it is there");
    assert!(stopped.ended_at.is_some() && stopped.stopped.is_some(), "{stopped:?}");
    let pending = async |bench: &Bench| {
        statuses(bench).await.iter().filter(|status| **status == Status::Pending).count()
    };
    // The part that was under way is finished and counted.
    let pauses = Pauses::begin();
    loop {
        let done = bench.handle.bulk(Environment::LIVE, job.id).expect("it is there").done();
        if pending(&bench).await + done as usize == 300 {
            assert!(done <= 64, "{done}");
            break;
        }
        pauses.one().await;
    }
    let left = pending(&bench).await;
    let bench = bench.restart().await;
    let job = bench.handle.bulk(Environment::LIVE, job.id).expect("it is there");
    assert!(job.stopped.is_some());
    let again = bench.handle.stop_bulk(&owner(), job.id).await.expect("it is there");
    assert_eq!((again, pending(&bench).await), (job, left));
}

#[tokio::test]
async fn a_job_ends_before_the_next_part_once_its_account_is_gone() {
    let bench = Bench::new().await;
    waiting(&bench, 10).await;
    let gone = callboard_domain::id::UserId::from_u128(bench.handle.fresh_budget_id().as_u128());
    let owner = Owner { id: gone.to_string(), ..owner() };
    let order = order(Action::Cancel, Status::Pending);
    let (job, _) = bench.handle.start_bulk(&owner, &order, None).await.expect("it is taken");
    let job = ended(&bench, job.id).await;
    assert_eq!(job.done(), 0);
    assert!(job.stopped.is_some_and(|why| why.contains("does not exist any more")));
    assert!(statuses(&bench).await.iter().all(|status| *status == Status::Pending));
}
