//! `GET …/{id}/stream`: one item as it goes on, as server-sent events (PROTOCOL.md 15).
//!
//! ```text
//!   snapshot ─ delta ─ delta ─ task.retrying ─ restart ─ delta ─ task.completed ─ end
//! ```
//!
//! The log tells the item's events, and each running task's text is read from where the stream stands in
//! it. Deliberately absent: a way to resume; a client that comes back begins with a new snapshot.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use axum::response::sse::Event;
use callboard_domain::Error;
use callboard_domain::access::{Action, Caller};
use callboard_domain::execution::Stage;
use callboard_domain::id::{Environment, ExecutionId, TaskId};
use callboard_domain::machine::Machine;
use callboard_domain::task::{State as TaskState, Task};
use callboard_runtime::accounts::Right;
use callboard_runtime::events::{Passing, StreamItem, Subscription};
use callboard_runtime::tables::Subject;
use callboard_runtime::texts::{Following, Mark, Run};
use futures_util::future::select_all;
use futures_util::stream;
use serde_json::{Value, json};

use super::events::streamed;
use super::limit::OpenPermit;
use super::serve::ConnectionHandle;
use super::{App, Failure, Id};
use crate::wire::events::{Wanted, action, name_of, written};
use crate::wire::executions::ExecutionBody;
use crate::wire::tasks::TaskBody;

/// A task as it goes on, with its text.
#[utoipa::path(
    get, path = "/api/tasks/{id}/stream", tag = "tasks",
    responses((status = 200, content_type = "text/event-stream", body = Object)),
)]
pub(super) async fn of_task(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(connection): Extension<ConnectionHandle>,
    Id(id): Id<TaskId>,
) -> Result<Response, Failure> {
    app.may_read(&caller, id)?;
    let permit = app.streams.open(caller.account)?;
    Ok(task_stream(&app, &caller, &connection, id, permit).await?)
}

/// An execution as it goes on, with the texts of its steps.
#[utoipa::path(
    get, path = "/api/plans/executions/{id}/stream", tag = "executions",
    responses((status = 200, content_type = "text/event-stream", body = Object)),
)]
pub(super) async fn of_execution(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(connection): Extension<ConnectionHandle>,
    Id(id): Id<ExecutionId>,
) -> Result<Response, Failure> {
    let permit = app.streams.open(caller.account)?;
    let item = Item::Execution(id);
    Ok(answer(&app, &caller, &connection, item, permit).await?)
}

/// The stream of a task.
pub(super) async fn task_stream(
    app: &Arc<App>,
    caller: &Caller,
    connection: &ConnectionHandle,
    id: TaskId,
    permit: OpenPermit,
) -> Result<Response, Error> {
    answer(app, caller, connection, Item::Task(id), permit).await
}

async fn answer(
    app: &Arc<App>,
    caller: &Caller,
    connection: &ConnectionHandle,
    item: Item,
    permit: OpenPermit,
) -> Result<Response, Error> {
    let action = match item {
        Item::Task(_) => Action::TasksRead,
        Item::Execution(_) => Action::ExecutionsRead,
    };
    let stream = ItemStream::begin(app, caller, item, action, permit).await?;
    let events = stream::unfold(stream, |mut stream| async move {
        let event = stream.next().await?;
        Some((event, stream))
    });
    Ok(streamed(app, caller, action, connection, events))
}

/// The item that is streamed.
#[derive(Debug, Clone, Copy)]
enum Item {
    Task(TaskId),
    Execution(ExecutionId),
}

/// A step by its id, and the item of its list.
type StepKey = (String, Option<u16>);

/// The text of a task, and how far it was sent.
struct Text {
    task: TaskId,
    step: Option<StepKey>,
    following: Following,
    sent: Mark,
    /// The version of the task that the client knows of.
    version: u64,
    /// A run has begun that the client knows of.
    has_begun: bool,
}

impl Text {
    fn of(app: &App, environment: Environment, task: &Task) -> Self {
        Self {
            task: task.spec.id,
            step: task.spec.origin.step.as_ref().map(|(_, id)| (id.clone(), task.spec.origin.item)),
            following: app.handle.follow_text(environment, task.spec.id),
            sent: Mark::default(),
            version: task.version,
            has_begun: task.started_at.is_some(),
        }
    }

    /// The text so far of a task that was read just now, if it is there from its beginning.
    fn so_far(&mut self, task: &Task) -> Option<String> {
        let (offset, text, at) = self.following.after(Mark::default())?;
        // The text of a run that the task's row does not show yet comes as a delta, and so does one
        // whose beginning is not kept.
        let is_running = matches!(task.state, TaskState::Running { .. });
        let is_now = is_running && at.run.version == task.version;
        if at.run.version > task.version || is_now && offset > 0 {
            return None;
        }
        self.sent = at;
        is_now.then_some(text)
    }

    /// The task was leased. The event that says so if what was sent before is void.
    fn began(&mut self, run: Run) -> Option<Event> {
        if run.version <= self.version {
            return None;
        }
        self.version = run.version;
        let is_anew = std::mem::replace(&mut self.has_begun, true);
        is_anew.then(|| restart(self.step.as_ref(), run.attempt))
    }

