//! The scanner for `{{…}}`, in one pass.
//!
//! The last two of three opening braces count: `{{{input.x}}}` is `{`, the input and `}`, as in a
//! prompt that contains JSON. Deliberately absent: escapes. A literal `{{` can be passed as an input.

use super::{Meta, Part, Reference};
use crate::problem::shortened;

/// The most faults reported for one text.
pub const MAX_FAULTS: usize = 20;

/// The parts of a text in order, and the faults (rule `placeholder`), which are literals.
pub(super) fn scan(source: &str, item: Option<&str>) -> (Vec<Part>, Vec<String>) {
    let mut parts = Vec::new();
    let mut faults = Vec::new();
    let mut literal = 0;
    let mut at = 0;
    while let Some(open) = find(source, at, source.len(), "{{") {
        let open = if is_triple(&source.as_bytes()[open..]) { open + 1 } else { open };
        let (end, read) = placeholder(source, open, item);
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
                faults.push(message(character, written));
                if faults.len() == MAX_FAULTS {
                    break;
                }
            }
        }
        at = end;
    }
    if literal < source.len() {
        parts.push(Part::Literal(literal..source.len()));
    }
    (parts, faults)
}

/// The placeholder that opens at `open`: its end and its reference. Otherwise its text, or `None` if
/// it is not closed before the next placeholder or the end.
fn placeholder<'s>(
    source: &'s str,
    open: usize,
    item: Option<&str>,
) -> (usize, Result<Reference, Option<&'s str>>) {
    let start = open + 2;
    let closes = find(source, start, source.len(), "}}");
    let opens = find(source, start, closes.unwrap_or(source.len()), "{{");
    match (closes, opens) {
        (Some(close), None) => {
            let end = close + 2;
            let inside = &source[start..close];
            let found = of_item(inside, item).or_else(|| reference(inside));
            (end, found.ok_or(Some(&source[open..end])))
        }
        (Some(_) | None, Some(again)) => (again, Err(None)),
        (None, None) => (source.len(), Err(None)),
    }
}

fn message(character: usize, written: Option<&str>) -> String {
    match written {
        Some(written) => format!(
            "has {} at character {character}, which is not a variable; variables are \
             input.<field>, <step>.output, env.<NAME>, meta.templateName and meta.executionId",
            shortened(written, 64)
        ),
        None => format!("has {{{{ at character {character} without a closing }}}}"),
    }
}

/// The reference between `{{` and `}}`; `None` if it is not a variable. Spaces around it are allowed.
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
        ("meta", name) if path.is_empty() => Meta::parse(name).map(Reference::Meta),
        ("env" | "meta", _) => None,
        (step, "output") => Some(Reference::Output { step: step.to_owned(), path }),
        (_, _) => None,
    }
}

/// The reference to an item, or into it, if that is the name of the item's variable.
fn of_item(inside: &str, item: Option<&str>) -> Option<Reference> {
    let name = item?;
    let mut segments = inside.trim().split('.');
    segments.next().filter(|first| *first == name)?;
    let path: Vec<String> = segments.map(str::to_owned).collect();
    let is_path = path.iter().map(String::as_str).all(is_segment);
    is_path.then(|| Reference::Item { name: name.to_owned(), path })
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
