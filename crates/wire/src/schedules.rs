//! Schedules on the wire.

use callboard_domain::id::{ExecutionId, PlanId, ScheduleId, TaskId};
use callboard_domain::query::Schedules;
use callboard_domain::schedule::{
    CatchUp, MAX_CRON, MAX_JITTER_MS, MAX_NAME, Overlap, Schedule, Settings, Started, Timing,
};
use callboard_domain::{Error, Rule, Timestamp};
use callboard_runtime::handle::{self, GivenTarget, ScheduleDetail};
use callboard_runtime::schedule::{Start, Target};
use callboard_runtime::tables::RunRow;
use serde::Serialize;
use serde_json::Value;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::common::{Iso, Paging, Text};
use super::executions::ExecutePlan;
use super::read::rule::{self, Parse};
use super::read::{Components, Field, Fields, Refused, shape};
use super::tasks::{Defaults, NewTask};
use super::templates::template_version;
use crate::request;

request! {
    /// A schedule to be created: with cron or at.
    #[derive(Debug, Clone)]
    pub struct CreateSchedule as "CreateSchedule" {
        /// The text for people.
        name: String = required("name", rule::text(rule::characters(1..=MAX_NAME))),
        /// The instants, and the rules for late and overlapping occurrences.
        timing: ScheduleTiming = flat(shape::<ScheduleTiming>()),
        /// The work that an occurrence starts.
        target: (ScheduleTarget, Value) = required("target", TargetRule),
    }
    check has_a_time
}

request! {
    /// A change of a schedule.
    #[derive(Debug, Clone)]
    pub struct ChangeSchedule as "ChangeSchedule" {
        /// The text for people.
        name: Option<String> = optional("name", rule::text(rule::characters(1..=MAX_NAME))),
        /// The instants, and the rules for late and overlapping occurrences.
        timing: ScheduleTiming = flat(shape::<ScheduleTiming>()),
        /// The work that an occurrence starts.
        target: Option<(ScheduleTarget, Value)> = optional("target", TargetRule),
    }
    check has_one_time
}

request! {
    /// The instants of a schedule, and its rules for late and overlapping occurrences.
    #[derive(Debug, Clone, Default)]
    pub struct ScheduleTiming as "ScheduleTiming" {
        /// Five fields: minute, hour, day of month, month, day of week; or @hourly, @daily, @weekly, @monthly.
        cron: Option<String> = optional("cron", rule::text(rule::bytes(1..=MAX_CRON))),
        /// Once, at this instant.
        at: Option<Timestamp> = optional("at", rule::instant()),
        /// The IANA time zone in which cron is read; by default UTC.
        timezone: Option<String> = optional("timezone", rule::text(rule::bytes(1..=64))),
        /// The rule while an earlier run is in progress; by default skip.
        overlap: Option<Overlap> = optional("overlap", rule::one_of(&Overlap::ALL, Overlap::as_str)),
        /// The missed occurrences to make up; by default last.
        catch_up: Option<CatchUp> = optional("catchUp", rule::one_of(&CatchUp::ALL, CatchUp::as_str)),
        /// The longest random delay, in milliseconds; by default 0.
        jitter_ms: Option<u64> = optional("jitterMs", rule::whole(0..=MAX_JITTER_MS)),
        /// False pauses the schedule; by default true.
        enabled: Option<bool> = optional("enabled", rule::flag()),
    }
}

request! {
    /// The work of an occurrence: a task, an execution of a plan, or a deployment of a template.
    #[derive(Debug, Clone)]
    pub struct ScheduleTarget as "ScheduleTarget" {
        /// A task.
        task: Option<NewTask> = optional("task", rule::object::<NewTask>()),
        /// An execution of this plan.
        plan_id: Option<PlanId> = optional("planId", plan_id()),
        /// A deployment of this template.
        template_id: Option<String> = optional("templateId", rule::text(rule::characters(1..=200))),
        /// Another version than the highest at each occurrence.
        version: Option<String> = optional("version", template_version()),
        /// The input, the gates and the options of an execution.
        start: ExecutePlan = flat(shape::<ExecutePlan>()),
    }
    check is_one_target
}

request! {
    /// The schedules to list; the newest first.
    #[derive(Debug)]
    pub struct ListSchedules as "ListSchedules" {
        /// Only those that are enabled, or that are not.
        enabled: Option<bool> = optional("enabled", rule::flag()),
        /// The page.
        page: Paging = flat(shape::<Paging>()),
    }
}

fn plan_id() -> impl Parse<PlanId> {
    let is_id = |text: &String| text.parse::<PlanId>().is_ok();
    rule::text(rule::characters(1..=64))
        .only(is_id, Rule::Format, "must be the id of a plan: dt_plan_…")
        .then(|text| text.parse().map_err(|_| Error::Internal))
}

/// Reads a target, and keeps the JSON of the request.
struct TargetRule;

impl Parse<(ScheduleTarget, Value)> for TargetRule {
    fn parse(&self, field: Field<'_>) -> Result<(ScheduleTarget, Value), Refused> {
        let given = field.value.clone();
        rule::object::<ScheduleTarget>().parse(field).map(|target| (target, given))
    }

