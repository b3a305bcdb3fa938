//! The JSON of the HTTP interface: readers of requests, shapes of answers, and their schemas in the OpenAPI
//! document. No type of the domain is serialised; the conversions live here.
//!
//! Deliberately absent: routes, sockets, and anything that waits.

pub mod accounts;
pub mod answer;
pub mod approvals;
pub mod audit;
pub mod backup;
pub mod batches;
pub mod browser;
pub mod budgets;
pub mod bulk;
pub mod cells;
pub mod chat;
pub mod cluster;
pub mod common;
pub mod confidence;
pub mod definitions;
pub mod events;
pub mod executions;
pub mod files;
pub mod flow;
pub mod functions;
pub mod hitl;
pub mod invitations;
pub mod labels;
pub mod messages;
pub mod metrics;
pub mod models;
pub mod pause;
pub mod plans;
pub mod projects;
pub mod queues;
pub mod read;
pub mod review_stats;
pub mod revocation;
pub mod routing;
pub mod sampling;
pub mod schedules;
pub mod search;
pub mod signals;
pub mod storage;
pub mod system;
pub mod tasks;
pub mod templates;
pub mod views;
pub mod webhooks;
