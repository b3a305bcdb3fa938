//! A project moves to another cell with all that it has, whatever breaks on the way.

use bytes::Bytes;
use callboard_domain::Error;
use callboard_domain::access::Role;
use callboard_domain::audit::By;
use callboard_domain::budget::Money;
use callboard_domain::cell::Cell;
use callboard_domain::credential::ApiKey;
use callboard_domain::id::{BudgetId, Mode, MoveId, ScheduleId, Slot};
use callboard_domain::project::Project;
use callboard_domain::query::Window;
use callboard_domain::schedule::{CatchUp, Overlap, Settings as Timed, Timing};
use callboard_domain::spending::{Budget, Match, OnExceed, Period};
use callboard_domain::task::Gate;
use callboard_store::Key;
use serde_json::json;

use super::approvals::approve;
use super::*;
use crate::accounts::{NewKey, NewProject};
use crate::handle::GivenTarget;
use crate::handle::moves::{NotCopied, Question, Source};
use crate::jobs::schedule::Target;

const NAME: &str = "search";

/// Home and the cell `berlin`, which takes home's list when the test says so.
struct Cells {
    home: Bench,
    berlin: Bench,
}

/// The cell that a project leaves, asked without a network.
struct Asked<'h>(&'h Handle, MoveId);

impl Source for Asked<'_> {
    async fn ask(&self, question: &Question) -> Result<Bytes, String> {
        let (handle, id) = (self.0.clone(), self.1);
        handle.answer_move(id, question).await.map_err(|error| error.to_string())
    }
}

impl Cells {
    async fn new() -> Self {
        let cells = Self { home: Bench::new().await, berlin: Bench::new().await };
        // Its places are others than home's.
        for name in ["one", "two"] {
            let new = NewProject { name: name.into(), description: None, cell: None };
            cells.berlin.handle.create_project(new, By::SYSTEM).await.expect("there is room");
        }
        let cell =
            Cell { name: "berlin".into(), nodes: Vec::new(), added_at: cells.home.handle.now() };
        cells.home.handle.put_cell(cell, By::SYSTEM).await.expect("there is room");
        cells
    }

    async fn project(&self) -> Arc<Project> {
        let new = NewProject { name: NAME.into(), description: None, cell: Some("home".into()) };
        self.home.handle.create_project(new, By::SYSTEM).await.expect("there is room")
    }

    async fn begin(&self, project: &Project, to: &str) -> MoveId {
        let moves = self.home.handle.move_project(project.id, to.into(), By::SYSTEM).await;
        moves.expect("it may move").moving.clone().expect("it moves").id
    }

    async fn follow(&self) {
        let list = self.home.handle.assigned_to("berlin").expect("there is such a cell");
        self.berlin.handle.follow_home("berlin", list).await.expect("it is adopted");
        for bench in [&self.home, &self.berlin] {
            let pauses = Pauses::begin();
            while bench.handle.is_opening() {
                pauses.one().await;
            }
        }
    }

    /// Moves a project from home to `berlin`.
    async fn to_berlin(&self, project: &Project) {
        let id = self.begin(project, "berlin").await;
        self.follow().await;
        self.copy(id).await.expect("it is copied");
        self.home.handle.switch_project(project.number, id).await.expect("it is there");
        self.follow().await;
    }

    async fn copy(&self, id: MoveId) -> Result<(), NotCopied> {
        self.berlin.handle.copy_project(id, &Asked(&self.home.handle, id)).await
    }
}

impl Bench {
    fn environment(&self) -> Environment {
        self.handle.slot_of(NAME).expect("the project is here").environment(Mode::Live)
    }

    fn owner_here(&self) -> Owner {
        Owner { environment: self.environment(), ..owner() }
    }

    async fn give(&self, request: Request, key: Option<&str>) -> TaskId {
        let made = self.handle.submit(&self.owner_here(), vec![request], false, key).await;
        made.expect("it is taken").made.tasks()[0].spec.id
    }

    async fn output(&self, task: TaskId) -> Option<String> {
        self.handle.task(self.environment(), task).await.expect("it is there").output
    }

    async fn count(&self) -> u64 {
        let all = Tasks { window: Window { limit: 1, offset: 0 }, ..Tasks::default() };
        self.handle.tasks(self.environment(), &all).await.expect("a list").total
    }