    fn schema(&self, components: &mut Components) -> Value {
        rule::object::<ScheduleTarget>().schema(components)
    }
}

fn has_a_time(schedule: CreateSchedule, fields: &Fields<'_>) -> Result<CreateSchedule, Refused> {
    let ScheduleTiming { cron, at, .. } = &schedule.timing;
    if cron.is_none() && at.is_none() {
        return Err(fields.refuse("cron", Rule::Required, "is required, unless at is given"));
    }
    one_time(&schedule.timing, fields)?;
    Ok(schedule)
}

fn has_one_time(change: ChangeSchedule, fields: &Fields<'_>) -> Result<ChangeSchedule, Refused> {
    one_time(&change.timing, fields)?;
    Ok(change)
}

fn one_time(timing: &ScheduleTiming, fields: &Fields<'_>) -> Result<(), Refused> {
    let ScheduleTiming { cron, at, timezone, .. } = timing;
    if at.is_some() && (cron.is_some() || timezone.is_some()) {
        let says = "must not be given together with cron or timezone";
        return Err(fields.refuse("at", Rule::Unknown, says));
    }
    Ok(())
}

fn is_one_target(target: ScheduleTarget, fields: &Fields<'_>) -> Result<ScheduleTarget, Refused> {
    let ScheduleTarget { task, plan_id, template_id, version, start } = &target;
    let kinds = [task.is_some(), plan_id.is_some(), template_id.is_some()];
    if kinds.into_iter().filter(|is_given| *is_given).count() != 1 {
        let says = "or planId or templateId is required, and only one of the three";
        return Err(fields.refuse("task", Rule::Required, says));
    }
    if version.is_some() && template_id.is_none() {
        let says = "applies to a template only";
        return Err(fields.refuse("version", Rule::Unknown, says));
    }
    if task.is_some() && (start.input.is_some() || start.hitl.is_some() || start.options.is_some())
    {
        let says = "and hitl and options apply to a plan or a template only";
        return Err(fields.refuse("input", Rule::Unknown, says));
    }
    let is_named =
        !start.tags.is_empty() || start.callback_url.is_some() || !start.labels.is_none();
    if task.is_some() && is_named {
        let says = "belongs in task, as do the title and the callback";
        return Err(fields.refuse("tags", Rule::Unknown, says));
    }
    let starts_later = task.as_ref().is_some_and(|task| task.start_at.is_some());
    if starts_later || start.start_at.is_some() {
        let field = if starts_later { "task.startAt" } else { "startAt" };
        let says = "must be left out: the schedule gives the time";
        return Err(fields.refuse(field, Rule::Unknown, says));
    }
    if start.is_dry() {
        let says = "must be left out: a schedule starts no dry run";
        return Err(fields.refuse("options.dryRun", Rule::Unknown, says));
    }
    Ok(target)
}

impl ScheduleTarget {
    fn into_target(self, defaults: &Defaults) -> Target {
        let Self { task, plan_id, template_id, version, start } = self;
        let handle::Start { input, hitl, options, named, start_at: _ } = start.into_start();
        let start = Start { input, hitl, options, named };
        match (task, plan_id) {
            (Some(task), _) => Target::Task(Box::new(task.into_request(defaults))),
            (None, Some(plan)) => Target::Plan(plan, start),
            (None, None) => Target::Template(template_id.unwrap_or_default(), version, start),
        }
    }
}

/// The target of a request.
#[must_use]
pub fn given((target, given): (ScheduleTarget, Value), defaults: &Defaults) -> GivenTarget {
    GivenTarget { target: target.into_target(defaults), given }
}

impl ScheduleTiming {
    /// The settings of a new schedule.
    fn created(self, name: String) -> Settings {
        let Self { cron, at, timezone, overlap, catch_up, jitter_ms, enabled } = self;
        let zone = timezone.unwrap_or_else(|| "UTC".into());
        Settings {
            name,
            timing: match at {
                Some(at) => Timing::At(at),
                None => Timing::Cron { cron: cron.unwrap_or_default(), zone },
            },
            overlap: overlap.unwrap_or(Overlap::Skip),
            catch_up: catch_up.unwrap_or(CatchUp::Last),
            jitter_ms: jitter_ms.unwrap_or_default(),
            enabled: enabled.unwrap_or(true),
        }
    }
}

impl CreateSchedule {
    /// The settings and the target.
    #[must_use]
    pub fn into_parts(self, defaults: &Defaults) -> (Settings, GivenTarget) {
        (self.timing.created(self.name), given(self.target, defaults))
    }
}

