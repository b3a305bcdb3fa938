//! Thinking that a model writes before its answer, between tags: it is taken off as it streams in.
//!
//! ```text
//! Before ─"<think>"─▶ Inside ─"</think>"─▶ Before ─any other text─▶ Answer
//! ```
//!
//! Deliberately absent: tags within the answer, which are a part of it.

/// The tags that models themselves write; others may be what a prompt asked for.
const TAGS: [(&str, &str); 2] = [("<think>", "</think>"), ("[THINK]", "[/THINK]")];

/// The filter of one answer.
#[derive(Debug)]
pub(super) struct Filter {
    state: State,
    /// The thinking so far.
    thought: String,
}

#[derive(Debug)]
enum State {
    /// No text of the answer has come; what came may be the beginning of a tag.
    Before { held: String, is_first: bool },
    /// Thinking. `raw` has it from the tag on, or from the first character if the tag stood in the prompt.
    Inside { raw: String, opening: usize, close: &'static str, seen: usize },
    /// The answer.
    Answer,
}

impl Filter {
    /// A filter of an answer. `is_open` is true for a model whose prompt opens the thinking.
    pub(super) const fn new(is_open: bool) -> Self {
        let (_, close) = TAGS[0];
        let state = if is_open {
            State::Inside { raw: String::new(), opening: 0, close, seen: 0 }
        } else {
            State::Before { held: String::new(), is_first: true }
        };
        Self { state, thought: String::new() }
    }

    /// True while the text is thinking.
    pub(super) const fn is_thinking(&self) -> bool {
        matches!(self.state, State::Inside { .. })
    }

    /// The bytes of the thinking that has ended.
    pub(super) const fn ended(&self) -> usize {
        self.thought.len()
    }

    /// The part of the answer that the next piece shows.
    pub(super) fn push(&mut self, piece: String) -> String {
        let mut piece = piece;
        loop {
            match &mut self.state {
                State::Answer => return piece,
                State::Before { held, is_first } => {
                    held.push_str(&piece);
                    let text = held.trim_start();
                    let begins = |(open, _): &&(&str, &str)| open.starts_with(text);
                    if let Some((open, close)) =
                        TAGS.iter().find(|(open, _)| text.starts_with(open))
                    {
                        let (raw, opening) = (text.to_owned(), open.len());
                        self.state = State::Inside { raw, opening, close, seen: opening };
                        piece = String::new();
                    } else if TAGS.iter().any(|tags| begins(&tags)) {
                        return String::new();
                    } else {
                        let shown = if *is_first { held.as_str() } else { text }.to_owned();
                        self.state = State::Answer;
                        return shown;
                    }
                }
                State::Inside { raw, opening, close, seen } => {
                    raw.push_str(&piece);
                    let from =
                        raw.floor_char_boundary(seen.saturating_sub(close.len()).max(*opening));
                    let Some(at) = raw[from..].find(*close) else {
                        *seen = raw.len();
                        return String::new();
                    };
                    self.thought.push_str(&raw[*opening..from + at]);
                    piece = raw.split_off(from + at + close.len());
                    self.state = State::Before { held: String::new(), is_first: false };
                }
            }
        }
    }

    /// The rest of the answer, and all thinking. A thought without an end is one if the answer was cut at
    /// its limit, else it is the answer.
    pub(super) fn finish(self, is_cut: bool) -> (String, String) {
        let Self { state, mut thought } = self;
        match state {
            State::Before { held, is_first: true } => (held, thought),
            State::Before { .. } | State::Answer => (String::new(), thought),
            State::Inside { raw, opening, .. } if is_cut && opening > 0 => {
                thought.push_str(&raw[opening..]);
                (String::new(), thought)
            }
            State::Inside { raw, .. } => (raw, thought),
        }
    }
}

/// The thinking and the answer of a text whose thinking began in the prompt: its end stands in a line of
/// its own.
pub(super) fn unopened(text: &str) -> Option<(&str, &str)> {
    let (open, close) = TAGS[0];
    let (thought, answer) = text.split_once(close)?;
    let is_alone =
        thought.ends_with('\n') && (answer.is_empty() || answer.starts_with(['\n', '\r']));
    (is_alone && !thought.contains(open)).then(|| (thought, answer.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The streamed answer and the thinking, in pieces of this many characters.
    fn filtered(text: &str, size: usize, is_cut: bool) -> (String, String) {
        let mut filter = Filter::new(false);
        let characters: Vec<char> = text.chars().collect();
        let mut shown: String =
            characters.chunks(size).map(|piece| filter.push(piece.iter().collect())).collect();
        let (rest, thought) = filter.finish(is_cut);
        shown.push_str(&rest);
        (shown, thought)
    }

    #[test]
    fn thinking_is_taken_off_wherever_the_pieces_are_cut() {
        for (text, answer, thought) in [
            ("<think>hm</think>Paris", "Paris", "hm"),
            ("\n<think>\nhm </thin\n</think>\n\nPa ris\n", "Pa ris\n", "\nhm </thin\n"),
            ("<think>a</think> <think>b</think>c", "c", "ab"),
            ("[THINK]hü[/THINK]Paris", "Paris", "hü"),
            ("<think></think>", "", ""),
            (" Paris", " Paris", ""),
            ("<thin", "<thin", ""),
            ("<thinner>", "<thinner>", ""),
            ("Use <think>x</think> so", "Use <think>x</think> so", ""),
            ("<think>no end", "<think>no end", ""),
            ("", "", ""),
        ] {
            for size in 1..=text.chars().count().max(1) {
                let expected = (answer.to_owned(), thought.to_owned());
                assert_eq!(filtered(text, size, false), expected, "{text} by {size}");
            }
        }
        assert_eq!(filtered("<think>cut", 3, true), (String::new(), "cut".to_owned()));
    }

    #[test]
    fn thinking_that_the_prompt_began_ends_in_a_line_of_its_own() {
        assert_eq!(unopened("hm\n</think>\n\nParis"), Some(("hm\n", "Paris")));
        assert_eq!(unopened("The tag </think> ends it."), None);
        assert_eq!(unopened("So:\n<think>\nhm\n</think>\nand so on"), None);
        assert_eq!(unopened("Paris"), None);
        let mut filter = Filter::new(true);
        assert_eq!(filter.push("hm\n</th".into()), "");
        assert_eq!(filter.push("ink>\n\nPa".into()), "Pa");
        assert_eq!(filter.finish(false), (String::new(), "hm\n".to_owned()));
        let mut without = Filter::new(true);
        assert_eq!(without.push("Paris".into()), "");
        assert_eq!(without.finish(true), ("Paris".to_owned(), String::new()));
    }
}
