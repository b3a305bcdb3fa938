//! Random executions in a random world, against a naive reference.
//!
//! The world has tasks that end as they like, clients that cancel and retry, a clock, and a server
//! that dies between any two transitions and comes back with what it had committed. Everything is
//! driven by effects alone, so that one that is missing leaves the execution stuck.
//!
//! A failure prints its seed; `CALLBOARD_SEED=… cargo test` at build time runs that one alone.

mod chance;
mod naive;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chance::Chance;
use naive::{Naive, Own, bad, well};

use super::*;
use crate::budget::Money;
use crate::id::{ExecutionId, PlanId};
use crate::task::{Ending, OutputFault};

const EXECUTIONS: u64 = 10_000;
const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// A task: its step, and its end once it has one.
#[derive(Debug, Clone)]
struct Fake {
    step: u16,
    end: Option<Event>,
}

struct World {
    chance: Chance,
    now: Timestamp,
    graph: Arc<Graph>,
    /// The commit in the making, and what the reference says of it.
    open: Step<Execution>,
    naive: Naive,
    /// What is on the disk.
    head: String,
    rows: BTreeMap<u16, String>,
    committed: Execution,
    naive_committed: Naive,
    tasks: BTreeMap<TaskId, Fake>,
    fresh: Vec<TaskId>,
    applied: BTreeSet<TaskId>,
    /// What is in memory only.
    todo: BTreeSet<u16>,
    inbox: Vec<Event>,
    alarm: Option<Timestamp>,
    last_task: u128,
    retries: u32,
}

impl World {
    fn of(seed: u64) -> Self {
        let mut chance = Chance(seed);
        let (lists, last) = chance.graph();
        let max = chance.percent(40).then(|| 2_000_000 + chance.below(30_000_000));
        let spec = Spec {
            id: ExecutionId::from_u128(1 << 10),
            plan: PlanId::from_u128(2 << 10),
            template: None,
            account: "usr_1".into(),
            concurrent: None,
            fail_fast: chance.percent(25),
            timeout_ms: chance.percent(50).then_some(60_000),
            max_cost: max.map(Money::from_nanos),
            output_checked: chance.percent(40).then_some(last),
            created_at: NOW,
            trace: None,
        };
        let naive = Naive {
            dependencies: lists.clone(),
            fail_fast: spec.fail_fast,
            max,
            timeout_ms: spec.timeout_ms,
            deadline: spec.timeout_ms.map(|ms| NOW.after(Duration::from_millis(ms))),
            own: vec![Own::Nothing; lists.len()],
            corrected: BTreeSet::new(),
            loose: BTreeSet::new(),
            worst: BTreeMap::new(),
            bills: Vec::new(),
            first: None,
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
            head: json(&open.next.head),
            rows,
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
        };
        world.agrees();
        world.commit();
        world
    }

