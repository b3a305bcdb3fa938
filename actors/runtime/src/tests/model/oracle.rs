//! The acknowledgements, and the states that they forbid: plain books, kept beside the machines and
//! independent of them.
//!
//! Every entry was acknowledged to a client or worker. A request that was never answered may or may not have happened.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use callboard_domain::Timestamp;
use callboard_domain::execution::Execution;
use callboard_domain::id::{ExecutionId, PlanId, TaskId};
use callboard_domain::task::{LeaseToken, Task};

use super::limits::{RATE, RATED};
use crate::items::worker::{AckResult, Assignment, Of};

/// The books.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    pub(super) tasks: BTreeMap<TaskId, Known>,
    pub(super) executions: BTreeMap<ExecutionId, KnownExecution>,
    pub(super) plans: Vec<Planned>,
    pub(super) leases: BTreeMap<LeaseToken, Lease>,
    pub(super) keys: BTreeMap<String, Keyed>,
    /// The prompts of submissions without an answer so far.
    pub(super) maybe: BTreeSet<String>,
    /// The execution that a plan's idempotency key created.
    pub(super) begun_by_key: BTreeMap<PlanId, ExecutionId>,
    /// Executions whose start was not answered may be there: of these plans.
    pub(super) maybe_begun: BTreeSet<PlanId>,
    /// The wall clock was set back: due work may run at an instant before its own.
    pub(super) went_back: bool,
    /// The leases of the queue with a rate since the process began, if it has one.
    pub(super) rated: Option<Vec<Timestamp>>,
    /// The violations that were found.
    pub(super) faults: Vec<String>,
    /// The planted bug [`super::disk::Flaw::LeasesNotCompared`]: the current lease under which an
    /// answer arrived, and the lease under which it was sent.
    pub(super) swapped: Option<BTreeMap<LeaseToken, LeaseToken>>,
}

/// A task that was acknowledged, or that was found in the store.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The prompt, where a client gave it.
    pub(super) prompt: Option<String>,
    /// The prompt that a worker was given.
    pub(super) given: Option<String>,
    /// Its cancellation was acknowledged.
    pub(super) cancelled: bool,
    /// The output that was acknowledged, as far as it is known which, and under which lease.
    pub(super) output: Option<(LeaseToken, Vec<String>)>,
    /// How many failures were acknowledged that may be tried again.
    pub(super) failures: u32,
    /// A failure for good was acknowledged.
    pub(super) failed: bool,
    /// A decision was acknowledged.
    pub(super) decided: Option<Decided>,
    /// The decision that was acknowledged.
    pub(super) decided_by: Option<String>,
    /// The workers that claim its end, in the order of the leases.
    pub(super) leases: Vec<LeaseToken>,
    /// The version that was seen last.
    pub(super) version: u64,
    /// As it was when it had ended.
    pub(super) ended: Option<(Task, Option<String>)>,
}

/// A decision that was acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decided {
    pub(super) by: String,
    /// `Some` text if another one replaces the output; `None` as an error: it was rejected.
    pub(super) edit: Result<Option<String>, Option<TaskId>>,
}

/// A plan that was made.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    pub(super) id: PlanId,
    /// Each step's dependencies, by number.
    pub(super) depends_on: Vec<Vec<u16>>,
    /// The steps with a list, by number.
    pub(super) lists: BTreeSet<u16>,
}

/// An execution that was acknowledged, or that was found in the store.
#[derive(Debug, Default)]
pub(super) struct KnownExecution {
    /// Its cancellation was acknowledged, and nobody asked for it to run again since.
    pub(super) cancelled: bool,
    /// How often somebody asked for it to run again, and how many of these requests are under way or
    /// were cut off.
    pub(super) retries: (u32, u32),
    pub(super) version: u64,
    /// The payloads that were sent, and those that were acknowledged, by name.
    pub(super) sent: Vec<String>,
    pub(super) signals: BTreeMap<String, String>,
    /// As it was when it was completed.
    pub(super) completed: Option<Box<Execution>>,
    /// It is a fork of an execution that was completed by then.
    pub(super) of_completed: bool,
}

