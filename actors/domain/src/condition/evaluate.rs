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

use std::collections::HashMap;
use std::rc::Rc;

use serde_json::Value as Json;

use super::check::References;
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
    let mut outputs = HashMap::with_capacity(references.steps.len());
    for step in &references.steps {
        let output = scope.output(step);
        outputs.insert(step.as_str(), output);
        let output = match output {
            Output::Unknown => return Err(Error::Unfinished(step.clone())),
            Output::Skipped => continue,
            Output::Completed(output) => output,
        };
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
    let mut evaluator =
        Evaluator { program, scope, outputs, json: &json, fuel, scratches, made: 0, item: None };
    match evaluator.value(&program.root)? {
        Value::Bool(holds) => Ok(holds),
        _ => Err(Error::NotBoolean),
    }
}

struct Evaluator<'a, 'f, S> {
    program: &'a Program,
    scope: &'a S,
    outputs: HashMap<&'a str, Output<'a>>,
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
            Node::Int(number) => Ok(Value::Int(*number)),
            Node::UInt(number) => Ok(Value::UInt(*number)),
            Node::Double(number) => Ok(Value::Double(*number)),
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
            Node::HasMeta(meta) => Ok(Value::Bool(self.scope.meta(*meta).is_some())),
            Node::Item => self.item.clone().ok_or_else(|| failed("there is no item".to_owned())),
            Node::Member(of, name) => {
                let of = self.value(of)?;
                self.index(&of, &Value::Text(name))
            }
            Node::Has(of, name) => {
                let of = self.value(of)?;
                match of {
                    Value::Map(_) | Value::MadeMap(_) => {
                        let member = of.member(&Value::Text(name), self.fuel)?;
                        Ok(Value::Bool(member.is_some()))
                    }
                    _ => Err(wrong("has", &[&of])),
                }
            }
            Node::Index(pair) => {
                let (of, index) = self.both(pair)?;
                self.index(&of, &index)
            }
            Node::Not(operand) => match self.value(operand)? {
                Value::Bool(value) => Ok(Value::Bool(!value)),
                other => Err(wrong("!", &[&other])),
            },
            Node::Negate(operand) => match self.value(operand)? {
                Value::Int(number) => {
                    number.checked_neg().map(Value::Int).ok_or_else(|| overflow("-"))
                }
                Value::Double(number) => Ok(Value::Double(-number)),
                other => Err(wrong("-", &[&other])),
            },
            Node::And(pair) => self.decided(pair, false).map(Value::Bool),
            Node::Or(pair) => self.decided(pair, true).map(Value::Bool),
            Node::If(parts) => {
                let [condition, then, otherwise] = &**parts;
                match self.value(condition)? {
                    Value::Bool(true) => self.value(then),
                    Value::Bool(false) => self.value(otherwise),
                    other => Err(wrong("?", &[&other])),
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
        match self.outputs.get(step) {
            Some(Output::Completed(output)) => Some(output),
            Some(Output::Skipped | Output::Unknown) | None => None,
        }
    }

    fn both(&mut self, pair: &'a [Node; 2]) -> Result<(Value<'a>, Value<'a>), Error> {
        Ok((self.value(&pair[0])?, self.value(&pair[1])?))
    }

    /// `&&` and `||`: `decisive` on either side decides, also beside an error.
    fn decided(&mut self, pair: &'a [Node; 2], decisive: bool) -> Result<bool, Error> {
        let name = if decisive { "||" } else { "&&" };
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

    fn index(&mut self, of: &Value<'a>, index: &Value<'_>) -> Result<Value<'a>, Error> {
        match of {
            Value::Map(_) | Value::MadeMap(_) => {
                let found = of.member(index, self.fuel)?;
                found.ok_or_else(|| failed("a map has no such member".to_owned()))
            }
            Value::List(_) | Value::MadeList(_) => {
                let number = match index {
                    Value::Int(number) => usize::try_from(*number).ok(),
                    Value::UInt(number) => usize::try_from(*number).ok(),
                    Value::Double(number) => whole(*number).and_then(|n| usize::try_from(n).ok()),
                    other => return Err(wrong("[]", &[of, other])),
                };
                let found = number.and_then(|number| of.item(number));
                found.ok_or_else(|| failed("a list has no such item".to_owned()))
            }
            other => Err(wrong("[]", &[other, index])),
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
                let order = order.ok_or_else(|| wrong("a comparison", &[left, right]))?;
                Ok(Value::Bool(match operator {
                    O::Less => order.is_lt(),
                    O::LessEqual => order.is_le(),
                    O::Greater => order.is_gt(),
                    _ => order.is_ge(),
                }))
            }
            O::In => self.contains(right, left).map(Value::Bool),
            O::Add => self.sum(left, right),
            O::Subtract | O::Multiply | O::Divide | O::Remainder => {
                arithmetic(operator, left, right)
            }
        }
    }

