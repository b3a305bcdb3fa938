//! Prompts with `{{…}}`: parsed once, at creation, and filled in when a step starts.
//!
//! ```text
//! "Sum up {{a.output}}" ──parse──▶ Text [literal, reference] ──render(scope)──▶ the prompt
//! ```
//!
//! Rendering is one pass over the parts, so inserted text is never scanned again, whatever it
//! holds. Deliberately absent: whether a reference is allowed. The plan checks that, once.

mod scan;

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

pub use scan::{MAX_MISREADS, Misread, reference};

/// The longest prompt, before and after rendering, in bytes (PROTOCOL.md 2).
pub const MAX_PROMPT: usize = 1024 * 1024;

/// A text with references in it. Its source is kept, and is what it serialises to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    source: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(Range<usize>),
    Reference(Range<usize>, Reference),
}

/// What a `{{…}}` names (SPEC.md, "Template variables").
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reference {
    /// `input.<field>`, or deeper: `input.a.b`.
    Input {
        /// The field of the input.
        field: String,
        /// The way from there into its value.
        path: Vec<String>,
    },
    /// `<step>.output`, or into its JSON: `<step>.output.a.b`.
    Output {
        /// The step's id.
        step: String,
        /// The way into the output.
        path: Vec<String>,
    },
    /// `env.<NAME>`.
    Env(String),
    /// `meta.<name>`.
    Meta(Meta),
}

/// What is known of the run itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Meta {
    /// The template's name; the plan's where there is no template.
    TemplateName,
    /// The identifier of the execution.
    ExecutionId,
}

impl Meta {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::TemplateName, Self::ExecutionId];

    /// Its name after `meta.`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TemplateName => "templateName",
            Self::ExecutionId => "executionId",
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = match self {
            Self::Input { field, path } => {
                write!(f, "input.{field}")?;
                path
            }
            Self::Output { step, path } => {
                write!(f, "{step}.output")?;
                path
            }
            Self::Env(name) => return write!(f, "env.{name}"),
            Self::Meta(meta) => return write!(f, "meta.{}", meta.as_str()),
        };
        path.iter().try_for_each(|segment| write!(f, ".{segment}"))
    }
}

/// Where the values come from.
pub trait Scope {
    /// The input of the execution, with its defaults filled in.
    fn input(&self) -> &Map<String, Value>;
    /// What a step gave.
    fn output(&self, step: &str) -> Output<'_>;
    /// An environment variable.
    fn env(&self, name: &str) -> Option<&str>;
    /// What is known of the run.
    fn meta(&self, meta: Meta) -> Option<&str>;
}

/// What a step gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output<'a> {
    /// Nothing so far.
    Unknown,
    /// Nothing: its condition was false.
    Skipped,
    /// It is completed, with this output.
    Completed(&'a str),
}

/// Why a text cannot be rendered (`RENDER_FAILED`). Names the reference, never a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is nothing at this place of the JSON.
    #[error("{{{{{0}}}}} names a field that is missing")]
    Missing(Reference),
    /// The output is no JSON, so that nothing can be reached in it.
    #[error("{{{{{0}}}}} reaches into an output that is not JSON")]
    NotJson(Reference),
    /// There is no value: the step did not complete, or the variable is not set.
    #[error("{{{{{0}}}}} has no value")]
    NoValue(Reference),
    /// The rendered text is too long.
    #[error("the rendered prompt is longer than {MAX_PROMPT} bytes")]
    TooLong,
}

impl Text {
    /// Reads the references of a text.
    ///
    /// # Errors
    /// Every `{{` that is not closed or names no variable, up to [`MAX_MISREADS`].
    pub fn parse(source: impl Into<String>) -> Result<Self, Vec<Misread>> {
        let (text, misreads) = Self::read(source);
        if misreads.is_empty() { Ok(text) } else { Err(misreads) }
    }

    /// The same, but gives also the references of a text that has faults.
    pub fn read(source: impl Into<String>) -> (Self, Vec<Misread>) {
        let source = source.into();
        let (parts, misreads) = scan::scan(&source);
        (Self { source, parts }, misreads)
    }

