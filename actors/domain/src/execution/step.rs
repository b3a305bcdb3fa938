//! One step of an execution: its row.
//!
//! ```text
//!   Waiting ──▶ Ready ──▶ Dispatched ──▶ Completed | Failed | Rejected | Cancelled
//!                │ ▲ │         │
//!                │ └─┼─────────┘ the output did not match, once
//!                │   └─▶ Awaiting ──▶ Completed | Failed | Cancelled        a wait step
//!                └─▶ Skipped | Failed
//!
//!   Completed, Rejected ── the decision is taken back, and nothing has used the output ──▶ Dispatched
//! ```
//!
//! Deliberately absent: the difference between a dispatched step that is queued, that runs and that a
//! reviewer holds. The step's task knows it, so that a lease costs the execution nothing.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::Signal;
use super::items::MapState;
use crate::Timestamp;
use crate::budget::Money;
use crate::id::{SignalId, TaskId};
use crate::task::{Amendment, Ending, FailureKind};
use crate::usage::Usage;

/// The most bytes that a message takes in a row, as JSON.
pub const MAX_MESSAGE: usize = 1_000;

/// The most tasks of one step that may be on their way to an end that nothing waits for.
pub const MAX_STOPPING: usize = 16;

/// The state of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// A dependency has not ended yet.
    #[default]
    Waiting,
    /// All dependencies ended well; the decision on the step is due.
    Ready,
    /// The step's task does the work.
    Dispatched,
    /// A wait step's signal has not come.
    Awaiting,
    /// Final: the output is there.
    Completed,
    /// Final: the step's condition is false.
    Skipped,
    /// Final: the step failed for good.
    Failed,
    /// Final: a reviewer rejected the step's output, and no other try was asked for.
    Rejected,
    /// Final: the step was cancelled alone, with the execution, or because of a step before it.
    Cancelled,
}

impl Stage {
    /// Every stage.
    pub const ALL: [Self; 9] = [
        Self::Waiting,
        Self::Ready,
        Self::Dispatched,
        Self::Awaiting,
        Self::Completed,
        Self::Skipped,
        Self::Failed,
        Self::Rejected,
        Self::Cancelled,
    ];

    /// True if the step has not ended.
    #[must_use]
    pub const fn is_open(self) -> bool {
        match self {
            Self::Waiting | Self::Ready | Self::Dispatched | Self::Awaiting => true,
            Self::Completed | Self::Skipped | Self::Failed | Self::Rejected | Self::Cancelled => {
                false
            }
        }
    }
}

/// A step's row: its state, and the fields that are shown.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StepState {
    /// The state.
    pub stage: Stage,
    /// The number of dispatches, in all runs of the execution.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub runs: u32,
    /// The current or last task.
    pub task: Option<TaskId>,
    /// The instant at which that task first ran; known once it ended.
    pub started_at: Option<Timestamp>,
    /// The end of the step, however it ended.
    pub completed_at: Option<Timestamp>,
    /// The number of the last attempt of the task; known once it ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// The usage of all tasks of the step.
    #[serde(default, skip_serializing_if = "is_unused")]
    pub usage: Usage,
    /// The confidence in the step's output.
    pub confidence: Option<f64>,
    /// The reason why the model stopped, in the provider's word.
    pub finish_reason: Option<String>,
    /// The model that took the place of the first, and the failure of the model before it.
    pub fallback: Option<Box<(String, FailureKind)>>,
    /// The reason why the step did not end well.
    pub error: Option<Ending>,
    /// The fault of the step's first output, for the prompt of the second try.
    pub correction: Option<String>,
    /// The token limit of the next try, after an output that was cut at the limit.
    pub max_tokens: Option<u64>,
    /// The worst case that waits for budget.
    pub held: Option<Money>,
    /// The reservation for the step's task.
    #[serde(default, skip_serializing_if = "Money::is_zero")]
    pub reserved: Money,
    /// Tasks that the step let go of and that have not reported their end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stopping: Vec<TaskId>,
    /// The task whose usage the row counts already, because its output was held again.
    pub counted: Option<TaskId>,
    /// True if the texts of the step's task were erased.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub erased: bool,
    /// The counts of the step's items, once the list of a `forEach` step is known.
    pub map: Option<Box<MapState>>,
    /// The signal that a wait uses or has used.
    pub signal: Option<Box<Signal>>,
    /// The time limit of a wait for its signal.
    pub until: Option<Timestamp>,
}

