//! The identity of a template: slug and version.
//!
//! Deliberately absent: pre-releases and ranges; a version is three numbers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// major.minor.patch, ordered as numbers. `01.0.0` is the same version as `1.0.0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version {
    /// The first number, which is part of the template's id.
    pub major: u64,
    /// The second number.
    pub minor: u64,
    /// The third number.
    pub patch: u64,
}

/// A text that is not three numbers separated by dots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be three numbers such as 1.0.0, each of 1 to 18 digits")]
pub struct InvalidVersion;

impl FromStr for Version {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, InvalidVersion> {
        let mut numbers = text.split('.').map(|number| {
            let digits = number.bytes().all(|byte| byte.is_ascii_digit()) && number.len() <= 18;
            if digits { number.parse().map_err(|_| InvalidVersion) } else { Err(InvalidVersion) }
        });
        let mut next = || numbers.next().ok_or(InvalidVersion)?;
        let version = Self { major: next()?, minor: next()?, patch: next()? };
        if numbers.next().is_some() { Err(InvalidVersion) } else { Ok(version) }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The name as lower-case ASCII letters and digits, with one hyphen for each run of other characters;
/// empty without letters and digits.
#[must_use]
pub fn slug(name: &str) -> String {
    let words = name.split(|character: char| !character.is_ascii_alphanumeric());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    words.join("-").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_numbers() {
        let version = |text: &str| text.parse::<Version>().unwrap();
        assert!(version("1.10.0") > version("1.9.9"));
        assert!(version("10.0.0") > version("9.99.99"));
        assert_eq!(version("01.0.0"), version("1.0.0"));
        assert_eq!(version("2.3.4").to_string(), "2.3.4");
        for text in
            ["", "1", "1.0", "1.0.0.0", "1.0.x", "v1.0.0", "1..0", "-1.0.0", "1.0.0 ", "١.0.0"]
        {
            assert_eq!(text.parse::<Version>(), Err(InvalidVersion), "{text}");
        }
        assert!("1.0.9999999999999999999".parse::<Version>().is_err());
    }

    #[test]
    fn a_slug_has_one_hyphen_between_its_words() {
        for (name, expected) in [
            ("Contract Review", "contract-review"),
            ("  Q3 -- Risk/Report! ", "q3-risk-report"),
            ("Prüfung", "pr-fung"),
            ("合同", ""),
        ] {
            assert_eq!(slug(name), expected);
        }
    }
}
