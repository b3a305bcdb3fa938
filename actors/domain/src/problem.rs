//! The faults of a definition: all faults of a plan or a template, so that one answer lists them
//! (docs/reference/errors.md).
//!
//! Deliberately absent: the checks, which are in the modules of the checked things.

use std::fmt;

use crate::error::{Error, Fault, Rule, within};

/// The kinds of faults that a definition can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// A field breaks a rule.
    Validation(Rule),
    /// Steps depend on each other in a cycle.
    CircularDependency,
    /// The step does not exist.
    MissingDependency,
    /// The step refers to the output of a step that is not in `dependsOn`.
    UndeclaredDependency,
    /// The input schema declares no such field.
    InvalidInputRef,
    /// The step is downstream of a cycle and could never start.
    UnreachableStep,
    /// An earlier step has the same id.
    DuplicateStepId,
    /// The condition cannot be compiled, or exceeds a limit.
    InvalidCondition,
    /// The settings do not allow the environment variable.
    EnvNotAllowed,
}

impl Code {
    /// The code on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Validation(_) => "VALIDATION_ERROR",
            Self::CircularDependency => "CIRCULAR_DEPENDENCY",
            Self::MissingDependency => "MISSING_DEPENDENCY",
            Self::UndeclaredDependency => "UNDECLARED_DEPENDENCY",
            Self::InvalidInputRef => "INVALID_INPUT_REF",
            Self::UnreachableStep => "UNREACHABLE_STEP",
            Self::DuplicateStepId => "DUPLICATE_STEP_ID",
            Self::InvalidCondition => "INVALID_CONDITION",
            Self::EnvNotAllowed => "ENV_NOT_ALLOWED",
        }
    }

    /// True if steps with the fault are not what was written.
    #[must_use]
    pub const fn changes_steps(self) -> bool {
        match self {
            Self::Validation(rule) => matches!(rule, Rule::Placeholder | Rule::Type),
            Self::CircularDependency
            | Self::MissingDependency
            | Self::UnreachableStep
            | Self::DuplicateStepId
            | Self::InvalidCondition => true,
            Self::UndeclaredDependency | Self::InvalidInputRef | Self::EnvNotAllowed => false,
        }
    }

    /// The broken rule of a [`Code::Validation`].
    #[must_use]
    pub const fn rule(self) -> Option<Rule> {
        match self {
            Self::Validation(rule) => Some(rule),
            Self::CircularDependency
            | Self::MissingDependency
            | Self::UndeclaredDependency
            | Self::InvalidInputRef
            | Self::UnreachableStep
            | Self::DuplicateStepId
            | Self::InvalidCondition
            | Self::EnvNotAllowed => None,
        }
    }
}

/// One fault of a definition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// The kind of fault.
    pub code: Code,
    /// The field, as a path such as `steps[2].dependsOn[0]`.
    pub field: String,
    /// The field, the fault and the remedy.
    pub message: String,
}

impl Problem {
    /// A fault of `field`; `says` follows the field's name: `must be a string`.
    pub fn new(code: Code, field: impl Into<String>, says: impl fmt::Display) -> Self {
        let field = field.into();
        Self { code, message: format!("{field} {says}"), field }
    }

    /// A field that breaks a rule.
    pub fn rule(rule: Rule, field: impl Into<String>, says: impl fmt::Display) -> Self {
        Self::new(Code::Validation(rule), field, says)
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        let Fault { field, rule, message } = fault;
        Self { code: Code::Validation(rule), field, message }
    }
}

/// All faults of a definition, in the order of the document; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Passes if there are no problems.
    ///
    /// # Errors
    /// The problems, if there is at least one.
    pub fn none_of(problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self(problems)) }
    }

    /// The first problem, which is the message and the code of the error.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "problems are never empty")]
    pub fn first(&self) -> &Problem {
        self.0.first().expect("problems are never empty")
    }

    /// The same problems of a part of a document.
    pub(crate) fn within(self, outer: &str) -> Self {
        let of = |Problem { code, field, message }| Problem {
            code,
            message: within(outer, &field, message),
            field: format!("{outer}.{field}"),
        };
        Self(self.0.into_iter().map(of).collect())
    }

    /// All problems.
    #[must_use]
    pub fn all(&self) -> &[Problem] {
        &self.0
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first().fmt(f)
    }
}

impl From<Problems> for Error {
    fn from(problems: Problems) -> Self {
        Self::InvalidDefinition(problems)
    }
}

/// The first `limit` characters of a client's text, for a message.
#[must_use]
pub(crate) fn shortened(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_problem_is_the_error_itself() {
        let first = Problem::rule(Rule::Length, "steps", "must hold at least one step");
        let second = Problem::new(Code::InvalidCondition, "steps[0].condition", "is empty");
        let problems = Problems::none_of(vec![first.clone(), second]).unwrap_err();
        assert_eq!(problems.first(), &first);
        assert_eq!(Error::from(problems).to_string(), "steps must hold at least one step");
        assert_eq!(Problems::none_of(Vec::new()), Ok(()));
    }

    #[test]
    fn the_fields_of_a_part_are_named_within_the_whole() {
        let first = Problem::rule(Rule::Required, "input.a", "is required");
        let second = Problem { message: "no such thing".into(), ..first.clone() };
        let problems = Problems::none_of(vec![first, second]).unwrap_err();
        let Error::InvalidDefinition(problems) = Error::from(problems).within("target") else {
            panic!("still a definition");
        };
        let found: Vec<_> = problems.all().iter().map(|it| (&*it.field, &*it.message)).collect();
        let field = "target.input.a";
        assert_eq!(found, [(field, "target.input.a is required"), (field, "no such thing")]);
        let model = Error::invalid("model", Rule::Enum, "model m has no price");
        let expected =
            Error::invalid("tasks[2].model", Rule::Enum, "tasks[2].model m has no price");
        assert_eq!(model.within("tasks[2]"), expected);
        assert_eq!(Error::NoRoute.within("x"), Error::NoRoute);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(shortened("äöü", 2), "äö…");
        assert_eq!(shortened("äöü", 3), "äöü");
    }
}
