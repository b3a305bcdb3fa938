//! The holdings of each account in each project, against its caps (docs/reference/limits.md).
//!
//! The holdings are in memory: unfinished tasks and schedules are counted as they come and go, and anew at a start,
//! which reads them anyway. Stored bytes are measured in the background, at the start and every hour, if there is a
//! cap; the bytes stored in between are added.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use callboard_domain::Error;
use callboard_domain::caps::{Caps, Holdings};
use callboard_domain::id::Environment;
use callboard_domain::machine::{Machine, Step};
use callboard_domain::task::{Fact, Spec, Task};
use callboard_domain::unit::{Change, Unit};
use callboard_store::Op;
use foldhash::HashMap;
use tokio::sync::Notify;

use crate::kernel::environments::PerEnvironment;
use crate::limits::limit::{Limit, NewTask};
use crate::limits::reservation::{Place, Reservation};
use crate::tables;

/// The holdings of all accounts, in each project by itself.
#[derive(Debug, Default)]
pub(crate) struct AccountHoldings {
    caps: RwLock<Caps>,
    /// Wakes the measurement when bytes are capped that were not.
    pub(crate) capped: Notify,
    projects: PerEnvironment<Accounts>,
}

/// The holdings of the accounts in a project.
type Accounts = Mutex<HashMap<Box<str>, Holdings>>;

impl AccountHoldings {
    pub(crate) fn new(caps: Caps) -> Self {
        Self { caps: RwLock::new(caps), ..Self::default() }
    }

    /// Counts a submission of an account: this number of tasks, or another item if that is 0.
    ///
    /// # Errors
    /// [`Error::TooManyUnfinished`], [`Error::QuotaExceeded`].
    pub(crate) fn admit(
        &self,
        environment: Environment,
        account: &str,
        tasks: usize,
    ) -> Result<(), Error> {
        let tasks = u32::try_from(tasks).unwrap_or(u32::MAX);
        self.with(environment, account, |holdings| holdings.admit(&self.caps(), tasks))
    }

    /// Counts a task that is about to be created, until it is.
    ///
    /// # Errors
    /// Those of [`Self::admit`].
    pub(crate) fn reserve(
        self: &Arc<Self>,
        environment: Environment,
        account: &str,
    ) -> Result<CountedTask, Error> {
        self.admit(environment, account, 1)?;
        Ok(CountedTask { holdings: Arc::clone(self), environment, account: account.into() })
    }

    /// Counts an unfinished task that was found at a start.
    pub(crate) fn found(&self, environment: Environment, account: &str) {
        self.with(environment, account, |holdings| holdings.begin(1));
    }

    /// Forgets tasks of a submission that was refused after it was counted.
    pub(crate) fn give_back(&self, environment: Environment, account: &str, tasks: usize) {
        self.with(environment, account, |holdings| (0..tasks).for_each(|_| holdings.end()));
    }

    /// Counts a schedule that an account makes, or takes over.
    ///
    /// # Errors
    /// [`Error::TooManySchedules`].
    pub(crate) fn admit_schedule(
        &self,
        environment: Environment,
        account: &str,
    ) -> Result<(), Error> {
        self.with(environment, account, |holdings| holdings.admit_schedule(&self.caps()))
    }

    /// Counts a schedule that was found at a start.
    pub(crate) fn found_schedule(&self, environment: Environment, account: &str) {
        self.with(environment, account, Holdings::find_schedule);
    }

    /// Forgets a schedule that was deleted or taken over, or did not become durable.
    pub(crate) fn lost_schedule(&self, environment: Environment, account: &str) {
        self.with(environment, account, Holdings::lose_schedule);
    }

    /// Adds the texts that a unit stores, to the account that its items belong to.
    pub(crate) fn store_unit(&self, environment: Environment, unit: &Unit, rows: &[Op]) {
        let account = unit.changes.iter().find_map(|change| match change {
            Change::Task(step, _) | Change::NewTask(step, _) => Some(&step.next.spec.account),
            Change::Execution(_, step) => Some(&step.next.head.spec.account),
            Change::Approval(..)
            | Change::Signal(..)
            | Change::Delivery(_)
            | Change::Review(..) => None,
        });
        if let Some(account) = account {
            self.store(environment, account, rows);
        }
    }

    /// Adds the texts among some rows to an account's.
    pub(crate) fn store(&self, environment: Environment, account: &str, rows: &[Op]) {
        if !rows.is_empty() && self.caps().stored_bytes.is_some() {
            let bytes = tables::text_bytes(rows);
            self.with(environment, account, |holdings| holdings.store(bytes));
        }
    }

