//! Budgets of many tasks: the spent and reserved amounts, and the tasks that wait for room.
//!
//! ```text
//!   submission ─▶ admit (reject)           lease ─▶ reserve, or park the task (wait)
//!   result     ─▶ settle: the cost is a row of the unit's own batch, with the events of thresholds
//!   each minute ─▶ fold: these rows become one sum in the budget's row, in one commit
//! ```
//!
//! Sums and reservations stand in memory, and a start makes them again from the rows and from the unfinished tasks.
//! Without a budget nothing here costs more than one read of a flag. The sandbox has no budgets: its model costs
//! nothing.

mod settle;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use callboard_domain::budget::Money;
use callboard_domain::id::{BudgetId, Environment, TaskId};
use callboard_domain::machine::Step;
use callboard_domain::spending::{Budget, Fit, Ledger, MAX_BUDGETS, OnExceed, Subject};
use callboard_domain::task::Spec;
use callboard_domain::task::{Route, State, Task};
use callboard_domain::unit::{Change, Unit};
use callboard_domain::{Error, Rule, Timestamp};
use callboard_store::{Error as StoreError, Store};
use tokio::sync::Notify;

use crate::kernel::planted::{Fault, is_planted};
use crate::limits::limit::{Limit, NewTask};
use crate::limits::prices::CurrentPrices;
use crate::limits::reservation::{BudgetShare, Giver, Reservation};
use crate::tables;

pub(crate) use settle::Settlement;

/// The most parked tasks that go back to their queues at a time.
const UNPARKED: usize = if cfg!(test) { 4 } else { 5_000 };
/// The most budgets that one row of a cost names, so that it stays a small row, and the most rows of a cost.
const OF_ROW: usize = 64;
const PARTS: u16 = 16;
const _: () = assert!(MAX_BUDGETS <= OF_ROW * PARTS as usize, "a cost has a row for each budget");

/// The budgets of a project.
#[derive(Debug)]
pub(crate) struct Budgets {
    pub(crate) environment: Environment,
    pub(crate) any: AtomicBool,
    pub(crate) inner: Mutex<Inner>,
    /// The lock of a writer of budget rows, so that the rows are written in order.
    pub(crate) writing: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) ledgers: BTreeMap<BudgetId, Ledger>,
    held: HashMap<TaskId, Reserved>,
    /// The tasks that wait, each with the budget that had no room, its place there and its highest cost.
    parked: HashMap<TaskId, (BudgetId, Place, Money)>,
    /// The queues of these tasks, for the figures; without those that could not be read when their turn came.
    queues: HashMap<TaskId, Box<str>>,
    /// The same tasks by their budgets, in the order of a queue.
    lines: BTreeMap<BudgetId, BTreeSet<Place>>,
    /// The budgets in which something may fit that did not fit before.
    freed: BTreeMap<BudgetId, Round>,
    /// Told when something may fit that did not fit before.
    wake: Arc<Notify>,
}

/// The place of a task that waits: the highest priority first, then the oldest.
type Place = (Reverse<u8>, TaskId);

/// A task that may fit into the budget now, and its highest cost.
type Fitting = (Place, BudgetId, Money);

/// A round through the tasks that wait for a budget, which comes in parts: the oldest may cost too much, and must
/// not keep the others from their turn.
#[derive(Debug, Clone, Copy, Default)]
struct Round {
    looked_at: Option<Place>,
    /// Something was freed since the round began.
    again: bool,
}

impl Giver for Budgets {
    fn take_back(&self, shares: &[BudgetShare]) {
        self.inner().release(shares);
    }
}

impl Limit for Budgets {
    fn enter(&self, new: &NewTask<'_>, reserved: &mut Reservation) {
        if self.is_idle() {
            return;
        }
        let spec = &new.task.spec;
        let worst = new.prices.worst_cost(spec.called().once(), new.inputs, spec.max_tokens);
        Self::enter(self, new.task, worst, reserved);
    }

    fn undo(&self, _: Environment, spec: &Spec) {
        self.forget(spec.id);
    }

    /// Nothing: the cost of a step stands in its unit ([`settle`]).
    fn stepped(&self, _: Environment, _: &Step<Task>) {}
}

/// The room for a lease.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// The lease fits, and is reserved for.
    Now,
    /// A budget has no room: the task waits for it.
    Later,
    /// A budget can never have room, for this reason.
    Never(String),
}

