//! One actor between the caller and the committer.

use std::path::Path;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use super::store::{Committer, Job};
use crate::error::{Error, broken};

/// The way to the actor.
#[derive(Debug, Clone)]
pub(super) struct Keeper(ActorRef<Job>);

impl Keeper {
    /// An actor before a new store in `directory`.
    pub(super) async fn start(directory: &Path, cache_bytes: u64) -> Result<Self, Error> {
        let committer = Committer::open(directory, cache_bytes)?;
        let started = Actor::spawn(None, Passing, committer).await;
        started.map(|(keeper, _)| Self(keeper)).map_err(Error::of("no actor starts"))
    }

    /// Returns when the record is durable.
    pub(super) async fn keep(&self, record: Vec<u8>) -> Result<(), Error> {
        let (done, committed) = oneshot::channel();
        self.0.cast(Job { record, done }).map_err(Error::of("the actor has stopped"))?;
        committed.await.unwrap_or_else(|_| Err(broken("the store has stopped")))
    }
}

/// Passes records on.
struct Passing;

impl Actor for Passing {
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
