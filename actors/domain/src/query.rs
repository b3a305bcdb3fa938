//! The filters and pages of lists.

use crate::id::{PlanId, TemplateBatchId};
use crate::names::names;
use crate::search::{asked, words_of};
use crate::task::{EndingCode, Status, Task};
use crate::template::{Industry, Visibility};
use crate::{Timestamp, approval, audit, batch, delivery, execution};

/// The requested part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The most items on the page, 1 to 100.
    pub limit: usize,
    /// Items to skip.
    pub offset: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self { limit: 20, offset: 0 }
    }
}

/// The requested part of a list that is read on from an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keyset {
    /// The number of the item before the first of the page; `None` for the beginning of the list.
    pub after: Option<u128>,
    /// The oldest item first, or else the newest.
    pub ascending: bool,
    /// The most items on the page.
    pub limit: usize,
}

/// A range of instants. A range without a bound matches every item, one with a bound only those that have the
/// instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Instants {
    /// The first instant.
    pub after: Option<Timestamp>,
    /// The end of the instants, exclusive.
    pub before: Option<Timestamp>,
}

/// A filter and an order of tasks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tasks {
    /// Any of these statuses; every status if empty.
    pub statuses: Vec<Status>,
    /// The model.
    pub model: Option<String>,
    /// The queue, or several with commas between them.
    pub queue: Option<String>,
    /// The tags that a task must have, all of them.
    pub tags: Vec<String>,
    /// The first instant of creation.
    pub created_after: Option<Timestamp>,
    /// The end of the instants of creation, exclusive.
    pub created_before: Option<Timestamp>,
    /// Tasks of the rows of a batch, or of none of any.
    pub batch: Option<OfBatch>,
    /// Only pending tasks with one of these obstacles; any task if empty.
    pub waiting_for: Vec<Obstacle>,
    /// The id of the item, or the beginnings of words of it ([`crate::search`]), all of them.
    pub search: Option<String>,
    /// The instants of the end.
    pub ended: Instants,
    /// The sort key.
    pub order: TaskOrder,
    /// Ascending, or else descending.
    pub ascending: bool,
    /// The page.
    pub window: Window,
}

names! {
    /// The obstacle of a pending task.
    Obstacle {
        /// No worker is free.
        Worker = "worker",
        /// A limit has no room.
        Limit = "limit",
        /// Everything is paused.
        Paused = "paused",
        /// The queue is paused.
        QueuePaused = "queue_paused",
        /// A budget has no room.
        Budget = "budget",
        /// The wait after a failed attempt is not over.
        Backoff = "backoff",
        /// A reviewer has not decided.
        Approval = "approval",
        /// The start is planned for later.
        Schedule = "schedule",
    }
}

/// The names in a filter with commas between them, and the whole filter: a queue of before the rules of names may have
/// a comma in its name.
pub fn named(filter: &str) -> impl Iterator<Item = &str> {
    let parts = filter.split(',').map(str::trim).filter(move |part| *part != filter);
    std::iter::once(filter).chain(parts)
}

impl Tasks {
    /// The page of these tasks, which have not ended: their order by the end is that by the identifier.
    #[must_use]
    pub fn page_of(&self, tasks: Vec<Task>) -> Page<Task> {
        let wanted = |task: &Task| {
            let (spec, at) = (&task.spec, task.spec.id.created_at());
            (self.statuses.is_empty() || self.statuses.contains(&task.status()))
                && self.model.as_ref().is_none_or(|model| *model == spec.model)
                && self.queue.as_ref().is_none_or(|any| named(any).any(|name| name == spec.queue))
                && self.tags.iter().all(|tag| spec.tags.contains(tag))
                && self.batch.is_none_or(|batch| batch.has(spec.origin.rows))
                && self.created_after.is_none_or(|after| at >= after)
                && self.created_before.is_none_or(|before| at < before)
                && self.ended == Instants::default()
                // The tasks of a worker run, and wait for nothing.
                && self.waiting_for.is_empty()
                && self.search.as_ref().is_none_or(|search| {
                    let words = words_of(spec.words());
                    let has = |start: &String| words.iter().any(|word| word.starts_with(start));
                    *search == spec.id.to_string() || asked(search).iter().all(has)
                })
        };
        let mut items: Vec<_> = tasks.into_iter().filter(wanted).collect();
        items.sort_by_key(|task| match self.order {
            TaskOrder::Priority => (task.priority(), task.spec.id),
            TaskOrder::CreatedAt | TaskOrder::CompletedAt => (0, task.spec.id),
        });
        if !self.ascending {
            items.reverse();
        }
        let total = items.len() as u64;
        let Window { offset, limit } = self.window;
        Page { items: items.into_iter().skip(offset).take(limit).collect(), total }
    }
}

