//! Characters that a terminal or a log must not receive from outside.

/// Control characters, and those that turn the direction of text or break its lines.
#[must_use]
pub fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
