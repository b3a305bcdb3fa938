//! The rows of an execution: its head, its steps, its inputs, and its texts.
//!
//! Head and steps hold only the changing part. The execution's request is written once, beside
//! them. A store pays for each row more than for its bytes, so an execution of few steps has them in
//! its head's row, as far as they are short; every other step has a row of its own, if anything has
//! happened to it:
//!
//! ```text
//!   head  [state, budget … | step 0 | step 1 | … | step n-1]   rewritten by every commit
//!   steps                                          [n] [n+1]   rewritten when they change
//! ```
//!
//! The head's row takes precedence: a row of a step below `n` is left over from when `n` was less.

use std::sync::Arc;

use callboard_domain::Timestamp;
use callboard_domain::budget::{Budget, Money};
use callboard_domain::execution::DispatchState;
use callboard_domain::execution::program::ReviewPolicy;
use callboard_domain::execution::{
    Cause, Due, Execution, Fact, Head, Spec, Stage, State, StepState,
};
use callboard_domain::graph::Graph;
use callboard_domain::id::{Environment, ExecutionId};
use callboard_domain::machine::{Machine, Step};
use callboard_domain::task::State as TaskState;
use callboard_store::{Entry, Error, Op, Store};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use super::log::{self, Kind, ProgressRow};
use super::{
    ENDED_EXECUTIONS, LIVE_EXECUTIONS, STEPS, TEXTS, event_words, execution_list, execution_sort,
    execution_term, items, tag_terms, term_of, text, word_terms,
};

/// The stored changing part of an execution.
#[skip_serializing_none]
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
    #[serde(rename = "n")]
    retried_at: Option<Timestamp>,
    #[serde(rename = "d")]
    deadline: Option<Timestamp>,
    #[serde(rename = "b")]
    budget: Budget,
    #[serde(rename = "e")]
    error: Option<Cause>,
    /// The time of the first erasure of the execution's texts.
    #[serde(rename = "z")]
    erased_at: Option<Timestamp>,
    /// The first steps, as many as stand in this row; none in records of events.
    #[serde(rename = "p", default, skip_serializing_if = "Vec::is_empty")]
    steps: Vec<Arc<StepState>>,
    /// True if a step is due that does not stand in this row; absent from records of events.
    #[serde(rename = "u", default, skip_serializing_if = "std::ops::Not::not")]
    undecided: bool,
    /// The time limit of the first wait for a signal; absent from records of events.
    #[serde(rename = "w")]
    waits_until: Option<Timestamp>,
    /// True if steps wait for signals and no task is under way; absent from records of events.
    #[serde(rename = "q", default, skip_serializing_if = "std::ops::Not::not")]
    only_awaits: bool,
    /// True if a task is being stopped; absent from records of events.
    #[serde(rename = "x", default, skip_serializing_if = "std::ops::Not::not")]
    stopping: bool,
}

/// The most steps of an execution that stand in the head's row; a longer execution has a row for each
/// step. The number of steps in the stored row follows from this and the next (`rows` asks only which
/// steps left it), so a version that makes either of them less, or [`StepState::json_bound`] more,
/// writes all steps first.
const FEW_STEPS: usize = 16;

/// The longest steps in the head's row, in bytes as JSON: beside them stand a message and the
/// entry of a list.
const SHORT_STEPS: usize = 2_300;

/// The number of the first steps that stand in the head's row.
fn beside_head(execution: &Execution) -> usize {
    if execution.graph().len() > FEW_STEPS {
        return 0;
    }
    let mut room = SHORT_STEPS;
    let fits = |(_, row): &(u16, &StepState)| {
        let left = room.checked_sub(row.json_bound() + ",".len());
        left.inspect(|left| room = *left).is_some()
    };
    execution.steps().take_while(fits).count()
}

impl HeadRow {
    /// Puts the words of an event back.
    pub(super) async fn with_words(
        mut self,
        store: &dyn Store,
        environment: Environment,
        id: ExecutionId,
    ) -> Result<Self, Error> {
        if let Some(cause) = &mut self.error {
            let place = (id.as_u128(), self.version);
            event_words::put_back(store, environment, place, &mut cause.ending.message).await?;
        }
        Ok(self)
    }

    /// A head alone, as it stands in the records of events.
    pub(crate) fn without_steps(head: &Head) -> Self {
        Self {
            state: head.state,
            version: head.version,
            run: head.run,
            started_at: head.started_at,
            retried_at: head.retried_at,
            deadline: head.deadline,
            budget: head.budget.clone(),
            error: head.error.clone(),
            erased_at: head.erased_at,
            steps: Vec::new(),
            undecided: false,
            waits_until: None,
            only_awaits: false,
            stopping: false,
        }
    }

