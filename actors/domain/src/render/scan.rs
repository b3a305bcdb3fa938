//! The scanner for `{{…}}`, in one pass.
//!
//! ```text
//! {{ input.name["First name"].0 }}   a variable: names with dots between them, or in brackets and quotes
//! {{"{{"}}                           the text in the quotes, which has no escapes
//! ```
//!
//! The last two of three opening braces count: `{{{input.x}}}` is `{`, the input and `}`, as in a
//! prompt that contains JSON. Deliberately absent: a backslash before `{{`, which is text as any other.

use std::ops::Range;

use super::members::normal;
use super::{Meta, Part, Reference};
use crate::grammar::is_letter;
use crate::problem::shortened;

/// The most faults reported for one text.
pub const MAX_FAULTS: usize = 20;

/// The longest placeholder for which a fault says how it should be written, in bytes.
const MAX_SUGGESTED: usize = 256;

/// The way to write `{{` as text, at the end of a fault.
const ESCAPE: &str = "to write {{ as text, write {{\"{{\"}}";

/// The content of a placeholder.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A variable.
    Reference(Reference),
    /// A text, by its place in the source.
    Text(Range<usize>),
}

/// The parts of a text in order, and the faults (rule `placeholder`), which are literals.
pub(super) fn scan(source: &str, items: &[&str]) -> (Vec<Part>, Vec<String>) {
    let mut parts = Vec::new();
    let mut faults = Vec::new();
    let mut literal = 0;
    let mut at = 0;
    while let Some(open) = find(source, at, source.len(), "{{") {
        let open = if is_triple(&source.as_bytes()[open..]) { open + 1 } else { open };
        let (end, read) = placeholder(source, open, items);
        match read {
            Ok(content) => {
                if literal < open {
                    parts.push(Part::Literal(literal..open));
                }
                parts.push(match content {
                    Content::Reference(reference) => Part::Reference(open..end, reference),
                    Content::Text(range) => Part::Literal(range),
                });
                literal = end;
            }
            Err(written) => {
                let character = source[..open].chars().count() + 1;
                faults.push(message(character, written, items));
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

/// The placeholder that opens at `open`: its end and its content. Otherwise its text, or `None` if
/// it is not closed before the next placeholder or the end.
pub(crate) fn placeholder<'s>(
    source: &'s str,
    open: usize,
    items: &[&str],
) -> (usize, Result<Content, Option<&'s str>>) {
    let start = open + 2;
    let mut cursor = Cursor { source, at: start };
    if let Some(content) = cursor.content(items)
        && cursor.take("}}").is_some()
    {
        return (cursor.at, Ok(content));
    }
    let closes = find(source, start, source.len(), "}}");
    let opens = find(source, start, closes.unwrap_or(source.len()), "{{");
    match (closes, opens) {
        (Some(close), None) => (close + 2, Err(Some(&source[open..close + 2]))),
        (Some(_) | None, Some(again)) => (again, Err(None)),
        (None, None) => (source.len(), Err(None)),
    }
}

fn message(character: usize, written: Option<&str>, items: &[&str]) -> String {
    let Some(written) = written else {
        return format!("has {{{{ at character {character} without a closing }}}}; {ESCAPE}");
    };
    let shown = shortened(written, 64);
    let way_out = way_out(written, items);
    let more = items.iter().fold(String::new(), |more, item| more + ", " + item);
    format!(
        "has {shown} at character {character}, which is not a variable; {way_out}variables are \
         input.<field>, <step>.output, env.<NAME>, {}{more}; {ESCAPE}",
        meta_variables()
    )
}

/// The variables of the run, in a sentence.
pub(crate) fn meta_variables() -> String {
    Meta::ALL.map(|meta| format!("meta.{meta}")).join(", ")
}

/// The placeholder that is probably meant, in a sentence that goes on.
pub(crate) fn way_out(written: &str, items: &[&str]) -> String {
    let inside = written.trim_start_matches('{').trim_end_matches('}').trim();
    if inside.len() > MAX_SUGGESTED {
        return String::new();
    }
    let name = |part: &str| normal(part.trim().trim_matches(['"', '\''])).into_owned();
    let mut names: Vec<_> = inside.split('.').map(name).collect();
    if names.iter().any(String::is_empty) {
        return String::new();
    }
    if let [only] = names.as_slice() {
        return if is_bare(only) && !["input", "env", "meta"].contains(&only.as_str()) {
            format!("for a field of the input, write {{{{input.{only}}}}}; ")
        } else {
            String::new()
        };
    }
    let meant = is_bare(&names[0]).then(|| of_names(&mut names, items)).flatten();
    meant.map_or_else(String::new, |meant| {
        format!("a name with blanks, dots or other signs has quotes: write {{{{{meant}}}}}; ")
    })
}

/// The reference between `{{` and `}}`; `None` if it is not a variable. Spaces around it are allowed.
#[must_use]
pub fn reference(inside: &str) -> Option<Reference> {
    let mut cursor = Cursor { source: inside, at: 0 };
    match cursor.content(&[])? {
        Content::Reference(reference) if cursor.rest().is_empty() => Some(reference),
        Content::Reference(_) | Content::Text(_) => None,
    }
}

/// The variable of these names, which are in NFC. An item's variable hides all others of its name.
fn of_names(names: &mut Vec<String>, items: &[&str]) -> Option<Reference> {
    let first = names.first()?;
    if items.contains(&first.as_str()) {
        let name = names.remove(0);
        return Some(Reference::Item { name, path: std::mem::take(names) });
    }
    let path = names.get(2..)?.to_vec();
    match (names[0].as_str(), names[1].as_str()) {
        ("input", field) => Some(Reference::Input { field: field.to_owned(), path }),
        ("env", name) if path.is_empty() => Some(Reference::Env(name.to_owned())),
        ("meta", name) if path.is_empty() => Meta::parse(name).map(Reference::Meta),
        ("env" | "meta", _) => None,
        (step, "output") => Some(Reference::Output { step: step.to_owned(), path }),
        (_, _) => None,
    }
}

/// True for a name that needs no quotes.
pub(super) fn is_bare(name: &str) -> bool {
    !name.is_empty() && name.chars().all(is_of_names)
}

fn is_of_names(character: char) -> bool {
    is_letter(character) || matches!(character, '_' | '-')
}

/// The place that was read up to.
struct Cursor<'s> {
    source: &'s str,
    at: usize,
}

impl<'s> Cursor<'s> {
    fn rest(&self) -> &'s str {
        &self.source[self.at..]
    }

    fn take(&mut self, token: &str) -> Option<()> {
        self.rest().starts_with(token).then(|| self.at += token.len())
    }

    fn blanks(&mut self) {
        self.at = self.source.len() - self.rest().trim_start().len();
    }

    /// A text in quotes, or a variable; with the blanks around it.
    fn content(&mut self, items: &[&str]) -> Option<Content> {
        self.blanks();
        let content = match self.text() {
            Some(range) => Content::Text(range),
            None => Content::Reference(of_names(&mut self.names()?, items)?),
        };
        self.blanks();
        Some(content)
    }

    /// A text in quotes, without escapes.
    fn text(&mut self) -> Option<Range<usize>> {
        let quote = self.rest().chars().next().filter(|first| matches!(first, '"' | '\''))?;
        let start = self.at + 1;
        let end = start + self.source[start..].find(quote)?;
        self.at = end + 1;
        Some(start..end)
    }

    /// The names of a path.
    fn names(&mut self) -> Option<Vec<String>> {
        let mut names = vec![self.bare()?];
        loop {
            if self.take(".").is_some() {
                names.push(self.bare()?);
            } else if self.take("[").is_some() {
                self.blanks();
                names.push(self.quoted().or_else(|| self.number())?);
                self.blanks();
                self.take("]")?;
            } else {
                return Some(names);
            }
        }
    }

    fn bare(&mut self) -> Option<String> {
        self.while_it(is_of_names).map(|name| normal(name).into_owned())
    }

    fn number(&mut self) -> Option<String> {
        self.while_it(|it| it.is_ascii_digit()).map(str::to_owned)
    }

    fn while_it(&mut self, fits: impl Fn(char) -> bool) -> Option<&'s str> {
        let rest = self.rest();
        let end = rest.find(|it| !fits(it)).unwrap_or(rest.len());
        self.at += end;
        (end > 0).then(|| &rest[..end])
    }

    /// A name in quotes, in which a backslash keeps a quote or a backslash.
    fn quoted(&mut self) -> Option<String> {
        let mut rest = self.rest().char_indices();
        let (_, quote) = rest.next().filter(|(_, first)| matches!(first, '"' | '\''))?;
        let mut name = String::new();
        while let Some((at, character)) = rest.next() {
            match character {
                '\\' => {
                    name.push(rest.next().map(|(_, it)| it).filter(|it| "\"'\\".contains(*it))?);
                }
                _ if character == quote => {
                    self.at += at + 1;
                    return Some(normal(&name).into_owned());
                }
                _ => name.push(character),
            }
        }
        None
    }
}

fn is_triple(rest: &[u8]) -> bool {
    rest.starts_with(b"{{{") && rest.get(3) != Some(&b'{')
}

fn find(source: &str, from: usize, end: usize, pair: &str) -> Option<usize> {
    source[from..end].find(pair).map(|found| from + found)
}
