//! The models that a node calls: their meters, and the permits of calls in flight.
//!
//! The meters are in memory, and per node. A start reads the limits and the closures from their rows, adopts the calls
//! of running tasks, and counts the tasks that ended in the last minute. A sandbox is not metered.

mod permit;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use callboard_domain::id::{Environment, TaskId};
use callboard_domain::model_limits::{Closure, Meter, MeterStatus, ModelLimits, NoRoom, Reported};
use callboard_domain::task::Task;
use callboard_domain::usage::Usage;
use callboard_domain::worker::Monotonic;

use crate::kernel::planted::{Fault, is_planted};
use crate::kernel::ports::Clock;
use crate::limits::Queues;

pub(crate) use permit::CallPermit;

/// The most models whose figures are kept; those of further ones are dropped.
const MAX_MODELS: usize = 10_000;
/// The longest pause before a queue looks again.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// The models of a project.
pub(crate) struct Models {
    pub(crate) environment: Environment,
    pub(crate) shared: Arc<Shared>,
    /// The limits of the settings, which count for a model without a row.
    pub(crate) configured: Arc<Mutex<BTreeMap<String, ModelLimits>>>,
    /// The lock of a writer of limits' rows.
    pub(crate) writing: Arc<tokio::sync::Mutex<()>>,
}

pub(crate) struct Shared {
    pub(crate) meters: Mutex<BTreeMap<Arc<str>, Meter>>,
    /// True if any model is limited, closed or has a counted call in flight; otherwise no caller
    /// takes the lock.
    pub(crate) is_metering: AtomicBool,
    /// True if a queue found no room since the queues were notified last.
    pub(crate) is_awaited: AtomicBool,
    /// True once a task was to go next at a model: only then anybody looks for such a task.
    pub(crate) has_next: AtomicBool,
    pub(crate) queues: Arc<dyn Queues>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// The earliest instant at which a model may have room that had none when its queue looked.
#[derive(Debug, Default)]
pub(crate) struct Blocked {
    until: Cell<Option<Monotonic>>,
    /// The instant of the timer that runs.
    looks_at: Option<Monotonic>,
}

impl Blocked {
    fn wake_no_later_than(&self, until: Monotonic) {
        self.until.set(Some(self.until.get().map_or(until, |earlier| earlier.min(until))));
    }

    /// The timer has fired.
    pub(crate) fn looks_again(&mut self) {
        self.looks_at = None;
    }

    /// True while a timer runs.
    pub(crate) const fn is_awaited(&self) -> bool {
        self.looks_at.is_some()
    }

    /// The pause before the next look; `None` if none is needed, or a timer runs that fires earlier.
    pub(crate) fn pause(&mut self, now: Monotonic) -> Option<Duration> {
        let until = self.until.take()?;
        let pause = Duration::from_millis(until.0.saturating_sub(now.0)).min(LONGEST_PAUSE);
        let at = now.after(pause);
        if self.looks_at.is_some_and(|looks_at| looks_at <= at) {
            return None;
        }
        self.looks_at = Some(at);
        Some(pause)
    }
}

impl Models {
    pub(crate) fn new(
        environment: Environment,
        configured: Arc<Mutex<BTreeMap<String, ModelLimits>>>,
        queues: Arc<dyn Queues>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let meter = |(name, limits): (&String, &ModelLimits)| {
            (Arc::from(name.as_str()), Meter::new(*limits))
        };
        let meters: BTreeMap<_, _> =
            configured.lock().unwrap_or_else(PoisonError::into_inner).iter().map(meter).collect();
        let shared = Arc::new(Shared {
            is_metering: AtomicBool::new(is_metering(&meters)),
            meters: Mutex::new(meters),
            is_awaited: AtomicBool::new(false),
            has_next: AtomicBool::new(false),
            queues,
            clock,
        });
        Self { environment, shared, configured, writing: Arc::default() }
    }

    /// True if calls of the model are counted.
    pub(crate) fn meters(&self, model: &str) -> bool {
        self.is_metering() && self.shared.lock().get(model).is_some_and(|meter| !meter.is_idle())
    }

