//! Templates on the wire (docs/reference/templates.md).

use callboard_domain::Error;
use callboard_domain::confidence::ask::Ask;
use callboard_domain::labels::MAX_TITLE_SOURCE;
use callboard_domain::plan::{HitlSource, MAX_DESCRIPTION, MAX_NAME};
use callboard_domain::problem::{Code, Problem};
use callboard_domain::task::FlowSource;
use callboard_domain::task::{Routing, Sampling};
use callboard_domain::template::{
    Defaults, Industry, Template, TemplateSource, Version, Visibility,
};
use callboard_runtime::catalog::{Published, Standing};
use serde::Serialize;
use serde_json::{Map, Value, json};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::common::Iso;
use super::definitions::{
    self, Definition, HitlBody, StepBody, model, queue, schema, steps, text, timeout,
};
use super::read::rule::{self, Parse};
use super::read::{self, Format, shape};
use crate::answer::Given;
use crate::request;

mod deploy;
mod list;

pub use deploy::DeployTemplate;
use list::VERSION;
pub(super) use list::version as template_version;
pub use list::{ChangeTemplate, GetTemplate, ListTemplates, SetLatest};

/// The longest `metadata`, as compact JSON.
const MAX_METADATA: usize = 256 << 10;

request! {
    impl TemplateSource as "TemplateRequest" {
        /// The name, for people, from which the id is made.
        name = required_or_default("name", text(1..=MAX_NAME)),
        /// The text for people.
        description = optional("description", text(0..=MAX_DESCRIPTION)),
        /// The title of its executions, with placeholders of input, meta and env.
        title = optional("title", text(1..=MAX_TITLE_SOURCE)),
        /// major.minor.patch.
        version = required_or_default("version", version()),
        /// The industry.
        industry = required_or_default("industry", word(&Industry::ALL, Industry::as_str)),
        /// The tags, for filtering.
        tags = or_default("tags", definitions::tags()),
        /// The visibility; by default private.
        visibility = optional("visibility", word(&Visibility::ALL, Visibility::as_str)),
        /// The JSON Schema (2020-12) of the input.
        input_schema = required_or_default("inputSchema", schema()),
        /// The JSON Schema (2020-12) of the last step's output.
        output_schema = optional("outputSchema", schema()),
        /// The steps.
        steps = required_or_default("steps", steps()),
        /// The defaults of steps.
        defaults = optional("defaults", rule::object::<Defaults>()),
        /// The gates of outputs.
        hitl = optional("hitl", rule::object::<HitlSource>()),
        /// Anything: at most 256 KiB as compact JSON. `estimates` declares cost and durationMs.
        metadata = optional("metadata", rule::free(MAX_METADATA)),
    }
}

request! {
    impl Defaults as "DefaultsRequest", answered as "Defaults" {
        /// The model.
        model = optional("model", model()),
        /// The queue.
        queue = optional("queue", queue()),
        /// The time limit of one attempt, in milliseconds.
        timeout_ms = optional("timeoutMs", timeout()),
        /// The most tokens of the output.
        max_tokens = optional("maxTokens", rule::whole(1..=u64::MAX)),
        /// The sampling temperature.
        temperature = optional("temperature", rule::number(0.0..=1.0)),
        /// The seed, the share of the probability and the stop sequences.
        sampling = flat(shape::<Sampling>()),
        /// The models that may be called, and the service tier.
        routing = flat(shape::<Routing>()),
        /// The keys by which tasks run together or take turns.
        flow = flat(shape::<FlowSource>()),
        /// The JSON Schema (2020-12) of the output; the template's own holds for the last step.
        output_schema = optional("outputSchema", schema()),
        /// The source of the confidence.
        confidence = optional("confidence", rule::object::<Ask>()),
    }
}

/// The defaults of steps.
pub type DefaultsBody<'a> = Given<'a, Defaults>;

/// A version, which the domain checks.
fn version() -> impl Parse<String> {
    text(5..=64).with(move || json!({"pattern": VERSION}))
}

/// One of a few words, which the domain checks.
fn word<T: Copy>(all: &[T], name: impl Fn(T) -> &'static str) -> impl Parse<String> {
    let names = move || all.iter().map(|one| name(*one)).collect::<Vec<_>>();
    rule::text(rule::bytes(0..=usize::MAX)).with(move || json!({"enum": names()}))
}

/// The template that a parsed document holds. Faults of meaning are found when the template is compiled.
#[must_use]
pub fn source(value: Value, env_allow: &[String]) -> Definition<TemplateSource> {
    definitions::read(value, |source| Template::outer_faults(&source, env_allow))
}

