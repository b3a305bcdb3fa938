//! Black-box tests: the real program, over HTTP and WebSockets.

mod support;

mod accounts;
mod api;
mod approvals;
mod approvals_survive;
mod bad_input;
mod bench;
mod budgets;
mod cli;
mod disk;
mod durability;
mod executions;
mod executions_survive;
mod mail;
mod openapi;
mod overload;
mod plans;
mod real_model;
mod real_model_provider;
mod retention;
mod sessions;
mod soak;
mod structure;
mod templates;
mod tls;
mod workers;
