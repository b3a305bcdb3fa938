//! Bulk jobs on the wire.

use callboard_domain::bulk::{Action, Erased, Job, Kind, MAX_ERASURE_REASON, MAX_REASON};
use callboard_domain::execution;
use callboard_domain::id::BulkId;
use callboard_domain::plan::{MAX_TAG, MAX_TAGS};
use callboard_domain::query::{Executions, Instants, Obstacle, OfBatch, Tasks};
use callboard_domain::task::Status;
use callboard_domain::{Rule, Timestamp};
use callboard_runtime::handle::BulkOrder;
use serde::Serialize;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::batches::of_batch;
use super::common::{Iso, MAX_SEARCH, Paging, Text};
use super::read::rule::{self, Parse};
use super::read::{Fields, Refused, shape};
use super::tasks::name;
use crate::request;

request! {
    /// The bulk jobs to list; the newest first.
    #[derive(Debug)]
    pub struct ListBulk as "ListBulk" {
        /// The page.
        page: Paging = flat(shape::<Paging>()),
    }
}

request! {
    /// The items that a job acts on: those that match every member now.
    #[derive(Debug, Clone, Default)]
    pub struct BulkFilter as "BulkFilter" {
        /// One of these statuses.
        status: Option<Vec<Option<Status>>> = optional("status", statuses()),
        /// Only tasks of this model.
        model: Option<String> = optional("model", name()),
        /// Only tasks of this queue, or of one of several with commas between them.
        queue: Option<String> = optional("queue", name()),
        /// Only items of the rows of this batch; none: of no rows of batches.
        batch: Option<OfBatch> = optional("batch", of_batch()),
        /// Only pending tasks that wait for one of these.
        waiting_for: Option<Vec<Option<Obstacle>>> = optional("waitingFor", obstacles()),
        /// Only executions of this template.
        template_id: Option<String> = optional("templateId", rule::text(rule::characters(1..=200))),
        /// Only executions of this version of the template.
        version: Option<String> = optional("version", rule::text(rule::characters(1..=64))),
        /// The id of the item, or beginnings of words of its title, tags or keys: an item has all of them.
        search: Option<String> = optional("search", rule::text(rule::characters(1..=MAX_SEARCH))),
        /// Only items with all of these tags.
        tags: Option<Vec<String>> = optional("tags", tags()),
        /// Created at this instant or later.
        created_after: Option<Timestamp> = optional("createdAfter", rule::instant()),
        /// Created before this instant.
        created_before: Option<Timestamp> = optional("createdBefore", rule::instant()),
        /// Completed, failed or rejected at this instant or later.
        ended_after: Option<Timestamp> = optional("endedAfter", rule::instant()),
        /// Completed, failed or rejected before this instant.
        ended_before: Option<Timestamp> = optional("endedBefore", rule::instant()),
    }
}

/// Tags, old ones among them.
fn tags() -> impl Parse<Vec<String>> {
    rule::list(0..=MAX_TAGS, rule::text(rule::characters(1..=MAX_TAG)))
}

request! {
    /// An action on every item that matches; no action approves.
    #[derive(Debug, Clone)]
    pub struct StartBulk as "StartBulk" {
        /// cancel, retry, reprioritize, reject or erase.
        action: Action = required("action", rule::one_of(&Action::ALL, Action::as_str)),
        /// tasks, executions or all; by default tasks, for erase all that the filter can match.
        of: Option<Kind> = optional("of", rule::one_of(&Kind::ALL, Kind::as_str)),
        /// The items; an empty filter needs `expect`.
        filter: BulkFilter = required("filter", rule::object::<BulkFilter>()),
        /// The new priority, for reprioritize.
        priority: Option<u8> = optional("priority", rule::whole(1..=10)),
        /// The reason, for reject and erase; the audit log keeps 256 characters of that of an erasure.
        reason: Option<String> = optional("reason", rule::text(rule::characters(1..=MAX_REASON))),
        /// The number of items that must match; with another one nothing is done.
        expect: Option<u64> = optional("expect", rule::whole(0..=u64::from(u32::MAX))),
        /// True only counts; by default false.
        dry_run: bool = or_default("dryRun", rule::flag()),
    }
    check is_whole
}

fn statuses() -> impl Parse<Vec<Option<Status>>> {
    rule::list(1..=Status::ALL.len(), rule::one_of(&Status::ALL, Status::as_str).map(Some))
}

fn obstacles() -> impl Parse<Vec<Option<Obstacle>>> {
    let one = rule::one_of(&Obstacle::ALL, Obstacle::as_str);
    rule::list(1..=Obstacle::ALL.len(), one.map(Some))
}

