//! The limits that work meets: what an account may have and run, a queue, a key, a model, a budget, a reviewer.
//!
//! Each keeps its numbers in memory, and gives a reservation that undoes itself when it is dropped. None knows an
//! item: a limit that has room again tells [`Queues`].

pub(crate) mod admission;
pub(crate) mod budgets;
pub(crate) mod concurrency;
pub(crate) mod flow;
pub(crate) mod holdings;
pub(crate) mod limit;
pub(crate) mod models;
pub(crate) mod permits;
pub(crate) mod prices;
pub(crate) mod reservation;
pub(crate) mod reviewers;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use callboard_domain::access::Account;
use callboard_domain::caps::Caps;
use callboard_domain::id::{Environment, Slot};
use callboard_domain::model_limits::ModelLimits;
use callboard_domain::rate::{Place, Quotas, Tier};
use callboard_domain::task::Task;
use callboard_domain::usage::Prices;
use callboard_store::Store;
use tokio::sync::Notify;

use crate::kernel::address::QueueAddress;
use crate::kernel::environments::{Environments, PerEnvironment};
use crate::kernel::ports::Clock;
use crate::kernel::project_pool::{PoolPermit, ProjectPool};

use budgets::Budgets;
use concurrency::Concurrency;
use flow::Flow;
use holdings::AccountHoldings;
use limit::Limit;
use models::Models;
use permits::Permits;
use prices::CurrentPrices;
use reviewers::Reviewers;

/// The queues, as limits know them.
pub(crate) trait Queues: std::fmt::Debug + Send + Sync {
    /// Tells a queue that there may be room.
    fn look(&self, queue: &QueueAddress);

    /// Tells every queue that there may be room.
    fn look_everywhere(&self);

    /// Tells a queue that a lease that it counted was not given out.
    fn not_leased(&self, queue: &QueueAddress, place: Place);
}

/// The tiers of accounts.
pub(crate) trait Tiers {
    /// The tier of an account now, if it has one of its own.
    fn tier(&self, account: Account) -> Option<Tier>;
}

/// The limits of a node.
pub(crate) struct Limits {
    pub(crate) prices: CurrentPrices,
    pub(crate) concurrency: Concurrency,
    /// Held by the queue of a project that looks for a task which an account and a key have room for, and counts it.
    leasing: PerEnvironment<Mutex<()>>,
    models: PerEnvironment<Models>,
    /// The limits of the settings, which count in each project for a model without limits of its own.
    pub(crate) configured_models: Arc<Mutex<BTreeMap<String, ModelLimits>>>,
    queues: Arc<dyn Queues>,
    clock: Arc<dyn Clock>,
    budgets: PerEnvironment<Arc<Budgets>>,
    /// Told when something may fit into a budget that did not fit before.
    pub(crate) budget_wake: Arc<Notify>,
    pub(crate) flow: Flow,
    pub(crate) holdings: Arc<AccountHoldings>,
    pub(crate) reviewers: Reviewers,
    /// Held by whoever makes a budget or the settings of a queue, of which there may be so many only.
    pub(crate) counting: tokio::sync::Mutex<()>,
    /// The KiB of submissions on their way to the disk.
    pub(crate) submissions: Arc<ProjectPool>,
    /// The KiB of large ones that the store is given at once.
    large_submissions: Arc<ProjectPool>,
}

/// The KiB of submissions that may be on their way to the disk before more is refused: a disk that stands still
/// must not fill the memory with the retries of callers.
const MAX_PENDING_KIB: usize = 64 << 10;
/// The KiB from which a submission is large.
const LARGE_KIB: usize = 64;
/// The KiB of large submissions that the store is given at once: a small one of another project waits for these at most.
const MAX_LARGE_KIB: usize = 4 << 10;

