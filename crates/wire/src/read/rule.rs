//! The rules by which members are read, and their JSON Schema.
//!
//! A fault names its rule (docs/reference/errors.md) and states the right form. Deliberately absent: the
//! rules `placeholder`, `step` and `ref`, which need more than one member.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "JSON will have no further kinds, and a rule wants one or two of them"
)]

mod format;
mod name;

use std::fmt::Display;
use std::io;
use std::marker::PhantomData;
use std::ops::RangeInclusive;

use callboard_domain::{Error, Rule};
use serde_json::{Map, Value, json};

pub use self::format::{MAX_URL, email, instant, url};
pub use self::name::name;
use super::fields::Mode;
use super::{Components, Field, Fields, Path, Read, Refused};

/// The reading of one value, and its schema.
pub trait Parse<T>: Sized {
    /// Reads the value of a field.
    ///
    /// # Errors
    ///
    /// A fault is recorded, and there is no value.
    fn parse(&self, field: Field<'_>) -> Result<T, Refused>;

    /// The JSON Schema of the value.
    fn schema(&self, components: &mut Components) -> Value;

    /// This rule, with its value made into another type.
    fn map<U>(self, to: impl Fn(T) -> U) -> impl Parse<U> {
        self.then(move |value| Ok(to(value)))
    }

    /// This rule, with its value made into another type by the domain, which may refuse it.
    fn then<U>(self, to: impl Fn(T) -> Result<U, Error>) -> impl Parse<U> {
        Then(self, to, PhantomData)
    }

    /// This rule, for values for which `is_right` is true; `says` completes the fault: `must be a
    /// plan's id`.
    fn only(self, is_right: impl Fn(&T) -> bool, rule: Rule, says: &'static str) -> impl Parse<T> {
        Only(self, is_right, rule, says)
    }

    /// This rule, with more keywords in its schema, such as limits that the domain checks. The
    /// keywords are made for the schema only.
    fn with(self, keywords: impl Fn() -> Value) -> impl Parse<T> {
        With(self, keywords)
    }
}

struct Then<P, F, T>(P, F, PhantomData<fn(T)>);

impl<T, U, P: Parse<T>, F: Fn(T) -> Result<U, Error>> Parse<U> for Then<P, F, T> {
    fn parse(&self, field: Field<'_>) -> Result<U, Refused> {
        let (path, mode) = (field.path, field.mode);
        self.1(self.0.parse(field)?).map_err(|error| mode.refuse_with(&path, error))
    }

