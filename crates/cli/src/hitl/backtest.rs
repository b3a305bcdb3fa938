//! `callboard hitl backtest`: the reviews that another threshold would have saved, and the rejections
//! that it would have missed.
//!
//! The text for people separates counted figures, estimates with their sources, and unknowns.
//! Deliberately absent: advice. The reader decides how many rejections a review is worth.

use std::fmt::Write as _;

use callboard_client::{Call, Client};
use serde_json::{Value, json};

use super::Backtest;
use crate::access::Access;
use crate::failure::Failure;
use crate::output::{Column, Format, table};

const COLUMNS: [Column; 7] = [
    ("THRESHOLD", "threshold"),
    ("REVIEWS", "reviews"),
    ("SAVED", "reviewsSaved"),
    ("KNOWN MISSED", "missed"),
    ("SHARE MISSED", "likely"),
    ("BETWEEN", "between"),
    ("UNREVIEWED", "unreviewed"),
];

/// Asks the server and writes its answer; fails without any output to judge by.
pub(super) async fn run(
    client: &Client,
    access: &Access,
    wanted: &Backtest,
) -> Result<(), Failure> {
    let call = Call::get(&["hitl", "calibration"])
        .query("templateId", wanted.template.as_ref())
        .query("stepId", wanted.step.as_ref())
        .query("method", wanted.method.as_ref())
        .query("model", wanted.model.as_ref())
        .query("threshold", Some(wanted.threshold));
    let data = client.data(call).await?;
    if outputs(&data) > 0 {
        return access.output.item(&data, shown);
    }
    // A deleted template may have outputs, so the template is looked up only if there are none.
    if let Some(id) = &wanted.template {
        let template = client.data(Call::get(&["templates", id])).await?;
        known_step(id, &template, wanted.step.as_deref())?;
    }
    if access.output != Format::Table {
        access.output.item(&data, shown)?;
    }
    Err(Failure::Other(
        "no data: none of these outputs was reviewed or passed a gate, so no threshold can be evaluated"
            .into(),
    ))
}

/// The failure that a template has no such step.
fn known_step(id: &str, template: &Value, step: Option<&str>) -> Result<(), Failure> {
    let steps = template["steps"].as_array().into_iter().flatten();
    let steps: Vec<_> = steps.filter_map(|step| step["id"].as_str()).collect();
    match step {
        Some(step) if !steps.contains(&step) => {
            let steps = steps.join(", ");
            Err(Failure::Missing(format!("template {id} has no step {step}; its steps: {steps}")))
        }
        Some(_) | None => Ok(()),
    }
}

/// The number of outputs that the answer counts, with a confidence or without.
fn outputs(data: &Value) -> u64 {
    let kinds = ["approved", "edited", "rejected", "unreviewed", "undecided"];
    let of =
        |outcomes: &Value| -> u64 { kinds.iter().filter_map(|kind| outcomes[kind].as_u64()).sum() };
    let deciles = data["deciles"].as_array().into_iter().flatten();
    deciles.map(of).sum::<u64>() + of(&data["noConfidence"])
}

fn shown(data: &Value) -> String {
    let thresholds = data["thresholds"].as_array().map_or(&[][..], Vec::as_slice);
    let rows: Vec<_> = thresholds.iter().map(row).collect();
    let mut shown = table(&COLUMNS, &rows);
    let said = match thresholds {
        [one] => words(one, data),
        [] | [_, ..] => vec![
            "SAVED counts reviews. KNOWN MISSED counts the rejections that are known. SHARE MISSED is the \
             estimated share of all rejections, including those among the UNREVIEWED outputs. It is unknown \
             where too few outputs were reviewed. Ask for one --threshold to read more."
                .to_owned(),
        ],
    };
    for paragraph in said.into_iter().chain(without_confidence(data)) {
        let _ = writeln!(shown, "\n{paragraph}");
    }
    shown
}

