//! Which tasks to list: the parameters of the query.

use callboard_domain::Error;
use callboard_domain::query::{TaskOrder, Tasks};
use callboard_domain::task::{MAX_TARGET, Status};
use utoipa::IntoParams;

use crate::wire::common::Paging;
use crate::wire::read::{Fields, Read, rule};

/// Which tasks to list (SPEC.md, List Tasks).
#[derive(Debug, IntoParams)]
#[into_params(rename_all = "camelCase", parameter_in = Query)]
pub struct ListTasks {
    /// One or more of pending, running, completed, failed, cancelled, rejected, separated by commas.
    #[param(value_type = Option<String>)]
    pub status: Option<Vec<Status>>,
    /// The model's name.
    pub model: Option<String>,
    /// The queue's name.
    pub queue: Option<String>,
    /// Tags separated by commas; a task has all of them.
    #[param(value_type = Option<String>)]
    pub tags: Option<Vec<String>>,
    /// Created at this instant or later.
    #[param(value_type = Option<String>, format = DateTime)]
    pub created_after: Option<callboard_domain::Timestamp>,
    /// Created before this instant.
    #[param(value_type = Option<String>, format = DateTime)]
    pub created_before: Option<callboard_domain::Timestamp>,
    /// 1 to 100; by default 20.
    pub limit: Option<usize>,
    /// How many to pass over.
    pub offset: Option<usize>,
    /// createdAt, completedAt or priority.
    #[param(value_type = Option<String>)]
    pub order_by: Option<TaskOrder>,
    /// asc or desc; by default desc.
    #[param(value_type = Option<String>)]
    pub order: Option<Direction>,
}

/// Which way a list is ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Smallest first.
    Ascending,
    /// Greatest first.
    Descending,
}

impl Direction {
    const ALL: [Self; 2] = [Self::Ascending, Self::Descending];

    const fn as_str(self) -> &'static str {
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

impl Read for ListTasks {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let name = || rule::text(rule::characters(1..=MAX_TARGET));
        let status = rule::one_of(&Status::ALL, Status::as_str);
        let tag = rule::text(rule::characters(1..=64));
        let paging = Paging::read(fields)?;
        Ok(Self {
            status: fields.optional("status", rule::commas(1..=Status::ALL.len(), status))?,
            model: fields.optional("model", name())?,
            queue: fields.optional("queue", name())?,
            tags: fields.optional("tags", rule::commas(1..=32, tag))?,
            created_after: fields.optional("createdAfter", rule::instant)?,
            created_before: fields.optional("createdBefore", rule::instant)?,
            limit: paging.limit,
            offset: paging.offset,
            order_by: fields.optional("orderBy", rule::one_of(&ORDERS, order_name))?,
            order: fields.optional("order", rule::one_of(&Direction::ALL, Direction::as_str))?,
        })
    }
}

impl From<ListTasks> for Tasks {
    fn from(list: ListTasks) -> Self {
        let window = Paging { limit: list.limit, offset: list.offset }.window();
        Self {
            statuses: list.status.unwrap_or_default(),
            model: list.model,
            queue: list.queue,
            tags: list.tags.unwrap_or_default(),
            created_after: list.created_after,
            created_before: list.created_before,
            order: list.order_by.unwrap_or_default(),
            ascending: list.order == Some(Direction::Ascending),
            window,
        }
    }
}