/// A lease that a worker received.
#[derive(Debug, Default)]
pub(super) struct Lease {
    /// When it was given out: the start of the process, then what its task had been through.
    pub(super) order: (u32, u32),
    /// How often an answer under it counted.
    pub(super) applied: u32,
    /// Its worker received its end, after which nothing may count.
    pub(super) revoked: bool,
    /// The most tokens that an answer under it may have.
    pub(super) max_tokens: u64,
    /// How many answers were sent under it.
    pub(super) sent: u32,
}

/// The use of an idempotency key.
#[derive(Debug, Clone, Default)]
pub(super) struct Keyed {
    /// Which body came first, if that is known.
    pub(super) body: Option<u64>,
    /// The created items, if that was answered.
    pub(super) made: Option<Vec<TaskId>>,
    /// The bodies that were sent with it.
    pub(super) sent: BTreeSet<u64>,
}

/// An answer that a worker sent and that was not acknowledged so far.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) lease: LeaseToken,
    pub(super) of: Of,
    /// The output; `None` with whether it may be tried again.
    pub(super) answer: Result<String, bool>,
    /// It was certain when it was sent that the lease was over.
    pub(super) stale: bool,
}

impl Oracle {
    pub(super) fn fault(&mut self, what: String) {
        self.faults.push(what);
    }

    pub(super) fn known(&mut self, task: TaskId) -> &mut Known {
        self.tasks.entry(task).or_default()
    }

    /// A worker receives a task. `strict`: nothing went wrong at the disk that lets a lease be
    /// given out twice.
    pub(super) fn assigned(&mut self, start: u32, assignment: &Assignment, strict: bool) {
        let (lease, task) = (assignment.lease, &assignment.task);
        let id = task.spec.id;
        let order = (start, task.attempt + task.losses);
        let execution = task.spec.origin.step.as_ref().map(|(execution, _)| *execution);
        if let Some(known) = execution.and_then(|id| self.executions.get(&id))
            && known.cancelled
        {
            self.fault(format!("{id} is given out after its execution's cancel was acknowledged"));
        }
        if self.over(id) {
            self.fault(format!("{id} is given out after it had ended for all to see"));
        }
        let before = self.tasks.get(&id).and_then(|known| known.leases.last().copied());
        if let Some(before) = before.and_then(|lease| self.leases.get(&lease))
            && (before.order > order || (before.order == order && strict))
        {
            let last = before.order;
            self.fault(format!("{id} has two leases of one attempt: {last:?}, then {order:?}"));
        }
        if self.leases.contains_key(&lease) {
            self.fault(format!("{lease} is given out twice"));
        }
        let (start_at, ran_at) = (assignment.task.spec.start_at, assignment.task.started_at);
        if start_at.is_some() && start_at > ran_at && !self.went_back {
            self.fault(format!("{lease} is given out at {ran_at:?}, before {start_at:?}"));
        }
        if let (Some(rated), RATED, Some(at)) =
            (&mut self.rated, &*task.spec.queue, task.leased_at())
        {
            rated.push(at);
            // A lease is a moment later than its place in the rate.
            let recent = rated.iter().filter(|other| at.since(**other) < Duration::from_secs(59));
            if recent.count() > RATE as usize {
                self.fault(format!("{lease} is one too many for the rate of {RATED}"));
            }
        }
        let max_tokens = assignment.task.spec.max_tokens.unwrap_or_default();
        self.leases.insert(lease, Lease { order, max_tokens, ..Lease::default() });
        let known = self.known(id);
        known.leases.push(lease);
        known.given = Some(assignment.inputs.prompt.clone());
        if let Some(prompt) = &known.prompt
            && *prompt != assignment.inputs.prompt
        {
            let (given, asked) = (assignment.inputs.prompt.clone(), prompt.clone());
            self.fault(format!("{id} was asked {asked:?} and a worker is given {given:?}"));
        }
    }

    /// Whether it was acknowledged that the task has ended, or that it waits for a reviewer.
    fn over(&self, task: TaskId) -> bool {
        self.tasks.get(&task).is_some_and(|known| {
            known.cancelled
                || known.output.is_some()
                || known.failed
                || known.decided.is_some()
                || known.ended.is_some()
        })
    }

