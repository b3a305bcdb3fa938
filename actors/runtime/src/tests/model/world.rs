//! The world of a model run: the process, its disk, its clocks, its workers and its clients.
//!
//! Clients' requests run beside each other, each as a task of its own; their answers go into the books at once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use callboard_domain::Timestamp;
use callboard_domain::approval;
use callboard_domain::id::{Environment, WorkerId};
use callboard_domain::task::{LeaseToken, State};
use callboard_domain::worker::LeasePolicy;
use callboard_store::Store;
use callboard_store::testing::memory::MemoryStore;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::alarm::Alarm;
use super::asks;
use super::chance::{Chance, Seeded};
use super::clock::Machine;
use super::disk::{Disk, Flaw, Manner, Trouble, WARM};
use super::limits::Limits;
use super::oracle::Oracle;
use super::workers::Player;
use crate::kernel::ports::Ports;
use crate::tests::{owner, settings};
use crate::{Handle, Settings, System};

/// How long a lease lasts here.
pub(super) const LEASE: Duration = Duration::from_secs(4);
/// How often those who live are heard of.
const BEAT: Duration = Duration::from_millis(500);

/// The shared state of clients, workers and their driver.
pub(super) struct Shared {
    pub(super) oracle: Oracle,
    pub(super) players: Vec<Player>,
    /// How often the process was started.
    pub(super) start: u32,
    disk: Disk,
    began: Instant,
    pub(super) trace: Vec<String>,
    /// A process that another one had taken over from was there since the last look at the errors.
    had_former: bool,
    /// When the process was started last.
    started: Instant,
}

impl Shared {
    pub(super) fn note(&mut self, what: impl AsRef<str>) {
        let at = self.began.elapsed().as_millis();
        self.trace.push(format!("{:>6}.{:03} {}", at / 1000, at % 1000, what.as_ref()));
    }

    /// Has every worker take in its commands so far.
    pub(super) fn hear(&mut self) {
        let strict = !self.disk.was_troubled();
        let (oracle, start) = (&mut self.oracle, self.start);
        let hear = |player: &mut Player| player.hear(oracle, start, strict);
        let heard: Vec<_> = self.players.iter_mut().flat_map(hear).collect();
        for line in heard {
            self.note(line);
        }
    }

    /// Nothing went wrong that would be an excuse for an error.
    pub(super) fn is_innocent(&self) -> bool {
        !self.disk.was_troubled()
    }
}

/// Everything.
pub(super) struct World {
    pub(super) chance: Chance,
    pub(super) shared: Arc<Mutex<Shared>>,
    pub(super) handle: Handle,
    pub(super) disk: Disk,
    pub(super) clients: JoinSet<()>,
    system: Option<System>,
    pub(super) memory: Arc<MemoryStore>,
    pub(super) machine: Arc<Machine>,
    pub(super) limits: Limits,
    /// The process that another one has taken over from, and that does not know it yet.
    former: Option<System>,
    /// The process says that it must end.
    broke: Arc<AtomicBool>,
    settings: Settings,
    manner: Manner,
    /// Numbers that make prompts, outputs and edits distinct.
    pub(super) counter: u64,
}

impl World {
    pub(super) async fn new(seed: u64, flaw: Option<Flaw>) -> Self {
        let mut chance = Chance::new(seed);
        let slow = if chance.percent(30) { 0 } else { chance.within(1, 20) };
        // A planted bug is seen only where something can be lost.
        let slow = if flaw.is_some() { slow.max(10) } else { slow };
        let manner = Manner { slow, flaw };
        let settings = Settings {
            shards: 2,
            terms: LeasePolicy { lease: LEASE, silent_after: LEASE / 2 },
            heartbeat: Duration::from_secs(1),
            live: crate::Live {
                quotas: asks::quotas(),
                prices: Arc::new(asks::prices()),
                ..crate::Live::default()
            },
            approvals: approval::Policy { rejects: chance.percent(30), ..settings().approvals },
            ..settings()
        };
        let began = Instant::now();
        let machine = Machine::new();
        let broke = Arc::new(AtomicBool::new(false));
        let memory = Arc::new(MemoryStore::new());
        let disk = Disk::new(Arc::clone(&memory), manner, chance.fork());
        let system = begin(&machine, &broke, &settings, &disk, chance.fork()).await;
        let system = system.expect("an empty disk has no trouble");
        let players = Vec::new();
        let swapped = (flaw == Some(Flaw::LeasesNotCompared)).then(BTreeMap::new);
        let (oracle, trace) = (Oracle { swapped, ..Oracle::default() }, Vec::new());
        let (disk_too, started) = (disk.clone(), began);
        let shared = Shared {
            oracle,
            players,
            start: 1,
            disk: disk_too,
            began,
            trace,
            had_former: false,
            started,
        };
        Self {
            chance,
            shared: Arc::new(Mutex::new(shared)),
            handle: system.handle(),
            disk,
            clients: JoinSet::new(),
            system: Some(system),
            memory,
            machine,
            limits: Limits::default(),
            former: None,
            broke,
            settings,
            manner,
            counter: 0,
        }
    }

