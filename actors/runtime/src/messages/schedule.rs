//! The messages of a schedule's actor.

use callboard_domain::Error;
use callboard_domain::id::PlanId;
use callboard_domain::schedule::Settings;
use tokio::sync::oneshot;

use crate::messages::submission::Owner;
use crate::tables::schedules::{RunRow, ScheduleRow};

/// A change of a schedule.
#[derive(Debug)]
pub(crate) struct Changes {
    /// The new settings.
    pub(crate) settings: Settings,
    /// The settings that they were made from.
    pub(crate) before: Settings,
    /// The new target.
    pub(crate) target: Option<NewTarget>,
}

/// A target in place of another.
#[derive(Debug)]
pub(crate) struct NewTarget {
    /// The target as it is stored.
    pub(crate) text: String,
    /// The plan that it runs.
    pub(crate) plan: Option<PlanId>,
    /// The account that gave it.
    pub(crate) owner: Owner,
}

pub(crate) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// A message to a schedule.
#[derive(Debug)]
pub(crate) enum Message {
    /// An instant passed that the schedule had asked for.
    TimePassed,
    /// A run has ended that an occurrence waits for.
    RunEnded,
    /// The server was started again.
    Recover,
    /// A client changes the schedule.
    Change(Box<Changes>, Reply<ScheduleRow>),
    /// A client deletes the schedule.
    Delete(Reply<ScheduleRow>),
    /// A client starts the work now.
    Trigger(Reply<RunRow>),
}
