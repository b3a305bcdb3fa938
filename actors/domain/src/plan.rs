//! Plans: graphs of steps, checked as a whole and compiled once.
//!
//! ```text
//! PlanSource (as given, as stored) ──check: every fault──▶ Plan { steps: prompts, conditions; graph }
//! ```
//!
//! Templates are checked by the same code (docs/reference/errors.md). Deliberately absent: the wire's shape and
//! its types, which are right by the time a source exists, and the run of a plan.

mod call;
mod check;
mod gate;
mod limits;
mod map;
mod source;
mod wait;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::condition::Condition;
use crate::cost;
use crate::error::Rule;
use crate::graph::Graph;
use crate::problem::{Problem, Problems};
use crate::render::members::normal;
use crate::render::{ArgsTemplate, PromptTemplate, Reference};
use crate::retry::Policy;
use crate::schema::Schema;
use crate::task::Message;

pub use call::{FOREIGN, call_faults};
pub use check::compile_schema;
pub(crate) use check::{Checker, Compiles, Declared, Inputs};
pub(crate) use gate::unknown_step;
pub use gate::{HitlSource, gate_of};
pub use limits::{
    MAX_ATTEMPTS, MAX_BACKOFF_MS, MAX_DESCRIPTION, MAX_FILE_SOURCE, MAX_ID, MAX_NAME,
    MAX_REVIEW_MS, MAX_SHOWN, MAX_SHOWN_BYTES, MAX_SHOWN_SOURCE, MAX_STEPS, MAX_TAG, MAX_TAGS,
    MAX_TIMEOUT_MS,
};
pub(crate) use limits::{
    check_flow, check_fraction, check_length, check_max_tokens, check_tags, check_timeout,
};
pub use map::{
    DEFAULT_ITEM, ForEach, ListError, ListSource, MAX_ITEM_NAME, MAX_LISTS, MAX_MAPS, MapSource,
    OnItemError,
};
pub use source::{PlanSource, RetrySource, ReviewSource, StepSource};
pub(crate) use source::{are_brief, schemas};
pub use wait::{Wait, WaitSource, is_signal_name, payload_text};

/// A plan that passed every check.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    source: PlanSource,
    title: Option<PromptTemplate>,
    steps: Vec<Step>,
    graph: Arc<Graph>,
}

/// A step: the source, and its compiled prompts and condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    source: StepSource,
    title: Option<PromptTemplate>,
    prompt: PromptTemplate,
    system_prompt: Option<PromptTemplate>,
    messages: Vec<Message<PromptTemplate, PromptTemplate>>,
    files: Vec<PromptTemplate>,
    args: Option<ArgsTemplate>,
    shown: Vec<PromptTemplate>,
    condition: Option<Condition>,
    for_each: Option<ForEach>,
    wait: Option<Wait>,
    output_schema: Option<Schema>,
}

impl Plan {
    /// Checks and compiles a plan; `env_allow` lists the environment variables that it may use.
    ///
    /// # Errors
    /// Every fault, in the order of the document; or the one that its schemas cost too much to compile
    /// ([`cost`]).
    pub fn compile(source: PlanSource, env_allow: &[String]) -> Result<Self, Problems> {
        Problems::none_of(cost::fault(schemas(&source.steps)).into_iter().collect())?;
        Self::checked(source, env_allow, Compiles::All)
    }

    /// Checks and compiles the plan of a template, whose schemas passed the template's check.
    ///
    /// # Errors
    /// Every other fault, in the order of the document.
    pub(crate) fn of_template(source: PlanSource, env_allow: &[String]) -> Result<Self, Problems> {
        Self::checked(source, env_allow, Compiles::Conditions)
    }

    /// The faults of a plan that are seen without compiling its conditions and schemas.
    #[must_use]
    pub fn outer_faults(source: PlanSource, env_allow: &[String]) -> Vec<Problem> {
        let checked = Self::checked(source, env_allow, Compiles::Nothing);
        checked.err().map_or_else(Vec::new, |problems| problems.all().to_vec())
    }

    fn checked(
        source: PlanSource,
        env_allow: &[String],
        depth: Compiles,
    ) -> Result<Self, Problems> {
        let mut checker = Checker::new(Inputs::Any, env_allow, depth);
        checker.name_and_description(&source.name, source.description.as_deref());
        let title = checker.title(source.title.as_deref());
        let compiled = checker.steps(&source.steps);
        check_tags(&mut checker.problems, &source.tags);
        let problems = checker.problems;
        Problems::none_of(problems)?;
        let (steps, graph) = compiled;
        Ok(Self { source, title, steps, graph: Arc::new(graph) })
    }

    /// Compiles a plan that passed the checks of its time: later settings or a stricter check of a later version
    /// take nothing away that can still be read.
    ///
    /// # Errors
    /// Every fault, if one of them keeps the steps from being what they were.
    pub fn restored(source: PlanSource) -> Result<Self, Problems> {
        let mut checker = Checker::of_stored();
        let title = checker.title(source.title.as_deref());
        let (steps, graph) = checker.steps(&source.steps);
        let is_whole = steps.len() == source.steps.len() && steps.iter().all(Step::is_whole);
        if !is_whole || checker.problems.iter().any(|problem| problem.code.changes_steps()) {
            Problems::none_of(checker.problems)?;
        }
        Ok(Self { source, title, steps, graph: Arc::new(graph) })
    }

    /// The plan as given.
    #[must_use]
    pub const fn source(&self) -> &PlanSource {
        &self.source
    }

