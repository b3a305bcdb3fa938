//! Decisions that are taken back, and those that stand beside the one before, over restarts and crashes.

use callboard_domain::Error;
use callboard_domain::access::{Account, Caller, Role};
use callboard_domain::approval::{Action, Approval, State as Held};
use callboard_domain::audit::By;
use callboard_domain::calibration;
use callboard_domain::execution::{Stage, Status as Phase, Use, UseKind};
use callboard_domain::id::{ExecutionId, Slot, UserId};
use callboard_domain::query::Approvals;

use super::approvals::{approve, by, gated, new_user, reject};
use super::executions::stages;
use super::*;
use crate::handle::Start;
use crate::items::submission::Created;

fn ann(id: UserId, role: Role) -> Caller {
    Caller {
        account: Account::User(id),
        name: "ann".into(),
        role,
        environment: Environment::LIVE,
        tier: None,
        queues: Vec::new(),
        session: None,
        must_change_password: false,
        expires_at: None,
    }
}

impl Bench {
    /// A user whom no output is assigned to by itself.
    async fn ann(&self) -> UserId {
        if let Some(user) = self.handle.users_in(Slot::DEFAULT).first() {
            return user.id;
        }
        let made = self.handle.create_user(new_user("ann", Role::Viewer), By::SYSTEM).await;
        // Nobody's, where the process dies.
        made.map_or(UserId::from_u128(3 << 10), |user| user.id)
    }

    async fn reopen(&self, task: TaskId, may_correct: bool) -> Result<Approval, Error> {
        let id = self.ann().await;
        self.handle.reopen(&ann(id, Role::Operator), task, by(&id.to_string()), may_correct).await
    }

    async fn approved(&self, task: TaskId, edit: Option<&str>) {
        let approve = approve("usr_a", edit);
        self.handle.approve(Environment::LIVE, task, approve).await.expect("it waits");
    }

    /// A diamond whose b and c wait for a reviewer: the execution, b and c.
    async fn two_wait(&self, worker: &mut Worker) -> (ExecutionId, TaskId, TaskId) {
        let id = self.start(gated(), Start::default()).await;
        let first = worker.assignment().await;
        worker.complete(first.lease, "A").await;
        for _ in 0..2 {
            let next = worker.assignment().await;
            let name = next.inputs.prompt.chars().next().expect("a name").to_uppercase();
            worker.complete(next.lease, &name.to_string()).await;
        }
        let waiting = self.until_waiting(2).await;
        (id, waiting[0].1, waiting[1].1)
    }

    async fn tasks_of(&self, statuses: Vec<Status>) -> u64 {
        let query = Tasks { statuses, ..Tasks::default() };
        self.handle.tasks(Environment::LIVE, &query).await.expect("a list").total
    }

    /// The texts of the entries of its history that decide, whose chain must be whole.
    async fn decisions(&self, task: TaskId) -> Vec<(Action, Option<String>, Option<String>)> {
        self.actions(task).await;
        let history = self.handle.approval_history(Environment::LIVE, task).await;
        let decides = |action| matches!(action, Action::Approved | Action::Rejected);
        let all = history.expect("a history").into_iter();
        let all = all.filter(|told| decides(told.entry.action));
        all.map(|told| (told.entry.action, told.edit, told.comment)).collect()
    }
}

fn kinds(refused: Result<Approval, Error>) -> Vec<UseKind> {
    let Err(Error::OutputUsed { used_by, .. }) = refused else { panic!("it is used: {refused:?}") };
    used_by.into_iter().map(|Use { kind, .. }| kind).collect()
}

