//! The message of a delivery: a mail to a reviewer, or a webhook about a task or an execution.

use serde::{Deserialize, Serialize};

use crate::approval::{Mail, MailCause};
use crate::event::EventName;
use crate::id::{DeliveryId, ExecutionId, TaskId};
use crate::labels::CallbackEvent;

/// A message to deliver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cargo {
    /// A mail to a reviewer.
    Mail(Mail),
    /// An event of a task, to the address that the task names.
    Webhook(Webhook),
    /// An event of an execution, to the address that the execution names.
    ExecutionWebhook(ExecutionWebhook),
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
}

impl Subject {
    /// The number of the item's identifier.
    #[must_use]
    pub const fn as_u128(self) -> u128 {
        match self {
            Self::Task(task) => task.as_u128(),
            Self::Execution(execution) => execution.as_u128(),
        }
    }

    /// The task, if it is one.
    #[must_use]
    pub const fn task(self) -> Option<TaskId> {
        match self {
            Self::Task(task) => Some(task),
            Self::Execution(_) => None,
        }
    }

    /// The execution, if it is one.
    #[must_use]
    pub const fn execution(self) -> Option<ExecutionId> {
        match self {
            Self::Task(_) => None,
            Self::Execution(execution) => Some(execution),
        }
    }
}

impl Cargo {
    /// The delivery's identifier, the same for every attempt.
    #[must_use]
    pub const fn id(&self) -> DeliveryId {
        match self {
            Self::Mail(mail) => mail.id,
            Self::Webhook(webhook) => webhook.id,
            Self::ExecutionWebhook(webhook) => webhook.id,
        }
    }

    /// The item that the delivery is about.
    #[must_use]
    pub const fn subject(&self) -> Subject {
        match self {
            Self::Mail(mail) => Subject::Task(mail.task),
            Self::Webhook(webhook) => Subject::Task(webhook.task),
            Self::ExecutionWebhook(webhook) => Subject::Execution(webhook.execution),
        }
    }

    /// The address of a webhook.
    #[must_use]
    pub fn url(&self) -> Option<&str> {
        match self {
            Self::Mail(_) => None,
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
            Self::Webhook(webhook) => webhook.event.as_str(),
            Self::ExecutionWebhook(webhook) => webhook.event.of_execution(),
        }
    }
}
