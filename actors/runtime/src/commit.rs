//! The one way by which items change: a unit is decided, its rows are committed, its effects are performed.

pub(crate) mod durable;
pub(crate) mod effects;
pub(crate) mod sources;
