//! One task as its submitter sees it, from the event log: pieces of the output, and the end.

use std::sync::Arc;

use callboard_domain::Error;
use callboard_domain::id::{Environment, TaskId};
use callboard_domain::task::{State, Task};
use callboard_runtime::accounts::PermissionWatch;
use callboard_runtime::events::{StreamItem, Subscription};
use callboard_runtime::read::TaskDetail;
use callboard_runtime::tables::Subject;
use tokio::sync::watch;
use tokio::time::Instant;

use super::super::App;

/// A step of the followed task.
#[derive(Debug)]
pub(super) enum Seen {
    /// A piece of the output, and the number of characters before it.
    Text(u64, Arc<str>),
    /// The attempt is over, and another begins.
    Again,
    /// The follower sees nothing more.
    End(End),
}

/// The reason why the follower sees nothing more.
#[derive(Debug)]
pub(super) enum End {
    /// The task completed.
    Completed(Box<TaskDetail>),
    /// The task failed, or was cancelled or rejected.
    Failed(Box<Task>),
    /// The output waits for a reviewer.
    Held,
    /// The task runs or waits, and the time is over or the server stops.
    StillRunning,
    /// The streamed text is not the beginning of the output.
    Restarted,
    /// The caller may not submit tasks any more.
    Refused(Error),
}

/// A task that a client waits for.
pub(super) struct Follow {
    app: Arc<App>,
    environment: Environment,
    task: TaskId,
    subscription: Subscription,
    right: PermissionWatch,
    deadline: Instant,
    stopping: watch::Receiver<bool>,
    /// Set if the task ended before the follower began.
    ended: Option<End>,
}

impl Follow {
    /// The task of this identifier; the subscription began before the task was submitted.
    pub(super) fn new(
        app: Arc<App>,
        environment: Environment,
        task: TaskId,
        subscription: Subscription,
        right: PermissionWatch,
    ) -> Self {
        let deadline = Instant::now() + app.chat_wait;
        let stopping = app.stopping.subscribe();
        Self { app, environment, task, subscription, right, deadline, stopping, ended: None }
    }

    pub(super) const fn task(&self) -> TaskId {
        self.task
    }

    /// The caller's right to submit.
    pub(super) fn right(&self) -> PermissionWatch {
        self.right.clone()
    }

    /// Reads the task as it was before the subscription began.
    pub(super) async fn look(&mut self) {
        self.ended = self.end().await;
    }

    /// Waits for the next step. After an end there is none.
    pub(super) async fn next(&mut self) -> Seen {
        if let Some(end) = self.ended.take() {
            return Seen::End(end);
        }
        loop {
            let seen = tokio::select! {
                biased;
                error = self.right.lost() => return Seen::End(End::Refused(error)),
                seen = of_task(&mut self.subscription, self.task) => seen,
                // A client whose connection broke would submit the task again.
                _ = self.stopping.wait_for(|stopping| *stopping) => None,
                () = tokio::time::sleep_until(self.deadline) => None,
            };
            match seen {
                Some(Some(seen)) => return seen,
                Some(None) => {
                    if let Some(end) = self.end().await {
                        return Seen::End(end);
                    }
                }
                None => return Seen::End(self.end().await.unwrap_or(End::StillRunning)),
            }
        }
    }

    /// The end of the task, if it has ended or is held.
    async fn end(&self) -> Option<End> {
        // The task is durable: a failed read must not make the client submit it again.
        let detail = self.app.handle.task(self.environment, self.task).await.ok()?;
        match detail.task.state {
            State::Scheduled { .. }
            | State::Ready
            | State::Backoff { .. }
            | State::Running { .. } => None,
            State::AwaitingApproval { .. } => Some(End::Held),
            State::Completed { .. } => Some(End::Completed(Box::new(detail))),
            State::Failed { .. } | State::Cancelled { .. } | State::Rejected { .. } => {
                Some(End::Failed(Box::new(detail.task)))
            }
        }
    }
}

/// The next piece of the task's output or its next attempt; `Some(None)` if the task may have ended, and
/// `None` if nothing more will come.
async fn of_task(subscription: &mut Subscription, id: TaskId) -> Option<Option<Seen>> {
    loop {
        match subscription.next().await.ok()?? {
            StreamItem::Delta(delta) if delta.task.id == id => {
                let text = delta.text.as_str().into();
                return Some(Some(Seen::Text(delta.offset, text)));
            }
            StreamItem::Stored(_, event) => {
                let Subject::Task(task) = &event.subject else { continue };
                if task.spec.id != id {
                    continue;
                }
                if event.event == "task.retrying" {
                    return Some(Some(Seen::Again));
                }
                match task.state {
                    State::Scheduled { .. }
                    | State::Ready
                    | State::Backoff { .. }
                    | State::Running { .. } => {}
                    State::AwaitingApproval { .. }
                    | State::Completed { .. }
                    | State::Failed { .. }
                    | State::Cancelled { .. }
                    | State::Rejected { .. } => return Some(None),
                }
            }
            StreamItem::Gap(..) => return Some(None),
            StreamItem::Delta(_) | StreamItem::Depth(_) => {}
        }
    }
}
