//! A schedule's actor: it alone decides the occurrences of its schedule and starts their work.
//!
//! ```text
//!   timer ─▶ due occurrences ─▶ for each, one commit: the cursor, its outcome, the new work
//! ```
//!
//! The work lives in the partition of its schedule, so an occurrence and its work are durable together or not at all,
//! and it happens once over any crash. A schedule between two occurrences is a row and a timer. The shard's supervisor
//! spawns the actor when a message comes; the actor stops when it has nothing to do.

mod overlap;
mod start;

use std::sync::Arc;

use callboard_domain::event::EventName;
use callboard_domain::schedule::{Changed, DELETED, Decision, Due, Outcome, Schedule, Timetable};
use callboard_domain::{Error, Timestamp};
use callboard_store::Op;

pub use crate::tables::work::{Start, Target};

use crate::commit::durable;
pub(crate) use crate::kernel::address::ScheduleAddress as Address;
use crate::kernel::item::{Activation, Done, Item};
use crate::kernel::supervisor::Reason;
pub(crate) use crate::messages::schedule::{Changes, Message, NewTarget, Reply};
use crate::node::Node;
use crate::node::timers::TimerKey;
use crate::tables::schedules::{self, RunRow, ScheduleRow};
use crate::upkeep::retention;

/// A schedule in the memory of its actor; `None` if there is none.
#[derive(Default)]
pub(crate) struct ScheduleItem(Option<Loaded>);

struct Loaded {
    row: ScheduleRow,
    timetable: Timetable,
}

impl Item for ScheduleItem {
    const NAME: &'static str = "schedule";
    type Address = Address;
    type Message = Message;
    type Shared = Node;

    fn new(_: &Arc<Node>, _: &Address) -> Self {
        Self::default()
    }

    async fn start(held: &mut Activation<Self>, reason: Reason) -> Done {
        held.load().await?;
        match reason {
            Reason::Woken => Ok(()),
            Reason::Restarted => held.advance().await,
            Reason::GivenUp => {
                // The next start of the server or a request wakes the schedule again.
                tracing::error!(schedule = %held.address.schedule, "the schedule stands still");
                Ok(())
            }
        }
    }

    async fn handle(held: &mut Activation<Self>, message: Message) -> Done {
        match message {
            Message::TimePassed | Message::RunEnded | Message::Recover => held.advance().await,
            Message::Change(changes, reply) => held.change(*changes, reply).await,
            Message::Delete(reply) => held.delete(reply).await,
            Message::Trigger(reply) => held.trigger(reply).await,
        }
    }

    fn is_idle(&self) -> bool {
        true
    }
}

impl Activation<ScheduleItem> {
    async fn load(&mut self) -> Done {
        let Address { environment, schedule } = self.address;
        let store = &*self.node.shard(schedule.partition()).store;
        let Some(row) = schedules::schedule(store, environment, schedule).await? else {
            self.item.0 = None;
            return Ok(());
        };
        let timetable = Timetable::compile(&row.schedule.settings.timing)?;
        let planned = row.schedule.clone().planned(&timetable);
        let is_moved = planned != row.schedule;
        let row = ScheduleRow { schedule: planned, ..row };
        self.item.0 = Some(Loaded { row: row.clone(), timetable });
        // The data of the time zone are others than those by which the row was written.
        if is_moved { self.commit(row, Vec::new()).await } else { Ok(()) }
    }

    fn own(&self) -> Result<&Loaded, Error> {
        let missing = || Error::not_found("schedule", self.address.schedule);
        self.item.0.as_ref().ok_or_else(missing)
    }

    /// Decides everything that is due, and asks to be woken for the rest.
    async fn advance(&mut self) -> Done {
        if self.item.0.is_none() || self.node.settings.stands_still {
            return Ok(());
        }
        self.forget_ended().await?;
        self.start_queued().await?;
        while let Some(due) = self.due() {
            self.decide(&due).await?;
        }
        self.watch_for_queued().await?;
        self.arm();
        Ok(())
    }

    fn due(&self) -> Option<Due> {
        let own = self.item.0.as_ref()?;
        own.row.schedule.due(&own.timetable, self.node.wall())
    }

