//! Approvals on the memory store: one decision wins, gates never mix, timers fire once, crashes lose
//! nothing.

use callboard_domain::approval::{Action, Approval, Decider, Outcome, Record, State as Held};
use callboard_domain::execution::{Stage, Status as Phase};
use callboard_domain::id::{ExecutionId, UserId};
use callboard_domain::plan::{PlanSource, StepSource};
use callboard_domain::query::Approvals;
use callboard_domain::task::{Ending, EndingCode, Failure, Gate, Routing};
use callboard_domain::{Error, access, account, bulk};

use super::executions::{diamond, stages};
use super::*;
use crate::handle::{Approve, BulkOrder, Reject, Start};
use crate::items::accounts::NewUser;

pub(super) fn held_request() -> Request {
    Request { gate: Some(Gate { timeout_ms: 60_000, ..Gate::ALWAYS }), ..request() }
}

pub(super) fn by(name: &str) -> Decider {
    Decider { account: name.into(), reviewer: None, bulk: None }
}

pub(super) fn approve(name: &str, edit: Option<&str>) -> Approve {
    Approve { by: by(name), modified_output: edit.map(Into::into), comment: None }
}

pub(super) fn reject(name: &str, retry: bool) -> Reject {
    Reject { by: by(name), reason: "too vague".into(), retry, retry_prompt: None }
}

/// a before b and c, which are held, both before d.
pub(super) fn gated() -> PlanSource {
    let mut source = diamond();
    for step in &mut source.steps {
        step.requires_approval = ["b", "c"].contains(&step.id.as_str());
    }
    source
}

pub(super) fn new_user(name: &str, role: access::Role) -> NewUser {
    NewUser {
        email: account::Email::parse(&format!("{name}@example.com")).expect("an e-mail"),
        name: name.into(),
        role,
        tier: None,
        password_hash: account::PasswordHash::new("$argon2id$".into()),
        must_change_password: false,
        external: None,
    }
}

impl Bench {
    pub(super) async fn user(&self, name: &str, role: access::Role) -> UserId {
        self.handle
            .create_user(new_user(name, role), callboard_domain::audit::By::SYSTEM)
            .await
            .expect("a user")
            .id
    }

    /// A task whose output waits.
    pub(super) async fn held(&self, worker: &mut Worker, output: &str) -> TaskId {
        let id = self.submit(held_request()).await;
        let lease = worker.assignment().await.lease;
        assert_eq!(worker.complete(lease, output).await, AckResult::Applied);
        id
    }

    pub(super) async fn approval(&self, id: TaskId) -> Approval {
        let detail = self.handle.approval(Environment::LIVE, id).await;
        detail.expect("it was held").approval
    }

    /// The entries of its history, whose chain must be whole.
    pub(super) async fn actions(&self, id: TaskId) -> Vec<Action> {
        let history = self.handle.approval_history(Environment::LIVE, id).await.expect("a history");
        let entries: Vec<_> = history.into_iter().map(|event| event.entry).collect();
        assert_eq!(self.approval(id).await.chain.verify(id, &entries), Ok(()));
        entries.iter().map(|entry| entry.action).collect()
    }

    async fn asleep(&self) {
        let pauses = Pauses::begin();
        while self.handle.awake() > 0 {
            pauses.one().await;
        }
    }

    /// The held tasks of an execution, by step.
    pub(super) async fn waiting(&self) -> Vec<(String, TaskId)> {
        let query = Approvals {
            statuses: vec![Held::Pending, Held::Assigned, Held::Escalated, Held::Expired],
            ..Approvals::default()
        };
        let page = self.handle.approvals(Environment::LIVE, &query).await.expect("a list");
        let named = |detail: crate::read::approvals::ApprovalDetail| {
            let step = detail.approval.task.origin.step.clone();
            (step.map(|(_, step)| step).unwrap_or_default(), detail.approval.id())
        };
        let mut waiting: Vec<_> = page.items.into_iter().map(named).collect();
        waiting.sort();
        waiting
    }

