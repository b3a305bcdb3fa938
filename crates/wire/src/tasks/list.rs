//! The tasks to list: the parameters of the query.

use callboard_domain::Timestamp;
use callboard_domain::query::{Instants, Obstacle, OfBatch, TaskOrder, Tasks};
use callboard_domain::task::Status;

use super::name;
use crate::batches::of_batch;
use crate::common::{MAX_SEARCH, Paging, tags};
use crate::read::rule::{self, Parse};
use crate::read::shape;
use crate::request;

request! {
    /// The tasks to list.
    #[derive(Debug)]
    pub struct ListTasks as "ListTasks" {
        /// One of these statuses.
        status: Option<Vec<Status>> = optional("status", statuses()),
        /// Only items of this model.
        model: Option<String> = optional("model", name()),
        /// Only items of this queue, or of one of several with commas between them.
        queue: Option<String> = optional("queue", name()),
        /// Only items with all of these tags.
        tags: Option<Vec<String>> = optional("tags", tags()),
        /// Created at this instant or later.
        created_after: Option<Timestamp> = optional("createdAfter", rule::instant()),
        /// Created before this instant.
        created_before: Option<Timestamp> = optional("createdBefore", rule::instant()),
        /// Only tasks of the rows of this batch; none: no rows of batches.
        batch: Option<OfBatch> = optional("batch", of_batch()),
        /// Only pending tasks that wait for one of these.
        waiting_for: Option<Vec<Obstacle>> = optional("waitingFor", obstacles()),
        /// The id of the item, or beginnings of words of its title, tags or keys: an item has all of them.
        search: Option<String> = optional("search", rule::text(rule::characters(1..=MAX_SEARCH))),
        /// Completed, failed or rejected at this instant or later.
        ended_after: Option<Timestamp> = optional("endedAfter", rule::instant()),
        /// Completed, failed or rejected before this instant.
        ended_before: Option<Timestamp> = optional("endedBefore", rule::instant()),
        /// The member to order by; by default createdAt.
        order_by: Option<TaskOrder> = optional("orderBy", rule::one_of(&ORDERS, order_name)),
        /// The direction of the order; by default desc.
        order: Option<Direction> = optional("order", rule::one_of(&Direction::ALL, Direction::as_str)),
        /// The page.
        page: Paging = flat(shape::<Paging>()),
    }
}

fn statuses() -> impl Parse<Vec<Status>> {
    rule::commas(1..=Status::ALL.len(), rule::one_of(&Status::ALL, Status::as_str))
}

fn obstacles() -> impl Parse<Vec<Obstacle>> {
    rule::commas(1..=Obstacle::ALL.len(), rule::one_of(&Obstacle::ALL, Obstacle::as_str))
}

/// The direction of a list's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Smallest first.
    Ascending,
    /// Greatest first.
    Descending,
}

impl Direction {
    pub(crate) const ALL: [Self; 2] = [Self::Ascending, Self::Descending];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Ascending => "asc",
            Self::Descending => "desc",
        }
    }
}

const ORDERS: [TaskOrder; 3] = [TaskOrder::CreatedAt, TaskOrder::CompletedAt, TaskOrder::Priority];

const fn order_name(order: TaskOrder) -> &'static str {
    match order {
        TaskOrder::CreatedAt => "createdAt",
        TaskOrder::CompletedAt => "completedAt",
        TaskOrder::Priority => "priority",
    }
}

impl From<ListTasks> for Tasks {
    fn from(list: ListTasks) -> Self {
        let window = list.page.window();
        Self {
            statuses: list.status.unwrap_or_default(),
            model: list.model,
            queue: list.queue,
            tags: list.tags.unwrap_or_default(),
            created_after: list.created_after,
            created_before: list.created_before,
            batch: list.batch,
            waiting_for: list.waiting_for.unwrap_or_default(),
            search: list.search,
            ended: Instants { after: list.ended_after, before: list.ended_before },
            order: list.order_by.unwrap_or_default(),
            ascending: list.order == Some(Direction::Ascending),
            window,
        }
    }
}
