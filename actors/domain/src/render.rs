//! Prompt templates: texts with `{{…}}`, parsed once with the plan and rendered when a step starts.
//!
//! ```text
//! "Sum up {{a.output}}" ──parse──▶ PromptTemplate [literal, reference] ──render(scope)──▶ prompt
//! ```
//!
//! Rendering is one pass over the parts, so inserted values are never parsed, even if they contain `{{`.

mod args;
pub(crate) mod members;
mod scan;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use serde_json::{Map, Value};

pub use args::ArgsTemplate;
pub(crate) use scan::{Content, meta_variables, placeholder, way_out};
pub use scan::{MAX_FAULTS, reference};

use crate::file::MAX_FILES;
use crate::function::{self, MAX_ARGS};
use crate::names::names;
use crate::schema::parsed_output;
use crate::task::MAX_MESSAGES;

use members::Members;

/// The longest prompt, before and after rendering, in bytes.
pub const MAX_PROMPT: usize = 1024 * 1024;

/// The most output that one text or condition may have parsed as JSON, in bytes.
pub const MAX_JSON: usize = 1024 * 1024;

/// A text with references.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptTemplate {
    source: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(Range<usize>),
    Reference(Range<usize>, Reference),
}

/// The variable of a `{{…}}`. Its names are in NFC.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reference {
    /// `input.<field>`, or deeper: `input.a.b`.
    Input {
        /// The field of the input.
        field: String,
        /// The path within the field's value.
        path: Vec<String>,
    },
    /// `<step>.output`, or into its JSON: `<step>.output.a.b`.
    Output {
        /// The step's id.
        step: String,
        /// The path within the output.
        path: Vec<String>,
    },
    /// `env.<NAME>`.
    Env(String),
    /// `meta.<name>`.
    Meta(Meta),
    /// The item of a step with `forEach`, or into it: `item.a.b`.
    Item {
        /// The name of the variable.
        name: String,
        /// The path within the item.
        path: Vec<String>,
    },
}

impl Reference {
    /// The field of the input, if it is of one.
    #[must_use]
    pub fn input_field(&self) -> Option<&str> {
        match self {
            Self::Input { field, .. } => Some(field),
            Self::Output { .. } | Self::Env(_) | Self::Meta(_) | Self::Item { .. } => None,
        }
    }
}

names! {
    /// A property of the run, by its name after `meta.`.
    Meta {
        /// The template's name; the plan's name if the plan comes from no template.
        TemplateName = "templateName",
        /// The identifier of the execution.
        ExecutionId = "executionId",
        /// The instant at which the execution was to begin.
        StartedAt = "startedAt",
        /// The instant of the schedule's occurrence.
        ScheduledAt = "scheduledAt",
        /// The instant of the occurrence that the schedule started before.
        PreviousScheduledAt = "previousScheduledAt",
        /// The day of `scheduledAt` in the schedule's time zone.
        ScheduledDate = "scheduledDate",
        /// The day of `previousScheduledAt` in the schedule's time zone.
        PreviousScheduledDate = "previousScheduledDate",
        /// The schedule's time zone.
        Timezone = "timezone",
    }
}

impl Meta {
    /// True if the property has no value at the first occurrence of a schedule.
    const fn is_of_previous(self) -> bool {
        matches!(self, Self::PreviousScheduledAt | Self::PreviousScheduledDate)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = match self {
            Self::Input { field, path } => {
                f.write_str("input")?;
                write_name(f, field)?;
                path
            }
            Self::Output { step, path } => {
                write!(f, "{step}.output")?;
                path
            }
            Self::Item { name, path } => {
                f.write_str(name)?;
                path
            }
            Self::Env(name) => return write!(f, "env.{name}"),
            Self::Meta(meta) => return write!(f, "meta.{meta}"),
        };
        path.iter().try_for_each(|name| write_name(f, name))
    }
}

/// Writes a name of a path, in quotes if it needs them.
fn write_name(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    if scan::is_bare(name) {
        write!(f, ".{name}")
    } else {
        write!(f, "[\"{}\"]", name.replace('\\', "\\\\").replace('"', "\\\""))
    }
}

