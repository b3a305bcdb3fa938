//! The text of a task, from the events of its streams: the news of it, across breaks and attempts.
//!
//! Offsets count characters. Pure.

use serde_json::Value;

use crate::Event;

/// The text that was told, and that of the attempt.
#[derive(Debug, Default)]
pub(super) struct Text {
    told: String,
    /// The characters of `told`.
    count: usize,
    /// The text of the attempt, where it is not what was told.
    other: Option<String>,
}

impl Text {
    /// The text that an event adds; `None` if the text that was told is void.
    pub(super) fn news(&mut self, event: &Event) -> Option<String> {
        let output = || event.body["output"].as_str().unwrap_or_default();
        match &*event.name {
            "delta" => {
                let offset = event.body["offset"].as_u64().unwrap_or_default();
                let offset = usize::try_from(offset).unwrap_or(usize::MAX);
                self.delta(event.body["text"].as_str().unwrap_or_default(), offset)
            }
            "restart" => self.become_text(""),
            "snapshot" if runs(&event.body) => self.become_text(output()),
            "end" if output().chars().count() < self.count => None,
            "end" => self.become_text(output()),
            _ => Some(String::new()),
        }
    }

    fn delta(&mut self, text: &str, offset: usize) -> Option<String> {
        let Some(other) = &self.other else {
            // A piece that was missed comes with the end.
            let Some(known) = self.count.checked_sub(offset) else { return Some(String::new()) };
            return Some(self.tell(after(text, known).to_owned()));
        };
        let kept = other.chars().count();
        let now = if offset <= kept {
            other.chars().take(offset).chain(text.chars()).collect()
        } else {
            other.clone()
        };
        self.become_text(&now)
    }

    fn become_text(&mut self, now: &str) -> Option<String> {
        if let Some(fresh) = now.strip_prefix(&*self.told) {
            self.other = None;
            return Some(self.tell(fresh.to_owned()));
        }
        self.other = Some(now.to_owned());
        self.told.starts_with(now).then(String::new)
    }

    fn tell(&mut self, fresh: String) -> String {
        self.told.push_str(&fresh);
        self.count += fresh.chars().count();
        fresh
    }
}

fn runs(item: &Value) -> bool {
    matches!(item["status"].as_str(), Some("pending" | "running"))
}

/// The text without its first characters.
fn after(text: &str, characters: usize) -> &str {
    text.char_indices().nth(characters).map_or("", |(at, _)| &text[at..])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn news(events: &[(&str, Value)]) -> Vec<Option<String>> {
        let mut text = Text::default();
        let event =
            |(name, body): &(&str, Value)| Event { name: (*name).into(), body: body.clone() };
        events.iter().map(|it| text.news(&event(it))).collect()
    }

    fn told(texts: &[&str]) -> Vec<Option<String>> {
        texts.iter().map(|text| Some((*text).to_owned())).collect()
    }

    #[test]
    fn a_piece_that_comes_again_after_a_break_is_told_once() {
        let found = news(&[
            ("delta", json!({"text": "zwölf ", "offset": 0})),
            ("snapshot", json!({"status": "running", "output": "zwölf Bo"})),
            ("delta", json!({"text": "Boxer", "offset": 6})),
            ("end", json!({"status": "completed", "output": "zwölf Boxer jagen"})),
        ]);
        assert_eq!(found, told(&["zwölf ", "Bo", "xer", " jagen"]));
    }

    #[test]
    fn another_attempt_that_writes_the_same_goes_on_and_one_that_differs_makes_it_void() {
        let same = news(&[
            ("delta", json!({"text": "one two", "offset": 0})),
            ("restart", json!({})),
            ("delta", json!({"text": "one ", "offset": 0})),
            ("delta", json!({"text": "two three", "offset": 4})),
        ]);
        assert_eq!(same, told(&["one two", "", "", " three"]));
        let other = news(&[
            ("delta", json!({"text": "one two", "offset": 0})),
            ("restart", json!({})),
            ("delta", json!({"text": "one x", "offset": 0})),
        ]);
        assert_eq!(other[2], None);
    }
}