/// The place where the output of a completed step is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutputSource {
    /// The rows of a task.
    Task(TaskId),
    /// The row of the signal that a wait was given.
    Signal(SignalId),
}

impl StepState {
    /// An upper bound on the bytes of the row's JSON; close to the real size without messages.
    #[must_use]
    pub fn json_bound(&self) -> usize {
        let usage = if is_unused(&self.usage) {
            0
        } else {
            let unknown = if self.usage.price_unknown { 21 } else { 0 };
            let cost = if self.usage.total_cost == 0.0 { 3 } else { FLOAT };
            let cached = |name: usize, tokens| if tokens == 0 { 0 } else { name + digits(tokens) };
            45 + digits(self.usage.input)
                + digits(self.usage.output)
                + cost
                + unknown
                + cached(14, self.usage.cache_read)
                + cached(15, self.usage.cache_write)
        };
        let number =
            |name: usize, number: u32| if number == 0 { 0 } else { name + digits(number.into()) };
        let time =
            |name: usize, at: Option<Timestamp>| at.map_or(0, |at| name + digits(at.as_millis()));
        let money = |name: usize, money: Money| name + digits(money.as_nanos());
        let error = self.error.as_ref().map_or(0, |error| 75 + longest(&error.message));
        23 + number(8, self.runs)
            + self.task.map_or(0, |_| 8 + TASK)
            + time(14, self.started_at)
            + time(16, self.completed_at)
            + number(11, self.attempt)
            + usage
            + self.confidence.map_or(0, |_| 14 + FLOAT)
            + self.finish_reason.as_ref().map_or(0, |text| 19 + written(text))
            + error
            + self.fallback.as_deref().map_or(0, |(model, _)| 34 + written(model))
            + self.correction.as_ref().map_or(0, |text| 16 + longest(text))
            + self.max_tokens.map_or(0, |limit| 14 + digits(limit))
            + self.held.map_or(0, |held| money(8, held))
            + if self.reserved.is_zero() { 0 } else { money(12, self.reserved) }
            + self.counted.map_or(0, |_| 11 + TASK)
            + if self.erased { 14 } else { 0 }
            + self.signal.as_ref().map_or(0, |_| 10 + Signal::JSON_BOUND)
            + time(9, self.until)
            + if self.stopping.is_empty() { 0 } else { 14 + (TASK + 1) * self.stopping.len() }
            + self.map.as_ref().map_or(0, |_| 7 + MapState::JSON_BOUND)
    }

    /// True for the row of a step or an item to which nothing has happened.
    pub(super) fn is_untouched(&self) -> bool {
        *self == Self::default()
    }

    /// The place where the output is stored; `None` unless the step is completed.
    #[must_use]
    pub fn output_source(&self) -> Option<OutputSource> {
        let signal = self.signal.as_ref().map(|signal| OutputSource::Signal(signal.id));
        let source = signal.or(self.task.map(OutputSource::Task));
        source.filter(|_| self.stage == Stage::Completed)
    }

    /// The usage of a task that the row does not count yet.
    #[must_use]
    pub fn uncounted(&self, task: TaskId, usage: Usage) -> Usage {
        if self.counted == Some(task) { Usage::default() } else { usage }
    }

    /// The changes that the faults of the step's outputs make to its next try.
    #[must_use]
    pub fn amendment(&self) -> Amendment {
        Amendment { mismatch: self.correction.clone(), max_tokens: self.max_tokens }
    }

    /// The step as it was before its first dispatch, but for the fields that must outlive a retry.
    pub(super) fn again(&self) -> Self {
        Self {
            runs: self.runs,
            usage: self.usage,
            stopping: self.stopping.clone(),
            counted: self.counted,
            map: self.map.clone(),
            signal: self.signal.clone(),
            ..Self::default()
        }
    }
}

/// The bytes of a task's identifier as JSON.
const TASK: usize = 36;
/// The most bytes of a number with a fraction.
const FLOAT: usize = 24;

const fn digits(number: u64) -> usize {
    match number.checked_ilog10() {
        Some(log) => log as usize + 1,
        None => 1,
    }
}

/// The bytes of a text as JSON, without its quotes.
fn written(text: &str) -> usize {
    text.chars().map(json_bytes).sum()
}

fn json_bytes(character: char) -> usize {
    match character {
        '"' | '\\' => 2,
        character if character.is_control() => 6,
        character => character.len_utf8(),
    }
}

