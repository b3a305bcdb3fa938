//! What the runtime asks of the world: the time, chance, and somebody who sends mail.
//!
//! Deliberately absent: the disk (that is the store) and the network (that is the edge).

use std::pin::Pin;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use callboard_domain::Timestamp;
use callboard_domain::account::Email;
use callboard_domain::approval::MailCause;
use callboard_domain::id::{DeliveryId, ExecutionId, TaskId};
use callboard_domain::task::Why;
use callboard_domain::worker::Monotonic;
use tokio::time::Instant;

/// The time, in its two kinds.
pub trait Clock: Send + Sync + 'static {
    /// The wall clock: what is told and stored. It may jump.
    fn now(&self) -> Timestamp;
    /// The monotonic clock: what silence is measured by. It never jumps.
    fn moment(&self) -> Monotonic;
}

/// Random bits that nobody can guess.
pub trait Entropy: Send + Sync + 'static {
    /// 128 of them.
    fn bits(&self) -> u128;
}

/// Sends mail.
pub trait Mailer: Send + Sync + 'static {
    /// Sends one, and tells whether the server took it. The same letter may come again after a
    /// crash: what is sent for it carries an identifier made of its delivery's.
    fn send(
        &self,
        letter: Letter,
    ) -> Pin<Box<dyn Future<Output = Result<(), NotSent>> + Send + '_>>;
}

/// What a mail tells a reviewer: never an output, never a prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Letter {
    /// Of the delivery.
    pub delivery: DeliveryId,
    /// To whom.
    pub to: Email,
    /// What the reviewer is called.
    pub name: String,
    /// Whose output waits.
    pub task: TaskId,
    /// The execution and its step that the task is of.
    pub step: Option<(ExecutionId, String)>,
    /// The template that the execution is of.
    pub template: Option<String>,
    /// Why it waits.
    pub why: Why,
    /// The model's confidence, 0 to 1.
    pub confidence: Option<f64>,
    /// The least confidence that passes, 0 to 1.
    pub threshold: Option<f64>,
    /// Since when it waits.
    pub since: Timestamp,
    /// When the reviewers' time is over.
    pub expires_at: Timestamp,
    /// Why this reviewer is written to.
    pub cause: MailCause,
}

/// A mail that the server did not take, or that did not reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotSent {
    /// Whether another attempt is in vain.
    pub permanent: bool,
    /// Why, for the operator.
    pub message: String,
}

/// The machine's clock and the operating system's randomness.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    started: Instant,
}

impl Machine {
    /// The world as it is; the monotonic clock begins now.
    #[must_use]
    pub fn new() -> Self {
        Self { started: Instant::now() }
    }
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for Machine {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn moment(&self) -> Monotonic {
        Monotonic::default().after(self.started.elapsed())
    }
}

impl Entropy for Machine {
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
}

impl Ports {
    /// The real ones, without mail.
    #[must_use]
    pub fn of_this_machine() -> Self {
        let machine = Machine::new();
        Self { clock: Arc::new(machine), entropy: Arc::new(machine), mailer: None }
    }
}
