//! What goes out: to a mail server.
//!
//! Deliberately absent: when something is sent and what becomes of it, which is durable and the
//! runtime's.

pub mod email;
