//! The unit of work: one event, decided once, at one instant, committed in one batch.
//!
//! ```text
//!   event + items + now + sources ─▶ decide ─▶ Unit { changes } ─▶ one commit ─▶ effects ─▶ reply
//!
//!   items: a task ─┬─ its approval, if its output is held
//!                  └─ its execution ([`UnitBuilder`]), if the event can end the task of a step
//! ```
//!
//! A unit names every item that the event changes: its next state, its facts and its effects, and
//! with them the new tasks, the deliveries and the review outcomes. Deliberately absent: the commit,
//! and the way by which items that live in several actors come together.

mod announce;
mod builder;
mod event;
#[cfg(test)]
mod tests;

pub use builder::{MAX_RENDERED, UnitBuilder};
pub use event::{Answer, Event, Items, NextTry, Refusal};

use std::sync::Arc;

use crate::Timestamp;
use crate::approval::{
    self, Approval, Assignee, Decider, HeldOutput, Mail, Policy, Record, ReviewWay, ReviewerPool,
    Salt, TIMED_OUT,
};
use crate::budget::Money;
use crate::delivery::{self, Delivery, Notification};
use crate::error::Error;
use crate::event::EventName;
use crate::execution::{Execution, Retry, Use};
use crate::id::{DeliveryId, ExecutionId, SignalId, TaskId};
use crate::machine::{Machine, Step};
use crate::spending;
use crate::task::{self, Called, Completion, HoldReason, Inputs, Origin, Spec, Task};

/// One unit of work.
#[derive(Debug)]
pub struct Unit {
    /// The instant of every change.
    pub now: Timestamp,
    /// The changes, in the order of the event log.
    pub changes: Vec<Change>,
    /// True if the effects may precede the commit, because losing the unit in a crash is harmless:
    /// a lost lease is fenced by the next one, a lost attempt of a delivery is repeated.
    pub ahead: bool,
    /// The lists of steps that begin, which never change from here on.
    pub lists: Vec<FrozenList>,
}

/// The list of a `forEach` step, as it was when the step began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrozenList {
    /// The execution.
    pub execution: ExecutionId,
    /// The number of the list among those of the plan.
    pub number: u8,
    /// The items, as a JSON array.
    pub items: String,
}

/// A change of one item.
#[derive(Debug)]
pub enum Change {
    /// A task takes a step, with the output that came with it.
    Task(Step<Task>, Option<String>),
    /// A task is created, with its texts.
    NewTask(Step<Task>, Inputs),
    /// An approval takes a step, with the reviewer's texts.
    Approval(Step<Approval>, ReviewTexts),
    /// An execution takes a step; the state before shows the rows that changed. `None` before
    /// its first step.
    Execution(Option<Box<Execution>>, Box<Step<Execution>>),
    /// The payload of a signal that an execution accepts, as the text that prompts get.
    Signal(SignalId, String),
    /// A delivery is created or takes a step.
    Delivery(Step<Delivery>),
    /// The outcome of a gated output changes: the record before, if there was one, and after.
    Review(TaskId, Option<Record>, Record),
}

/// The texts that a reviewer wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReviewTexts {
    /// The text that replaces the output.
    pub edit: Option<String>,
    /// The comment, or the reason of a rejection.
    pub comment: Option<String>,
    /// The reason why the reviewers were given more time, and which time it is, from 1.
    pub extension: Option<(u8, String)>,
}

