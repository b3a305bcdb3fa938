//! A chat completion in pieces, as server-sent events.
//!
//! The pieces that a client missed, because it was slow or came late, follow at the end, from the
//! stored output. A stream that cannot end as it began says so and has no `[DONE]`. An answer under a
//! schema is streamed if it begins as JSON; else it may lose its prose or its fence, and comes at the end.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use callboard_domain::task::Task;
use callboard_runtime::read::TaskDetail;
use callboard_wire::chat::Chunks;
use futures_util::stream;
use sha2::{Digest, Sha256};

use super::super::limit::OpenPermit;
use super::super::serve::{ConnectionHandle, ConnectionWatch};
use super::super::sse;
use super::follow::{End, Follow, Seen};

const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The time in which a client may read up to the end of a stream whose right is gone.
const UNREAD_FOR: Duration = Duration::from_secs(3);

pub(super) fn answer(
    follow: Follow,
    task: &Task,
    includes_usage: bool,
    permit: OpenPermit,
    connection: &ConnectionHandle,
) -> Response {
    let mut ends = follow.right();
    let over = async move { drop(ends.lost().await) };
    let watch = connection.close_when(over, UNREAD_FOR);
    let chunks = Chunks::of(task, includes_usage);
    let ready = VecDeque::from([chunks.first()]);
    let chat = Chat {
        follow,
        chunks,
        ready,
        sent: Sent::default(),
        wants_json: task.spec.checked,
        is_over: false,
        _permit: permit,
        _watch: watch,
    };
    let events = stream::unfold(chat, |mut chat| async move {
        let event = chat.next().await?;
        Some((Ok::<_, Infallible>(sse::data(&event)), chat))
    });
    // Without `Connection: close`: Node.js takes a broken stream that has it for a whole one.
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

struct Chat {
    follow: Follow,
    chunks: Chunks,
    ready: VecDeque<String>,
    sent: Sent,
    /// True while only JSON is sent on.
    wants_json: bool,
    is_over: bool,
    _permit: OpenPermit,
    _watch: ConnectionWatch,
}

impl Chat {
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            if self.is_over {
                return None;
            }
            match self.follow.next().await {
                Seen::Text(_, text) if self.wants_json && !begins_as_json(&text) => {}
                Seen::Text(offset, text) => match self.sent.place(offset) {
                    Place::Next => {
                        self.sent.add(&text);
                        self.wants_json = false;
                        self.ready.push_back(self.chunks.text(&text));
                    }
                    // The missing part comes at the end.
                    Place::Later => {}
                    Place::Again => self.end(&End::Restarted),
                },
                Seen::Again if self.sent.characters > 0 => self.end(&End::Restarted),
                Seen::Again => {}
                Seen::End(End::Completed(detail)) => self.complete(&detail),
                Seen::End(end) => self.end(&end),
            }
        }
    }

    fn complete(&mut self, detail: &TaskDetail) {
        let output = detail.output.as_deref().unwrap_or_default();
        let Some(rest) = self.sent.rest(output) else { return self.end(&End::Restarted) };
        if !rest.is_empty() {
            self.ready.push_back(self.chunks.text(rest));
        }
        self.ready.extend(self.chunks.last(&detail.task));
        self.ready.push_back("[DONE]".to_owned());
        self.is_over = true;
    }

    fn end(&mut self, end: &End) {
        self.ready.push_back(super::end_body(self.follow.task(), end).to_string());
        self.is_over = true;
    }
}

/// True for the first piece of an answer that is an object or an array.
fn begins_as_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
}

/// The end of a thinking that the prompt began: the text before it was no answer.
const THOUGHT: &str = "</think>";

/// The sent text.
#[derive(Default)]
struct Sent {
    characters: u64,
    whole: Prefix,
    /// The text after the first end of a thinking.
    answer: Option<Prefix>,
    /// The last characters of the text, which may begin such an end.
    last: String,
}

/// A text that was sent: its length and its digest.
#[derive(Default)]
struct Prefix {
    bytes: usize,
    digest: Sha256,
}

#[derive(Debug, PartialEq, Eq)]
enum Place {
    Next,
    /// A piece before this one is missing.
    Later,
    /// Another text begins.
    Again,
}

impl Sent {
    fn place(&self, offset: u64) -> Place {
        match offset.cmp(&self.characters) {
            std::cmp::Ordering::Equal => Place::Next,
            std::cmp::Ordering::Greater => Place::Later,
            std::cmp::Ordering::Less => Place::Again,
        }
    }

    fn add(&mut self, text: &str) {
        self.characters += text.chars().count() as u64;
        self.whole.add(text);
        if let Some(answer) = &mut self.answer {
            answer.begin(text);
            return;
        }
        self.last.push_str(text);
        if let Some((_, after)) = self.last.split_once(THOUGHT) {
            let mut answer = Prefix::default();
            answer.begin(after);
            self.answer = Some(answer);
        }
        let kept = self.last.len().saturating_sub(THOUGHT.len() - 1);
        self.last.drain(..self.last.floor_char_boundary(kept));
    }

    /// The unsent part of the output; `None` if the output begins with another text. A worker that
    /// learns only at the end of a thinking that the text was one leaves it out of the output.
    fn rest<'o>(&self, output: &'o str) -> Option<&'o str> {
        self.whole.rest(output).or_else(|| self.answer.as_ref()?.rest(output))
    }
}

impl Prefix {
    /// Adds the next text, without the white space at the beginning.
    fn begin(&mut self, text: &str) {
        self.add(if self.bytes == 0 { text.trim_start() } else { text });
    }

    fn add(&mut self, text: &str) {
        self.bytes += text.len();
        self.digest.update(text);
    }

    fn rest<'o>(&self, output: &'o str) -> Option<&'o str> {
        let begin = output.as_bytes().get(..self.bytes)?;
        if Sha256::digest(begin) != self.digest.clone().finalize() {
            return None;
        }
        output.get(self.bytes..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_is_filled_at_the_end_and_another_text_is_noticed() {
        let mut sent = Sent::default();
        assert_eq!(sent.rest("whole"), Some("whole"));
        sent.add("hé");
        assert_eq!(sent.place(2), Place::Next);
        sent.add("l");
        assert_eq!(
            [sent.place(0), sent.place(3), sent.place(4)],
            [Place::Again, Place::Next, Place::Later]
        );
        assert_eq!(sent.rest("héllo"), Some("lo"));
        assert_eq!(sent.rest("hél"), Some(""));
        assert_eq!((sent.rest("hallo, you"), sent.rest("h")), (None, None));
    }

    #[test]
    fn an_output_without_the_thinking_that_was_sent_goes_on_where_the_answer_ended() {
        let text = "Hm, Päris?\n</think>\n\n Par";
        for size in 1..=text.chars().count() {
            let mut sent = Sent::default();
            let characters: Vec<char> = text.chars().collect();
            for piece in characters.chunks(size) {
                sent.add(&piece.iter().collect::<String>());
            }
            assert_eq!(sent.rest("Paris"), Some("is"), "by {size}");
            assert_eq!(sent.rest(&format!("{text}is")), Some("is"), "by {size}");
            assert_eq!(sent.rest("Rome"), None, "by {size}");
        }
        let mut thought = Sent::default();
        thought.add("Hm.\n</think>");
        assert_eq!(thought.rest("Paris"), Some("Paris"));
    }
}
