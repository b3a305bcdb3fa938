//! The checker of plans and templates, which reports every fault.
//!
//! Faults come in the order of the document; only the steps downstream of a cycle come after all other faults of
//! steps, because the author must mend the cycle first.

mod map;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;

use super::Step;
use super::call::{call_faults, foreign};
use super::limits::{
    MAX_ATTEMPTS, MAX_BACKOFF_MS, MAX_DESCRIPTION, MAX_FILE_SOURCE, MAX_ID, MAX_NAME, MAX_SHOWN,
    MAX_SHOWN_SOURCE, MAX_STEPS, check_fraction, check_length, check_max_tokens, check_range,
    check_timeout, check_whole_flow,
};
use super::source::{RetrySource, StepSource};
use super::wait::Wait;
use crate::condition::{Condition, MAX_PLAN_LENGTH, MAX_PLAN_PATTERNS};
use crate::error::Rule;
use crate::file::MAX_FILES;
use crate::fuel::{Fuel, OutOfFuel};
use crate::function::reserved;
use crate::graph::{Cyclic, Graph};
use crate::id::FileId;
use crate::labels::MAX_TITLE_SOURCE;
use crate::pattern::Patterns;
use crate::problem::{Code, Problem, shortened};
use crate::render::members::normal;
use crate::render::{ArgsTemplate, MAX_FAULTS, MAX_PROMPT, PromptTemplate, Reference};
use crate::schema::{FUEL, Schema};
use crate::task::{Content, MAX_MESSAGES, MAX_PARTS, MAX_TARGET, Message, Part};

/// The input fields that steps may refer to.
pub(crate) enum Inputs<'a> {
    /// Every field: a plan has no schema.
    Any,
    /// The fields that the schema declares.
    Declared(Declared<'a>),
    /// The schema has faults of its own, so its fields are not known.
    Unknown,
}

/// The schema of the input, and the fields that it declares.
pub(crate) struct Declared<'a> {
    schema: &'a Schema,
    /// Their names in NFC.
    fields: HashSet<Cow<'a, str>>,
}

impl<'a> Declared<'a> {
    /// The fields of a schema.
    ///
    /// # Errors
    /// Its references take too many steps to follow.
    pub(crate) fn of(schema: &'a Schema) -> Result<Self, OutOfFuel> {
        Self::within(schema, &mut Fuel::new(FUEL))
    }

    /// The fields of a schema, on this fuel.
    ///
    /// # Errors
    /// The fuel does not last.
    pub(crate) fn within(schema: &'a Schema, fuel: &mut Fuel) -> Result<Self, OutOfFuel> {
        let fields = schema.declared_within(fuel)?.into_iter().map(normal).collect();
        Ok(Self { schema, fields })
    }
}

/// The checker of one definition.
pub(crate) struct Checker<'a> {
    /// The faults so far.
    pub(crate) problems: Vec<Problem>,
    inputs: Inputs<'a>,
    env_allow: &'a [String],
    patterns: Patterns,
    /// The length of the conditions so far, in bytes.
    conditions: usize,
    /// The number of steps with a list so far.
    maps: usize,
    depth: Compiles,
    /// True for a definition that passed the checks of its time.
    is_stored: bool,
}

/// The parts of a definition that its check compiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compiles {
    /// Schemas and conditions.
    All,
    /// Conditions: the schemas passed the check before.
    Conditions,
    /// Nothing, as the definition is refused anyway.
    Nothing,
}

/// The first step with each id.
type Positions<'s> = HashMap<&'s str, u16>;

impl<'a> Checker<'a> {
    /// The checker of a stored definition, whose fields may have had another meaning once.
    pub(crate) fn of_stored() -> Self {
        Self { is_stored: true, ..Self::new(Inputs::Any, &[], Compiles::Conditions) }
    }

    pub(crate) fn new(inputs: Inputs<'a>, env_allow: &'a [String], depth: Compiles) -> Self {
        let patterns = Patterns::with_budget(MAX_PLAN_PATTERNS);
        let problems = Vec::new();
        Self {
            problems,
            inputs,
            env_allow,
            patterns,
            conditions: 0,
            maps: 0,
            depth,
            is_stored: false,
        }
    }

