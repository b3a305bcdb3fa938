//! Executions on the memory store: steps follow each other, crashes lose nothing, a cancel is final.

use std::collections::HashMap;
use std::sync::Mutex;

use callboard_domain::Error;
use callboard_domain::access::Role;
use callboard_domain::budget::Money;
use callboard_domain::execution::{Stage, Status as Phase};
use callboard_domain::id::ExecutionId;
use callboard_domain::plan::{PlanSource, StepSource};
use callboard_domain::query::Executions;
use callboard_domain::template::Caller;
use serde_json::json;

use super::*;
use crate::handle::{Deploy, Start};
use crate::items::submission::{Created, Options};
use crate::read::runs::ExecutionDetail;

/// A step that says its name and repeats the outputs of its dependencies.
pub(super) fn step(id: &str, depends_on: &[&str]) -> StepSource {
    let outputs: Vec<_> = depends_on.iter().map(|id| format!("{{{{{id}.output}}}}")).collect();
    StepSource {
        id: id.into(),
        prompt: format!("{id}({})", outputs.join(",")),
        depends_on: depends_on.iter().map(|id| (*id).to_owned()).collect(),
        ..StepSource::default()
    }
}

pub(super) fn plan(steps: Vec<StepSource>) -> PlanSource {
    PlanSource { name: "p".into(), steps, ..PlanSource::default() }
}

/// a before b and c, both before d.
pub(super) fn diamond() -> PlanSource {
    plan(vec![step("a", &[]), step("b", &["a"]), step("c", &["a"]), step("d", &["b", "c"])])
}

impl Bench {
    pub(super) async fn start(&self, source: PlanSource, start: Start) -> ExecutionId {
        let plan = self.handle.create_plan(&owner(), source).await.expect("a plan").id;
        let begun = self.handle.execute(&owner(), plan, start, None).await.expect("it starts");
        let Created::Execution(execution) = begun.made else { panic!("an execution") };
        execution.head.spec.id
    }

    pub(super) async fn execution(&self, id: ExecutionId) -> ExecutionDetail {
        self.handle.execution(Environment::LIVE, id).await.expect("it is there")
    }

    pub(super) async fn ended(&self, id: ExecutionId) -> ExecutionDetail {
        let ended = async {
            let pauses = Pauses::begin();
            loop {
                let overview = self.handle.overview(Environment::LIVE, id).await;
                if overview.expect("it is there").execution.status() != Phase::Running {
                    return self.execution(id).await;
                }
                pauses.one().await;
            }
        };
        let patience = Duration::from_mins(2);
        if let Ok(detail) = tokio::time::timeout(patience, ended).await {
            return detail;
        }
        panic!("it does not end: {:?}", stages(&self.execution(id).await))
    }
}

pub(super) fn stages(detail: &ExecutionDetail) -> Vec<Stage> {
    detail.overview.execution.steps().map(|(_, step)| step.stage).collect()
}

/// How often the answer of a step was acknowledged as applied.
type Applied = Arc<Mutex<HashMap<String, usize>>>;

/// Answers every task with its own prompt, and gives a sign of life, until the connection ends.
async fn echo(mut worker: Worker, applied: Applied) {
    let mut given = HashMap::new();
    loop {
        let command =
            match tokio::time::timeout(Duration::from_secs(5), worker.commands.recv()).await {
                Ok(Some(command)) => command,
                Ok(None) => break,
                Err(_) => {
                    worker.link.say(WorkerMessage::Heartbeat(vec![], vec![]));
                    continue;
                }
            };
        match command {
            WorkerCommand::Assign(assignment) => {
                let prompt = assignment.inputs.prompt.clone();
                given.insert(assignment.lease, prompt.clone());
                worker.link.say(WorkerMessage::Completed(
                    assignment.lease,
                    prompt.into(),
                    completion(),
                ));
            }
            WorkerCommand::Ack(lease, _, AckResult::Applied) => {
                let step = given[&lease].split('(').next().unwrap_or_default().to_owned();
                *applied.lock().expect("no panic").entry(step).or_default() += 1;
            }
            WorkerCommand::Ack(..)
            | WorkerCommand::Leases(..)
            | WorkerCommand::Cancel(..)
            | WorkerCommand::Drain(_) => {}
            WorkerCommand::Close => break,
        }
    }
}

