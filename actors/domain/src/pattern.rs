//! Regular expressions of callers: compiled once under a size limit, matched on fuel.
//!
//! A match runs on a lazy automaton, which is linear in the text. Each step costs next to nothing,
//! unless it builds a new state; the memory of the states measures that work. Deliberately absent:
//! captures, look-around and back-references.

use std::collections::HashMap;
use std::sync::Arc;

use regex_automata::Input;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::pikevm::PikeVM;
use regex_automata::nfa::thompson::{BuildError, Compiler, Config, NFA, WhichCaptures};

use crate::fuel::{Fuel, OutOfFuel};

/// The memory of a lazy automaton's states during a match, in bytes; at the limit it starts over.
const STATES: usize = 512 * 1024;

/// The text between two looks at the fuel, in bytes.
const CHUNK: usize = 32;

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
    /// Compiles a pattern that takes at most `limit` bytes.
    ///
    /// # Errors
    /// The pattern is invalid or too large.
    pub fn compile(pattern: &str, limit: usize) -> Result<Self, Invalid> {
        let fault = |error: &BuildError| match error.size_limit() {
            Some(_) => Invalid::TooLarge,
            None => Invalid::Syntax,
        };
        let config = Config::new().nfa_size_limit(Some(limit)).which_captures(WhichCaptures::None);
        let nfa = Compiler::new().configure(config).build(pattern);
        let nfa = nfa.map_err(|error| fault(&error))?;
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
}

impl Patterns {
    /// No patterns yet; `budget` bounds the sum of their compiled sizes, in bytes.
    #[must_use]
    pub fn with_budget(budget: usize) -> Self {
        Self { known: HashMap::new(), left: budget }
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
        let compiled = Pattern::compile(pattern, limit.min(self.left)).map(Arc::new);
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
        let pattern = Pattern::compile(pattern, 1 << 20).unwrap();
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
}
