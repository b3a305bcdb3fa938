//! Random executions in a random world, against a naive reference.
//!
//! Steps are tasks, waits for a signal or lists of items, and an execution may be a fork, which takes over
//! what its original has. The world has tasks that end as they like, clients that cancel and retry, reviewers who take
//! decisions back, a clock, and a server that dies between any two transitions and comes back with its last commit.
//! Everything is driven by effects alone, so that one that is missing leaves the execution stuck.
//!
//! A failure prints its seed; `CALLBOARD_SEED=… cargo test` at build time runs that one alone.

mod chance;
mod forks;
mod naive;
mod reopens;
mod waits;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chance::Chance;
use naive::{Naive, Own, bad, well};

use super::*;
use crate::budget::Money;
use crate::id::{ExecutionId, PlanId};
use crate::task::{Ending, OutputFault};

/// How many executions are played.
const EXECUTIONS: u64 = 2_500;
const EXECUTIONS_LONG: u64 = 10_000;
const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// A task: its step, and its end once it has one.
#[derive(Debug, Clone)]
struct Fake {
    step: u16,
    item: Option<u16>,
    end: Option<Event>,
}

struct World {
    chance: Chance,
    now: Timestamp,
    graph: Arc<Graph>,
    /// For each step the signal that it waits for, if it is a wait.
    waits: Vec<Option<u64>>,
    /// The commit in the making, and the reference's view of it.
    open: Step<Execution>,
    naive: Naive,
    /// The state on the disk.
    head: String,
    rows: BTreeMap<u16, String>,
    items: BTreeMap<(u16, u16), String>,
    committed: Execution,
    naive_committed: Naive,
    tasks: BTreeMap<TaskId, Fake>,
    fresh: Vec<TaskId>,
    applied: BTreeSet<(u16, OutputSource)>,
    /// The state in memory only.
    todo: BTreeSet<u16>,
    inbox: Vec<Event>,
    alarm: Option<Timestamp>,
    last_task: u128,
    retries: u32,
    /// The steps with a list, and how its items run.
    lists: BTreeMap<u16, Expansion>,
    /// How often the original of a fork has what a step or an item needs, in percent; 0 if this is no
    /// fork.
    original_has: u64,
    /// How often a commit takes in one more decision, in percent.
    chained: u64,
    /// Whether the server dies after every commit, and nobody meddles.
    always_dies: bool,
}

impl World {
    fn of(seed: u64) -> Self {
        let mut chance = Chance(seed);
        let (lists, last) = chance.graph();
        let expansions = chance.expansions(lists.len());
        Self::with(chance, (lists, last), expansions)
    }

    fn with(
        mut chance: Chance,
        (lists, last): (Vec<Vec<u16>>, u16),
        expansions: BTreeMap<u16, Expansion>,
    ) -> Self {
        let mut waits = waits::draw(&mut chance, lists.len());
        // A step over a list is no wait.
        for step in expansions.keys() {
            waits[usize::from(*step)] = None;
        }
        let max = chance.percent(40).then(|| 2_000_000 + chance.below(30_000_000));
        let start_at = chance.percent(15).then(|| {
            let seconds = chance.below(3_600);
            NOW.after(Duration::from_secs(seconds))
        });
        let original_has = forks::draw(&mut chance);
        let forked_from =
            ForkedFrom { execution: ExecutionId::from_u128(3 << 10), from_step: None };
        let spec = Spec {
            id: ExecutionId::from_u128(1 << 10),
            plan: PlanId::from_u128(2 << 10),
            template: None,
            account: "usr_1".into(),
            tags: Vec::new(),
            callback_url: None,
            labels: None,
            fail_fast: chance.percent(25),
            timeout_ms: chance.percent(50).then_some(60_000),
            max_cost: max.map(Money::from_nanos),
            output_checked: chance.percent(40).then_some(last),
            start_at,
            forked_from: (original_has > 0).then(|| Box::new(forked_from)),
            occurrence: None,
            row_of: None,
            idempotency_key: None,
            created_at: NOW,
            trace: None,
        };
        let after = |ms| NOW.after(Duration::from_millis(ms));
        let naive = Naive {
            dependencies: lists.clone(),
            fail_fast: spec.fail_fast,
            max,
            timeout_ms: spec.timeout_ms,
            deadline: spec.timeout_ms.filter(|_| start_at.is_none()).map(after),
            begins: start_at,
            own: vec![Own::Nothing; lists.len()],
            lists: BTreeMap::new(),
            signals: vec![None; lists.len()],
            corrected: BTreeSet::new(),
            loose: BTreeSet::new(),
            worst: BTreeMap::new(),
            bills: Vec::new(),
            first: None,
            ends: reopens::Ends::default(),
            over: None,
        };
        let names = lists.into_iter().enumerate().map(|(step, list)| (format!("s{step}"), list));
        let graph = Arc::new(Graph::new(names).expect("edges follow an order"));
        let open = Execution::started(spec, Arc::clone(&graph), NOW);
        let rows = open.next.steps().map(|(step, row)| (step, json(row))).collect();
        let mut world = Self {
            chance,
            now: NOW,
            graph,
            waits,
            head: json(&open.next.head),
            rows,
            items: BTreeMap::new(),
            committed: open.next.clone(),
            naive_committed: naive.clone(),
            naive,
            open,
            tasks: BTreeMap::new(),
            fresh: Vec::new(),
            applied: BTreeSet::new(),
            todo: BTreeSet::new(),
            inbox: Vec::new(),
            alarm: None,
            last_task: 0,
            retries: 0,
            lists: expansions,
            original_has,
            chained: 50,
            always_dies: false,
        };
        world.agrees();
        world.commit();
        world
    }

