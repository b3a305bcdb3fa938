//! The search of long texts, which no index holds: each is read.
//!
//! ```text
//!   "mül 102"  ─▶  mül, 102  ─▶  "… an Frau [Mül]ler, Vertrag [102]41 …"
//! ```
//!
//! A text has a word if one of its own words begins with it, in any case. A word begins behind a sign too, and at each
//! letter of a script that writes no blanks.

use super::{ASKED, is_sign};

/// The most characters of a snippet.
pub const SNIPPET: usize = 160;
/// The characters of a snippet before its first match.
const BEFORE: usize = 40;
/// The places of words in a text that a snippet is chosen from.
const PLACES: usize = 200;

/// The beginnings of words that a text must have, in one case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    words: Vec<String>,
    /// The longest run of letters and digits of each word: no way of writing a text changes it.
    runs: Vec<String>,
}

/// A piece of a snippet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The text; any run of blanks is one.
    pub text: String,
    /// True for the beginning of a word that was asked for.
    pub is_match: bool,
}

/// The place of a word in a text.
#[derive(Debug, Clone, Copy)]
struct Place {
    word: usize,
    from: usize,
    to: usize,
}

impl Wanted {
    /// The words of a search; `None` if it has no letter and no digit.
    #[must_use]
    pub fn of(search: &str) -> Option<Self> {
        let words = search.split_whitespace().map(|word| folded(word.trim_matches(is_sign)));
        let words: Vec<_> = words.filter(|word| !word.is_empty()).take(ASKED).collect();
        let longest =
            |word: &String| word.split(is_sign).max_by_key(|run| run.len()).map(str::to_owned);
        let runs = words.iter().filter_map(longest).collect();
        (!words.is_empty()).then_some(Self { words, runs })
    }

    /// The set of all words.
    #[must_use]
    pub fn all(&self) -> u8 {
        u8::MAX >> (8 - self.words.len())
    }

    /// The words that a text may have, as a set; a word that is not in it is not in the text. Quick, and true of
    /// the text's JSON form too.
    #[must_use]
    pub fn may_have(&self, text: &str) -> u8 {
        let text = folded(text);
        let found = self.runs.iter().enumerate().filter(|(_, run)| text.contains(run.as_str()));
        found.fold(0, |set, (word, _)| set | 1 << word)
    }

    /// Looks for all words in some texts, which have them together. Returns the text that has the most of them, by
    /// its name, with a snippet.
    pub fn find<'t, N>(
        &self,
        texts: impl IntoIterator<Item = (N, &'t str)>,
    ) -> Option<(N, Vec<Piece>)> {
        let (mut found, mut best) = (0, None);
        for (name, text) in texts {
            let places = self.places(text);
            let set = places.iter().fold(0_u8, |set, place| set | 1 << place.word);
            found |= set;
            let is_better =
                |(_, _, _, other): &(N, &str, Vec<Place>, u32)| set.count_ones() > *other;
            if set != 0 && best.as_ref().is_none_or(is_better) {
                best = Some((name, text, places, set.count_ones()));
            }
        }
        let (name, text, places, _) = best.filter(|_| found == self.all())?;
        Some((name, snippet(text, &places)))
    }

    /// The places of the words, in order: the first of each, and others up to a limit.
    fn places(&self, text: &str) -> Vec<Place> {
        let (mut places, mut found) = (Vec::new(), 0_u8);
        for from in beginnings(text) {
            for (word, wanted) in self.words.iter().enumerate() {
                if places.len() >= PLACES && found & 1 << word != 0 {
                    continue;
                }
                if let Some(length) = begins_with(&text[from..], wanted) {
                    found |= 1 << word;
                    places.push(Place { word, from, to: from + length });
                }
            }
            if places.len() >= PLACES && found == self.all() {
                break;
            }
        }
        places
    }
}

/// The snippet of a text around the place where the most words are near each other.
fn snippet(text: &str, places: &[Place]) -> Vec<Piece> {
    let near = |first: &Place| {
        let near = places
            .iter()
            .filter(|place| (first.from..first.from + SNIPPET - 2 * BEFORE).contains(&place.from));
        near.fold(0_u8, |set, place| set | 1 << place.word).count_ones()
    };
    let first = places.iter().rev().max_by_key(|first| near(first));
    let first = first.map_or(0, |place| place.from);
    let start = text[..first].char_indices().rev().take(BEFORE).last().map_or(first, |(at, _)| at);
    let mut shown = Shown::default();
    if start > 0 {
        shown.push('…', false);
    }
    let mut places = places.iter().skip_while(|place| place.from < start).peekable();
    let mut match_end = 0;
    for (at, c) in text[start..].char_indices().map(|(at, c)| (start + at, c)) {
        while let Some(place) = places.next_if(|place| place.from <= at) {
            match_end = match_end.max(place.to);
        }
        // The last character is for the sign that something follows.
        let is_last = shown.count == SNIPPET - 1 && at + c.len_utf8() < text.trim_end().len();
        if is_last || shown.count == SNIPPET {
            shown.push('…', false);
            break;
        }
        shown.push(if c.is_whitespace() || c.is_control() { ' ' } else { c }, at < match_end);
    }
    shown.pieces
}

/// A snippet as far as it is written.
#[derive(Debug, Default)]
struct Shown {
    pieces: Vec<Piece>,
    count: usize,
}

