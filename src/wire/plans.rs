//! Plans on the wire (SPEC.md, Plan).

use callboard_domain::Error;
use callboard_domain::id::PlanId;
use callboard_domain::plan::{Plan, PlanSource};
use callboard_domain::query::Plans;
use callboard_runtime::read::runs::PlanDetail;
use serde::Serialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::common::{Iso, MAX_SEARCH, Paging, Text};
use super::definitions::{self, StepBody, steps, text, texts};
use super::read::{Fields, Read, rule};

impl Read for PlanSource {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Error> {
        Ok(Self {
            name: fields.required_or_default("name", text)?,
            description: fields.optional("description", text)?,
            steps: fields.required_or_default("steps", steps)?,
            tags: fields.optional("tags", texts)?.unwrap_or_default(),
        })
    }
}

/// The plan that a parsed body holds.
///
/// # Errors
/// [`Error::InvalidDefinition`] with every fault, if anything cannot be read. What can be read and
/// makes no sense is found when the plan is made.
pub fn source(value: Value, env_allow: &[String]) -> Result<PlanSource, Error> {
    definitions::read(value, |source| match Plan::compile(source, env_allow) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.all().to_vec(),
    })
}

/// A plan. Where one is sent, what the service makes is left out: id, createdAt, templateId,
/// templateVersion.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanBody<'a> {
    /// `dt_plan_…`
    #[schema(value_type = String, read_only)]
    id: Text<PlanId>,
    /// 1 to 100 characters.
    name: &'a str,
    /// At most 500 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    /// 1 to 500 steps; in lists without their prompts.
    steps: Vec<StepBody<'a>>,
    /// For filtering: at most 32 of at most 64 characters.
    #[schema(required = false)]
    tags: &'a [String],
    /// When it was made.
    #[schema(value_type = String, format = DateTime, read_only)]
    created_at: Iso,
    /// The template that it was deployed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(read_only)]
    template_id: Option<&'a str>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(read_only)]
    template_version: Option<&'a str>,
}

impl<'a> PlanBody<'a> {
    /// A plan with its prompts.
    #[must_use]
    pub fn whole(plan: &'a PlanDetail) -> Self {
        let source = plan.compiled.plan.source();
        Self { steps: source.steps.iter().map(StepBody::whole).collect(), ..Self::summary(plan) }
    }

    /// A plan as a list shows it.
    #[must_use]
    pub fn summary(plan: &'a PlanDetail) -> Self {
        let source = plan.compiled.plan.source();
        let deployed = plan.deployed.as_ref();
        Self {
            id: Text(plan.id),
            name: &source.name,
            description: source.description.as_deref(),
            steps: source.steps.iter().map(StepBody::summary).collect(),
            tags: &source.tags,
            created_at: Iso(plan.created_at),
            template_id: deployed.map(|deployed| deployed.template.as_str()),
            template_version: deployed.map(|deployed| deployed.version.as_str()),
        }
    }
}

/// Which plans to list; the newest first.
#[derive(Debug, IntoParams)]
#[into_params(rename_all = "camelCase", parameter_in = Query)]
pub struct ListPlans {
    /// Tags separated by commas; a plan has all of them.
    #[param(value_type = Option<String>)]
    pub tags: Option<Vec<String>>,
    /// In the name or the description, in upper or lower case.
    pub search: Option<String>,
    /// 1 to 100; by default 20.
    pub limit: Option<usize>,
    /// How many to pass over.
    pub offset: Option<usize>,
}

impl Read for ListPlans {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let tag = rule::text(rule::characters(1..=64));
        let paging = Paging::read(fields)?;
        Ok(Self {
            tags: fields.optional("tags", rule::commas(1..=32, tag))?,
            search: fields.optional("search", rule::text(rule::characters(1..=MAX_SEARCH)))?,
            limit: paging.limit,
            offset: paging.offset,
        })
    }
}

impl From<ListPlans> for Plans {
    fn from(list: ListPlans) -> Self {
        let window = Paging { limit: list.limit, offset: list.offset }.window();
        Self { tags: list.tags.unwrap_or_default(), search: list.search, window }
    }
}
