//! Erasure of the texts of an ended task, on request.
//!
//! ```text
//!   ended task ─┬▶ its row, without its output
//!               ├▶ no rows of texts, no salt of its history      one commit
//!               └▶ the row of its step, without quoted words
//! ```
//!
//! The history of an approval keeps its entries: they hold commitments, which reveal nothing without
//! the salt. Deliberately absent: the removal of the bytes from the files of the store, which is the
//! store's compaction; the audit log, which is the edge's.

use callboard_domain::Error;
use callboard_domain::delivery::Subject;
use callboard_domain::id::{Environment, TaskId};
use callboard_domain::task::Task;
use callboard_store::{Op, Outcome, Store};

use super::{Handle, unreadable};
use crate::durable;
use crate::execution::Address;
use crate::read::runs;
use crate::tables::{self, LIVE_APPROVALS, deliveries, event_words, executions, items};

impl Handle {
    /// Erases prompt, context, output, edit, comment and the words of the error of an ended task.
    /// After `Ok` no read shows them, also after a power cut. A second erasure changes nothing more.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::InvalidState`] while the task or its execution has not ended, or
    /// while a webhook or a mail about it is pending; [`Error::Unavailable`].
    pub async fn erase_texts(&self, environment: Environment, id: TaskId) -> Result<Task, Error> {
        self.admit()?;
        let (store, number) = (&*self.node.shard(id.partition()).store, environment.number());
        let read = |error: callboard_store::Error| unreadable(&error);
        let found = tables::task(store, environment, id).await.map_err(read)?;
        let task = found.ok_or_else(|| Error::not_found("task", id))?.task;
        let step = task.erased(self.now()).ok_or_else(|| {
            let status = task.status().as_str();
            Error::InvalidState(format!(
                "task {id} is {status}; only the texts of an ended task can be erased"
            ))
        })?;
        let of_execution = task.spec.origin.step.as_ref().map(|(id, _)| Subject::Execution(*id));
        let subjects = || [Subject::Task(id)].into_iter().chain(of_execution);
        let held = LIVE_APPROVALS.get(store, number, &id.as_u128()).await.map_err(read)?.is_some();
        let mut is_awaited = held;
        for subject in subjects() {
            is_awaited |=
                deliveries::is_awaited(store, environment, subject).await.map_err(read)?;
        }
        if is_awaited {
            let why = format!(
                "a webhook or a mail about task {id} is pending; erase its texts after it has ended"
            );
            return Err(Error::InvalidState(why));
        }
        let now = self.now();
        let mut ops = tables::erased(store, environment, now, &step).await.map_err(read)?;
        for subject in subjects() {
            let answers = deliveries::without_answers(store, environment, subject).await;
            ops.extend(answers.map_err(read)?);
        }
        match task.spec.origin.step.as_ref().map(|(execution, _)| *execution) {
            None => self.commit(id, ops).await?,
            Some(execution) => {
                let address = Address { environment, execution };
                let shard = self.node.shard(id.partition());
                let busy = || {
                    Error::InvalidState(format!(
                        "execution {execution} is in use; try again in a moment"
                    ))
                };
                // The guard keeps the execution asleep, so that no other writer has its rows.
                let leaving =
                    shard.executions.if_asleep(&address, || shard.leaving.leave(&address));
                let _leaving = leaving.ok_or_else(busy)?;
                ops.extend(self.of_execution(store, address, id).await?);
                self.commit(id, ops).await?;
            }
        }
        // What subscribers have read before is read again, without the words.
        self.node.events.forget();
        Ok(step.next)
    }

    /// The rows of the execution, without the quotations that its step makes from the task.
    async fn of_execution(
        &self,
        store: &dyn Store,
        Address { environment, execution: id }: Address,
        task: TaskId,
    ) -> Result<Vec<Op>, Error> {
        let read = |error: callboard_store::Error| unreadable(&error);
        let Some(head) = executions::head(store, environment, id).await.map_err(read)? else {
            return Ok(Vec::new());
        };
        let Some((execution, ..)) =
            runs::whole(&self.node, environment, id, head).await.map_err(read)?
        else {
            return Ok(Vec::new());
        };
        let execution = items::with_items(store, environment, execution).await.map_err(read)?;
        let step = execution.without_texts_of(task).map_err(|_| {
            Error::InvalidState(format!(
                "execution {id} has not ended; its steps may still need the texts"
            ))
        })?;
        let mut ops = executions::rows(environment, Some(&execution), &step, self.now());
        if let Some((step, _)) = execution.place_of(task) {
            let words = event_words::removal(store, environment, id.as_u128(), Some(step));
            ops.extend(words.await.map_err(read)?);
        }
        Ok(ops)
    }

    async fn commit(&self, task: TaskId, ops: Vec<Op>) -> Result<(), Error> {
        let partition = task.partition();
        match durable::commit_rows(self.node.shard(partition), partition, ops).await {
            Outcome::Committed => Ok(()),
            Outcome::NotApplied(error) | Outcome::Unknown(error) => Err(unreadable(&error)),
            Outcome::Fenced | Outcome::Conflict(_) => {
                Err(Error::Unavailable("the texts were not erased; try again"))
            }
        }
    }
}