    /// The text as it was written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What it refers to, in its order, as often as it does.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.parts.iter().filter_map(|part| match part {
            Part::Literal(_) => None,
            Part::Reference(_, reference) => Some(reference),
        })
    }

    /// The text with all its references filled in: strings as they are, null and a skipped step's
    /// output as nothing, all else as compact JSON in its own member order. An input field that is
    /// absent, so one that is optional, is nothing too; to reach into it is an error.
    ///
    /// # Errors
    /// A reference has no value, or the result is longer than [`MAX_PROMPT`].
    pub fn render(&self, scope: &impl Scope) -> Result<String, Error> {
        self.fill(scope, Unknown::Refuse)
    }

    /// The text for a dry run: what is not known before the run (outputs, the execution's id)
    /// stays as it was written.
    ///
    /// # Errors
    /// An input has no such field, or the result is longer than [`MAX_PROMPT`].
    pub fn render_known(&self, scope: &impl Scope) -> Result<String, Error> {
        self.fill(scope, Unknown::Keep)
    }

    fn fill(&self, scope: &impl Scope, unknown: Unknown) -> Result<String, Error> {
        let mut filler = Filler { scope, parsed: HashMap::new() };
        let mut rendered = String::with_capacity(self.source.len());
        for part in &self.parts {
            match part {
                Part::Literal(range) => push(&mut rendered, &self.source[range.clone()])?,
                Part::Reference(range, reference) => {
                    match (filler.insert(&mut rendered, reference), unknown) {
                        (Err(Error::NoValue(_)), Unknown::Keep) => {
                            push(&mut rendered, &self.source[range.clone()])?;
                        }
                        (done, Unknown::Keep | Unknown::Refuse) => done?,
                    }
                }
            }
        }
        Ok(rendered)
    }
}

#[derive(Clone, Copy)]
enum Unknown {
    Keep,
    Refuse,
}

/// Outputs that are reached into are parsed once per text, so that rendering stays linear.
struct Filler<'a, S> {
    scope: &'a S,
    parsed: HashMap<&'a str, Option<Value>>,
}

impl<'a, S: Scope> Filler<'a, S> {
    fn insert(&mut self, rendered: &mut String, reference: &'a Reference) -> Result<(), Error> {
        let no_value = || Error::NoValue(reference.clone());
        let missing = || Error::Missing(reference.clone());
        match reference {
            Reference::Input { field, path } => {
                match (self.scope.input().get(field), path.is_empty()) {
                    (Some(value), _) => {
                        push_value(rendered, reach(value, path).ok_or_else(missing)?)
                    }
                    (None, true) => Ok(()),
                    (None, false) => Err(missing()),
                }
            }
            Reference::Output { step, path } => match self.scope.output(step) {
                Output::Unknown => Err(no_value()),
                Output::Skipped => Ok(()),
                Output::Completed(output) if path.is_empty() => push(rendered, output),
                Output::Completed(output) => {
                    let parsed = self
                        .parsed
                        .entry(step)
                        .or_insert_with(|| serde_json::from_str(output).ok());
                    let root = parsed.as_ref().ok_or_else(|| Error::NotJson(reference.clone()))?;
                    push_value(rendered, reach(root, path).ok_or_else(missing)?)
                }
            },
            Reference::Env(name) => push(rendered, self.scope.env(name).ok_or_else(no_value)?),
            Reference::Meta(meta) => push(rendered, self.scope.meta(*meta).ok_or_else(no_value)?),
        }
    }
}

fn reach<'v>(root: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(root, |value, segment| match value {
        Value::Object(members) => members.get(segment),
        Value::Array(items) => items.get(segment.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

fn push_value(rendered: &mut String, value: &Value) -> Result<(), Error> {
    match value {
        Value::Null => Ok(()),
        Value::String(text) => push(rendered, text),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            push(rendered, &value.to_string())
        }
    }
}

fn push(rendered: &mut String, text: &str) -> Result<(), Error> {
    if rendered.len() + text.len() > MAX_PROMPT {
        return Err(Error::TooLong);
    }
    rendered.push_str(text);
    Ok(())
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.source)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(String::deserialize(deserializer)?).map_err(|misreads| {
            let first = misreads.first().map_or("", |misread| misread.message.as_str());
            serde::de::Error::custom(format_args!("the text {first}"))
        })
    }
}

#[cfg(test)]
mod tests;
