//! The request for a deploy of a template.

use std::collections::BTreeMap;

use callboard_domain::plan::MAX_STEPS;
use callboard_runtime::handle::Deploy;

use super::list::version;
use crate::definitions::{model, queue};
use crate::executions::ExecutePlan;
use crate::read::rule::{self, Parse};
use crate::read::shape;
use crate::request;

request! {
    /// The request for a deploy of a template.
    #[derive(Debug, Clone, Default)]
    pub struct DeployTemplate as "DeployTemplate" {
        /// The input and the options of the run.
        start: ExecutePlan = flat(shape::<ExecutePlan>()),
        /// Other models, by step id.
        model_overrides: Option<BTreeMap<String, String>> = optional("modelOverrides", overrides(model())),
        /// Other queues, by step id.
        queue_overrides: Option<BTreeMap<String, String>> = optional("queueOverrides", overrides(queue())),
        /// Another version than the latest.
        version: Option<String> = optional("version", version()),
    }
}

fn overrides(name: impl Parse<String>) -> impl Parse<BTreeMap<String, String>> {
    rule::map(0..=MAX_STEPS, name).map(BTreeMap::from_iter)
}

impl DeployTemplate {
    /// True for a dry run.
    #[must_use]
    pub fn is_dry(&self) -> bool {
        self.start.is_dry()
    }

    /// The deploy as the runtime takes it.
    #[must_use]
    pub fn into_deploy(self) -> Deploy {
        Deploy {
            start: self.start.into_start(),
            version: self.version,
            models: self.model_overrides.unwrap_or_default(),
            queues: self.queue_overrides.unwrap_or_default(),
        }
    }
}
