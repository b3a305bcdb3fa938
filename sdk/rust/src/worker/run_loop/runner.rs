//! The I/O around the session: connects, moves frames, runs tasks, and leaves when asked.
//!
//! One loop owns everything; the calls of [`Handle`] are tasks of their own and outlive a connection. The
//! order of its arms is the order of importance: leaving, heartbeats, writing, reading, results,
//! text. Deliberately absent: any decision about a lease (the session makes those).

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Fuse, FutureExt};
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Message;

use super::Error;
use super::backoff::Backoff;
use super::dial::{Dial, DialError, Socket};
use super::frames::{Assign, Of, Register, Report, ToWorker};
use super::outbox::Outbox;
use super::session::{Effect, Session};

/// The time to tell the server which tasks are given back.
const FAREWELL: Duration = Duration::from_secs(2);
/// The time for the connection, and again for the answer to the registration.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The heartbeats without any frame from the server after which the connection counts as dead.
const SILENT_BEATS: u32 = 3;
/// The longest run of a call whose time an older server does not name; the server ends it earlier.
const NO_DEADLINE: Duration = Duration::from_hours(24);
/// The pieces of text that may wait between the calls and the outbox.
const TEXTS: usize = 64;

/// A lease, and text of its output on its way to the server.
pub type Text = (String, String);

/// The future of a lease's report.
pub type Reporting = Pin<Box<dyn Future<Output = Report> + Send>>;

/// The work of a lease.
pub trait Handle: Send + Sync + 'static {
    /// Runs the lease to its end, within the time. Text of its output may go to `text` before. Dropping the
    /// future ends the work: nobody wants its result any more.
    fn handle(&self, assign: Assign, time: Duration, text: mpsc::Sender<Text>) -> Reporting;
}

/// The end of a connection, or of the wait for one.
#[derive(Debug, PartialEq)]
enum End {
    Lost(String),
    /// The server does not take this worker; the text is the server's.
    Refused(String),
    Leave,
}

/// A worker at work.
pub struct Runner<D> {
    dial: D,
    state: State,
    backoff: Backoff,
}

struct State {
    session: Session,
    outbox: Outbox,
    calls: JoinSet<(String, Report)>,
    /// The calls that run, and their tasks, by the leases.
    handles: HashMap<String, (AbortHandle, String)>,
    handle: Arc<dyn Handle>,
    text: mpsc::Sender<Text>,
    texts: mpsc::Receiver<Text>,
    beat_every: Option<Duration>,
    /// The time that running tasks get when the process is asked to end.
    grace: Duration,
    leave_at: Option<Instant>,
    /// True once what still ran was given back.
    has_given_back: bool,
    /// The server's reason for refusing this worker, if it refuses.
    refusal: Option<String>,
    /// True if the last connection ended before the worker was registered.
    is_turned_away: bool,
}

impl<D: Dial> Runner<D> {
    /// A worker that reaches its server by `dial`. Its tasks get the time of `grace` when it is asked to end.
    pub fn new(dial: D, register: Register, handle: Arc<dyn Handle>, grace: Duration) -> Self {
        let (text, texts) = mpsc::channel(TEXTS);
        let state = State {
            session: Session::new(register),
            outbox: Outbox::default(),
            calls: JoinSet::new(),
            handles: HashMap::new(),
            handle,
            text,
            texts,
            beat_every: None,
            grace,
            leave_at: None,
            has_given_back: false,
            refusal: None,
            is_turned_away: false,
        };
        Self { dial, state, backoff: Backoff::default() }
    }

    /// Works until `shutdown` is ready or the server sends the worker away, and what runs has finished.
    ///
    /// # Errors
    /// The server refuses the worker.
    pub async fn run(mut self, shutdown: impl Future<Output = ()> + Send) -> Result<(), Error> {
        let mut shutdown = std::pin::pin!(shutdown.fuse());
        loop {
            let Some(socket) = self.connect(shutdown.as_mut()).await? else {
                break;
            };
            let end = self.state.converse(socket, shutdown.as_mut(), &mut self.backoff).await;
            self.state.is_turned_away = !self.state.session.is_up();
            self.state.session.disconnected();
            self.state.outbox.clear();
            match end {
                End::Leave => break,
                End::Refused(message) => return Err(Error::Refused { status: 403, message }),
                End::Lost(reason) => {
                    let held = self.state.session.held();
                    tracing::warn!(
                        reason,
                        held,
                        "the connection to the server is gone; what runs goes on"
                    );
                }
            }
        }
        match self.state.session.held() {
            0 => tracing::info!("the worker leaves"),
            held => tracing::warn!(held, "the worker leaves before its tasks have finished"),
        }
        Ok(())
    }

