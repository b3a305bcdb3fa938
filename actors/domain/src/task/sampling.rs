//! The members of a request that steer the choice of tokens, beside the temperature: `seed`, `topP`, `stop` and
//! `frequencyPenalty`. Rows, workers' frames and the providers' clients take them from here.
//!
//! Deliberately absent: the temperature, which was there first and has a member of its own.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::error::Rule;

/// The most sequences that end an output.
pub const MAX_STOPS: usize = 16;
/// The longest sequence that ends an output, in characters.
pub const MAX_STOP: usize = 256;

/// The most that a repeated token is made less probable, or if negative more.
pub const MAX_PENALTY: f64 = 2.0;

/// These members of a task, a step or defaults.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sampling {
    /// The seed of the choice of tokens.
    pub seed: Option<i64>,
    /// The share of the probability that the next token is chosen from, 0 to 1.
    #[serde(alias = "top_p")]
    pub top_p: Option<f64>,
    /// The sequences before which the output ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// The penalty of a token for each time that it has come, -2 to 2.
    pub frequency_penalty: Option<f64>,
}

impl Sampling {
    /// True if no member was given.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The members as a task keeps them; none if no member was given.
    #[must_use]
    pub fn boxed(&self) -> Option<Box<Self>> {
        (!self.is_none()).then(|| Box::new(self.clone()))
    }

    /// The members of a step, with those of `defaults` where it has none.
    #[must_use]
    pub fn or(&self, defaults: &Self) -> Self {
        let stop = if self.stop.is_empty() { &defaults.stop } else { &self.stop };
        Self {
            seed: self.seed.or(defaults.seed),
            top_p: self.top_p.or(defaults.top_p),
            stop: stop.clone(),
            frequency_penalty: self.frequency_penalty.or(defaults.frequency_penalty),
        }
    }

    /// The names of the members that were given.
    pub fn given(&self) -> impl Iterator<Item = &'static str> {
        let members = [
            ("seed", self.seed.is_some()),
            ("topP", self.top_p.is_some()),
            ("stop", !self.stop.is_empty()),
            ("frequencyPenalty", self.frequency_penalty.is_some()),
        ];
        members.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    /// The faults of the members: field, rule, and words that follow the field's name.
    #[must_use]
    pub fn faults(&self) -> Vec<(String, Rule, String)> {
        let mut faults = Vec::new();
        if self.top_p.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            faults.push(("topP".into(), Rule::Range, "must be 0 to 1".into()));
        }
        let most = MAX_PENALTY;
        if self.frequency_penalty.is_some_and(|penalty| !(-most..=most).contains(&penalty)) {
            let says = format!("must be -{most} to {most}");
            faults.push(("frequencyPenalty".into(), Rule::Range, says));
        }
        if self.stop.len() > MAX_STOPS {
            let says = format!("must have at most {MAX_STOPS} sequences");
            faults.push(("stop".into(), Rule::Length, says));
        }
        for (index, sequence) in self.stop.iter().enumerate().take(MAX_STOPS) {
            if !(1..=MAX_STOP).contains(&sequence.chars().take(MAX_STOP + 1).count()) {
                let says = format!("must have 1 to {MAX_STOP} characters");
                faults.push((format!("stop[{index}]"), Rule::Length, says));
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stopping(stop: &[&str]) -> Sampling {
        let stop = stop.iter().map(|sequence| (*sequence).to_owned()).collect();
        Sampling { stop, ..Sampling::default() }
    }

    #[test]
    fn every_fault_is_told_by_its_place() {
        let fields = |sampling: &Sampling| {
            let faults = sampling.faults().into_iter();
            faults.map(|(field, rule, _)| (field, rule)).collect::<Vec<_>>()
        };
        let right = Sampling { seed: Some(i64::MIN), top_p: Some(1.0), ..stopping(&["\n", "END"]) };
        assert_eq!(fields(&right), []);
        for share in [-0.1, 1.1, f64::NAN] {
            let wrong = Sampling { top_p: Some(share), ..Sampling::default() };
            assert_eq!(fields(&wrong), [("topP".into(), Rule::Range)]);
        }
        for penalty in [-2.1, 2.1, f64::NAN] {
            let wrong = Sampling { frequency_penalty: Some(penalty), ..Sampling::default() };
            assert_eq!(fields(&wrong), [("frequencyPenalty".into(), Rule::Range)]);
        }
        let long = "x".repeat(MAX_STOP + 1);
        let wrong = [("stop[0]".into(), Rule::Length), ("stop[2]".into(), Rule::Length)];
        assert_eq!(fields(&stopping(&["", "a", &long])), wrong);
        assert_eq!(fields(&stopping(&["a"; MAX_STOPS + 1])), [("stop".into(), Rule::Length)]);
    }

    #[test]
    fn a_step_takes_each_member_that_it_lacks_from_the_defaults() {
        let defaults = Sampling { seed: Some(1), top_p: Some(0.5), ..stopping(&["a"]) };
        let step = Sampling { top_p: Some(0.0), ..stopping(&["b"]) };
        let joined = step.or(&defaults);
        assert_eq!(joined, Sampling { seed: Some(1), top_p: Some(0.0), ..stopping(&["b"]) });
        assert_eq!(Sampling::default().or(&defaults), defaults);
        assert_eq!(step.given().collect::<Vec<_>>(), ["topP", "stop"]);
        assert_eq!(Sampling::default().boxed(), None);
        assert!(serde_json::to_string(&Sampling::default()).is_ok_and(|json| json == "{}"));
    }

    #[test]
    fn a_row_of_before_is_read() {
        let read: Sampling = serde_json::from_str(r#"{"top_p":0.5}"#).expect("a row");
        assert_eq!(read, Sampling { top_p: Some(0.5), ..Sampling::default() });
    }
}
