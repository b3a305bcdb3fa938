//! Claims: they warn other reviewers and bar nobody.

use serde_json::{Value, json};

use super::fixture::{Fixture, actions};
use crate::support::{Answer, Client};

async fn claim(client: &Client, id: &str, verb: &str) -> Answer {
    client.post(&format!("/api/hitl/{id}/{verb}"), &json!({})).await
}

#[tokio::test]
async fn a_claim_is_seen_by_others_until_it_is_released() {
    let fixture = Fixture::open().await;
    let (olga, olga_id) = fixture.user("olga", "operator").await;
    let id = fixture.required("x").await;
    let free = claim(&olga, &id, "release").await.expect_ok();
    assert_eq!(free, json!({"taskId": id}), "there is nothing to release");

    let claimed = claim(&olga, &id, "claim").await.expect_ok();
    let until = claimed["claimedUntil"].clone();
    assert_eq!(claimed, json!({"taskId": id, "claimedBy": olga_id, "claimedUntil": until}));
    for item in [
        fixture.item(&id).await,
        fixture.operator.get("/api/hitl/pending").await.expect_ok()[0].clone(),
    ] {
        assert_eq!((&item["claimedBy"], &item["claimedUntil"]), (&json!(olga_id), &until));
    }
    let entry = fixture.history(&id).await.pop().expect("it was claimed");
    let told = ["action", "actor", "reviewerId", "claimedUntil"].map(|name| entry[name].clone());
    assert_eq!(told, [json!("claimed"), json!(olga_id), json!(olga_id), until.clone()]);
    let instant = |value: &Value| value.as_str().expect("a text").parse().expect("an instant");
    let [from, to]: [jiff::Timestamp; 2] = [&entry["timestamp"], &until].map(instant);
    assert_eq!(to.duration_since(from).as_secs(), 300);

    for verb in ["claim", "release"] {
        let other = claim(&fixture.operator, &id, verb).await;
        assert_eq!(other.refused(409), "INVALID_STATE");
        let message = other.body["error"]["message"].as_str().expect("a text");
        assert!(message.contains(&olga_id), "{message}");
    }
    claim(&olga, &id, "claim").await.expect_ok();
    assert_eq!(
        fixture.actions(&id).await,
        ["pending", "assigned", "claimed"],
        "renewing is no news"
    );
    assert_eq!(claim(&olga, &id, "release").await.expect_ok(), json!({"taskId": id}));
    assert!(fixture.item(&id).await.get("claimedBy").is_none());
    let released = fixture.history(&id).await.pop().expect("it was released");
    let told = ["action", "actor", "reviewerId"].map(|name| released[name].clone());
    assert_eq!(told, [json!("released"), json!(olga_id), json!(olga_id)]);
    let other = claim(&fixture.operator, &id, "claim").await.expect_ok();
    assert_eq!(other["claimedBy"], fixture.operator_id);
}

#[tokio::test]
async fn a_claim_bars_no_decision_and_ends_with_it() {
    let fixture = Fixture::open().await;
    let (olga, _) = fixture.user("olga", "operator").await;
    let (one, two) = (fixture.required("x").await, fixture.required("x").await);
    for id in [&one, &two] {
        claim(&olga, id, "claim").await.expect_ok();
    }
    fixture.approve(&one, &json!({})).await.expect_ok();
    fixture.reject(&two, &json!({"reason": "no"})).await.expect_ok();
    for (id, verdict) in [(&one, "approved"), (&two, "rejected")] {
        assert_eq!(
            actions(&fixture.history(id).await),
            ["pending", "assigned", "claimed", verdict]
        );
        assert!(fixture.item(id).await.get("claimedBy").is_none());
        for verb in ["claim", "release"] {
            assert_eq!(claim(&olga, id, verb).await.refused(409), "ALREADY_DECIDED", "{verb}");
        }
    }
}

#[tokio::test]
async fn a_claim_outlives_the_server() {
    let mut fixture = Fixture::open().await;
    let id = fixture.required("x").await;
    let claimed = claim(&fixture.operator, &id, "claim").await.expect_ok();
    fixture.crash(std::time::Duration::ZERO).await;
    let item = fixture.item(&id).await;
    let kept = (&item["claimedBy"], &item["claimedUntil"]);
    assert_eq!(kept, (&json!(fixture.operator_id), &claimed["claimedUntil"]));
    assert_eq!(claim(&fixture.admin, &id, "claim").await.refused(409), "INVALID_STATE");
}
