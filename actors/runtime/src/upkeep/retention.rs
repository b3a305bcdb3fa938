//! Removes items that ended long ago: executions with their tasks, tasks alone, histories of approvals.
//!
//! ```text
//!   oldest ─▶ … ─▶ made later than anything that goes: stop
//!     │ goes?   ─▶ its rows, in one commit ────────────▶ gone
//!     │             └ too many: its visible rows, and a mark ─▶ the rest, in parts ─▶ the mark
//!     └ stays: passed over
//! ```
//!
//! Ended rows stand in the order in which they were made, and nothing goes that was made later than the policy says,
//! so a look reads the expired rows and those of unusually long items, however much is stored. The visible rows go in
//! the first commit: no reader finds half an item, and a crash leaves a mark, from which the next look goes on, or an
//! execution's tasks, which it finds without their execution. Looks pause after each lot, so that users do not notice,
//! unless more comes than goes.

mod batches;
mod chat_batches;
mod rows;

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::Timestamp;
use callboard_domain::delivery::Subject;
use callboard_domain::execution::Spec;
use callboard_domain::id::{Environment, ExecutionId, PlanId, TaskId, first_at};
use callboard_domain::retention::{Parent, Policy};
use callboard_store::{Error, Filter, Op, Order, Outcome, Query, Ticket};
use tokio::time::Instant;

use crate::items::{approval, execution};
use crate::kernel::address::TaskAddress;
use crate::node::Node;
use crate::tables::{
    self, ApprovalRow, ENDED_EXECUTIONS, ENDED_TASKS, Ended, HISTORY, HeadRow, LIVE_APPROVALS,
    PLANS, REMOVALS, approvals, batch_list, batch_term, deliveries, execution_list, execution_term,
    executions, schedule_list, schedules,
};

use rows::Parts;

use crate::kernel::removal_locks::RemovalGuard;

/// The number of rows that are read, and of items that are removed, before a pause.
const LOT: usize = 64;
/// The most rows that one commit removes, beyond those that are seen.
const BATCH: usize = 512;

/// The items that a sweep has removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Removed {
    executions: u64,
    tasks: u64,
    histories: u64,
}

/// Sweeps periodically, for as long as the process lives.
pub(crate) async fn run(node: Arc<Node>) {
    if node.settings.stands_still {
        return;
    }
    // A project may have a policy where the server has none.
    let every = node.settings.retention.interval().unwrap_or(Duration::from_mins(1));
    loop {
        tokio::time::sleep(every).await;
        for &environment in &*node.environments() {
            let policy = node.retention(environment);
            if !policy.ended().is_some_and(|keep| node.may_remove(keep)) {
                continue;
            }
            let started = Instant::now();
            let mut look = Sweep {
                node: &node,
                environment,
                policy,
                now: node.now(),
                begun: started,
                lot: PendingRemovals::new(),
                on_request: false,
                removed: Removed::default(),
            };
            if let Err(error) = look.all().await {
                tracing::warn!(%error, "could not remove what ended long ago");
            }
            let Removed { executions, tasks, histories } = look.removed;
            if look.removed != Removed::default() {
                let ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
                tracing::info!(
                    ?environment,
                    executions,
                    tasks,
                    histories,
                    ms,
                    "removed what ended long ago"
                );
            }
        }
    }
}

/// One sweep over an environment.
struct Sweep<'n> {
    node: &'n Node,
    environment: Environment,
    policy: Policy,
    now: Timestamp,
    begun: Instant,
    lot: PendingRemovals,
    /// True if what has ended goes, whatever its age.
    on_request: bool,
    removed: Removed,
}

/// The removals on their way to the disk.
struct PendingRemovals {
    started: Instant,
    tickets: Vec<Ticket>,
    executions: Vec<RemovalGuard<execution::Address>>,
    plans: Vec<RemovalGuard<(Environment, PlanId)>>,
}

impl PendingRemovals {
    fn new() -> Self {
        let (tickets, executions, plans) = (Vec::new(), Vec::new(), Vec::new());
        Self { started: Instant::now(), tickets, executions, plans }
    }
}

