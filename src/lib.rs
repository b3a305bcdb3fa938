//! Callboard's edge: HTTP, WebSockets, authentication, the command line, settings, the clients of
//! mail servers and identity providers; the worker program with its clients of model providers; and
//! the benchmark.
//!
//! The server's part translates: requests into actor calls, answers into the wire's shapes. Deliberately
//! absent: rules, which the domain has, and actors, which the runtime has.

pub mod auth;
pub mod backend;
pub mod cli;
mod cluster;
pub mod config;
pub mod http;
pub mod outbound;
mod sandbox;
pub mod service;
pub mod telemetry;
pub mod templates;
pub mod tls;
pub mod ws;
