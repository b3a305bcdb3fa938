//! The server's events, read across breaks of the connection.
//!
//! Deliberately absent: an end. A stream that the server refuses for good stays silent.

use std::time::Duration;

use callboard_common::sse::Parser;
use reqwest::Response;
use serde_json::Value;
use tokio::time::Instant;

use crate::{Call, Client, Error};

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The server sends a comment every 15 s; a connection without one is dead.
const SILENCE: Duration = Duration::from_secs(45);

/// An item of the stream.
#[derive(Debug)]
pub enum StreamItem {
    /// The connection stands; no later event is missed.
    Opened {
        /// True if no event since the last one was missed either.
        resumed: bool,
    },
    /// An event.
    Event(Event),
    /// The connection is gone. The stream connects again.
    Broken,
}

/// An event.
#[derive(Debug)]
pub struct Event {
    /// The name, such as `step.completed`.
    pub name: String,
    /// The whole event; null if it is no JSON.
    pub body: Value,
}

/// The events that match a query.
pub struct Events {
    client: Client,
    query: Vec<(String, String)>,
    state: State,
    last_id: Option<String>,
    pause: Duration,
}

enum State {
    Closed { again: Instant },
    Open(Box<Open>),
    Refused(Option<Error>),
}

struct Open {
    response: Response,
    parser: Parser,
    /// The instant of the last sign of life.
    heard_at: Instant,
}

impl Open {
    fn new(response: Response) -> Self {
        Self { response, parser: Parser::default(), heard_at: Instant::now() }
    }

    /// Reads on; false once the connection is gone or silent. Dropping the future prolongs no silence.
    async fn read(&mut self) -> bool {
        let chunk = tokio::time::timeout_at(self.heard_at + SILENCE, self.response.chunk()).await;
        let Ok(Ok(Some(chunk))) = chunk else { return false };
        self.heard_at = Instant::now();
        self.parser.push(&chunk).is_ok()
    }
}

impl Events {
    /// The events of `/api/events` with these parameters. The first [`Events::next`] connects.
    #[must_use]
    pub fn new(client: &Client, query: &[(&str, &str)]) -> Self {
        let query = query.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let state = State::Closed { again: Instant::now() };
        Self { client: client.clone(), query, state, last_id: None, pause: FIRST_PAUSE }
    }

    /// Begins after the event with this cursor, if there is one.
    #[must_use]
    pub fn after(self, cursor: Option<&str>) -> Self {
        Self { last_id: cursor.map(str::to_owned), ..self }
    }

    /// True while the connection stands.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// Waits for the next item. Dropping the future loses no item.
    pub async fn next(&mut self) -> StreamItem {
        match &mut self.state {
            State::Refused(_) => std::future::pending().await,
            State::Closed { again } => {
                tokio::time::sleep_until(*again).await;
                self.open().await
            }
            State::Open(open) => loop {
                if let Some(event) = open.parser.pop() {
                    let body = serde_json::from_str(&event.data).unwrap_or_default();
                    return StreamItem::Event(Event { name: event.name, body });
                }
                // The caller has every event read so far, so the next connection goes on from here.
                if let Some(id) = open.parser.last_id() {
                    self.last_id = Some(id.to_owned());
                }
                if !open.read().await {
                    return self.broken();
                }
                self.pause = FIRST_PAUSE;
            },
        }
    }

    async fn open(&mut self) -> StreamItem {
        let call = self
            .query
            .iter()
            .fold(Call::get(&["events"]), |call, (name, value)| call.query(name, Some(value)));
        let call = call.events_after(self.last_id.as_deref()).at_once();
        match self.client.stream(&call).await {
            Ok(response) => {
                self.state = State::Open(Box::new(Open::new(response)));
                StreamItem::Opened { resumed: self.last_id.is_some() }
            }
            Err(error) if error.is_transient() => self.broken(),
            // The caller may not read events, or the server has none.
            Err(error) => {
                self.state = State::Refused(Some(error));
                StreamItem::Broken
            }
        }
    }

    /// The error with which the server refused the stream for good, once.
    pub fn take_refusal(&mut self) -> Option<Error> {
        match &mut self.state {
            State::Refused(error) => error.take(),
            State::Closed { .. } | State::Open(_) => None,
        }
    }

    fn broken(&mut self) -> StreamItem {
        self.state = State::Closed { again: Instant::now() + self.pause };
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        StreamItem::Broken
    }
}

/// The events of one answer, such as the stream of a task. Ends with its connection.
pub struct EventStream {
    open: Open,
}

impl EventStream {
    /// Sends a call for server-sent events.
    ///
    /// # Errors
    /// Those of [`Client::send`].
    pub async fn open(client: &Client, call: &Call<'_>) -> Result<Self, Error> {
        let response = client.stream(call).await?;
        Ok(Self { open: Open::new(response) })
    }

    /// The next event; `None` once the server has closed the stream, or the connection is gone.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.open.parser.pop() {
                let body = serde_json::from_str(&event.data).unwrap_or_default();
                return Some(Event { name: event.name, body });
            }
            if !self.open.read().await {
                return None;
            }
        }
    }

    /// The place in the log up to which this stream has told everything, if the server names one.
    #[cfg(feature = "api")]
    pub(crate) fn last_id(&self) -> Option<&str> {
        self.open.parser.last_id()
    }

    /// Waits for the first place that the server names.
    #[cfg(feature = "api")]
    pub(crate) async fn place(&mut self) -> Option<String> {
        loop {
            if let Some(place) = self.open.parser.last_id() {
                return Some(place.to_owned());
            }
            if !self.open.read().await {
                return None;
            }
        }
    }
}
