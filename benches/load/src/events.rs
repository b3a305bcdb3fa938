//! T8: the time from a commit to the subscribers of `/ws`, and the events a second that reach them.
//!
//! The commit lies before the answer to the submission, and the clock starts at the answer: an
//! event that arrives earlier counts as the least that is measured. All subscribers live in the
//! load maker's one thread, so the time to read them counts as well.

use std::time::Instant;

use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::error::{Error, broken};
use super::http::Site;
use super::meter::{Summary, histogram, micros};
use super::program::Ground;
use super::report::{Bound, Row};
use super::worker::{QUEUE, socket};

/// The tasks that one request submits where events a second are measured.
const BATCH: usize = 100;

/// Measures the program alone: there is no baseline.
pub(super) async fn run(ground: &Ground) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for (subscribers, bound) in [(1, Some(5.0)), (100, None), (1_000, Some(50.0))] {
        let settings = [("CALLBOARD_LIMITS__STREAMS", "2000")];
        let service = ground.server_on(ground.directory()?, &settings).await?.service().await?;
        let mut all = Subscribers::connect(&service.operator, subscribers).await?;
        if let Some(bound) = bound {
            let latency = latency(ground, &service.operator, &mut all).await?;
            let work = format!("commit → {} over /ws, p99", many(subscribers));
            let row = Row::of("T8", work, "ms").figure(latency.p99).latencies(latency);
            rows.push(row.bound(Bound::AtMost(bound)));
        }
        let rate = rate(ground, &service.operator, &mut all).await?;
        let work = format!("events to {}", many(subscribers));
        rows.push(Row::of("T8", work, "events/s").figure(rate));
    }
    Ok(rows)
}

fn many(subscribers: usize) -> String {
    if subscribers == 1 { "1 subscriber".into() } else { format!("{subscribers} subscribers") }
}

/// Subscribers that report the arrival of events.
struct Subscribers {
    count: usize,
    arrived: mpsc::UnboundedReceiver<Instant>,
    /// The readers; dropping the set ends them.
    readers: JoinSet<Result<(), Error>>,
}

impl Subscribers {
    async fn connect(site: &Site, count: usize) -> Result<Self, Error> {
        let (told, arrived) = mpsc::unbounded_channel();
        let mut readers = JoinSet::new();
        for _ in 0..count {
            let reader = subscribe(site).await?;
            readers.spawn(read(reader, told.clone()));
        }
        Ok(Self { count, arrived, readers })
    }

    /// Waits until each subscriber has received so many events, and returns the instant.
    async fn receive(&mut self, events: usize) -> Result<Vec<Instant>, Error> {
        let count = self.count * events;
        let mut all = Vec::with_capacity(count);
        while all.len() < count {
            tokio::select! {
                biased;
                some = self.arrived.recv_many(&mut all, count) => {
                    if some == 0 {
                        return Err(broken("no subscriber is left"));
                    }
                }
                Some(ended) = self.readers.join_next() => {
                    ended.map_err(Error::of("a subscriber broke"))??;
                    return Err(broken("the server closed a subscriber's socket"));
                }
            }
        }
        Ok(all)
    }
}

async fn subscribe(site: &Site) -> Result<WebSocketStream<TcpStream>, Error> {
    let mut socket = socket(site, "/ws").await?;
    let subscribe = json!({"type": "subscribe", "sub": "s", "events": ["task.created"]});
    let sent = socket.send(Message::text(subscribe.to_string())).await;
    sent.map_err(Error::of("a socket was lost"))?;
    loop {
        let frame = socket.next().await.ok_or_else(|| broken("a socket was closed"))?;
        let frame = frame.map_err(Error::of("a socket was lost"))?;
        if frame.to_text().is_ok_and(|text| text.contains("\"subscribed\"")) {
            return Ok(socket);
        }
    }
}

async fn read(
    mut socket: WebSocketStream<TcpStream>,
    told: mpsc::UnboundedSender<Instant>,
) -> Result<(), Error> {
    while let Some(frame) = socket.next().await {
        let Message::Text(text) = frame.map_err(Error::of("a socket was lost"))? else { continue };
        if !text.starts_with("{\"type\":\"event\"") {
            return Err(broken(format!("no event, but {text}")));
        }
        if told.send(Instant::now()).is_err() {
            break;
        }
    }
    Ok(())
}

/// Submits one task at a time, and measures the times until its event has reached each subscriber.
async fn latency(ground: &Ground, site: &Site, all: &mut Subscribers) -> Result<Summary, Error> {
    let body = json!({"prompt": "a letter", "queue": QUEUE}).to_string();
    let request = site.post("/api/tasks", &body);
    let mut connection = site.open().await?;
    let (mut latency, begin) = (histogram(), Instant::now());
    while begin.elapsed() < ground.options.span || latency.is_empty() {
        connection.exchange(&request, 201).await?;
        let answered = Instant::now();
        for arrived in all.receive(1).await? {
            latency.saturating_record(micros(arrived.saturating_duration_since(answered)).max(1));
        }
    }
    Ok(Summary::new(&latency, begin.elapsed()))
}

/// The events a second that reach every subscriber.
async fn rate(ground: &Ground, site: &Site, all: &mut Subscribers) -> Result<f64, Error> {
    let task = json!({"prompt": "a letter", "queue": QUEUE});
    let body = json!({"tasks": vec![task; BATCH]}).to_string();
    let request = site.post("/api/tasks/batch", &body);
    let mut connection = site.open().await?;
    let (mut events, begin) = (0_u32, Instant::now());
    while begin.elapsed() < ground.options.span || events == 0 {
        connection.exchange(&request, 201).await?;
        all.receive(BATCH).await?;
        events += 100;
    }
    Ok(f64::from(events) / begin.elapsed().as_secs_f64())
}
