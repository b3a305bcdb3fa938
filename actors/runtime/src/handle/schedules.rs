//! Schedules.

use callboard_domain::event::EventName;
use callboard_domain::execution::program::{About, Program};
use callboard_domain::id::{Environment, ExecutionId, PlanId, ScheduleId};
use callboard_domain::query::{Page, Schedules, Window};
use callboard_domain::schedule::{Occurrence, Schedule, Settings, Timetable, Timing};
use callboard_domain::{Error, Rule};
use callboard_store::Outcome;
use serde_json::Value;
use tokio::sync::oneshot;

use super::{COMMAND, Handle, within};
use crate::items::submission::prices::{self, Asker};
use crate::items::submission::{NewWork, Runs, StartExecution};
use crate::kernel::address::ScheduleAddress as Address;
use crate::kernel::removal_locks::UseGuard;
use crate::messages::schedule::{Changes, Message, NewTarget};
use crate::messages::submission::Owner;
use crate::node::timers::TimerKey;
use crate::read::unreadable;
use crate::tables::schedules::{self, RunRow, ScheduleRow, TargetRow};
use crate::tables::work::Target;

/// A schedule with its target.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleDetail {
    /// The schedule.
    pub row: ScheduleRow,
    /// The target as it was given.
    pub target: Value,
}

/// A target, parsed and as JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenTarget {
    /// The parsed target.
    pub target: Target,
    /// The JSON of the request.
    pub given: Value,
}

impl GivenTarget {
    fn text(self) -> String {
        let Self { target, given } = self;
        serde_json::to_string(&TargetRow { target, given }).expect("it has a JSON form")
    }
}

impl Handle {
    /// Makes a schedule. After `Ok` the schedule survives a power cut.
    ///
    /// # Errors
    /// [`Error::Invalid`] for the timing, [`Error::TooManySchedules`], [`Error::QuotaExceeded`], those of
    /// the target, [`Error::Unavailable`].
    pub async fn create_schedule(
        &self,
        owner: &Owner,
        settings: Settings,
        target: GivenTarget,
    ) -> Result<ScheduleDetail, Error> {
        let (now, environment) = (self.node.wall(), owner.environment);
        let timetable = compiled(&settings.timing, now)?;
        self.node.limits.holdings.admit(owner.environment, &owner.id, 0)?;
        // The plan stays from here on.
        let _kept = self.kept(environment, &target).await;
        let next = timetable.next_after(now).unwrap_or(now);
        let first = Occurrence::first(&settings.timing, next);
        let plan = self.checked_target(owner, target.target.clone(), first).await?;
        let partition = (self.node.kernel.ports.entropy.bits() & 0xff) as u8;
        let id = ScheduleId::from_u128(self.node.fresh_id(now, partition));
        let schedule = Schedule::created(id, owner.id.clone(), settings, &timetable, now);
        let row = ScheduleRow { schedule, role: owner.role, plan };
        let given = target.given.clone();
        let mut rows = schedules::target(environment, id, &target.text());
        rows.extend(schedules::put(environment, &row));
        rows.extend(schedules::event(environment, EventName::ScheduleCreated, now, &row, None));
        let shard = self.node.shard(partition);
        // The last check before the commit: a caller that is cut off here leaves no count behind.
        self.node.limits.holdings.admit_schedule(environment, &owner.id)?;
        self.node.limits.holdings.store(environment, &owner.id, &rows);
        match shard.commit(partition, rows).await {
            Outcome::Committed => {}
            Outcome::Fenced
            | Outcome::Conflict(_)
            | Outcome::NotApplied(_)
            | Outcome::Unknown(_) => {
                self.node.limits.holdings.lost_schedule(environment, &owner.id);
                return Err(Error::Unavailable("the schedule could not be stored"));
            }
        }
        if let Some(at) = row.schedule.wakes_at() {
            let address = Address { environment, schedule: id };
            shard.timers.set(TimerKey::Schedule(address), at);
        }
        Ok(ScheduleDetail { row, target: given })
    }

