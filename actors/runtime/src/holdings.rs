//! The holdings of each account, against its caps (docs/reference/limits.md).
//!
//! The holdings are in memory: unfinished tasks and schedules are counted as they come and go, and anew
//! at a start, which reads them anyway. Stored bytes are measured in the background, at the start and
//! every hour, if there is a cap; the bytes stored in between are added. Deliberately absent: the caps'
//! rules, which are [`callboard_domain::caps`]'s.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use callboard_domain::Error;
use callboard_domain::caps::{Caps, Holdings};
use callboard_domain::id::{Environment, ExecutionId, TaskId};
use callboard_domain::machine::Machine;
use callboard_domain::unit::{Change, Unit};
use callboard_store::{Error as StoreError, Op};
use foldhash::HashMap;
use tokio::sync::Notify;

use crate::node::{Node, PAGE};
use crate::tables::{
    self, ENDED_EXECUTIONS, ENDED_TASKS, Ended, LIVE_EXECUTIONS, LIVE_TASKS, PLANS, SCHEDULES,
    TEMPLATES, executions, items,
};

/// The time between two measurements.
const EVERY: Duration = Duration::from_hours(1);

/// The holdings of all accounts.
#[derive(Debug, Default)]
pub(crate) struct AccountHoldings {
    caps: RwLock<Caps>,
    /// Wakes the measurement when bytes are capped that were not.
    capped: Notify,
    accounts: Mutex<HashMap<Box<str>, Holdings>>,
}

impl AccountHoldings {
    pub(crate) fn new(caps: Caps) -> Self {
        Self { caps: RwLock::new(caps), ..Self::default() }
    }

    /// Counts a submission of an account: this number of tasks, or another item if that is 0.
    ///
    /// # Errors
    /// [`Error::TooManyUnfinished`], [`Error::QuotaExceeded`].
    pub(crate) fn admit(&self, account: &str, tasks: usize) -> Result<(), Error> {
        let tasks = u32::try_from(tasks).unwrap_or(u32::MAX);
        self.with(account, |holdings| holdings.admit(&self.caps(), tasks))
    }

    /// Counts a task that is about to be created, until it is.
    ///
    /// # Errors
    /// Those of [`Self::admit`].
    pub(crate) fn reserve(self: &Arc<Self>, account: &str) -> Result<CountedTask, Error> {
        self.admit(account, 1)?;
        Ok(CountedTask { holdings: Arc::clone(self), account: account.into() })
    }

    /// Counts the tasks of a unit without an admission: those of work that goes on.
    pub(crate) fn begin(&self, unit: &Unit) {
        for change in &unit.changes {
            if let Change::NewTask(step, _) = change {
                self.with(&step.next.spec.account, |holdings| holdings.begin(1));
            }
        }
    }

    /// Counts an unfinished task that was found at a start.
    pub(crate) fn found(&self, account: &str) {
        self.with(account, |holdings| holdings.begin(1));
    }

    /// Counts the tasks that a durable unit has ended.
    pub(crate) fn end(&self, unit: &Unit) {
        for change in &unit.changes {
            if let Change::Task(step, _) = change
                && step.next.is_finished()
            {
                self.with(&step.next.spec.account, Holdings::end);
            }
        }
    }

    /// Forgets the tasks of a unit that did not become durable.
    pub(crate) fn undo(&self, unit: &Unit) {
        for change in &unit.changes {
            if let Change::NewTask(step, _) = change {
                self.with(&step.next.spec.account, Holdings::end);
            }
        }
    }

    /// Counts a schedule that an account makes, or takes over.
    ///
    /// # Errors
    /// [`Error::TooManySchedules`].
    pub(crate) fn admit_schedule(&self, account: &str) -> Result<(), Error> {
        self.with(account, |holdings| holdings.admit_schedule(&self.caps()))
    }

    /// Counts a schedule that was found at a start.
    pub(crate) fn found_schedule(&self, account: &str) {
        self.with(account, Holdings::find_schedule);
    }