    /// The template of the titles of executions.
    #[must_use]
    pub const fn title(&self) -> Option<&PromptTemplate> {
        self.title.as_ref()
    }

    /// The steps, in the order of the document.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The dependencies between the steps, shared with the plan's executions; steps are numbered as in [`Plan::steps`].
    #[must_use]
    pub const fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// The index of the step with this id.
    #[must_use]
    pub fn position(&self, id: &str) -> Option<usize> {
        self.steps.iter().position(|step| step.source.id == id)
    }

    /// The input fields that the steps refer to, by their names in NFC.
    #[must_use]
    pub fn input_fields(&self) -> BTreeSet<&str> {
        self.steps.iter().flat_map(Step::input_fields).collect()
    }

    /// Checks that the input has every field that a step refers to: a plan has no schema, so no field
    /// is optional. A field with the value null is present.
    ///
    /// # Errors
    /// One problem for each missing field: `input.x`, rule `required`.
    pub fn check_input(&self, input: &Map<String, Value>) -> Result<(), Problems> {
        let given: HashSet<_> = input.keys().map(|name| normal(name)).collect();
        let missing = self.input_fields().into_iter().filter(|&field| !given.contains(field));
        let required =
            |field| Problem::rule(Rule::Required, format!("input.{field}"), "is required");
        Problems::none_of(missing.map(required).collect())
    }
}

impl Step {
    /// True if every part of the step was compiled.
    fn is_whole(&self) -> bool {
        let source = &self.source;
        self.condition.is_some() == source.condition.is_some()
            && (self.for_each.is_some() != source.map.is_none() || source.wait.is_some())
            && self.wait.is_some() == source.wait.is_some()
            && self.output_schema.is_some() == source.output_schema.is_some()
            && (self.args.is_some() == source.call.is_some() || source.wait.is_some())
    }

    /// The step as given.
    #[must_use]
    pub const fn source(&self) -> &StepSource {
        &self.source
    }

    /// The step's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.source.id
    }

    /// The template of the title.
    #[must_use]
    pub const fn title(&self) -> Option<&PromptTemplate> {
        self.title.as_ref()
    }

    /// The prompt template.
    #[must_use]
    pub const fn prompt(&self) -> &PromptTemplate {
        &self.prompt
    }

    /// The template of the system prompt.
    #[must_use]
    pub const fn system_prompt(&self) -> Option<&PromptTemplate> {
        self.system_prompt.as_ref()
    }

    /// The templates of the earlier turns.
    #[must_use]
    pub fn messages(&self) -> &[Message<PromptTemplate, PromptTemplate>] {
        &self.messages
    }

    /// The args of the function that the step calls; `None` for a step with a prompt.
    #[must_use]
    pub const fn args(&self) -> Option<&ArgsTemplate> {
        self.args.as_ref()
    }

    /// The templates of its files.
    #[must_use]
    pub fn files(&self) -> &[PromptTemplate] {
        &self.files
    }

    /// Every text of the step: prompt, system prompt, messages, files, the strings of args.
    pub fn texts(&self) -> impl Iterator<Item = &PromptTemplate> {
        let args = self.args.iter().flat_map(ArgsTemplate::texts);
        let messages = self.messages.iter().flat_map(|message| message.content.texts());
        let shown = Message::files(&self.messages).map(|(_, _, file)| file);
        let texts = [&self.prompt].into_iter().chain(&self.system_prompt).chain(messages);
        texts.chain(&self.files).chain(shown).chain(args)
    }

    /// The condition under which the step runs; `None` means always.
    #[must_use]
    pub const fn condition(&self) -> Option<&Condition> {
        self.condition.as_ref()
    }

    /// The list for each of whose items the step runs.
    #[must_use]
    pub const fn for_each(&self) -> Option<&ForEach> {
        self.for_each.as_ref()
    }

    /// The wait; `None` for a step that runs a model.
    #[must_use]
    pub const fn wait(&self) -> Option<&Wait> {
        self.wait.as_ref()
    }

    /// The schema of the output.
    #[must_use]
    pub const fn output_schema(&self) -> Option<&Schema> {
        self.output_schema.as_ref()
    }

    /// The retry policy, with defaults filled in.
    #[must_use]
    pub fn retry(&self) -> Policy {
        self.source.retry.map_or_else(Policy::default, RetrySource::policy)
    }

    /// The texts that a reviewer sees beside the output.
    #[must_use]
    pub fn shown(&self) -> &[PromptTemplate] {
        &self.shown
    }

    /// The references of every text, the title and what a reviewer sees included.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.texts().chain(&self.shown).chain(&self.title).flat_map(PromptTemplate::references)
    }

    fn input_fields(&self) -> impl Iterator<Item = &str> {
        let beside = self.shown.iter().chain(&self.title).flat_map(PromptTemplate::references);
        self.asked_fields().chain(beside.filter_map(Reference::input_field))
    }

    /// The fields of the input on which the step's question depends: those of its texts, lists and condition.
    pub fn asked_fields(&self) -> impl Iterator<Item = &str> {
        let of_list = self.for_each.iter().flat_map(ForEach::references);
        let of_texts = self.texts().flat_map(PromptTemplate::references).chain(of_list);
        let of_texts = of_texts.filter_map(Reference::input_field);
        let of_condition = self
            .condition
            .iter()
            .flat_map(|condition| &condition.references().input)
            .map(String::as_str);
        of_texts.chain(of_condition)
    }
}

#[cfg(test)]
mod tests;
