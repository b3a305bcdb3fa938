//! Patterns with look-around, in time linear in the text.
//!
//! ```text
//! ^(?!.*\.\.)\w+$    the places at which .*\.\. begins, found from the end of the text to its start;
//!                    then ^…\w+$ from the start to the end, which asks for the place at each marker
//! ```
//!
//! Each expression is an automaton that is simulated once over the whole text, those within others first. A
//! step burns fuel by the states that it visits. Deliberately absent: backtracking.

use regex_automata::nfa::thompson::{Compiler, Config, NFA, State, WhichCaptures};
use regex_automata::util::look::Look;
use regex_automata::util::primitives::StateID;

use super::Invalid;
use super::ecma::{Expression, MARKERS};
use crate::fuel::{Fuel, OutOfFuel};

/// An expression with its look-arounds.
#[derive(Debug)]
pub(super) struct Machine {
    nfa: NFA,
    /// True if the automaton reads the text from its end.
    is_backward: bool,
    looks: Vec<LookAround>,
}

#[derive(Debug)]
struct LookAround {
    machine: Machine,
    is_negated: bool,
}

/// The places of a text, one bit each.
struct Places(Vec<u64>);

impl Machine {
    /// Compiles an expression that takes at most `limit` bytes.
    pub(super) fn compile(expression: &Expression, limit: usize) -> Result<Self, Invalid> {
        Self::of(expression, false, limit)
    }

    fn of(expression: &Expression, is_backward: bool, limit: usize) -> Result<Self, Invalid> {
        let config = Config::new()
            .nfa_size_limit(Some(limit))
            .which_captures(WhichCaptures::None)
            .reverse(is_backward);
        let nfa = Compiler::new().configure(config).build_from_hir(&expression.hir);
        let nfa = nfa.map_err(|error| match error.size_limit() {
            Some(_) => Invalid::TooLarge,
            None => Invalid::Syntax,
        })?;
        let mut left = limit.checked_sub(nfa.memory_usage()).ok_or(Invalid::TooLarge)?;
        let mut looks = Vec::with_capacity(expression.looks.len());
        for look in &expression.looks {
            let machine = Self::of(&look.expression, look.is_ahead, left)?;
            left -= machine.size();
            looks.push(LookAround { machine, is_negated: look.is_negated });
        }
        Ok(Self { nfa, is_backward, looks })
    }

    /// The compiled size, in bytes.
    pub(super) fn size(&self) -> usize {
        let looks = self.looks.iter().map(|look| look.machine.size());
        self.nfa.memory_usage() + looks.sum::<usize>()
    }

    /// True if the expression matches somewhere in the text.
    pub(super) fn is_match(&self, text: &str, fuel: &mut Fuel) -> Result<bool, OutOfFuel> {
        let looks = self.places_of_looks(text, fuel)?;
        let mut found = false;
        Run::new(self, text, &looks, fuel)?.go(|_| {
            found = true;
            false
        })?;
        Ok(found)
    }

    /// The places at which the expression begins, if it is read from the end; else those at which it ends.
    fn places(&self, text: &str, fuel: &mut Fuel) -> Result<Places, OutOfFuel> {
        let looks = self.places_of_looks(text, fuel)?;
        fuel.burn_for(text.len(), 256)?;
        let mut places = Places(vec![0; text.len() / 64 + 1]);
        Run::new(self, text, &looks, fuel)?.go(|place| {
            places.0[place / 64] |= 1 << (place % 64);
            true
        })?;
        Ok(places)
    }

    fn places_of_looks(&self, text: &str, fuel: &mut Fuel) -> Result<Vec<Places>, OutOfFuel> {
        self.looks.iter().map(|look| look.machine.places(text, fuel)).collect()
    }
}

/// One simulation.
struct Run<'r> {
    machine: &'r Machine,
    text: &'r str,
    looks: &'r [Places],
    fuel: &'r mut Fuel,
    /// The states to visit.
    pending: Vec<StateID>,
    /// The states at this place, and the place at which each state was visited last.
    states: Vec<StateID>,
    visited: Vec<usize>,
}

