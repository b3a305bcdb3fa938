//! Start, recover, drain: the root of the supervision tree.
//!
//! ```text
//!   System ─┬▶ executions, tasks, approvals, deliveries, schedules, batches,
//!           │  submissions   of each shard
//!           ├▶ accounts, catalog
//!           ├▶ queues ─▶ Queue
//!           └▶ workers ─▶ Worker
//!
//!   beside it, watched by System: events, housekeeping, the timers of each shard, retention,
//!   the loading of the track record, bulk jobs, budgets
//! ```
//!
//! An execution, a task, an approval, a delivery, a queue or a worker that breaks is started again by its supervisor.
//! Should one of the actors named here break, or one of the plain tasks of tokio beside them panic, the process ends:
//! recovery from the disk is the one path that is always tested.

use std::sync::Arc;
use std::time::Duration;

use callboard_store::Store;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::task::{JoinHandle, JoinSet};

use crate::handle::Handle;
use crate::items::accounts::{self, Accounts};
use crate::items::approval::ApprovalItem;
use crate::items::catalog::Publisher;
use crate::items::delivery::DeliveryItem;
use crate::items::execution::ExecutionItem;
use crate::items::queue::QueueItem;
use crate::items::submission::Submissions;
use crate::items::task::TaskItem;
use crate::items::worker::WorkerItem;
use crate::jobs::batch::{self, BatchItem};
use crate::jobs::schedule::ScheduleItem;
use crate::jobs::{bulk, moves, purge};
use crate::kernel::item::{Item, ItemKind};
use crate::kernel::planted::{Fault, is_planted};
use crate::kernel::ports::Ports;
use crate::kernel::supervisor::{DirectoryOf, Supervisor};
use crate::node::{Node, Settings};
use crate::upkeep::{budgets, files, holdings, housekeeping, retention, stored};

/// Called once if an actor broke that all others need: the process is to end.
pub type OnBreak = Box<dyn FnOnce(String) + Send + Sync>;

/// The running system.
#[derive(Debug)]
pub struct System {
    node: Arc<Node>,
    root: ActorRef<TaskPanicked>,
    ended: JoinHandle<()>,
    /// The tasks beside the tree; held to end them with it.
    followers: Vec<JoinHandle<()>>,
}

/// The reason why the system could not be started.
#[derive(Debug, thiserror::Error)]
#[error("the service could not be started: {0}")]
pub struct NotStarted(String);

impl System {
    /// Starts everything and brings back all unfinished work. All work that was acknowledged before is
    /// on its way again once this returns.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn start(
        store: Arc<dyn Store>,
        settings: Settings,
        ports: Ports,
        on_break: OnBreak,
    ) -> Result<Self, NotStarted> {
        let node = Arc::new(Node::new(&store, settings, ports));
        let (root, ended) = Actor::spawn(None, Root, (Arc::clone(&node), on_break))
            .await
            .map_err(|error| NotStarted(error.to_string()))?;
        let mut system = Self { node, root, ended, followers: Vec::new() };
        system.spawn_background(Arc::clone(&system.node.observers.events).follow());
        system.spawn_background(housekeeping::run(Arc::clone(&system.node)));
        for shard in 0..system.node.actors.shards.len() {
            let node = Arc::clone(&system.node);
            system.spawn_background(async move { node.actors.shards[shard].wake_in_time().await });
        }
        // Nothing acts on a part of the state: no actor starts, and no timer fires, before all of it is there.
        system.node.close();
        if is_planted(Fault::ActsWhileRecovering) {
            system.node.open();
        }
        let unread = |error: callboard_store::Error| NotStarted(error.to_string());
        let mut count = system.node.recover().await.map_err(unread)?;
        for (project, weight) in &system.node.settings.weights {
            if let Some(slot) = system.node.state.accounts.slot_of(*project) {
                system.node.kernel.environments.set_weight(slot, *weight);
            }
        }
        let environments = system.node.environments();
        for &environment in &*environments {
            count += batch::recover(&system.node, environment).await.map_err(unread)?;
        }
        tracing::info!(unfinished = count, "recovered");
        let loaded = system.node.state.bulks.load(&system.node, &environments).await;
        loaded.map_err(|error| NotStarted(error.to_string()))?;
        let loaded = system.node.load_chat_batches(&environments).await;
        loaded.map_err(|error| NotStarted(error.to_string()))?;
        system.node.open();
        system.spawn_background(bulk::run(Arc::clone(&system.node)));
        system.spawn_background(budgets::run(Arc::clone(&system.node)));
        // The load comes after recovery, which reports the open approvals to it.
        let node = Arc::clone(&system.node);
        system.spawn_background(async move {
            node.observers.review_stats.load(node.store(), &node.environments()).await;
        });
        system.spawn_background(retention::run(Arc::clone(&system.node)));
        system.spawn_background(holdings::run(Arc::clone(&system.node)));
        system.spawn_background(stored::run(Arc::clone(&system.node)));
        system.spawn_background(files::run(Arc::clone(&system.node)));
        system.spawn_background(purge::run(Arc::clone(&system.node)));
        system.spawn_background(moves::run(Arc::clone(&system.node)));
        system.spawn_background(accounts::cancel_left_work(Arc::clone(&system.node)));
        Ok(system)
    }

    fn spawn_background(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        let root = self.root.clone();
        // The root is gone only when all of it stops.
        let report = move |why| drop(root.send_message(TaskPanicked(why)));
        self.followers.push(tokio::spawn(watched(task, report)));
    }

    /// The door for the edge.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle::new(Arc::clone(&self.node))
    }

    /// Ready once a commit was fenced, or its outcome cannot be known: another node may own the items
    /// that this system holds in memory, and the system is to be stopped.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut lost = self.node.kernel.lost.subscribe();
        async move {
            // The sender lives as long as the node, which the system holds.
            let _ = lost.wait_for(|lost| *lost).await;
        }
    }

    /// Gives out no more tasks and sends workers away, which keep their running tasks.
    pub fn drain(&self) {
        self.node.drain();
        self.node.close_workers();
    }

    /// Stores the last uses of keys, which are stored once a minute otherwise. Without it, the next start shows
    /// times up to a minute earlier.
    pub async fn store_uses(&self) {
        if let Err(error) = self.handle().store_uses().await {
            tracing::warn!(%error, "the last uses of keys are not stored");
        }
    }

    /// Stops all actors. No acknowledged work depends on them.
    pub async fn stop(self) {
        self.root.stop(None);
        let _ = self.ended.await;
        self.followers.iter().for_each(JoinHandle::abort);
    }
}

