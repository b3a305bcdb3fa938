//! The observers of committed work: metrics, the event log, the statistics of reviews, texts of running attempts.
//!
//! They hear of a unit once it is durable, and decide nothing.

pub mod events;
pub mod metrics;
pub(crate) mod review_stats;
pub mod texts;

use std::sync::Arc;

use callboard_domain::Timestamp;
use callboard_domain::id::Environment;
use callboard_domain::unit::Change;

use events::Events;
use metrics::Metrics;
use review_stats::ReviewStats;
use texts::Texts;

/// The observers of a node.
pub(crate) struct Observers {
    pub(crate) events: Arc<Events>,
    pub(crate) metrics: Metrics,
    pub(crate) texts: Arc<Texts>,
    pub(crate) review_stats: ReviewStats,
}

impl Observers {
    /// Counts a change of production.
    pub(crate) fn count(&self, environment: Environment, change: &Change, now: Timestamp) {
        if environment.is_live() {
            self.metrics.count(environment, change, now);
        }
    }
}
