//! A shape as JSON Schema, for the OpenAPI document.
//!
//! ```text
//! request! ─▶ Read::read      ─▶ your type
//!          ├▶ Read::describe  ─▶ Members ─▶ a schema of Components, or the parameters of a query
//!          └▶ Answer::members ─▶ the same members in an answer
//! ```

#![expect(
    clippy::needless_pass_by_value,
    reason = "a rule is written where it is used, as the argument of a call"
)]

use std::collections::BTreeMap;
use std::marker::PhantomData;

use serde_json::{Map, Value, json};

use super::Read;
use super::rule::Parse;

/// A shape as a value, for [`super::Fields::flat`].
#[derive(Debug)]
pub struct Shape<T>(PhantomData<T>);

/// The shape `T`.
#[must_use]
pub const fn shape<T: Read>() -> Shape<T> {
    Shape(PhantomData)
}

/// The schemas that others refer to, by name: those of requests, or of answers.
#[derive(Debug, Default)]
pub struct Components {
    /// The schemas.
    pub schemas: BTreeMap<String, Value>,
    of_answers: bool,
}

impl Components {
    /// No schemas of answers yet.
    pub(crate) fn of_answers() -> Self {
        Self { of_answers: true, ..Self::default() }
    }

    /// A reference to the schema of `T`, which is added.
    pub fn reference<T: Read>(&mut self) -> Value {
        let name = if self.of_answers { T::ANSWER } else { T::NAME };
        self.named(name, |components| {
            let mut members = Members { components, list: Vec::new() };
            T::describe(&mut members);
            let list = members.list;
            let required: Vec<_> =
                list.iter().filter(|member| member.required).map(|member| member.name).collect();
            let mut schema = json!({"type": "object"});
            if !components.of_answers {
                schema["additionalProperties"] = false.into();
            }
            if !required.is_empty() {
                schema["required"] = json!(required);
            }
            let properties: Map<_, _> = list
                .into_iter()
                .map(|member| {
                    let is_whole = member.required || components.of_answers;
                    let schema = if is_whole { member.schema } else { nullable(member.schema) };
                    (member.name.to_owned(), described(schema, member.text))
                })
                .collect();
            schema["properties"] = Value::Object(properties);
            schema
        })
    }

    /// True if the schemas are those of answers, where a value has one form.
    pub(crate) const fn is_of_answers(&self) -> bool {
        self.of_answers
    }

    /// A schema that has a name in answers and stands in its place in requests.
    pub(crate) fn named_in_answers(
        &mut self,
        name: &str,
        schema: impl FnOnce(&mut Self) -> Value,
    ) -> Value {
        if self.of_answers { self.named(name, schema) } else { schema(self) }
    }

    fn named(&mut self, name: &str, schema: impl FnOnce(&mut Self) -> Value) -> Value {
        if !self.schemas.contains_key(name) {
            self.schemas.insert(name.into(), Value::Null);
            let schema = schema(self);
            self.schemas.insert(name.into(), schema);
        }
        json!({"$ref": format!("#/components/schemas/{name}")})
    }

    /// The parameters of a query that is read as `T`.
    pub fn parameters<T: Read>(&mut self) -> Vec<Value> {
        let mut members = Members { components: self, list: Vec::new() };
        T::describe(&mut members);
        let parameter = |member: Member| {
            let is_list = member.schema["type"] == "array";
            let mut parameter = json!({
                "name": member.name,
                "in": "query",
                "required": member.required,
                "description": member.text.trim(),
                "schema": member.schema,
            });
            if is_list {
                parameter["style"] = "form".into();
                parameter["explode"] = false.into();
            }
            parameter
        };
        members.list.into_iter().map(parameter).collect()
    }
}

struct Member {
    name: &'static str,
    schema: Value,
    text: &'static str,
    required: bool,
}

/// The members of a shape, as [`super::Fields`] reads them.
pub struct Members<'a> {
    components: &'a mut Components,
    list: Vec<Member>,
}

impl Members<'_> {
    fn add<T>(
        &mut self,
        name: &'static str,
        rule: &impl Parse<T>,
        text: &'static str,
        required: bool,
    ) {
        assert!(self.list.iter().all(|member| member.name != name), "{name} is declared twice");
        let schema = rule.schema(self.components);
        self.list.push(Member { name, schema, text, required });
    }

    /// A member that must be given.
    pub fn required<T>(&mut self, name: &'static str, rule: impl Parse<T>, text: &'static str) {
        self.add(name, &rule, text, true);
    }

    /// A member that must be given.
    pub fn required_or_default<T>(
        &mut self,
        name: &'static str,
        rule: impl Parse<T>,
        text: &'static str,
    ) {
        self.required(name, rule, text);
    }

    /// A member that must be given unless another is.
    pub fn required_unless<T>(
        &mut self,
        name: &'static str,
        rule: impl Parse<T>,
        _others: &[(&str, Option<&str>)],
        text: &'static str,
    ) {
        self.optional(name, rule, text);
    }

    /// A member that may be left out.
    pub fn optional<T>(&mut self, name: &'static str, rule: impl Parse<T>, text: &'static str) {
        self.add(name, &rule, text, false);
    }

    /// A member that may be left out.
    pub fn or_default<T>(&mut self, name: &'static str, rule: impl Parse<T>, text: &'static str) {
        self.optional(name, rule, text);
    }

    /// A member that may be left out of a request, and is in every answer.
    pub fn default_shown<T>(
        &mut self,
        name: &'static str,
        rule: impl Parse<T>,
        text: &'static str,
    ) {
        let required = self.components.of_answers;
        self.add(name, &rule, text, required);
    }

    /// The members of another shape.
    pub fn flat<T: Read>(&mut self, _: Shape<T>, _: &'static str) {
        T::describe(self);
    }
}