    /// Whether nothing that is sent under the lease from now on may count.
    pub(super) fn is_stale(&self, lease: LeaseToken) -> bool {
        let later = self.tasks.get(&lease.task).and_then(|known| known.leases.last());
        self.leases.get(&lease).is_none_or(|known| known.applied > 0 || known.revoked)
            || later.is_some_and(|later| *later != lease)
            || self.over(lease.task)
    }

    /// A worker sends an answer.
    pub(super) fn sends(
        &mut self,
        lease: LeaseToken,
        of: Of,
        answer: Result<String, bool>,
    ) -> Sent {
        let stale = self.is_stale(lease);
        self.leases.entry(lease).or_default().sent += 1;
        Sent { lease, of, answer, stale }
    }

    /// A worker hears the fate of a result: of the first that it has sent under that lease, unless
    /// trouble at the disk has swallowed the verdict on one; then it may be any of them.
    pub(super) fn acknowledged(
        &mut self,
        sent: &mut VecDeque<Sent>,
        (lease, of, settled): (LeaseToken, Of, AckResult),
        strict: bool,
    ) {
        let same = |sent: &&Sent| sent.lease == lease && sent.of == of;
        let mut answers: Vec<_> = sent.iter().filter(same).cloned().collect();
        if strict {
            answers.truncate(1);
        }
        let place = sent.iter().position(|sent| same(&sent));
        if place.and_then(|place| sent.remove(place)).is_none() {
            return self.fault(format!("{lease} is acknowledged, and nobody had answered"));
        }
        let known = self.leases.entry(lease).or_default();
        match settled {
            AckResult::Duplicate if known.sent < 2 => {
                self.fault(format!("{lease}: the only answer is called a duplicate"));
            }
            AckResult::Duplicate | AckResult::Stale => {}
            AckResult::Applied => {
                known.applied += 1;
                let times = known.applied;
                if times > 1 {
                    self.fault(format!("{lease}: {times} answers count"));
                }
                if answers.iter().all(|sent| sent.stale) {
                    self.fault(format!("{lease} was over, and an answer under it counts"));
                }
                self.applied(lease, answers);
            }
        }
    }

    fn applied(&mut self, lease: LeaseToken, answers: Vec<Sent>) {
        let answers: Vec<_> = answers.into_iter().map(|sent| sent.answer).collect();
        let outputs: Vec<_> = answers.iter().filter_map(|answer| answer.clone().ok()).collect();
        let order = self.leases.get(&lease).map(|lease| lease.order);
        let before = self.tasks.get(&lease.task).and_then(|known| known.output.as_ref());
        let before = before.and_then(|(lease, _)| self.leases.get(lease)).map(|lease| lease.order);
        // Two workers hear of their answers in any order.
        let after = before.is_some_and(|before| !outputs.is_empty() || Some(before) < order);
        let known = self.known(lease.task);
        match answers[..] {
            _ if !outputs.is_empty() => known.output = Some((lease, outputs)),
            [Err(false)] => known.failed = true,
            [Err(true)] => known.failures += 1,
            // One of several failures.
            _ => {}
        }
        if after {
            self.fault(format!("{lease}: an answer counts after one that ended its task"));
        }
    }

    /// The lease under which an answer arrives at the server.
    pub(super) fn arrives_under(&mut self, lease: LeaseToken) -> LeaseToken {
        let current = self.tasks.get(&lease.task).and_then(|known| known.leases.last());
        match (&mut self.swapped, current) {
            (Some(swapped), Some(current)) if *current != lease => {
                swapped.insert(*current, lease);
                *current
            }
            _ => lease,
        }
    }

    /// The lease under which the acknowledged answer was sent.
    pub(super) fn was_sent_under(&mut self, lease: LeaseToken) -> LeaseToken {
        self.swapped.as_mut().and_then(|swapped| swapped.remove(&lease)).unwrap_or(lease)
    }

    /// A worker receives the end of a lease.
    pub(super) fn revoked(&mut self, lease: LeaseToken) {
        self.leases.entry(lease).or_default().revoked = true;
    }

    /// Somebody hears that their decision counts.
    pub(super) fn decided(&mut self, task: TaskId, decided: Decided) {
        if let Some(before) = &self.known(task).decided {
            let twice = format!("{task} is decided twice: {before:?}, then {decided:?}");
            self.fault(twice);
        }
        self.known(task).decided = Some(decided);
    }
}
