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
mod credentials;
mod dashboard;
mod disk;
mod durability;
mod edge;
mod executions;
mod executions_survive;
mod mail;
mod metrics;
mod openai;
mod openapi;
mod overload;
mod plans;
mod real_model;
mod real_model_provider;
mod retention;
mod sandbox;
mod sessions;
mod soak;
mod structure;
mod templates;
mod tls;
mod traces;
mod webhooks;
mod workers;
mod ws;