    /// What was not sent yet.
    fn take(&mut self) -> Vec<Event> {
        let Some((offset, text, at)) = self.following.after(self.sent) else { return Vec::new() };
        self.sent = at;
        if at.run.version < self.version {
            return Vec::new();
        }
        let mut events: Vec<_> = self.began(at.run).into_iter().collect();
        let delta = of_step(self.step.as_ref(), json!({"text": text, "offset": offset}));
        events.push(named("delta", &delta));
        events
    }
}

fn restart(step: Option<&StepKey>, attempt: u32) -> Event {
    named("restart", &of_step(step, json!({"attempt": attempt})))
}

fn of_step(step: Option<&StepKey>, mut members: Value) -> Value {
    if let Some((step, item)) = step {
        members["stepId"] = step.as_str().into();
        if let Some(item) = item {
            members["item"] = (*item).into();
        }
    }
    members
}

fn named(name: &str, data: &Value) -> Event {
    Event::default().event(name).data(data.to_string())
}

/// A stream of one item.
struct ItemStream {
    app: Arc<App>,
    environment: Environment,
    item: Item,
    wanted: Wanted,
    right: Right,
    subscription: Subscription,
    texts: Vec<Text>,
    /// The steps of which an attempt has begun.
    begun: HashSet<StepKey>,
    ready: VecDeque<Event>,
    prev: Option<u64>,
    has_ended: bool,
    _permit: OpenPermit,
}

impl ItemStream {
    async fn begin(
        app: &Arc<App>,
        caller: &Caller,
        item: Item,
        action: Action,
        permit: OpenPermit,
    ) -> Result<Self, Error> {
        let environment = caller.environment;
        // Before the snapshot, so that nothing lies between.
        let subscription = app.handle.subscribe(environment, None, Passing::default()).await?;
        let wanted = match item {
            Item::Task(id) => Wanted { task_id: Some(id.to_string()), ..Wanted::default() },
            Item::Execution(id) => {
                Wanted { execution_id: Some(id.to_string()), ..Wanted::default() }
            }
        };
        let mut stream = Self {
            app: Arc::clone(app),
            environment,
            item,
            wanted,
            right: app.handle.right(caller, action),
            subscription,
            texts: Vec::new(),
            begun: HashSet::new(),
            ready: VecDeque::new(),
            prev: None,
            has_ended: false,
            _permit: permit,
        };
        let (snapshot, has_ended) = stream.read().await?;
        stream.ready.push_back(named("snapshot", &snapshot));
        if has_ended {
            stream.ready.push_back(named("end", &snapshot));
            stream.has_ended = true;
        }
        Ok(stream)
    }

    /// The item as it is, with the texts so far, which are followed from there; and whether it has ended.
    async fn read(&mut self) -> Result<(Value, bool), Error> {
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
                let until = app.handle.waiting_until(&detail.task);
                let body = TaskBody::whole(&detail, waiting_for).until(until);
                Ok((json!(body), has_ended))
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
                let waiting =
                    |task: &_| (handle.waiting_in(environment, task), handle.waiting_until(task));
                Ok((json!(ExecutionBody::whole(&detail, waiting)), has_ended))
            }
        }
    }

    /// The next event; `None` after the end, and if the log cannot be read.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.has_ended {
                return None;
            }
            let item = tokio::select! {
                biased;
                text = changed(&mut self.texts) => {
                    self.ready.extend(self.texts[text].take());
                    continue;
                }
                item = self.subscription.next() => item.ok()??,
            };
            match &item {
                StreamItem::Stored(at, event) if self.wanted.wants(&item) => {
                    self.before(&event.event, &event.subject);
                    if self.right.permits(action(name_of(&item))) {
                        let json = written(&item, "", self.prev.replace(*at));
                        self.ready.push_back(Event::default().event(&*event.event).data(json));
                    }
                    if self.is_end(&event.event, &event.subject) {
                        let (item, _) = self.read().await.ok()?;
                        self.ready.push_back(named("end", &item));
                        self.has_ended = true;
                    }
                }
                StreamItem::Gap(..) => return None,
                StreamItem::Stored(..) | StreamItem::Delta(_) | StreamItem::Depth(_) => {}
            }
        }
    }

    /// What an event says about the texts: it is sent first.
    fn before(&mut self, event: &str, subject: &Subject) {
        let Subject::Task(task) = subject else { return };
        let known = self.texts.iter().position(|text| text.task == task.spec.id);
        if event == "task.started" {
            if let Some(known) = known {
                let text = &mut self.texts[known];
                self.ready.extend(text.take());
                let run = Run { version: task.version, attempt: task.attempt };
                self.ready.extend(text.began(run));
            } else {
                let restart = self.follow(task);
                self.ready.extend(restart);
            }
        } else if let Some(known) = known {
            self.ready.extend(self.texts[known].take());
            if task.is_finished() {
                self.texts.swap_remove(known);
            }
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

/// The text that has more to send; never ready without one.
async fn changed(texts: &mut [Text]) -> usize {
    if texts.is_empty() {
        return std::future::pending().await;
    }
    let changes = texts.iter_mut().map(|text| Box::pin(text.following.changed()));
    select_all(changes).await.1
}
