//! A start after a while without a server: what time did meanwhile, and what may act before the state is whole.

use callboard_domain::plan::MapSource;

use super::maps::{over, source};
use super::*;
use crate::submission::Options;

const SECOND: Duration = Duration::from_secs(1);

impl Bench {
    /// As after a crash, and a while without a server.
    pub(super) async fn restart_after(self, downtime: Duration) -> Self {
        let store = Arc::new(self.store.reopen());
        self.system.stop().await;
        tokio::time::sleep(downtime).await;
        Self::at((self.started, self.wall), settings(), store.clone(), store).await
    }
}

fn within(limit: Duration) -> Request {
    let timeout_ms = u64::try_from(limit.as_millis()).expect("short");
    Request { timeout_ms, ..request() }
}

#[tokio::test(start_paused = true)]
async fn a_result_that_a_worker_kept_counts_although_its_time_limit_passed_without_a_server() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let id = bench.submit(within(10 * SECOND)).await;
    let lease = worker.assignment().await.lease;
    let bench = bench.restart_after(14 * SECOND).await;
    tokio::time::sleep(3 * SECOND).await;
    let mut worker = bench.resumed(1, Some((&worker, vec![lease]))).await;
    assert_eq!(worker.kept, [lease]);
    assert_eq!(worker.complete(lease, "kept").await, AckResult::Applied);
    assert_eq!(bench.task(id).await.status(), Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_not_done_a_term_after_the_start_has_timed_out() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let id = bench.submit(within(10 * SECOND)).await;
    let lease = worker.assignment().await.lease;
    let bench = bench.restart_after(14 * SECOND).await;
    let mut worker = bench.resumed(1, Some((&worker, vec![lease]))).await;
    let restarted = Instant::now();
    loop {
        worker.link.say(WorkerMessage::Heartbeat(vec![lease], vec![]));
        match tokio::time::timeout(5 * SECOND, worker.commands.recv()).await {
            Ok(Some(WorkerCommand::Cancel(cancelled, _))) => {
                assert_eq!(cancelled, lease);
                break;
            }
            Ok(Some(_)) | Err(_) => {}
            Ok(None) => panic!("it is connected"),
        }
        tokio::time::sleep(SECOND).await;
    }
    let waited = restarted.elapsed();
    assert!(waited >= 29 * SECOND && waited < 40 * SECOND, "{waited:?}");
    assert_ne!(bench.task(id).await.status(), Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passed_without_a_server_is_kept_once_everything_is_counted() {
    let bench = Bench::new().await;
    let map = MapSource { max_items: Some(1_000), ..MapSource::default() };
    let plan = bench.handle.create_plan(&owner(), source(map)).await.expect("a plan");
    let options = Options { timeout_ms: Some(5_000), ..Options::default() };
    let start = crate::handle::Start { options, ..over(700) };
    for _ in 0..2 {
        bench.handle.execute(&owner(), plan.id, start.clone(), None).await.expect("it runs");
    }
    tokio::time::sleep(SECOND).await;
    let waiting = async |bench: &Bench| {
        let pending = Tasks { statuses: vec![Status::Pending], ..Tasks::default() };
        bench.handle.tasks(Environment::Live, &pending).await.expect("a list").total
    };
    assert_eq!(waiting(&bench).await, 1_400);
    let bench = bench.restart_after(10 * SECOND).await;
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(waiting(&bench).await, 0);
    let mut worker = bench.worker(1).await;
    bench.submit(request()).await;
    worker.assignment().await;
}
