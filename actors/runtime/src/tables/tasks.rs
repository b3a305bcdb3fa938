//! The rows of a task: its changing part, its request with its inputs, and its texts.

use std::sync::Arc;

use callboard_domain::id::{Environment, FileId, TaskId, WorkerId};
use callboard_domain::machine::{Machine, Step};
use callboard_domain::task::{
    Completion, Correction, Ending, Inputs, LeaseId, Request, Route, Spec, Status, Task, TurnedAway,
};
use callboard_domain::usage::Usage;
use callboard_domain::{Timestamp, task};
use callboard_store::{Entry, Error, Op, Store};
use serde::{Deserialize, Serialize};

use super::log::{self, Kind};
use super::{
    ENDED_TASKS, FILE_USES, LIVE_TASKS, TEXTS, event_words, sort, tag_terms, task_list, term,
    term_of, text, word_terms,
};

/// The stored changing part of a task: short names, and no field that is still at its initial value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskRow {
    #[serde(rename = "s")]
    state: task::State,
    #[serde(rename = "v")]
    version: u64,
    #[serde(rename = "a", default, skip_serializing_if = "is_default")]
    attempt: u32,
    #[serde(rename = "r", default, skip_serializing_if = "is_default")]
    retries: u32,
    #[serde(rename = "l", default, skip_serializing_if = "is_default")]
    losses: u32,
    #[serde(rename = "t", default, skip_serializing_if = "is_default")]
    started_at: Option<Timestamp>,
    #[serde(rename = "w", default, skip_serializing_if = "is_default")]
    worker: Option<WorkerId>,
    #[serde(rename = "d", default, skip_serializing_if = "is_default")]
    last_result_lease: Option<LeaseId>,
    #[serde(rename = "c", default, skip_serializing_if = "is_default")]
    result: Option<Box<Completion>>,
    #[serde(rename = "e", default, skip_serializing_if = "is_default")]
    error: Option<Ending>,
    #[serde(rename = "m", default, skip_serializing_if = "is_default")]
    edited: bool,
    #[serde(rename = "o", default, skip_serializing_if = "is_default")]
    reopened: u8,
    #[serde(rename = "z", default, skip_serializing_if = "is_default")]
    erased_at: Option<Timestamp>,
    #[serde(rename = "f", default, skip_serializing_if = "is_default")]
    route: Route,
    #[serde(rename = "p", default, skip_serializing_if = "is_default")]
    priority: Option<u8>,
    #[serde(rename = "x", default, skip_serializing_if = "is_default")]
    correction: Option<Box<Correction>>,
    #[serde(rename = "y", default, skip_serializing_if = "is_default")]
    turned_away: Option<Box<TurnedAway>>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl From<&Task> for TaskRow {
    fn from(task: &Task) -> Self {
        Self {
            state: task.state.clone(),
            version: task.version,
            attempt: task.attempt,
            retries: task.retries,
            losses: task.losses,
            started_at: task.started_at,
            worker: task.worker,
            last_result_lease: task.last_result_lease,
            result: task.result.clone(),
            error: task.error.clone(),
            edited: task.edited,
            reopened: task.reopened,
            erased_at: task.erased_at,
            route: task.route,
            priority: task.priority,
            correction: task.correction.clone(),
            turned_away: task.turned_away.clone(),
        }
    }
}

impl TaskRow {
    pub(crate) const fn state(&self) -> &task::State {
        &self.state
    }

    /// The usage of an output that waits for a reviewer.
    pub(crate) fn held_usage(&self) -> Option<Usage> {
        let is_held = matches!(self.state, task::State::AwaitingApproval { .. });
        self.result.as_ref().filter(|_| is_held).map(|result| result.usage)
    }

    /// The same row for an event, if it quotes texts: the words of the error go to a row of their own.
    fn without_words(
        &self,
        environment: Environment,
        id: u128,
        is_silent: bool,
        ops: &mut Vec<Op>,
    ) -> Option<Self> {
        let quotes = self.error.is_some() || self.correction.is_some();
        if is_silent || !quotes {
            return None;
        }
        let mut row = Self { correction: None, ..self.clone() };
        if let Some(error) = &mut row.error {
            ops.push(event_words::moved(environment, (id, row.version), error, None));
        }
        Some(row)
    }

    /// Puts the words of an event back.
    pub(super) async fn with_words(
        mut self,
        store: &dyn Store,
        environment: Environment,
        id: TaskId,
    ) -> Result<Self, Error> {
        if let Some(error) = &mut self.error {
            let place = (id.as_u128(), self.version);
            event_words::put_back(store, environment, place, &mut error.message).await?;
        }
        Ok(self)
    }

