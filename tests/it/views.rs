//! Saved views: private to their maker, or shared by all who see the project.

use reqwest::Method;
use serde_json::{Value, json};

use crate::approvals::fixture::Fixture;
use crate::support::{Answer, Client, PASSWORD};

fn failed(shared: bool) -> Value {
    json!({"name": "Failed today", "page": "executions", "query": "status=failed&since=24h", "shared": shared})
}

async fn saved(client: &Client, view: &Value) -> String {
    let view = client.post("/api/views", view).await.expect(201);
    view["id"].as_str().expect("an id").to_owned()
}

async fn names(client: &Client, query: &str) -> Vec<String> {
    let views = client.get(&format!("/api/views{query}")).await.expect_ok();
    let views = views.as_array().expect("a list").clone();
    views.iter().map(|view| view["name"].as_str().expect("a name").to_owned()).collect()
}

async fn change(client: &Client, id: &str, change: Value) -> Answer {
    client.send(client.request(Method::PATCH, &format!("/api/views/{id}")).json(&change)).await
}

#[tokio::test]
async fn a_view_is_its_makers_until_it_is_shared() {
    let mut fixture = Fixture::open().await;
    let (ada, ada_id) = fixture.user("ada", "operator").await;
    let (ben, _) = fixture.user("ben", "operator").await;
    let (eve, _) = fixture.user("eve", "viewer").await;
    let id = saved(&ada, &failed(false)).await;
    let view = ada.get("/api/views").await.expect_ok();
    assert_eq!((&view[0]["id"], &view[0]["createdBy"]), (&json!(id), &json!(ada_id)));
    assert_eq!(view[0]["query"], "status=failed&since=24h");
    for other in [&ben, &eve, &fixture.admin] {
        assert_eq!(names(other, "").await, [""; 0]);
        assert_eq!(change(other, &id, json!({"name": "x"})).await.refused(404), "NOT_FOUND");
        assert_eq!(other.delete(&format!("/api/views/{id}")).await.refused(404), "NOT_FOUND");
    }

    let shared = change(&ada, &id, json!({"shared": true, "name": "Failed"})).await.expect_ok();
    assert_eq!((&shared["shared"], &shared["name"]), (&json!(true), &json!("Failed")));
    // Its maker and admins change it, and its maker alone takes it back.
    for other in [&ben, &eve] {
        assert_eq!(names(other, "").await, ["Failed"]);
        assert_eq!(change(other, &id, json!({"name": "x"})).await.refused(403), "FORBIDDEN");
        assert_eq!(other.delete(&format!("/api/views/{id}")).await.refused(403), "FORBIDDEN");
    }
    assert_eq!(
        change(&fixture.admin, &id, json!({"shared": false})).await.refused(403),
        "FORBIDDEN"
    );
    let query = json!({"query": "status=failed"});
    change(&fixture.admin, &id, query).await.expect_ok();
    // A viewer keeps views and shares none.
    let own = saved(&eve, &failed(false)).await;
    assert_eq!(change(&eve, &own, json!({"shared": true})).await.refused(403), "FORBIDDEN");
    assert_eq!(eve.post("/api/views", &failed(true)).await.refused(403), "FORBIDDEN");
    assert_eq!(names(&eve, "").await, ["Failed today", "Failed"]);
    assert_eq!(names(&eve, "?page=tasks").await, [""; 0]);

    fixture.crash(std::time::Duration::ZERO).await;
    let (ada, eve) = (ada.at(&fixture.server.url), eve.at(&fixture.server.url));
    assert_eq!(names(&eve, "").await, ["Failed today", "Failed"]);
    change(&ada, &id, json!({"shared": false})).await.expect_ok();
    assert_eq!(names(&eve, "").await, ["Failed today"]);
    ada.delete(&format!("/api/views/{id}")).await.expect_ok();
    assert_eq!(names(&ada, "").await, [""; 0]);
    let audit = fixture.admin.get("/api/audit?limit=100").await.expect_ok();
    let actions = audit.as_array().expect("a list").iter().map(|entry| &entry["action"]);
    let of_views: Vec<_> = actions.filter(|it| it.to_string().contains("view.")).collect();
    assert_eq!(
        of_views,
        ["view.changed", "view.changed", "view.shared"],
        "private ones are nobody's concern"
    );
}

#[tokio::test]
async fn the_views_of_a_deleted_user_go_and_those_that_were_shared_stay() {
    let fixture = Fixture::open().await;
    let (ada, ada_id) = fixture.user("ada", "operator").await;
    let secret = saved(&ada, &failed(false)).await;
    let shared = saved(&ada, &failed(true)).await;
    fixture.admin.delete(&format!("/api/auth/users/{ada_id}")).await.expect_ok();
    assert_eq!(names(&fixture.admin, "").await, ["Failed today"]);
    // Nothing of an account is left over for another one.
    let user =
        json!({"email": "ada@example.com", "password": PASSWORD, "name": "ada", "role": "admin"});
    fixture.admin.post("/api/auth/users", &user).await.expect(201);
    let gone = fixture.admin.delete(&format!("/api/views/{secret}")).await;
    assert_eq!(gone.refused(404), "NOT_FOUND");
    fixture.admin.delete(&format!("/api/views/{shared}")).await.expect_ok();
}

#[tokio::test]
async fn views_are_bounded_and_their_members_are_checked() {
    let fixture = Fixture::open().await;
    let client = &fixture.operator;
    let with = |name: &str, value: Value| {
        let mut view = failed(false);
        view[name] = value;
        view
    };
    for (view, fault) in [
        (with("name", json!(" ")), ("name", "pattern")),
        (with("name", json!("x".repeat(81))), ("name", "length")),
        (with("page", json!("admin")), ("page", "enum")),
        (with("query", json!("?status=failed")), ("query", "pattern")),
        (with("query", json!("a=".repeat(1_025))), ("query", "length")),
    ] {
        let (field, rule) = client.post("/api/views", &view).await.fault();
        assert_eq!((field.as_str(), rule.as_str()), fault);
    }
    saved(client, &with("query", json!("a".repeat(2_048)))).await;
    for (shared, kept) in [(false, 99), (true, 200)] {
        for _ in 0..kept {
            saved(client, &failed(shared)).await;
        }
        assert_eq!(client.post("/api/views", &failed(shared)).await.refused(409), "INVALID_STATE");
    }
    let own = client.get("/api/views?limit=1").await.expect_ok()[0]["id"].clone();
    let full = change(client, own.as_str().expect("an id"), json!({"shared": true})).await;
    assert_eq!(full.refused(409), "INVALID_STATE");
    assert_eq!(client.get("/api/views?limit=1").await.body["pagination"]["total"], 300);
}