    /// True if a call of the model for a task of the queue may begin; else `blocked` notes from when on.
    pub(crate) fn has_room(&self, (model, queue): (&str, &str), blocked: &Blocked) -> bool {
        if !self.is_metering() {
            return true;
        }
        let now = self.shared.clock.moment();
        let mut meters = self.shared.lock();
        let Some(Err(NoRoom { until })) = meters.get_mut(model).map(|meter| meter.room(queue, now))
        else {
            return true;
        };
        if let Some(until) = until {
            blocked.wake_no_later_than(until);
        }
        // Noted under the lock: a call that ends later tells the queues.
        self.shared.is_awaited.store(true, Ordering::Release);
        false
    }

    /// Passes if a call of the model may begin now.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub(crate) fn room(&self, model: &str, queue: &str) -> Result<(), NoRoom> {
        if !self.is_metering() {
            return Ok(());
        }
        let now = self.shared.clock.moment();
        self.shared.lock().get_mut(model).map_or(Ok(()), |meter| meter.room(queue, now))
    }

    /// A call whose texts are not known yet; none if the model is not metered, or has no room after
    /// all: the task then asks for itself.
    pub(crate) fn begin(&self, model: &Arc<str>, queue: &str) -> Option<CallPermit> {
        if !self.is_metering() {
            return None;
        }
        let now = self.shared.clock.moment();
        let call = {
            let mut meters = self.shared.lock();
            let meter = meters.get_mut(model).filter(|meter| !meter.is_idle())?;
            meter.begin(queue, now).ok()?
        };
        Some(CallPermit::new(Arc::clone(&self.shared), Arc::clone(model), call))
    }

