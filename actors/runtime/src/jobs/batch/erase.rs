//! The removal of a batch: its executions with their tasks, its rows, and at last the batch.
//!
//! From its beginning on, no reader sees the batch; a crash in between goes on with the rest.

use std::collections::HashMap;

use callboard_domain::Error;
use callboard_domain::batch::{self, RowState, Status};
use callboard_domain::event::EventName;
use callboard_domain::id::{ExecutionId, TaskId};

use super::{BatchItem, PAGE, Reply, TICK};
use crate::kernel::item::{Activation, Done};
use crate::read::batches as read;
use crate::tables::{self, BATCH_ROWS, BATCHES, batches};
use crate::upkeep::retention;

/// The number of executions that are removed before other messages have their turn.
const LOT: usize = 256;

impl Activation<BatchItem> {
    pub(super) async fn delete(&mut self, reply: Reply<()>) -> Done {
        let statuses = [Status::Loading, Status::Completed, Status::Cancelled];
        let refusal = match self.only(&statuses, "deleted: cancel it first") {
            Ok(_) if self.unended().await? > 0 => {
                let id = self.address.batch;
                Some(Error::InvalidState(format!(
                    "rows of batch {id} still run: try again in a moment"
                )))
            }
            Ok(_) => None,
            Err(error) => Some(error),
        };
        if let Some(refusal) = refusal {
            let _ = reply.send(Err(refusal));
            return Ok(());
        }
        let is_known = self.item.0.as_ref().is_some_and(|own| own.batch.status != Status::Loading);
        let event = is_known.then_some(EventName::BatchDeleted);
        self.become_(Status::Deleting, None, event).await?;
        let _ = reply.send(Ok(()));
        Ok(())
    }

    /// Removes a part of the batch, and comes back for the rest.
    pub(super) async fn erase(&mut self) -> Done {
        let (environment, id) = self.key();
        let number = environment.number();
        let node = std::sync::Arc::clone(&self.node);
        let store = node.store();
        let mut tasks: HashMap<ExecutionId, Vec<TaskId>> = HashMap::new();
        for task in read::tasks(store, environment, id, LOT).await? {
            let made = tables::made(store, environment, task).await?;
            let of = made.and_then(|made| made.spec.origin.step.clone());
            let of = of.map_or_else(|| batch::execution(id, 0), |(execution, _)| execution);
            tasks.entry(of).or_default().push(task);
        }
        for execution in read::some_executions(store, environment, id, LOT).await? {
            tasks.entry(execution).or_default();
        }
        let mut is_stuck = false;
        for (execution, tasks) in &tasks {
            is_stuck |= !retention::remove(&node, environment, *execution, tasks).await?;
        }
        if !tasks.is_empty() {
            // What is in use, or announced just now, goes a little later.
            self.again_soon(is_stuck);
            return Ok(());
        }
        let rows = batches::rows(store, environment, id, None, PAGE).await?;
        if !rows.is_empty() {
            let mut ops = Vec::new();
            for (row, stored) in rows {
                ops.push(BATCH_ROWS.delete(number, &(id.as_u128(), row)));
                if !matches!(stored.state, RowState::Started | RowState::Invalid(_)) {
                    let text = batches::input(store, environment, (id, row)).await?;
                    let length = text.map_or(0, |text| text.len());
                    ops.extend(batches::delete_input(environment, (id, row), length));
                }
            }
            self.write(ops).await?;
            self.again_soon(false);
            return Ok(());
        }
        let plan = self.item.0.as_ref().map(|own| own.batch.plan);
        self.write(BATCHES.delete(store, number, id.as_u128()).await?).await?;
        self.item.0 = None;
        node.state.batches.forget((environment, id));
        if let Some(plan) = plan {
            retention::forget_plan(&node, environment, plan).await?;
        }
        Ok(())
    }

    fn again_soon(&mut self, is_stuck: bool) {
        if let Some(own) = &mut self.item.0
            && !own.ticking
        {
            own.ticking = true;
            let pause = if is_stuck { TICK } else { std::time::Duration::from_millis(1) };
            self.myself.tell_after(pause, || super::Message::Tick);
        }
    }
}