    pub(super) fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("no holder panics")
    }

    pub(super) fn note(&self, what: impl AsRef<str>) {
        self.shared().note(what);
    }

    pub(super) fn next(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// The books and the alarm say what went wrong so far.
    ///
    /// # Errors
    /// Something did.
    pub(super) fn verdict(&self) -> Result<(), String> {
        let heard = Alarm::take();
        if let Some(panic) = heard.panics.first() {
            return Err(format!("a panic: {panic}"));
        }
        let mut shared = self.shared();
        // A process that another one has taken over from breaks in any way.
        let of_former = std::mem::replace(&mut shared.had_former, self.former.is_some());
        // The rest of a process that has died may still complain of its disk.
        let mut errors = heard.errors.iter().filter(|error| !error.contains("Unknown(Stopped)"));
        if let Some(error) = errors.next().filter(|_| shared.is_innocent() && !of_former) {
            return Err(format!("an error out of nothing:{error}"));
        }
        shared.oracle.faults.first().map_or(Ok(()), |fault| Err(fault.clone()))
    }

    /// Time passes; workers who live say so.
    pub(super) async fn wait(&self, time: Duration) {
        let mut left = time;
        while !left.is_zero() {
            let nap = left.min(BEAT);
            tokio::time::sleep(nap).await;
            left -= nap;
            let mut shared = self.shared();
            shared.hear();
            if nap == BEAT {
                shared.players.iter().for_each(Player::beat);
            }
        }
    }

    /// An instant that comes after a few seconds, for so many percent of those that ask; the settling of a run
    /// waits for it.
    pub(super) fn start_at(&mut self, percent: u64) -> Option<Timestamp> {
        if !self.chance.percent(percent) {
            return None;
        }
        let now = self.machine.wall().as_millis();
        Some(Timestamp::from_millis(now + self.chance.below(20_000) - 1_000))
    }

    /// Somebody sets the wall clock, by milliseconds.
    pub(super) fn set_clock(&mut self, by: i64) {
        self.machine.set(by, self.handle.now());
        self.shared().oracle.went_back |= by < 0;
    }

    /// The process has died, or says that it must end.
    pub(super) fn is_over(&self) -> bool {
        self.disk.is_dead() || self.broke.load(Ordering::SeqCst)
    }

    /// The process dies where it stands, with `applied` of its commits on the way still written, and
    /// is started again; `trouble` waits for it at a commit of its recovery.
    pub(super) async fn crash(&mut self, applied: usize, trouble: Option<(u64, Trouble)>) {
        self.die(applied).await;
        if self.chance.percent(50) {
            let millis = self.chance.below(20_000);
            self.note(format!("{millis} ms pass until the start"));
            self.machine.sleep(millis);
        }
        self.begin(trouble).await;
    }

    /// Another process takes over; of the commits of this one on the way, `applied` are still written. It hears of that
    /// when it commits next, and its clients too.
    pub(super) async fn take_over(&mut self, applied: usize) {
        self.end_former().await;
        self.disk.fence(applied);
        {
            let mut shared = self.shared();
            shared.hear();
            shared.players.iter_mut().for_each(Player::orphaned);
        }
        self.former = self.system.take();
        self.shared().had_former = true;
        self.begin(None).await;
    }

    /// The process that another one has taken over from ends.
    pub(super) async fn end_former(&mut self) {
        if let Some(former) = self.former.take() {
            former.stop().await;
        }
    }

    /// A process begins, after the end of another; `trouble` waits for it at a commit of its recovery.
    async fn begin(&mut self, mut trouble: Option<(u64, Trouble)>) {
        self.machine.seen(self.handle.now());
        loop {
            self.memory = Arc::new(self.memory.reopen());
            let chance = self.chance.fork();
            self.disk = Disk::new(Arc::clone(&self.memory), self.manner, chance);
            if let Some((k, trouble)) = trouble.take() {
                self.disk.plan(k, trouble);
            }
            {
                let mut shared = self.shared();
                shared.start += 1;
                if let Some(rated) = &mut shared.oracle.rated {
                    rated.clear();
                }
                shared.started = Instant::now();
                shared.disk = self.disk.clone();
                let start = shared.start;
                shared.note(format!("start {start}"));
            }
            self.broke = Arc::default();
            let entropy = self.chance.fork();
            match begin(&self.machine, &self.broke, &self.settings, &self.disk, entropy).await {
                Ok(system) => {
                    self.handle = system.handle();
                    self.system = Some(system);
                    return;
                }
                Err(why) if self.disk.is_dead() => self.note(format!("it does not start: {why}")),
                Err(why) => {
                    self.shared().oracle.fault(format!("it does not start: {why}"));
                    return;
                }
            }
        }
    }

    async fn die(&mut self, applied: usize) {
        self.disk.kill(applied);
        self.end_former().await;
        // Earlier answers count; a pending request may have happened or not.
        self.clients.abort_all();
        while self.clients.join_next().await.is_some() {}
        {
            let mut shared = self.shared();
            shared.hear();
            shared.players.iter_mut().for_each(Player::orphaned);
        }
        if let Some(system) = self.system.take() {
            system.stop().await;
        }
        // It had every reason to complain, but not to panic.
        let panics = Alarm::take().panics;
        self.shared().oracle.faults.extend(panics);
    }

    /// No new work is given out, workers are sent away, and after a while the process ends.
    pub(super) async fn restart(&mut self) {
        if let Some(system) = &self.system {
            system.drain();
        }
        self.wait(Duration::from_millis(300)).await;
        self.crash(usize::MAX, None).await;
    }

    /// Ends the process for good.
    pub(super) async fn end(mut self) -> Vec<String> {
        self.die(0).await;
        std::mem::take(&mut self.shared().trace)
    }

    /// Connects a worker, which goes on with its leases if it comes back.
    pub(super) async fn connect(&mut self, number: usize, resumes: bool, forgets: bool) {
        let (outgoing, commands) = mpsc::unbounded_channel();
        let (profile, id, held) = {
            let mut shared = self.shared();
            shared.hear();
            let player = &mut shared.players[number];
            let (id, held) = player.connecting(commands);
            (player.profile.clone(), id, held)
        };
        let named = if forgets { Vec::new() } else { held.clone() };
        let due = if resumes { self.must_be_kept(id, &named).await } else { Vec::new() };
        let resume = id.filter(|_| resumes).map(|id| (id, named));
        let connected = self.handle.connect_worker(&owner(), profile, resume, outgoing).await;
        let mut shared = self.shared();
        match connected {
            Ok((link, leases)) => {
                let id = link.worker();
                if let Some(lost) = due.iter().find(|lease| !leases.renewed.contains(lease)) {
                    shared.oracle.fault(format!("{lost} did not outlive a restart"));
                }
                shared.players[number].connected(link, held, leases.renewed);
                shared.note(format!("w{number} is there as {id}"));
            }
            Err(error) => {
                shared.players[number].refused(held);
                let innocent = shared.is_innocent();
                shared.note(format!("w{number} is not let in: {error}"));
                if innocent && !self.handle.is_draining() {
                    shared.oracle.fault(format!("w{number} is not let in: {error}"));
                }
            }
        }
    }
}