fn is_whole(bulk: StartBulk, fields: &mut Fields<'_>) -> Result<StartBulk, Refused> {
    let reprioritizes = bulk.action == Action::Reprioritize;
    if reprioritizes && bulk.priority.is_none() {
        return Err(fields.refuse("priority", Rule::Required, "is required to reprioritize"));
    }
    if !reprioritizes && bulk.priority.is_some() {
        return Err(fields.refuse("priority", Rule::Unknown, "is only for reprioritize"));
    }
    let explains = matches!(bulk.action, Action::Reject | Action::Erase);
    if explains && bulk.reason.is_none() {
        let says = format!("is required to {}", bulk.action);
        return Err(fields.refuse("reason", Rule::Required, says));
    }
    if !explains && bulk.reason.is_some() {
        return Err(fields.refuse("reason", Rule::Unknown, "is only for reject and erase"));
    }
    let length = bulk.reason.as_ref().map_or(0, |reason| reason.chars().count());
    if bulk.action == Action::Erase && length > MAX_ERASURE_REASON {
        let says = format!("must have at most {MAX_ERASURE_REASON} characters to erase");
        return Err(fields.refuse("reason", Rule::Length, says));
    }
    let kind = bulk.kind();
    if kind.has_executions() && bulk.action.fits_executions().is_empty() {
        let says = format!("must be tasks to {}", bulk.action);
        return Err(fields.refuse("of", Rule::Enum, says));
    }
    let BulkFilter { model, queue, waiting_for, template_id, version, .. } = &bulk.filter;
    if kind.has_executions() && (model.is_some() || queue.is_some() || waiting_for.is_some()) {
        let says = "has model, queue or waitingFor, which only tasks have: of must be tasks";
        return Err(fields.refuse("filter", Rule::Unknown, says));
    }
    if kind.has_tasks() && (template_id.is_some() || version.is_some()) {
        let says = "has templateId or version, which only executions have: of must be executions";
        return Err(fields.refuse("filter", Rule::Unknown, says));
    }
    if version.is_some() && template_id.is_none() {
        let says = "has a version: give its templateId too";
        return Err(fields.refuse("filter", Rule::Required, says));
    }
    let rejected = |status: &Option<Status>| *status == Some(Status::Rejected);
    if kind == Kind::Executions && bulk.filter.status.iter().flatten().any(rejected) {
        let says = "has the status rejected, which only tasks have: ask for failed executions";
        return Err(fields.refuse("filter", Rule::Enum, says));
    }
    if bulk.filter.is_empty() && bulk.expect.is_none() && !bulk.dry_run {
        let says = "is required for a filter that matches every item";
        return Err(fields.refuse("expect", Rule::Required, says));
    }
    Ok(bulk)
}

impl BulkFilter {
    fn is_empty(&self) -> bool {
        let Self {
            status,
            model,
            queue,
            waiting_for,
            batch,
            template_id,
            version,
            search,
            tags,
            created_after,
            created_before,
            ended_after,
            ended_before,
        } = self;
        let names = [model, queue, template_id, version, search];
        let texts =
            names.iter().all(|name| name.is_none()) && tags.as_ref().is_none_or(Vec::is_empty);
        let instants = [created_after, created_before, ended_after, ended_before];
        status.is_none()
            && batch.is_none()
            && waiting_for.is_none()
            && texts
            && instants.iter().all(|it| it.is_none())
    }
}

impl StartBulk {
    /// The kind of the items. An erasure without one is of all that its filter can match.
    fn kind(&self) -> Kind {
        let BulkFilter { model, queue, waiting_for, template_id, version, .. } = &self.filter;
        let of_tasks = model.is_some() || queue.is_some() || waiting_for.is_some();
        match self.of {
            Some(kind) => kind,
            None if self.action != Action::Erase || of_tasks => Kind::Tasks,
            None if template_id.is_some() || version.is_some() => Kind::Executions,
            None => Kind::All,
        }
    }
}

impl BulkFilter {
    fn tasks(&self) -> Tasks {
        Tasks {
            statuses: self.status.iter().flatten().flatten().copied().collect(),
            model: self.model.clone(),
            queue: self.queue.clone(),
            tags: self.tags.clone().unwrap_or_default(),
            created_after: self.created_after,
            created_before: self.created_before,
            batch: self.batch,
            waiting_for: self.waiting_for.iter().flatten().flatten().copied().collect(),
            search: self.search.clone(),
            ended: Instants { after: self.ended_after, before: self.ended_before },
            ..Tasks::default()
        }
    }

