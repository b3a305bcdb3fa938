//! Conditions: CEL expressions that make a step run or be skipped (docs/reference/executions.md).
//!
//! ```text
//! "{{a.output}} == 'yes'" ──translate──▶ steps["a"].output == 'yes' ──check, compile──▶ Condition
//! ```
//!
//! The variables are `input`, `steps["id"].output`, `.status` (`completed` or `skipped`) and
//! `.json` (the output parsed as JSON, null if it is not JSON), and `meta`. A skipped step's output
//! is the empty string, its JSON is null, and `has()` of them is false.
//!
//! Numbers of JSON have no type (`number`). A member that is absent is an error, and `has()` is false for
//! it and for everything below it.
//!
//! The library parses; the evaluator is our own, because the library's has no hook by which its work could be bounded.
//! A condition and its data are a caller's: the check refuses nested iterations, `map` and `filter`, more than 16
//! additions and computed patterns; patterns are compiled once, under a size limit; the evaluation burns fuel.

mod absent;
mod check;
mod evaluate;
mod number;
mod program;
mod translate;
mod value;

use std::sync::{Arc, LazyLock};

use cel::Env;

use crate::fuel::Fuel;
use crate::pattern::Patterns;
use crate::problem::shortened;
use crate::render::Scope;

use program::Program;

pub use check::References;
pub use evaluate::Error;

/// The longest condition, in bytes.
pub const MAX_LENGTH: usize = 1024;

/// The deepest nesting of brackets in the text and of the syntax tree.
pub const MAX_DEPTH: usize = 16;

/// The fuel of one evaluation.
pub const FUEL: u64 = 1_000_000;

/// The longest text of all conditions of a plan, in bytes: the library parses a kilobyte in 5 to 10 ms.
pub const MAX_PLAN_LENGTH: usize = 64 * 1024;

/// The largest sum of the compiled patterns of all conditions of a plan, in bytes.
pub const MAX_PLAN_PATTERNS: usize = 2 * 1024 * 1024;

/// A compiled condition.
#[derive(Debug, Clone)]
pub struct Condition {
    source: String,
    references: References,
    program: Arc<Program>,
}

/// A fault of a condition (`INVALID_CONDITION`); the text follows the field's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(String);

/// The standard functions without macros: `all` and the like stay calls, which the check can see.
static PLAIN: LazyLock<Env> = LazyLock::new(|| Env::default().with_stdlib());

impl Condition {
    /// Compiles a condition; each `{{…}}` stands for the variable that it names. `patterns` are those
    /// of the whole plan.
    ///
    /// # Errors
    /// The text is longer than [`MAX_LENGTH`], nested deeper than [`MAX_DEPTH`] or not CEL, uses an
    /// unknown variable or function, or has a pattern that is invalid or too large.
    pub fn compile(source: impl Into<String>, patterns: &mut Patterns) -> Result<Self, Invalid> {
        let source = source.into();
        if source.trim().is_empty() {
            return Err(Invalid("must not be empty".to_owned()));
        }
        if source.len() > MAX_LENGTH {
            return Err(Invalid(format!("must not be longer than {MAX_LENGTH} bytes")));
        }
        let text = translate::translate(&source).map_err(Invalid)?;
        let parsed = parse(&PLAIN, &text)?;
        let references = check::check(parsed.expression()).map_err(Invalid)?;
        let program = program::program(parsed.expression(), patterns).map_err(Invalid)?;
        Ok(Self { source, references, program: Arc::new(program) })
    }

    /// The condition as written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The variables that the condition refers to.
    #[must_use]
    pub const fn references(&self) -> &References {
        &self.references
    }

    /// Evaluates the condition: true if the step runs.
    ///
    /// # Errors
    /// The evaluation fails on these values, needs more fuel, or its result is not a boolean
    /// (`CONDITION_FAILED`).
    pub fn evaluate(&self, scope: &impl Scope, fuel: &mut Fuel) -> Result<bool, Error> {
        evaluate::evaluate(&self.program, &self.references, scope, fuel)
    }
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

/// The parser has a recursion limit of its own, which long chains of operators can exceed.
fn parse(env: &Env, text: &str) -> Result<cel::Program, Invalid> {
    env.compile(text).map_err(|errors| {
        let first = errors.errors.first().map_or("", |error| error.msg.as_str());
        Invalid(format!("is not valid CEL: {}", shortened(first, 200)))
    })
}

#[cfg(test)]
mod tests;
