//! The bounds on running tasks: the settings of queues, and the number of running tasks of each queue and key.
//!
//! The bounds are in memory and per node. A start reads the settings, and after that the queues' actors write them; a
//! running task holds its leases and gives them back by dropping them, and a start takes them again for every running
//! task.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
};

use callboard_domain::Error as DomainError;
use callboard_domain::id::{Environment, TaskId};
use callboard_domain::machine::{Machine, Step};
use callboard_domain::queue::QueueSettings;
use callboard_domain::task::Spec;
use callboard_domain::task::flow::{self, Concurrency, Flow as TaskFlow, Member, OnConflict};
use callboard_domain::task::{State, Task};
use callboard_store::{Error, Store};

use crate::kernel::address::QueueAddress;
use crate::limits::Queues;
use crate::limits::limit::{Limit, NewTask};
use crate::limits::reservation::{Place, Reservation};
use crate::tables::QUEUES;

/// The number of rows that are read at a time.
const PAGE: usize = 1_000;

/// A concurrency key.
type KeyName = (Environment, Arc<str>);

/// The tasks of a concurrency key that wait or run, by creation.
type Members = BTreeMap<TaskId, Listed>;

#[derive(Debug, Clone, Copy)]
struct Listed {
    member: Member,
    /// False while its unit is being decided.
    is_entered: bool,
}

/// A task that is listed under its key while its unit is being decided; dropped before it enters, it leaves the list.
#[derive(Debug)]
pub(crate) struct AdmittedTask {
    flow: Flow,
    key: (Environment, String),
    task: TaskId,
}

impl Place for AdmittedTask {}

impl Drop for AdmittedTask {
    fn drop(&mut self) {
        self.flow.leave_if(&self.key, self.task, |listed| !listed.is_entered);
    }
}

/// A queue that has settings, an actor or leases.
#[derive(Debug, Default)]
struct Known {
    settings: QueueSettings,
    /// True while the queue waits for its rate.
    throttled: bool,
    leases: Weak<QueueLeases>,
}

/// The leases of a queue that tasks run under, counted at all times, so that a limit that comes to be counts them too.
#[derive(Debug)]
pub(crate) struct QueueLeases {
    queue: QueueAddress,
    running: AtomicU32,
    /// True if the queue has a limit, and wants to hear of every lease that ends.
    is_limited: AtomicBool,
    is_paused: AtomicBool,
    flow: Weak<Inner>,
}

impl QueueLeases {
    /// The tasks that run.
    pub(crate) fn running(&self) -> u32 {
        self.running.load(Ordering::SeqCst)
    }

    /// Counts a lease.
    pub(crate) fn start(self: &Arc<Self>) -> QueueLease {
        self.running.fetch_add(1, Ordering::SeqCst);
        QueueLease(Arc::clone(self))
    }

    fn go_by(&self, settings: QueueSettings) {
        self.is_limited.store(settings.concurrent.is_some(), Ordering::SeqCst);
        self.is_paused.store(settings.paused, Ordering::SeqCst);
    }
}

impl Drop for QueueLeases {
    fn drop(&mut self) {
        let Some(flow) = self.flow.upgrade() else { return };
        let mut queues = flow.queues_mut();
        // Another one may have been made since the last holder of this one left.
        let is_over =
            |known: &Known| known.settings.is_default() && known.leases.strong_count() == 0;
        if queues.get(&self.queue).is_some_and(is_over) {
            queues.remove(&self.queue);
        }
    }
}

/// A lease of a queue, which ends when it is dropped.
#[derive(Debug)]
pub(crate) struct QueueLease(Arc<QueueLeases>);

impl QueueLease {
    /// True if somebody has paused the queue.
    pub(crate) fn is_paused(&self) -> bool {
        self.0.is_paused.load(Ordering::SeqCst)
    }
}

impl Drop for QueueLease {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
        if self.0.is_limited.load(Ordering::SeqCst)
            && let Some(flow) = self.0.flow.upgrade()
        {
            flow.directory.look(&self.0.queue);
        }
    }
}

/// The limits, and the tasks that run under them.
#[derive(Debug, Clone)]
pub(crate) struct Flow(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The running tasks of each concurrency key.
    running: Mutex<HashMap<KeyName, u32>>,
    members: Mutex<HashMap<(Environment, String), Members>>,
    queues: RwLock<BTreeMap<QueueAddress, Known>>,
    directory: Arc<dyn Queues>,
}

impl Flow {
    pub(crate) fn new(directory: Arc<dyn Queues>) -> Self {
        let (running, members, queues) = (Mutex::default(), Mutex::default(), RwLock::default());
        Self(Arc::new(Inner { running, members, queues, directory }))
    }

    /// Reads the settings of the queues of an environment.
    pub(crate) async fn load(
        &self,
        store: &dyn Store,
        environment: Environment,
    ) -> Result<(), Error> {
        let mut after = None;
        loop {
            let page = QUEUES.scan(store, environment.number(), after.as_ref(), PAGE).await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = Some(*last);
            for (_, row) in page {
                self.set(
                    &QueueAddress { environment, queue: row.name.as_str().into() },
                    row.settings,
                );
            }
        }
    }

