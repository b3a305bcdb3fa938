//! The environments in use, and values of which there is one for each of them.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use callboard_domain::id::{Environment, Slot};
use callboard_domain::share::{ProjectWeight, ProjectWeights, Room};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The production and the sandbox of each project.
#[derive(Debug)]
pub(crate) struct Environments {
    known: RwLock<Arc<[Environment]>>,
    weights: ProjectWeights,
}

impl Default for Environments {
    fn default() -> Self {
        let known = RwLock::new(Slot::DEFAULT.environments().into());
        Self { known, weights: ProjectWeights::default() }
    }
}

impl Environments {
    /// All of them, in order.
    pub(crate) fn all(&self) -> Arc<[Environment]> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The number of projects.
    pub(crate) fn projects(&self) -> usize {
        self.known.read().unwrap_or_else(PoisonError::into_inner).len() / 2
    }

    /// The weight of a project among those that share a pool.
    pub(crate) fn weight(&self, project: Slot) -> ProjectWeight {
        self.weights.of(project)
    }

    /// Sets the weight of a project.
    pub(crate) fn set_weight(&self, project: Slot, weight: ProjectWeight) {
        self.weights.set(project, weight);
    }

    /// The room for a project in a pool of which so much is free.
    pub(crate) fn room(&self, project: Slot, free: usize) -> Room {
        Room { projects: self.projects(), free, weight: self.weight(project) }
    }

    /// Adds those of a project.
    pub(crate) fn put(&self, project: Slot) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let all: BTreeSet<_> = known.iter().copied().chain(project.environments()).collect();
        *known = all.into_iter().collect();
    }

    /// Takes those of a project out.
    pub(crate) fn take(&self, project: Slot) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        *known = known.iter().copied().filter(|one| one.slot() != project).collect();
    }
}

/// The sandboxes that were used, each told once.
#[derive(Debug)]
pub(crate) struct Sandboxes {
    used: Mutex<BTreeSet<Environment>>,
    told: UnboundedSender<Environment>,
    news: tokio::sync::Mutex<UnboundedReceiver<Environment>>,
}

impl Default for Sandboxes {
    fn default() -> Self {
        let (told, news) = unbounded_channel();
        Self { used: Mutex::default(), told, news: tokio::sync::Mutex::new(news) }
    }
}

impl Sandboxes {
    /// The sandbox has work.
    pub(crate) fn used(&self, environment: Environment) {
        if self.used.lock().unwrap_or_else(PoisonError::into_inner).insert(environment) {
            // The receiver lives as long as this.
            let _ = self.told.send(environment);
        }
    }

    /// The next sandbox that was not used before.
    pub(crate) async fn next(&self) -> Environment {
        let next = self.news.lock().await.recv().await;
        next.expect("the sender lives as long as this")
    }
}

/// A value for each environment, made when it is first asked for.
pub(crate) struct PerEnvironment<T>(Box<[OnceLock<Box<T>>; Environment::COUNT]>);

impl<T> Default for PerEnvironment<T> {
    fn default() -> Self {
        Self(Box::new([const { OnceLock::new() }; Environment::COUNT]))
    }
}

impl<T> fmt::Debug for PerEnvironment<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerEnvironment").finish_non_exhaustive()
    }
}

impl<T> PerEnvironment<T> {
    /// The environment's value, if one was made.
    pub(crate) fn made(&self, environment: Environment) -> Option<&T> {
        self.0[usize::from(environment.number())].get().map(Box::as_ref)
    }

    /// The environment's value.
    pub(crate) fn get_or(&self, environment: Environment, make: impl FnOnce() -> T) -> &T {
        self.0[usize::from(environment.number())].get_or_init(|| Box::new(make()))
    }

    /// The values that were made.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(|one| one.get().map(Box::as_ref))
    }
}

impl<T: Default> PerEnvironment<T> {
    /// The environment's value.
    pub(crate) fn of(&self, environment: Environment) -> &T {
        self.get_or(environment, T::default)
    }
}
