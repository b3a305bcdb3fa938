//! What an execution is, said as plainly as can be: only what happened to each step by itself is
//! kept, and everything else is worked out anew at every question.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{Event, Report, Retry, Stage, Status, StepDecision};
use crate::Timestamp;
use crate::id::TaskId;
use crate::task::EndingCode;

/// What happened to a step by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Own {
    Nothing,
    Out(TaskId),
    Well(Stage),
    Bad(Stage, EndingCode),
}

#[derive(Debug, Clone)]
pub(super) struct Naive {
    pub(super) dependencies: Vec<Vec<u16>>,
    pub(super) fail_fast: bool,
    pub(super) max: Option<u64>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) deadline: Option<Timestamp>,
    pub(super) own: Vec<Own>,
    pub(super) corrected: BTreeSet<u16>,
    pub(super) loose: BTreeSet<(u16, TaskId)>,
    pub(super) worst: BTreeMap<TaskId, u64>,
    pub(super) bills: Vec<u64>,
    pub(super) first: Option<EndingCode>,
    pub(super) over: Option<(Status, EndingCode)>,
}

impl Naive {
    /// The stage of every step, and its error.
    pub(super) fn steps(&self) -> Vec<(Stage, Option<EndingCode>)> {
        let alone = self.own.iter().map(|own| match own {
            Own::Nothing => (Stage::Waiting, None),
            Own::Out(_) => (Stage::Dispatched, None),
            Own::Well(stage) => (*stage, None),
            Own::Bad(stage, code) => (*stage, Some(*code)),
        });
        let mut steps: Vec<_> = alone.collect();
        loop {
            let before = steps.clone();
            for (step, list) in self.dependencies.iter().enumerate() {
                let mut ends = list.iter().map(|dependency| before[usize::from(*dependency)].0);
                if self.own[step] != Own::Nothing {
                } else if ends.clone().any(bad) {
                    steps[step] = (Stage::Cancelled, Some(EndingCode::DependencyFailed));
                } else if ends.all(well) {
                    steps[step] = (Stage::Ready, None);
                }
            }
            if steps == before {
                break;
            }
        }
        if let Some(code) = self.halted() {
            for step in steps.iter_mut().filter(|(stage, _)| !bad(*stage) && !well(*stage)) {
                *step = (Stage::Cancelled, Some(code));
            }
        }
        steps
    }

    pub(super) fn status(&self) -> Status {
        if let Some((status, _)) = self.over {
            return status;
        }
        let steps = self.steps();
        if steps.iter().any(|(stage, _)| !bad(*stage) && !well(*stage)) {
            Status::Running
        } else if steps.iter().any(|(stage, _)| bad(*stage)) {
            Status::Failed
        } else {
            Status::Completed
        }
    }

    pub(super) fn error(&self) -> Option<EndingCode> {
        self.over.map(|(_, code)| code).or(self.first)
    }

    pub(super) fn spent(&self) -> u64 {
        self.bills.iter().sum()
    }

    pub(super) fn reserved(&self) -> u64 {
        let out = |own: &Own| match own {
            Own::Out(task) => self.worst[task],
            Own::Nothing | Own::Well(_) | Own::Bad(..) => 0,
        };
        self.own.iter().map(out).sum()
    }

    /// Whether the event applies; if so, it did.
    pub(super) fn accepts(&mut self, event: &Event, now: Timestamp) -> bool {
        let running = self.status() == Status::Running;
        let applies = match event {
            Event::Decided { step, decision } => running && self.decided(*step, decision),
            Event::StepCompleted { step, report } => {
                self.ended(*step, report, Own::Well(Stage::Completed), None)
            }
            Event::StepFailed { step, report, ending } => {
                self.ended(*step, report, Own::Bad(Stage::Failed, ending.code), None)
            }
            Event::StepRejected { step, report, ending, retried_as } => {
                let rejected = Own::Bad(Stage::Rejected, ending.code);
                self.ended(*step, report, rejected, *retried_as)
            }
            Event::StepCancelled { step, report } => {
                let cancelled = Own::Bad(Stage::Cancelled, EndingCode::Cancelled);
                self.ended(*step, report, cancelled, None)
            }
            Event::OutputMismatched { step, report, .. } => {
                let current = self.own[usize::from(*step)] == Own::Out(report.task);
                let invalid = Own::Bad(Stage::Failed, EndingCode::OutputInvalid);
                let twice = self.corrected.contains(step);
                let end = if twice { invalid } else { Own::Nothing };
                let applies = self.ended(*step, report, end, None);
                if applies && current {
                    self.corrected.insert(*step);
                }
                applies
            }
            Event::CancelRequested => {
                running && self.halt(Status::Cancelled, EndingCode::Cancelled)
            }
            Event::TimePassed => {
                running
                    && self.deadline.is_some_and(|deadline| deadline <= now)
                    && self.halt(Status::Failed, EndingCode::ExecutionTimeout)
            }
            Event::GivenUp => running && self.halt(Status::Failed, EndingCode::InternalError),
            Event::RetryRequested => {
                let again = matches!(self.status(), Status::Failed | Status::Cancelled);
                again && self.again(now)
            }
        };
        if applies && self.halted().is_some() {
            self.let_go();
        }
        applies
    }