/// The reservations of a task.
#[derive(Debug, Default)]
struct Reserved {
    of: Vec<BudgetShare>,
    /// True if a worker has the task: its answer will be charged.
    runs: bool,
    /// The cost of the task's earlier answers, which is charged already.
    charged: Money,
}

impl Budgets {
    /// The budgets of a project that has none yet; `wake` is told when something may fit that did not fit before.
    pub(crate) fn new(environment: Environment, wake: Arc<Notify>) -> Self {
        let inner = Inner {
            ledgers: BTreeMap::new(),
            held: HashMap::new(),
            parked: HashMap::new(),
            queues: HashMap::new(),
            lines: BTreeMap::new(),
            freed: BTreeMap::new(),
            wake,
        };
        let (any, inner) = (AtomicBool::new(false), Mutex::new(inner));
        Self { environment, any, inner, writing: tokio::sync::Mutex::default() }
    }

    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tasks that wait for a budget, by queue: their number, and the creation of the oldest.
    pub(crate) fn waiting(&self) -> Vec<(String, u64, Timestamp)> {
        let mut waiting: BTreeMap<&str, (u64, TaskId)> = BTreeMap::new();
        let inner = self.inner();
        for task in inner.parked.keys() {
            let queue = inner.queues.get(task).map_or("other", |queue| queue);
            let (count, oldest) = waiting.entry(queue).or_insert((0, *task));
            (*count, *oldest) = (*count + 1, (*task).min(*oldest));
        }
        let each = waiting.into_iter();
        each.map(|(queue, (count, oldest))| (queue.to_owned(), count, oldest.created_at()))
            .collect()
    }

    /// True without a budget.
    pub(crate) fn is_idle(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    /// Every budget with its amounts at `now`.
    pub(crate) fn all(&self, now: Timestamp) -> Vec<Ledger> {
        let mut inner = self.inner();
        inner.roll(now);
        inner.ledgers.values().cloned().collect()
    }

    /// A budget with its amounts at `now`.
    pub(crate) fn get(&self, id: BudgetId, now: Timestamp) -> Option<Ledger> {
        let mut inner = self.inner();
        inner.roll(now);
        inner.ledgers.get(&id).cloned()
    }

    /// Adds a budget that is durable, or replaces its earlier version.
    pub(crate) fn set(&self, budget: Budget, now: Timestamp) {
        let mut inner = self.inner();
        let (since, _) = budget.period(now);
        let fresh = Ledger::new(budget.clone(), since, Money::ZERO, now);
        let id = budget.id;
        let ledger = inner.ledgers.entry(id).or_insert(fresh);
        ledger.budget = Arc::new(budget);
        inner.freed(id);
        self.any.store(true, Ordering::Release);
    }

    pub(crate) fn remove(&self, id: BudgetId) {
        let mut inner = self.inner();
        inner.ledgers.remove(&id);
        inner.freed(id);
        // Parked tasks still have to go back to their queues.
        let idle = inner.ledgers.is_empty() && inner.parked.is_empty();
        self.any.store(!idle, Ordering::Release);
    }

    /// The reservations and the tasks that wait, for tests.
    #[cfg(test)]
    pub(crate) fn held(&self) -> Vec<String> {
        let inner = self.inner();
        let held = inner.held.keys().map(|task| format!("{task} has a reservation"));
        let parked = inner.parked.keys().map(|task| format!("{task} waits for a budget"));
        let reserved = inner.ledgers.iter().filter(|(_, it)| it.reserved != Money::ZERO);
        let reserved = reserved.map(|(id, it)| format!("{id} has {} reserved", it.reserved));
        held.chain(parked).chain(reserved).collect()
    }

    /// True if the task waits for a budget.
    pub(crate) fn has_parked(&self, task: TaskId) -> bool {
        self.inner().parked.contains_key(&task)
    }

    /// The reason why the cost of a task that may call `model`, which has no price, cannot be bounded: a
    /// budget is for the task.
    pub(crate) fn unbounded(&self, subject: Subject<'_>, model: &str) -> Option<String> {
        let inner = self.inner();
        let mut ledgers = inner.ledgers.iter();
        let found = ledgers.find(|(_, ledger)| ledger.budget.matches.matches(subject));
        found.map(|(id, _)| unpriced(*id, model))
    }

    /// Reserves for a new task in the budgets that reject. The reservation becomes the task's with [`Self::enter`].
    ///
    /// # Errors
    /// [`Error::BudgetExceeded`] for a budget that rejects, [`Error::Invalid`] if a budget matches and
    /// the model has no price; nothing is reserved then.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        subject: Subject<'_>,
        worst: Option<Money>,
        reservation: &mut Reservation,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut inner = self.inner();
        inner.roll(now);
        let mut promises = Vec::new();
        for (id, ledger) in &inner.ledgers {
            if !ledger.budget.matches.matches(subject) {
                continue;
            }
            let rejects = ledger.budget.on_exceed == OnExceed::Reject;
            match ledger.fit(worst, reservation.beside_ledger(*id)) {
                Fit::Unpriced => {
                    let says = unpriced(*id, subject.model);
                    return Err(Error::invalid("model", Rule::Enum, says));
                }
                Fit::Exceeds if rejects => return Err(exceeded(ledger)),
                Fit::Now if rejects => promises.push((*id, worst.unwrap_or_default())),
                Fit::Now | Fit::Exceeds => {}
            }
        }
        if is_planted(Fault::StepsReserveLate) {
            return Ok(());
        }
        if !reservation.is_dry() {
            for (id, amount) in &promises {
                if let Some(ledger) = inner.ledgers.get_mut(id) {
                    ledger.reserved += *amount;
                }
            }
            reservation.set_giver(self);
        }
        reservation.add(promises);
        Ok(())
    }

