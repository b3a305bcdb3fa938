//! The connected workers: each one's state as lists show it, readable without asking its actor.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use callboard_domain::Timestamp;
use callboard_domain::id::{Environment, WorkerId};
use callboard_domain::worker::{Monotonic, Worker, unserved};
use foldhash::HashMap;

use crate::kernel::address::WorkerAddress;
use crate::messages::capacity::WorkerCapacity;
use crate::messages::worker::WorkerDirectory;
use crate::node::Node;
use crate::tables::WorkerRow;
use crate::tables::events::MAX_QUEUES;

/// A worker as lists show it.
#[derive(Debug, Clone)]
pub struct View {
    /// Production or sandbox.
    pub environment: Environment,
    /// The account of the worker's key; unknown between a restart of the server and the worker's return.
    pub account: Option<String>,
    /// The worker's machine.
    pub worker: Worker,
    /// The instant of the worker's last connection.
    pub connected_at: Option<Timestamp>,
    /// The instant at which the worker was heard of last.
    pub last_heard_at: Timestamp,
    pub(crate) capacity: Option<Arc<WorkerCapacity>>,
}

/// Reasons by model and queue, each with the end of its time.
type Reasons = HashMap<(Environment, Box<str>, Box<str>), (Monotonic, Option<String>)>;

/// The workers of this node.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    pub(crate) directory: Arc<WorkerDirectory>,
    views: Mutex<BTreeMap<WorkerId, Arc<Mutex<View>>>>,
    /// Why no worker takes work of a model and a queue, and until when that is good.
    unserved: Mutex<Reasons>,
}

/// The time for which a reason is good: to find it, the profiles of all workers are copied.
const GOOD_FOR: Duration = Duration::from_secs(1);
/// The most reasons that are kept.
const MOST_REASONS: usize = 256;

impl Workers {
    /// Lists a worker whose actor starts. The entry of an actor that broke is taken over, less its
    /// connection.
    pub(crate) fn enter(&self, address: WorkerAddress, node: &Node) -> Arc<Mutex<View>> {
        let now = node.now();
        let worker = Worker::new(
            address.worker,
            None,
            node.settings.terms,
            node.kernel.ports.clock.moment(),
        );
        let view = View {
            environment: address.environment,
            account: None,
            worker,
            connected_at: None,
            last_heard_at: now,
            capacity: None,
        };
        let view = Arc::new(Mutex::new(view));
        let before = self.views().insert(address.worker, Arc::clone(&view));
        if let Some(before) = before {
            let before = before.lock().unwrap_or_else(PoisonError::into_inner);
            view.lock().unwrap_or_else(PoisonError::into_inner).account.clone_from(&before.account);
            if let Some(capacity) = &before.capacity {
                capacity.withdraw();
            }
        }
        view
    }

    /// Takes a worker off the list, unless it has come back.
    pub(crate) fn forget(&self, worker: WorkerId, view: &Arc<Mutex<View>>) {
        let mut views = self.views();
        if views.get(&worker).is_some_and(|listed| Arc::ptr_eq(listed, view)) {
            views.remove(&worker);
        }
        drop(views);
        self.changed();
    }

    /// The workers, in the order of their identifiers.
    pub(crate) fn list(&self, environment: Environment) -> Vec<View> {
        self.views()
            .values()
            .map(|view| view.lock().unwrap_or_else(PoisonError::into_inner).clone())
            .filter(|view| view.environment == environment)
            .collect()
    }

    /// The number of workers that are connected and heard of, in production.
    pub(crate) fn reachable(&self, now: Monotonic) -> usize {
        let views = self.views();
        let is_reachable = |view: &&Arc<Mutex<View>>| {
            let view = view.lock().unwrap_or_else(PoisonError::into_inner);
            view.environment.is_live() && view.worker.is_reachable(now)
        };
        views.values().filter(is_reachable).count()
    }

    /// The queues of these workers, once for each of them.
    pub(crate) fn queues_served(&self, now: Monotonic) -> Vec<String> {
        let views = self.views();
        let queues = views.values().flat_map(|view| {
            let view = view.lock().unwrap_or_else(PoisonError::into_inner);
            let counts = view.environment.is_live() && view.worker.is_reachable(now);
            let profile = view.worker.profile.as_ref().filter(|_| counts);
            profile.map_or_else(Vec::new, |profile| profile.queues.clone())
        });
        queues.collect()
    }

    /// True if one of the workers of an environment passes the test. Cheaper than a list, which copies every worker.
    pub(crate) fn any(&self, environment: Environment, test: impl Fn(&Worker) -> bool) -> bool {
        self.views().values().any(|view| {
            let view = view.lock().unwrap_or_else(PoisonError::into_inner);
            view.environment == environment && test(&view.worker)
        })
    }

    /// A worker has come or gone, or serves something else: what is known of them is found anew.
    pub(crate) fn changed(&self) {
        self.unserved.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The reason why no worker of an environment takes work of this model and queue, at most a second old.
    pub(crate) fn unserved(
        &self,
        environment: Environment,
        (model, queue): (&str, &str),
        now: Monotonic,
    ) -> Option<String> {
        let key = (environment, Box::from(model), Box::from(queue));
        let mut known = self.unserved.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, reason)) = known.get(&key).filter(|(until, _)| now < *until) {
            return reason.clone();
        }
        let mut workers = self.list(environment);
        workers.retain(|view| view.worker.is_reachable(now));
        let profiles: Vec<_> = workers.into_iter().filter_map(|view| view.worker.profile).collect();
        let reason = unserved(&profiles, model, queue);
        if known.len() >= MOST_REASONS {
            known.clear();
        }
        known.insert(key, (now.after(GOOD_FOR), reason.clone()));
        reason
    }

    /// The worker's state, if the worker is listed.
    pub(crate) fn get(&self, worker: WorkerId) -> Option<View> {
        let view = self.views().get(&worker).cloned()?;
        let view = view.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(view)
    }

    /// The capacities of those that serve a queue.
    pub(crate) fn serving(
        &self,
        environment: Environment,
        queue: &str,
    ) -> Vec<Arc<WorkerCapacity>> {
        self.list(environment)
            .into_iter()
            .filter_map(|view| view.capacity)
            .filter(|capacity| !capacity.is_gone() && capacity.serves(environment, queue))
            .collect()
    }

    fn views(&self) -> MutexGuard<'_, BTreeMap<WorkerId, Arc<Mutex<View>>>> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WorkerRow {
    pub(crate) fn of(view: &View) -> Self {
        let profile = view.worker.profile.as_ref();
        Self {
            id: view.worker.id,
            name: profile.map(|profile| profile.name.clone()),
            queues: profile
                .map(|profile| profile.queues.iter().take(MAX_QUEUES).cloned().collect())
                .unwrap_or_default(),
        }
    }
}
