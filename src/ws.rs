//! WebSockets: frames to actor messages, and back.

pub mod clients;
mod incoming;
pub(crate) mod upgrade;
pub mod workers;

pub(crate) use incoming::{Limits, Overrun};
