//! Halves of surrogate pairs among the escapes of a JSON text. Programs that cut texts by UTF-16 units
//! write them alone, and no parser takes them so (RFC 8259, section 8.2).

use std::borrow::Cow;

/// The text with a character of `of` in place of each escape of a lone half.
#[must_use]
pub fn replaced(json: &str, of: impl Fn(u16) -> char) -> Cow<'_, str> {
    let mut kept = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = json[at..].find('\\') {
        at += found;
        let Some(unit) = escape(&json[at..]) else {
            // The backslash and the character that it escapes, which may be a backslash too.
            at += 1 + json[at + 1..].chars().next().map_or(0, char::len_utf8);
            continue;
        };
        let is_pair = matches!(unit, 0xD800..0xDC00)
            && matches!(escape(&json[at + 6..]), Some(0xDC00..0xE000));
        if !is_pair && matches!(unit, 0xD800..0xE000) {
            kept.push_str(&json[copied..at]);
            kept.push(of(unit));
            copied = at + 6;
        }
        at += if is_pair { 12 } else { 6 };
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    kept.push_str(&json[copied..]);
    Cow::Owned(kept)
}

/// The unit of the escape at the beginning of the text: `\u` and four digits.
fn escape(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hex.then(|| u16::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_halves_are_replaced_and_pairs_stay() {
        let of = |unit| if unit < 0xDC00 { 'H' } else { 'L' };
        for (json, expected) in [
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""a\ud83d""#, r#""aH""#),
            (r#""\uDE00b""#, r#""Lb""#),
            (r#""\ud83d\ud83d\ude00""#, r#""H\ud83d\ude00""#),
            (r#""\ude00\ud83d""#, r#""LH""#),
            (r#""\\ud83d \u00e4 \n""#, r#""\\ud83d \u00e4 \n""#),
            (r#""\\\ud83d""#, r#""\\H""#),
            (r#""\ud83""#, r#""\ud83""#),
            (r#""\u+d83""#, r#""\u+d83""#),
            ("\\", "\\"),
            ("\\ü\\ud8\u{fc}0", "\\ü\\ud8\u{fc}0"),
        ] {
            assert_eq!(replaced(json, of), expected, "{json}");
        }
    }
}
