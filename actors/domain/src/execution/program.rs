//! The program of an execution: its compiled plan, its input, and the decision about a ready step.
//!
//! Deliberately absent: the order of events. The machine names the step to decide.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Due, Execution, Spec, StepState};
use crate::Timestamp;
use crate::condition;
use crate::file::MAX_FILES;
use crate::fuel::{Fuel, OutOfFuel};
use crate::graph::{Graph, StepSet};
use crate::id::{ExecutionId, FileId};
use crate::labels::{Labels, title_of};
use crate::plan::{ForEach, HitlSource, MAX_SHOWN_BYTES, Plan, Step, gate_of};
use crate::render::{self, Meta, PromptTemplate, Scope};
use crate::retry::Policy;
use crate::schedule::Occurrence;
use crate::schema::{self, Schema};
use crate::task::{Ending, EndingCode, FilePlace, Inputs, MAX_MESSAGES, Message, Request, Task};
use crate::template::{Deployment, Template};

mod outputs;

pub use outputs::{OutputLocation, Outputs, made};

use outputs::{AtStart, WithOutputs};

/// The fuel of a condition in a brief evaluation.
const BRIEF_FUEL: u64 = 50_000;

/// The weight of the prompts of a brief evaluation, in bytes.
const BRIEF_TEXTS: usize = 256 << 10;

/// The review gates that a start request or a template asks for.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ReviewPolicy {
    /// The outputs that are held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hitl: Option<HitlSource>,
}

/// A plan, compiled once for all its executions.
#[derive(Debug)]
pub struct CompiledPlan {
    /// The plan.
    pub plan: Plan,
    /// The dependencies of the plan's steps, by number.
    pub graph: Arc<Graph>,
    /// The schema of the last step's output.
    pub output_schema: Option<Schema>,
    /// The schema of the input; `None` for a plan that no deploy made.
    pub input_schema: Option<Schema>,
    /// The gates of every execution, unless its request replaces a member.
    pub hitl: Option<HitlSource>,
}

impl CompiledPlan {
    /// Compiles a checked plan.
    #[must_use]
    pub fn new(plan: Plan, output_schema: Option<Schema>) -> Self {
        let graph = Arc::clone(plan.graph());
        Self { plan, graph, output_schema, input_schema: None, hitl: None }
    }

    /// The plan that a deployment of a template made.
    #[must_use]
    pub fn of_template(template: &Template, deployment: Deployment) -> Self {
        let Deployment { plan, hitl } = deployment;
        let input_schema = Some(template.input_schema().clone());
        Self { input_schema, hitl, ..Self::new(plan, template.output_schema().cloned()) }
    }

    /// The steps that wait for a signal of this name.
    #[must_use]
    pub fn waits_for(&self, signal: &str) -> StepSet {
        let is_of = |step: &Step| step.wait().is_some_and(|wait| wait.signal == signal);
        let steps = (0..).zip(self.plan.steps());
        steps.filter(|(_, step)| is_of(step)).map(|(number, _)| number).collect()
    }

    /// The approximate bytes of the plan as it was given, with its schemas.
    #[must_use]
    pub fn size(&self) -> usize {
        let schemas = self.input_schema.iter().chain(&self.output_schema);
        self.plan.source().size() + schemas.map(Schema::length).sum::<usize>()
    }

    /// The tags of the plan, and these.
    #[must_use]
    pub fn tags_with(&self, own: &[String]) -> Vec<String> {
        let mut tags = self.plan.source().tags.clone();
        for tag in own {
            if !tags.contains(tag) {
                tags.push(tag.clone());
            }
        }
        tags
    }

    /// The schema of a step's output: the template's for the last step, else the step's own.
    #[must_use]
    pub fn schema_of(&self, step: u16) -> Option<&Schema> {
        let of_template = self.output_schema.as_ref().filter(|_| self.checked() == Some(step));
        let own = || self.plan.steps().get(usize::from(step))?.output_schema();
        of_template.or_else(own)
    }