    pub(crate) fn fault(&mut self, rule: Rule, field: impl Into<String>, says: &str) {
        self.problems.push(Problem::rule(rule, field, says));
    }

    pub(crate) fn name_and_description(&mut self, name: &str, description: Option<&str>) {
        check_length(&mut self.problems, "name", name, 1, MAX_NAME);
        if let Some(description) = description {
            check_length(&mut self.problems, "description", description, 0, MAX_DESCRIPTION);
        }
    }

    /// Checks and compiles the template of the titles of executions. It is read before any step runs.
    pub(crate) fn title(&mut self, source: Option<&str>) -> Option<PromptTemplate> {
        const FIELD: &str = "title";
        let source = source?;
        check_length(&mut self.problems, FIELD, source, 1, MAX_TITLE_SOURCE);
        let (title, faults) = PromptTemplate::parse(source);
        for fault in faults {
            self.fault(Rule::Placeholder, FIELD, &fault);
        }
        for reference in title.references() {
            match reference {
                Reference::Input { field, .. } => self.input(FIELD.into(), field),
                Reference::Env(variable) => self.env(FIELD.into(), variable),
                Reference::Output { step, .. } => {
                    let step = shortened(step, MAX_ID);
                    let says = format!(
                        "refers to step {step}, which has not run when the title is made: use input, \
                         meta or env, or give the step a title of its own"
                    );
                    self.fault(Rule::Placeholder, FIELD, &says);
                }
                Reference::Meta(_) | Reference::Item { .. } => {}
            }
        }
        Some(title)
    }

    fn input(&mut self, at: String, field: &str) {
        match &self.inputs {
            Inputs::Declared(declared) if !declared.fields.contains(field) => {
                let field = shortened(field, 64);
                let says = format!("refers to input.{field}, which inputSchema does not declare");
                self.problems.push(Problem::new(Code::InvalidInputRef, at, says));
            }
            Inputs::Declared(_) | Inputs::Any | Inputs::Unknown => {}
        }
    }

    fn env(&mut self, at: String, variable: &str) {
        if !self.env_allow.iter().any(|allowed| allowed == variable) {
            let says = format!(
                "refers to env.{}, which the settings do not allow",
                shortened(variable, 64)
            );
            self.problems.push(Problem::new(Code::EnvNotAllowed, at, says));
        }
    }

    /// Checks and compiles the steps. The result is complete only if there is no problem.
    pub(crate) fn steps(&mut self, sources: &[StepSource]) -> (Vec<Step>, Graph) {
        if sources.is_empty() || sources.len() > MAX_STEPS {
            self.fault(Rule::Length, "steps", &format!("must have 1 to {MAX_STEPS} steps"));
            return (Vec::new(), Graph::default());
        }
        let mut positions = Positions::with_capacity(sources.len());
        for (index, source) in (0..).zip(sources) {
            positions.entry(&source.id).or_insert(index);
        }
        let positions = &positions;
        let dependencies = (0..).zip(sources).map(|(own, source)| {
            let known = move |id: &String| {
                if *id == source.id { Some(own) } else { positions.get(id.as_str()).copied() }
            };
            (&source.id, source.depends_on.iter().filter_map(known))
        });
        let (graph, Cyclic { cycles, downstream }) = match Graph::new(dependencies) {
            Ok(graph) => (graph, Cyclic::default()),
            Err(cyclic) => (Graph::default(), cyclic),
        };
        let mut steps = Vec::with_capacity(sources.len());
        for (index, source) in (0..).zip(sources) {
            let cycle = cycles.iter().find(|cycle| cycle[0] == index);
            let mut checked = StepChecker { checker: self, positions, source, index };
            checked.id();
            let wait = checked.wait();
            let title = checked.title();
            let (prompt, system_prompt) = checked.prompts();
            let messages = checked.messages();
            let files = checked.files();
            let args = checked.call();
            checked.targets();
            checked.depends_on();
            checked.cycle(sources, cycle);
            let shown = checked.shown();
            let condition = checked.condition();
            checked.numbers();
            let for_each = checked.for_each();
            let output_schema = checked.output_schema();
            checked.confidence();
            let source = source.clone();
            steps.push(Step {
                source,
                title,
                prompt,
                system_prompt,
                messages,
                files,
                args,
                shown,
                condition,
                for_each,
                wait,
                output_schema,
            });
        }
        for index in downstream {
            let id = shortened(&sources[usize::from(index)].id, MAX_ID);
            let says = format!("puts step {id} downstream of a cycle, so it could never start");
            self.problems.push(Problem::new(
                Code::UnreachableStep,
                format!("steps[{index}].dependsOn"),
                says,
            ));
        }
        (steps, graph)
    }
}

