//! Server-sent events, parsed from bytes as they come: a pure struct, fed chunk by chunk.
//!
//! A hundred lines of our own rather than a crate: crates that wrap a response either reconnect by themselves (a
//! second model call) or buffer without a bound.

use std::collections::VecDeque;

/// The greatest event that is taken, in bytes.
pub const MAX_EVENT_BYTES: usize = 16 << 20;

/// One event. Lines without a blank line after them make no event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// The `event` field, empty when there was none.
    pub name: String,
    /// The `data` lines, joined by newlines.
    pub data: String,
}

/// The stream holds a line or an event beyond the bound.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong;

/// The part of the next event that was read, and the events that are whole.
#[derive(Debug, Default)]
pub struct Parser {
    line: Vec<u8>,
    after_carriage_return: bool,
    seen_first_line: bool,
    name: String,
    data: Option<String>,
    id: Option<String>,
    last_id: Option<String>,
    ready: VecDeque<Event>,
}

impl Parser {
    /// Takes the next bytes of the stream, cut anywhere.
    ///
    /// # Errors
    /// [`TooLong`], if a line or an event exceeds [`MAX_EVENT_BYTES`].
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), TooLong> {
        let mut rest = chunk;
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_carriage_return) && rest[0] == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            self.line.extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
            if self.line.len() + self.data.as_ref().map_or(0, String::len) > MAX_EVENT_BYTES {
                return Err(TooLong);
            }
            let Some(end) = end else { return Ok(()) };
            self.after_carriage_return = rest[end] == b'\r';
            rest = &rest[end + 1..];
            self.end_line();
        }
        Ok(())
    }

    /// The next whole event.
    pub fn pop(&mut self) -> Option<Event> {
        self.ready.pop_front()
    }

    /// The event that the end of the stream left without a blank line, for readers that take it.
    pub fn rest(&mut self) -> Option<Event> {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.end_line();
        self.pop()
    }

    /// The id of the last whole event that had one: the place from which to go on once
    /// [`Parser::pop`] has returned every event.
    #[must_use]
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    fn end_line(&mut self) {
        let bytes = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&bytes);
        let mut line = &*text;
        if !std::mem::replace(&mut self.seen_first_line, true) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            let name = std::mem::take(&mut self.name);
            self.last_id = self.id.take().or(self.last_id.take());
            if let Some(data) = self.data.take() {
                self.ready.push_back(Event { name, data });
            }
            return;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "id" => self.id = Some(value.to_owned()),
            "data" => match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            },
            // The line is a comment (an empty field name), or a field that no caller needs.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(chunks: &[&[u8]]) -> Vec<Event> {
        let mut parser = Parser::default();
        for chunk in chunks {
            parser.push(chunk).unwrap();
        }
        std::iter::from_fn(|| parser.pop()).collect()
    }

    fn event(name: &str, data: &str) -> Event {
        Event { name: name.into(), data: data.into() }
    }

    #[test]
    fn names_data_and_comments_are_told_apart() {
        let stream = b"\xef\xbb\xbf: hello\n\nevent: ping\ndata: {}\nid: 7\n\ndata:x\n\n";
        assert_eq!(parse(&[stream]), [event("ping", "{}"), event("", "x")]);
    }

    #[test]
    fn lines_of_data_are_joined_and_one_space_only_is_dropped() {
        assert_eq!(parse(&[b"data:  a\ndata\ndata:b: c\n\n"]), [event("", " a\n\nb: c")]);
    }

    #[test]
    fn every_kind_of_line_end_is_taken() {
        assert_eq!(
            parse(&[b"data: a\r\n\r\ndata: b\r\rdata: c\n\n"]),
            ["a", "b", "c"].map(|d| event("", d))
        );
    }

    #[test]
    fn an_event_that_was_cut_off_or_has_no_data_is_none() {
        assert_eq!(parse(&[b"event: ping\n\ndata: half\n"]), []);
    }

    #[test]
    fn the_rest_is_the_event_that_was_not_closed() {
        for (stream, rest) in [
            ("data: a\n\ndata: b", Some(event("", "b"))),
            ("data: a\n\nevent: e\ndata: b\r", Some(event("e", "b"))),
            ("data: a\n\n", None),
            ("data: a\n\nevent: e\n: c", None),
        ] {
            let mut parser = Parser::default();
            parser.push(stream.as_bytes()).unwrap();
            assert_eq!(parser.pop(), Some(event("", "a")), "{stream:?}");
            assert_eq!(parser.rest(), rest, "{stream:?}");
        }
    }

    #[test]
    fn the_last_id_is_that_of_a_whole_event() {
        let mut parser = Parser::default();
        assert_eq!(parser.last_id(), None);
        parser.push(b"id: e1\ndata: a\n\ndata: b\n\nid: e2\ndata: cut").unwrap();
        assert_eq!(parser.last_id(), Some("e1"));
        parser.push(b" off\n\n").unwrap();
        assert_eq!(parser.last_id(), Some("e2"));
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut parser = Parser::default();
        let chunk = vec![b'x'; MAX_EVENT_BYTES];
        assert_eq!(parser.push(&chunk), Ok(()));
        assert_eq!(parser.push(b"x"), Err(TooLong));
    }

    proptest! {
        #[test]
        fn where_the_chunks_are_cut_makes_no_difference(
            cuts in prop::collection::vec(0_usize..120, 0..12)
        ) {
            let stream = "event: délta\r\ndata: {\"text\": \"äöü 🦀\"}\r\n\r\n: c\r\ndata: 1\rdata: 2\r\rdata: z\n\n".as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();
            prop_assert_eq!(parse(&chunks), parse(&[stream]));
            prop_assert_eq!(parse(&[stream]).len(), 3);
        }
    }
}