    /// The task that this is the row of.
    pub(super) fn of(self, spec: Arc<Spec>) -> Task {
        Task {
            spec,
            state: self.state,
            version: self.version,
            attempt: self.attempt,
            retries: self.retries,
            losses: self.losses,
            started_at: self.started_at,
            worker: self.worker,
            last_result_lease: self.last_result_lease,
            result: self.result,
            error: self.error,
            edited: self.edited,
            reopened: self.reopened,
            erased_at: self.erased_at,
            route: self.route,
            priority: self.priority,
            correction: self.correction,
            turned_away: self.turned_away,
        }
    }
}

/// The row of a task that has ended: with its output, if that is short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ended(pub(crate) TaskRow, pub(crate) Option<String>);

/// The request and the inputs of a task, written once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct InputsRow {
    /// The request.
    pub(crate) spec: Arc<Spec>,
    /// The task's texts; long ones stand by themselves, so that a list need not read them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) inputs: Option<Inputs>,
}

/// The approximate length up to which inputs stand beside the request, in bytes.
const SHORT_INPUTS: usize = 2_000;

/// The longest output that stands in the row of the task that it ended, in bytes as JSON.
const SHORT_OUTPUT: usize = 1_700;

fn entry(environment: Environment, task: &Task) -> Entry {
    let spec = &task.spec;
    let mut terms = Vec::with_capacity(4 + spec.tags.len());
    terms.push((term::STATUS, task.status().as_str().as_bytes().into()));
    terms.push((term::MODEL, term_of(&spec.model)));
    terms.push((term::QUEUE, term_of(&spec.queue)));
    terms.extend(tag_terms(term::TAG, &spec.tags));
    terms.extend(word_terms(spec.words()));
    if let task::State::AwaitingApproval { .. } = task.state {
        terms.push((term::HELD, Box::from([])));
    }
    if matches!(task.state, task::State::Cancelled { .. }) && task.result.is_some() {
        terms.push((term::CANCELLED_PAID, Box::from([])));
    }
    terms.extend(super::batch_terms(term::BATCH, spec.origin.rows));
    let mut sort = [None; 2];
    sort[sort::PRIORITY] = Some(u64::from(task.priority()));
    sort[sort::COMPLETED_AT] = task.completed_at().map(Timestamp::as_millis);
    Entry { list: task_list(environment), terms, sort }
}

/// The rows of a step of a task: its state, its facts, and the output that came with it.
pub(super) fn rows(
    environment: Environment,
    now: Timestamp,
    Step { next: task, facts, .. }: &Step<Task>,
    output: Option<String>,
) -> Vec<Op> {
    let (number, id) = (environment.number(), task.spec.id.as_u128());
    let thinking = output.as_ref().and(task.result.as_ref()).and_then(|it| it.thinking.as_ref());
    let (short, long) = match output {
        Some(output) if task.is_finished() && json_length(&output) <= SHORT_OUTPUT => {
            (Some(output), None)
        }
        other => (None, other),
    };
    let mut ops = match long {
        Some(output) => TEXTS.put(number, id, text::OUTPUT, &output),
        None => Vec::with_capacity(2 + facts.len()),
    };
    if let Some(thinking) = thinking {
        ops.extend(TEXTS.put(number, id, text::THINKING, thinking.as_str()));
    }
    let row = TaskRow::from(task);
    let wordless =
        row.without_words(environment, id, facts.is_empty() || task.is_finished(), &mut ops);
    ops.extend(facts.iter().map(|fact| {
        // The end of the task stands in its row for good.
        let then = (!task.is_finished()).then_some(wordless.as_ref().unwrap_or(&row));
        log::append(environment, (fact.event().as_str(), now), Kind::Task, (task.spec.id, then))
    }));
    let entry = Some(entry(environment, task));
    if facts.contains(&task::Fact::Reopened) {
        ops.push(ENDED_TASKS.delete(number, &id));
    }
    if task.is_finished() {
        ops.push(LIVE_TASKS.delete(number, &id));
        ops.push(ENDED_TASKS.put(number, &id, &Ended(row, short), entry));
    } else if let task::State::AwaitingApproval { .. } = task.state {
        ops.push(LIVE_TASKS.put(number, &id, &row, entry));
    } else {
        ops.push(LIVE_TASKS.put_uncompressed(number, &id, &row, entry));
    }
    ops
}

/// The least length of a text as JSON, in bytes, without its quotes.
fn json_length(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(escaped).sum()
}

