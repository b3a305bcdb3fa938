//! The rules a field is read by; each gives a function for [`super::Fields`] to apply.
//!
//! A refusal names the rule of PROTOCOL.md 2 and says what would be right. Deliberately absent:
//! the rules `reserved`, `placeholder`, `step` and `ref`, which need more than one field to see.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "JSON will have no further kinds, and a rule wants one or two of them"
)]

mod format;

use std::fmt::Display;
use std::io;
use std::ops::RangeInclusive;

use callboard_domain::{Error, Rule};
use serde_json::{Map, Value};

pub use self::format::{MAX_URL, email, instant, url};
use super::{Field, Fields, Path};

/// How long a text may be.
#[derive(Debug, Clone)]
pub struct Size {
    range: RangeInclusive<usize>,
    bytes: bool,
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

/// A text.
pub fn text(size: Size) -> impl Fn(Field<'_>) -> Result<String, Error> {
    move |field| {
        let (path, text) = take_text(field)?;
        check_size(&path, &text, &size)?;
        Ok(text)
    }
}

/// A text of a form of its own; `says` completes "must be …", such as `three numbers, as in 1.0.0`.
pub fn matching(
    size: Size,
    is_right: impl Fn(&str) -> bool,
    says: &'static str,
) -> impl Fn(Field<'_>) -> Result<String, Error> {
    move |field| {
        let (path, text) = take_text(field)?;
        check_size(&path, &text, &size)?;
        if is_right(&text) {
            return Ok(text);
        }
        Err(refuse(path, Rule::Pattern, format_args!("must be {says}")))
    }
}

/// One of a few words: `one_of(&Status::ALL, Status::as_str)`.
pub fn one_of<T: Copy + 'static>(
    all: &'static [T],
    name: impl Fn(T) -> &'static str,
) -> impl Fn(Field<'_>) -> Result<T, Error> {
    move |field| {
        let (path, text) = take_text(field)?;
        let found = all.iter().copied().find(|value| name(*value) == text);
        found.ok_or_else(|| {
            let names: Vec<_> = all.iter().map(|value| name(*value)).collect();
            let says = format!("must be one of {}, not {}", names.join(", "), short(&text));
            refuse(path, Rule::Enum, says)
        })
    }
}

/// A whole number in `range`: 5.0 is 5, and 5.5 is of the wrong type.
pub fn whole<T>(range: RangeInclusive<T>) -> impl Fn(Field<'_>) -> Result<T, Error>
where
    T: Copy + Display + Into<i128> + TryFrom<i128>,
{
    move |field| {
        let (from, to) = (*range.start(), *range.end());
        let says = |found: &dyn Display| {
            format!("must be a whole number from {from} to {to}, not {found}")
        };
        let number = match &field.value {
            Value::Number(number) => whole_of(number),
            Value::String(text) if field.mode.from_query => text.parse().ok(),
            _ => None,
        };
        let Some(number) = number else {
            return Err(field.refuse(Rule::Type, says(&shown(&field))));
        };
        if number < from.into() || number > to.into() {
            return Err(field.refuse(Rule::Range, says(&shown(&field))));
        }
        T::try_from(number).map_err(|_| field.refuse(Rule::Range, says(&shown(&field))))
    }
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
pub fn number(range: RangeInclusive<f64>) -> impl Fn(Field<'_>) -> Result<f64, Error> {
    move |field| {
        let (from, to) = (range.start(), range.end());
        let says = || format!("must be a number from {from} to {to}, not {}", shown(&field));
        let number = match &field.value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) if field.mode.from_query => {
                text.parse().ok().filter(|number: &f64| number.is_finite())
            }
            _ => None,
        };
        match number {
            None => Err(field.refuse(Rule::Type, says())),
            Some(number) if !range.contains(&number) => Err(field.refuse(Rule::Range, says())),
            Some(number) => Ok(number),
        }
    }
}

/// True or false.
///
/// # Errors
///
/// Rule `type`.
#[expect(clippy::needless_pass_by_value, reason = "it is a rule like the others")]
pub fn flag(field: Field<'_>) -> Result<bool, Error> {
    match &field.value {
        Value::Bool(flag) => Ok(*flag),
        Value::String(text) if field.mode.from_query && text == "true" => Ok(true),
        Value::String(text) if field.mode.from_query && text == "false" => Ok(false),
        _ => {
            Err(field
                .refuse(Rule::Type, format_args!("must be true or false, not {}", shown(&field))))
        }
    }
}

