//! Approvals on the wire (SPEC.md, HITL; PROTOCOL.md 6).

pub mod entry;
