//! Plans on the wire.

use callboard_domain::id::PlanId;
use callboard_domain::labels::MAX_TITLE_SOURCE;
use callboard_domain::plan::{MAX_DESCRIPTION, MAX_NAME, Plan, PlanSource};
use callboard_domain::query::Plans;
use callboard_domain::schema::Schema;
use callboard_runtime::read::runs::PlanDetail;
use serde::Serialize;
use serde_json::Value;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::common::{Iso, MAX_SEARCH, Paging, Text, tags};
use super::definitions::{self, Definition, HitlBody, StepBody, steps, text};
use super::read::{rule, shape};
use crate::request;

request! {
    impl PlanSource as "PlanRequest" {
        /// The text for people.
        name = required_or_default("name", text(1..=MAX_NAME)),
        /// The text for people.
        description = optional("description", text(0..=MAX_DESCRIPTION)),
        /// The title of its executions, with placeholders of input, meta and env.
        title = optional("title", text(1..=MAX_TITLE_SOURCE)),
        /// The steps.
        steps = required_or_default("steps", steps()),
        /// The tags, for filtering.
        tags = or_default("tags", definitions::tags()),
    }
}

/// The plan that a parsed body holds. Faults of meaning are found when the plan is made.
#[must_use]
pub fn source(value: Value, env_allow: &[String]) -> Definition<PlanSource> {
    definitions::read(value, |source| Plan::outer_faults(source, env_allow))
}

/// A plan.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanBody<'a> {
    /// `dt_plan_…`
    #[schema(value_type = String)]
    id: Text<PlanId>,
    /// The name: 1 to 100 characters.
    name: &'a str,
    /// The description: at most 500 characters.
    description: Option<&'a str>,
    /// The title of its executions, with `{{…}}`.
    title: Option<&'a str>,
    /// 1 to 500 steps; in lists without their prompts.
    steps: Vec<StepBody<'a>>,
    /// The tags, for filtering: at most 32 of at most 64 characters.
    tags: &'a [String],
    /// The time of creation.
    created_at: Iso,
    /// The template that it was deployed from.
    template_id: Option<&'a str>,
    /// The version of the template.
    template_version: Option<&'a str>,
    /// The template's schema, by which the input of each execution is checked; not in lists.
    #[schema(value_type = Option<Object>)]
    input_schema: Option<&'a Value>,
    /// The gates of each execution, as the template and the deploy have them; not in lists.
    hitl: Option<HitlBody<'a>>,
}

impl<'a> PlanBody<'a> {
    /// A plan with its prompts.
    #[must_use]
    pub fn whole(plan: &'a PlanDetail) -> Self {
        let compiled = &plan.compiled;
        Self {
            steps: compiled.plan.source().steps.iter().map(StepBody::from).collect(),
            input_schema: compiled.input_schema.as_ref().map(Schema::source),
            hitl: compiled.hitl.as_ref().map(HitlBody::from),
            ..Self::summary(plan)
        }
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
            steps: source.steps.iter().map(definitions::summary).collect(),
            title: source.title.as_deref(),
            tags: &source.tags,
            created_at: Iso(plan.created_at),
            template_id: deployed.map(|deployed| deployed.template.as_str()),
            template_version: deployed.map(|deployed| deployed.version.as_str()),
            input_schema: None,
            hitl: None,
        }
    }
}

request! {
    /// The plans to list; the newest first.
    #[derive(Debug)]
    pub struct ListPlans as "ListPlans" {
        /// Only items with all of these tags.
        tags: Option<Vec<String>> = optional("tags", tags()),
        /// A text of the name or the description, in upper or lower case.
        search: Option<String> = optional("search", rule::text(rule::characters(1..=MAX_SEARCH))),
        /// The page.
        page: Paging = flat(shape::<Paging>()),
    }
}

impl From<ListPlans> for Plans {
    fn from(list: ListPlans) -> Self {
        let window = list.page.window();
        Self { tags: list.tags.unwrap_or_default(), search: list.search, window }
    }
}
