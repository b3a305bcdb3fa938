//! The confidence that a task or a step asks for.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::Source;
use crate::error::Rule;
use crate::names::names;
use crate::problem::Problem;
use crate::schema::Schema;
use crate::task::MAX_TARGET;
use crate::usage::{Prices, estimate_tokens};

/// The most fields that are compared.
pub const MAX_FIELDS: usize = 64;
/// The longest name of a field, in characters.
pub const MAX_FIELD: usize = 200;
/// The longest rubric, in bytes.
pub const MAX_RUBRIC: usize = 16 * 1024;
/// The fewest and the most further calls.
pub const CALLS: std::ops::RangeInclusive<u8> = 2..=9;
/// The token limit of a judge's verdict: one word, with room for a model that thinks before.
pub const VERDICT_TOKENS: u64 = 256;

/// The tokens of the question around the rubric, the task and the answer, at most.
const QUESTION_TOKENS: u64 = 200;
/// The output that is assumed of a model without a known maximum, in tokens.
const LONG_OUTPUT_TOKENS: u64 = 4096;

names! {
    /// The method by which a confidence is to be made.
    Method {
        /// Log-probabilities where the model gives them, else none.
        Auto = "auto",
        /// The log-probabilities of the output's tokens.
        Logprobs = "logprobs",
        /// The agreement of further answers to the same prompt.
        Samples = "samples",
        /// The verdict of another model.
        Judge = "judge",
        /// No confidence.
        None = "none",
    }
}

#[expect(clippy::derivable_impls, reason = "the macro that declares the enum derives no default")]
impl Default for Method {
    fn default() -> Self {
        Self::Auto
    }
}

/// The requested confidence: in the source of a definition, in a stored row and in a worker's frame.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ask {
    /// The method.
    #[serde(default)]
    pub method: Method,
    /// The number of samples, or of verdicts of a judge without log-probabilities.
    pub n: Option<u8>,
    /// The members of a JSON output that samples must agree on; by default those of the schema.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// The model that judges.
    pub judge_model: Option<String>,
    /// The judge's criteria.
    pub rubric: Option<String>,
}

/// The tokens of one call of a task, as far as they are known before it.
#[derive(Debug, Clone, Copy)]
pub struct Expected {
    /// The tokens of the prompt.
    pub prompt: u64,
    /// The token limit of the output.
    pub max_tokens: Option<u64>,
}

/// The number of calls that an attempt makes: of the task's own model, and of a judge's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calls {
    /// The answer and its samples.
    pub own: u32,
    /// The verdicts.
    pub judge: u32,
}

impl Calls {
    /// The most calls of an attempt, known before it. A lease calls one of the task's models; a judge
    /// with log-probabilities is called once.
    #[must_use]
    pub fn most(ask: Option<&Ask>) -> Self {
        let further = ask.map_or(0, |ask| u32::from(ask.calls()));
        match ask.map(|ask| ask.method) {
            Some(Method::Samples) => Self { own: 1 + further, judge: 0 },
            Some(Method::Judge) => Self { own: 1, judge: further },
            Some(Method::Auto | Method::Logprobs | Method::None) | None => {
                Self { own: 1, judge: 0 }
            }
        }
    }

    /// The calls of each model, that of the task first. A model that judges its own answers has one sum.
    #[must_use]
    pub fn by_model<'a>(self, model: &'a str, ask: Option<&'a Ask>) -> Vec<(&'a str, u32)> {
        let judge = ask.and_then(|ask| ask.judge_model.as_deref()).filter(|_| self.judge > 0);
        match judge {
            Some(judge) if judge == model => vec![(model, self.own.saturating_add(self.judge))],
            Some(judge) => vec![(model, self.own), (judge, self.judge)],
            None => vec![(model, self.own)],
        }
    }
}

impl Ask {
    /// The number of calls of a method that names none.
    pub const DEFAULT_CALLS: u8 = 3;

    /// The number of samples or verdicts.
    #[must_use]
    pub fn calls(&self) -> u8 {
        self.n.unwrap_or(Self::DEFAULT_CALLS)
    }

    /// The model that judges, if the method is a judge.
    #[must_use]
    pub fn judge(&self) -> Option<&str> {
        self.judge_model.as_deref().filter(|_| self.method == Method::Judge)
    }

    /// The faults, with `field` as the place of the whole.
    #[must_use]
    pub fn faults(&self, field: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut fault = |rule, name: &str, says: String| {
            problems.push(Problem::rule(rule, format!("{field}.{name}"), says));
        };
        if !CALLS.contains(&self.calls()) {
            let says = format!("must be {} to {}", CALLS.start(), CALLS.end());
            fault(Rule::Range, "n", says);
        }
        if self.fields.len() > MAX_FIELDS {
            fault(Rule::Length, "fields", format!("must have at most {MAX_FIELDS} names"));
        }
        for (index, name) in self.fields.iter().enumerate() {
            let length = name.chars().take(MAX_FIELD + 1).count();
            if length == 0 || length > MAX_FIELD {
                let says = format!("must have 1 to {MAX_FIELD} characters");
                fault(Rule::Length, &format!("fields[{index}]"), says);
            }
        }
        match &self.judge_model {
            None if self.method == Method::Judge => {
                let says = "is required, because the method is judge".to_owned();
                fault(Rule::Required, "judgeModel", says);
            }
            Some(model) if !(1..=MAX_TARGET).contains(&model.chars().count()) => {
                fault(
                    Rule::Length,
                    "judgeModel",
                    format!("must have 1 to {MAX_TARGET} characters"),
                );
            }
            Some(_) | None => {}
        }
        if self.rubric.as_ref().is_some_and(|it| it.is_empty() || it.len() > MAX_RUBRIC) {
            fault(Rule::Length, "rubric", format!("must have 1 to {MAX_RUBRIC} bytes"));
        }
        problems
    }