    fn live(mut self) {
        for _ in 0..2_000 {
            match self.chance.below(100) {
                0..4 => self.crash(),
                4..9 => self.meddle(),
                9..40 => self.decide_one(),
                40..70 => self.end_one(),
                _ => self.deliver_one(),
            }
            let idle = self.todo.is_empty()
                && self.inbox.is_empty()
                && self.tasks.values().all(|task| task.end.is_some());
            if idle {
                assert!(self.committed.is_finished(), "stuck: {:#?}", self.committed);
                assert!(self.committed.outstanding().is_empty());
                assert!(self.alarm.is_none(), "it wants to be woken after its end");
                if self.retries >= 2 || self.chance.percent(60) {
                    return;
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
        }
    }

    fn decide(&mut self, step: u16) {
        let decision = match self.chance.below(100) {
            0..12 => StepDecision::Skip,
            12..16 => StepDecision::Fail(ending(EndingCode::ConditionFailed)),
            16..20 => StepDecision::Fail(ending(EndingCode::RenderFailed)),
            _ => {
                let priced = self.chance.percent(95);
                let worst_cost = priced.then(|| Money::from_usd(self.chance.usd()));
                StepDecision::Run { task: self.new_task(), worst_cost }
            }
        };
        self.happens(&Event::Decided { step, decision });
    }

    fn end_one(&mut self) {
        let live = self.tasks.iter().filter(|(_, fake)| fake.end.is_none());
        if let Some(task) = self.chance.pick(live.map(|(task, _)| *task)) {
            self.end(task, false);
        }
    }

    /// Tasks end in commits of their own.
    fn end(&mut self, task: TaskId, cancel: bool) {
        let step = self.tasks[&task].step;
        let usage =
            Usage { input: 7, output: 3, total_cost: self.chance.usd(), ..Usage::default() };
        let report = Report {
            task,
            started_at: Some(self.now),
            attempt: 1,
            usage,
            confidence: Some(0.5),
            finish_reason: None,
        };
        let message = "does not match".to_owned();
        let end = match self.chance.below(100) {
            _ if cancel && self.chance.percent(70) => Event::StepCancelled { step, report },
            0..15 if self.committed.head.spec.output_checked == Some(step) => {
                Event::OutputMismatched { step, report, fault: OutputFault::Mismatch(message) }
            }
            55..75 => Event::StepFailed { step, report, ending: ending(EndingCode::ProviderError) },
            20..35 => {
                let retried_as = self.chance.percent(60).then(|| Retry {
                    task: self.new_task(),
                    worst_cost: Some(Money::from_usd(self.chance.usd())),
                });
                if let Some(retry) = retried_as {
                    self.tasks.insert(retry.task, Fake { step, end: None });
                }
                let ending = ending(EndingCode::Rejected);
                Event::StepRejected { step, report, ending, retried_as }
            }
            35..40 => Event::StepCancelled { step, report },
            _ => Event::StepCompleted { step, report },
        };
        self.tasks.insert(task, Fake { step, end: Some(end.clone()) });
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

    /// One event, to the machine and to the reference; then perhaps more of the same commit.
    fn happens(&mut self, event: &Event) {
        let before = self.open.next.clone();
        let allowed = self.naive.accepts(event, self.now);
        let runs = if let Event::Decided { step, decision: StepDecision::Run { task, .. } } = event
        {
            Some((*step, *task))
        } else {
            None
        };
        let outcome = self.open.and_then(event.clone(), self.now);
        assert_eq!(outcome.is_ok(), allowed, "{event:?} was {outcome:?} in {before:#?}");
        if !allowed {
            return;
        }
        if let Some((step, task)) = runs
            && self.open.next.current(step) == Some(task)
        {
            assert_eq!(before.status(), Status::Running, "it ran after its end");
            for dependency in &self.naive.dependencies[usize::from(step)] {
                let ended = before.step(*dependency).is_some_and(|row| well(row.stage));
                assert!(ended, "{step} ran before {dependency}");
            }
            self.tasks.insert(task, Fake { step, end: None });
            self.fresh.push(task);
        }
        self.agrees();
        if self.chance.percent(50) {
            let due = self.open.next.due();
            if let Some(step) = self.chance.pick(due) {
                return self.decide(step);
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
        let progress = ours.progress(|task| match task.as_u128() >> 10 & 3 {
            0 => Live::Pending,
            1 => Live::AwaitingApproval,
            _ => Live::Running,
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

    fn commit(&mut self) {
        let next = self.open.next.clone();
        let silent =
            self.committed.status() == Status::Cancelled && next.status() == Status::Cancelled;
        assert!(!silent || self.fresh.is_empty(), "a task began after an acknowledged cancel");
        for fact in std::mem::take(&mut self.open.facts) {
            if let Fact::StepCompleted(step) = fact {
                let task = next.step(step).and_then(|row| row.task).expect("it ran");
                assert!(self.applied.insert(task), "the output of {task} was applied twice");
            }
        }
        self.head = json(&next.head);
        for (step, row) in next.changed_since(&self.committed) {
            self.rows.insert(step, json(row));
        }
        self.committed = next;
        self.naive_committed = self.naive.clone();
        self.fresh.clear();
        for effect in std::mem::take(&mut self.open.effects) {
            // The server may die before it did all that it had decided to do.
            if self.chance.percent(1) {
                return self.crash();
            }
            self.perform(effect);
        }
        if self.chance.percent(2) {
            self.crash();
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Decide(step) => {
                self.todo.insert(step);
            }
            Effect::Watch { task, .. } => self.inbox.extend(self.tasks[&task].end.clone()),
            Effect::CancelTask { task, .. } => match self.tasks[&task].end.clone() {
                Some(end) => self.inbox.push(end),
                None => self.end(task, true),
            },
            Effect::WakeAt(at) => self.alarm = Some(at),
            Effect::ForgetWake => self.alarm = None,
        }
    }

    /// What was not committed never happened, and what was only in memory is gone.
    fn crash(&mut self) {
        for task in std::mem::take(&mut self.fresh) {
            self.tasks.remove(&task);
        }
        self.todo.clear();
        self.inbox.clear();
        self.alarm = None;
        let head = serde_json::from_str(&self.head).expect("a head is read");
        let rows = self.rows.values().map(|row| serde_json::from_str(row).expect("a row is read"));
        let loaded = Execution::loaded(head, Arc::clone(&self.graph), rows).expect("all rows");
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
fn ten_thousand_random_executions_end_as_the_reference_says() {
    let only = option_env!("CALLBOARD_SEED").map(|seed| seed.parse().expect("a number"));
    for seed in only.map_or(0..EXECUTIONS, |seed: u64| seed..seed + 1) {
        let say = Say(seed);
        World::of(seed).live();
        drop(say);
    }
}
