//! Start, recover, drain: the root of the supervision tree.
//!
//! ```text
//!   System ─┬▶ executions, tasks, approvals, deliveries, timers, intake   of each shard
//!           ├▶ accounts, catalog
//!           ├▶ queues ─▶ Queue
//!           └▶ workers ─▶ Worker
//!
//!   beside it, watched by nobody: events, housekeeping, retention, the loading of the track record
//! ```
//!
//! An execution, a task, an approval, a delivery, a queue or a worker that breaks is started again by
//! its supervisor. Should one of the actors named here break, the process ends: recovery from the disk
//! is the one path that is always tested.
//!
//! What stands beside the tree are plain tasks of tokio. They log the errors that they meet. Should
//! one panic, that is logged, and it is not started again before the process is. Then streams of
//! events tell nothing new, though all is stored; or nothing is tidied up; or nothing old is removed;
//! or statistics and calibration wait without end. Deliberately absent: sockets and signals, which are
//! the edge's; and anybody who watches these tasks.

use std::sync::Arc;
use std::time::Duration;

use callboard_store::Store;
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::task::JoinHandle;

use crate::accounts::Accounts;
use crate::approval::ApprovalKind;
use crate::catalog::Publisher;
use crate::delivery::DeliveryKind;
use crate::execution::ExecutionKind;
use crate::handle::Handle;
use crate::housekeeping;
use crate::intake::Intake;
use crate::node::{Node, Settings};
use crate::ports::Ports;
use crate::queue::QueueKind;
use crate::retention;
use crate::supervisor::Supervisor;
use crate::task::TaskKind;
use crate::timers::Timers;
use crate::worker::WorkerKind;

/// Called once if an actor broke that all others need: the process is to end.
pub type OnBreak = Box<dyn FnOnce(String) + Send + Sync>;

/// The running system.
#[derive(Debug)]
pub struct System {
    node: Arc<Node>,
    root: ActorRef<()>,
    ended: JoinHandle<()>,
    /// The tasks beside the tree; held to end them with it.
    followers: Vec<JoinHandle<()>>,
}

/// Why the system could not be started.
#[derive(Debug, thiserror::Error)]
#[error("the service could not be started: {0}")]
pub struct NotStarted(String);

impl System {
    /// Starts everything and brings back what was unfinished. When this returns, everything that was
    /// acknowledged before is on its way again.
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
        let follower = tokio::spawn(Arc::clone(&node.events).follow(store.tail()));
        let housekeeper = tokio::spawn(housekeeping::run(Arc::clone(&node)));
        let (root, ended) = Actor::spawn(None, Root, (Arc::clone(&node), on_break))
            .await
            .map_err(|error| NotStarted(error.to_string()))?;
        let mut system = Self { node, root, ended, followers: vec![follower, housekeeper] };
        let count = system.node.recover().await.map_err(|error| NotStarted(error.to_string()))?;
        tracing::info!(unfinished = count, "recovered");
        // After recovery, which tells it of the open approvals.
        let node = Arc::clone(&system.node);
        let loader = tokio::spawn(async move { node.track.load(node.store()).await });
        system.followers.push(loader);
        system.followers.push(tokio::spawn(retention::run(Arc::clone(&system.node))));
        Ok(system)
    }

    /// The door for the edge.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle::new(Arc::clone(&self.node))
    }

    /// From now on no task is given out, and workers are sent away; what runs goes on with them.
    pub fn drain(&self) {
        self.node.drain();
        self.node.close_workers();
    }

    /// Stops all actors. Nothing that was acknowledged depends on them.
    pub async fn stop(self) {
        self.root.stop(None);
        let _ = self.ended.await;
        self.followers.iter().for_each(JoinHandle::abort);
    }
}

/// The actor at the root.
struct Root;

struct State {
    on_break: Option<OnBreak>,
}

impl Actor for Root {
    type Msg = ();
    type State = State;
    type Arguments = (Arc<Node>, OnBreak);

    async fn pre_start(
        &self,
        myself: ActorRef<()>,
        (node, on_break): Self::Arguments,
    ) -> Result<State, ActorProcessingErr> {
        let root = myself.get_cell();
        for shard in &node.shards {
            let (tasks, executions) = (Arc::clone(&shard.tasks), Arc::clone(&shard.executions));
            let (approvals, deliveries) =
                (Arc::clone(&shard.approvals), Arc::clone(&shard.deliveries));
            let clock = Arc::clone(&node.ports.clock);
            let arguments = (clock, tasks, executions, approvals, deliveries);
            let (timers, _) = Actor::spawn_linked(None, Timers, arguments, root.clone()).await?;
            let (intake, _) =
                Actor::spawn_linked(None, Intake(Arc::clone(&node)), (), root.clone()).await?;
            let arguments = (TaskKind(Arc::clone(&node)), Arc::clone(&shard.tasks));
            Actor::spawn_linked(None, Supervisor::default(), arguments, root.clone()).await?;
            let arguments = (ExecutionKind(Arc::clone(&node)), Arc::clone(&shard.executions));
            Actor::spawn_linked(None, Supervisor::default(), arguments, root.clone()).await?;
            let arguments = (ApprovalKind(Arc::clone(&node)), Arc::clone(&shard.approvals));
            Actor::spawn_linked(None, Supervisor::default(), arguments, root.clone()).await?;
            let arguments = (DeliveryKind(Arc::clone(&node)), Arc::clone(&shard.deliveries));
            Actor::spawn_linked(None, Supervisor::default(), arguments, root.clone()).await?;
            let first = shard.timers.set(timers).is_ok() && shard.intake.set(intake).is_ok();
            debug_assert!(first, "a shard is started once");
        }
        let (accounts, _) =
            Actor::spawn_linked(None, Accounts(Arc::clone(&node)), (), root.clone()).await?;
        let first = node.account_writer.set(accounts).is_ok();
        debug_assert!(first, "the system is started once");
        let (publisher, _) =
            Actor::spawn_linked(None, Publisher(Arc::clone(&node)), (), root.clone()).await?;
        let first = node.publisher.set(publisher).is_ok();
        debug_assert!(first, "the system is started once");
        let arguments = (QueueKind(Arc::clone(&node)), Arc::clone(&node.queues));
        Actor::spawn_linked(None, Supervisor::default(), arguments, root.clone()).await?;
        let arguments = (WorkerKind(Arc::clone(&node)), Arc::clone(&node.workers.directory));
        Actor::spawn_linked(None, Supervisor::default(), arguments, root).await?;
        Ok(State { on_break: Some(on_break) })
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<()>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(_, why) = event
            && let Some(on_break) = state.on_break.take()
        {
            on_break(why.to_string());
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        myself: ActorRef<()>,
        _: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        myself.stop_children(None);
        myself.drain_children_and_wait(Some(Duration::from_secs(5))).await;
        Ok(())
    }
}