    /// Tries until a connection stands. `None`: the worker must leave.
    async fn connect<F: Future<Output = ()>>(
        &mut self,
        mut shutdown: Pin<&mut Fuse<F>>,
    ) -> Result<Option<D::Socket>, Error> {
        let Self { dial, state, backoff } = self;
        // At once after a connection that worked.
        let mut wait =
            if state.is_turned_away { backoff.next(rand::random()) } else { Duration::ZERO };
        loop {
            let pause = wait;
            let try_once = async {
                sleep(pause).await;
                let late = |_| Err(DialError::Away("the server did not answer in time".to_owned()));
                timeout(CONNECT_TIMEOUT, dial.dial()).await.unwrap_or_else(late)
            };
            let mut try_once = std::pin::pin!(try_once);
            let tried = loop {
                if state.session.is_done() {
                    return Ok(None);
                }
                tokio::select! {
                    biased;
                    () = shutdown.as_mut() => state.shut_down(),
                    () = at(state.leave_at) => return Ok(None),
                    Some(ended) = state.calls.join_next() => state.ended(ended),
                    tried = try_once.as_mut() => break tried,
                }
            };
            match tried {
                Ok(dialed) => return Ok(Some(dialed)),
                Err(DialError::Fatal(error)) => return Err(error),
                Err(DialError::Away(reason)) => {
                    wait = backoff.next(rand::random());
                    let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                    tracing::warn!(reason, wait_ms, "the server can't be reached; trying again");
                }
            }
        }
    }
}

impl State {
    /// Speaks on one connection until it ends.
    async fn converse<F: Future<Output = ()>>(
        &mut self,
        socket: impl Socket,
        mut shutdown: Pin<&mut Fuse<F>>,
        backoff: &mut Backoff,
    ) -> End {
        let (mut sink, mut stream) = socket.split();
        self.beat_every = None;
        let effects = self.session.connected();
        self.perform(effects);
        let mut unflushed = false;
        let mut next_beat = Instant::now() + CONNECT_TIMEOUT;
        let mut last_heard = Instant::now();
        loop {
            if self.session.is_done() && self.outbox.is_empty() && !unflushed {
                // The server notices either way; a close frame only tells it sooner.
                let _ = timeout(Duration::from_secs(1), sink.close()).await;
                return End::Leave;
            }
            let writing = !self.outbox.is_empty();
            tokio::select! {
                biased;
                () = shutdown.as_mut() => self.shut_down(),
                () = at(self.leave_at) => {
                    if self.has_given_back {
                        return End::Leave;
                    }
                    self.give_back();
                }
                () = sleep_until(next_beat) => {
                    let Some(every) = self.beat_every else {
                        return End::Lost("the server did not answer the registration".to_owned());
                    };
                    if last_heard.elapsed() >= every * SILENT_BEATS {
                        return End::Lost("the server is silent".to_owned());
                    }
                    next_beat = Instant::now() + every;
                    let effects = self.session.beat();
                    self.perform(effects);
                }
                moved = poll_fn(|cx| if writing { sink.poll_ready_unpin(cx) } else { sink.poll_flush_unpin(cx) }), if writing || unflushed => {
                    let frame = self.outbox.pop();
                    unflushed = frame.is_some();
                    let sent = frame.map_or(Ok(()), |frame| sink.start_send_unpin(Message::text(frame.text())));
                    if let Err(error) = moved.and(sent) {
                        return End::Lost(error.to_string());
                    }
                }
                heard = stream.next() => {
                    last_heard = Instant::now();
                    let was_up = self.session.is_up();
                    match heard {
                        Some(Ok(Message::Text(text))) => self.received(&text),
                        Some(Ok(Message::Close(frame))) => {
                            let refused = self.refusal.take().map(End::Refused);
                            return refused.unwrap_or_else(|| End::Lost(closed(frame)));
                        }
                        Some(Ok(_)) => {}
                        Some(Err(error)) => return End::Lost(error.to_string()),
                        None => return End::Lost("the server closed the connection".to_owned()),
                    }
                    if let (false, true, Some(every)) = (was_up, self.session.is_up(), self.beat_every) {
                        backoff.reset();
                        next_beat = Instant::now() + every;
                    }
                }
                Some(ended) = self.calls.join_next() => {
                    while let Ok(text) = self.texts.try_recv() {
                        self.text(text);
                    }
                    self.ended(ended);
                }
                Some(text) = self.texts.recv(), if self.session.is_up() && self.outbox.has_room() => self.text(text),
            }
        }
    }