    /// The step whose output is checked against the template's schema.
    #[must_use]
    pub fn checked(&self) -> Option<u16> {
        let last = u16::try_from(self.plan.steps().len()).ok()?.checked_sub(1)?;
        self.output_schema.as_ref().map(|_| last)
    }
}

/// The configured defaults of tasks that plans create.
#[derive(Debug, Clone, Default)]
pub struct TaskDefaults {
    /// The model of a step that names none.
    pub model: String,
    /// The environment variables that plans may use.
    pub env: HashMap<String, String>,
    /// True if an output without a confidence passes a threshold.
    pub pass_unknown: bool,
}

/// The program of one execution.
#[derive(Debug)]
pub struct Program {
    /// The plan.
    pub compiled: Arc<CompiledPlan>,
    /// The gates that the start request asked for.
    pub review: ReviewPolicy,
    /// The input, with defaults filled in.
    pub input: Map<String, Value>,
    about: About,
    defaults: Arc<TaskDefaults>,
}

/// The values of `meta` in an execution. The texts are made when they are first asked for.
#[derive(Debug)]
pub struct About {
    id: ExecutionId,
    begins_at: Timestamp,
    occurrence: Option<Box<Occurrence>>,
    tags: Vec<String>,
    title: Option<String>,
    texts: [OnceLock<Option<String>>; Meta::ALL.len()],
}

impl From<&Spec> for About {
    fn from(spec: &Spec) -> Self {
        let begins_at = spec.start_at.unwrap_or(spec.created_at);
        let about = Self::new(spec.id, begins_at, spec.occurrence.clone());
        Self { tags: spec.tags.clone(), title: spec.title().map(str::to_owned), ..about }
    }
}

impl About {
    /// An execution that is to begin at this instant.
    #[must_use]
    pub fn new(id: ExecutionId, begins_at: Timestamp, occurrence: Option<Box<Occurrence>>) -> Self {
        let (tags, title) = (Vec::new(), None);
        Self { id, begins_at, occurrence, tags, title, texts: Default::default() }
    }

    /// The same with these tags.
    #[must_use]
    pub fn with_tags(self, tags: Vec<String>) -> Self {
        Self { tags, ..self }
    }

    fn text(&self, meta: Meta) -> Option<&str> {
        let make = || match meta {
            Meta::ExecutionId => Some(self.id.to_string()),
            Meta::StartedAt => Some(self.begins_at.to_string()),
            Meta::TemplateName
            | Meta::ScheduledAt
            | Meta::PreviousScheduledAt
            | Meta::ScheduledDate
            | Meta::PreviousScheduledDate
            | Meta::Timezone => self.occurrence.as_ref().and_then(|it| it.value(meta)),
        };
        self.texts[meta as usize].get_or_init(make).as_deref()
    }
}

/// The effort that an evaluation may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Less than about a millisecond, so that others can wait for the evaluation.
    Brief,
    /// All that a condition and its prompts may take, on a thread that blocks no other work.
    Full,
}

impl Effort {
    const fn fuel(self) -> Fuel {
        Fuel::new(match self {
            Self::Brief => BRIEF_FUEL,
            Self::Full => condition::FUEL,
        })
    }
}

/// The decision about a ready step.
#[derive(Debug)]
pub enum Evaluation {
    /// The step runs as this task.
    Run(Box<Request>, Policy),
    /// The step is a wait with this time limit, in milliseconds.
    Await(Option<u64>),
    /// The step's condition is false.
    Skip,
    /// The step's condition or prompt cannot be evaluated.
    Fail(Ending),
    /// The step runs once for each of these items.
    Expand(Box<List>),
}

/// The list of a step that begins.
#[derive(Debug)]
pub struct List {
    /// The number of the list among those of the plan.
    pub number: u8,
    /// The items.
    pub items: Vec<Value>,
    /// The most tasks at once.
    pub concurrency: Option<u16>,
    /// The number of items that must complete.
    pub min_success: u16,
    /// Requests, each with the items that cost at most as much; `None` if the execution has no `maxCost`.
    pub costs: Option<Vec<(Vec<u16>, Request)>>,
}

