//! Characters that a terminal or a log must not receive from outside.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Control characters, and those that turn the direction of text (Unicode's property `Bidi_Control`) or break
/// its lines.
#[must_use]
pub fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// A JSON text in which every unsafe character of a string is escaped: the same value, and nothing that could
/// command a terminal, turn its text or break its lines. Serializers leave DEL, C1 and the rest as they are.
#[must_use]
pub fn safe_json(text: &str) -> String {
    // Outside of strings, JSON has no characters beyond ASCII; below DEL, strings have escapes already.
    let is_raw = |character: char| is_unsafe(character) && character >= '\u{7f}';
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if is_raw(character) {
            // Each of them is in the basic plane, so one escape is enough.
            let _ = write!(safe, "\\u{:04x}", u32::from(character));
        } else {
            safe.push(character);
        }
    }
    safe
}

/// A JSON text without the line breaks that only Unicode knows (U+0085, U+2028, U+2029): the same value, and
/// one line for every reader.
#[must_use]
pub fn line_json(text: &str) -> Cow<'_, str> {
    const BREAKS: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];
    if text.is_ascii() || !text.contains(BREAKS) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len() + 16);
    for part in text.split_inclusive(BREAKS) {
        let found = part.chars().next_back().filter(|last| BREAKS.contains(last));
        line.push_str(found.map_or(part, |found| &part[..part.len() - found.len_utf8()]));
        if let Some(found) = found {
            let _ = write!(line, "\\u{:04x}", u32::from(found));
        }
    }
    Cow::Owned(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_one_line_for_every_reader() {
        let json = "{\"a\":\"x\u{2028}y\u{2029}\u{85}ü\u{202e}\",\"b\":\"\u{2028}\"}";
        let expected = "{\"a\":\"x\\u2028y\\u2029\\u0085ü\u{202e}\",\"b\":\"\\u2028\"}";
        assert_eq!(line_json(json), expected);
        for plain in ["{}", "{\"a\":\"ü€🦀\"}"] {
            assert!(matches!(line_json(plain), Cow::Borrowed(same) if same == plain));
        }
    }

    #[test]
    fn every_bidi_control_is_unsafe_and_letters_of_both_directions_are_not() {
        let bidi = "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}";
        assert!(bidi.chars().all(is_unsafe));
        assert!(('\u{0}'..='\u{1f}').chain('\u{7f}'..='\u{9f}').all(is_unsafe));
        assert!(!"aä€🦀 שלום مرحبا\u{a0}\u{200d}".chars().any(is_unsafe));
    }

    #[test]
    fn json_stays_the_same_value_and_commands_no_terminal() {
        let json = "{\n  \"a\": \"\\u001b \u{7f}\u{85}\u{9b}31m\u{202e}\u{2028} ä🦀\"\n}";
        let safe = safe_json(json);
        assert_eq!(safe, "{\n  \"a\": \"\\u001b \\u007f\\u0085\\u009b31m\\u202e\\u2028 ä🦀\"\n}");
        assert_eq!(safe_json(&safe), safe);
    }
}
