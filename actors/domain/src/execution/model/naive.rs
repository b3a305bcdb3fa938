//! An execution in its plainest form: only the events of each step by itself are
//! kept, and everything else is worked out anew at every question.

use std::collections::{BTreeMap, BTreeSet};

use super::super::signal::Sent;
use super::super::{
    Event, Expansion, ItemDecision, Report, Retry, Signal, Stage, Status, StepDecision,
};
use super::reopens::Ends;
use crate::Timestamp;
use crate::id::TaskId;
use crate::task::EndingCode;

/// The events of a step by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Own {
    Nothing,
    Out(TaskId),
    /// Its items run.
    Items,
    /// It waits for a signal, until then if it says so.
    Awaits(Option<Timestamp>),
    Well(Stage),
    Bad(Stage, EndingCode),
}

/// A list: the events of each item by itself, and the reservation for later items.
#[derive(Debug, Clone)]
pub(super) struct List {
    pub(super) items: Vec<Own>,
    corrected: BTreeSet<u16>,
    concurrency: usize,
    min_success: usize,
    set_aside: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Naive {
    pub(super) dependencies: Vec<Vec<u16>>,
    pub(super) fail_fast: bool,
    pub(super) max: Option<u64>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) deadline: Option<Timestamp>,
    /// When it begins, as long as it has not.
    pub(super) begins: Option<Timestamp>,
    pub(super) own: Vec<Own>,
    pub(super) lists: BTreeMap<u16, List>,
    pub(super) signals: Vec<Option<Signal>>,
    pub(super) corrected: BTreeSet<u16>,
    pub(super) loose: BTreeSet<(u16, TaskId)>,
    pub(super) worst: BTreeMap<TaskId, u64>,
    pub(super) bills: Vec<u64>,
    pub(super) first: Option<(u16, EndingCode)>,
    /// The end of each step and its instant, for decisions that are taken back.
    pub(super) ends: Ends,
    pub(super) over: Option<(Status, EndingCode)>,
}