/// The rows that are written once, when a task is made.
pub(super) fn first_rows(environment: Environment, task: &Task, inputs: &Inputs) -> Vec<Op> {
    /// The written form of [`InputsRow`].
    #[derive(Serialize)]
    struct InputsRowRef<'m> {
        spec: &'m Spec,
        #[serde(skip_serializing_if = "Option::is_none")]
        inputs: Option<&'m Inputs>,
    }
    let (number, id) = (environment.number(), task.spec.id.as_u128());
    let json = |inputs| {
        serde_json::to_string(&InputsRowRef { spec: &task.spec, inputs })
            .expect("it has a JSON form")
    };
    let uses =
        inputs.files.iter().map(|file| FILE_USES.put(number, &(file.as_u128(), id), &(), None));
    let uses = uses.collect::<Vec<_>>();
    if length(inputs) <= SHORT_INPUTS {
        let mut ops = TEXTS.put(number, id, text::MADE, &json(Some(inputs)));
        ops.extend(uses);
        return ops;
    }
    let mut ops = TEXTS.put(number, id, text::MADE, &json(None));
    ops.extend(uses);
    let inputs = serde_json::to_string(inputs).expect("texts have a JSON form");
    ops.extend(TEXTS.put(number, id, text::INPUTS, &inputs));
    ops
}

/// The rows of a task that is completed from the beginning, with its output.
pub(crate) fn copy_rows(
    environment: Environment,
    now: Timestamp,
    copy: &Step<Task>,
    Request { inputs, .. }: &Request,
    output: &str,
) -> Vec<Op> {
    let mut ops = first_rows(environment, &copy.next, inputs);
    ops.extend(rows(environment, now, copy, Some(output.to_owned())));
    ops
}

/// The approximate length of inputs, in bytes.
fn length(inputs: &Inputs) -> usize {
    let context = inputs.context.as_ref().map(serde_json::to_string);
    let context = context.map_or(0, |json| json.map_or(usize::MAX, |json| json.len()));
    inputs.length().saturating_add(context)
}

/// The request and the inputs of a task.
pub(crate) async fn made(
    store: &dyn Store,
    environment: Environment,
    task: TaskId,
) -> Result<Option<InputsRow>, Error> {
    let text = TEXTS.get(store, environment.number(), task.as_u128(), text::MADE).await?;
    text.map(|text| serde_json::from_str(&text).map_err(|error| damaged(task, &error))).transpose()
}

/// A task as it was read, with those of its texts that stand in its rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LoadedTask {
    pub(crate) task: Task,
    pub(crate) inputs: Option<Inputs>,
    pub(crate) output: Option<String>,
}

impl LoadedTask {
    /// The task's inputs, from the row or from the texts.
    pub(crate) async fn inputs(
        &mut self,
        store: &dyn Store,
        environment: Environment,
    ) -> Result<Inputs, Error> {
        match self.inputs.take() {
            Some(inputs) => Ok(inputs),
            None if self.task.erased_at.is_some() => Ok(Inputs::default()),
            None => long_inputs(store, environment, self.task.spec.id).await,
        }
    }

    /// The task's output, from the row or from the texts, once there is one.
    pub(crate) async fn output(
        &mut self,
        store: &dyn Store,
        environment: Environment,
    ) -> Result<Option<String>, Error> {
        let id = self.task.spec.id.as_u128();
        // A reviewer's text stands beside the model's, not in its place.
        let edit = text::edit(self.task.reopened);
        let field = if self.task.edited { edit } else { text::OUTPUT };
        match (&self.task.result, self.output.take()) {
            (None, _) => Ok(None),
            (Some(_), Some(output)) => Ok(Some(output)),
            (Some(_), None) => TEXTS.get(store, environment.number(), id, field).await,
        }
    }

    /// The model's thinking before its answer.
    pub(crate) async fn thinking(
        &self,
        store: &dyn Store,
        environment: Environment,
    ) -> Result<Option<String>, Error> {
        match &self.task.result {
            Some(_) => {
                let id = self.task.spec.id.as_u128();
                TEXTS.get(store, environment.number(), id, text::THINKING).await
            }
            None => Ok(None),
        }
    }
}

/// A task, from either table.
pub(crate) async fn task(
    store: &dyn Store,
    environment: Environment,
    task: TaskId,
) -> Result<Option<LoadedTask>, Error> {
    let (number, id) = (environment.number(), task.as_u128());
    if let Some(row) = LIVE_TASKS.get(store, number, &id).await? {
        return found(store, environment, task, row, None).await;
    }
    if let Some(Ended(row, output)) = ENDED_TASKS.get(store, number, &id).await? {
        return found(store, environment, task, row, output).await;
    }
    // The third look is for one that was made, not moved, between the first two.
    match LIVE_TASKS.get(store, number, &id).await? {
        Some(row) => found(store, environment, task, row, None).await,
        None => Ok(None),
    }
}