    /// Reserves for the new tasks of a submission, or refuses it; for the tasks of steps it was reserved when
    /// their steps were decided.
    ///
    /// # Errors
    /// Those of [`Self::reserve`]; nothing is reserved then.
    pub(crate) fn admit(
        self: &Arc<Self>,
        prices: &CurrentPrices,
        unit: &Unit,
        reservation: &mut Reservation,
    ) -> Result<(), Error> {
        let new = unit.changes.iter().filter_map(|change| {
            let Change::NewTask(step, inputs) = change else { return None };
            Some((step, inputs))
        });
        for (index, (step, inputs)) in new.enumerate() {
            let spec = &step.next.spec;
            if spec.origin.step.is_some() {
                continue;
            }
            let worst = prices.worst_cost(spec.called().once(), inputs, spec.max_tokens);
            let model = spec.called().unpriced(inputs.confidence.as_deref(), &prices.get());
            let model = model.filter(|_| worst.is_none());
            let unbounded = model.and_then(|model| self.unbounded(Subject::from(&**spec), model));
            let reserved = match unbounded {
                Some(says) => Err(Error::invalid("model", Rule::Enum, says)),
                None => self.reserve(Subject::from(&**spec), worst, reservation, unit.now),
            };
            reserved.map_err(|error| match spec.origin.batch {
                Some(_) => error.within(&format!("tasks[{index}]")),
                None => error,
            })?;
        }
        Ok(())
    }

    /// Releases the reservation for a task that did not come to be.
    pub(crate) fn forget(&self, task: TaskId) {
        let mut inner = self.inner();
        if let Some(Reserved { of, .. }) = inner.held.remove(&task) {
            inner.release(&of);
        }
    }

    /// Reserves the share of a new task in its budgets that reject: out of its unit's reservation, as far as that
    /// goes.
    pub(crate) fn enter(&self, task: &Task, worst: Option<Money>, reservation: &mut Reservation) {
        let mut inner = self.inner();
        // A start finds tasks that were submitted while it reads.
        if inner.held.contains_key(&task.spec.id) {
            return;
        }
        let promises = inner.matching(task, |budget| budget.on_exceed == OnExceed::Reject);
        let amount = worst.unwrap_or_default();
        let promises: Vec<_> = promises.into_iter().map(|id| (id, amount)).collect();
        inner.reserve(task.spec.id, promises.clone());
        let reserved = promises.iter().filter_map(|it| reservation.take(it)).collect::<Vec<_>>();
        inner.release(&reserved);
    }

