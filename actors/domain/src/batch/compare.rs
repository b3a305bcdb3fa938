//! The comparison of two batches, row by row (docs/reference/batches.md).
//!
//! ```text
//!   one side open ─▶ unfinished        both have an output ─▶ equal | differs, by field
//!   else one without an output ─▶ failed
//! ```
//!
//! Deliberately absent: the pairing of rows by key, and reading them.

use serde_json::Value;

use crate::Timestamp;
use crate::names::names;
use crate::schema::structured_output;

/// The most members of outputs that are counted one by one.
pub const MAX_FIELDS: usize = 50;
/// The longest name of a counted member, in bytes.
const MAX_FIELD: usize = 800;

names! {
    /// The outcome of a pair of rows with the same key.
    Outcome {
        /// The outputs are the same.
        Equal = "equal",
        /// The outputs differ.
        Differs = "differs",
        /// A row waits, runs, is held, or has an output that is no longer kept.
        Unfinished = "unfinished",
        /// Both rows have ended, and one of them without an output.
        Failed = "failed",
        /// Only the first batch has the key.
        OnlyA = "onlyA",
        /// Only the second batch has the key.
        OnlyB = "onlyB",
    }
}

/// The end of the compared step of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// None yet, or no longer known.
    Open,
    /// An end without an output.
    Failed,
    /// The condition of the step was false.
    Skipped,
    /// The output.
    Output(Value),
}

/// The decision of a reviewer.
#[derive(Debug, Clone, PartialEq)]
pub enum Judged {
    /// This text is right.
    Right(Value),
    /// The model's output is wrong.
    Wrong,
}

/// One row of a pair.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    /// The end of the step.
    pub end: End,
    /// The output of the model, before a reviewer edited or rejected it.
    pub answer: Option<Value>,
    /// The decision, and its instant.
    pub judged: Option<(Timestamp, Judged)>,
}

/// The agreement of the outputs of a batch with the decisions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Agreement {
    /// The outputs that a decision tells right or wrong.
    pub decided: u32,
    /// Those that are right.
    pub agrees: u32,
}

/// The figures of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// Keys of both batches.
    pub both: u32,
    /// Keys of the first batch alone.
    pub only_a: u32,
    /// Keys of the second batch alone.
    pub only_b: u32,
    /// Pairs with equal outputs.
    pub equal: u32,
    /// Pairs whose outputs differ.
    pub differs: u32,
    /// Pairs that cannot be compared yet.
    pub unfinished: u32,
    /// Pairs of which the first, the second, or any row ended without an output.
    pub failed: [u32; 3],
    /// The members of outputs, and the number of pairs in which each differs.
    pub fields: Vec<(String, u32)>,
    /// The agreement with the decisions, of both batches.
    pub agreement: [Agreement; 2],
}

/// An output as a value: an object or a list if it is JSON of one, else a text.
#[must_use]
pub fn value_of(output: &str) -> Value {
    let structure = structured_output(output);
    let parsed = structure.and_then(|text| serde_json::from_str(&text).ok());
    parsed.unwrap_or_else(|| Value::String(output.to_owned()))
}

/// True if two values are the same: numbers by their value, objects in any order of their members.
pub(crate) fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(one), Value::Number(other)) => {
            one == other
                || one.as_f64().zip(other.as_f64()).is_some_and(|(one, other)| {
                    one.partial_cmp(&other).is_some_and(std::cmp::Ordering::is_eq)
                })
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let has = |(name, value)| other.get(name).is_some_and(|other| is_same(value, other));
            one.len() == other.len() && one.iter().all(has)
        }
        _ => a == b,
    }
}

/// True if two outputs are the same, as far as `fields` go; an output that is no object has no fields, and is compared
/// as a whole.
fn agree(a: &Value, b: &Value, fields: &[String]) -> bool {
    match (a, b) {
        (Value::Object(_), Value::Object(_)) if !fields.is_empty() => {
            fields.iter().all(|field| member_is_same(a, b, field))
        }
        _ => is_same(a, b),
    }
}