    async fn rows_of(&self, slot: Slot) -> usize {
        let numbers = slot.environments().map(Environment::number);
        let all = self.store.scan(Key(Box::new([0])), Key(Box::new([u8::MAX; 64])), usize::MAX);
        let rows = all.await.expect("they are read");
        rows.iter().filter(|(key, _)| key.0.get(1).is_some_and(|at| numbers.contains(at))).count()
    }
}

/// A project with something of everything.
struct Filled {
    project: Arc<Project>,
    key: ApiKey,
    done: TaskId,
    running: LeaseToken,
    held: TaskId,
    waiting: TaskId,
    schedule: ScheduleId,
    budget: BudgetId,
    worker: Worker,
}

async fn filled(cells: &Cells) -> Filled {
    let project = cells.project().await;
    let (home, environment) = (&cells.home, cells.home.environment());
    let new = NewKey {
        name: "ci".into(),
        role: Role::Operator,
        environment,
        tier: None,
        queues: Vec::new(),
        lifetime: Duration::from_hours(24 * 90),
    };
    let (key, _) = home.handle.create_key(new, By::SYSTEM).await.expect("a key");
    let budget = Budget {
        id: home.handle.fresh_budget_id(),
        matches: Match { model: Some("priced".into()), ..Match::default() },
        limit: Money::from_usd(7.0),
        period: Period::Day,
        timezone: "UTC".into(),
        alert_at: vec![0.5],
        on_exceed: OnExceed::Alert,
    };
    let budget = home.handle.create_budget(environment, budget).await.expect("a budget").budget.id;
    let settings = Timed {
        name: "hourly".into(),
        timing: Timing::Cron { cron: "0 * * * *".into(), zone: "UTC".into() },
        overlap: Overlap::Allow,
        catch_up: CatchUp::All,
        jitter_ms: 0,
        enabled: true,
    };
    let target =
        GivenTarget { target: Target::Task(Box::new(request())), given: json!({"task": {}}) };
    let schedule = home.handle.create_schedule(&home.owner_here(), settings, target).await;
    let schedule = schedule.expect("it is sound").row.schedule.id;
    let mut worker = home.serving(&home.owner_here(), "default", 1, None).await;
    let done = home.give(request(), Some("once")).await;
    let lease = worker.assignment().await.lease;
    assert_eq!(worker.complete(lease, &"long ".repeat(2_000)).await, AckResult::Applied);
    let gate = Some(Gate { timeout_ms: 86_400_000, ..Gate::ALWAYS });
    let held = home.give(Request { gate, ..request() }, None).await;
    let lease = worker.assignment().await.lease;
    assert_eq!(worker.complete(lease, "to be seen").await, AckResult::Applied);
    home.give(request(), None).await;
    let running = worker.assignment().await.lease;
    let waiting = home.give(request(), None).await;
    Filled { project, key, done, running, held, waiting, schedule, budget, worker }
}

impl Filled {
    /// All that the project had is in this cell, and goes on.
    async fn goes_on(&mut self, bench: &Bench) {
        let (handle, environment) = (&bench.handle, bench.environment());
        assert_eq!(bench.count().await, 4);
        let caller = handle.caller_of_key(&self.key.digest).expect("the key counts here");
        assert_eq!((caller.environment, caller.role), (environment, Role::Operator));
        assert_eq!(bench.output(self.done).await, Some("long ".repeat(2_000)));
        assert_eq!(bench.give(request(), Some("once")).await, self.done, "the key was used");
        assert_eq!(bench.count().await, 4);
        let held = handle.approve(environment, self.held, approve("kim", None)).await;
        assert!(held.is_ok(), "{held:?}");
        assert_eq!(bench.output(self.held).await.as_deref(), Some("to be seen"));
        let resumed = Some((&self.worker, vec![self.running]));
        let mut back = bench.serving(&bench.owner_here(), "default", 2, resumed).await;
        assert_eq!((back.kept.len(), back.lost.len()), (1, 0));
        let next = back.assignment().await;
        assert_eq!(back.complete(self.running, "late").await, AckResult::Applied);
        assert_eq!(next.task.spec.id, self.waiting);
        assert_eq!(back.complete(next.lease, "out").await, AckResult::Applied);
        let ledger = handle.budget(environment, self.budget).expect("it is there");
        assert_eq!(ledger.budget.limit, Money::from_usd(7.0));
        self.worker = back;
    }

