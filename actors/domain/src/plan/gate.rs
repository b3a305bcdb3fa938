//! The gates of a plan's steps, which hold outputs for a reviewer (docs/reference/approvals.md).

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::check_fraction;
use super::limits::{MAX_REVIEW_MS, check_range};
use super::source::StepSource;
use crate::error::{Error, Rule};
use crate::problem::{Problem, shortened};
use crate::task::{Channels, Gate, Hold};

/// The source of `hitl` in a template, an execution or a deployment.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct HitlSource {
    /// The steps whose outputs are always held.
    pub required_for: Option<Vec<String>>,
    /// The minimum confidence to skip review, 0 to 1.
    pub confidence_threshold: Option<f64>,
    /// The review time, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// The fraction of the otherwise passing outputs that is held as a sample, 0 to 1.
    pub sample_rate: Option<f64>,
    /// The channels that notify reviewers.
    pub notify: Option<Channels>,
}

impl HitlSource {
    /// The settings of a run: each field as given for the run, or else as in the template.
    #[must_use]
    pub fn for_run(template: Option<&Self>, given: Option<&Self>) -> Option<Self> {
        let (Some(template), Some(given)) = (template, given) else {
            return given.or(template).cloned();
        };
        Some(Self {
            required_for: given.required_for.as_ref().or(template.required_for.as_ref()).cloned(),
            confidence_threshold: given.confidence_threshold.or(template.confidence_threshold),
            timeout_ms: given.timeout_ms.or(template.timeout_ms),
            sample_rate: given.sample_rate.or(template.sample_rate),
            notify: given.notify.or(template.notify),
        })
    }

    /// Passes if a run with these settings holds every output that `template` holds.
    /// A review time and channels hold nothing: any may be asked for.
    ///
    /// # Errors
    /// [`Error::Forbidden`], which names the member that asks for less.
    pub fn check_not_less(
        run: Option<&Self>,
        template: Option<&Self>,
        steps: &[StepSource],
    ) -> Result<(), Error> {
        let Some(template) = template else { return Ok(()) };
        let forbidden = |less: String| {
            let says = "a request may hold more outputs than the template, never fewer, except an \
                        admin's";
            Err(Error::Forbidden(format!("{less}: {says}")))
        };
        let missing = template.required_for.iter().flatten();
        if let Some(step) = missing.into_iter().find(|id| !run.is_some_and(|run| run.requires(id)))
        {
            let less = "hitl.requiredFor leaves out step";
            return forbidden(format!("{less} {step}, which the template always holds"));
        }
        let least =
            |name: &str, of: fn(&Self) -> Option<f64>| match (run.and_then(of), of(template)) {
                (given, Some(least)) if given.is_none_or(|given| given < least) => {
                    let given = given.unwrap_or_default();
                    Some(format!("hitl.{name} {given} is lower than the template's {least}"))
                }
                (_, Some(_) | None) => None,
            };
        let lower = least("confidenceThreshold", |hitl| hitl.confidence_threshold)
            .or_else(|| least("sampleRate", |hitl| hitl.sample_rate));
        if let Some(less) = lower {
            return forbidden(less);
        }
        // A list of steps takes the threshold from all others.
        let is_freed = |step: &&StepSource| {
            let [before, after] =
                [Some(template), run].map(|hitl| gate_of(step, hitl, false).map(|gate| gate.hold));
            before == Some(Hold::Below) && matches!(after, None | Some(Hold::Never))
        };
        if let Some(step) = steps.iter().find(is_freed) {
            let less = format!("hitl.requiredFor lets step {} pass", step.id);
            return forbidden(format!("{less}, which the template holds below its threshold"));
        }
        Ok(())
    }

    /// The faults: a step that does not exist (rule `step`), a number out of its range.
    #[must_use]
    pub fn faults(&self, steps: &[StepSource]) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (index, id) in self.required_for.iter().flatten().enumerate() {
            let field = format!("hitl.requiredFor[{index}]");
            problems.extend(unknown_step(steps, field, id));
        }
        check_fraction(&mut problems, "hitl.confidenceThreshold", self.confidence_threshold);
        check_range(&mut problems, "hitl.timeoutMs", self.timeout_ms, 1, MAX_REVIEW_MS);
        check_fraction(&mut problems, "hitl.sampleRate", self.sample_rate);
        problems
    }

    /// True if `requiredFor` lists this step.
    #[must_use]
    pub fn requires(&self, step: &str) -> bool {
        self.required_for.iter().flatten().any(|id| id == step)
    }

    fn lists_any(&self) -> bool {
        self.required_for.as_ref().is_some_and(|ids| !ids.is_empty())
    }
}

