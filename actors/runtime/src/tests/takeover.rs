//! Several nodes in one process over one memory store: one is active, the others take over from it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use callboard_domain::Error;
use callboard_store::ownership::{NodeId, Ownership};
use callboard_store::testing::memory::Cluster;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::*;
use crate::membership::{Membership, Part, Term, take_part};
use crate::tables::{EVENTS, event_log};

const TERM: Duration = Duration::from_secs(5);

/// The active node's door, for clients and workers.
type Door = watch::Sender<Option<(u128, Handle)>>;

struct Server {
    number: u128,
    store: Arc<MemoryStore>,
    door: Arc<Door>,
    clock: (Instant, Arc<AtomicU64>),
}

impl Part for Server {
    type Running = System;
    type Failed = crate::system::NotStarted;

    async fn begin(&mut self, _: Term) -> Result<System, Self::Failed> {
        let (started, wall) = self.clock.clone();
        let ports =
            Ports { clock: Arc::new(TestClock { started, wall }), ..Ports::of_this_machine() };
        let on_break = Box::new(|why| tracing::warn!(why, "a system broke"));
        let system = System::start(self.store.clone(), settings(), ports, on_break).await?;
        self.door.send_replace(Some((self.number, system.handle())));
        Ok(system)
    }

    async fn lost(&self, running: &System) {
        running.lost().await;
    }

    async fn end(&mut self, running: System) {
        running.stop().await;
    }

    fn stand_by(&mut self, _: Option<&str>) {
        let mine = |open: &Option<(u128, Handle)>| {
            open.as_ref().is_some_and(|(number, _)| *number == self.number)
        };
        self.door.send_if_modified(|open| {
            let closes = mine(open);
            if closes {
                *open = None;
            }
            closes
        });
    }
}

struct ServerNode {
    store: Arc<MemoryStore>,
    running: JoinHandle<()>,
}

/// The nodes, a client and a worker.
struct Nodes {
    cluster: Cluster,
    door: Arc<Door>,
    clock: (Instant, Arc<AtomicU64>),
    running: BTreeMap<u128, ServerNode>,
    /// The acknowledgements: submissions by key, and completions.
    submitted: Arc<Mutex<BTreeMap<String, TaskId>>>,
    completed: Arc<Mutex<Vec<TaskId>>>,
}

impl Nodes {
    async fn new(count: u128) -> Self {
        let clock = (Instant::now(), Arc::new(AtomicU64::new(1_800_000_000_000)));
        let cluster = Cluster::new(TERM);
        let (running, door) = (BTreeMap::new(), Arc::new(watch::Sender::new(None)));
        let (submitted, completed) = (Arc::default(), Arc::default());
        let mut all = Self { cluster, door, clock, running, submitted, completed };
        for number in 1..=count {
            all.start(number).await;
        }
        all
    }

    async fn start(&mut self, number: u128) {
        let store = Arc::new(self.cluster.node(NodeId(number)));
        let ownership: Arc<dyn Ownership> = store.clone();
        let membership = Membership::join(ownership, &format!("http://node-{number}")).await;
        let membership = membership.expect("it joins");
        let (door, clock) = (Arc::clone(&self.door), self.clock.clone());
        let mut server = Server { number, store: Arc::clone(&store), door, clock };
        let running = tokio::spawn(async move {
            let ended = take_part(membership, &mut server, std::future::pending()).await;
            tracing::debug!(?ended, "a node has no part any more");
        });
        self.running.insert(number, ServerNode { store, running });
    }

    async fn active(&self) -> u128 {
        let mut open = self.door.subscribe();
        let open = open.wait_for(Option::is_some).await.expect("the door stays");
        open.as_ref().map(|(number, _)| *number).expect("it is open")
    }

    /// Cuts a node off for good, as a kill does.
    fn kill(&mut self, number: u128) {
        let node = self.running.remove(&number).expect("it runs");
        node.store.cut_off();
        node.running.abort();
        if self.door.borrow().as_ref().is_some_and(|(open, _)| *open == number) {
            self.door.send_replace(None);
        }
    }

