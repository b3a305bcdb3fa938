//! The chain of a history, computed from its JSON alone: by the formula, with none of the program's
//! own code, as an auditor would.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The SHA-256 of a text, in lowercase hex.
fn sha256(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

/// The commitment to a text under the salt of an entry, in lowercase hex.
pub(crate) fn committed(entry: &Value, text: &str) -> String {
    let salt = entry["salt"].as_str().expect("a salt beside commitments");
    let salt = u128::from_str_radix(salt, 16).expect("32 hexadecimal digits").to_be_bytes();
    let digest = Sha256::new().chain_update(salt).chain_update(text).finalize();
    digest.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

/// A member as a text, if it is there.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Number(number) if number.is_f64() => number.as_f64().map(|n| n.to_string()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Some(value.to_string())
        }
    }
}

/// What an entry's hash is taken of: its texts by name, sorted, as compact JSON.
fn canonical(task: &str, entry: &Value) -> String {
    let details = &entry["details"];
    let either = |one: &Value, other: &Value| text(one).or_else(|| text(other));
    let named = [
        ("action", text(&entry["action"])),
        ("actor", text(&entry["actor"])),
        ("afterMs", text(&details["escalationAfterMs"])),
        ("bulk", text(&details["bulk"])),
        ("commentHash", text(&entry["commentHash"])),
        ("confidence", text(&entry["confidence"])),
        ("editHash", text(&entry["editHash"])),
        ("from", text(&entry["from"])),
        ("number", text(&entry["number"])),
        ("outputHash", text(&entry["outputHash"])),
        ("planExecutionId", text(&details["planExecutionId"])),
        ("previous", text(&entry["previousHash"])),
        ("reason", text(&details["reason"])),
        ("retryTaskId", text(&entry["retryTaskId"])),
        ("reviewerId", text(&entry["reviewerId"])),
        ("stepId", text(&details["stepId"])),
        ("taskId", Some(task.to_owned())),
        ("threshold", text(&details["threshold"])),
        ("timestamp", text(&entry["timestamp"])),
        ("to", either(&entry["assignedTo"], &entry["to"])),
        ("version", text(&entry["version"])),
        ("until", either(&entry["claimedUntil"], &details["timeoutAt"])),
        ("why", text(&details["why"])),
    ];
    let texts: BTreeMap<_, _> =
        named.into_iter().filter_map(|(name, text)| text.map(|text| (name, text))).collect();
    serde_json::to_string(&texts).expect("texts have a JSON form")
}

/// Panics unless the entries are the whole history of the item, each chained to the one before it,
/// and every text that is shown fits its commitment. Texts of an item that were erased are absent.
#[track_caller]
pub(crate) fn verify(item: &Value, entries: &[Value]) {
    let task = item["taskId"].as_str().expect("an id");
    let mut before = "0".repeat(64);
    for (number, entry) in (1_u64..).zip(entries) {
        assert_eq!(entry["number"], number, "{task}: {entry:#}");
        assert_eq!(entry["previousHash"], before, "{task}: {entry:#}");
        before = sha256(&canonical(task, entry));
        assert_eq!(entry["hash"], before, "{task}: {entry:#}");
        let said = entry["comment"].as_str().or(entry["reason"].as_str());
        let edit = entry["modifiedOutput"].as_str();
        if !item["erasedAt"].is_null() {
            assert!(said.is_none() && edit.is_none() && entry["salt"].is_null(), "{entry:#}");
            continue;
        }
        let committed = |text| committed(entry, text);
        assert_eq!(entry["commentHash"].as_str(), said.map(committed).as_deref(), "{entry:#}");
        assert_eq!(entry["editHash"].as_str(), edit.map(committed).as_deref(), "{entry:#}");
        if let Some(shown) = entry["outputHash"].as_str() {
            assert_eq!(item["output"].as_str().map(committed).as_deref(), Some(shown), "{task}");
        }
    }
    assert_eq!(item["history"], json!({"length": entries.len(), "hash": before}), "{task}");
}
