//! The rule that holds outputs for a reviewer (docs/reference/approvals.md).

use serde::{Deserialize, Serialize};

/// The conditions under which an output is held for a reviewer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// The outputs that the gate holds.
    pub hold: Hold,
    /// Minimum confidence to skip review, 0 to 1. A gate with [`Hold::Always`] only keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// The time that a reviewer has, in milliseconds.
    pub timeout_ms: u64,
    /// True if an output without a confidence passes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pass_unknown: bool,
    /// The share of the otherwise passing outputs that is held all the same, 0 to 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sample_rate: f64,
    /// The channels by which reviewers are notified.
    #[serde(default, skip_serializing_if = "Channels::is_none")]
    pub notify: Channels,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(share: &f64) -> bool {
    *share == 0.0
}

/// The outputs that a gate holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// Every output.
    Always,
    /// Outputs with a confidence below the threshold.
    Below,
    /// None but a sample.
    Never,
}

/// The reason why a gate holds an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldReason {
    /// A review is required at any confidence.
    Required,
    /// The confidence is below the threshold.
    BelowThreshold,
    /// The output has no confidence.
    NoConfidence,
    /// The output would have passed, and is one of the sample that shows how good such outputs are.
    Sampled,
    /// The output has passed, and a caller asked for a review afterwards: nothing waits for it.
    Requested,
}

impl HoldReason {
    /// Every reason.
    pub const ALL: [Self; 5] =
        [Self::Required, Self::BelowThreshold, Self::NoConfidence, Self::Sampled, Self::Requested];

    /// The reason's name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::BelowThreshold => "below_threshold",
            Self::NoConfidence => "no_confidence",
            Self::Sampled => "sampled",
            Self::Requested => "requested",
        }
    }
}

/// The channels by which reviewers are notified of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Channels {
    /// True for a mail to the assignee.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub email: bool,
    /// True for an event that dashboards show.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dashboard: bool,
}

impl Channels {
    /// True if no reviewer is notified.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        !self.email && !self.dashboard
    }

    /// The names of the channels on the wire.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let named = [(self.email, "email"), (self.dashboard, "dashboard")];
        named.into_iter().filter_map(|(is_on, name)| is_on.then_some(name))
    }
}

/// The review that a task's `hitl` field asks for.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Asks {
    /// True if a reviewer must see the output.
    pub required: Option<bool>,
    /// Minimum confidence to skip review.
    pub threshold: Option<f64>,
    /// The time that a reviewer has, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// The share of the other outputs that is held all the same.
    pub sample_rate: Option<f64>,
    /// The channels by which reviewers are notified.
    pub notify: Channels,
}

/// A random number from outside, spread evenly over its range: it puts an output into the sample or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chance(pub u32);

impl Chance {
    /// True if the number falls into a share of 0 to 1.
    #[must_use]
    pub fn falls_into(self, share: f64) -> bool {
        f64::from(self.0) < share * (f64::from(u32::MAX) + 1.0)
    }
}

impl Gate {
    /// The threshold of a gate that names none.
    pub const DEFAULT_THRESHOLD: f64 = 0.85;
    /// The time that a reviewer has if the task sets none, in milliseconds.
    pub const DEFAULT_TIMEOUT_MS: u64 = 3_600_000;

    /// A gate that holds every output.
    pub const ALWAYS: Self = Self {
        hold: Hold::Always,
        threshold: None,
        timeout_ms: Self::DEFAULT_TIMEOUT_MS,
        pass_unknown: false,
        sample_rate: 0.0,
        notify: Channels { email: false, dashboard: false },
    };

    /// The gate that a task's `hitl` field asks for: always with `required`; below the threshold
    /// without `required`, or with `required: false` and a threshold; else only a sample, if there
    /// is to be one.
    #[must_use]
    pub fn of_task(asks: Asks, pass_unknown: bool) -> Option<Self> {
        let sample_rate = asks.sample_rate.unwrap_or(0.0);
        let (hold, threshold) = match (asks.required, asks.threshold) {
            (Some(true), threshold) => (Hold::Always, threshold),
            (Some(false), None) if sample_rate > 0.0 => (Hold::Never, None),
            (Some(false), None) => return None,
            (Some(false) | None, Some(threshold)) => (Hold::Below, Some(threshold)),
            (None, None) => (Hold::Below, Some(Self::DEFAULT_THRESHOLD)),
        };
        let timeout_ms = asks.timeout_ms.unwrap_or(Self::DEFAULT_TIMEOUT_MS);
        let notify = asks.notify;
        Some(Self { hold, threshold, timeout_ms, pass_unknown, sample_rate, notify })
    }

    /// The reason why an output of this confidence is held; `None` if the output passes.
    #[must_use]
    pub fn holds(&self, confidence: Option<f64>, chance: Chance) -> Option<HoldReason> {
        let held = match (self.hold, confidence) {
            (Hold::Always, _) => Some(HoldReason::Required),
            (Hold::Below, None) if !self.pass_unknown => Some(HoldReason::NoConfidence),
            (Hold::Below, Some(confidence)) => {
                let threshold = self.threshold.unwrap_or(Self::DEFAULT_THRESHOLD);
                (confidence < threshold).then_some(HoldReason::BelowThreshold)
            }
            (Hold::Below, None) | (Hold::Never, _) => None,
        };
        held.or_else(|| chance.falls_into(self.sample_rate).then_some(HoldReason::Sampled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAST: Chance = Chance(u32::MAX);

    fn gate(required: Option<bool>, threshold: Option<f64>, sample_rate: Option<f64>) -> Asks {
        Asks { required, threshold, sample_rate, ..Asks::default() }
    }

    #[test]
    fn a_task_is_held_as_its_field_says() {
        let held = |asks: Asks, confidence| {
            Gate::of_task(asks, false).and_then(|gate| gate.holds(confidence, LAST))
        };
        assert_eq!(held(gate(Some(true), None, None), Some(1.0)), Some(HoldReason::Required));
        assert_eq!(held(gate(None, None, None), Some(0.84)), Some(HoldReason::BelowThreshold));
        assert_eq!(held(gate(None, None, None), Some(0.85)), None);
        assert_eq!(held(gate(None, None, None), None), Some(HoldReason::NoConfidence));
        assert_eq!(held(gate(Some(false), None, None), Some(0.1)), None);
        assert_eq!(
            held(gate(Some(false), Some(0.5), None), Some(0.4)),
            Some(HoldReason::BelowThreshold)
        );
    }

    #[test]
    fn a_sample_is_drawn_from_what_would_pass() {
        let gate = Gate::of_task(gate(None, Some(0.5), Some(0.25)), true).expect("a gate");
        let quarter = u32::MAX / 4;
        assert_eq!(gate.holds(Some(0.9), Chance(quarter)), Some(HoldReason::Sampled));
        assert_eq!(gate.holds(Some(0.9), Chance(quarter + 1)), None);
        assert_eq!(gate.holds(None, Chance(0)), Some(HoldReason::Sampled));
        assert_eq!(gate.holds(Some(0.1), Chance(0)), Some(HoldReason::BelowThreshold));
        assert!(Chance(u32::MAX).falls_into(1.0) && !Chance(0).falls_into(0.0));
    }

    #[test]
    fn a_sample_alone_is_a_gate_that_holds_nothing_else() {
        let never = Gate::of_task(gate(Some(false), None, Some(0.1)), false).expect("a gate");
        assert_eq!((never.hold, never.holds(None, LAST)), (Hold::Never, None));
        assert_eq!(Gate::of_task(gate(Some(false), None, Some(0.0)), false), None);
    }
}
