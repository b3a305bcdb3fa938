//! The message of a delivery: a mail to a reviewer or an admin, or a webhook about a task or an execution.

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::approval::{Mail, MailCause};
use crate::digest::Digest;
use crate::event::EventName;
use crate::id::{DeliveryId, ExecutionId, KeyId, TaskId, UserId};
use crate::labels::CallbackEvent;

/// A message to deliver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notification {
    /// A mail to a reviewer.
    Mail(Mail),
    /// A mail to an admin about an API key that ends soon.
    KeyEnd(KeyEnd),
    /// An event of a task, to the address that the task names.
    Webhook(Webhook),
    /// An event of an execution, to the address that the execution names.
    ExecutionWebhook(ExecutionWebhook),
}

/// A mail to an admin: an API key ends soon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyEnd {
    /// The identifier of the delivery, which follows from the other members and the instant of the notice.
    pub id: DeliveryId,
    /// The key.
    pub key: KeyId,
    /// The admin.
    pub to: UserId,
}

impl KeyEnd {
    /// The event that the mail reports.
    pub const EVENT: &'static str = "key.ends_soon";

    /// The mail to an admin for the notice of the instant `at`. The same notice is the same delivery, so that it is
    /// sent to an admin once.
    #[must_use]
    pub fn new(key: KeyId, to: UserId, at: Timestamp) -> Self {
        let digest = Digest::of(&format!("{key} {to}"));
        let bits = digest
            .as_bytes()
            .iter()
            .take(8)
            .fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
        // The last ten bits are the partition of all accounts, 0.
        let id = DeliveryId::from_u128(u128::from(at.as_millis()) << 80 | bits << 10);
        Self { id, key, to }
    }
}

/// A webhook: the announcement of an event of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    /// The identifier of the delivery.
    pub id: DeliveryId,
    /// The task.
    pub task: TaskId,
    /// The event: one of [`super::TASK_ENDS`], or that its output waits for a reviewer.
    pub event: EventName,
    /// The task's `callbackUrl`.
    pub url: String,
}

/// A webhook: the announcement of an event of an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionWebhook {
    /// The identifier of the delivery.
    pub id: DeliveryId,
    /// The execution.
    pub execution: ExecutionId,
    /// The event.
    pub event: CallbackEvent,
    /// The execution's `callbackUrl`.
    pub url: String,
    /// The task whose output waits for a reviewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<TaskId>,
}

/// The item that a delivery is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A task.
    Task(TaskId),
    /// An execution.
    Execution(ExecutionId),
    /// An API key.
    Key(KeyId),
}

impl Subject {
    /// The number of the item's identifier.
    #[must_use]
    pub const fn as_u128(self) -> u128 {
        match self {
            Self::Task(task) => task.as_u128(),
            Self::Execution(execution) => execution.as_u128(),
            Self::Key(key) => key.as_u128(),
        }
    }

    /// The task, if it is one.
    #[must_use]
    pub const fn task(self) -> Option<TaskId> {
        match self {
            Self::Task(task) => Some(task),
            Self::Execution(_) | Self::Key(_) => None,
        }
    }

    /// The execution, if it is one.
    #[must_use]
    pub const fn execution(self) -> Option<ExecutionId> {
        match self {
            Self::Task(_) | Self::Key(_) => None,
            Self::Execution(execution) => Some(execution),
        }
    }

    /// The API key, if it is one.
    #[must_use]
    pub const fn key(self) -> Option<KeyId> {
        match self {
            Self::Key(key) => Some(key),
            Self::Task(_) | Self::Execution(_) => None,
        }
    }
}

impl Notification {
    /// The delivery's identifier, the same for every attempt.
    #[must_use]
    pub const fn id(&self) -> DeliveryId {
        match self {
            Self::Mail(mail) => mail.id,
            Self::KeyEnd(mail) => mail.id,
            Self::Webhook(webhook) => webhook.id,
            Self::ExecutionWebhook(webhook) => webhook.id,
        }
    }

    /// The item that the delivery is about.
    #[must_use]
    pub const fn subject(&self) -> Subject {
        match self {
            Self::Mail(mail) => Subject::Task(mail.task),
            Self::KeyEnd(mail) => Subject::Key(mail.key),
            Self::Webhook(webhook) => Subject::Task(webhook.task),
            Self::ExecutionWebhook(webhook) => Subject::Execution(webhook.execution),
        }
    }

    /// The address of a webhook.
    #[must_use]
    pub fn url(&self) -> Option<&str> {
        match self {
            Self::Mail(_) | Self::KeyEnd(_) => None,
            Self::Webhook(webhook) => Some(&webhook.url),
            Self::ExecutionWebhook(webhook) => Some(&webhook.url),
        }
    }

    /// The reported event.
    #[must_use]
    pub const fn event(&self) -> &'static str {
        match self {
            Self::Mail(mail) => match mail.cause {
                MailCause::Assigned => EventName::HitlAssigned.as_str(),
                MailCause::Escalated => EventName::HitlEscalated.as_str(),
                MailCause::Expired => EventName::HitlExpired.as_str(),
            },
            Self::KeyEnd(_) => KeyEnd::EVENT,
            Self::Webhook(webhook) => webhook.event.as_str(),
            Self::ExecutionWebhook(webhook) => webhook.event.of_execution(),
        }
    }
}
