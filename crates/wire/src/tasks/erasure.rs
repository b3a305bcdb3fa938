//! The erasure of a task's texts on the wire.

use callboard_domain::task::Task;
use serde::Serialize;
use utoipa::ToSchema;

use crate::common::{Iso, Text};
use crate::read::rule;
use crate::request;

/// The most characters of an erasure's reason; an entry of the audit log holds as many.
const MAX_REASON: usize = 256;

request! {
    /// The erasure of a task's texts.
    #[derive(Debug, Clone, Default)]
    pub struct EraseBody as "EraseTexts" {
        /// The reason, which the audit log keeps.
        reason: String = required("reason", rule::text(rule::characters(1..=MAX_REASON))),
    }
}

/// A task whose texts are erased.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Erased {
    /// The task.
    #[schema(value_type = String)]
    pub id: Text<callboard_domain::id::TaskId>,
    /// The status, which stays.
    pub status: &'static str,
    /// The time of the first erasure.
    pub erased_at: Option<Iso>,
}

impl Erased {
    /// The answer to an erasure.
    #[must_use]
    pub fn of(task: &Task) -> Self {
        let (id, erased_at) = (Text(task.spec.id), task.erased_at.map(Iso));
        Self { id, status: task.status().as_str(), erased_at }
    }
}