/// A fault if `id` is not the id of a step that calls a model.
pub(crate) fn unknown_step(steps: &[StepSource], field: String, id: &str) -> Option<Problem> {
    let fault = |why: &str| {
        let says = format!("names step {}, which {why}", shortened(id, super::MAX_ID));
        Some(Problem::rule(Rule::Step, field, says))
    };
    match steps.iter().find(|step| step.id == id) {
        None => fault("does not exist"),
        Some(step) if step.wait.is_some() => fault("waits for a signal and calls no model"),
        Some(_) => None,
    }
}

/// The gate of a step; `pass_unknown` lets outputs without a confidence pass.
///
/// A step with `requiresApproval`, or listed in `requiredFor`, is always held. If `hitl` has a
/// threshold and lists no steps, every other step is held below the threshold. If `hitl` has a sample
/// rate, the remaining steps are held as samples. An always held step keeps the threshold, the
/// default one if `hitl` has none.
#[must_use]
pub fn gate_of(step: &StepSource, hitl: Option<&HitlSource>, pass_unknown: bool) -> Option<Gate> {
    if step.wait.is_some() {
        return None;
    }
    let given = hitl.and_then(|hitl| hitl.confidence_threshold);
    let sample_rate = hitl.and_then(|hitl| hitl.sample_rate).unwrap_or(0.0);
    let always = step.requires_approval || hitl.is_some_and(|hitl| hitl.requires(&step.id));
    let lists_any = hitl.is_some_and(HitlSource::lists_any);
    let (hold, threshold) = match (always, given, lists_any) {
        (true, given, _) => (Hold::Always, given.or(hitl.map(|_| Gate::DEFAULT_THRESHOLD))),
        (false, Some(threshold), false) => (Hold::Below, Some(threshold)),
        (false, given, _) if sample_rate > 0.0 => (Hold::Never, given),
        (false, Some(_), true) | (false, None, _) => return None,
    };
    let timeout_ms = hitl.and_then(|hitl| hitl.timeout_ms).unwrap_or(Gate::DEFAULT_TIMEOUT_MS);
    let notify = hitl.and_then(|hitl| hitl.notify).unwrap_or_default();
    Some(Gate { hold, threshold, timeout_ms, pass_unknown, sample_rate, notify })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(id: &str, requires_approval: bool) -> StepSource {
        StepSource { id: id.to_owned(), requires_approval, ..StepSource::default() }
    }

    fn hitl(required_for: Option<&[&str]>, confidence_threshold: Option<f64>) -> HitlSource {
        let ids = |ids: &[&str]| ids.iter().map(|&id| id.to_owned()).collect();
        let required_for = required_for.map(ids);
        HitlSource { required_for, confidence_threshold, ..HitlSource::default() }
    }

    fn held(step: &StepSource, hitl: Option<&HitlSource>) -> Option<(Hold, Option<f64>)> {
        gate_of(step, hitl, false).map(|gate| (gate.hold, gate.threshold))
    }

    #[test]
    fn the_gate_of_a_step_follows_the_table() {
        let (plain, approved) = (step("a", false), step("a", true));
        let always = |threshold| Some((Hold::Always, threshold));
        for (step, hitl, expected) in [
            (&plain, None, None),
            (&approved, None, always(None)),
            (&plain, Some(hitl(None, None)), None),
            (&plain, Some(hitl(None, Some(0.7))), Some((Hold::Below, Some(0.7)))),
            (&plain, Some(hitl(Some(&[]), Some(0.7))), Some((Hold::Below, Some(0.7)))),
            (&plain, Some(hitl(Some(&["a"]), Some(0.7))), always(Some(0.7))),
            (&plain, Some(hitl(Some(&["a"]), None)), always(Some(0.85))),
            (&plain, Some(hitl(Some(&["b"]), Some(0.7))), None),
            (&approved, Some(hitl(Some(&["b"]), Some(0.7))), always(Some(0.7))),
        ] {
            assert_eq!(held(step, hitl.as_ref()), expected, "{step:?} {hitl:?}");
        }
    }

    #[test]
    fn a_rate_samples_the_steps_that_nothing_else_holds() {
        let sampled = |given: HitlSource| HitlSource { sample_rate: Some(0.1), ..given };
        let plain = step("a", false);
        let never = |threshold| Some((Hold::Never, threshold));
        assert_eq!(held(&plain, Some(&sampled(hitl(None, None)))), never(None));
        assert_eq!(held(&plain, Some(&sampled(hitl(Some(&["b"]), Some(0.7))))), never(Some(0.7)));
        let below = Some((Hold::Below, Some(0.7)));
        assert_eq!(held(&plain, Some(&sampled(hitl(None, Some(0.7))))), below);
    }

    #[test]
    fn the_settings_of_a_run_replace_the_templates_field_by_field() {
        let template = HitlSource { timeout_ms: Some(5), ..hitl(Some(&["a"]), Some(0.9)) };
        let run = HitlSource::for_run(Some(&template), Some(&hitl(Some(&["b"]), None)));
        let expected = HitlSource { timeout_ms: Some(5), ..hitl(Some(&["b"]), Some(0.9)) };
        assert_eq!(run, Some(expected));
        assert_eq!(HitlSource::for_run(Some(&template), None), Some(template));
    }

    #[test]
    fn a_run_holds_what_the_template_holds_or_more() {
        let steps = [step("a", false), step("b", false)];
        let sampled = |rate| HitlSource { sample_rate: Some(rate), ..HitlSource::default() };
        let timed = HitlSource { timeout_ms: Some(5), ..hitl(Some(&["a"]), Some(0.6)) };
        let list = hitl(Some(&["a"]), Some(0.6));
        let threshold = hitl(None, Some(0.6));
        for (template, run, less) in [
            (None, None, None),
            (None, Some(hitl(Some(&[]), Some(0.0))), None),
            (Some(&list), Some(list.clone()), None),
            (Some(&list), Some(timed.clone()), None),
            (Some(&timed), Some(list.clone()), None),
            (Some(&list), Some(hitl(Some(&["b", "a"]), Some(0.9))), None),
            (Some(&list), Some(hitl(Some(&["b"]), Some(0.9))), Some("hitl.requiredFor")),
            (Some(&list), Some(hitl(Some(&[]), Some(0.9))), Some("hitl.requiredFor")),
            (Some(&list), None, Some("hitl.requiredFor")),
            (
                Some(&list),
                Some(hitl(Some(&["a"]), Some(0.5))),
                Some("hitl.confidenceThreshold 0.5"),
            ),
            (Some(&threshold), Some(hitl(Some(&[]), Some(0.6))), None),
            (Some(&threshold), Some(hitl(Some(&["a", "b"]), Some(0.6))), None),
            (Some(&threshold), Some(list.clone()), Some("hitl.requiredFor lets step b pass")),
            (Some(&sampled(0.2)), Some(sampled(0.2)), None),
            (Some(&sampled(0.2)), Some(sampled(0.1)), Some("hitl.sampleRate 0.1 is lower")),
        ] {
            let found = HitlSource::check_not_less(run.as_ref(), template, &steps);
            match (found, less) {
                (Ok(()), None) => {}
                (Err(Error::Forbidden(message)), Some(less)) if message.starts_with(less) => {}
                (found, _) => panic!("{found:?} for {run:?} of {template:?}"),
            }
        }
        // A step that always needs an approval is held in spite of any list.
        let steps = [step("a", false), step("b", true)];
        let list = hitl(Some(&["a"]), Some(0.6));
        assert_eq!(HitlSource::check_not_less(Some(&list), Some(&threshold), &steps), Ok(()));
    }

    #[test]
    fn a_listed_step_must_exist() {
        let faults = hitl(Some(&["a", "x"]), Some(1.5)).faults(&[step("a", false)]);
        let found: Vec<_> =
            faults.iter().map(|fault| (fault.field.as_str(), fault.code.rule())).collect();
        let expected = [
            ("hitl.requiredFor[1]", Some(Rule::Step)),
            ("hitl.confidenceThreshold", Some(Rule::Range)),
        ];
        assert_eq!(found, expected);
    }
}