    /// The row of an execution: its head, and the first steps as far as they stand there.
    pub(crate) fn with_steps(execution: &Execution) -> Self {
        let count = beside_head(execution);
        let steps = execution.first_steps(count);
        let is_beside = |due: Due| due.item.is_none() && usize::from(due.step) < count;
        let undecided = execution.has_due()
            && (count < execution.graph().len() || !execution.next_due().is_some_and(is_beside));
        let (waits_until, only_awaits) = (execution.waits_until(), execution.only_awaits());
        let stopping = execution.stopping().next().is_some();
        let head = Self::without_steps(&execution.head);
        Self { steps, undecided, waits_until, only_awaits, stopping, ..head }
    }

    /// The steps that stand in this row.
    pub(crate) fn take_steps(&mut self) -> Vec<Arc<StepState>> {
        std::mem::take(&mut self.steps)
    }

    /// The wake-up of the execution: it fails then, or a wait of it does.
    pub(crate) fn wakes_at(&self) -> Option<Timestamp> {
        match self.state {
            State::Scheduled { at } => Some(at),
            State::Running => self.waits_until.into_iter().chain(self.deadline).min(),
            State::Completed { .. } | State::Failed { .. } | State::Cancelled { .. } => None,
        }
    }

    /// True if only a signal or its alarm moves it on.
    pub(crate) const fn only_awaits(&self) -> bool {
        self.only_awaits || matches!(self.state, State::Scheduled { .. })
    }

    /// The code of the error of a failed execution.
    pub(crate) fn failed_with(&self) -> Option<&'static str> {
        let has_failed = matches!(self.state, State::Failed { .. });
        self.error.as_ref().filter(|_| has_failed).map(|cause| cause.ending.code.as_str())
    }

    /// The cost of the answers that it has taken over.
    pub(crate) const fn saved(&self) -> Money {
        self.budget.saved()
    }

    /// True if it has completed.
    pub(crate) const fn is_completed(&self) -> bool {
        matches!(self.state, State::Completed { .. })
    }

    /// The number of runs: the first one, and one for each retry.
    pub(crate) const fn runs(&self) -> u32 {
        self.run
    }

    /// The end of the execution; `None` while it has not ended.
    pub(crate) const fn ended_at(&self) -> Option<Timestamp> {
        self.state.ended_at()
    }

    /// True if the execution runs for the first time, and no task of it is being stopped.
    pub(crate) fn is_plain_run(&self) -> bool {
        self.run == 1 && self.state.ended_at().is_none() && !self.stopping
    }

    /// True if a step was due when this row was written: the next unit was to decide it.
    pub(crate) fn is_undecided(&self) -> bool {
        let is_due = |step: &Arc<StepState>| step.stage == Stage::Ready && step.held.is_none();
        self.undecided || self.steps.iter().any(is_due)
    }

    /// The head that this is the changing part of.
    pub(crate) fn of(self, spec: Arc<Spec>) -> Head {
        Head {
            spec,
            state: self.state,
            version: self.version,
            run: self.run,
            started_at: self.started_at,
            retried_at: self.retried_at,
            deadline: self.deadline,
            budget: self.budget,
            error: self.error,
            erased_at: self.erased_at,
        }
    }
}

/// The request and the inputs of an execution, written once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExecutionInputsRow {
    /// The request.
    pub(crate) spec: Arc<Spec>,
    /// The review policy, if the start of the execution set one.
    #[serde(default)]
    pub(crate) terms: ReviewPolicy,
    /// The input with defaults filled in, if it is short; a long one stands by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) input: Option<Map<String, Value>>,
}

/// The longest input that stands beside the execution's request, in bytes as JSON.
const SHORT_INPUT: usize = 2_000;