#[tokio::test]
async fn a_wrong_edit_is_taken_back_while_the_next_step_waits_and_the_right_one_goes_on() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let (id, b, c) = bench.two_wait(&mut worker).await;
    bench.approved(b, Some("wrong")).await;
    assert_eq!(
        (bench.tasks_of(vec![Status::Completed]).await, bench.until_waiting(1).await.len()),
        (2, 1)
    );
    let before = bench.execution(id).await.overview;

    let again = bench.reopen(b, false).await.expect("nothing has used it");
    assert_eq!(
        (again.state, again.assignee, again.reopened),
        (Held::Assigned, Some(bench.ann().await), 1)
    );
    assert_eq!(bench.tasks_of(vec![Status::Completed]).await, 1);
    assert_eq!(bench.handle.holdings("usr_1").unfinished().0, 2);
    // The same request again is the same.
    assert_eq!(bench.reopen(b, true).await.expect("it waits"), again);
    let bench = bench.restart().await;
    assert_eq!(bench.until_waiting(2).await.len(), 2);
    let detail = bench.execution(id).await;
    assert_eq!(stages(&detail)[1..], [Stage::Dispatched, Stage::Dispatched, Stage::Waiting]);
    assert_eq!(detail.overview.progress.awaiting_approval, 2);
    assert_eq!(detail.overview.execution.usage(), before.execution.usage());
    let task = bench.handle.task(Environment::LIVE, b).await.expect("it is there");
    assert_eq!((task.task.status(), task.output.as_deref()), (Status::Pending, Some("B")));

    let mut worker = bench.worker(1).await;
    bench.approved(b, Some("right")).await;
    bench.approved(c, None).await;
    let last = worker.assignment().await;
    assert_eq!(last.inputs.prompt, "d(right,C)");
    worker.complete(last.lease, "D").await;
    let detail = bench.ended(id).await;
    assert_eq!((detail.outputs[&1].as_str(), detail.corrections.len()), ("right", 0));
    let said = |text: &str| (Action::Approved, Some(text.to_owned()), None);
    assert_eq!(bench.decisions(b).await, [said("wrong"), said("right")]);
    assert_eq!(kinds(bench.reopen(b, false).await), [UseKind::Execution, UseKind::Step]);
    assert_eq!(bench.handle.holdings("usr_1").unfinished().0, 0);
}

#[tokio::test]
async fn a_rejection_is_taken_back_and_the_steps_behind_it_are_there_again() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let (id, b, c) = bench.two_wait(&mut worker).await;
    bench.handle.reject(Environment::LIVE, b, reject("usr_a", false)).await.expect("it waits");
    assert_eq!(stages(&bench.execution(id).await)[3], Stage::Cancelled);
    bench.reopen(b, false).await.expect("nothing has used it");
    let bench = bench.restart().await;
    let detail = bench.execution(id).await;
    assert_eq!(stages(&detail)[1..], [Stage::Dispatched, Stage::Dispatched, Stage::Waiting]);
    assert_eq!(detail.overview.execution.head.error, None);
    assert_eq!(bench.task(b).await.error, None);
    let mut worker = bench.worker(1).await;
    bench.approved(c, None).await;
    bench.approved(b, None).await;
    let last = worker.assignment().await;
    worker.complete(last.lease, "D").await;
    assert_eq!(bench.ended(id).await.overview.execution.status(), Phase::Completed);
    let why = (Action::Rejected, None, Some("too vague".to_owned()));
    assert_eq!(bench.decisions(b).await, [why, (Action::Approved, None, None)]);
}

#[tokio::test]
async fn a_decision_that_was_used_gets_another_one_beside_it() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let (id, b, c) = bench.two_wait(&mut worker).await;
    bench.approved(b, Some("wrong")).await;
    bench.approved(c, None).await;
    let last = worker.assignment().await;
    assert_eq!(kinds(bench.reopen(b, false).await), [UseKind::Step]);
    worker.complete(last.lease, "D").await;
    bench.ended(id).await;
    assert_eq!(kinds(bench.reopen(b, false).await), [UseKind::Execution, UseKind::Step]);

    let asked = bench.reopen(b, true).await.expect("a correction");
    let first = asked.corrects.as_ref().map(|first| first.decision.by.name().to_owned());
    assert_eq!((asked.state, first.as_deref()), (Held::Assigned, Some("usr_a")));
    assert_eq!(bench.reopen(b, true).await.expect("it waits"), asked);
    let query = calibration::Query::default();
    let edited = async |bench: &Bench| {
        let found = bench.handle.calibration(Environment::LIVE, &query).await.expect("a table");
        (found.unknown.edited, found.unknown.rejected)
    };
    assert_eq!(edited(&bench).await, (1, 0));
    let bench = bench.restart().await;
    assert_eq!(edited(&bench).await, (1, 0));
    let detail = bench.handle.approval(Environment::LIVE, b).await.expect("it is there");
    assert_eq!((detail.edit.as_deref(), detail.corrected.edit.as_deref()), (None, Some("wrong")));

    bench.handle.reject(Environment::LIVE, b, reject("usr_c", false)).await.expect("it waits");
    assert_eq!(edited(&bench).await, (0, 1));
    let task = bench.handle.task(Environment::LIVE, b).await.expect("it is there");
    assert_eq!((task.task.status(), task.output.as_deref()), (Status::Completed, Some("wrong")));
    let correction = task.correction.expect("a correction");
    assert_eq!(correction.comment.as_deref(), Some("too vague"));
    let run = bench.execution(id).await;
    assert_eq!(run.overview.execution.status(), Phase::Completed);
    assert_eq!(run.corrections[&1].decision.by.name(), "usr_c");

    // A third opinion, with a text of its own.
    bench.reopen(b, true).await.expect("another correction");
    bench.approved(b, Some("right")).await;
    let bench = bench.restart().await;
    let detail = bench.handle.approval(Environment::LIVE, b).await.expect("it is there");
    assert_eq!(
        (detail.edit.as_deref(), detail.corrected.edit.as_deref()),
        (Some("right"), Some("wrong"))
    );
    let task = bench.handle.task(Environment::LIVE, b).await.expect("it is there");
    assert_eq!(task.output.as_deref(), Some("wrong"));
    assert_eq!(bench.decisions(b).await.len(), 3);
    assert_eq!(edited(&bench).await, (1, 0));
    let open = Approvals { statuses: vec![Held::Assigned], ..Approvals::default() };
    assert_eq!(bench.handle.approvals(Environment::LIVE, &open).await.expect("a list").total, 0);
}

