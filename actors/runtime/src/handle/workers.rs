//! Workers and their connections (docs/reference/workers.md).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use callboard_domain::Error;
use callboard_domain::function::Announced;
use callboard_domain::id::{Environment, TaskId, WorkerId};
use callboard_domain::query::{Page, Tasks};
use callboard_domain::task::{LeaseToken, Task};
use callboard_domain::worker::{Leases, Profile};
use tokio::sync::{mpsc, oneshot};

use super::{COMMAND, Handle, STOPPING, within};
use crate::items::worker::{self, Registration, View, WorkerCommand, WorkerMessage};
use crate::messages::submission::Owner;
use crate::node::Node;
use crate::read::unreadable;
use crate::tables;

impl Handle {
    /// The workers, lost ones for an hour.
    #[must_use]
    pub fn workers(&self, environment: Environment) -> Vec<View> {
        self.node.actors.workers.list(environment)
    }

    /// The functions that reachable workers announce, by name, each with the number of these workers. Where workers
    /// describe a function differently, the description is that of the one that connected last.
    #[must_use]
    pub fn functions(&self, environment: Environment) -> Vec<(Announced, usize)> {
        let moment = self.moment();
        let mut views = self.node.actors.workers.list(environment);
        views.retain(|view| view.worker.is_reachable(moment));
        views.sort_by_key(|view| view.connected_at);
        let mut found: BTreeMap<String, (Announced, usize)> = BTreeMap::new();
        let profiles = views.into_iter().filter_map(|view| view.worker.profile);
        for announced in profiles.flat_map(|profile| profile.functions.to_vec()) {
            if announced.name == Announced::EVERY {
                continue;
            }
            let before = found.get(&announced.name).map_or(0, |(_, workers)| *workers);
            found.insert(announced.name.clone(), (announced, before + 1));
        }
        found.into_values().collect()
    }

    /// The tasks whose leases the workers of an account hold now.
    #[must_use]
    pub fn held_by(&self, environment: Environment, account: &str) -> BTreeSet<TaskId> {
        let views = self.node.actors.workers.list(environment);
        let own = views.iter().filter(|view| view.account.as_deref() == Some(account));
        own.flat_map(|view| view.worker.tasks()).collect()
    }

    /// A page of the tasks whose leases the workers of an account hold now.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn tasks_held_by(
        &self,
        environment: Environment,
        account: &str,
        query: &Tasks,
    ) -> Result<Page<Task>, Error> {
        let mut tasks = Vec::new();
        for id in self.held_by(environment, account) {
            let store = &*self.node.shard(id.partition()).store;
            let found = tables::task(store, environment, id).await;
            tasks.extend(found.map_err(|error| unreadable(&error))?.map(|found| found.task));
        }
        Ok(query.page_of(tasks))
    }

    /// Tells a worker to take nothing new.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn drain_worker(&self, environment: Environment, id: WorkerId) -> Result<View, Error> {
        let found = self.node.actors.workers.get(id).filter(|view| view.environment == environment);
        let mut view = found.ok_or_else(|| Error::not_found("worker", id))?;
        let address = worker::Address { environment, worker: id };
        self.node.actors.workers.directory.send_if_awake(&address, worker::Message::Drain);
        view.worker.drain();
        Ok(view)
    }

    /// Registers a worker on a new connection. Commands to the worker arrive on
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
        // Only the same account may come back as a worker; any other account becomes a new one.
        let own = |id: &WorkerId| {
            self.node.actors.workers.get(*id).is_none_or(|view| {
                view.environment == owner.environment
                    && view.account.as_ref().is_none_or(|known| *known == owner.id)
            })
        };
        let partition = (self.node.kernel.ports.entropy.bits() & 0xff) as u8;
        let worker = resumed
            .filter(own)
            .unwrap_or_else(|| WorkerId::from_u128(self.node.fresh_id(self.node.now(), partition)));
        let (reply, answer) = oneshot::channel();
        let (account, bound) = (owner.id.clone(), Arc::clone(&owner.bound));
        let registration = Registration { account, bound, profile, leases, outgoing, reply };
        let address = worker::Address { environment: owner.environment, worker };
        self.node
            .actors
            .workers
            .directory
            .send(address, worker::Message::Register(Box::new(registration)));
        let (number, leases) = within(COMMAND, answer).await?;
        Ok((WorkerLink { node: Arc::clone(&self.node), address, number }, leases))
    }

    /// The next sandbox that has work for the first time since the start.
    pub async fn sandbox_used(&self) -> Environment {
        self.node.actors.sandboxes.next().await
    }

    /// The length of a lease, and the interval at which workers are to speak.
    #[must_use]
    pub fn worker_terms(&self) -> (Duration, Duration) {
        (self.node.settings.terms.lease, self.node.settings.heartbeat)
    }

    /// The number of workers that are connected and heard of.
    #[must_use]
    pub fn reachable_workers(&self) -> usize {
        self.node.actors.workers.reachable(self.moment())
    }
}

/// A worker's connection, which takes its messages. A drop ends the connection.
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
        let message = worker::Message::Heard(self.number, Box::new(said));
        self.node.actors.workers.directory.send(self.address, message);
    }

    /// Waits until everything that the worker said so far is handled.
    pub async fn handled(&self) {
        let (flushed, mut handled) = mpsc::channel(1);
        let message = worker::Message::Flush(flushed);
        self.node.actors.workers.directory.send(self.address, message);
        // Nothing is ever sent: the channel closes.
        let _ = handled.recv().await;
    }
}

impl Drop for WorkerLink {
    fn drop(&mut self) {
        let message = worker::Message::Disconnected(self.number);
        self.node.actors.workers.directory.send_if_awake(&self.address, message);
    }
}
