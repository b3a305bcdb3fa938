//! Forks on the wire.

use callboard_domain::execution::ForkedFrom;
use callboard_domain::id::ExecutionId;
use callboard_domain::plan::MAX_ID;
use callboard_runtime::handle::Fork;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::common::Text;
use crate::read::rule;
use crate::request;
use crate::templates::template_version;

request! {
    /// The changes of a fork of an execution.
    #[derive(Debug, Clone, Default)]
    pub struct ForkExecution as "ForkExecution" {
        /// The step that runs anew, even if its prompt, model and settings are the same.
        from_step: Option<String> = optional("fromStep", rule::text(rule::characters(1..=MAX_ID))),
        /// The input in place of the original's.
        input: Option<Map<String, Value>> = optional("input", rule::free(usize::MAX)),
        /// Another version of the template that was deployed.
        version: Option<String> = optional("version", template_version()),
        /// True for an answer that only shows the steps that are reused, and the cost of the others.
        dry_run: Option<bool> = optional("dryRun", rule::flag()),
    }
}

impl ForkExecution {
    /// True if nothing is started.
    #[must_use]
    pub fn is_dry(&self) -> bool {
        self.dry_run == Some(true)
    }

    /// The fork for the runtime.
    #[must_use]
    pub fn into_fork(self) -> Fork {
        Fork { from_step: self.from_step, input: self.input, version: self.version }
    }
}

/// The origin of a fork.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkedFromBody<'a> {
    /// The execution whose completed steps it takes over.
    #[schema(value_type = String)]
    execution_id: Text<ExecutionId>,
    /// The step that runs anew in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    from_step: Option<&'a str>,
}

impl<'a> From<&'a ForkedFrom> for ForkedFromBody<'a> {
    fn from(ForkedFrom { execution, from_step }: &'a ForkedFrom) -> Self {
        Self { execution_id: Text(*execution), from_step: from_step.as_deref() }
    }
}
