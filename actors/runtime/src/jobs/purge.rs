//! Ends the work of deleted projects, then removes their rows; and removes those of projects that have left this cell.
//!
//! ```text
//!   deleted ─▶ all is cancelled ─▶ rounds, until one finds nothing ─▶ no actor of it has run in this process ─▶ forgotten
//!      └─ a later process starts no actor of it ──┘                      └────── else, after the next start ───┘
//! ```
//!
//! An actor that was awake may write a row behind a round, so the place of a project that this process has served is
//! free only once a later process has found it empty: that one starts no actor of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use callboard_domain::Error as Refusal;
use callboard_domain::chat_batch::Event;
use callboard_domain::id::{Environment, ScheduleId, Slot, TemplateBatchId};
use callboard_domain::moving::{Part, Stage};
use callboard_domain::project::Project;
use callboard_store::Error;

use crate::handle::Handle;
use crate::items::accounts::cancel_all;
use crate::node::{Node, PAGE};
use crate::tables::{BATCHES, LIVE_EXECUTIONS, LIVE_TASKS, SCHEDULES};

/// The schedules that are read at a time.
const LOT: usize = 512;
/// The interval between two rounds over the same project.
const ROUND: Duration = Duration::from_mins(1);
/// The interval between two looks at work that is being cancelled.
const ENDING: Duration = Duration::from_secs(1);
/// The rounds in succession that find nothing, after which there is no other before the next start.
const QUIET: u32 = 2;

/// Removes the rows of each deleted project, for as long as the process lives.
pub(crate) async fn run(node: Arc<Node>) {
    let mut purges: BTreeMap<Slot, Purge> = BTreeMap::new();
    loop {
        for (slot, project) in node.state.accounts.leaving_projects() {
            let purge = purges.entry(slot).or_default();
            if purge.quiet >= QUIET {
                continue;
            }
            if let Err(error) = purge.round(&node, slot, &project).await {
                tracing::warn!(%error, project = %project.id, "a deleted project still has rows");
            }
            if purge.is_over {
                purges.remove(&slot);
            }
        }
        for part in node.state.accounts.parts() {
            let purge = purges.entry(part.slot).or_default();
            if part.stage.is_open() || purge.quiet >= QUIET {
                continue;
            }
            if let Err(error) = purge.clear(&node, &part).await {
                tracing::warn!(%error, project = %part.project, "a moved project still has rows");
            }
            if purge.is_over {
                purges.remove(&part.slot);
            }
        }
        let open = purges.values().filter(|purge| purge.quiet < QUIET);
        let pause = open.map(|purge| if purge.is_ending { ENDING } else { ROUND }).min();
        tokio::select! {
            () = node.state.purging.notified() => {}
            () = tokio::time::sleep(pause.unwrap_or(ROUND)), if pause.is_some() => {}
        }
    }
}

/// The removal of one project's rows.
#[derive(Debug, Default)]
struct Purge {
    /// The rows that were removed.
    rows: u64,
    /// The rounds in succession that found nothing.
    quiet: u32,
    /// True while work that was cancelled has not ended.
    is_ending: bool,
    /// True once the project is forgotten.
    is_over: bool,
    /// True once a project that left counts for no account.
    is_uncounted: bool,
}

impl Purge {
    async fn round(
        &mut self,
        node: &Arc<Node>,
        slot: Slot,
        project: &Arc<Project>,
    ) -> Result<(), Failed> {
        let in_use = node.environments();
        let is_served = |environment: &Environment| in_use.contains(environment);
        let environments = slot.environments();
        self.is_ending = false;
        for environment in environments.into_iter().filter(is_served) {
            stop_schedules(node, environment).await?;
            self.is_ending |= !end_work(node, environment).await?;
        }
        if self.is_ending {
            return Ok(());
        }
        let mut removed = 0;
        for environment in environments {
            removed += node.remove_rows(environment).await?;
        }
        self.rows += removed;
        self.quiet = if removed > 0 { 0 } else { self.quiet + 1 };
        let is_free = !environments.iter().any(is_served);
        if is_free || self.quiet >= QUIET {
            let handle = Handle::owed(Arc::clone(node));
            handle.purged_project(Arc::clone(project), self.rows, is_free).await?;
            self.is_over = is_free;
        }
        Ok(())
    }