    /// Forgets a schedule that was deleted or taken over, or did not become durable.
    pub(crate) fn lost_schedule(&self, account: &str) {
        self.with(account, Holdings::lose_schedule);
    }

    /// Adds the texts that a unit stores, to the account that its items belong to.
    pub(crate) fn store_unit(&self, unit: &Unit, rows: &[Op]) {
        let account = unit.changes.iter().find_map(|change| match change {
            Change::Task(step, _) | Change::NewTask(step, _) => Some(&step.next.spec.account),
            Change::Execution(_, step) => Some(&step.next.head.spec.account),
            Change::Approval(..)
            | Change::Signal(..)
            | Change::Delivery(_)
            | Change::Review(..) => None,
        });
        if let Some(account) = account {
            self.store(account, rows);
        }
    }

    /// Adds the texts among some rows to an account's.
    pub(crate) fn store(&self, account: &str, rows: &[Op]) {
        if self.caps().stored_bytes.is_some() {
            let bytes = tables::text_bytes(rows);
            self.with(account, |holdings| holdings.store(bytes));
        }
    }

    fn with<T>(&self, account: &str, change: impl FnOnce(&mut Holdings) -> T) -> T {
        let mut accounts = self.accounts();
        match accounts.get_mut(account) {
            Some(holdings) => change(holdings),
            None => change(accounts.entry(account.into()).or_default()),
        }
    }

    fn caps(&self) -> Caps {
        *self.caps.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every account has these caps from now on. A cap of bytes where there was none counts once they were measured.
    pub(crate) fn set_caps(&self, caps: Caps) {
        *self.caps.write().unwrap_or_else(PoisonError::into_inner) = caps;
        if caps.stored_bytes.is_some() {
            self.capped.notify_one();
        }
    }

    fn accounts(&self) -> MutexGuard<'_, HashMap<Box<str>, Holdings>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn measured(&self, mut found: HashMap<Box<str>, u64>) {
        let mut accounts = self.accounts();
        for (account, holdings) in accounts.iter_mut() {
            holdings.measured(found.remove(account).unwrap_or_default());
        }
        for (account, bytes) in found {
            accounts.entry(account).or_default().measured(bytes);
        }
        accounts.retain(|_, holdings| *holdings != Holdings::default());
    }

    /// The unfinished tasks, and the schedules, of some accounts.
    pub(crate) fn unfinished(&self, of: impl Iterator<Item = String>) -> (u64, u64) {
        let accounts = self.accounts();
        let held = of.filter_map(|account| accounts.get(&*account)).map(Holdings::unfinished);
        held.fold((0, 0), |sum, (tasks, schedules)| (sum.0 + tasks, sum.1 + schedules))
    }

    /// The accounts with unfinished tasks, for tests.
    #[cfg(test)]
    pub(crate) fn held(&self) -> Vec<String> {
        let accounts = self.accounts();
        let busy = accounts.iter().filter(|(_, holdings)| holdings.unfinished() != (0, 0));
        busy.map(|(account, holdings)| format!("{account} has {holdings:?}")).collect()
    }

    #[cfg(test)]
    pub(crate) fn of(&self, account: &str) -> Holdings {
        self.accounts().get(account).copied().unwrap_or_default()
    }
}

/// A task that an account's holdings count before the task exists; dropped, it counts no more.
#[derive(Debug)]
pub(crate) struct CountedTask {
    holdings: Arc<AccountHoldings>,
    account: Box<str>,
}

impl Drop for CountedTask {
    fn drop(&mut self) {
        self.holdings.with(&self.account, Holdings::end);
    }
}