impl<'r> Run<'r> {
    fn new(
        machine: &'r Machine,
        text: &'r str,
        looks: &'r [Places],
        fuel: &'r mut Fuel,
    ) -> Result<Self, OutOfFuel> {
        let states = machine.nfa.states().len();
        fuel.burn_for(states, 32)?;
        let visited = vec![usize::MAX; states];
        Ok(Self { machine, text, looks, fuel, pending: Vec::new(), states: Vec::new(), visited })
    }

    /// Reports each place at which the automaton matches, until `report` returns false. A match may begin at
    /// any place between two characters.
    fn go(mut self, mut report: impl FnMut(usize) -> bool) -> Result<(), OutOfFuel> {
        let length = self.text.len();
        for step in 0..=length {
            let place = if self.machine.is_backward { length - step } else { step };
            if self.text.is_char_boundary(place) {
                self.pending.push(self.machine.nfa.start_anchored());
            }
            if self.visit(place)? && !report(place) {
                return Ok(());
            }
            let byte = if self.machine.is_backward { place.checked_sub(1) } else { Some(place) };
            if let Some(byte) = byte.and_then(|at| self.text.as_bytes().get(at)) {
                self.step(*byte)?;
            }
        }
        Ok(())
    }

    /// Visits the pending states and all that follow without a character; true if one of them matches.
    fn visit(&mut self, place: usize) -> Result<bool, OutOfFuel> {
        let mut matches = false;
        while let Some(id) = self.pending.pop() {
            if std::mem::replace(&mut self.visited[id], place) == place {
                continue;
            }
            self.fuel.burn(2)?;
            match self.machine.nfa.state(id) {
                State::ByteRange { .. } | State::Sparse(_) | State::Dense(_) => {
                    self.states.push(id);
                }
                State::Look { look, next } if self.holds(*look, place) => self.pending.push(*next),
                State::Look { .. } | State::Fail => {}
                State::Union { alternates } => {
                    self.fuel.burn_for(alternates.len(), 4)?;
                    self.pending.extend_from_slice(alternates);
                }
                State::BinaryUnion { alt1, alt2 } => self.pending.extend([*alt1, *alt2]),
                State::Capture { next, .. } => self.pending.push(*next),
                State::Match { .. } => matches = true,
            }
        }
        Ok(matches)
    }

    /// The states after a byte.
    fn step(&mut self, byte: u8) -> Result<(), OutOfFuel> {
        self.fuel.burn(1 + self.states.len() as u64)?;
        for id in self.states.drain(..) {
            let next = match self.machine.nfa.state(id) {
                State::ByteRange { trans } => trans.matches_byte(byte).then_some(trans.next),
                State::Sparse(sparse) => sparse.matches_byte(byte),
                State::Dense(dense) => dense.matches_byte(byte),
                State::Look { .. }
                | State::Union { .. }
                | State::BinaryUnion { .. }
                | State::Capture { .. }
                | State::Fail
                | State::Match { .. } => None,
            };
            self.pending.extend(next);
        }
        Ok(())
    }

    fn holds(&self, look: Look, place: usize) -> bool {
        // The compiler of an automaton that reads backward turns every assertion around.
        let look = if self.machine.is_backward { look.reversed() } else { look };
        if let Some(number) = MARKERS.iter().position(|(_, marker)| *marker == look) {
            let holds = self.looks[number].0[place / 64] >> (place % 64) & 1 == 1;
            return holds != self.machine.looks[number].is_negated;
        }
        if look == Look::Start {
            place == 0
        } else if look == Look::End {
            place == self.text.len()
        } else {
            self.is_at_word_boundary(place) == (look == Look::WordAscii)
        }
    }

    fn is_at_word_boundary(&self, place: usize) -> bool {
        let is_word = |at: Option<usize>| {
            let byte = at.and_then(|at| self.text.as_bytes().get(at));
            byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        };
        is_word(place.checked_sub(1)) != is_word(Some(place))
    }
}