impl ChangeSchedule {
    /// The settings after the change.
    ///
    /// # Errors
    /// A time zone for a schedule without a cron expression.
    pub fn apply(
        name: Option<String>,
        timing: ScheduleTiming,
        before: Settings,
    ) -> Result<Settings, Error> {
        let ScheduleTiming { cron, at, timezone, overlap, catch_up, jitter_ms, enabled } = timing;
        let timing = match (at, cron, before.timing) {
            (Some(at), _, _) => Timing::At(at),
            (None, Some(cron), Timing::Cron { zone, .. })
            | (None, None, Timing::Cron { cron, zone }) => {
                Timing::Cron { cron, zone: timezone.unwrap_or(zone) }
            }
            (None, Some(cron), Timing::At(_)) => {
                Timing::Cron { cron, zone: timezone.unwrap_or_else(|| "UTC".into()) }
            }
            (None, None, Timing::At(_)) if timezone.is_some() => {
                let says = "timezone applies to a schedule with cron only";
                return Err(Error::invalid("timezone", Rule::Unknown, says));
            }
            (None, None, timing @ Timing::At(_)) => timing,
        };
        Ok(Settings {
            name: name.unwrap_or(before.name),
            timing,
            overlap: overlap.unwrap_or(before.overlap),
            catch_up: catch_up.unwrap_or(before.catch_up),
            jitter_ms: jitter_ms.unwrap_or(before.jitter_ms),
            enabled: enabled.unwrap_or(before.enabled),
        })
    }
}

impl From<ListSchedules> for Schedules {
    fn from(list: ListSchedules) -> Self {
        Self { enabled: list.enabled, window: list.page.window() }
    }
}

/// A schedule.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleBody<'a> {
    /// `dt_sched_…`
    #[schema(value_type = String)]
    id: Text<ScheduleId>,
    /// The text for people.
    name: &'a str,
    /// The cron expression.
    cron: Option<&'a str>,
    /// The time zone of the cron expression.
    timezone: Option<&'a str>,
    /// The only instant.
    at: Option<Iso>,
    /// skip, queue, `cancel_running` or allow.
    overlap: &'static str,
    /// none, last or all.
    catch_up: &'static str,
    /// The longest random delay, in milliseconds.
    jitter_ms: u64,
    /// False while the schedule is paused.
    enabled: bool,
    /// The target as it was given; not in lists and events.
    #[schema(value_type = Option<Object>)]
    target: Option<&'a Value>,
    /// The next occurrence, without its delay; none while it is paused, or if there is none.
    next_run_at: Option<Iso>,
    /// Occurrences that wait for the end of a run.
    queued: usize,
    /// The account that gave the target.
    created_by: &'a str,
    /// The time of creation.
    created_at: Iso,
    /// The time of the last change.
    updated_at: Iso,
}

impl<'a> ScheduleBody<'a> {
    /// A schedule as a list shows it.
    #[must_use]
    pub fn summary(schedule: &'a Schedule) -> Self {
        let Settings { name, timing, overlap, catch_up, jitter_ms, enabled } = &schedule.settings;
        let (cron, timezone, at) = match timing {
            Timing::Cron { cron, zone } => (Some(cron.as_str()), Some(zone.as_str()), None),
            Timing::At(at) => (None, None, Some(Iso(*at))),
        };
        Self {
            id: Text(schedule.id),
            name,
            cron,
            timezone,
            at,
            overlap: overlap.as_str(),
            catch_up: catch_up.as_str(),
            jitter_ms: *jitter_ms,
            enabled: *enabled,
            target: None,
            next_run_at: schedule.next.map(Iso),
            queued: schedule.queued.len(),
            created_by: &schedule.account,
            created_at: Iso(schedule.id.created_at()),
            updated_at: Iso(schedule.updated_at),
        }
    }

    /// A schedule with its target.
    #[must_use]
    pub fn whole(detail: &'a ScheduleDetail) -> Self {
        Self { target: Some(&detail.target), ..Self::summary(&detail.row.schedule) }
    }
}

/// The outcome of an occurrence.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleRunBody<'a> {
    /// The instant of the timetable; of one that was triggered, when that was.
    scheduled_at: Iso,
    /// The time of the decision.
    decided_at: Iso,
    /// started, queued, skipped, missed or failed.
    outcome: &'static str,
    /// The task that the occurrence started.
    #[schema(value_type = Option<String>)]
    task_id: Option<Text<TaskId>>,
    /// The execution that the occurrence started.
    #[schema(value_type = Option<String>)]
    execution_id: Option<Text<ExecutionId>>,
    /// The reason why the occurrence started no work, such as the run that was in the way of a skipped one.
    error: Option<&'a str>,
}

impl<'a> ScheduleRunBody<'a> {
    /// An occurrence.
    #[must_use]
    pub fn of(run: &'a RunRow) -> Self {
        let (task_id, execution_id) = match run.started {
            Some(Started::Task(id)) => (Some(Text(id)), None),
            Some(Started::Execution(id)) => (None, Some(Text(id))),
            None => (None, None),
        };
        Self {
            scheduled_at: Iso(run.at),
            decided_at: Iso(run.decided_at),
            outcome: run.outcome.as_str(),
            task_id,
            execution_id,
            error: run.error.as_deref(),
        }
    }
}

/// A schedule in an event, with the occurrence that it is about.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleEvent<'a> {
    /// The schedule.
    #[serde(flatten)]
    pub schedule: ScheduleBody<'a>,
    /// The occurrence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<ScheduleRunBody<'a>>,
}
