//! Conditions: CEL expressions that decide whether a step runs (PROTOCOL.md 4).
//!
//! ```text
//! "{{a.output}} == 'yes'" ──translate──▶ steps["a"].output == 'yes' ──check, compile──▶ Condition
//! ```
//!
//! The variables are `input`, `steps["id"].output`, `.status` (`completed` or `skipped`) and
//! `.json` (the output parsed as JSON, null if it is not JSON), and `meta`. A skipped step's output
//! is the empty string, its JSON is null.
//!
//! The work of an evaluation is bounded: the check refuses nested iterations, `map` and `filter`,
//! more than 16 additions, and patterns that are computed or large when compiled. The rest is linear
//! in the data, once per item of one collection, and the evaluation bounds that product. Deliberately
//! absent: time (`now`), randomness, and CEL's other functions.

mod check;
mod evaluate;
mod translate;

use std::sync::{Arc, LazyLock};

use cel::{Env, Program};

use crate::problem::shortened;
use crate::render::Scope;

pub use check::References;
pub use evaluate::Error;

/// The longest condition, in bytes (PROTOCOL.md 4).
pub const MAX_LENGTH: usize = 1024;

/// The deepest nesting of brackets in the text and of the syntax tree (PROTOCOL.md 4).
pub const MAX_DEPTH: usize = 16;

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

/// The environment of evaluations, with macros.
static STANDARD: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

impl Condition {
    /// Compiles a condition; each `{{…}}` stands for the variable that it names.
    ///
    /// # Errors
    /// The text is longer than [`MAX_LENGTH`], nested deeper than [`MAX_DEPTH`] or not CEL, uses an
    /// unknown variable or function, or its evaluation would not be bounded.
    pub fn compile(source: impl Into<String>) -> Result<Self, Invalid> {
        let source = source.into();
        if source.trim().is_empty() {
            return Err(Invalid("must not be empty".to_owned()));
        }
        if source.len() > MAX_LENGTH {
            return Err(Invalid(format!("must not be longer than {MAX_LENGTH} bytes")));
        }
        let text = translate::translate(&source).map_err(Invalid)?;
        let plain = parse(&PLAIN, &text)?;
        let (references, has_macros) = check::check(plain.expression()).map_err(Invalid)?;
        let program = if has_macros { parse(&STANDARD, &text)? } else { plain };
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
    /// The evaluation fails on these values, or its result is not a boolean (`CONDITION_FAILED`).
    pub fn evaluate(&self, scope: &impl Scope) -> Result<bool, Error> {
        evaluate::evaluate(&self.program, &self.references, scope)
    }
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

/// The parser has a recursion limit of its own, which long chains of operators can exceed.
fn parse(env: &Env, text: &str) -> Result<Program, Invalid> {
    env.compile(text).map_err(|errors| {
        let first = errors.errors.first().map_or("", |error| error.msg.as_str());
        Invalid(format!("is not valid CEL: {}", shortened(first, 200)))
    })
}

#[cfg(test)]
mod tests;