    pub(super) async fn until_waiting(&self, count: usize) -> Vec<(String, TaskId)> {
        let pauses = Pauses::begin();
        loop {
            let waiting = self.waiting().await;
            if waiting.len() == count {
                return waiting;
            }
            pauses.one().await;
        }
    }
}

#[tokio::test]
async fn an_output_waits_as_a_row_until_somebody_decides() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let id = bench.held(&mut worker, "the output").await;
    bench.asleep().await;
    let task = bench.task(id).await;
    assert_eq!(
        (task.status(), bench.handle.waiting_for(Environment::LIVE, &task)),
        (Status::Pending, Some("approval"))
    );
    let approved = bench.handle.approve(Environment::LIVE, id, approve("usr_a", None)).await;
    assert_eq!(approved.expect("nobody was first").state, Held::Approved);
    let detail = bench.handle.task(Environment::LIVE, id).await.expect("it is there");
    assert_eq!(detail.output.as_deref(), Some("the output"));
    assert_eq!(detail.task.status(), Status::Completed);
    assert_eq!(bench.actions(id).await, [Action::Pending, Action::Approved]);
    let late = bench.handle.reject(Environment::LIVE, id, reject("usr_b", true)).await;
    assert!(matches!(late, Err(Error::AlreadyDecided { by, .. }) if by == "usr_a"));
    bench.asleep().await;
}

#[tokio::test]
async fn only_what_waits_can_be_decided() {
    let bench = Bench::new().await;
    let id = bench.submit(request()).await;
    let early = bench.handle.approve(Environment::LIVE, id, approve("usr_a", None)).await;
    assert!(matches!(early, Err(Error::InvalidState(_))), "{early:?}");
    let nothing = TaskId::from_u128(77 << 10);
    let nobody = bench.handle.approve(Environment::LIVE, nothing, approve("usr_a", None)).await;
    assert!(matches!(nobody, Err(Error::NotFound { .. })), "{nobody:?}");
}

#[tokio::test]
async fn gates_in_parallel_branches_never_mix_and_an_edit_is_what_goes_on() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let id = bench.start(gated(), Start::default()).await;
    let first = worker.assignment().await;
    worker.complete(first.lease, "A").await;
    for _ in 0..2 {
        let next = worker.assignment().await;
        let name = next.inputs.prompt.chars().next().expect("a name").to_uppercase().to_string();
        worker.complete(next.lease, &name).await;
    }
    let waiting = bench.until_waiting(2).await;
    let [(b, task_b), (c, task_c)] = &waiting[..] else { panic!("two wait: {waiting:?}") };
    assert_eq!((b.as_str(), c.as_str()), ("b", "c"));
    bench
        .handle
        .approve(Environment::LIVE, *task_b, approve("usr_a", Some("edited")))
        .await
        .expect("b");
    let detail = bench.execution(id).await;
    assert_eq!(stages(&detail)[1..3], [Stage::Completed, Stage::Dispatched], "c still waits");
    bench.handle.approve(Environment::LIVE, *task_c, approve("usr_a", None)).await.expect("c");
    let last = worker.assignment().await;
    assert_eq!(last.inputs.prompt, "d(edited,C)");
    worker.complete(last.lease, "D").await;
    let detail = bench.ended(id).await;
    assert_eq!(detail.outputs[&1], "edited");
    let approval = bench.handle.approval(Environment::LIVE, *task_b).await.expect("it was held");
    assert_eq!((approval.output.as_str(), approval.edit.as_deref()), ("B", Some("edited")));
    assert_eq!(bench.task(*task_b).await.status(), Status::Completed);
}

