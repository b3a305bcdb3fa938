//! Waits and signals on the memory store: a signal may come before its wait, during it, at the same
//! moment, and before or after any crash.

use callboard_domain::Error;
use callboard_domain::execution::{Stage, Status as Phase};
use callboard_domain::id::ExecutionId;
use callboard_domain::plan::{PlanSource, StepSource, WaitSource};
use serde_json::{Value, json};

use super::executions::stages;
use super::*;
use crate::handle::{SendSignal, Start};
use crate::items::submission::Created;

fn wait(id: &str, signal: &str, depends_on: &[&str]) -> StepSource {
    StepSource {
        id: id.into(),
        depends_on: depends_on.iter().map(|id| (*id).to_owned()).collect(),
        wait: Some(WaitSource { signal: signal.into(), schema: None }),
        ..StepSource::default()
    }
}

fn step(id: &str, prompt: &str, depends_on: &[&str]) -> StepSource {
    StepSource { prompt: prompt.into(), wait: None, ..wait(id, "", depends_on) }
}

fn plan(steps: Vec<StepSource>) -> PlanSource {
    PlanSource { name: "p".into(), steps, ..PlanSource::default() }
}

fn signal(name: &str, payload: Value) -> SendSignal {
    SendSignal { name: name.into(), payload, replace: false, key: None }
}

impl Bench {
    async fn signal(&self, id: ExecutionId, signal: SendSignal) -> Result<bool, Error> {
        let sent = self.handle.signal(Environment::LIVE, id, "usr_1", signal).await;
        sent.map(|(_, replayed)| replayed)
    }

