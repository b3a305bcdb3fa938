//! The check of what can be restored.

use callboard_client::{Call, Client};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Finding;

const CHECK: &str = "backup";
/// The age from which on the last backup is a finding, unless an archive continues it.
const OLD: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Asks for the last backup. `None` if the server does not say: the caller may not know, or the data is in a database.
pub(super) async fn check(client: &Client) -> Option<Finding> {
    let status = client.data(Call::get(&["system", "backup"])).await.ok()?;
    Some(found(&status, Timestamp::now()))
}

fn found(status: &Value, now: Timestamp) -> Finding {
    let archive = &status["archive"];
    if archive["status"] == "degraded" {
        let detail = archive["detail"].as_str().unwrap_or("the archive has a gap");
        let (detail, advice) =
            detail.split_once(": ").unwrap_or((detail, "look at the server's log"));
        return Finding::warn(CHECK, detail, advice);
    }
    let verified = &status["lastVerification"];
    if verified["result"] == "damaged" {
        let backup = verified["backup"].as_str().unwrap_or_default();
        let detail = format!("backup {backup} is damaged, as its last verification found");
        return Finding::warn(CHECK, detail, "make another one: callboard backup create");
    }
    let advice = "callboard backup create --in DIRECTORY; docs/how-to/backup.md has a timer";
    let text = |value: &Value| value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let restorable = &status["restorable"];
    let (Some(from), Some(to)) = (text(&restorable["from"]), text(&restorable["to"])) else {
        return Finding::warn(CHECK, "the server knows of no backup", advice);
    };
    if now.duration_since(to) > OLD {
        let days = now.duration_since(to).as_hours() / 24;
        return Finding::warn(CHECK, format!("the last backup is {days} days old"), advice);
    }
    Finding::ok(CHECK, format!("restorable from {from} to {to}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn gaps_and_old_backups_are_warnings() {
        let now: Timestamp = "2026-11-21T10:00:00Z".parse().expect("a time");
        let of = |status: Value| found(&status, now);
        let restorable = json!({"from": "2026-11-01T00:00:00Z", "to": "2026-11-21T10:00:00Z"});
        assert!(of(json!({"restorable": restorable})).is_ok());
        let old = json!({"from": "2026-11-01T00:00:00Z", "to": "2026-11-01T00:00:00Z"});
        let found = of(json!({"restorable": old}));
        assert!(!found.is_ok() && found.detail().contains("20 days old"), "{found:?}");
        let gap = json!({"status": "degraded", "detail": "the archive has a gap: make a backup"});
        let found = of(json!({"restorable": restorable, "archive": gap}));
        assert_eq!((found.is_ok(), found.detail()), (false, "the archive has a gap"));
        let verified = json!({"result": "damaged", "backup": "20261120T000000.000Z"});
        let found = of(json!({"restorable": restorable, "lastVerification": verified}));
        assert!(!found.is_ok() && found.detail().contains("is damaged"), "{found:?}");
        assert!(of(json!({})).detail().contains("knows of no backup"));
    }
}
