//! The rows of an execution: its head, its steps, what it was started with, and its texts.
//!
//! Head and steps hold only what changes; a commit writes the head and the steps that it changed.
//! A step that nothing has happened to has no row. What the execution was asked to be is written
//! once, beside them.

use std::sync::Arc;

use callboard_domain::Timestamp;
use callboard_domain::budget::Budget;
use callboard_domain::execution::{Cause, Execution, Fact, Graph, Head, Spec, State, StepState};
use callboard_domain::id::{Environment, ExecutionId};
use callboard_domain::machine::{Machine, Step};
use callboard_store::{Entry, Error, Op, Store};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    ENDED_EXECUTIONS, EVENTS, EventRow, LIVE_EXECUTIONS, STEPS, TEXTS, events, execution_list,
    execution_term, term_of, text,
};
use crate::script::Terms;

/// What of an execution changes, as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct HeadRow {
    #[serde(rename = "s")]
    state: State,
    #[serde(rename = "v")]
    version: u64,
    #[serde(rename = "r")]
    run: u32,
    #[serde(rename = "t")]
    started_at: Timestamp,
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    deadline: Option<Timestamp>,
    #[serde(rename = "b")]
    budget: Budget,
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    error: Option<Cause>,
}

impl From<&Head> for HeadRow {
    fn from(head: &Head) -> Self {
        Self {
            state: head.state,
            version: head.version,
            run: head.run,
            started_at: head.started_at,
            deadline: head.deadline,
            budget: head.budget.clone(),
            error: head.error.clone(),
        }
    }
}

impl HeadRow {
    /// When it fails if it still runs then.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.deadline.filter(|_| self.state == State::Running)
    }

    /// When it ended; `None` while it has not.
    pub(crate) const fn ended_at(&self) -> Option<Timestamp> {
        self.state.ended_at()
    }

    /// Whether it runs for the first time: then no task of it is being stopped.
    pub(crate) fn is_first_run(&self) -> bool {
        self.run == 1 && self.state == State::Running
    }

    /// The head that this is the changing part of.
    pub(crate) fn of(self, spec: Arc<Spec>) -> Head {
        Head {
            spec,
            state: self.state,
            version: self.version,
            run: self.run,
            started_at: self.started_at,
            deadline: self.deadline,
            budget: self.budget,
            error: self.error,
        }
    }
}

/// What an execution was started with, written once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Begun {
    /// What was asked for.
    pub(crate) spec: Arc<Spec>,
    /// How reviewers are asked, if it was said when it was started.
    #[serde(default)]
    pub(crate) terms: Terms,
}

/// The rows of a step of an execution: its own, those of the steps it changed, and its facts.
pub(crate) fn rows(
    environment: Environment,
    before: Option<&Execution>,
    step: &Step<Execution>,
    now: Timestamp,
) -> Vec<Op> {
    let (number, next) = (environment.number(), &step.next);
    let (id, head) = (next.head.spec.id, HeadRow::from(&next.head));
    let mut ops = Vec::with_capacity(8);
    let mut write = |(number_of, row): (u16, &StepState)| {
        ops.push(STEPS.put(number, &(id.as_u128(), number_of), row, None));
    };
    match before {
        Some(before) => next.changed_since(before).for_each(&mut write),
        None => next.steps().filter(|(_, row)| **row != StepState::default()).for_each(&mut write),
    }
    for facts in step.facts.chunks(EventRow::MAX_FACTS) {
        let facts = facts.iter().map(|fact| told(next, *fact)).collect();
        let row = EventRow::of_execution(now, (id, head.clone(), facts));
        ops.push(EVENTS.append(events(environment), &row));
    }
    let entry = Some(entry(environment, next));
    if next.is_finished() {
        ops.push(LIVE_EXECUTIONS.delete(number, &id.as_u128()));
        ops.push(ENDED_EXECUTIONS.put(number, &id.as_u128(), &head, entry));
    } else {
        // A retry brings it back.
        if before.is_some_and(Machine::is_finished) {
            ops.push(ENDED_EXECUTIONS.delete(number, &id.as_u128()));
        }
        ops.push(LIVE_EXECUTIONS.put(number, &id.as_u128(), &head, entry));
    }
    ops
}