#[tokio::test]
async fn outputs_flow_from_step_to_step_and_all_actors_go_to_sleep() {
    let bench = Bench::new().await;
    tokio::spawn(echo(bench.worker(2).await, Applied::default()));
    let id = bench.start(diamond(), Start::default()).await;
    let detail = bench.ended(id).await;
    assert_eq!(detail.overview.execution.status(), Phase::Completed);
    assert_eq!(detail.outputs[&3], "d(b(a()),c(a()))");
    assert_eq!((detail.overview.progress.completed, detail.overview.progress.total), (4, 4));
    while bench.handle.awake() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn what_looks_like_a_placeholder_in_an_output_arrives_as_text() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let source = plan(vec![step("a", &[]), step("b", &["a"])]);
    bench.start(source, Start::default()).await;
    let evil = "{{input.secret}} {{env.HOME}} {{b.output}} {{a.output}}";
    let first = worker.assignment().await;
    worker.complete(first.lease, evil).await;
    assert_eq!(worker.assignment().await.inputs.prompt, format!("b({evil})"));
}

#[tokio::test]
async fn a_false_condition_skips_a_step_and_what_follows_goes_on() {
    let bench = Bench::new().await;
    tokio::spawn(echo(bench.worker(1).await, Applied::default()));
    let condition = Some("input.deep == true".to_owned());
    let maybe = StepSource { condition, ..step("b", &["a"]) };
    let source = plan(vec![step("a", &[]), maybe, step("c", &["b"])]);
    let input = json!({"deep": false}).as_object().cloned().expect("an object");
    let id = bench.start(source, Start { input, ..Start::default() }).await;
    let detail = bench.ended(id).await;
    assert_eq!(stages(&detail), [Stage::Completed, Stage::Skipped, Stage::Completed]);
    assert_eq!(detail.outputs[&2], "c()");
}

#[tokio::test]
async fn a_failed_step_cancels_what_stands_behind_it_and_a_retry_runs_only_that() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let id = bench.start(plan(vec![step("a", &[]), step("b", &["a"])]), Start::default()).await;
    let lease = worker.assignment().await.lease;
    worker.link.say(WorkerMessage::Failed(lease, failure(false)));
    let detail = bench.ended(id).await;
    assert_eq!(stages(&detail), [Stage::Failed, Stage::Cancelled]);
    bench.handle.retry_execution(Environment::LIVE, id).await.expect("it failed");
    tokio::spawn(echo(bench.resumed(1, Some((&worker, vec![]))).await, Applied::default()));
    let detail = bench.ended(id).await;
    assert_eq!(detail.outputs[&1], "b(a())");
    let again = bench.handle.retry_execution(Environment::LIVE, id).await;
    assert!(again.is_err(), "it is completed");
}