    /// The settings of a queue; those of a sandbox have none.
    pub(crate) fn settings(&self, queue: &QueueAddress) -> QueueSettings {
        self.0.queues().get(queue).map(|known| known.settings).unwrap_or_default()
    }

    /// The leases of a queue.
    pub(crate) fn leases(&self, queue: &QueueAddress) -> Arc<QueueLeases> {
        let mut queues = self.0.queues_mut();
        let known = queues.entry(queue.clone()).or_default();
        if let Some(leases) = known.leases.upgrade() {
            return leases;
        }
        let leases = Arc::new(QueueLeases {
            queue: queue.clone(),
            running: AtomicU32::new(0),
            is_limited: AtomicBool::new(false),
            is_paused: AtomicBool::new(false),
            flow: Arc::downgrade(&self.0),
        });
        leases.go_by(known.settings);
        known.leases = Arc::downgrade(&leases);
        leases
    }

    /// The queues of an environment that have settings.
    pub(crate) fn queues(&self, environment: Environment) -> BTreeMap<Arc<str>, QueueSettings> {
        let queues = self.0.queues();
        let own = queues
            .iter()
            .filter(|(at, known)| at.environment == environment && !known.settings.is_default());
        own.map(|(at, known)| (Arc::clone(&at.queue), known.settings)).collect()
    }

    /// The number of queues that are paused, in all environments.
    pub(crate) fn paused(&self) -> usize {
        self.0.queues().values().filter(|known| known.settings.paused).count()
    }

    /// Notes the settings of a queue, which are durable.
    pub(crate) fn set(&self, queue: &QueueAddress, settings: QueueSettings) {
        let leases = {
            let mut queues = self.0.queues_mut();
            let known = queues.entry(queue.clone()).or_default();
            (known.settings, known.throttled) = (settings, false);
            let leases = known.leases.upgrade();
            if let Some(leases) = &leases {
                leases.go_by(settings);
            } else if settings.is_default() {
                queues.remove(queue);
            }
            leases
        };
        // The last holder takes the queue out, which needs the lock.
        drop(leases);
    }

    /// Notes that a queue waits for its rate, or waits no more.
    pub(crate) fn set_throttled(&self, queue: &QueueAddress, throttled: bool) {
        if let Some(known) = self.0.queues_mut().get_mut(queue) {
            known.throttled = throttled;
        }
    }

