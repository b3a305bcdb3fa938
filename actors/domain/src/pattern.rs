//! Regular expressions of callers: compiled once under a size limit, matched on fuel.
//!
//! A pattern of a few bytes can name all of Unicode many times over, so the work of its translation is
//! counted on its syntax tree, before it is done; the size of the automaton is counted while it is built.
//! A match runs on a lazy automaton, which is linear in the text. Each step costs next to nothing,
//! unless it builds a new state; the memory of the states measures that work. Deliberately absent:
//! captures, look-around and back-references.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use regex_automata::Input;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::pikevm::PikeVM;
use regex_automata::nfa::thompson::{Compiler, Config, NFA, WhichCaptures};
use regex_syntax::ast::parse::Parser;
use regex_syntax::ast::{
    self, Ast, ClassPerlKind, ClassSetItem, Flag, Flags, FlagsItemKind, GroupKind,
};
use regex_syntax::hir::translate::Translator;

use crate::fuel::{Fuel, OutOfFuel};

/// The memory of a lazy automaton's states during a match, in bytes; at the limit it starts over.
const STATES: usize = 512 * 1024;

/// The text between two looks at the fuel, in bytes.
const CHUNK: usize = 32;

/// The longest pattern, in bytes; a longer one is too large when compiled, unless most of it is comments.
const MAX_LENGTH: usize = 16 * 1024;

/// The work to translate all patterns of a definition, in characters: less than 100 ms.
const TRANSLATION: u64 = 24_000_000;

/// The work of a range, in characters. It stands for memory rather than for time: a definition's patterns
/// take up to ten megabytes while they are translated.
const RANGE: u64 = 20;

/// A compiled pattern.
#[derive(Debug)]
pub struct Pattern {
    automaton: DFA,
    /// The size of the automaton that the lazy one is built from, in bytes.
    size: usize,
}

/// A fault of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invalid {
    /// The pattern is no regular expression, or needs look-around or back-references.
    Syntax,
    /// The compiled pattern is larger than the rest of the budget.
    TooLarge,
}

/// The scratch memory of matches with one pattern.
#[derive(Debug)]
pub struct Scratch(Cache);

impl Scratch {
    /// The size, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.memory_usage()
    }
}

impl Pattern {
    /// Compiles a pattern that takes at most `limit` bytes. `spend` is given the work, in characters, before
    /// it is done.
    ///
    /// # Errors
    /// The pattern is invalid or too large, or `spend` returns false.
    pub fn compile(
        pattern: &str,
        limit: usize,
        spend: impl FnOnce(u64) -> bool,
    ) -> Result<Self, Invalid> {
        if pattern.len() > MAX_LENGTH {
            return Err(Invalid::TooLarge);
        }
        let tree = Parser::new().parse(pattern).map_err(|_| Invalid::Syntax)?;
        let Ok(work) = ast::visit(&tree, Work::default());
        if !spend(work) {
            return Err(Invalid::TooLarge);
        }
        let translated = Translator::new().translate(pattern, &tree);
        let translated = translated.map_err(|_| Invalid::Syntax)?;
        let config = Config::new().nfa_size_limit(Some(limit)).which_captures(WhichCaptures::None);
        let nfa = Compiler::new().configure(config).build_from_hir(&translated);
        let nfa = nfa.map_err(|error| match error.size_limit() {
            Some(_) => Invalid::TooLarge,
            None => Invalid::Syntax,
        })?;
        let size = nfa.memory_usage();
        if size > limit {
            return Err(Invalid::TooLarge);
        }
        let config = DFA::config()
            .cache_capacity(STATES)
            .skip_cache_capacity_check(true)
            .unicode_word_boundary(true);
        let automaton = DFA::builder().configure(config).build_from_nfa(nfa);
        Ok(Self { automaton: automaton.map_err(|_| Invalid::TooLarge)?, size })
    }

