//! The events of one execution, over breaks of the connection (PROTOCOL.md 10).
//!
//! Deliberately absent: an end. A stream that is refused for good stays silent.

use std::time::Duration;

use callboard_common::sse::Parser;
use reqwest::Response;
use serde_json::Value;
use tokio::time::Instant;

use crate::cli::client::{Call, Client};

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The server sends a comment every 15 s; a connection without one is dead.
const SILENCE: Duration = Duration::from_secs(45);

/// What the stream has to say.
#[derive(Debug)]
pub(super) enum Heard {
    /// From here on, nothing is missed.
    Opened {
        /// Nor was anything since the last event.
        resumed: bool,
    },
    /// Something happened.
    Event(Event),
    /// The connection is gone; it is tried again.
    Broken,
}

/// An event as the server tells it.
#[derive(Debug)]
pub(super) struct Event {
    /// Such as `step.completed`.
    pub(super) name: String,
    /// The whole event.
    pub(super) body: Value,
}

/// The events of one execution.
pub(super) struct Stream<'c> {
    client: &'c Client,
    execution: &'c str,
    state: State,
    last_id: Option<String>,
    pause: Duration,
}

enum State {
    Closed { again: Instant },
    Open(Box<Open>),
    Refused,
}

struct Open {
    response: Response,
    parser: Parser,
}

impl Event {
    /// Whether the execution has ended with it.
    pub(super) fn is_end(&self) -> bool {
        let end = ["execution.completed", "execution.failed", "execution.cancelled"];
        end.contains(&self.name.as_str())
    }

    /// Whether the state may be another; pieces of an output change nothing in it.
    pub(super) fn is_news(&self) -> bool {
        self.name != "task.delta"
    }

    /// The step that it is about.
    pub(super) fn step(&self) -> Option<&str> {
        let resource = &self.body["resource"];
        resource["id"].as_str().filter(|_| resource["kind"] == "step")
    }
}

impl<'c> Stream<'c> {
    /// A stream that is not open yet.
    pub(super) fn new(client: &'c Client, execution: &'c str) -> Self {
        let state = State::Closed { again: Instant::now() };
        Self { client, execution, state, last_id: None, pause: FIRST_PAUSE }
    }

    /// Whether events are heard at present.
    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// What it has to say next. May be given up at any time without a loss.
    pub(super) async fn next(&mut self) -> Heard {
        match &mut self.state {
            State::Refused => std::future::pending().await,
            State::Closed { again } => {
                tokio::time::sleep_until(*again).await;
                self.open().await
            }
            State::Open(open) => loop {
                if let Some(event) = open.parser.pop() {
                    let body = serde_json::from_str(&event.data).unwrap_or_default();
                    return Heard::Event(Event { name: event.name, body });
                }
                // All that came is taken, so this is the place to go on from.
                if let Some(id) = open.parser.last_id() {
                    self.last_id = Some(id.to_owned());
                }
                match tokio::time::timeout(SILENCE, open.response.chunk()).await {
                    Ok(Ok(Some(chunk))) if open.parser.push(&chunk).is_ok() => {
                        self.pause = FIRST_PAUSE;
                    }
                    Ok(Ok(_) | Err(_)) | Err(_) => {
                        let again = Instant::now() + self.pause;
                        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                        self.state = State::Closed { again };
                        return Heard::Broken;
                    }
                }
            },
        }
    }

    async fn open(&mut self) -> Heard {
        let call = Call::get(&["events"])
            .query("executionId", Some(self.execution))
            .events_after(self.last_id.as_deref())
            .at_once();
        match self.client.stream(&call).await {
            Ok(response) => {
                let parser = Parser::default();
                self.state = State::Open(Box::new(Open { response, parser }));
                Heard::Opened { resumed: self.last_id.is_some() }
            }
            Err(failure) if failure.may_pass() || failure.exit_code() == 7 => {
                self.state = State::Closed { again: Instant::now() + self.pause };
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                Heard::Broken
            }
            // The reader may not hear events, or the server has none: its state says it all.
            Err(_) => {
                self.state = State::Refused;
                Heard::Broken
            }
        }
    }
}
