//! The bounds on running tasks: the settings of queues, and the number of tasks under each limit.
//!
//! The bounds are in memory and per node. A start reads the settings, and after that the queues' actors write them; a
//! running task holds its shares and gives them back when it is dropped, and a start takes them again for every
//! running task.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use callboard_domain::Error as DomainError;
use callboard_domain::id::{Environment, TaskId};
use callboard_domain::machine::{Machine, Step};
use callboard_domain::queue::QueueSettings;
use callboard_domain::task::Spec;
use callboard_domain::task::flow::{self, Concurrency, Member, OnConflict};
use callboard_domain::task::{State, Task};
use callboard_store::{Error, Store};

use crate::kernel::address::QueueAddress;
use crate::limits::Queues;
use crate::limits::limit::{Limit, NewTask};
use crate::limits::reservation::Reservation;
use crate::tables::QUEUES;

/// The number of rows that are read at a time.
const PAGE: usize = 1_000;

/// Something that a limited number of running tasks share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Limited {
    /// A queue.
    Queue(Environment, Arc<str>),
    /// A concurrency key.
    Key(Environment, Arc<str>),
}

impl Limited {
    pub(crate) fn queue(QueueAddress { environment, queue }: &QueueAddress) -> Self {
        Self::Queue(*environment, Arc::clone(queue))
    }
}

/// The tasks of a concurrency key that wait or run, by creation.
type Members = BTreeMap<TaskId, Member>;

/// A queue with settings.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    settings: QueueSettings,
    /// True while the queue waits for its rate.
    throttled: bool,
}

