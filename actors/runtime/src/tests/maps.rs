//! Steps with a list: one task for each item, in bounded commits, and nothing lost by a crash.

use std::collections::BTreeMap;
use std::sync::Mutex;

use callboard_domain::execution::{ItemCounts, ItemStatus, Stage, Status as Phase};
use callboard_domain::id::ExecutionId;
use callboard_domain::plan::{MapSource, OnItemError, PlanSource, StepSource};
use callboard_domain::query::{Executions, Items, Window};
use serde_json::{Value, json};

use super::executions::stages;
use super::*;
use crate::handle::Start;
use crate::items::submission::Created;
use crate::observers::events::{StreamItem, Transient};
use crate::read::items::{ItemDetail, ItemPage};
use crate::tables::Subject;

/// A step over the input's docs, and a report of all of them.
pub(super) fn source(map: MapSource) -> PlanSource {
    let each = StepSource {
        id: "each".into(),
        prompt: "read {{item.name}}".into(),
        map: MapSource { for_each: Some("{{input.docs}}".into()), max_items: Some(1_000), ..map },
        ..StepSource::default()
    };
    let report = StepSource {
        id: "report".into(),
        prompt: "report {{each.output}}".into(),
        depends_on: vec!["each".into()],
        ..StepSource::default()
    };
    PlanSource { name: "p".into(), steps: vec![each, report], ..PlanSource::default() }
}

pub(super) fn over(docs: usize) -> Start {
    let docs: Vec<Value> = (0..docs).map(|n| json!({"name": format!("d{n}")})).collect();
    let input = json!({"docs": docs}).as_object().cloned().expect("an object");
    Start { input, ..Start::default() }
}

/// How often a prompt's answer was acknowledged as applied.
type Applied = Arc<Mutex<BTreeMap<String, usize>>>;

/// The answer of `read dN` is `{"n":"dN"}`, of all else the prompt.
fn answer(prompt: &str) -> String {
    let name = prompt.strip_prefix("read ");
    name.map_or_else(|| prompt.to_owned(), |name| json!({"n": name}).to_string())
}

/// Answers what it is given; prompts with `bad` fail for good.
async fn reader(mut worker: Worker, bad: Option<&'static str>, applied: Applied) {
    let mut given = BTreeMap::new();
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
                given.insert(assignment.lease.to_string(), prompt.clone());
                let lease = assignment.lease;
                if bad.is_some_and(|bad| prompt == bad) {
                    worker.link.say(WorkerMessage::Failed(lease, failure(false)));
                    continue;
                }
                worker.link.say(WorkerMessage::Completed(
                    lease,
                    answer(&prompt).into(),
                    completion(),
                ));
            }
            WorkerCommand::Ack(lease, _, AckResult::Applied) => {
                let prompt = given[&lease.to_string()].clone();
                *applied.lock().expect("no panic").entry(prompt).or_default() += 1;
            }
            WorkerCommand::Ack(..)
            | WorkerCommand::Leases(..)
            | WorkerCommand::Cancel(..)
            | WorkerCommand::Drain(_) => {}
            WorkerCommand::Close => break,
        }
    }
}

fn done(docs: impl IntoIterator<Item = usize>) -> String {
    let one = |doc: usize| json!({"n": format!("d{doc}")});
    Value::Array(docs.into_iter().map(one).collect()).to_string()
}

impl Bench {
    async fn page(&self, id: ExecutionId, statuses: Vec<ItemStatus>) -> ItemPage {
        let query = Items { statuses, window: Window { limit: 1_000, offset: 0 } };
        let page = self.handle.execution_items(Environment::LIVE, id, "each", &query).await;
        page.expect("a list")
    }

    async fn items(&self, id: ExecutionId, statuses: Vec<ItemStatus>) -> Vec<ItemDetail> {
        self.page(id, statuses).await.items
    }
}

