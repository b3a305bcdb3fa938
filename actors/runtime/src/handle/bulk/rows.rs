//! The rows of bulk jobs: made, stopped, counted.

use callboard_domain::bulk::{self, Item, Job, PART};
use callboard_domain::event::EventName;
use callboard_domain::id::{BulkId, Environment};
use callboard_store::{Error as StoreError, Op, Outcome as Committed};

use crate::node::Node;
use crate::node::bulks::Bulks;
use crate::tables::log::{self, Kind};
use crate::tables::{BULK_PARTS, BULKS};

/// The partition of all jobs.
const PARTITION: u8 = 0;
/// The number of rows that are read or written at a time.
const PAGE: usize = 64;

type Key = (Environment, BulkId);

impl Bulks {
    /// Makes a job durable, and orders the runner to begin with it.
    pub(crate) async fn create(
        &self,
        node: &Node,
        environment: Environment,
        job: Job,
        items: &[Item],
    ) -> Result<(), StoreError> {
        let (number, id) = (environment.number(), job.id.as_u128());
        let parts: Vec<_> = (0_u16..).zip(items.chunks(PART)).collect();
        for parts in parts.chunks(PAGE) {
            let row = |(part, items): &(u16, &[Item])| {
                BULK_PARTS.put(number, &(id, *part), &items.to_vec(), None)
            };
            commit(node, parts.iter().map(row).collect()).await?;
        }
        commit(node, self.rows(node, environment, &job)).await?;
        self.keep(environment, job);
        self.wake.notify_one();
        Ok(())
    }

    /// Ends a job that runs, durably, before its end.
    pub(crate) async fn stop(
        &self,
        node: &Node,
        (environment, id): Key,
        why: String,
    ) -> Result<(), StoreError> {
        let _writing = self.writing.lock().await;
        let Some(job) = self.get(environment, id).filter(|job| job.ended_at.is_none()) else {
            return Ok(());
        };
        let job = job.stopped(why, node.now());
        commit(node, self.rows(node, environment, &job)).await?;
        self.keep(environment, job);
        // A start removes those that a crash leaves.
        let (number, id) = (environment.number(), id.as_u128());
        let parts = BULK_PARTS.range(node.store(), number, &(id, 0), &(id, u16::MAX)).await?;
        for parts in parts.chunks(PAGE) {
            let row = |(key, _): &((u128, u16), _)| BULK_PARTS.delete(number, key);
            commit(node, parts.iter().map(row).collect()).await?;
        }
        Ok(())
    }

    /// The row of a job, the event of its end, and the removal of jobs that are too many.
    pub(crate) fn rows(&self, node: &Node, environment: Environment, job: &Job) -> Vec<Op> {
        let number = environment.number();
        let mut ops = vec![BULKS.put(number, &job.id.as_u128(), job, None)];
        let before = self.get(environment, job.id);
        if job.ended_at.is_some() && before.is_none_or(|before| before.ended_at.is_none()) {
            let event = EventName::BulkCompleted.as_str();
            ops.push(log::append(environment, (event, node.now()), Kind::Bulk, job));
        }
        let mut jobs = self.jobs();
        let ended = jobs.iter().filter(|((of, _), it)| *of == environment && it.ended_at.is_some());
        let ended: Vec<_> = ended.map(|(key, _)| *key).collect();
        for key in ended.iter().take(ended.len().saturating_sub(bulk::KEPT)) {
            jobs.remove(key);
            ops.push(BULKS.delete(number, &key.1.as_u128()));
        }
        ops
    }
}

pub(crate) async fn commit(node: &Node, ops: Vec<Op>) -> Result<(), StoreError> {
    match node.shard(PARTITION).commit_or_refuse(PARTITION, ops).await {
        Committed::Committed => Ok(()),
        Committed::NotApplied(error) | Committed::Unknown(error) => Err(error),
        Committed::Fenced | Committed::Conflict(_) => Err(StoreError::Stopped),
    }
}
