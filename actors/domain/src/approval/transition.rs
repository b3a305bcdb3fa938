//! One step of an approval in the making: the next state, its entries in the history,
//! and the mails that it orders.

use super::{
    Action, Approval, Assignee, CLAIM, CORRECTION, Claim, Corrected, Decider, Decision, Details,
    Effect, Entry, MAX_RECORDED, MailCause, Outcome, REQUESTED_TIME, ReviewRequest, SYSTEM, State,
    TIMED_OUT, history::Version,
};
use std::time::Duration;

use crate::Timestamp;
use crate::digest::Digest;
use crate::id::TaskId;
use crate::machine::Step;
use crate::task::Gate;

/// A step in the making.
pub(super) struct Transition {
    next: Approval,
    now: Timestamp,
    entries: Vec<Entry>,
    effects: Vec<Effect>,
}

impl Transition {
    pub(super) fn of(before: &Approval, now: Timestamp) -> Self {
        let next = Approval { version: before.version + 1, ..before.clone() };
        Self { next, now, entries: Vec::new(), effects: Vec::new() }
    }

    pub(super) fn done(self) -> Step<Approval> {
        Step { next: self.next, facts: self.entries, effects: self.effects }
    }

    pub(super) fn record(&mut self, action: Action, actor: &str, details: Details) {
        let Approval { task, salt, chain, .. } = &mut self.next;
        let version = if salt.is_some() { Version::Salted } else { Version::Plain };
        let entry = chain.append(version, task.id, action, self.now, actor, details);
        self.entries.push(entry);
    }

    pub(super) fn opened(&mut self, asked: Assignee) {
        let ReviewRequest { why, confidence, threshold, shown, expires_at, .. } = self.next.opening;
        let step = self.next.task.origin.step.clone();
        let (execution, step) = step.unzip();
        let details = Details {
            why: Some(why),
            confidence,
            threshold: threshold
                .or_else(|| (!self.next.opening.is_requested()).then_some(Gate::DEFAULT_THRESHOLD)),
            shown: Some(shown),
            execution,
            step,
            item: self.next.task.origin.item,
            until: Some(expires_at),
            ..Details::default()
        };
        self.record(Action::Pending, SYSTEM, details);
        if let Some(reviewer) = asked.reviewer {
            self.next.state = State::Assigned;
            self.next.assignee = Some(reviewer);
            let details = Details { to: Some(reviewer), ..Details::default() };
            self.record(Action::Assigned, SYSTEM, details);
        }
        self.effects.push(Effect::WakeAt(self.next.opening.escalates_at));
        self.effects.push(Effect::Assign(self.next.assignee));
        self.notify(asked, MailCause::Assigned);
    }

    pub(super) fn claimed(&mut self, by: &Decider) {
        let until = self.now.after(CLAIM);
        let renewed = self.next.claimed(self.now).is_some();
        self.next.claim = Some(Claim { by: by.name().to_owned(), until });
        // The renewal of a claim is no news: a reviewer who reads for an hour fills no history.
        if !renewed && self.next.chain.length < MAX_RECORDED {
            let details = Details { until: Some(until), ..by.details() };
            self.record(Action::Claimed, &by.account, details);
        }
    }

    pub(super) fn released(&mut self, by: &Decider) {
        self.next.claim = None;
        if self.next.chain.length < MAX_RECORDED {
            self.record(Action::Released, &by.account, by.details());
        }
    }

    pub(super) fn assigned(&mut self, by: &Decider, asked: Assignee) {
        let (from, to) = (self.next.assignee, asked.reviewer);
        self.record(Action::Assigned, &by.account, Details { from, to, ..by.details() });
        if self.next.state == State::Pending {
            self.next.state = State::Assigned;
        }
        self.next.assignee = to;
        self.effects.push(Effect::Assign(to));
        self.notify(asked, MailCause::Assigned);
    }

    pub(super) fn extended(&mut self, by: &Decider, time: Duration, reason: Option<Digest>) {
        // The share of the time after which an admin is asked stays the same.
        let share = self.share();
        let opening = &mut self.next.opening;
        opening.expires_at = self.now.after(time);
        let mut wakes_at = opening.expires_at;
        if matches!(self.next.state, State::Pending | State::Assigned) {
            opening.escalates_at = self.now.after(time.mul_f64(share));
            wakes_at = opening.escalates_at;
        }
        let details = Details { until: Some(opening.expires_at), comment: reason, ..by.details() };
        self.next.extensions += 1;
        if self.next.state == State::Expired {
            // An admin was asked before the time had ended.
            self.next.state = State::Escalated;
        }
        self.record(Action::Extended, &by.account, details);
        self.effects.push(Effect::WakeAt(wakes_at));
    }

    /// The share of the time after which an admin is asked.
    fn share(&self) -> f64 {
        let ReviewRequest { since, escalates_at, expires_at, .. } = self.next.opening;
        let whole = expires_at.since(since).as_secs_f64();
        let asked = escalates_at.since(since).as_secs_f64();
        if whole > 0.0 { (asked / whole).min(1.0) } else { 1.0 }
    }

