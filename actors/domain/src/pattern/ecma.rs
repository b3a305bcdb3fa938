//! The regular expressions of ECMA 262, as with its flag `u`: `\d`, `\w` and `\b` are of ASCII.
//!
//! The grammar is that of Annex B where a pattern would be none otherwise: a lone `]`, `{` or `}` is itself, as
//! is an escaped sign. Each look-around becomes an assertion of [`MARKERS`] in the expression around it.
//! Deliberately absent: back-references, which no automaton can follow; flags; surrogates without their halves.

use regex_automata::util::look;
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look, Repetition};

use super::Invalid;
use super::work::RANGE;

/// The most groups within each other.
const MAX_DEPTH: usize = 100;

/// The most look-arounds of a pattern, those within others included.
const MAX_LOOKS: usize = 32;

/// The assertions that stand for the look-arounds of one expression, in their order. No pattern of ECMA 262
/// has them otherwise.
pub(super) const MARKERS: [(Look, look::Look); 14] = [
    (Look::StartLF, look::Look::StartLF),
    (Look::EndLF, look::Look::EndLF),
    (Look::StartCRLF, look::Look::StartCRLF),
    (Look::EndCRLF, look::Look::EndCRLF),
    (Look::WordUnicode, look::Look::WordUnicode),
    (Look::WordUnicodeNegate, look::Look::WordUnicodeNegate),
    (Look::WordStartAscii, look::Look::WordStartAscii),
    (Look::WordEndAscii, look::Look::WordEndAscii),
    (Look::WordStartUnicode, look::Look::WordStartUnicode),
    (Look::WordEndUnicode, look::Look::WordEndUnicode),
    (Look::WordStartHalfAscii, look::Look::WordStartHalfAscii),
    (Look::WordEndHalfAscii, look::Look::WordEndHalfAscii),
    (Look::WordStartHalfUnicode, look::Look::WordStartHalfUnicode),
    (Look::WordEndHalfUnicode, look::Look::WordEndHalfUnicode),
];

/// The white space of `\s`, and the ends of lines.
const SPACES: [(char, char); 8] = [
    ('\t', '\r'),
    (' ', ' '),
    ('\u{a0}', '\u{a0}'),
    ('\u{1680}', '\u{1680}'),
    ('\u{2000}', '\u{200a}'),
    ('\u{2028}', '\u{2029}'),
    ('\u{202f}', '\u{202f}'),
    ('\u{205f}', '\u{205f}'),
];
const MORE_SPACES: [(char, char); 2] = [('\u{3000}', '\u{3000}'), ('\u{feff}', '\u{feff}')];
const WORD: [(char, char); 4] = [('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')];
const LINE_ENDS: [(char, char); 3] = [('\n', '\n'), ('\r', '\r'), ('\u{2028}', '\u{2029}')];

/// An expression with the look-arounds whose markers it has.
pub(super) struct Expression {
    pub(super) hir: Hir,
    pub(super) looks: Vec<LookAround>,
}

/// A look-around.
pub(super) struct LookAround {
    pub(super) expression: Expression,
    pub(super) is_ahead: bool,
    pub(super) is_negated: bool,
}

/// Parses a pattern. `spend` is given the work, in characters, before it is done.
pub(super) fn parse(
    pattern: &str,
    spend: &mut impl FnMut(u64) -> bool,
) -> Result<Expression, Invalid> {
    if !spend(pattern.len() as u64 * RANGE) {
        return Err(Invalid::TooLarge);
    }
    let mut parser = Parser { rest: pattern, depth: 0, looks: Vec::new(), count: 0, spend };
    let hir = parser.alternatives()?;
    if !parser.rest.is_empty() {
        return Err(Invalid::Syntax);
    }
    Ok(Expression { hir, looks: parser.looks })
}

struct Parser<'p, 's, S> {
    rest: &'p str,
    depth: usize,
    /// The look-arounds of the expression that is read.
    looks: Vec<LookAround>,
    /// Those of the whole pattern.
    count: usize,
    spend: &'s mut S,
}

/// A member of a class in brackets.
enum Member {
    /// A character; `None` for half a surrogate pair, which no text has.
    One(Option<char>),
    Many(ClassUnicode),
}

