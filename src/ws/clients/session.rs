//! The decisions about a client's socket: the frames that wait for it, the instant at which its
//! subscriptions are read further, and the judgement that it is too slow.
//!
//! ```text
//!   replay: events are read as the socket takes them
//!   live:   events wait ─▶ 1,024 or 4 MiB: slow, nothing is read ─┬▶ all sent: gap, live again
//!                                                                └▶ 30 s: gap, bye 4503
//! ```
//!
//! Deliberately absent: the socket, the clock and the log.

use std::collections::VecDeque;
use std::time::Duration;

use callboard_runtime::events::{Cursor, StreamItem};
use callboard_wire::events::{shared, written};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::http::FeedItem;

/// The most subscriptions of a socket.
pub(super) const MAX_SUBS: usize = 64;
/// The most events that wait for a socket, and the most bytes of them.
const MAX_EVENTS: usize = 1_024;
const MAX_BYTES: usize = 4 << 20;
/// The events of a replay that are read ahead.
const READ_AHEAD: usize = 64;
/// The waiting answers from which on no further frame is read.
const MAX_ANSWERS: usize = 16;
/// The longest time for which a socket may be slow, or take no frame at all.
pub(super) const SLOW_FOR: Duration = Duration::from_secs(30);
/// The time between two pings.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(30);
/// The longest silence of a client.
const SILENT_FOR: Duration = Duration::from_secs(90);
/// The frames that a client may send at once, and the time after which it may send one more.
const FRAMES: u32 = 120;
const FRAME_EVERY: Duration = Duration::from_millis(100);

/// A frame to send.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    /// JSON.
    Text(String),
    /// A ping of the WebSocket.
    Ping,
    /// The end, with its code and reason.
    Close(u16, &'static str),
}

/// The action that is due by the clock.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// No action is due.
    Nothing,
    /// The client is slow: its subscriptions end in gaps, and the socket is closed.
    Slow,
    /// The client was silent for too long: the connection is dead.
    Silent,
}

enum Waiting {
    Event(u64, StreamItem),
    Gap(u64, Cursor, &'static str),
    Answer(String),
    Ping,
    Close(u16, &'static str),
}

struct ActiveSubscription {
    number: u64,
    /// The client's name for the subscription.
    name: String,
    /// The members of its frames that stand before those of the event.
    before: String,
    /// The last cursor that the subscription sent, or the one with which it was resumed.
    prev: Option<Cursor>,
    /// The place up to which every event was sent.
    at: Cursor,
    is_live: bool,
}

/// A client's socket.
pub(super) struct Session {
    subs: Vec<ActiveSubscription>,
    waiting: VecDeque<Waiting>,
    events: usize,
    bytes: usize,
    answers: usize,
    slow_since: Option<Instant>,
    /// The last time that the socket took a frame, or had none to take.
    taken_at: Instant,
    heard_at: Instant,
    pinged_at: Instant,
    /// The instant from which on all frames that the client sent are paid for.
    paid_at: Instant,
}

impl Session {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            subs: Vec::new(),
            waiting: VecDeque::new(),
            events: 0,
            bytes: 0,
            answers: 0,
            slow_since: None,
            taken_at: now,
            heard_at: now,
            pinged_at: now,
            paid_at: now,
        }
    }

    /// Notes a frame of the client. False if the client sends too many frames.
    pub(super) fn heard(&mut self, now: Instant) -> bool {
        self.heard_at = now;
        self.paid_at = self.paid_at.max(now) + FRAME_EVERY;
        self.paid_at <= now + FRAMES * FRAME_EVERY
    }

    /// True if a further frame of the client is read.
    pub(super) const fn hears(&self) -> bool {
        self.answers < MAX_ANSWERS
    }

    /// True if a further event is read.
    pub(super) fn takes(&self) -> bool {
        let replays = self.subs.iter().any(|sub| !sub.is_live);
        self.slow_since.is_none() && (!replays || self.events < READ_AHEAD)
    }

    /// The number of the subscription of this name.
    pub(super) fn number_of(&self, name: &str) -> Option<u64> {
        self.subs.iter().find(|sub| sub.name == name).map(|sub| sub.number)
    }

    /// True if there may be one more subscription.
    pub(super) const fn has_room(&self) -> bool {
        self.subs.len() < MAX_SUBS
    }

