//! Brings back the work that was under way before a restart.
//!
//! A waiting item returns to its queue, timer or reviewer, a running one is watched. The recovery reads
//! the unfinished items, page by page, and wakes only those with something to do. Deliberately absent:
//! ended items.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use callboard_domain::approval::Record;
use callboard_domain::id::{DeliveryId, Environment, ExecutionId, Slot, TaskId, partition_of};
use callboard_domain::machine::Machine;
use callboard_domain::schedule::Timetable;
use callboard_domain::task::{Effect, State, Task};
use callboard_store::{Error, Outcome};

use crate::commit::effects;
use crate::items::{approval, delivery, execution, task};
use crate::kernel::address::{ScheduleAddress, TaskAddress};
use crate::messages::schedule;
use crate::node::timers::TimerKey;
use crate::node::{Node, PAGE};
use crate::tables::{
    self, ENDED_DELIVERIES, LIVE_APPROVALS, LIVE_DELIVERIES, LIVE_EXECUTIONS, SCHEDULES,
    UNLISTED_DELIVERIES,
};

/// Brings back one environment; returns the number of unfinished items.
pub(crate) async fn recover(node: &Node, environment: Environment) -> Result<usize, Error> {
    let (mut count, mut executions) = (0, HashSet::new());
    let mut after = None;
    loop {
        let page = node.unfinished(environment, after).await?;
        let next = page.last().map(|last| last.spec.id.as_u128());
        // The count comes before anything of the page can move and end.
        for task in &page {
            node.limits.holdings.found(environment, &task.spec.account);
        }
        approvals(node, environment, (after, next), &page).await?;
        if let Some(budgets) = node.limits.budgets(environment) {
            for task in &page {
                budgets.recover(&node.limits.prices, node.store(), task).await?;
            }
        }
        for task in &page {
            count += 1;
            recover_task(node, environment, task);
            executions.extend(task.spec.origin.step.as_ref().map(|(id, _)| *id));
        }
        if next.is_none() {
            break;
        }
        after = next;
    }
    // A crash came before this effect; the service itself performs it.
    effects::cancel_excess(node, environment, "system", node.limits.flow.all_excess(environment));
    if environment.is_test() && count > 0 {
        node.actors.sandboxes.used(environment);
    }
    count += recover_executions(node, environment, &executions).await?;
    count += recover_schedules(node, environment).await?;
    list_deliveries(node, environment).await?;
    Ok(count + recover_deliveries(node, environment).await?)
}

fn recover_task(node: &Node, environment: Environment, task: &Task) {
    let address = TaskAddress { environment, task: task.spec.id };
    if let State::Running { lease, worker, .. } = task.state {
        effects::of_tasks(node, environment, task, Effect::Watch { lease, worker });
        // Counted before a queue gives out anything; the task's actor holds them from now on.
        let permits = node.permits_of_running(environment, task);
        node.send(address, task::Message::Recover(permits));
    } else {
        for effect in task.outstanding() {
            effects::of_tasks(node, environment, task, effect);
        }
    }
    if !matches!(task.state, State::AwaitingApproval { .. }) {
        node.limits.flow.enter(environment, &task.spec);
    }
}

/// The undecided approvals after one task and up to another, or all the rest; `page` holds the
/// unfinished tasks there. The approvals are passive: timers, and an item of a reviewer's. An approval
/// whose task does not wait any more is ended.
async fn approvals(
    node: &Node,
    environment: Environment,
    (after, last): (Option<u128>, Option<u128>),
    page: &[Task],
) -> Result<(), Error> {
    let held = |task: &&Task| matches!(task.state, State::AwaitingApproval { .. });
    let held: HashMap<_, _> = page.iter().filter(held).map(|task| (task.spec.id, task)).collect();
    let first = after.map_or(0, |after| after.saturating_add(1));
    let range = (first, last.unwrap_or(u128::MAX));
    let (store, number) = (node.store(), environment.number());
    for (id, row) in LIVE_APPROVALS.range(store, number, &range.0, &range.1).await? {
        let task = TaskId::from_u128(id);
        let address = TaskAddress { environment, task };
        let (owed, is_unawaited) = (row.outstanding(), row.is_unawaited());
        let found = match held.get(&task) {
            Some(held) => Some(row.of(Arc::clone(&held.spec))),
            None => tables::approvals::approval(store, environment, task).await?,
        };
        node.observers
            .review_stats
            .found(environment, found.map(|found| (task, Record::from(&found))));
        for effect in owed {
            effects::of_approvals(node, address, effect);
        }
        if !held.contains_key(&task) && !is_unawaited {
            let shard = node.shard(task.partition());
            shard.approvals.send(address, approval::Message::TaskEnded);
        }
    }
    Ok(())
}

