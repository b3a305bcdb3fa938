//! The text of a running task, as far as a stream has sent it.

use axum::response::sse::Event;
use callboard_domain::id::{Environment, TaskId};
use callboard_domain::task::{State as TaskState, Task};
use callboard_runtime::events::MAX_PIECE;
use callboard_runtime::texts::{Run, TextPosition, TextReader};
use futures_util::future::select_all;
use serde_json::{Value, json};

use super::{App, sse};

/// A step by its id, and the item of its list.
pub(super) type StepKey = (String, Option<u16>);

/// The text of a task, and the place up to which it was sent.
pub(super) struct Text {
    pub(super) task: TaskId,
    pub(super) step: Option<StepKey>,
    following: TextReader,
    sent: TextPosition,
    /// The version of the task that the client knows.
    version: u64,
    /// True if the client knows of a run.
    pub(super) has_begun: bool,
}

impl Text {
    pub(super) fn of(app: &App, environment: Environment, task: &Task) -> Self {
        Self {
            task: task.spec.id,
            step: task.spec.origin.step.as_ref().map(|(_, id)| (id.clone(), task.spec.origin.item)),
            following: app.handle.follow_text(environment, task.spec.id),
            sent: TextPosition::default(),
            version: task.version,
            has_begun: task.started_at.is_some(),
        }
    }

    /// The text so far of a task that was read just now, if the text is there from its beginning.
    pub(super) fn so_far(&mut self, task: &Task) -> Option<String> {
        let (offset, text, at) = self.following.after(TextPosition::default(), usize::MAX)?;
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

    /// Notes a lease of the task. Returns the event that voids the sent text, if there is any.
    pub(super) fn began(&mut self, run: Run) -> Option<Event> {
        if run.version <= self.version {
            return None;
        }
        self.version = run.version;
        let is_anew = std::mem::replace(&mut self.has_begun, true);
        is_anew.then(|| restart(self.step.as_ref(), run.attempt))
    }

    /// The next piece of the unsent text; none if all was sent, or the client does not know yet that its
    /// run has begun. In JSON, a piece has at most six times its bytes, too few to count as an answer.
    pub(super) fn take(&mut self) -> Option<Event> {
        let (offset, text, at) = self.following.after(self.sent, MAX_PIECE)?;
        if at.run.version > self.version {
            return None;
        }
        self.sent = at;
        let is_now = at.run.version == self.version;
        let delta = || of_step(self.step.as_ref(), json!({"text": text, "offset": offset}));
        is_now.then(|| named("delta", &delta()))
    }
}

pub(super) fn restart(step: Option<&StepKey>, attempt: u32) -> Event {
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
    sse::named(name, &data.to_string())
}

/// The text that has more to send; never ready without one.
pub(super) async fn changed(texts: &mut [Text]) -> usize {
    if texts.is_empty() {
        return std::future::pending().await;
    }
    let changes = texts.iter_mut().map(|text| Box::pin(text.following.changed()));
    select_all(changes).await.1
}