    /// Adds the bytes of a file to an account's.
    pub(crate) fn store_file(&self, environment: Environment, account: &str, bytes: u64) {
        if self.caps().stored_bytes.is_some() {
            self.with(environment, account, |holdings| holdings.store(bytes));
        }
    }

    fn with<T>(
        &self,
        environment: Environment,
        account: &str,
        change: impl FnOnce(&mut Holdings) -> T,
    ) -> T {
        let mut accounts = self.accounts(environment);
        match accounts.get_mut(account) {
            Some(holdings) => change(holdings),
            None => change(accounts.entry(account.into()).or_default()),
        }
    }

    pub(crate) fn caps(&self) -> Caps {
        *self.caps.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every account has these caps from now on. A cap of bytes where there was none counts once they were measured.
    pub(crate) fn set_caps(&self, caps: Caps) {
        *self.caps.write().unwrap_or_else(PoisonError::into_inner) = caps;
        if caps.stored_bytes.is_some() {
            self.capped.notify_one();
        }
    }

    fn accounts(&self, environment: Environment) -> MutexGuard<'_, HashMap<Box<str>, Holdings>> {
        locked(self.projects.of(environment.live()))
    }

    /// The bytes of the environment's project are about to be measured.
    pub(crate) fn measurement_begins(&self, environment: Environment) {
        self.accounts(environment).values_mut().for_each(Holdings::measurement_begins);
    }

    /// The accounts of the environment's project store this number of bytes each.
    pub(crate) fn measured(&self, environment: Environment, mut found: HashMap<Box<str>, u64>) {
        let mut accounts = self.accounts(environment);
        for (account, holdings) in accounts.iter_mut() {
            holdings.measured(found.remove(account).unwrap_or_default());
        }
        for (account, bytes) in found {
            accounts.entry(account).or_default().measured(bytes);
        }
        accounts.retain(|_, holdings| *holdings != Holdings::default());
    }

    /// The unfinished tasks, and the schedules, of some accounts in all projects.
    pub(crate) fn unfinished(&self, of: &[String]) -> (u64, u64) {
        let mut sum = (0, 0);
        for accounts in self.projects.iter().map(locked) {
            let held = of.iter().filter_map(|account| accounts.get(&**account));
            for (tasks, schedules) in held.map(Holdings::unfinished) {
                sum = (sum.0 + tasks, sum.1 + schedules);
            }
        }
        sum
    }

    /// The accounts with unfinished tasks, for tests.
    #[cfg(test)]
    pub(crate) fn held(&self) -> Vec<String> {
        let busy = |accounts: MutexGuard<'_, HashMap<Box<str>, Holdings>>| {
            let busy = accounts.iter().filter(|(_, holdings)| holdings.unfinished() != (0, 0));
            busy.map(|(account, holdings)| format!("{account} has {holdings:?}"))
                .collect::<Vec<_>>()
        };
        self.projects.iter().map(locked).flat_map(busy).collect()
    }

    #[cfg(test)]
    pub(crate) fn of(&self, environment: Environment, account: &str) -> Holdings {
        self.accounts(environment).get(account).copied().unwrap_or_default()
    }
}

fn locked(accounts: &Accounts) -> MutexGuard<'_, HashMap<Box<str>, Holdings>> {
    accounts.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Limit for AccountHoldings {
    fn enter(&self, new: &NewTask<'_>, _: &mut Reservation) {
        if !new.is_admitted {
            self.with(new.environment, &new.task.spec.account, |holdings| holdings.begin(1));
        }
    }

    fn undo(&self, environment: Environment, spec: &Spec) {
        self.with(environment, &spec.account, Holdings::end);
    }

    fn stepped(&self, environment: Environment, step: &Step<Task>) {
        let account = &step.next.spec.account;
        if step.next.is_finished() {
            self.with(environment, account, Holdings::end);
        } else if step.facts.contains(&Fact::Reopened) {
            self.with(environment, account, |holdings| holdings.begin(1));
        }
    }
}

/// A task that an account's holdings count before the task exists; dropped, it counts no more.
#[derive(Debug)]
pub(crate) struct CountedTask {
    holdings: Arc<AccountHoldings>,
    environment: Environment,
    account: Box<str>,
}

impl Place for CountedTask {}

impl Drop for CountedTask {
    fn drop(&mut self) {
        self.holdings.with(self.environment, &self.account, Holdings::end);
    }
}