    /// The filter of executions; `None` if every status is one that only tasks have.
    fn executions(&self) -> Option<Executions> {
        let given = || self.status.iter().flatten().flatten();
        let statuses: Vec<_> = given().filter_map(|status| of_execution(*status)).collect();
        if statuses.is_empty() && given().next().is_some() {
            return None;
        }
        Some(Executions {
            statuses,
            template: self.template_id.clone(),
            version: self.version.clone(),
            tags: self.tags.clone().unwrap_or_default(),
            created_after: self.created_after,
            created_before: self.created_before,
            batch: self.batch,
            search: self.search.clone(),
            ended: Instants { after: self.ended_after, before: self.ended_before },
            ..Executions::default()
        })
    }
}

/// The same status of an execution.
const fn of_execution(status: Status) -> Option<execution::Status> {
    match status {
        Status::Pending => Some(execution::Status::Pending),
        Status::Running => Some(execution::Status::Running),
        Status::Completed => Some(execution::Status::Completed),
        Status::Failed => Some(execution::Status::Failed),
        Status::Cancelled => Some(execution::Status::Cancelled),
        Status::Rejected => None,
    }
}

impl From<StartBulk> for BulkOrder {
    fn from(bulk: StartBulk) -> Self {
        let kind = bulk.kind();
        let tasks = kind.has_tasks().then(|| bulk.filter.tasks());
        let executions = if kind.has_executions() { bulk.filter.executions() } else { None };
        let StartBulk { action, priority, reason, expect, .. } = bulk;
        Self { action, priority, reason, tasks, executions, expect }
    }
}

/// The texts that a job has erased, by item.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErasureCounts {
    /// Executions whose own texts were erased.
    executions: u64,
    /// Tasks, those of the executions among them.
    tasks: u64,
    /// Payloads of signals.
    signals: u64,
}

impl From<Erased> for ErasureCounts {
    fn from(Erased { executions, tasks, signals }: Erased) -> Self {
        Self { executions, tasks, signals }
    }
}

/// A bulk job, or the result of a dry run.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BulkBody<'a> {
    /// `blk_…`; not in a dry run.
    #[schema(value_type = Option<String>)]
    id: Option<Text<BulkId>>,
    /// cancel, retry, reprioritize, reject or erase.
    action: &'static str,
    /// tasks, executions or all.
    of: &'static str,
    /// The new priority.
    priority: Option<u8>,
    /// running, completed or cancelled; `dry_run` of a dry run.
    status: &'static str,
    /// The reason why a cancelled job ended before it had acted on every item.
    reason: Option<&'a str>,
    /// The items that matched.
    total: u64,
    /// The items that were acted on.
    done: u32,
    /// The items that are as the action wants them.
    succeeded: u32,
    /// The items that the action does not fit, such as ended ones for cancel.
    skipped: u32,
    /// The items on which the action failed.
    failed: u32,
    /// The texts that are erased so far, of erase.
    erased: Option<ErasureCounts>,
    /// The reason why tasks that match do not count, or why the first task was skipped or failed.
    why: Option<&'a str>,
    /// The account that started the job.
    created_by: Option<&'a str>,
    /// The start.
    created_at: Option<Iso>,
    /// The end.
    completed_at: Option<Iso>,
}

impl<'a> BulkBody<'a> {
    /// A job with its progress.
    #[must_use]
    pub fn of(job: &'a Job) -> Self {
        Self {
            id: Some(Text(job.id)),
            action: job.action.as_str(),
            of: job.kind.as_str(),
            priority: job.priority,
            status: match (job.ended_at, &job.stopped) {
                (None, _) => "running",
                (Some(_), None) => "completed",
                (Some(_), Some(_)) => "cancelled",
            },
            reason: job.stopped.as_deref(),
            total: job.total.into(),
            done: job.done(),
            succeeded: job.succeeded,
            skipped: job.skipped,
            failed: job.failed,
            erased: job.erased.map(ErasureCounts::from),
            why: job.why.as_deref(),
            created_by: Some(&job.account),
            created_at: Some(Iso(job.id.created_at())),
            completed_at: job.ended_at.map(Iso),
        }
    }

    /// A dry run that matched so many items.
    #[must_use]
    pub fn dry_run(order: &BulkOrder, total: usize, why: Option<&'a str>) -> Self {
        Self {
            id: None,
            action: order.action.as_str(),
            of: order.kind().as_str(),
            priority: order.priority,
            status: "dry_run",
            reason: None,
            total: total as u64,
            done: 0,
            succeeded: 0,
            skipped: 0,
            failed: 0,
            erased: None,
            why,
            created_by: None,
            created_at: None,
            completed_at: None,
        }
    }
}
