//! What an execution runs: its plan, compiled, with its input; and what becomes of a step that is
//! ready.
//!
//! Deliberately absent: what happens when. The machine says which step is to be decided.

use std::collections::HashMap;
use std::sync::Arc;

use callboard_domain::execution::{self, Execution, Stage};
use callboard_domain::id::{Environment, ExecutionId};
use callboard_domain::plan::{HitlSource, Plan, Step, gate_of};
use callboard_domain::render::{Meta, Output, Scope};
use callboard_domain::retry::Policy;
use callboard_domain::schema::Schema;
use callboard_domain::task::{Ending, EndingCode, Inputs, Request, Task};
use callboard_store::{Error, Store};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::tables;

/// How much of its outputs an awake execution remembers, in bytes.
const REMEMBERED: usize = 256 << 10;

/// Which outputs reviewers are asked about, as it was said at the start or in the template.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Terms {
    /// Which outputs are held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hitl: Option<HitlSource>,
}

/// A plan, compiled once for all its executions.
#[derive(Debug)]
pub struct Compiled {
    /// The plan.
    pub plan: Plan,
    /// The same steps, as the machine sees them.
    pub graph: Arc<execution::Graph>,
    /// What the last step's output must be.
    pub output_schema: Option<Schema>,
}

impl Compiled {
    /// A plan, and what the last step's output must be.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "a checked plan has 500 steps and no circle")]
    pub fn new(plan: Plan, output_schema: Option<Schema>) -> Self {
        let numbers = |step| {
            let waits_for = plan.graph().dependencies(step).iter();
            waits_for.map(|step| u16::try_from(*step).expect("a plan has 500 steps")).collect()
        };
        let steps = plan.steps().iter().enumerate();
        let graph = execution::Graph::new(steps.map(|(at, step)| (step.id(), numbers(at))));
        let graph = Arc::new(graph.expect("a checked plan has no circle"));
        Self { plan, graph, output_schema }
    }

    /// The step whose output is checked.
    #[must_use]
    pub fn checked(&self) -> Option<u16> {
        let last = u16::try_from(self.plan.steps().len()).ok()?.checked_sub(1)?;
        self.output_schema.as_ref().map(|_| last)
    }
}

/// What the runtime's configuration says of tasks that come from plans.
#[derive(Debug, Clone, Default)]
pub struct Usual {
    /// The model of a step that names none.
    pub model: String,
    /// The environment variables that plans may use.
    pub env: HashMap<String, String>,
    /// Whether an output without a confidence passes a threshold.
    pub pass_unknown: bool,
}

/// What one execution runs.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) compiled: Arc<Compiled>,
    pub(crate) terms: Terms,
    pub(crate) input: Map<String, Value>,
    id: String,
    usual: Arc<Usual>,
}

/// What becomes of a step that is ready.
pub(crate) enum Decision {
    /// It runs as this task.
    Run(Box<Request>, Policy),
    /// Its condition is false.
    Skip,
    /// Its condition or its prompt cannot be evaluated.
    Fail(Ending),
}

impl Script {
    pub(crate) fn new(
        id: ExecutionId,
        compiled: Arc<Compiled>,
        terms: Terms,
        input: Map<String, Value>,
        usual: Arc<Usual>,
    ) -> Self {
        Self { compiled, terms, input, id: id.to_string(), usual }
    }

    /// The step that a task is.
    pub(crate) fn step_of(&self, task: &Task) -> Option<u16> {
        let (_, name) = task.spec.origin.step.as_ref()?;
        self.compiled.plan.position(name).and_then(|at| u16::try_from(at).ok())
    }

    /// Whether the output of the last step is what it must be, or what is wrong with it.
    pub(crate) fn check(&self, step: u16, output: &str) -> Result<(), String> {
        match &self.compiled.output_schema {
            Some(schema) if self.compiled.checked() == Some(step) => schema.check_output(output),
            Some(_) | None => Ok(()),
        }
    }