/// The values of the variables.
pub trait Scope {
    /// The input of the execution, with its defaults filled in.
    fn input(&self) -> &Map<String, Value>;
    /// The output of a step.
    fn output(&self, step: &str) -> Output<'_>;
    /// An environment variable; `None` if it is not set or not allowed.
    fn env(&self, name: &str) -> Option<&str>;
    /// A property of the run; `None` before the run.
    fn meta(&self, meta: Meta) -> Option<&str>;
    /// The value of this variable of an item of a step with `forEach`; `None` before its list is known.
    fn item(&self, _name: &str) -> Option<&Value> {
        None
    }
    /// True if the output of this step is JSON whatever it looks like: it matches a schema, or is a list.
    fn is_json(&self, _step: &str) -> bool {
        false
    }
}

/// The output of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output<'a> {
    /// The step has not completed.
    Unknown,
    /// The step's condition was false.
    Skipped,
    /// The step completed with this output.
    Completed(&'a str),
    /// The step's function completed with the value of this JSON.
    Json(&'a str),
}

impl<'a> Output<'a> {
    /// The text that a prompt gets; `None` without an output.
    #[must_use]
    pub fn text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Unknown | Self::Skipped => None,
            Self::Completed(output) => Some(Cow::Borrowed(output)),
            Self::Json(json) => Some(function::text_of(json)),
        }
    }
}

/// A failure to render (`RENDER_FAILED`). The message names the reference, never a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The JSON has no value at this path.
    #[error("{{{{{0}}}}} refers to a missing field")]
    Missing(Reference),
    /// The reference has a path, and the output is not JSON.
    #[error("{{{{{0}}}}} needs an output in JSON, and the output is not valid JSON")]
    NotJson(Reference),
    /// The step did not complete, or the variable is not set.
    #[error("{{{{{0}}}}} has no value")]
    NoValue(Reference),
    /// The paths of the text reach into more output than is parsed.
    #[error("{{{{{0}}}}} reaches into outputs of more than {MAX_JSON} bytes")]
    TooMuchJson(Reference),
    /// The rendered text is too long.
    #[error("the rendered prompt is longer than {MAX_PROMPT} bytes")]
    TooLong,
    /// The rendered messages are too long.
    #[error("the rendered messages are longer than {MAX_MESSAGES} bytes in all")]
    MessagesTooLong,
    /// The rendered args are too long.
    #[error("the rendered args are longer than {MAX_ARGS} bytes of JSON")]
    ArgsTooLong,
    /// A text of `files` is rendered to something else than identifiers.
    #[error("files has {0:?}, which is not the id of a file: file_…")]
    NoFile(String),
    /// The rendered lists have too many files.
    #[error("the step has more than {MAX_FILES} files")]
    TooManyFiles,
}

impl Error {
    /// A text that is not the identifier of a file, shortened.
    pub(crate) fn no_file(text: &str) -> Self {
        Self::NoFile(text.chars().take(64).collect())
    }
}

impl PromptTemplate {
    /// Parses a text. Returns the faults too, one for every `{{` that is not closed or names no
    /// variable, up to [`MAX_FAULTS`]; a placeholder with a fault becomes a literal. A fault's text
    /// follows the field's name.
    pub fn parse(source: impl Into<String>) -> (Self, Vec<String>) {
        Self::parse_with_items(source, &[])
    }

    /// The same for a step with `forEach`, whose items have these variables.
    pub fn parse_with_items(source: impl Into<String>, items: &[&str]) -> (Self, Vec<String>) {
        let source = source.into();
        let (parts, faults) = scan::scan(&source, items);
        (Self { source, parts }, faults)
    }

