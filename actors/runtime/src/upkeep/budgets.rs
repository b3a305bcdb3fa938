//! The rows of budgets: read at a start, written by changes, and summed up once a minute.

use std::collections::BTreeMap;

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::budget::Money;
use callboard_domain::id::BudgetId;
use callboard_domain::spending::{Budget, BudgetChange, Ledger};
use callboard_domain::task::{Effect, State};
use callboard_store::{Error, Op, Outcome};
use tokio::time::Instant;

use crate::commit::effects;
use crate::limits::budgets::Budgets;
use crate::node::Node;
use crate::tables::{BUDGETS, BudgetRow, SPENT};

/// The partition of all budgets.
const PARTITION: u8 = 0;
/// The number of rows that are read or removed at a time.
const PAGE: usize = 1_000;

/// The interval at which the periods and the parked tasks are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// The interval at which the rows of costs are folded.
const FOLD: Duration = Duration::from_mins(1);

impl Budgets {
    /// Reads the budgets and their spent amounts.
    pub(crate) async fn load(&self, node: &Node) -> Result<(), Error> {
        let (store, now, mut after) = (node.store(), node.now(), None);
        let number = self.environment.number();
        loop {
            let page = BUDGETS.scan(store, number, after.as_ref(), PAGE).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            for (id, BudgetRow { budget, since, spent }) in page {
                let ledger = Ledger::new(budget, since, spent, now);
                self.inner().ledgers.insert(BudgetId::from_u128(id), ledger);
                self.any.store(true, std::sync::atomic::Ordering::Release);
            }
        }
        let mut after = None;
        loop {
            let page = SPENT.scan(store, number, after.as_ref(), PAGE).await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = Some(*last);
            let mut inner = self.inner();
            for (_, row) in page {
                for id in row.budgets {
                    let ledger = inner.ledgers.get_mut(&id);
                    if let Some(ledger) = ledger.filter(|ledger| row.at >= ledger.since) {
                        ledger.spent += row.cost;
                    }
                }
            }
        }
    }

    /// Writes a new budget.
    pub(crate) async fn create(&self, node: &Node, budget: Budget) -> Result<(), Error> {
        let _writing = self.writing.lock().await;
        let (since, spent) = (budget.period(node.now()).0, Money::ZERO);
        self.write(node, BudgetRow { budget, since, spent }).await
    }

    /// Changes a budget, with the sum of the last fold; false if there is none.
    pub(crate) async fn change(
        &self,
        node: &Node,
        id: BudgetId,
        change: BudgetChange,
    ) -> Result<bool, Error> {
        let _writing = self.writing.lock().await;
        let row = BUDGETS.get(node.store(), self.environment.number(), id.as_u128()).await?;
        let Some(row) = row else { return Ok(false) };
        let budget = row.budget.clone().with(change);
        self.write(node, BudgetRow { budget, ..row }).await?;
        Ok(true)
    }

    async fn write(&self, node: &Node, row: BudgetRow) -> Result<(), Error> {
        let (number, id) = (self.environment.number(), row.budget.id.as_u128());
        commit(node, BUDGETS.put(number, id, &row, None)).await?;
        self.set(row.budget, node.now());
        Ok(())
    }

    pub(crate) async fn delete(&self, node: &Node, id: BudgetId) -> Result<(), Error> {
        let _writing = self.writing.lock().await;
        let number = self.environment.number();
        commit(node, BUDGETS.delete(node.store(), number, id.as_u128()).await?).await?;
        self.remove(id);
        Ok(())
    }

    /// Adds the rows of costs to the sums of their budgets, and removes them, in one commit each page.
    pub(crate) async fn fold(&self, node: &Node) -> Result<(), Error> {
        let number = self.environment.number();
        loop {
            let _writing = self.writing.lock().await;
            let page = SPENT.scan(node.store(), number, None, PAGE).await?;
            if page.is_empty() {
                return Ok(());
            }
            let mut sums: BTreeMap<BudgetId, Vec<_>> = BTreeMap::new();
            for (_, row) in &page {
                for id in &row.budgets {
                    sums.entry(*id).or_default().push((row.at, row.cost));
                }
            }
            let mut ops: Vec<Op> = page.iter().map(|(key, _)| SPENT.delete(number, key)).collect();
            for (id, costs) in sums {
                let row = BUDGETS.get(node.store(), number, id.as_u128()).await?;
                // A deleted one needs no sum.
                let Some(mut row) = row else { continue };
                let newest = costs.iter().map(|(at, _)| *at).max().unwrap_or(row.since);
                let (since, _) = row.budget.period(newest.max(row.since));
                if since > row.since {
                    (row.since, row.spent) = (since, Money::ZERO);
                }
                for (_, cost) in costs.into_iter().filter(|(at, _)| *at >= row.since) {
                    row.spent += cost;
                }
                ops.extend(BUDGETS.put(number, id.as_u128(), &row, None));
            }
            commit(node, ops).await?;
        }
    }
}

async fn commit(node: &Node, ops: Vec<Op>) -> Result<(), Error> {
    match node.shard(PARTITION).commit_or_refuse(PARTITION, ops).await {
        Outcome::Committed => Ok(()),
        Outcome::NotApplied(error) | Outcome::Unknown(error) => Err(error),
        Outcome::Fenced | Outcome::Conflict(_) => Err(Error::Stopped),
    }
}

/// Looks after periods, parked tasks and rows of costs, for as long as the process lives.
pub(crate) async fn run(node: Arc<Node>) {
    let mut folded = Instant::now();
    loop {
        // What is freed is given on at once; the clock frees the amounts of a new period.
        let _ = tokio::time::timeout(LOOK, node.limits.budget_wake.notified()).await;
        let folds = folded.elapsed() >= FOLD;
        for &environment in &*node.environments() {
            let Some(budgets) = node.limits.budgets(environment) else { continue };
            budgets.give_on(&node).await;
            if folds && let Err(error) = budgets.fold(&node).await {
                tracing::warn!(%error, "the costs of budgets could not be summed up");
            }
        }
        if folds {
            folded = Instant::now();
        }
    }
}

impl Budgets {
    /// Offers the tasks that may fit now to their queues.
    async fn give_on(&self, node: &Node) {
        for (place, budget, worst) in self.unpark(node.now()) {
            match crate::tables::task(node.store(), self.environment, place.1).await {
                Ok(Some(found)) if found.task.state == State::Ready => {
                    effects::of_tasks(node, self.environment, &found.task, Effect::Enqueue);
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "a task that waits for a budget cannot be read");
                    self.inner().park(place, budget, worst);
                    tokio::time::sleep(LOOK).await;
                    self.inner().freed(budget);
                }
            }
        }
    }
}
