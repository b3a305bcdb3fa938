//! The request for an execution.

use callboard_domain::Timestamp;
use callboard_domain::budget::Money;
use callboard_domain::labels::{CallbackEvent, Labels};
use callboard_domain::plan::HitlSource;
use callboard_runtime::handle::Start;
use callboard_runtime::submission::{Named, Options};
use serde_json::{Map, Value};

use crate::definitions::timeout;
use crate::labels;
use crate::read::{Fields, Refused, rule, shape};
use crate::request;
use crate::tasks::tags;

/// The highest limit of an execution's cost, in USD.
const MAX_COST: f64 = 1e9;

request! {
    /// The request for an execution of a plan.
    #[derive(Debug, Clone, Default)]
    pub struct ExecutePlan as "ExecutePlan" {
        /// The values of `{{input.*}}`.
        input: Option<Map<String, Value>> = optional("input", rule::free(usize::MAX)),
        /// The gates of outputs and the channels that notify reviewers: replaces the template's, member by
        /// member.
        hitl: Option<HitlSource> = optional("hitl", rule::object::<HitlSource>()),
        /// The options of the run.
        options: Option<RunOptions> = optional("options", rule::object::<RunOptions>()),
        /// The instant before which it does not begin; by default it begins at once.
        start_at: Option<Timestamp> = optional("startAt", rule::instant()),
        /// The tags of its tasks, beside those of the plan.
        tags: Vec<String> = or_default("tags", tags()),
        /// The address to which webhooks about the execution are sent.
        callback_url: Option<String> = optional("callbackUrl", rule::url()),
        /// The title, and what the webhooks announce.
        labels: Labels = flat(shape::<Labels>()),
    }
    check members_fit
}

fn members_fit(start: ExecutePlan, fields: &Fields<'_>) -> Result<ExecutePlan, Refused> {
    let has_url = start.callback_url.is_some();
    labels::fit(&start.labels, has_url, &CallbackEvent::OF_EXECUTIONS, fields)?;
    Ok(start)
}

request! {
    /// The options of an execution.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct RunOptions as "RunOptions" {
        /// The time limit of the whole, in milliseconds.
        timeout_ms: Option<u64> = optional("timeoutMs", timeout()),
        /// True makes a dry run.
        dry_run: Option<bool> = optional("dryRun", rule::flag()),
        /// True if the first failure cancels all other steps.
        fail_fast: Option<bool> = optional("failFast", rule::flag()),
        /// The most that it may cost, in USD.
        max_cost: Option<f64> = optional("maxCost", rule::number(0.0..=MAX_COST)),
    }
}

impl ExecutePlan {
    /// True for a dry run.
    #[must_use]
    pub fn is_dry(&self) -> bool {
        self.options.is_some_and(|options| options.dry_run == Some(true))
    }

    /// The start as the runtime takes it.
    #[must_use]
    pub fn into_start(self) -> Start {
        let RunOptions { timeout_ms, fail_fast, max_cost, dry_run: _ } =
            self.options.unwrap_or_default();
        let max_cost = max_cost.map(Money::from_usd);
        let options = Options { timeout_ms, max_cost, fail_fast: fail_fast.unwrap_or_default() };
        Start {
            input: self.input.unwrap_or_default(),
            hitl: self.hitl,
            options,
            start_at: self.start_at,
            named: Named { tags: self.tags, callback_url: self.callback_url, labels: self.labels },
        }
    }
}
