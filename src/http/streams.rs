//! `GET …/{id}/stream`: one item as it goes on, as server-sent events (docs/reference/events.md).
//!
//! ```text
//!   snapshot ─ delta ─ delta ─ task.retrying ─ restart ─ delta ─ task.completed ─ end
//! ```
//!
//! The log holds the item's events, and each running task's text is read in pieces from the
//! stream's place in it, so that a client that reads slowly costs no more than another. The two
//! frames with the whole item take room as other answers do, until they are sent: without room, a
//! request is refused, and a stream that has begun waits. An account reads one item at a time, so
//! that the streams of others do not wait for all of its own. Deliberately absent: a way to resume; a
//! client that comes back begins with a new snapshot.

mod text;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use axum::Extension;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::response::Response;
use axum::response::sse::Event;
use callboard_domain::Error;
use callboard_domain::access::{Action, Caller};
use callboard_domain::execution::Stage;
use callboard_domain::id::{Environment, ExecutionId, TaskId};
use callboard_domain::machine::Machine;
use callboard_domain::task::Task;
use callboard_runtime::accounts::PermissionWatch;
use callboard_runtime::events::{Cursor, StreamItem, Subscription, Transient};
use callboard_runtime::tables::Subject;
use callboard_runtime::texts::Run;
use callboard_wire::events::{Wanted, action, name_of, written};
use callboard_wire::executions::ExecutionBody;
use callboard_wire::read::query::NoParameters;
use callboard_wire::tasks::TaskBody;
use futures_util::stream;
use serde::Serialize;

use super::body_budget::{AnswerPermit, Share};
use super::describe::{Input, Operation};
use super::events::streamed;
use super::limit::{Counted, OpenPermit};
use super::serve::ConnectionHandle;
use super::{App, Failure, Id, Query, sse};

use text::{StepKey, Text, changed, restart};

/// The destination of a stream: its connection, and its request's share of the budget.
#[derive(Clone)]
pub(super) struct Reader {
    connection: ConnectionHandle,
    share: Share,
}

impl<S: Send + Sync> FromRequestParts<S> for Reader {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let (connection, share) = (parts.extensions.get(), parts.extensions.get());
        let found = ConnectionHandle::clone(connection.ok_or(Error::Internal)?);
        Ok(Self { connection: found, share: Share::clone(share.ok_or(Error::Internal)?) })
    }
}

impl Input for Reader {
    fn describe(_: &mut Operation) {}
}

/// The answer to a stream without room for its first frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WithoutRoom {
    Refused,
    /// The stream waits: the task is submitted, and a refused caller would submit it again.
    Waits,
}

/// A task as it goes on, with its text.
#[utoipa::path(
    get, path = "/api/tasks/{id}/stream", tag = "tasks",
    responses((status = 200, content_type = "text/event-stream", body = Object)),
)]
pub(super) async fn of_task(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    reader: Reader,
    Query(NoParameters): Query<NoParameters>,
    Id(id): Id<TaskId>,
) -> Result<Response, Failure> {
    app.may_read(&caller, id)?;
    let permit = app.streams.open(&caller)?;
    let item = (Item::Task(id), Vec::new());
    Ok(answer(&app, &caller, reader, item, permit, WithoutRoom::Refused).await?)
}

/// An execution as it goes on, with the texts of its steps.
#[utoipa::path(
    get, path = "/api/plans/executions/{id}/stream", tag = "executions",
    responses((status = 200, content_type = "text/event-stream", body = Object)),
)]
pub(super) async fn of_execution(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    reader: Reader,
    Query(NoParameters): Query<NoParameters>,
    Id(id): Id<ExecutionId>,
) -> Result<Response, Failure> {
    let permit = app.streams.open(&caller)?;
    let item = (Item::Execution(id), Vec::new());
    Ok(answer(&app, &caller, reader, item, permit, WithoutRoom::Refused).await?)
}