    async fn decide(&mut self, due: &Due) -> Done {
        if let Some(missed) = due.missed {
            self.record(missed, Outcome::Missed, None, |schedule| schedule).await?;
        }
        for at in &due.run {
            let depends_on_ends = self.item.0.as_ref().is_some_and(|own| {
                let Schedule { settings, running, .. } = &own.row.schedule;
                settings.overlap.depends_on_ends(running.len())
            });
            if depends_on_ends {
                self.forget_ended().await?;
            }
            self.occur(*at).await?;
        }
        self.forget_old_runs().await?;
        if let Some(own) = &self.item.0
            && own.row.schedule.cursor < due.last
        {
            let row = own.decided(due.last, |schedule| schedule);
            self.commit(row, Vec::new()).await?;
        }
        Ok(())
    }

    /// Removes forgotten occurrences now and then.
    async fn forget_old_runs(&self) -> Done {
        if self.node.kernel.ports.entropy.bits() & 0x3f != 0 {
            return Ok(());
        }
        let Address { environment, schedule } = self.address;
        let partition = schedule.partition();
        let shard = self.node.shard(partition);
        let old = schedules::old_runs(&*shard.store, environment, schedule).await?;
        if !old.is_empty() {
            // The outcome is not awaited: the rest goes the next time.
            drop(shard.commit(partition, old));
        }
        Ok(())
    }

    async fn record(
        &mut self,
        at: Timestamp,
        outcome: Outcome,
        error: Option<String>,
        change: impl FnOnce(Schedule) -> Schedule,
    ) -> Done {
        let Some(own) = &self.item.0 else { return Ok(()) };
        let row = own.decided(at, change);
        let run = RunRow { error, ..RunRow::of(at, outcome, self.node.wall()) };
        let rows = self.rows_of_run(&row, &run);
        self.commit(row, rows).await
    }

    pub(super) fn rows_of_run(&self, row: &ScheduleRow, run: &RunRow) -> Vec<Op> {
        self.count(run.outcome);
        schedules::rows_of_run(self.address.environment, row, run)
    }

    /// Counts an occurrence, if it is one of production.
    pub(super) fn count(&self, outcome: Outcome) {
        if self.address.environment.is_live() {
            self.node.observers.metrics.occurrences[outcome as usize].add(1);
        }
    }

    async fn commit(&mut self, row: ScheduleRow, mut rows: Vec<Op>) -> Done {
        let Address { environment, schedule } = self.address;
        rows.extend(schedules::put(environment, &row));
        let partition = schedule.partition();
        match self.node.shard(partition).commit(partition, rows).await {
            callboard_store::Outcome::Committed => {}
            outcome @ (callboard_store::Outcome::Fenced
            | callboard_store::Outcome::Conflict(_)
            | callboard_store::Outcome::NotApplied(_)
            | callboard_store::Outcome::Unknown(_)) => {
                return Err(durable::NotCommitted(outcome).into());
            }
        }
        self.become_(row)
    }

    fn become_(&mut self, row: ScheduleRow) -> Done {
        let timing = &row.schedule.settings.timing;
        let before = self.item.0.take();
        let known = before.filter(|own| own.row.schedule.settings.timing == *timing);
        let timetable = match known {
            Some(own) => own.timetable,
            None => Timetable::compile(timing)?,
        };
        self.item.0 = Some(Loaded { row, timetable });
        Ok(())
    }

    fn arm(&self) {
        let key = TimerKey::Schedule(self.address);
        let at = self.item.0.as_ref().and_then(|own| own.row.schedule.wakes_at());
        let shard = self.node.shard(self.address.schedule.partition());
        match at {
            Some(at) => shard.timers.set(key, at),
            None => shard.timers.forget(key),
        }
    }

