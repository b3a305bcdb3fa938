//! The statistics of approvals, and the quality of confidences, on the wire (docs/reference/approvals.md).

use callboard_domain::calibration::{Backtest, Calibration, MissRate, Outcomes, Query, Threshold};
use callboard_domain::confidence::Source;
use callboard_domain::review_stats::{Reviewer, Summary, WINDOW_DAYS};
use callboard_domain::{Error, Rule};
use serde::Serialize;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::read::rule::{self, Parse};
use crate::request;

/// The statistics of approvals.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatisticsBody<'a> {
    /// The number that wait and are not overdue.
    pending: u64,
    /// Approved on the current UTC day.
    approved_today: u64,
    /// Rejected on the current UTC day, by a reviewer or a time-out.
    rejected_today: u64,
    /// The average wait of those decided within the window, in milliseconds.
    avg_wait_time_ms: u64,
    /// The average confidence of those decided within the window that have one, 0 to 1.
    avg_confidence: f64,
    /// The share of those created within the window that was escalated, 0 to 1.
    escalation_rate: f64,
    /// The reviewers with the most decisions within the window; ten at most.
    top_reviewers: Vec<ReviewerBody<'a>>,
    /// The number decided within the window.
    decided: u64,
    /// The number created within the window.
    created: u64,
    /// The window: the current UTC day and those before it.
    window_days: u64,
}

/// The decisions of a reviewer within the window.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReviewerBody<'a> {
    /// The user.
    id: &'a str,
    /// The number of outputs that the reviewer approved.
    approvals: u64,
    /// The number of outputs that the reviewer rejected.
    rejections: u64,
}

/// The calibration of confidences.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CalibrationBody<'a> {
    /// The template that was asked for.
    template_id: Option<&'a str>,
    /// The step that was asked for.
    step_id: Option<&'a str>,
    /// The method that was asked for.
    method: Option<&'static str>,
    /// The model that was asked for.
    model: Option<&'a str>,
    /// The decisions on outputs by confidence: ten ranges of 0.1.
    deciles: Vec<DecileBody>,
    /// The decisions on outputs without a confidence; they count in no threshold.
    no_confidence: TallyBody,
    /// The result of each threshold.
    thresholds: Vec<ThresholdBody>,
}

/// The decisions on outputs of some confidence.
#[derive(Debug, Serialize, ToSchema)]
pub struct DecileBody {
    /// The lower bound of the confidence.
    from: f64,
    /// Confidences are below this; those of the last decile are up to 1 and with it.
    to: f64,
    /// The decisions on the outputs of the decile.
    #[serde(flatten)]
    tally: TallyBody,
}

/// The decisions on some outputs: each is approved, edited, rejected or unreviewed.
#[derive(Debug, Serialize, ToSchema)]
pub struct TallyBody {
    /// The outputs that a reviewer approved unchanged.
    approved: u32,
    /// The outputs that a reviewer approved with another text.
    edited: u32,
    /// The outputs that a reviewer rejected.
    rejected: u32,
    /// The outputs that nobody decided on.
    unreviewed: u32,
    /// The unreviewed outputs that were held: they wait, were cancelled, or timed out.
    undecided: u32,
    /// The reviewed outputs that were held as a sample of passing ones.
    sampled: u32,
}

/// The result of a threshold: each output is in `reviews`, `reviewsSaved` or `unreviewed`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThresholdBody {
    /// The threshold, below which outputs would be held.
    threshold: f64,
    /// The number of outputs that the threshold would have held.
    reviews: u32,
    /// The number of reviewed outputs that the threshold would not have held.
    reviews_saved: u32,
    /// The number of known rejections, at any confidence.
    rejections_known: u32,
    /// The number of known rejections that the threshold would have missed.
    rejections_missed: u32,
    /// The share of all rejections, known or not, that the threshold would have missed.
    missed_share: ShareBody,
    /// The number of undecided outputs that the threshold would not have held.
    unreviewed: u32,
    /// The unreviewed outputs of deciles without any review.
    unreviewed_unknown: u32,
}

/// A share of 0 to 1 that is not known exactly.
#[derive(Debug, Serialize, ToSchema)]
pub struct ShareBody {
    /// The least.
    low: f64,
    /// The likely one, by the rates of each decile's reviews; absent if it cannot be estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<f64>,
    /// The most.
    high: f64,
}

