//! The rows that an item consists of, as orders to remove them.
//!
//! Deliberately absent: rows that stay when it goes: its history, its record, its events.

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard_domain::execution::StepState;
use callboard_domain::id::{Environment, ExecutionId, TaskId, partition_of};
use callboard_store::{Error, Op, Store, Ticket};

use crate::node::Node;
use crate::tables::{
    ENDED_APPROVALS, ENDED_TASKS, LIVE_APPROVALS, STEPS, TEXTS, event_words, items,
};

/// The rows under an item's identifier that are found by way of it only: texts, and the steps that do
/// not stand in its head's row, and the items of steps.
pub(super) async fn own(
    store: &dyn Store,
    environment: Environment,
    id: u128,
) -> Result<Vec<Op>, Error> {
    let number = environment.number();
    let mut ops = TEXTS.delete_all(store, number, id).await?;
    let steps = STEPS.range(store, number, &(id, 0), &(id, u16::MAX)).await?;
    ops.extend(steps.iter().map(|(key, _)| STEPS.delete(number, key)));
    ops.extend(items::removal(store, environment, id).await?);
    ops.extend(event_words::removal(store, environment, id, None).await?);
    Ok(ops)
}

/// The rows by which an ended task is found.
pub(super) fn seen_of_task(environment: Environment, task: TaskId) -> Vec<Op> {
    let (number, id) = (environment.number(), task.as_u128());
    vec![ENDED_TASKS.delete(number, &id), ENDED_APPROVALS.delete(number, &id)]
}

/// The parts of an ended execution that have identifiers of their own.
pub(super) struct Parts {
    /// All rows of the tasks, unless they are many.
    pub(super) of_tasks: Vec<Op>,
    /// The number of these tasks.
    pub(super) tasks: u64,
    /// The signals that steps have used or kept, each with the rows of its payload.
    pub(super) signals: Vec<(u128, Vec<Op>)>,
}

/// The tasks and signals that an ended execution's steps name; more than `enough` rows of tasks are not
/// gathered. `beside` are the steps that stand in the execution's head row. Tasks of earlier runs are not named
/// any more.
pub(super) async fn parts(
    store: &dyn Store,
    environment: Environment,
    execution: ExecutionId,
    beside: Vec<Arc<StepState>>,
    enough: usize,
) -> Result<Parts, Error> {
    let (number, id) = (environment.number(), execution.as_u128());
    let first = u16::try_from(beside.len()).expect("a head's row holds few");
    let others = STEPS.range(store, number, &(id, first), &(id, u16::MAX)).await?;
    let steps = beside.into_iter().chain(others.into_iter().map(|(_, step)| Arc::new(step)));
    let of_steps: Vec<_> = steps.collect();
    let of_items = if of_steps.iter().any(|step| step.map.is_some()) {
        items::all(store, environment, execution).await?
    } else {
        Vec::new()
    };
    let steps = of_steps.into_iter().chain(of_items.into_iter().map(|(_, _, item)| Arc::new(item)));
    let (mut count, mut ops, mut signals) = (0, Vec::new(), BTreeMap::new());
    let steps: Vec<Arc<StepState>> = steps.collect();
    // Every wait of a name has the same signal.
    for signal in steps.iter().filter_map(|step| step.signal.as_deref()) {
        let signal = signal.id.as_u128();
        signals.insert(signal, TEXTS.delete_all(store, number, signal).await?);
    }
    for task in steps.into_iter().filter_map(|step| step.task) {
        let ended = ENDED_TASKS.get(store, number, &task.as_u128()).await?.is_some();
        let held = LIVE_APPROVALS.get(store, number, &task.as_u128()).await?.is_some();
        if !ended || held {
            continue;
        }
        ops.extend(seen_of_task(environment, task));
        ops.extend(own(store, environment, task.as_u128()).await?);
        count += 1;
        if ops.len() > enough {
            break;
        }
    }
    Ok(Parts { of_tasks: ops, tasks: count, signals: signals.into_iter().collect() })
}

/// Puts rows of the item `id`'s partition in line to be removed.
pub(super) fn commit(node: &Node, id: u128, ops: Vec<Op>) -> Ticket {
    let partition = partition_of(id);
    node.shard(partition).commit_or_refuse(partition, ops)
}
