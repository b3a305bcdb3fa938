//! Answers that show what a request gave. [`request!`](crate::request) declares the members once; the reader, both
//! schemas and the answer come from there.
//!
//! ```text
//! request! ─▶ Answer::members ─▶ Writer ─▶ a member of the JSON, unless it was not given
//! ```

use std::borrow::Cow;

use callboard_domain::confidence::ask::Method;
use callboard_domain::labels::CallbackEvent;
use callboard_domain::plan::{ListSource, OnItemError};
use callboard_domain::task::{Channels, Content, FailureKind, OnConflict, Role, ServiceTier};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value};
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::{Object, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::read::rule::Parse;
use crate::read::{Components, Read, Shape};

/// A shape of a request that answers show.
pub trait Answer: Read {
    /// Writes the members that were given.
    ///
    /// # Errors
    /// Those of the serializer.
    fn members<M: SerializeMap>(&self, members: &mut Writer<'_, M>) -> Result<(), M::Error>;
}

/// A value of a member.
pub trait Shown {
    /// True if it was not given.
    fn is_absent(&self) -> bool {
        false
    }

    /// Writes the value.
    ///
    /// # Errors
    /// Those of the serializer.
    fn show<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error>;
}

/// The members of an answer. Each method takes a member as [`Fields`](crate::read::Fields) reads it.
#[derive(Debug)]
pub struct Writer<'m, M> {
    map: &'m mut M,
    without: &'static [&'static str],
}

macro_rules! written {
    ($($how:ident $put:ident),*) => {$(
        /// A member.
        ///
        /// # Errors
        /// Those of the serializer.
        pub fn $how<T>(
            &mut self,
            name: &'static str,
            _: impl Parse<T>,
            value: &impl Shown,
        ) -> Result<(), M::Error> {
            self.$put(name, value)
        }
    )*};
}

impl<M: SerializeMap> Writer<'_, M> {
    fn put(&mut self, name: &str, value: &impl Shown) -> Result<(), M::Error> {
        if self.without.contains(&name) {
            return Ok(());
        }
        self.map.serialize_entry(name, &AsShown(value))
    }

    fn put_given(&mut self, name: &str, value: &impl Shown) -> Result<(), M::Error> {
        if value.is_absent() { Ok(()) } else { self.put(name, value) }
    }

    written! {
        required put, required_or_default put, default_shown put, optional put_given, or_default put_given
    }

    /// A member that is left out where another takes its place.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn required_unless<T>(
        &mut self,
        name: &'static str,
        rule: impl Parse<T>,
        _: &[(&str, Option<&str>)],
        value: &impl Shown,
    ) -> Result<(), M::Error> {
        self.optional(name, rule, value)
    }

    /// The members of another shape.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn flat<T: Answer>(&mut self, _: Shape<T>, value: &T) -> Result<(), M::Error> {
        value.members(self)
    }
}

/// Writes a shape as an object, less some members.
///
/// # Errors
/// Those of the serializer.
pub fn show<S: Serializer>(
    shape: &impl Answer,
    to: S,
    without: &'static [&'static str],
) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(None)?;
    shape.members(&mut Writer { map: &mut map, without })?;
    map.end()
}

struct AsShown<'a, T>(&'a T);

impl<T: Shown> Serialize for AsShown<'_, T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.show(to)
    }
}

macro_rules! shown {
    ($($type:ty),* $(; $value:ident: $with_default:ty = $is_absent:expr)*) => {
        $(impl Shown for $type {
            fn show<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                self.serialize(to)
            }
        })*
        $(impl Shown for $with_default {
            fn is_absent(&self) -> bool {
                let $value = self;
                $is_absent
            }

            fn show<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                self.serialize(to)
            }
        })*
    };
}

shown! {
    &str, u8, u16, u32, u64, i64, f64, Value, ListSource, Content<String>,
    CallbackEvent, FailureKind, Method, OnConflict, OnItemError, Role, ServiceTier;
    text: String = text.is_empty();
    flag: bool = !flag;
    members: Map<String, Value> = members.is_empty()
}

impl<T: Shown> Shown for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }

    fn show<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Some(value) => value.show(to),
            None => to.serialize_none(),
        }
    }
}

impl<T: Shown> Shown for Vec<T> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    fn show<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter().map(AsShown))
    }
}

impl Shown for Channels {
    fn show<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.names())
    }
}

/// A shape of a request in an answer: the members that were given, none for `None`.
#[derive(Debug, Clone)]
pub struct Given<'a, T: Clone> {
    shape: Option<Cow<'a, T>>,
    without: &'static [&'static str],
}

