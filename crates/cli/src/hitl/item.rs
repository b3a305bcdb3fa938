//! An item in words: the reason of its hold, its wait, all its details.
//!
//! Deliberately absent: its history, and the part of a long text that fits a screen.

use serde_json::{Value, json};

use crate::output::{Column, details, escaped};
use crate::turns;

const FIELDS: [Column; 24] = [
    ("task", "taskId"),
    ("execution", "planExecutionId"),
    ("step", "stepId"),
    ("template", "templateId"),
    ("model", "model"),
    ("queue", "queue"),
    ("tags", "tags"),
    ("status", "status"),
    ("held because", "why"),
    ("confidence", "confidence"),
    ("confidence by", "confidenceSource"),
    ("waiting", "waiting"),
    ("since", "createdAt"),
    ("until", "timeoutAt"),
    ("assigned to", "assignedTo"),
    ("escalated", "escalatedAt"),
    ("claimed by", "claimedBy"),
    ("  until", "claimedUntil"),
    ("decided by", "decision.by"),
    ("  at", "decision.at"),
    ("  as", "decision.status"),
    ("  modified", "decision.wasModified"),
    ("  comment", "decision.comment"),
    ("tried again as", "decision.retryTaskId"),
];

/// The members that name users.
pub(super) const USERS: [&str; 3] = ["assignedTo", "claimedBy", "decision.by"];

const TEXTS: [Column; 6] = [
    ("summary", "summary"),
    ("earlier turns", "turns"),
    ("prompt", "prompt"),
    ("source", "source"),
    ("output", "output"),
    ("output as modified", "decision.modifiedOutput"),
];

/// An item with all its texts.
pub(super) fn shown(item: &Value) -> String {
    let mut fields = row(item);
    for (name, value) in item.as_object().into_iter().flatten() {
        if fields[name].is_null() {
            fields[name] = value.clone();
        }
    }
    let shown = item["task"]["shown"].as_array().into_iter().flatten();
    let shown: Vec<_> = shown.filter_map(Value::as_str).collect();
    if !shown.is_empty() {
        fields["source"] = shown.join("\n\n").into();
    }
    fields["turns"] = turns::in_lines(&item["task"]["messages"]);
    details(&fields, &FIELDS, &TEXTS)
}

/// The head of an item, before its texts.
pub(super) fn heading(item: &Value) -> String {
    details(&row(item), &FIELDS, &[])
}

/// An item with words in the place of figures, without its long texts.
pub(super) fn row(item: &Value) -> Value {
    const COPIED: [&str; 15] = [
        "taskId",
        "planExecutionId",
        "stepId",
        "templateId",
        "model",
        "queue",
        "tags",
        "status",
        "confidenceSource",
        "createdAt",
        "timeoutAt",
        "assignedTo",
        "escalatedAt",
        "claimedBy",
        "claimedUntil",
    ];
    let mut row = json!({"why": why(item)});
    for name in COPIED {
        row[name] = item[name].clone();
    }
    if is_overdue(item) {
        row["status"] = "overdue".into();
    }
    row["confidence"] = confidence(item).into();
    row["waiting"] = item["waitingMs"].as_u64().map(waited).into();
    row
}

/// True if no reviewer decided in time; the item still can be decided.
pub(super) fn is_overdue(item: &Value) -> bool {
    item["status"] == "expired"
}

/// True if the item cannot be decided any more.
pub(super) fn is_decided(item: &Value) -> bool {
    matches!(item["status"].as_str(), Some("approved" | "rejected" | "cancelled"))
}

/// The reason why an item cannot be decided any more; safe to show.
pub(super) fn over(item: &Value) -> String {
    let (task, decision) = (escaped(text(item, "taskId")), &item["decision"]);
    let (by, at) = (escaped(text(decision, "by")), escaped(text(decision, "at")));
    let status = escaped(text(item, "status"));
    if by.is_empty() {
        return format!("{task} is {status} meanwhile");
    }
    format!("{task} was {status} by {by} at {at}")
}

/// The reason of the hold.
fn why(item: &Value) -> &str {
    match item["reason"].as_str() {
        Some("required") => "review required",
        Some("below_threshold") => "below the threshold",
        Some("no_confidence") => "no confidence",
        Some("sampled") => "a sample of what passes",
        // A newer server may know another reason.
        Some(other) => other,
        None => "",
    }
}

