//! Bulk jobs on the wire.

use callboard_domain::bulk::{Action, Job, MAX_REASON};
use callboard_domain::id::BulkId;
use callboard_domain::plan::{MAX_TAG, MAX_TAGS};
use callboard_domain::query::{Instants, Tasks};
use callboard_domain::task::Status;
use callboard_domain::{Rule, Timestamp};
use callboard_runtime::handle::BulkOrder;
use serde::Serialize;
use utoipa::ToSchema;

use super::common::{Iso, Paging, Text};
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
    /// The tasks that a job acts on: those that match every member now.
    #[derive(Debug, Clone, Default)]
    pub struct BulkFilter as "BulkFilter" {
        /// One of these statuses.
        status: Option<Vec<Option<Status>>> = optional("status", statuses()),
        /// Only items of this model.
        model: Option<String> = optional("model", name()),
        /// Only items of this queue.
        queue: Option<String> = optional("queue", name()),
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
    /// An action on every task that matches; no action approves.
    #[derive(Debug, Clone)]
    pub struct StartBulk as "StartBulk" {
        /// cancel, retry, reprioritize or reject.
        action: Action = required("action", rule::one_of(&Action::ALL, Action::as_str)),
        /// The tasks; an empty filter needs `expect`.
        filter: BulkFilter = required("filter", rule::object::<BulkFilter>()),
        /// The new priority, for reprioritize.
        priority: Option<u8> = optional("priority", rule::whole(1..=10)),
        /// The reason, for reject.
        reason: Option<String> = optional("reason", rule::text(rule::characters(1..=MAX_REASON))),
        /// The number of tasks that must match; with another one nothing is done.
        expect: Option<u64> = optional("expect", rule::whole(0..=u64::from(u32::MAX))),
        /// True only counts; by default false.
        dry_run: bool = or_default("dryRun", rule::flag()),
    }
    check is_whole
}

fn statuses() -> impl Parse<Vec<Option<Status>>> {
    rule::list(1..=Status::ALL.len(), rule::one_of(&Status::ALL, Status::as_str).map(Some))
}

fn is_whole(bulk: StartBulk, fields: &mut Fields<'_>) -> Result<StartBulk, Refused> {
    let reprioritizes = bulk.action == Action::Reprioritize;
    if reprioritizes && bulk.priority.is_none() {
        return Err(fields.refuse("priority", Rule::Required, "is required to reprioritize"));
    }
    if !reprioritizes && bulk.priority.is_some() {
        return Err(fields.refuse("priority", Rule::Unknown, "is only for reprioritize"));
    }
    let rejects = bulk.action == Action::Reject;
    if rejects && bulk.reason.is_none() {
        return Err(fields.refuse("reason", Rule::Required, "is required to reject"));
    }
    if !rejects && bulk.reason.is_some() {
        return Err(fields.refuse("reason", Rule::Unknown, "is only for reject"));
    }
    if bulk.filter.is_empty() && bulk.expect.is_none() && !bulk.dry_run {
        let says = "is required for a filter that matches every task";
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
            tags,
            created_after,
            created_before,
            ended_after,
            ended_before,
        } = self;
        let texts = model.is_none() && queue.is_none() && tags.as_ref().is_none_or(Vec::is_empty);
        let instants = [created_after, created_before, ended_after, ended_before];
        status.is_none() && texts && instants.iter().all(|it| it.is_none())
    }
}

impl From<StartBulk> for BulkOrder {
    fn from(bulk: StartBulk) -> Self {
        let BulkFilter { status, model, queue, tags, created_after, created_before, .. } =
            bulk.filter;
        let ended = Instants { after: bulk.filter.ended_after, before: bulk.filter.ended_before };
        let filter = Tasks {
            statuses: status.into_iter().flatten().flatten().collect(),
            model,
            queue,
            tags: tags.unwrap_or_default(),
            created_after,
            created_before,
            ended,
            ..Tasks::default()
        };
        let StartBulk { action, priority, reason, expect, .. } = bulk;
        Self { action, priority, reason, filter, expect }
    }
}

/// A bulk job, or the result of a dry run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BulkBody<'a> {
    /// `blk_…`; not in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    id: Option<Text<BulkId>>,
    /// cancel, retry, reprioritize or reject.
    action: &'static str,
    /// The new priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u8>,
    /// running, completed or cancelled; `dry_run` of a dry run.
    status: &'static str,
    /// The reason why a cancelled job ended before it had acted on every task.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// The tasks that matched.
    total: u64,
    /// The tasks that were acted on.
    done: u32,
    /// The tasks that are as the action wants them.
    succeeded: u32,
    /// The tasks that the action does not fit, such as ended ones for cancel.
    skipped: u32,
    /// The tasks on which the action failed.
    failed: u32,
    /// The reason why tasks that match do not count, or why the first task was skipped or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    /// The account that started the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_by: Option<&'a str>,
    /// The start.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    created_at: Option<Iso>,
    /// The end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    completed_at: Option<Iso>,
}

impl<'a> BulkBody<'a> {
    /// A job with its progress.
    #[must_use]
    pub fn of(job: &'a Job) -> Self {
        Self {
            id: Some(Text(job.id)),
            action: job.action.as_str(),
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
            why: job.why.as_deref(),
            created_by: Some(&job.account),
            created_at: Some(Iso(job.id.created_at())),
            completed_at: job.ended_at.map(Iso),
        }
    }

    /// A dry run that matched so many tasks.
    #[must_use]
    pub fn dry_run(order: &BulkOrder, total: usize, why: Option<&'a str>) -> Self {
        Self {
            id: None,
            action: order.action.as_str(),
            priority: order.priority,
            status: "dry_run",
            reason: None,
            total: total as u64,
            done: 0,
            succeeded: 0,
            skipped: 0,
            failed: 0,
            why,
            created_by: None,
            created_at: None,
            completed_at: None,
        }
    }
}