    fn shut_down(&mut self) {
        tracing::info!(
            held = self.session.held(),
            "the worker takes nothing new and finishes what runs"
        );
        let mut effects = self.session.drain();
        effects.push(Effect::LeaveWithin(self.grace));
        self.perform(effects);
    }

    /// The time is over: what still runs is given back.
    fn give_back(&mut self) {
        self.has_given_back = true;
        self.leave_at = Some(Instant::now() + FAREWELL);
        let mut tasks: Vec<_> = self.handles.values().map(|(_, task)| task.as_str()).collect();
        tasks.sort_unstable();
        if !tasks.is_empty() {
            tracing::warn!(
                tasks = tasks.join(" "),
                "these tasks were cut, and begin anew elsewhere"
            );
        }
        let effects = self.session.give_back();
        self.perform(effects);
    }

    fn received(&mut self, text: &str) {
        // The text is not logged: it may hold a prompt.
        let Ok(frame) = serde_json::from_str(text) else {
            tracing::warn!("the server sent a frame that this worker doesn't know");
            return;
        };
        log_frame(&frame);
        if let ToWorker::Error { error } = &frame
            && error.code == "FORBIDDEN"
        {
            self.refusal = Some(error.message.clone());
        }
        let effects = self.session.received(frame);
        self.perform(effects);
    }

    fn text(&mut self, (lease, text): Text) {
        let effects = self.session.delta(lease, text);
        self.perform(effects);
    }

    fn ended(&mut self, ended: Result<(String, Report), JoinError>) {
        // An aborted call has nothing to report, and a call catches its own panics.
        let Ok((lease, result)) = ended else { return };
        self.handles.remove(&lease);
        let effects = self.session.ended(&lease, result);
        self.perform(effects);
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send(frame) => self.outbox.push(frame),
                Effect::Start(assign) => self.start(*assign),
                Effect::Abort(lease) => {
                    if let Some((call, _)) = self.handles.remove(&lease) {
                        call.abort();
                    }
                }
                Effect::BeatEvery(every) => self.beat_every = Some(every),
                Effect::LeaveWithin(time) => {
                    let at = Instant::now() + time;
                    self.leave_at = Some(self.leave_at.map_or(at, |sooner| sooner.min(at)));
                }
            }
        }
    }

    fn start(&mut self, assign: Assign) {
        let time = assign.timeout_ms.map_or(NO_DEADLINE, Duration::from_millis);
        let (lease, task) = (assign.lease.clone(), member(&assign.task, "id").to_owned());
        let reporting = self.handle.handle(assign, time, self.text.clone());
        let of = (lease.clone(), task.clone());
        let handle = self.calls.spawn(async move {
            let (lease, task) = of;
            let result = reporting.await;
            match result.of {
                Of::Fail => {
                    let code =
                        result.members.get("error").map_or("", |error| member(error, "code"));
                    tracing::info!(task, code, "the task's attempt failed");
                }
                Of::Complete => tracing::debug!(task, "the task's attempt is complete"),
            }
            (lease, result)
        });
        self.handles.insert(lease, (handle, task));
    }
}

/// Logs the life of leases, by their tasks and never by their texts.
fn log_frame(frame: &ToWorker) {
    match frame {
        ToWorker::Registered(registered) => {
            let (kept, lost) = (registered.kept.len(), registered.lost.len());
            tracing::info!(worker = registered.worker_id, kept, lost, "the worker is registered");
        }
        ToWorker::Assign(assign) => {
            let (task, model) = (member(&assign.task, "id"), member(&assign.task, "model"));
            let attempt = assign.attempt;
            tracing::debug!(task, model, attempt, "the task begins");
        }
        ToWorker::Leases { lost } if !lost.is_empty() => {
            tracing::warn!(lost = lost.len(), "leases were lost");
        }
        ToWorker::Leases { .. } => {}
        ToWorker::Ack { result, .. } => tracing::debug!(result, "a result was acknowledged"),
        ToWorker::Cancel { reason, .. } => tracing::info!(reason, "a lease was cancelled"),
        ToWorker::Drain { deadline_ms } => {
            tracing::info!(deadline_ms, "the server sends the worker away");
        }
        ToWorker::Error { error } => {
            tracing::warn!(
                code = error.code,
                message = error.message,
                "the server refused a frame"
            );
        }
    }
}

fn member<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn closed(frame: Option<tokio_tungstenite::tungstenite::protocol::CloseFrame>) -> String {
    match frame {
        Some(frame) => format!("the server closed with {} {}", u16::from(frame.code), frame.reason),
        None => "the server closed the connection".to_owned(),
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
