//! The figures of past runs, and the estimate of a batch by them: the cost of each row by the length of its texts.
//!
//! ```text
//!   input tokens  = rendered texts, with past outputs where they contain some, × counted / estimated in past runs
//!   output tokens = the mean of past runs
//!   cost          = the price of both × paid / priced in past runs, × the share of past runs in which the step ran
//! ```
//!
//! The range of the sum is two standard deviations: of the rows, and of the mean of the few past runs. A step without
//! past runs counts with its `maxTokens`, and the range is that of prices. Deliberately absent: retries, and the record
//! of past runs.

use std::collections::HashMap;

use super::{Basis, LONG_OUTPUT_TOKENS, USUAL_OUTPUT_TOKENS};
use crate::plan::{Plan, Step};
use crate::render::{self, Reference, Scope};
use crate::usage::{Prices, Tokens, Usage, estimate_tokens};

/// The deviations on either side of the expected cost.
const DEVIATIONS: f64 = 2.0;

/// A past answer of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PastAnswer {
    /// The estimated tokens of the texts that were asked; 0 if they are not known.
    pub asked: u64,
    /// The usage of all its calls.
    pub usage: Usage,
    /// The time from the start of the step to its end, in milliseconds.
    pub took_ms: u64,
}

/// The means of the past answers of a step with a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PastStep {
    count: f64,
    /// The share of past runs in which the step ran.
    share: f64,
    /// Counted input tokens by estimated ones; `None` if the texts are not known.
    ratio: Option<f64>,
    /// Paid costs by priced ones.
    paid: f64,
    cost: f64,
    output: f64,
    output_deviation: f64,
    /// The median of the times.
    took_ms: u64,
}

/// The past answers by step and model.
pub type PastSteps = HashMap<(String, String), PastStep>;

#[expect(clippy::cast_precision_loss, reason = "tokens are far below 2^52")]
pub(super) const fn float(tokens: u64) -> f64 {
    tokens as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a mean of tokens is far below 2^52, and not negative"
)]
const fn whole(tokens: f64) -> u64 {
    tokens.round() as u64
}

fn priced(prices: &Prices, model: &str, input: f64, output: f64) -> f64 {
    let (input, output) = (whole(input), whole(output));
    prices.usage(model, Tokens { input, output, ..Tokens::default() }).total_cost
}

impl PastStep {
    /// The means of answers of so many runs; `None` without any.
    #[must_use]
    pub fn of(answers: &[PastAnswer], runs: usize, model: &str, prices: &Prices) -> Option<Self> {
        if answers.is_empty() {
            return None;
        }
        let count = float(answers.len() as u64);
        let mean = |of: &dyn Fn(&PastAnswer) -> f64| answers.iter().map(of).sum::<f64>() / count;
        let (asked, input) = (mean(&|it| float(it.asked)), mean(&|it| float(it.usage.input)));
        let (output, cost) = (mean(&|it| float(it.usage.output)), mean(&|it| it.usage.total_cost));
        let by_price =
            mean(&|it| priced(prices, model, float(it.usage.input), float(it.usage.output)));
        let mut times: Vec<_> = answers.iter().map(|it| it.took_ms).collect();
        times.sort_unstable();
        let variance = mean(&|it| (float(it.usage.output) - output).powi(2));
        Some(Self {
            count,
            share: (count / float(runs.max(1) as u64)).min(1.0),
            ratio: (asked > 0.0 && input > 0.0).then(|| input / asked),
            paid: if by_price > 0.0 { cost / by_price } else { 0.0 },
            cost,
            output,
            output_deviation: variance.sqrt(),
            took_ms: times[times.len() / 2],
        })
    }

    /// The median of the times that the step took, in milliseconds.
    pub(super) const fn took_ms(&self) -> u64 {
        self.took_ms
    }

    /// The likely cost of asking texts of so many estimated tokens, in USD; the mean if their length is not known.
    pub(super) fn cost(&self, model: &str, asked: Option<f64>, prices: &Prices) -> f64 {
        match (self.ratio.filter(|_| self.paid > 0.0), asked) {
            (Some(ratio), Some(asked)) => {
                self.paid * priced(prices, model, ratio * asked, self.output)
            }
            _ => self.cost,
        }
    }
}