/// Drives `task`, and reports a panic. Ends it when dropped.
async fn watched(task: impl Future<Output = ()> + Send + 'static, report: impl FnOnce(String)) {
    let mut alone = JoinSet::new();
    alone.spawn(task);
    if let Some(Err(error)) = alone.join_next().await
        && error.is_panic()
    {
        report(error.to_string());
    }
}

/// A background task panicked.
#[derive(Debug)]
struct TaskPanicked(String);

/// The actor at the root.
struct Root;

struct State {
    on_break: Option<OnBreak>,
}

impl State {
    fn broke(&mut self, why: String) {
        if let Some(on_break) = self.on_break.take() {
            on_break(why);
        }
    }
}

impl Actor for Root {
    type Msg = TaskPanicked;
    type State = State;
    type Arguments = (Arc<Node>, OnBreak);

    async fn pre_start(
        &self,
        myself: ActorRef<TaskPanicked>,
        (node, on_break): Self::Arguments,
    ) -> Result<State, ActorProcessingErr> {
        let root = myself.get_cell();
        for shard in &node.actors.shards {
            let (submissions, _) =
                Actor::spawn_linked(None, Submissions(Arc::clone(&node)), (), root.clone()).await?;
            supervise::<TaskItem>(&node, &shard.tasks, &root).await?;
            supervise::<ExecutionItem>(&node, &shard.executions, &root).await?;
            supervise::<ApprovalItem>(&node, &shard.approvals, &root).await?;
            supervise::<DeliveryItem>(&node, &shard.deliveries, &root).await?;
            supervise::<ScheduleItem>(&node, &shard.schedules, &root).await?;
            supervise::<BatchItem>(&node, &shard.batches, &root).await?;
            let first = shard.submissions.set(submissions).is_ok();
            assert!(first, "a shard is started once");
        }
        let (accounts, _) =
            Actor::spawn_linked(None, Accounts(Arc::clone(&node)), (), root.clone()).await?;
        let first = node.actors.account_writer.set(accounts).is_ok();
        assert!(first, "the system is started once");
        let (publisher, _) =
            Actor::spawn_linked(None, Publisher(Arc::clone(&node)), (), root.clone()).await?;
        let first = node.actors.publisher.set(publisher).is_ok();
        assert!(first, "the system is started once");
        supervise::<QueueItem>(&node, &node.actors.queues, &root).await?;
        supervise::<WorkerItem>(&node, &node.actors.workers.directory, &root).await?;
        Ok(State { on_break: Some(on_break) })
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<TaskPanicked>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(_, why) = event {
            state.broke(why.to_string());
        }
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<TaskPanicked>,
        TaskPanicked(why): TaskPanicked,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        state.broke(why);
        Ok(())
    }

    async fn post_stop(
        &self,
        myself: ActorRef<TaskPanicked>,
        _: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        myself.stop_children(None);
        myself.drain_children_and_wait(Some(Duration::from_secs(5))).await;
        Ok(())
    }
}

/// Starts the supervisor of one kind of item.
async fn supervise<I: Item<Shared = Node>>(
    node: &Arc<Node>,
    directory: &Arc<DirectoryOf<ItemKind<I>>>,
    root: &ActorCell,
) -> Result<(), ActorProcessingErr> {
    let arguments = (ItemKind::<I>::new(Arc::clone(node)), Arc::clone(directory));
    Actor::spawn_linked(None, Supervisor::default(), arguments, root.clone()).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_panic_beside_the_tree_is_told_and_an_end_is_not() {
        let (report, mut reports) = mpsc::unbounded_channel();
        watched(async {}, |why| report.send(why).expect("somebody listens")).await;
        assert!(reports.is_empty());
        watched(async { panic!("it broke") }, |why| report.send(why).expect("somebody listens"))
            .await;
        assert!(reports.recv().await.is_some_and(|why| why.contains("it broke")));
    }

    #[tokio::test]
    async fn what_is_beside_the_tree_ends_with_its_watcher() {
        let (held, mut ended) = mpsc::channel::<()>(1);
        let task = async move {
            let _held = held;
            std::future::pending::<()>().await;
        };
        let watcher = tokio::spawn(watched(task, |why| panic!("{why}")));
        tokio::task::yield_now().await;
        watcher.abort();
        assert_eq!(ended.recv().await, None);
    }
}
