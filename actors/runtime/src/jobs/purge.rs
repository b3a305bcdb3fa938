//! Removes the rows of deleted projects.
//!
//! ```text
//!   deleted ── rounds, until one finds nothing ──▶ empty ── no actor of it has run in this process ──▶ forgotten
//!                                                    └───── else, after the next start ────────────────┘
//! ```
//!
//! An actor that was awake may write a row behind a round, so the place of a project that this process has served is
//! free only once a later process has found it empty: that one starts no actor of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use callboard_domain::id::{Environment, ScheduleId, Slot};
use callboard_domain::project::Project;
use callboard_store::{Error, Key, Op};
use tokio::time::Instant;

use crate::handle::Handle;
use crate::node::Node;
use crate::node::files::durable;
use crate::tables::{SCHEDULES, event_log};

/// The rows that one commit removes.
const LOT: usize = 512;
/// The interval between two rounds over the same project.
const ROUND: Duration = Duration::from_mins(1);
/// The rounds in succession that find nothing, after which there is no other before the next start.
const QUIET: u32 = 2;
/// More bytes than any key has.
const LONGEST: [u8; 128] = [0xff; 128];

/// Removes the rows of each deleted project, for as long as the process lives.
pub(crate) async fn run(node: Arc<Node>) {
    let mut purges: BTreeMap<Slot, Purge> = BTreeMap::new();
    loop {
        for project in node.state.accounts.leaving_projects() {
            let purge = purges.entry(project.slot).or_default();
            if purge.quiet >= QUIET {
                continue;
            }
            if let Err(error) = purge.round(&node, &project).await {
                tracing::warn!(%error, project = %project.id, "a deleted project still has rows");
            }
            if purge.is_over {
                purges.remove(&project.slot);
            }
        }
        let goes_on = purges.values().any(|purge| purge.quiet < QUIET);
        tokio::select! {
            () = node.state.purging.notified() => {}
            () = tokio::time::sleep(ROUND), if goes_on => {}
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
    /// True once the project is forgotten.
    is_over: bool,
}

impl Purge {
    async fn round(&mut self, node: &Arc<Node>, project: &Arc<Project>) -> Result<(), Failed> {
        let in_use = node.environments();
        let is_served = |environment: &Environment| in_use.contains(environment);
        let mut removed = 0;
        for environment in project.slot.environments() {
            if is_served(&environment) {
                stop_schedules(node, environment).await?;
            }
            removed += remove_rows(node, environment).await?;
        }
        self.rows += removed;
        self.quiet = if removed > 0 { 0 } else { self.quiet + 1 };
        let is_free = !project.slot.environments().iter().any(is_served);
        if is_free || self.quiet >= QUIET {
            let handle = Handle::owed(Arc::clone(node));
            handle.purged_project(Arc::clone(project), self.rows, is_free).await?;
            self.is_over = is_free;
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

/// Removes all rows and records of an environment; returns the number of rows.
async fn remove_rows(node: &Node, environment: Environment) -> Result<u64, Failed> {
    let (store, number) = (node.store(), environment.number());
    let mut removed = 0;
    for table in 0..=u8::MAX {
        let (from, to) = (Key::new(table, number, &[]), Key::new(table, number, &LONGEST));
        loop {
            let began = Instant::now();
            let rows = store.scan(from.clone(), to.clone(), LOT).await?;
            if rows.is_empty() {
                break;
            }
            removed += rows.len() as u64;
            let ops = rows.into_iter().map(|(key, _)| Op::Delete { key }).collect();
            durable(node.shard(0).commit(0, ops)).await?;
            // Other writers have half of the time.
            tokio::time::sleep(began.elapsed()).await;
        }
    }
    let log = event_log(environment);
    let (oldest, newest) = store.log_bounds(log).await?;
    if oldest <= newest && newest > 0 {
        durable(node.shard(0).commit(0, vec![Op::Trim { log, before: newest + 1 }])).await?;
    }
    Ok(removed)
}

/// An obstacle to a round.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Unread(#[from] Error),
    #[error(transparent)]
    Refused(#[from] callboard_domain::Error),
}
