//! The translation of a condition with `{{…}}` to plain CEL.
//!
//! A placeholder becomes the variable that it names, so that no value is ever parsed as code. Inside a string or a
//! comment it stays as written. Brackets and chains of operators are counted here, before parsing, so that no nesting
//! can exhaust the parser's stack.

use std::fmt::Write as _;

use serde_json::Value;

use super::MAX_DEPTH;
use crate::problem::shortened;
use crate::render::{Content, Reference, meta_variables, placeholder, way_out};

/// Words that CEL refuses as the name of a member.
#[rustfmt::skip]
const RESERVED: [&str; 21] = [
    "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in",
    "let", "loop", "namespace", "null", "package", "return", "true", "var", "void", "while",
];

/// The plain CEL, or the fault.
pub(super) fn translate(source: &str) -> Result<String, String> {
    let mut text = String::with_capacity(source.len() + 16);
    let mut nesting = Nesting::default();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        if rest.starts_with("{{") {
            let (end, content) = placeholder(rest, 0, &[]);
            text.push_str(&match content {
                Ok(Content::Reference(reference)) => variable(reference, &rest[..end])?,
                Ok(Content::Text(_)) => return Err(unknown(&rest[..end])),
                Err(written) => return Err(written.map_or_else(unclosed, unknown)),
            });
            rest = &rest[end..];
            continue;
        }
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else {
            literal(rest).unwrap_or_else(|| operator(rest).unwrap_or(first.len_utf8()))
        };
        let (token, after) = rest.split_at(length);
        if !nesting.takes(token) {
            return Err(format!("must not be nested deeper than {MAX_DEPTH}"));
        }
        text.push_str(token);
        rest = after;
    }
    Ok(text)
}

/// The nesting depth: the open brackets, and within each bracket the operators of one chain, which
/// nest in the syntax tree. `&&` and `||` start a new chain: their trees are balanced.
#[derive(Default)]
struct Nesting {
    outer: Vec<usize>,
    chain: usize,
}

impl Nesting {
    fn takes(&mut self, token: &str) -> bool {
        match token {
            "(" | "[" | "{" => self.outer.push(std::mem::take(&mut self.chain)),
            ")" | "]" | "}" => self.chain = self.outer.pop().unwrap_or(0),
            "&&" | "||" | "," => self.chain = 0,
            "in" | "+" | "-" | "*" | "/" | "%" | "?" | "!" | "<" | ">" | "<=" | ">=" | "=="
            | "!=" => self.chain += 1,
            _ => {}
        }
        self.outer.len() <= MAX_DEPTH && self.outer.iter().sum::<usize>() + self.chain <= MAX_DEPTH
    }
}

/// The length of the operator of two characters at the start of a text.
fn operator(rest: &str) -> Option<usize> {
    ["&&", "||", "<=", ">=", "==", "!="].iter().any(|two| rest.starts_with(two)).then_some(2)
}

/// The length of the name or string literal at the start of a text. A name is read to its end, so
/// that a quote after it starts a plain string unless the name is a string prefix.
fn literal(rest: &str) -> Option<usize> {
    let of_names = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let name = rest.bytes().take_while(|byte| of_names(byte)).count();
    let prefix = &rest[..name];
    let is_prefix = ["", "r", "b", "rb", "br"].contains(&prefix.to_ascii_lowercase().as_str());
    let quoted = &rest[name..];
    let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| quoted.starts_with(quote));
    let (Some(quote), true) = (quote, is_prefix) else { return (name > 0).then_some(name) };
    let raw = prefix.contains(['r', 'R']);
    let mut at = name + quote.len();
    while at < rest.len() {
        if rest[at..].starts_with(quote) {
            return Some(at + quote.len());
        }
        let first = rest[at..].chars().next().map_or(1, char::len_utf8);
        let escaped = !raw && rest[at..].starts_with('\\');
        let second = rest[at + first..].chars().next().filter(|_| escaped);
        at += first + second.map_or(0, char::len_utf8);
    }
    Some(rest.len())
}

fn unclosed() -> String {
    "has {{ without a closing }}".to_owned()
}

fn unknown(written: &str) -> String {
    format!(
        "has {}, which is not a variable of conditions; {}variables are input.<field>, \
         <step>.output, {}",
        shortened(written, 64),
        way_out(written, &[]),
        meta_variables()
    )
}

fn variable(reference: Reference, written: &str) -> Result<String, String> {
    let mut text = String::new();
    let path = match reference {
        Reference::Input { field, path } => {
            text.push_str("input");
            named(&mut text, &field);
            path
        }
        Reference::Output { step, path } => {
            let value = if path.is_empty() { "output" } else { "json" };
            let _ = write!(text, "steps[\"{step}\"].{value}");
            path
        }
        Reference::Meta(meta) => {
            let _ = write!(text, "meta.{}", meta.as_str());
            Vec::new()
        }
        Reference::Env(_) | Reference::Item { .. } => return Err(unknown(written)),
    };
    for segment in &path {
        member(&mut text, segment);
    }
    Ok(text)
}

/// Appends a member of a map, or an item of a list if the name is a number.
fn member(text: &mut String, name: &str) {
    if name.parse::<u32>().is_ok() {
        let _ = write!(text, "[{}]", name.trim_start_matches('0').parse().unwrap_or(0_u32));
    } else {
        named(text, name);
    }
}

/// Appends a member of a map. The escapes of JSON are escapes of CEL.
fn named(text: &mut String, name: &str) {
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_word = is_name && !name.starts_with(|first: char| first.is_ascii_digit());
    let _ = if is_word && !RESERVED.contains(&name) {
        write!(text, ".{name}")
    } else {
        write!(text, "[{}]", Value::from(name))
    };
}