/// Measures periodically while there is a cap, for as long as the process lives.
pub(crate) async fn run(node: Arc<Node>) {
    loop {
        while node.holdings.caps().stored_bytes.is_none() {
            node.holdings.capped.notified().await;
        }
        node.holdings.accounts().values_mut().for_each(Holdings::measurement_begins);
        match measure(&node).await {
            Ok(found) => node.holdings.measured(found),
            Err(error) => tracing::warn!(%error, "could not measure what accounts store"),
        }
        tokio::time::sleep(EVERY).await;
    }
}

async fn measure(node: &Node) -> Result<HashMap<Box<str>, u64>, StoreError> {
    let mut measuring = Measuring { node, found: HashMap::default() };
    for environment in Environment::ALL {
        measuring.tasks(environment).await?;
        measuring.executions(environment).await?;
        measuring.definitions(environment).await?;
    }
    Ok(measuring.found)
}

struct Measuring<'n> {
    node: &'n Node,
    found: HashMap<Box<str>, u64>,
}

impl Measuring<'_> {
    async fn tasks(&mut self, environment: Environment) -> Result<(), StoreError> {
        let (store, number) = (self.node.store(), environment.number());
        let mut after = None;
        loop {
            let page = LIVE_TASKS.scan(store, number, after.as_ref(), PAGE).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            for (id, _) in page {
                self.task(environment, id, 0).await?;
            }
        }
        after = None;
        loop {
            let page = ENDED_TASKS.scan(store, number, after.as_ref(), PAGE).await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = Some(*last);
            for (id, Ended(_, output)) in page {
                self.task(environment, id, output.map_or(0, |output| output.len())).await?;
            }
        }
    }

    async fn task(
        &mut self,
        environment: Environment,
        id: u128,
        output: usize,
    ) -> Result<(), StoreError> {
        let made = tables::made(self.node.store(), environment, TaskId::from_u128(id)).await?;
        // The task may have been removed meanwhile.
        let Some(made) = made else { return Ok(()) };
        self.add(&made.spec.account, environment, id, output).await
    }

    async fn executions(&mut self, environment: Environment) -> Result<(), StoreError> {
        let (store, number) = (self.node.store(), environment.number());
        for table in [LIVE_EXECUTIONS, ENDED_EXECUTIONS] {
            let mut after = None;
            loop {
                let page = table.scan(store, number, after.as_ref(), PAGE).await?;
                let Some((last, _)) = page.last() else { break };
                after = Some(*last);
                for (id, _) in page {
                    let execution = ExecutionId::from_u128(id);
                    if let Some(begun) = executions::begun(store, environment, execution).await? {
                        let lists = items::stored_lists(store, environment, execution).await?;
                        self.add(&begun.spec.account, environment, id, lists).await?;
                    }
                }
            }
        }
        Ok(())
    }

    async fn definitions(&mut self, environment: Environment) -> Result<(), StoreError> {
        let (store, number) = (self.node.store(), environment.number());
        let mut after = None;
        loop {
            let page = PLANS.scan(store, number, after.as_ref(), PAGE).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            for (id, plan) in page {
                self.add(&plan.account, environment, id, 0).await?;
            }
        }
        after = None;
        loop {
            let page = SCHEDULES.scan(store, number, after.as_ref(), PAGE).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            for (id, row) in page {
                self.add(&row.schedule.account, environment, id, 0).await?;
            }
        }
        after = None;
        loop {
            let page = TEMPLATES.scan(store, number, after.as_ref(), PAGE).await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = Some(*last);
            for (id, template) in page {
                if let Some(account) = template.account {
                    self.add(&account, environment, id, 0).await?;
                }
            }
        }
    }

    /// Adds the texts of an item, and `more`.
    async fn add(
        &mut self,
        account: &str,
        environment: Environment,
        id: u128,
        more: usize,
    ) -> Result<(), StoreError> {
        let bytes = tables::stored_texts(self.node.store(), environment, id).await? + more as u64;
        match self.found.get_mut(account) {
            Some(sum) => *sum += bytes,
            None => drop(self.found.insert(account.into(), bytes)),
        }
        Ok(())
    }
}