    /// Removes the rows of a project that has left, or of one that was to come. The place is free at once if no actor of
    /// it has run in this process, and no copy can be on its way.
    async fn clear(&mut self, node: &Arc<Node>, part: &Arc<Part>) -> Result<(), Failed> {
        let was_served = node.kernel.standstill.is_gone(part.slot);
        let environments = part.slot.environments();
        if was_served && !self.is_uncounted {
            for environment in environments {
                uncount(node, environment).await?;
            }
            self.is_uncounted = true;
        }
        let mut removed = 0;
        for environment in environments {
            removed += node.remove_rows(environment).await?;
        }
        self.quiet = if removed > 0 { 0 } else { self.quiet + 1 };
        let is_still = part.stage == Stage::Left || self.quiet >= QUIET;
        if is_still && !was_served {
            Handle::owed(Arc::clone(node)).cleared(Arc::clone(part)).await?;
            self.is_over = true;
        }
        Ok(())
    }
}

/// Stops the actors of schedules, which write by themselves.
async fn stop_schedules(node: &Arc<Node>, environment: Environment) -> Result<(), Failed> {
    loop {
        let page = SCHEDULES.scan(node.store(), environment.number(), None, LOT).await?;
        if page.is_empty() {
            return Ok(());
        }
        for (id, _) in page {
            let handle = Handle::owed(Arc::clone(node));
            handle.delete_schedule(environment, ScheduleId::from_u128(id)).await?;
        }
    }
}

/// Cancels what has not ended; true if nothing was left.
async fn end_work(node: &Arc<Node>, environment: Environment) -> Result<bool, Failed> {
    let handle = Handle::owed(Arc::clone(node));
    let (store, number) = (node.store(), environment.number());
    let mut is_over = true;
    let mut after = None;
    loop {
        let page = BATCHES.scan(store, number, after.as_ref(), PAGE).await?;
        let Some((last, _)) = page.last() else { break };
        after = Some(*last);
        for (id, _) in page.iter().filter(|(_, batch)| !batch.is_over()) {
            is_over = false;
            unless_over(handle.cancel_batch(environment, TemplateBatchId::from_u128(*id)).await)?;
        }
    }
    let chats = node.state.chat_batches.all().into_iter();
    for (_, id) in chats.filter(|(of, _)| *of == environment) {
        is_over = false;
        unless_over(handle.change_chat_batch(environment, id, Event::Cancel(None)).await)?;
    }
    let has_tasks = !LIVE_TASKS.scan(store, number, None, 1).await?.is_empty();
    if has_tasks || !LIVE_EXECUTIONS.scan(store, number, None, 1).await?.is_empty() {
        is_over = false;
        cancel_all(node, environment, |_| true).await?;
    }
    Ok(is_over)
}

/// Passes over the refusal of what has ended meanwhile.
fn unless_over<T>(cancelled: Result<T, Refusal>) -> Result<(), Refusal> {
    match cancelled {
        Ok(_) | Err(Refusal::InvalidState(_) | Refusal::NotFound { .. }) => Ok(()),
        Err(refused) => Err(refused),
    }
}

/// Takes what a project that has left was counted with from its accounts.
async fn uncount(node: &Node, environment: Environment) -> Result<(), Failed> {
    let holdings = &node.limits.holdings;
    node.each_unfinished(environment, |task| {
        holdings.give_back(environment, &task.spec.account, 1);
    })
    .await?;
    let mut after = None;
    loop {
        let number = environment.number();
        let page = SCHEDULES.scan(node.store(), number, after.as_ref(), PAGE).await?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = Some(*last);
        for (_, row) in page {
            holdings.lost_schedule(environment, &row.schedule.account);
        }
    }
}

/// An obstacle to a round.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Unread(#[from] Error),
    #[error(transparent)]
    Refused(#[from] Refusal),
}