    async fn change(&mut self, changes: Changes, reply: Reply<ScheduleRow>) -> Done {
        let Changes { settings, before, target } = changes;
        // The occurrences that are due go by the settings before the change.
        self.advance().await?;
        let own = match self.own() {
            Ok(own) if own.row.schedule.settings == before => own,
            Ok(_) => {
                let why = "the schedule was changed in the meantime: try again".into();
                let _ = reply.send(Err(Error::InvalidState(why)));
                return Ok(());
            }
            Err(error) => {
                let _ = reply.send(Err(error));
                return Ok(());
            }
        };
        let (now, environment) = (self.node.wall(), self.address.environment);
        let timetable = Timetable::compile(&settings.timing)?;
        let (holdings, before) = (&self.node.limits.holdings, own.row.schedule.account.clone());
        let taken_by = target.as_ref().map(|target| &target.owner.id).filter(|id| **id != before);
        if let Some(Err(error)) =
            taken_by.map(|account| holdings.admit_schedule(environment, account))
        {
            let _ = reply.send(Err(error));
            return Ok(());
        }
        let Changed { schedule, dropped } = own.row.schedule.changed(settings, &timetable, now);
        let (mut row, mut rows) = (ScheduleRow { schedule, ..own.row.clone() }, Vec::new());
        let plan_before = row.plan;
        if let Some(NewTarget { text, plan, owner }) = target {
            rows = schedules::target(environment, row.schedule.id, &text);
            // Otherwise one account could have work done in another's name, and with its rights.
            row.schedule.account = owner.id;
            (row.role, row.plan) = (owner.role, plan);
            self.node.limits.holdings.store(environment, &row.schedule.account, &rows);
        }
        for (at, why) in dropped {
            rows.extend(self.rows_of_run(&row, &RunRow::dropped(at, now, why)));
        }
        rows.extend(schedules::event(environment, EventName::ScheduleUpdated, now, &row, None));
        let committed = self.commit(row.clone(), rows).await;
        if row.schedule.account != before {
            let lost = if committed.is_ok() { &before } else { &row.schedule.account };
            self.node.limits.holdings.lost_schedule(environment, lost);
        }
        committed?;
        self.arm();
        if let Some(plan) = plan_before.filter(|_| plan_before != row.plan) {
            retention::forget_plan(&self.node, environment, plan).await?;
        }
        // The client may have left.
        let _ = reply.send(Ok(row));
        Ok(())
    }

    async fn delete(&mut self, reply: Reply<ScheduleRow>) -> Done {
        let row = match self.own() {
            Ok(own) => own.row.clone(),
            Err(error) => {
                let _ = reply.send(Err(error));
                return Ok(());
            }
        };
        let Address { environment, schedule } = self.address;
        let (partition, now) = (schedule.partition(), self.node.wall());
        let store = &*self.node.shard(partition).store;
        let mut rows = schedules::removal(store, environment, schedule).await?;
        for at in row.schedule.left_over(now) {
            let (skipped, run) = (EventName::ScheduleSkipped, RunRow::dropped(at, now, DELETED));
            rows.extend(schedules::event(environment, skipped, now, &row, Some(&run)));
        }
        rows.extend(schedules::event(environment, EventName::ScheduleDeleted, now, &row, None));
        match self.node.shard(partition).commit(partition, rows).await {
            callboard_store::Outcome::Committed => {}
            outcome @ (callboard_store::Outcome::Fenced
            | callboard_store::Outcome::Conflict(_)
            | callboard_store::Outcome::NotApplied(_)
            | callboard_store::Outcome::Unknown(_)) => {
                return Err(durable::NotCommitted(outcome).into());
            }
        }
        self.node.limits.holdings.lost_schedule(environment, &row.schedule.account);
        self.item.0 = None;
        self.arm();
        if let Some(plan) = row.plan {
            retention::forget_plan(&self.node, environment, plan).await?;
        }
        let _ = reply.send(Ok(row));
        Ok(())
    }

    async fn trigger(&mut self, reply: Reply<RunRow>) -> Done {
        let may = if self.node.settings.stands_still {
            let says = "the server was started with --paused: no schedule runs";
            Err(Error::InvalidState(says.to_owned()))
        } else {
            self.own().map(drop)
        };
        if let Err(error) = may {
            let _ = reply.send(Err(error));
            return Ok(());
        }
        self.forget_ended().await?;
        let Address { environment, schedule: id } = self.address;
        let mut at = self.node.wall();
        let store = &*self.node.shard(id.partition()).store;
        // Two within a millisecond are two occurrences.
        while schedules::run(store, environment, id, at).await?.is_some() {
            at = at.after(std::time::Duration::from_millis(1));
        }
        let Some(own) = &self.item.0 else { return Ok(()) };
        let Schedule { settings, running, queued, .. } = &own.row.schedule;
        match settings.overlap.decide(running.len(), queued.len()) {
            Decision::Start => {}
            Decision::CancelAndStart => self.cancel_running().await,
            Decision::Queue | Decision::Skip => {
                let in_the_way = own.row.schedule.in_the_way();
                let why = format!("{in_the_way}, and overlap is {}", settings.overlap);
                let _ = reply.send(Err(Error::InvalidState(why)));
                return Ok(());
            }
        }
        let run = self.begin(at, false).await?;
        let _ = reply.send(run.ok_or(Error::Internal));
        self.arm();
        Ok(())
    }
}

impl Loaded {
    /// The row once everything up to `at` is decided.
    fn decided(&self, at: Timestamp, change: impl FnOnce(Schedule) -> Schedule) -> ScheduleRow {
        let schedule = change(self.row.schedule.decided(at, &self.timetable));
        ScheduleRow { schedule, ..self.row.clone() }
    }
}
