//! The move of a data directory to PostgreSQL, and a server on the copy.

use std::process::{Command, Stdio};

use callboard_postgres::Server as Postgres;
use serde_json::{Value, json};

use crate::support::{Client, FakeWorker, Server, credentials, until};

/// The lists that must be the same before and after.
const LISTS: [&str; 7] = [
    "/api/tasks?limit=100",
    "/api/plans?limit=100",
    "/api/plans/executions?limit=100",
    "/api/templates?limit=100",
    "/api/auth/users?limit=100",
    "/api/auth/keys?limit=100",
    "/api/hitl/pending?limit=100",
];

async fn lists(client: &Client) -> Vec<Value> {
    let mut found = Vec::new();
    for path in LISTS {
        let answer = client.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let mut items = answer.body["data"].as_array().cloned().unwrap_or_default();
        assert!(!items.is_empty(), "{path} is empty");
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.remove("waitingMs");
        }
        found.push(json!({"items": items, "total": answer.body["pagination"]["total"]}));
    }
    found
}

/// Work of every kind: ended, held by a gate, and waiting.
async fn fill(admin: &Client, server: &Server) -> String {
    let user = json!({"email": "eve@example.com", "name": "Eve", "role": "operator",
        "password": "another correct horse"});
    admin.post("/api/auth/users", &user).await.expect(201);
    let steps = json!([
        {"id": "draft", "prompt": "draft {{input.n}}"},
        {"id": "final", "prompt": "final {{draft.output}}", "dependsOn": ["draft"],
            "requiresApproval": true},
    ]);
    let plan = admin.plan(&steps).await;
    let worker = FakeWorker::connect(server, &server.key("worker").await, 4).await;
    let running = worker.run(|task| Ok(format!("done {}", task["prompt"])));
    let mut tasks = Vec::new();
    for n in 0..40 {
        tasks.push(admin.submit(&json!({"prompt": format!("task {n}"), "tags": ["t"]})).await);
    }
    admin.execute(&plan, &json!({"input": {"n": 1}})).await;
    for task in &tasks {
        admin.task_with_status(task, "completed").await;
    }
    let is_held = async || admin.listed("/api/hitl/pending?limit=1").await.1 == 1;
    until("the second step is held", is_held).await;
    running.abort();
    let submission = json!({"prompt": "left", "queue": "later"});
    admin.post_once("/api/tasks", "the key of the last one", &submission).await.expect(201)["id"]
        .as_str()
        .expect("an id")
        .to_owned()
}

#[tokio::test]
async fn a_data_directory_moves_to_postgresql_and_is_served_from_there() {
    let mut server = Server::start();
    let admin = server.admin().await;
    let key = server.key("worker").await;
    let left = fill(&admin, &server).await;
    // A key that was used, and one that was not.
    Client::new(&server.url, &server.key("operator").await).get("/api/tasks?limit=1").await;
    server.key("viewer").await;
    let before = lists(&admin).await;
    let keys = before[5]["items"].as_array().expect("keys");
    let unused = keys.iter().filter(|key| key["lastUsedAt"].is_null()).count();
    assert!(unused > 0 && unused < keys.len(), "{keys:?}");
    assert!(server.terminate(), "it stops in order");

    let postgres = Postgres::start();
    let database = postgres.database();
    let url = postgres.url(&database);
    let migrate = || {
        let mut migrate = Command::new(env!("CARGO_BIN_EXE_callboard"));
        migrate.arg("migrate").arg("--from").arg(server.data()).args(["--to", &url]);
        migrate.env("CALLBOARD_LOG", "error").stdin(Stdio::null()).output().expect("it runs")
    };
    let moved = migrate();
    let says = String::from_utf8_lossy(&moved.stdout).into_owned();
    assert!(moved.status.success(), "{says} {}", String::from_utf8_lossy(&moved.stderr));
    let rows = postgres.psql(&database, "SELECT count(*) FROM callboard.row").expect("rows");
    assert!(says.starts_with(&format!("{rows} rows, ")), "{says}");
    // A repetition finds the copy.
    let again = migrate();
    let says = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(again.status.success() && says.contains("copied before, and compared"), "{again:?}");

    let file = |name: &str| server.data().join(name).display().to_string();
    let (signing, secret) = (file("signing.key"), file("webhook.secret"));
    let node = Server::with(&[
        ("STORE__URL", url.as_str()),
        ("AUTH__SIGNING_KEY_FILE", &signing),
        ("WEBHOOKS__SECRET_FILE", &secret),
        ("CLUSTER__KEY", "the key with which nodes sign what they forward"),
    ]);
    let refused = migrate();
    let says = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && says.contains("name an empty one"), "{says}");
    // Sessions, keys and passwords hold, and so does every list, with the last use of each key.
    for (before, after) in before.iter().zip(lists(&admin.at(&node.url)).await) {
        assert_eq!(before, &after);
    }
    let admin = node.admin().await;
    let submission = json!({"prompt": "left", "queue": "later"});
    let repeated = admin.post_once("/api/tasks", "the key of the last one", &submission).await;
    assert_eq!(repeated.body["data"]["id"], left.as_str(), "{}", repeated.body);
    let task = admin.submit(&json!({"prompt": "afterwards"})).await;
    let worker = FakeWorker::connect_to(&node.url, &key, 2).await;
    let running = worker.run(|task| Ok(format!("done {}", task["prompt"])));
    admin.task_with_status(&task, "completed").await;
    running.abort();
    drop(node);
    credentials::assert_none_in(&[postgres.directory()]);
}