/// The sort key of tasks. Ties are broken by the identifier in the same direction; tasks without a
/// value come last in both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TaskOrder {
    /// The creation time.
    #[default]
    CreatedAt,
    /// The time of the end.
    CompletedAt,
    /// The priority.
    Priority,
}

/// A filter of plans, which are listed newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plans {
    /// The tags that a plan must have, all of them.
    pub tags: Vec<String>,
    /// The text that the name or the description must contain.
    pub search: Option<String>,
    /// The page.
    pub window: Window,
}

/// A filter of the items of a step, which are listed in the order of the list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Items {
    /// Any of these statuses; every status if empty.
    pub statuses: Vec<execution::ItemStatus>,
    /// The page.
    pub window: Window,
}

/// The sort key of executions. Ties are broken by the identifier in the same direction; executions that have
/// not ended come last in both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ExecutionOrder {
    /// The creation time.
    #[default]
    CreatedAt,
    /// The time of the end.
    CompletedAt,
}

/// The work of a batch, or that of none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfBatch {
    /// Only rows of this batch.
    Only(TemplateBatchId),
    /// No rows of batches.
    None,
}

impl OfBatch {
    /// True for work of this batch, or of none.
    #[must_use]
    pub fn has(self, rows: Option<TemplateBatchId>) -> bool {
        match self {
            Self::Only(batch) => rows == Some(batch),
            Self::None => rows.is_none(),
        }
    }
}

/// A filter and an order of executions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Executions {
    /// Any of these statuses; every status if empty.
    pub statuses: Vec<execution::Status>,
    /// Runs of this plan.
    pub plan: Option<PlanId>,
    /// Runs of this template.
    pub template: Option<String>,
    /// Runs of this version of the template; any version if `None`.
    pub version: Option<String>,
    /// Runs with all of these tags.
    pub tags: Vec<String>,
    /// Started at this instant or later.
    pub created_after: Option<Timestamp>,
    /// Started before this instant.
    pub created_before: Option<Timestamp>,
    /// Rows of a batch, or none of any.
    pub batch: Option<OfBatch>,
    /// The instants of the end.
    pub ended: Instants,
    /// The id of the item, or the beginnings of words of it ([`crate::search`]), all of them.
    pub search: Option<String>,
    /// Ended with any of these errors; with any or none if empty.
    pub errors: Vec<EndingCode>,
    /// Not ended with any of these errors.
    pub except_errors: Vec<EndingCode>,
    /// The sort key.
    pub order: ExecutionOrder,
    /// Ascending, or else descending.
    pub ascending: bool,
    /// The page.
    pub window: Window,
}

/// A filter of approvals.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Approvals {
    /// Any of these statuses; every status if empty.
    pub statuses: Vec<approval::State>,
    /// The queue.
    pub queue: Option<String>,
    /// The tags that a task must have, all of them.
    pub tags: Vec<String>,
    /// The reviewer who is assigned or who decided.
    pub reviewer: Option<String>,
    /// Outputs of the rows of a batch, or of none of any.
    pub batch: Option<OfBatch>,
    /// The order.
    pub order: ApprovalOrder,
    /// The id of the item, or the beginnings of words of it ([`crate::search`]), all of them.
    pub search: Option<String>,
    /// The instants of the hold.
    pub held: Instants,
    /// The page.
    pub window: Window,
}

/// The order of approvals, the latest first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ApprovalOrder {
    /// The time of the hold.
    #[default]
    HeldAt,
    /// The time of the decision; undecided ones come last.
    DecidedAt,
}

/// A filter of templates, which are listed newest first, each in its highest version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Templates {
    /// The industry.
    pub industry: Option<Industry>,
    /// The tags that a template must have, all of them.
    pub tags: Vec<String>,
    /// The text that the name or the description must contain.
    pub search: Option<String>,
    /// The visibility.
    pub visibility: Option<Visibility>,
    /// The page.
    pub window: Window,
}

/// A filter of deliveries, which are listed newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deliveries {
    /// Any of these statuses; every status if empty.
    pub statuses: Vec<delivery::Status>,
    /// The task or the execution.
    pub about: Option<delivery::Subject>,
    /// The page.
    pub window: Window,
}

/// A filter of schedules, which are listed newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schedules {
    /// True for enabled schedules only, false for the others only.
    pub enabled: Option<bool>,
    /// The page.
    pub window: Window,
}

/// A filter of batches, which are listed newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batches {
    /// Any of these statuses; every status if empty.
    pub statuses: Vec<batch::Status>,
    /// The template.
    pub template: Option<String>,
    /// The version of the template.
    pub version: Option<String>,
    /// The tags that a batch must have, all of them.
    pub tags: Vec<String>,
    /// Created at this instant or later.
    pub from: Option<Timestamp>,
    /// Created before this instant.
    pub to: Option<Timestamp>,
    /// The page.
    pub window: Window,
}