/// Everything that a decision needs from outside: fresh identifiers, chosen reviewers, prices, limits.
pub trait Sources {
    /// A fresh identifier in the partition of the unit.
    fn task_id(&mut self, now: Timestamp) -> TaskId;
    /// A fresh identifier in the partition of the unit.
    fn delivery_id(&mut self, now: Timestamp) -> DeliveryId;
    /// A fresh salt for the commitments of an approval.
    fn salt(&mut self) -> Salt;
    /// The reviewer to ask about the held output of a task, counted as that reviewer's at once.
    fn ask(&mut self, task: &Spec, wanted: ReviewerPool) -> Assignee;
    /// The configured policy of every approval.
    fn policy(&self) -> Policy;
    /// True if a webhook announces this end of a task, by configuration.
    fn announces(&self, event: EventName) -> bool;
    /// The highest cost of an attempt of a task; `None` if one of its models has no price.
    fn worst_cost(
        &self,
        called: Called<'_>,
        inputs: &Inputs,
        max_tokens: Option<u64>,
    ) -> Option<Money>;
    /// The reason why a budget of many tasks refuses the task of a step; `worst` is its highest cost.
    fn budget_refusal(
        &mut self,
        _: spending::Subject<'_>,
        _worst: Option<Money>,
    ) -> Option<String> {
        None
    }
    /// Admits a task that a reviewer makes as a submission is admitted; `worst` is the highest cost of a call.
    ///
    /// # Errors
    /// Those of a submission.
    fn admit(&mut self, _: &Spec, _worst: Option<Money>, _: Timestamp) -> Result<(), Error> {
        Ok(())
    }
}

/// Decides an event that concerns no execution.
///
/// # Errors
/// The refusal of the item that refuses; nothing changes then.
pub fn decide(
    items: Items<'_>,
    event: Event,
    now: Timestamp,
    sources: &mut impl Sources,
) -> Result<Unit, Refusal> {
    let mut unit = Unit::at(now);
    unit.extend(items, event, sources)?;
    Ok(unit)
}

/// The unit of an event of a delivery.
///
/// # Errors
/// The delivery's refusal.
pub fn of_delivery(
    delivery: &Delivery,
    event: delivery::Event,
    now: Timestamp,
) -> Result<Unit, delivery::Refusal> {
    let ahead = event == delivery::Event::TimePassed;
    let step = delivery.transition(event, now)?;
    Ok(Unit { now, changes: vec![Change::Delivery(step)], ahead, lists: Vec::new() })
}

/// A unit that makes a delivery, due at once.
#[must_use]
pub fn of_new_delivery(notification: Notification, now: Timestamp) -> Unit {
    let changes = vec![Change::Delivery(Delivery::created(notification, now))];
    Unit { now, changes, ahead: false, lists: Vec::new() }
}

impl Change {
    /// The step of a task, new or not.
    #[must_use]
    pub const fn task(&self) -> Option<&Step<Task>> {
        if let Self::Task(step, _) | Self::NewTask(step, _) = self { Some(step) } else { None }
    }
}

