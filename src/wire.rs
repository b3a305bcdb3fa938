//! The public JSON shapes. The wire never serialises a domain type: conversions live here.

pub mod accounts;
pub mod approvals;
pub mod audit;
pub mod browser;
pub mod chat;
pub mod common;
pub mod definitions;
pub mod events;
pub mod executions;
pub mod hitl;
pub mod messages;
pub mod metrics;
pub mod plans;
pub mod read;
pub mod review_stats;
pub mod system;
pub mod tasks;
pub mod templates;
pub mod webhooks;