#[tokio::test(start_paused = true)]
async fn an_execution_that_takes_too_long_fails_and_its_tasks_stop() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let options = Options { timeout_ms: Some(5_000), ..Options::default() };
    let id = bench.start(diamond(), Start { options, ..Start::default() }).await;
    let given = worker.assignment().await;
    let Some(WorkerCommand::Cancel(lease, _)) = worker.commands.recv().await else {
        panic!("a cancel frame")
    };
    assert_eq!(lease, given.lease);
    let detail = bench.ended(id).await;
    assert_eq!(detail.overview.execution.status(), Phase::Failed);
    assert_eq!(bench.task(given.task.spec.id).await.status(), Status::Cancelled);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_acknowledged_cancel_no_step_is_given_out() {
    let names: Vec<_> = (0..20).map(|n| format!("s{n}")).collect();
    let wide: Vec<_> = names.iter().map(|name| step(name, &["a"])).collect();
    let source = plan([vec![step("a", &[])], wide].concat());
    let bench = Bench::new().await;
    let mut worker = bench.worker(20).await;
    for round in 0..250 {
        let id = bench.start(source.clone(), Start::default()).await;
        let given = worker.assignment().await;
        worker.link.say(WorkerMessage::Completed(given.lease, "x".into(), completion()));
        // Twenty steps are on their way out when the cancel comes.
        for _ in 0..round % 50 {
            tokio::task::yield_now().await;
        }
        bench.handle.cancel_execution(Environment::LIVE, id).await.expect("it runs");
        // The assignments from before the answer stand in line before it.
        while worker.commands.try_recv().is_ok() {}
        let next = bench.submit(request()).await;
        let given = worker.assignment().await;
        assert_eq!(given.task.spec.id, next, "round {round}");
        worker.link.say(WorkerMessage::Completed(given.lease, "x".into(), completion()));
        bench.until(next, |task| task.status() == Status::Completed).await;
        let open = |stage: &Stage| matches!(stage, Stage::Waiting | Stage::Ready);
        assert!(!stages(&bench.execution(id).await).iter().any(open));
    }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_executions_wait_as_rows() {
    let bench = Bench::new().await;
    let plan = bench.handle.create_plan(&owner(), diamond()).await.expect("a plan").id;
    for _ in 0..10_000 {
        bench.handle.execute(&owner(), plan, Start::default(), None).await.expect("it starts");
    }
    let page = bench.handle.executions(Environment::LIVE, &Executions::default()).await;
    assert_eq!((page.expect("a list").total, bench.handle.awake()), (10_000, 0));
}

#[tokio::test]
async fn an_output_that_does_not_match_its_schema_is_asked_for_once_more() {
    let template = json!({
        "name": "Rated", "version": "1.0.0", "industry": "custom",
        "input_schema": {"type": "object"},
        "output_schema": {"type": "object", "required": ["score"]},
        "steps": [{"id": "rate", "prompt": "Rate it."}],
    });
    let source = serde_json::from_value(template).expect("a template");
    let bench = Bench::new().await;
    let (account, name) = ("usr_ada".to_owned(), "ada@example.com".to_owned());
    let author = crate::items::catalog::Author { account, name, role: Role::Admin };
    bench.handle.publish(Environment::LIVE, author, source).await.expect("it is valid");
    let caller = Caller { account: "usr_ada", role: Role::Admin };
    let mut worker = bench.worker(1).await;
    for second in [r#"{"score": 1}"#, "no idea"] {
        let (owner, deploy) = (owner(), Deploy::default());
        let deployed = bench.handle.deploy(&owner, caller, "rated-v1", deploy, None).await;
        let Created::Execution(execution) = deployed.expect("it starts").made else {
            panic!("an execution")
        };
        let first = worker.assignment().await;
        worker.complete(first.lease, "no idea").await;
        let again = worker.assignment().await;
        assert!(again.inputs.prompt.starts_with("Rate it.\n\nYour previous answer"));
        worker.complete(again.lease, second).await;
        let detail = bench.ended(execution.head.spec.id).await;
        let error = detail.overview.execution.head.error.as_ref().map(|cause| cause.ending.code);
        match second {
            "no idea" => assert_eq!(error, Some(EndingCode::OutputInvalid)),
            right => assert_eq!((error, detail.outputs[&0].as_str()), (None, right)),
        }
        assert_eq!(bench.task(first.task.spec.id).await.status(), Status::Failed);
    }
}

#[tokio::test]
async fn what_no_first_step_can_afford_is_not_started() {
    let bench = Bench::new().await;
    let plan = bench.handle.create_plan(&owner(), diamond()).await.expect("a plan").id;
    let options = Options { max_cost: Some(Money::from_usd(0.01)), ..Options::default() };
    let start = Start { options, ..Start::default() };
    // The model has no price, so that no cap can be promised.
    let refused = bench.handle.execute(&owner(), plan, start, None).await;
    assert!(matches!(refused, Err(Error::BudgetExceeded(_))), "{refused:?}");
    let page = bench.handle.executions(Environment::LIVE, &Executions::default()).await;
    assert_eq!(page.expect("a list").total, 0);
}

#[tokio::test]
async fn five_hundred_steps_run() {
    let bench = Bench::new().await;
    tokio::spawn(echo(bench.worker(50).await, Applied::default()));
    let names: Vec<_> = (0..499).map(|n| format!("s{n}")).collect();
    let mut steps: Vec<_> = names.iter().map(|name| step(name, &[])).collect();
    let all: Vec<_> = names.iter().map(String::as_str).collect();
    steps.push(step("join", &all));
    let id = bench.start(plan(steps), Start::default()).await;
    let detail = bench.ended(id).await;
    assert_eq!(detail.overview.progress.completed, 500);
    assert!(detail.outputs[&499].starts_with("join(s0(),s1(),"));
}

/// The life of a diamond; `None` if the process died under it.
async fn a_diamond(
    bench: &Bench,
    begun: &mut Option<ExecutionId>,
    applied: Applied,
) -> Option<ExecutionId> {
    let life = async {
        let plan = bench.handle.create_plan(&owner(), diamond()).await.ok()?.id;
        let made = bench.handle.execute(&owner(), plan, Start::default(), None).await.ok()?.made;
        let Created::Execution(execution) = made else { panic!("an execution") };
        let id = execution.head.spec.id;
        *begun = Some(id);
        tokio::spawn(echo(bench.worker(1).await, applied));
        let pauses = Pauses::begin();
        loop {
            let overview = bench.handle.overview(Environment::LIVE, id).await.ok()?;
            if overview.execution.status() == Phase::Completed {
                return Some(id);
            }
            pauses.one().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), life).await.ok().flatten()
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_commit_of_an_execution_applies_each_output_once() {
    let counted = Arc::new(MemoryStore::new());
    let store = Arc::new(FaultyStore::transparent(counted.clone()));
    let bench = Bench::over(counted, store.clone()).await;
    a_diamond(&bench, &mut None, Applied::default()).await.expect("nothing fails");
    let commits = store.commits();
    assert!(commits >= 10, "{commits}");

    for fault in [Fault::CrashBefore, Fault::CrashAfter] {
        for k in 1..=commits {
            let memory = Arc::new(MemoryStore::new());
            let faulty = FaultyStore::new(memory.clone(), k, fault);
            let bench = Bench::over(memory, Arc::new(faulty)).await;
            let (mut begun, acknowledged) = (None, Applied::default());
            a_diamond(&bench, &mut begun, Arc::clone(&acknowledged)).await;

            let bench = bench.restart().await;
            let page = bench.handle.executions(Environment::LIVE, &Executions::default()).await;
            let there: Vec<_> =
                page.expect("a list").items.iter().map(|one| one.execution.head.spec.id).collect();
            assert!(begun.is_none_or(|id| there == [id]), "{fault:?} at {k}");
            let Some(id) = there.first() else { continue };
            let before = bench.execution(*id).await;
            let done = before.outputs.texts().len();
            for step in acknowledged.lock().expect("no panic").keys() {
                let number = u16::try_from("abcd".find(step).expect("a step")).expect("small");
                assert!(
                    before.outputs.texts().contains_key(&number),
                    "{fault:?} at {k}: {step} is lost"
                );
            }
            let applied = Applied::default();
            let worker = tokio::spawn(echo(bench.worker(1).await, Arc::clone(&applied)));
            let detail = bench.ended(*id).await;
            assert_eq!(detail.overview.execution.status(), Phase::Completed, "{fault:?} at {k}");
            assert_eq!(detail.outputs[&3], "d(b(a()),c(a()))", "{fault:?} at {k}");
            bench.system.drain();
            worker.await.expect("it ends");
            let applied = applied.lock().expect("no panic").clone();
            assert!(applied.values().all(|times| *times == 1), "{fault:?} at {k}: {applied:?}");
            assert_eq!(applied.len() + done, 4, "{fault:?} at {k}");
            bench.system.stop().await;
        }
    }
}

/// Each step renders a megabyte, so several units decide them.
fn wide(steps: usize) -> (PlanSource, Start) {
    let step = |number: usize| StepSource {
        id: format!("s{number}"),
        prompt: "{{input.x}}".into(),
        ..StepSource::default()
    };
    let input = json!({"x": "x".repeat(1 << 20)});
    let start = Start { input: input.as_object().cloned().expect("an object"), ..Start::default() };
    (plan((0..steps).map(step).collect()), start)
}

async fn all_dispatched(bench: &Bench, id: ExecutionId) {
    let pauses = Pauses::begin();
    while !stages(&bench.execution(id).await).iter().all(|stage| *stage == Stage::Dispatched) {
        pauses.one().await;
    }
}

#[tokio::test]
async fn steps_that_one_commit_has_no_room_for_follow_in_later_ones() {
    let bench = Bench::new().await;
    let (plan, start) = wide(40);
    let id = bench.start(plan, start).await;
    let first = stages(&bench.execution(id).await);
    let out = first.iter().filter(|stage| **stage == Stage::Dispatched).count();
    assert!((1..40).contains(&out), "{out} in the first commits");
    all_dispatched(&bench, id).await;
}

#[tokio::test]
async fn a_crash_between_the_commits_of_a_wide_start_leaves_no_step_behind() {
    for steps in [12, 40] {
        let bench = Bench::new().await;
        let (plan, start) = wide(steps);
        let id = bench.start(plan, start).await;
        let bench = bench.restart().await;
        all_dispatched(&bench, id).await;
    }
}

#[tokio::test]
async fn a_condition_that_takes_long_is_evaluated_elsewhere_and_in_order() {
    let bench = Bench::new().await;
    let (_, start) = wide(0);
    let slow = |id: &str, depends_on: &[&str]| StepSource {
        condition: Some("[1, 2, 3].exists(n, input.x.contains('xxxxxxxy'))".into()),
        ..step(id, depends_on)
    };
    let source = plan(vec![slow("a", &[]), slow("b", &["a"]), step("c", &["b"])]);
    let id = bench.start(source, start).await;
    let found = stages(&bench.execution(id).await);
    assert_eq!(found, [Stage::Skipped, Stage::Skipped, Stage::Dispatched]);
}

#[tokio::test(start_paused = true)]
async fn an_execution_whose_texts_are_being_erased_is_there() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let id = bench.start(plan(vec![step("a", &[])]), Start::default()).await;
    let given = worker.assignment().await;
    worker.link.say(WorkerMessage::Failed(given.lease, failure(false)));
    bench.ended(id).await;
    let pauses = Pauses::begin();
    while bench.handle.awake() > 0 {
        pauses.one().await;
    }
    let (erased, retried) = tokio::join!(
        bench.handle.erase_texts(Environment::LIVE, given.task.spec.id),
        bench.handle.retry_execution(Environment::LIVE, id),
    );
    erased.expect("it has ended");
    retried.expect("it is there");
}