impl List {
    /// Leaves out the costs of items whose outputs are there already.
    pub fn are_there(&mut self, is_there: impl Fn(u16) -> bool) {
        for (items, _) in self.costs.iter_mut().flatten() {
            items.retain(|item| !is_there(*item));
        }
    }
}

impl Program {
    /// The program of an execution.
    #[must_use]
    pub fn new(
        about: About,
        compiled: Arc<CompiledPlan>,
        review: ReviewPolicy,
        input: Map<String, Value>,
        defaults: Arc<TaskDefaults>,
    ) -> Self {
        Self { compiled, review, input, about, defaults }
    }

    /// The same program, of an execution with this title, or else with that of its plan.
    #[must_use]
    pub fn titled(mut self, given: Option<String>) -> Self {
        let of_plan = || {
            // A title without the value of a placeholder is none; no execution fails of it.
            let text = self.compiled.plan.title()?.render(&self.scope_at_start()).ok()?;
            title_of(&text)
        };
        self.about.title = given.or_else(of_plan);
        self
    }

    /// The title of the execution.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.about.title.as_deref()
    }

    /// The number of the step that `task` runs.
    #[must_use]
    pub fn step_of(&self, task: &Task) -> Option<u16> {
        let (_, name) = task.spec.origin.step.as_ref()?;
        self.compiled.plan.position(name).and_then(|at| u16::try_from(at).ok())
    }

    /// The values that prompts can refer to before any step ran.
    #[must_use]
    pub fn scope_at_start(&self) -> impl Scope + '_ {
        AtStart(self)
    }

    /// Evaluates the condition of a ready step and renders its prompts. `None` if that takes more than
    /// the effort allows.
    #[must_use]
    pub fn evaluate(
        &self,
        due: Due,
        execution: &Execution,
        outputs: &Outputs,
        effort: Effort,
    ) -> Option<Evaluation> {
        let step = &self.compiled.plan.steps()[usize::from(due.step)];
        let item = due.item.and_then(|item| outputs.item(due.step, item));
        let each = step.for_each();
        let scope = WithOutputs { program: self, execution, outputs, each, item };
        if let (Some(condition), None) = (step.condition(), due.item) {
            match (condition.evaluate(&scope, &mut effort.fuel()), effort) {
                (Ok(true), _) => {}
                (Ok(false), _) => return Some(Evaluation::Skip),
                (Err(condition::Error::OutOfFuel), Effort::Brief) => return None,
                (Err(error), _) => return Some(failed(EndingCode::ConditionFailed, &error)),
            }
        }
        if let (Some(each), None) = (step.for_each(), due.item) {
            return self.expand(step, each, &scope, effort);
        }
        if let Some(wait) = step.wait() {
            return Some(Evaluation::Await(wait.timeout_ms));
        }
        if effort == Effort::Brief
            && step.texts().chain(step.shown()).map(|it| it.weight(&scope)).sum::<usize>()
                > BRIEF_TEXTS
        {
            return None;
        }
        let mut inputs = match rendered(step, &scope) {
            Ok(inputs) => inputs,
            Err(error) => return Some(failed(EndingCode::RenderFailed, &error)),
        };
        let row = match due.item {
            Some(item) => execution.item(due.step, item),
            None => execution.step(due.step),
        };
        let amendment = row.map(StepState::amendment).unwrap_or_default();
        amendment.amend(&mut inputs);
        inputs.output_schema = self.compiled.schema_of(due.step).cloned();
        inputs.confidence = step.source().confidence.clone().map(Box::new);
        inputs.shown = shown(step, &scope);
        let mut request = self.request(step, inputs);
        request.max_tokens = amendment.max_tokens.or(request.max_tokens);
        if let Some(text) = step.title().and_then(|title| title.render(&scope).ok())
            && let Some(title) = title_of(&text)
        {
            request.labels = Labels::titled(Some(title));
        }
        Some(Evaluation::Run(Box::new(request), step.retry()))
    }

    /// The list of a step, and the worst-case cost of its items. `None` if that takes more than the effort
    /// allows.
    fn expand(
        &self,
        step: &Step,
        each: &ForEach,
        scope: &WithOutputs<'_>,
        effort: Effort,
    ) -> Option<Evaluation> {
        let is_brief = effort == Effort::Brief;
        let weight = each.references().map(|list| render::value_weight(list, scope)).sum::<usize>();
        if is_brief && weight > BRIEF_TEXTS {
            return None;
        }
        let items = match each.items(scope) {
            Ok(items) => items,
            Err(error) => return Some(failed(EndingCode::RenderFailed, &error)),
        };
        let count = u16::try_from(items.len()).expect("maxItems is less");
        let is_capped = scope.execution.head.spec.max_cost.is_some();
        let costs = if is_capped {
            let weight = |item| {
                let scope = WithOutputs { item: Some(item), ..*scope };
                step.texts().map(|text| text.weight(&scope)).sum::<usize>()
            };
            if is_brief && items.iter().map(weight).sum::<usize>() > BRIEF_TEXTS {
                return None;
            }
            Some(self.costs(step, &items, scope))
        } else {
            None
        };
        Some(Evaluation::Expand(Box::new(List {
            number: each.number(),
            concurrency: each.concurrency(),
            min_success: each.least(count),
            items,
            costs,
        })))
    }

    /// The longest request of each size, with the items that are about as long: few requests
    /// stand for all, so that a long list does not lie in memory once more. An item that cannot be
    /// rendered fails when it is its turn, and costs nothing.
    fn costs(
        &self,
        step: &Step,
        items: &[Value],
        scope: &WithOutputs<'_>,
    ) -> Vec<(Vec<u16>, Request)> {
        let mut sizes: BTreeMap<(u32, usize), (Vec<u16>, Inputs)> = BTreeMap::new();
        for (number, item) in (0..).zip(items) {
            let scope = WithOutputs { item: Some(item), ..*scope };
            let Ok(inputs) = rendered(step, &scope) else { continue };
            let (alike, longest) = sizes.entry(size_class(inputs.length())).or_default();
            alike.push(number);
            if longest.length() <= inputs.length() {
                *longest = inputs;
            }
        }
        sizes.into_values().map(|(alike, inputs)| (alike, self.request(step, inputs))).collect()
    }

    fn meta(&self, meta: Meta) -> Option<&str> {
        if meta == Meta::TemplateName {
            return Some(&self.compiled.plan.source().name);
        }
        self.about.text(meta)
    }

    /// The request of a step without its texts, for the models that it may call; `None` for a wait step.
    #[must_use]
    pub fn outline(&self, step: u16) -> Option<Request> {
        let of = self.compiled.plan.steps().get(usize::from(step))?;
        if of.wait().is_some() {
            return None;
        }
        let inputs = Inputs {
            output_schema: self.compiled.schema_of(step).cloned(),
            confidence: of.source().confidence.clone().map(Box::new),
            ..Inputs::default()
        };
        Some(self.request(of, inputs))
    }

    fn request(&self, step: &Step, inputs: Inputs) -> Request {
        let source = step.source();
        Request {
            model: source
                .first_model()
                .map_or_else(|| self.defaults.model.clone(), Cow::into_owned),
            queue: source.queue.clone().unwrap_or_else(|| Request::DEFAULT_QUEUE.into()),
            priority: Request::DEFAULT_PRIORITY,
            timeout_ms: source.timeout_ms.unwrap_or(Request::DEFAULT_TIMEOUT_MS),
            tags: self.compiled.tags_with(&self.about.tags),
            max_tokens: source.max_tokens,
            temperature: source.temperature,
            sampling: source.sampling.boxed(),
            callback_url: None,
            labels: Labels::titled(self.about.title.clone()),
            gate: gate_of(source, self.review.hitl.as_ref(), self.defaults.pass_unknown),
            routing: (!source.routing.is_none()).then(|| Box::new(source.routing.clone())),
            flow: source.flow.flow().map(Arc::new),
            start_at: None,
            retry: Policy::default(),
            inputs,
        }
    }
}

