//! Regular expressions of callers: compiled once under a size limit, matched on fuel.
//!
//! A pattern of a few bytes can name all of Unicode many times over, so the work of its translation is
//! counted on its syntax tree, before it is done; the size of the automaton is counted while it is built.
//! A match runs on a lazy automaton, which is linear in the text. Each step costs next to nothing,
//! unless it builds a new state; the memory of the states measures that work. Patterns of schemas are those of
//! ECMA 262 (`ecma`), with look-around, which is simulated (`looking`). Deliberately absent: captures and
//! back-references.

mod ecma;
mod looking;
mod work;

use std::collections::HashMap;
use std::sync::Arc;

use regex_automata::Input;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::pikevm::PikeVM;
use regex_automata::nfa::thompson::{Compiler, Config, NFA, WhichCaptures};
use regex_syntax::ast::ErrorKind;
use regex_syntax::ast::parse::Parser;
use regex_syntax::hir::Hir;
use regex_syntax::hir::translate::Translator;

use crate::fuel::{Fuel, OutOfFuel};

use looking::Machine;
use work::Work;

/// The memory of a lazy automaton's states during a match, in bytes; at the limit it starts over.
const STATES: usize = 512 * 1024;

/// The text between two looks at the fuel, in bytes.
const CHUNK: usize = 32;

/// The longest pattern, in bytes; a longer one is too large when compiled, unless most of it is comments.
const MAX_LENGTH: usize = 16 * 1024;

/// The work to translate all patterns of a definition, in characters: less than 100 ms.
const TRANSLATION: u64 = 24_000_000;

/// A compiled pattern.
#[derive(Debug)]
pub struct Pattern {
    engine: Engine,
    /// The size of the automata, in bytes; of a lazy one, that of the one that it is built from.
    size: usize,
}

#[derive(Debug)]
enum Engine {
    Lazy(Box<DFA>),
    /// A pattern with look-around.
    Looking(Machine),
}

/// The syntax of patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// That of RE2, as in CEL.
    Re2,
    /// That of ECMA 262, as in JSON Schema; a pattern that is none may be one of RE2.
    Ecma,
}

/// A fault of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invalid {
    /// The pattern is no regular expression.
    Syntax,
    /// The pattern has this construct, which is named with the way round.
    Unsupported(&'static str),
    /// The compiled pattern is larger than the rest of the budget.
    TooLarge,
}

/// The scratch memory of matches with one pattern.
#[derive(Debug)]
pub struct Scratch(Option<Cache>);

impl Scratch {
    /// The size, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.as_ref().map_or(0, Cache::memory_usage)
    }
}

/// The cost of compiling a pattern, in units of about 10 ns, counted from its text. A text that is no
/// pattern, or is too long, costs its reading.
#[must_use]
pub fn cost(pattern: &str) -> u64 {
    /// The states of the largest automaton that is built, of some 24 bytes each.
    const MOST_STATES: u64 = 12_000;
    if pattern.len() > MAX_LENGTH {
        return pattern.len() as u64;
    }
    let (characters, states) = match Parser::new().parse(pattern).as_ref().map(Work::of) {
        Ok(work) => (work.characters, work.states),
        // Only a schema's may have it, and only its parser knows how much that is.
        Err(error) if *error.kind() == ErrorKind::UnsupportedLookAround => (0, MOST_STATES),
        Err(_) => (0, 0),
    };
    // A class of more characters than this is refused before it is translated.
    let characters = characters.min(TRANSLATION);
    500 + 20 * pattern.len() as u64 + characters + 8 * states.min(MOST_STATES)
}

impl Pattern {
    /// Compiles a pattern that takes at most `limit` bytes. `spend` is given the work, in characters, before
    /// it is done.
    ///
    /// # Errors
    /// The pattern is invalid or too large, or `spend` returns false.
    pub fn compile(
        syntax: Syntax,
        pattern: &str,
        limit: usize,
        mut spend: impl FnMut(u64) -> bool,
    ) -> Result<Self, Invalid> {
        if pattern.len() > MAX_LENGTH {
            return Err(Invalid::TooLarge);
        }
        if syntax == Syntax::Re2 {
            return Self::lazy(&re2(pattern, spend)?, limit);
        }
        match ecma::parse(pattern, &mut spend) {
            Ok(expression) if expression.looks.is_empty() => Self::lazy(&expression.hir, limit),
            Ok(expression) => {
                let machine = Machine::compile(&expression, limit)?;
                Ok(Self { size: machine.size(), engine: Engine::Looking(machine) })
            }
            Err(Invalid::Syntax) => {
                let other = re2(pattern, spend).map_err(|fault| match fault {
                    Invalid::Syntax | Invalid::Unsupported(_) => Invalid::Syntax,
                    Invalid::TooLarge => Invalid::TooLarge,
                });
                Self::lazy(&other?, limit)
            }
            Err(fault) => Err(fault),
        }
    }