fn row(one: &Value) -> Value {
    let share = &one["missedShare"];
    let likely = share["expected"].as_f64().map_or_else(|| "unknown".to_owned(), percent);
    let (low, high) = (number(&share["low"]), number(&share["high"]));
    json!({
        "threshold": one["threshold"],
        "reviews": one["reviews"],
        "reviewsSaved": one["reviewsSaved"],
        "missed": format!("{} of {}", one["rejectionsMissed"], one["rejectionsKnown"]),
        "likely": likely,
        "between": format!("{} and {}", percent(low), percent(high)),
        "unreviewed": one["unreviewed"],
    })
}

/// The figures of one threshold, with their sources.
fn words(one: &Value, data: &Value) -> Vec<String> {
    let count = |name: &str| one[name].as_u64().unwrap_or(0);
    let at = &one["threshold"];
    let mut said = vec![format!(
        "Counted: the threshold {at} would hold {}. It would have saved {} of the past reviews, and \
         missed {} of {} that are known.",
        counted(count("reviews"), "output"),
        count("reviewsSaved"),
        count("rejectionsMissed"),
        counted(count("rejectionsKnown"), "rejection"),
    )];
    let (unseen, unknown) = (count("unreviewed"), count("unreviewedUnknown"));
    if unseen == 0 {
        said.push(format!("Every output from {at} on was reviewed."));
    } else {
        said.push(format!(
            "Not known: nobody reviewed {} with a confidence of {at} or more. The number that a reviewer \
             would have rejected is estimated from reviews of outputs with a similar confidence.",
            counted(unseen, "output")
        ));
    }
    if unknown > 0 {
        said.push(format!(
            "For {unknown} of them there is no estimate: no output with a similar confidence was ever \
             reviewed. The upper bound counts all of these as rejections."
        ));
    }
    said.push(estimate(&one["missedShare"]));
    if let Some(ranges) = unsampled(data, number(at)) {
        said.push(format!(
            "With a confidence of {ranges}, no output was reviewed at random. The estimate rests there on \
             outputs that were held for other reasons, and may be far off. Set a sampleRate to get a random \
             sample."
        ));
    }
    said
}

fn estimate(share: &Value) -> String {
    let (low, high) = (number(&share["low"]), number(&share["high"]));
    let bounds = format!("between {} and {}", percent(low), percent(high));
    match share["expected"].as_f64() {
        Some(expected) if low.total_cmp(&high).is_eq() => {
            format!("It would have missed {} of all rejections.", percent(expected))
        }
        Some(expected) => format!(
            "Estimated: it would have missed {} of all rejections, known or not. With 95 % certainty in each \
             range of confidences, the share is {bounds}.",
            percent(expected)
        ),
        None => format!(
            "Not known: the share of all rejections that it would have missed. It is {bounds}, because too \
             few outputs were reviewed or none was rejected."
        ),
    }
}

/// The deciles at or above a threshold whose unreviewed outputs are judged by reviews that are not
/// a sample of them.
fn unsampled(data: &Value, at: f64) -> Option<String> {
    let count = |decile: &Value, name: &str| decile[name].as_u64().unwrap_or(0);
    let assumed = |decile: &&Value| {
        let reviewed = ["approved", "edited", "rejected"].map(|name| count(decile, name));
        number(&decile["to"]) > at
            && count(decile, "unreviewed") > 0
            && count(decile, "sampled") == 0
            && reviewed.iter().any(|reviewed| *reviewed > 0)
    };
    let deciles = data["deciles"].as_array()?.iter().filter(assumed);
    let ranges: Vec<_> =
        deciles.map(|decile| format!("{} to {}", decile["from"], decile["to"])).collect();
    (!ranges.is_empty()).then(|| ranges.join(", "))
}

fn without_confidence(data: &Value) -> Option<String> {
    let kinds = ["approved", "edited", "rejected", "unreviewed"];
    let count: u64 = kinds.iter().filter_map(|kind| data["noConfidence"][kind].as_u64()).sum();
    (count > 0).then(|| {
        format!(
            "Not counted: {} without a confidence, to which no threshold applies.",
            counted(count, "output")
        )
    })
}

fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calibration(unreviewed: u64, unknown: u64, sampled: u64, share: &Value) -> Value {
        json!({
            "deciles": [
                {"from": 0.7, "to": 0.8, "approved": 1, "unreviewed": 9, "sampled": 0},
                {"from": 0.8, "to": 0.9, "approved": 30, "edited": 1, "rejected": 2,
                    "unreviewed": unreviewed - unknown, "sampled": sampled},
                {"from": 0.9, "to": 1.0, "approved": 0, "unreviewed": unknown, "sampled": 0},
            ],
            "noConfidence": {"approved": 1, "edited": 0, "rejected": 0, "unreviewed": 0},
            "thresholds": [{
                "threshold": 0.8, "reviews": 40, "reviewsSaved": 33, "rejectionsKnown": 17,
                "rejectionsMissed": 2, "missedShare": share, "unreviewed": unreviewed,
                "unreviewedUnknown": unknown,
            }],
        })
    }

    #[test]
    fn what_is_counted_and_what_is_estimated_are_told_apart() {
        let share = json!({"low": 0.118, "expected": 0.25, "high": 0.5});
        let expected = "\
THRESHOLD  REVIEWS  SAVED  KNOWN MISSED  SHARE MISSED  BETWEEN            UNREVIEWED
0.8        40       33     2 of 17       25.0 %        11.8 % and 50.0 %  90

Counted: the threshold 0.8 would hold 40 outputs. It would have saved 33 of the past reviews, and \
missed 2 of 17 rejections that are known.

Not known: nobody reviewed 90 outputs with a confidence of 0.8 or more. The number that a reviewer \
would have rejected is estimated from reviews of outputs with a similar confidence.

Estimated: it would have missed 25.0 % of all rejections, known or not. With 95 % certainty in each \
range of confidences, the share is between 11.8 % and 50.0 %.

Not counted: 1 output without a confidence, to which no threshold applies.
";
        assert_eq!(shown(&calibration(90, 0, 5, &share)), expected);
    }

    #[test]
    fn outputs_without_a_confidence_count_as_data_and_an_unknown_step_is_told() {
        let share = json!({"low": 0.1, "expected": 0.25, "high": 0.5});
        assert_eq!(outputs(&calibration(90, 0, 5, &share)), 134);
        let nothing = json!({"deciles": [{"approved": 0, "unreviewed": 0}], "noConfidence": {}});
        assert_eq!(outputs(&nothing), 0);
        let template = json!({"steps": [{"id": "extract"}, {"id": "judge"}]});
        known_step("t-v1", &template, Some("judge")).unwrap();
        let failure = known_step("t-v1", &template, Some("nope")).unwrap_err();
        assert_eq!(failure.words(), "template t-v1 has no step nope; its steps: extract, judge");
        assert_eq!(failure.exit_code(), 3);
    }

    #[test]
    fn an_estimate_without_a_sample_says_what_it_rests_on() {
        let share = json!({"low": 0.1, "expected": 0.25, "high": 0.5});
        let said = shown(&calibration(90, 0, 0, &share));
        assert!(said.contains("With a confidence of 0.8 to 0.9, no output was"), "{said}");
    }

    #[test]
    fn what_nobody_knows_is_not_given_a_number() {
        let share = json!({"low": 0.1, "high": 0.9});
        let said = shown(&calibration(90, 7, 5, &share));
        assert!(said.contains("2 of 17       unknown       10.0 % and 90.0 %"), "{said}");
        assert!(said.contains("For 7 of them there is no estimate"), "{said}");
        assert!(said.contains("would have missed. It is between 10.0 % and 90.0 %"), "{said}");
    }

    #[test]
    fn where_all_is_reviewed_nothing_is_called_an_estimate() {
        let share = json!({"low": 0.118, "expected": 0.118, "high": 0.118});
        let said = shown(&calibration(0, 0, 0, &share));
        assert!(said.contains("Every output from 0.8 on was reviewed."), "{said}");
        assert!(said.contains("It would have missed 11.8 % of all rejections."), "{said}");
        assert!(!said.contains("Estimated"), "{said}");
    }

    #[test]
    fn several_thresholds_are_a_table_with_one_explanation() {
        let share = json!({"low": 0.1, "expected": 0.25, "high": 0.5});
        let mut data = calibration(90, 0, 5, &share);
        let one = data["thresholds"][0].clone();
        data["thresholds"] = json!([one, one]);
        assert_eq!(shown(&data).lines().count(), 7);
    }
}