    /// The text as written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The references in the order of the text, repeated ones included.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.parts.iter().filter_map(|part| match part {
            Part::Literal(_) => None,
            Part::Reference(_, reference) => Some(reference),
        })
    }

    /// Replaces every reference by its value: strings as they are, null and a skipped step's output as
    /// the empty string, other values as compact JSON with the members in their order. An absent
    /// input field is optional and renders as the empty string; a path within it is an error.
    ///
    /// # Errors
    /// A reference has no value, or the result is longer than [`MAX_PROMPT`].
    pub fn render(&self, scope: &impl Scope) -> Result<String, Error> {
        self.fill(&mut Inserter::of(scope), Unknown::Refuse)
    }

    /// Renders for a dry run: references without a value before the run (outputs, the execution's id)
    /// stay as written.
    ///
    /// # Errors
    /// An input field lacks the path, or the result is longer than [`MAX_PROMPT`].
    pub fn render_known(&self, scope: &impl Scope) -> Result<String, Error> {
        self.fill(&mut Inserter::of(scope), Unknown::Keep)
    }

    /// The approximate bytes that a rendering reads or writes; those parsed as JSON count ten times.
    #[must_use]
    pub fn weight(&self, scope: &impl Scope) -> usize {
        let mut members = Members::default();
        let of = |reference: &Reference| match reference {
            Reference::Input { field, .. } => {
                members.get(scope.input(), field).map_or(0, |value| 10 * breadth(value))
            }
            Reference::Output { step, path } => match scope.output(step) {
                Output::Completed(output) if path.is_empty() => output.len(),
                Output::Completed(output) | Output::Json(output) => output.len().saturating_mul(10),
                Output::Skipped | Output::Unknown => 0,
            },
            Reference::Item { name, .. } => scope.item(name).map_or(0, |value| 10 * breadth(value)),
            Reference::Env(_) | Reference::Meta(_) => 0,
        };
        self.references().map(of).fold(self.source.len(), usize::saturating_add)
    }

    fn fill<'a, S: Scope>(
        &'a self,
        inserter: &mut Inserter<'a, S>,
        unknown: Unknown,
    ) -> Result<String, Error> {
        let mut rendered = String::with_capacity(self.source.len());
        for part in &self.parts {
            match part {
                Part::Literal(range) => push(&mut rendered, &self.source[range.clone()])?,
                Part::Reference(range, reference) => {
                    match (inserter.insert(&mut rendered, reference), unknown) {
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

/// The value of an input or of an output in JSON; `None` for a skipped step's output and an absent field.
///
/// # Errors
/// The variable has no value, or none at this path, or is no JSON, or too much of it.
pub fn value_of(reference: &Reference, scope: &impl Scope) -> Result<Option<Value>, Error> {
    let missing = || Error::Missing(reference.clone());
    let at = |root: &Value, path: &[String]| {
        Members::default().at(root, path).map(|value| Some(value.clone())).ok_or_else(missing)
    };
    match reference {
        Reference::Input { field, path } => {
            match (members::member(scope.input(), field), path.is_empty()) {
                (Some(value), _) => at(value, path),
                (None, true) => Ok(None),
                (None, false) => Err(missing()),
            }
        }
        Reference::Output { step, path } => match scope.output(step) {
            Output::Unknown => Err(Error::NoValue(reference.clone())),
            Output::Skipped => Ok(None),
            Output::Completed(output) | Output::Json(output) if output.len() > MAX_JSON => {
                Err(Error::TooMuchJson(reference.clone()))
            }
            Output::Completed(output) | Output::Json(output) => {
                let root = parsed_output(output);
                at(&root.ok_or_else(|| Error::NotJson(reference.clone()))?, path)
            }
        },
        Reference::Env(_) | Reference::Meta(_) | Reference::Item { .. } => {
            Err(Error::NoValue(reference.clone()))
        }
    }
}

/// The approximate bytes that [`value_of`] reads; those of JSON count ten times.
#[must_use]
pub fn value_weight(reference: &Reference, scope: &impl Scope) -> usize {
    match reference {
        Reference::Input { field, .. } => {
            members::member(scope.input(), field).map_or(0, |value| 10 * breadth(value))
        }
        Reference::Output { step, .. } => match scope.output(step) {
            Output::Completed(output) | Output::Json(output) => output.len().saturating_mul(10),
            Output::Skipped | Output::Unknown => 0,
        },
        Reference::Env(_) | Reference::Meta(_) | Reference::Item { .. } => 0,
    }
}

#[derive(Clone, Copy)]
enum Unknown {
    Keep,
    Refuse,
}

/// Parses an output at most once per text, so that rendering stays linear.
struct Inserter<'a, S> {
    scope: &'a S,
    parsed: HashMap<&'a str, Option<Box<Value>>>,
    /// The size of the parsed values, in bytes.
    bytes: usize,
    members: Members,
}

impl<'a, S: Scope> Inserter<'a, S> {
    fn of(scope: &'a S) -> Self {
        Self { scope, parsed: HashMap::new(), bytes: 0, members: Members::default() }
    }

    /// The value of a reference, with its type; null for a skipped step's output and an absent input field. An
    /// output that no schema makes JSON is a value if it is an object or an array, and its text otherwise.
    fn value(&mut self, reference: &'a Reference) -> Result<Value, Error> {
        let no_value = || Error::NoValue(reference.clone());
        let missing = || Error::Missing(reference.clone());
        let found = match reference {
            Reference::Input { field, path } => {
                match (self.members.get(self.scope.input(), field), path.is_empty()) {
                    (Some(value), _) => self.members.at(value, path).ok_or_else(missing)?,
                    (None, true) => &Value::Null,
                    (None, false) => return Err(missing()),
                }
            }
            Reference::Output { step, path } => match self.scope.output(step) {
                Output::Unknown => return Err(no_value()),
                Output::Skipped => &Value::Null,
                Output::Completed(text)
                    if path.is_empty()
                        && !text.trim_start().starts_with(['{', '['])
                        && !self.scope.is_json(step) =>
                {
                    return Ok(Value::from(text));
                }
                Output::Completed(text) if path.is_empty() => {
                    match self.within(reference, step, path) {
                        Err(Error::NotJson(_)) => return Ok(Value::from(text)),
                        found => found?,
                    }
                }
                Output::Completed(_) | Output::Json(_) => self.within(reference, step, path)?,
            },
            Reference::Item { name, path } => {
                let item = self.scope.item(name).ok_or_else(no_value)?;
                self.members.at(item, path).ok_or_else(missing)?
            }
            Reference::Env(_) | Reference::Meta(_) => {
                let mut text = String::new();
                self.insert(&mut text, reference)?;
                return Ok(Value::String(text));
            }
        };
        // The copy of a long value is never made.
        if function::json_length(found) > MAX_ARGS {
            return Err(Error::ArgsTooLong);
        }
        Ok(found.clone())
    }

    /// The value at a path of a step's output, which is parsed at most once.
    fn within(
        &mut self,
        reference: &Reference,
        step: &'a str,
        path: &[String],
    ) -> Result<&Value, Error> {
        if !self.parsed.contains_key(step) {
            let (Output::Completed(output) | Output::Json(output)) = self.scope.output(step) else {
                return Err(Error::NoValue(reference.clone()));
            };
            self.bytes = self.bytes.saturating_add(output.len());
            if self.bytes > MAX_JSON {
                return Err(Error::TooMuchJson(reference.clone()));
            }
            self.parsed.insert(step, parsed_output(output).map(Box::new));
        }
        let root = self.parsed[step].as_ref().ok_or_else(|| Error::NotJson(reference.clone()))?;
        self.members.at(root, path).ok_or_else(|| Error::Missing(reference.clone()))
    }

    fn insert(&mut self, rendered: &mut String, reference: &'a Reference) -> Result<(), Error> {
        let no_value = || Error::NoValue(reference.clone());
        let missing = || Error::Missing(reference.clone());
        match reference {
            Reference::Input { field, path } => {
                match (self.members.get(self.scope.input(), field), path.is_empty()) {
                    (Some(value), _) => {
                        push_value(rendered, self.members.at(value, path).ok_or_else(missing)?)
                    }
                    (None, true) => Ok(()),
                    (None, false) => Err(missing()),
                }
            }
            Reference::Output { step, path } => {
                let output = self.scope.output(step);
                match output.text() {
                    None if output == Output::Unknown => Err(no_value()),
                    None => Ok(()),
                    Some(text) if path.is_empty() => push(rendered, &text),
                    Some(_) => push_value(rendered, self.within(reference, step, path)?),
                }
            }
            Reference::Item { name, path } => {
                let item = self.scope.item(name).ok_or_else(no_value)?;
                push_value(rendered, self.members.at(item, path).ok_or_else(missing)?)
            }
            Reference::Env(name) => push(rendered, self.scope.env(name).ok_or_else(no_value)?),
            Reference::Meta(meta) => match self.scope.meta(*meta) {
                Some(value) => push(rendered, value),
                None if meta.is_of_previous() && self.scope.meta(Meta::ScheduledAt).is_some() => {
                    Ok(())
                }
                None => Err(no_value()),
            },
        }
    }
}

/// The approximate length of a value, a tenth for strings. The first items of a long list count for all.
fn breadth(value: &Value) -> usize {
    const LOOKED_AT: usize = 1_000;
    let all = |looked_at: usize, length: usize| looked_at / length.clamp(1, LOOKED_AT) * length;
    match value {
        Value::String(text) => text.len() / 10,
        Value::Array(items) => {
            let first = items.iter().take(LOOKED_AT).map(breadth).sum::<usize>();
            4 + all(first, items.len())
        }
        Value::Object(members) => {
            let of = |(name, value): (&String, &Value)| 4 + name.len() / 10 + breadth(value);
            4 + all(members.iter().take(LOOKED_AT).map(of).sum(), members.len())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
    }
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

#[cfg(test)]
mod tests;
