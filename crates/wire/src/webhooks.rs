//! Deliveries on the wire (docs/reference/webhooks.md).

use std::time::Duration;

use callboard_domain::delivery::{Delivery, Notification, State, Status, Subject};
use callboard_domain::id::{DeliveryId, ExecutionId, KeyId, TaskId, UserId};
use callboard_domain::query::Deliveries;
use callboard_domain::{Error, Rule};
use serde::Serialize;
use serde_json::json;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::accounts::overlap;
use super::common::{Iso, Paging, Text};
use super::read::rule::{self, Parse};
use super::read::{Fields, Refused, shape};
use crate::request;

request! {
    /// The deliveries to list; the newest first.
    #[derive(Debug)]
    pub struct ListDeliveries as "ListDeliveries" {
        /// One of these statuses.
        status: Option<Vec<Status>> = optional("status", statuses()),
        /// About this task.
        task_id: Option<TaskId> = optional("taskId", task_id()),
        /// About this execution.
        execution_id: Option<ExecutionId> = optional("executionId", execution_id()),
        /// The page.
        page: Paging = flat(shape::<Paging>()),
    }
    check is_about_one
}

fn is_about_one(list: ListDeliveries, fields: &Fields<'_>) -> Result<ListDeliveries, Refused> {
    if list.task_id.is_some() && list.execution_id.is_some() {
        let says = "must not be given together with taskId";
        return Err(fields.refuse("executionId", Rule::Unknown, says));
    }
    Ok(list)
}

fn statuses() -> impl Parse<Vec<Status>> {
    rule::commas(1..=Status::ALL.len(), rule::one_of(&Status::ALL, Status::as_str))
}

fn task_id() -> impl Parse<TaskId> {
    let is_id = |text: &String| text.parse::<TaskId>().is_ok();
    rule::text(rule::characters(1..=64))
        .only(is_id, Rule::Format, "must be the id of a task: dt_task_…")
        .with(move || json!({"pattern": "^dt_task_[0-9a-hjkmnp-tv-z]{26}$"}))
        .then(|text| text.parse().map_err(|_| Error::Internal))
}

fn execution_id() -> impl Parse<ExecutionId> {
    let is_id = |text: &String| text.parse::<ExecutionId>().is_ok();
    rule::text(rule::characters(1..=64))
        .only(is_id, Rule::Format, "must be the id of an execution: dt_exec_…")
        .with(move || json!({"pattern": "^dt_exec_[0-9a-hjkmnp-tv-z]{26}$"}))
        .then(|text| text.parse().map_err(|_| Error::Internal))
}

impl From<ListDeliveries> for Deliveries {
    fn from(list: ListDeliveries) -> Self {
        let window = list.page.window();
        let about = list.task_id.map(Subject::Task);
        let about = about.or(list.execution_id.map(Subject::Execution));
        Self { statuses: list.status.unwrap_or_default(), about, window }
    }
}

/// A delivery of a webhook or a mail.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryBody<'a> {
    /// `dlv_…`, the same for every attempt: the `webhook-id` of a webhook.
    #[schema(value_type = String)]
    id: Text<DeliveryId>,
    /// webhook or mail.
    kind: &'static str,
    /// The task that the delivery is about.
    #[schema(value_type = Option<String>)]
    task_id: Option<Text<TaskId>>,
    /// The execution that the delivery is about.
    #[schema(value_type = Option<String>)]
    execution_id: Option<Text<ExecutionId>>,
    /// The API key that a mail is about.
    #[schema(value_type = Option<String>)]
    key_id: Option<Text<KeyId>>,
    /// The reported event, such as `task.completed`, `hitl.assigned` or `key.ends_soon`.
    event: &'static str,
    /// The address of a webhook, as given.
    url: Option<&'a str>,
    /// The user to whom a mail goes.
    #[schema(value_type = Option<String>)]
    to: Option<Text<UserId>>,
    /// pending, delivered, dead or dropped.
    status: &'static str,
    /// Attempts that were begun.
    attempts: u32,
    /// The HTTP status of the last attempt, if there was an answer.
    last_status: Option<u16>,
    /// The reason of the last failed attempt, or of the drop.
    last_error: Option<&'a str>,
    /// The time of the next attempt, while the delivery is pending.
    next_attempt_at: Option<Iso>,
    /// The time of the reported event, such as the end of the task.
    created_at: Iso,
    /// The time of the delivery.
    delivered_at: Option<Iso>,
}

impl<'a> DeliveryBody<'a> {
    /// A delivery.
    #[must_use]
    pub fn of(delivery: &'a Delivery) -> Self {
        let (subject, url) = (delivery.notification.subject(), delivery.notification.url());
        let (kind, to) = match &delivery.notification {
            Notification::Webhook(_) | Notification::ExecutionWebhook(_) => ("webhook", None),
            Notification::Mail(mail) => ("mail", Some(Text(mail.to))),
            Notification::KeyEnd(mail) => ("mail", Some(Text(mail.to))),
        };
        let (next_attempt_at, delivered_at) = match delivery.state {
            State::Pending { next_attempt_at } => (Some(Iso(next_attempt_at)), None),
            State::Delivered { at } => (None, Some(Iso(at))),
            State::Dead { .. } | State::Dropped { .. } => (None, None),
        };
        Self {
            id: Text(delivery.notification.id()),
            kind,
            task_id: subject.task().map(Text),
            execution_id: subject.execution().map(Text),
            key_id: subject.key().map(Text),
            event: delivery.notification.event(),
            url,
            to,
            status: delivery.status().as_str(),
            attempts: delivery.attempts,
            last_status: delivery.last_status,
            last_error: delivery.last_error.as_deref(),
            next_attempt_at,
            created_at: Iso(delivery.notification.id().created_at()),
            delivered_at,
        }
    }
}

/// The secret that signs webhooks.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookSecretBody<'a> {
    /// `whsec_…`
    pub secret: &'a str,
    /// `whsec_…`, which signs the webhooks of the sandbox.
    pub sandbox_secret: &'a str,
    /// The secret before it, as long as both sign.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<PreviousSecretBody<'a>>,
}

/// A secret that signs webhooks beside its successor.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviousSecretBody<'a> {
    /// `whsec_…`
    pub secret: &'a str,
    /// `whsec_…`, which signs the webhooks of the sandbox.
    pub sandbox_secret: &'a str,
    /// The instant from which it signs no more.
    pub valid_until: Iso,
}

request! {
    /// The rotation of the secret that signs webhooks.
    #[derive(Debug, Clone, Default)]
    pub struct RotateSecret as "RotateWebhookSecret" {
        /// The time for which the old secret signs beside the new one, such as 0s, 1h or 7d; by default 24h.
        overlap: Option<Duration> = optional("overlap", overlap()),
    }
}
