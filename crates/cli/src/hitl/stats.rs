//! The number of waiting outputs, the time to a decision, and the reviewers.
//!
//! Deliberately absent: figures of its own; the server counts.

use serde_json::{Value, json};

use super::item::waited;
use crate::access::Access;
use crate::failure::Failure;
use crate::output::{Column, details, table};

const FIELDS: [Column; 7] = [
    ("pending", "pending"),
    ("overdue", "overdue"),
    ("approved today", "approvedToday"),
    ("rejected today", "rejectedToday"),
    ("average wait", "wait"),
    ("average confidence", "confidence"),
    ("escalated", "escalated"),
];

const REVIEWERS: [Column; 3] =
    [("REVIEWER", "id"), ("APPROVED", "approvals"), ("REJECTED", "rejections")];

/// Shows the statistics, and the number of overdue items, which the server counts apart.
pub(super) fn show(access: &Access, stats: &Value, overdue: Option<u64>) -> Result<(), Failure> {
    access.output.item(stats, |stats| shown(stats, overdue))
}

fn shown(stats: &Value, overdue: Option<u64>) -> String {
    // Averages over 30 days have more digits than a reader needs.
    let rounded = |value: &Value| value.as_f64().map(|figure| format!("{figure:.2}"));
    let percent = |value: &Value| value.as_f64().map(|share| format!("{:.1} %", share * 100.0));
    let millis = |value: &Value| {
        let whole = value.as_f64()?.max(0.0);
        Some(std::time::Duration::try_from_secs_f64(whole / 1000.0).ok()?.as_millis())
    };
    let wait = millis(&stats["avgWaitTimeMs"]).and_then(|wait| u64::try_from(wait).ok());
    let fields = json!({
        "pending": stats["pending"],
        "overdue": overdue,
        "approvedToday": stats["approvedToday"],
        "rejectedToday": stats["rejectedToday"],
        "wait": wait.map(waited),
        "confidence": rounded(&stats["avgConfidence"]),
        "escalated": percent(&stats["escalationRate"]),
    });
    let shown = details(&fields, &FIELDS, &[]);
    match stats["topReviewers"].as_array() {
        Some(reviewers) if !reviewers.is_empty() => {
            format!("{shown}\n{}", table(&REVIEWERS, reviewers))
        }
        Some(_) | None => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_rounded_for_people() {
        let stats = json!({
            "pending": 3, "approvedToday": 2, "rejectedToday": 0, "avgWaitTimeMs": 754_321.7,
            "avgConfidence": 0.713_333, "escalationRate": 0.125,
            "topReviewers": [{"id": "usr_1", "approvals": 2, "rejections": 0}],
        });
        assert_eq!(
            shown(&stats, Some(1)),
            "pending             3\noverdue             1\napproved today      2\nrejected today      0\n\
             average wait        12 min\naverage confidence  0.71\nescalated           12.5 %\n\n\
             REVIEWER  APPROVED  REJECTED\nusr_1     2         0\n"
        );
    }
}