/// The stream of a task that was submitted just now.
pub(super) async fn of_submitted(
    app: &Arc<App>,
    caller: &Caller,
    reader: Reader,
    (id, warnings): (TaskId, Vec<String>),
    permit: OpenPermit,
) -> Result<Response, Error> {
    let item = (Item::Task(id), warnings);
    answer(app, caller, reader, item, permit, WithoutRoom::Waits).await
}

async fn answer(
    app: &Arc<App>,
    caller: &Caller,
    reader: Reader,
    (item, warnings): (Item, Vec<String>),
    permit: OpenPermit,
    without_room: WithoutRoom,
) -> Result<Response, Error> {
    let action = match item {
        Item::Task(_) => Action::TasksRead,
        Item::Execution(_) => Action::ExecutionsRead,
    };
    let Reader { connection, share } = reader;
    let mut stream = ItemStream::new(app, caller, item, action, share, permit).await?;
    stream.warnings = warnings;
    stream.begin(without_room).await?;
    let events = stream::unfold(stream, |mut stream| async move {
        let event = stream.next().await?;
        Some((event, stream))
    });
    Ok(streamed(app, caller, action, &connection, events))
}

/// The item that is streamed.
#[derive(Debug, Clone, Copy)]
enum Item {
    Task(TaskId),
    Execution(ExecutionId),
}

/// The whole item, in a frame that is still to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whole {
    Snapshot,
    End,
}

/// A frame, and the room that it takes.
type Frame = (Event, Option<AnswerPermit>);

/// A stream of one item.
struct ItemStream {
    app: Arc<App>,
    account: Counted,
    environment: Environment,
    item: Item,
    /// The warnings of the submission, for the first frame.
    warnings: Vec<String>,
    /// The caller, if it is bound to queues, which reads its task only while it holds it.
    bound: Option<Caller>,
    wanted: Wanted,
    right: PermissionWatch,
    share: Share,
    subscription: Subscription,
    texts: Vec<Text>,
    /// The steps of which an attempt has begun.
    begun: HashSet<StepKey>,
    ready: VecDeque<Frame>,
    /// An event that is sent after the text before it.
    behind: Option<StreamItem>,
    owed: Option<Whole>,
    /// The room of the frame that was sent last.
    held: Option<AnswerPermit>,
    prev: Option<Cursor>,
    has_ended: bool,
    _permit: OpenPermit,
}

impl ItemStream {
    async fn new(
        app: &Arc<App>,
        caller: &Caller,
        item: Item,
        action: Action,
        share: Share,
        permit: OpenPermit,
    ) -> Result<Self, Error> {
        let environment = caller.environment;
        // The subscription begins before the snapshot, so that no event lies between.
        let subscription = app.handle.subscribe(environment, None, Transient::default()).await?;
        let wanted = match item {
            Item::Task(id) => Wanted { task_id: Some(id.to_string()), ..Wanted::default() },
            Item::Execution(id) => {
                Wanted { execution_id: Some(id.to_string()), ..Wanted::default() }
            }
        };
        Ok(Self {
            app: Arc::clone(app),
            account: caller.into(),
            environment,
            item,
            warnings: Vec::new(),
            bound: caller.is_bound().then(|| caller.clone()),
            wanted,
            right: app.handle.right(caller, action),
            share,
            subscription,
            texts: Vec::new(),
            begun: HashSet::new(),
            ready: VecDeque::new(),
            behind: None,
            owed: Some(Whole::Snapshot),
            held: None,
            prev: None,
            has_ended: false,
            _permit: permit,
        })
    }

    /// Reads the item for the snapshot.
    async fn begin(&mut self, without_room: WithoutRoom) -> Result<(), Error> {
        let app = Arc::clone(&self.app);
        let _turn = app.item_reads.acquire(self.account).await;
        let (json, has_ended) = self.read().await?;
        match self.share.answer(json.len(), false) {
            Ok(permit) => self.send_whole(Whole::Snapshot, &json, has_ended, permit),
            Err(refused) if without_room == WithoutRoom::Refused => return Err(refused),
            Err(_) => {}
        }
        Ok(())
    }

