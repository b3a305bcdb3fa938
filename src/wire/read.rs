//! Reading what a caller sent: bytes to a value, a value to typed fields, every refusal by name.
//!
//! ```text
//! body  ── json::parse, yaml::parse ──▶ Value ─┐
//!                                              ├─▶ Fields ── required / optional (name, rule) ──▶ your type
//! query ── query::parse ───────────────────────┘
//! ```
//!
//! A shape says how it is read by [`Read`], field by field, each with a rule of [`rule`]; what it
//! did not ask for is refused as unknown. The first fault ends the reading, unless [`every_fault`] is
//! wanted. Deliberately absent: defaults and rules that span
//! fields, which belong to the shape, and whether the thing makes sense, which the domain decides.
//!
//! ```
//! use callboard::wire::read::{self, Fields, Read, rule};
//! use callboard_domain::Error;
//!
//! struct Note { text: String, stars: u8, tags: Vec<String> }
//!
//! impl Read for Note {
//!     fn read(fields: &mut Fields<'_>) -> Result<Self, Error> {
//!         Ok(Self {
//!             text: fields.required("text", rule::text(rule::bytes(1..=1024)))?,
//!             stars: fields.optional("stars", rule::whole(1..=5))?.unwrap_or(3),
//!             tags: fields
//!                 .optional("tags", rule::list(0..=32, rule::text(rule::characters(1..=64))))?
//!                 .unwrap_or_default(),
//!         })
//!     }
//! }
//!
//! let note: Note = read::body(br#"{"text":"hello","stars":5.0,"tags":null}"#)?;
//! assert_eq!((note.text.as_str(), note.stars, note.tags.len()), ("hello", 5, 0));
//! # Ok::<(), Error>(())
//! ```

mod fields;
pub mod query;
pub mod rule;

pub use callboard_protocol::document::{Format, json, parse, yaml};
pub use fields::{Field, Fields, Path, Read};

use callboard_domain::{Error, Fault};
use serde_json::Value;

use fields::{Faults, Mode};

/// Reads a JSON body: strict JSON, an object, every field by its rule, none unknown.
///
/// # Errors
///
/// [`Error::InvalidJson`], or [`Error::Invalid`] for the first field that breaks a rule.
pub fn body<T: Read>(bytes: &[u8]) -> Result<T, Error> {
    json::parse(bytes).and_then(value)
}

/// Reads a parsed body.
///
/// # Errors
///
/// [`Error::Invalid`] for the first field that breaks a rule.
pub fn value<T: Read>(value: Value) -> Result<T, Error> {
    rule::object(T::read)(Field::body(value))
}

/// Reads a parsed body and tells every fault of it, in the order of reading: up to a thousand.
///
/// Where there are faults, what was read is good only for finding more: defaults stand in for what
/// is broken. There is nothing if the whole is no object.
///
/// # Errors
///
/// Whatever is no fault of a field.
pub fn every_fault<T: Read>(value: Value) -> Result<(Option<T>, Vec<Fault>), Error> {
    let faults = Faults::default();
    let mode = Mode { from_query: false, faults: Some(&faults) };
    let read = match rule::object(T::read)(Field::new(Path::Root("body"), value, mode)) {
        Ok(read) => Some(read),
        Err(refusal) => {
            mode.tell(refusal)?;
            None
        }
    };
    Ok((read, faults.into_inner()))
}