/// Brings back executions. An execution whose tasks are on their way, or that waits for signals alone,
/// needs nothing but its alarm; any other looks after its tasks itself.
async fn recover_executions(
    node: &Node,
    environment: Environment,
    with_tasks: &HashSet<ExecutionId>,
) -> Result<usize, Error> {
    let mut count = 0;
    let mut after = None;
    loop {
        let (store, number) = (node.store(), environment.number());
        let page = LIVE_EXECUTIONS.scan(store, number, after.as_ref(), PAGE).await?;
        let Some((last, _)) = page.last() else { return Ok(count) };
        after = Some(*last);
        for (id, head) in page {
            count += 1;
            let execution = ExecutionId::from_u128(id);
            let shard = node.shard(execution.partition());
            let address = execution::Address { environment, execution };
            if let Some(at) = head.wakes_at() {
                let key = TimerKey::Execution(address);
                shard.timers.set(key, at);
            }
            let decided = head.is_plain_run() && !head.is_undecided();
            let is_moved = with_tasks.contains(&execution) || head.only_awaits();
            if !is_moved || !decided {
                shard.executions.send(address, execution::Message::Recover);
            }
        }
    }
}

/// Brings back schedules, which wait for their timers; one with waiting occurrences looks after its runs.
async fn recover_schedules(node: &Node, environment: Environment) -> Result<usize, Error> {
    let mut count = 0;
    let mut after = None;
    loop {
        let (store, number) = (node.store(), environment.number());
        let page = SCHEDULES.scan(store, number, after.as_ref(), PAGE).await?;
        let Some((last, _)) = page.last() else { return Ok(count) };
        after = Some(*last);
        for (_, row) in page {
            count += 1;
            node.limits.holdings.found_schedule(environment, &row.schedule.account);
            let id = row.schedule.id;
            let (shard, address) =
                (node.shard(id.partition()), ScheduleAddress { environment, schedule: id });
            // The data of the time zone may be others than those by which the row was written.
            let planned = match Timetable::compile(&row.schedule.settings.timing) {
                Ok(timetable) => row.schedule.clone().planned(&timetable),
                // Its actor says so when it wakes.
                Err(_) => row.schedule.clone(),
            };
            if let Some(at) = planned.wakes_at() {
                shard.timers.set(TimerKey::Schedule(address), at);
            }
            if planned != row.schedule || !row.schedule.queued.is_empty() {
                shard.schedules.send(address, schedule::Message::Recover);
            }
        }
    }
}

/// Moves the deliveries of a version that did not list them to their list.
async fn list_deliveries(node: &Node, environment: Environment) -> Result<(), Error> {
    let (store, number) = (node.store(), environment.number());
    for (from, to) in UNLISTED_DELIVERIES.iter().zip([LIVE_DELIVERIES, ENDED_DELIVERIES]) {
        loop {
            let page = from.scan(store, number, None, PAGE).await?;
            if page.is_empty() {
                break;
            }
            let tickets: Vec<_> = page
                .into_iter()
                .map(|(id, found)| {
                    let listed = Some(tables::deliveries::listed(environment, &found));
                    let ops = vec![from.delete(number, &id), to.put(number, &id, &found, listed)];
                    let partition = partition_of(id);
                    node.shard(partition).commit(partition, ops)
                })
                .collect();
            for ticket in tickets {
                match ticket.await {
                    Outcome::Committed => {}
                    Outcome::NotApplied(error) | Outcome::Unknown(error) => return Err(error),
                    Outcome::Fenced | Outcome::Conflict(_) => return Err(Error::Stopped),
                }
            }
        }
    }
    Ok(())
}

/// Brings back deliveries, whose actors start when they are due; an interrupted one is due again.
async fn recover_deliveries(node: &Node, environment: Environment) -> Result<usize, Error> {
    let mut count = 0;
    let mut after = None;
    loop {
        let (store, number) = (node.store(), environment.number());
        let page = LIVE_DELIVERIES.scan(store, number, after.as_ref(), PAGE).await?;
        let Some((last, _)) = page.last() else { return Ok(count) };
        after = Some(*last);
        for (id, found) in page {
            count += 1;
            let delivery = DeliveryId::from_u128(id);
            let address = delivery::Address { environment, delivery };
            for effect in found.outstanding() {
                effects::of_deliveries(node, address, effect);
            }
        }
    }
}

impl Node {
    /// Brings back the work from before a restart: a waiting task returns to its queue or timer, a
    /// running one is watched over.
    pub(crate) async fn recover(&self) -> Result<usize, Error> {
        let environments = self.environments();
        let marks = self.observers.events.begin(&environments, &*self.kernel.ports.entropy).await?;
        // A mark that a crash loses is one that no cursor is found to have: its client reads the state anew.
        drop(self.shard(0).commit(0, marks));
        self.load_pause().await?;
        self.recover_in(&environments).await
    }

    /// The same for a project that has come from another cell, or has stood still over a start.
    pub(crate) async fn recover_project(&self, project: Slot) -> Result<usize, Error> {
        let environments = project.environments();
        let marks = self.observers.events.begin(&environments, &*self.kernel.ports.entropy).await?;
        drop(self.shard(0).commit(0, marks));
        self.recover_in(&environments).await
    }

    async fn recover_in(&self, environments: &[Environment]) -> Result<usize, Error> {
        self.load_templates(environments).await?;
        for &environment in environments.iter().filter(|environment| environment.is_live()) {
            self.load_models(environment).await?;
            self.limits.flow.load(self.store(), environment).await?;
            self.limits.budgets_of(environment).load(self).await?;
        }
        let mut count = 0;
        for &environment in environments {
            count += recover(self, environment).await?;
        }
        Ok(count)
    }
}