impl Shown {
    fn push(&mut self, c: char, is_match: bool) {
        let last = self.pieces.last_mut();
        if c == ' ' && last.as_ref().is_none_or(|last| last.text.ends_with(' ')) {
            return;
        }
        self.count += 1;
        match last {
            Some(last) if last.is_match == is_match => last.text.push(c),
            _ => self.pieces.push(Piece { text: c.into(), is_match }),
        }
    }
}

/// The places where words of a text begin.
fn beginnings(text: &str) -> impl Iterator<Item = usize> {
    let mut before = [' ', ' '];
    text.char_indices().filter_map(move |(at, c)| {
        let [second, last] = before;
        before = [last, c];
        // In a JSON form, a line ends with an escape: \n.
        let is_escape = second == '\\' && matches!(last, 'n' | 'r' | 't');
        let begins = is_sign(last) || is_escape || is_unspaced(c);
        (begins && !is_sign(c)).then_some(at)
    })
}

/// True for a letter of a script that writes no blanks between words.
const fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{2e80}'..='\u{a4cf}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// The bytes of a text that are the folded `word`, if the text begins with it.
fn begins_with(text: &str, word: &str) -> Option<usize> {
    let mut wanted = word.chars().peekable();
    for (at, c) in text.char_indices() {
        for c in fold(c) {
            if wanted.next_if_eq(&c).is_none() {
                // The last letter may fold to more letters than the word has.
                return wanted.peek().is_none().then_some(at + c.len_utf8());
            }
        }
        if wanted.peek().is_none() {
            return Some(at + c.len_utf8());
        }
    }
    None
}

/// A text in one case, letter by letter.
fn folded(text: &str) -> String {
    if text.is_ascii() { text.to_ascii_lowercase() } else { text.chars().flat_map(fold).collect() }
}

/// A letter in the case of all searches; the two small forms of the Greek sigma are one.
fn fold(c: char) -> impl Iterator<Item = char> {
    c.to_lowercase().map(|c| if c == 'ς' { 'σ' } else { c })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The snippet with its matches in brackets.
    fn marked(search: &str, text: &str) -> Option<String> {
        let wanted = Wanted::of(search)?;
        let found = wanted.find([((), text)]).map(|((), pieces)| {
            let piece = |piece: Piece| {
                if piece.is_match { format!("[{}]", piece.text) } else { piece.text }
            };
            pieces.into_iter().map(piece).collect()
        });
        assert!(found.is_none() || wanted.may_have(text) == wanted.all(), "{search} in {text}");
        found
    }

    #[test]
    fn a_word_is_found_from_its_beginning_in_any_case() {
        let text = "An Frau Müller,\n  Vertrag K-10241";
        assert_eq!(marked("mÜl", text).as_deref(), Some("An Frau [Mül]ler, Vertrag K-10241"));
        assert_eq!(
            marked("k-102 frau", text).as_deref(),
            Some("An [Frau] Müller, Vertrag [K-102]41")
        );
        assert_eq!(marked("102", text).as_deref(), Some("An Frau Müller, Vertrag K-[102]41"));
        assert_eq!(marked("üller", text), None, "the middle of a word");
        assert_eq!(marked("müller smith", text), None, "one word is missing");
        assert_eq!(Wanted::of(" - !"), None);
    }

    #[test]
    fn letters_that_change_their_length_are_found() {
        assert_eq!(marked("straß", "STRASSE, STRAẞE").as_deref(), Some("STRASSE, [STRAẞ]E"));
        assert_eq!(marked("οδυσσευσ", "Ὁ ΟΔΥΣΣΕΥΣ").as_deref(), Some("Ὁ [ΟΔΥΣΣΕΥΣ]"));
        assert_eq!(marked("i", "İzmir").as_deref(), Some("[İ]zmir"));
        assert_eq!(marked("契約", "御契約番号").as_deref(), Some("御[契約]番号"));
    }

    #[test]
    fn a_word_behind_an_escaped_line_end_is_found() {
        assert_eq!(
            marked("terms", r#"{"a":"x\nTerms"}"#).as_deref(),
            Some(r#"{"a":"x\n[Terms]"}"#)
        );
    }

    #[test]
    fn a_snippet_has_at_most_160_characters_around_the_most_words() {
        let text = format!("alpha {} alpha ä beta {}", "wörter ".repeat(100), "ende ".repeat(100));
        let shown = marked("alpha beta", &text).expect("both are there");
        assert!(shown.contains("[alpha] ä [beta] ende"), "{shown}");
        assert!(shown.starts_with('…') && shown.ends_with('…'), "{shown}");
        assert_eq!(shown.chars().count() - 4, SNIPPET, "{shown}");
    }

    #[test]
    fn the_text_with_the_most_words_is_shown_and_the_texts_have_them_together() {
        let wanted = Wanted::of("alpha beta gamma").expect("words");
        let texts = [("prompt", "alpha"), ("output", "beta, gamma")];
        assert_eq!(wanted.find(texts).map(|(name, _)| name), Some("output"));
        assert_eq!(wanted.find(texts.into_iter().take(1)), None);
        assert_eq!(wanted.may_have("ALPHABET gamma"), 0b101);
        assert_eq!(wanted.all(), 0b111);
    }

    #[test]
    fn many_places_hide_no_word() {
        let text = "a ".repeat(500) + "b";
        let shown = marked("a b", &text).expect("both are there");
        assert!(shown.starts_with("[a]"), "{shown}");
    }
}
