//! The estimated cost of rows that have not run.

use callboard_domain::budget::Money;
use callboard_runtime::batch::{Estimate, TriedUpload};
use callboard_runtime::read::batches::BatchView;
use serde::Serialize;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::rows::rounded;

/// The estimated cost of rows: of an upload that was tried, or those of a batch that wait to be started.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TemplateBatchEstimate)]
pub struct BatchEstimateBody {
    /// The rows that ask something.
    rows: u32,
    /// Rows with a fault, which never run; of an upload that was tried.
    invalid: Option<u32>,
    /// The first 20 of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    faults: Vec<RowFaultBody>,
    /// Rows whose prompts cannot be rendered: they will fail at no cost.
    unrenderable: u32,
    /// Rows beside these that will take over all their answers, which costs nothing.
    #[serde(skip_serializing_if = "is_none")]
    reused: u32,
    /// The cost of the rows, in USD.
    cost: EstimatedCostBody,
    /// The expected cost of one row, in USD.
    cost_per_row: f64,
    /// The expected tokens.
    usage: EstimatedUsageBody,
    /// The cost of the batch so far, in USD; of a batch.
    spent: Option<f64>,
    /// history: past runs of every step; prices: for a step at least, its maxTokens and the price of its model.
    basis: &'static str,
    /// The past executions of the template that were looked at.
    past_runs: usize,
    /// True if a model has no price and no past run: it counts as 0.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    price_unknown: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_none(count: &u32) -> bool {
    *count == 0
}

/// A row with a fault.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TemplateBatchFault)]
pub struct RowFaultBody {
    /// The number of the row, from 1.
    row: u32,
    /// The fault.
    message: String,
}

/// A cost with its range, in USD.
#[derive(Debug, Serialize, ToSchema)]
pub struct EstimatedCostBody {
    /// The lower end of the range.
    low: f64,
    /// The expected cost.
    expected: f64,
    /// The upper end of the range.
    high: f64,
}

/// The expected tokens.
#[derive(Debug, Serialize, ToSchema)]
pub struct EstimatedUsageBody {
    /// Input tokens.
    input: u64,
    /// Output tokens.
    output: u64,
}

impl From<&Estimate> for BatchEstimateBody {
    fn from(Estimate { rows, unrenderable, reused, past }: &Estimate) -> Self {
        let (low, high) = rows.range();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a sum of tokens is far below 2^52, and not negative"
        )]
        let whole = |tokens: f64| tokens.round() as u64;
        Self {
            rows: rows.rows,
            invalid: None,
            faults: Vec::new(),
            unrenderable: *unrenderable,
            reused: *reused,
            cost: EstimatedCostBody {
                low: rounded(low),
                expected: rounded(rows.cost),
                high: rounded(high),
            },
            cost_per_row: rounded(rows.cost / f64::from(rows.rows.max(1))),
            usage: EstimatedUsageBody { input: whole(rows.input), output: whole(rows.output) },
            spent: None,
            basis: rows.basis.as_str(),
            past_runs: *past,
            price_unknown: rows.price_unknown,
        }
    }
}

impl BatchEstimateBody {
    /// The rows of an upload that was tried.
    #[must_use]
    pub fn tried(tried: &TriedUpload) -> Self {
        let faults = tried.faults.iter();
        let faults = faults
            .map(|fault| RowFaultBody { row: fault.row, message: fault.error.message.clone() });
        let invalid = Some(tried.invalid);
        Self { invalid, faults: faults.collect(), ..Self::from(&tried.estimate) }
    }

    /// The rows of a batch that wait to be started.
    #[must_use]
    pub fn waiting(view: &BatchView, estimate: &Estimate) -> Self {
        let spent = Some(Money::as_usd(view.batch.spent.cost));
        Self { spent, ..Self::from(estimate) }
    }
}
