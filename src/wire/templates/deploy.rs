//! What a template is deployed with (SPEC.md, Templates).

use std::collections::BTreeMap;

use callboard_domain::Error;
use callboard_domain::plan::{HitlSource, MAX_STEPS};
use callboard_runtime::handle::Deploy;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::list::version;
use crate::wire::definitions::text;
use crate::wire::executions::{ExecutePlan, Hitl, RunOptions};
use crate::wire::read::{Fields, Read, rule};

/// What a template is deployed with.
#[derive(Debug, Clone, Default, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct DeployTemplate {
    /// What its inputSchema asks for.
    #[schema(value_type = Option<Object>)]
    pub input: Option<Map<String, Value>>,
    /// Other models, by step id.
    #[schema(value_type = Option<std::collections::HashMap<String, String>>)]
    pub model_overrides: Option<BTreeMap<String, String>>,
    /// Other queues, by step id.
    #[schema(value_type = Option<std::collections::HashMap<String, String>>)]
    pub queue_overrides: Option<BTreeMap<String, String>>,
    /// Which outputs wait for a reviewer; replaces the template's, field by field.
    #[schema(value_type = Option<Hitl>)]
    pub hitl: Option<HitlSource>,
    /// How it runs (+).
    pub options: Option<RunOptions>,
    /// Another version than the highest (+).
    pub version: Option<String>,
}

impl Read for DeployTemplate {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let ExecutePlan { input, hitl, options } = ExecutePlan::read(fields)?;
        let mut overrides = |name| {
            let given = fields.optional(name, rule::map(0..=MAX_STEPS, text))?;
            Ok::<_, Error>(given.map(BTreeMap::from_iter))
        };
        let model_overrides = overrides("modelOverrides")?;
        let queue_overrides = overrides("queueOverrides")?;
        let version = fields.optional("version", version)?;
        Ok(Self { input, model_overrides, queue_overrides, hitl, options, version })
    }
}

impl DeployTemplate {
    /// Whether it is only asked what would happen.
    #[must_use]
    pub fn is_dry(&self) -> bool {
        self.options.is_some_and(|options| options.dry_run == Some(true))
    }

    /// As the runtime takes it.
    #[must_use]
    pub fn into_deploy(self) -> Deploy {
        let start = ExecutePlan { input: self.input, hitl: self.hitl, options: self.options };
        Deploy {
            start: start.into_start(),
            version: self.version,
            models: self.model_overrides.unwrap_or_default(),
            queues: self.queue_overrides.unwrap_or_default(),
        }
    }
}
