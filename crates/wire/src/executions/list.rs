//! The executions to list: the parameters of the query.

use callboard_domain::execution::Status;
use callboard_domain::id::{PlanId, TemplateBatchId};
use callboard_domain::query::Executions;
use callboard_domain::{Error, Rule, Timestamp};
use serde_json::json;

use crate::batches::batch_id;
use crate::common::{Paging, tags};
use crate::read::rule::{self, Parse};
use crate::read::shape;
use crate::request;

request! {
    /// The executions to list; the newest first.
    #[derive(Debug)]
    pub struct ListExecutions as "ListExecutions" {
        /// One of these statuses.
        status: Option<Vec<Status>> = optional("status", statuses()),
        /// Only items of this plan.
        plan_id: Option<PlanId> = optional("planId", plan_id()),
        /// Only items of this template.
        template_id: Option<String> = optional("templateId", rule::text(rule::characters(1..=200))),
        /// Only items with all of these tags.
        tags: Option<Vec<String>> = optional("tags", tags()),
        /// Started at this instant or later.
        created_after: Option<Timestamp> = optional("createdAfter", rule::instant()),
        /// Started before this instant.
        created_before: Option<Timestamp> = optional("createdBefore", rule::instant()),
        /// Only rows of this batch.
        batch: Option<TemplateBatchId> = optional("batch", batch_id()),
        /// The page.
        page: Paging = flat(shape::<Paging>()),
    }
}

fn statuses() -> impl Parse<Vec<Status>> {
    rule::commas(1..=Status::ALL.len(), rule::one_of(&Status::ALL, Status::as_str))
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
            tags: list.tags.unwrap_or_default(),
            created_after: list.created_after,
            created_before: list.created_before,
            batch: list.batch,
            window,
        }
    }
}
