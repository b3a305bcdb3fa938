//! The evaluation of a condition on the values of an execution.
//!
//! A condition receives only the variables that it refers to. Deliberately absent: a time limit. The
//! work is bounded by the forms that [`super::check`] allows and by the limits here.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cel::extractors::This;
use cel::{Context, ExecutionError, Program, Value};
use regex::RegexBuilder;
use serde_json::Value as Json;

use super::STANDARD;
use super::check::{MAX_PATTERN, References};
use crate::render::{Meta, Output, Scope};

/// The most text that all patterns of one evaluation may search, in bytes.
const MAX_MATCHED: usize = 256 * 1024;

/// The most data that an iteration may read, in bytes: the items of the largest collection times the
/// size of all values.
const MAX_ITERATED: usize = 4 * 1024 * 1024;

/// The longest message of a failed evaluation, in bytes.
const MAX_MESSAGE: usize = 300;

/// A failed evaluation (`CONDITION_FAILED`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The evaluation fails on these values.
    #[error("the condition cannot be evaluated: {0}")]
    Failed(String),
    /// The result is not a boolean.
    #[error("the condition must evaluate to true or false")]
    NotBoolean,
    /// The iteration would exceed the limit on data.
    #[error("the condition iterates over more than {MAX_ITERATED} bytes of data")]
    TooMuch,
    /// The condition refers to a step that has not completed.
    #[error("the condition refers to step {0}, which did not complete")]
    Unfinished(String),
}

/// Evaluates a program; a panic of the CEL library becomes an error.
pub(super) fn evaluate(
    program: &Program,
    references: &References,
    scope: &impl Scope,
) -> Result<bool, Error> {
    let mut values = Values::default();
    let input = values.input(references, scope);
    let steps = values.steps(references, scope)?;
    if references.iterates && values.largest.saturating_mul(values.bytes) > MAX_ITERATED {
        return Err(Error::TooMuch);
    }
    let known = Meta::ALL.into_iter().filter_map(|meta| {
        scope.meta(meta).map(|value| (meta.as_str().to_owned(), Value::from(value)))
    });
    let meta: HashMap<String, Value> = known.collect();

    let mut context = Context::with_env(Arc::clone(&STANDARD));
    context.add_variable_from_value("input", input);
    context.add_variable_from_value("steps", steps);
    context.add_variable_from_value("meta", meta);
    let searched = AtomicUsize::new(0);
    let matches = move |This(text): This<Arc<String>>, pattern: Arc<String>| {
        let before = searched.fetch_add(text.len(), Ordering::Relaxed);
        is_match(&text, &pattern, before)
    };
    context
        .add_function("matches", matches)
        .expect("the library's own matches is a feature that is off");

    // The library may panic; a condition must not take its execution's actor down.
    match catch_unwind(AssertUnwindSafe(|| program.execute(&context))) {
        Ok(Ok(Value::Bool(holds))) => Ok(holds),
        Ok(Ok(_)) => Err(Error::NotBoolean),
        Ok(Err(error)) => Err(Error::Failed(bounded(&error))),
        Err(_) => Err(Error::Failed("the evaluator failed".to_owned())),
    }
}

fn is_match(text: &str, pattern: &str, before: usize) -> Result<bool, ExecutionError> {
    if before.saturating_add(text.len()) > MAX_MATCHED {
        return Err(ExecutionError::function_error("matches", "more text to search than 256 KiB"));
    }
    let pattern = RegexBuilder::new(pattern).size_limit(MAX_PATTERN).build();
    let pattern = pattern.map_err(|error| ExecutionError::function_error("matches", error))?;
    Ok(pattern.is_match(text))
}

/// The conversion of an evaluation's values to CEL, which measures them.
#[derive(Default)]
struct Values {
    bytes: usize,
    largest: usize,
}

impl Values {
    fn input(&mut self, references: &References, scope: &impl Scope) -> HashMap<String, Value> {
        let wanted = |field: &String| references.whole_input || references.input.contains(field);
        let fields: Vec<_> = scope.input().iter().filter(|(field, _)| wanted(field)).collect();
        self.largest = self.largest.max(fields.len());
        fields.into_iter().map(|(field, value)| (field.clone(), self.value(value))).collect()
    }

    fn steps(
        &mut self,
        references: &References,
        scope: &impl Scope,
    ) -> Result<HashMap<String, Value>, Error> {
        let mut steps = HashMap::with_capacity(references.steps.len());
        for step in &references.steps {
            let (status, output) = match scope.output(step) {
                Output::Unknown => return Err(Error::Unfinished(step.clone())),
                Output::Skipped => ("skipped", ""),
                Output::Completed(output) => ("completed", output),
            };
            self.bytes = self.bytes.saturating_add(output.len());
            let mut values =
                HashMap::from([("status", Value::from(status)), ("output", Value::from(output))]);
            if references.json {
                let json = serde_json::from_str(output).unwrap_or(Json::Null);
                values.insert("json", self.value(&json));
            }
            steps.insert(step.clone(), Value::from(values));
        }
        Ok(steps)
    }

    fn value(&mut self, json: &Json) -> Value {
        self.bytes = self.bytes.saturating_add(8);
        match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(number), _) => Value::Int(number),
                (None, Some(number)) => Value::UInt(number),
                (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => {
                self.bytes = self.bytes.saturating_add(text.len());
                Value::from(text.as_str())
            }
            Json::Array(items) => {
                self.largest = self.largest.max(items.len());
                Value::from(items.iter().map(|item| self.value(item)).collect::<Vec<_>>())
            }
            Json::Object(members) => {
                self.largest = self.largest.max(members.len());
                let values = members.iter().map(|(name, value)| {
                    self.bytes = self.bytes.saturating_add(name.len());
                    (name.clone(), self.value(value))
                });
                Value::from(values.collect::<HashMap<_, _>>())
            }
        }
    }
}

/// The start of an error's text. The text may contain whole values, so writing stops at the limit.
fn bounded(error: &ExecutionError) -> String {
    struct Bounded(String);
    impl fmt::Write for Bounded {
        fn write_str(&mut self, piece: &str) -> fmt::Result {
            let fits = piece.floor_char_boundary(MAX_MESSAGE - self.0.len());
            self.0.push_str(&piece[..fits]);
            if fits < piece.len() { Err(fmt::Error) } else { Ok(()) }
        }
    }
    let mut text = Bounded(String::new());
    if write!(text, "{error}").is_err() {
        text.0.push('…');
    }
    text.0
}