    /// Its schedule starts work in this cell.
    async fn is_scheduled(&mut self, bench: &Bench) {
        let schedule = bench.handle.schedule(bench.environment(), self.schedule).await;
        assert_eq!(schedule.expect("it is there").row.schedule.settings.name, "hourly");
        let by_schedule = self.worker.assignment_while_beating().await;
        assert!(by_schedule.task.spec.id > self.waiting, "the schedule goes on");
    }

    /// Nothing of the project is in this cell any more, not even after a while.
    async fn is_gone_from(&self, bench: &Bench, slot: Slot) {
        assert!(bench.handle.slot_of(NAME).is_err());
        let refused = bench.handle.caller_of_key(&self.key.digest);
        assert!(matches!(refused, Err(Error::InvalidToken(_))), "{refused:?}");
        let pauses = Pauses::begin();
        while bench.rows_of(slot).await > 0 {
            pauses.one().await;
        }
        tokio::time::sleep(Duration::from_mins(5)).await;
        assert_eq!(bench.rows_of(slot).await, 0, "an actor wrote behind the removal");
    }
}

fn slot_of(project: &Project) -> Slot {
    project.slot.expect("it is here")
}

#[tokio::test(start_paused = true)]
async fn a_project_moves_with_all_that_it_has_and_goes_on() {
    let cells = Cells::new().await;
    let mut filled = filled(&cells).await;
    cells.to_berlin(&filled.project).await;
    assert_ne!(cells.berlin.environment().slot(), slot_of(&filled.project));
    assert_eq!(cells.home.handle.cell_named(NAME).as_deref(), Some("berlin"));
    filled.goes_on(&cells.berlin).await;
    filled.is_scheduled(&cells.berlin).await;
    filled.is_gone_from(&cells.home, slot_of(&filled.project)).await;
}

#[tokio::test(start_paused = true)]
async fn a_project_that_stands_still_acknowledges_nothing_and_goes_on_where_it_was() {
    let cells = Cells::new().await;
    let mut filled = filled(&cells).await;
    let id = cells.begin(&filled.project, "berlin").await;
    cells.follow().await;
    let refused = cells.home.handle.caller_of_key(&filled.key.digest);
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    // They came before the edge refused them.
    let (handle, owner) = (cells.home.handle.clone(), cells.home.owner_here());
    let late = tokio::spawn(async move {
        handle.submit(&owner, vec![request()], false, None).await.map(|made| made.replayed)
    });
    filled.worker.link.say(WorkerMessage::Completed(filled.running, "late".into(), completion()));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!late.is_finished() && filled.worker.commands.try_recv().is_err());
    cells.copy(id).await.expect("it is copied");
    cells.home.handle.stay_project(filled.project.id, By::SYSTEM).await.expect("it may stay");
    assert!(!late.await.expect("no panic").expect("it is taken"));
    assert_eq!(filled.worker.ack(filled.running, Of::Complete).await, AckResult::Applied);
    assert_eq!(cells.home.count().await, 5);
    let switched = cells.home.handle.switch_project(filled.project.number, id).await;
    assert!(matches!(switched, Err(Error::InvalidState(_))), "{switched:?}");
    cells.follow().await;
    let pauses = Pauses::begin();
    let third = Slot::new(3).expect("a place");
    while cells.berlin.rows_of(third).await > 0 {
        pauses.one().await;
    }
    assert!(cells.berlin.handle.slot_of(NAME).is_err());
}

