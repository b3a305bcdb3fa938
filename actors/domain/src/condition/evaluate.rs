//! The evaluation of a condition on the values of an execution.
//!
//! Every node burns fuel, and more by the data that it reads, so an evaluation ends after a known
//! work for any condition and data. The values that a condition makes (joined strings and lists)
//! is bounded too. An error beside `&&` and `||` counts only if the other side does not decide, as
//! in CEL; the end of the fuel always counts.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "values of all other types are one and the same error"
)]

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use serde_json::Value as Json;

use super::absent::{self, Found};
use super::check::References;
use super::number::{Exact, Fault, Number};
use super::program::{Function, Node, Operator, Program, Quantifier};
use super::value::Value;
use crate::fuel::{Fuel, OutOfFuel};
use crate::pattern::Scratch;
use crate::render::{MAX_JSON, Output, Scope};
use crate::schema::parsed_output;

/// The most that one evaluation may make, in bytes.
const MAX_MADE: usize = 4 * 1024 * 1024;

/// A failed evaluation (`CONDITION_FAILED`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The evaluation fails on these values.
    #[error("the condition cannot be evaluated: {0}")]
    Failed(String),
    /// The result is not a boolean.
    #[error("the condition must evaluate to true or false")]
    NotBoolean,
    /// The evaluation needs more fuel than there is.
    #[error("the condition takes too many steps on these values")]
    OutOfFuel,
    /// The condition refers to a step that has not completed.
    #[error("the condition refers to step {0}, which did not complete")]
    Unfinished(String),
}

impl From<OutOfFuel> for Error {
    fn from(_: OutOfFuel) -> Self {
        Self::OutOfFuel
    }
}

/// Evaluates a program.
pub(super) fn evaluate(
    program: &Program,
    references: &References,
    scope: &impl Scope,
    fuel: &mut Fuel,
) -> Result<bool, Error> {
    let mut json = HashMap::with_capacity(program.json.len());
    let mut texts = HashMap::with_capacity(references.steps.len());
    for step in &references.steps {
        let found = scope.output(step);
        let output = match found {
            Output::Unknown => return Err(Error::Unfinished(step.clone())),
            Output::Skipped => continue,
            Output::Completed(output) | Output::Json(output) => output,
        };
        if let Output::Json(_) = found {
            fuel.burn_for(output.len(), 1)?;
        }
        texts.extend(found.text().map(|text| (step.as_str(), text)));
        if program.json.contains(step) {
            fuel.burn_for(output.len(), 1)?;
            if output.len() > MAX_JSON {
                let message = format!("the output of step {step} has more than {MAX_JSON} bytes");
                return Err(Error::Failed(message));
            }
            json.insert(step.as_str(), parsed_output(output).unwrap_or(Json::Null));
        }
    }
    let scratches = program.patterns.iter().map(|_| None).collect();
    let mut evaluator = Evaluator {
        program,
        scope,
        texts: &texts,
        json: &json,
        fuel,
        scratches,
        made: 0,
        item: None,
    };
    match evaluator.value(&program.root)? {
        Value::Bool(holds) => Ok(holds),
        _ => Err(Error::NotBoolean),
    }
}

struct Evaluator<'a, 'f, S> {
    program: &'a Program,
    scope: &'a S,
    /// The texts of the outputs; none for a skipped step.
    texts: &'a HashMap<&'a str, Cow<'a, str>>,
    json: &'a HashMap<&'a str, Json>,
    fuel: &'f mut Fuel,
    /// The scratch memory of each pattern, once it was matched.
    scratches: Vec<Option<Scratch>>,
    made: usize,
    item: Option<Value<'a>>,
}

