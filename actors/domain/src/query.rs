//! The filters and pages of lists.
//!
//! Deliberately absent: their evaluation, which is the store's.

use crate::id::PlanId;
use crate::task::Status;
use crate::template::{Industry, Visibility};
use crate::{Timestamp, approval, audit, execution};

/// The requested part of a list (PROTOCOL.md 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The most items on the page, 1 to 100.
    pub limit: usize,
    /// Items to skip.
    pub offset: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self { limit: 20, offset: 0 }
    }
}

/// A filter and an order of tasks (SPEC.md, List Tasks).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tasks {
    /// Any of these statuses; every status if empty.
    pub statuses: Vec<Status>,
    /// With this model.
    pub model: Option<String>,
    /// In this queue.
    pub queue: Option<String>,
    /// With all of these tags.
    pub tags: Vec<String>,
    /// Created at this instant or later.
    pub created_after: Option<Timestamp>,
    /// Created before this instant.
    pub created_before: Option<Timestamp>,
    /// The sort key.
    pub order: TaskOrder,
    /// Ascending, or else descending.
    pub ascending: bool,
    /// The page.
    pub window: Window,
}

/// The sort key of tasks. Ties are broken by the identifier in the same direction; tasks without a
/// value come last in both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TaskOrder {
    /// The creation time.
    #[default]
    CreatedAt,
    /// The time of the end.
    CompletedAt,
    /// The priority.
    Priority,
}

/// A filter of plans, which are listed newest first (SPEC.md, Plans).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plans {
    /// With all of these tags.
    pub tags: Vec<String>,
    /// With this text in the name or the description.
    pub search: Option<String>,
    /// The page.
    pub window: Window,
}

/// A filter of executions, which are listed newest first (PROTOCOL.md 4).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Executions {
    /// Any of these statuses; every status if empty.
    pub statuses: Vec<execution::Status>,
    /// Runs of this plan.
    pub plan: Option<PlanId>,
    /// Runs of this template, in any version.
    pub template: Option<String>,
    /// Started at this instant or later.
    pub created_after: Option<Timestamp>,
    /// Started before this instant.
    pub created_before: Option<Timestamp>,
    /// The page.
    pub window: Window,
}

/// A filter of approvals, which are listed newest first (SPEC.md, HITL).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Approvals {
    /// Any of these statuses; every status if empty.
    pub statuses: Vec<approval::State>,
    /// For tasks of this queue.
    pub queue: Option<String>,
    /// For tasks with all of these tags.
    pub tags: Vec<String>,
    /// Assigned to this reviewer, or decided by this reviewer.
    pub reviewer: Option<String>,
    /// The page.
    pub window: Window,
}

/// A filter of templates, which are listed newest first, each in its highest version (SPEC.md,
/// Templates).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Templates {
    /// For this industry.
    pub industry: Option<Industry>,
    /// With all of these tags.
    pub tags: Vec<String>,
    /// With this text in the name or the description.
    pub search: Option<String>,
    /// With this visibility.
    pub visibility: Option<Visibility>,
    /// The page.
    pub window: Window,
}

/// A filter of the audit log, which is listed newest first (PROTOCOL.md 7).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// By this actor.
    pub actor: Option<String>,
    /// Any of these actions; every action if empty.
    pub actions: Vec<audit::Action>,
    /// At this instant or later.
    pub since: Option<Timestamp>,
    /// Before this instant.
    pub until: Option<Timestamp>,
    /// The page.
    pub window: Window,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The items of the page.
    pub items: Vec<T>,
    /// The number of items on all pages.
    pub total: u64,
}
