//! The client commands: the real program, against the real server where it has the endpoints, and
//! against one with scripted answers.

mod accounts;
mod at_terminal;
mod cells;
mod completions;
mod control;
mod dev;
mod doctor;
mod events;
mod executions;
mod fake;
mod hitl;
mod imports;
mod leaked;
mod lists;
mod mcp;
pub(crate) mod program;
mod reviews;
mod runs;
mod tasks;
mod templates;
mod terminal;
mod tutorial;
mod webhooks;
