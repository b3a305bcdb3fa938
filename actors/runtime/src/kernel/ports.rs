//! The runtime's needs of the outside: the time, chance, and senders of mails and webhooks.
//!
//! Deliberately absent: the disk (that is the store) and the network (that is the edge).

use std::pin::Pin;
use std::sync::Arc;

use callboard_domain::Timestamp;
use callboard_domain::access::Role;
use callboard_domain::account::Email;
use callboard_domain::approval::{Decision, MailCause};
use callboard_domain::delivery::Failure;
use callboard_domain::execution::Execution;
use callboard_domain::id::{DeliveryId, Environment, ExecutionId, KeyId, ProjectId, TaskId};
use callboard_domain::task::{Ending, HoldReason, Task};
use callboard_domain::trace::TraceContext;
use callboard_domain::usage::Usage;
use callboard_domain::worker::Monotonic;

/// The time, in its two kinds.
pub trait Clock: Send + Sync + 'static {
    /// The time of the process, which does not jump while it runs: for shown and stored instants.
    fn now(&self) -> Timestamp;
    /// The wall clock, which may jump: for the instants of timetables.
    fn wall(&self) -> Timestamp {
        self.now()
    }
    /// The monotonic clock, which never jumps: for intervals.
    fn moment(&self) -> Monotonic;
}

/// Random bits that no client can guess.
pub trait Entropy: Send + Sync + 'static {
    /// 128 random bits.
    fn bits(&self) -> u128;
}

/// Sends mail.
pub trait Mailer: Send + Sync + 'static {
    /// Sends a mail; `Ok` if the server took it. The same mail may come again after a
    /// crash: every copy carries an identifier made of its delivery's.
    fn send(
        &self,
        letter: ReviewerMail,
    ) -> Pin<Box<dyn Future<Output = Result<(), NotSent>> + Send + '_>>;

    /// The same for a mail about an API key that ends soon.
    fn send_key_end(
        &self,
        letter: KeyEndMail,
    ) -> Pin<Box<dyn Future<Output = Result<(), NotSent>> + Send + '_>>;
}

/// The content of a mail to an admin about an API key that ends soon: never the key itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyEndMail {
    /// The identifier of the delivery.
    pub delivery: DeliveryId,
    /// The recipient.
    pub to: Email,
    /// The admin's name.
    pub name: String,
    /// The key's identifier.
    pub key: KeyId,
    /// The key's name.
    pub key_name: String,
    /// The key's role.
    pub role: Role,
    /// The end of the key.
    pub ends_at: Timestamp,
    /// The last use of the key.
    pub last_used_at: Option<Timestamp>,
    /// The time at which the mail is written.
    pub now: Timestamp,
}

/// The content of a mail to a reviewer: never an output, never a prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct ReviewerMail {
    /// The identifier of the delivery.
    pub delivery: DeliveryId,
    /// The recipient.
    pub to: Email,
    /// The reviewer's name.
    pub name: String,
    /// The project of the task.
    pub project: ProjectId,
    /// The task whose output waits.
    pub task: TaskId,
    /// The title of the task.
    pub title: Option<String>,
    /// The execution and the step that the task is of.
    pub step: Option<(ExecutionId, String)>,
    /// The template that the execution is of.
    pub template: Option<String>,
    /// The reason of the hold.
    pub why: HoldReason,
    /// The model's confidence, 0 to 1.
    pub confidence: Option<f64>,
    /// Minimum confidence to skip review, 0 to 1.
    pub threshold: Option<f64>,
    /// The instant of the hold.
    pub since: Timestamp,
    /// The end of the reviewers' time.
    pub expires_at: Timestamp,
    /// The reason why this reviewer is written to.
    pub cause: MailCause,
}

/// A mail that the server did not take, or that did not reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotSent {
    /// True if another attempt would fail too.
    pub permanent: bool,
    /// The reason, for the operator.
    pub message: String,
}

/// Posts webhooks.
pub trait WebhookClient: Send + Sync + 'static {
    /// Posts one; returns the status of the answer if the receiver took it. The same notice may come
    /// again after a crash or for another attempt, with the same delivery.
    fn post(
        &self,
        notice: WebhookContent,
    ) -> Pin<Box<dyn Future<Output = Result<u16, Failure>> + Send + '_>>;
}

/// The content of a webhook: a task or an execution as it was committed with the event.
#[derive(Debug, Clone, PartialEq)]
pub struct WebhookContent {
    /// The identifier of the delivery.
    pub delivery: DeliveryId,
    /// Production or sandbox.
    pub environment: Environment,
    /// The project.
    pub project: ProjectId,
    /// The `callbackUrl`.
    pub url: String,
    /// The event, such as `task.completed`.
    pub event: &'static str,
    /// The task or the execution.
    pub about: WebhookSubject,
    /// The item's status.
    pub status: &'static str,
    /// The output of a task, or of the last step of an execution; `None` unless the item is completed.
    pub output: Option<String>,
    /// The usage of the item.
    pub usage: Usage,
    /// The instant of the item's end; `None` if its output waits for a reviewer.
    pub ended_at: Option<Timestamp>,
    /// The task's span, in the trace of the request that submitted it.
    pub trace: Option<TraceContext>,
}

/// The item that a webhook is about.
#[derive(Debug, Clone, PartialEq)]
pub enum WebhookSubject {
    /// A task, with its details if they were asked for.
    Task(TaskId, Option<Box<TaskDetails>>),
    /// An execution.
    Execution(Box<ExecutionNotice>),
}

/// The details of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskDetails {
    /// The task.
    pub task: Task,
    /// The decision of a reviewer.
    pub review: Option<Decision>,
}

/// An execution in a webhook.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutionNotice {
    /// The request.
    pub spec: Arc<callboard_domain::execution::Spec>,
    /// The reason of its failure, and the step in which it occurred.
    pub error: Option<(Ending, Option<String>)>,
    /// The task and the step whose output waits for a reviewer.
    pub held: Option<(TaskId, String)>,
}

/// Records ended work, for traces. Neither waits nor fails.
pub trait Tracer: Send + Sync + 'static {
    /// A task ended: `now` is when.
    fn task_ended(&self, task: &Task, now: Timestamp);
    /// An attempt of a task ended: the task while a worker held it, and after that.
    fn attempt_ended(&self, held: &Task, after: &Task, now: Timestamp);
    /// A run of an execution ended.
    fn execution_ended(&self, execution: &Execution, now: Timestamp);
}

/// The operating system's randomness.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn bits(&self) -> u128 {
        rand::random()
    }
}

/// The ports, as they are handed around.
#[derive(Clone)]
pub struct Ports {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub entropy: Arc<dyn Entropy>,
    /// Mail; `None` if no server for it is configured.
    pub mailer: Option<Arc<dyn Mailer>>,
    /// Webhooks; `None` if the service posts none.
    pub webhooks: Option<Arc<dyn WebhookClient>>,
    /// Traces; `None` if they are off.
    pub tracer: Option<Arc<dyn Tracer>>,
}

impl Ports {
    /// Tells the tracer, if there is one.
    pub(crate) fn trace(&self, tell: impl FnOnce(&dyn Tracer)) {
        if let Some(tracer) = &self.tracer {
            tell(&**tracer);
        }
    }
}
