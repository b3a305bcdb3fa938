//! The password rules (docs/reference/accounts.md): long enough, not a common password, not the e-mail.
//!
//! Deliberately absent: rules about kinds of characters, which make passwords worse, and Unicode
//! normalisation: the typed text is the hashed text.

use super::Email;
use crate::error::Error;

/// The lowest minimum length that can be configured, in characters.
pub const SHORTEST: usize = 8;

/// The longest password, in characters.
pub const LONGEST: usize = 128;

/// One password a line, in lower case, none shorter than [`SHORTEST`]; a line that begins with `#`
/// names the source.
const COMMON: &str = include_str!("common_passwords.txt");

/// The rules with the configured minimum length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    minimum: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self { minimum: SHORTEST }
    }
}

impl Rules {
    /// The rules with another minimum, in characters: `None` outside [`SHORTEST`] to [`LONGEST`].
    #[must_use]
    pub fn with_minimum(minimum: usize) -> Option<Self> {
        (SHORTEST..=LONGEST).contains(&minimum).then_some(Self { minimum })
    }

    /// Passes if the user with this e-mail may have this password. Upper and lower case are equal;
    /// spaces count.
    ///
    /// # Errors
    /// [`Error::WeakPassword`], which names the broken rule and never repeats the password.
    pub fn check(self, password: &str, email: &Email) -> Result<(), Error> {
        let length = password.chars().count();
        let lower = password.to_lowercase();
        let local = email.local_part().to_ascii_lowercase();
        let fault = if length < self.minimum {
            format!("must have at least {} characters", self.minimum)
        } else if length > LONGEST {
            format!("must have at most {LONGEST} characters")
        } else if lower == email.key() || lower == local {
            "must not be the e-mail or its part before the @".to_owned()
        } else if COMMON.lines().any(|line| line == lower && !line.starts_with('#')) {
            "must not be one of the most common passwords".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::WeakPassword(fault))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn email() -> Email {
        Email::parse("Ada.Lovelace@Example.com").expect("an e-mail")
    }

    fn fault(rules: Rules, password: &str) -> String {
        match rules.check(password, &email()) {
            Err(Error::WeakPassword(fault)) => fault,
            other => panic!("{password} is accepted: {other:?}"),
        }
    }

    #[test]
    fn a_long_uncommon_password_is_accepted() {
        for password in ["gravel-otter-9", "ülüülüülü", " two  words ", &"a1".repeat(64)] {
            assert_eq!(Rules::default().check(password, &email()), Ok(()), "{password}");
        }
    }

    #[test]
    fn a_length_is_counted_in_characters() {
        assert_eq!(fault(Rules::default(), "xkq7vw2"), "must have at least 8 characters");
        assert_eq!(fault(Rules::default(), "üüüü"), "must have at least 8 characters");
        let long = "q".repeat(129);
        assert_eq!(fault(Rules::default(), &long), "must have at most 128 characters");
        let twelve = Rules::with_minimum(12).expect("within the limits");
        assert_eq!(fault(twelve, "xkq7vw2zzqp"), "must have at least 12 characters");
    }

    #[test]
    fn a_minimum_below_eight_or_above_the_maximum_cannot_be_configured() {
        for minimum in [0, 7, 129] {
            assert_eq!(Rules::with_minimum(minimum), None, "{minimum}");
        }
        assert_eq!(Rules::with_minimum(8), Some(Rules::default()));
    }

    #[test]
    fn a_common_password_is_refused_in_any_case() {
        for password in ["password", "12345678", "PassWord1", "QWERTYUIOP", "changeme"] {
            let fault = fault(Rules::default(), password);
            assert_eq!(fault, "must not be one of the most common passwords", "{password}");
        }
    }

    #[test]
    fn the_email_and_its_first_part_are_refused_in_any_case() {
        for password in ["ada.lovelace@example.com", "ADA.LOVELACE"] {
            let fault = fault(Rules::default(), password);
            assert_eq!(fault, "must not be the e-mail or its part before the @", "{password}");
        }
    }

    #[test]
    fn every_line_of_the_list_can_match() {
        let lines = COMMON.lines().filter(|line| !line.starts_with('#'));
        assert!(lines.clone().count() > 3_000);
        for line in lines {
            assert!(line.chars().count() >= SHORTEST, "{line}");
            assert_eq!(line, line.to_lowercase());
        }
    }
}