#[tokio::test]
async fn the_end_of_a_task_alone_is_final_and_a_reviewer_takes_back_only_their_own() {
    let bench = Bench::new().await;
    let mut worker = bench.worker(1).await;
    let id = bench.held(&mut worker, "the output").await;
    let early = bench.reopen(id, true).await;
    assert!(matches!(early, Err(Error::InvalidState(_))), "{early:?}");
    bench.approved(id, None).await;
    assert_eq!(kinds(bench.reopen(id, false).await), [UseKind::Task]);
    let own = bench.ann().await;
    let (reviewer, own) = (ann(own, Role::Reviewer), own.to_string());
    let other = bench.handle.reopen(&reviewer, id, by(&own), true).await;
    assert!(matches!(other, Err(Error::Forbidden(_))), "{other:?}");
    let corrected = bench.reopen(id, true).await.expect("a correction");
    assert!(corrected.corrects.is_some());
    let mine = approve(&own, None);
    bench.handle.approve(Environment::LIVE, id, mine).await.expect("it waits");
    bench.handle.reopen(&reviewer, id, by(&own), true).await.expect("it is Ann's own");
    // Its texts stay until it is decided.
    let kept = bench.handle.erase_texts(Environment::LIVE, id).await;
    assert!(matches!(kept, Err(Error::InvalidState(_))), "{kept:?}");
    bench.approved(id, None).await;
    bench.handle.erase_texts(Environment::LIVE, id).await.expect("it is decided");
    let gone = bench.reopen(id, true).await;
    assert!(matches!(&gone, Err(Error::InvalidState(says)) if says.contains("erased")), "{gone:?}");
}

/// A diamond whose b is approved wrongly, taken back and approved rightly before c is; `None` if the process died.
async fn a_mistake(bench: &Bench, begun: &mut Option<ExecutionId>) -> Option<()> {
    let life = async {
        let plan = bench.handle.create_plan(&owner(), gated()).await.ok()?.id;
        let made = bench.handle.execute(&owner(), plan, Start::default(), None).await.ok()?.made;
        let Created::Execution(execution) = made else { panic!("an execution") };
        *begun = Some(execution.head.spec.id);
        put_right(bench, execution.head.spec.id).await
    };
    tokio::time::timeout(Duration::from_mins(2), life).await.ok().flatten()
}