    /// Keeps the plan of a target from removal; whether it is there is to be looked at after that.
    async fn kept(
        &self,
        environment: Environment,
        target: &GivenTarget,
    ) -> Option<UseGuard<(Environment, PlanId)>> {
        let Target::Plan(id, _) = &target.target else { return None };
        Some(self.node.state.leaving_plans.keep(&(environment, *id)).await)
    }

    /// The plan of a target, which is checked as if it started now for this occurrence; the fields of a refusal
    /// are named within `target`.
    async fn checked_target(
        &self,
        owner: &Owner,
        target: Target,
        first: Occurrence,
    ) -> Result<Option<PlanId>, Error> {
        let order = self.order(owner, target, first).await;
        let order = order.map_err(|error| error.within("target"))?;
        let plan = order.plan();
        let (environment, account) = (owner.environment, owner.id.as_str());
        match order {
            NewWork::Tasks(requests, _) => {
                let asker = Asker { environment, account, template: None };
                for request in &requests {
                    let checked = prices::check_task(&self.node, asker, request);
                    checked.map_err(|error| error.within("target.task"))?;
                }
            }
            NewWork::Execution(begin) => {
                let StartExecution {
                    runs,
                    compiled,
                    review,
                    input,
                    options,
                    occurrence,
                    named,
                    ..
                } = *begin;
                let about = About::new(ExecutionId::from_u128(0), self.node.now(), occurrence);
                let about = about.with_tags(named.tags);
                let template = runs.template();
                let asker = Asker { environment, account, template: template.as_deref() };
                let defaults = self.node.task_defaults(environment);
                let program = Program::new(about, compiled, review, input, defaults);
                prices::check(&self.node, asker, (&program, options.max_cost), |_| true)?;
            }
            NewWork::Retry(..) | NewWork::Plan(..) => {}
        }
        Ok(plan)
    }

    /// The order of a target, checked as if it started now.
    pub(crate) async fn order(
        &self,
        owner: &Owner,
        mut target: Target,
        occurrence: Occurrence,
    ) -> Result<NewWork, Error> {
        target.fill(&occurrence)?;
        let (runs, prepared, options, named) = match target {
            Target::Task(request) => return Ok(NewWork::Tasks(vec![*request], false)),
            Target::Plan(id, start) => {
                let (options, named) = (start.options, start.named.clone());
                let plan = self.plan(owner.environment, owner.caller(), id).await?;
                let prepared = self.of_plan(owner, plan, start.into()).await?;
                (Runs::Plan(id, prepared.template.clone()), prepared, options, named)
            }
            Target::Template(id, version, start) => {
                let (options, named) = (start.options, start.named.clone());
                let deploy = Target::deploy(version, start);
                let (deployed, prepared) =
                    self.prepared(owner.environment, owner.caller(), &id, deploy).await?;
                (Runs::Deployed(deployed), prepared, options, named)
            }
        };
        let occurrence = Some(Box::new(occurrence));
        let begin = StartExecution { occurrence, ..prepared.begin(runs, options, named) };
        Ok(NewWork::Execution(Box::new(begin)))
    }