/// Checks an output against a schema, with the result of [`Schema::check_output`]. `None` if that
/// takes more than the effort allows.
#[must_use]
pub fn check_output(
    schema: &Schema,
    output: &str,
    effort: Effort,
) -> Option<Result<Option<String>, String>> {
    let fuel = match effort {
        Effort::Brief if !schema.is_brief() => return None,
        Effort::Brief => schema::BRIEF_FUEL,
        Effort::Full => schema::FUEL,
    };
    match (schema.check_output(output, &mut Fuel::new(fuel)), effort) {
        (Ok(result), _) => Some(result),
        (Err(OutOfFuel), Effort::Brief) => None,
        (Err(OutOfFuel), Effort::Full) => {
            Some(Err("the output takes too many steps to check against its schema".to_owned()))
        }
    }
}

/// Lengths of one class differ by an eighth at most.
fn size_class(length: usize) -> (u32, usize) {
    let octave = length.checked_ilog2().unwrap_or(0);
    (octave, length >> octave.saturating_sub(3))
}

/// The texts of a step, rendered.
fn rendered(step: &Step, scope: &impl Scope) -> Result<Inputs, render::Error> {
    let mut files = rendered_files(step.files(), scope)?;
    let messages = rendered_messages(step, scope, &mut files)?;
    if files.len() > MAX_FILES {
        return Err(render::Error::TooManyFiles);
    }
    Ok(Inputs {
        prompt: step.prompt().render(scope)?,
        system_prompt: step.system_prompt().map(|text| text.render(scope)).transpose()?,
        context: None,
        messages,
        files,
        args: step.args().map(|args| args.render(scope)).transpose()?.map(Box::new),
        ..Inputs::default()
    })
}