impl<S: FnMut(u64) -> bool> Parser<'_, '_, S> {
    fn take(&mut self, token: &str) -> bool {
        let after = self.rest.strip_prefix(token);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest.chars().next()?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    fn alternatives(&mut self) -> Result<Hir, Invalid> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Invalid::TooLarge);
        }
        let mut alternatives = vec![self.sequence()?];
        while self.take("|") {
            alternatives.push(self.sequence()?);
        }
        self.depth -= 1;
        Ok(Hir::alternation(alternatives))
    }

    fn sequence(&mut self) -> Result<Hir, Invalid> {
        let mut parts = Vec::new();
        while !self.rest.is_empty() && !self.rest.starts_with(['|', ')']) {
            let part = self.part()?;
            parts.push(self.repeated(part)?);
        }
        Ok(Hir::concat(parts))
    }

    fn part(&mut self) -> Result<Hir, Invalid> {
        match self.next().ok_or(Invalid::Syntax)? {
            '^' => Ok(Hir::look(Look::Start)),
            '$' => Ok(Hir::look(Look::End)),
            '.' => Ok(except(&LINE_ENDS)),
            '(' => self.group(),
            '[' => self.class(),
            '\\' => self.escape(),
            '*' | '+' | '?' => Err(Invalid::Syntax),
            '{' if self.bounds().is_some() => Err(Invalid::Syntax),
            character => Ok(literal(character)),
        }
    }

    /// A part with the quantifier after it. Greed has no meaning: a text matches or does not.
    fn repeated(&mut self, part: Hir) -> Result<Hir, Invalid> {
        let (min, max) = if self.take("*") {
            (0, None)
        } else if self.take("+") {
            (1, None)
        } else if self.take("?") {
            (0, Some(1))
        } else if self.rest.starts_with('{') {
            let at = self.rest;
            self.rest = &at[1..];
            let Some(bounds) = self.bounds() else {
                self.rest = at;
                return Ok(part);
            };
            bounds
        } else {
            return Ok(part);
        };
        self.take("?");
        if self.rest.starts_with(['*', '+', '?']) {
            return Err(Invalid::Unsupported("possessive quantifiers, such as a++: write a+"));
        }
        let too_many = |bound: u64| u32::try_from(bound).map_err(|_| Invalid::TooLarge);
        let (min, max) = (too_many(min)?, max.map(too_many).transpose()?);
        if max.is_some_and(|max| max < min) {
            return Err(Invalid::Syntax);
        }
        Ok(Hir::repetition(Repetition { min, max, greedy: true, sub: Box::new(part) }))
    }

    /// The bounds of a quantifier, after its brace; `None` if the brace is a character as any other.
    fn bounds(&mut self) -> Option<(u64, Option<u64>)> {
        let (inside, after) = self.rest.split_once('}')?;
        let number = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| text.parse().unwrap_or(u64::MAX))
        };
        let bounds = match inside.split_once(',') {
            None => (number(inside)?, Some(number(inside)?)),
            Some((min, "")) => (number(min)?, None),
            Some((min, max)) => (number(min)?, Some(number(max)?)),
        };
        self.rest = after;
        Some(bounds)
    }

    fn group(&mut self) -> Result<Hir, Invalid> {
        for (token, is_ahead, is_negated) in
            [("?=", true, false), ("?!", true, true), ("?<=", false, false), ("?<!", false, true)]
        {
            if self.take(token) {
                return self.look_around(is_ahead, is_negated);
            }
        }
        if self.take("?<") {
            let name = self.rest.split_once('>').map(|(name, _)| name).ok_or(Invalid::Syntax)?;
            let is_name = |it: char| it.is_alphanumeric() || matches!(it, '_' | '$');
            if name.is_empty() || !name.chars().all(is_name) {
                return Err(Invalid::Syntax);
            }
            self.rest = &self.rest[name.len() + 1..];
        } else if self.rest.starts_with("?>") {
            return Err(Invalid::Unsupported("atomic groups, (?>…): write (?:…)"));
        } else if self.rest.starts_with("?(") {
            return Err(Invalid::Unsupported("conditions, (?(…)…): write alternatives, (?:…|…)"));
        } else if self.rest.starts_with("?P=") {
            return Err(BACK_REFERENCE);
        } else if !self.take("?:") && self.rest.starts_with('?') {
            return Err(Invalid::Syntax);
        }
        let inner = self.alternatives()?;
        if self.take(")") { Ok(inner) } else { Err(Invalid::Syntax) }
    }

    fn look_around(&mut self, is_ahead: bool, is_negated: bool) -> Result<Hir, Invalid> {
        self.count += 1;
        if self.count > MAX_LOOKS {
            return Err(Invalid::TooLarge);
        }
        let outer = std::mem::take(&mut self.looks);
        let hir = self.alternatives()?;
        let looks = std::mem::replace(&mut self.looks, outer);
        if !self.take(")") {
            return Err(Invalid::Syntax);
        }
        let (marker, _) = MARKERS.get(self.looks.len()).ok_or(Invalid::TooLarge)?;
        let expression = Expression { hir, looks };
        self.looks.push(LookAround { expression, is_ahead, is_negated });
        Ok(Hir::look(*marker))
    }

    /// An escape outside of a class.
    fn escape(&mut self) -> Result<Hir, Invalid> {
        if self.take("b") {
            return Ok(Hir::look(Look::WordAscii));
        }
        if self.take("B") {
            return Ok(Hir::look(Look::WordAsciiNegate));
        }
        if self.rest.starts_with(|next: char| matches!(next, '1'..='9' | 'k')) {
            return Err(BACK_REFERENCE);
        }
        if self.rest.starts_with('Z') {
            return Err(Invalid::Unsupported(r"\Z, which is no escape of ECMA 262: write $"));
        }
        Ok(match self.member_escape()? {
            Member::One(character) => character.map_or_else(Hir::fail, literal),
            Member::Many(class) => Hir::class(Class::Unicode(class)),
        })
    }

    /// An escape that a class can have too.
    fn member_escape(&mut self) -> Result<Member, Invalid> {
        let many = |ranges: &[(char, char)], is_negated: bool| {
            let mut class = ranges_of(ranges);
            if is_negated {
                class.negate();
            }
            Ok(Member::Many(class))
        };
        let one = |character| Ok(Member::One(Some(character)));
        match self.next().ok_or(Invalid::Syntax)? {
            it @ ('d' | 'D') => many(&[('0', '9')], it == 'D'),
            it @ ('w' | 'W') => many(&WORD, it == 'W'),
            it @ ('s' | 'S') => many(&[&SPACES[..], &MORE_SPACES].concat(), it == 'S'),
            it @ ('p' | 'P') => self.property(it == 'P').map(Member::Many),
            't' => one('\t'),
            'n' => one('\n'),
            'v' => one('\u{b}'),
            'f' => one('\u{c}'),
            'r' => one('\r'),
            '0' if !self.rest.starts_with(|next: char| next.is_ascii_digit()) => one('\0'),
            'c' => {
                let letter =
                    self.next().filter(char::is_ascii_alphabetic).ok_or(Invalid::Syntax)?;
                Ok(Member::One(char::from_u32(u32::from(letter) % 32)))
            }
            'x' => self.hexadecimal(2).map(|code| Member::One(char::from_u32(code))),
            'u' => self.code_point().map(Member::One),
            sign if !sign.is_ascii_alphanumeric() => one(sign),
            _ => Err(Invalid::Syntax),
        }
    }

    fn hexadecimal(&mut self, digits: usize) -> Result<u32, Invalid> {
        let text = self.rest.get(..digits).ok_or(Invalid::Syntax)?;
        if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Invalid::Syntax);
        }
        self.rest = &self.rest[digits..];
        u32::from_str_radix(text, 16).map_err(|_| Invalid::Syntax)
    }

    /// The character of `\u`; `None` for half a surrogate pair.
    fn code_point(&mut self) -> Result<Option<char>, Invalid> {
        if self.take("{") {
            let (digits, after) = self.rest.split_once('}').ok_or(Invalid::Syntax)?;
            let is_number = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_hexdigit());
            let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_number);
            let code = code.filter(|code| *code <= 0x10_ffff).ok_or(Invalid::Syntax)?;
            self.rest = after;
            return Ok(char::from_u32(code));
        }
        let first = self.hexadecimal(4)?;
        let after = self.rest;
        if (0xd800..0xdc00).contains(&first) && self.take("\\u") {
            match self.hexadecimal(4) {
                Ok(second @ 0xdc00..=0xdfff) => {
                    let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                    return Ok(char::from_u32(code));
                }
                Ok(_) | Err(_) => self.rest = after,
            }
        }
        Ok(char::from_u32(first))
    }

    /// The class of `\p{…}`.
    fn property(&mut self, is_negated: bool) -> Result<ClassUnicode, Invalid> {
        let inside = self.rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let (name, after) = inside.ok_or(Invalid::Syntax)?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'=');
        if name.len() > 64 || !name.bytes().all(is_name) {
            return Err(Invalid::Syntax);
        }
        if !(self.spend)(1_000 * RANGE) {
            return Err(Invalid::TooLarge);
        }
        self.rest = after;
        let parsed = regex_syntax::parse(&format!("\\p{{{name}}}")).map_err(|_| Invalid::Syntax)?;
        let mut class = match parsed.into_kind() {
            HirKind::Class(Class::Unicode(class)) => class,
            HirKind::Literal(one) => {
                let character = std::str::from_utf8(&one.0).ok().and_then(|it| it.chars().next());
                ranges_of(&character.map(|it| (it, it)).into_iter().collect::<Vec<_>>())
            }
            HirKind::Class(Class::Bytes(_))
            | HirKind::Empty
            | HirKind::Look(_)
            | HirKind::Repetition(_)
            | HirKind::Capture(_)
            | HirKind::Concat(_)
            | HirKind::Alternation(_) => return Err(Invalid::Syntax),
        };
        if is_negated {
            class.negate();
        }
        Ok(class)
    }

    /// A class in brackets, after the first.
    fn class(&mut self) -> Result<Hir, Invalid> {
        let is_negated = self.take("^");
        let mut ranges = Vec::new();
        while !self.take("]") {
            let first = self.member()?;
            let at = self.rest;
            let is_range = self.take("-") && !self.rest.starts_with(']');
            if !is_range {
                self.rest = at;
                add(&mut ranges, first);
                continue;
            }
            match (first, self.member()?) {
                (Member::One(Some(first)), Member::One(Some(last))) if first <= last => {
                    ranges.push(ClassUnicodeRange::new(first, last));
                }
                (Member::One(Some(_)), Member::One(Some(_))) => return Err(Invalid::Syntax),
                (first, last) => {
                    add(&mut ranges, first);
                    add(&mut ranges, Member::One(Some('-')));
                    add(&mut ranges, last);
                }
            }
        }
        let mut class = ClassUnicode::new(ranges);
        if is_negated {
            class.negate();
        }
        Ok(Hir::class(Class::Unicode(class)))
    }

    fn member(&mut self) -> Result<Member, Invalid> {
        match self.next().ok_or(Invalid::Syntax)? {
            '\\' if self.take("b") => Ok(Member::One(Some('\u{8}'))),
            '\\' => self.member_escape(),
            character => Ok(Member::One(Some(character))),
        }
    }
}

pub(super) const BACK_REFERENCE: Invalid = Invalid::Unsupported(
    r"back-references, such as \1 or \k<name>: write out what may be repeated, as alternatives",
);

fn add(ranges: &mut Vec<ClassUnicodeRange>, member: Member) {
    match member {
        Member::One(one) => ranges.extend(one.map(|it| ClassUnicodeRange::new(it, it))),
        Member::Many(class) => ranges.extend_from_slice(class.ranges()),
    }
}

fn ranges_of(ranges: &[(char, char)]) -> ClassUnicode {
    ClassUnicode::new(ranges.iter().map(|(first, last)| ClassUnicodeRange::new(*first, *last)))
}

fn except(ranges: &[(char, char)]) -> Hir {
    let mut class = ranges_of(ranges);
    class.negate();
    Hir::class(Class::Unicode(class))
}

fn literal(character: char) -> Hir {
    Hir::literal(character.encode_utf8(&mut [0; 4]).as_bytes())
}