    fn lazy(expression: &Hir, limit: usize) -> Result<Self, Invalid> {
        let config = Config::new().nfa_size_limit(Some(limit)).which_captures(WhichCaptures::None);
        let nfa = Compiler::new().configure(config).build_from_hir(expression);
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
        let automaton = automaton.map_err(|_| Invalid::TooLarge)?;
        Ok(Self { engine: Engine::Lazy(Box::new(automaton)), size })
    }

    /// True if the pattern has look-around.
    #[must_use]
    pub const fn looks(&self) -> bool {
        matches!(self.engine, Engine::Looking(_))
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
        Ok(Scratch(match &self.engine {
            Engine::Lazy(automaton) => Some(automaton.create_cache()),
            Engine::Looking(_) => None,
        }))
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
        match (&self.engine, &mut scratch.0) {
            (Engine::Looking(machine), _) => machine.is_match(text, fuel),
            (Engine::Lazy(automaton), Some(cache)) => match run(automaton, text, cache, fuel)? {
                Some(matched) => Ok(matched),
                // A Unicode word boundary beside a character that is not ASCII.
                None => simulate(automaton, text, fuel),
            },
            (Engine::Lazy(automaton), None) => simulate(automaton, text, fuel),
        }
    }
}

/// True for a regular expression of ECMA 262, whether or not it can be compiled.
pub(crate) fn is_ecma(pattern: &str, mut spend: impl FnMut(u64) -> bool) -> bool {
    match ecma::parse(pattern, &mut spend) {
        Ok(_) | Err(Invalid::TooLarge | ecma::BACK_REFERENCE) => true,
        Err(Invalid::Syntax | Invalid::Unsupported(_)) => false,
    }
}

const LOOK_AROUND: &str =
    "look-around, such as (?=…) and (?!…): match twice, as in a.matches('x') && !a.matches('y')";

/// The expression of a pattern of RE2.
fn re2(pattern: &str, mut spend: impl FnMut(u64) -> bool) -> Result<Hir, Invalid> {
    let tree = Parser::new().parse(pattern).map_err(|error| {
        if *error.kind() == ErrorKind::UnsupportedLookAround {
            Invalid::Unsupported(LOOK_AROUND)
        } else if *error.kind() == ErrorKind::UnsupportedBackreference {
            ecma::BACK_REFERENCE
        } else {
            Invalid::Syntax
        }
    })?;
    if !spend(Work::of(&tree).characters) {
        return Err(Invalid::TooLarge);
    }
    Translator::new().translate(pattern, &tree).map_err(|_| Invalid::Syntax)
}

/// Runs the lazy automaton; `None` if it cannot decide.
fn run(
    automaton: &DFA,
    text: &str,
    cache: &mut Cache,
    fuel: &mut Fuel,
) -> Result<Option<bool>, OutOfFuel> {
    let mut meter = Meter { used: cache.memory_usage(), cleared: cache.clear_count() };
    let Ok(mut state) = automaton.start_state_forward(cache, &Input::new(text)) else {
        return Ok(None);
    };
    for chunk in text.as_bytes().chunks(CHUNK) {
        for byte in chunk {
            let Ok(next) = automaton.next_state(cache, state, *byte) else {
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
    let end = automaton.next_eoi_state(cache, state);
    meter.burn(cache, fuel)?;
    Ok(end.ok().map(|end| end.is_match()))
}

/// Simulates the automaton, at the cost of its size for each character.
fn simulate(automaton: &DFA, text: &str, fuel: &mut Fuel) -> Result<bool, OutOfFuel> {
    let nfa: &NFA = automaton.get_nfa();
    let steps = (text.len() as u64 + 1).saturating_mul(nfa.states().len() as u64);
    fuel.burn(steps.saturating_mul(2))?;
    let Ok(machine) = PikeVM::new_from_nfa(nfa.clone()) else { return Ok(false) };
    let mut cache = machine.create_cache();
    Ok(machine.is_match(&mut cache, text))
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
    syntax: Syntax,
    known: HashMap<String, Arc<Pattern>>,
    left: usize,
    /// The work that is left, in characters.
    work: u64,
}

impl Patterns {
    /// No patterns yet, of CEL; `budget` bounds the sum of their compiled sizes, in bytes.
    #[must_use]
    pub fn with_budget(budget: usize) -> Self {
        Self::of(Syntax::Re2, budget)
    }

    /// The same for patterns of this syntax.
    #[must_use]
    pub fn of(syntax: Syntax, budget: usize) -> Self {
        Self { syntax, known: HashMap::new(), left: budget, work: TRANSLATION }
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
        let limit_left = limit.min(self.left);
        let compiled = Pattern::compile(self.syntax, pattern, limit_left, spend).map(Arc::new);
        match &compiled {
            Ok(pattern) => self.left -= pattern.size,
            // A pattern that does not fit takes the rest of the budget, so that no more work is done.
            Err(Invalid::TooLarge) if self.left < limit => self.left = 0,
            Err(Invalid::TooLarge | Invalid::Syntax | Invalid::Unsupported(_)) => {}
        }
        let compiled = compiled?;
        self.known.insert(pattern.to_owned(), Arc::clone(&compiled));
        Ok(compiled)
    }
}

#[cfg(test)]
mod tests;
