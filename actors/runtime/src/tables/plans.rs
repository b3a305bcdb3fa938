//! The rows of plans and templates.

use std::collections::BTreeMap;

use callboard_domain::Timestamp;
use callboard_domain::id::{Environment, PlanId};
use callboard_domain::plan::{HitlSource, PlanSource};
use callboard_domain::template::{Choice, TemplateSource};
use callboard_store::{Entry, Error, Op, Store};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use sha2::{Digest, Sha256};

use super::{PLAN_NAMES, PLANS, TEMPLATES, TEXTS, plan_list, plan_term, tag_terms, text};

/// The listed part of a plan, whose definition stands in its texts, or is its template's.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanRow {
    /// A text for people.
    pub name: String,
    /// A text for people.
    pub description: Option<String>,
    /// Labels for filtering.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The number of steps.
    pub steps: u16,
    /// The account that made the plan.
    pub account: String,
    /// The instant.
    pub created_at: Timestamp,
    /// The template of the deploy that made the plan.
    pub deployed: Option<Deployed>,
}

/// The template and the request of a deploy that made a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Deployed {
    /// The template.
    pub template: String,
    /// The template's version.
    pub version: String,
    /// Other models, by step.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, String>,
    /// Other queues, by step.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub queues: BTreeMap<String, String>,
    /// The request's settings for gates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hitl: Option<HitlSource>,
}

/// The name and the description of plans: a search looks through the different ones only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NameRow {
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
}

impl NameRow {
    /// True if a search finds the plan: letters count alike, large or small.
    pub(crate) fn contains(&self, lower: &str) -> bool {
        let within = |text: &String| text.to_lowercase().contains(lower);
        within(&self.name) || self.description.as_ref().is_some_and(within)
    }
}

/// The key of a plan's name and description.
pub(crate) fn name_key(name: &str, description: Option<&str>) -> [u8; 16] {
    let mut digest = Sha256::new();
    digest.update((name.len() as u64).to_be_bytes());
    digest.update(name);
    digest.update(description.unwrap_or_default());
    let mut key = [0; 16];
    key.copy_from_slice(&digest.finalize()[..16]);
    key
}

/// The rows of a new plan; `source` if the plan has a definition of its own.
pub(crate) fn plan_rows(
    environment: Environment,
    id: PlanId,
    row: &PlanRow,
    source: Option<&PlanSource>,
) -> Vec<Op> {
    let (number, name) = (environment.number(), name_key(&row.name, row.description.as_deref()));
    let mut ops = Vec::new();
    if let Some(source) = source {
        let source = serde_json::to_string(source).expect("it has a JSON form");
        ops.extend(TEXTS.put(number, id.as_u128(), text::MADE, &source));
    }
    let mut terms = vec![(plan_term::NAME, Box::from(name))];
    terms.extend(tag_terms(plan_term::TAG, &row.tags));
    terms.extend(row.deployed.as_ref().map(|of| {
        let key = template_key(&of.template, &of.version);
        (plan_term::TEMPLATE, Box::from(key.to_be_bytes()))
    }));
    let entry = Entry { list: plan_list(environment), terms, sort: [None; 2] };
    ops.extend(PLANS.put(number, id.as_u128(), row, Some(entry)));
    let name_row = NameRow { name: row.name.clone(), description: row.description.clone() };
    ops.push(PLAN_NAMES.put(number, &name, &name_row, None));
    ops
}

/// The definition of a plan, if it has one of its own.
pub(crate) async fn plan_source(
    store: &dyn Store,
    environment: Environment,
    id: PlanId,
) -> Result<Option<PlanSource>, Error> {
    let text = TEXTS.get(store, environment.number(), id.as_u128(), text::MADE).await?;
    let damaged = |error: serde_json::Error| Error::Corrupt {
        path: format!("texts of {id}"),
        reason: error.to_string(),
    };
    text.map(|text| serde_json::from_str(&text).map_err(damaged)).transpose()
}

/// A version of a template, whose definition stands in its texts.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TemplateRow {
    pub(crate) id: String,
    pub(crate) version: String,
    pub(crate) author: String,
    /// The author's account.
    pub(crate) account: Option<String>,
    pub(crate) created_at: Timestamp,
    /// The deletion of the version; plans that were made of it may still need it.
    pub(crate) removed_at: Option<Timestamp>,
}

/// The choice among the versions of a template, by the number of the template without a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChoiceRow {
    pub(crate) id: String,
    #[serde(flatten)]
    pub(crate) choice: Choice,
}

/// The number by which a version of a template is stored.
pub(crate) fn template_key(id: &str, version: &str) -> u128 {
    let mut digest = Sha256::new();
    digest.update((id.len() as u64).to_be_bytes());
    digest.update(id);
    digest.update(version);
    let mut key = [0; 16];
    key.copy_from_slice(&digest.finalize()[..16]);
    u128::from_be_bytes(key)
}

/// The rows of a new version of a template.
pub(crate) fn template_rows(
    environment: Environment,
    row: &TemplateRow,
    source: &TemplateSource,
) -> Vec<Op> {
    let (number, key) = (environment.number(), template_key(&row.id, &row.version));
    let source = serde_json::to_string(source).expect("it has a JSON form");
    let mut ops = TEXTS.put(number, key, text::MADE, &source);
    ops.push(template_row(environment, row));
    ops
}

/// The row of a version, without its text.
pub(crate) fn template_row(environment: Environment, row: &TemplateRow) -> Op {
    TEMPLATES.put(environment.number(), &template_key(&row.id, &row.version), row, None)
}

/// The definition of a template's version.
pub(crate) async fn template_source(
    store: &dyn Store,
    environment: Environment,
    row: &TemplateRow,
) -> Result<TemplateSource, Error> {
    let key = template_key(&row.id, &row.version);
    let corrupt = |reason: String| Error::Corrupt {
        path: format!("template {} {}", row.id, row.version),
        reason,
    };
    let text = TEXTS.get(store, environment.number(), key, text::MADE).await?;
    let text = text.ok_or_else(|| corrupt("its text is missing".into()))?;
    serde_json::from_str(&text).map_err(|error| corrupt(error.to_string()))
}
