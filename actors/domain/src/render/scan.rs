//! Finding the `{{…}}` of a text, in one pass.
//!
//! Of three braces the last two open: `{{{input.x}}}` is `{`, the input and `}`, as a prompt that
//! shows JSON writes it. Deliberately absent: escapes. A `{{` that is meant as text can be given
//! as an input.

use super::{Meta, Part, Reference};
use crate::problem::shortened;

/// How many faults of one text are told.
pub const MAX_MISREADS: usize = 20;

/// A `{{` that cannot be read (rule `placeholder`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misread {
    /// Where it stands, in characters from 1.
    pub character: usize,
    /// What is wrong and what would be right; follows the field's name.
    pub message: String,
}

/// The parts of a text, in its order. What cannot be read is a literal.
pub(super) fn scan(source: &str) -> (Vec<Part>, Vec<Misread>) {
    let mut parts = Vec::new();
    let mut misreads = Vec::new();
    let mut literal = 0;
    let mut at = 0;
    while let Some(open) = find(source, at, source.len(), "{{") {
        let open = if is_triple(&source.as_bytes()[open..]) { open + 1 } else { open };
        let (end, read) = placeholder(source, open);
        match read {
            Ok(reference) => {
                if literal < open {
                    parts.push(Part::Literal(literal..open));
                }
                parts.push(Part::Reference(open..end, reference));
                literal = end;
            }
            Err(written) => {
                let character = source[..open].chars().count() + 1;
                misreads.push(Misread { character, message: message(character, written) });
                if misreads.len() == MAX_MISREADS {
                    break;
                }
            }
        }
        at = end;
    }
    if literal < source.len() {
        parts.push(Part::Literal(literal..source.len()));
    }
    (parts, misreads)
}

/// The placeholder that opens at `open`: where it ends, and what it names. Otherwise what was
/// written in it, or `None` when it is not closed before the next one or the end.
fn placeholder(source: &str, open: usize) -> (usize, Result<Reference, Option<&str>>) {
    let start = open + 2;
    let closes = find(source, start, source.len(), "}}");
    let opens = find(source, start, closes.unwrap_or(source.len()), "{{");
    match (closes, opens) {
        (Some(close), None) => {
            let end = close + 2;
            (end, reference(&source[start..close]).ok_or(Some(&source[open..end])))
        }
        (Some(_) | None, Some(again)) => (again, Err(None)),
        (None, None) => (source.len(), Err(None)),
    }
}

fn message(character: usize, written: Option<&str>) -> String {
    match written {
        Some(written) => format!(
            "has {} at character {character}, which names no variable: there are input.<field>, \
             <step>.output, env.<NAME>, meta.templateName and meta.executionId",
            shortened(written, 64)
        ),
        None => format!("has {{{{ at character {character} without its }}}}"),
    }
}

/// What the inside of a `{{…}}` names, if it names anything. Spaces around it are allowed.
#[must_use]
pub fn reference(inside: &str) -> Option<Reference> {
    let mut segments = inside.trim().split('.');
    let first = segments.next()?;
    let second = segments.next()?;
    let path: Vec<String> = segments.map(str::to_owned).collect();
    if !path.iter().map(String::as_str).chain([first, second]).all(is_segment) {
        return None;
    }
    match (first, second) {
        ("input", field) => Some(Reference::Input { field: field.to_owned(), path }),
        ("env", name) if path.is_empty() => Some(Reference::Env(name.to_owned())),
        ("meta", name) if path.is_empty() => {
            Meta::ALL.into_iter().find(|meta| meta.as_str() == name).map(Reference::Meta)
        }
        ("env" | "meta", _) => None,
        (step, "output") => Some(Reference::Output { step: step.to_owned(), path }),
        (_, _) => None,
    }
}

fn is_segment(segment: &str) -> bool {
    let of_names = |character: char| character.is_alphanumeric() || matches!(character, '_' | '-');
    !segment.is_empty() && segment.chars().all(of_names)
}

fn is_triple(rest: &[u8]) -> bool {
    rest.starts_with(b"{{{") && rest.get(3) != Some(&b'{')
}

fn find(source: &str, from: usize, end: usize, pair: &str) -> Option<usize> {
    source[from..end].find(pair).map(|found| from + found)
}
