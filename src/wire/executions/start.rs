//! What an execution is started with (SPEC.md, Execute request details).

use callboard_domain::Error;
use callboard_domain::budget::Money;
use callboard_domain::plan::HitlSource;
use callboard_runtime::handle::Start;
use callboard_runtime::submission::Options;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::wire::definitions::timeout;
use crate::wire::hitl::Channel;
use crate::wire::read::{Fields, Read, rule};

/// The most that an execution may be allowed to cost, in USD.
const MAX_COST: f64 = 1e9;

/// What an execution of a plan is started with.
#[derive(Debug, Clone, Default, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct ExecutePlan {
    /// The values of `{{input.*}}`.
    #[schema(value_type = Option<Object>)]
    pub input: Option<Map<String, Value>>,
    /// Which outputs wait for a reviewer.
    #[schema(value_type = Option<Hitl>)]
    pub hitl: Option<HitlSource>,
    /// How it runs.
    pub options: Option<RunOptions>,
}

/// Which outputs wait for a reviewer, and how reviewers are told.
#[derive(Debug, Default, ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "it describes what is read as a source")]
pub struct Hitl {
    /// The ids of the steps whose outputs are always held.
    required_for: Option<Vec<String>>,
    /// The least confidence that passes.
    #[schema(minimum = 0.0, maximum = 1.0)]
    confidence_threshold: Option<f64>,
    /// How long a reviewer has, in milliseconds.
    #[schema(minimum = 1, maximum = 86_400_000)]
    timeout_ms: Option<u64>,
    /// The share of the outputs that nothing else holds which is held all the same (+).
    #[schema(minimum = 0.0, maximum = 1.0)]
    sample_rate: Option<f64>,
    /// How reviewers are told.
    notify_channels: Option<Vec<Channel>>,
}

/// How an execution runs.
#[derive(Debug, Clone, Copy, Default, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct RunOptions {
    /// How long the whole may take, in milliseconds.
    #[schema(minimum = 1, maximum = 86_400_000)]
    pub timeout_ms: Option<u64>,
    /// Whether it is only shown what would happen.
    pub dry_run: Option<bool>,
    /// Whether the first failure cancels all else (+).
    pub fail_fast: Option<bool>,
    /// What it may cost at most, in USD (+).
    #[schema(minimum = 0.0)]
    pub max_cost: Option<f64>,
}

impl Read for ExecutePlan {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Error> {
        Ok(Self {
            input: fields.optional("input", rule::free(usize::MAX))?,
            hitl: fields.optional("hitl", rule::object(HitlSource::read))?,
            options: fields.optional("options", rule::object(RunOptions::read))?,
        })
    }
}

impl Read for RunOptions {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Error> {
        Ok(Self {
            timeout_ms: fields.optional("timeoutMs", timeout)?,
            dry_run: fields.optional("dryRun", rule::flag)?,
            fail_fast: fields.optional("failFast", rule::flag)?,
            max_cost: fields.optional("maxCost", rule::number(0.0..=MAX_COST))?,
        })
    }
}

impl ExecutePlan {
    /// Whether it is only asked what would happen.
    #[must_use]
    pub fn is_dry(&self) -> bool {
        self.options.is_some_and(|options| options.dry_run == Some(true))
    }

    /// As the runtime takes it.
    #[must_use]
    pub fn into_start(self) -> Start {
        let RunOptions { timeout_ms, fail_fast, max_cost, dry_run: _ } =
            self.options.unwrap_or_default();
        let max_cost = max_cost.map(Money::from_usd);
        let options = Options { timeout_ms, max_cost, fail_fast: fail_fast.unwrap_or_default() };
        Start { input: self.input.unwrap_or_default(), hitl: self.hitl, options }
    }
}
