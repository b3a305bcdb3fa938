//! Options of a client command that stand before the command: `callboard -o json tasks list`.
//!
//! Such options belong to the commands that talk to a server, so the line is read as if they stood
//! behind the command; a command without such options refuses them by itself.

use std::ffi::{OsStr, OsString};

use clap::{Arg, Args as _, Command};

use crate::access::Access;

/// The line with the options of `Access` behind the command.
#[must_use]
pub fn moved(line: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let access = Access::augment_args(Command::new("access"));
    let mut rest = line.into_iter();
    let mut moved: Vec<OsString> = rest.next().into_iter().collect();
    let mut early = Vec::new();
    while let Some(word) = rest.next() {
        match Word::read(&access, &word) {
            Word::Other => {
                moved.push(word);
                break;
            }
            Word::Whole => early.push(word),
            Word::Expects => {
                early.push(word);
                early.extend(rest.next());
            }
        }
    }
    moved.extend(early);
    moved.extend(rest);
    moved
}

/// The role of an argument before the command.
enum Word {
    /// One or more options, with their values.
    Whole,
    /// An option whose value is the next word.
    Expects,
    /// The command, or another word that is no such option.
    Other,
}

impl Word {
    fn read(access: &Command, word: &OsStr) -> Self {
        let Some(word) = word.to_str() else { return Self::Other };
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = long.split_once('=').map_or((long, None), |(n, v)| (n, Some(v)));
            return match access.get_arguments().find(|option| option.get_long() == Some(name)) {
                Some(option) if takes_value(option) && value.is_none() => Self::Expects,
                Some(_) => Self::Whole,
                None => Self::Other,
            };
        }
        let Some(shorts) = word.strip_prefix('-').filter(|shorts| !shorts.is_empty()) else {
            return Self::Other;
        };
        for (at, short) in shorts.char_indices() {
            match access.get_arguments().find(|option| option.get_short() == Some(short)) {
                Some(option) if takes_value(option) => {
                    let is_last = at + short.len_utf8() == shorts.len();
                    return if is_last { Self::Expects } else { Self::Whole };
                }
                Some(_) => {}
                None => return Self::Other,
            }
        }
        Self::Whole
    }
}

fn takes_value(option: &Arg) -> bool {
    option.get_action().takes_values()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(line: &str) -> String {
        let words = super::moved(line.split(' ').map(OsString::from));
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn options_before_the_command_are_read_behind_it() {
        for (line, expected) in [
            ("callboard -o json tasks list", "callboard tasks -o json list"),
            ("callboard -ojson -q tasks list", "callboard tasks -ojson -q list"),
            ("callboard -qo json tasks", "callboard tasks -qo json"),
            ("callboard --server http://a:1 doctor", "callboard doctor --server http://a:1"),
            (
                "callboard --output=jsonl tasks list -o json",
                "callboard tasks --output=jsonl list -o json",
            ),
            ("callboard tasks list -o json", "callboard tasks list -o json"),
            ("callboard --version", "callboard --version"),
            ("callboard -o json --help", "callboard --help -o json"),
            ("callboard -o", "callboard -o"),
            ("callboard", "callboard"),
        ] {
            assert_eq!(moved(line), expected);
        }
    }
}
