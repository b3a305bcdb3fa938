//! The instance of a validation as the library sees it: every look at it burns fuel.
//!
//! The library has no budget of its own, but it validates any representation of JSON. Each access to
//! a value of this one burns fuel by the bytes that it reads, and notes the depth of the recursion.
//! At the end of either the validation unwinds. Deliberately absent: a copy of the instance.

use std::any::Any;
use std::borrow::Cow;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use jsonschema::json::{Array, Json, Node, NodeIdentity, Object, unique};
use jsonschema::types::JsonType;
use serde_json::{Map, Number, Value};

use crate::fuel::{Fuel, OutOfFuel};

/// The stack that one validation may take, in bytes.
const STACK: usize = 1024 * 1024;

thread_local! {
    static METER: Cell<Meter> = const { Cell::new(Meter { left: 0, per_name: 0, base: 0 }) };
}

/// The budget of the validation on this thread.
#[derive(Clone, Copy)]
struct Meter {
    left: u64,
    /// The units for each byte of a member's name, which `patternProperties` may match.
    per_name: u64,
    /// The address of the stack where the validation began.
    base: usize,
}

/// The unwinding of a validation that ran out of fuel.
struct Exhausted;

/// Runs a validation on fuel.
pub(super) fn with_fuel<T>(
    fuel: &mut Fuel,
    per_name: u64,
    validate: impl FnOnce() -> T,
) -> Result<T, OutOfFuel> {
    let here = 0_u8;
    let base = std::ptr::from_ref(&here).addr();
    METER.set(Meter { left: fuel.left(), per_name, base });
    let result = catch_unwind(AssertUnwindSafe(validate));
    let spent = fuel.left() - METER.get().left;
    METER.set(Meter { left: 0, per_name: 0, base: 0 });
    match result {
        Ok(result) => fuel.burn(spent).map(|()| result),
        Err(payload) if payload.is::<Exhausted>() => {
            let _ = fuel.burn(fuel.left());
            Err(OutOfFuel)
        }
        Err(payload) => resume_unwind(payload),
    }
}

/// Burns fuel of the validation on this thread; unwinds at its end.
pub(super) fn burn(units: u64) {
    let mut meter = METER.get();
    let here = 0_u8;
    let depth = meter.base.abs_diff(std::ptr::from_ref(&here).addr());
    if meter.left < units || depth > STACK {
        resume_unwind(Box::new(Exhausted) as Box<dyn Any + Send>);
    }
    meter.left -= units;
    METER.set(meter);
}

/// Does work that burns the fuel of the validation on this thread; unwinds at its end.
pub(super) fn burning<T>(work: impl FnOnce(&mut Fuel) -> Result<T, OutOfFuel>) -> T {
    let mut fuel = Fuel::new(METER.get().left);
    let result = work(&mut fuel);
    burn(METER.get().left - fuel.left());
    result.unwrap_or_else(|OutOfFuel| resume_unwind(Box::new(Exhausted) as Box<dyn Any + Send>))
}

/// The representation.
pub(super) struct Metered;

#[derive(Clone, Copy)]
pub(super) struct Instance<'a>(pub(super) &'a Value);

/// The members of an object.
pub(super) struct Members<'a>(&'a Map<String, Value>);

/// The items of an array.
pub(super) struct Items<'a>(&'a [Value]);

impl Json for Metered {
    type Node<'a> = Instance<'a>;
    type PreparedKey = String;
    type StringBuffer = Value;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>(
        buffer: &mut Value,
        string: &str,
        f: impl FnOnce(Instance<'_>) -> T,
    ) -> T {
        *buffer = Value::String(string.to_owned());
        f(Instance(buffer))
    }
}

impl<'a> Node<'a, Metered> for Instance<'a> {
    type Object = Members<'a>;
    type Array = Items<'a>;
    type Number = &'a Number;

    fn as_object(&self) -> Option<Members<'a>> {
        burn(2);
        self.0.as_object().map(Members)
    }

    fn as_array(&self) -> Option<Items<'a>> {
        burn(2);
        self.0.as_array().map(|items| Items(items))
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        let text = self.0.as_str();
        burn(4 + text.map_or(0, |text| text.len() as u64 / 4));
        text.map(Cow::Borrowed)
    }

    fn as_number(&self) -> Option<&'a Number> {
        burn(4);
        match self.0 {
            Value::Number(number) => Some(number),
            Value::Null
            | Value::Bool(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => None,
        }
    }

    fn as_boolean(&self) -> Option<bool> {
        burn(2);
        self.0.as_bool()
    }

    fn is_null(&self) -> bool {
        burn(2);
        self.0.is_null()
    }

    fn json_type(&self) -> JsonType {
        burn(2);
        match self.0 {
            Value::Null => JsonType::Null,
            Value::Bool(_) => JsonType::Boolean,
            Value::Number(_) => JsonType::Number,
            Value::String(_) => JsonType::String,
            Value::Array(_) => JsonType::Array,
            Value::Object(_) => JsonType::Object,
        }
    }

    /// Called for each value of `enum` and `const`. A comparison ends with the smaller value.
    fn equals_value(&self, expected: &Value) -> bool {
        burn(4 + extent(expected));
        jsonschema::json::cmp::equal(self.0, expected)
    }

    /// Called where a fault is reported: it costs about a microsecond.
    fn to_value(&self) -> Cow<'a, Value> {
        burn(500);
        Cow::Borrowed(self.0)
    }

    fn identity(&self) -> Option<NodeIdentity> {
        burn(2);
        Some(NodeIdentity::new(std::ptr::from_ref(self.0).addr()))
    }
}

impl<'a> Object<'a, Metered> for Members<'a> {
    type Node = Instance<'a>;
    type MemberName = &'a str;
    type MembersIter = MembersIter<'a>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, key: &String) -> Option<Instance<'a>> {
        burn(4 + key.len() as u64 / 8);
        self.0.get(key).map(Instance)
    }

    fn members(&self) -> MembersIter<'a> {
        MembersIter(self.0.iter())
    }
}

/// The iteration over members.
pub(super) struct MembersIter<'a>(serde_json::map::Iter<'a>);

impl<'a> Iterator for MembersIter<'a> {
    type Item = (&'a str, Instance<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, value) = self.0.next()?;
        burn(4 + name.len() as u64 * METER.get().per_name);
        Some((name, Instance(value)))
    }
}

impl<'a> Array<'a, Metered> for Items<'a> {
    type Node = Instance<'a>;
    type ElementsIter = ItemsIter<'a>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn elements(&self) -> ItemsIter<'a> {
        ItemsIter(self.0.iter())
    }

    fn is_unique(&self) -> bool {
        self.0.iter().for_each(|item| burn(10 * extent(item)));
        unique::is_unique(self.0)
    }
}

/// The iteration over items.
pub(super) struct ItemsIter<'a>(std::slice::Iter<'a, Value>);

impl<'a> Iterator for ItemsIter<'a> {
    type Item = Instance<'a>;

    fn next(&mut self) -> Option<Instance<'a>> {
        burn(2);
        self.0.next().map(Instance)
    }
}

/// The work to walk over a value.
fn extent(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => 1 + text.len() as u64 / 32,
        Value::Array(items) => 1 + items.iter().map(extent).sum::<u64>(),
        Value::Object(members) => {
            1 + members
                .iter()
                .map(|(name, value)| 2 + name.len() as u64 / 32 + extent(value))
                .sum::<u64>()
        }
    }
}
