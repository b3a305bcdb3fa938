//! Callboard's rules: state machines and decisions.
//!
//! Every item here is a pure function of its arguments. Deliberately absent: async, clocks,
//! randomness, I/O, logs and metrics; time, randomness and fresh identifiers are arguments, and
//! effects are values, which the runtime performs.

pub mod access;
pub mod account;
pub mod approval;
pub mod audit;
pub mod batch;
pub mod budget;
pub mod bulk;
pub mod calibration;
pub mod caps;
pub mod chain;
pub mod condition;
pub mod confidence;
pub mod cost;
pub mod credential;
pub mod delivery;
pub mod digest;
pub mod error;
pub mod estimate;
pub mod event;
pub mod excerpts;
pub mod execution;
pub mod fuel;
pub mod function;
pub mod grammar;
pub mod graph;
pub mod id;
pub mod labels;
pub mod machine;
pub mod model_limits;
mod names;
pub mod pattern;
pub mod pause;
pub mod plan;
pub mod problem;
pub mod query;
pub mod queue;
pub mod rate;
pub mod render;
pub mod retention;
pub mod retry;
pub mod review_stats;
pub mod schedule;
pub mod schema;
pub mod search;
pub mod session;
pub mod spending;
pub mod surrogates;
pub mod task;
pub mod template;
pub mod time;
pub mod trace;
pub mod unit;
pub mod usage;
pub mod worker;

pub use error::{Error, Fault, Rule};
pub use time::Timestamp;
