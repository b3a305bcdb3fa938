//! The floor of this package: one actor between the caller and the store's floor. Benchmarks measure
//! it beside the whole runtime.
//!
//! Deliberately absent: supervision, state, and every other purpose of an actor.

use std::path::Path;

use callboard_store::Error;
use callboard_store::floor::{Floor as Committer, Job};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

/// The way to the actor.
#[derive(Debug, Clone)]
pub struct Floor(ActorRef<Job>);

impl Floor {
    /// An actor before a new store in `directory`.
    ///
    /// # Errors
    /// [`Error::Io`] if the store cannot be opened there, [`Error::Stopped`] if the actor did not start.
    pub async fn start(directory: &Path, cache_bytes: u64) -> Result<Self, Error> {
        let committer = Committer::open(directory, cache_bytes)?;
        let started = Actor::spawn(None, Keeper, committer).await;
        started.map(|(keeper, _)| Self(keeper)).map_err(|_| Error::Stopped)
    }

    /// Returns when the record is durable.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn keep(&self, record: Vec<u8>) -> Result<(), Error> {
        let (done, committed) = oneshot::channel();
        self.0.cast(Job { record, done }).map_err(|_| Error::Stopped)?;
        committed.await.unwrap_or(Err(Error::Stopped))
    }
}

/// Passes records on.
struct Keeper;

impl Actor for Keeper {
    type Msg = Job;
    type State = Committer;
    type Arguments = Committer;

    async fn pre_start(
        &self,
        _: ActorRef<Job>,
        committer: Committer,
    ) -> Result<Committer, ActorProcessingErr> {
        Ok(committer)
    }

    async fn handle(
        &self,
        _: ActorRef<Job>,
        job: Job,
        committer: &mut Committer,
    ) -> Result<(), ActorProcessingErr> {
        // The committer answers the caller, so that the next one needn't wait.
        committer.send(job);
        Ok(())
    }
}
