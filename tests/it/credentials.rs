//! No credential stands in the log, at its most verbose, or in the data directory. `./test --long`, and a
//! run with `CALLBOARD_SCAN=1`, ask the same of every server that a test starts.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::json;

use crate::support::{Client, FakeWorker, PASSWORD, Server, credentials, until};

#[tokio::test]
async fn no_credential_is_logged_or_stored() {
    let mut server = Server::traced(&[]);
    let anybody = Client::new(&server.url, "");
    let wrong = json!({"email": "nobody@example.com", "password": "a password of nobody's"});
    assert_eq!(anybody.post("/api/auth/login", &wrong).await.refused(401), "INVALID_CREDENTIALS");
    let user = json!({"email": "grace@example.com", "password": PASSWORD, "role": "operator"});
    let admin = server.admin().await;
    admin.post("/api/auth/users", &user).await.expect(201);
    let login = json!({"email": "grace@example.com", "password": PASSWORD});
    let session = anybody.post("/api/auth/login", &login).await.expect_ok();
    let refresh = json!({"refreshToken": session["refreshToken"]});
    let renewed = anybody.post("/api/auth/refresh", &refresh).await.expect_ok();
    let grace = Client::new(&server.url, renewed["token"].as_str().expect("a token"));
    let change = json!({"current": PASSWORD, "new": "countess of computing 1843"});
    grace.post("/api/auth/password", &change).await.expect_ok();

    let key =
        admin.post("/api/auth/keys", &json!({"name": "ci", "role": "operator"})).await.expect(201);
    let rotated = format!("/api/auth/keys/{}/rotate", key["id"].as_str().expect("an id"));
    let rotated = admin.post(&rotated, &json!({"overlap": "1h"})).await.expect(201);
    let rotated = rotated["key"].as_str().expect("a key");
    let by_query = anybody.get(&format!("/api/tasks?api_key={rotated}")).await;
    assert_eq!(by_query.status, 200);
    // A key that is given by mistake in a path or a header of another name.
    anybody.get(&format!("/api/tasks/{rotated}")).await;

    let worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let client = Client::new(&server.url, rotated);
    let worker = worker.run(|_| Ok("done".to_owned()));
    let task = client.submit(&json!({"prompt": "hello"})).await;
    client.task_with_status(&task, "completed").await;
    worker.abort();
    server.kill();
    server.restart();
    until("the server is up", async || {
        Client::new(&server.url, rotated).get("/api/tasks").await.status == 200
    })
    .await;
}

#[tokio::test]
async fn a_server_whose_data_has_a_credential_fails_its_test() {
    let server = Server::traced(&[]);
    let key = server.key("operator").await;
    let client = Client::new(&server.url, &key);
    assert_eq!(credentials::found_in(&server.data()), Vec::<String>::new());
    client.submit(&json!({"prompt": format!("the key is {key}")})).await;
    assert!(!credentials::found_in(&server.data()).is_empty());
    catch_unwind(AssertUnwindSafe(|| drop(server))).expect_err("it has leaked");
}

#[tokio::test]
async fn a_server_whose_log_has_a_credential_fails_its_test() {
    let server = Server::traced(&[]);
    let key = server.key("operator").await;
    server.log(&format!("asked with {key}"));
    assert_eq!(credentials::found_in(&server.data()), Vec::<String>::new());
    catch_unwind(AssertUnwindSafe(|| drop(server))).expect_err("it has leaked");
}
