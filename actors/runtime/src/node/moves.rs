//! A project of this node that stands still while it is moved, or comes from another cell.

use callboard_domain::Error;
use callboard_domain::id::{Environment, Slot};
use callboard_store::{DEFERRED, Error as StoreError, Key, Op, Outcome};
use tokio::time::Instant;

use crate::node::Node;
use crate::tables::copies::LONGEST;
use crate::tables::event_log;

/// The rows that one commit removes.
const LOT: usize = 512;

impl Node {
    /// Lets a project stand still: no actor of it starts, and its commits wait.
    pub(crate) fn freeze(&self, project: Slot) {
        self.kernel.environments.take(project);
        self.shut_project(project);
        self.kernel.standstill.hold(project);
    }

    /// Lets a project go on that stood still.
    pub(crate) fn thaw(&self, project: Slot) {
        self.kernel.standstill.release(project, self.store());
        self.resume_project(project);
    }

    /// Starts no actor of a project until [`Self::resume_project`].
    pub(crate) fn shut_project(&self, project: Slot) {
        self.actors.shards.iter().for_each(|shard| shard.shut_project(project));
    }

    /// Lets the actors of a project begin, and the background look after it.
    pub(crate) fn resume_project(&self, project: Slot) {
        self.kernel.environments.put(project);
        self.actors.shards.iter().for_each(|shard| shard.open_project(project));
        self.state.bulks.wake.notify_one();
        self.state.chat_batches.wake.notify_one();
    }

    /// Ends everything of a project that is in another cell now.
    pub(crate) fn leave(&self, project: Slot) {
        self.actors.shards.iter().for_each(|shard| shard.end_project(project));
        self.actors.workers.directory.end_project(project);
        self.actors.queues.end_project(project);
        self.kernel.standstill.leave(project);
        self.state.bulks.jobs().retain(|(environment, _), _| environment.slot() != project);
        self.state.chat_batches.forget_project(project);
        self.limits.reviewers.forget_project(project);
    }

    /// Waits until every commit that was in line is durable, those without a waiting caller too.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub(crate) async fn drain_commits(&self) -> Result<(), Error> {
        // A commit of a dropped ticket may come after the first of these, and comes before the second.
        for pause in [DEFERRED, std::time::Duration::ZERO] {
            let marker = self.shard(0).commit_anyway(0, Vec::new()).await;
            let Outcome::Committed = marker else {
                return Err(Error::Unavailable("the store takes no commits"));
            };
            tokio::time::sleep(pause).await;
        }
        Ok(())
    }

    /// Removes all rows and records of an environment that nothing writes to; returns the number of rows.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn remove_rows(&self, environment: Environment) -> Result<u64, StoreError> {
        let (store, number) = (self.store(), environment.number());
        let mut removed = 0;
        for table in 0..=u8::MAX {
            let (from, to) = (Key::new(table, number, &[]), Key::new(table, number, &LONGEST));
            loop {
                let began = Instant::now();
                let rows = store.scan(from.clone(), to.clone(), LOT).await?;
                if rows.is_empty() {
                    break;
                }
                removed += rows.len() as u64;
                self.commit_rows(rows.into_iter().map(|(key, _)| Op::Delete { key }).collect())
                    .await?;
                // Other writers have half of the time.
                tokio::time::sleep(began.elapsed()).await;
            }
        }
        let log = event_log(environment);
        let (oldest, newest) = store.log_bounds(log).await?;
        if oldest <= newest && newest > 0 {
            self.commit_rows(vec![Op::Trim { log, before: newest + 1 }]).await?;
        }
        Ok(removed)
    }

    /// Commits rows of a project that has no actors here.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn commit_rows(&self, ops: Vec<Op>) -> Result<(), StoreError> {
        match self.shard(0).commit_anyway(0, ops).await {
            Outcome::Committed => Ok(()),
            Outcome::NotApplied(error) | Outcome::Unknown(error) => Err(error),
            Outcome::Fenced | Outcome::Conflict(_) => Err(StoreError::Stopped),
        }
    }
}