    async fn sleeps(&self) {
        while self.handle.awake() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_execution_waits_for_its_signal_as_rows_and_goes_on_after_a_restart() {
    let bench = Bench::new().await;
    let source =
        plan(vec![wait("paid", "payment", &[]), step("thank", "{{paid.output.by}}", &["paid"])]);
    let id = bench.start(source, Start::default()).await;
    assert_eq!(stages(&bench.execution(id).await), [Stage::Awaiting, Stage::Waiting]);
    bench.sleeps().await;

    let bench = bench.restart().await;
    assert_eq!((bench.handle.awake(), bench.handle.timer_count()), (0, 0));
    let sent = bench.signal(id, signal("payment", json!({"by": "ann"}))).await;
    assert_eq!(sent, Ok(false));
    let mut worker = bench.worker(1).await;
    let given = worker.assignment().await;
    assert_eq!(given.inputs.prompt, "ann");
    worker.complete(given.lease, "thanks").await;
    let detail = bench.ended(id).await;
    assert_eq!(detail.overview.execution.status(), Phase::Completed);
    assert_eq!(detail.outputs[&0], r#"{"by":"ann"}"#);
}

#[tokio::test(start_paused = true)]
async fn a_signal_is_kept_once_and_replaced_only_on_request() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let source =
        plan(vec![step("a", "a", &[]), wait("b", "go", &["a"]), step("c", "{{b.output}}", &["b"])]);
    let id = bench.start(source, Start::default()).await;
    let unknown = bench.signal(id, signal("stop", Value::Null)).await;
    assert!(matches!(unknown, Err(Error::NotFound { .. })), "{unknown:?}");
    let keyed = |payload: &str, key: &str| SendSignal {
        key: Some(key.into()),
        ..signal("go", json!(payload))
    };
    assert_eq!(bench.signal(id, keyed("first", "k")).await, Ok(false));
    assert_eq!(bench.signal(id, keyed("first", "k")).await, Ok(true));
    assert_eq!(bench.signal(id, keyed("other", "k")).await, Err(Error::IdempotencyKeyReused));
    let replacing = |payload, key| SendSignal { replace: true, ..keyed(payload, key) };
    assert_eq!(bench.signal(id, replacing("new", "l")).await, Ok(false));
    assert_eq!(bench.signal(id, replacing("first", "k")).await, Ok(true), "it was replaced");
    let used = replacing("newer", "k");
    assert_eq!(bench.signal(id, used).await, Err(Error::IdempotencyKeyReused));
    let (one, two) = (replacing("x", "m"), replacing("y", "n"));
    let (first, second, third) = tokio::join!(
        bench.signal(id, one.clone()),
        bench.signal(id, two.clone()),
        bench.signal(id, one.clone()),
    );
    assert_eq!((first, second, third), (Ok(false), Ok(false), Ok(true)), "in one unit");
    let second = bench.signal(id, signal("go", json!("second"))).await;
    assert!(matches!(second, Err(Error::InvalidState(_))), "{second:?}");
    let long = "x".repeat(200_000);
    for payload in [long.as_str(), "second"] {
        let replacing = SendSignal { replace: true, ..signal("go", json!(payload)) };
        assert_eq!(bench.signal(id, replacing).await, Ok(false));
    }

    let bench = bench.restart().await;
    let mut back = bench.resumed(1, Some((&worker, vec![]))).await;
    let a = back.assignment_while_beating().await;
    assert_eq!(bench.signal(id, one).await, Ok(true), "after a restart");
    back.complete(a.lease, "a").await;
    let c = back.assignment().await;
    assert_eq!(c.inputs.prompt, "second");
    let used = bench.signal(id, SendSignal { replace: true, ..signal("go", json!("late")) }).await;
    assert!(matches!(used, Err(Error::InvalidState(_))), "{used:?}");
    worker.commands.close();
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_in_time_also_after_a_restart_and_a_clock_that_goes_back() {
    let bench = Bench::new().await;
    let waiting = StepSource { timeout_ms: Some(60_000), ..wait("a", "go", &[]) };
    let id = bench.start(plan(vec![waiting, wait("b", "on", &[])]), Start::default()).await;
    bench.sleeps().await;
    let bench = bench.restart().await;
    assert_eq!((bench.handle.awake(), bench.handle.timer_count()), (0, 1));
    bench.wall.fetch_sub(3_600_000, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(stages(&bench.execution(id).await), [Stage::Awaiting, Stage::Awaiting]);
    bench.wall.fetch_add(3_600_000, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(stages(&bench.execution(id).await), [Stage::Failed, Stage::Awaiting]);
    assert_eq!(bench.signal(id, signal("on", Value::Null)).await, Ok(false));
    assert_eq!(bench.ended(id).await.overview.execution.status(), Phase::Failed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_signals_race_their_waits_and_each_arrives_once() {
    let bench = Bench::new().await;
    let source = plan(vec![step("a", "a", &[]), wait("b", "go", &["a"])]);
    let plan = bench.handle.create_plan(&owner(), source).await.expect("a plan").id;
    let mut worker = bench.worker(1).await;
    for round in 0..1_000_u32 {
        let begun = bench.handle.execute(&owner(), plan, Start::default(), None).await;
        let Created::Execution(execution) = begun.expect("it starts").made else { panic!("one") };
        let id = execution.head.spec.id;
        let given = worker.assignment().await;
        let handle = bench.handle.clone();
        let racing = tokio::spawn(async move {
            for _ in 0..round % 40 {
                tokio::task::yield_now().await;
            }
            let sent = signal("go", json!(round));
            handle.signal(Environment::LIVE, id, "usr_1", sent).await
        });
        for _ in 0..round % 23 {
            tokio::task::yield_now().await;
        }
        worker.link.say(WorkerMessage::Completed(given.lease, "x".into(), completion()));
        let sent = racing.await.expect("no panic").expect("it is taken");
        assert!(!sent.1, "round {round}");
        let detail = bench.ended(id).await;
        assert_eq!(detail.overview.execution.status(), Phase::Completed, "round {round}");
        assert_eq!(detail.outputs[&1], round.to_string(), "round {round}");
    }
}

/// Starts, signals and works, as far as the disk lets it; returns whether the signal was acknowledged.
async fn life(bench: &Bench, early: bool) -> bool {
    let life = async {
        let source = plan(vec![
            step("a", "a", &[]),
            wait("b", "go", &["a"]),
            step("c", "{{b.output}}", &["b"]),
        ]);
        let plan = bench.handle.create_plan(&owner(), source).await.ok()?.id;
        let made = bench.handle.execute(&owner(), plan, Start::default(), None).await.ok()?.made;
        let Created::Execution(execution) = made else { panic!("an execution") };
        let id = execution.head.spec.id;
        let mut sent = None;
        if early {
            sent = Some(bench.signal(id, signal("go", json!("payload"))).await.ok()?);
        }
        let mut worker = bench.worker(1).await;
        let given = worker.assignment_or_end().await?;
        // Its answer may be lost with the process.
        worker.link.say(WorkerMessage::Completed(given.lease, "a".into(), completion()));
        tokio::time::sleep(Duration::from_millis(50)).await;
        if !early {
            sent = Some(bench.signal(id, signal("go", json!("payload"))).await.ok()?);
        }
        sent
    };
    let lived = tokio::time::timeout(Duration::from_secs(30), life).await;
    lived.ok().flatten().is_some()
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_commit_neither_loses_nor_repeats_a_signal() {
    for early in [true, false] {
        let counted = Arc::new(MemoryStore::new());
        let store = Arc::new(FaultyStore::transparent(counted.clone()));
        assert!(life(&Bench::over(counted, store.clone()).await, early).await, "nothing fails");
        let commits = store.commits();
        for (fault, k) in
            (1..=commits).flat_map(|k| [(Fault::CrashBefore, k), (Fault::CrashAfter, k)])
        {
            let memory = Arc::new(MemoryStore::new());
            let faulty = FaultyStore::new(memory.clone(), k, fault);
            let bench = Bench::over(memory, Arc::new(faulty)).await;
            // The worker's part panics where its connection ends in the middle of an answer.
            let acknowledged = life(&bench, early).await;
            let bench = bench.restart().await;
            let page = bench
                .handle
                .executions(Environment::LIVE, &callboard_domain::query::Executions::default())
                .await;
            let page = page.expect("a list");
            let Some(found) = page.items.first() else { continue };
            let id = found.execution.head.spec.id;
            let again = bench.signal(id, signal("go", json!("payload"))).await;
            assert!(!acknowledged || again.is_err(), "{fault:?} at {k}: the signal was lost");
            let mut worker = bench.worker(1).await;
            let detail = loop {
                if bench.execution(id).await.overview.execution.status() != Phase::Running {
                    break bench.execution(id).await;
                }
                let next = tokio::time::timeout(Duration::from_secs(1), worker.assignment());
                match next.await {
                    Ok(given) => {
                        let prompt = given.inputs.prompt.clone();
                        worker.complete(given.lease, &prompt).await;
                    }
                    Err(_) => worker.link.say(WorkerMessage::Heartbeat(vec![], vec![])),
                }
            };
            assert_eq!(detail.overview.execution.status(), Phase::Completed, "{fault:?} at {k}");
            assert_eq!(detail.outputs[&2], "payload", "{fault:?} at {k}");
            bench.system.stop().await;
        }
    }
}