/// The estimate of some rows.
#[derive(Debug, Clone, PartialEq)]
pub struct RowsEstimate {
    /// The rows.
    pub rows: u32,
    /// The expected cost, in USD.
    pub cost: f64,
    /// The expected input tokens.
    pub input: f64,
    /// The expected output tokens.
    pub output: f64,
    /// Past runs of every step, or prices for one at least.
    pub basis: Basis,
    /// A model has no price and no past run, and counts as 0.
    pub price_unknown: bool,
    /// The sum of the variances of the rows, and of the deviations of their means.
    variance: f64,
    deviation: f64,
    /// The lowest and the highest cost of the steps without past runs, beside the expected one.
    below: f64,
    above: f64,
}

impl Default for RowsEstimate {
    fn default() -> Self {
        Self {
            rows: 0,
            cost: 0.0,
            input: 0.0,
            output: 0.0,
            basis: Basis::History,
            price_unknown: false,
            variance: 0.0,
            deviation: 0.0,
            below: 0.0,
            above: 0.0,
        }
    }
}

impl RowsEstimate {
    /// The range of the cost, in USD.
    #[must_use]
    pub fn range(&self) -> (f64, f64) {
        let spread = DEVIATIONS * (self.variance.sqrt() + self.deviation);
        ((self.cost - spread - self.below).max(0.0), self.cost + spread + self.above)
    }

    /// Adds a row with these values; `model` is that of steps that name none.
    ///
    /// # Errors
    /// A prompt that cannot be rendered, which fails the row at no cost.
    pub fn add(
        &mut self,
        plan: &Plan,
        scope: &impl Scope,
        (model, past): (&str, &PastSteps),
        prices: &Prices,
    ) -> Result<(), render::Error> {
        let mut lengths = Vec::with_capacity(plan.steps().len());
        for step in plan.steps() {
            let mut tokens = 0;
            for text in step.texts() {
                tokens += estimate_tokens(&text.render_known(scope)?);
            }
            lengths.push(float(tokens) + received(plan, step, (model, past)));
        }
        self.rows += 1;
        let calls = plan.steps().iter().zip(lengths).filter(|(step, _)| step.wait().is_none());
        for (step, asked) in calls {
            let own = step.source().first_model();
            let model = own.as_deref().unwrap_or(model);
            match past.get(&(step.id().to_owned(), model.to_owned())) {
                Some(past) => self.add_known(past, model, asked, prices),
                None if step.args().is_some() => self.basis = Basis::Prices,
                None => self.add_unknown(step, model, asked, prices),
            }
        }
        Ok(())
    }

    fn add_known(&mut self, past: &PastStep, model: &str, asked: f64, prices: &Prices) {
        let cost = past.cost(model, Some(asked), prices);
        let input = past.ratio.map_or(0.0, |ratio| ratio * asked);
        let deviation = past.share * past.paid * priced(prices, model, 0.0, past.output_deviation);
        // A step that runs in a share of the rows varies with that, too.
        let by_share = cost * cost * past.share * (1.0 - past.share);
        self.cost += past.share * cost;
        self.input += past.share * input;
        self.output += past.share * past.output;
        self.variance += deviation * deviation + by_share;
        self.deviation += (deviation * deviation + by_share).sqrt() / past.count.sqrt();
    }

    fn add_unknown(&mut self, step: &Step, model: &str, asked: f64, prices: &Prices) {
        let most = step.source().max_tokens;
        let output = float(most.unwrap_or(USUAL_OUTPUT_TOKENS));
        let usual = |tokens: f64| priced(prices, model, asked, tokens);
        let cost = usual(output);
        let is_unknown = prices.usage(model, Tokens::default()).price_unknown;
        self.basis = Basis::Prices;
        self.price_unknown |= is_unknown;
        self.cost += cost;
        self.input += asked;
        self.output += output;
        self.below += cost - usual(0.0);
        self.above += usual(float(most.unwrap_or(LONG_OUTPUT_TOKENS))) - cost;
    }
}

/// The tokens that the outputs of earlier steps are likely to add to the texts of a step.
pub(super) fn received(plan: &Plan, step: &Step, (model, past): (&str, &PastSteps)) -> f64 {
    let of = |reference: &Reference| {
        let Reference::Output { step, .. } = reference else { return 0.0 };
        let Some(named) = plan.position(step).map(|index| &plan.steps()[index]) else { return 0.0 };
        let own = named.source().first_model();
        let model = own.as_deref().unwrap_or(model);
        let known = past.get(&(named.id().to_owned(), model.to_owned()));
        let usual = || float(named.source().max_tokens.unwrap_or(USUAL_OUTPUT_TOKENS));
        known.map_or_else(usual, |past| past.output)
    };
    step.references().map(of).sum()
}
