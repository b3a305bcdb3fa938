//! Which executions to list: the parameters of the query.

use callboard_domain::execution::Status;
use callboard_domain::id::PlanId;
use callboard_domain::query::Executions;
use callboard_domain::{Error, Rule, Timestamp};
use utoipa::IntoParams;

use crate::wire::common::Paging;
use crate::wire::read::{Field, Fields, Read, rule};

/// Which executions to list; the newest first (PROTOCOL.md 4).
#[derive(Debug, IntoParams)]
#[into_params(rename_all = "camelCase", parameter_in = Query)]
pub struct ListExecutions {
    /// One or more of running, completed, failed, cancelled, separated by commas.
    #[param(value_type = Option<String>)]
    pub status: Option<Vec<Status>>,
    /// Of this plan.
    #[param(value_type = Option<String>)]
    pub plan_id: Option<PlanId>,
    /// Of this template.
    pub template_id: Option<String>,
    /// Started at this instant or later.
    #[param(value_type = Option<String>, format = DateTime)]
    pub created_after: Option<Timestamp>,
    /// Started before this instant.
    #[param(value_type = Option<String>, format = DateTime)]
    pub created_before: Option<Timestamp>,
    /// 1 to 100; by default 20.
    pub limit: Option<usize>,
    /// How many to pass over.
    pub offset: Option<usize>,
}

impl Read for ListExecutions {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let status = rule::one_of(&Status::ALL, Status::as_str);
        let paging = Paging::read(fields)?;
        Ok(Self {
            status: fields.optional("status", rule::commas(1..=Status::ALL.len(), status))?,
            plan_id: fields.optional("planId", plan_id)?,
            template_id: fields.optional("templateId", rule::text(rule::characters(1..=200)))?,
            created_after: fields.optional("createdAfter", rule::instant)?,
            created_before: fields.optional("createdBefore", rule::instant)?,
            limit: paging.limit,
            offset: paging.offset,
        })
    }
}

fn plan_id(field: Field<'_>) -> Result<PlanId, Error> {
    let refusal = field.refuse(Rule::Format, "must be the id of a plan: dt_plan_…");
    rule::text(rule::characters(1..=64))(field)?.parse().map_err(|_| refusal)
}

impl From<ListExecutions> for Executions {
    fn from(list: ListExecutions) -> Self {
        let window = Paging { limit: list.limit, offset: list.offset }.window();
        Self {
            statuses: list.status.unwrap_or_default(),
            plan: list.plan_id,
            template: list.template_id,
            created_after: list.created_after,
            created_before: list.created_before,
            window,
        }
    }
}
