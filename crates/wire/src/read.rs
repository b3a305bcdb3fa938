//! The reading of a caller's input: bytes to a value, a value to typed fields, every refusal by
//! name.
//!
//! ```text
//! body  ── json::parse, yaml::parse ──▶ Value ─┐
//!                                              ├─▶ Fields ── required, optional (name, rule) ──▶ your type
//! query ── query::parse ───────────────────────┘
//! ```
//!
//! [`request!`](crate::request) declares a shape: one line for each member, with its rule and its
//! text, from which the reader and the OpenAPI schema come. Every fault is found, up to a thousand.
//! Deliberately absent: the meaning of the values, which the domain checks.

mod fields;
pub mod query;
pub mod rule;
mod shape;

pub use callboard_protocol::document::{Format, json, parse, yaml};
pub use fields::{Field, Fields, Path, Read, Refused};
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
    let (read, faults) = every_fault(value);
    match read {
        Some(read) if faults.is_empty() => Ok(read),
        _ => Err(refusal(faults)),
    }
}

/// Reads a parsed body, and returns every fault of it.
///
/// If there are faults, the read part serves only to find more: defaults replace the broken values.
/// `None` if the whole cannot be made.
#[must_use]
pub fn every_fault<T: Read>(value: Value) -> (Option<T>, Vec<Fault>) {
    let faults = Faults::default();
    let mode = Mode { from_query: false, faults: &faults };
    let read = rule::object::<T>().parse(Field::new(Path::Root("body"), value, mode)).ok();
    (read, faults.into_inner())
}

/// The error for some faults.
fn refusal(mut faults: Vec<Fault>) -> Error {
    if faults.len() == 1 {
        return faults.pop().map_or(Error::Internal, Error::Invalid);
    }
    let problems = Problems::none_of(faults.into_iter().map(Problem::from).collect());
    problems.map_or_else(Error::from, |()| Error::Internal)
}