    /// Reads the item again for a frame, once there is room for it.
    async fn send_owed(&mut self, whole: Whole) -> Result<(), Error> {
        let app = Arc::clone(&self.app);
        let turn = app.item_reads.acquire(self.account).await;
        let (json, has_ended) = self.read().await?;
        if let Ok(permit) = self.share.answer(json.len(), false) {
            self.send_whole(whole, &json, has_ended, permit);
            return Ok(());
        }
        let length = json.len();
        drop((json, turn));
        let permit = self.share.room(length).await;
        let _turn = app.item_reads.acquire(self.account).await;
        let (json, has_ended) = self.read().await?;
        self.send_whole(whole, &json, has_ended, permit);
        Ok(())
    }

    fn send_whole(
        &mut self,
        whole: Whole,
        json: &str,
        has_ended: bool,
        permit: Option<AnswerPermit>,
    ) {
        let name = match whole {
            Whole::Snapshot => "snapshot",
            Whole::End => "end",
        };
        self.warnings.clear();
        self.ready.push_back((sse::named(name, json), permit));
        self.owed = (whole == Whole::Snapshot && has_ended).then_some(Whole::End);
        self.has_ended = whole == Whole::End;
    }

    /// The item, with the texts so far, which are followed from there; and true if the item has
    /// ended.
    async fn read(&mut self) -> Result<(String, bool), Error> {
        let (app, environment) = (Arc::clone(&self.app), self.environment);
        self.texts.clear();
        match self.item {
            Item::Task(id) => {
                let mut detail = app.handle.task(environment, id).await?;
                let has_ended = detail.task.is_finished();
                if !has_ended {
                    let mut text = Text::of(&app, environment, &detail.task);
                    // An output that waits for a reviewer stands in the row.
                    let so_far = text.so_far(&detail.task);
                    detail.output = detail.output.or(so_far);
                    self.texts.push(text);
                }
                let waiting_for = app.handle.waiting_in(environment, &detail.task);
                let until = app.handle.waiting_until(environment, &detail.task);
                let body =
                    TaskBody::whole(&detail, waiting_for).until(until).warned(&self.warnings);
                Ok((written_out(&body)?, has_ended))
            }
            Item::Execution(id) => {
                let mut detail = app.handle.execution(environment, id).await?;
                let execution = &detail.overview.execution;
                let has_ended = execution.head.state.ended_at().is_some();
                for (number, row) in execution.steps() {
                    let task = row.task.filter(|_| row.stage == Stage::Dispatched && !has_ended);
                    let Some(task) = task.and_then(|id| detail.tasks.get(&id)) else { continue };
                    let mut text = Text::of(&app, environment, task);
                    if let Some(so_far) = text.so_far(task) {
                        detail.outputs.insert(number, so_far);
                    }
                    self.begun.extend(text.step.clone().filter(|_| text.has_begun));
                    self.texts.push(text);
                }
                let handle = &app.handle;
                let waiting = |task: &_| {
                    (handle.waiting_in(environment, task), handle.waiting_until(environment, task))
                };
                Ok((written_out(&ExecutionBody::whole(&detail, waiting))?, has_ended))
            }
        }
    }