    fn contains(&mut self, of: &Value<'a>, wanted: &Value<'a>) -> Result<bool, Error> {
        match of {
            Value::Map(_) | Value::MadeMap(_) if wanted.is_key() => {
                Ok(of.member(wanted, self.fuel)?.is_some())
            }
            Value::Map(_) | Value::MadeMap(_) if matches!(wanted, Value::Double(_)) => {
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
            other => Err(wrong("in", &[wanted, other])),
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
            (Value::Int(a), Value::Int(b)) => {
                a.checked_add(*b).map(Value::Int).ok_or_else(|| overflow("+"))
            }
            (Value::UInt(a), Value::UInt(b)) => {
                a.checked_add(*b).map(Value::UInt).ok_or_else(|| overflow("+"))
            }
            (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a + b)),
            (left, right) => Err(wrong("+", &[left, right])),
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
        let unknown = || {
            let values: Vec<_> = values.iter().collect();
            wrong(&format!("{function:?}").to_ascii_lowercase(), &values)
        };
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
        let number = |error: &dyn std::fmt::Display| failed(format!("no number: {error}"));
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
            (Function::Text, Value::Bool(value)) => Ok(made(value)),
            (Function::Text, Value::Int(value)) => Ok(made(value)),
            (Function::Text, Value::UInt(value)) => Ok(made(value)),
            (Function::Text, Value::Double(value)) => Ok(made(value)),
            (Function::Text, Value::Bytes(bytes)) => {
                let text = std::str::from_utf8(bytes).map(Value::Text);
                text.map_err(|_| failed("bytes that are not UTF-8".to_owned()))
            }
            (Function::Int, Value::Int(value)) => Ok(Value::Int(*value)),
            (Function::Int, Value::UInt(value)) => {
                i64::try_from(*value).map(Value::Int).map_err(|error| number(&error))
            }
            (Function::Int, Value::Double(value)) => {
                truncated(*value).map(Value::Int).ok_or_else(|| overflow("int"))
            }
            (Function::UInt, Value::UInt(value)) => Ok(Value::UInt(*value)),
            (Function::UInt, Value::Int(value)) => {
                u64::try_from(*value).map(Value::UInt).map_err(|error| number(&error))
            }
            (Function::UInt, Value::Double(value)) => {
                truncated_unsigned(*value).map(Value::UInt).ok_or_else(|| overflow("uint"))
            }
            (Function::Double, Value::Double(value)) => Ok(Value::Double(*value)),
            #[expect(clippy::cast_precision_loss, reason = "CEL converts an integer so")]
            (Function::Double, Value::Int(value)) => Ok(Value::Double(*value as f64)),
            #[expect(clippy::cast_precision_loss, reason = "CEL converts an integer so")]
            (Function::Double, Value::UInt(value)) => Ok(Value::Double(*value as f64)),
            (Function::Int, value) => {
                let text = value.text().ok_or_else(unknown)?;
                text.parse().map(Value::Int).map_err(|error| number(&error))
            }
            (Function::UInt, value) => {
                let text = value.text().ok_or_else(unknown)?;
                text.parse().map(Value::UInt).map_err(|error| number(&error))
            }
            (Function::Double, value) => {
                let text = value.text().ok_or_else(unknown)?;
                text.parse().map(Value::Double).map_err(|error| number(&error))
            }
            (
                Function::Text | Function::Contains | Function::StartsWith | Function::EndsWith,
                _,
            ) => Err(unknown()),
        }
    }