/// A filter and an order of the rows of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    /// Any of these statuses; every status if empty.
    pub statuses: Vec<batch::RowStatus>,
    /// Any of these codes of errors; every row if empty.
    pub codes: Vec<String>,
    /// The step of the decisions and the confidences; the last one if `None`.
    pub step: Option<String>,
    /// Any of these decisions; every row if empty.
    pub decisions: Vec<batch::RowDecision>,
    /// The least confidence.
    pub min_confidence: Option<f64>,
    /// The greatest confidence.
    pub max_confidence: Option<f64>,
    /// Rows whose output differs from that of the row with the same key of this batch.
    pub differs_from: Option<TemplateBatchId>,
    /// The order.
    pub order: batch::RowOrder,
    /// Descending, or else ascending.
    pub descending: bool,
    /// The number of the row after which the page begins, from 0.
    pub after: Option<u32>,
    /// The most rows of the page.
    pub limit: usize,
}

impl Rows {
    /// All rows in their order, in pages of `limit`.
    #[must_use]
    pub const fn pages_of(limit: usize) -> Self {
        Self {
            statuses: Vec::new(),
            codes: Vec::new(),
            step: None,
            decisions: Vec::new(),
            min_confidence: None,
            max_confidence: None,
            differs_from: None,
            order: batch::RowOrder::Row,
            descending: false,
            after: None,
            limit,
        }
    }

    /// True if the rows are listed in their order, by status and code alone.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.order == batch::RowOrder::Row
            && !self.descending
            && self.decisions.is_empty()
            && self.min_confidence.is_none()
            && self.max_confidence.is_none()
            && self.differs_from.is_none()
    }
}

/// A filter of the audit log, which is listed newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// The actor.
    pub actor: Option<String>,
    /// Any of these actions; every action if empty.
    pub actions: Vec<audit::Action>,
    /// The first instant.
    pub since: Option<Timestamp>,
    /// The end of the instants, exclusive.
    pub until: Option<Timestamp>,
    /// The page.
    pub window: Window,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The items of the page.
    pub items: Vec<T>,
    /// The number of items on all pages.
    pub total: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::TaskId;
    use crate::retry::Policy;
    use crate::task::{Origin, Spec};

    fn task(number: u128, queue: &str, priority: u8, tags: &[&str]) -> Task {
        Task::submitted(Spec {
            id: TaskId::from_u128((number << 80) | (number << 10)),
            account: "usr_1".into(),
            model: "m".into(),
            queue: queue.into(),
            priority,
            timeout_ms: 1,
            tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
            max_tokens: None,
            temperature: None,
            sampling: None,
            callback_url: None,
            labels: None,
            gate: None,
            retry: Policy::default(),
            origin: Origin::default(),
            checked: false,
            routing: None,
            flow: None,
            start_at: None,
        })
        .next
    }

    #[test]
    fn a_page_of_few_tasks_is_filtered_ordered_and_cut() {
        let tasks = [task(1, "a", 5, &["x", "y"]), task(2, "b", 9, &["x"]), task(3, "a", 1, &[])];
        let at = |number: usize| Some(tasks[number - 1].spec.id.created_at());
        let found = |query: Tasks| {
            let page = query.page_of(tasks.to_vec());
            let number = |task: &Task| (task.spec.id.as_u128() >> 10) & 0xff;
            (page.items.iter().map(number).collect::<Vec<_>>(), page.total)
        };
        let all = Tasks::default;
        let window = |offset, limit| Window { limit, offset };
        let tags = |tags: &[&str]| tags.iter().map(|&tag| tag.to_owned()).collect();
        for (query, expected) in [
            (all(), (vec![3, 2, 1], 3)),
            (Tasks { ascending: true, ..all() }, (vec![1, 2, 3], 3)),
            (Tasks { order: TaskOrder::Priority, ..all() }, (vec![2, 1, 3], 3)),
            (Tasks { order: TaskOrder::CompletedAt, ..all() }, (vec![3, 2, 1], 3)),
            (Tasks { window: window(1, 1), ..all() }, (vec![2], 3)),
            (Tasks { queue: Some("a".into()), ..all() }, (vec![3, 1], 2)),
            (Tasks { queue: Some("none, a".into()), ..all() }, (vec![3, 1], 2)),
            (Tasks { model: Some("n".into()), ..all() }, (vec![], 0)),
            (Tasks { tags: tags(&["x", "y"]), ..all() }, (vec![1], 1)),
            (Tasks { statuses: vec![Status::Pending], ..all() }, (vec![3, 2, 1], 3)),
            (Tasks { statuses: vec![Status::Running], ..all() }, (vec![], 0)),
            (Tasks { created_after: at(2), ..all() }, (vec![3, 2], 2)),
            (Tasks { created_before: at(2), ..all() }, (vec![1], 1)),
        ] {
            assert_eq!(found(query.clone()), expected, "{query:?}");
        }
    }
}
