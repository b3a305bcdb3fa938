//! Members that are absent: where a path ends, and the message that says so.
//!
//! Deliberately absent: values. A message has the names that the condition has, and kinds.

use super::program::Node;
use super::value::Value;
use crate::problem::shortened;

/// The value of a path.
pub(super) enum Found<'a> {
    Value(Value<'a>),
    /// The value has no such part.
    Absent {
        /// The node of the part.
        at: &'a Node,
        /// The value that should have it.
        of: Value<'a>,
    },
}

/// The reason why a part is absent, and the way out.
pub(super) fn message(at: &Node, of: &Value<'_>, is_skipped: impl Fn(&str) -> bool) -> String {
    let whole = if let Node::Member(whole, _) = at {
        whole
    } else if let Node::Index(pair) = at {
        &pair[0]
    } else {
        at
    };
    let why = match (whole, of) {
        (Node::Json(step), Value::Null) if is_skipped(step) => {
            format!(": step {step} was skipped")
        }
        (Node::Json(step), Value::Null) => {
            format!(": the output of step {step} is not JSON, or null")
        }
        (_, Value::Map(_) | Value::MadeMap(_)) => String::new(),
        (_, Value::List(_) | Value::MadeList(_)) => {
            format!(": {} is a list of {} items", path(whole), of.len().unwrap_or(0))
        }
        (_, of) => format!(": {} is {}", path(whole), of.kind()),
    };
    let part = path(at);
    format!("{part} is absent{why}; has({part}) is false then, and can be asked first")
}

/// The path as a condition writes it.
fn path(node: &Node) -> String {
    let path = match node {
        Node::Input => "input".to_owned(),
        Node::Output(step) => format!("steps[{step:?}].output"),
        Node::Json(step) => format!("steps[{step:?}].json"),
        Node::Item(name) => name.clone(),
        Node::Member(of, name) if is_word(name) => format!("{}.{name}", path(of)),
        Node::Member(of, name) => format!("{}[{name:?}]", path(of)),
        Node::Index(pair) => format!("{}[{}]", path(&pair[0]), index(&pair[1])),
        Node::Null
        | Node::Bool(_)
        | Node::Number(_)
        | Node::Text(_)
        | Node::Bytes(_)
        | Node::Type(_)
        | Node::Status(_)
        | Node::Meta(_)
        | Node::Has(_)
        | Node::Not(_)
        | Node::Negate(_)
        | Node::And(_)
        | Node::Or(_)
        | Node::If(_)
        | Node::Binary(..)
        | Node::Call(..)
        | Node::Matches(..)
        | Node::List(_)
        | Node::Map(_)
        | Node::Iterate(..) => "(…)".to_owned(),
    };
    shortened(&path, 200)
}

fn index(node: &Node) -> String {
    if let Node::Number(number) = node { number.text() } else { "…".to_owned() }
}

fn is_word(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