impl Naive {
    /// The stage of every step, and its error.
    pub(super) fn steps(&self) -> Vec<(Stage, Option<EndingCode>)> {
        let alone = self.own.iter().map(|own| match own {
            Own::Nothing => (Stage::Waiting, None),
            Own::Out(_) | Own::Items => (Stage::Dispatched, None),
            Own::Awaits(_) => (Stage::Awaiting, None),
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
        if self.begins.is_some() {
            steps.fill((Stage::Waiting, None));
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
        if self.begins.is_some() {
            return Status::Pending;
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
        self.over
            .or_else(|| self.first.map(|(_, code)| (Status::Failed, code)))
            .map(|(_, code)| code)
    }

    pub(super) fn spent(&self) -> u64 {
        self.bills.iter().sum()
    }

    pub(super) fn reserved(&self) -> u64 {
        let out = |own: &Own| match own {
            Own::Out(task) => self.worst[task],
            Own::Nothing | Own::Items | Own::Awaits(_) | Own::Well(_) | Own::Bad(..) => 0,
        };
        let of_list = |list: &List| list.set_aside + list.items.iter().map(out).sum::<u64>();
        self.own.iter().map(out).sum::<u64>() + self.lists.values().map(of_list).sum::<u64>()
    }

    fn any_out(&self) -> bool {
        let all = self.own.iter().chain(self.lists.values().flat_map(|list| &list.items));
        all.into_iter().any(|own| matches!(own, Own::Out(_)))
    }

    /// Whether the event applies; if so, it did.
    pub(super) fn accepts(&mut self, event: &Event, now: Timestamp) -> bool {
        self.ends.now = now;
        let running = self.status() == Status::Running;
        let open = running || self.status() == Status::Pending;
        let applies = match event {
            Event::Decided { step, decision } => running && self.decided(*step, decision, now),
            Event::ItemDecided { step, item, decision } => {
                running && self.item_decided(*step, *item, decision)
            }
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
                let current = self.is_out(*step, report);
                let invalid = Own::Bad(Stage::Failed, EndingCode::OutputInvalid);
                let twice = match report.item {
                    Some(item) => self.lists[step].corrected.contains(&item),
                    None => self.corrected.contains(step),
                };
                let end = if twice { invalid } else { Own::Nothing };
                let applies = self.ended(*step, report, end, None);
                if let (true, Some(item)) = (applies && current, report.item) {
                    self.lists.get_mut(step).expect("a list").corrected.insert(item);
                } else if applies && current {
                    self.corrected.insert(*step);
                }
                applies
            }
            Event::StepReopened { step, task } => running && self.reopened(*step, *task),
            Event::CancelRequested => open && self.halt(Status::Cancelled, EndingCode::Cancelled),
            Event::Signalled(sent) => self.signalled(sent),
            Event::TimePassed if open && self.begins.is_some() => self.begin(now),
            Event::TimePassed if self.deadline.is_some_and(|deadline| deadline <= now) => {
                running && self.halt(Status::Failed, EndingCode::ExecutionTimeout)
            }
            Event::TimePassed => running && self.waits_over(now),
            Event::GivenUp => open && self.halt(Status::Failed, EndingCode::InternalError),
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

    fn begin(&mut self, now: Timestamp) -> bool {
        let is_due = self.begins.is_some_and(|at| at <= now);
        if is_due {
            self.begins = None;
            let after = |ms| now.after(std::time::Duration::from_millis(ms));
            self.deadline = self.timeout_ms.map(after);
        }
        is_due
    }

    fn decided(&mut self, step: u16, decision: &StepDecision, now: Timestamp) -> bool {
        if self.steps()[usize::from(step)].0 != Stage::Ready {
            return false;
        }
        match decision {
            StepDecision::Await { .. } if self.signals[usize::from(step)].is_some() => {
                self.set(step, Own::Well(Stage::Completed));
            }
            StepDecision::Await { timeout_ms } => {
                let after = |ms| now.after(std::time::Duration::from_millis(ms));
                self.set(step, Own::Awaits(timeout_ms.map(after)));
            }
            StepDecision::Skip => self.set(step, Own::Well(Stage::Skipped)),
            StepDecision::Fail(ending) => self.set(step, Own::Bad(Stage::Failed, ending.code)),
            StepDecision::Expand(expansion) => self.expand(step, *expansion),
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

    fn expand(&mut self, step: u16, expansion: Expansion) {
        let worst = expansion.worst_cost.map(|worst| nanos(worst.as_usd()));
        match self.room(worst) {
            Some(false) => {}
            None => self.set(step, Own::Bad(Stage::Failed, EndingCode::BudgetExceeded)),
            Some(true) => {
                let list = List {
                    items: vec![Own::Nothing; expansion.items.into()],
                    corrected: BTreeSet::new(),
                    concurrency: expansion.concurrency.map_or(usize::MAX, usize::from),
                    min_success: expansion.min_success.into(),
                    set_aside: self.max.and(worst).unwrap_or(0),
                };
                self.lists.insert(step, list);
                self.set(step, Own::Items);
                self.look_at(step, None);
            }
        }
    }

    fn item_decided(&mut self, step: u16, item: u16, decision: &ItemDecision) -> bool {
        let Some(list) = self.lists.get(&step) else { return false };
        let out = list.items.iter().filter(|own| matches!(own, Own::Out(_))).count();
        if self.own[usize::from(step)] != Own::Items
            || list.items.get(usize::from(item)) != Some(&Own::Nothing)
            || out >= list.concurrency
        {
            return false;
        }
        match decision {
            ItemDecision::Fail(ending) => {
                self.set_item(step, item, Own::Bad(Stage::Failed, ending.code));
            }
            ItemDecision::Run { task, worst_cost } => {
                let worst = worst_cost.map(|worst| nanos(worst.as_usd()));
                if let Some(end) = self.send_item(step, item, *task, worst) {
                    self.set_item(step, item, end);
                }
            }
        }
        true
    }

    /// Sends an item if there is room; its end if there never is.
    fn send_item(&mut self, step: u16, item: u16, task: TaskId, worst: Option<u64>) -> Option<Own> {
        let set_aside = self.lists[&step].set_aside;
        let share = worst.map_or(0, |worst| worst.min(set_aside));
        self.lists.get_mut(&step).expect("a list").set_aside -= share;
        let room = self.room(worst).filter(|now| *now || self.any_out());
        if room == Some(true) {
            self.worst.insert(task, self.max.and(worst).unwrap_or(0));
            self.set_item(step, item, Own::Out(task));
            return None;
        }
        self.lists.get_mut(&step).expect("a list").set_aside += share;
        room.is_none().then_some(Own::Bad(Stage::Failed, EndingCode::BudgetExceeded))
    }

    fn set_item(&mut self, step: u16, item: u16, own: Own) {
        self.lists.get_mut(&step).expect("a list").items[usize::from(item)] = own;
        self.look_at(step, Some(own));
    }

    /// The step ends once too few of its items can complete, or none is left.
    fn look_at(&mut self, step: u16, last: Option<Own>) {
        let items = &self.lists[&step];
        let completed = items.items.iter().filter(|own| matches!(own, Own::Well(_))).count();
        let failed = items.items.iter().filter(|own| matches!(own, Own::Bad(..))).count();
        if items.items.len() - failed < items.min_success {
            self.end_list(step, EndingCode::Cancelled);
            self.set(step, last.expect("an item failed"));
        } else if completed + failed == items.items.len() {
            self.lists.get_mut(&step).expect("a list").set_aside = 0;
            self.set(step, Own::Well(Stage::Completed));
        }
    }

    /// Releases the dispatched items and the reservation.
    fn end_list(&mut self, step: u16, code: EndingCode) {
        let Some(list) = self.lists.get_mut(&step) else { return };
        list.set_aside = 0;
        for own in &mut list.items {
            if let Own::Out(task) = *own {
                *own = Own::Bad(Stage::Cancelled, code);
                self.loose.insert((step, task));
            }
        }
    }

    fn is_out(&self, step: u16, report: &Report) -> bool {
        let own = match report.item {
            Some(item) => self.lists.get(&step).map(|list| list.items[usize::from(item)]),
            None => Some(self.own[usize::from(step)]),
        };
        own == Some(Own::Out(report.task))
    }

    fn signalled(&mut self, sent: &Sent) -> bool {
        let steps: Vec<usize> = sent.steps.iter().map(usize::from).collect();
        let stages = self.steps();
        let kept: Vec<(Stage, Signal)> =
            steps.iter().filter_map(|step| Some((stages[*step].0, self.signals[*step]?))).collect();
        let is_used = kept.iter().any(|(stage, _)| *stage == Stage::Completed);
        // A wait that has failed or was cancelled may begin again.
        let takers: Vec<usize> = steps.into_iter().filter(|step| !well(stages[*step].0)).collect();
        let is_open = takers.iter().any(|step| !bad(stages[*step].0));
        let is_free = kept.is_empty() || sent.replace;
        let has_ended = !matches!(self.status(), Status::Pending | Status::Running);
        if has_ended || is_used || !is_free || !is_open {
            return false;
        }
        for step in takers {
            self.signals[step] = Some(sent.signal);
            if let Own::Awaits(_) = self.own[step] {
                self.own[step] = Own::Well(Stage::Completed);
            }
        }
        true
    }

    fn waits_over(&mut self, now: Timestamp) -> bool {
        let is_over = |own: &Own| matches!(own, Own::Awaits(Some(until)) if *until <= now);
        let over = (0..).zip(&self.own).filter(|(_, own)| is_over(own)).map(|(step, _)| step);
        let over: Vec<u16> = over.collect();
        for step in &over {
            if self.halted().is_none() {
                self.set(*step, Own::Bad(Stage::Failed, EndingCode::TaskTimeout));
            }
        }
        !over.is_empty()
    }

    pub(super) fn wakes_at(&self) -> Option<Timestamp> {
        let waits = self.own.iter().filter_map(|own| match own {
            Own::Awaits(until) => *until,
            Own::Nothing | Own::Items | Own::Out(_) | Own::Well(_) | Own::Bad(..) => None,
        });
        if let (None, Some(at)) = (self.over, self.begins) {
            return Some(at);
        }
        let running = self.status() == Status::Running;
        waits.chain(self.deadline).min().filter(|_| running)
    }

    /// Whether it fits now; `None` if it never does.
    fn room(&self, worst: Option<u64>) -> Option<bool> {
        let Some(max) = self.max.filter(|_| worst != Some(0)) else { return Some(true) };
        let worst = worst.filter(|worst| self.spent() + worst <= max)?;
        Some(self.spent() + self.reserved() + worst <= max)
    }

    fn send(&mut self, step: u16, task: TaskId, worst: Option<u64>) {
        self.worst.insert(task, self.max.and(worst).unwrap_or(0));
        self.set(step, Own::Out(task));
    }

    fn ended(&mut self, step: u16, report: &Report, end: Own, retry: Option<Retry>) -> bool {
        if self.loose.remove(&(step, report.task)) {
            self.bill(report);
            self.loose.extend(retry.map(|retry| (step, retry.task)));
            return true;
        }
        if !self.is_out(step, report) {
            return false;
        }
        if let Some(item) = report.item {
            return self.item_ended(step, item, report, end, retry);
        }
        self.own[usize::from(step)] = Own::Nothing;
        self.ends.by.insert(step, report.task);
        self.bill(report);
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

    /// A task costs once, however often it ends.
    fn bill(&mut self, report: &Report) {
        if !self.ends.counted.contains(&report.task) {
            self.bills.push(nanos(report.usage.total_cost));
        }
    }

    fn item_ended(
        &mut self,
        step: u16,
        item: u16,
        report: &Report,
        end: Own,
        retry: Option<Retry>,
    ) -> bool {
        self.lists.get_mut(&step).expect("a list").items[usize::from(item)] = Own::Nothing;
        self.bills.push(nanos(report.usage.total_cost));
        let Some(Retry { task, worst_cost }) = retry else {
            self.set_item(step, item, end);
            return true;
        };
        let worst = worst_cost.map(|worst| nanos(worst.as_usd()));
        self.send_item(step, item, task, worst);
        if self.lists[&step].items[usize::from(item)] != Own::Out(task) {
            self.loose.insert((step, task));
            let over = Own::Bad(Stage::Failed, EndingCode::BudgetExceeded);
            self.set_item(step, item, over);
        }
        true
    }

    fn set(&mut self, step: u16, own: Own) {
        self.own[usize::from(step)] = own;
        self.ends.at.insert(step, self.ends.now);
        if let Own::Bad(_, code) = own {
            self.first.get_or_insert((step, code));
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
        let mut lists = Vec::new();
        for (step, own) in (0..).zip(&mut self.own) {
            if let Own::Out(task) = *own {
                *own = Own::Nothing;
                self.loose.insert((step, task));
            } else if let Own::Awaits(_) = *own {
                *own = Own::Nothing;
            }
            if *own == Own::Items {
                *own = Own::Nothing;
                lists.push(step);
            }
        }
        let code = self.halted().unwrap_or(EndingCode::Cancelled);
        for step in lists {
            self.end_list(step, code);
        }
    }

    fn again(&mut self, now: Timestamp) -> bool {
        self.over = None;
        self.first = None;
        self.ends.retried_at = Some(now);
        self.begins = None;
        let after = |ms| now.after(std::time::Duration::from_millis(ms));
        self.deadline = self.timeout_ms.map(after);
        for (step, own) in (0..).zip(&mut self.own) {
            if matches!(own, Own::Well(_)) {
                continue;
            }
            *own = Own::Nothing;
            self.corrected.remove(&step);
            let Some(list) = self.lists.get_mut(&step) else { continue };
            *own = Own::Items;
            list.corrected.clear();
            for item in list.items.iter_mut().filter(|item| !matches!(item, Own::Well(_))) {
                *item = Own::Nothing;
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
