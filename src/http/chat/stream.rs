//! A chat completion in pieces, as server-sent events.
//!
//! The pieces that a client missed, because it was slow or came late, follow at the end, from the
//! stored output. A stream that cannot end as it began says so and has no `[DONE]`.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use callboard_domain::task::Task;
use callboard_runtime::read::TaskDetail;
use callboard_wire::chat::Chunks;
use futures_util::stream;
use sha2::{Digest, Sha256};

use super::super::limit::OpenPermit;
use super::super::serve::{ConnectionHandle, ConnectionWatch};
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
        is_over: false,
        _permit: permit,
        _watch: watch,
    };
    let events = stream::unfold(chat, |mut chat| async move {
        let event = chat.next().await?;
        Some((Ok::<_, Infallible>(Event::default().data(event)), chat))
    });
    // Without `Connection: close`: Node.js takes a broken stream that has it for a whole one.
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

struct Chat {
    follow: Follow,
    chunks: Chunks,
    ready: VecDeque<String>,
    sent: Sent,
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
                Seen::Text(offset, text) => match self.sent.place(offset) {
                    Place::Next => {
                        self.sent.add(&text);
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

/// The sent text: its length and its digest.
#[derive(Default)]
struct Sent {
    characters: u64,
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
        self.bytes += text.len();
        self.digest.update(text);
    }

    /// The unsent part of the output; `None` if the output begins with another text.
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
}
