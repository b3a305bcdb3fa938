//! The agreement of samples with an answer: a confidence for models without log-probabilities.
//!
//! Texts are compared after compatibility normalisation (NFKC), in lower case and with every run of
//! white space as one space; numbers by value; lists and objects member by member. A sample that is
//! no JSON where JSON is compared agrees on nothing. Deliberately absent: any judgement of meaning;
//! two phrasings of one fact differ.

use serde_json::{Number, Value};
use unicode_normalization::UnicodeNormalization;

use crate::schema::parsed_output;

/// The mean over `fields` of the share of samples that equal the answer, 0 to 1; over the outputs as
/// a whole if there are no fields. `None` without a sample, and if JSON is to be compared and the
/// answer is none. A sample that failed is `None` and agrees on nothing.
///
/// A field is a name, or a path such as `total.amount`; an absent member equals an absent one.
#[must_use]
pub fn agreement(
    answer: &str,
    samples: &[Option<String>],
    fields: &[String],
    is_json: bool,
) -> Option<f64> {
    if samples.is_empty() {
        return None;
    }
    if !is_json && fields.is_empty() {
        let answer = folded(answer);
        let equal = samples.iter().flatten().filter(|sample| folded(sample) == answer).count();
        return Some(share(equal, samples.len()));
    }
    let answer = parsed_output(answer)?;
    let samples: Vec<Option<Value>> =
        samples.iter().map(|sample| sample.as_deref().and_then(parsed_output)).collect();
    let agree = |equal: &dyn Fn(&Value) -> bool| {
        share(samples.iter().flatten().filter(|sample| equal(sample)).count(), samples.len())
    };
    if fields.is_empty() {
        return Some(agree(&|sample| same(sample, &answer)));
    }
    let of_field = |field: &String| {
        let wanted = at(&answer, field);
        agree(&|sample| match (at(sample, field), wanted) {
            (Some(one), Some(other)) => same(one, other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        })
    };
    let sum: f64 = fields.iter().map(of_field).sum();
    #[expect(clippy::cast_precision_loss, reason = "few fields")]
    Some(sum / fields.len() as f64)
}

/// The member at a path; a name with dots of its own is found as it is.
fn at<'v>(value: &'v Value, field: &str) -> Option<&'v Value> {
    value.get(field).or_else(|| {
        let mut parts = field.split('.');
        parts.try_fold(value, |value, part| match value.as_array() {
            Some(items) => part.parse::<usize>().ok().and_then(|index| items.get(index)),
            None => value.get(part),
        })
    })
}

fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::String(one), Value::String(other)) => folded(one) == folded(other),
        (Value::Number(one), Value::Number(other)) => same_number(one, other),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(name, value)| other.get(name).is_some_and(|found| same(value, found)))
        }
        (Value::Null, Value::Null) => true,
        (Value::Bool(one), Value::Bool(other)) => one == other,
        (
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_),
            _,
        ) => false,
    }
}

/// Whole numbers are compared exactly, so that two large ones do not become one.
fn same_number(one: &Number, other: &Number) -> bool {
    one == other
        || match (one.is_f64(), other.is_f64()) {
            (false, false) => false,
            (_, _) => one.as_f64() == other.as_f64(),
        }
}

fn folded(text: &str) -> String {
    let text: String = text.nfkc().flat_map(char::to_lowercase).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[expect(clippy::cast_precision_loss, reason = "at most nine samples")]
fn share(part: usize, of: usize) -> f64 {
    part as f64 / of as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json(answer: &str, samples: &[&str], fields: &[&str]) -> Option<f64> {
        let samples: Vec<_> = samples.iter().map(|sample| Some((*sample).to_owned())).collect();
        let fields: Vec<_> = fields.iter().map(|field| (*field).to_owned()).collect();
        agreement(answer, &samples, &fields, true)
    }

    fn text(answer: &str, samples: &[&str]) -> Option<f64> {
        let samples: Vec<_> = samples.iter().map(|sample| Some((*sample).to_owned())).collect();
        agreement(answer, &samples, &[], false)
    }

    #[test]
    fn texts_agree_after_folding() {
        assert_eq!(text("Paris", &["paris", " PARIS\n", "Lyon", "Paris"]), Some(0.75));
        assert_eq!(text("a  b\tc", &["A b c"]), Some(1.0));
        assert_eq!(text("ﬁne", &["fine"]), Some(1.0), "a ligature is its letters");
        assert_eq!(text("e\u{301}", &["é"]), Some(1.0), "composed or not");
        assert_eq!(text("yes", &[]), None);
    }

    #[test]
    fn the_mean_is_over_the_fields() {
        let answer = r#"{"name": "Ada", "born": 1815, "note": "x"}"#;
        let samples = [r#"{"name": "ADA", "born": 1815.0}"#, r#"{"name": "Ada", "born": 1816}"#];
        assert_eq!(json(answer, &samples, &["name", "born"]), Some(0.75));
        assert_eq!(json(answer, &samples, &["name"]), Some(1.0));
        assert_eq!(json(answer, &samples, &["note"]), Some(0.0));
        assert_eq!(json(answer, &samples, &["absent"]), Some(1.0));
        assert_eq!(json("[1, 2.0]", &["[1.0, 2]", "[1]"], &[]), Some(0.5));
    }

    #[test]
    fn a_path_reaches_into_members_and_lists() {
        let answer = r#"{"total": {"amount": 5}, "rows": [{"id": 1}], "a.b": 1}"#;
        let samples = [r#"{"total": {"amount": 5}, "rows": [{"id": 2}], "a.b": 1}"#];
        assert_eq!(json(answer, &samples, &["total.amount", "rows.0.id"]), Some(0.5));
        assert_eq!(json(answer, &samples, &["a.b"]), Some(1.0));
    }

    #[test]
    fn a_sample_that_failed_or_is_no_json_agrees_on_nothing() {
        assert_eq!(json("{\"a\": 1}", &["{\"a\": 1}", "one"], &["a"]), Some(0.5));
        let failed =
            agreement("{\"a\": 1}", &[None, Some("{\"a\":1}".into())], &["a".into()], true);
        assert_eq!(failed, Some(0.5));
        assert_eq!(json("no JSON", &["no JSON"], &["a"]), None);
        assert_eq!(json("```json\n{\"a\": 1}\n```", &["{\"a\": 1,}"], &["a"]), Some(1.0));
    }

    #[test]
    fn large_whole_numbers_are_not_rounded_together() {
        assert_eq!(json("9007199254740993", &["9007199254740992"], &[]), Some(0.0));
        assert_eq!(json("1", &["1.0", "1e0"], &[]), Some(1.0));
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-zA-Zäß ]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z]{1,3}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn an_agreement_is_a_share_and_full_with_itself(
            answer in values(), others in prop::collection::vec(values(), 1..5),
            fields in prop::collection::vec("[a-z]{1,3}", 0..3),
        ) {
            let text = answer.to_string();
            let itself = vec![Some(text.clone()); others.len()];
            prop_assert_eq!(agreement(&text, &itself, &fields, true), Some(1.0));
            let others: Vec<_> = others.iter().map(|other| Some(other.to_string())).collect();
            let found = agreement(&text, &others, &fields, true).expect("it is JSON");
            prop_assert!((0.0..=1.0).contains(&found));
            let mut reversed = others.clone();
            reversed.reverse();
            let again = agreement(&text, &reversed, &fields, true).expect("it is JSON");
            prop_assert!((again - found).abs() < 1e-12, "the order of samples does not count");
        }
    }
}