    /// Reserves for a lease, or parks the task. A budget that rejects has no say in a first attempt, for which
    /// it has reserved already.
    pub(crate) fn lease(&self, task: &Task, worst: Option<Money>, now: Timestamp) -> Room {
        let mut inner = self.inner();
        inner.roll(now);
        let id = task.spec.id;
        let has_paid = !cost_so_far(task).is_zero();
        // Another model may be for budgets that the first one was not for.
        let has_moved = task.route != Route::default();
        let matching = inner.matching(task, |_| true);
        for budget in &matching {
            let ledger = &inner.ledgers[budget];
            let asks = match ledger.budget.on_exceed {
                OnExceed::Wait => true,
                OnExceed::Reject => has_paid || has_moved && !inner.has_reserved(id, *budget),
                OnExceed::Alert => false,
            };
            match ledger.fit(worst, Money::ZERO) {
                Fit::Unpriced if asks && !is_planted(Fault::UnpricedWaits) => {
                    inner.leave(id);
                    return Room::Never(unpriced(*budget, task.model()));
                }
                Fit::Exceeds | Fit::Unpriced if asks => {
                    let place = (Reverse(task.priority()), id);
                    inner.park(place, *budget, worst.unwrap_or_default());
                    inner.queues.insert(id, task.spec.queue.as_str().into());
                    return Room::Later;
                }
                Fit::Now | Fit::Exceeds | Fit::Unpriced => {}
            }
        }
        inner.begin(task, &matching, worst);
        Room::Now
    }

    /// Reserves for an unfinished task that is found at a start.
    pub(crate) async fn recover(
        &self,
        prices: &CurrentPrices,
        store: &dyn Store,
        task: &Task,
    ) -> Result<(), StoreError> {
        let runs = match task.state {
            State::Running { .. } => true,
            State::Scheduled { .. } | State::Ready | State::Backoff { .. } => false,
            // Charged when its output came.
            State::AwaitingApproval { .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Cancelled { .. }
            | State::Rejected { .. } => return Ok(()),
        };
        let matching =
            self.inner().matching(task, |budget| runs || budget.on_exceed == OnExceed::Reject);
        if matching.is_empty() {
            return Ok(());
        }
        let inputs = tables::inputs(store, self.environment, task.spec.id).await?;
        let inputs = task.amended(inputs);
        let worst = prices.worst_cost(task.spec.called().once(), &inputs, task.max_tokens());
        if runs {
            self.inner().begin(task, &matching, worst);
        } else if cost_so_far(task).is_zero() {
            self.enter(task, worst, &mut Reservation::default());
        }
        Ok(())
    }

    /// Parked tasks that may fit now.
    pub(crate) fn unpark(&self, now: Timestamp) -> Vec<Fitting> {
        let mut inner = self.inner();
        inner.roll(now);
        let mut fitting = Vec::new();
        for (id, round) in std::mem::take(&mut inner.freed) {
            inner.look(id, round, &mut fitting);
        }
        for ((_, task), ..) in &fitting {
            inner.leave(*task);
        }
        let idle = inner.ledgers.is_empty() && inner.parked.is_empty();
        self.any.store(!idle, Ordering::Release);
        fitting
    }
}

impl Inner {
    fn roll(&mut self, now: Timestamp) {
        let rolled =
            self.ledgers.iter_mut().filter_map(|(id, ledger)| ledger.roll(now).then_some(*id));
        for id in rolled.collect::<Vec<_>>() {
            self.freed(id);
        }
    }

    /// Something may fit into the budget that did not fit before.
    pub(crate) fn freed(&mut self, budget: BudgetId) {
        if self.lines.contains_key(&budget) {
            self.wake.notify_one();
            let round = self.freed.entry(budget).or_default();
            round.again = round.looked_at.is_some();
        }
    }

    /// The task waits for the budget.
    pub(crate) fn park(&mut self, place: Place, budget: BudgetId, worst: Money) {
        self.leave(place.1);
        self.parked.insert(place.1, (budget, place, worst));
        self.lines.entry(budget).or_default().insert(place);
    }

    /// The task waits for no budget any more.
    fn leave(&mut self, task: TaskId) {
        let Some((budget, place, _)) = self.parked.remove(&task) else { return };
        self.queues.remove(&task);
        if let Some(line) = self.lines.get_mut(&budget) {
            line.remove(&place);
            if line.is_empty() {
                self.lines.remove(&budget);
            }
        }
    }