fn member_is_same(a: &Value, b: &Value, field: &str) -> bool {
    match (a.get(field), b.get(field)) {
        (Some(a), Some(b)) => is_same(a, b),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// The outcome of a pair, and the members that differ.
#[must_use]
pub fn outcome(a: &End, b: &End, fields: &[String]) -> (Outcome, Vec<String>) {
    let outcome = match (a, b) {
        (End::Open, _) | (_, End::Open) => Outcome::Unfinished,
        (End::Failed, _) | (_, End::Failed) => Outcome::Failed,
        (End::Skipped, End::Skipped) => Outcome::Equal,
        (End::Skipped, End::Output(_)) | (End::Output(_), End::Skipped) => Outcome::Differs,
        (End::Output(a), End::Output(b)) if agree(a, b, fields) => Outcome::Equal,
        (End::Output(a), End::Output(b)) => return (Outcome::Differs, differing(a, b, fields)),
    };
    (outcome, Vec::new())
}

fn differing(a: &Value, b: &Value, fields: &[String]) -> Vec<String> {
    let (Value::Object(one), Value::Object(other)) = (a, b) else { return Vec::new() };
    let is_meant =
        |name: &&String| (fields.is_empty() && name.len() <= MAX_FIELD) || fields.contains(name);
    let names = one.keys().chain(other.keys().filter(|name| !one.contains_key(*name)));
    let names = names.filter(is_meant).filter(|name| !member_is_same(a, b, name));
    names.take(MAX_FIELDS).cloned().collect()
}

/// True if the answer of a side is right, false if it is wrong; `None` if no decision says so.
fn is_right(a: &Side, b: &Side, side: &Side, fields: &[String]) -> Option<bool> {
    let judged = [a, b].into_iter().filter_map(|of| Some((of.judged.as_ref()?, of)));
    let ((_, judged), of) = judged.max_by_key(|((at, _), _)| *at)?;
    let answer = side.answer.as_ref()?;
    match judged {
        Judged::Right(right) => Some(agree(answer, right, fields)),
        Judged::Wrong => {
            let wrong = of.answer.as_ref()?;
            agree(answer, wrong, fields).then_some(false)
        }
    }
}

impl Figures {
    /// The figures of a comparison of these fields, or of all fields that appear.
    #[must_use]
    pub fn of(fields: &[String]) -> Self {
        let fields = fields.iter().map(|field| (field.clone(), 0)).collect();
        Self { fields, ..Self::default() }
    }

    /// Counts a key that one batch has.
    pub const fn add_single(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::OnlyA => self.only_a += 1,
            Outcome::OnlyB => self.only_b += 1,
            Outcome::Equal | Outcome::Differs | Outcome::Unfinished | Outcome::Failed => {}
        }
    }

    /// Counts a pair; `fields` are those that were asked for.
    pub fn add(&mut self, a: &Side, b: &Side, fields: &[String]) -> Outcome {
        let (outcome, differing) = outcome(&a.end, &b.end, fields);
        self.both += 1;
        match outcome {
            Outcome::Equal => self.equal += 1,
            Outcome::Differs => self.differs += 1,
            Outcome::Unfinished => self.unfinished += 1,
            Outcome::Failed => self.failed[2] += 1,
            Outcome::OnlyA | Outcome::OnlyB => {}
        }
        for (side, failed) in [a, b].into_iter().zip(&mut self.failed) {
            *failed += u32::from(side.end == End::Failed);
        }
        if fields.is_empty() && matches!(outcome, Outcome::Equal | Outcome::Differs) {
            self.discover(&a.end);
            self.discover(&b.end);
        }
        for field in differing {
            let known = self.fields.iter_mut().find(|(name, _)| *name == field);
            if let Some((_, differs)) = known {
                *differs += 1;
            }
        }
        for (side, agreement) in [a, b].into_iter().zip(&mut self.agreement) {
            if let Some(is_right) = is_right(a, b, side, fields) {
                agreement.decided += 1;
                agreement.agrees += u32::from(is_right);
            }
        }
        outcome
    }

    fn discover(&mut self, end: &End) {
        let End::Output(Value::Object(members)) = end else { return };
        for name in members.keys().filter(|name| name.len() <= MAX_FIELD) {
            if self.fields.len() == MAX_FIELDS {
                return;
            }
            if !self.fields.iter().any(|(known, _)| known == name) {
                self.fields.push((name.clone(), 0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn output(value: Value) -> Side {
        Side { answer: Some(value.clone()), end: End::Output(value), judged: None }
    }

    fn without(end: End) -> Side {
        Side { end, answer: None, judged: None }
    }

    #[test]
    fn a_row_that_has_not_ended_is_never_equal_and_the_outcomes_add_up() {
        let mut figures = Figures::of(&[]);
        let one = output(json!({"a": 1, "b": "x"}));
        let pairs = [
            (one.clone(), output(json!({"b": "x", "a": 1.0})), Outcome::Equal),
            (one.clone(), output(json!({"a": 2, "c": null})), Outcome::Differs),
            (one.clone(), without(End::Open), Outcome::Unfinished),
            (without(End::Open), without(End::Open), Outcome::Unfinished),
            (without(End::Failed), without(End::Open), Outcome::Unfinished),
            (without(End::Failed), one.clone(), Outcome::Failed),
            (without(End::Failed), without(End::Failed), Outcome::Failed),
            (without(End::Skipped), without(End::Skipped), Outcome::Equal),
            (without(End::Skipped), one, Outcome::Differs),
        ];
        for (a, b, expected) in &pairs {
            assert_eq!(figures.add(a, b, &[]), *expected);
        }
        assert_eq!((figures.equal, figures.differs, figures.unfinished), (2, 2, 3));
        assert_eq!(figures.failed, [3, 1, 2]);
        let sum = figures.equal + figures.differs + figures.unfinished + figures.failed[2];
        assert_eq!(sum, figures.both);
        let fields: Vec<_> = figures.fields.iter().map(|(name, n)| (name.as_str(), *n)).collect();
        assert_eq!(fields, [("a", 1), ("b", 1), ("c", 1)]);
    }

    #[test]
    fn only_the_named_fields_are_compared_and_a_text_is_compared_as_a_whole() {
        let fields = ["a".to_owned()];
        let of = |value: Value| End::Output(value);
        let same = outcome(&of(json!({"a": 1, "b": 1})), &of(json!({"a": 1})), &fields);
        assert_eq!(same, (Outcome::Equal, Vec::new()));
        let other = outcome(&of(json!({"a": 1})), &of(json!({"b": 1})), &fields);
        assert_eq!(other, (Outcome::Differs, vec!["a".to_owned()]));
        let texts = outcome(&of(value_of("x")), &of(value_of("x ")), &fields);
        assert_eq!(texts, (Outcome::Differs, Vec::new()));
    }

    #[test]
    fn the_later_decision_tells_which_answer_is_right() {
        let (right, wrong) = (json!({"a": "right"}), json!({"a": "wrong"}));
        let at = Timestamp::from_millis;
        let edited = Side {
            end: End::Output(right.clone()),
            answer: Some(wrong.clone()),
            judged: Some((at(2), Judged::Right(right.clone()))),
        };
        let mut figures = Figures::of(&[]);
        figures.add(&edited, &output(right.clone()), &[]);
        let [a, b] = figures.agreement;
        assert_eq!(
            (a, b),
            (Agreement { decided: 1, agrees: 0 }, Agreement { decided: 1, agrees: 1 })
        );
        // Of a rejection only the rejected answer is known to be wrong.
        let rejected = Side {
            end: End::Failed,
            answer: Some(wrong.clone()),
            judged: Some((at(3), Judged::Wrong)),
        };
        let mut figures = Figures::of(&[]);
        figures.add(&rejected, &output(right.clone()), &[]);
        figures.add(&edited, &rejected, &[]);
        let [a, b] = figures.agreement;
        assert_eq!(
            (a, b),
            (Agreement { decided: 2, agrees: 0 }, Agreement { decided: 1, agrees: 0 })
        );
        let mut none = Figures::of(&[]);
        none.add(&output(right), &output(wrong), &[]);
        assert_eq!(none.agreement, [Agreement::default(); 2]);
    }
}
