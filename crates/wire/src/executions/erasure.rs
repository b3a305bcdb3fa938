//! The erasure of an execution's texts on the wire.

use callboard_domain::audit::STAYS;
use callboard_domain::id::ExecutionId;
use callboard_runtime::handle::ErasedExecution;
use serde::Serialize;
use utoipa::ToSchema;

use crate::common::{Iso, Text};

/// An execution whose texts are erased.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErasedExecutionBody {
    /// `dt_exec_…`
    #[schema(value_type = String)]
    id: Text<ExecutionId>,
    /// The status, which stays.
    status: &'static str,
    /// The time of the first erasure.
    erased_at: Option<Iso>,
    /// The tasks whose texts this request has erased.
    tasks: u64,
    /// The payloads of signals that this request has erased.
    signals: u64,
    /// The places where the texts still are, and until when.
    stays: &'static str,
}

impl ErasedExecutionBody {
    /// The answer to an erasure.
    #[must_use]
    pub fn of(ErasedExecution { execution, erased }: &ErasedExecution) -> Self {
        let head = &execution.head;
        Self {
            id: Text(head.spec.id),
            status: head.state.status().as_str(),
            erased_at: head.erased_at.map(Iso),
            tasks: erased.tasks,
            signals: erased.signals,
            stays: STAYS,
        }
    }
}
