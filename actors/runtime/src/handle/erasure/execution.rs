//! Erasure of the texts of an ended execution: its own, and those of its tasks.
//!
//! ```text
//!   the execution: input, lists, title, key, quoted words      first commit: nothing can be retried any more
//!   payloads of its signals
//!   its tasks, 32 at a time: those that its steps name, and those before them      further commits
//! ```
//!
//! A crash in between leaves tasks with their texts; another erasure of the execution goes on with them.
//! Deliberately absent: forks, which have texts of their own.

use std::collections::BTreeSet;
use std::time::Duration;

use callboard_domain::Error;
use callboard_domain::bulk::Erased;
use callboard_domain::delivery::Subject;
use callboard_domain::execution::{Execution, Refusal};
use callboard_domain::id::{Environment, ExecutionId, TaskId};
use callboard_domain::query::{OfBatch, Tasks};
use callboard_store::Store;

use super::Handle;
use crate::items::execution::Address;
use crate::read::{self, runs, unreadable};
use crate::tables::{self, TEXTS, deliveries, executions, items};

/// The number of tasks whose texts one commit erases.
const LOT: usize = 32;

/// An execution whose texts are erased.
#[derive(Debug, Clone)]
pub struct ErasedExecution {
    /// The execution.
    pub execution: Execution,
    /// The items whose texts this erasure has erased.
    pub erased: Erased,
}

impl Handle {
    /// Erases the input, the lists, the title and the idempotency key of an ended execution, the words of its
    /// errors, the payloads of its signals, and the texts of all its tasks, also of earlier runs. After `Ok` no read
    /// shows them, also after a power cut. A second erasure changes nothing more.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::InvalidState`] while the execution or one of its tasks has not ended, or while a
    /// webhook or a mail about one of them is pending; [`Error::Unavailable`], also while the execution or an
    /// approval is in use.
    pub async fn erase_execution(
        &self,
        environment: Environment,
        id: ExecutionId,
    ) -> Result<ErasedExecution, Error> {
        self.admit()?;
        let read = |error: callboard_store::Error| unreadable(&error);
        let (store, partition) = (&*self.node.shard(id.partition()).store, id.partition());
        let address = Address { environment, execution: id };
        let missing = || Error::not_found("execution", id);
        let head = executions::head(store, environment, id).await.map_err(read)?;
        if head.ok_or_else(missing)?.ended_at().is_none() {
            return Err(refused(id, Refusal::Running));
        }
        let _asleep = self.keep_asleep(&address).await?;
        let head = executions::head(store, environment, id).await.map_err(read)?;
        let head = head.ok_or_else(missing)?;
        let found = runs::whole(&self.node, environment, id, head).await.map_err(read)?;
        let (before, begun, _) = found.ok_or_else(missing)?;
        let before = items::with_items(store, environment, before).await.map_err(read)?;
        let step = before.erased(self.now()).map_err(|refusal| refused(id, refusal))?;
        let (mut tasks, signals) = before.named();
        if before.has_earlier_tasks() {
            tasks.extend(self.earlier_tasks(store, environment, &before).await?);
        }
        let (mut erasing, mut unasked) = (Vec::new(), Vec::new());
        self.check_unawaited(environment, Subject::Execution(id)).await?;
        for task in tasks {
            unasked.push(self.keep_unasked(environment, task).await?);
            self.check_unawaited(environment, Subject::Task(task)).await?;
            // Retention may have removed it.
            let Some(found) = tables::task(store, environment, task).await.map_err(read)? else {
                continue;
            };
            let open = || refused(id, Refusal::StillStopping);
            let step = found.task.erased(self.now()).ok_or_else(open)?;
            if found.task.erased_at.is_none() {
                erasing.push(step);
            }
        }

        let mut erased = Erased { tasks: erasing.len() as u64, ..Erased::default() };
        if before.head.erased_at.is_none() {
            erased.executions = 1;
            let (steps, terms) = ((&before, &step), begun.terms);
            let ops = executions::erased(store, environment, steps, terms, self.now()).await;
            let mut ops = ops.map_err(read)?;
            let answers =
                deliveries::without_answers(store, environment, Subject::Execution(id)).await;
            ops.extend(answers.map_err(read)?);
            self.commit_erasure(partition, ops).await?;
        }
        let mut ops = Vec::new();
        for signal in signals {
            let payload = TEXTS.delete_all(store, environment.number(), signal.as_u128()).await;
            let payload = payload.map_err(read)?;
            erased.signals += u64::from(!payload.is_empty());
            ops.extend(payload);
        }
        let mut files = Vec::new();
        for lot in erasing.chunks(LOT) {
            for step in lot {
                let own = tables::files_of(store, environment, step.next.spec.id).await;
                files.extend(own.map_err(read)?);
                let rows = tables::erased(store, environment, self.now(), step).await;
                ops.extend(rows.map_err(read)?);
                let subject = Subject::Task(step.next.spec.id);
                let answers = deliveries::without_answers(store, environment, subject).await;
                ops.extend(answers.map_err(read)?);
            }
            self.commit_erasure(partition, std::mem::take(&mut ops)).await?;
        }
        if !ops.is_empty() {
            self.commit_erasure(partition, ops).await?;
        }
        self.forget_files(environment, files).await?;
        // What subscribers have read before is read again, without the words.
        self.node.observers.events.forget();
        let mut execution = step.next;
        if before.head.erased_at.is_some() {
            execution = before;
        }
        Ok(ErasedExecution { execution, erased })
    }

    /// The tasks of the execution that its steps name no more: of attempts that a reviewer rejected, and of earlier
    /// runs. No list has them by their execution, so all tasks of its time and its tags are looked at.
    async fn earlier_tasks(
        &self,
        store: &dyn Store,
        environment: Environment,
        execution: &Execution,
    ) -> Result<BTreeSet<TaskId>, Error> {
        let read = |error: callboard_store::Error| unreadable(&error);
        let (spec, state) = (&execution.head.spec, execution.head.state);
        let query = Tasks {
            tags: spec.tags.clone(),
            batch: spec.row_of.as_ref().map(|of| OfBatch::Only(of.batch)),
            created_after: Some(spec.created_at),
            created_before: state.ended_at().map(|at| at.after(Duration::from_millis(1))),
            ..Tasks::default()
        };
        let matching = read::matching(self.node.store(), environment, &query).await;
        let mut earlier = BTreeSet::new();
        for task in matching.map_err(read)? {
            if task.partition() != spec.id.partition() {
                continue;
            }
            let made = tables::made(store, environment, task).await.map_err(read)?;
            let of = made.and_then(|made| made.spec.origin.step.clone());
            if of.is_some_and(|(of, _)| of == spec.id) {
                earlier.insert(task);
            }
        }
        Ok(earlier)
    }
}

/// The answer to a caller whose erasure is refused.
fn refused(id: ExecutionId, refusal: Refusal) -> Error {
    Error::InvalidState(if refusal == Refusal::Running {
        format!("execution {id} has not ended; only the texts of an ended execution can be erased")
    } else {
        format!("execution {id} still has tasks that have not ended; try again in a moment")
    })
}
