//! `GET /api/events`: the event log as server-sent events (PROTOCOL.md 10).

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
use callboard_runtime::events::Subscription;
use futures_util::{StreamExt, stream};
use serde_json::json;

use super::describe::{Input, Operation};
use super::limit::OpenPermit;
use super::{App, Failure, Query};
use crate::wire::events::{Wanted, cursor, parse_cursor, written};

const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Everything that the role may see, as it happens; `Last-Event-ID` resumes.
#[utoipa::path(
    get, path = "/api/events", tag = "events",
    responses((status = 200, content_type = "text/event-stream", body = String)),
)]
pub(super) async fn follow(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    LastEventId(resume): LastEventId,
    Query(wanted): Query<Wanted>,
) -> Result<Response, Failure> {
    let permit = app.streams.open(caller.account)?;
    let subscription = app.handle.subscribe(caller.environment, resume).await?;
    let mut right = app.handle.right(&caller, Action::EventsRead);
    let follower = Follower {
        app,
        wanted,
        gap: !subscription.resumed(),
        prev: resume,
        subscription,
        _permit: permit,
    };
    let events = stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        Some((Ok::<_, Infallible>(event), follower))
    });
    // The client comes back, and is told why at the door.
    let events = events.take_until(async move { right.lost().await });
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
    Ok(Sse::new(events).keep_alive(keep_alive).into_response())
}

/// The header `Last-Event-ID`: the event after which the stream begins.
pub(super) struct LastEventId(Option<u64>);

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
        let schema = json!({"type": "string", "pattern": "^e[0-9a-f]{1,16}$"});
        operation.header("Last-Event-ID", "The event after which the stream begins.", &schema);
    }
}

struct Follower {
    app: Arc<App>,
    wanted: Wanted,
    /// What lay between is gone: the client reads the state anew.
    gap: bool,
    prev: Option<u64>,
    subscription: Subscription,
    _permit: OpenPermit,
}

impl Follower {
    async fn next(&mut self) -> Option<Event> {
        if std::mem::take(&mut self.gap) {
            let here = cursor(self.subscription.cursor());
            self.prev = None;
            let data = serde_json::json!({"to": here, "reason": "expired"}).to_string();
            return Some(Event::default().event("gap").id(here).data(data));
        }
        loop {
            // A store that cannot be read ends the stream; the client comes back with its cursor.
            let told = self.subscription.next().await.ok()??;
            if !self.wanted.wants(&told) {
                continue;
            }
            let (name, id, json) = written(&told, self.prev, self.app.handle.now());
            let event = Event::default().event(name).data(json);
            return Some(match id {
                Some(id) => {
                    self.prev = parse_cursor(&id);
                    event.id(id)
                }
                None => event,
            });
        }
    }
}
