//! `GET /ws`: events for clients (docs/reference/events.md).
//!
//! ```text
//!   subscribe ─▶ Feed ─▶ Session: waits, or is too much ─▶ the socket
//! ```
//!
//! One task per connection moves frames.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use callboard_domain::Error;
use callboard_domain::access::{Action, Caller};
use callboard_runtime::accounts::PermissionWatch;
use callboard_wire::events::Wanted;
use futures_util::stream::{AbortHandle, BoxStream, SelectAll, abortable, unfold};
use futures_util::{FutureExt, SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, Sleep, timeout};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{self, Bytes, Message};

use super::upgrade::{Socket, Upgrade};
use super::{Limits, Overrun};
use crate::http::{App, Edge, Failure, Feed, FeedItem, OpenPermit, Share};

mod caller;
mod frames;
mod session;

pub(crate) use caller::{Known, OwnOrigin};

use caller::{End, authenticate};
use frames::{Asked, Refused};
use session::{Due, HEARTBEAT, MAX_SUBS, Outgoing, Session};

/// The longest frame that is taken, in bytes.
const MAX_FRAME: usize = 64 << 10;
/// The events that are read before the socket is written to.
const BATCH: usize = 64;
/// The batches that are read before any other source is polled.
const ROUNDS: usize = 8;
/// The time to send the last frames.
const END_WITHIN: Duration = Duration::from_secs(3);
/// The time for which a client's further frames are read and dropped, so that the client reads the
/// reason of the close.
const DROPPING: Duration = Duration::from_secs(2);

/// Subscribe to events.
#[utoipa::path(
    get, path = "/ws", tag = "events",
    responses((status = 101, description = "the event protocol, over a WebSocket")),
)]
pub(crate) async fn connect(
    State(app): State<Arc<App>>,
    who: Known,
    _: OwnOrigin,
    Extension(share): Extension<Share>,
    Extension(edge): Extension<Edge>,
    upgrade: Upgrade,
) -> Result<Response, Failure> {
    let permit = app.streams.open(who.counted())?;
    let limits = Limits { max_message: MAX_FRAME, within: edge.body_timeout, share };
    Ok(upgrade.answer(limits, async move |mut socket| {
        let known = match who {
            Known::Caller(caller) => Ok((permit, caller)),
            // The address holds its permit until the account has one.
            Known::Address(_, project) => {
                authenticate(&app, &mut socket, project.as_deref()).await.inspect(|_| drop(permit))
            }
        };
        match known {
            Ok((permit, caller)) => Connection::new(app, caller, socket).run(permit).await,
            Err(End(code, reason)) => {
                let mut session = Session::new(Instant::now());
                if code > 1000 {
                    session.bye(code, reason);
                }
                finish(session, socket).await;
            }
        }
    }))
}

/// The subscriptions' events, each with the number of its subscription.
type Feeds = SelectAll<BoxStream<'static, (u64, FeedItem)>>;

/// A client's connection.
struct Connection {
    app: Arc<App>,
    caller: Caller,
    socket: Socket,
    session: Session,
    feeds: Feeds,
    /// The end of each subscription's feed and its filter, by the subscription's number.
    subs: HashMap<u64, (AbortHandle, Wanted)>,
    next_number: u64,
    /// True if the socket holds frames that it has not passed on.
    is_unflushed: bool,
    lost: Pin<Box<dyn Future<Output = Error> + Send>>,
    stopping: Pin<Box<dyn Future<Output = ()> + Send>>,
    timer: Pin<Box<Sleep>>,
}

enum ConnectionEvent {
    Heard(Message),
    /// The socket cannot be read or written any further; with a reason if the client can receive
    /// it.
    Gone(Option<End>),
    CaughtUp,
    Lost(Error),
    Stopping,
    Slow,
}

impl Connection {
    fn new(app: Arc<App>, caller: Caller, socket: Socket) -> Self {
        let mut right: PermissionWatch = app.handle.right(&caller, Action::EventsRead);
        let mut stopping = app.stopping.subscribe();
        let now = Instant::now();
        Self {
            lost: Box::pin(async move { right.lost().await }),
            stopping: Box::pin(async move {
                // The sender lives as long as the service.
                let _ = stopping.wait_for(|stopping| *stopping).await;
            }),
            timer: Box::pin(tokio::time::sleep_until(now)),
            app,
            caller,
            socket,
            session: Session::new(now),
            feeds: SelectAll::new(),
            subs: HashMap::new(),
            next_number: 0,
            is_unflushed: false,
        }
    }

