//! An execution until it has ended: shown by events, decided by its state.
//!
//! ```text
//! GET execution ─▶ ended? ──yes──▶ the end
//!       ▲            │ no
//!       │            ▼
//!       └── an event, the stream opened, it broke, or a while passed
//! ```
//!
//! The state decides; an event is only a reason to read it. So no fault of the stream hides the end: without a stream
//! the state is read every second.

mod board;
mod event;
mod step;
mod view;

use std::time::Duration;

use callboard_client::{Call, Client, Events, StreamItem};
use serde_json::Value;
use tokio::time::Instant;

pub(super) use view::View;

use super::failure::Failure;
use super::wait::{Outage, continues, has_ended, in_time, not_ended};
use event::{is_end, is_news};

/// The longest time between two reads of the state, with a stream and without.
const QUIET: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_secs(1);
/// The pause after an event; one read serves a burst of events.
const BURST: Duration = Duration::from_millis(300);
/// The time by which the last events may lag behind the state.
const LAST_EVENTS: Duration = Duration::from_secs(2);

/// Shows an execution until it has ended, and returns it; prints at Ctrl-C the command to go on.
pub(super) async fn follow(
    client: &Client,
    id: &str,
    view: &mut View,
    limit: Option<Duration>,
) -> Result<Value, Failure> {
    tokio::select! {
        ended = until_end(client, id, view, limit) => ended,
        _ = tokio::signal::ctrl_c() => Err(continues("executions watch", id)),
    }
}

async fn until_end(
    client: &Client,
    id: &str,
    view: &mut View,
    limit: Option<Duration>,
) -> Result<Value, Failure> {
    let deadline = limit.map(|limit| Instant::now() + limit);
    let mut stream = Events::new(client, &[("executionId", id)]);
    let mut outage = Outage::default();
    let mut due = Instant::now();
    // True if events report everything that the state shows, now or later.
    let mut heard = false;
    let mut last = Value::Null;
    loop {
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Err(not_ended(id, &last));
        }
        if due <= Instant::now() {
            let call = Call::get(&["plans", "executions", id]);
            match in_time(client.data(call), deadline, (id, &last)).await? {
                Ok(execution) => {
                    outage.over();
                    view.state(&execution, heard)?;
                    heard = stream.is_open();
                    if has_ended(&execution) {
                        last_events(&mut stream, view).await?;
                        view.end(&execution)?;
                        return Ok(execution);
                    }
                    last = execution;
                }
                Err(error) => view.interrupted(&outage.goes_on(error.into())?)?,
            }
            due = Instant::now() + if stream.is_open() { QUIET } else { POLL };
        }
        let tick = view.tick().map(|tick| Instant::now() + tick);
        let until = [deadline, tick].into_iter().flatten().fold(due, Instant::min);
        match tokio::time::timeout_at(until, stream.next()).await {
            Ok(StreamItem::Event(event)) => {
                view.event(&event)?;
                let wait = if is_end(&event) { Duration::ZERO } else { BURST };
                if is_news(&event) {
                    due = due.min(Instant::now() + wait);
                }
            }
            // Events from before the stream opened, or while it was broken, were not received.
            Ok(StreamItem::Opened { resumed }) => {
                heard = resumed;
                due = Instant::now();
            }
            Ok(StreamItem::Broken) => {
                heard = false;
                view.deaf();
                due = due.min(Instant::now() + POLL);
            }
            Err(_) => view.redraw()?,
        }
    }
}

/// Shows the last events to a reader of events.
async fn last_events(stream: &mut Events, view: &mut View) -> Result<(), Failure> {
    let until = Instant::now() + LAST_EVENTS;
    while stream.is_open() && view.lacks_the_end() {
        match tokio::time::timeout_at(until, stream.next()).await {
            Ok(StreamItem::Event(event)) => view.event(&event)?,
            Ok(StreamItem::Opened { .. } | StreamItem::Broken) | Err(_) => break,
        }
    }
    Ok(())
}
