//! The keys that sign access tokens: rotated with an overlap, replaced, removed.

use super::*;
use crate::support::UNSET;

const KEY: &str = "a signing key of more than 32 bytes";
const NEXT: &str = "the next signing key of over 32 bytes";

fn kid(token: &str) -> String {
    use base64::Engine as _;
    let header = token.split('.').next().expect("a header");
    let header = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(header).expect("base64");
    let header: Value = serde_json::from_slice(&header).expect("JSON");
    text(&header, "kid").to_owned()
}

async fn rotate(admin: &Client, overlap: &str) -> Value {
    let body = json!({"overlap": overlap});
    admin.post("/api/auth/signing-key/rotate", &body).await.expect_ok()
}

async fn refresh(server: &Server, session: &Value) -> Answer {
    let body = json!({"refreshToken": session["refreshToken"]});
    Client::new(&server.url, "").post("/api/auth/refresh", &body).await
}

/// The status of a request with the access token of a session.
async fn status(server: &Server, session: &Value) -> u16 {
    let client = Client::new(&server.url, text(session, "token"));
    client.get("/api/tasks").await.status.as_u16()
}

async fn signed_in(server: &Server) -> Value {
    login(server, ADMIN, PASSWORD).await.expect_ok()
}

#[tokio::test]
async fn a_rotated_signing_key_counts_until_the_overlap_ends_and_renewed_sessions_go_on() {
    let mut server = Server::start();
    let (idle, renewed) = (signed_in(&server).await, signed_in(&server).await);
    let client = Client::new(&server.url, text(&idle, "token"));
    let stream = Stream::open(&client).await;
    let admin = server.client("admin").await;
    let keys = rotate(&admin, "3s").await;
    let old = kid(text(&idle, "token"));
    assert_eq!(text(&keys["previous"][0], "id"), old);
    assert_ne!(text(&keys, "id"), old);
    assert_eq!(status(&server, &idle).await, 200);
    let renewed = refresh(&server, &renewed).await.expect_ok();
    assert_eq!(kid(text(&renewed, "token")), text(&keys, "id"));
    let over = async {
        while status(&server, &idle).await == 200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    in_time("the old token", over).await;
    in_time("the stream", stream.end()).await;
    for session in 0..2 {
        let refused = refresh(&server, &idle).await;
        assert_eq!(refused.refused(401), "INVALID_TOKEN", "{session}");
        assert_eq!(status(&server, &renewed).await, 200);
        server.kill();
        server.restart();
    }
    // The key is in the file, which nobody else may read, and in the audit log by its name.
    let path = server.data().join("signing.key");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(&path).expect("it is there").permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    let admin = admin.at(&server.url);
    let action = "/api/audit?action=auth.signing_key_rotated,auth.sessions_ended";
    let log = admin.get(action).await.expect_ok();
    let log = log.as_array().expect("a list");
    let actions: Vec<_> = log.iter().map(|entry| text(entry, "action")).collect();
    assert_eq!(actions, ["auth.sessions_ended", "auth.signing_key_rotated"]);
    assert_eq!(text(&log[1], "target"), text(&keys, "id"));
    // The idle one, and the one in which the test's key was made.
    assert_eq!(text(&log[0]["details"], "count"), "2");
    let whole = json!(log).to_string();
    let file = std::fs::read_to_string(path).expect("it is there");
    assert!(file.lines().all(|line| !whole.contains(line)));
}

#[tokio::test]
async fn without_an_overlap_every_session_ends_at_once() {
    let server = Server::start();
    let session = signed_in(&server).await;
    let admin = Client::new(&server.url, text(&session, "token"));
    let stream = Stream::open(&admin).await;
    assert_eq!(rotate(&admin, "0s").await["previous"], json!([]));
    assert_eq!(status(&server, &session).await, 401);
    assert_eq!(refresh(&server, &session).await.refused(401), "INVALID_TOKEN");
    in_time("the stream", stream.end()).await;
    assert_eq!(status(&server, &signed_in(&server).await).await, 200);
    let viewer = server.client("viewer").await;
    let refused = viewer.post("/api/auth/signing-key/rotate", &json!({})).await;
    assert_eq!(refused.refused(403), "FORBIDDEN");
}

#[tokio::test]
async fn removing_the_signing_key_ends_refresh_tokens_and_sessions_too() {
    let mut server = Server::start();
    let session = signed_in(&server).await;
    server.terminate();
    std::fs::remove_file(server.data().join("signing.key")).expect("it was there");
    server.restart();
    assert_eq!(status(&server, &session).await, 401);
    assert_eq!(refresh(&server, &session).await.refused(401), "INVALID_TOKEN");
    let admin = server.admin().await;
    let sessions = admin.get("/api/auth/sessions").await;
    assert_eq!(sessions.body["pagination"]["total"], 1, "the admin's new one alone");
    let ended = admin.get("/api/audit?action=auth.sessions_ended").await.expect_ok();
    assert_eq!(text(&ended[0], "actor"), "system");
}

#[tokio::test]
async fn a_configured_key_is_replaced_beside_the_one_before_it() {
    let mut server = Server::with(&[("AUTH__SIGNING_KEY", KEY)]);
    let (idle, renewed) = (signed_in(&server).await, signed_in(&server).await);
    let admin = Client::new(&server.url, text(&idle, "token"));
    let refused = admin.post("/api/auth/signing-key/rotate", &json!({})).await;
    assert_eq!(refused.refused(409), "INVALID_STATE");
    let message = text(&refused.body["error"], "message");
    assert!(message.contains("auth.previous_signing_key_file"), "{message}");

    server.terminate();
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("before");
    std::fs::write(&file, format!("{KEY}\n")).expect("it can be written");
    server.set("AUTH__SIGNING_KEY", NEXT);
    server.set("AUTH__PREVIOUS_SIGNING_KEY_FILE", &file.display().to_string());
    server.restart();
    assert_eq!(status(&server, &idle).await, 200);
    let renewed = refresh(&server, &renewed).await.expect_ok();
    server.terminate();
    server.set("AUTH__PREVIOUS_SIGNING_KEY_FILE", UNSET);
    server.restart();
    assert_eq!((status(&server, &idle).await, status(&server, &renewed).await), (401, 200));
    assert_eq!(refresh(&server, &idle).await.refused(401), "INVALID_TOKEN");
    refresh(&server, &renewed).await.expect_ok();
}
