//! Human approval over HTTP: what is held, who may decide, what becomes of it, and that exactly one
//! decision is ever made (docs/reference/approvals.md).

pub(crate) mod chain;
pub(crate) mod fixture;

mod cancels;
mod claims;
mod decisions;
mod edits;
mod events;
mod four_eyes;
mod gates;
mod lists;
mod races;
mod reopens;
mod retries;
mod reviewers;
mod timers;
mod trust;
