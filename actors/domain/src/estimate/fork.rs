//! The parts of a fork that are known before it runs, and the cost that texts of another length add.
//!
//! Deliberately absent: how they are found out, by playing the fork's first units.

use std::collections::{HashMap, HashSet};

use crate::confidence::ask::Method;
use crate::plan::Step;
use crate::usage::{Prices, Tokens};

/// The known parts of a fork, by step; nothing for an execution that is no fork.
#[derive(Debug, Default)]
pub struct KnownFork {
    /// The steps whose outputs are taken over, which costs nothing.
    pub reused: HashSet<String>,
    /// The steps that run anew, and whose texts have no output in them but those taken over.
    pub asked: HashMap<String, Asked>,
}

/// The length of the texts that a step asks, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The length in the fork.
    pub now: u64,
    /// The length in its original; `None` if the step did not run there.
    pub before: Option<u64>,
}

impl Asked {
    /// The cost that the other length adds to that of a past run, in USD; less than 0 for shorter texts.
    pub(super) fn growth(self, step: &Step, model: &str, prices: &Prices) -> f64 {
        let Some(before) = self.before else { return 0.0 };
        let cost = |input| prices.usage(model, Tokens { input, ..Tokens::default() }).total_cost;
        let sampled = step.source().confidence.as_ref().filter(|it| it.method == Method::Samples);
        let calls = 1.0 + sampled.map_or(0.0, |ask| f64::from(ask.calls()));
        calls * (cost(self.now) - cost(before))
    }
}