    fn decided(&mut self, step: u16, decision: &StepDecision) -> bool {
        if self.steps()[usize::from(step)].0 != Stage::Ready {
            return false;
        }
        match decision {
            StepDecision::Skip => self.set(step, Own::Well(Stage::Skipped)),
            StepDecision::Fail(ending) => self.set(step, Own::Bad(Stage::Failed, ending.code)),
            StepDecision::Run { task, worst_cost } => {
                let worst = worst_cost.map(|worst| nanos(worst.as_usd()));
                match self.room(worst) {
                    Some(true) => self.send(step, *task, worst),
                    Some(false) => {}
                    None => self.set(step, Own::Bad(Stage::Failed, EndingCode::BudgetExceeded)),
                }
            }
        }
        true
    }

    /// Whether it fits now; `None` if it never does.
    fn room(&self, worst: Option<u64>) -> Option<bool> {
        let Some(max) = self.max else { return Some(true) };
        let worst = worst.filter(|worst| self.spent() + worst <= max)?;
        Some(self.spent() + self.reserved() + worst <= max)
    }

    fn send(&mut self, step: u16, task: TaskId, worst: Option<u64>) {
        self.worst.insert(task, self.max.and(worst).unwrap_or(0));
        self.set(step, Own::Out(task));
    }

    fn ended(&mut self, step: u16, report: &Report, end: Own, retry: Option<Retry>) -> bool {
        if self.loose.remove(&(step, report.task)) {
            self.bills.push(nanos(report.usage.total_cost));
            self.loose.extend(retry.map(|retry| (step, retry.task)));
            return true;
        }
        if self.own[usize::from(step)] != Own::Out(report.task) {
            return false;
        }
        self.own[usize::from(step)] = Own::Nothing;
        self.bills.push(nanos(report.usage.total_cost));
        let Some(Retry { task, worst_cost }) = retry else {
            self.set(step, end);
            return true;
        };
        let worst = worst_cost.map(|worst| nanos(worst.as_usd()));
        if self.room(worst) == Some(true) {
            self.send(step, task, worst);
        } else {
            self.loose.insert((step, task));
            self.set(step, Own::Bad(Stage::Failed, EndingCode::BudgetExceeded));
        }
        true
    }

    fn set(&mut self, step: u16, own: Own) {
        self.own[usize::from(step)] = own;
        if let Own::Bad(_, code) = own {
            self.first.get_or_insert(code);
        }
    }

    fn halt(&mut self, status: Status, code: EndingCode) -> bool {
        self.over = Some((status, code));
        true
    }

    /// Why nothing runs any more, if the whole was stopped.
    fn halted(&self) -> Option<EndingCode> {
        let failed = self.own.iter().any(|own| matches!(own, Own::Bad(..)));
        let fast = (self.fail_fast && failed).then_some(EndingCode::Cancelled);
        self.over.map(|(_, code)| code).or(fast)
    }

    fn let_go(&mut self) {
        for (step, own) in (0..).zip(&mut self.own) {
            if let Own::Out(task) = *own {
                *own = Own::Nothing;
                self.loose.insert((step, task));
            }
        }
    }

    fn again(&mut self, now: Timestamp) -> bool {
        self.over = None;
        self.first = None;
        let after = |ms| now.after(std::time::Duration::from_millis(ms));
        self.deadline = self.timeout_ms.map(after);
        for (step, own) in (0..).zip(&mut self.own) {
            if !matches!(own, Own::Well(_)) {
                *own = Own::Nothing;
                self.corrected.remove(&step);
            }
        }
        true
    }
}

fn nanos(usd: f64) -> u64 {
    format!("{:.0}", usd * 1e9).parse().expect("a small amount")
}

pub(super) fn well(stage: Stage) -> bool {
    matches!(stage, Stage::Completed | Stage::Skipped)
}

pub(super) fn bad(stage: Stage) -> bool {
    matches!(stage, Stage::Failed | Stage::Rejected | Stage::Cancelled)
}