    /// Adds those of the tasks that wait for a budget that fit into it together, a part of a round.
    fn look(&mut self, id: BudgetId, round: Round, fitting: &mut Vec<Fitting>) {
        let Some(line) = self.lines.get(&id) else { return };
        let ledger = self.ledgers.get(&id);
        let after = round.looked_at.map_or(Bound::Unbounded, Bound::Excluded);
        let (mut taken, mut looked_at) = (Money::ZERO, 0);
        for place in line.range((after, Bound::Unbounded)).take(UNPARKED) {
            looked_at += 1;
            let worst = self.parked.get(&place.1).map_or(Money::ZERO, |(.., worst)| *worst);
            // Without a budget, whoever waited for it goes on.
            if ledger.is_none_or(|ledger| ledger.fit(Some(worst), taken) == Fit::Now) {
                taken += worst;
                fitting.push((*place, id, worst));
            }
        }
        let last = line.range((after, Bound::Unbounded)).take(UNPARKED).last().copied();
        if looked_at == UNPARKED {
            self.freed.insert(id, Round { looked_at: last, again: round.again });
            self.wake.notify_one();
        } else if round.again {
            self.freed.insert(id, Round::default());
        }
    }

    fn has_reserved(&self, task: TaskId, budget: BudgetId) -> bool {
        let held = self.held.get(&task);
        held.is_some_and(|held| held.of.iter().any(|(of, _)| *of == budget))
    }

    fn matching(&self, task: &Task, wanted: impl Fn(&Budget) -> bool) -> Vec<BudgetId> {
        // The model that is called next, or was called.
        let subject = Subject { model: task.model(), ..Subject::from(&*task.spec) };
        let matches = |budget: &Budget| budget.matches.matches(subject) && wanted(budget);
        let all = self.ledgers.values().filter(|ledger| matches(&ledger.budget));
        all.map(|ledger| ledger.budget.id).collect()
    }

    /// A worker has the task from now on: its reservation stays, the rest is reserved.
    fn begin(&mut self, of: &Task, matching: &[BudgetId], worst: Option<Money>) {
        let task = of.spec.id;
        let before = self.held.remove(&task).map(|held| held.of).unwrap_or_default();
        self.release(&before);
        let amount = |id: &BudgetId| {
            let ledger = self.ledgers.get(id);
            let reserves = ledger.is_some_and(|it| it.budget.on_exceed != OnExceed::Alert);
            let known = before.iter().find(|(of, _)| of == id).map(|(_, amount)| *amount);
            if reserves { known.or(worst).unwrap_or_default() } else { Money::ZERO }
        };
        let promises: Vec<_> = matching.iter().map(|id| (*id, amount(id))).collect();
        self.reserve(task, promises);
        if let Some(held) = self.held.get_mut(&task) {
            held.runs = true;
            held.charged = cost_so_far(of);
        }
        self.leave(task);
    }

    fn reserve(&mut self, task: TaskId, of: Vec<BudgetShare>) {
        for (id, amount) in &of {
            if let Some(ledger) = self.ledgers.get_mut(id) {
                ledger.reserved += *amount;
            }
        }
        if !of.is_empty() {
            self.held.insert(task, Reserved { of, ..Reserved::default() });
        }
    }

    fn release(&mut self, of: &[BudgetShare]) {
        for (id, amount) in of {
            if let Some(ledger) = self.ledgers.get_mut(id) {
                ledger.release(*amount);
            }
            self.freed(*id);
        }
    }
}

/// The cost of the answers that did not count, of a task that tries again.
fn cost_so_far(task: &Task) -> Money {
    let usage = task.correction.as_ref().map(|correction| correction.answer.usage);
    usage.map(|usage| Money::from_usd(usage.total_cost)).unwrap_or_default()
}

fn unpriced(budget: BudgetId, model: &str) -> String {
    format!("model {model} has no price, and budget {budget} is for it: its cost cannot be bounded")
}

fn exceeded(ledger: &Ledger) -> Error {
    let Ledger { budget, spent, reserved, .. } = ledger;
    Error::BudgetExceeded(format!(
        "budget {} has no room for the highest cost of the task: of {} USD, {} are spent and {} \
         reserved",
        budget.id,
        budget.limit.as_usd(),
        spent.as_usd(),
        reserved.as_usd()
    ))
}
