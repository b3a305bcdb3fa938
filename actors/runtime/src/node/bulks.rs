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

    /// The next job to work on, of the environments that are `served`.
    pub(crate) fn next(
        &self,
        last: &mut LastTurns,
        served: &[Environment],
    ) -> Option<(Environment, Job)> {
        let jobs = self.jobs();
        let is_open = |key: &Key, job: &Job| job.ended_at.is_none() && served.contains(&key.0);
        let open = jobs.iter().filter(|(key, job)| is_open(key, job));
        let key = last.next(&open.map(|(key, _)| *key).collect::<Vec<_>>())?;
        Some((key.0, jobs.get(&key)?.clone()))
    }

    pub(crate) fn keep(&self, environment: Environment, job: Job) {
        self.jobs().insert((environment, job.id), job);
    }
}

/// The last turns at work on a part of a job: the environments take turns, and in each its jobs.
#[derive(Debug, Default)]
pub(crate) struct LastTurns {
    environment: Option<Environment>,
    jobs: BTreeMap<Environment, BulkId>,
}

impl LastTurns {
    /// The next of these jobs, which are in order.
    fn next(&mut self, open: &[Key]) -> Option<Key> {
        let environment = after(open.iter().map(|(of, _)| *of), self.environment.as_ref())?;
        let own = open.iter().filter(|(of, _)| *of == environment).map(|(_, job)| *job);
        let job = after(own, self.jobs.get(&environment))?;
        self.environment = Some(environment);
        self.jobs.insert(environment, job);
        Some((environment, job))
    }
}

/// The first that comes after the last one, else the first of all.
fn after<T: Ord>(mut all: impl Iterator<Item = T> + Clone, last: Option<&T>) -> Option<T> {
    let mut first = all.clone();
    all.find(|one| Some(one) > last).or_else(|| first.next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_with_one_job_does_not_wait_for_the_many_of_another_one() {
        let job = |environment, id| (Environment::from_number(environment), BulkId::from_u128(id));
        let open: Vec<_> = (1..=50).map(|id| job(0, id)).chain([job(2, 9)]).collect();
        let mut last = LastTurns::default();
        let turns: Vec<_> = (0..6).map_while(|_| last.next(&open)).collect();
        let expected = [job(0, 1), job(2, 9), job(0, 2), job(2, 9), job(0, 3), job(2, 9)];
        assert_eq!(turns, expected);
        assert_eq!(last.next(&[job(0, 1), job(0, 3)]), Some(job(0, 1)), "round and round");
        assert_eq!(last.next(&[]), None);
    }
}