    fn live(mut self, moves: u32) -> Execution {
        for _ in 0..moves {
            match self.chance.below(100) {
                0..4 => self.crash(),
                4..8 if !self.always_dies => self.meddle(),
                8 => self.signal(),
                9 if !self.always_dies => self.reopen(),
                10..40 => self.decide_one(),
                40..70 => self.end_one(),
                _ => self.deliver_one(),
            }
            let idle = self.todo.is_empty()
                && self.inbox.is_empty()
                && self.tasks.values().all(|task| task.end.is_some());
            if idle && self.awake_a_wait() {
                continue;
            }
            if idle {
                assert!(self.committed.is_finished(), "stuck: {:#?}", self.committed);
                assert!(self.committed.outstanding().is_empty());
                assert!(self.alarm.is_none(), "it wants to be woken after its end");
                if self.retries >= 2 || self.chance.percent(60) {
                    return self.committed;
                }
                self.retries += 1;
                self.happens(&Event::RetryRequested);
            }
        }
        panic!("it never ends: {:#?}", self.committed);
    }

    fn decide_one(&mut self) {
        if let Some(step) = self.chance.pick(self.todo.iter().copied()) {
            self.todo.remove(&step);
            self.decide(step);
            // A wrong item may have been tried.
            if self.open.next.has_due() && self.open.next.due().contains(step) {
                self.todo.insert(step);
            }
        }
    }

    fn decide(&mut self, step: u16) {
        let expansion = self.lists.get(&step).copied();
        let stage = self.open.next.step(step).map(|row| row.stage);
        if let (Some(expansion), Some(Stage::Dispatched)) = (expansion, stage) {
            return self.decide_item(step, expansion.items);
        }
        if self.is_wait(step) {
            let decision = self.about_wait();
            let awaits = matches!(decision, StepDecision::Await { .. });
            let decided = Event::Decided { step, decision };
            if awaits && self.original_has_it() {
                return self.takes_over_payload(step, &decided);
            }
            return self.happens(&decided);
        }
        if expansion.is_none() && self.original_has_it() {
            return self.takes_over(step, None);
        }
        let decision = match self.chance.below(100) {
            0..12 => StepDecision::Skip,
            12..16 => StepDecision::Fail(ending(EndingCode::ConditionFailed)),
            16..20 => StepDecision::Fail(ending(EndingCode::RenderFailed)),
            _ => {
                let priced = self.chance.percent(95);
                let worst_cost = priced.then(|| Money::from_usd(self.chance.usd()));
                match expansion {
                    Some(expansion) => {
                        let worst_cost = worst_cost.map(|one| one.times(expansion.items));
                        StepDecision::Expand(Expansion { worst_cost, ..expansion })
                    }
                    None => StepDecision::Run { task: self.new_task(), worst_cost },
                }
            }
        };
        self.happens(&Event::Decided { step, decision });
    }

    /// The item whose turn it is, or any other.
    fn decide_item(&mut self, step: u16, items: u16) {
        let due = self.open.next.next_due().filter(|due| due.step == step);
        let any = u16::try_from(self.chance.below(u64::from(items) + 1)).expect("small");
        let next = due.and_then(|due| due.item).filter(|_| self.chance.percent(80));
        if self.original_has_it() {
            return self.takes_over(step, Some(next.unwrap_or(any)));
        }
        let decision = if self.chance.percent(8) {
            ItemDecision::Fail(ending(EndingCode::RenderFailed))
        } else {
            let priced = self.chance.percent(95);
            let worst_cost = priced.then(|| Money::from_usd(self.chance.usd()));
            ItemDecision::Run { task: self.new_task(), worst_cost }
        };
        self.happens(&Event::ItemDecided { step, item: next.unwrap_or(any), decision });
    }