    /// Submits one task after the other, each under its key until it is acknowledged.
    fn client(&self, name: &'static str) -> JoinHandle<()> {
        let (door, submitted) = (self.door.subscribe(), Arc::clone(&self.submitted));
        tokio::spawn(async move {
            for round in 0.. {
                let key = format!("{name}-{round}");
                let id = submit_until_acknowledged(door.clone(), &key).await;
                submitted.lock().expect("no panic").insert(key, id);
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        })
    }

    /// Completes every task, on the active node.
    fn worker(&self) -> JoinHandle<()> {
        let (mut door, completed) = (self.door.subscribe(), Arc::clone(&self.completed));
        tokio::spawn(async move {
            loop {
                let open = door.wait_for(Option::is_some).await.expect("the door stays").clone();
                let Some((_, handle)) = open else { continue };
                let working = work(&handle, &completed);
                tokio::select! {
                    () = working => tokio::time::sleep(Duration::from_millis(50)).await,
                    changed = door.changed() => changed.expect("the door stays"),
                }
            }
        })
    }

    /// Waits until every acknowledged task has ended, and compares the event log with what clients and
    /// workers heard: nothing is lost, and nothing happened twice.
    async fn check(&self) -> usize {
        let submitted = self.submitted.lock().expect("no panic").clone();
        let number = self.active().await;
        let (_, handle) = self.door.borrow().clone().expect("it is open");
        for id in submitted.values() {
            loop {
                let task = handle.task(Environment::LIVE, *id).await.expect("it is there").task;
                if task.status() == Status::Completed {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        let store = &*self.running[&number].store;
        let log = store.read_log(event_log(Environment::LIVE), 0, usize::MAX).await;
        let mut ends = BTreeMap::<TaskId, usize>::new();
        let mut begun = BTreeMap::<TaskId, usize>::new();
        for record in log.expect("the store answers") {
            let row = EVENTS.read(&record).expect("an event");
            for event in row.whole(store, Environment::LIVE).await.expect("the store answers") {
                let crate::tables::Subject::Task(task) = &event.subject else { continue };
                let counted = match &*event.event {
                    "task.completed" => &mut ends,
                    "task.created" => &mut begun,
                    _ => continue,
                };
                *counted.entry(task.spec.id).or_default() += 1;
            }
        }
        assert!(ends.values().all(|count| *count == 1), "a completion was applied twice");
        assert!(begun.values().all(|count| *count == 1), "a task was made twice");
        for id in submitted.values() {
            assert!(ends.contains_key(id), "{id} is lost");
        }
        for id in self.completed.lock().expect("no panic").iter() {
            assert!(ends.contains_key(id), "the completion of {id} is lost");
        }
        submitted.len()
    }
}

async fn submit_until_acknowledged(
    mut door: watch::Receiver<Option<(u128, Handle)>>,
    key: &str,
) -> TaskId {
    loop {
        let open = door.wait_for(Option::is_some).await.expect("the door stays").clone();
        let Some((_, handle)) = open else { continue };
        let owner = owner();
        let submitting = handle.submit(&owner, vec![request()], false, Some(key));
        match tokio::time::timeout(Duration::from_secs(3), submitting).await {
            Ok(Ok(made)) => return made.made.tasks()[0].spec.id,
            Ok(Err(Error::Unavailable(_) | Error::Internal | Error::IdempotencyKeyInUse))
            | Err(_) => {}
            Ok(Err(error)) => panic!("{error}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Works on one node until its connection ends.
async fn work(handle: &Handle, completed: &Mutex<Vec<TaskId>>) {
    let profile = Profile {
        name: "w".into(),
        version: "0".into(),
        queues: vec!["default".into()],
        models: vec!["*".into()],
        functions: [].into(),
        concurrency: 4,
    };
    let (outgoing, commands) = mpsc::unbounded_channel();
    let Ok((link, leases)) = handle.connect_worker(&owner(), profile, None, outgoing).await else {
        return;
    };
    let mut worker = Worker { link, commands, kept: leases.renewed, lost: leases.lost };
    let mut given = BTreeMap::new();
    while let Some(command) = worker.commands.recv().await {
        match command {
            WorkerCommand::Assign(assignment) => {
                let lease = assignment.lease;
                given.insert(format!("{lease:?}"), assignment.task.spec.id);
                let output = "out".to_owned();
                worker.link.say(WorkerMessage::Completed(lease, output.into(), completion()));
            }
            WorkerCommand::Ack(lease, Of::Complete, AckResult::Applied) => {
                let task = given[&format!("{lease:?}")];
                completed.lock().expect("no panic").push(task);
            }
            WorkerCommand::Close => return,
            WorkerCommand::Leases(..)
            | WorkerCommand::Ack(..)
            | WorkerCommand::Cancel(..)
            | WorkerCommand::Drain(_) => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn killed_nodes_lose_nothing_and_repeat_nothing() {
    let mut nodes = Nodes::new(3).await;
    let clients = [nodes.client("a"), nodes.client("b")];
    let workers = [nodes.worker(), nodes.worker()];
    for round in 0..3 {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let active = nodes.active().await;
        let killed_at = Instant::now();
        nodes.kill(active);
        nodes.active().await;
        let pause = killed_at.elapsed();
        assert!(pause <= TERM + Duration::from_millis(1_500), "round {round}: {pause:?}");
        nodes.start(active).await;
    }
    clients.iter().for_each(JoinHandle::abort);
    assert!(nodes.check().await > 50, "the clients were served");
    workers.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_cut_off_or_stopped_for_three_terms_changes_nothing_afterwards() {
    for hurt in [MemoryStore::cut_off, MemoryStore::freeze] {
        let nodes = Nodes::new(3).await;
        let clients = [nodes.client("a"), nodes.client("b")];
        let workers = [nodes.worker(), nodes.worker()];
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let hurt_node = nodes.active().await;
            hurt(&nodes.running[&hurt_node].store);
            tokio::time::sleep(3 * TERM).await;
            assert_ne!(nodes.active().await, hurt_node);
            nodes.running[&hurt_node].store.heal();
        }
        clients.iter().for_each(JoinHandle::abort);
        assert!(nodes.check().await > 50, "the clients were served");
        workers.iter().for_each(JoinHandle::abort);
    }
}
