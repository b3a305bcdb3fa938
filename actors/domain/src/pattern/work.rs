//! The work of compiling a pattern, counted on its syntax tree before it is done.

use std::convert::Infallible;

use regex_syntax::ast::{
    self, Ast, ClassPerlKind, ClassSetItem, Flag, Flags, FlagsItemKind, GroupKind, RepetitionKind,
    RepetitionOp, RepetitionRange,
};

/// The work of a range, in characters. It stands for memory rather than for time: a definition's patterns
/// take up to ten megabytes while they are translated.
pub(super) const RANGE: u64 = 20;

/// The states of a range of characters beyond ASCII: ranges share most of those of UTF-8.
const RANGE_STATES: u64 = 1;

/// The work of one pattern.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// The characters and ranges that the classes are made of: the work to translate them.
    pub(super) characters: u64,
    /// About the states of the automaton, without its limit of size.
    pub(super) states: u64,
    /// The states outside of each repetition that is being visited.
    outside: Vec<u64>,
    /// The members of classes in brackets; the ranges of a class are sorted anew with each.
    members: u64,
    /// True from the first flag on that ignores case: each character of a class is then looked up.
    is_folding: bool,
}

impl Work {
    /// The work of a pattern.
    pub(super) fn of(tree: &Ast) -> Self {
        let Ok(work) = ast::visit(tree, Self::default());
        work
    }

    /// Adds a class of so many ranges, and of so many characters.
    fn class(&mut self, ranges: u64, characters: u64) {
        self.characters += ranges * RANGE + if self.is_folding { characters } else { 0 };
        self.states += if characters < 128 { 1 } else { ranges * RANGE_STATES };
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

    fn literal(&mut self) {
        self.characters += 10;
        self.states += 2;
    }
}

/// The copies of its operand that a repetition is made of.
fn copies(operation: &RepetitionOp) -> u64 {
    match operation.kind {
        RepetitionKind::ZeroOrOne | RepetitionKind::ZeroOrMore => 1,
        RepetitionKind::OneOrMore => 2,
        RepetitionKind::Range(
            RepetitionRange::Exactly(times) | RepetitionRange::Bounded(_, times),
        ) => u64::from(times),
        RepetitionKind::Range(RepetitionRange::AtLeast(times)) => u64::from(times) + 1,
    }
}

impl ast::Visitor for Work {
    type Output = Self;
    type Err = Infallible;

    fn finish(mut self) -> Result<Self, Infallible> {
        let sorted = self.members.saturating_mul(self.members).saturating_mul(2);
        self.characters = self.characters.saturating_add(sorted);
        Ok(self)
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
            Ast::Repetition(_) => {
                self.literal();
                self.outside.push(std::mem::take(&mut self.states));
            }
            Ast::Empty(_)
            | Ast::Literal(_)
            | Ast::Dot(_)
            | Ast::Assertion(_)
            | Ast::ClassBracketed(_)
            | Ast::Alternation(_)
            | Ast::Concat(_) => self.literal(),
        }
        Ok(())
    }

    fn visit_post(&mut self, tree: &Ast) -> Result<(), Infallible> {
        if let Ast::Repetition(repetition) = tree {
            let inside = self.states.saturating_mul(copies(&repetition.op).max(1));
            self.states = self.outside.pop().unwrap_or_default().saturating_add(inside);
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
