//! The ready tasks with flow control: fairness keys take turns by weight, and a lane waits while its
//! concurrency key is used up.
//!
//! ```text
//!   the task with the smallest rank that may start has a fairness key?
//!     no ─▶ it goes
//!     yes ─▶ the key whose turn it is, among those of its priority, sends its task with the smallest rank
//! ```
//!
//! The ranks decide the share of a priority in the leases, and the keys take turns within it. Turns are stride
//! scheduling: each lease moves its key on by 1 / weight, and the key that moved least is next. A key that comes back
//! to a priority begins where the others are: it can neither save up turns nor win any by being empty for a moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::HashMap;

use super::{Rank, Ready};
use crate::id::TaskId;
use crate::task::{Concurrency, Flow};

/// The advance of a key of weight 1 with each lease. The division by a weight leaves less than one turn
/// in ten million.
const STRIDE: u128 = 1 << 32;

type LaneId = u64;

/// The tasks that may start under the same conditions, and share their turns.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lane {
    model: Arc<str>,
    account: Arc<str>,
    concurrency: Option<(String, u32)>,
    fairness: Option<String>,
    priority: u8,
}

#[derive(Debug)]
struct Waiting {
    lane: Arc<Lane>,
    tasks: BTreeMap<Rank, Arc<Flow>>,
}

/// The keys of one priority.
#[derive(Debug, Default)]
struct Strides {
    /// The position of the key that was served last.
    reached: u128,
    keys: BTreeMap<String, Key>,
    /// The first task of each lane, with the position of its key.
    order: BTreeSet<(u128, Rank, LaneId)>,
    /// Keys without tasks that had moved further than the rest.
    ahead: BTreeSet<(u128, String)>,
}

#[derive(Debug, Default)]
struct Key {
    moved: u128,
    lanes: BTreeSet<LaneId>,
}

/// A task taken from the queue, with the limits that it counts against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dequeued {
    /// The task.
    pub task: TaskId,
    /// The model.
    pub model: Arc<str>,
    /// The account, whose tier may limit the number of running tasks.
    pub account: Arc<str>,
    /// The flow control.
    pub flow: Option<Arc<Flow>>,
}

/// The ready tasks with flow control.
#[derive(Debug, Default)]
pub(super) struct Keyed {
    ids: BTreeMap<Arc<Lane>, LaneId>,
    lanes: HashMap<LaneId, Waiting>,
    entries: HashMap<TaskId, (LaneId, i64)>,
    /// The first task of each lane.
    heads: BTreeSet<(Rank, LaneId)>,
    turns: BTreeMap<u8, Strides>,
    last_id: LaneId,
}

pub(super) struct LeaseConditions<'a> {
    pub(super) runs: &'a dyn Fn(&str) -> bool,
    pub(super) starts: &'a dyn Fn(&str) -> bool,
    pub(super) has_room: &'a dyn Fn(&str, u32) -> bool,
}

impl LeaseConditions<'_> {
    fn pass(&self, lane: &Lane) -> bool {
        let has_room = |(key, limit): &(String, u32)| (self.has_room)(key, *limit);
        (self.runs)(&lane.model)
            && (self.starts)(&lane.account)
            && lane.concurrency.as_ref().is_none_or(has_room)
    }
}

impl Keyed {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn contains(&self, task: TaskId) -> bool {
        self.entries.contains_key(&task)
    }

    pub(super) fn tasks(&self) -> impl Iterator<Item = &TaskId> {
        self.entries.keys()
    }

    pub(super) fn push(&mut self, rank: i64, ready: Ready, flow: Arc<Flow>) {
        let concurrency =
            flow.concurrency.as_ref().map(|Concurrency { key, limit, .. }| (key.clone(), *limit));
        let lane = Lane {
            model: ready.model,
            account: ready.account,
            concurrency,
            fairness: flow.fairness.as_ref().map(|fairness| fairness.key.clone()),
            priority: ready.priority,
        };
        let id = self.lane(lane);
        let task = (rank, ready.task);
        self.entries.insert(ready.task, (id, rank));
        self.change(id, |tasks| tasks.insert(task, flow));
    }

    /// The lane's identifier; a new lane's key joins the turns of its priority where the others are.
    fn lane(&mut self, lane: Lane) -> LaneId {
        if let Some(id) = self.ids.get(&lane) {
            return *id;
        }
        self.last_id += 1;
        let (id, lane) = (self.last_id, Arc::new(lane));
        if let Some(fairness) = &lane.fairness {
            let turns = self.turns.entry(lane.priority).or_default();
            let key = turns.keys.entry(fairness.clone()).or_default();
            turns.ahead.remove(&(key.moved, fairness.clone()));
            if key.lanes.is_empty() {
                key.moved = key.moved.max(turns.reached);
            }
            key.lanes.insert(id);
        }
        self.ids.insert(Arc::clone(&lane), id);
        self.lanes.insert(id, Waiting { lane, tasks: BTreeMap::new() });
        id
    }

