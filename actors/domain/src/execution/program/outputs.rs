//! The outputs that a step may refer to, and the scope in which its texts are rendered.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::Program;
use crate::execution::{Due, Execution, OutputSource, Stage, StepState};
use crate::id::TaskId;
use crate::plan::ForEach;
use crate::render::{Meta, Output, Scope};

/// The size of the outputs that an awake execution remembers, in bytes.
const REMEMBERED: usize = 256 << 10;

/// The place where the output of a step is stored; `None` unless the step is completed.
#[must_use]
pub fn made(execution: &Execution, step: u16) -> Option<OutputLocation> {
    let row = execution.step(step).filter(|row| row.stage == Stage::Completed)?;
    if row.map.is_none() {
        return row.output_source().map(OutputLocation::One);
    }
    let completed = |row: &StepState| row.task.filter(|_| row.stage == Stage::Completed);
    Some(OutputLocation::Items(execution.items(step).map(|(_, row)| completed(row)).collect()))
}

pub(super) struct AtStart<'a>(pub(super) &'a Program);

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

pub(super) struct WithOutputs<'a> {
    pub(super) program: &'a Program,
    pub(super) execution: &'a Execution,
    pub(super) outputs: &'a Outputs,
    pub(super) each: Option<&'a ForEach>,
    pub(super) item: Option<&'a Value>,
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
                let step = &self.program.compiled.plan.steps()[usize::from(number)];
                let is_value = step.args().is_some() && step.for_each().is_none();
                match self.outputs.known.get(&number) {
                    None => Output::Unknown,
                    Some(output) if is_value => Output::Json(output),
                    Some(output) => Output::Completed(output),
                }
            }
            Some(
                Stage::Waiting
                | Stage::Ready
                | Stage::Dispatched
                | Stage::Awaiting
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

    fn item(&self, name: &str) -> Option<&Value> {
        self.each?.variable(self.item?, name)
    }

    fn is_json(&self, step: &str) -> bool {
        let compiled = &self.program.compiled;
        let number = compiled.plan.position(step).and_then(|at| u16::try_from(at).ok());
        number.is_some_and(|number| compiled.schema_of(number).is_some())
    }
}

/// The outputs of completed steps that an awake execution remembers, and the lists of the steps with
/// items under way.
#[derive(Debug, Default)]
pub struct Outputs {
    known: HashMap<u16, String>,
    size: usize,
    lists: HashMap<u16, Vec<Value>>,
    /// The outputs of items that ended in the unit in the making, which cannot be read yet.
    items: HashMap<TaskId, String>,
}

/// The place where the output of a completed step is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputLocation {
    /// The rows of one task or signal.
    One(OutputSource),
    /// The tasks of the items, in order; `None` for an item without an output.
    Items(Vec<Option<TaskId>>),
}

impl Outputs {
    /// Remembers the output of a step.
    pub fn keep(&mut self, step: u16, output: &str) {
        self.size += output.len();
        if let Some(before) = self.known.insert(step, output.to_owned()) {
            self.size -= before.len();
        }
    }

    /// Forgets the output of a step, which is to be decided again.
    pub fn forget(&mut self, step: u16) {
        if let Some(before) = self.known.remove(&step) {
            self.size -= before.len();
        }
    }

    /// Remembers the output of an item until its unit is durable ([`Self::unit_begins`]).
    pub fn keep_item(&mut self, task: TaskId, output: &str) {
        self.items.insert(task, output.to_owned());
    }

    /// The output of an item that ended in the unit in the making.
    #[must_use]
    pub fn item_output(&self, task: TaskId) -> Option<&str> {
        self.items.get(&task).map(String::as_str)
    }

    /// Forgets the outputs of items of the unit before, which is durable: they can be read.
    pub fn unit_begins(&mut self) {
        self.items.clear();
    }

    /// Remembers the list of a step.
    pub fn keep_list(&mut self, step: u16, items: Vec<Value>) {
        self.lists.insert(step, items);
    }

    /// The number of the list that has to be read before an item of this step is evaluated.
    #[must_use]
    pub fn missing_list(&self, program: &Program, due: Due) -> Option<u8> {
        due.item.filter(|_| !self.lists.contains_key(&due.step))?;
        let step = program.compiled.plan.steps().get(usize::from(due.step))?;
        step.for_each().map(ForEach::number)
    }

    pub(super) fn item(&self, step: u16, item: u16) -> Option<&Value> {
        self.lists.get(&step)?.get(usize::from(item))
    }

    /// The completed dependencies of `step` whose outputs are not remembered, with the places where
    /// these are stored. Forgets all other outputs first if those remembered take more than 256 KiB.
    pub fn missing(&mut self, execution: &Execution, step: u16) -> Vec<(u16, OutputLocation)> {
        let runs =
            |step: &u16| execution.step(*step).is_some_and(|row| row.stage == Stage::Dispatched);
        self.lists.retain(|step, _| runs(step));
        let wanted = execution.graph().dependencies(step);
        if self.size > REMEMBERED {
            self.known.retain(|step, _| wanted.contains(*step));
            self.size = self.known.values().map(String::len).sum();
        }
        let unknown = wanted.into_iter().filter(|step| !self.known.contains_key(step));
        let completed = unknown.filter_map(|step| Some((step, made(execution, step)?)));
        completed.collect()
    }
}