impl<T: Clone> Default for Given<'_, T> {
    fn default() -> Self {
        Self { shape: None, without: &[] }
    }
}

impl<'a, T: Clone> Given<'a, T> {
    /// The shape, if there is one.
    #[must_use]
    pub fn of(shape: Option<&'a T>) -> Self {
        Self { shape: shape.map(Cow::Borrowed), ..Self::default() }
    }

    /// A shape that was made for the answer.
    #[must_use]
    pub fn made(shape: T) -> Self {
        Self { shape: Some(Cow::Owned(shape)), ..Self::default() }
    }

    /// The shape without some members.
    #[must_use]
    pub fn without(self, without: &'static [&'static str]) -> Self {
        Self { without, ..self }
    }
}

impl<'a, T: Clone> From<&'a T> for Given<'a, T> {
    fn from(shape: &'a T) -> Self {
        Self::of(Some(shape))
    }
}

impl<T: Answer + Clone> Serialize for Given<'_, T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.shape {
            Some(shape) => show(&**shape, to, self.without),
            None => to.serialize_map(Some(0))?.end(),
        }
    }
}

fn schemas<T: Read>() -> Components {
    let mut components = Components::of_answers();
    components.reference::<T>();
    components
}

/// The extension by which a schema of [`Given`] carries what the rules write, which utoipa's types do not hold.
pub const SCHEMA: &str = "x-schema";

fn schema(schema: Value) -> RefOr<Schema> {
    let extensions = Extensions::from_iter([(SCHEMA, schema)]);
    Object::builder().extensions(Some(extensions)).build().into()
}

impl<T: Answer + Clone> PartialSchema for Given<'_, T> {
    fn schema() -> RefOr<Schema> {
        schema(schemas::<T>().schemas[T::ANSWER].clone())
    }
}

impl<T: Answer + Clone> ToSchema for Given<'_, T> {
    fn name() -> Cow<'static, str> {
        T::ANSWER.into()
    }

    fn schemas(list: &mut Vec<(String, RefOr<Schema>)>) {
        let others = schemas::<T>().schemas.into_iter().filter(|(name, _)| name != T::ANSWER);
        list.extend(others.map(|(name, value)| (name, schema(value))));
    }
}

#[cfg(test)]
mod tests {
    use callboard_domain::plan::StepSource;
    use serde_json::{Value, json};

    use crate::definitions::{self, StepBody};
    use crate::read;

    #[test]
    fn a_step_is_answered_as_it_was_sent() {
        let sent = json!({
            "id": "sort", "prompt": "Sort {{item}}", "systemPrompt": "Be brief.", "dependsOn": [],
            "requiresApproval": false, "model": "small", "temperature": 0.5, "seed": -7, "stop": ["."],
            "messages": [{"role": "user", "content": [{"type": "image", "file": "{{input.scan}}"}]}],
            "forEach": {"item": "{{input.rows}}", "page": "{{input.pages}}"}, "maxItems": 10,
            "onItemError": "skip", "concurrencyKey": "k", "onConflict": "reject",
            "fallbackOn": ["timeout"], "models": ["small", "large"], "retry": {"maxAttempts": 2},
            "confidence": {"method": "samples", "n": 3}, "review": {"show": ["{{input.scan}}"]},
            "outputSchema": {"type": "object"},
        });
        let step: StepSource = read::value(sent.clone()).expect("a step");
        let answer = |body: StepBody<'_>| serde_json::to_value(body).expect("an answer");
        assert_eq!(answer(StepBody::from(&step)), sent);

        let listed = answer(definitions::summary(&step));
        for text in ["prompt", "systemPrompt", "messages", "outputSchema"] {
            assert_eq!(listed[text], Value::Null, "{text}");
        }
        assert_eq!(listed["model"], "small");
    }

    #[test]
    fn waits_and_calls_are_answered_with_what_makes_them_so() {
        for (sent, members) in [
            (
                json!({"id": "w", "type": "wait", "signal": "paid"}),
                json!({"type": "wait", "signal": "paid"}),
            ),
            (json!({"id": "f", "function": "sum"}), json!({"function": "sum", "args": {}})),
        ] {
            let step: StepSource = read::value(sent).expect("a step");
            let answer = serde_json::to_value(StepBody::from(&step)).expect("an answer");
            for (name, value) in members.as_object().expect("members") {
                assert_eq!(&answer[name], value, "{name}");
            }
            assert_eq!(answer["prompt"], Value::Null);
        }
    }
}
