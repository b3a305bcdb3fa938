//! Who may decide, in whose name, and who is asked.

use serde_json::{Value, json};

use super::fixture::Fixture;
use crate::support::{Client, Events};

#[tokio::test]
async fn a_viewer_reads_and_does_not_decide_and_a_worker_does_neither() {
    let fixture = Fixture::open().await;
    let id = fixture.required("x").await;
    let (viewer_session, _) = fixture.user("vera", "viewer").await;
    let (viewer, worker) = (fixture.key("viewer").await.client, fixture.key("worker").await.client);
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
        let nobody = Client::new(&fixture.server.url, "").get(&path).await;
        assert_eq!(nobody.refused(401), "UNAUTHORIZED", "{path}");
    }
    for verb in decisions {
        for client in [&viewer, &viewer_session, &worker] {
            let answer = decide(client.clone(), verb).await;
            assert_eq!(answer.refused(403), "FORBIDDEN", "{verb}");
        }
        let nobody = decide(Client::new(&fixture.server.url, ""), verb).await;
        assert_eq!(nobody.refused(401), "UNAUTHORIZED", "{verb}");
    }
    // What a role may not do is no oracle for what exists.
    let unknown = viewer.approve("dt_task_00000000000000000000000000", &json!({})).await;
    assert_eq!(unknown.refused(403), "FORBIDDEN");
    assert_eq!(fixture.actions(&id).await, ["pending", "assigned"]);
}

/// Actor, reviewer and what the item shows of a decision.
async fn decided(fixture: &Fixture, id: &str) -> [Value; 3] {
    let entry = fixture.history(id).await.pop().expect("it was decided");
    [
        entry["actor"].clone(),
        entry["reviewerId"].clone(),
        fixture.item(id).await["decision"]["by"].clone(),
    ]
}

#[tokio::test]
async fn a_session_speaks_for_itself_and_an_admins_for_any_user() {
    let fixture = Fixture::open().await;
    let (olga, olga_id) = fixture.user("olga", "operator").await;
    let (_, vera_id) = fixture.user("vera", "viewer").await;
    let id = fixture.required("x").await;
    for name in [&fixture.admin_id, "nobody", &vera_id] {
        for answer in [
            olga.approve(&id, &json!({"reviewerId": name})).await,
            olga.reject(&id, &json!({"reviewerId": name, "reason": "no"})).await,
        ] {
            assert_eq!(answer.refused(403), "FORBIDDEN", "{name}");
        }
    }
    for name in
        ["nobody", "usr_00000000000000000000000000", "olga@example.com", &fixture.operator_id]
    {
        let answer = fixture.admin.approve(&id, &json!({"reviewerId": name})).await;
        assert_eq!(answer.fault(), ("reviewerId".into(), "enum".into()), "{name}");
    }
    assert_eq!(fixture.actions(&id).await, ["pending", "assigned"]);

    let answer = olga.approve(&id, &json!({"reviewerId": olga_id})).await.expect_ok();
    assert_eq!(answer["approvedBy"], olga_id);
    assert_eq!(decided(&fixture, &id).await, [(); 3].map(|()| json!(olga_id)));

    let id = fixture.required("x").await;
    let body = json!({"reviewerId": olga_id, "reason": "no"});
    let answer = fixture.admin.reject(&id, &body).await.expect_ok();
    assert_eq!(answer["rejectedBy"], olga_id);
    let expected = [&fixture.admin_id, &olga_id, &olga_id].map(|who| json!(who));
    assert_eq!(decided(&fixture, &id).await, expected, "who really did it stays on record");
}

#[tokio::test]
async fn what_a_key_claims_is_recorded_beside_the_key() {
    let fixture = Fixture::open().await;
    for (given, name) in [
        (json!({}), fixture.operator_id.as_str()),
        (json!({"reviewerId": fixture.operator_id}), fixture.operator_id.as_str()),
        (json!({"reviewerId": "ann@example.com"}), "ann@example.com"),
        (json!({"reviewerId": fixture.admin_id}), fixture.admin_id.as_str()),
        (json!({"reviewerId": "Ann \"the\" Ünïque"}), "Ann \"the\" Ünïque"),
    ] {
        let id = fixture.required("x").await;
        let answer = fixture.approve(&id, &given).await.expect_ok();
        assert_eq!(answer["approvedBy"], name, "{given}");
        let expected = [&fixture.operator_id, name, name].map(|who| json!(who));
        assert_eq!(decided(&fixture, &id).await, expected, "{given}");
        let late = fixture.admin.approve(&id, &json!({})).await;
        assert_eq!(late.body["error"]["details"]["decidedBy"], name);
    }
}

