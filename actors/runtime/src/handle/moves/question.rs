//! The questions of a cell that a project comes to, and their form in a URL.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use callboard_domain::id::Mode;

/// A question about a project that leaves a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// The version of the rows, and the keys.
    Head,
    /// The rows behind a place.
    Rows(Mode, Vec<u8>),
    /// The records of events behind a number.
    Events(Mode, u64),
    /// The digest of the rows behind a place.
    DigestOfRows(Mode, Vec<u8>),
    /// The digest of the records behind a number.
    DigestOfEvents(Mode, u64),
}

pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a string takes every write");
    }
    text
}

/// The form in a URL: `head`, `rows.live.8000ff`, `events.test.17`, `digest-of-rows.live.`.
impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Head => f.write_str("head"),
            Self::Rows(mode, place) => write!(f, "rows.{}.{}", mode.as_str(), hex(place)),
            Self::Events(mode, after) => write!(f, "events.{}.{after}", mode.as_str()),
            Self::DigestOfRows(mode, place) => {
                write!(f, "digest-of-rows.{}.{}", mode.as_str(), hex(place))
            }
            Self::DigestOfEvents(mode, after) => {
                write!(f, "digest-of-events.{}.{after}", mode.as_str())
            }
        }
    }
}

/// The text is no question.
#[derive(Debug, PartialEq, Eq)]
pub struct NoQuestion;

impl FromStr for Question {
    type Err = NoQuestion;

    fn from_str(text: &str) -> Result<Self, NoQuestion> {
        if text == "head" {
            return Ok(Self::Head);
        }
        let mut parts = text.splitn(3, '.');
        let mut next = || parts.next().ok_or(NoQuestion);
        let (what, mode, rest) = (next()?, next()?, next()?);
        let mode = Mode::ALL.into_iter().find(|one| one.as_str() == mode).ok_or(NoQuestion)?;
        let number = || rest.parse().map_err(|_| NoQuestion);
        match what {
            "rows" => Ok(Self::Rows(mode, bytes_of(rest)?)),
            "events" => Ok(Self::Events(mode, number()?)),
            "digest-of-rows" => Ok(Self::DigestOfRows(mode, bytes_of(rest)?)),
            "digest-of-events" => Ok(Self::DigestOfEvents(mode, number()?)),
            _ => Err(NoQuestion),
        }
    }
}

fn bytes_of(hex: &str) -> Result<Vec<u8>, NoQuestion> {
    let pairs = hex.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(|pair| byte(pair).filter(|_| pair.len() == 2).ok_or(NoQuestion)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_survive_a_url() {
        for question in [
            Question::Head,
            Question::Rows(Mode::Live, vec![0x80, 0, 0xff]),
            Question::Rows(Mode::Test, Vec::new()),
            Question::Events(Mode::Test, 17),
            Question::DigestOfRows(Mode::Live, Vec::new()),
            Question::DigestOfEvents(Mode::Live, 0),
        ] {
            assert_eq!(question.to_string().parse(), Ok(question));
        }
        for text in ["", "rows", "rows.live", "rows.live.8", "rows.x.80", "events.live.x"] {
            assert_eq!(text.parse::<Question>(), Err(NoQuestion), "{text}");
        }
    }
}