    /// The compiled size, in bytes.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.size
    }

    /// The scratch memory of matches: a few kilobytes, up to 512 KiB after a hostile text.
    ///
    /// # Errors
    /// The fuel does not last for the allocation.
    pub fn scratch(&self, fuel: &mut Fuel) -> Result<Scratch, OutOfFuel> {
        fuel.burn_for(self.size, 64)?;
        Ok(Scratch(self.automaton.create_cache()))
    }

    /// True if the pattern matches somewhere in the text.
    ///
    /// # Errors
    /// The fuel does not last.
    pub fn is_match(
        &self,
        text: &str,
        scratch: &mut Scratch,
        fuel: &mut Fuel,
    ) -> Result<bool, OutOfFuel> {
        match self.run(text, &mut scratch.0, fuel)? {
            Some(matched) => Ok(matched),
            // A Unicode word boundary beside a character that is not ASCII.
            None => self.simulate(text, fuel),
        }
    }

    /// Runs the lazy automaton; `None` if it cannot decide.
    fn run(
        &self,
        text: &str,
        cache: &mut Cache,
        fuel: &mut Fuel,
    ) -> Result<Option<bool>, OutOfFuel> {
        let mut meter = Meter { used: cache.memory_usage(), cleared: cache.clear_count() };
        let Ok(mut state) = self.automaton.start_state_forward(cache, &Input::new(text)) else {
            return Ok(None);
        };
        for chunk in text.as_bytes().chunks(CHUNK) {
            for byte in chunk {
                let Ok(next) = self.automaton.next_state(cache, state, *byte) else {
                    return Ok(None);
                };
                state = next;
                if state.is_tagged() && (state.is_match() || state.is_dead()) {
                    meter.burn(cache, fuel)?;
                    return Ok(Some(state.is_match()));
                }
                if state.is_quit() {
                    return Ok(None);
                }
            }
            meter.burn(cache, fuel)?;
        }
        let end = self.automaton.next_eoi_state(cache, state);
        meter.burn(cache, fuel)?;
        Ok(end.ok().map(|end| end.is_match()))
    }

    /// Simulates the automaton, at the cost of its size for each character.
    fn simulate(&self, text: &str, fuel: &mut Fuel) -> Result<bool, OutOfFuel> {
        let nfa: &NFA = self.automaton.get_nfa();
        let steps = (text.len() as u64 + 1).saturating_mul(nfa.states().len() as u64);
        fuel.burn(steps.saturating_mul(2))?;
        let Ok(machine) = PikeVM::new_from_nfa(nfa.clone()) else { return Ok(false) };
        let mut cache = machine.create_cache();
        Ok(machine.is_match(&mut cache, text))
    }
}

/// The work to translate a pattern: the characters and ranges that its classes are made of.
#[derive(Debug, Default)]
struct Work {
    characters: u64,
    /// The members of classes in brackets; the ranges of a class are sorted anew with each.
    members: u64,
    /// True from the first flag on that ignores case: each character of a class is then looked up.
    is_folding: bool,
}

impl Work {
    /// Adds a class of so many ranges, and of so many characters.
    fn class(&mut self, ranges: u64, characters: u64) {
        self.characters += ranges * RANGE + if self.is_folding { characters } else { 0 };
    }

    fn flags(&mut self, flags: &Flags) {
        let ignores = FlagsItemKind::Flag(Flag::CaseInsensitive);
        self.is_folding |= flags.items.iter().any(|item| item.kind == ignores);
    }

    fn perl(&mut self, kind: &ClassPerlKind) {
        match kind {
            ClassPerlKind::Digit => self.class(100, 1_000),
            ClassPerlKind::Space => self.class(10, 100),
            ClassPerlKind::Word => self.class(1_000, 150_000),
        }
    }

    /// A class by its property, of which the largest has nearly all characters.
    fn property(&mut self) {
        self.class(1_000, 1_200_000);
    }
}

impl ast::Visitor for Work {
    type Output = u64;
    type Err = Infallible;

    fn finish(self) -> Result<u64, Infallible> {
        let sorted = self.members.saturating_mul(self.members).saturating_mul(2);
        Ok(self.characters.saturating_add(sorted))
    }

