//! The executions to list: the parameters of the query.

use callboard_domain::execution::Status;
use callboard_domain::id::PlanId;
use callboard_domain::query::{ExecutionOrder, Executions, Instants, OfBatch};
use callboard_domain::task::EndingCode;
use callboard_domain::{Error, Rule, Timestamp};
use serde_json::json;

use crate::batches::of_batch;
use crate::common::{MAX_SEARCH, Paging, tags};
use crate::read::rule::{self, Parse};
use crate::read::{Fields, Refused, shape};
use crate::request;
use crate::tasks::Direction;

request! {
    /// The executions to list.
    #[derive(Debug)]
    pub struct ListExecutions as "ListExecutions" {
        /// One of these statuses.
        status: Option<Vec<Status>> = optional("status", statuses()),
        /// Only items of this plan.
        plan_id: Option<PlanId> = optional("planId", plan_id()),
        /// Only items of this template.
        template_id: Option<String> = optional("templateId", rule::text(rule::characters(1..=200))),
        /// Only items of this version of the template; needs `templateId`.
        version: Option<String> = optional("version", rule::text(rule::characters(1..=64))),
        /// Only items with all of these tags.
        tags: Option<Vec<String>> = optional("tags", tags()),
        /// Started at this instant or later.
        created_after: Option<Timestamp> = optional("createdAfter", rule::instant()),
        /// Started before this instant.
        created_before: Option<Timestamp> = optional("createdBefore", rule::instant()),
        /// Only rows of this batch; or none, for executions that are no rows of batches.
        batch: Option<OfBatch> = optional("batch", of_batch()),
        /// The id of the item, or beginnings of words of its title, tags or keys: an item has all of them.
        search: Option<String> = optional("search", rule::text(rule::characters(1..=MAX_SEARCH))),
        /// Ended at this instant or later, however it ended.
        ended_after: Option<Timestamp> = optional("endedAfter", rule::instant()),
        /// Ended before this instant.
        ended_before: Option<Timestamp> = optional("endedBefore", rule::instant()),
        /// Ended with one of these error codes.
        error: Option<Vec<EndingCode>> = optional("error", codes()),
        /// Not ended with any of these error codes.
        except_error: Option<Vec<EndingCode>> = optional("exceptError", codes()),
        /// The member to order by; by default createdAt.
        order_by: Option<ExecutionOrder> = optional("orderBy", rule::one_of(&ORDERS, order_name)),
        /// The direction of the order; by default desc.
        order: Option<Direction> = optional("order", rule::one_of(&Direction::ALL, Direction::as_str)),
        /// The page.
        page: Paging = flat(shape::<Paging>()),
    }
    check is_whole
}

fn is_whole(list: ListExecutions, fields: &mut Fields<'_>) -> Result<ListExecutions, Refused> {
    if list.version.is_some() && list.template_id.is_none() {
        return Err(fields.refuse("templateId", Rule::Required, "is required with version"));
    }
    Ok(list)
}

fn statuses() -> impl Parse<Vec<Status>> {
    rule::commas(1..=Status::ALL.len(), rule::one_of(&Status::ALL, Status::as_str))
}

fn codes() -> impl Parse<Vec<EndingCode>> {
    rule::commas(1..=EndingCode::ALL.len(), rule::one_of(&EndingCode::ALL, EndingCode::as_str))
}

const ORDERS: [ExecutionOrder; 2] = [ExecutionOrder::CreatedAt, ExecutionOrder::CompletedAt];

const fn order_name(order: ExecutionOrder) -> &'static str {
    match order {
        ExecutionOrder::CreatedAt => "createdAt",
        ExecutionOrder::CompletedAt => "completedAt",
    }
}

fn plan_id() -> impl Parse<PlanId> {
    let is_id = |text: &String| text.parse::<PlanId>().is_ok();
    rule::text(rule::characters(1..=64))
        .only(is_id, Rule::Format, "must be the id of a plan: dt_plan_…")
        .with(move || json!({"pattern": "^dt_plan_[0-9a-hjkmnp-tv-z]{26}$"}))
        .then(|text| text.parse().map_err(|_| Error::Internal))
}

impl From<ListExecutions> for Executions {
    fn from(list: ListExecutions) -> Self {
        let window = list.page.window();
        Self {
            statuses: list.status.unwrap_or_default(),
            plan: list.plan_id,
            template: list.template_id,
            version: list.version,
            tags: list.tags.unwrap_or_default(),
            created_after: list.created_after,
            created_before: list.created_before,
            batch: list.batch,
            search: list.search,
            ended: Instants { after: list.ended_after, before: list.ended_before },
            errors: list.error.unwrap_or_default(),
            except_errors: list.except_error.unwrap_or_default(),
            order: list.order_by.unwrap_or_default(),
            ascending: list.order == Some(Direction::Ascending),
            window,
        }
    }
}