#[tokio::test]
async fn the_least_loaded_user_is_asked_and_keys_never_are() {
    let fixture = Fixture::open().await;
    let (_, olga) = fixture.user("olga", "operator").await;
    fixture.user("vera", "viewer").await;
    let admin = fixture.admin_id.clone();
    let assigned = |item: Value| item["assignedTo"].as_str().map(str::to_owned);
    let first = fixture.required("x").await;
    assert_eq!(assigned(fixture.item(&first).await).as_ref(), Some(&admin), "the oldest account");
    let second = fixture.required("x").await;
    assert_eq!(assigned(fixture.item(&second).await).as_ref(), Some(&olga));
    fixture.approve(&second, &json!({})).await.expect_ok();
    let third = fixture.required("x").await;
    assert_eq!(
        assigned(fixture.item(&third).await).as_ref(),
        Some(&olga),
        "the admin has one still"
    );
    fixture.reject(&first, &json!({"reason": "no"})).await.expect_ok();
    let fourth = fixture.required("x").await;
    assert_eq!(assigned(fixture.item(&fourth).await).as_ref(), Some(&admin));
}

#[tokio::test]
async fn a_reviewer_reads_decides_and_claims_what_is_held_and_sees_nothing_else() {
    let fixture = Fixture::open().await;
    let (rita, rita_id) = fixture.user("rita", "reviewer").await;
    let key = fixture.key("reviewer").await.client;
    let all = "events=task.*,queue.*,worker.*,hitl.*";
    let mut events = Events::open(&rita, all, None).await;
    let task = json!({
        "prompt": "x",
        "systemPrompt": "Be kind.",
        "context": {"customer": "K-1"},
        "messages": [{"role": "user", "content": "Hello"}],
        "hitl": {"required": true},
    });
    let first = fixture.held(&task).await;
    let item = rita.get(&format!("/api/hitl/{first}")).await.expect_ok();
    let source = &item["task"];
    assert_eq!(
        [&source["systemPrompt"], &source["context"], &source["messages"][0]["content"]],
        [&json!("Be kind."), &json!({"customer": "K-1"}), &json!("Hello")]
    );
    assert_eq!((&item["prompt"], &item["output"]), (&json!("x"), &json!("x")));
    rita.post(&format!("/api/hitl/{first}/claim"), &json!({})).await.expect_ok();
    rita.approve(&first, &json!({"comment": "well"})).await.expect_ok();
    assert_eq!(decided(&fixture, &first).await[2], rita_id);

    // The others that may decide have one more each.
    let (second, third) = (fixture.required("y").await, fixture.required("z").await);
    let assigned = [fixture.item(&second).await, fixture.item(&third).await];
    assert!(assigned.iter().any(|item| item["assignedTo"] == rita_id), "{assigned:?}");
    key.reject(&second, &json!({"reason": "no", "retry": true})).await.expect_ok();
    let (waiting, _) = key.listed("/api/hitl/pending").await;
    assert!(waiting.contains(&third), "{waiting:?}");

    for path in [
        format!("/api/tasks/{first}"),
        "/api/tasks".into(),
        "/api/plans/executions".into(),
        "/api/hitl/stats".into(),
        "/api/workers".into(),
    ] {
        for client in [&rita, &key] {
            assert_eq!(client.get(&path).await.refused(403), "FORBIDDEN", "{path}");
        }
    }
    let more = json!({"timeoutMs": 60_000});
    rita.post(&format!("/api/hitl/{third}/extend"), &more).await.refused(403);
    loop {
        let (name, event) = events.next().await;
        assert!(name.starts_with("hitl."), "{name}");
        if (&*name, &event["resource"]["id"]) == ("hitl.pending", &json!(third)) {
            break;
        }
    }
}

#[tokio::test]
async fn an_output_is_given_to_another_reviewer() {
    let fixture = Fixture::open().await;
    let (olga, olga_id) = fixture.user("olga", "operator").await;
    let (_, vera_id) = fixture.user("vera", "viewer").await;
    let id = fixture.required("x").await;
    let path = format!("/api/hitl/{id}/assign");
    let to = |id: &str| json!({"assignee": id});
    let admin = fixture.admin_id.clone();
    let given = olga.post(&path, &to(&admin)).await.expect_ok();
    assert_eq!((&given["assignedTo"], &given["status"]), (&json!(admin), &json!("assigned")));
    let given = olga.post(&path, &to(&olga_id)).await.expect_ok();
    assert_eq!(given["assignedTo"], json!(olga_id));
    assert_eq!(fixture.item(&id).await["assignedTo"], json!(olga_id));
    let mine = olga.get(&format!("/api/hitl/pending?reviewerId={olga_id}")).await;
    assert_eq!(mine.body["pagination"]["total"], 1);
    let history = fixture.history(&id).await;
    let last = history.last().expect("an entry");
    assert_eq!(
        (&last["action"], &last["actor"]),
        (&json!("assigned"), &json!(olga_id)),
        "{last:#}"
    );
    // A second time it is no news.
    olga.post(&path, &to(&olga_id)).await.expect_ok();
    assert_eq!(fixture.history(&id).await.len(), history.len());
    for nobody in [vera_id.as_str(), "usr_00000000000000000000000000", "olga"] {
        assert_eq!(
            olga.post(&path, &to(nobody)).await.refused(400),
            "VALIDATION_ERROR",
            "{nobody}"
        );
    }
    fixture.approve(&id, &json!({})).await.expect_ok();
    assert_eq!(olga.post(&path, &to(&admin)).await.refused(409), "ALREADY_DECIDED");
}