/// The rows of a step of an execution: its own, those of the steps it changed, and its facts.
pub(crate) fn rows(
    environment: Environment,
    before: Option<&Execution>,
    step: &Step<Execution>,
    now: Timestamp,
) -> Vec<Op> {
    let (number, next) = (environment.number(), &step.next);
    let (id, row) = (next.head.spec.id, HeadRow::with_steps(next));
    let mut ops = Vec::with_capacity(8);
    ops.extend(step_rows(number, row.steps.len(), before, next));
    ops.extend(items::rows(environment, before, next));
    for facts in step.facts.chunks(log::MAX_FACTS) {
        let is_of_whole = facts.iter().any(|fact| fact.step().is_none());
        let items = facts.iter().map(|fact| fact.item()).collect();
        let facts: Vec<_> = facts.iter().map(|fact| fact_row(next, *fact)).collect();
        let mut head = HeadRow::without_steps(&next.head);
        if let Some(cause) = &mut head.error {
            let place = (id.as_u128(), head.version);
            ops.push(event_words::moved(environment, place, &mut cause.ending, cause.step));
        }
        let progress = is_of_whole.then(|| ProgressRow::of(next));
        let (kind, of) = (Kind::Execution, (id, head, facts));
        let record = log::Record { event: "", at: now, kind, of, progress, items };
        ops.push(record.append(environment));
    }
    let entry = Some(entry(environment, next));
    if next.is_finished() {
        ops.push(LIVE_EXECUTIONS.delete(number, &id.as_u128()));
        ops.push(ENDED_EXECUTIONS.put(number, &id.as_u128(), &row, entry));
    } else {
        // A retry brings it back.
        if before.is_some_and(Machine::is_finished) {
            ops.push(ENDED_EXECUTIONS.delete(number, &id.as_u128()));
        }
        ops.push(LIVE_EXECUTIONS.put(number, &id.as_u128(), &row, entry));
    }
    ops
}

/// The rows of the steps from `beside` on, which have no place in the head's row: those that changed, and those that
/// stood in it before.
fn step_rows(number: u8, beside: usize, before: Option<&Execution>, next: &Execution) -> Vec<Op> {
    if beside == next.graph().len() {
        return Vec::new();
    }
    let id = next.head.spec.id.as_u128();
    let write = |(step, row): (u16, &StepState)| STEPS.put(number, &(id, step), row, None);
    let Some(before) = before else {
        let begun = next.steps().skip(beside).filter(|(_, row)| **row != StepState::default());
        return begun.map(write).collect();
    };
    let leaving = beside_head(before).max(beside);
    let left = next.steps().take(leaving).skip(beside);
    let changed = next.changed_since(before).filter(|(step, _)| usize::from(*step) >= leaving);
    left.chain(changed).map(write).collect()
}

/// A fact as it is written: its name, and the step that it is about.
fn fact_row(execution: &Execution, fact: Fact) -> (&'static str, Option<&str>) {
    (fact.event().as_str(), fact.step().map(|step| execution.graph().name(step)))
}

/// A version of a template as a term of the list.
pub(crate) fn version_term(template: &str, version: &str) -> Box<[u8]> {
    super::number_term(super::plans::template_key(template, version))
}

fn entry(environment: Environment, execution: &Execution) -> Entry {
    let spec = &execution.head.spec;
    let mut terms = vec![
        (execution_term::STATUS, execution.status().as_str().as_bytes().into()),
        (execution_term::PLAN, Box::from(spec.plan.as_u128().to_be_bytes())),
    ];
    if let Some(template) = &spec.template {
        terms.push((execution_term::TEMPLATE, term_of(&template.id)));
        terms.push((execution_term::VERSION, version_term(&template.id, &template.version)));
    }
    terms.extend(tag_terms(execution_term::TAG, &spec.tags));
    terms.extend(word_terms(spec.words()));
    if spec.row_of.is_some() {
        terms.push((execution_term::ROW, execution_term::OF_BATCH.into()));
        if execution.is_reused_row() {
            terms.push((execution_term::ROW, execution_term::REUSED.into()));
        }
    }
    let ended_at = execution.head.state.ended_at();
    let error = execution.head.error.as_ref().filter(|_| ended_at.is_some());
    terms.extend(error.map(|error| (execution_term::ERROR, term_of(error.ending.code.as_str()))));
    let mut sort = [None; 2];
    sort[execution_sort::COMPLETED_AT] = ended_at.map(Timestamp::as_millis);
    Entry { list: execution_list(environment), terms, sort }
}

/// The rows that are written once, when an execution is started.
pub(crate) fn first_rows(
    environment: Environment,
    (spec, terms): (Arc<Spec>, ReviewPolicy),
    input: &Map<String, Value>,
) -> Vec<Op> {
    let (number, id) = (environment.number(), spec.id.as_u128());
    let text = serde_json::to_string(input).expect("an object has a JSON form");
    let is_short = text.len() <= SHORT_INPUT;
    let begun = ExecutionInputsRow { spec, terms, input: is_short.then(|| input.clone()) };
    let begun = serde_json::to_string(&begun).expect("it has a JSON form");
    let mut ops = TEXTS.put(number, id, text::MADE, &begun);
    if !is_short {
        ops.extend(TEXTS.put(number, id, text::INPUTS, &text));
    }
    ops
}