/// A schema that also accepts null.
fn nullable(mut schema: Value) -> Value {
    if let Some(variants) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        variants.push(Value::Null);
    }
    match schema.get("type").and_then(Value::as_str) {
        Some(one) => {
            schema["type"] = json!([one, "null"]);
            schema
        }
        None if schema.get("$ref").is_some() => json!({"anyOf": [schema, {"type": "null"}]}),
        None => schema,
    }
}

fn described(mut schema: Value, text: &str) -> Value {
    schema["description"] = text.trim().into();
    schema
}

/// Declares a shape that callers send: one line for each member, from which the reader and the OpenAPI
/// schema come. `$how` is a method of [`Fields`](crate::read::Fields). `answered as` makes the same members those of
/// an [`Answer`](crate::answer::Answer), under a name of its own.
///
/// ```
/// use callboard_wire::request;
/// use callboard_wire::read::{self, rule};
///
/// request! {
///     /// A note.
///     #[derive(Debug)]
///     pub struct Note as "Note" {
///         /// What it says.
///         text: String = required("text", rule::text(rule::bytes(1..=1024))),
///         /// How good it is; by default unknown.
///         stars: Option<u8> = optional("stars", rule::whole(1..=5)),
///         /// For filtering.
///         tags: Vec<String> = or_default("tags", rule::list(0..=32, rule::text(rule::characters(1..=64)))),
///     }
/// }
///
/// let note: Note = read::body(br#"{"text":"hello","stars":5.0,"tags":null}"#)?;
/// assert_eq!((note.text.as_str(), note.stars, note.tags.len()), ("hello", Some(5), 0));
/// # Ok::<(), callboard_domain::Error>(())
/// ```
#[macro_export]
macro_rules! request {
    (
        $(#[$meta:meta])*
        $visibility:vis struct $name:ident as $schema:literal $(, answered as $answer:literal)? {
            $($(#[doc = $text:literal])+ $field:ident: $type:ty = $how:ident($($rule:tt)*),)*
        }
        $(check $check:expr)?
    ) => {
        $(#[$meta])*
        $visibility struct $name {
            $($(#[doc = $text])+ pub $field: $type,)*
        }

        $crate::request! {
            impl $name as $schema $(, answered as $answer)? {
                $($(#[doc = $text])+ $field = $how($($rule)*),)*
            }
            $(check $check)?
        }
    };
    (
        impl $name:ident as $schema:literal $(, answered as $answer:literal)? {
            $($(#[doc = $text:literal])+ $field:ident = $how:ident($($rule:tt)*),)*
        }
        $(check $check:expr)?
    ) => {
        impl $crate::read::Read for $name {
            const NAME: &'static str = $schema;
            $(const ANSWER: &'static str = $answer;)?

            fn read(
                fields: &mut $crate::read::Fields<'_>,
            ) -> Result<Self, $crate::read::Refused> {
                $(let $field = fields.$how($($rule)*);)*
                let shape = Self { $($field: $field?,)* };
                $(let shape = $check(shape, fields)?;)?
                Ok(shape)
            }

            fn describe(members: &mut $crate::read::Members<'_>) {
                $(members.$how($($rule)*, concat!($($text),+));)*
            }
        }

        $crate::answer! {
            $($answer)? $name { $($field = $how($($rule)*),)* }
        }
    };
}

/// The members of a request's shape in answers, if it has a name there.
#[doc(hidden)]
#[macro_export]
macro_rules! answer {
    ($name:ident { $($members:tt)* }) => {};
    ($answer:literal $name:ident { $($field:ident = $how:ident($($rule:tt)*),)* }) => {
        impl $crate::answer::Answer for $name {
            fn members<M: serde::ser::SerializeMap>(
                &self,
                members: &mut $crate::answer::Writer<'_, M>,
            ) -> Result<(), M::Error> {
                $(members.$how($($rule)*, &self.$field)?;)*
                Ok(())
            }
        }

        impl $crate::answer::Shown for $name {
            fn show<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                $crate::answer::show(self, to, &[])
            }
        }
    };
}