    /// The members that samples must agree on; none if the outputs are compared as a whole.
    #[must_use]
    pub fn compared(&self, schema: Option<&Schema>) -> Vec<String> {
        if self.fields.is_empty() {
            let declared = schema.and_then(|schema| schema.declared().ok()).unwrap_or_default();
            declared.into_iter().map(str::to_owned).collect()
        } else {
            self.fields.clone()
        }
    }

    /// The source that names the method; `Reported` for figures that the worker makes by itself.
    #[must_use]
    pub const fn source(&self) -> Source {
        match self.method {
            Method::Auto | Method::Logprobs => Source::Logprobs,
            Method::Samples => Source::Samples,
            Method::Judge => Source::Judge,
            Method::None => Source::None,
        }
    }

    /// The most that the further calls cost, in USD; `None` if a model has no price.
    #[must_use]
    pub fn worst_case(&self, model: &str, call: Expected, prices: &Prices) -> Option<f64> {
        let calls = f64::from(self.calls());
        match (self.method, &self.judge_model) {
            (Method::Samples, _) => {
                Some(calls * prices.worst_case(model, call.prompt, call.max_tokens)?)
            }
            (Method::Judge, Some(judge)) => {
                let longest = prices.get(model).and_then(|price| price.max_output_tokens);
                let answer = call.max_tokens.or(longest).unwrap_or(LONG_OUTPUT_TOKENS);
                let rubric = self.rubric.as_deref().map_or(0, estimate_tokens);
                let question = [answer, rubric, QUESTION_TOKENS];
                let prompt = question.into_iter().fold(call.prompt, u64::saturating_add);
                Some(calls * prices.worst_case(judge, prompt, Some(VERDICT_TOKENS))?)
            }
            (Method::Judge, None) | (Method::Auto | Method::Logprobs | Method::None, _) => {
                Some(0.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prices() -> Prices {
        Prices::parse(
            r#"{"m": {"input_cost_per_token": 1, "output_cost_per_token": 2},
                "j": {"input_cost_per_token": 10, "output_cost_per_token": 0}}"#,
        )
        .unwrap()
    }

    #[test]
    fn every_fault_is_told_by_its_place() {
        let ask = Ask {
            method: Method::Judge,
            n: Some(10),
            fields: vec![String::new()],
            rubric: Some(String::new()),
            ..Ask::default()
        };
        let found: Vec<_> = ask
            .faults("confidence")
            .into_iter()
            .map(|problem| (problem.field, problem.code.rule()))
            .collect();
        let expected = [
            ("confidence.n", Rule::Range),
            ("confidence.fields[0]", Rule::Length),
            ("confidence.judgeModel", Rule::Required),
            ("confidence.rubric", Rule::Length),
        ];
        assert_eq!(found, expected.map(|(field, rule)| (field.to_owned(), Some(rule))));
        assert_eq!(Ask::default().faults("confidence"), []);
    }

    #[test]
    fn the_calls_of_an_attempt_are_known_before_it() {
        let ask = |method, n, judge: Option<&str>| {
            let judge_model = judge.map(str::to_owned);
            Ask { method, n, judge_model, ..Ask::default() }
        };
        for (ask, expected) in [
            (None, vec![("m", 1)]),
            (Some(ask(Method::Auto, Some(9), None)), vec![("m", 1)]),
            (Some(ask(Method::None, None, Some("j"))), vec![("m", 1)]),
            (Some(ask(Method::Samples, Some(2), None)), vec![("m", 3)]),
            (Some(ask(Method::Samples, None, Some("j"))), vec![("m", 4)]),
            (Some(ask(Method::Judge, Some(5), Some("j"))), vec![("m", 1), ("j", 5)]),
            (Some(ask(Method::Judge, None, Some("m"))), vec![("m", 4)]),
        ] {
            assert_eq!(Calls::most(ask.as_ref()).by_model("m", ask.as_ref()), expected, "{ask:?}");
        }
    }

    #[test]
    fn the_worst_case_counts_every_further_call() {
        let call = Expected { prompt: 10, max_tokens: Some(5) };
        let samples = Ask { method: Method::Samples, n: Some(4), ..Ask::default() };
        assert_eq!(samples.worst_case("m", call, &prices()), Some(4.0 * 20.0));
        let judge = Ask {
            method: Method::Judge,
            n: Some(2),
            judge_model: Some("j".into()),
            rubric: Some("abcd".into()),
            ..Ask::default()
        };
        assert_eq!(
            judge.worst_case("m", call, &prices()),
            Some(2.0 * 10.0 * (10.0 + 5.0 + 1.0 + 200.0))
        );
        let unknown = Ask { judge_model: Some("x".into()), ..judge };
        assert_eq!(unknown.worst_case("m", call, &prices()), None);
        assert_eq!(Ask::default().worst_case("unknown", call, &prices()), Some(0.0));
    }
}