/// The rows that erase the texts of an ended execution: its request without its input, no list, no salt of its
/// idempotency key, no words of its events. `step` is [`Execution::erased`]'s.
pub(crate) async fn erased(
    store: &dyn Store,
    environment: Environment,
    (before, step): (&Execution, &Step<Execution>),
    terms: ReviewPolicy,
    now: Timestamp,
) -> Result<Vec<Op>, Error> {
    let (number, id) = (environment.number(), before.head.spec.id.as_u128());
    let mut ops = TEXTS.delete_all(store, number, id).await?;
    ops.extend(event_words::removal(store, environment, id, None).await?);
    let spec = Arc::clone(&step.next.head.spec);
    let begun = ExecutionInputsRow { spec, terms, input: Some(Map::new()) };
    let begun = serde_json::to_string(&begun).expect("it has a JSON form");
    ops.extend(TEXTS.put(number, id, text::MADE, &begun));
    ops.extend(TEXTS.put(number, id, text::KEY_SALT, ""));
    ops.extend(rows(environment, Some(before), step, now));
    Ok(ops)
}

/// The request and the inputs of an execution.
pub(crate) async fn begun(
    store: &dyn Store,
    environment: Environment,
    id: ExecutionId,
) -> Result<Option<ExecutionInputsRow>, Error> {
    let text = TEXTS.get(store, environment.number(), id.as_u128(), text::MADE).await?;
    text.map(|text| serde_json::from_str(&text).map_err(|error| damaged(id, &error))).transpose()
}

impl ExecutionInputsRow {
    /// The input with its defaults filled in, from the row or from the texts.
    pub(crate) async fn take_input(
        &mut self,
        store: &dyn Store,
        environment: Environment,
    ) -> Result<Map<String, Value>, Error> {
        if let Some(short) = self.input.take() {
            return Ok(short);
        }
        let id = self.spec.id;
        let text = TEXTS.get(store, environment.number(), id.as_u128(), text::INPUTS).await?;
        let text = text.unwrap_or_else(|| "{}".into());
        serde_json::from_str(&text).map_err(|error| damaged(id, &error))
    }
}

/// An execution's head, from either table.
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

/// True if an execution has ended, or does not exist.
pub(crate) async fn has_ended(
    store: &dyn Store,
    environment: Environment,
    id: ExecutionId,
) -> Result<bool, Error> {
    let number = environment.number();
    Ok(LIVE_EXECUTIONS.get(store, number, &id.as_u128()).await?.is_none())
}

/// The rows of an execution's steps, in the order of the graph; `beside` are those that stand in its
/// head's row.
pub(crate) async fn steps(
    store: &dyn Store,
    environment: Environment,
    id: ExecutionId,
    graph: &Graph,
    beside: Vec<Arc<StepState>>,
) -> Result<Vec<Arc<StepState>>, Error> {
    let from = beside.len();
    if from >= graph.len() {
        return Ok(beside);
    }
    let mut steps = beside;
    steps.resize_with(graph.len(), Arc::default);
    let first = u16::try_from(from).expect("a graph has fewer steps");
    let (first, last) = ((id.as_u128(), first), (id.as_u128(), u16::MAX));
    for ((_, number), row) in STEPS.range(store, environment.number(), &first, &last).await? {
        let step = steps.get_mut(usize::from(number)).ok_or_else(|| Error::Corrupt {
            path: format!("step {number} of {id}"),
            reason: "its plan has fewer steps".into(),
        })?;
        *step = Arc::new(row);
    }
    Ok(steps)
}

fn damaged(id: ExecutionId, error: &serde_json::Error) -> Error {
    Error::Corrupt { path: format!("texts of {id}"), reason: error.to_string() }
}

/// The part of its way that a task of a step has gone.
pub(crate) const fn how_far(state: &TaskState) -> DispatchState {
    match state {
        TaskState::Scheduled { .. } | TaskState::Ready | TaskState::Backoff { .. } => {
            DispatchState::Pending
        }
        TaskState::AwaitingApproval { .. } => DispatchState::AwaitingApproval,
        TaskState::Running { .. }
        | TaskState::Completed { .. }
        | TaskState::Failed { .. }
        | TaskState::Cancelled { .. }
        | TaskState::Rejected { .. } => DispatchState::Running,
    }
}

#[cfg(test)]
mod tests;