/// The row of a task that has ended; `None` if it has not ended, or was removed since then.
pub(super) async fn end(
    store: &dyn Store,
    environment: Environment,
    task: TaskId,
) -> Result<Option<TaskRow>, Error> {
    let ended = ENDED_TASKS.get(store, environment.number(), &task.as_u128()).await?;
    Ok(ended.map(|Ended(row, _)| row))
}

/// True if a task is there with its texts.
pub(super) async fn has_texts(
    store: &dyn Store,
    environment: Environment,
    task: TaskId,
) -> Result<bool, Error> {
    let is_ended = async || {
        let row = end(store, environment, task).await?;
        Ok::<_, Error>(row.is_some_and(|row| row.erased_at.is_none()))
    };
    // A task that ends meanwhile is found in the second look.
    Ok(unfinished_row(store, environment, task).await?.is_some() || is_ended().await?)
}

/// The state of a task, if it has not ended.
pub(crate) async fn unfinished_state(
    store: &dyn Store,
    environment: Environment,
    task: TaskId,
) -> Result<Option<task::State>, Error> {
    let row = LIVE_TASKS.get(store, environment.number(), &task.as_u128()).await?;
    Ok(row.map(|row| row.state))
}

/// The row of a task that has not ended.
pub(crate) async fn unfinished_row(
    store: &dyn Store,
    environment: Environment,
    task: TaskId,
) -> Result<Option<TaskRow>, Error> {
    LIVE_TASKS.get(store, environment.number(), &task.as_u128()).await
}

/// The task of an unfinished row; `None` if it has ended and was removed since then.
pub(crate) async fn unfinished(
    store: &dyn Store,
    environment: Environment,
    task: TaskId,
    row: TaskRow,
) -> Result<Option<Task>, Error> {
    Ok(found(store, environment, task, row, None).await?.map(|found| found.task))
}

/// The task; `None` if it was removed since its row was read.
async fn found(
    store: &dyn Store,
    environment: Environment,
    task: TaskId,
    row: TaskRow,
    output: Option<String>,
) -> Result<Option<LoadedTask>, Error> {
    match made(store, environment, task).await? {
        Some(made) => Ok(Some(LoadedTask { task: row.of(made.spec), inputs: made.inputs, output })),
        None if is_removed(store, environment, task).await? => Ok(None),
        None => Err(Error::Corrupt {
            path: format!("texts of {task}"),
            reason: "what it was asked to be is missing".into(),
        }),
    }
}

/// True if a task that has been seen is not there any more. A reader of several rows of an ended task
/// asks this afterwards: if the task is still there, the rows were whole.
pub(crate) async fn is_removed(
    store: &dyn Store,
    environment: Environment,
    task: TaskId,
) -> Result<bool, Error> {
    let (number, id) = (environment.number(), task.as_u128());
    // A task that ends meanwhile is found in the second look.
    Ok(LIVE_TASKS.get(store, number, &id).await?.is_none()
        && ENDED_TASKS.get(store, number, &id).await?.is_none())
}

/// A task's inputs, from the row or from the texts.
pub(crate) async fn inputs(
    store: &dyn Store,
    environment: Environment,
    task: TaskId,
) -> Result<Inputs, Error> {
    match made(store, environment, task).await?.and_then(|made| made.inputs) {
        Some(short) => Ok(short),
        None => long_inputs(store, environment, task).await,
    }
}

/// The files of a task whose texts are there; none once they are erased.
pub(crate) async fn files_of(
    store: &dyn Store,
    environment: Environment,
    id: TaskId,
) -> Result<Vec<FileId>, Error> {
    let found = task(store, environment, id).await?;
    if found.is_none_or(|found| found.task.erased_at.is_some()) {
        return Ok(Vec::new());
    }
    Ok(inputs(store, environment, id).await?.files)
}

/// A task's inputs that stand by themselves.
async fn long_inputs(
    store: &dyn Store,
    environment: Environment,
    task: TaskId,
) -> Result<Inputs, Error> {
    let text = TEXTS.get(store, environment.number(), task.as_u128(), text::INPUTS).await?;
    let text = text.unwrap_or_else(|| "{}".into());
    serde_json::from_str(&text).map_err(|error| damaged(task, &error))
}

fn damaged(task: TaskId, error: &serde_json::Error) -> Error {
    Error::Corrupt { path: format!("texts of {task}"), reason: error.to_string() }
}

/// The status terms that a filter asks for.
pub(crate) fn status_terms(statuses: &[Status]) -> Vec<Box<[u8]>> {
    statuses.iter().map(|status| status.as_str().as_bytes().into()).collect()
}