request! {
    /// The decisions to calibrate with.
    #[derive(Debug)]
    pub struct Calibrate as "Calibrate" {
        /// Only items of this template.
        template_id: Option<String> = optional("templateId", name()),
        /// Only items of this step.
        step_id: Option<String> = optional("stepId", name()),
        /// Only confidences made by this method: logprobs, samples, judge, reported or none.
        method: Option<Source> = optional("method", rule::one_of(&Source::ALL, Source::as_str)),
        /// Only items of this model.
        model: Option<String> = optional("model", name()),
        /// A multiple of 0.01; by default 0.05, 0.10 and so on up to 1.
        threshold: Option<Threshold> = optional("threshold", threshold()),
    }
}

fn name() -> impl Parse<String> {
    rule::text(rule::characters(1..=200))
}

fn threshold() -> impl Parse<Threshold> {
    let is_multiple = |number: &f64| Threshold::of(*number).is_some();
    let number =
        rule::number(0.0..=1.0).only(is_multiple, Rule::Format, "must be a multiple of 0.01");
    number.then(|number| Threshold::of(number).ok_or(Error::Internal))
}

impl From<Calibrate> for Query {
    fn from(asked: Calibrate) -> Self {
        let Calibrate { template_id, step_id, method, model, threshold } = asked;
        let thresholds = threshold.map_or_else(Threshold::defaults, |threshold| vec![threshold]);
        Self { template: template_id, step: step_id, method, model, thresholds }
    }
}

impl<'a> From<&'a Summary> for StatisticsBody<'a> {
    fn from(summary: &'a Summary) -> Self {
        Self {
            pending: summary.pending,
            approved_today: summary.approved_today,
            rejected_today: summary.rejected_today,
            avg_wait_time_ms: summary.avg_wait_ms,
            avg_confidence: summary.avg_confidence,
            escalation_rate: summary.escalation_rate,
            top_reviewers: summary.top_reviewers.iter().map(ReviewerBody::from).collect(),
            decided: summary.decided,
            created: summary.created,
            window_days: WINDOW_DAYS,
        }
    }
}

impl<'a> From<&'a Reviewer> for ReviewerBody<'a> {
    fn from(Reviewer { id, approvals, rejections }: &'a Reviewer) -> Self {
        Self { id, approvals: *approvals, rejections: *rejections }
    }
}

impl<'a> CalibrationBody<'a> {
    /// The answer to a query.
    #[must_use]
    pub fn of(asked: &'a Query, found: &Calibration) -> Self {
        let decile = |(number, tally): (u8, &Outcomes)| DecileBody {
            from: f64::from(number) / 10.0,
            to: f64::from(number + 1) / 10.0,
            tally: TallyBody::from(tally),
        };
        Self {
            template_id: asked.template.as_deref(),
            step_id: asked.step.as_deref(),
            method: asked.method.map(Source::as_str),
            model: asked.model.as_deref(),
            deciles: (0..).zip(&found.deciles).map(decile).collect(),
            no_confidence: TallyBody::from(&found.unknown),
            thresholds: found.thresholds.iter().map(ThresholdBody::from).collect(),
        }
    }
}

impl From<&Outcomes> for TallyBody {
    fn from(tally: &Outcomes) -> Self {
        let Outcomes { approved, edited, rejected, undecided, sampled, .. } = *tally;
        Self { approved, edited, rejected, unreviewed: tally.unreviewed(), undecided, sampled }
    }
}

impl From<&Backtest> for ThresholdBody {
    fn from(backtest: &Backtest) -> Self {
        let MissRate { low, expected, high } = backtest.missed_share;
        Self {
            threshold: backtest.threshold.value(),
            reviews: backtest.reviews,
            reviews_saved: backtest.reviews_saved,
            rejections_known: backtest.rejections,
            rejections_missed: backtest.rejections_missed,
            missed_share: ShareBody { low, expected, high },
            unreviewed: backtest.unreviewed,
            unreviewed_unknown: backtest.unknown_unreviewed,
        }
    }
}

#[cfg(test)]
mod tests;