    async fn run(mut self, permit: OpenPermit) {
        let Caller { account, name, role, environment, .. } = &self.caller;
        let user = json!({
            "id": account.to_string(), "name": name, "role": role.as_str(),
            "environment": environment,
        });
        let heartbeat = u64::try_from(HEARTBEAT.as_millis()).unwrap_or(u64::MAX);
        let ready = json!({"user": user, "heartbeatMs": heartbeat});
        self.session.answer(&frames::answer("ready", None, ready));
        loop {
            let end = match std::future::poll_fn(|cx| self.poll(cx)).await {
                ConnectionEvent::Heard(message) => match self.heard(message).await {
                    Ok(()) => continue,
                    Err(end) => Some(end),
                },
                ConnectionEvent::CaughtUp => match self.begin_anew().await {
                    Ok(()) => continue,
                    Err(error) => Some(End::of(&error)),
                },
                ConnectionEvent::Lost(error) => {
                    self.session.forget();
                    Some(End::of(&error))
                }
                ConnectionEvent::Stopping => Some(End(1012, "the server restarts: connect again")),
                ConnectionEvent::Slow => {
                    if let Ok(now) =
                        Feed::open(&self.app, &self.caller, Wanted::default(), None).await
                    {
                        self.session.ends_slow(now.cursor());
                    }
                    None
                }
                ConnectionEvent::Gone(None) => return,
                ConnectionEvent::Gone(end) => end,
            };
            if let Some(End(code @ 1001.., reason)) = end {
                self.session.bye(code, reason);
            }
            drop(self.feeds);
            finish(self.session, self.socket).await;
            drop(permit);
            return;
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ConnectionEvent> {
        let now = Instant::now();
        let mut are_dry = false;
        for _ in 0..ROUNDS {
            are_dry = self.take(cx, now);
            if let Poll::Ready(Err(_)) = self.poll_write(cx, now) {
                return Poll::Ready(ConnectionEvent::Gone(None));
            }
            if are_dry || !self.session.takes() {
                break;
            }
        }
        if !are_dry && self.session.takes() {
            cx.waker().wake_by_ref();
        }
        if self.session.has_caught_up() {
            return Poll::Ready(ConnectionEvent::CaughtUp);
        }
        if self.session.hears()
            && let Poll::Ready(heard) = self.socket.poll_next_unpin(cx)
        {
            return Poll::Ready(match heard {
                Some(Ok(message)) => ConnectionEvent::Heard(message),
                Some(Err(error)) => ConnectionEvent::Gone(End::of_read(&error)),
                None => ConnectionEvent::Gone(None),
            });
        }
        if let Poll::Ready(error) = self.lost.poll_unpin(cx) {
            return Poll::Ready(ConnectionEvent::Lost(error));
        }
        if self.stopping.poll_unpin(cx).is_ready() {
            return Poll::Ready(ConnectionEvent::Stopping);
        }
        let due = self.session.due();
        if self.timer.deadline() != due {
            self.timer.as_mut().reset(due);
        }
        ready!(self.timer.as_mut().poll(cx));
        match self.session.tick(Instant::now()) {
            Due::Slow => Poll::Ready(ConnectionEvent::Slow),
            Due::Silent => Poll::Ready(ConnectionEvent::Gone(None)),
            Due::Nothing => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    /// Reads a batch of events; true if there are no more for now.
    fn take(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        for _ in 0..BATCH {
            if !self.session.takes() {
                return false;
            }
            let Poll::Ready(Some((number, fed))) = self.feeds.poll_next_unpin(cx) else {
                return true;
            };
            self.session.fed(number, fed, now);
        }
        false
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
    ) -> Poll<Result<(), tungstenite::Error>> {
        poll_write(&mut self.session, &mut self.socket, &mut self.is_unflushed, cx, now)
    }

    /// A message of the client. `Err` ends the connection.
    async fn heard(&mut self, message: Message) -> Result<(), End> {
        if !self.session.heard(Instant::now()) {
            return Err(End(4429, "too many frames"));
        }
        let text = match message {
            Message::Text(text) => text,
            Message::Binary(_) => return Err(End(1003, "a frame must be text")),
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => return Ok(()),
            Message::Close(_) => {
                self.session.forget();
                return Err(End(1000, ""));
            }
        };
        let (id, asked) = frames::parse(text.as_str());
        let answer = match asked {
            Ok(asked) => self.asked(id.clone(), asked).await,
            Err(Refused::Error(error)) => Err(error),
            Err(Refused::BadFrame) => return Err(End(4400, "a frame must be a JSON object")),
        };
        if let Err(error) = answer {
            self.session.answer(&frames::error(id, &error));
        }
        Ok(())
    }

    async fn asked(&mut self, id: Option<Value>, asked: Asked) -> Result<(), Error> {
        match asked {
            Asked::Auth(_) => {
                return Err(Error::InvalidState("the socket is authenticated already".into()));
            }
            Asked::Ping => self.session.answer(&frames::answer("pong", id, json!({}))),
            Asked::Unsubscribe(name) => {
                let number = self.session.number_of(&name);
                let number = number.ok_or_else(|| Error::not_found("subscription", &name))?;
                if let Some((feed, _)) = self.subs.remove(&number) {
                    feed.abort();
                }
                self.session.unsubscribed(number);
            }
            Asked::Subscribe(subscribe) => {
                let (name, resume) = (subscribe.sub.clone(), subscribe.resume);
                if self.session.number_of(&name).is_some() {
                    let message = format!("the subscription {name} is open already");
                    return Err(Error::InvalidState(message));
                }
                if !self.session.has_room() {
                    let limit = u32::try_from(MAX_SUBS).unwrap_or(u32::MAX);
                    return Err(Error::TooManyOpen { what: "subscriptions of a socket", limit });
                }
                let wanted = subscribe.wanted();
                let feed = Feed::open(&self.app, &self.caller, wanted.clone(), resume).await?;
                let (at, resumed) = (feed.cursor(), feed.resumed());
                let resumed = resumed && resume.is_some();
                let members = json!({"sub": name, "cursor": at.to_string(), "resumed": resumed});
                self.session.answer(&frames::answer("subscribed", id, members));
                let number = self.next_number;
                self.next_number += 1;
                self.session.subscribed(number, name, at, resume.filter(|_| resumed));
                self.follow(number, wanted, feed);
            }
        }
        Ok(())
    }

    fn follow(&mut self, number: u64, wanted: Wanted, feed: Feed) {
        let events = unfold(feed, move |mut feed| async move {
            let item = feed.next().await?;
            Some(((number, item), feed))
        });
        let (events, abort) = abortable(events);
        self.feeds.push(events.boxed());
        self.subs.insert(number, (abort, wanted));
    }

    /// Resumes the subscriptions of a slow client that has read everything, from now on.
    async fn begin_anew(&mut self) -> Result<(), Error> {
        self.feeds = SelectAll::new();
        self.session.recovered();
        for (number, (_, wanted)) in std::mem::take(&mut self.subs) {
            let feed = Feed::open(&self.app, &self.caller, wanted.clone(), None).await?;
            self.session.skipped(number, feed.cursor());
            self.follow(number, wanted, feed);
        }
        Ok(())
    }
}

/// Hands frames that wait to the socket, as far as it takes them.
fn poll_write(
    session: &mut Session,
    socket: &mut Socket,
    is_unflushed: &mut bool,
    cx: &mut Context<'_>,
    now: Instant,
) -> Poll<Result<(), tungstenite::Error>> {
    loop {
        // The socket's own buffer goes first, so that waiting frames are counted here.
        if !session.has_waiting() || *is_unflushed && socket.poll_ready_unpin(cx).is_pending() {
            ready!(socket.poll_flush_unpin(cx))?;
            *is_unflushed = false;
        }
        if !session.has_waiting() {
            session.rested(now);
            return Poll::Ready(Ok(()));
        }
        ready!(socket.poll_ready_unpin(cx))?;
        let Some(frame) = session.pop(now) else { continue };
        let message = match frame {
            Outgoing::Text(text) => Message::text(text),
            Outgoing::Ping => Message::Ping(Bytes::new()),
            Outgoing::Close(code, reason) => {
                Message::Close(Some(CloseFrame { code: code.into(), reason: reason.into() }))
            }
        };
        socket.start_send_unpin(message)?;
        *is_unflushed = true;
    }
}

/// Sends the last frames, and drops further input, so that the client reads them.
async fn finish(mut session: Session, mut socket: Socket) {
    let mut is_unflushed = true;
    let last = std::future::poll_fn(|cx| {
        poll_write(&mut session, &mut socket, &mut is_unflushed, cx, Instant::now())
    });
    let _ = timeout(END_WITHIN, last).await;
    let mut rest = socket.into_inner().into_inner();
    let drop_rest = async {
        let mut dropped = vec![0; 1 << 14];
        while let Ok(1..) = rest.read(&mut dropped).await {}
    };
    let _ = timeout(DROPPING, drop_rest).await;
}