/// A fact as it is written: its name, and the step that it is about.
fn told(execution: &Execution, fact: Fact) -> (String, Option<String>) {
    let step = fact.step().map(|step| execution.graph().name(step).to_owned());
    (fact.as_str().to_owned(), step)
}

fn entry(environment: Environment, execution: &Execution) -> Entry {
    let spec = &execution.head.spec;
    let mut terms = vec![
        (execution_term::STATUS, execution.status().as_str().as_bytes().into()),
        (execution_term::PLAN, Box::from(spec.plan.as_u128().to_be_bytes())),
    ];
    if let Some(template) = &spec.template {
        terms.push((execution_term::TEMPLATE, term_of(&template.id)));
    }
    Entry { list: execution_list(environment), terms, sort: [None; 2] }
}

/// The rows that are written once, when an execution is started.
pub(crate) fn first_rows(
    environment: Environment,
    begun: &Begun,
    input: &Map<String, Value>,
) -> Vec<Op> {
    let (number, id) = (environment.number(), begun.spec.id.as_u128());
    let begun = serde_json::to_string(begun).expect("it has a JSON form");
    let input = serde_json::to_string(input).expect("an object has a JSON form");
    let mut ops = TEXTS.put(number, id, text::MADE, &begun);
    ops.extend(TEXTS.put(number, id, text::INPUTS, &input));
    ops
}

/// What an execution was started with.
pub(crate) async fn begun(
    store: &dyn Store,
    environment: Environment,
    id: ExecutionId,
) -> Result<Option<Begun>, Error> {
    let text = TEXTS.get(store, environment.number(), id.as_u128(), text::MADE).await?;
    text.map(|text| serde_json::from_str(&text).map_err(|error| damaged(id, &error))).transpose()
}

/// The input of an execution, with its defaults filled in.
pub(crate) async fn input(
    store: &dyn Store,
    environment: Environment,
    id: ExecutionId,
) -> Result<Map<String, Value>, Error> {
    let text = TEXTS.get(store, environment.number(), id.as_u128(), text::INPUTS).await?;
    let text = text.unwrap_or_else(|| "{}".into());
    serde_json::from_str(&text).map_err(|error| damaged(id, &error))
}

/// An execution's head, wherever it stands.
pub(crate) async fn head(
    store: &dyn Store,
    environment: Environment,
    id: ExecutionId,
) -> Result<Option<HeadRow>, Error> {
    let number = environment.number();
    // The third look is for one that was moved between the first two.
    for table in [LIVE_EXECUTIONS, ENDED_EXECUTIONS, LIVE_EXECUTIONS] {
        if let Some(head) = table.get(store, number, &id.as_u128()).await? {
            return Ok(Some(head));
        }
    }
    Ok(None)
}

/// Whether an execution has ended, or is not there.
pub(crate) async fn has_ended(
    store: &dyn Store,
    environment: Environment,
    id: ExecutionId,
) -> Result<bool, Error> {
    let number = environment.number();
    Ok(LIVE_EXECUTIONS.get(store, number, &id.as_u128()).await?.is_none())
}

/// The rows of an execution's steps, in the order of the graph.
pub(crate) async fn steps(
    store: &dyn Store,
    environment: Environment,
    id: ExecutionId,
    graph: &Graph,
) -> Result<Vec<StepState>, Error> {
    let mut steps = vec![StepState::default(); graph.len()];
    let (first, last) = ((id.as_u128(), 0), (id.as_u128(), u16::MAX));
    for ((_, number), row) in STEPS.range(store, environment.number(), &first, &last).await? {
        let step = steps.get_mut(usize::from(number)).ok_or_else(|| Error::Corrupt {
            path: format!("step {number} of {id}"),
            reason: "its plan has fewer steps".into(),
        })?;
        *step = row;
    }
    Ok(steps)
}

fn damaged(id: ExecutionId, error: &serde_json::Error) -> Error {
    Error::Corrupt { path: format!("texts of {id}"), reason: error.to_string() }
}