    /// The next event; `None` after the end, and if the log or the item cannot be read any more.
    async fn next(&mut self) -> Option<Event> {
        // The connection asks for more once it has written the frame before, up to what its buffer holds.
        self.held = None;
        loop {
            if !self.may_read() {
                return None;
            }
            if let Some((event, permit)) = self.ready.pop_front() {
                self.held = permit;
                return Some(event);
            }
            if self.has_ended {
                return None;
            }
            if let Some(whole) = self.owed {
                self.send_owed(whole).await.ok()?;
                continue;
            }
            let item = if let Some(item) = self.behind.take() {
                item
            } else {
                tokio::select! {
                    text = changed(&mut self.texts) => {
                        self.send_text(text);
                        // Each text has its turn.
                        self.texts.rotate_left(text + 1);
                        continue;
                    }
                    item = self.subscription.next() => item.ok()??,
                }
            };
            match &item {
                StreamItem::Stored(_, event) if self.wanted.wants(&item) => {
                    if let Some(text) = self.text_of(&event.subject)
                        && self.send_text(text)
                    {
                        self.behind = Some(item);
                    } else {
                        self.tell(&item);
                    }
                }
                StreamItem::Gap(..) => return None,
                StreamItem::Stored(..) | StreamItem::Delta(_) | StreamItem::Depth(_) => {}
            }
        }
    }

    fn may_read(&self) -> bool {
        match (&self.bound, self.item) {
            (Some(caller), Item::Task(id)) => self.app.may_read(caller, id).is_ok(),
            (Some(_), Item::Execution(_)) | (None, _) => true,
        }
    }

    /// The place of a task's text, if it is followed.
    fn text_of(&self, subject: &Subject) -> Option<usize> {
        let Subject::Task(task) = subject else { return None };
        self.texts.iter().position(|text| text.task == task.spec.id)
    }

    /// Sends the next piece of a text; false if all was sent.
    fn send_text(&mut self, text: usize) -> bool {
        let piece = self.texts[text].take();
        let has_more = piece.is_some();
        self.ready.extend(piece.map(short));
        has_more
    }

    /// Sends a stored event; the text before it was sent.
    fn tell(&mut self, item: &StreamItem) {
        let StreamItem::Stored(at, event) = item else { return };
        self.before(&event.event, &event.subject);
        if self.right.permits(action(name_of(item))) {
            let json = written(item, "", self.prev.replace(*at));
            self.ready.push_back(short(sse::named(&event.event, &json)));
        }
        if event.event == "task.started"
            && let Some(text) = self.text_of(&event.subject)
        {
            // Pieces that came before the event of their run.
            self.send_text(text);
        }
        if self.is_end(&event.event, &event.subject) {
            self.owed = Some(Whole::End);
        }
    }

    /// Handles the effect of an event on the texts, before the event itself is sent.
    fn before(&mut self, event: &str, subject: &Subject) {
        let Subject::Task(task) = subject else { return };
        let known = self.text_of(subject);
        if event == "task.started" {
            let restart = if let Some(known) = known {
                let run = Run { version: task.version, attempt: task.attempt };
                self.texts[known].began(run)
            } else {
                self.follow(task)
            };
            self.ready.extend(restart.map(short));
        } else if let Some(known) = known
            && task.is_finished()
        {
            self.texts.remove(known);
        }
    }

    /// Follows the text of another task of the execution.
    fn follow(&mut self, task: &Task) -> Option<Event> {
        let text = Text::of(&self.app, self.environment, task);
        let step = text.step.clone();
        self.texts.push(text);
        let step = step?;
        let restart = self.begun.contains(&step).then(|| restart(Some(&step), task.attempt));
        self.begun.insert(step);
        restart
    }

    fn is_end(&self, event: &str, subject: &Subject) -> bool {
        match (self.item, subject) {
            (Item::Task(id), Subject::Task(task)) => task.spec.id == id && task.is_finished(),
            (Item::Execution(id), Subject::Execution(head, _)) => {
                let ends = ["execution.completed", "execution.failed", "execution.cancelled"];
                head.spec.id == id && ends.contains(&event)
            }
            (Item::Task(_) | Item::Execution(_), _) => false,
        }
    }
}

/// A frame that is too short to take room.
const fn short(event: Event) -> Frame {
    (event, None)
}

fn written_out(body: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(body).map_err(|_| Error::Internal)
}
