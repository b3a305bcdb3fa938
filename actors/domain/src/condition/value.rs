//! The values of an evaluation: borrowed from the input and the outputs, or made by the condition.
//!
//! Numbers of different types are compared by value, as in CEL; names of members in NFC. Deliberately absent: conversion of a
//! whole document. JSON is read where it lies.

use std::cmp::Ordering;
use std::rc::Rc;

use serde_json::{Map, Value as Json};

use super::number::Number;
use crate::fuel::{Fuel, OutOfFuel};
use crate::render::members::{member, normal};

#[derive(Debug, Clone)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(&'a str),
    MadeText(Rc<str>),
    Bytes(&'a [u8]),
    Type(&'static str),
    List(&'a [Json]),
    MadeList(Rc<[Value<'a>]>),
    Map(&'a Map<String, Json>),
    MadeMap(Rc<[[Value<'a>; 2]]>),
}

impl<'a> From<&'a Json> for Value<'a> {
    fn from(json: &'a Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => Self::Number(Number::of_json(number)),
            Json::String(text) => Self::Text(text),
            Json::Array(items) => Self::List(items),
            Json::Object(members) => Self::Map(members),
        }
    }
}

impl<'a> Value<'a> {
    /// The name of the value's type, as `type` returns it.
    pub(super) const fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Number(number) => number.type_name(),
            Self::Text(_) | Self::MadeText(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Type(_) => "type",
            Self::List(_) | Self::MadeList(_) => "list",
            Self::Map(_) | Self::MadeMap(_) => "map",
        }
    }

    /// The text of a string.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::MadeText(text) => Some(text),
            Self::Null
            | Self::Bool(_)
            | Self::Number(_)
            | Self::Bytes(_)
            | Self::Type(_)
            | Self::List(_)
            | Self::MadeList(_)
            | Self::Map(_)
            | Self::MadeMap(_) => None,
        }
    }

    /// The number of items of a list, or of members of a map.
    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Self::List(items) => Some(items.len()),
            Self::MadeList(items) => Some(items.len()),
            Self::Map(members) => Some(members.len()),
            Self::MadeMap(members) => Some(members.len()),
            Self::Null
            | Self::Bool(_)
            | Self::Number(_)
            | Self::Text(_)
            | Self::MadeText(_)
            | Self::Bytes(_)
            | Self::Type(_) => None,
        }
    }

    /// An item of a list by its number.
    pub(super) fn item(&self, index: usize) -> Option<Value<'a>> {
        match self {
            Self::List(items) => items.get(index).map(Value::from),
            Self::MadeList(items) => items.get(index).cloned(),
            Self::Null
            | Self::Bool(_)
            | Self::Number(_)
            | Self::Text(_)
            | Self::MadeText(_)
            | Self::Bytes(_)
            | Self::Type(_)
            | Self::Map(_)
            | Self::MadeMap(_) => None,
        }
    }

    /// The items of a list, or the keys of a map.
    pub(super) fn items(&self) -> Option<Box<dyn Iterator<Item = Value<'a>> + '_>> {
        match self {
            Self::List(items) => Some(Box::new(items.iter().map(Value::from))),
            Self::MadeList(items) => Some(Box::new(items.iter().cloned())),
            Self::Map(members) => Some(Box::new(members.keys().map(|name| Value::Text(name)))),
            Self::MadeMap(members) => Some(Box::new(members.iter().map(|[key, _]| key.clone()))),
            Self::Null
            | Self::Bool(_)
            | Self::Number(_)
            | Self::Text(_)
            | Self::MadeText(_)
            | Self::Bytes(_)
            | Self::Type(_) => None,
        }
    }

    /// The member of a map; `None` also if this is no map. A number is the name of a member of JSON.
    pub(super) fn member(
        &self,
        key: &Value<'_>,
        fuel: &mut Fuel,
    ) -> Result<Option<Value<'a>>, OutOfFuel> {
        match self {
            Self::Map(members) => {
                let number = if let Value::Number(key) = key { Some(key.text()) } else { None };
                let Some(name) = number.as_deref().or_else(|| key.text()) else { return Ok(None) };
                fuel.burn_for(name.len(), 16)?;
                if name.is_ascii() || members.contains_key(name) {
                    return Ok(members.get(name).map(Value::from));
                }
                let names = members.keys().map(|known| 1 + known.len() / 8).sum::<usize>();
                fuel.burn(names as u64)?;
                Ok(member(members, &normal(name)).map(Value::from))
            }
            Self::MadeMap(members) => {
                for [known, value] in members.iter() {
                    if known.equals(key, fuel)? {
                        return Ok(Some(value.clone()));
                    }
                }
                Ok(None)
            }
            Self::Null
            | Self::Bool(_)
            | Self::Number(_)
            | Self::Text(_)
            | Self::MadeText(_)
            | Self::Bytes(_)
            | Self::Type(_)
            | Self::List(_)
            | Self::MadeList(_) => Ok(None),
        }
    }

    /// True if the value can be a key of a map.
    pub(super) const fn is_key(&self) -> bool {
        match self {
            Self::Bool(_) | Self::Text(_) | Self::MadeText(_) => true,
            Self::Number(number) => number.is_integer(),
            Self::Null
            | Self::Bytes(_)
            | Self::Type(_)
            | Self::List(_)
            | Self::MadeList(_)
            | Self::Map(_)
            | Self::MadeMap(_) => false,
        }
    }

    const fn is_map(&self) -> bool {
        matches!(self, Self::Map(_) | Self::MadeMap(_))
    }

    /// True if the values are equal; values of different types are not, except numbers.
    pub(super) fn equals(&self, other: &Value<'_>, fuel: &mut Fuel) -> Result<bool, OutOfFuel> {
        fuel.burn(3)?;
        if let (Some(left), Some(right)) = (self.text(), other.text()) {
            fuel.burn((left.len().min(right.len()) / 32) as u64)?;
            return Ok(left == right);
        }
        match (self, other) {
            (Self::Null, Value::Null) => return Ok(true),
            (Self::Type(left), Value::Type(right)) => return Ok(left == right),
            (Self::Bytes(left), Value::Bytes(right)) => return Ok(left == right),
            _ => {}
        }
        if self.is_map() != other.is_map() || self.len() != other.len() {
            return Ok(false);
        }
        let Some(mut keys) = self.items() else {
            return Ok(self.compare(other, fuel)? == Some(Ordering::Equal));
        };
        if self.is_map() {
            for key in keys {
                fuel.burn(1)?;
                let (Some(ours), Some(theirs)) =
                    (self.member(&key, fuel)?, other.member(&key, fuel)?)
                else {
                    return Ok(false);
                };
                if !ours.equals(&theirs, fuel)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let theirs = other.items().into_iter().flatten();
        for theirs in theirs {
            if !keys.next().map_or(Ok(false), |ours| ours.equals(&theirs, fuel))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The order of two numbers, strings or booleans; `None` for other values.
    pub(super) fn compare(
        &self,
        other: &Value<'_>,
        fuel: &mut Fuel,
    ) -> Result<Option<Ordering>, OutOfFuel> {
        if let (Some(left), Some(right)) = (self.text(), other.text()) {
            fuel.burn_for(left.len().min(right.len()), 32)?;
            return Ok(Some(left.cmp(right)));
        }
        Ok(match (self, other) {
            (Self::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
            (Self::Bytes(left), Value::Bytes(right)) => Some(left.cmp(right)),
            (Self::Number(left), Value::Number(right)) => left.compare(*right),
            _ => None,
        })
    }

    /// The value in a message: its kind, never what it is.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::Text(_) | Self::MadeText(_) => "a string",
            Self::Bytes(_) => "bytes",
            Self::Type(_) => "a type",
            Self::List(_) | Self::MadeList(_) => "a list",
            Self::Map(_) | Self::MadeMap(_) => "an object",
        }
    }
}
