//! The parts of a fork that are known before it runs.
//!
//! Deliberately absent: how they are found out, by playing the fork's first units.

use std::collections::{HashMap, HashSet};

/// The known parts of a fork, by step; nothing for an execution that is no fork.
#[derive(Debug, Default)]
pub struct KnownFork {
    /// The steps whose outputs are taken over, which costs nothing.
    pub reused: HashSet<String>,
    /// The tokens of the steps that run anew, and whose texts have no output in them but those taken over.
    pub asked: HashMap<String, u64>,
}