/// The template in a file, checked as far as possible without a server: only the server knows the
/// allowed environment variables.
///
/// # Errors
/// [`Error::InvalidJson`], [`Error::InvalidYaml`], or [`Error::InvalidDefinition`] with every fault
/// of a template that cannot be read.
pub fn source_from(text: &[u8], format: Format) -> Result<TemplateSource, Error> {
    let is_known = |problem: &Problem| problem.code != Code::EnvNotAllowed;
    let definition = definitions::read(read::parse(text, format)?, |source| {
        Template::outer_faults(&source, &[]).into_iter().filter(is_known).collect()
    });
    definition.finish(|_| false)
}

/// A template.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateBody<'a> {
    /// The name in small letters and hyphens, and the major version: `contract-review-v1`.
    id: &'a str,
    /// The name: 1 to 100 characters.
    name: &'a str,
    /// The description: at most 500 characters.
    description: Option<&'a str>,
    /// The title of its executions, with `{{…}}`.
    title: Option<&'a str>,
    /// major.minor.patch.
    version: &'a str,
    /// legal, finance, devops, marketing, healthcare or custom.
    industry: &'static str,
    /// The tags, for filtering: at most 32 of at most 64 characters.
    tags: &'a [String],
    /// private (by default), organization or public.
    visibility: &'static str,
    /// The author: an e-mail, `key:<name>`, or `system`.
    author: &'a str,
    /// The number of steps.
    steps_count: usize,
    /// The cost of a run, in USD.
    estimated_cost: f64,
    /// The duration of a run, in milliseconds.
    estimated_duration_ms: u64,
    /// The ids of the steps whose outputs are always held.
    hitl_steps: Vec<&'a str>,
    /// The time of creation.
    created_at: Iso,
    /// True if a deploy without a version takes this one.
    latest: bool,
    /// True if it was set as the latest.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    latest_set: bool,
    /// The time at which it was retired: no deploy takes it any more.
    retired_at: Option<Iso>,
    /// JSON Schema (draft 2020-12) of the input; not in lists.
    #[schema(value_type = Object)]
    input_schema: Option<&'a Value>,
    /// JSON Schema of the last step's output; not in lists.
    #[schema(value_type = Option<Object>)]
    output_schema: Option<&'a Value>,
    /// 1 to 500 steps; not in lists.
    #[schema(value_type = Vec<StepBody>)]
    steps: Option<Vec<StepBody<'a>>>,
    /// The defaults of steps; not in lists.
    defaults: Option<DefaultsBody<'a>>,
    /// The held output; not in lists.
    hitl: Option<HitlBody<'a>>,
    /// Anything, at most 256 KiB; `estimates` declares cost and durationMs. Not in lists.
    #[schema(value_type = Option<Object>)]
    metadata: Option<&'a Map<String, Value>>,
}

/// The result of a deletion.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletedBody<'a> {
    /// The template.
    id: &'a str,
    /// The deleted versions, the highest first.
    pub versions: Vec<String>,
}

impl<'a> DeletedBody<'a> {
    /// The answer to a deletion.
    #[must_use]
    pub fn new(id: &'a str, versions: &[Version]) -> Self {
        Self { id, versions: versions.iter().map(Version::to_string).collect() }
    }
}

impl<'a> TemplateBody<'a> {
    /// A template as a list shows it, with its cost and its duration.
    #[must_use]
    pub fn summary(
        published: &'a Published,
        standing: Standing,
        (cost, duration_ms): (f64, u64),
    ) -> Self {
        let (template, source) = (&published.template, published.template.source());
        Self {
            id: template.id(),
            name: &source.name,
            description: source.description.as_deref(),
            title: source.title.as_deref(),
            version: &source.version,
            industry: template.industry().as_str(),
            tags: &source.tags,
            visibility: template.visibility().as_str(),
            author: &published.author,
            steps_count: source.steps.len(),
            estimated_cost: cost,
            estimated_duration_ms: duration_ms,
            hitl_steps: template.hitl_steps(),
            created_at: Iso(published.created_at),
            latest: standing.is_latest,
            latest_set: standing.is_set,
            retired_at: standing.retired_at.map(Iso),
            input_schema: None,
            output_schema: None,
            steps: None,
            defaults: None,
            hitl: None,
            metadata: None,
        }
    }

    /// A template, whole.
    #[must_use]
    pub fn whole(published: &'a Published, standing: Standing, estimate: (f64, u64)) -> Self {
        let source = published.template.source();
        Self {
            input_schema: Some(&source.input_schema),
            output_schema: source.output_schema.as_ref(),
            steps: Some(source.steps.iter().map(StepBody::from).collect()),
            defaults: source.defaults.as_ref().map(DefaultsBody::from),
            hitl: source.hitl.as_ref().map(HitlBody::from),
            metadata: source.metadata.as_ref(),
            ..Self::summary(published, standing, estimate)
        }
    }
}
