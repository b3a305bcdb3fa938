//! Who may decide, in whose name, and who is asked.
//!
//! Deliberately absent: which roles may do what else, which is `api.rs`.

use serde_json::{Value, json};

use super::desk::Desk;
use crate::support::Client;

#[tokio::test]
async fn a_viewer_reads_and_does_not_decide_and_a_worker_does_neither() {
    let desk = Desk::open().await;
    let id = desk.required("x").await;
    let (viewer_session, _) = desk.user("vera", "viewer").await;
    let (viewer, worker) = (desk.key("viewer").await.client, desk.key("worker").await.client);
    let reads = ["/pending".to_owned(), String::new(), format!("/{id}"), format!("/{id}/history")];
    let decisions = ["approve", "reject", "claim", "release"];
    let decide = |client: Client, verb: &'static str| {
        let path = format!("/api/hitl/{id}/{verb}");
        let body = if verb == "reject" { json!({"reason": "no"}) } else { json!({}) };
        async move { client.post(&path, &body).await }
    };
    for read in &reads {
        let path = format!("/api/hitl{read}");
        viewer.get(&path).await.expect_ok();
        viewer_session.get(&path).await.expect_ok();
        assert_eq!(worker.get(&path).await.refused(403), "FORBIDDEN", "{path}");
        let nobody = Client::new(&desk.server.url, "").get(&path).await;
        assert_eq!(nobody.refused(401), "UNAUTHORIZED", "{path}");
    }
    for verb in decisions {
        for client in [&viewer, &viewer_session, &worker] {
            let answer = decide(client.clone(), verb).await;
            assert_eq!(answer.refused(403), "FORBIDDEN", "{verb}");
        }
        let nobody = decide(Client::new(&desk.server.url, ""), verb).await;
        assert_eq!(nobody.refused(401), "UNAUTHORIZED", "{verb}");
    }
    // What a role may not do is no oracle for what exists.
    let unknown = viewer.approve("dt_task_00000000000000000000000000", &json!({})).await;
    assert_eq!(unknown.refused(403), "FORBIDDEN");
    assert_eq!(desk.actions(&id).await, ["pending", "assigned"]);
}

/// Actor, reviewer and what the item shows of a decision.
async fn decided(desk: &Desk, id: &str) -> [Value; 3] {
    let entry = desk.history(id).await.pop().expect("it was decided");
    [
        entry["actor"].clone(),
        entry["reviewerId"].clone(),
        desk.item(id).await["decision"]["by"].clone(),
    ]
}

#[tokio::test]
async fn a_session_speaks_for_itself_and_an_admins_for_any_user() {
    let desk = Desk::open().await;
    let (olga, olga_id) = desk.user("olga", "operator").await;
    let (_, vera_id) = desk.user("vera", "viewer").await;
    let id = desk.required("x").await;
    for name in [&desk.admin_id, "nobody", &vera_id] {
        for answer in [
            olga.approve(&id, &json!({"reviewerId": name})).await,
            olga.reject(&id, &json!({"reviewerId": name, "reason": "no"})).await,
        ] {
            assert_eq!(answer.refused(403), "FORBIDDEN", "{name}");
        }
    }
    for name in ["nobody", "usr_00000000000000000000000000", "olga@example.com", &desk.operator_id]
    {
        let answer = desk.admin.approve(&id, &json!({"reviewerId": name})).await;
        assert_eq!(answer.fault(), ("reviewerId".into(), "enum".into()), "{name}");
    }
    assert_eq!(desk.actions(&id).await, ["pending", "assigned"]);

    let answer = olga.approve(&id, &json!({"reviewerId": olga_id})).await.expect_ok();
    assert_eq!(answer["approvedBy"], olga_id);
    assert_eq!(decided(&desk, &id).await, [(); 3].map(|()| json!(olga_id)));

    let id = desk.required("x").await;
    let body = json!({"reviewerId": olga_id, "reason": "no"});
    let answer = desk.admin.reject(&id, &body).await.expect_ok();
    assert_eq!(answer["rejectedBy"], olga_id);
    let expected = [&desk.admin_id, &olga_id, &olga_id].map(|who| json!(who));
    assert_eq!(decided(&desk, &id).await, expected, "who really did it stays on record");
}

#[tokio::test]
async fn what_a_key_claims_is_recorded_beside_the_key() {
    let desk = Desk::open().await;
    for (given, name) in [
        (json!({}), desk.operator_id.as_str()),
        (json!({"reviewerId": desk.operator_id}), desk.operator_id.as_str()),
        (json!({"reviewerId": "ann@example.com"}), "ann@example.com"),
        (json!({"reviewerId": desk.admin_id}), desk.admin_id.as_str()),
        (json!({"reviewerId": "Ann \"the\" Ünïque"}), "Ann \"the\" Ünïque"),
    ] {
        let id = desk.required("x").await;
        let answer = desk.approve(&id, &given).await.expect_ok();
        assert_eq!(answer["approvedBy"], name, "{given}");
        let expected = [&desk.operator_id, name, name].map(|who| json!(who));
        assert_eq!(decided(&desk, &id).await, expected, "{given}");
        let late = desk.admin.approve(&id, &json!({})).await;
        assert_eq!(late.body["error"]["details"]["decidedBy"], name);
    }
}

#[tokio::test]
async fn the_least_loaded_user_is_asked_and_keys_never_are() {
    let desk = Desk::open().await;
    let (_, olga) = desk.user("olga", "operator").await;
    desk.user("vera", "viewer").await;
    let admin = desk.admin_id.clone();
    let assigned = |item: Value| item["assignedTo"].as_str().map(str::to_owned);
    let first = desk.required("x").await;
    assert_eq!(assigned(desk.item(&first).await).as_ref(), Some(&admin), "the oldest account");
    let second = desk.required("x").await;
    assert_eq!(assigned(desk.item(&second).await).as_ref(), Some(&olga));
    desk.approve(&second, &json!({})).await.expect_ok();
    let third = desk.required("x").await;
    assert_eq!(assigned(desk.item(&third).await).as_ref(), Some(&olga), "the admin has one still");
    desk.reject(&first, &json!({"reason": "no"})).await.expect_ok();
    let fourth = desk.required("x").await;
    assert_eq!(assigned(desk.item(&fourth).await).as_ref(), Some(&admin));
}