impl<'a, S: Scope> Evaluator<'a, '_, S> {
    fn value(&mut self, node: &'a Node) -> Result<Value<'a>, Error> {
        self.fuel.burn(2)?;
        match node {
            Node::Null => Ok(Value::Null),
            Node::Bool(value) => Ok(Value::Bool(*value)),
            Node::Number(number) => Ok(Value::Number(*number)),
            Node::Text(text) => Ok(Value::Text(text)),
            Node::Bytes(bytes) => Ok(Value::Bytes(bytes)),
            Node::Type(name) => Ok(Value::Type(name)),
            Node::Input => Ok(Value::Map(self.scope.input())),
            Node::Output(step) => Ok(Value::Text(self.output(step).unwrap_or(""))),
            Node::Status(step) => {
                let completed = self.output(step).is_some();
                Ok(Value::Text(if completed { "completed" } else { "skipped" }))
            }
            Node::Json(step) => Ok(self.json.get(step.as_str()).map_or(Value::Null, Value::from)),
            Node::Meta(meta) => {
                let value = self.scope.meta(*meta).map(Value::Text);
                value.ok_or_else(|| failed(format!("meta.{} has no value", meta.as_str())))
            }
            Node::Item(_) => self.item.clone().ok_or_else(|| failed("there is no item".to_owned())),
            Node::Member(..) | Node::Index(_) => match self.found(node)? {
                Found::Value(value) => Ok(value),
                Found::Absent { at, of } => {
                    self.fuel.burn(20)?;
                    Err(failed(absent::message(at, &of, |step| self.output(step).is_none())))
                }
            },
            Node::Has(what) => self.has(what).map(Value::Bool),
            Node::Not(operand) => match self.value(operand)? {
                Value::Bool(value) => Ok(Value::Bool(!value)),
                other => Err(wrong("! takes true or false", &[&other])),
            },
            Node::Negate(operand) => match self.value(operand)? {
                Value::Number(number) => number.negated().map(Value::Number).map_err(no_result),
                other => Err(wrong("- takes numbers", &[&other])),
            },
            Node::And(pair) => self.decided(pair, false).map(Value::Bool),
            Node::Or(pair) => self.decided(pair, true).map(Value::Bool),
            Node::If(parts) => {
                let [condition, then, otherwise] = &**parts;
                match self.value(condition)? {
                    Value::Bool(true) => self.value(then),
                    Value::Bool(false) => self.value(otherwise),
                    other => Err(wrong("? takes true or false before it", &[&other])),
                }
            }
            Node::Binary(operator, pair) => {
                let (left, right) = self.both(pair)?;
                self.binary(*operator, &left, &right)
            }
            Node::Call(function, nodes) => {
                let values: Vec<_> =
                    nodes.iter().map(|node| self.value(node)).collect::<Result<_, _>>()?;
                self.call(*function, &values)
            }
            Node::Matches(text, number) => {
                let text = self.value(text)?;
                self.matches(&text, *number).map(Value::Bool)
            }
            Node::List(nodes) => {
                let items: Vec<_> =
                    nodes.iter().map(|node| self.value(node)).collect::<Result<_, _>>()?;
                self.made_list(items)
            }
            Node::Map(entries) => self.map(entries),
            Node::Iterate(quantifier, pair) => self.iterate(*quantifier, pair),
        }
    }

    fn output(&self, step: &str) -> Option<&'a str> {
        self.texts.get(step).map(|text| &**text)
    }

    fn both(&mut self, pair: &'a [Node; 2]) -> Result<(Value<'a>, Value<'a>), Error> {
        Ok((self.value(&pair[0])?, self.value(&pair[1])?))
    }

    /// `&&` and `||`: `decisive` on either side decides, also beside an error.
    fn decided(&mut self, pair: &'a [Node; 2], decisive: bool) -> Result<bool, Error> {
        let name = if decisive { "|| takes true or false" } else { "&& takes true or false" };
        let left = match self.value(&pair[0]) {
            Ok(Value::Bool(value)) if value == decisive => return Ok(decisive),
            Ok(Value::Bool(_)) => Ok(()),
            Ok(other) => Err(wrong(name, &[&other])),
            Err(Error::OutOfFuel) => return Err(Error::OutOfFuel),
            Err(error) => Err(error),
        };
        match self.value(&pair[1])? {
            Value::Bool(value) if value == decisive => Ok(decisive),
            Value::Bool(_) => left.map(|()| !decisive),
            other => Err(left.err().unwrap_or_else(|| wrong(name, &[&other]))),
        }
    }

    /// The value of a path, or the place at which it ends.
    fn found(&mut self, node: &'a Node) -> Result<Found<'a>, Error> {
        let (of, key) = match node {
            Node::Member(of, name) => (&**of, Err(name)),
            Node::Index(pair) => (&pair[0], Ok(&pair[1])),
            other => return self.value(other).map(Found::Value),
        };
        self.fuel.burn(2)?;
        let of = match self.found(of)? {
            Found::Value(of) => of,
            absent @ Found::Absent { .. } => return Ok(absent),
        };
        let key = match key {
            Ok(index) => self.value(index)?,
            Err(name) => Value::Text(name),
        };
        let part = match (&of, &key) {
            (Value::Map(_) | Value::MadeMap(_), _) => of.member(&key, self.fuel)?,
            (_, Value::Number(number)) => number.place().and_then(|place| of.item(place)),
            _ => None,
        };
        Ok(part.map_or(Found::Absent { at: node, of }, Found::Value))
    }

    fn has(&mut self, what: &'a Node) -> Result<bool, Error> {
        match what {
            Node::Output(step) => Ok(self.output(step).is_some()),
            Node::Json(step) => {
                Ok(self.json.get(step.as_str()).is_some_and(|json| !json.is_null()))
            }
            Node::Meta(meta) => Ok(self.scope.meta(*meta).is_some()),
            other => Ok(matches!(self.found(other)?, Found::Value(_))),
        }
    }

    fn binary(
        &mut self,
        operator: Operator,
        left: &Value<'a>,
        right: &Value<'a>,
    ) -> Result<Value<'a>, Error> {
        use Operator as O;
        match operator {
            O::Equal => Ok(Value::Bool(left.equals(right, self.fuel)?)),
            O::Unequal => Ok(Value::Bool(!left.equals(right, self.fuel)?)),
            O::Less | O::LessEqual | O::Greater | O::GreaterEqual => {
                let order = left.compare(right, self.fuel)?;
                let order = order.ok_or_else(|| {
                    wrong("a comparison takes two numbers or two strings", &[left, right])
                })?;
                Ok(Value::Bool(match operator {
                    O::Less => order.is_lt(),
                    O::LessEqual => order.is_le(),
                    O::Greater => order.is_gt(),
                    _ => order.is_ge(),
                }))
            }
            O::In => self.contains(right, left).map(Value::Bool),
            O::Add => self.sum(left, right),
            O::Subtract | O::Multiply | O::Divide | O::Remainder => match (left, right) {
                (Value::Number(left), Value::Number(right)) => {
                    left.compute(operator, *right).map(Value::Number).map_err(no_result)
                }
                (left, right) => Err(wrong("arithmetic takes numbers", &[left, right])),
            },
        }
    }

    fn contains(&mut self, of: &Value<'a>, wanted: &Value<'a>) -> Result<bool, Error> {
        match of {
            Value::Map(_) | Value::MadeMap(_) if wanted.is_key() => {
                Ok(of.member(wanted, self.fuel)?.is_some())
            }
            Value::Map(_) | Value::MadeMap(_) if matches!(wanted, Value::Number(_)) => {
                Ok(of.member(wanted, self.fuel)?.is_some())
            }
            Value::List(_) | Value::MadeList(_) => {
                for item in of.items().into_iter().flatten() {
                    if item.equals(wanted, self.fuel)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            other => Err(wrong("in takes a list or an object after it", &[wanted, other])),
        }
    }

    fn sum(&mut self, left: &Value<'a>, right: &Value<'a>) -> Result<Value<'a>, Error> {
        if let (Some(left), Some(right)) = (left.text(), right.text()) {
            self.makes(left.len() + right.len())?;
            let mut text = String::with_capacity(left.len() + right.len());
            text.push_str(left);
            text.push_str(right);
            return Ok(Value::MadeText(text.into()));
        }
        match (left, right) {
            (Value::List(_) | Value::MadeList(_), Value::List(_) | Value::MadeList(_)) => {
                let items = left.len().unwrap_or(0) + right.len().unwrap_or(0);
                self.makes(items * size_of::<Value<'_>>())?;
                let all = left.items().into_iter().chain(right.items()).flatten();
                Ok(Value::MadeList(all.collect()))
            }
            (Value::Number(a), Value::Number(b)) => {
                a.compute(Operator::Add, *b).map(Value::Number).map_err(no_result)
            }
            (left, right) => {
                Err(wrong("+ takes two numbers, two strings or two lists", &[left, right]))
            }
        }
    }

    /// Counts a value that is about to be made.
    fn makes(&mut self, bytes: usize) -> Result<(), Error> {
        self.made = self.made.saturating_add(bytes);
        if self.made > MAX_MADE {
            return Err(Error::OutOfFuel);
        }
        Ok(self.fuel.burn_for(bytes, 32)?)
    }

    fn made_list(&mut self, items: Vec<Value<'a>>) -> Result<Value<'a>, Error> {
        self.makes(items.len() * size_of::<Value<'_>>())?;
        Ok(Value::MadeList(items.into()))
    }

    fn map(&mut self, entries: &'a [[Node; 2]]) -> Result<Value<'a>, Error> {
        self.makes(entries.len() * size_of::<[Value<'_>; 2]>())?;
        let mut made: Vec<[Value<'a>; 2]> = Vec::with_capacity(entries.len());
        for [key, value] in entries {
            let key = self.value(key)?;
            if !key.is_key() {
                return Err(failed(format!("a {} cannot be the key of a map", key.type_name())));
            }
            for [known, _] in &made {
                if known.equals(&key, self.fuel)? {
                    return Err(failed("a map has the same key twice".to_owned()));
                }
            }
            made.push([key, self.value(value)?]);
        }
        Ok(Value::MadeMap(made.into()))
    }

    fn call(&mut self, function: Function, values: &[Value<'a>]) -> Result<Value<'a>, Error> {
        let unknown = || wrong(takes(function), &values.iter().collect::<Vec<_>>());
        let [first, rest @ ..] = values else { return Err(unknown()) };
        if let ([second], Some(text)) = (rest, first.text()) {
            let part = second.text().ok_or_else(unknown)?;
            self.fuel.burn_for(part.len(), 32)?;
            return Ok(Value::Bool(match function {
                Function::StartsWith => text.starts_with(part),
                Function::EndsWith => text.ends_with(part),
                Function::Contains => {
                    self.fuel.burn_for(text.len().saturating_add(part.len()), 8)?;
                    text.contains(part)
                }
                _ => return Err(unknown()),
            }));
        }
        if !rest.is_empty() {
            return Err(unknown());
        }
        self.fuel.burn(4)?;
        self.fuel.burn_for(first.text().map_or(0, str::len), 8)?;
        match (function, first) {
            (Function::Type, value) => Ok(Value::Type(value.type_name())),
            (Function::Size, Value::Bytes(bytes)) => Ok(size(bytes.len())),
            (Function::Size, value) => {
                let characters = value.text().map(|text| text.chars().count());
                characters.or_else(|| value.len()).map(size).ok_or_else(unknown)
            }
            (Function::Text, Value::Text(_) | Value::MadeText(_)) => Ok(first.clone()),
            (Function::Text, Value::Bool(value)) => Ok(made(value.to_string())),
            (Function::Text, Value::Number(number)) => Ok(made(number.text())),
            (Function::Text, Value::Bytes(bytes)) => {
                let text = std::str::from_utf8(bytes).map(Value::Text);
                text.map_err(|_| failed("string takes bytes that are UTF-8".to_owned()))
            }
            (Function::Int | Function::UInt | Function::Double, value) => {
                converted(function, value).ok_or_else(unknown)?.map_err(no_result)
            }
            (
                Function::Text | Function::Contains | Function::StartsWith | Function::EndsWith,
                _,
            ) => Err(unknown()),
        }
    }

    fn matches(&mut self, text: &Value<'a>, number: usize) -> Result<bool, Error> {
        let text = text.text().ok_or_else(|| wrong("matches takes a string", &[text]))?;
        let pattern = &self.program.patterns[number];
        let scratch = &mut self.scratches[number];
        if scratch.is_none() {
            *scratch = Some(pattern.scratch(self.fuel)?);
        }
        let scratch = scratch.as_mut().ok_or(OutOfFuel)?;
        Ok(pattern.is_match(text, scratch, self.fuel)?)
    }

    /// An error counts unless another item decides.
    fn iterate(&mut self, quantifier: Quantifier, pair: &'a [Node; 2]) -> Result<Value<'a>, Error> {
        let [range, body] = pair;
        let range = self.value(range)?;
        let items = range.items().ok_or_else(|| {
            wrong("all, exists and exists_one take a list or an object", &[&range])
        })?;
        let (mut error, mut found) = (None, 0_usize);
        for item in items {
            self.fuel.burn(2)?;
            self.item = Some(item);
            let holds = match self.value(body) {
                Ok(Value::Bool(holds)) => Ok(holds),
                Ok(other) => {
                    Err(wrong("an iteration takes true or false for each item", &[&other]))
                }
                Err(Error::OutOfFuel) => return Err(Error::OutOfFuel),
                Err(failed) => Err(failed),
            };
            match (quantifier, holds) {
                (Quantifier::All, Ok(false)) => return Ok(Value::Bool(false)),
                (Quantifier::Exists, Ok(true)) => return Ok(Value::Bool(true)),
                (Quantifier::ExistsOne, Ok(holds)) => found += usize::from(holds),
                (Quantifier::ExistsOne, Err(failed)) => return Err(failed),
                (Quantifier::All | Quantifier::Exists, Ok(_)) => {}
                (Quantifier::All | Quantifier::Exists, Err(failed)) => error = Some(failed),
            }
        }
        match (error, quantifier) {
            (Some(error), _) => Err(error),
            (None, Quantifier::All) => Ok(Value::Bool(true)),
            (None, Quantifier::Exists) => Ok(Value::Bool(false)),
            (None, Quantifier::ExistsOne) => Ok(Value::Bool(found == 1)),
        }
    }
}

/// The number that a value stands for; `None` if it is neither a number nor the text of one.
fn converted<'a>(function: Function, value: &Value<'a>) -> Option<Result<Value<'a>, Fault>> {
    let number = match (function, value) {
        (Function::Int, Value::Number(number)) => number.int(),
        (Function::UInt, Value::Number(number)) => number.uint(),
        (_, Value::Number(number)) => Some(number.as_double()),
        (function, value) => {
            let text = value.text()?;
            Some(Number::typed(match function {
                Function::Int => Exact::Int(text.parse().ok()?),
                Function::UInt => Exact::UInt(text.parse().ok()?),
                _ => Exact::Double(text.parse().ok()?),
            }))
        }
    };
    Some(number.map(Value::Number).ok_or(Fault::Range))
}

fn size<'a>(size: usize) -> Value<'a> {
    Value::Number(Number::size(size))
}

fn made<'a>(text: String) -> Value<'a> {
    Value::MadeText(Rc::from(text))
}

/// What a function takes, which begins a message.
const fn takes(function: Function) -> &'static str {
    match function {
        Function::Size => "size takes a string, a list or an object",
        Function::Contains => "contains takes two strings",
        Function::StartsWith => "startsWith takes two strings",
        Function::EndsWith => "endsWith takes two strings",
        Function::Int => "int takes a number, or a string such as \"7\"",
        Function::UInt => "uint takes a number, or a string such as \"7\"",
        Function::Double => "double takes a number, or a string such as \"0.5\"",
        Function::Text => "string takes a string, a number or a boolean",
        Function::Type => "type takes one value",
    }
}

fn no_result(fault: Fault) -> Error {
    failed(format!("a result {fault}"))
}

/// Kinds only: a message never repeats a value.
fn wrong(takes: &str, values: &[&Value<'_>]) -> Error {
    let kinds: Vec<_> = values.iter().map(|value| value.kind()).collect();
    failed(format!("{takes}, not {}", kinds.join(" and ")))
}

fn failed(message: String) -> Error {
    Error::Failed(message)
}