impl Sweep<'_> {
    async fn all(&mut self) -> Result<(), Error> {
        self.leftovers().await?;
        if let Some(until) = self.policy.cutoff(self.now) {
            self.executions(past(until)).await?;
            self.tasks(past(until)).await?;
            batches::remove_old(self.node, self.environment, until).await?;
            chat_batches::remove_old(self.node, self.environment, until).await?;
        }
        if let Some(until) = self.policy.history_cutoff(self.now) {
            self.histories(past(until)).await?;
        }
        Ok(())
    }

    /// Goes on where a crash interrupted.
    async fn leftovers(&mut self) -> Result<(), Error> {
        let (store, number) = (self.node.store(), self.environment.number());
        loop {
            let page = REMOVALS.scan(store, number, None, LOT).await?;
            let Some((id, ())) = page.first() else { return Ok(()) };
            let rest = rows::own(store, self.environment, *id).await?;
            self.rest(*id, rest).await?;
        }
    }

    async fn executions(&mut self, end: u128) -> Result<(), Error> {
        let mut after = None;
        loop {
            let (store, number) = (self.node.store(), self.environment.number());
            let page = ENDED_EXECUTIONS.scan(store, number, after.as_ref(), LOT).await?;
            for (id, head) in &page {
                if *id >= end {
                    return self.await_commits().await;
                }
                if self.policy.execution_expired(head.ended_at(), self.now) {
                    self.execution(ExecutionId::from_u128(*id)).await?;
                }
            }
            self.await_commits().await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = Some(*last);
        }
    }

    /// Removes an execution, and its tasks with it, if they are not too many.
    async fn execution(&mut self, id: ExecutionId) -> Result<(), Error> {
        let (node, environment) = (self.node, self.environment);
        let address = execution::Address { environment, execution: id };
        let shard = node.shard(id.partition());
        let (store, number) = (&*shard.store, environment.number());
        // An awake execution may be about to run again; it sleeps soon, and there is another look.
        let Some(leaving) = shard.executions.if_asleep(&address, || shard.leaving.leave(&address))
        else {
            return Ok(());
        };
        // The removal guard keeps the execution asleep from here on; it may have run until here.
        let head = ENDED_EXECUTIONS.get(store, number, &id.as_u128()).await?;
        let goes = |head: &HeadRow| {
            self.on_request || self.policy.execution_expired(head.ended_at(), self.now)
        };
        let Some(mut head) = head.filter(goes) else { return Ok(()) };
        let begun = executions::begun(store, environment, id).await?;
        let spec = begun.as_ref().map(|begun| &*begun.spec);
        // Without an address there are no webhooks to wait for.
        if spec.is_some_and(|spec| spec.callback_url.is_some())
            && deliveries::is_awaited(store, environment, Subject::Execution(id)).await?
        {
            return Ok(());
        }
        let mut seen = vec![ENDED_EXECUTIONS.delete(number, &id.as_u128())];
        let rest = rows::own(store, environment, id.as_u128()).await?;
        let Parts { of_tasks, tasks, mut signals } =
            rows::parts(store, environment, id, head.take_steps(), BATCH).await?;
        let of_signals: usize = signals.iter().map(|(_, rows)| rows.len()).sum();
        if of_tasks.len() + of_signals + rest.len() <= BATCH {
            seen.extend(of_tasks);
            seen.extend(signals.drain(..).flat_map(|(_, rows)| rows));
            self.removed.tasks += tasks;
        }
        // The execution's steps named them, and go with it.
        seen.extend(signals.iter().map(|(signal, _)| REMOVALS.put(number, signal, &(), None)));
        let plan = self.plan_of(spec).await?;
        let mut of_plan = Vec::new();
        if let Some(plan) = plan {
            node.state.catalog.forget_plan(environment, plan);
            of_plan = PLANS.delete(store, number, plan.as_u128()).await?;
            // Most live where the execution lives that was deployed with them.
            if plan.partition() == id.partition() {
                seen.append(&mut of_plan);
            }
        }
        drop(shard.new_executions.take(&address));
        self.lot.executions.push(leaving);
        self.removed.executions += 1;
        self.remove(id.as_u128(), seen, rest).await?;
        for (signal, rows) in signals {
            self.rest(signal, rows).await?;
        }
        if let Some(plan) = plan.filter(|_| !of_plan.is_empty()) {
            // A crash just here leaves the plan, which does no harm.
            self.lot.tickets.push(rows::commit(node, plan.as_u128(), of_plan));
        }
        Ok(())
    }

    /// The plan that was made for this execution alone, if no other runs it.
    async fn plan_of(&mut self, spec: Option<&Spec>) -> Result<Option<PlanId>, Error> {
        let (store, number) = (self.node.store(), self.environment.number());
        let Some(Spec { plan, .. }) = spec.filter(|spec| spec.template.is_some()) else {
            return Ok(None);
        };
        let plan = *plan;
        let row = PLANS.get(store, number, plan.as_u128()).await?;
        if row.is_none_or(|row| row.deployed.is_none()) {
            return Ok(None);
        }
        if uses_of(self.node, self.environment, plan).await? > 1 {
            // Other executions in this lot may be about to go as well.
            self.commit().await?;
            if uses_of(self.node, self.environment, plan).await? > 1 {
                return Ok(None);
            }
        }
        let Some(leaving) = self.node.state.leaving_plans.leave(&(self.environment, plan)) else {
            return Ok(None);
        };
        // The removal guard forbids executions of the plan from here on; some may have begun until here.
        if uses_of(self.node, self.environment, plan).await? > 1 {
            return Ok(None);
        }
        self.lot.plans.push(leaving);
        Ok(Some(plan))
    }

    async fn tasks(&mut self, end: u128) -> Result<(), Error> {
        let mut after = None;
        loop {
            let (store, number) = (self.node.store(), self.environment.number());
            let page = ENDED_TASKS.scan(store, number, after.as_ref(), LOT).await?;
            for (id, Ended(life, _)) in &page {
                if *id >= end {
                    return self.await_commits().await;
                }
                let task = TaskId::from_u128(*id);
                let ended = life.state().ended_at();
                // The cheap question first: most that stay are too young.
                if !self.policy.task_expired(ended, Parent::None, self.now) {
                    continue;
                }
                let review = LIVE_APPROVALS.get(store, number, id).await?;
                let held = review.is_some()
                    || deliveries::is_awaited(store, self.environment, Subject::Task(task)).await?;
                if !self.policy.task_expired(ended, self.part_of(task).await?, self.now) {
                    continue;
                }
                if held {
                    end_requested(self.node, self.environment, task, review.as_ref());
                    continue;
                }
                let seen = rows::seen_of_task(self.environment, task);
                let rest = rows::own(store, self.environment, *id).await?;
                self.removed.tasks += 1;
                self.remove(*id, seen, rest).await?;
            }
            self.await_commits().await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = Some(*last);
        }
    }

    async fn part_of(&self, task: TaskId) -> Result<Parent, Error> {
        let store = self.node.store();
        let made = tables::made(store, self.environment, task).await?;
        let Some((execution, _)) = made.and_then(|made| made.spec.origin.step.clone()) else {
            return Ok(Parent::None);
        };
        let head = executions::head(store, self.environment, execution).await?;
        Ok(head.map_or(Parent::Removed, |_| Parent::Stored))
    }

    async fn histories(&mut self, end: u128) -> Result<(), Error> {
        let mut after = None;
        loop {
            let (store, number) = (self.node.store(), self.environment.number());
            for _ in 0..LOT {
                let next = HISTORY.scan(store, number, after.as_ref(), 1).await?;
                let Some(((id, _), _)) = next.first().filter(|((id, _), _)| *id < end) else {
                    return self.await_commits().await;
                };
                let (first, last) = ((*id, 0), (*id, u16::MAX));
                after = Some(last);
                let rows = HISTORY.range(store, number, &first, &last).await?;
                let Some(newest) = rows.last().and_then(|(_, entries)| entries.last()) else {
                    continue;
                };
                let task = TaskId::from_u128(*id);
                let there = approvals::row(store, self.environment, task).await?.is_some();
                if !there && self.policy.history_expired(newest.at, self.now) {
                    let ops = rows.iter().map(|(key, _)| HISTORY.delete(number, key)).collect();
                    self.removed.histories += 1;
                    self.remove(*id, ops, Vec::new()).await?;
                }
            }
            self.await_commits().await?;
        }
    }

    /// Puts the removal of an item in line: in one commit if that is small enough.
    async fn remove(&mut self, id: u128, mut seen: Vec<Op>, rest: Vec<Op>) -> Result<(), Error> {
        if rest.len() <= BATCH {
            seen.extend(rest);
            self.lot.tickets.push(rows::commit(self.node, id, seen));
            return Ok(());
        }
        seen.push(REMOVALS.put(self.environment.number(), &id, &(), None));
        self.lot.tickets.push(rows::commit(self.node, id, seen));
        self.rest(id, rest).await
    }

    /// Removes the rows that no reader sees any more, and then the mark.
    async fn rest(&mut self, id: u128, rest: Vec<Op>) -> Result<(), Error> {
        for part in rest.chunks(BATCH) {
            self.lot.tickets.push(rows::commit(self.node, id, part.to_vec()));
            self.await_commits().await?;
        }
        let ops = vec![REMOVALS.delete(self.environment.number(), &id)];
        self.lot.tickets.push(rows::commit(self.node, id, ops));
        self.await_commits().await
    }

    /// Waits until the lot is durable, and then a while for the sake of other writers.
    async fn await_commits(&mut self) -> Result<(), Error> {
        self.commit().await?;
        let took = self.lot.started.elapsed();
        let pause = took * self.policy.pause(self.begun.elapsed());
        tokio::time::sleep(pause.max(Duration::from_millis(1))).await;
        self.lot.started = Instant::now();
        Ok(())
    }

    /// Waits until the lot is durable.
    async fn commit(&mut self) -> Result<(), Error> {
        for ticket in self.lot.tickets.drain(..) {
            match ticket.await {
                Outcome::Committed => {}
                Outcome::NotApplied(error) | Outcome::Unknown(error) => return Err(error),
                Outcome::Fenced | Outcome::Conflict(_) => return Err(Error::Stopped),
            }
        }
        self.lot.executions.clear();
        self.lot.plans.clear();
        Ok(())
    }
}

