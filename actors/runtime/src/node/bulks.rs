//! The bulk jobs in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use callboard_domain::bulk::Job;
use callboard_domain::id::{BulkId, Environment};
use tokio::sync::Notify;

type Key = (Environment, BulkId);

/// The jobs of this node.
#[derive(Debug, Default)]
pub(crate) struct Bulks {
    pub(crate) jobs: Mutex<BTreeMap<Key, Job>>,
    pub(crate) wake: Notify,
    /// The lock of a writer of a job that runs: the runner, or somebody who stops it.
    pub(crate) writing: tokio::sync::Mutex<()>,
    /// The lock of a creation, so that one key creates one job.
    pub(crate) creating: tokio::sync::Mutex<()>,
}

impl Bulks {
    pub(crate) fn jobs(&self) -> MutexGuard<'_, BTreeMap<Key, Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A job, as it was committed last.
    pub(crate) fn get(&self, environment: Environment, id: BulkId) -> Option<Job> {
        self.jobs().get(&(environment, id)).cloned()
    }

    /// The jobs of an environment, oldest first.
    pub(crate) fn all(&self, environment: Environment) -> Vec<Job> {
        let jobs = self.jobs();
        let own = jobs.iter().filter(|((of, _), _)| *of == environment);
        own.map(|(_, job)| job.clone()).collect()
    }

    /// The next job to work on after `last`, round and round, of the environments that are `served`.
    pub(crate) fn next(
        &self,
        last: Option<Key>,
        served: &[Environment],
    ) -> Option<(Environment, Job)> {
        let jobs = self.jobs();
        let is_open = |key: &Key, job: &Job| job.ended_at.is_none() && served.contains(&key.0);
        let open = |(key, job): (&Key, &Job)| is_open(key, job).then(|| (key.0, job.clone()));
        let after = last.and_then(|last| {
            let later = (std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded);
            jobs.range(later).find_map(open)
        });
        after.or_else(|| jobs.iter().find_map(open))
    }

    pub(crate) fn keep(&self, environment: Environment, job: Job) {
        self.jobs().insert((environment, job.id), job);
    }
}