    /// Begins a subscription after the place `at`, which is that of `resume` if it was resumed.
    pub(super) fn subscribed(
        &mut self,
        number: u64,
        name: String,
        at: Cursor,
        resume: Option<Cursor>,
    ) {
        let quoted = Value::from(name.as_str());
        let before = format!(r#""type":"event","sub":{quoted},"#);
        self.subs.push(ActiveSubscription {
            number,
            name,
            before,
            prev: resume,
            at,
            is_live: false,
        });
    }

    /// Ends a subscription; none of its events is sent any more.
    pub(super) fn unsubscribed(&mut self, number: u64) {
        self.subs.retain(|sub| sub.number != number);
        let (mut events, mut bytes) = (0, 0);
        self.waiting.retain(|frame| match frame {
            Waiting::Event(of, item) if *of == number => {
                events += 1;
                bytes += shared(item).len();
                false
            }
            Waiting::Gap(of, ..) => *of != number,
            Waiting::Event(..) | Waiting::Answer(_) | Waiting::Ping | Waiting::Close(..) => true,
        });
        self.events -= events;
        self.bytes -= bytes;
    }

    /// Adds an answer to the client.
    pub(super) fn answer(&mut self, frame: &Value) {
        self.answers += 1;
        self.waiting.push_back(Waiting::Answer(frame.to_string()));
    }

    /// Adds an item of a subscription. An item that finds too many others waiting is dropped.
    pub(super) fn fed(&mut self, number: u64, fed: FeedItem, now: Instant) {
        let Some(sub) = self.subs.iter_mut().find(|sub| sub.number == number) else { return };
        match fed {
            FeedItem::Live => sub.is_live = true,
            FeedItem::Item(StreamItem::Gap(_, to)) => {
                self.waiting.push_back(Waiting::Gap(number, to, "expired"));
            }
            FeedItem::Item(item) => {
                let bytes = shared(&item).len();
                if self.events >= MAX_EVENTS || self.bytes + bytes > MAX_BYTES {
                    self.slow_since.get_or_insert(now);
                    return;
                }
                self.events += 1;
                self.bytes += bytes;
                self.waiting.push_back(Waiting::Event(number, item));
            }
        }
    }

    /// True if a frame waits.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The next frame, which the socket takes now.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Outgoing> {
        self.taken_at = now;
        Some(match self.waiting.pop_front()? {
            Waiting::Event(number, item) => {
                self.events -= 1;
                self.bytes -= shared(&item).len();
                let sub = self.subs.iter_mut().find(|sub| sub.number == number)?;
                let text = written(&item, &sub.before, sub.prev);
                if let StreamItem::Stored(at, _) = item {
                    (sub.prev, sub.at) = (Some(at), at);
                }
                Outgoing::Text(text)
            }
            Waiting::Gap(number, to, reason) => {
                let sub = self.subs.iter_mut().find(|sub| sub.number == number)?;
                let (from, sub_name) = (sub.at.to_string(), sub.name.as_str());
                let gap = json!({
                    "type": "gap", "sub": sub_name, "from": from, "to": to.to_string(), "reason": reason,
                });
                (sub.prev, sub.at) = (Some(to), to);
                Outgoing::Text(gap.to_string())
            }
            Waiting::Answer(text) => {
                self.answers -= 1;
                Outgoing::Text(text)
            }
            Waiting::Ping => Outgoing::Ping,
            Waiting::Close(code, reason) => Outgoing::Close(code, reason),
        })
    }

    /// True if a slow client has read everything: its subscriptions begin anew.
    pub(super) fn has_caught_up(&self) -> bool {
        self.slow_since.is_some() && self.events == 0
    }

    /// Notes that the client is not slow any more.
    pub(super) fn recovered(&mut self) {
        self.slow_since = None;
    }

    /// Resumes a slow client's subscription after this place.
    pub(super) fn skipped(&mut self, number: u64, to: Cursor) {
        if let Some(sub) = self.subs.iter_mut().find(|sub| sub.number == number) {
            sub.is_live = false;
            self.waiting.push_back(Waiting::Gap(number, to, "slow"));
        }
    }

    /// Ends a client that did not read for too long: its subscriptions end in gaps up to this
    /// place.
    pub(super) fn ends_slow(&mut self, to: Cursor) {
        self.forget();
        let numbers: Vec<_> = self.subs.iter().map(|sub| sub.number).collect();
        let gaps = numbers.into_iter().map(|number| Waiting::Gap(number, to, "slow"));
        self.waiting.extend(gaps);
        self.bye(4503, "too slow");
    }

    /// Drops every frame that waits.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
        (self.events, self.bytes, self.answers) = (0, 0, 0);
    }

    /// Closes the socket after every frame that waits.
    pub(super) fn bye(&mut self, code: u16, reason: &'static str) {
        self.answer(&json!({"type": "bye", "code": code, "reason": reason}));
        self.waiting.push_back(Waiting::Close(code, reason));
    }

    /// The instant at which [`Self::tick`] is due.
    pub(super) fn due(&self) -> Instant {
        let blocked = self.has_waiting().then_some(self.taken_at);
        let slow = [self.slow_since, blocked].into_iter().flatten().map(|since| since + SLOW_FOR);
        let others = [self.pinged_at + HEARTBEAT, self.heard_at + SILENT_FOR];
        slow.chain(others).min().expect("there are two at least")
    }

    /// Returns the action that is due at `now`.
    pub(super) fn tick(&mut self, now: Instant) -> Due {
        let is_over = |since: Instant| now >= since + SLOW_FOR;
        if self.slow_since.is_some_and(is_over) || self.has_waiting() && is_over(self.taken_at) {
            return Due::Slow;
        }
        if now >= self.heard_at + SILENT_FOR {
            return Due::Silent;
        }
        if now >= self.pinged_at + HEARTBEAT {
            self.pinged_at = now;
            if self.waiting.is_empty() {
                self.taken_at = now;
            }
            self.waiting.push_back(Waiting::Ping);
        }
        Due::Nothing
    }

    /// Notes that no frame waits at this time.
    pub(super) fn rested(&mut self, now: Instant) {
        self.taken_at = now;
    }
}

#[cfg(test)]
mod tests;