#[tokio::test]
async fn a_rejected_step_ends_its_execution_unless_it_is_tried_again() {
    for retry in [true, false] {
        let bench = Bench::new().await;
        let mut worker = bench.worker(1).await;
        let step = StepSource { requires_approval: true, ..diamond().steps[0].clone() };
        let source = PlanSource { steps: vec![step], ..diamond() };
        let id = bench.start(source, Start::default()).await;
        let first = worker.assignment().await;
        worker.complete(first.lease, "A").await;
        let (_, task) = bench.until_waiting(1).await.remove(0);
        let rejected = bench.handle.reject(Environment::LIVE, task, reject("usr_a", retry)).await;
        let decision = rejected.expect("nobody was first").decision.expect("it is decided");
        assert_eq!(bench.task(task).await.status(), Status::Rejected);
        let Outcome::Rejected { retry: again } = decision.outcome else { panic!("a rejection") };
        if let Some(again) = again {
            let second = worker.assignment().await;
            assert_eq!(second.task.spec.id, again);
            assert_eq!(second.inputs.prompt, "a()\n\nFeedback:\ntoo vague");
            assert_eq!(second.task.spec.origin.retry_of, Some(task));
            worker.complete(second.lease, "better").await;
            let (_, second) = bench.until_waiting(1).await.remove(0);
            assert_eq!(second, again, "the same gate holds it");
            let approved = bench.handle.approve(Environment::LIVE, again, approve("usr_a", None));
            approved.await.expect("it waits");
        }
        let detail = bench.ended(id).await;
        let expected = if retry { Phase::Completed } else { Phase::Failed };
        assert_eq!(detail.overview.execution.status(), expected);
        let expected = if retry { Stage::Completed } else { Stage::Rejected };
        assert_eq!(stages(&detail), [expected]);
        assert_eq!(bench.actions(task).await.len(), if retry { 3 } else { 2 });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_twenty_decisions_at_once_exactly_one_is_made() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    for round in 0..50 {
        let id = bench.held(&mut worker, "x").await;
        let racers: Vec<_> = (0..20)
            .map(|racer| {
                let handle = bench.handle.clone();
                tokio::spawn(async move {
                    let name = format!("usr_{racer}");
                    if racer % 2 == 0 {
                        handle.approve(Environment::LIVE, id, approve(&name, None)).await
                    } else {
                        handle.reject(Environment::LIVE, id, reject(&name, true)).await
                    }
                })
            })
            .collect();
        let mut won = Vec::new();
        for racer in racers {
            match racer.await.expect("no panic") {
                Ok(approval) => won.push(approval),
                Err(Error::AlreadyDecided { .. }) => {}
                Err(other) => panic!("round {round}: {other:?}"),
            }
        }
        assert_eq!(won.len(), 1, "round {round}");
        let actions = bench.actions(id).await;
        let decided = actions.iter().filter(|a| matches!(a, Action::Approved | Action::Rejected));
        assert_eq!(decided.count(), 1, "round {round}: {actions:?}");
        if actions.contains(&Action::Retried) {
            let again = worker.assignment().await;
            assert_eq!(again.task.spec.origin.retry_of, Some(id));
            worker.complete(again.lease, "y").await;
            let lone = bench.until_waiting(1).await.remove(0).1;
            bench
                .handle
                .approve(Environment::LIVE, lone, approve("usr_z", None))
                .await
                .expect("one");
        }
        assert!(bench.waiting().await.is_empty(), "round {round}: at most one more try");
    }
}

#[tokio::test]
async fn a_cancel_ends_the_wait_and_no_decision_comes_after_it() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let id = bench.held(&mut worker, "x").await;
    bench.handle.cancel(Environment::LIVE, id, "usr_c").await.expect("it waits");
    assert_eq!(bench.task(id).await.status(), Status::Cancelled);
    assert_eq!(bench.actions(id).await, [Action::Pending, Action::Cancelled]);
    let late = bench.handle.approve(Environment::LIVE, id, approve("usr_a", None)).await;
    assert!(matches!(late, Err(Error::InvalidState(_))), "{late:?}");
    assert!(bench.handle.cancel(Environment::LIVE, id, "usr_c").await.is_err());

    let execution = bench.start(gated(), Start::default()).await;
    for _ in 0..3 {
        let next = worker.assignment().await;
        worker.complete(next.lease, "x").await;
    }
    let waiting = bench.until_waiting(2).await;
    bench.handle.cancel_execution(Environment::LIVE, execution).await.expect("it runs");
    for (_, task) in waiting {
        assert_eq!(bench.task(task).await.status(), Status::Cancelled);
        assert_eq!(bench.actions(task).await, [Action::Pending, Action::Cancelled]);
    }
}