/// An object with fields of its own, none unknown: `object(Hitl::read)`.
pub fn object<T>(
    read: impl Fn(&mut Fields<'_>) -> Result<T, Error>,
) -> impl Fn(Field<'_>) -> Result<T, Error> {
    move |field| {
        let mode = field.mode;
        let (path, members) = take_object(field)?;
        let mut fields = Fields::new(path, members, mode);
        let value = read(&mut fields)?;
        fields.finish()?;
        Ok(value)
    }
}

/// Anything, as it is.
///
/// # Errors
///
/// None: it is a rule like the others.
pub fn any(field: Field<'_>) -> Result<Value, Error> {
    Ok(field.value)
}

/// An object with any members, of at most `max_bytes` as compact JSON.
pub fn free(max_bytes: usize) -> impl Fn(Field<'_>) -> Result<Map<String, Value>, Error> {
    move |field| {
        let (path, members) = take_object(field)?;
        let mut measured = Measured(0);
        if serde_json::to_writer(&mut measured, &members).is_err() {
            return Err(Error::Internal);
        }
        if measured.0 > max_bytes {
            let says =
                format!("must have at most {max_bytes} bytes as compact JSON, not {}", measured.0);
            return Err(refuse(path, Rule::Length, says));
        }
        Ok(members)
    }
}

/// An object from names of the caller's choice to values of one kind, in their order.
pub fn map<T>(
    count: RangeInclusive<usize>,
    of: impl Fn(Field<'_>) -> Result<T, Error>,
) -> impl Fn(Field<'_>) -> Result<Vec<(String, T)>, Error> {
    move |field| {
        let mode = field.mode.in_body();
        let (path, members) = take_object(field)?;
        check_count(path, members.len(), &count, "members")?;
        let mut pairs = Vec::with_capacity(members.len());
        for (name, value) in members {
            match of(Field::new(Path::Member(&path, &name), value, mode)) {
                Ok(value) => pairs.push((name, value)),
                Err(refusal) => mode.tell(refusal)?,
            }
        }
        Ok(pairs)
    }
}

/// A list of so many items of one kind. Where every fault is told, the default stands in for an
/// item that is broken, so that the others keep their places.
pub fn list<T: Default>(
    count: RangeInclusive<usize>,
    of: impl Fn(Field<'_>) -> Result<T, Error>,
) -> impl Fn(Field<'_>) -> Result<Vec<T>, Error> {
    move |field| {
        let mode = field.mode.in_body();
        let (path, items) = take_list(field)?;
        check_count(path, items.len(), &count, "items")?;
        let mut list = Vec::with_capacity(items.len());
        for (index, value) in items.into_iter().enumerate() {
            let item = of(Field::new(Path::Item(&path, index), value, mode));
            list.push(item.or_else(|refusal| mode.tell(refusal).map(|()| T::default()))?);
        }
        Ok(list)
    }
}

/// So many values of one kind in one text, with commas between them; for queries.
pub fn commas<T>(
    count: RangeInclusive<usize>,
    of: impl Fn(Field<'_>) -> Result<T, Error>,
) -> impl Fn(Field<'_>) -> Result<Vec<T>, Error> {
    move |field| {
        let mode = field.mode.in_query();
        let (path, text) = take_text(field)?;
        check_count(path, text.split(',').count(), &count, "values")?;
        text.split(',').map(|part| of(Field::new(path, Value::from(part), mode))).collect()
    }
}

fn take_text(mut field: Field<'_>) -> Result<(Path<'_>, String), Error> {
    match field.value {
        Value::String(text) => Ok((field.path, text)),
        other => {
            field.value = other;
            Err(wrong_type(&field, "a text"))
        }
    }
}

fn take_list(mut field: Field<'_>) -> Result<(Path<'_>, Vec<Value>), Error> {
    match field.value {
        Value::Array(items) => Ok((field.path, items)),
        other => {
            field.value = other;
            Err(wrong_type(&field, "a list"))
        }
    }
}

fn take_object(mut field: Field<'_>) -> Result<(Path<'_>, Map<String, Value>), Error> {
    match field.value {
        Value::Object(members) => Ok((field.path, members)),
        other => {
            field.value = other;
            Err(wrong_type(&field, "an object"))
        }
    }
}

fn refuse(path: Path<'_>, rule: Rule, says: impl Display) -> Error {
    Field::at(path).refuse(rule, says)
}

fn wrong_type(field: &Field<'_>, wanted: &str) -> Error {
    let found = kind(&field.value);
    field.refuse(Rule::Type, format_args!("must be {wanted}, not {found}"))
}

fn check_size(path: &Path<'_>, text: &str, size: &Size) -> Result<(), Error> {
    let (from, to) = (*size.range.start(), *size.range.end());
    // A text never has more characters than bytes, so most need no counting.
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
    Err(refuse(*path, Rule::Length, says))
}

fn check_count(
    path: Path<'_>,
    found: usize,
    count: &RangeInclusive<usize>,
    unit: &str,
) -> Result<(), Error> {
    if count.contains(&found) {
        return Ok(());
    }
    let (from, to) = (count.start(), count.end());
    let says = format!("must have {from} to {to} {unit}, not {found}");
    Err(refuse(path, Rule::Length, says))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The value itself where it is short and no secret is likely, else its kind.
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

/// Counts what is written to it.
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
