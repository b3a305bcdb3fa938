//! The number of an account's running tasks in a project, and its bound, which is that of its tier now
//! (docs/reference/limits.md).
//!
//! The numbers are in memory and per node. A task is counted when it is given out, until its count is
//! dropped.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use callboard_domain::access::Account;
use callboard_domain::id::Environment;
use callboard_domain::rate::Quotas;

use crate::kernel::environments::PerEnvironment;
use crate::limits::{Queues, Tiers};

/// The running tasks of all accounts, in each project by itself.
#[derive(Debug, Clone)]
pub(crate) struct Concurrency(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    quotas: RwLock<Quotas>,
    projects: PerEnvironment<Accounts>,
    running: PerEnvironment<AtomicU64>,
    queues: Arc<dyn Queues>,
}

/// The tasks of the accounts in a project.
type Accounts = Mutex<HashMap<Arc<str>, Tasks>>;

/// The tasks of an account.
#[derive(Debug, Clone, Copy)]
struct Tasks {
    bound: Option<u32>,
    running: u32,
}

impl Tasks {
    fn has_room(self) -> bool {
        self.bound.is_none_or(|bound| self.running < bound)
    }
}

impl Concurrency {
    pub(crate) fn new(quotas: Quotas, queues: Arc<dyn Queues>) -> Self {
        let (quotas, projects) = (RwLock::new(quotas), PerEnvironment::default());
        let running = PerEnvironment::default();
        Self(Arc::new(Inner { quotas, projects, running, queues }))
    }

    /// The name of an account, which all its tasks share; its bound is read when its first task comes.
    pub(crate) fn account(
        &self,
        tiers: &dyn Tiers,
        environment: Environment,
        account: &str,
    ) -> Arc<str> {
        let mut known = self.0.lock(environment);
        if let Some((account, _)) = known.get_key_value(account) {
            return Arc::clone(account);
        }
        let account = Arc::<str>::from(account);
        let bound = self.0.bound(tiers, &account);
        known.insert(Arc::clone(&account), Tasks { bound, running: 0 });
        account
    }

    /// The account has another tier now.
    pub(crate) fn changed(&self, tiers: &dyn Tiers, account: &str) {
        for mut accounts in self.0.projects.iter().map(locked) {
            if let Some(tasks) = accounts.get_mut(account) {
                // Under the lock: the quotas that are set meanwhile come after this, or count here.
                tasks.bound = self.0.bound(tiers, account);
            }
        }
        self.0.queues.look_everywhere();
    }

    /// The tiers have other quotas now.
    pub(crate) fn set_quotas(&self, tiers: &dyn Tiers, quotas: Quotas) {
        *self.0.quotas.write().unwrap_or_else(PoisonError::into_inner) = quotas;
        for mut accounts in self.0.projects.iter().map(locked) {
            for (account, tasks) in accounts.iter_mut() {
                tasks.bound = self.0.bound(tiers, account);
            }
        }
        self.0.queues.look_everywhere();
    }

    /// The running tasks of all accounts of an environment.
    pub(crate) fn running_in(&self, environment: Environment) -> u64 {
        self.0.running.of(environment).load(Ordering::Relaxed)
    }

    /// The accounts' running tasks, for tests.
    #[cfg(test)]
    pub(crate) fn running(&self) -> HashMap<Arc<str>, u32> {
        let mut running = HashMap::new();
        for accounts in self.0.projects.iter().map(locked) {
            for (account, tasks) in accounts.iter().filter(|(_, tasks)| tasks.running > 0) {
                *running.entry(Arc::clone(account)).or_default() += tasks.running;
            }
        }
        running
    }

    /// Gives an account another bound than that of its tier, for tests.
    #[cfg(test)]
    pub(crate) fn bind(&self, environment: Environment, account: &str, bound: u32) {
        if let Some(tasks) = self.0.lock(environment).get_mut(account) {
            tasks.bound = Some(bound);
        }
    }

    /// True if the account may start another task.
    pub(crate) fn has_room(&self, environment: Environment, account: &str) -> bool {
        self.0.lock(environment).get(account).is_none_or(|tasks| tasks.has_room())
    }

    /// Counts a task that is given out, or that was running before a restart.
    pub(crate) fn start(&self, environment: Environment, account: Arc<str>) -> Running {
        if let Some(tasks) = self.0.lock(environment).get_mut(&account) {
            tasks.running += 1;
        }
        self.0.running.of(environment).fetch_add(1, Ordering::Relaxed);
        Running { environment, account, concurrency: Arc::downgrade(&self.0) }
    }
}

impl Inner {
    fn lock(&self, environment: Environment) -> MutexGuard<'_, HashMap<Arc<str>, Tasks>> {
        locked(self.projects.of(environment.live()))
    }

    /// The bound of an account's tier; the server's own work has none.
    fn bound(&self, tiers: &dyn Tiers, account: &str) -> Option<u32> {
        let account: Account = account.parse().ok()?;
        let quotas = *self.quotas.read().unwrap_or_else(PoisonError::into_inner);
        quotas.of(tiers.tier(account)).concurrent_tasks
    }
}

fn locked(accounts: &Accounts) -> MutexGuard<'_, HashMap<Arc<str>, Tasks>> {
    accounts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running task's share of its account's bound, given back when dropped.
#[derive(Debug)]
pub(crate) struct Running {
    environment: Environment,
    account: Arc<str>,
    concurrency: Weak<Inner>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(concurrency) = self.concurrency.upgrade() else {
            return;
        };
        concurrency.running.of(self.environment).fetch_sub(1, Ordering::Relaxed);
        let mut kept_waiting = false;
        if let Some(tasks) = concurrency.lock(self.environment).get_mut(&self.account) {
            kept_waiting = !tasks.has_room();
            tasks.running = tasks.running.saturating_sub(1);
        }
        if kept_waiting {
            concurrency.queues.look_everywhere();
        }
    }
}
