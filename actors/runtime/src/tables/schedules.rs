//! The rows of schedules: the schedule, its target, and the outcomes of its occurrences.

use callboard_domain::access::Role;
use callboard_domain::event::EventName;
use callboard_domain::id::{Environment, PlanId, ScheduleId};
use callboard_domain::machine::Machine;
use callboard_domain::schedule::{Outcome, Schedule, Started};
use callboard_domain::{Timestamp, query};
use callboard_store::{Entry, Error, Filter, Op, Order, Query, Store};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use super::log::{self, Kind};
use super::work::Target;
use super::{SCHEDULE_RUNS, SCHEDULES, TEXTS, executions, schedule_list, text};

/// The number of occurrences that a schedule remembers.
const KEPT_RUNS: usize = 1_000;

/// A schedule as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScheduleRow {
    /// The schedule.
    #[serde(flatten)]
    pub schedule: Schedule,
    /// The role of the account when the schedule was made.
    pub role: Role,
    /// The plan that the target runs, which stays as long as the schedule does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanId>,
}

/// The outcome of an occurrence.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    /// The instant of the timetable.
    pub at: Timestamp,
    /// The instant of the decision.
    pub decided_at: Timestamp,
    /// The outcome.
    pub outcome: Outcome,
    /// The work that the occurrence started.
    pub started: Option<Started>,
    /// The reason why the occurrence started no work.
    pub error: Option<String>,
}

impl RunRow {
    pub(crate) const fn of(at: Timestamp, outcome: Outcome, now: Timestamp) -> Self {
        Self { at, decided_at: now, outcome, started: None, error: None }
    }

    /// An occurrence whose time had come and that will not run.
    pub(crate) fn dropped(at: Timestamp, now: Timestamp, why: &str) -> Self {
        Self { error: Some(why.to_owned()), ..Self::of(at, Outcome::Skipped, now) }
    }

    const fn event(&self) -> EventName {
        match self.outcome {
            Outcome::Started => EventName::ScheduleStarted,
            Outcome::Queued => EventName::ScheduleQueued,
            Outcome::Skipped => EventName::ScheduleSkipped,
            Outcome::Missed => EventName::ScheduleMissed,
            Outcome::Failed => EventName::ScheduleFailed,
        }
    }
}

/// The target as it is stored: compiled, and as it was given.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TargetRow {
    pub(crate) target: Target,
    pub(crate) given: Value,
}

fn key(id: ScheduleId, at: Timestamp) -> [u8; 24] {
    let mut key = [0; 24];
    key[..16].copy_from_slice(&id.as_u128().to_be_bytes());
    key[16..].copy_from_slice(&at.as_millis().to_be_bytes());
    key
}

pub(crate) fn put(environment: Environment, row: &ScheduleRow) -> Vec<Op> {
    let enabled: &[u8] = if row.schedule.settings.enabled { b"1" } else { b"0" };
    let mut terms = vec![(ENABLED, enabled.into())];
    terms.extend(row.plan.map(|plan| (PLAN, Box::from(plan.as_u128().to_be_bytes()))));
    let entry = Entry { list: schedule_list(environment), terms, sort: [None; 2] };
    SCHEDULES.put(environment.number(), row.schedule.id.as_u128(), row, Some(entry))
}

/// The index terms of schedules: enabled or not, and the plan of the target.
const ENABLED: u8 = 0;
pub(crate) const PLAN: u8 = 1;

pub(crate) fn target(environment: Environment, id: ScheduleId, text: &str) -> Vec<Op> {
    TEXTS.put(environment.number(), id.as_u128(), text::MADE, text)
}

pub(crate) fn event(
    environment: Environment,
    name: EventName,
    at: Timestamp,
    row: &ScheduleRow,
    run: Option<&RunRow>,
) -> Vec<Op> {
    vec![log::append(environment, (name.as_str(), at), Kind::Schedule, (row, run))]
}

/// The row of an occurrence, and its event.
pub(crate) fn rows_of_run(environment: Environment, row: &ScheduleRow, run: &RunRow) -> Vec<Op> {
    let mut rows = event(environment, run.event(), run.decided_at, row, Some(run));
    let key = key(row.schedule.id, run.at);
    rows.push(SCHEDULE_RUNS.put(environment.number(), &key, run, None));
    rows
}