#[tokio::test(start_paused = true)]
async fn what_a_project_has_not_acknowledged_is_refused_once_it_has_left() {
    let cells = Cells::new().await;
    let mut filled = filled(&cells).await;
    let id = cells.begin(&filled.project, "berlin").await;
    let (handle, owner) = (cells.home.handle.clone(), cells.home.owner_here());
    let late = tokio::spawn(async move {
        handle.submit(&owner, vec![request()], false, None).await.map(|made| made.replayed)
    });
    filled.worker.link.say(WorkerMessage::Completed(filled.running, "x".into(), completion()));
    cells.follow().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    cells.copy(id).await.expect("it is copied");
    cells.home.handle.switch_project(filled.project.number, id).await.expect("it is there");
    let refused = late.await.expect("no panic");
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    cells.follow().await;
    filled.goes_on(&cells.berlin).await;
    filled.is_gone_from(&cells.home, slot_of(&filled.project)).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_of_either_cell_in_any_phase_is_gone_on_from() {
    for crash in 0..12 {
        let mut cells = Cells::new().await;
        let mut filled = filled(&cells).await;
        let mut at = 0;
        let mut crashes = async |mut cells: Cells| {
            if at == crash / 2 {
                if crash % 2 == 0 {
                    cells.home = cells.home.restart().await;
                } else {
                    cells.berlin = cells.berlin.restart().await;
                }
            }
            at += 1;
            cells
        };
        cells = crashes(cells).await;
        let id = cells.begin(&filled.project, "berlin").await;
        cells = crashes(cells).await;
        cells.follow().await;
        cells = crashes(cells).await;
        cells.copy(id).await.expect("it is copied");
        cells = crashes(cells).await;
        cells.follow().await;
        cells.home.handle.switch_project(filled.project.number, id).await.expect("it is there");
        cells = crashes(cells).await;
        cells.follow().await;
        cells = crashes(cells).await;
        cells.home.handle.switch_project(filled.project.number, id).await.expect("told twice");
        cells.follow().await;
        filled.goes_on(&cells.berlin).await;
        filled.is_gone_from(&cells.home, slot_of(&filled.project)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_broke_off_or_differs_begins_anew() {
    struct Failing<'h>(Asked<'h>, AtomicU64);
    impl Source for Failing<'_> {
        async fn ask(&self, question: &Question) -> Result<Bytes, String> {
            let answer = self.0.ask(question).await?;
            match (question, self.1.fetch_sub(1, Ordering::SeqCst)) {
                (_, 1) => Err("the connection is gone".into()),
                // A row is lost on the way.
                (Question::Rows(..), 100) => Ok(Bytes::new()),
                _ => Ok(answer),
            }
        }
    }
    let cells = Cells::new().await;
    let mut filled = filled(&cells).await;
    let id = cells.begin(&filled.project, "berlin").await;
    cells.follow().await;
    for left in 1..9 {
        let source = Failing(Asked(&cells.home.handle, id), AtomicU64::new(left));
        let broken = cells.berlin.handle.copy_project(id, &source).await;
        assert!(matches!(broken, Err(NotCopied::Source(_))), "{left}: {broken:?}");
    }
    let source = Failing(Asked(&cells.home.handle, id), AtomicU64::new(101));
    let differs = cells.berlin.handle.copy_project(id, &source).await;
    assert!(matches!(differs, Err(NotCopied::Differs("rows"))), "{differs:?}");
    cells.copy(id).await.expect("it is copied");
    cells.home.handle.switch_project(filled.project.number, id).await.expect("it is there");
    cells.follow().await;
    filled.goes_on(&cells.berlin).await;
}

#[tokio::test(start_paused = true)]
async fn a_project_comes_home_again_with_its_idempotency_keys() {
    let cells = Cells::new().await;
    let mut filled = filled(&cells).await;
    cells.to_berlin(&filled.project).await;
    let id = cells.begin(&filled.project, "home").await;
    cells.follow().await;
    let source = Asked(&cells.berlin.handle, id);
    cells.home.handle.copy_project(id, &source).await.expect("it is copied");
    cells.home.handle.switch_project(filled.project.number, id).await.expect("it is there");
    cells.follow().await;
    assert_eq!(cells.home.handle.cell_named(NAME), None);
    assert!(cells.berlin.handle.slot_of(NAME).is_err());
    filled.goes_on(&cells.home).await;
}

#[tokio::test(start_paused = true)]
async fn a_project_that_is_given_up_over_a_start_is_read_anew() {
    let mut cells = Cells::new().await;
    let mut filled = filled(&cells).await;
    cells.begin(&filled.project, "berlin").await;
    cells.home = cells.home.restart().await;
    let refused = cells.home.handle.caller_of_key(&filled.key.digest);
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    cells.home.handle.stay_project(filled.project.id, By::SYSTEM).await.expect("it may stay");
    cells.follow().await;
    filled.goes_on(&cells.home).await;
}