/// Ends a requested review, which keeps its task until it is decided: the next look removes the task.
fn end_requested(
    node: &Node,
    environment: Environment,
    task: TaskId,
    review: Option<&ApprovalRow>,
) -> bool {
    let is_unawaited = review.is_some_and(ApprovalRow::is_unawaited);
    if is_unawaited {
        let address = TaskAddress { environment, task };
        node.shard(task.partition()).approvals.send(address, approval::Message::TaskEnded);
    }
    is_unawaited
}

/// Removes an ended execution with its tasks, and these tasks, whatever their age. Returns false if the execution is
/// in use, a webhook about it is on its way, or a review that was asked for waits: it is there still.
pub(crate) async fn remove(
    node: &Node,
    environment: Environment,
    execution: ExecutionId,
    tasks: &[TaskId],
) -> Result<bool, Error> {
    let mut sweep = Sweep {
        node,
        environment,
        policy: node.retention(environment),
        now: node.now(),
        begun: Instant::now(),
        lot: PendingRemovals::new(),
        on_request: true,
        removed: Removed::default(),
    };
    let store = node.store();
    let is_there = async || Ok(executions::head(store, environment, execution).await?.is_some());
    if is_there().await? {
        sweep.execution(execution).await?;
        sweep.commit().await?;
        if is_there().await? {
            return Ok(false);
        }
    }
    let mut is_reviewed = false;
    for task in tasks {
        let review = LIVE_APPROVALS.get(store, environment.number(), &task.as_u128()).await?;
        if end_requested(node, environment, *task, review.as_ref()) {
            is_reviewed = true;
            continue;
        }
        let seen = rows::seen_of_task(environment, *task);
        let rest = rows::own(store, environment, task.as_u128()).await?;
        sweep.remove(task.as_u128(), seen, rest).await?;
    }
    sweep.commit().await?;
    Ok(!is_reviewed)
}

