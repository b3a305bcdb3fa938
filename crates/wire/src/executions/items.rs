//! The items of a step with `forEach` on the wire.

use callboard_domain::execution::{ItemCounts, ItemStatus};
use callboard_domain::query::Items;
use callboard_domain::task::Task;
use callboard_runtime::read::items::{ItemDetail, ItemPage};
use serde::Serialize;
use utoipa::ToSchema;

use super::{StepResult, Waiting};
use crate::common::Paging;
use crate::read::rule::{self, Parse};
use crate::read::shape;
use crate::request;

/// The number of items in each state; all but `awaitingApproval` sum to `total`.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemCountsBody {
    /// All items.
    total: u32,
    /// The number with an output.
    completed: u32,
    /// The number with a worker.
    running: u32,
    /// Not begun, in a queue, in backoff, or with a reviewer.
    pending: u32,
    /// Failed for good.
    failed: u32,
    /// The number whose output a reviewer rejected.
    rejected: u32,
    /// Cancelled, or not begun when the step ended.
    cancelled: u32,
    /// The number of the pending ones that wait for a reviewer.
    awaiting_approval: u32,
}

impl From<ItemCounts> for ItemCountsBody {
    fn from(counts: ItemCounts) -> Self {
        let ItemCounts {
            total,
            completed,
            running,
            pending,
            failed,
            rejected,
            cancelled,
            awaiting_approval,
        } = counts;
        Self { total, completed, running, pending, failed, rejected, cancelled, awaiting_approval }
    }
}

/// An item of a step; a member that does not exist yet is left out.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemBody<'a> {
    /// The item's number in the list, from 0.
    item: u16,
    /// The task; the status is pending, running, completed, failed, cancelled or rejected.
    #[serde(flatten)]
    result: StepResult<'a>,
}

impl<'a> ItemBody<'a> {
    /// An item of a page; `waiting` gives the obstacle of a pending task.
    #[must_use]
    pub fn of(
        page: &'a ItemPage,
        item: &'a ItemDetail,
        waiting: impl Fn(&Task) -> Waiting,
    ) -> Self {
        let result = StepResult::of_item(item, waiting).with(&page.outputs, item.number);
        Self { item: item.number, result }
    }
}

request! {
    /// The items of a step to list, in the order of the list.
    #[derive(Debug)]
    pub struct ListItems as "ListItems" {
        /// One of these statuses.
        status: Option<Vec<ItemStatus>> = optional("status", statuses()),
        /// The page.
        page: Paging = flat(shape::<Paging>()),
    }
}

fn statuses() -> impl Parse<Vec<ItemStatus>> {
    rule::commas(1..=ItemStatus::ALL.len(), rule::one_of(&ItemStatus::ALL, ItemStatus::as_str))
}

impl From<ListItems> for Items {
    fn from(list: ListItems) -> Self {
        let window = list.page.window();
        Self { statuses: list.status.unwrap_or_default(), window }
    }
}