    fn end_one(&mut self) {
        let live = self.tasks.iter().filter(|(_, fake)| fake.end.is_none());
        if let Some(task) = self.chance.pick(live.map(|(task, _)| *task)) {
            self.end(task, false);
        }
    }

    /// Tasks end in commits of their own.
    fn end(&mut self, task: TaskId, cancel: bool) {
        let Fake { step, item, .. } = self.tasks[&task];
        let usage =
            Usage { input: 7, output: 3, total_cost: self.chance.usd(), ..Usage::default() };
        let report = Report {
            task,
            item,
            started_at: Some(self.now),
            attempt: 1,
            usage,
            confidence: Some(0.5),
            finish_reason: None,
            fallback: None,
        };
        let message = "does not match".to_owned();
        let end = match self.chance.below(100) {
            _ if cancel && self.chance.percent(70) => Event::StepCancelled { step, report },
            0..15
                if self.committed.head.spec.output_checked == Some(step)
                    && !self.naive.ends.counted.contains(&task) =>
            {
                Event::OutputMismatched { step, report, fault: OutputFault::Mismatch(message) }
            }
            55..75 => Event::StepFailed { step, report, ending: ending(EndingCode::ProviderError) },
            20..35 => {
                let retried_as = self.chance.percent(60).then(|| Retry {
                    task: self.new_task(),
                    worst_cost: Some(Money::from_usd(self.chance.usd())),
                });
                if let Some(retry) = retried_as {
                    self.tasks.insert(retry.task, Fake { step, item, end: None });
                }
                let ending = ending(EndingCode::Rejected);
                Event::StepRejected { step, report, ending, retried_as }
            }
            35..40 => Event::StepCancelled { step, report },
            _ => Event::StepCompleted { step, report },
        };
        self.tasks.insert(task, Fake { step, item, end: Some(end.clone()) });
        self.inbox.push(end);
    }

    fn deliver_one(&mut self) {
        if !self.inbox.is_empty() {
            let event = self.inbox.swap_remove(self.chance.index(self.inbox.len()));
            if self.chance.percent(10) {
                self.inbox.push(event.clone());
            }
            self.happens(&event);
        }
    }

    /// Clients, the clock, and messages that come too late or to the wrong one.
    fn meddle(&mut self) {
        let size = self.graph.len() as u64;
        let anyone = u16::try_from(self.chance.below(size + 1)).expect("small");
        match self.chance.below(12) {
            0..2 => self.happens(&Event::CancelRequested),
            2 => self.happens(&Event::RetryRequested),
            3 if self.chance.percent(30) => self.happens(&Event::GivenUp),
            4..6 => {
                self.now = self.alarm.unwrap_or(self.now);
                self.alarm = None;
                self.happens(&Event::TimePassed);
            }
            6 => self.happens(&Event::TimePassed),
            7..9 if u64::from(anyone) < size => self.decide(anyone),
            9 => {
                let ended = self.tasks.values().filter_map(|fake| fake.end.as_ref());
                let ended: Vec<Event> = ended.cloned().collect();
                if let Some(index) = self.chance.pick(0..ended.len()) {
                    self.happens(&ended[index]);
                }
            }
            _ => self.now = self.now.after(Duration::from_secs(1)),
        }
    }

    /// One event, then perhaps more of the same commit.
    fn happens(&mut self, event: &Event) {
        let before = self.open.next.clone();
        let mut runs = None;
        if let Event::Decided { step, decision: StepDecision::Run { task, .. } } = event {
            runs = Some((*step, None, *task));
        }
        if let Event::ItemDecided { step, item, decision: ItemDecision::Run { task, .. } } = event {
            runs = Some((*step, Some(*item), *task));
        }
        if !self.applies(event) {
            return;
        }
        if let Some((step, item, task)) = runs
            && self.open.next.out().any(|out| out == (step, task))
        {
            assert_eq!(before.status(), Status::Running, "it ran after its end");
            for dependency in &self.naive.dependencies[usize::from(step)] {
                let ended = before.step(*dependency).is_some_and(|row| well(row.stage));
                assert!(ended, "{step} ran before {dependency}");
            }
            self.tasks.insert(task, Fake { step, item, end: None });
            self.fresh.push(task);
        }
        self.goes_on();
    }