/// Works until the execution has ended: whatever of the mistake is not made yet is made and put right.
async fn put_right(bench: &Bench, id: ExecutionId) -> Option<()> {
    let mut worker = bench.worker(1).await;
    loop {
        let run = bench.handle.execution(Environment::LIVE, id).await.ok()?;
        if run.overview.execution.status() != Phase::Running {
            return Some(());
        }
        worker.link.say(WorkerMessage::Heartbeat(vec![], vec![]));
        while let Ok(command) = worker.commands.try_recv() {
            match command {
                WorkerCommand::Assign(given) => {
                    let output = given.inputs.prompt.clone();
                    let answer = WorkerMessage::Completed(given.lease, output.into(), completion());
                    worker.link.say(answer);
                }
                WorkerCommand::Close => return None,
                WorkerCommand::Leases(..)
                | WorkerCommand::Ack(..)
                | WorkerCommand::Cancel(..)
                | WorkerCommand::Drain(_) => {}
            }
        }
        let tasks = run.overview.execution.steps().map(|(_, row)| row.task).collect::<Vec<_>>();
        let found = async |task: TaskId| bench.handle.approval(Environment::LIVE, task).await.ok();
        let b = match tasks[1] {
            Some(task) => found(task).await,
            None => None,
        };
        if let Some(b) = b {
            let task = b.approval.id();
            let is_open = b.approval.decision.is_none();
            match (is_open, b.approval.reopened) {
                (true, times) => {
                    let text = if times == 0 { "wrong" } else { "right" };
                    let approve = approve("usr_a", Some(text));
                    bench.handle.approve(Environment::LIVE, task, approve).await.ok()?;
                }
                (false, 0) => drop(bench.reopen(task, false).await.ok()?),
                (false, _) => {
                    let c = tasks[2].filter(|_| run.overview.progress.awaiting_approval > 0);
                    if let Some(c) = c {
                        let approve = approve("usr_a", None);
                        bench.handle.approve(Environment::LIVE, c, approve).await.ok()?;
                    }
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_commit_loses_no_decision_and_takes_none_back_twice() {
    let counted = Arc::new(MemoryStore::new());
    let store = Arc::new(FaultyStore::transparent(counted.clone()));
    let bench = Bench::over(counted, store.clone()).await;
    a_mistake(&bench, &mut None).await.expect("nothing fails");
    let commits = store.commits();
    assert!(commits >= 12, "{commits}");

    for fault in [Fault::CrashBefore, Fault::CrashAfter] {
        for k in 1..=commits {
            let memory = Arc::new(MemoryStore::new());
            let faulty = FaultyStore::new(memory.clone(), k, fault);
            let bench = Bench::over(memory, Arc::new(faulty)).await;
            let mut begun = None;
            let _ = a_mistake(&bench, &mut begun).await;
            let bench = bench.restart().await;
            let Some(id) = begun else { continue };
            put_right(&bench, id).await.expect("nothing fails any more");
            let detail = bench.execution(id).await;
            assert_eq!(detail.overview.execution.status(), Phase::Completed, "{fault:?} at {k}");
            assert_eq!(detail.outputs[&3], "d(right,c(a()))", "{fault:?} at {k}");
            let b = detail.overview.execution.step(1).and_then(|row| row.task).expect("a task");
            let said = |text: &str| (Action::Approved, Some(text.to_owned()), None);
            assert_eq!(
                bench.decisions(b).await,
                [said("wrong"), said("right")],
                "{fault:?} at {k}"
            );
            let all = [Status::Completed, Status::Pending].map(|status| vec![status]);
            let [ended, open] =
                [bench.tasks_of(all[0].clone()).await, bench.tasks_of(all[1].clone()).await];
            assert_eq!((ended, open), (4, 0), "{fault:?} at {k}");
            bench.system.stop().await;
        }
    }
}

#[tokio::test]
async fn who_decides_while_a_decision_is_taken_back_is_refused_and_never_unchecked() {
    let approvals = approval::Policy { four_eyes: true, ..settings().approvals };
    let bench = Bench::with(Settings { approvals, ..settings() }).await;
    let mut worker = bench.worker(1).await;
    let (_, id, _) = bench.two_wait(&mut worker).await;
    let ann = bench.ann().await;
    bench.approved(id, None).await;
    // The submitter's own approval comes while the decision is being taken back, and finds none when it is its turn.
    let own = bench.handle.approve(Environment::LIVE, id, approve("usr_1", None));
    let (reopened, own) = tokio::join!(bench.reopen(id, false), own);
    assert_eq!(reopened.map(|it| it.reopened), Ok(1));
    assert!(matches!(own, Err(Error::AlreadyDecided { .. })), "{own:?}");
    let own = bench.handle.approve(Environment::LIVE, id, approve("usr_1", None)).await;
    assert!(matches!(own, Err(Error::Forbidden(_))), "{own:?}");

    bench.approved(id, None).await;
    // The same with two who take a decision back, and another one between them.
    let (first, decided, second) = tokio::join!(
        bench.reopen(id, false),
        bench.handle.reject(Environment::LIVE, id, reject("usr_b", false)),
        bench.reopen(id, false)
    );
    assert!(first.is_ok() && second.is_ok(), "{first:?} {second:?}");
    assert!(matches!(decided, Err(Error::AlreadyDecided { .. })), "{decided:?}");

    // A decision that was made after somebody had looked at the one that they want to take back.
    let looked_at = Some(Timestamp::from_millis(1));
    bench.approved(id, None).await;
    let back =
        bench.handle.take_back(Environment::LIVE, id, by(&ann.to_string()), (true, looked_at));
    let back = back.await;
    assert!(matches!(back, Err(Error::AlreadyDecided { .. })), "{back:?}");
}
