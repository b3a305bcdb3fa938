//! `GET /api/events`: the event log as server-sent events (docs/reference/events.md).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use callboard_domain::access::{Action, Caller};
use callboard_domain::{Error, Rule};
use callboard_runtime::events::{Cursor, StreamItem};
use callboard_wire::events::{Wanted, name_of, parse_cursor, written};
use futures_util::{Stream, StreamExt, stream};
use serde_json::json;

use super::describe::{Input, Operation};
use super::feed::{Feed, FeedItem};
use super::limit::OpenPermit;
use super::serve::ConnectionHandle;
use super::{App, Failure, Query, sse};

const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The time in which a client may read up to the end of a stream whose right is gone.
pub(super) const UNREAD_FOR: Duration = Duration::from_secs(3);

/// A stream of events to this caller, which ends with its right to `action`, or when the service stops.
pub(super) fn streamed(
    app: &Arc<App>,
    caller: &Caller,
    action: Action,
    connection: &ConnectionHandle,
    events: impl Stream<Item = Event> + Send + 'static,
) -> Response {
    let mut right = app.handle.right(caller, action);
    let mut stopping = app.stopping.subscribe();
    let mut ends = right.clone();
    let over = async move { drop(ends.lost().await) };
    let watch = connection.close_when(over, UNREAD_FOR);
    // The client comes back, and then receives the reason as a refusal.
    let end = async move {
        tokio::select! {
            _ = right.lost() => {}
            _ = stopping.wait_for(|stopping| *stopping) => {}
        }
    };
    let events = events.take_until(Box::pin(end));
    let events = events.map(move |event| {
        let _held = &watch;
        Ok::<_, Infallible>(event)
    });
    // Without `Connection: close`: Node.js takes a broken stream that has it for a whole one.
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

/// Everything that the role may see, as it happens; `Last-Event-ID` resumes.
#[utoipa::path(
    get, path = "/api/events", tag = "events",
    responses((status = 200, content_type = "text/event-stream", body = String)),
)]
pub(super) async fn follow(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    LastEventId(resume): LastEventId,
    Extension(connection): Extension<ConnectionHandle>,
    Query(wanted): Query<Wanted>,
) -> Result<Response, Failure> {
    let permit = app.streams.open(&caller)?;
    let feed = Feed::open(&app, &caller, wanted, resume).await?;
    let gap = resume.filter(|_| !feed.resumed()).map(|from| (from, feed.cursor()));
    let follower = Follower { gap, prev: resume, told: resume, feed, _permit: permit };
    let events = stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        Some((event, follower))
    });
    Ok(streamed(&app, &caller, Action::EventsRead, &connection, events))
}

/// The header `Last-Event-ID`: the event after which the stream begins.
pub(super) struct LastEventId(Option<Cursor>);

impl<S: Send + Sync> FromRequestParts<S> for LastEventId {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let Some(value) = parts.headers.get("last-event-id") else { return Ok(Self(None)) };
        let place = value.to_str().ok().and_then(parse_cursor).ok_or_else(|| {
            let message = "the header Last-Event-ID must be the id of an event";
            Error::invalid("Last-Event-ID", Rule::Format, message)
        })?;
        Ok(Self(Some(place)))
    }
}

impl Input for LastEventId {
    fn describe(operation: &mut Operation) {
        let schema = json!({"type": "string", "pattern": "^e[0-9a-f]{1,16}(-[0-9a-f]{1,8})?$"});
        operation.header("Last-Event-ID", "The event after which the stream begins.", &schema);
    }
}

struct Follower {
    /// The events between these places are no longer kept: the client reads the state anew.
    gap: Option<(Cursor, Cursor)>,
    prev: Option<Cursor>,
    /// The newest place that the client knows.
    told: Option<Cursor>,
    feed: Feed,
    _permit: OpenPermit,
}

impl Follower {
    async fn next(&mut self) -> Option<Event> {
        if let Some((from, to)) = self.gap.take() {
            return Some(self.gap(from, to));
        }
        if self.told.is_none() {
            return Some(self.place());
        }
        loop {
            // A store that cannot be read ends the stream; the client comes back with its cursor.
            let item = match tokio::time::timeout(KEEP_ALIVE, self.feed.next()).await {
                Ok(item) => item?,
                // Events may have passed that the client does not want.
                Err(_) if self.told != Some(self.feed.cursor()) => return Some(self.place()),
                Err(_) => continue,
            };
            let item = match item {
                FeedItem::Item(item) => item,
                FeedItem::Live => continue,
            };
            if let StreamItem::Gap(from, to) = item {
                return Some(self.gap(from, to));
            }
            let event = sse::named(name_of(&item), &written(&item, "", self.prev));
            return Some(match item {
                StreamItem::Stored(at, _) => {
                    (self.prev, self.told) = (Some(at), Some(at));
                    event.id(at.to_string())
                }
                StreamItem::Delta(_) | StreamItem::Depth(_) | StreamItem::Gap(..) => event,
            });
        }
    }

    /// An id without an event: the place from which the client goes on if it loses the connection now.
    fn place(&mut self) -> Event {
        let at = self.feed.cursor();
        self.told = Some(at);
        Event::default().id(at.to_string())
    }

    fn gap(&mut self, from: Cursor, to: Cursor) -> Event {
        (self.prev, self.told) = (Some(to), Some(to));
        let (from, to) = (from.to_string(), to.to_string());
        let data = json!({"from": from, "to": to, "reason": "expired"}).to_string();
        Event::default().event("gap").id(to).data(data)
    }
}
