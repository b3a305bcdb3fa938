//! The members of one object: asked for by name, and refused if nobody asked.
//!
//! A path costs nothing until it is written into a refusal. Deliberately absent: the rules
//! themselves, which stand in [`super::rule`].

use std::cell::RefCell;
use std::fmt;
use std::mem;

use callboard_domain::{Error, Fault, Rule};
use serde_json::{Map, Value};

/// A shape that is read from the members of an object, or from the parameters of a query.
pub trait Read: Sized {
    /// Asks `fields` for everything that it takes; the rest is refused as unknown.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for the first field that breaks its rule.
    fn read(fields: &mut Fields<'_>) -> Result<Self, Error>;
}

/// Where a field stands: `tasks[2].hitl.timeoutMs`; the whole is `body` or `query`.
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

/// One value and where it stands.
#[derive(Debug)]
pub struct Field<'a> {
    /// Where it stands.
    pub path: Path<'a>,
    /// What it is; never null, unless it is an item of a list or the whole.
    pub value: Value,
    /// How it is read.
    pub(super) mode: Mode<'a>,
}

/// How fields are read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mode<'a> {
    /// They are texts of query parameters, which may be read as numbers or flags.
    pub(super) from_query: bool,
    /// Who is told of every fault; without it, the first ends the reading.
    pub(super) faults: Option<&'a Faults>,
}

/// How many faults of one body are told.
const MAX_FAULTS: usize = 1_000;

/// Faults in the order in which they were found.
#[derive(Debug, Default)]
pub(super) struct Faults(RefCell<Vec<Fault>>);

impl Faults {
    pub(super) fn into_inner(self) -> Vec<Fault> {
        self.0.into_inner()
    }
}

impl Mode<'_> {
    /// Tells a refusal, after which something has to stand in for what was refused.
    ///
    /// # Errors
    ///
    /// The refusal, where the first one ends the reading, or where it is not of a field.
    pub(super) fn tell(self, refusal: Error) -> Result<(), Error> {
        match (self.faults, refusal) {
            (Some(Faults(faults)), Error::Invalid(fault)) => {
                let mut faults = faults.borrow_mut();
                if faults.len() < MAX_FAULTS {
                    faults.push(fault);
                }
                Ok(())
            }
            (_, refusal) => Err(refusal),
        }
    }

    /// The same for what stands in a body.
    pub(super) const fn in_body(self) -> Self {
        Self { from_query: false, faults: self.faults }
    }

    /// The same for what stands in a query.
    pub(super) const fn in_query(self) -> Self {
        Self { from_query: true, faults: self.faults }
    }
}

impl<'a> Field<'a> {
    /// A whole body.
    #[must_use]
    pub const fn body(value: Value) -> Self {
        Self::new(Path::Root("body"), value, Mode { from_query: false, faults: None })
    }

    /// The refusal of this field; `says` follows its path: `must be a text, not a number`.
    pub fn refuse(&self, rule: Rule, says: impl fmt::Display) -> Error {
        refuse(&self.path, rule, says)
    }

    pub(super) const fn new(path: Path<'a>, value: Value, mode: Mode<'a>) -> Self {
        Self { path, value, mode }
    }

    /// A field that is only a place, to refuse it.
    pub(super) const fn at(path: Path<'a>) -> Self {
        Self::new(path, Value::Null, Mode { from_query: false, faults: None })
    }
}

fn refuse(path: &Path<'_>, rule: Rule, says: impl fmt::Display) -> Error {
    Error::invalid(path.to_string(), rule, format!("{path} {says}"))
}

/// The members of one object, each of which may be asked for once.
#[derive(Debug)]
pub struct Fields<'a> {
    path: Path<'a>,
    members: Map<String, Value>,
    asked: Vec<&'static str>,
    mode: Mode<'a>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(path: Path<'a>, members: Map<String, Value>, mode: Mode<'a>) -> Self {
        Self { path, members, asked: Vec::with_capacity(16), mode }
    }

    /// The member `name`, read by `rule`.
    ///
    /// # Errors
    ///
    /// Rule `required` if it is absent or null, else what `rule` says.
    pub fn required<T>(
        &mut self,
        name: &'static str,
        rule: impl FnOnce(Field<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match self.ask(name, rule)? {
            Some(value) => Ok(value),
            None => Err(self.refuse(name, Rule::Required, "is required")),
        }
    }

    /// The same; where every fault is told, its default stands in for what is missing or broken.
    ///
    /// # Errors
    ///
    /// As [`Self::required`], where the first fault ends the reading.
    pub fn required_or_default<T: Default>(
        &mut self,
        name: &'static str,
        rule: impl FnOnce(Field<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let read = self.required(name, rule);
        read.or_else(|refusal| self.mode.tell(refusal).map(|()| T::default()))
    }

    /// The member `name`, read by `rule`; none if it is absent or null, or broken where every fault
    /// is told.
    ///
    /// # Errors
    ///
    /// What `rule` says, where the first fault ends the reading.
    pub fn optional<T>(
        &mut self,
        name: &'static str,
        rule: impl FnOnce(Field<'_>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        let read = self.ask(name, rule);
        read.or_else(|refusal| self.mode.tell(refusal).map(|()| None))
    }

    fn ask<T>(
        &mut self,
        name: &'static str,
        rule: impl FnOnce(Field<'_>) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        debug_assert!(!self.asked.contains(&name), "{name} was asked for before");
        self.asked.push(name);
        let value = self.members.get_mut(name).map_or(Value::Null, mem::take);
        if value.is_null() {
            return Ok(None);
        }
        let path = Path::Member(&self.path, name);
        rule(Field::new(path, value, self.mode)).map(Some)
    }

    /// The refusal of the member `name`, for a rule that spans fields.
    pub fn refuse(&self, name: &str, rule: Rule, says: impl fmt::Display) -> Error {
        refuse(&Path::Member(&self.path, name), rule, says)
    }

    /// Whether every member was asked for.
    ///
    /// # Errors
    ///
    /// Rule `unknown` for the first that was not, naming those that exist.
    pub fn finish(self) -> Result<(), Error> {
        let unknown = self.members.keys().filter(|name| !self.asked.contains(&name.as_str()));
        for name in unknown.take(MAX_FAULTS) {
            let shown: String = name.chars().take(64).collect();
            let known = if self.asked.is_empty() {
                "none is".to_owned()
            } else {
                format!("only {}", self.asked.join(", "))
            };
            let says = format_args!("is not known here, {known}");
            self.mode.tell(self.refuse(&shown, Rule::Unknown, says))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
