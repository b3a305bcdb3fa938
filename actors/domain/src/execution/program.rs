//! The program of an execution: its compiled plan, its input, and the decision about a ready step.
//!
//! Deliberately absent: the order of events. The machine names the step to decide.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Execution, Stage, StepState};
use crate::condition;
use crate::fuel::{Fuel, OutOfFuel};
use crate::graph::Graph;
use crate::id::{ExecutionId, TaskId};
use crate::plan::{HitlSource, Plan, Step, gate_of};
use crate::render::{self, Meta, Output, PromptTemplate, Scope};
use crate::retry::Policy;
use crate::schema::{self, Schema};
use crate::task::{Ending, EndingCode, Inputs, MAX_MESSAGES, Message, Request, Role, Task};
use crate::template::{Deployment, Template};

/// The size of the outputs that an awake execution remembers, in bytes.
const REMEMBERED: usize = 256 << 10;

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

    /// About how many bytes the plan has as it was given, with its schemas.
    #[must_use]
    pub fn size(&self) -> usize {
        let schemas = self.input_schema.iter().chain(&self.output_schema);
        self.plan.source().size() + schemas.map(Schema::length).sum::<usize>()
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
    id: String,
    defaults: Arc<TaskDefaults>,
}

/// The effort that an evaluation may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Less than about a millisecond, so that others can wait for it.
    Brief,
    /// All that a condition and its prompts may take, on a thread that nobody else waits for.
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
    /// The step's condition is false.
    Skip,
    /// The step's condition or prompt cannot be evaluated.
    Fail(Ending),
}

impl Program {
    /// The program of the execution `id`.
    #[must_use]
    pub fn new(
        id: ExecutionId,
        compiled: Arc<CompiledPlan>,
        review: ReviewPolicy,
        input: Map<String, Value>,
        defaults: Arc<TaskDefaults>,
    ) -> Self {
        Self { compiled, review, input, id: id.to_string(), defaults }
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
        number: u16,
        execution: &Execution,
        outputs: &Outputs,
        effort: Effort,
    ) -> Option<Evaluation> {
        let step = &self.compiled.plan.steps()[usize::from(number)];
        let scope = WithOutputs { program: self, execution, outputs };
        if let Some(condition) = step.condition() {
            match (condition.evaluate(&scope, &mut effort.fuel()), effort) {
                (Ok(true), _) => {}
                (Ok(false), _) => return Some(Evaluation::Skip),
                (Err(condition::Error::OutOfFuel), Effort::Brief) => return None,
                (Err(error), _) => return Some(failed(EndingCode::ConditionFailed, &error)),
            }
        }
        if effort == Effort::Brief
            && step.texts().map(|text| text.weight(&scope)).sum::<usize>() > BRIEF_TEXTS
        {
            return None;
        }
        let prompt = step.prompt().render(&scope);
        let system_prompt = step.system_prompt().map(|text| text.render(&scope)).transpose();
        let messages = rendered_messages(step, &scope);
        let (mut prompt, system_prompt, messages) = match (prompt, system_prompt, messages) {
            (Ok(prompt), Ok(system_prompt), Ok(messages)) => (prompt, system_prompt, messages),
            (Err(error), _, _) | (_, Err(error), _) | (_, _, Err(error)) => {
                return Some(failed(EndingCode::RenderFailed, &error));
            }
        };
        let amendment = execution.step(number).map(StepState::amendment).unwrap_or_default();
        amendment.amend(&mut prompt);
        let output_schema = self.compiled.schema_of(number).cloned();
        let confidence = step.source().confidence.clone().map(Box::new);
        let inputs =
            Inputs { prompt, system_prompt, context: None, messages, output_schema, confidence };
        let mut request = self.request(step, inputs);
        request.max_tokens = amendment.max_tokens.or(request.max_tokens);
        Some(Evaluation::Run(Box::new(request), step.retry()))
    }

    #[expect(clippy::unnecessary_wraps, reason = "the signature of Scope::meta")]
    fn meta(&self, meta: Meta) -> Option<&str> {
        Some(match meta {
            Meta::TemplateName => &self.compiled.plan.source().name,
            Meta::ExecutionId => &self.id,
        })
    }