impl Unit {
    /// A unit without changes.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self { now, changes: Vec::with_capacity(2), ahead: false, lists: Vec::new() }
    }

    /// Adds a task that is created.
    pub fn create(&mut self, spec: Spec, inputs: Inputs) {
        self.changes.push(Change::NewTask(Task::submitted(spec), inputs));
    }

    /// Adds the changes that `event` makes; returns the task that tries again, if there is one.
    fn extend(
        &mut self,
        items: Items<'_>,
        event: Event,
        sources: &mut impl Sources,
    ) -> Result<Option<Retry>, Refusal> {
        match event {
            Event::Task { event, output } => {
                self.task_event(items, event, output, sources)?;
                Ok(None)
            }
            Event::Approval(event) => {
                self.approval_event(items, event, ReviewTexts::default(), sources)?;
                Ok(None)
            }
            Event::ReviewTimePassed => {
                self.review_time_passed(items, sources)?;
                Ok(None)
            }
            Event::Extend { by, timeout_ms, reason } => {
                let committed = reason.as_ref().map(|text| Salt::commit(items.salt(), text));
                let event = approval::Event::Extended { by, timeout_ms, reason: committed };
                let time = items.approval.map_or(0, |approval| approval.extensions) + 1;
                let extension = reason.map(|reason| (time, reason));
                let texts = ReviewTexts { extension, ..ReviewTexts::default() };
                self.approval_event(items, event, texts, sources)?;
                Ok(None)
            }
            Event::Reopen { by } => {
                self.reopen(items, &by, sources)?;
                Ok(None)
            }
            Event::Correct { by } => {
                self.open_again(items, &by, true, sources)?;
                Ok(None)
            }
            Event::AskReview { output, way, before } => {
                self.ask_review(items, &output, (way, before), sources)?;
                Ok(None)
            }
            Event::Approve { by, edit, comment } => {
                let salt = items.salt();
                let digest =
                    |text: &Option<String>| text.as_deref().map(|text| Salt::commit(salt, text));
                let decided = approval::Event::Approved {
                    by,
                    edit: digest(&edit),
                    comment: digest(&comment),
                };
                let approved = task::Event::Approved { edited: edit.is_some() };
                let texts = ReviewTexts { edit, comment, ..ReviewTexts::default() };
                self.approval_event(items, decided, texts, sources)?;
                if !items.is_unawaited() {
                    self.task_event(items, approved, None, sources)?;
                }
                Ok(None)
            }
            Event::Reject { by, reason, retry } => self.rejected(items, by, reason, retry, sources),
            Event::EndHeld { by, event } => {
                let ended = approval::Event::TaskEnded { by };
                // An approval that was decided a moment before stays as it is; the task then refuses.
                let _ = self.approval_event(items, ended, ReviewTexts::default(), sources);
                self.task_event(items, event, None, sources)?;
                Ok(None)
            }
        }
    }

    fn task_event(
        &mut self,
        items: Items<'_>,
        event: task::Event,
        output: Option<String>,
        sources: &mut impl Sources,
    ) -> Result<(), Refusal> {
        let task = items.task.ok_or(task::Refusal::StaleLease)?;
        self.ahead = matches!(event, task::Event::Leased { .. });
        let step = task.transition(event, self.now)?;
        let gated = output.as_deref().and_then(|output| self.gated(&step.next, output, sources));
        let webhook = self.webhook(&step, sources);
        self.changes.push(Change::Task(step, output));
        self.changes.extend(gated.into_iter().flatten());
        self.changes.extend(webhook);
        Ok(())
    }

    /// The changes that follow from a gate that looked at the output: an approval, or the record
    /// that the output passed.
    fn gated(&self, next: &Task, output: &str, sources: &mut impl Sources) -> Option<Vec<Change>> {
        let id = next.spec.id;
        match next.state {
            task::State::AwaitingApproval { why, .. } => {
                let confidence = next.result.as_ref().and_then(|result| result.confidence);
                let method = next.result.as_deref().and_then(Completion::method);
                let (model, salt) = (next.model(), Some(sources.salt()));
                let way = ReviewWay::default();
                let held = HeldOutput { why, confidence, method, model, output, salt, way };
                Some(self.opened(next, &held, None, sources))
            }
            task::State::Completed { .. } => Record::of_passed(next, self.now)
                .map(|record| vec![Change::Review(id, None, record)]),
            task::State::Scheduled { .. }
            | task::State::Ready
            | task::State::Backoff { .. }
            | task::State::Running { .. }
            | task::State::Failed { .. }
            | task::State::Cancelled { .. }
            | task::State::Rejected { .. } => None,
        }
    }

    /// The changes by which the review of an output opens.
    fn opened(
        &self,
        task: &Task,
        held: &HeldOutput<'_>,
        before: Option<Record>,
        sources: &mut impl Sources,
    ) -> Vec<Change> {
        let (asked, policy) = (sources.ask(&task.spec, ReviewerPool::Anybody), sources.policy());
        let step = Approval::opened(Arc::clone(&task.spec), held, policy, asked, self.now);
        self.of_approval(before, step, ReviewTexts::default(), sources)
    }

    /// Opens a review of the output of a completed task, which stays as it is.
    fn ask_review(
        &mut self,
        items: Items<'_>,
        output: &str,
        (way, before): (ReviewWay, Option<Record>),
        sources: &mut impl Sources,
    ) -> Result<(), Refusal> {
        let task = items.task.ok_or(task::Refusal::NotHeld)?;
        let task::State::Completed { .. } = task.state else {
            return Err(task::Refusal::NotHeld.into());
        };
        if let Some(approval) = items.approval {
            let refusal = approval.finished();
            return Err(refusal.unwrap_or(approval::Refusal::AlreadyAsked).into());
        }
        let result = task.result.as_deref();
        let held = HeldOutput {
            why: HoldReason::Requested,
            confidence: result.and_then(|result| result.confidence),
            method: result.and_then(Completion::method),
            model: task.model(),
            output,
            salt: Some(sources.salt()),
            way,
        };
        let changes = self.opened(task, &held, before, sources);
        self.changes.extend(changes);
        Ok(())
    }

    /// Takes a decision back. The end of a task that is no step is final; an execution answers for its steps before.
    fn reopen(
        &mut self,
        items: Items<'_>,
        by: &Decider,
        sources: &mut impl Sources,
    ) -> Result<(), Refusal> {
        let why = items.approval.map(|approval| approval.opening.why);
        let Some(why) = why.filter(|why| *why != HoldReason::Requested) else {
            return self.open_again(items, by, false, sources);
        };
        if let Some(task) = items.task
            && task.spec.origin.step.is_none()
            && let Some(at) = task.state.ended_at()
        {
            return Err(Refusal::Used(vec![Use::of_end(task.spec.id, at)]));
        }
        self.open_again(items, by, false, sources)?;
        self.task_event(items, task::Event::Reopened { why }, None, sources)
    }

    fn open_again(
        &mut self,
        items: Items<'_>,
        by: &Decider,
        corrects: bool,
        sources: &mut impl Sources,
    ) -> Result<(), Refusal> {
        let approval = items.approval.ok_or(approval::Refusal::Cancelled)?;
        let reopened = |asked| approval::Event::Reopened { by: by.clone(), asked, corrects };
        // A reviewer counts the output from the moment of being asked, so a refusal comes first.
        approval.transition(reopened(Assignee::default()), self.now)?;
        let spec = &approval.task;
        let is_submitter = spec.submitters().any(|submitter| *submitter == *by.account);
        let asked = match by.account.parse() {
            Ok(user) if !is_submitter => Assignee { reviewer: Some(user), by_mail: false },
            Ok(_) | Err(_) => sources.ask(spec, ReviewerPool::Anybody),
        };
        self.approval_event(items, reopened(asked), ReviewTexts::default(), sources)
    }

    fn approval_event(
        &mut self,
        items: Items<'_>,
        event: approval::Event,
        texts: ReviewTexts,
        sources: &mut impl Sources,
    ) -> Result<(), Refusal> {
        let approval = items.approval.ok_or(approval::Refusal::Cancelled)?;
        let step = approval.transition(event, self.now)?;
        let changes = self.of_approval(Some(Record::from(approval)), step, texts, sources);
        self.changes.extend(changes);
        Ok(())
    }

    /// An approval's step with the deliveries that it orders and its outcome.
    fn of_approval(
        &self,
        before: Option<Record>,
        step: Step<Approval>,
        texts: ReviewTexts,
        sources: &mut impl Sources,
    ) -> Vec<Change> {
        let task = step.next.id();
        let notices = step.effects.iter().filter_map(|effect| match *effect {
            approval::Effect::Notify(to, cause) => Some((to, cause)),
            approval::Effect::WakeAt(_)
            | approval::Effect::ForgetWake
            | approval::Effect::Assign(_) => None,
        });
        let mails: Vec<_> = notices
            .map(|(to, cause)| {
                let mail = Mail { id: sources.delivery_id(self.now), task, to, cause };
                Change::Delivery(Delivery::created(Notification::Mail(mail), self.now))
            })
            .collect();
        let review = Change::Review(task, before, Record::from(&step.next));
        let mut changes = vec![Change::Approval(step, texts), review];
        changes.extend(mails);
        changes
    }

    fn review_time_passed(
        &mut self,
        items: Items<'_>,
        sources: &mut impl Sources,
    ) -> Result<(), Refusal> {
        let approval = items.approval.ok_or(approval::Refusal::NotDue)?;
        if approval.rejects_at(self.now) {
            let texts =
                ReviewTexts { comment: Some(TIMED_OUT.to_owned()), ..ReviewTexts::default() };
            let event = approval::Event::TimePassed { asked: Assignee::default() };
            self.approval_event(items, event, texts, sources)?;
            let rejected = task::Event::Rejected { reason: TIMED_OUT.to_owned() };
            return self.task_event(items, rejected, None, sources);
        }
        if !approval.is_due(self.now) {
            return Err(approval.finished().unwrap_or(approval::Refusal::NotDue).into());
        }
        let asked = sources.ask(&approval.task, ReviewerPool::AdminBut(approval.assignee));
        let event = approval::Event::TimePassed { asked };
        self.approval_event(items, event, ReviewTexts::default(), sources)
    }

    fn rejected(
        &mut self,
        items: Items<'_>,
        by: Decider,
        reason: String,
        retry: Option<NextTry>,
        sources: &mut impl Sources,
    ) -> Result<Option<Retry>, Refusal> {
        if let Some(refusal) = items.approval.and_then(Approval::finished) {
            return Err(refusal.into());
        }
        let next = match (retry, items.task) {
            (Some(retry), Some(task)) => Some(next_try(task, retry, &by, self.now, sources)?),
            (None, _) | (_, None) => None,
        };
        let id = next.as_ref().map(|(spec, ..)| spec.id);
        let committed = Salt::commit(items.salt(), &reason);
        let event = approval::Event::Rejected { by, reason: committed, retry: id };
        let texts = ReviewTexts { comment: Some(reason.clone()), ..ReviewTexts::default() };
        self.approval_event(items, event, texts, sources)?;
        let mut retried = None;
        if let Some((spec, inputs, worst_cost)) = next {
            retried = Some(Retry { task: spec.id, worst_cost });
            self.create(spec, inputs);
        }
        if items.is_unawaited() {
            return Ok(None);
        }
        self.task_event(items, task::Event::Rejected { reason }, None, sources)?;
        Ok(retried)
    }
}