    /// A schedule.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn schedule(
        &self,
        environment: Environment,
        id: ScheduleId,
    ) -> Result<ScheduleDetail, Error> {
        let store = &*self.node.shard(id.partition()).store;
        let read = async {
            let row = schedules::schedule(store, environment, id).await?;
            let target = schedules::whole_target(store, environment, id).await?;
            Ok(row.zip(target))
        };
        let found = read.await.map_err(|error| unreadable(&error))?;
        let (row, target) = found.ok_or_else(|| Error::not_found("schedule", id))?;
        Ok(ScheduleDetail { row, target: target.given })
    }

    /// Schedules, the newest first, and their total number.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn schedules(
        &self,
        environment: Environment,
        query: &Schedules,
    ) -> Result<Page<ScheduleRow>, Error> {
        let page = schedules::schedules(self.node.store(), environment, query).await;
        page.map_err(|error| unreadable(&error))
    }

    /// The occurrences of a schedule that are remembered, the newest first.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn schedule_runs(
        &self,
        environment: Environment,
        id: ScheduleId,
        window: Window,
    ) -> Result<Page<RunRow>, Error> {
        self.schedule(environment, id).await?;
        let store = &*self.node.shard(id.partition()).store;
        let runs = schedules::runs(store, environment, id).await;
        let runs = runs.map_err(|error| unreadable(&error))?;
        let total = runs.len() as u64;
        let items = runs.into_iter().skip(window.offset).take(window.limit).collect();
        Ok(Page { items, total })
    }

    /// Changes a schedule: `change` makes the new settings from the old ones.
    ///
    /// # Errors
    /// [`Error::NotFound`], the refusals of `change`, [`Error::Invalid`] for the timing, those of the
    /// target, [`Error::TooManySchedules`] if a target makes it another account's,
    /// [`Error::InvalidState`] if it is changed at the same time, [`Error::Unavailable`].
    pub async fn change_schedule(
        &self,
        owner: &Owner,
        id: ScheduleId,
        change: impl FnOnce(Settings) -> Result<Settings, Error>,
        target: Option<GivenTarget>,
    ) -> Result<ScheduleDetail, Error> {
        let environment = owner.environment;
        let before = self.schedule(environment, id).await?;
        let known = before.row.schedule.settings;
        let settings = change(known.clone())?;
        if settings.timing != known.timing {
            compiled(&settings.timing, self.node.wall())?;
        }
        let (mut kept, mut plan) = (None, None);
        if let Some(target) = &target {
            self.node.limits.holdings.admit(owner.environment, &owner.id, 0)?;
            kept = self.kept(environment, target).await;
            let first = Occurrence::first(&settings.timing, self.node.wall());
            plan = self.checked_target(owner, target.target.clone(), first).await?;
        }
        let given = target.as_ref().map_or(before.target, |target| target.given.clone());
        let target =
            target.map(|target| NewTarget { text: target.text(), plan, owner: owner.clone() });
        let changes = Changes { settings, before: known, target };
        let row =
            self.ask_schedule(environment, id, |reply| Message::Change(Box::new(changes), reply));
        let row = row.await?;
        drop(kept);
        Ok(ScheduleDetail { row, target: given })
    }

    /// Deletes a schedule; its running work goes on.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn delete_schedule(
        &self,
        environment: Environment,
        id: ScheduleId,
    ) -> Result<ScheduleRow, Error> {
        self.schedule(environment, id).await?;
        self.ask_schedule(environment, id, Message::Delete).await
    }

    /// Starts the work of a schedule now, be it enabled or not.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InvalidState`] if a run is under way and the overlap policy lets
    /// none start beside it, [`Error::Unavailable`].
    pub async fn trigger_schedule(
        &self,
        environment: Environment,
        id: ScheduleId,
    ) -> Result<RunRow, Error> {
        self.schedule(environment, id).await?;
        self.ask_schedule(environment, id, Message::Trigger).await
    }

    async fn ask_schedule<T>(
        &self,
        environment: Environment,
        id: ScheduleId,
        message: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Message,
    ) -> Result<T, Error> {
        self.admit()?;
        let (reply, answer) = oneshot::channel();
        let address = Address { environment, schedule: id };
        self.node.shard(id.partition()).schedules.send(address, message(reply));
        within(COMMAND, answer).await?
    }
}

/// The timetable of a timing that begins now.
fn compiled(timing: &Timing, now: callboard_domain::Timestamp) -> Result<Timetable, Error> {
    use callboard_domain::schedule::TimetableError;
    if let Timing::At(at) = timing
        && *at <= now
    {
        return Err(Error::invalid("at", Rule::Range, "at must be in the future"));
    }
    Timetable::beginning(timing, now).map_err(|unfit| match unfit {
        TimetableError::Zone => Error::invalid("timezone", Rule::Enum, format!("timezone {unfit}")),
        TimetableError::Cron(_) | TimetableError::Never | TimetableError::LeftOut => {
            Error::invalid("cron", Rule::Format, format!("cron {unfit}"))
        }
    })
}