    /// What the texts can refer to before anything ran.
    pub(crate) fn before(&self) -> impl Scope + '_ {
        Before(self)
    }

    /// Evaluates the condition of a ready step and renders its prompts.
    pub(crate) fn decide(&self, number: u16, execution: &Execution, outputs: &Outputs) -> Decision {
        let step = &self.compiled.plan.steps()[usize::from(number)];
        let scope = Run { script: self, execution, outputs };
        match step.condition().map(|condition| condition.holds(&scope)) {
            None | Some(Ok(true)) => {}
            Some(Ok(false)) => return Decision::Skip,
            Some(Err(error)) => return failed(EndingCode::ConditionFailed, &error),
        }
        let prompt = step.prompt().render(&scope);
        let system_prompt = step.system_prompt().map(|text| text.render(&scope)).transpose();
        let (mut prompt, system_prompt) = match (prompt, system_prompt) {
            (Ok(prompt), Ok(system_prompt)) => (prompt, system_prompt),
            (Err(error), _) | (_, Err(error)) => return failed(EndingCode::RenderFailed, &error),
        };
        if let Some(message) = execution.step(number).and_then(|row| row.correction.as_ref()) {
            prompt.push_str("\n\nYour previous answer did not have the required structure: ");
            prompt.push_str(message);
            prompt.push_str("\nAnswer again, with nothing but the corrected answer.");
        }
        let inputs = Inputs { prompt, system_prompt, context: None };
        Decision::Run(Box::new(self.request(step, inputs)), step.retry())
    }

    #[expect(clippy::unnecessary_wraps, reason = "as a scope answers")]
    fn meta(&self, meta: Meta) -> Option<&str> {
        Some(match meta {
            Meta::TemplateName => &self.compiled.plan.source().name,
            Meta::ExecutionId => &self.id,
        })
    }

    fn request(&self, step: &Step, inputs: Inputs) -> Request {
        let source = step.source();
        Request {
            model: source.model.clone().unwrap_or_else(|| self.usual.model.clone()),
            queue: source.queue.clone().unwrap_or_else(|| Request::DEFAULT_QUEUE.into()),
            priority: Request::DEFAULT_PRIORITY,
            timeout_ms: source.timeout_ms.unwrap_or(Request::DEFAULT_TIMEOUT_MS),
            tags: self.compiled.plan.source().tags.clone(),
            max_tokens: source.max_tokens,
            temperature: source.temperature,
            callback_url: None,
            gate: gate_of(source, self.terms.hitl.as_ref(), self.usual.pass_unknown),
            inputs,
        }
    }
}

fn failed(code: EndingCode, error: &dyn std::error::Error) -> Decision {
    Decision::Fail(Ending { code, message: error.to_string() })
}

/// What the texts of any step can refer to before anything ran.
struct Before<'a>(&'a Script);

impl Scope for Before<'_> {
    fn input(&self) -> &Map<String, Value> {
        &self.0.input
    }

    fn output(&self, _: &str) -> Output<'_> {
        Output::Unknown
    }

    fn env(&self, name: &str) -> Option<&str> {
        self.0.usual.env.get(name).map(String::as_str)
    }

    fn meta(&self, meta: Meta) -> Option<&str> {
        self.0.meta(meta)
    }
}

/// What the texts of a step can refer to.
struct Run<'a> {
    script: &'a Script,
    execution: &'a Execution,
    outputs: &'a Outputs,
}

impl Scope for Run<'_> {
    fn input(&self) -> &Map<String, Value> {
        &self.script.input
    }

    fn output(&self, step: &str) -> Output<'_> {
        let number = self.script.compiled.plan.position(step).and_then(|at| u16::try_from(at).ok());
        let Some(number) = number else { return Output::Unknown };
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
        self.script.usual.env.get(name).map(String::as_str)
    }

    fn meta(&self, meta: Meta) -> Option<&str> {
        self.script.meta(meta)
    }
}

/// Outputs of steps that are completed, as far as they are remembered.
#[derive(Default)]
pub(crate) struct Outputs {
    known: HashMap<u16, String>,
    size: usize,
}

impl Outputs {
    /// Remembers an output that is about to be durable.
    pub(crate) fn keep(&mut self, step: u16, output: &str) {
        self.size += output.len();
        if let Some(before) = self.known.insert(step, output.to_owned()) {
            self.size -= before.len();
        }
    }

    /// Reads what the step refers to, where it is not remembered.
    pub(crate) async fn read(
        &mut self,
        store: &dyn Store,
        environment: Environment,
        execution: &Execution,
        step: u16,
    ) -> Result<(), Error> {
        let wanted = execution.graph().dependencies(step);
        if self.size > REMEMBERED {
            self.known.retain(|step, _| wanted.contains(*step));
            self.size = self.known.values().map(String::len).sum();
        }
        for step in wanted {
            let row = execution.step(step).filter(|row| row.stage == Stage::Completed);
            let Some(task) = row.and_then(|row| row.task) else { continue };
            if self.known.contains_key(&step) {
                continue;
            }
            if let Some(mut found) = tables::task(store, environment, task).await? {
                let output = found.output(store, environment).await?;
                self.keep(step, &output.unwrap_or_default());
            }
        }
        Ok(())
    }
}
