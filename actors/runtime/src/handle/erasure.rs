//! Erasure of the texts of an ended task or execution, on request.
//!
//! ```text
//!   ended task ─┬▶ its row, without its output
//!               ├▶ no rows of texts, no salt of its history      one commit
//!               └▶ the row of its step, without quoted words
//! ```
//!
//! The history of an approval keeps its entries: they hold commitments, which reveal nothing without the salt.

mod execution;

use std::time::Duration;

use callboard_domain::Error;
use callboard_domain::delivery::Subject;
use callboard_domain::id::{Environment, TaskId, partition_of};
use callboard_domain::task::Task;
use callboard_store::{Op, Outcome, Store};

use super::Handle;
use crate::items::execution::Address;
use crate::kernel::address::{Address as ActorAddress, TaskAddress};
use crate::kernel::directory::Directory;
use crate::kernel::removal_locks::RemovalGuard;
use crate::read::{runs, unreadable};
use crate::tables::{
    self, ApprovalRow, LIVE_APPROVALS, deliveries, event_words, executions, items,
};

pub use execution::ErasedExecution;

/// The looks at an item that is about to rest, and the pause between two of them.
const LOOKS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);

impl Handle {
    /// Erases prompt, context, output, edit, comment and the words of the error of an ended task.
    /// After `Ok` no read shows them, also after a power cut. A second erasure changes nothing more.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::InvalidState`] while the task or its execution has not ended, or
    /// while a webhook or a mail about it is pending; [`Error::Unavailable`], also while the execution or the approval is
    /// in use.
    pub async fn erase_texts(&self, environment: Environment, id: TaskId) -> Result<Task, Error> {
        self.admit()?;
        let store = &*self.node.shard(id.partition()).store;
        let read = |error: callboard_store::Error| unreadable(&error);
        let found = tables::task(store, environment, id).await.map_err(read)?;
        let task = found.ok_or_else(|| Error::not_found("task", id))?.task;
        let step = task.erased(self.now()).ok_or_else(|| {
            let status = task.status().as_str();
            Error::InvalidState(format!(
                "task {id} is {status}; only the texts of an ended task can be erased"
            ))
        })?;
        let execution = task.spec.origin.step.as_ref().map(|(execution, _)| *execution);
        let address = execution.map(|execution| Address { environment, execution });
        let subjects = || [Subject::Task(id)].into_iter().chain(execution.map(Subject::Execution));
        // The execution first, as its own erasure does.
        let _asleep = match &address {
            Some(address) => Some(self.keep_asleep(address).await?),
            None => None,
        };
        let _unasked = self.keep_unasked(environment, id).await?;
        for subject in subjects() {
            self.check_unawaited(environment, subject).await?;
        }
        let now = self.now();
        let files = tables::files_of(store, environment, id).await.map_err(read)?;
        let mut ops = tables::erased(store, environment, now, &step).await.map_err(read)?;
        for subject in subjects() {
            let answers = deliveries::without_answers(store, environment, subject).await;
            ops.extend(answers.map_err(read)?);
        }
        if let Some(address) = address {
            ops.extend(self.of_execution(store, address, id).await?);
        }
        self.commit_erasure(id.partition(), ops).await?;
        self.forget_files(environment, files).await?;
        // What subscribers have read before is read again, without the words.
        self.node.observers.events.forget();
        Ok(step.next)
    }

    /// Passes if no approval is open and no delivery is on its way that would read the texts of the item.
    async fn check_unawaited(
        &self,
        environment: Environment,
        subject: Subject,
    ) -> Result<(), Error> {
        let read = |error: callboard_store::Error| unreadable(&error);
        let id = subject.as_u128();
        let store = &*self.node.shard(partition_of(id)).store;
        let held = LIVE_APPROVALS.get(store, environment.number(), &id).await.map_err(read)?;
        if held.as_ref().is_some_and(ApprovalRow::is_unawaited) {
            return Err(Error::InvalidState(format!(
                "a review of task {} was asked for and waits: decide it, and then erase the texts",
                TaskId::from_u128(id)
            )));
        }
        let is_awaited = deliveries::is_awaited(store, environment, subject).await.map_err(read)?;
        if held.is_none() && !is_awaited {
            return Ok(());
        }
        let item = match subject {
            Subject::Task(id) => format!("task {id}"),
            Subject::Execution(id) => format!("execution {id}"),
            Subject::Key(id) => format!("key {id}"),
        };
        Err(Error::InvalidState(format!(
            "a webhook or a mail about {item} is pending: erase the texts once it was sent or given up"
        )))
    }

    /// Keeps an execution asleep until the guard is dropped, so that no other writer has its rows.
    async fn keep_asleep(&self, address: &Address) -> Result<RemovalGuard<Address>, Error> {
        let shard = self.node.shard(address.execution.partition());
        let leave = || {
            let guard = shard.leaving.leave(address)?;
            // The state that its creation left for its actor has the texts.
            drop(shard.new_executions.take(address));
            Some(guard)
        };
        let guard = asleep(&shard.executions, address, leave).await;
        guard.ok_or(Error::Unavailable("the execution is in use; try again in a moment"))
    }

    /// Keeps a task's approval asleep until the guard is dropped, so that nobody asks for a review of texts that go.
    async fn keep_unasked(
        &self,
        environment: Environment,
        task: TaskId,
    ) -> Result<RemovalGuard<TaskAddress>, Error> {
        let (shard, address) =
            (self.node.shard(task.partition()), TaskAddress { environment, task });
        let leave = || shard.leaving_approvals.leave(&address);
        let guard = asleep(&shard.approvals, &address, leave).await;
        guard.ok_or(Error::Unavailable("an approval is in use; try again in a moment"))
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

    async fn commit_erasure(&self, partition: u8, ops: Vec<Op>) -> Result<(), Error> {
        match self.node.shard(partition).commit(partition, ops).await {
            Outcome::Committed => Ok(()),
            Outcome::NotApplied(error) | Outcome::Unknown(error) => Err(unreadable(&error)),
            Outcome::Fenced | Outcome::Conflict(_) => {
                Err(Error::Unavailable("the texts were not erased; try again"))
            }
        }
    }
}

/// Keeps an item asleep until the guard is dropped; `None` if it does not come to rest.
async fn asleep<A: ActorAddress, M: ractor::Message>(
    directory: &Directory<A, M>,
    address: &A,
    leave: impl Fn() -> Option<RemovalGuard<A>>,
) -> Option<RemovalGuard<A>> {
    for _ in 0..LOOKS {
        let guard = directory.if_asleep(address, &leave);
        if guard.is_some() {
            return guard;
        }
        tokio::time::sleep(PAUSE).await;
    }
    None
}