/// The texts that a reviewer sees beside the output, [`MAX_SHOWN_BYTES`] in all. A text without the value of a
/// placeholder is left out; no execution fails of it.
fn shown(step: &Step, scope: &impl Scope) -> Vec<String> {
    let mut left = MAX_SHOWN_BYTES;
    let render = |text: &PromptTemplate| {
        let mut text = text.render(scope).ok()?;
        if text.len() > left {
            text.truncate(text.floor_char_boundary(left));
        }
        left -= text.len();
        Some(text).filter(|text| !text.is_empty())
    };
    step.shown().iter().filter_map(render).collect()
}

/// The messages of a step, rendered, with [`MAX_MESSAGES`] in all; their files are added to those of the step.
fn rendered_messages(
    step: &Step,
    scope: &impl Scope,
    files: &mut Vec<FileId>,
) -> Result<Vec<Message>, render::Error> {
    let mut left = MAX_MESSAGES;
    let mut message = |message: &Message<PromptTemplate, PromptTemplate>| {
        let text = |text: &PromptTemplate| {
            let text = text.render(scope)?;
            left = left.checked_sub(text.len()).ok_or(render::Error::MessagesTooLong)?;
            Ok(text)
        };
        let file = |file: &PromptTemplate| {
            let from = files.len();
            files.extend(rendered_files(std::slice::from_ref(file), scope)?);
            let place = |at| FilePlace::try_from(at).map_err(|_| render::Error::TooManyFiles);
            (from..files.len()).map(place).collect()
        };
        let content = message.content.try_map(text, file)?;
        Ok(Message { role: message.role, content })
    };
    step.messages().iter().map(&mut message).collect()
}

/// The files of templates: each text is an identifier, a JSON list of some, or empty for none.
fn rendered_files(
    templates: &[PromptTemplate],
    scope: &impl Scope,
) -> Result<Vec<FileId>, render::Error> {
    let mut files = Vec::new();
    for template in templates {
        let text = template.render(scope)?;
        let names: Vec<String> = match text.as_str() {
            "" => Vec::new(),
            list if list.starts_with('[') => {
                serde_json::from_str(list).map_err(|_| render::Error::no_file(list))?
            }
            _ => vec![text],
        };
        for name in names {
            files.push(name.parse().map_err(|_| render::Error::no_file(&name))?);
        }
    }
    Ok(files)
}

fn failed(code: EndingCode, error: &dyn std::error::Error) -> Evaluation {
    Evaluation::Fail(Ending { code, message: error.to_string() })
}