#[tokio::test(start_paused = true)]
async fn reviewers_are_asked_in_turn_and_an_admin_when_nobody_decides() {
    let bench = Bench::new().await;
    let operator = bench.user("ann", access::Role::Operator).await;
    let admin = bench.user("ada", access::Role::Admin).await;
    let mut worker = bench.worker(1).await;
    let (first, second) = (bench.held(&mut worker, "x").await, bench.held(&mut worker, "y").await);
    assert_eq!(bench.approval(first).await.assignee, Some(operator));
    assert_eq!(bench.approval(second).await.assignee, Some(admin));
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert_eq!(bench.approval(first).await.state, Held::Assigned);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let escalated = bench.approval(first).await;
    assert_eq!((escalated.state, escalated.assignee), (Held::Escalated, Some(admin)));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(bench.approval(first).await.state, Held::Expired);
    let expected =
        [Action::Pending, Action::Assigned, Action::Escalated, Action::Expired, Action::Escalated];
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(bench.actions(first).await, expected, "each fires once");
    let late = bench.handle.approve(Environment::LIVE, first, approve("usr_a", None)).await;
    late.expect("what has expired can still be decided");
}

#[tokio::test(start_paused = true)]
async fn timers_fire_once_after_a_stop_and_after_a_jump_of_the_clock() {
    let expected = [Action::Pending, Action::Escalated, Action::Expired, Action::Escalated];
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let id = bench.held(&mut worker, "x").await;
    // The wall clock jumps an hour ahead; nobody sleeps that long.
    bench.wall.fetch_add(3_600_000, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(bench.actions(id).await, expected);
    // Back again: nothing fires a second time.
    bench.wall.fetch_sub(3_600_000, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(bench.actions(id).await, expected);

    let id = bench.held(&mut bench.worker(1).await, "y").await;
    bench.wall.fetch_add(3_600_000, Ordering::SeqCst);
    let bench = bench.restart().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(bench.actions(id).await, expected, "due while nothing ran");
}

#[tokio::test]
async fn the_record_of_a_review_names_the_model_that_answered() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let models = vec!["m".into(), "b".into()];
    let routing = Some(Box::new(Routing { models, ..Routing::default() }));
    let id = bench.submit(Request { routing, ..held_request() }).await;
    let first = worker.assignment().await.lease;
    let ending = Ending { code: EndingCode::ProviderRateLimited, message: "busy".into() };
    let failure = Failure::new(ending, true);
    worker.link.say(WorkerMessage::Failed(first, failure));
    worker.ack(first, Of::Fail).await;
    let second = worker.assignment().await;
    assert_eq!(second.task.model(), "b");
    worker.complete(second.lease, "x").await;
    let record = Record::from(&bench.approval(id).await);
    assert_eq!(record.model.as_deref(), Some("b"));
    let own = bench.held(&mut worker, "y").await;
    let own = bench.approval(own).await;
    assert_eq!((own.opening.model.as_ref(), own.task.model.as_str()), (None, "m"));
}

#[tokio::test]
async fn a_rejected_task_is_tried_again_with_the_priority_that_it_was_given_later() {
    let bench = Bench::new().await;
    let id = bench.submit(held_request()).await;
    let urgent = BulkOrder {
        action: bulk::Action::Reprioritize,
        priority: Some(9),
        reason: None,
        tasks: Some(Tasks::default()),
        executions: None,
        expect: None,
    };
    bench.handle.start_bulk(&owner(), &urgent, None).await.expect("it is taken");
    bench.until(id, |task| task.priority() == 9).await;
    let mut worker = bench.worker(1).await;
    let lease = worker.assignment().await.lease;
    worker.complete(lease, "x").await;
    bench.handle.reject(Environment::LIVE, id, reject("usr_a", true)).await.expect("it waits");
    let retried = worker.assignment().await.task;
    assert_eq!((retried.spec.origin.retry_of, retried.priority()), (Some(id), 9));
}

#[tokio::test(start_paused = true)]
async fn a_time_out_may_reject() {
    let store = Arc::new(MemoryStore::new());
    let policy = approval::Policy { rejects: true, ..settings().approvals };
    let settings = Settings { approvals: policy, ..settings() };
    let clock = (Instant::now(), Arc::new(AtomicU64::new(1_800_000_000_000)));
    let bench = Bench::at(clock, settings, store.clone(), store).await;
    let mut worker = bench.worker(1).await;
    let id = bench.held(&mut worker, "x").await;
    tokio::time::sleep(Duration::from_secs(62)).await;
    let task = bench.task(id).await;
    assert_eq!(task.status(), Status::Rejected);
    assert_eq!(task.error.map(|ending| ending.code), Some(EndingCode::Rejected));
    let expected = [Action::Pending, Action::Escalated, Action::Expired, Action::Rejected];
    assert_eq!(bench.actions(id).await, expected);
}

#[tokio::test]
async fn a_claim_is_seen_and_bars_nobody() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let id = bench.held(&mut worker, "x").await;
    let claimed = bench.handle.claim(Environment::LIVE, id, by("usr_a")).await.expect("free");
    assert_eq!(claimed.claimed(bench.handle.now()).map(|claim| claim.by.as_str()), Some("usr_a"));
    let other = bench.handle.claim(Environment::LIVE, id, by("usr_b")).await;
    assert!(matches!(other, Err(Error::InvalidState(_))), "{other:?}");
    let released = bench.handle.release(Environment::LIVE, id, by("usr_a")).await.expect("mine");
    assert!(released.claimed(bench.handle.now()).is_none());
    bench.handle.release(Environment::LIVE, id, by("usr_a")).await.expect("nothing to release");
    bench.handle.claim(Environment::LIVE, id, by("usr_a")).await.expect("free again");
    bench.handle.approve(Environment::LIVE, id, approve("usr_b", None)).await.expect("not barred");
}