    /// One event, to the machine and to the reference, which agree on whether it applies and on what
    /// becomes of it.
    fn applies(&mut self, event: &Event) -> bool {
        let before = self.open.next.clone();
        let allowed = self.naive.accepts(event, self.now);
        let outcome = self.open.and_then(event.clone(), self.now);
        assert_eq!(outcome.is_ok(), allowed, "{event:?} was {outcome:?} in {before:#?}");
        if allowed {
            self.agrees();
        }
        allowed
    }

    /// Perhaps more of the same commit, and the commit.
    fn goes_on(&mut self) {
        if self.chance.percent(self.chained) {
            let due = self.open.next.due();
            if let Some(step) = self.chance.pick(due) {
                let before = self.open.next.head.version;
                self.decide(step);
                // A decision about the wrong item is refused, and commits nothing.
                if self.open.next.head.version == before {
                    self.commit();
                }
                return;
            }
        }
        self.commit();
    }

    fn agrees(&self) {
        let (ours, theirs) = (&self.open.next, &self.naive);
        let shown = ours.steps().map(|(_, row)| (row.stage, row.error.as_ref().map(|e| e.code)));
        let steps = theirs.steps();
        assert!(shown.eq(steps.iter().copied()), "{steps:?} is not {ours:#?}");
        assert_eq!(ours.status(), theirs.status());
        assert_eq!(ours.head.error.as_ref().map(|cause| cause.ending.code), theirs.error());
        assert_eq!(ours.head.budget.spent(), Money::from_nanos(theirs.spent()));
        assert_eq!(ours.head.budget.reserved(), Money::from_nanos(theirs.reserved()));
        assert_eq!(ours.stopping().collect::<BTreeSet<_>>(), theirs.loose);
        self.items_agree();
        assert!(
            ours.steps()
                .map(|(_, row)| row.signal.as_deref())
                .eq(theirs.signals.iter().map(Option::as_ref))
        );
        assert_eq!(ours.wakes_at(), theirs.wakes_at());
        let progress = ours.progress(|task| match task.as_u128() >> 10 & 3 {
            0 => DispatchState::Pending,
            1 => DispatchState::AwaitingApproval,
            _ => DispatchState::Running,
        });
        let failed = steps.iter().filter(|(stage, _)| bad(*stage)).count();
        let sum = progress.completed + progress.running + progress.pending + progress.skipped;
        let ended = progress.failed + progress.cancelled;
        assert_eq!((sum + ended) as usize, ours.graph.len());
        assert_eq!(ended as usize, failed);
        let owed = ours.outstanding();
        for effect in self.open.effects.iter().filter(|effect| **effect != Effect::ForgetWake) {
            assert!(owed.contains(effect), "{effect:?} would be forgotten");
        }
    }

    /// Each item is as far as the reference says, and the step's row counts them.
    fn items_agree(&self) {
        for (step, list) in &self.naive.lists {
            let shown = self.open.next.items(*step).map(|(_, row)| row.stage);
            let said = list.items.iter().map(|own| match own {
                Own::Nothing | Own::Items | Own::Awaits(_) => Stage::Waiting,
                Own::Out(_) => Stage::Dispatched,
                Own::Well(stage) | Own::Bad(stage, _) => *stage,
            });
            let (shown, said): (Vec<_>, Vec<_>) = (shown.collect(), said.collect());
            assert_eq!(shown, said, "the items of step {step}");
            let counts =
                self.open.next.item_counts(*step, |_| DispatchState::Running).expect("a list");
            let of = |stage| u32::try_from(said.iter().filter(|is| **is == stage).count());
            assert_eq!(Ok(counts.completed), of(Stage::Completed));
            assert_eq!(Ok(counts.failed + counts.rejected), {
                of(Stage::Failed).and_then(|failed| Ok(failed + of(Stage::Rejected)?))
            });
            let ended = counts.completed + counts.failed + counts.rejected + counts.cancelled;
            assert_eq!(ended + counts.running + counts.pending, counts.total);
        }
    }