/// The most bytes of a [`clipped`] text as JSON.
fn longest(text: &str) -> usize {
    (6 * text.len()).min(MAX_MESSAGE)
}

/// The beginning of `message` that takes at most [`MAX_MESSAGE`] bytes as JSON: a row of the store
/// has an upper limit, and a worker's words have none.
pub(crate) fn clipped(mut message: String) -> String {
    let mut bytes = 0;
    let end = message.char_indices().find(|(_, c)| {
        bytes += json_bytes(*c);
        bytes > MAX_MESSAGE
    });
    if let Some((end, _)) = end {
        message.truncate(end);
    }
    message
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_unused(usage: &Usage) -> bool {
    *usage == Usage::default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::EndingCode;

    #[test]
    fn the_fullest_row_stays_far_below_what_the_store_takes() {
        let task = TaskId::from_u128(u128::MAX << 10);
        for word in ["\u{1}", "\"", "漢", "😀", "x"] {
            let message = clipped(word.repeat(10_000));
            let row = StepState {
                stage: Stage::Dispatched,
                runs: u32::MAX,
                task: Some(task),
                started_at: Some(Timestamp::MAX),
                completed_at: Some(Timestamp::MAX),
                attempt: u32::MAX,
                usage: Usage {
                    input: u64::MAX,
                    output: u64::MAX,
                    total_cost: 0.1 + 0.2,
                    price_unknown: true,
                    cache_read: u64::MAX,
                    cache_write: u64::MAX,
                },
                confidence: Some(1.0 / 3.0),
                finish_reason: Some(word.chars().cycle().take(64).collect()),
                error: Some(Ending { code: EndingCode::ProviderRateLimited, message }),
                fallback: Some(Box::new((
                    word.chars().cycle().take(128).collect(),
                    FailureKind::OutputInvalid,
                ))),
                correction: None,
                max_tokens: Some(u64::MAX),
                held: Some(Money::from_nanos(u64::MAX)),
                reserved: Money::from_nanos(u64::MAX),
                stopping: vec![task; MAX_STOPPING],
                counted: Some(task),
                erased: true,
                map: Some(Box::default()),
                signal: Some(Box::new(Signal {
                    id: SignalId::from_u128(u128::MAX),
                    at: Timestamp::MAX,
                })),
                until: Some(Timestamp::MAX),
            };
            let json = serde_json::to_string(&row).expect("a row is written");
            assert!(json.len() < 3_900, "{} bytes", json.len());
            assert!(json.len() <= row.json_bound(), "{} bytes", json.len());
        }
    }

    #[test]
    fn a_row_never_takes_more_than_it_says_and_a_usual_one_hardly_less() {
        let task = TaskId::from_u128(7 << 10);
        let now = Timestamp::from_millis(1_795_000_000_000);
        let usage = Usage { input: 80, output: 22, ..Usage::default() };
        let ending =
            |message: &str| Ending { code: EndingCode::TaskTimeout, message: message.into() };
        let rows = [
            StepState::default(),
            StepState { stage: Stage::Dispatched, runs: 1, task: Some(task), ..Default::default() },
            StepState { stage: Stage::Rejected, held: Some(Money::ZERO), ..Default::default() },
            StepState { correction: Some("\u{1}".into()), ..Default::default() },
            StepState { error: Some(ending("")), stopping: vec![task; 2], ..Default::default() },
            StepState { counted: Some(task), ..Default::default() },
            StepState {
                stage: Stage::Completed,
                runs: 1,
                task: Some(task),
                started_at: Some(now),
                completed_at: Some(now),
                attempt: 1,
                usage,
                finish_reason: Some("stop".into()),
                ..Default::default()
            },
        ];
        for row in &rows {
            let json = serde_json::to_string(row).expect("a row is written");
            assert!(json.len() <= row.json_bound(), "{json}: more than {}", row.json_bound());
        }
        for row in [&rows[0], &rows[1], &rows[6]] {
            let json = serde_json::to_string(row).expect("a row is written");
            assert!(row.json_bound() <= json.len() + 8, "{json}: {}", row.json_bound());
        }
    }

    #[test]
    fn a_waiting_row_says_only_that() {
        let json = serde_json::to_string(&StepState::default()).expect("a row is written");
        assert_eq!(json, r#"{"stage":"waiting"}"#);
    }
}
