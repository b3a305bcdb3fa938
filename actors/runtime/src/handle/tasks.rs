//! Retries of single tasks, batches as they are, and the search of texts (docs/reference/tasks.md).

use callboard_domain::Error;
use callboard_domain::id::{BatchId, Environment, TaskId};
use callboard_domain::task::Task;

use super::Handle;
use crate::items::submission::{NewWork, Submitted};
use crate::messages::submission::Owner;
use crate::read::search::{Asked, Found, search};
use crate::read::{self, unreadable};

impl Handle {
    /// Makes a new task that repeats one which failed, was cancelled or was rejected. After `Ok` the new
    /// task survives a power cut.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InvalidState`], and those of [`Handle::submit`].
    pub async fn retry_task(
        &self,
        owner: &Owner,
        id: TaskId,
        idempotency_key: Option<&str>,
    ) -> Result<Submitted, Error> {
        let endpoint = format!("tasks/{id}/retry");
        let key = idempotency_key.map(|key| self.scoped_key(owner, &endpoint, key, &()));
        let found = self.task(owner.environment, id).await?;
        found.task.repeatable()?;
        let request = Box::new(found.task.spec.request(found.inputs));
        self.make(owner, NewWork::Retry(request, id), key).await
    }

    /// The tasks of a batch that are still stored, in the order in which they were given.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none, [`Error::Unavailable`].
    pub async fn batch(&self, environment: Environment, id: BatchId) -> Result<Vec<Task>, Error> {
        let found = read::batch::tasks(self.node.store(), environment, id).await;
        let tasks = found.map_err(|error| unreadable(&error))?;
        if tasks.is_empty() { Err(Error::not_found("batch", id)) } else { Ok(tasks) }
    }

    /// Searches the texts of tasks for `account`; `may_read` tells the tasks that the caller may read.
    ///
    /// # Errors
    /// [`Error::TooMuchWaits`] and [`Error::Unavailable`] if too much waits to be computed, or the store cannot be
    /// read.
    pub async fn search(
        &self,
        environment: Environment,
        account: &str,
        asked: &Asked,
        may_read: impl Fn(TaskId) -> bool + Send,
    ) -> Result<Found, Error> {
        search(&self.node, environment, account, asked, may_read).await
    }
}