    fn commit(&mut self) {
        let next = self.open.next.clone();
        let silent =
            self.committed.status() == Status::Cancelled && next.status() == Status::Cancelled;
        assert!(!silent || self.fresh.is_empty(), "a task began after an acknowledged cancel");
        for fact in std::mem::take(&mut self.open.facts) {
            let mut completed = None;
            if let Fact::StepCompleted(step) = fact {
                let row = next.step(step).filter(|row| row.map.is_none());
                completed = row.map(|row| (step, row));
            }
            if let Fact::ItemCompleted(step, item) = fact {
                completed = next.item(step, item).map(|row| (step, row));
            }
            if let Some((step, row)) = completed {
                let source = row.output_source();
                let source = source.expect("it has an output");
                let is_of_wait = matches!(source, OutputSource::Signal(_));
                assert_eq!(is_of_wait, self.is_wait(step), "{source:?} is not the step's");
                let first = self.applied.insert((step, source));
                assert!(first, "{source:?} was applied twice");
            }
        }
        self.head = json(&next.head);
        for (step, row) in next.changed_since(&self.committed) {
            self.rows.insert(step, json(row));
        }
        for (step, item, row) in next.items_changed_since(Some(&self.committed)) {
            self.items.insert((step, item), json(row));
        }
        self.committed = next;
        self.naive_committed = self.naive.clone();
        self.fresh.clear();
        if self.always_dies {
            return self.crash();
        }
        for effect in std::mem::take(&mut self.open.effects) {
            // The server may die before it did all that it had decided to do.
            if self.chance.percent(1) {
                return self.crash();
            }
            self.perform(effect);
        }
        // The next commit takes the rest.
        self.todo.extend(self.committed.due().iter().filter(|_| self.committed.has_due()));
        if self.chance.percent(2) {
            self.crash();
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Decide(step) => {
                self.todo.insert(step);
            }
            Effect::Watch { task, .. } | Effect::WatchItem { task, .. } => {
                self.inbox.extend(self.tasks[&task].end.clone());
            }
            Effect::CancelTask { task, .. } => match self.tasks[&task].end.clone() {
                Some(end) => self.inbox.push(end),
                None => self.end(task, true),
            },
            Effect::WakeAt(at) => self.alarm = Some(at),
            Effect::ForgetWake => self.alarm = None,
        }
    }

    /// An uncommitted transition never happened, and the state in memory is gone.
    fn crash(&mut self) {
        for task in std::mem::take(&mut self.fresh) {
            self.tasks.remove(&task);
        }
        self.todo.clear();
        self.inbox.clear();
        self.alarm = None;
        let head = serde_json::from_str(&self.head).expect("a head is read");
        let rows = self
            .rows
            .values()
            .map(|row| serde_json::from_str::<StepState>(row).expect("a row is read"));
        let loaded = Execution::loaded(head, Arc::clone(&self.graph), rows).expect("all rows");
        let row = |((step, item), row): (&(u16, u16), &String)| {
            (*step, *item, serde_json::from_str(row).expect("a row is read"))
        };
        let loaded = loaded.with_items(self.items.iter().map(row)).expect("all items");
        assert_eq!(loaded, self.committed, "what came back is not what was committed");
        self.naive = self.naive_committed.clone();
        self.committed = loaded.clone();
        self.open = Step::to(loaded);
        for effect in self.committed.outstanding() {
            self.perform(effect);
        }
    }

    fn new_task(&mut self) -> TaskId {
        self.last_task += 1;
        TaskId::from_u128(self.last_task << 10)
    }
}

fn ending(code: EndingCode) -> Ending {
    Ending { code, message: "no".into() }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("it is written")
}

/// Says which seed failed.
struct Say(u64);

impl Drop for Say {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the seed was {}: build with CALLBOARD_SEED={}", self.0, self.0);
        }
    }
}

#[test]
fn random_executions_end_as_the_reference_says() {
    let only = option_env!("CALLBOARD_SEED").map(|seed| seed.parse().expect("a number"));
    let long = option_env!("CALLBOARD_LONG").is_some();
    let executions = if long { EXECUTIONS_LONG } else { EXECUTIONS };
    for seed in only.map_or(0..executions, |seed: u64| seed..seed + 1) {
        let say = Say(seed);
        World::of(seed).live(4_000);
        drop(say);
    }
}

#[test]
fn a_thousand_items_end_as_the_reference_says_with_a_crash_after_every_commit() {
    let items = MAX_ITEMS;
    let list = Expansion { items, concurrency: None, min_success: 0, worst_cost: None };
    let world = |seed| {
        let graph = (vec![vec![], vec![0]], 1);
        World::with(Chance(seed), graph, BTreeMap::from([(0, list)]))
    };
    let is_calm = |seed: &u64| {
        let naive = world(*seed).naive;
        naive.max.is_none() && !naive.fail_fast
    };
    let seed = (0..100).find(is_calm).expect("most are");
    let say = Say(seed);
    let mut world = world(seed);
    (world.chained, world.always_dies, world.retries) = (97, true, 2);
    world.happens(&Event::Decided { step: 0, decision: StepDecision::Expand(list) });
    let ended = world.live(40_000);
    let counts = ended.item_counts(0, |_| DispatchState::Running).expect("a list");
    assert_eq!((counts.total, counts.running + counts.pending), (1_000, 0));
    assert!(counts.completed > 300, "{counts:?}");
    drop(say);
}