    fn matches(&mut self, text: &Value<'a>, number: usize) -> Result<bool, Error> {
        let text = text.text().ok_or_else(|| wrong("matches", &[text]))?;
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
        let items = range.items().ok_or_else(|| wrong("an iteration", &[&range]))?;
        let (mut error, mut found) = (None, 0_usize);
        for item in items {
            self.fuel.burn(2)?;
            self.item = Some(item);
            let holds = match self.value(body) {
                Ok(Value::Bool(holds)) => Ok(holds),
                Ok(other) => Err(wrong("the body of an iteration", &[&other])),
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

fn arithmetic<'a>(
    operator: Operator,
    left: &Value<'a>,
    right: &Value<'a>,
) -> Result<Value<'a>, Error> {
    use Operator as O;
    let made = match (operator, left, right) {
        (O::Subtract, Value::Int(a), Value::Int(b)) => a.checked_sub(*b).map(Value::Int),
        (O::Multiply, Value::Int(a), Value::Int(b)) => a.checked_mul(*b).map(Value::Int),
        (O::Divide, Value::Int(a), Value::Int(b)) => a.checked_div(*b).map(Value::Int),
        (O::Remainder, Value::Int(a), Value::Int(b)) => a.checked_rem(*b).map(Value::Int),
        (O::Subtract, Value::UInt(a), Value::UInt(b)) => a.checked_sub(*b).map(Value::UInt),
        (O::Multiply, Value::UInt(a), Value::UInt(b)) => a.checked_mul(*b).map(Value::UInt),
        (O::Divide, Value::UInt(a), Value::UInt(b)) => a.checked_div(*b).map(Value::UInt),
        (O::Remainder, Value::UInt(a), Value::UInt(b)) => a.checked_rem(*b).map(Value::UInt),
        (O::Subtract, Value::Double(a), Value::Double(b)) => Some(Value::Double(a - b)),
        (O::Multiply, Value::Double(a), Value::Double(b)) => Some(Value::Double(a * b)),
        (O::Divide, Value::Double(a), Value::Double(b)) => Some(Value::Double(a / b)),
        (_, left, right) => return Err(wrong("arithmetic", &[left, right])),
    };
    made.ok_or_else(|| failed("a division by zero, or a number out of range".to_owned()))
}

/// The integer that a double is exactly.
fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0).then(|| truncated(number)).flatten()
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
#[expect(clippy::cast_precision_loss, reason = "the bounds of CEL")]
fn truncated(number: f64) -> Option<i64> {
    (number > i64::MIN as f64 && number < i64::MAX as f64).then_some(number as i64)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
#[expect(clippy::cast_precision_loss, reason = "the bounds of CEL")]
fn truncated_unsigned(number: f64) -> Option<u64> {
    (number >= 0.0 && number < u64::MAX as f64).then_some(number as u64)
}

fn size<'a>(size: usize) -> Value<'a> {
    Value::Int(i64::try_from(size).unwrap_or(i64::MAX))
}

fn made<'a>(value: &impl ToString) -> Value<'a> {
    Value::MadeText(Rc::from(value.to_string()))
}

fn overflow(name: &str) -> Error {
    failed(format!("the result of {name} is out of range"))
}

/// Types only: a message never repeats a value.
fn wrong(name: &str, values: &[&Value<'_>]) -> Error {
    let types: Vec<_> = values.iter().map(|value| value.type_name()).collect();
    failed(format!("{name} cannot be applied to {}", types.join(" and ")))
}

fn failed(message: String) -> Error {
    Error::Failed(message)
}