    fn request(&self, step: &Step, inputs: Inputs) -> Request {
        let source = step.source();
        Request {
            model: source.model.clone().unwrap_or_else(|| self.defaults.model.clone()),
            queue: source.queue.clone().unwrap_or_else(|| Request::DEFAULT_QUEUE.into()),
            priority: Request::DEFAULT_PRIORITY,
            timeout_ms: source.timeout_ms.unwrap_or(Request::DEFAULT_TIMEOUT_MS),
            tags: self.compiled.plan.source().tags.clone(),
            max_tokens: source.max_tokens,
            temperature: source.temperature,
            callback_url: None,
            gate: gate_of(source, self.review.hitl.as_ref(), self.defaults.pass_unknown),
            inputs,
        }
    }
}

/// Checks an output against a schema; the result is as of [`Schema::check_output`]. `None` if that
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

/// The messages of a step, rendered; with [`MAX_MESSAGES`] in all.
fn rendered_messages(step: &Step, scope: &impl Scope) -> Result<Vec<Message>, render::Error> {
    let mut left = MAX_MESSAGES;
    let mut message = |(role, content): (Role, &PromptTemplate)| {
        let content = content.render(scope)?;
        left = left.checked_sub(content.len()).ok_or(render::Error::MessagesTooLong)?;
        Ok(Message { role, content })
    };
    step.messages().map(&mut message).collect()
}

fn failed(code: EndingCode, error: &dyn std::error::Error) -> Evaluation {
    Evaluation::Fail(Ending { code, message: error.to_string() })
}

struct AtStart<'a>(&'a Program);

impl Scope for AtStart<'_> {
    fn input(&self) -> &Map<String, Value> {
        &self.0.input
    }

    fn output(&self, _: &str) -> Output<'_> {
        Output::Unknown
    }

    fn env(&self, name: &str) -> Option<&str> {
        self.0.defaults.env.get(name).map(String::as_str)
    }

    fn meta(&self, meta: Meta) -> Option<&str> {
        self.0.meta(meta)
    }
}

struct WithOutputs<'a> {
    program: &'a Program,
    execution: &'a Execution,
    outputs: &'a Outputs,
}

impl Scope for WithOutputs<'_> {
    fn input(&self) -> &Map<String, Value> {
        &self.program.input
    }

    fn output(&self, step: &str) -> Output<'_> {
        let position = self.program.compiled.plan.position(step);
        let Some(number) = position.and_then(|at| u16::try_from(at).ok()) else {
            return Output::Unknown;
        };
        match self.execution.step(number).map(|row| row.stage) {
            Some(Stage::Skipped) => Output::Skipped,
            Some(Stage::Completed) => {
                let output = self.outputs.known.get(&number);
                output.map_or(Output::Unknown, |output| Output::Completed(output))
            }
            Some(
                Stage::Waiting
                | Stage::Ready
                | Stage::Dispatched
                | Stage::Failed
                | Stage::Rejected
                | Stage::Cancelled,
            )
            | None => Output::Unknown,
        }
    }

    fn env(&self, name: &str) -> Option<&str> {
        self.program.defaults.env.get(name).map(String::as_str)
    }

    fn meta(&self, meta: Meta) -> Option<&str> {
        self.program.meta(meta)
    }
}

/// The outputs of completed steps that an awake execution remembers.
#[derive(Debug, Default)]
pub struct Outputs {
    known: HashMap<u16, String>,
    size: usize,
}

impl Outputs {
    /// Remembers the output of a step.
    pub fn keep(&mut self, step: u16, output: &str) {
        self.size += output.len();
        if let Some(before) = self.known.insert(step, output.to_owned()) {
            self.size -= before.len();
        }
    }

    /// The completed dependencies of `step` whose outputs are not remembered, with the tasks that
    /// made them. Forgets all other outputs first if those remembered take more than 256 KiB.
    pub fn missing(&mut self, execution: &Execution, step: u16) -> Vec<(u16, TaskId)> {
        let wanted = execution.graph().dependencies(step);
        if self.size > REMEMBERED {
            self.known.retain(|step, _| wanted.contains(*step));
            self.size = self.known.values().map(String::len).sum();
        }
        let unknown = wanted.into_iter().filter(|step| !self.known.contains_key(step));
        let completed = unknown.filter_map(|step| {
            let row = execution.step(step).filter(|row| row.stage == Stage::Completed);
            row.and_then(|row| row.task).map(|task| (step, task))
        });
        completed.collect()
    }
}
