//! The words by which items are found: the start of a word finds what has it.
//!
//! ```text
//!   "customer:K-10241"  ─▶  customer:k-10241   k-10241   10241
//! ```
//!
//! A word is also found from each letter or digit behind a sign.

use std::borrow::Cow;

pub mod texts;

/// The bytes of all words of an item together, and two for each: a row holds them beside all else.
const ROOM: usize = 256;
/// The bytes of a word that count.
const WORD: usize = 32;
/// The words of a search that count.
const ASKED: usize = 8;

/// The words of some texts, each once, in lower case; of long texts only the first ones.
#[must_use]
pub fn words_of<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<String> {
    let wholes: Vec<_> = texts.flat_map(tokens).collect();
    let may_have_signs =
        |word: &&Cow<'_, str>| word.bytes().any(|byte| !byte.is_ascii_alphanumeric());
    let parts = wholes.iter().filter(may_have_signs).flat_map(|word| behind_signs(word));
    let (mut words, mut room) = (Vec::<String>::new(), ROOM);
    for word in wholes.iter().map(AsRef::as_ref).chain(parts) {
        let word = beginning(word);
        if words.iter().any(|known| known == word) {
            continue;
        }
        let Some(left) = room.checked_sub(word.len() + 2) else { break };
        room = left;
        words.push(word.to_owned());
    }
    words
}

/// The beginnings of words that a search asks for: an item has them all.
#[must_use]
pub fn asked(search: &str) -> Vec<String> {
    tokens(search).take(ASKED).map(|word| beginning(&word).to_owned()).collect()
}

fn tokens(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let words = text.split_whitespace().map(|word| lowercase(word.trim_matches(is_sign)));
    words.filter(|word| !word.is_empty())
}

/// The word in lower case, as it stands if it is that.
fn lowercase(word: &str) -> Cow<'_, str> {
    let is_lower = |byte: u8| byte.is_ascii() && !byte.is_ascii_uppercase();
    if word.bytes().all(is_lower) { Cow::Borrowed(word) } else { Cow::Owned(word.to_lowercase()) }
}

fn is_sign(c: char) -> bool {
    !c.is_alphanumeric()
}

/// The ends of a word that begin behind its signs.
fn behind_signs(word: &str) -> impl Iterator<Item = &str> {
    let mut before = false;
    word.char_indices().filter_map(move |(at, c)| {
        let begins = std::mem::replace(&mut before, is_sign(c)) && !is_sign(c);
        begins.then(|| &word[at..])
    })
}

fn beginning(word: &str) -> &str {
    &word[..word.floor_char_boundary(WORD)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_from_each_letter_behind_a_sign() {
        let words = |text| words_of([text].into_iter());
        assert_eq!(words("customer:K-10241"), ["customer:k-10241", "k-10241", "10241"]);
        assert_eq!(words(" (Anna  Müller), claim"), ["anna", "müller", "claim"]);
        assert_eq!(words("a a A --"), ["a"]);
        assert_eq!(asked("K-102 \"Mül"), ["k-102", "mül"]);
        assert!(asked(" - ").is_empty());
    }

    #[test]
    fn long_texts_leave_room_in_a_row() {
        let many: Vec<_> = (0..200).map(|number| format!("wörd-{number}")).collect();
        let text = many.join(" ") + " " + &"ä".repeat(100);
        let words = words_of([text.as_str()].into_iter());
        assert!(words.iter().map(|word| word.len() + 2).sum::<usize>() <= ROOM);
        assert_eq!(words[0], "wörd-0");
        assert_eq!(words_of(["ä".repeat(100).as_str()].into_iter()), ["ä".repeat(16)]);
        assert_eq!(asked(&"ä".repeat(100)), ["ä".repeat(16)], "asked alike");
    }
}