    pub(super) fn remove(&mut self, task: TaskId) -> Option<(Arc<Lane>, Arc<Flow>)> {
        let (id, rank) = self.entries.remove(&task)?;
        let lane = Arc::clone(&self.lanes.get(&id)?.lane);
        let flow = self.change(id, |tasks| tasks.remove(&(rank, task)))?;
        Some((lane, flow))
    }

    /// The smallest rank of a task that may start.
    pub(super) fn first(&self, may: &LeaseConditions<'_>) -> Option<Rank> {
        let heads = self.heads.iter();
        heads.into_iter().find(|(_, id)| may.pass(&self.lanes[id].lane)).map(|(rank, _)| *rank)
    }

    /// Takes the next task by turns; `first` has the smallest rank of those that may start.
    pub(super) fn take(&mut self, first: Rank, may: &LeaseConditions<'_>) -> Option<Dequeued> {
        let (id, _) = self.entries.get(&first.1)?;
        let lane = Arc::clone(&self.lanes[id].lane);
        let mut task = first.1;
        if lane.fairness.is_some() {
            let order = &self.turns.get(&lane.priority)?.order;
            let next = order.iter().find(|(.., id)| may.pass(&self.lanes[id].lane));
            let (_, (_, next), _) = next?;
            task = *next;
        }
        let (lane, flow) = self.remove_served(task)?;
        let (model, account) = (Arc::clone(&lane.model), Arc::clone(&lane.account));
        Some(Dequeued { task, model, account, flow: Some(flow) })
    }

    /// Removes a task that is leased, and moves its key on.
    fn remove_served(&mut self, task: TaskId) -> Option<(Arc<Lane>, Arc<Flow>)> {
        let (lane, flow) = self.remove(task)?;
        if let Some(fairness) = &flow.fairness
            && let Some(turns) = self.turns.get_mut(&lane.priority)
        {
            turns.served(&fairness.key, u128::from(fairness.weight.max(1)), &self.lanes);
            if turns.order.is_empty() {
                self.turns.remove(&lane.priority);
            }
        }
        Some((lane, flow))
    }

    /// Changes the tasks of a lane, and with them its place in the orders.
    fn change<T>(
        &mut self,
        id: LaneId,
        change: impl FnOnce(&mut BTreeMap<Rank, Arc<Flow>>) -> T,
    ) -> T {
        let waiting = self.lanes.get_mut(&id).expect("a lane is there while it has an identifier");
        let before = waiting.tasks.keys().next().copied();
        let changed = change(&mut waiting.tasks);
        let after = waiting.tasks.keys().next().copied();
        if before == after {
            return changed;
        }
        let lane = Arc::clone(&waiting.lane);
        self.heads.extend(after.map(|rank| (rank, id)));
        if let Some(before) = before {
            self.heads.remove(&(before, id));
        }
        if let (Some(fairness), Some(turns)) = (&lane.fairness, self.turns.get_mut(&lane.priority))
            && let Some(key) = turns.keys.get_mut(fairness)
        {
            if let Some(before) = before {
                turns.order.remove(&(key.moved, before, id));
            }
            turns.order.extend(after.map(|rank| (key.moved, rank, id)));
            if after.is_none() {
                key.lanes.remove(&id);
                if key.lanes.is_empty() {
                    turns.ahead.insert((key.moved, fairness.clone()));
                }
            }
        }
        if after.is_none() {
            self.ids.remove(&lane);
            self.lanes.remove(&id);
        }
        changed
    }
}

impl Strides {
    /// Moves a key on after a lease.
    fn served(&mut self, name: &str, weight: u128, lanes: &HashMap<LaneId, Waiting>) {
        let Some(key) = self.keys.get_mut(name) else { return };
        self.reached = self.reached.max(key.moved);
        let before = key.moved;
        key.moved += STRIDE / weight;
        if key.lanes.is_empty() {
            self.ahead.remove(&(before, name.to_owned()));
            self.ahead.insert((key.moved, name.to_owned()));
        }
        for id in &key.lanes {
            let first = lanes.get(id).and_then(|waiting| waiting.tasks.keys().next());
            if let Some(first) = first {
                self.order.remove(&(before, *first, *id));
                self.order.insert((key.moved, *first, *id));
            }
        }
        // A key that the rest has caught up with has no advance to remember.
        while self.ahead.first().is_some_and(|(moved, _)| *moved <= self.reached) {
            if let Some((_, name)) = self.ahead.pop_first() {
                self.keys.remove(&name);
            }
        }
    }
}

#[cfg(test)]
mod tests;
