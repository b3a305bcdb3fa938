//! Conditions: CEL that decides whether a step runs (PROTOCOL.md 4).
//!
//! ```text
//! "{{a.output}} == 'yes'" ──translate──▶ steps["a"].output == 'yes' ──check, compile──▶ Condition
//! ```
//!
//! The variables are `input`, `steps["id"].output`, `.status` (`completed` or `skipped`) and
//! `.json` (the output read as JSON, null if it is none), and `meta`. A skipped step's output is
//! the empty text, its JSON is null.
//!
//! An evaluation cannot run away, because of what the check refuses: nested iterations, `map` and
//! `filter`, more than 16 additions, patterns that are not written out or
//! large when compiled. What remains is linear in the data, once per item of one collection, and
//! that product is bounded when it is evaluated. Deliberately absent: time (`now`), chance, and CEL's other
//! functions.

mod check;
mod evaluate;
mod translate;

use std::sync::{Arc, LazyLock};

use cel::{Env, Program};

use crate::problem::shortened;
use crate::render::Scope;

pub use check::Uses;
pub use evaluate::Error;

/// The longest condition, in bytes (PROTOCOL.md 4).
pub const MAX_LENGTH: usize = 1024;

/// The deepest nesting: of brackets in the text, and of the syntax tree (PROTOCOL.md 4).
pub const MAX_DEPTH: usize = 16;

/// A condition, compiled and checked.
#[derive(Debug, Clone)]
pub struct Condition {
    source: String,
    uses: Uses,
    program: Arc<Program>,
}

/// Why a text is no condition (`INVALID_CONDITION`); follows the field's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(String);

/// Standard functions, without macros: `all` and its like stay calls, and can be counted.
static PLAIN: LazyLock<Env> = LazyLock::new(|| Env::default().with_stdlib());

/// What conditions are evaluated in.
static STANDARD: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

impl Condition {
    /// Compiles a condition, its `{{…}}` read as the variables that they name.
    ///
    /// # Errors
    /// It is longer than [`MAX_LENGTH`], nested deeper than [`MAX_DEPTH`], no CEL, names a
    /// variable or function that there is not, or could run away.
    pub fn compile(source: impl Into<String>) -> Result<Self, Refusal> {
        let source = source.into();
        if source.trim().is_empty() {
            return Err(Refusal("must not be empty".to_owned()));
        }
        if source.len() > MAX_LENGTH {
            return Err(Refusal(format!("must not be longer than {MAX_LENGTH} bytes")));
        }
        let text = translate::translate(&source).map_err(Refusal)?;
        let plain = parse(&PLAIN, &text)?;
        let (uses, has_macros) = check::check(plain.expression()).map_err(Refusal)?;
        let program = if has_macros { parse(&STANDARD, &text)? } else { plain };
        Ok(Self { source, uses, program: Arc::new(program) })
    }

    /// The condition as it was written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What it refers to.
    #[must_use]
    pub const fn uses(&self) -> &Uses {
        &self.uses
    }

    /// Whether the step runs.
    ///
    /// # Errors
    /// It fails on these values, or gives no boolean (`CONDITION_FAILED`).
    pub fn holds(&self, scope: &impl Scope) -> Result<bool, Error> {
        evaluate::evaluate(&self.program, &self.uses, scope)
    }
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

/// The parser has a recursion limit of its own, which long chains of operators can meet.
fn parse(env: &Env, text: &str) -> Result<Program, Refusal> {
    env.compile(text).map_err(|errors| {
        let first = errors.errors.first().map_or("", |error| error.msg.as_str());
        Refusal(format!("is not valid CEL: {}", shortened(first, 200)))
    })
}

#[cfg(test)]
mod tests;
