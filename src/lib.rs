//! Callboard's edge: HTTP, WebSockets, the command line and the clients of model providers.
//!
//! It translates: requests into actor calls, answers into the wire's shapes. It decides nothing.

pub mod auth;
pub mod bench;
pub mod cli;
pub mod config;
pub mod http;
pub mod outbound;
pub mod provider;
pub mod service;
pub mod telemetry;
pub mod templates;
pub mod tls;
pub mod wire;
pub mod worker;
pub mod ws;