    fn visit_pre(&mut self, tree: &Ast) -> Result<(), Infallible> {
        match tree {
            Ast::Flags(set) => self.flags(&set.flags),
            Ast::Group(group) => {
                if let GroupKind::NonCapturing(flags) = &group.kind {
                    self.flags(flags);
                }
            }
            Ast::ClassUnicode(_) => self.property(),
            Ast::ClassPerl(class) => self.perl(&class.kind),
            Ast::Empty(_)
            | Ast::Literal(_)
            | Ast::Dot(_)
            | Ast::Assertion(_)
            | Ast::ClassBracketed(_)
            | Ast::Repetition(_)
            | Ast::Alternation(_)
            | Ast::Concat(_) => self.characters += 10,
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Infallible> {
        self.members += 1;
        match item {
            ClassSetItem::Range(range) => {
                let (first, last) = (u64::from(u32::from(range.start.c)), u32::from(range.end.c));
                self.class(1, u64::from(last).saturating_sub(first) + 1);
            }
            ClassSetItem::Unicode(_) => self.property(),
            ClassSetItem::Perl(class) => self.perl(&class.kind),
            ClassSetItem::Empty(_)
            | ClassSetItem::Literal(_)
            | ClassSetItem::Ascii(_)
            | ClassSetItem::Bracketed(_)
            | ClassSetItem::Union(_) => self.characters += 10,
        }
        Ok(())
    }
}

/// The work since the last look, measured by the memory of new states.
struct Meter {
    used: usize,
    cleared: usize,
}

impl Meter {
    fn burn(&mut self, cache: &Cache, fuel: &mut Fuel) -> Result<(), OutOfFuel> {
        let (used, cleared) = (cache.memory_usage(), cache.clear_count());
        let grown = if cleared == self.cleared { used.saturating_sub(self.used) } else { STATES };
        (self.used, self.cleared) = (used, cleared);
        fuel.burn(10 + (grown / 2) as u64)
    }
}

/// The patterns of one definition: equal ones are shared, and all share a budget.
#[derive(Debug)]
pub struct Patterns {
    known: HashMap<String, Arc<Pattern>>,
    left: usize,
    /// The work that is left, in characters.
    work: u64,
}

impl Patterns {
    /// No patterns yet; `budget` bounds the sum of their compiled sizes, in bytes.
    #[must_use]
    pub fn with_budget(budget: usize) -> Self {
        Self { known: HashMap::new(), left: budget, work: TRANSLATION }
    }

    /// Compiles a pattern of at most `limit` bytes, or returns the equal one.
    ///
    /// # Errors
    /// The pattern is invalid, or larger than `limit` or than the rest of the budget.
    pub fn compile(&mut self, pattern: &str, limit: usize) -> Result<Arc<Pattern>, Invalid> {
        if let Some(known) = self.known.get(pattern) {
            return if known.size > limit { Err(Invalid::TooLarge) } else { Ok(Arc::clone(known)) };
        }
        if self.left == 0 {
            return Err(Invalid::TooLarge);
        }
        let spend = |work| {
            let left = self.work.checked_sub(work);
            self.work = left.unwrap_or(0);
            left.is_some()
        };
        let compiled = Pattern::compile(pattern, limit.min(self.left), spend).map(Arc::new);
        match &compiled {
            Ok(pattern) => self.left -= pattern.size,
            // A pattern that does not fit takes the rest of the budget, so that no more work is done.
            Err(Invalid::TooLarge) if self.left < limit => self.left = 0,
            Err(Invalid::TooLarge | Invalid::Syntax) => {}
        }
        let compiled = compiled?;
        self.known.insert(pattern.to_owned(), Arc::clone(&compiled));
        Ok(compiled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> Option<bool> {
        let pattern = Pattern::compile(pattern, 1 << 20, |_| true).unwrap();
        let mut fuel = Fuel::new(1_000_000);
        let mut scratch = pattern.scratch(&mut fuel).unwrap();
        pattern.is_match(text, &mut scratch, &mut fuel).ok()
    }

    #[test]
    fn a_pattern_matches_anywhere_in_the_text() {
        for (pattern, text, expected) in [
            ("b+", "abba", true),
            ("^b", "abba", false),
            ("a$", "abba", true),
            ("", "", true),
            ("^$", "", true),
            ("x", "", false),
            (r"^\d{4}-\d{2}$", "2024-05", true),
            (r"\bword\b", "a word here", true),
            (r"\bword\b", "ä word hëre", true),
            (r"\bword\b", "ä sword hëre", false),
            ("(?i)ÄPFEL", "drei äpfel", true),
        ] {
            assert_eq!(matches(pattern, text), Some(expected), "{pattern} in {text}");
        }
        let long = format!("{}b", "a".repeat(100_000));
        assert_eq!(matches("^(a+)+$", &long), Some(false));
    }

    #[test]
    fn a_pattern_that_builds_state_after_state_runs_out_of_fuel() {
        let mut chance = 1_u32;
        let mut letter = || {
            chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if chance >> 31 == 0 { 'a' } else { 'b' }
        };
        let text: String = (0..1 << 20).map(|_| letter()).collect();
        assert_eq!(matches("[ab]*a[ab]{60}c", &text), None);
        assert_eq!(matches(r"\b[ab]*a[ab]{60}c\b", &format!("{text}ä")), None);
    }

    #[test]
    fn equal_patterns_are_compiled_once_and_all_share_a_budget() {
        let mut patterns = Patterns::with_budget(100_000);
        let first = patterns.compile(r"\w{2}", 100_000).unwrap();
        let again = patterns.compile(r"\w{2}", 100_000).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(patterns.compile("(a{1000}){1000}", 10_000).err(), Some(Invalid::TooLarge));
        assert_eq!(patterns.compile("(", 100_000).err(), Some(Invalid::Syntax));
        let distinct = (0..1_000).map(|n| patterns.compile(&format!(r"\w{{2}}{n}"), 100_000));
        assert!(distinct.filter_map(Result::ok).count() < 20);
    }

    /// Each takes milliseconds for eight bytes.
    const ALL_FOLDED: &str = "(?i)[!-\u{10ffff}]";

    #[test]
    fn the_translation_of_patterns_has_a_budget() {
        for pattern in [
            ALL_FOLDED.repeat(1_000),
            format!("(?i){}", r"\p{any}".repeat(2_000)),
            format!("(?i){}", r"\w".repeat(8_000)),
            r"\p{any}".repeat(2_000),
            format!("[{}]", ('\u{4e00}'..='\u{6000}').rev().collect::<String>()),
            "a".repeat(MAX_LENGTH + 1),
        ] {
            let work = Parser::new().parse(&pattern).expect("it is a pattern");
            let Ok(work) = ast::visit(&work, Work::default());
            let compiled = Patterns::with_budget(1 << 20).compile(&pattern, 1 << 18);
            let start: String = pattern.chars().take(20).collect();
            assert_eq!(compiled.err(), Some(Invalid::TooLarge), "{start}");
            assert!(work > TRANSLATION || pattern.len() > MAX_LENGTH, "{start} counts {work}");
        }
        let mut patterns = Patterns::with_budget(1 << 20);
        let all = (0..200).map(|n| patterns.compile(&format!("{ALL_FOLDED}{n}"), 1 << 18));
        assert_eq!(all.flatten().count(), 21, "all together");
    }

    #[test]
    fn what_people_write_is_within_the_budget() {
        for pattern in [
            r"(?i)^[\p{L}\p{N}_ .'-]+$",
            r"(?i)^\w+@\w+\.\w{2,}$",
            r"^[A-Za-zÀ-ÖØ-öø-ÿ' -]+$",
            r"^\+?[0-9 ()-]{7,20}$",
        ] {
            let mut patterns = Patterns::with_budget(1 << 20);
            assert!(patterns.compile(pattern, 1 << 18).is_ok(), "{pattern}");
        }
    }
}