/// The task that tries a rejected one again, as far as it is admitted, and its highest cost. A reviewer who
/// wrote its prompt submits it, and pays for it; the first submitter stays known.
fn next_try(
    task: &Task,
    NextTry { inputs, rewritten }: NextTry,
    by: &Decider,
    now: Timestamp,
    sources: &mut impl Sources,
) -> Result<(Spec, Inputs, Option<Money>), Error> {
    let before = &*task.spec;
    let retry_of = Some(before.id);
    let mut origin = Origin { retry_of, idempotency_key: None, ..before.origin.clone() };
    let mut account = before.account.clone();
    if rewritten {
        let first = origin.first_account.take().unwrap_or_else(|| before.account.clone());
        account.clone_from(&by.account);
        origin.first_account = Some(first).filter(|first| *first != account);
    }
    let (id, priority) = (sources.task_id(now), task.priority());
    let spec = Spec { id, account, origin, priority, start_at: None, ..before.clone() };
    let worst_of_call = sources.worst_cost(spec.called().once(), &inputs, spec.max_tokens);
    sources.admit(&spec, worst_of_call, now)?;
    let worst_cost = sources.worst_cost(spec.called(), &inputs, spec.max_tokens);
    Ok((spec, inputs, worst_cost))
}

/// True if `event` can end `task`, or take its end back. The execution of a step's task then decides and commits.
#[must_use]
pub fn can_end(task: &Task, event: &Event) -> bool {
    match event {
        Event::Task { event, .. } => task.can_end_by(event),
        Event::Approval(_)
        | Event::Extend { .. }
        | Event::Correct { .. }
        | Event::AskReview { .. } => false,
        Event::ReviewTimePassed
        | Event::Reopen { .. }
        | Event::Approve { .. }
        | Event::Reject { .. }
        | Event::EndHeld { .. } => true,
    }
}