    /// The obstacle of a ready task in its queue, besides a worker.
    pub(crate) fn queue_waits(&self, queue: &QueueAddress) -> Option<&'static str> {
        let (settings, throttled, leases) = {
            let queues = self.0.queues();
            let known = queues.get(queue)?;
            (known.settings, known.throttled, known.leases.upgrade())
        };
        if settings.paused {
            return Some("queue_paused");
        }
        let running = leases.map_or(0, |leases| leases.running());
        let is_full = settings.concurrent.is_some_and(|limit| running >= limit);
        (throttled || is_full).then_some("limit")
    }

    /// The number of running tasks of a concurrency key.
    pub(crate) fn running(&self, environment: Environment, key: &str) -> u32 {
        self.0.running().get(&(environment, key.into())).copied().unwrap_or_default()
    }

    /// Counts a running task under its concurrency key, if it has one.
    pub(crate) fn start(
        &self,
        environment: Environment,
        flow: Option<&TaskFlow>,
    ) -> Option<KeyLease> {
        let concurrency = flow?.concurrency.as_ref()?;
        let key: KeyName = (environment, concurrency.key.as_str().into());
        *self.0.running().entry(key.clone()).or_default() += 1;
        Some(KeyLease { key, flow: Arc::downgrade(&self.0) })
    }

    /// The tasks counted under a limit or listed under a key, for tests.
    #[cfg(test)]
    pub(crate) fn held(&self) -> Vec<String> {
        let running: Vec<_> =
            self.0.running().keys().map(|it| format!("one runs: {it:?}")).collect();
        let leases: Vec<_> = self.0.queues().values().map(|it| it.leases.upgrade()).collect();
        let leases = leases.into_iter().flatten().filter(|leases| leases.running() > 0);
        let leases = leases.map(|leases| format!("one runs: {:?}", leases.queue));
        let members = self.0.members();
        let listed = members.iter().filter(|(_, members)| !members.is_empty());
        let listed = listed.map(|((_, key), members)| format!("{key} has {members:?}"));
        running.into_iter().chain(leases).chain(listed).collect()
    }

    /// True if one more task that names this limit may run.
    pub(crate) fn has_room(&self, environment: Environment, key: &str, limit: u32) -> bool {
        self.running(environment, key) < limit
    }

    /// Lists a new task under its key, and holds its place there.
    ///
    /// # Errors
    /// Those of [`Self::admit`].
    pub(crate) fn admit_task(
        &self,
        environment: Environment,
        spec: &Spec,
        reserved: &mut Reservation,
    ) -> Result<(), DomainError> {
        let Some(rule) = concurrency_of(spec) else { return Ok(()) };
        self.with_members(environment, rule, |members| {
            let is_full = u32::try_from(members.len()).is_ok_and(|count| count >= rule.limit);
            let refuses = rule.on_conflict == OnConflict::Reject;
            if is_full && refuses && spec.origin.step.is_none() {
                let count = members.len();
                return Err(DomainError::InvalidState(format!(
                    "concurrencyKey {} has {count} unfinished tasks, and its limit is {}",
                    rule.key, rule.limit
                )));
            }
            members.insert(spec.id, Listed { member: member(spec, rule), is_entered: false });
            Ok(())
        })?;
        let key = (environment, rule.key.clone());
        reserved.hold(AdmittedTask { flow: self.clone(), key, task: spec.id });
        Ok(())
    }

    /// Lists a task that waits or runs under its key.
    pub(crate) fn enter(&self, environment: Environment, spec: &Spec) {
        if let Some(rule) = concurrency_of(spec) {
            let listed = Listed { member: member(spec, rule), is_entered: true };
            self.with_members(environment, rule, |members| members.insert(spec.id, listed));
        }
    }

    /// Takes a task off the list that has ended, or waits for a reviewer.
    pub(crate) fn leave(&self, environment: Environment, spec: &Spec) {
        if let Some(rule) = concurrency_of(spec) {
            self.leave_if(&(environment, rule.key.clone()), spec.id, |_| true);
        }
    }

    fn leave_if(
        &self,
        key: &(Environment, String),
        task: TaskId,
        leaves: impl Fn(&Listed) -> bool,
    ) {
        let mut all = self.0.members();
        if let Some(members) = all.get_mut(key) {
            if members.get(&task).is_some_and(leaves) {
                members.remove(&task);
            }
            if members.is_empty() {
                all.remove(key);
            }
        }
    }

    /// The tasks that must be cancelled because a new task says so.
    pub(crate) fn excess(&self, environment: Environment, new: &Spec) -> Vec<TaskId> {
        let rule = concurrency_of(new).filter(|rule| rule.on_conflict != OnConflict::Queue);
        let Some(rule) = rule else { return Vec::new() };
        self.with_members(environment, rule, |members| {
            flow::excess(&members.values().map(|it| it.member).collect::<Vec<_>>())
        })
    }

    /// The tasks of an environment that a crash kept from being cancelled.
    pub(crate) fn all_excess(&self, environment: Environment) -> Vec<TaskId> {
        let all = self.0.members();
        let own = all.iter().filter(|((of, _), _)| *of == environment);
        own.flat_map(|(_, members)| {
            flow::excess(&members.values().map(|it| it.member).collect::<Vec<_>>())
        })
        .collect()
    }

    fn with_members<T>(
        &self,
        environment: Environment,
        rule: &Concurrency,
        change: impl FnOnce(&mut Members) -> T,
    ) -> T {
        change(self.0.members().entry((environment, rule.key.clone())).or_default())
    }
}

impl Limit for Flow {
    fn enter(&self, new: &NewTask<'_>, _: &mut Reservation) {
        Self::enter(self, new.environment, &new.task.spec);
    }

    fn undo(&self, environment: Environment, spec: &Spec) {
        self.leave(environment, spec);
    }

    /// A task that is held runs no more and waits no more.
    fn stepped(&self, environment: Environment, step: &Step<Task>) {
        let is_held = matches!(step.next.state, State::AwaitingApproval { .. });
        if step.next.is_finished() || is_held {
            self.leave(environment, &step.next.spec);
        }
    }
}

fn concurrency_of(spec: &Spec) -> Option<&Concurrency> {
    spec.flow.as_ref()?.concurrency.as_ref()
}

fn member(spec: &Spec, rule: &Concurrency) -> Member {
    let (limit, on_conflict) = (rule.limit, rule.on_conflict);
    Member { task: spec.id, limit, on_conflict, is_step: spec.origin.step.is_some() }
}

impl Inner {
    fn running(&self) -> MutexGuard<'_, HashMap<KeyName, u32>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn members(&self) -> MutexGuard<'_, HashMap<(Environment, String), Members>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queues(&self) -> RwLockReadGuard<'_, BTreeMap<QueueAddress, Known>> {
        self.queues.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn queues_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<QueueAddress, Known>> {
        self.queues.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running task of a concurrency key, given back when dropped.
#[derive(Debug)]
pub(crate) struct KeyLease {
    key: KeyName,
    flow: Weak<Inner>,
}

impl Drop for KeyLease {
    fn drop(&mut self) {
        let Some(flow) = self.flow.upgrade() else { return };
        {
            let mut running = flow.running();
            if let Some(count) = running.get_mut(&self.key) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    running.remove(&self.key);
                }
            }
        }
        // The tasks of a key may wait in any queue.
        flow.directory.look_everywhere();
    }
}