#[tokio::test]
async fn the_outputs_of_the_items_are_the_output_of_the_step_in_order() {
    let bench = Bench::new().await;
    let subscribed = bench.handle.subscribe(Environment::LIVE, None, Transient::default()).await;
    let mut events = subscribed.expect("the store answers");
    tokio::spawn(reader(bench.worker(2).await, None, Applied::default()));
    let id = bench.start(source(MapSource::default()), over(4)).await;
    let detail = bench.ended(id).await;
    assert_eq!(detail.overview.execution.status(), Phase::Completed);
    assert_eq!(detail.outputs[&0], done(0..4));
    assert_eq!(detail.outputs[&1], format!("report {}", done(0..4)));
    let all = ItemCounts { total: 4, completed: 4, ..ItemCounts::default() };
    assert_eq!(detail.items[&0], all);
    let ItemPage { items, outputs, .. } = bench.page(id, vec![]).await;
    let shown: Vec<_> = items.iter().map(|item| &*outputs[&item.number]).collect();
    let expected: Vec<_> = (0..4).map(|n| format!(r#"{{"n":"d{n}"}}"#)).collect();
    assert_eq!(shown, expected);
    let task = bench.task(items[3].row.task.expect("it ran")).await;
    assert_eq!(task.spec.origin.item, Some(3));
    let mut logged = Vec::new();
    while let Ok(Some(item)) = events.next().await {
        let StreamItem::Stored(_, event) = &item else { continue };
        if let Subject::Step(_, step, item) = &event.subject {
            logged.push((event.event.to_string(), step.clone(), *item));
        }
        if event.event == "execution.completed" {
            break;
        }
    }
    let mut of_items: Vec<_> =
        logged.iter().filter_map(|(name, _, item)| Some((name.as_str(), (*item)?))).collect();
    of_items.sort_unstable();
    assert_eq!(of_items, (0..4).map(|item| ("step.completed", item)).collect::<Vec<_>>());
    let whole: Vec<_> =
        logged.iter().filter(|(_, _, item)| item.is_none()).map(|(_, step, _)| &**step).collect();
    assert_eq!(whole, ["each", "report"]);
}

#[tokio::test]
async fn a_failed_item_leaves_null_where_that_is_tolerated() {
    let bench = Bench::new().await;
    let worker = bench.worker(2).await;
    tokio::spawn(reader(worker, Some("read d1"), Applied::default()));
    let on_item_error = Some(OnItemError::Skip);
    let id =
        bench.start(source(MapSource { on_item_error, ..MapSource::default() }), over(3)).await;
    let detail = bench.ended(id).await;
    assert_eq!(detail.overview.execution.status(), Phase::Completed);
    assert_eq!(detail.outputs[&0], r#"[{"n":"d0"},null,{"n":"d2"}]"#);
    let failed = bench.items(id, vec![ItemStatus::Failed]).await;
    assert_eq!(failed.iter().map(|item| item.number).collect::<Vec<_>>(), [1]);
    assert!(failed[0].row.error.is_some());
}

#[tokio::test]
async fn a_retry_runs_the_items_again_that_did_not_complete() {
    let bench = Bench::new().await;
    let first = Applied::default();
    let worker = tokio::spawn(reader(bench.worker(1).await, Some("read d2"), Arc::clone(&first)));
    let map = MapSource { concurrency: Some(1), ..MapSource::default() };
    let id = bench.start(source(map), over(5)).await;
    let detail = bench.ended(id).await;
    assert_eq!(stages(&detail), [Stage::Failed, Stage::Cancelled]);
    let error = detail.overview.execution.head.error.clone().expect("a reason");
    assert!(error.ending.message.starts_with("item 2: "), "{error:?}");
    let counts =
        ItemCounts { total: 5, completed: 2, failed: 1, cancelled: 2, ..ItemCounts::default() };
    assert_eq!(detail.items[&0], counts);
    worker.abort();
    bench.handle.retry_execution(Environment::LIVE, id).await.expect("it has failed");
    let second = Applied::default();
    tokio::spawn(reader(bench.worker(1).await, None, Arc::clone(&second)));
    let detail = bench.ended(id).await;
    assert_eq!(
        (detail.overview.execution.status(), &*detail.outputs[&0]),
        (Phase::Completed, &*done(0..5))
    );
    let again = second.lock().expect("no panic").clone();
    assert!(!again.contains_key("read d0") && !again.contains_key("read d1"), "{again:?}");
}

#[tokio::test]
async fn a_cancel_stops_all_items_and_none_is_begun_after_it() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(3).await;
    let map = MapSource { concurrency: Some(5), ..MapSource::default() };
    let id = bench.start(source(map), over(20)).await;
    let first = worker.assignment().await;
    worker.complete(first.lease, "x").await;
    bench.handle.cancel_execution(Environment::LIVE, id).await.expect("it runs");
    let detail = bench.execution(id).await;
    assert_eq!(stages(&detail), [Stage::Cancelled, Stage::Cancelled]);
    let counts = ItemCounts { total: 20, completed: 1, cancelled: 19, ..ItemCounts::default() };
    assert_eq!(detail.items[&0], counts);
    assert_eq!(bench.items(id, vec![ItemStatus::Cancelled]).await.len(), 19);
    while worker.commands.try_recv().is_ok() {}
    let next = bench.submit(request()).await;
    assert_eq!(worker.assignment().await.task.spec.id, next);
}

#[tokio::test]
async fn what_is_no_list_fails_the_step() {
    let bench = Bench::new().await;
    let input = json!({"docs": "one"}).as_object().cloned().expect("an object");
    let start = Start { input, ..Start::default() };
    let id = bench.start(source(MapSource::default()), start).await;
    let error = bench.ended(id).await.overview.execution.head.error.clone().expect("a reason");
    assert_eq!(error.ending.message, "forEach: {{input.docs}} is a string, not a list");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_items_run_over_restarts_and_each_answer_counts_once() {
    let bench = Bench::new().await;
    let id = bench.start(source(MapSource::default()), over(1_000)).await;
    let (mut bench, mut all) = (bench, BTreeMap::new());
    for part in 1..=4_usize {
        let applied = Applied::default();
        let worker = tokio::spawn(reader(bench.worker(50).await, None, Arc::clone(&applied)));
        let pauses = Pauses::begin();
        while bench.execution(id).await.items[&0].completed
            < u32::try_from(250 * part).expect("small")
        {
            pauses.one().await;
        }
        if part == 4 {
            let detail = bench.ended(id).await;
            assert_eq!(detail.outputs[&0], done(0..1_000));
        }
        bench.system.drain();
        bench = bench.restart().await;
        worker.await.expect("it ends");
        for (prompt, times) in applied.lock().expect("no panic").iter() {
            *all.entry(prompt.clone()).or_insert(0) += times;
        }
    }
    let detail = bench.execution(id).await;
    assert_eq!(
        (detail.overview.execution.status(), &*detail.outputs[&0]),
        (Phase::Completed, &*done(0..1_000))
    );
    assert!(all.values().all(|times| *times == 1), "{all:?}");
}

/// The life of a small map; `None` if the process died under it.
async fn a_map(
    bench: &Bench,
    begun: &mut Option<ExecutionId>,
    applied: Applied,
) -> Option<ExecutionId> {
    let life = async {
        let map = MapSource { concurrency: Some(2), ..MapSource::default() };
        let plan = bench.handle.create_plan(&owner(), source(map)).await.ok()?.id;
        let made = bench.handle.execute(&owner(), plan, over(3), None).await.ok()?.made;
        let Created::Execution(execution) = made else { panic!("an execution") };
        let id = execution.head.spec.id;
        *begun = Some(id);
        tokio::spawn(reader(bench.worker(2).await, None, applied));
        let pauses = Pauses::begin();
        loop {
            let overview = bench.handle.overview(Environment::LIVE, id).await.ok()?;
            if overview.execution.status() == Phase::Completed {
                return Some(id);
            }
            pauses.one().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), life).await.ok().flatten()
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_commit_of_a_map_applies_each_output_once() {
    let counted = Arc::new(MemoryStore::new());
    let store = Arc::new(FaultyStore::transparent(counted.clone()));
    let bench = Bench::over(counted, store.clone()).await;
    a_map(&bench, &mut None, Applied::default()).await.expect("nothing fails");
    let commits = store.commits();
    assert!(commits >= 10, "{commits}");

    for fault in [Fault::CrashBefore, Fault::CrashAfter] {
        for k in 1..=commits {
            let memory = Arc::new(MemoryStore::new());
            let faulty = FaultyStore::new(memory.clone(), k, fault);
            let bench = Bench::over(memory, Arc::new(faulty)).await;
            let (mut begun, acknowledged) = (None, Applied::default());
            a_map(&bench, &mut begun, Arc::clone(&acknowledged)).await;

            let bench = bench.restart().await;
            let page = bench.handle.executions(Environment::LIVE, &Executions::default()).await;
            let there: Vec<_> =
                page.expect("a list").items.iter().map(|one| one.execution.head.spec.id).collect();
            assert!(begun.is_none_or(|id| there == [id]), "{fault:?} at {k}");
            let Some(id) = there.first() else { continue };
            let before = bench.items(*id, vec![ItemStatus::Completed]).await;
            let kept: Vec<_> = before.iter().map(|item| format!("read d{}", item.number)).collect();
            for prompt in acknowledged.lock().expect("no panic").keys() {
                let is_kept = prompt.starts_with("report") || kept.contains(prompt);
                assert!(is_kept, "{fault:?} at {k}: {prompt} is lost");
            }
            let applied = Applied::default();
            let worker = tokio::spawn(reader(bench.worker(2).await, None, Arc::clone(&applied)));
            let detail = bench.ended(*id).await;
            assert_eq!(detail.overview.execution.status(), Phase::Completed, "{fault:?} at {k}");
            assert_eq!(detail.outputs[&0], done(0..3), "{fault:?} at {k}");
            let report = format!("report {}", done(0..3));
            assert_eq!(detail.outputs[&1], report, "{fault:?} at {k}");
            bench.system.drain();
            worker.await.expect("it ends");
            let applied = applied.lock().expect("no panic").clone();
            assert!(applied.values().all(|times| *times == 1), "{fault:?} at {k}: {applied:?}");
            assert!(kept.iter().all(|prompt| !applied.contains_key(prompt)), "{fault:?} at {k}");
            bench.system.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_loses_no_order_to_stop_the_other_items_of_a_step_that_failed() {
    let beside = || StepSource { id: "beside".into(), prompt: "b".into(), ..StepSource::default() };
    let failing = || {
        let map = MapSource { on_item_error: Some(OnItemError::Fail), ..MapSource::default() };
        let PlanSource { steps, .. } = source(map);
        let steps = steps.into_iter().take(1).chain([beside()]).collect();
        PlanSource { name: "p".into(), steps, ..PlanSource::default() }
    };
    let life = async |bench: &Bench| {
        let plan = bench.handle.create_plan(&owner(), failing()).await.ok()?.id;
        bench.handle.execute(&owner(), plan, over(3), None).await.ok()?;
        let mut worker = bench.worker(4).await;
        loop {
            // The connection ends with the crash.
            let WorkerCommand::Assign(assigned) = worker.commands.recv().await? else { continue };
            if assigned.inputs.prompt == "read d0" {
                worker.link.say(WorkerMessage::Failed(assigned.lease, failure(false)));
                tokio::time::sleep(Duration::from_secs(2)).await;
                return Some(());
            }
        }
    };
    let counted = Arc::new(MemoryStore::new());
    let store = Arc::new(FaultyStore::transparent(counted.clone()));
    let bench = Bench::over(counted, store.clone()).await;
    life(&bench).await.expect("nothing fails");
    let (commits, mut failed) = (store.commits(), 0);

    for k in 1..=commits {
        let memory = Arc::new(MemoryStore::new());
        let faulty = FaultyStore::new(memory.clone(), k, Fault::CrashAfter);
        let bench = Bench::over(memory, Arc::new(faulty)).await;
        let _ = tokio::time::timeout(Duration::from_secs(20), life(&bench)).await;
        let bench = bench.restart().await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let page = bench.handle.executions(Environment::LIVE, &Executions::default()).await;
        let there = page.expect("a list").items;
        let Some(id) = there.first().map(|one| one.execution.head.spec.id) else { continue };
        if bench.items(id, vec![ItemStatus::Failed]).await.is_empty() {
            continue;
        }
        failed += 1;
        let open = vec![Status::Pending, Status::Running];
        let window = Window { limit: 100, offset: 0 };
        let open = Tasks { statuses: open, window, ..Tasks::default() };
        let open = bench.handle.tasks(Environment::LIVE, &open).await.expect("a list").items;
        let steps: Vec<_> = open.iter().map(|task| task.spec.origin.step.clone()).collect();
        assert_eq!(open.len(), 1, "at {k} of {commits}: {steps:?}");
    }
    assert!(failed > 1, "{failed}");
}

/// The worker resumes after each crash, and sends its results again until they are acknowledged.
#[tokio::test(start_paused = true)]
async fn a_thousand_items_end_though_the_process_crashes_at_commit_after_commit() {
    // In the long form at every twelfth commit on average, else at every eightieth.
    let spread = if std::env::var_os("CALLBOARD_LONG").is_some() { 20 } else { 150 };
    let mut bench = Bench::new().await;
    let id = bench.start(source(MapSource::default()), over(1_000)).await;
    let mut worker = bench.worker(50).await;
    let mut open: Vec<(LeaseToken, String)> = Vec::new();
    let (mut counted, mut crashes) = (BTreeMap::<String, usize>::new(), 0_u64);
    loop {
        bench.system.stop().await;
        let store = Arc::new(bench.store.reopen());
        let fault = if crashes % 2 == 0 { Fault::CrashBefore } else { Fault::CrashAfter };
        let faulty = Arc::new(FaultyStore::new(store.clone(), 3 + crashes * 37 % spread, fault));
        bench = Bench::at((bench.started, bench.wall), settings(), store, faulty.clone()).await;
        let leases = open.iter().map(|(lease, _)| *lease).collect();
        worker = bench.resumed(50, Some((&worker, leases))).await;
        open.retain(|(lease, _)| worker.kept.contains(lease));
        for (lease, prompt) in &open {
            worker.link.say(WorkerMessage::Completed(*lease, answer(prompt).into(), completion()));
        }
        let is_over = loop {
            if faulty.has_failed() {
                break false;
            }
            match tokio::time::timeout(Duration::from_secs(1), worker.commands.recv()).await {
                Ok(Some(WorkerCommand::Assign(assignment))) => {
                    let (lease, prompt) = (assignment.lease, assignment.inputs.prompt);
                    assert!(!counted.contains_key(&prompt), "{prompt} again, after {crashes}");
                    worker.link.say(WorkerMessage::Completed(
                        lease,
                        answer(&prompt).into(),
                        completion(),
                    ));
                    open.push((lease, prompt));
                }
                Ok(Some(WorkerCommand::Ack(lease, _, result))) => {
                    let at = open.iter().position(|(of, _)| *of == lease).expect("it was sent");
                    let (_, prompt) = open.swap_remove(at);
                    // A crash may take the acknowledgement of a durable result with it.
                    assert_ne!(result, AckResult::Stale, "{prompt}, after {crashes}");
                    *counted.entry(prompt).or_default() += 1;
                }
                Ok(Some(_)) => {}
                Ok(None) => break false,
                Err(_) => {
                    worker.link.say(WorkerMessage::Heartbeat(vec![], vec![]));
                    let overview = bench.handle.overview(Environment::LIVE, id).await;
                    if overview.is_ok_and(|it| it.execution.status() == Phase::Completed) {
                        break true;
                    }
                }
            }
        };
        if is_over {
            break;
        }
        crashes += 1;
    }
    let bench = bench.restart().await;
    let detail = bench.execution(id).await;
    assert_eq!(detail.overview.execution.status(), Phase::Completed);
    assert_eq!(detail.outputs[&0], done(0..1_000));
    assert!(counted.values().all(|times| *times == 1), "{counted:?}");
    println!("{crashes} crashes");
    assert!(crashes >= 15, "{crashes}");
}