    pub(super) fn reopened(&mut self, by: &Decider, asked: Assignee, corrects: bool) {
        let share = self.share();
        let reason = corrects.then(|| CORRECTION.to_owned());
        self.record(Action::Reopened, &by.account, Details { reason, ..by.details() });
        let round = self.next.reopened;
        let decision = self.next.decision.take().filter(|_| corrects);
        if let (Some(decision), None) = (decision, &self.next.corrects) {
            self.next.corrects = Some(Box::new(Corrected { decision, round }));
        }
        self.next.reopened += 1;
        let gate = self.next.task.gate.unwrap_or(Gate::ALWAYS);
        let (time, share) = if self.next.is_unawaited() {
            (REQUESTED_TIME, 1.0)
        } else {
            (Duration::from_millis(gate.timeout_ms), share)
        };
        self.next.state = State::Pending;
        self.next.opening.escalates_at = self.now.after(time.mul_f64(share));
        self.next.opening.expires_at = self.now.after(time);
        self.next.opening.rejects &= !corrects;
        self.next.assignee = asked.reviewer;
        if let Some(to) = asked.reviewer {
            self.next.state = State::Assigned;
            self.record(Action::Assigned, SYSTEM, Details { to: Some(to), ..Details::default() });
        }
        self.effects.push(Effect::WakeAt(self.next.opening.escalates_at));
        self.effects.push(Effect::Assign(asked.reviewer));
        // No mail: whoever reopens it has it on the screen.
    }

    pub(super) fn approved(&mut self, by: Decider, edit: Option<Digest>, comment: Option<Digest>) {
        let shown = Some(self.next.opening.shown);
        let details = Details { shown, edit, comment, ..by.details() };
        self.record(Action::Approved, &by.account, details);
        self.decided(State::Approved, by, Outcome::Approved { edited: edit.is_some() });
    }

    pub(super) fn rejected(&mut self, by: Decider, reason: Digest, retry: Option<TaskId>) {
        let shown = Some(self.next.opening.shown);
        let details = Details { shown, comment: Some(reason), ..by.details() };
        self.record(Action::Rejected, &by.account, details);
        if retry.is_some() {
            self.record(Action::Retried, &by.account, Details { retry, ..Details::default() });
        }
        self.decided(State::Rejected, by, Outcome::Rejected { retry });
    }

    fn decided(&mut self, state: State, by: Decider, outcome: Outcome) {
        self.next.decision = Some(Decision { at: self.now, by, outcome });
        self.ended(state);
    }

    pub(super) fn cancelled(&mut self, by: &str) {
        self.record(Action::Cancelled, by, Details::default());
        self.ended(State::Cancelled);
    }

    fn ended(&mut self, state: State) {
        self.next.state = state;
        self.next.claim = None;
        self.effects.push(Effect::ForgetWake);
        self.effects.push(Effect::Assign(None));
    }

    pub(super) fn escalated(&mut self, asked: Assignee, cause: MailCause) {
        let ReviewRequest { since, escalates_at, expires_at, .. } = self.next.opening;
        let (after, reason) = match cause {
            MailCause::Assigned | MailCause::Escalated => (escalates_at, "nobody has decided yet"),
            MailCause::Expired => (expires_at, "timeoutAt has passed"),
        };
        let from = self.next.assignee;
        let to = asked.reviewer.or(from);
        let details = Details {
            from,
            to,
            reason: Some(reason.into()),
            after_ms: Some(u64::try_from(after.since(since).as_millis()).unwrap_or(u64::MAX)),
            ..Details::default()
        };
        self.record(Action::Escalated, SYSTEM, details);
        self.next.escalated_at = self.next.escalated_at.or(Some(self.now));
        self.next.assignee = to;
        self.effects.push(Effect::Assign(to));
        if cause == MailCause::Escalated {
            self.next.state = State::Escalated;
            self.effects.push(Effect::WakeAt(expires_at));
        }
        self.notify(asked, cause);
    }

    pub(super) fn expired(&mut self, asked: Assignee) {
        self.record(Action::Expired, SYSTEM, Details::default());
        if self.next.opening.rejects {
            let by = Decider { account: SYSTEM.into(), reviewer: None, bulk: None };
            return self.rejected(by, self.next.commit(TIMED_OUT), None);
        }
        self.next.state = State::Expired;
        self.effects.push(Effect::ForgetWake);
        self.escalated(asked, MailCause::Expired);
    }

    /// Writes to the assignee, or records in the history why the assignee gets no mail.
    fn notify(&mut self, asked: Assignee, cause: MailCause) {
        if !self.next.opening.notify.email {
            return;
        }
        let skipped = match (self.next.assignee, asked.by_mail) {
            (Some(to), true) => return self.effects.push(Effect::Notify(to, cause)),
            (None, _) => "nobody could be assigned",
            (Some(_), false) => "no server for mail is configured",
        };
        let details =
            Details { reason: Some(skipped.into()), to: self.next.assignee, ..Details::default() };
        self.record(Action::NotificationSkipped, SYSTEM, details);
    }
}
