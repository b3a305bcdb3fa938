//! The lists of what waits and of what was decided.

use serde_json::json;

use super::fixture::Fixture;

#[tokio::test]
async fn what_waits_is_found_by_queue_tags_and_reviewer() {
    let fixture = Fixture::open().await;
    let (_, other) = fixture.user("olga", "operator").await;
    let mut ids = Vec::new();
    for tags in [json!([]), json!(["a"]), json!(["a", "b"]), json!(["b", "c d"])] {
        let hitl = json!({"required": true});
        ids.push(fixture.held(&json!({"prompt": "x", "tags": tags, "hitl": hitl})).await);
    }
    let [none, a, ab, bc] = <[String; 4]>::try_from(ids).expect("four");
    // The two users take turns: the one with the fewest, then the oldest account.
    let reviewer = |id: &str| format!("reviewerId={id}");
    for (query, expected) in [
        ("", vec![&bc, &ab, &a, &none]),
        ("queue=default", vec![&bc, &ab, &a, &none]),
        ("queue=other", vec![]),
        ("tags=a", vec![&ab, &a]),
        ("tags=a,b", vec![&ab]),
        ("tags=b,a", vec![&ab]),
        ("tags=c%20d", vec![&bc]),
        ("tags=a,c%20d", vec![]),
        ("tags=A", vec![]),
        (reviewer(&fixture.admin_id).as_str(), vec![&ab, &none]),
        (reviewer(&other).as_str(), vec![&bc, &a]),
        ("reviewerId=nobody", vec![]),
        (&format!("{}&tags=a&queue=default", reviewer(&other)), vec![&a]),
        ("includeExpired=true", vec![&bc, &ab, &a, &none]),
        ("includeExpired=false&limit=100", vec![&bc, &ab, &a, &none]),
    ] {
        let path = format!("/api/hitl/pending?{query}");
        let (found, total) = fixture.operator.listed(&path).await;
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{query}");
        assert_eq!(total, expected.len() as u64, "{query}");
    }
    for (query, expected, more) in [
        ("limit=2", vec![&bc, &ab], true),
        ("limit=2&offset=2", vec![&a, &none], false),
        ("limit=1&offset=3", vec![&none], false),
        ("offset=4", vec![], false),
        ("offset=1000", vec![], false),
        ("tags=a&limit=1", vec![&ab], true),
    ] {
        let path = format!("/api/hitl/pending?{query}");
        let (found, total) = fixture.operator.listed(&path).await;
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{query}");
        assert_eq!(total, if query.starts_with("tags") { 2 } else { 4 }, "{query}");
        assert_eq!(
            fixture.operator.get(&path).await.body["pagination"]["hasMore"],
            more,
            "{query}"
        );
    }
}

#[tokio::test]
async fn what_was_decided_is_found_by_its_status_and_its_decider() {
    let fixture = Fixture::open().await;
    let (waits, yes, no, gone) = (
        fixture.required("x").await,
        fixture.required("x").await,
        fixture.required("x").await,
        fixture.required("x").await,
    );
    fixture.approve(&yes, &json!({"reviewerId": "ann"})).await.expect_ok();
    fixture.reject(&no, &json!({"reason": "no"})).await.expect_ok();
    fixture.operator.delete(&format!("/api/tasks/{gone}")).await.expect_ok();
    let operator = format!("reviewerId={}", fixture.operator_id);
    for (query, expected) in [
        ("", vec![&gone, &no, &yes, &waits]),
        ("status=assigned", vec![&waits]),
        ("status=pending", vec![]),
        ("status=escalated,expired", vec![]),
        ("status=approved", vec![&yes]),
        ("status=rejected", vec![&no]),
        ("status=cancelled", vec![&gone]),
        ("status=approved,rejected", vec![&no, &yes]),
        ("reviewerId=ann", vec![&yes]),
        (operator.as_str(), vec![&no]),
        ("reviewerId=ann&status=rejected", vec![]),
        ("queue=default&status=rejected", vec![&no]),
        ("queue=other", vec![]),
    ] {
        let (found, total) = fixture.operator.listed(&format!("/api/hitl?{query}")).await;
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{query}");
        assert_eq!(total, expected.len() as u64, "{query}");
    }
    assert_eq!(fixture.operator.listed("/api/hitl/pending").await, (vec![waits], 1));
}

#[tokio::test]
async fn the_sandbox_sees_nothing_of_it() {
    let fixture = Fixture::open().await;
    let live = fixture.required("x").await;
    let body = json!({"name": "t", "role": "operator", "environment": "test"});
    let made = fixture.admin.post("/api/auth/keys", &body).await.expect(201);
    let test =
        crate::support::Client::new(&fixture.server.url, made["key"].as_str().expect("a key"));
    assert_eq!(test.listed("/api/hitl/pending").await, (vec![], 0));
    for path in [format!("/api/hitl/{live}"), format!("/api/hitl/{live}/history")] {
        assert_eq!(test.get(&path).await.refused(404), "NOT_FOUND");
    }
    assert_eq!(test.approve(&live, &json!({})).await.refused(404), "NOT_FOUND");
    assert_eq!(fixture.actions(&live).await, ["pending", "assigned"]);
}

#[tokio::test]
async fn what_was_decided_is_listed_by_the_decision_and_by_who_made_it() {
    let fixture = Fixture::open().await;
    let (rita, rita_id) = fixture.user("rita", "reviewer").await;
    let first = fixture.required("a").await;
    let second = fixture.required("b").await;
    let waits = fixture.required("c").await;
    rita.reject(&second, &json!({"reason": "no"})).await.expect_ok();
    fixture.approve(&first, &json!({})).await.expect_ok();
    let listed = async |query: &str| rita.listed(&format!("/api/hitl?{query}")).await.0;
    let decided = "status=approved,rejected&orderBy=decidedAt";
    let by_decision = [first.clone(), second.clone()];
    // A listing may be a moment behind.
    crate::support::until("both are listed", async || listed(decided).await == by_decision).await;
    assert_eq!(listed("orderBy=decidedAt").await, [&first, &second, &waits].map(String::clone));
    assert_eq!(listed("orderBy=createdAt").await, [&waits, &second, &first].map(String::clone));
    assert_eq!(listed(&format!("{decided}&reviewerId={rita_id}")).await, [second]);
    let unknown = rita.get("/api/hitl?orderBy=title").await;
    assert_eq!(unknown.fault(), ("orderBy".into(), "enum".into()));
}
