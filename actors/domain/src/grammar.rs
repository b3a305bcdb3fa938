//! The grammar of names: of models, queues and tags.
//!
//! A name reaches people who did not choose it: in their lists, in their terminals, in the completions of
//! their shells. A name of this grammar commands no shell, is no option, and has one reading on the screen; one
//! without spaces is one word of every shell. Deliberately absent: names that an older version took, which go on
//! (the edge asks whether one is known); and texts that are no names: titles, descriptions, flow keys.

use std::cmp::Ordering;
use std::sync::LazyLock;

use regex_syntax::hir::{Class, ClassUnicode, HirKind};

/// The characters of a name besides letters, marks and digits.
const SIGNS: &str = "._-/:@+= ";
/// The signs with which a name may begin.
const FIRST: &str = "_@/";

/// The kind of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A model.
    Model,
    /// A queue.
    Queue,
    /// A tag.
    Tag,
}

/// The reason why a text is no name, which follows the name of its field; `None` if it is one. The length is
/// not looked at.
#[must_use]
pub fn fault(text: &str) -> Option<String> {
    let (first, last) = (text.chars().next()?, text.chars().next_back()?);
    if !is_letter(first) && !FIRST.contains(first) {
        return Some(format!("must begin with a letter, a digit, _, @ or /, not {first:?}"));
    }
    let fits = |it: char| is_letter(it) || SIGNS.contains(it);
    let unfit = text.chars().find(|it| !fits(*it)).or_else(|| (last == ' ').then_some(last));
    unfit.map(|unfit| {
        format!(
            "must be letters, digits and . _ - / : @ + =, with spaces within; {unfit:?} is none of them"
        )
    })
}

/// True for a name that every shell takes for one word as it stands.
#[must_use]
pub fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.contains(' ') && fault(text).is_none()
}

/// Letters, marks, digits and symbols of all scripts, and the joiners that some of them need. Punctuation
/// beyond ASCII is none of them: PowerShell reads typographic quotes and dashes as their ASCII forms.
static BEYOND_ASCII: LazyLock<ClassUnicode> = LazyLock::new(|| {
    let class = regex_syntax::parse(r"[\p{L}\p{M}\p{N}\p{S}\x{200c}\x{200d}]");
    match class.map(regex_syntax::hir::Hir::into_kind) {
        Ok(HirKind::Class(Class::Unicode(class))) => class,
        other => unreachable!("it is one class: {other:?}"),
    }
});

/// True for a letter, a mark, a digit or a symbol of any script; of ASCII, for letters and digits.
pub(crate) fn is_letter(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_alphanumeric();
    }
    let beside = |range: &regex_syntax::hir::ClassUnicodeRange| {
        if range.end() < character {
            Ordering::Less
        } else if range.start() > character {
            Ordering::Greater
        } else {
            Ordering::Equal
        }
    };
    BEYOND_ASCII.ranges().binary_search_by(beside).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_use_are_names() {
        for name in [
            "default",
            "gpt-4o",
            "claude-3-5-sonnet-20241022",
            "meta-llama/Llama-3.1-8B-Instruct",
            "qwen2.5:0.5b",
            "gemini-1.5-pro@001",
            "ft:gpt-4o-mini:my-org:custom_suffix:id",
            "anthropic.claude-3-sonnet-20240229-v1:0",
            "@cf/meta/llama-3-8b-instruct",
            "/models/llama",
            "base+lora",
            "Prüfung",
            "模型-一二三四五",
            "हिन्दी",
            "key=value",
            "_x",
            "🔥urgent",
            "25€",
        ] {
            assert_eq!(fault(name), None, "{name}");
            assert!(is_word(name), "{name}");
        }
        assert_eq!((fault("Meta Llama 3 8B"), is_word("Meta Llama 3 8B")), (None, false));
    }

    #[test]
    fn a_text_that_could_command_a_shell_or_a_terminal_is_no_name() {
        let commands = "\"'`$&|;<>(){}[]*?!#~^\\%,\t\n\r\u{0}\u{1b}\u{7f}\u{9b}\u{202e}\u{2066}\u{200b}\u{feff}\u{2028}\u{a0}\u{2018}\u{201d}\u{2014}";
        for character in commands.chars() {
            assert!(fault(&format!("a{character}b")).is_some(), "{character:?}");
            assert!(fault(&format!("{character}b")).is_some(), "{character:?}");
        }
        for name in [" a", "a "] {
            assert!(fault(name).is_some(), "{name:?}");
        }
    }

    #[test]
    fn a_name_is_no_option_and_no_path_of_dots() {
        for name in ["-x", "--server=x", "..", ".", "=ls", "+x", ":"] {
            assert!(fault(name).is_some(), "{name}");
            assert!(!is_word(name), "{name}");
        }
        assert!(!is_word(""));
    }

    #[test]
    fn a_fault_names_the_character() {
        let says = fault("nightly;touch").expect("a fault");
        assert_eq!(
            says,
            "must be letters, digits and . _ - / : @ + =, with spaces within; ';' is none of them"
        );
        let says = fault("a\u{202e}").expect("a fault");
        assert!(says.ends_with("; '\\u{202e}' is none of them"), "{says}");
    }
}
