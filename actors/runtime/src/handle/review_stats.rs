//! The outcomes of outputs at their gates (docs/reference/approvals.md).

use callboard_domain::Error;
use callboard_domain::calibration::{Calibration, Query};
use callboard_domain::id::Environment;
use callboard_domain::review_stats::Summary;

use super::Handle;

impl Handle {
    /// The statistics of approvals now. A call soon after a start waits until all records are read.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if they cannot be read.
    pub async fn statistics(&self, environment: Environment) -> Result<Summary, Error> {
        self.node.observers.review_stats.statistics(environment, self.node.now()).await
    }

    /// The quality of confidences, and the effect of other thresholds. A call soon after a start waits
    /// until all records are read.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if they cannot be read.
    pub async fn calibration(
        &self,
        environment: Environment,
        query: &Query,
    ) -> Result<Calibration, Error> {
        self.node.observers.review_stats.calibration(environment, query).await
    }
}