/// The number of executions of a plan, and of the schedules and batches that run it.
async fn uses_of(node: &Node, environment: Environment, plan: PlanId) -> Result<u64, Error> {
    let mut uses = 0;
    for (list, field) in [
        (execution_list(environment), execution_term::PLAN),
        (schedule_list(environment), schedules::PLAN),
        (batch_list(environment), batch_term::PLAN),
    ] {
        let filters = vec![Filter::AnyOf(field, vec![plan.as_u128().to_be_bytes().into()])];
        let (order, descending) = (Order::Document, false);
        let query = Query { list, filters, order, descending, offset: 0, limit: 0 };
        uses += node.store().query(&query).await?.total;
    }
    Ok(uses)
}

/// Removes a plan that a deploy made, and that nothing runs any more: its last schedule has gone.
pub(crate) async fn forget_plan(
    node: &Node,
    environment: Environment,
    plan: PlanId,
) -> Result<(), Error> {
    let (number, id) = (environment.number(), plan.as_u128());
    let Some(_leaving) = node.state.leaving_plans.leave(&(environment, plan)) else {
        return Ok(());
    };
    let row = PLANS.get(node.store(), number, id).await?;
    let is_made_for_runs = row.is_some_and(|row| row.deployed.is_some());
    if is_made_for_runs && uses_of(node, environment, plan).await? == 0 {
        node.state.catalog.forget_plan(environment, plan);
        // If that fails, the plan stays, which does no harm.
        let _ = rows::commit(node, id, PLANS.delete(node.store(), number, id).await?).await;
    }
    Ok(())
}

/// The first number that was given after `until`.
fn past(until: Timestamp) -> u128 {
    first_at(until.after(Duration::from_millis(1)))
}
