//! The track record of confidences, and what approvals come to, in memory.
//!
//! Filled at the start from what is stored, and kept up with every commit. Deliberately absent: the
//! sums and their meaning, which the domain has.

use callboard_domain::approval::Record;
use callboard_domain::id::Environment;

/// What became of the outputs that gates looked at.
#[derive(Debug, Default)]
pub(crate) struct Track {}

impl Track {
    /// A record is durable now that replaces `before`.
    #[expect(clippy::unused_self, reason = "to be filled in")]
    pub(crate) fn changed(&self, _: Environment, _before: Option<&Record>, _after: &Record) {}
}