    fn schema(&self, components: &mut Components) -> Value {
        self.0.schema(components)
    }
}

struct Only<P, F>(P, F, Rule, &'static str);

impl<T, P: Parse<T>, F: Fn(&T) -> bool> Parse<T> for Only<P, F> {
    fn parse(&self, field: Field<'_>) -> Result<T, Refused> {
        let (path, mode) = (field.path, field.mode);
        let value = self.0.parse(field)?;
        if self.1(&value) { Ok(value) } else { Err(mode.refuse(&path, self.2, self.3)) }
    }

    fn schema(&self, components: &mut Components) -> Value {
        self.0.schema(components)
    }
}

struct With<P, F>(P, F);

impl<T, P: Parse<T>, F: Fn() -> Value> Parse<T> for With<P, F> {
    fn parse(&self, field: Field<'_>) -> Result<T, Refused> {
        self.0.parse(field)
    }

    fn schema(&self, components: &mut Components) -> Value {
        let mut schema = self.0.schema(components);
        let keywords = self.1();
        for (keyword, value) in keywords.as_object().into_iter().flatten() {
            schema[keyword] = value.clone();
        }
        schema
    }
}

/// A rule of two functions.
struct Simple<P, S>(P, S);

impl<T, P, S> Parse<T> for Simple<P, S>
where
    P: Fn(Field<'_>) -> Result<T, Refused>,
    S: Fn(&mut Components) -> Value,
{
    fn parse(&self, field: Field<'_>) -> Result<T, Refused> {
        self.0(field)
    }

    fn schema(&self, components: &mut Components) -> Value {
        self.1(components)
    }
}

fn rule<T>(
    parse: impl Fn(Field<'_>) -> Result<T, Refused>,
    schema: impl Fn(&mut Components) -> Value,
) -> impl Parse<T> {
    Simple(parse, schema)
}

/// The allowed length of a string.
#[derive(Debug, Clone)]
pub struct Size {
    range: RangeInclusive<usize>,
    bytes: bool,
}

impl Size {
    fn schema(&self) -> Value {
        let mut schema = json!({"type": "string"});
        if *self.range.start() > 0 {
            schema["minLength"] = json!(self.range.start());
        }
        if *self.range.end() < usize::MAX {
            schema["maxLength"] = json!(self.range.end());
        }
        schema
    }
}

/// A length in bytes of UTF-8.
#[must_use]
pub const fn bytes(range: RangeInclusive<usize>) -> Size {
    Size { range, bytes: true }
}

/// A length in characters.
#[must_use]
pub const fn characters(range: RangeInclusive<usize>) -> Size {
    Size { range, bytes: false }
}

/// A string.
#[must_use]
pub fn text(size: Size) -> impl Parse<String> {
    let shown = size.clone();
    rule(
        move |field| {
            let (path, mode, text) = take_text(field)?;
            check_size(&path, mode, &text, &size)?;
            Ok(text)
        },
        move |_| shown.schema(),
    )
}

/// A string of a pattern, which `is_right` checks; `says` completes "must be …".
pub fn matching(
    size: Size,
    pattern: &'static str,
    is_right: impl Fn(&str) -> bool,
    says: &'static str,
) -> impl Parse<String> {
    text(size)
        .only(move |text| is_right(text), Rule::Pattern, says)
        .with(move || json!({"pattern": pattern}))
}

/// One of a few words: `one_of(&Status::ALL, Status::as_str)`.
pub fn one_of<T: Copy + 'static>(
    all: &'static [T],
    name: impl Fn(T) -> &'static str + Copy,
) -> impl Parse<T> {
    let names = move || all.iter().map(|value| name(*value)).collect::<Vec<_>>();
    rule(
        move |field| {
            let (path, mode, text) = take_text(field)?;
            let found = all.iter().copied().find(|value| name(*value) == text);
            found.ok_or_else(|| {
                let says = format!("must be one of {}, not {}", names().join(", "), short(&text));
                mode.refuse(&path, Rule::Enum, says)
            })
        },
        move |_| json!({"type": "string", "enum": names()}),
    )
}

/// A whole number in `range`: 5.0 is 5, and 5.5 is of the wrong type.
pub fn whole<T>(range: RangeInclusive<T>) -> impl Parse<T>
where
    T: Copy + Display + Into<i128> + TryFrom<i128>,
{
    let (from, to) = (*range.start(), *range.end());
    let says = move |found: String| match to.into() {
        // The end of the type is no rule that anybody made.
        to if to >= i128::from(i64::MAX) => {
            format!("must be a whole number of {from} or more, not {found}")
        }
        to => format!("must be a whole number from {from} to {to}, not {found}"),
    };
    rule(
        move |field| {
            let number = match &field.value {
                Value::Number(number) => whole_of(number),
                Value::String(text) if field.mode.from_query => text.parse().ok(),
                _ => None,
            };
            let refuse = |rule| field.refuse(rule, says(shown(&field)));
            let number = number.ok_or_else(|| refuse(Rule::Type))?;
            if number < from.into() || number > to.into() {
                return Err(refuse(Rule::Range));
            }
            T::try_from(number).map_err(|_| refuse(Rule::Range))
        },
        move |_| {
            let limit = |number: i128| match u64::try_from(number) {
                Ok(number) => json!(number),
                Err(_) => json!(i64::try_from(number).unwrap_or(i64::MIN)),
            };
            json!({"type": "integer", "minimum": limit(from.into()), "maximum": limit(to.into())})
        },
    )
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a whole double beyond i128 stays beyond every range"
)]
fn whole_of(number: &serde_json::Number) -> Option<i128> {
    let exact = number.as_i64().map(i128::from);
    exact.or_else(|| number.as_u64().map(i128::from)).or_else(|| {
        let double = number.as_f64()?;
        (double.fract() == 0.0).then_some(double as i128)
    })
}

/// A number in `range`.
#[must_use]
pub fn number(range: RangeInclusive<f64>) -> impl Parse<f64> {
    let (from, to) = (*range.start(), *range.end());
    rule(
        move |field| {
            let number = match &field.value {
                Value::Number(number) => number.as_f64(),
                Value::String(text) if field.mode.from_query => {
                    text.parse().ok().filter(|number: &f64| number.is_finite())
                }
                _ => None,
            };
            let rule = match number {
                Some(number) if (from..=to).contains(&number) => return Ok(number),
                Some(_) => Rule::Range,
                None => Rule::Type,
            };
            let says = format!("must be a number from {from} to {to}, not {}", shown(&field));
            Err(field.refuse(rule, says))
        },
        move |_| json!({"type": "number", "minimum": from, "maximum": to}),
    )
}

/// True or false.
#[must_use]
pub fn flag() -> impl Parse<bool> {
    rule(
        |field| match &field.value {
            Value::Bool(flag) => Ok(*flag),
            Value::String(text) if field.mode.from_query && text == "true" => Ok(true),
            Value::String(text) if field.mode.from_query && text == "false" => Ok(false),
            _ => {
                let says = format!("must be true or false, not {}", shown(&field));
                Err(field.refuse(Rule::Type, says))
            }
        },
        |_| json!({"type": "boolean"}),
    )
}

/// An object of a shape: `object::<Hitl>()`.
#[must_use]
pub fn object<T: Read>() -> impl Parse<T> {
    rule(
        |field| {
            let (path, mode, members) = take_object(field)?;
            let mut fields = Fields::new(path, members, mode);
            let value = T::read(&mut fields);
            fields.finish();
            value
        },
        Components::reference::<T>,
    )
}

/// Any value, unchanged.
#[must_use]
pub fn any() -> impl Parse<Value> {
    rule(|field| Ok(field.value), |_| json!({}))
}

/// An object with any members, of at most `max_bytes` as compact JSON.
#[must_use]
pub fn free(max_bytes: usize) -> impl Parse<Map<String, Value>> {
    rule(
        move |field| {
            let (path, mode, members) = take_object(field)?;
            let mut measured = Measured(0);
            let written = serde_json::to_writer(&mut measured, &members);
            debug_assert!(written.is_ok(), "a map of JSON can be written");
            let Measured(found) = measured;
            if found <= max_bytes {
                return Ok(members);
            }
            let says = format!("must have at most {max_bytes} bytes as compact JSON, not {found}");
            Err(mode.refuse(&path, Rule::Length, says))
        },
        |_| json!({"type": "object", "additionalProperties": true}),
    )
}

/// An object from names of the caller's choice to values of one kind, in their order.
pub fn map<T>(count: RangeInclusive<usize>, of: impl Parse<T>) -> impl Parse<Vec<(String, T)>> {
    MapOf { count, of }
}

struct MapOf<P> {
    count: RangeInclusive<usize>,
    of: P,
}

impl<T, P: Parse<T>> Parse<Vec<(String, T)>> for MapOf<P> {
    fn parse(&self, field: Field<'_>) -> Result<Vec<(String, T)>, Refused> {
        let (path, mode, members) = take_object(field)?;
        check_count(&path, mode, members.len(), &self.count, "members")?;
        let mut pairs = Vec::with_capacity(members.len());
        for (name, value) in members {
            let field = Field::new(Path::Member(&path, &name), value, mode.in_body());
            if let Ok(value) = self.of.parse(field) {
                pairs.push((name, value));
            }
        }
        Ok(pairs)
    }

    fn schema(&self, components: &mut Components) -> Value {
        let values = self.of.schema(components);
        json!({"type": "object", "additionalProperties": values, "maxProperties": self.count.end()})
    }
}

/// An array of so many items of one kind. The default replaces a broken item, so that the others
/// keep their places.
pub fn list<T: Default>(count: RangeInclusive<usize>, of: impl Parse<T>) -> impl Parse<Vec<T>> {
    List { count, of }
}

struct List<P> {
    count: RangeInclusive<usize>,
    of: P,
}

impl<P> List<P> {
    fn schema<T>(&self, components: &mut Components) -> Value
    where
        P: Parse<T>,
    {
        let mut schema = json!({"type": "array", "items": self.of.schema(components)});
        if *self.count.start() > 0 {
            schema["minItems"] = json!(self.count.start());
        }
        if *self.count.end() < usize::MAX {
            schema["maxItems"] = json!(self.count.end());
        }
        schema
    }
}

impl<T: Default, P: Parse<T>> Parse<Vec<T>> for List<P> {
    fn parse(&self, field: Field<'_>) -> Result<Vec<T>, Refused> {
        let (path, mode, items) = take_list(field)?;
        check_count(&path, mode, items.len(), &self.count, "items")?;
        let item = |(index, value)| {
            let field = Field::new(Path::Item(&path, index), value, mode.in_body());
            self.of.parse(field).unwrap_or_default()
        };
        Ok(items.into_iter().enumerate().map(item).collect())
    }

    fn schema(&self, components: &mut Components) -> Value {
        Self::schema(self, components)
    }
}

/// So many values of one kind in one string, with commas between them; for queries.
pub fn commas<T>(count: RangeInclusive<usize>, of: impl Parse<T>) -> impl Parse<Vec<T>> {
    Commas(List { count, of })
}

struct Commas<P>(List<P>);

impl<T, P: Parse<T>> Parse<Vec<T>> for Commas<P> {
    fn parse(&self, field: Field<'_>) -> Result<Vec<T>, Refused> {
        let (path, mode, text) = take_text(field)?;
        check_count(&path, mode, text.split(',').count(), &self.0.count, "values")?;
        let value = |part| self.0.of.parse(Field::new(path, Value::from(part), mode.in_query()));
        text.split(',').map(value).collect()
    }

    fn schema(&self, components: &mut Components) -> Value {
        self.0.schema(components)
    }
}

const STRING: &str = "a string";

fn take_text(mut field: Field<'_>) -> Result<(Path<'_>, Mode<'_>, String), Refused> {
    match field.value {
        Value::String(text) => Ok((field.path, field.mode, text)),
        other => {
            field.value = other;
            Err(wrong_type(&field, STRING))
        }
    }
}

fn take_list(mut field: Field<'_>) -> Result<(Path<'_>, Mode<'_>, Vec<Value>), Refused> {
    match field.value {
        Value::Array(items) => Ok((field.path, field.mode, items)),
        other => {
            field.value = other;
            Err(wrong_type(&field, "an array"))
        }
    }
}

type Object<'a> = (Path<'a>, Mode<'a>, Map<String, Value>);

fn take_object(mut field: Field<'_>) -> Result<Object<'_>, Refused> {
    match field.value {
        Value::Object(members) => Ok((field.path, field.mode, members)),
        other => {
            field.value = other;
            Err(wrong_type(&field, "an object"))
        }
    }
}

fn wrong_type(field: &Field<'_>, wanted: &str) -> Refused {
    let found = kind(&field.value);
    // In YAML, 1.0 and true are strings in quotes only.
    let is_scalar = matches!(&field.value, Value::Bool(_) | Value::Number(_));
    let remedy = if wanted == STRING && is_scalar { "; put it in quotes" } else { "" };
    field.refuse(Rule::Type, format_args!("must be {wanted}, not {found}{remedy}"))
}

fn check_size(path: &Path<'_>, mode: Mode<'_>, text: &str, size: &Size) -> Result<(), Refused> {
    let (from, to) = (*size.range.start(), *size.range.end());
    // A text never has more characters than bytes, so most texts need no counting.
    let length = if size.bytes || (from <= 1 && text.len() <= to) {
        text.len()
    } else {
        text.chars().count()
    };
    if size.range.contains(&length) {
        return Ok(());
    }
    let unit = if size.bytes { "bytes" } else { "characters" };
    let says = if length == 0 {
        "must not be empty".to_owned()
    } else if length < from {
        format!("must have at least {from} {unit}, not {length}")
    } else {
        format!("must have at most {to} {unit}, not {length}")
    };
    Err(mode.refuse(path, Rule::Length, says))
}

fn check_count(
    path: &Path<'_>,
    mode: Mode<'_>,
    found: usize,
    count: &RangeInclusive<usize>,
    unit: &str,
) -> Result<(), Refused> {
    if count.contains(&found) {
        return Ok(());
    }
    let (from, to) = (*count.start(), *count.end());
    let says = if to == usize::MAX {
        format!("must have at least {from} {unit}, not {found}")
    } else {
        format!("must have {from} to {to} {unit}, not {found}")
    };
    Err(mode.refuse(path, Rule::Length, says))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// The value itself if it is short and probably no secret, else its kind.
fn shown(field: &Field<'_>) -> String {
    match &field.value {
        Value::Number(number) => number.to_string(),
        Value::String(text) if field.mode.from_query => short(text),
        other => kind(other).to_owned(),
    }
}

/// At most 64 characters of a text, in quotes.
fn short(text: &str) -> String {
    let text: String = text.chars().take(64).collect();
    format!("{text:?}")
}

/// Counts the bytes written to it.
struct Measured(usize);

impl io::Write for Measured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
