//! The library against the real program: `target/debug/callboard`, or the one that `CALLBOARD_BIN` names.

#![allow(
    clippy::default_trait_access,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "the helpers are a part of the tests"
)]

mod breaks;
mod client;
mod generated;
mod support;
mod worker;