/// A diamond whose b is approved with an edit, and whose c is rejected and tried again; `None` if the
/// process died under it.
async fn a_review(
    bench: &Bench,
    begun: &mut Option<ExecutionId>,
    decided: &mut Vec<TaskId>,
) -> Option<()> {
    let life = async {
        let plan = bench.handle.create_plan(&owner(), gated()).await.ok()?.id;
        let made = bench.handle.execute(&owner(), plan, Start::default(), None).await.ok()?.made;
        let crate::items::submission::Created::Execution(execution) = made else {
            panic!("an execution")
        };
        let id = execution.head.spec.id;
        *begun = Some(id);
        reviewed(bench, id, decided).await
    };
    tokio::time::timeout(Duration::from_mins(2), life).await.ok().flatten()
}

/// Works and reviews until the execution has ended: c is rejected once, and everything else approved.
async fn reviewed(bench: &Bench, id: ExecutionId, decided: &mut Vec<TaskId>) -> Option<()> {
    let mut worker = bench.worker(1).await;
    loop {
        let overview = bench.handle.overview(Environment::LIVE, id).await.ok()?;
        if overview.execution.status() != Phase::Running {
            return Some(());
        }
        worker.link.say(WorkerMessage::Heartbeat(vec![], vec![]));
        while let Ok(command) = worker.commands.try_recv() {
            match command {
                WorkerCommand::Assign(given) => {
                    let output = given.inputs.prompt.clone();
                    worker.link.say(WorkerMessage::Completed(
                        given.lease,
                        output.into(),
                        completion(),
                    ));
                }
                WorkerCommand::Close => return None,
                WorkerCommand::Leases(..)
                | WorkerCommand::Ack(..)
                | WorkerCommand::Cancel(..)
                | WorkerCommand::Drain(_) => {}
            }
        }
        for (step, task) in bench.waiting().await {
            let first = bench.approval(task).await.task.origin.retry_of.is_none();
            let made = if step == "c" && first {
                bench.handle.reject(Environment::LIVE, task, reject("usr_a", true)).await
            } else {
                let edit = (step == "b").then_some("edited");
                bench.handle.approve(Environment::LIVE, task, approve("usr_a", edit)).await
            };
            match made {
                Ok(_) => decided.push(task),
                Err(Error::AlreadyDecided { .. }) => {}
                Err(_) => return None,
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_commit_of_a_review_ends_in_one_decision_applied_once() {
    let counted = Arc::new(MemoryStore::new());
    let store = Arc::new(FaultyStore::transparent(counted.clone()));
    let bench = Bench::over(counted, store.clone()).await;
    a_review(&bench, &mut None, &mut Vec::new()).await.expect("nothing fails");
    let commits = store.commits();
    assert!(commits >= 12, "{commits}");

    for fault in [Fault::CrashBefore, Fault::CrashAfter] {
        for k in 1..=commits {
            let memory = Arc::new(MemoryStore::new());
            let faulty = FaultyStore::new(memory.clone(), k, fault);
            let bench = Bench::over(memory, Arc::new(faulty)).await;
            let (mut begun, mut decided) = (None, Vec::new());
            let _ = a_review(&bench, &mut begun, &mut decided).await;

            let bench = bench.restart().await;
            for task in &decided {
                let approval = bench.approval(*task).await;
                assert!(approval.decision.is_some(), "{fault:?} at {k}: a decision is lost");
            }
            let Some(id) = begun else { continue };
            reviewed(&bench, id, &mut decided).await.expect("nothing fails any more");
            let detail = bench.execution(id).await;
            assert_eq!(detail.overview.execution.status(), Phase::Completed, "{fault:?} at {k}");
            let again = "c(a())\n\nFeedback:\ntoo vague";
            assert_eq!(detail.outputs[&3], format!("d(edited,{again})"), "{fault:?} at {k}");
            // b once, c rejected once and approved once, each acknowledged.
            let all = Approvals::default();
            let all = bench.handle.approvals(Environment::LIVE, &all).await.expect("a list");
            assert_eq!(all.total, 3, "{fault:?} at {k}");
            for item in all.items {
                let actions = bench.actions(item.approval.id()).await;
                let decisions = |a: &&Action| matches!(a, Action::Approved | Action::Rejected);
                assert_eq!(actions.iter().filter(decisions).count(), 1, "{fault:?} at {k}");
            }
            bench.system.stop().await;
        }
    }
}

#[tokio::test]
async fn ten_thousand_approvals_wait_as_rows() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(100).await;
    for _ in 0..100 {
        // Nothing escalates within this hour, however slow the machine is.
        let held = Request { gate: Some(Gate::ALWAYS), ..request() };
        let hundred = vec![held; 100];
        bench.handle.submit(&owner(), hundred, true, None).await.expect("taken");
        for _ in 0..100 {
            let given = worker.assignment().await;
            worker.link.say(WorkerMessage::Completed(given.lease, "x".into(), completion()));
        }
    }
    let query = Approvals { statuses: vec![Held::Pending], ..Approvals::default() };
    let pauses = Pauses::begin();
    loop {
        let page = bench.handle.approvals(Environment::LIVE, &query).await.expect("a list");
        if page.total == 10_000 {
            break;
        }
        pauses.one().await;
    }
    bench.asleep().await;
}
