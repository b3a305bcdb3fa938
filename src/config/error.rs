//! The fault of a setting: its name, its place, the rule that it breaks.

use std::fmt;

/// A setting that cannot be taken. Its text is one line for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {says}")]
pub struct Error {
    /// The place of the setting.
    pub place: Place,
    /// The fault and the rule.
    pub says: String,
}

/// The place of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A flag, such as `--listen`.
    Flag(&'static str),
    /// An environment variable.
    Variable(String),
    /// A line of a file, counted from 1; none where the file as a whole is meant.
    Line(String, Option<usize>),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => f.write_str(flag),
            Self::Variable(name) => f.write_str(name),
            Self::Line(file, Some(line)) => write!(f, "{file} line {line}"),
            Self::Line(file, None) => f.write_str(file),
        }
    }
}
