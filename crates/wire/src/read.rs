//! The reading of a caller's input: bytes to a value, a value to typed fields, every refusal by
//! name.
//!
//! ```text
//! body  ── json::parse, yaml::parse ──▶ Value ─┐
//!                                              ├─▶ Fields ── required, optional (name, rule) ──▶ your type
//! query ── query::parse ───────────────────────┘
//! ```
//!
//! [`request!`](crate::request) declares a shape: one line for each member, with its rule and its text, from which the
//! reader and the OpenAPI schema come. Every fault is found, up to a thousand.

mod fields;
pub mod query;
pub mod rule;
mod shape;

pub use callboard_protocol::document::{Format, json, parse, yaml};
pub use fields::{Field, Fields, Path, Read, Refused, Unfit};
pub use shape::{Components, Members, Shape, shape};

use callboard_domain::problem::{Problem, Problems};
use callboard_domain::{Error, Fault};
use serde_json::Value;

use fields::{Faults, Mode};
use rule::Parse as _;

/// Reads a JSON body: strict JSON, an object, every member by its rule, none unknown.
///
/// # Errors
///
/// [`Error::InvalidJson`], or those of [`value`].
pub fn body<T: Read>(bytes: &[u8]) -> Result<T, Error> {
    json::parse(bytes).and_then(value)
}

/// Reads a parsed body.
///
/// # Errors
///
/// [`Error::Invalid`] for one fault, [`Error::InvalidDefinition`] for more, in the order of the members.
pub fn value<T: Read>(value: Value) -> Result<T, Error> {
    reading(value).finish(|_| false)
}

/// A body that was read, before it is known which of its unfit names are there already.
#[derive(Debug)]
pub struct Reading<T> {
    /// `None` if the whole cannot be made. If there are faults, this serves only to find more: defaults
    /// replace the broken values.
    pub(crate) read: Option<T>,
    pub(crate) faults: Vec<Fault>,
    unfit: Vec<Unfit>,
}

/// Reads a parsed body, and every fault of it.
#[must_use]
pub fn reading<T: Read>(value: Value) -> Reading<T> {
    let faults = Faults::default();
    let mode = Mode { from_query: false, faults: &faults };
    let read = rule::object::<T>().parse(Field::new(Path::Root("body"), value, mode)).ok();
    let (faults, unfit) = faults.into_inner();
    Reading { read, faults, unfit }
}

impl<T> Reading<T> {
    /// The names outside the grammar ([`callboard_domain::grammar`]).
    #[must_use]
    pub fn unfit(&self) -> &[Unfit] {
        &self.unfit
    }

    /// The value that was read, if its unfit names are all known.
    ///
    /// # Errors
    /// [`Error::Invalid`] for one fault, [`Error::InvalidDefinition`] for more.
    pub fn finish(self, is_known: impl Fn(&Unfit) -> bool) -> Result<T, Error> {
        match self.resolved(is_known) {
            (Some(read), faults) if faults.is_empty() => Ok(read),
            (_, faults) => Err(refusal(faults)),
        }
    }

    /// The value that was read, and its faults: unfit names that are not known are among them.
    pub(crate) fn resolved(self, is_known: impl Fn(&Unfit) -> bool) -> (Option<T>, Vec<Fault>) {
        let Self { read, mut faults, unfit } = self;
        let unknown = unfit.into_iter().filter(|unfit| !is_known(unfit));
        faults.extend(unknown.map(|unfit| unfit.fault));
        (read, faults)
    }
}

/// The error for some faults.
fn refusal(mut faults: Vec<Fault>) -> Error {
    if faults.len() == 1 {
        return faults.pop().map_or(Error::Internal, Error::Invalid);
    }
    let problems = Problems::none_of(faults.into_iter().map(Problem::from).collect());
    problems.map_or_else(Error::from, |()| Error::Internal)
}
