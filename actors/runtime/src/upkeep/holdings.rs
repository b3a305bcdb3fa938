//! The measurement of stored bytes, in the background, at the start and every hour, if there is a cap.

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::id::{Environment, ExecutionId, Slot, TaskId};
use callboard_store::Error as StoreError;
use foldhash::HashMap;

use crate::node::{Node, PAGE};
use crate::tables::{
    self, ENDED_EXECUTIONS, ENDED_TASKS, Ended, FILES, LIVE_EXECUTIONS, LIVE_TASKS, PLANS,
    SCHEDULES, TEMPLATES, executions, items,
};

/// The time between two measurements.
const EVERY: Duration = Duration::from_hours(1);

/// Measures periodically while there is a cap, for as long as the process lives.
pub(crate) async fn run(node: Arc<Node>) {
    loop {
        while node.limits.holdings.caps().stored_bytes.is_none() {
            node.limits.holdings.capped.notified().await;
        }
        for project in node.environments().iter().filter(|one| one.is_live()) {
            node.limits.holdings.measurement_begins(*project);
            match measure(&node, project.slot()).await {
                Ok(found) => node.limits.holdings.measured(*project, found),
                Err(error) => tracing::warn!(%error, "could not measure what accounts store"),
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

async fn measure(node: &Node, project: Slot) -> Result<HashMap<Box<str>, u64>, StoreError> {
    let mut measuring = Measuring { node, found: HashMap::default() };
    for environment in project.environments() {
        measuring.tasks(environment).await?;
        measuring.executions(environment).await?;
        measuring.definitions(environment).await?;
        measuring.files(environment).await?;
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

    /// A file counts with all its bytes, also if another has the same.
    async fn files(&mut self, environment: Environment) -> Result<(), StoreError> {
        let (store, number) = (self.node.store(), environment.number());
        let mut after = None;
        loop {
            let page = FILES.scan(store, number, after.as_ref(), PAGE).await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = Some(*last);
            for (_, file) in page {
                self.count(&file.account, file.bytes);
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
        self.count(account, bytes);
        Ok(())
    }

    fn count(&mut self, account: &str, bytes: u64) {
        match self.found.get_mut(account) {
            Some(sum) => *sum += bytes,
            None => drop(self.found.insert(account.into(), bytes)),
        }
    }
}