impl Limits {
    pub(crate) fn new(
        prices: Arc<Prices>,
        (quotas, caps, models): (Quotas, Caps, BTreeMap<String, ModelLimits>),
        queues: &Arc<dyn Queues>,
        clock: Arc<dyn Clock>,
        environments: Arc<Environments>,
    ) -> Self {
        Self {
            prices: CurrentPrices::new(prices),
            concurrency: Concurrency::new(quotas, Arc::clone(queues)),
            leasing: PerEnvironment::default(),
            models: PerEnvironment::default(),
            configured_models: Arc::new(Mutex::new(models)),
            queues: Arc::clone(queues),
            clock,
            budgets: PerEnvironment::default(),
            budget_wake: Arc::default(),
            flow: Flow::new(Arc::clone(queues)),
            holdings: Arc::new(AccountHoldings::new(caps)),
            reviewers: Reviewers::default(),
            counting: tokio::sync::Mutex::default(),
            submissions: ProjectPool::new(MAX_PENDING_KIB, Arc::clone(&environments)),
            large_submissions: ProjectPool::new(MAX_LARGE_KIB, environments),
        }
    }

    /// The turn of a submission of so many KiB at the disk, once it comes; a small one needs none.
    pub(crate) async fn turn(
        &self,
        store: &dyn Store,
        project: Slot,
        kib: usize,
    ) -> Option<PoolPermit> {
        if kib < LARGE_KIB {
            return None;
        }
        // Boxed: small submissions would pay for the larger future.
        let turn = async {
            let permit = self.large_submissions.take(project, kib).await;
            store.room().await;
            permit
        };
        Some(Box::pin(turn).await)
    }

    /// The limits on tasks, each of which hears of every task that is stored.
    pub(crate) fn on_tasks(&self, environment: Environment) -> impl Iterator<Item = &dyn Limit> {
        let of_all: [&dyn Limit; 2] = [&*self.holdings, &self.flow];
        let budgets = self.budgets.made(environment).map(|budgets| &**budgets as &dyn Limit);
        of_all.into_iter().chain(budgets)
    }

    /// The models of an environment, whose calls are counted; none in a sandbox, which is not metered.
    pub(crate) fn models(&self, environment: Environment) -> Option<&Models> {
        environment.is_live().then(|| self.models_of(environment))
    }

    /// The models of the environment's project.
    pub(crate) fn models_of(&self, environment: Environment) -> &Models {
        let environment = environment.live();
        self.models.get_or(environment, || {
            let configured = Arc::clone(&self.configured_models);
            Models::new(environment, configured, Arc::clone(&self.queues), Arc::clone(&self.clock))
        })
    }

    /// The budgets that tasks of an environment go by; none without a budget. A sandbox has none: its model costs
    /// nothing.
    pub(crate) fn budgets(&self, environment: Environment) -> Option<&Arc<Budgets>> {
        self.budgets.made(environment).filter(|budgets| !budgets.is_idle())
    }

    /// The budgets of the environment's project.
    pub(crate) fn budgets_of(&self, environment: Environment) -> &Arc<Budgets> {
        let environment = environment.live();
        let make = || Arc::new(Budgets::new(environment, Arc::clone(&self.budget_wake)));
        self.budgets.get_or(environment, make)
    }

    /// Keeps the other queues of the project from a look for a task until it is dropped: two that look at once would
    /// both give the last place of an account or a key away.
    pub(crate) fn leasing(&self, environment: Environment) -> MutexGuard<'_, ()> {
        let leasing = self.leasing.get_or(environment.live(), Mutex::default);
        leasing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The permits of a task that runs, and whose lease was given out `age` ago, before a restart.
    pub(crate) fn of_running(
        &self,
        tiers: &dyn Tiers,
        environment: Environment,
        task: &Task,
        age: Option<Duration>,
    ) -> Permits {
        let account = self.concurrency.account(tiers, environment, &task.spec.account);
        let queue = QueueAddress { environment, queue: task.spec.queue.as_str().into() };
        Permits {
            running: Some(self.concurrency.start(environment, account)),
            call: age.and_then(|age| self.models(environment)?.adopt(task.model(), age)),
            queue: Some(self.flow.leases(&queue).start()),
            key: self.flow.start(environment, task.spec.flow.as_deref()),
            rate: None,
        }
    }
}
