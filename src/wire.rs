//! The public JSON shapes. The wire never serialises a domain type: conversions live here.

pub mod accounts;
pub mod approvals;
pub mod audit;
pub mod budgets;
pub mod bulk;
pub mod chat;
pub mod common;
pub mod definitions;
pub mod events;
pub mod executions;
pub mod flow;
pub mod hitl;
pub mod messages;
pub mod metrics;
pub mod models;
pub mod plans;
pub mod queues;
pub mod read;
pub mod review_stats;
pub mod schedules;
pub mod signals;
pub mod routing;
pub mod system;
pub mod tasks;
pub mod templates;
pub mod webhooks;
