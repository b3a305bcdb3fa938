//! Questions about lists: what is asked for, in the terms of the specification.
//!
//! Deliberately absent: how they are answered, which is the store's business.

use crate::id::PlanId;
use crate::task::Status;
use crate::template::{Industry, Visibility};
use crate::{Timestamp, approval, execution};

/// A page of a list (PROTOCOL.md 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// How many at most, 1 to 100.
    pub limit: usize,
    /// How many to pass over.
    pub offset: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self { limit: 20, offset: 0 }
    }
}

/// Which tasks, in which order (SPEC.md, List Tasks).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tasks {
    /// Any of these; all if empty.
    pub statuses: Vec<Status>,
    /// This model.
    pub model: Option<String>,
    /// This queue.
    pub queue: Option<String>,
    /// All of these tags.
    pub tags: Vec<String>,
    /// Created at this instant or later.
    pub created_after: Option<Timestamp>,
    /// Created before this instant.
    pub created_before: Option<Timestamp>,
    /// By what they are ordered.
    pub order: TaskOrder,
    /// Smallest first.
    pub ascending: bool,
    /// The page.
    pub window: Window,
}

/// By what tasks are ordered. Ties break on the identifier in the same direction; tasks without
/// the value come last either way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TaskOrder {
    /// When they were created.
    #[default]
    CreatedAt,
    /// When they ended.
    CompletedAt,
    /// Their priority.
    Priority,
}

/// Which plans; the newest first (SPEC.md, Plans).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plans {
    /// All of these tags.
    pub tags: Vec<String>,
    /// In the name or the description.
    pub search: Option<String>,
    /// The page.
    pub window: Window,
}

/// Which executions; the newest first (PROTOCOL.md 4).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Executions {
    /// Any of these; all if empty.
    pub statuses: Vec<execution::Status>,
    /// Of this plan.
    pub plan: Option<PlanId>,
    /// Of this template.
    pub template: Option<String>,
    /// Started at this instant or later.
    pub created_after: Option<Timestamp>,
    /// Started before this instant.
    pub created_before: Option<Timestamp>,
    /// The page.
    pub window: Window,
}

/// Which approvals; those that wait for the shortest time first (SPEC.md, HITL).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Approvals {
    /// Any of these; all if empty.
    pub statuses: Vec<approval::State>,
    /// Of tasks of this queue.
    pub queue: Option<String>,
    /// Of tasks with all of these tags.
    pub tags: Vec<String>,
    /// That this reviewer is to decide, or has decided.
    pub reviewer: Option<String>,
    /// The page.
    pub window: Window,
}

/// Which templates, each in its highest version; the newest first (SPEC.md, Templates).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Templates {
    /// For this industry.
    pub industry: Option<Industry>,
    /// All of these tags.
    pub tags: Vec<String>,
    /// In the name or the description.
    pub search: Option<String>,
    /// Seen by these.
    pub visibility: Option<Visibility>,
    /// The page.
    pub window: Window,
}

/// One page, and how many there are in all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// How many there are on all pages.
    pub total: u64,
}