impl Compiles {
    /// The schema in `field`, which must be an object.
    ///
    /// # Errors
    /// Those of [`Schema::compile`], if schemas are compiled.
    pub(crate) fn schema(self, field: &str, source: &Value) -> Result<Schema, Vec<Problem>> {
        if self == Self::All {
            compile_schema(field, source)
        } else {
            Ok(Schema::checked_before(source))
        }
    }
}

/// Compiles the schema in `field`, which must be an object.
///
/// # Errors
/// Those of [`Schema::compile`].
pub fn compile_schema(field: &str, source: &Value) -> Result<Schema, Vec<Problem>> {
    if source.is_object() {
        Schema::compile(field, source)
    } else {
        Err(vec![Problem::rule(Rule::Type, field, "must be an object")])
    }
}

struct StepChecker<'c, 'a, 's> {
    checker: &'c mut Checker<'a>,
    positions: &'c Positions<'s>,
    source: &'s StepSource,
    index: u16,
}

impl StepChecker<'_, '_, '_> {
    fn field(&self, name: &str) -> String {
        format!("steps[{}].{name}", self.index)
    }

    fn fault(&mut self, code: Code, name: &str, says: &str) {
        let problem = Problem::new(code, self.field(name), says);
        self.checker.problems.push(problem);
    }

    fn breaks(&mut self, rule: Rule, name: &str, says: &str) {
        self.fault(Code::Validation(rule), name, says);
    }

    fn id(&mut self) {
        let id = self.source.id.as_str();
        let of_ids = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if id.is_empty() || id.len() > MAX_ID {
            self.breaks(Rule::Length, "id", &format!("must have 1 to {MAX_ID} characters"));
        } else if !id.starts_with(|first: char| first.is_ascii_lowercase())
            || !id.bytes().all(of_ids)
        {
            self.breaks(Rule::Pattern, "id", "must match ^[a-z][a-z0-9-]*$");
        } else if ["input", "env", "meta"].contains(&id) {
            self.breaks(
                Rule::Reserved,
                "id",
                &format!("must not be {id}, which is the name of a variable"),
            );
        }
        if let Some(first) = self.positions.get(id).filter(|&&first| first != self.index) {
            let says = format!(
                "must be unique: {} is the id of steps[{first}] too",
                shortened(id, MAX_ID)
            );
            self.fault(Code::DuplicateStepId, "id", &says);
        }
    }

    /// The wait of a step of that type; the fields that such a step has no use for are reported here.
    fn wait(&mut self) -> Option<Wait> {
        let at = format!("steps[{}]", self.index);
        let Checker { depth, is_stored, .. } = *self.checker;
        let compiled = self.source.wait.as_ref()?.compile(self.source, &at, depth, is_stored);
        compiled.map_err(|faults| self.checker.problems.extend(faults)).ok()
    }

    fn title(&mut self) -> Option<PromptTemplate> {
        let source = self.source.title.as_deref().filter(|_| self.source.wait.is_none())?;
        let field = self.field("title");
        check_length(&mut self.checker.problems, &field, source, 1, MAX_TITLE_SOURCE);
        Some(self.template("title", source))
    }

    fn prompts(&mut self) -> (PromptTemplate, Option<PromptTemplate>) {
        if self.source.wait.is_some() || self.source.call.is_some() {
            return (PromptTemplate::parse("").0, None);
        }
        let prompt = self.text("prompt", &self.source.prompt);
        let system_prompt = self.source.system_prompt.as_ref();
        (prompt, system_prompt.map(|text| self.text("systemPrompt", text)))
    }

    fn messages(&mut self) -> Vec<Message<PromptTemplate, PromptTemplate>> {
        if self.source.wait.is_some() || self.source.call.is_some() {
            return Vec::new();
        }
        let messages = &self.source.messages;
        if Message::length(messages) > MAX_MESSAGES {
            let says = format!("must have at most {MAX_MESSAGES} bytes of content in all");
            self.breaks(Rule::Length, "messages", &says);
        }
        let shown = Message::files(messages).count();
        if shown + self.source.files.len() > MAX_FILES && shown > 0 {
            let says = format!("must have at most {MAX_FILES} files in all, with those of files");
            self.breaks(Rule::Length, "messages", &says);
        }
        let message = |(index, message): (usize, &Message<String>)| Message {
            role: message.role,
            content: self.content(&format!("messages[{index}].content"), &message.content),
        };
        messages.iter().enumerate().map(message).collect()
    }

    fn content(
        &mut self,
        name: &str,
        content: &Content<String>,
    ) -> Content<PromptTemplate, PromptTemplate> {
        if content.parts().len() > MAX_PARTS {
            self.breaks(Rule::Length, name, &format!("must have at most {MAX_PARTS} parts"));
        }
        let part = |(index, part): (usize, &Part<String>)| match part {
            Part::Text { text } => {
                Part::Text { text: self.template(&format!("{name}[{index}].text"), text) }
            }
            Part::Image { file } => {
                Part::Image { file: self.file(&format!("{name}[{index}].file"), file) }
            }
            Part::Document { file } => {
                Part::Document { file: self.file(&format!("{name}[{index}].file"), file) }
            }
        };
        match content {
            Content::Text(text) => Content::Text(self.template(name, text)),
            Content::Parts(parts) => {
                Content::Parts(parts.iter().take(MAX_PARTS).enumerate().map(part).collect())
            }
        }
    }

    fn files(&mut self) -> Vec<PromptTemplate> {
        if self.source.wait.is_some() {
            return Vec::new();
        }
        let files = &self.source.files;
        if files.len() > MAX_FILES {
            self.breaks(Rule::Length, "files", &format!("must have at most {MAX_FILES} files"));
        }
        let file =
            |(index, source): (usize, &String)| self.file(&format!("files[{index}]"), source);
        files.iter().take(MAX_FILES).enumerate().map(file).collect()
    }

    fn file(&mut self, name: &str, source: &str) -> PromptTemplate {
        let field = self.field(name);
        check_length(&mut self.checker.problems, &field, source, 1, MAX_FILE_SOURCE);
        let template = self.template(name, source);
        if template.references().next().is_none() && source.parse::<FileId>().is_err() {
            let says = "must be the id of a file: file_…, or a placeholder";
            self.breaks(Rule::Format, name, says);
        }
        template
    }

    /// The texts that a reviewer sees beside the output.
    fn shown(&mut self) -> Vec<PromptTemplate> {
        let review = self.source.review.as_ref().filter(|_| self.source.wait.is_none());
        let Some(review) = review else { return Vec::new() };
        if review.show.is_empty() || review.show.len() > MAX_SHOWN {
            self.breaks(Rule::Length, "review.show", &format!("must have 1 to {MAX_SHOWN} texts"));
        }
        let text = |(index, source): (usize, &String)| {
            let name = format!("review.show[{index}]");
            let field = self.field(&name);
            check_length(&mut self.checker.problems, &field, source, 1, MAX_SHOWN_SOURCE);
            self.template(&name, source)
        };
        review.show.iter().take(MAX_SHOWN).enumerate().map(text).collect()
    }

    /// The args of a call; the fields that a step with one has no use for are reported here.
    fn call(&mut self) -> Option<ArgsTemplate> {
        let call = self.source.call.as_ref().filter(|_| self.source.wait.is_none())?;
        let at = format!("steps[{}]", self.index);
        self.checker.problems.extend(foreign(self.source, &at));
        for (name, rule, says) in call_faults(call) {
            self.breaks(rule, name, &says);
        }
        let before = self.checker.problems.len();
        Some(ArgsTemplate::parse(&call.args, &mut |place, source| {
            if self.checker.problems.len() > before + MAX_FAULTS {
                return PromptTemplate::parse("").0;
            }
            self.template(&format!("args{place}"), source)
        }))
    }

    fn text(&mut self, name: &str, source: &str) -> PromptTemplate {
        if source.is_empty() || source.len() > MAX_PROMPT {
            self.breaks(Rule::Length, name, &format!("must have 1 to {MAX_PROMPT} bytes"));
        }
        self.template(name, source)
    }

    fn template(&mut self, name: &str, source: &str) -> PromptTemplate {
        let items = self.source.map.item_names();
        let (text, faults) = PromptTemplate::parse_with_items(source, &items);
        for fault in faults {
            self.breaks(Rule::Placeholder, name, &fault);
        }
        let mut reported = BTreeSet::new();
        for reference in text.references() {
            match reference {
                Reference::Input { field, .. } => {
                    if reported.insert(("input", field)) {
                        self.input(name, field);
                    }
                }
                Reference::Output { step, .. } => {
                    if reported.insert(("step", step)) {
                        self.output(name, step);
                    }
                }
                Reference::Env(variable) => {
                    if reported.insert(("env", variable)) {
                        self.env(name, variable);
                    }
                }
                Reference::Meta(_) | Reference::Item { .. } => {}
            }
        }
        text
    }

    fn input(&mut self, name: &str, field: &str) {
        self.checker.input(format!("steps[{}].{name}", self.index), field);
    }

    /// A step in `dependsOn` that does not exist is reported there only.
    fn output(&mut self, name: &str, step: &str) {
        let declared = self.source.depends_on.iter().any(|id| id == step);
        let shown = shortened(step, MAX_ID);
        match (self.positions.contains_key(step), declared) {
            (false, false) => {
                let says = format!("refers to step {shown}, which does not exist");
                self.fault(Code::MissingDependency, name, &says);
            }
            (true, false) if step == self.source.id => {
                self.fault(
                    Code::UndeclaredDependency,
                    name,
                    "refers to the output of its own step",
                );
            }
            (true, false) => {
                let says = format!("refers to step {shown}, which is not in dependsOn");
                self.fault(Code::UndeclaredDependency, name, &says);
            }
            (true | false, true) => {}
        }
    }

    fn env(&mut self, name: &str, variable: &str) {
        self.checker.env(format!("steps[{}].{name}", self.index), variable);
    }

    fn targets(&mut self) {
        for (name, target) in [("model", &self.source.model), ("queue", &self.source.queue)] {
            if let Some(target) = target {
                check_length(
                    &mut self.checker.problems,
                    &format!("steps[{}].{name}", self.index),
                    target,
                    1,
                    MAX_TARGET,
                );
            }
        }
        if self.source.wait.is_some() || self.source.call.is_some() {
            return;
        }
        let listed = (0..).zip(&self.source.routing.models);
        let listed = listed.map(|(index, model)| (format!("models[{index}]"), model));
        let named = self.source.model.iter().map(|model| ("model".to_owned(), model));
        for (name, model) in
            named.chain(listed).filter(|_| !self.checker.is_stored).collect::<Vec<_>>()
        {
            if let Some(says) = reserved(model) {
                self.breaks(Rule::Reserved, &name, says);
            }
        }
        let routing = self.source.routing.faults(self.source.model.is_some());
        for (name, rule, says) in routing.into_iter().chain(self.source.sampling.faults()) {
            self.breaks(rule, &name, &says);
        }
        let is_alone = self.source.model.is_some() && self.source.routing.fallback_on.is_some();
        if is_alone && !self.checker.is_stored {
            let says = "does not apply beside model, which has no other model to fall back on: name models";
            self.breaks(Rule::Unknown, "fallbackOn", says);
        }
    }

    fn depends_on(&mut self) {
        let ids = &self.source.depends_on;
        if ids.len() > MAX_STEPS {
            self.breaks(Rule::Length, "dependsOn", &format!("must have at most {MAX_STEPS} steps"));
            return;
        }
        for (index, id) in ids.iter().enumerate() {
            if !self.positions.contains_key(id.as_str()) {
                let says = format!("names step {}, which does not exist", shortened(id, MAX_ID));
                self.fault(Code::MissingDependency, &format!("dependsOn[{index}]"), &says);
            }
        }
    }

    fn cycle(&mut self, sources: &[StepSource], cycle: Option<&Vec<u16>>) {
        let Some(cycle) = cycle else { return };
        let id = |&step: &u16| shortened(&sources[usize::from(step)].id, MAX_ID);
        let ids: Vec<_> = cycle.iter().map(id).collect();
        let says = match ids.as_slice() {
            [id] => format!("makes step {id} depend on itself"),
            ids => format!("closes a cycle: steps {} depend on each other", ids.join(", ")),
        };
        self.fault(Code::CircularDependency, "dependsOn", &says);
    }

    fn condition(&mut self) -> Option<Condition> {
        let source = self.source.condition.as_ref()?;
        if self.checker.depth == Compiles::Nothing {
            return None;
        }
        self.checker.conditions += source.len();
        if self.checker.conditions > MAX_PLAN_LENGTH {
            let says = format!(
                "is one too many: the conditions of a plan may have {MAX_PLAN_LENGTH} bytes in all"
            );
            self.fault(Code::InvalidCondition, "condition", &says);
            return None;
        }
        match Condition::compile(source.as_str(), &mut self.checker.patterns) {
            Ok(condition) => {
                for field in &condition.references().input {
                    self.input("condition", field);
                }
                for step in &condition.references().steps {
                    self.output("condition", step);
                }
                Some(condition)
            }
            Err(invalid) => {
                self.fault(Code::InvalidCondition, "condition", &invalid.to_string());
                None
            }
        }
    }

    fn output_schema(&mut self) -> Option<Schema> {
        let source = self.source.output_schema.as_ref()?;
        let compiled = self.checker.depth.schema(&self.field("outputSchema"), source);
        compiled.map_err(|faults| self.checker.problems.extend(faults)).ok()
    }

    fn confidence(&mut self) {
        if let Some(ask) = &self.source.confidence {
            let faults = ask.faults(&self.field("confidence"));
            self.checker.problems.extend(faults);
        }
    }

    fn numbers(&mut self) {
        let StepSource { timeout_ms, retry, max_tokens, temperature, .. } = self.source;
        let prefix = format!("steps[{}].", self.index);
        let problems = &mut self.checker.problems;
        check_timeout(problems, &format!("{prefix}timeoutMs"), *timeout_ms);
        let RetrySource { max_attempts, backoff_ms, max_backoff_ms } = retry.unwrap_or_default();
        check_range(problems, &format!("{prefix}retry.maxAttempts"), max_attempts, 1, MAX_ATTEMPTS);
        check_range(problems, &format!("{prefix}retry.backoffMs"), backoff_ms, 0, MAX_BACKOFF_MS);
        let field = format!("{prefix}retry.maxBackoffMs");
        check_range(problems, &field, max_backoff_ms, 0, MAX_BACKOFF_MS);
        check_max_tokens(problems, &format!("{prefix}maxTokens"), *max_tokens);
        check_fraction(problems, &format!("{prefix}temperature"), *temperature);
        if self.source.wait.is_none() {
            check_whole_flow(problems, &prefix, &self.source.flow);
        }
    }
}
