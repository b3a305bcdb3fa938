//! The args of a function: JSON whose strings are templates.
//!
//! ```text
//!   {"id": "{{input.id}}", "note": "for {{input.name}}"}  ─render─▶  {"id": 7, "note": "for Ada"}
//! ```
//!
//! A string that is one placeholder and nothing else becomes the value with its type; any other stays a
//! string. Names of members are no templates.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::{Error, Inserter, Part, PromptTemplate, Scope, Unknown};
use crate::function::{MAX_ARGS, json_length};

/// The args of a step, compiled.
#[derive(Debug, Clone, PartialEq)]
pub struct ArgsTemplate {
    members: Vec<(String, Node)>,
    texts: Vec<PromptTemplate>,
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Value(Value),
    /// The number of the text.
    Text(usize),
    List(Vec<Node>),
    Members(Vec<(String, Node)>),
}

impl ArgsTemplate {
    /// Compiles args; `text` compiles one string, whose place within the args is such as `.a.b[0]`.
    pub fn parse(
        args: &Map<String, Value>,
        text: &mut impl FnMut(&str, &str) -> PromptTemplate,
    ) -> Self {
        let mut texts = Vec::new();
        let mut place = String::new();
        let members = members(args, &mut place, &mut |place, source| {
            texts.push(text(place, source));
            texts.len() - 1
        });
        Self { members, texts }
    }

    /// The strings that have placeholders.
    pub fn texts(&self) -> impl Iterator<Item = &PromptTemplate> {
        self.texts.iter()
    }

    /// The args with every placeholder replaced.
    ///
    /// # Errors
    /// Those of [`PromptTemplate::render`], or the args are longer than [`MAX_ARGS`].
    pub fn render(&self, scope: &impl Scope) -> Result<Map<String, Value>, Error> {
        self.fill(scope, Unknown::Refuse)
    }

    /// The args for a dry run: strings that refer to values without one before the run stay as written.
    ///
    /// # Errors
    /// Those of [`PromptTemplate::render_known`], or the args are longer than [`MAX_ARGS`].
    pub fn render_known(&self, scope: &impl Scope) -> Result<Map<String, Value>, Error> {
        self.fill(scope, Unknown::Keep)
    }

    fn fill(&self, scope: &impl Scope, unknown: Unknown) -> Result<Map<String, Value>, Error> {
        let inserter = Inserter::of(scope);
        let mut filler = Filler { texts: &self.texts, inserter, unknown, left: MAX_ARGS };
        filler.members(&self.members)
    }
}

fn members(
    args: &Map<String, Value>,
    place: &mut String,
    text: &mut impl FnMut(&str, &str) -> usize,
) -> Vec<(String, Node)> {
    let of = |(name, value): (&String, &Value)| {
        let before = place.len();
        place.push('.');
        place.push_str(name);
        let node = node(value, place, text);
        place.truncate(before);
        (name.clone(), node)
    };
    args.iter().map(of).collect()
}

fn node(value: &Value, place: &mut String, text: &mut impl FnMut(&str, &str) -> usize) -> Node {
    match value {
        Value::String(source) if source.contains("{{") => Node::Text(text(place, source)),
        Value::Array(items) => {
            let mut list = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                let before = place.len();
                let _ = write!(place, "[{index}]");
                list.push(node(item, place, text));
                place.truncate(before);
            }
            Node::List(list)
        }
        Value::Object(inner) => Node::Members(members(inner, place, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Node::Value(value.clone())
        }
    }
}

/// Renders the nodes of one step's args, which share the parsed outputs and the room.
struct Filler<'a, S> {
    texts: &'a [PromptTemplate],
    inserter: Inserter<'a, S>,
    unknown: Unknown,
    /// The room for further JSON, in bytes.
    left: usize,
}

impl<'a, S: Scope> Filler<'a, S> {
    fn members(&mut self, members: &'a [(String, Node)]) -> Result<Map<String, Value>, Error> {
        let mut filled = Map::new();
        self.take(2)?;
        for (name, node) in members {
            // The quotes of an escaped name are counted with its value.
            self.take(name.len() + 4)?;
            filled.insert(name.clone(), self.value(node)?);
        }
        Ok(filled)
    }

    fn value(&mut self, node: &'a Node) -> Result<Value, Error> {
        Ok(match node {
            Node::Value(value) => {
                self.take(json_length(value))?;
                value.clone()
            }
            Node::Text(number) => self.text(&self.texts[*number])?,
            Node::List(nodes) => {
                self.take(2 + nodes.len())?;
                Value::Array(nodes.iter().map(|node| self.value(node)).collect::<Result<_, _>>()?)
            }
            Node::Members(members) => Value::Object(self.members(members)?),
        })
    }

    fn text(&mut self, text: &'a PromptTemplate) -> Result<Value, Error> {
        let value = if let [Part::Reference(_, reference)] = text.parts.as_slice() {
            match (self.inserter.value(reference), self.unknown) {
                (Err(Error::NoValue(_)), Unknown::Keep) => Value::from(text.source.as_str()),
                (found, Unknown::Keep | Unknown::Refuse) => found?,
            }
        } else {
            Value::String(text.fill(&mut self.inserter, self.unknown)?)
        };
        self.take(json_length(&value))?;
        Ok(value)
    }

    fn take(&mut self, bytes: usize) -> Result<(), Error> {
        self.left = self.left.checked_sub(bytes).ok_or(Error::ArgsTooLong)?;
        Ok(())
    }
}