pub(crate) async fn schedule(
    store: &dyn Store,
    environment: Environment,
    id: ScheduleId,
) -> Result<Option<ScheduleRow>, Error> {
    SCHEDULES.get(store, environment.number(), id.as_u128()).await
}

pub(crate) async fn run(
    store: &dyn Store,
    environment: Environment,
    id: ScheduleId,
    at: Timestamp,
) -> Result<Option<RunRow>, Error> {
    SCHEDULE_RUNS.get(store, environment.number(), &key(id, at)).await
}

/// The occurrences that are remembered, the newest first.
pub(crate) async fn runs(
    store: &dyn Store,
    environment: Environment,
    id: ScheduleId,
) -> Result<Vec<RunRow>, Error> {
    let (first, last) = (key(id, Timestamp::from_millis(0)), key(id, Timestamp::MAX));
    let rows = SCHEDULE_RUNS.range(store, environment.number(), &first, &last).await?;
    Ok(rows.into_iter().rev().take(KEPT_RUNS).map(|(_, run)| run).collect())
}

/// The target of a schedule.
pub(crate) async fn read_target(
    store: &dyn Store,
    environment: Environment,
    id: ScheduleId,
) -> Result<Option<Target>, Error> {
    Ok(whole_target(store, environment, id).await?.map(|row| row.target))
}

pub(crate) async fn whole_target(
    store: &dyn Store,
    environment: Environment,
    id: ScheduleId,
) -> Result<Option<TargetRow>, Error> {
    let text = TEXTS.get(store, environment.number(), id.as_u128(), text::MADE).await?;
    let damaged = |error: serde_json::Error| Error::Corrupt {
        path: format!("target of {id}"),
        reason: error.to_string(),
    };
    text.map(|text| serde_json::from_str(&text).map_err(damaged)).transpose()
}

/// Orders that remove a schedule with everything that belongs to it.
pub(crate) async fn removal(
    store: &dyn Store,
    environment: Environment,
    id: ScheduleId,
) -> Result<Vec<Op>, Error> {
    let number = environment.number();
    let mut rows = SCHEDULES.delete(store, number, id.as_u128()).await?;
    rows.extend(forgotten_runs(store, environment, id, 0).await?);
    Ok(rows)
}

/// Orders that remove all but the newest occurrences.
async fn forgotten_runs(
    store: &dyn Store,
    environment: Environment,
    id: ScheduleId,
    keep: usize,
) -> Result<Vec<Op>, Error> {
    let (first, last) = (key(id, Timestamp::from_millis(0)), key(id, Timestamp::MAX));
    let number = environment.number();
    let rows = SCHEDULE_RUNS.range(store, number, &first, &last).await?;
    let old = rows.len().saturating_sub(keep);
    Ok(rows.iter().take(old).map(|(key, _)| SCHEDULE_RUNS.delete(number, key)).collect())
}

/// Orders that remove the occurrences that are not remembered any more.
pub(crate) async fn old_runs(
    store: &dyn Store,
    environment: Environment,
    id: ScheduleId,
) -> Result<Vec<Op>, Error> {
    forgotten_runs(store, environment, id, KEPT_RUNS).await
}

/// True if a run has ended, or was removed.
pub(crate) async fn has_ended(
    store: &dyn Store,
    environment: Environment,
    run: Started,
) -> Result<bool, Error> {
    match run {
        Started::Task(id) => {
            let found = super::task(store, environment, id).await?;
            Ok(found.is_none_or(|found| found.task.is_finished()))
        }
        Started::Execution(id) => executions::has_ended(store, environment, id).await,
    }
}

/// Schedules, the newest first, and their total number.
pub(crate) async fn schedules(
    store: &dyn Store,
    environment: Environment,
    query: &query::Schedules,
) -> Result<query::Page<ScheduleRow>, Error> {
    let mut filters = Vec::new();
    if let Some(enabled) = query.enabled {
        let term: &[u8] = if enabled { b"1" } else { b"0" };
        filters.push(Filter::AnyOf(ENABLED, vec![term.into()]));
    }
    let page = Query {
        list: schedule_list(environment),
        filters,
        order: Order::Document,
        descending: true,
        offset: query.window.offset,
        limit: query.window.limit,
    };
    let page = store.query(&page).await?;
    let mut items = Vec::with_capacity(page.documents.len());
    for document in page.documents {
        items.extend(schedule(store, environment, ScheduleId::from_u128(document)).await?);
    }
    Ok(query::Page { items, total: page.total })
}