    /// The call with the demand of its own texts, which have about `input` tokens, for so many calls.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub(crate) fn reserve(
        &self,
        task: &Task,
        call: Option<CallPermit>,
        (input, calls): (u64, u64),
    ) -> Result<CallPermit, NoRoom> {
        let (model, id) = (task.model(), (task.spec.id, task.spec.queue.as_str()));
        let now = self.shared.clock.moment();
        // A call of another model is given back here, before the lock is taken.
        let call = call.filter(|call| call.is_of(model)).map(CallPermit::into_call);
        let reserved = {
            let mut meters = self.shared.lock();
            let (name, meter) = meter_of(&mut meters, model);
            let demand = meter.demand(input, task.spec.max_tokens).times(calls);
            let begun = match call {
                Some(call) => meter.resize(id, call, demand, now),
                None => meter.begin_with(id, demand, now),
            };
            if begun.is_err() {
                // The queue finds out when it looks.
                self.shared.is_awaited.store(true, Ordering::Release);
                self.shared.has_next.store(true, Ordering::Release);
            }
            begun.map(|call| (name, call))
        };
        if reserved.is_ok() {
            // The call may need less than it had reserved.
            self.shared.notify_queues();
        }
        let (name, call) = reserved?;
        Ok(CallPermit::new(Arc::clone(&self.shared), name, call))
    }

    /// Keeps no room for tasks that cannot go: they were cancelled, or their queue gives out no lease.
    pub(crate) fn pass_over(&self, is_one: impl Fn(TaskId) -> bool) {
        if !self.shared.has_next.load(Ordering::Acquire) {
            return;
        }
        if is_planted(Fault::RoomIsKept) {
            return;
        }
        let (mut passed, mut has_next) = (false, false);
        let mut meters = self.shared.lock();
        for meter in meters.values_mut() {
            passed |= meter.pass_over(&is_one);
            has_next |= meter.has_next();
        }
        self.shared.has_next.store(has_next, Ordering::Release);
        drop(meters);
        if passed {
            self.shared.notify_queues();
        }
    }

    /// True while the model is closed for tasks of the queue, or opens after that.
    pub(crate) fn is_cooling_down(&self, model: &str, queue: &str) -> bool {
        self.is_metering()
            && self.shared.lock().get(model).is_some_and(|meter| meter.is_cooling_down(queue))
    }

    /// The model is open again, whatever its provider refused.
    pub(crate) fn reopen(&self, model: &str) {
        self.shared.end(model, |meter, _| meter.reopen());
    }

    /// A refusal or an outage of a call that was not counted, by a worker whose key is bound to the queues `bound`.
    pub(crate) fn refused(&self, model: &str, bound: &[String], refusal: (Closure, Option<u64>)) {
        let now = self.shared.clock.moment();
        let mut meters = self.shared.lock();
        if meters.len() < MAX_MODELS || meters.contains_key(model) {
            meter_of(&mut meters, model).1.refused_uncounted(bound, refusal, now);
            self.shared.is_metering.store(true, Ordering::Release);
        }
    }

    /// Counts calls that were not reserved, those of a judge.
    pub(crate) fn called(&self, model: &str, calls: u64, usage: Usage) {
        if !self.meters(model) {
            return;
        }
        let now = self.shared.clock.moment();
        if let Some(meter) = self.shared.lock().get_mut(model) {
            meter.count_now(calls, usage.input, usage.output, now);
        }
    }

    /// The provider's own figures.
    pub(crate) fn report(&self, model: &str, reported: Reported) {
        let now = self.shared.clock.moment();
        {
            let mut meters = self.shared.lock();
            if meters.len() >= MAX_MODELS && !meters.contains_key(model) {
                return;
            }
            meter_of(&mut meters, model).1.report(reported, now);
        }
        self.shared.notify_queues();
    }

    /// Counts a call that began `age` ago, before a restart, and is in flight.
    pub(crate) fn adopt(&self, model: &str, age: Duration) -> Option<CallPermit> {
        if !self.meters(model) {
            return None;
        }
        let now = self.shared.clock.moment();
        let (name, call) = {
            let mut meters = self.shared.lock();
            let (name, meter) = meter_of(&mut meters, model);
            (name, meter.adopt(before(now, age), now))
        };
        Some(CallPermit::new(Arc::clone(&self.shared), name, call).given())
    }

    /// The state of each known model.
    pub(crate) fn statuses(&self) -> Vec<(Arc<str>, MeterStatus)> {
        let now = self.shared.clock.moment();
        let mut meters = self.shared.lock();
        meters.iter_mut().map(|(name, meter)| (Arc::clone(name), meter.status(now))).collect()
    }

    /// The calls in flight and the tasks that go next, for tests.
    #[cfg(test)]
    pub(crate) fn held(&self) -> Vec<String> {
        let now = self.shared.clock.moment();
        let mut meters = self.shared.lock();
        let busy = meters.iter_mut().filter_map(|(model, meter)| {
            let (in_flight, has_next) = (meter.status(now).in_flight, meter.has_next());
            let says = format!("{model} has {in_flight} calls; one goes next: {has_next}");
            (in_flight > 0 || has_next).then_some(says)
        });
        busy.collect()
    }

    pub(crate) fn is_metering(&self) -> bool {
        self.shared.is_metering.load(Ordering::Acquire)
    }
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Meter>> {
        self.meters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call is over, or was never made.
    pub(crate) fn end(&self, model: &str, change: impl FnOnce(&mut Meter, Monotonic)) {
        let now = self.clock.moment();
        {
            let mut meters = self.lock();
            if let Some(meter) = meters.get_mut(model) {
                change(meter, now);
                if meter.is_idle() {
                    self.is_metering.store(is_metering(&meters), Ordering::Release);
                }
            }
        }
        self.notify_queues();
    }

    /// Tells the queues that a model may have room, if one of them waits for it.
    pub(crate) fn notify_queues(&self) {
        if self.is_awaited.swap(false, Ordering::AcqRel) {
            self.queues.look_everywhere();
        }
    }
}

pub(crate) fn is_metering(meters: &BTreeMap<Arc<str>, Meter>) -> bool {
    meters.values().any(|meter| !meter.is_idle())
}

/// The meter of a model, which is made if there is none.
pub(crate) fn meter_of<'m>(
    meters: &'m mut BTreeMap<Arc<str>, Meter>,
    model: &str,
) -> (Arc<str>, &'m mut Meter) {
    let name = match meters.get_key_value(model) {
        Some((known, _)) => Arc::clone(known),
        None => Arc::from(model),
    };
    let meter =
        meters.entry(Arc::clone(&name)).or_insert_with(|| Meter::new(ModelLimits::default()));
    (name, meter)
}

/// The instant `age` before `now`; the process's first one at the earliest.
pub(crate) fn before(now: Monotonic, age: Duration) -> Monotonic {
    Monotonic(now.0.saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX)))
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
