//! The history of an item, one line for each entry.

use callboard_client::Page;
use serde_json::{Value, json};

use super::item::text;
use crate::access::Access;
use crate::failure::Failure;
use crate::output::{Column, Format, table};
use crate::people::People;

const COLUMNS: [Column; 6] = [
    ("NO", "number"),
    ("WHEN", "timestamp"),
    ("WHAT", "action"),
    ("BY", "actor"),
    ("DETAILS", "details"),
    ("HASH", "hash"),
];

/// The members that name users.
pub(super) const USERS: [&str; 5] = ["actor", "reviewerId", "assignedTo", "from", "to"];

/// Lists the entries.
pub(super) fn list(access: &Access, mut page: Page, people: &People) -> Result<(), Failure> {
    if access.output == Format::Table {
        page.data.iter_mut().for_each(|entry| people.show(entry, &USERS));
        page.data = page.data.iter().map(row).collect();
    }
    access.output.list("entries", &page, &COLUMNS)
}

/// The entries without their hashes.
pub(super) fn in_short(entries: &Value) -> String {
    let rows: Vec<Value> = entries.as_array().into_iter().flatten().map(row).collect();
    table(&COLUMNS[..5], &rows)
}

fn row(entry: &Value) -> Value {
    let hash: String = text(entry, "hash").chars().take(12).collect();
    json!({
        "number": entry["number"], "timestamp": entry["timestamp"], "action": entry["action"],
        "actor": entry["actor"], "details": details(entry), "hash": hash,
    })
}

/// The details of an entry, in one line.
fn details(entry: &Value) -> String {
    let details = &entry["details"];
    let reviewer = text(entry, "reviewerId");
    let reviewer = if reviewer == text(entry, "actor") { "" } else { reviewer };
    let edited = if entry["wasModified"] == true { "with another text" } else { "" };
    let why = text(details, "why").replace('_', " ");
    let figure = |name: &str, value: &Value| match value {
        Value::Number(number) => {
            format!("{name} {:.2}", number.as_f64().unwrap_or_default())
        }
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            String::new()
        }
    };
    let named = |name: &str, value: &str| {
        if value.is_empty() { String::new() } else { format!("{name} {value}") }
    };
    let parts = [
        why,
        figure("confidence", &entry["confidence"]),
        figure("threshold", &details["threshold"]),
        named("from", text(entry, "from")),
        named("to", text(entry, "assignedTo")),
        named("to", text(entry, "to")),
        named("for", reviewer),
        named("until", text(entry, "claimedUntil")),
        edited.to_owned(),
        text(details, "reason").to_owned(),
        text(entry, "comment").to_owned(),
        text(entry, "reason").to_owned(),
        named("as", text(entry, "retryTaskId")),
    ];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_told_in_one_line() {
        let pending = json!({"action": "pending", "confidence": 0.71,
                             "details": {"threshold": 0.85, "why": "below_threshold"}});
        assert_eq!(details(&pending), "below threshold, confidence 0.71, threshold 0.85");
        let escalated = json!({"from": "usr_1", "to": "usr_2",
                               "details": {"reason": "nobody has decided yet"}});
        assert_eq!(details(&escalated), "from usr_1, to usr_2, nobody has decided yet");
        let approved = json!({"actor": "key_1", "reviewerId": "ann", "wasModified": true,
                              "comment": "a\nb"});
        assert_eq!(details(&approved), "for ann, with another text, a\nb");
        let entries = json!([approved]);
        assert!(in_short(&entries).contains("a\\nb"), "{}", in_short(&entries));
    }
}