/// `0.71 < 0.85`, or the confidence alone if there was no threshold.
fn confidence(item: &Value) -> Option<String> {
    let confidence = item["confidence"].as_f64()?;
    let Some(threshold) = item["threshold"].as_f64() else {
        return Some(format!("{confidence:.2}"));
    };
    let sign = if confidence < threshold { '<' } else { '≥' };
    let short = [confidence, threshold].map(|figure| format!("{figure:.2}"));
    Some(match short {
        // Two figures that only look equal are shown in full.
        [left, right] if left == right && confidence < threshold => {
            format!("{confidence} {sign} {threshold}")
        }
        [left, right] => format!("{left} {sign} {right}"),
    })
}

/// `12 s`, `5 min`, `3 h 05 min`, `2 d 03 h`.
pub(super) fn waited(millis: u64) -> String {
    let seconds = millis / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min"),
        (0, _, _) => format!("{hours} h {:02} min", minutes % 60),
        (_, _, _) => format!("{days} d {:02} h", hours % 24),
    }
}

/// A text member; empty if there is none.
pub(super) fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

/// The item's output, as the model wrote it.
pub(super) fn output(item: &Value) -> &str {
    text(item, "output")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_short_to_read() {
        let shown: Vec<_> = [0, 59_999, 61_000, 3_900_000, 97_200_000].map(waited).into();
        assert_eq!(shown, ["0 s", "59 s", "1 min", "1 h 05 min", "1 d 03 h"]);
    }

    #[test]
    fn why_an_item_is_held_is_told_with_the_figures() {
        let held = |reason: &str, threshold: Value| {
            let item = json!({"reason": reason, "confidence": 0.71, "threshold": threshold});
            let row = row(&item);
            (text(&row, "why").to_owned(), text(&row, "confidence").to_owned())
        };
        let words = |why: &str, confidence: &str| (why.to_owned(), confidence.to_owned());
        assert_eq!(
            held("below_threshold", json!(0.85)),
            words("below the threshold", "0.71 < 0.85")
        );
        assert_eq!(held("sampled", json!(0.5)), words("a sample of what passes", "0.71 ≥ 0.50"));
        assert_eq!(held("below_threshold", json!(0.7101)).1, "0.71 < 0.7101");
        assert_eq!(held("required", Value::Null), words("review required", "0.71"));
    }

    #[test]
    fn an_item_that_nobody_decided_in_time_is_marked_overdue() {
        assert_eq!(row(&json!({"status": "expired"}))["status"], "overdue");
        assert_eq!(row(&json!({"status": "escalated"}))["status"], "escalated");
    }

    #[test]
    fn who_decided_is_named_where_nothing_can_be_decided_any_more() {
        let mut item = json!({"taskId": "dt_task_1", "status": "cancelled"});
        assert!(is_decided(&item));
        assert_eq!(over(&item), "dt_task_1 is cancelled meanwhile");
        item["status"] = "approved".into();
        item["decision"] = json!({"by": "usr_1", "at": "10:01"});
        assert_eq!(over(&item), "dt_task_1 was approved by usr_1 at 10:01");
        assert!(!is_decided(&json!({"status": "expired"})));
    }

    #[test]
    fn all_of_an_item_is_shown_and_nothing_in_it_commands_the_terminal() {
        let item = json!({
            "taskId": "dt_task_1", "reason": "no_confidence", "waitingMs": 61_000,
            "assignedTo": null, "prompt": "Say\nit.", "task": {"shown": ["A", "B"]}, "output": "\u{1b}[2Jno", "summary": "no",
            "decision": {"status": "approved", "by": "usr_1", "wasModified": true,
                         "modifiedOutput": "yes", "at": "2026-11-21T10:00:00.000Z"},
        });
        let shown = shown(&item);
        for line in ["held because  no confidence", "waiting       1 min", "  modified    true"] {
            assert!(shown.contains(line), "{line}: {shown}");
        }
        assert!(
            shown.contains(
                "prompt:\n  Say\n  it.\nsource:\n  A\n  \n  B\noutput:\n  \\u{1b}[2Jno\n"
            ),
            "{shown}"
        );
        assert!(shown.ends_with("output as modified:\n  yes\n"), "{shown}");
    }
}