impl World {
    /// The leases that a worker must be left with which comes back soon after a restart: those that
    /// its tasks run under.
    async fn must_be_kept(&self, id: Option<WorkerId>, named: &[LeaseToken]) -> Vec<LeaseToken> {
        let (start, started) = {
            let shared = self.shared();
            (shared.start, shared.started)
        };
        let mut kept = Vec::new();
        for token in named {
            let lease = self.shared().oracle.leases.get(token).map(|lease| lease.order.0);
            let soon = lease.is_some_and(|given| given < start) && started.elapsed() < LEASE / 2;
            let Ok(found) = self.handle.task(LIVE, token.task).await else { continue };
            if let State::Running { lease, worker, deadline } = found.task.state
                && soon
                && (lease, Some(worker)) == (token.lease, id)
                && self.handle.now() < deadline
                && self.shared().is_innocent()
            {
                kept.push(*token);
            }
        }
        kept
    }
}

/// The production environment: the model uses no other.
pub(super) const LIVE: Environment = Environment::LIVE;

async fn begin(
    machine: &Arc<Machine>,
    broke: &Arc<AtomicBool>,
    settings: &Settings,
    disk: &Disk,
    entropy: Chance,
) -> Result<System, String> {
    let clock = Arc::new(machine.process());
    let entropy = Arc::new(Seeded::new(entropy));
    let ports = Ports { clock, entropy, ..Ports::of_this_machine() };
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let broke = Arc::clone(broke);
    let on_break = Box::new(move |why| {
        tracing::error!(why, "the system broke");
        broke.store(true, Ordering::SeqCst);
    });
    let started = System::start(store, settings.clone(), ports, on_break).await;
    disk.pause(WARM);
    started.map_err(|error| error.to_string())
}
