//! Workers and their connections (SPEC.md, Workers; PROTOCOL.md 11).

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::Error;
use callboard_domain::id::{Environment, WorkerId};
use callboard_domain::task::LeaseToken;
use callboard_domain::worker::{Leases, Profile};
use tokio::sync::{mpsc, oneshot};

use super::{COMMAND, Handle, Owner, STOPPING, within};
use crate::node::Node;
use crate::worker::{self, Registration, View, WorkerCommand, WorkerMessage};

impl Handle {
    /// The workers, lost ones for an hour.
    #[must_use]
    pub fn workers(&self, environment: Environment) -> Vec<View> {
        self.node.workers.list(environment)
    }

    /// Tells a worker to take nothing new.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn drain_worker(&self, environment: Environment, id: WorkerId) -> Result<View, Error> {
        let found = self.node.workers.get(id).filter(|view| view.environment == environment);
        let mut view = found.ok_or_else(|| Error::not_found("worker", id))?;
        let address = worker::Address { environment, worker: id };
        self.node.workers.directory.send_if_awake(&address, worker::Message::Drain);
        view.worker.drain();
        Ok(view)
    }

    /// Registers a worker on a new connection (PROTOCOL.md 11). What it is told arrives on
    /// `outgoing`; [`WorkerCommand::Close`] or the channel's end means that the connection is over.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn connect_worker(
        &self,
        owner: &Owner,
        profile: Profile,
        resume: Option<(WorkerId, Vec<LeaseToken>)>,
        outgoing: mpsc::UnboundedSender<WorkerCommand>,
    ) -> Result<(WorkerLink, Leases), Error> {
        if self.node.is_draining() {
            return Err(STOPPING);
        }
        let (resumed, leases) =
            resume.map_or((None, Vec::new()), |(id, leases)| (Some(id), leases));
        // Only the same account may come back as a worker; anybody else becomes a new one.
        let own = |id: &WorkerId| {
            self.node.workers.get(*id).is_none_or(|view| {
                view.environment == owner.environment
                    && view.account.as_ref().is_none_or(|known| *known == owner.id)
            })
        };
        let partition = (self.node.ports.entropy.bits() & 0xff) as u8;
        let worker = resumed
            .filter(own)
            .unwrap_or_else(|| WorkerId::from_u128(self.node.fresh_id(self.node.now(), partition)));
        let (reply, answer) = oneshot::channel();
        let registration =
            Registration { account: owner.id.clone(), profile, leases, outgoing, reply };
        let address = worker::Address { environment: owner.environment, worker };
        self.node
            .workers
            .directory
            .send(address, worker::Message::Register(Box::new(registration)));
        let (number, leases) = within(COMMAND, answer).await?;
        Ok((WorkerLink { node: Arc::clone(&self.node), address, number }, leases))
    }

    /// How long leases last and how often workers are to speak.
    #[must_use]
    pub fn worker_terms(&self) -> (Duration, Duration) {
        (self.node.settings.terms.lease, self.node.settings.heartbeat)
    }

    /// How many workers are connected and heard of.
    #[must_use]
    pub fn reachable_workers(&self) -> usize {
        let moment = self.moment();
        let live = self.node.workers.list(Environment::Live);
        live.iter().filter(|view| view.worker.is_reachable(moment)).count()
    }
}

/// A worker's connection: what it says goes in here. Dropping it is the connection's end.
#[derive(Debug)]
pub struct WorkerLink {
    node: Arc<Node>,
    address: worker::Address,
    number: u64,
}

impl WorkerLink {
    /// The worker.
    #[must_use]
    pub const fn worker(&self) -> WorkerId {
        self.address.worker
    }

    /// The worker says something.
    pub fn say(&self, said: WorkerMessage) {
        let message = worker::Message::Heard(self.number, said);
        self.node.workers.directory.send(self.address, message);
    }
}

impl Drop for WorkerLink {
    fn drop(&mut self) {
        let message = worker::Message::Disconnected(self.number);
        self.node.workers.directory.send_if_awake(&self.address, message);
    }
}
