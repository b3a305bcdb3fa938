//! The members of one object: each is read by name, and every other is refused as unknown.
//!
//! Every fault is recorded, so that one answer lists them all; a refusing rule returns [`Refused`]. A path
//! costs nothing until it is written into a fault. Deliberately absent: the rules, which are in
//! [`super::rule`].

#![expect(
    clippy::needless_pass_by_value,
    reason = "a rule is written where it is used, as the argument of a call"
)]

use std::cell::RefCell;
use std::fmt;
use std::mem;

use callboard_domain::grammar::Kind;
use callboard_domain::{Error, Fault, Rule};
use serde_json::{Map, Value};

use super::rule::Parse;
use super::shape::{Members, Shape};

/// A shape that is read from the members of an object, or from the parameters of a query. The macro
/// [`request!`](crate::request) implements it.
pub trait Read: Sized {
    /// The name of the shape's schema.
    const NAME: &'static str;
    /// The name of its schema in answers, if it is shown there.
    const ANSWER: &'static str = "";

    /// Reads every member of the shape.
    ///
    /// # Errors
    ///
    /// [`Refused`] if the shape cannot be made; the faults are recorded.
    fn read(fields: &mut Fields<'_>) -> Result<Self, Refused>;

    /// Describes every member of the shape.
    fn describe(members: &mut Members<'_>);
}

/// A fault was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused;

/// The place of a field: `tasks[2].hitl.timeoutMs`; the whole is `body` or `query`.
#[derive(Debug, Clone, Copy)]
pub enum Path<'a> {
    /// The whole.
    Root(&'static str),
    /// A member of an object.
    Member(&'a Path<'a>, &'a str),
    /// An item of a list.
    Item(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(name) => f.write_str(name),
            Self::Member(Self::Root(_), name) => name.fmt(f),
            Self::Member(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// One value and its place.
#[derive(Debug)]
pub struct Field<'a> {
    /// The place.
    pub path: Path<'a>,
    /// The value; never null, unless it is an item of an array or the whole.
    pub value: Value,
    pub(super) mode: Mode<'a>,
}

/// The mode of reading fields.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mode<'a> {
    /// True if the values are the strings of query parameters, which may be read as numbers or
    /// flags.
    pub(super) from_query: bool,
    pub(super) faults: &'a Faults,
}

/// The most faults of one body that are recorded.
const MAX_FAULTS: usize = 1_000;

/// A text that is no name of the grammar, and may be the name of something that is there already.
#[derive(Debug, Clone)]
pub struct Unfit {
    /// The kind of the name.
    pub kind: Kind,
    /// The text.
    pub name: String,
    /// The fault of a name that is not known.
    pub(super) fault: Fault,
}

/// Faults, and unfit names, in the order in which they were found.
#[derive(Debug, Default)]
pub(super) struct Faults {
    faults: RefCell<Vec<Fault>>,
    unfit: RefCell<Vec<Unfit>>,
}

impl Faults {
    pub(super) fn is_empty(&self) -> bool {
        self.faults.borrow().is_empty()
    }

    pub(super) fn into_inner(self) -> (Vec<Fault>, Vec<Unfit>) {
        (self.faults.into_inner(), self.unfit.into_inner())
    }

    pub(super) fn record(&self, fault: Fault) -> Refused {
        let mut faults = self.faults.borrow_mut();
        if faults.len() < MAX_FAULTS {
            faults.push(fault);
        }
        Refused
    }

    /// Notes an unfit name; one of too many is a fault, whether it is known or not.
    pub(super) fn note(&self, unfit: Unfit) -> Result<(), Refused> {
        let mut noted = self.unfit.borrow_mut();
        if noted.len() >= MAX_FAULTS {
            return Err(self.record(unfit.fault));
        }
        noted.push(unfit);
        Ok(())
    }
}

impl<'a> Field<'a> {
    pub(super) const fn new(path: Path<'a>, value: Value, mode: Mode<'a>) -> Self {
        Self { path, value, mode }
    }

    /// Records a fault of this field; `says` follows its path: `must be a string, not a number`.
    pub fn refuse(&self, rule: Rule, says: impl fmt::Display) -> Refused {
        self.mode.refuse(&self.path, rule, says)
    }
}

impl Mode<'_> {
    pub(super) fn refuse(self, path: &Path<'_>, rule: Rule, says: impl fmt::Display) -> Refused {
        self.faults.record(Fault {
            field: path.to_string(),
            rule,
            message: format!("{path} {says}"),
        })
    }

    /// Records the reason for which the domain refuses a value.
    pub(super) fn refuse_with(self, path: &Path<'_>, error: Error) -> Refused {
        if let Error::Invalid(fault) = error {
            return self.faults.record(fault);
        }
        self.refuse(path, Rule::Format, format_args!("is refused: {error}"))
    }

    /// This mode for a value of a body.
    pub(super) const fn in_body(self) -> Self {
        Self { from_query: false, ..self }
    }

    /// This mode for a value of a query.
    pub(super) const fn in_query(self) -> Self {
        Self { from_query: true, ..self }
    }
}

/// The number of members that a task asks for: the list of their names does not grow.
const MOST_ASKED: usize = 48;

/// The most members among which one is found by comparing their names.
const FEW: usize = 16;

/// A member of an object. A request asks for forty members and has four: comparing lengths is cheaper than a hash of
/// each name.
fn member<'m>(members: &'m mut Map<String, Value>, name: &str) -> Option<&'m mut Value> {
    if members.len() > FEW {
        return members.get_mut(name);
    }
    members.iter_mut().find_map(|(known, value)| (known == name).then_some(value))
}

/// The members of one object, each of which may be read once.
#[derive(Debug)]
pub struct Fields<'a> {
    path: Path<'a>,
    members: Map<String, Value>,
    asked: Vec<&'static str>,
    mode: Mode<'a>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(path: Path<'a>, members: Map<String, Value>, mode: Mode<'a>) -> Self {
        Self { path, members, asked: Vec::with_capacity(MOST_ASKED), mode }
    }

    /// The member `name`, read by `rule`.
    ///
    /// # Errors
    ///
    /// Rule `required` if it is absent or null, else a fault that `rule` finds.
    pub fn required<T>(&mut self, name: &'static str, rule: impl Parse<T>) -> Result<T, Refused> {
        let value = self.ask(name, rule)?;
        value.ok_or_else(|| self.refuse(name, Rule::Required, "is required"))
    }

    /// The member `name`, read by `rule`; the default replaces an absent or broken one, so that the
    /// other members can be checked further.
    #[expect(clippy::missing_errors_doc, reason = "it has the form of the others and never fails")]
    pub fn required_or_default<T: Default>(
        &mut self,
        name: &'static str,
        rule: impl Parse<T>,
    ) -> Result<T, Refused> {
        Ok(self.required(name, rule).unwrap_or_default())
    }

    /// Like [`Self::required_or_default`], but not required if one of `others`, which are read later, is there: a
    /// member with this value, or with any.
    #[expect(clippy::missing_errors_doc, reason = "it has the form of the others and never fails")]
    pub fn required_unless<T: Default>(
        &mut self,
        name: &'static str,
        rule: impl Parse<T>,
        others: &[(&str, Option<&str>)],
    ) -> Result<T, Refused> {
        let is_there = |(member, value): &(&str, Option<&str>)| {
            let found = self.members.get(*member).filter(|found| !found.is_null());
            found.is_some_and(|found| value.is_none() || found.as_str() == *value)
        };
        if others.iter().any(is_there) {
            return self.or_default(name, rule);
        }
        self.required_or_default(name, rule)
    }

    /// The member `name`, read by `rule`; none if it is absent, null or broken.
    #[expect(clippy::missing_errors_doc, reason = "it has the form of the others and never fails")]
    pub fn optional<T>(
        &mut self,
        name: &'static str,
        rule: impl Parse<T>,
    ) -> Result<Option<T>, Refused> {
        Ok(self.ask(name, rule).unwrap_or_default())
    }

    /// The member `name`, read by `rule`; the default if it is absent, null or broken.
    #[expect(clippy::missing_errors_doc, reason = "it has the form of the others and never fails")]
    pub fn or_default<T: Default>(
        &mut self,
        name: &'static str,
        rule: impl Parse<T>,
    ) -> Result<T, Refused> {
        Ok(self.optional(name, rule)?.unwrap_or_default())
    }

    /// Like [`Self::or_default`]; every answer shows the member.
    ///
    /// # Errors
    ///
    /// Those of [`Self::or_default`].
    pub fn default_shown<T: Default>(
        &mut self,
        name: &'static str,
        rule: impl Parse<T>,
    ) -> Result<T, Refused> {
        self.or_default(name, rule)
    }

    /// The members of another shape, beside those of this one.
    ///
    /// # Errors
    ///
    /// Those of [`Read::read`] of that shape.
    pub fn flat<T: Read>(&mut self, _: Shape<T>) -> Result<T, Refused> {
        T::read(self)
    }

    fn ask<T>(&mut self, name: &'static str, rule: impl Parse<T>) -> Result<Option<T>, Refused> {
        self.asked.push(name);
        let value = member(&mut self.members, name).map_or(Value::Null, mem::take);
        if value.is_null() {
            return Ok(None);
        }
        let path = Path::Member(&self.path, name);
        rule.parse(Field::new(path, value, self.mode)).map(Some)
    }

    /// Records a fault of the member `name`, for a rule that spans members.
    pub fn refuse(&self, name: &str, rule: Rule, says: impl fmt::Display) -> Refused {
        self.mode.refuse(&Path::Member(&self.path, name), rule, says)
    }

    /// Takes the members that are null and were not read, as if they were absent.
    pub fn forget_nulls(&mut self) {
        self.members.retain(|_, value| !value.is_null());
    }

    /// Records every member that was not read, with rule `unknown`.
    pub(super) fn finish(self) {
        let unknown = self.members.keys().filter(|name| !self.asked.contains(&name.as_str()));
        for name in unknown.take(MAX_FAULTS) {
            let shown: String = name.chars().take(64).collect();
            let known = if self.asked.is_empty() {
                "none is allowed".to_owned()
            } else {
                format!("allowed: {}", self.asked.join(", "))
            };
            self.refuse(&shown, Rule::Unknown, format_args!("is an unknown field; {known}"));
        }
    }
}

#[cfg(test)]
mod tests;
