//! Queues on the wire.

use std::str::FromStr;

use callboard_domain::queue::{MAX_CONCURRENT, MAX_REQUESTS, QueueChange, QueueSettings};
use callboard_domain::task::MAX_TARGET;
use callboard_domain::{Error, Timestamp};
use callboard_runtime::handle::QueueView;
use serde::Serialize;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::common::{Iso, Paging};
use super::read::rule;
use super::read::shape;
use crate::request;

request! {
    /// The queues to list, by name.
    #[derive(Debug)]
    pub struct ListQueues as "ListQueues" {
        /// The page.
        page: Paging = flat(shape::<Paging>()),
    }
}

request! {
    /// A change of a queue; a member that is left out stays as it is.
    #[derive(Debug, Clone, Copy)]
    pub struct ChangeQueue as "ChangeQueue" {
        /// True if the queue gives out no leases.
        paused: Option<bool> = optional("paused", rule::flag()),
        /// The most of its tasks that run at the same time; 0 removes the limit.
        concurrent: Option<u32> = optional("concurrent", rule::whole(0..=MAX_CONCURRENT)),
        /// The most leases in any 60 seconds; 0 removes the limit.
        requests_per_minute: Option<u32> =
            optional("requestsPerMinute", rule::whole(0..=MAX_REQUESTS)),
    }
}

impl From<ChangeQueue> for QueueChange {
    fn from(change: ChangeQueue) -> Self {
        let ChangeQueue { paused, concurrent, requests_per_minute } = change;
        Self { paused, concurrent, requests_per_minute }
    }
}

/// The name of a queue in a path.
#[derive(Debug)]
pub struct QueueName(pub String);

impl FromStr for QueueName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if (1..=MAX_TARGET).contains(&text.chars().count()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Error::not_found("queue", text))
        }
    }
}

/// The settings of a queue.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueSettingsBody<'a> {
    /// The name.
    name: &'a str,
    /// True if the queue gives out no leases.
    paused: bool,
    /// The most of its tasks that run at the same time.
    concurrent: Option<u32>,
    /// The most leases in any 60 seconds.
    requests_per_minute: Option<u32>,
}

impl<'a> QueueSettingsBody<'a> {
    /// The settings of the queue `name`.
    #[must_use]
    pub const fn of(name: &'a str, settings: QueueSettings) -> Self {
        let QueueSettings { paused, concurrent, requests_per_minute } = settings;
        Self { name, paused, concurrent, requests_per_minute }
    }
}

/// A queue as it is.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueBody<'a> {
    /// Name and settings.
    #[serde(flatten)]
    settings: QueueSettingsBody<'a>,
    /// The tasks that are ready and wait for a lease.
    depth: usize,
    /// The earliest instant at which one of them could run.
    oldest_at: Option<Iso>,
    /// The time since then, in milliseconds.
    oldest_age_ms: Option<u64>,
    /// The tasks that a worker has.
    running: u64,
    /// The connected workers that serve the queue.
    workers: usize,
}

impl<'a> QueueBody<'a> {
    /// A queue as it is at `now`.
    #[must_use]
    pub fn at(view: &'a QueueView, now: Timestamp) -> Self {
        let age = |oldest| u64::try_from(now.since(oldest).as_millis()).unwrap_or(u64::MAX);
        Self {
            settings: QueueSettingsBody::of(&view.name, view.settings),
            depth: view.depth,
            oldest_at: view.oldest.map(Iso),
            oldest_age_ms: view.oldest.map(age),
            running: view.running,
            workers: view.workers,
        }
    }
}
