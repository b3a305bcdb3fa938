//! The code by which a user compares a program that wants to sign in with the page that asks about it.
//!
//! Both derive it from the challenge of the sign-in (RFC 7636), which only the program could make. Another program on
//! the same machine, which somebody lured the user to sign in, has another challenge and so shows another code, or
//! none.

use crate::digest::Digest;

/// The letters and digits of a code: none that is easily taken for another (Crockford's base 32).
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// The characters of a code, 60 bits: too many to find a challenge with the same code within the ten minutes
/// of a sign-in.
const LENGTH: usize = 12;

/// The code of a challenge: three groups of four characters, such as `7Q2M-0KXV-93TB`.
#[must_use]
pub fn comparison_code(challenge: &str) -> String {
    let digest = Digest::of(&format!("callboard sign-in {challenge}"));
    let mut code = String::with_capacity(LENGTH + 2);
    let bits = digest.as_bytes().iter().take(8).fold(0, |bits, byte| bits << 8 | u64::from(*byte));
    for index in 0..LENGTH {
        if index > 0 && index % 4 == 0 {
            code.push('-');
        }
        let letter = bits >> (59 - 5 * index) & 31;
        code.push(char::from(ALPHABET[usize::from(letter.to_le_bytes()[0])]));
    }
    code
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_code_is_short_plain_and_of_its_challenge_alone() {
        let codes: HashSet<_> =
            (0..1_000).map(|number| comparison_code(&format!("challenge {number}"))).collect();
        assert_eq!(codes.len(), 1_000);
        for code in codes {
            let groups: Vec<_> = code.split('-').collect();
            assert!(groups.len() == 3 && groups.iter().all(|group| group.len() == 4), "{code}");
            let is_plain = |it: char| it == '-' || ALPHABET.contains(&(it as u8));
            assert!(code.chars().all(is_plain), "{code}");
        }
        assert_eq!(comparison_code("x"), comparison_code("x"));
    }
}