/// The limits, and the tasks that run under them.
#[derive(Debug, Clone)]
pub(crate) struct Flow(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    running: Mutex<HashMap<Limited, u32>>,
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
        let queues = self.0.queues.read().unwrap_or_else(PoisonError::into_inner);
        queues.get(queue).map(|known| known.settings).unwrap_or_default()
    }

    /// The queues of an environment that have settings.
    pub(crate) fn queues(&self, environment: Environment) -> BTreeMap<Arc<str>, QueueSettings> {
        let queues = self.0.queues.read().unwrap_or_else(PoisonError::into_inner);
        let own = queues.iter().filter(|(at, _)| at.environment == environment);
        own.map(|(at, known)| (Arc::clone(&at.queue), known.settings)).collect()
    }

    /// The number of queues that are paused, in all environments.
    pub(crate) fn paused(&self) -> usize {
        let queues = self.0.queues.read().unwrap_or_else(PoisonError::into_inner);
        queues.values().filter(|known| known.settings.paused).count()
    }

    /// Notes the settings of a queue, which are durable.
    pub(crate) fn set(&self, queue: &QueueAddress, settings: QueueSettings) {
        let mut queues = self.0.queues.write().unwrap_or_else(PoisonError::into_inner);
        if settings.is_default() {
            queues.remove(queue);
        } else {
            queues.insert(queue.clone(), Known { settings, throttled: false });
        }
    }

    /// Notes that a queue waits for its rate, or waits no more.
    pub(crate) fn set_throttled(&self, queue: &QueueAddress, throttled: bool) {
        let mut queues = self.0.queues.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = queues.get_mut(queue) {
            known.throttled = throttled;
        }
    }

    /// The obstacle of a ready task in its queue, besides a worker.
    pub(crate) fn queue_waits(&self, queue: &QueueAddress) -> Option<&'static str> {
        let queues = self.0.queues.read().unwrap_or_else(PoisonError::into_inner);
        let known = queues.get(queue)?;
        if known.settings.paused {
            return Some("queue_paused");
        }
        let running = || self.running(&Limited::queue(queue));
        let is_full = known.settings.concurrent.is_some_and(|limit| running() >= limit);
        (known.throttled || is_full).then_some("limit")
    }

    /// The number of running tasks that share the limit.
    pub(crate) fn running(&self, limited: &Limited) -> u32 {
        self.0.running().get(limited).copied().unwrap_or_default()
    }

    /// Counts a running task.
    pub(crate) fn start(&self, limited: Limited) -> Share {
        *self.0.running().entry(limited.clone()).or_default() += 1;
        Share { limited, flow: Arc::downgrade(&self.0) }
    }

    /// Counts a task that was running before a restart.
    pub(crate) fn resume(&self, environment: Environment, spec: &Spec) -> Vec<Share> {
        let address = QueueAddress { environment, queue: spec.queue.as_str().into() };
        let settings = self.settings(&address);
        let queue = settings.concurrent.map(|_| Limited::queue(&address));
        let key = concurrency_of(spec).map(|it| Limited::Key(environment, it.key.as_str().into()));
        queue.into_iter().chain(key).map(|limited| self.start(limited)).collect()
    }

    /// The tasks counted under a limit or listed under a key, for tests.
    #[cfg(test)]
    pub(crate) fn held(&self) -> Vec<String> {
        let running: Vec<_> =
            self.0.running().keys().map(|it| format!("one runs: {it:?}")).collect();
        let members = self.0.members();
        let listed = members.iter().filter(|(_, members)| !members.is_empty());
        let listed = listed.map(|((_, key), members)| format!("{key} has {members:?}"));
        running.into_iter().chain(listed).collect()
    }

    /// True if one more task that names this limit may run.
    pub(crate) fn has_room(&self, environment: Environment, key: &str, limit: u32) -> bool {
        self.running(&Limited::Key(environment, key.into())) < limit
    }

    /// Lists a new task under its key.
    ///
    /// # Errors
    /// Those of [`Self::admit`].
    pub(crate) fn admit_task(
        &self,
        environment: Environment,
        spec: &Spec,
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
            members.insert(spec.id, member(spec, rule));
            Ok(())
        })
    }

    /// Lists a task that waits or runs under its key.
    pub(crate) fn enter(&self, environment: Environment, spec: &Spec) {
        if let Some(rule) = concurrency_of(spec) {
            let member = member(spec, rule);
            self.with_members(environment, rule, |members| members.insert(spec.id, member));
        }
    }

    /// Takes a task off the list that has ended, or waits for a reviewer.
    pub(crate) fn leave(&self, environment: Environment, spec: &Spec) {
        let Some(rule) = concurrency_of(spec) else { return };
        let mut all = self.0.members();
        let key = (environment, rule.key.clone());
        if let Some(members) = all.get_mut(&key) {
            members.remove(&spec.id);
            if members.is_empty() {
                all.remove(&key);
            }
        }
    }

    /// The tasks that must be cancelled because a new task says so.
    pub(crate) fn excess(&self, environment: Environment, new: &Spec) -> Vec<TaskId> {
        let rule = concurrency_of(new).filter(|rule| rule.on_conflict != OnConflict::Queue);
        let Some(rule) = rule else { return Vec::new() };
        self.with_members(environment, rule, |members| {
            flow::excess(&members.values().copied().collect::<Vec<_>>())
        })
    }

    /// The tasks of an environment that a crash kept from being cancelled.
    pub(crate) fn all_excess(&self, environment: Environment) -> Vec<TaskId> {
        let all = self.0.members();
        let own = all.iter().filter(|((of, _), _)| *of == environment);
        own.flat_map(|(_, members)| flow::excess(&members.values().copied().collect::<Vec<_>>()))
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
    fn running(&self) -> MutexGuard<'_, HashMap<Limited, u32>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn members(&self) -> MutexGuard<'_, HashMap<(Environment, String), Members>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running task's share of a limit, given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    limited: Limited,
    flow: Weak<Inner>,
}

impl Share {
    pub(crate) const fn limited(&self) -> &Limited {
        &self.limited
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Some(flow) = self.flow.upgrade() else { return };
        {
            let mut running = flow.running();
            if let Some(count) = running.get_mut(&self.limited) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    running.remove(&self.limited);
                }
            }
        }
        match &self.limited {
            Limited::Queue(environment, queue) => {
                let (environment, queue) = (*environment, Arc::clone(queue));
                let address = QueueAddress { environment, queue };
                flow.directory.look(&address);
            }
            // The tasks of a key may wait in any queue.
            Limited::Key(..) => flow.directory.look_everywhere(),
        }
    }
}
