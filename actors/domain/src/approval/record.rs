//! The outcome of an output at its gate: the track record of a confidence.
//!
//! Every output has one record, held or passed, which is kept for good, so that thresholds can
//! be judged by the decisions of reviewers (docs/reference/approvals.md). Deliberately absent: sums over
//! records.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{Approval, Outcome, State};
use crate::Timestamp;
use crate::confidence::Source;
use crate::task::{Completion, HoldReason, Task};

/// The outcome of one output.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The template that the step belongs to.
    #[serde(rename = "t")]
    pub template: Option<String>,
    /// The step.
    #[serde(rename = "s")]
    pub step: Option<String>,
    /// The model's confidence, 0 to 1.
    #[serde(rename = "c")]
    pub confidence: Option<f64>,
    /// The method by which the confidence was made; unknown for older records.
    #[serde(rename = "m")]
    pub method: Option<Source>,
    /// The model that answered; unknown for older records.
    #[serde(rename = "n")]
    pub model: Option<String>,
    /// True if the gate held the output only to measure how good confident outputs are.
    #[serde(rename = "x", default, skip_serializing_if = "std::ops::Not::not")]
    pub sampled: bool,
    /// The instant at which the gate looked at the output.
    #[serde(rename = "o")]
    pub since: Timestamp,
    /// True if the approval was escalated.
    #[serde(rename = "e", default, skip_serializing_if = "std::ops::Not::not")]
    pub escalated: bool,
    /// The outcome.
    #[serde(rename = "f")]
    pub fate: GateOutcome,
}

/// The outcome of an output at its gate, so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateOutcome {
    /// The output passed without a review.
    Passed,
    /// The output waits.
    Open {
        /// True if the reviewers' time is over.
        expired: bool,
    },
    /// A reviewer let the output pass.
    Approved {
        /// The reviewer.
        by: String,
        /// The instant.
        at: Timestamp,
        /// True if the reviewer replaced the text.
        edited: bool,
    },
    /// A reviewer, or the clock, did not let the output pass.
    Rejected {
        /// The reviewer.
        by: String,
        /// The instant.
        at: Timestamp,
    },
    /// The task ended before a decision.
    Cancelled,
}

impl Record {
    /// The record of an output that the gate of a task let pass; `None` if the task has no gate.
    #[must_use]
    pub fn of_passed(task: &Task, now: Timestamp) -> Option<Self> {
        task.spec.gate?;
        Some(Self {
            template: task.spec.origin.template.clone(),
            step: task.spec.origin.step.as_ref().map(|(_, step)| step.clone()),
            confidence: task.result.as_ref().and_then(|result| result.confidence),
            method: task.result.as_deref().and_then(Completion::method),
            model: Some(task.model().to_owned()),
            sampled: false,
            since: now,
            escalated: false,
            fate: GateOutcome::Passed,
        })
    }
}

impl Record {
    /// The record as it was counted when the output passed, before a review was requested.
    #[must_use]
    pub fn when_passed(&self) -> Self {
        Self { sampled: false, escalated: false, fate: GateOutcome::Passed, ..self.clone() }
    }

    /// True once a reviewer, or the clock, has decided.
    #[must_use]
    pub const fn is_decided(&self) -> bool {
        matches!(self.fate, GateOutcome::Approved { .. } | GateOutcome::Rejected { .. })
    }

    /// True while the output waits for a decision.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.fate, GateOutcome::Open { .. })
    }
}

impl From<&Approval> for Record {
    fn from(approval: &Approval) -> Self {
        let origin = &approval.task.origin;
        let fate = match (approval.counting(), approval.state) {
            (Some(decision), _) => {
                let (by, at) = (decision.by.name().to_owned(), decision.at);
                match decision.outcome {
                    Outcome::Approved { edited } => GateOutcome::Approved { by, at, edited },
                    Outcome::Rejected { .. } => GateOutcome::Rejected { by, at },
                }
            }
            (None, State::Cancelled) => GateOutcome::Cancelled,
            (None, state) => GateOutcome::Open { expired: state == State::Expired },
        };
        Self {
            template: origin.template.clone(),
            step: origin.step.as_ref().map(|(_, step)| step.clone()),
            confidence: approval.opening.confidence,
            method: approval.opening.method,
            model: Some(approval.opening.model.as_ref().unwrap_or(&approval.task.model).clone()),
            sampled: matches!(approval.opening.why, HoldReason::Sampled | HoldReason::Requested),
            since: approval.opening.since,
            escalated: approval.escalated_at.is_some(),
            fate,
        }
    }
}
