//! The life of accounts from outside: keys, users, passwords, sessions, and the log of it all.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{ADMIN, Answer, Client, FakeWorker, PASSWORD, Server};

mod bound;
mod flood;
mod forged;
mod invitations;
mod left;
mod matrix;
mod oidc;
mod reset;
mod setup;
mod signing;

const SECRET: &str = "lovelace-engine-1843";
const OTHER: &str = "babbage-difference-1822";

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("{name} in {value:#}"))
}

/// A user with a session.
struct User {
    id: String,
    email: String,
    client: Client,
    session: Value,
}

async fn login(server: &Server, email: &str, password: &str) -> Answer {
    let login = json!({"email": email, "password": password});
    Client::new(&server.url, "").post("/api/auth/login", &login).await
}

/// A fresh user of this role, made by `admin`, who has signed in.
async fn user(server: &Server, admin: &Client, role: &str) -> User {
    let email = format!("u{:x}@example.com", rand::random::<u64>());
    let body = json!({"email": email, "password": SECRET, "role": role});
    let made = admin.post("/api/auth/users", &body).await.expect(201);
    let session = login(server, &email, SECRET).await.expect_ok();
    let client = Client::new(&server.url, text(&session, "token"));
    User { id: text(&made, "id").to_owned(), email, client, session }
}

async fn patch(client: &Client, id: &str, body: &Value) -> Answer {
    let path = format!("/api/auth/users/{id}");
    client.send(client.request(Method::PATCH, &path).json(body)).await
}

async fn key(admin: &Client, body: &Value) -> Value {
    admin.post("/api/auth/keys", body).await.expect(201)
}

async fn keys(admin: &Client) -> Vec<Value> {
    let page = admin.get("/api/auth/keys?limit=100").await.expect_ok();
    page.as_array().expect("a list").clone()
}

async fn listed(admin: &Client, id: &str) -> Value {
    let keys = keys(admin).await;
    keys.into_iter().find(|key| key["id"] == id).expect("it is listed")
}

/// An open event stream.
struct Stream(reqwest::Response);

impl Stream {
    async fn open(client: &Client) -> Self {
        // The server closes the connection with the stream, so no other request may take it.
        let client = client.at(&client.url);
        let response = client.request(Method::GET, "/api/events").send().await.expect("an answer");
        assert_eq!(response.status(), 200);
        Self(response)
    }

    /// Waits for the end of the stream.
    async fn end(mut self) {
        while let Ok(Some(_)) = self.0.chunk().await {}
    }
}

/// Does it within the five seconds that docs/reference/accounts.md promises.
async fn in_time(what: &str, work: impl Future) {
    let done = tokio::time::timeout(Duration::from_secs(5), work).await;
    assert!(done.is_ok(), "{what} is still open after 5 s");
}

#[tokio::test]
async fn a_key_is_listed_with_its_maker_and_its_last_use() {
    let mut server = Server::start();
    let admin = server.admin().await;
    let made = key(&admin, &json!({"name": "ci", "role": "viewer", "plan": "pro"})).await;
    let me = text(&login(&server, ADMIN, PASSWORD).await.expect_ok()["user"], "id").to_owned();
    let unused = listed(&admin, text(&made, "id")).await;
    for name in ["id", "name", "role", "environment", "prefix", "last4", "createdAt", "expiresAt"] {
        assert_eq!(unused[name], made[name], "{name}");
    }
    assert_eq!((text(&unused, "createdBy"), text(&unused, "userId")), (&*me, &*me));
    assert_eq!((text(&unused, "status"), text(&unused, "plan")), ("active", "pro"));
    assert!(unused.get("lastUsedAt").is_none() && unused.get("key").is_none(), "{unused:#}");
    Client::new(&server.url, text(&made, "key")).get("/api/tasks").await.expect_ok();
    let used = listed(&admin, text(&made, "id")).await;
    assert!(text(&used, "lastUsedAt") >= text(&used, "createdAt"));

    let page = admin.get("/api/auth/keys?limit=1").await;
    assert_eq!(page.body["pagination"]["total"], 1);
    let viewer = Client::new(&server.url, text(&made, "key"));
    assert_eq!(viewer.get("/api/auth/keys").await.refused(403), "FORBIDDEN");
    server.kill();
    server.restart();
    let again = listed(&admin.at(&server.url), text(&made, "id")).await;
    assert_eq!((again["createdBy"].clone(), text(&again, "status")), (json!(me), "active"));
}

#[tokio::test]
async fn a_key_that_ends_within_two_weeks_is_told_so_and_is_in_the_log_and_the_metrics() {
    let mut server = Server::traced(&[]);
    let admin = server.admin().await;
    let ends =
        |name: &str, within: &str| json!({"name": name, "role": "viewer", "expiresIn": within});
    let soon = key(&admin, &ends("backup-cron", "13d")).await;
    let later = key(&admin, &ends("later", "15d")).await;
    let told = async |made: &Value| {
        let client = Client::new(&server.url, text(made, "key"));
        let headers = client.get("/api/tasks").await.headers;
        headers.get("callboard-key-expires-at").map(|at| at.to_str().expect("a text").to_owned())
    };
    assert_eq!(told(&soon).await.as_deref(), Some(text(&soon, "expiresAt")));
    assert_eq!(told(&later).await, None);
    let metrics = admin.request(Method::GET, "/metrics").send().await.expect("an answer");
    let metrics = metrics.text().await.expect("a text");
    let id = text(&soon, "id");
    let series =
        format!("svc_key_expires_seconds{{key=\"{id}\",name=\"backup-cron\",role=\"viewer\"}} 112");
    assert!(metrics.contains(&series), "{metrics}");
    assert!(metrics.contains("name=\"later\""), "{metrics}");
    // A key that was revoked or rotated ends by somebody's wish.
    admin.delete(&format!("/api/auth/keys/{}", text(&later, "id"))).await.expect_ok();
    let metrics = admin.request(Method::GET, "/metrics").send().await.expect("an answer");
    assert!(!metrics.text().await.expect("a text").contains("name=\"later\""));
    server.kill();
    server.restart();
    crate::support::until("the log warns", async || {
        let log = server.logged();
        log.lines().any(|line| line.contains("an API key ends soon") && line.contains(id))
    })
    .await;
}

#[tokio::test]
async fn a_revoked_key_is_refused_at_once_and_its_streams_and_sockets_close() {
    let server = Server::start();
    let admin = server.admin().await;
    let viewer = key(&admin, &json!({"name": "v", "role": "viewer"})).await;
    let worker = key(&admin, &json!({"name": "w", "role": "worker"})).await;
    let client = Client::new(&server.url, text(&viewer, "key"));
    let stream = Stream::open(&client).await;
    let mut socket = FakeWorker::connect(&server, text(&worker, "key"), 1).await;
    for made in [&viewer, &worker] {
        let path = format!("/api/auth/keys/{}", text(made, "id"));
        let revoked = admin.delete(&path).await.expect_ok();
        assert_eq!(text(&revoked, "status"), "revoked");
        let began = Instant::now();
        let refused = Client::new(&server.url, text(made, "key")).get("/api/tasks").await;
        assert_eq!(refused.refused(401), "INVALID_TOKEN");
        assert!(began.elapsed() < Duration::from_secs(1));
        let again = admin.delete(&path).await.expect_ok();
        assert_eq!(again["revokedAt"], revoked["revokedAt"], "the first time stands");
    }
    in_time("the stream", stream.end()).await;
    in_time("the socket", async { while socket.next().await.is_some() {} }).await;
    assert_eq!(FakeWorker::refused(&server.url, text(&worker, "key")).await, 401);
    let unknown = admin.delete("/api/auth/keys/key_00000000000000000000000100").await;
    assert_eq!(unknown.refused(404), "NOT_FOUND");
}

#[tokio::test]
async fn a_rotated_key_has_one_successor_and_ends_after_the_overlap() {
    let server = Server::start();
    let admin = server.admin().await;
    let old = key(&admin, &json!({"name": "ci", "role": "operator", "expiresIn": "30d"})).await;
    let path = format!("/api/auth/keys/{}/rotate", text(&old, "id"));
    let answer = admin.post(&path, &json!({"overlap": "2s"})).await;
    assert_eq!(answer.headers["cache-control"], "no-store");
    let new = answer.expect(201);
    assert_eq!((&new["name"], &new["role"]), (&old["name"], &old["role"]));
    assert_ne!(new["key"], old["key"]);
    let status = async |made: &Value| {
        Client::new(&server.url, text(made, "key")).get("/api/tasks").await.status.as_u16()
    };
    assert_eq!((status(&old).await, status(&new).await), (200, 200));
    assert_eq!(admin.post(&path, &json!({})).await.refused(409), "INVALID_STATE");
    let over = async {
        while status(&old).await == 200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    in_time("the old key", over).await;
    assert_eq!(status(&new).await, 200);
    // Without an overlap, at once.
    let path = format!("/api/auth/keys/{}/rotate", text(&new, "id"));
    let last = admin.post_raw(&path, "").await.expect(201);
    assert_eq!((status(&new).await, status(&last).await), (401, 200));
    for (body, rule) in [(json!({"overlap": "1w"}), "format"), (json!({"overlap": 5}), "type")] {
        assert_eq!(admin.post(&path, &body).await.fault(), ("overlap".into(), rule.into()));
    }
}

#[tokio::test]
async fn what_a_demoted_or_deleted_user_gave_ends_with_the_right_to_give_it() {
    let server = Server::start();
    let root = server.admin().await;
    let ada = user(&server, &root, "admin").await;
    let mut made = Vec::new();
    for role in ["admin", "operator", "viewer", "worker"] {
        made.push(key(&ada.client, &json!({"name": role, "role": role})).await);
    }
    let other = key(&root, &json!({"name": "root's", "role": "admin"})).await;
    let works = async || {
        let mut works = Vec::new();
        for one in made.iter().chain([&other]) {
            let client = Client::new(&server.url, text(one, "key"));
            works.push(client.get("/api/tasks").await.status == 200);
        }
        works
    };
    let stream = Stream::open(&ada.client).await;
    let socket_key = text(&made[3], "key").to_owned();
    let mut socket = FakeWorker::connect(&server, &socket_key, 1).await;
    patch(&root, &ada.id, &json!({"role": "operator"})).await.expect_ok();
    assert_eq!(works().await, [false, true, true, false, true]);
    assert_eq!(ada.client.get("/api/auth/keys").await.refused(403), "FORBIDDEN");
    in_time("the socket", async { while socket.next().await.is_some() {} }).await;
    // The stream is still allowed; as a worker it is not.
    patch(&root, &ada.id, &json!({"role": "worker"})).await.expect_ok();
    in_time("the stream", stream.end()).await;
    patch(&root, &ada.id, &json!({"role": "viewer"})).await.expect_ok();
    let stream = Stream::open(&ada.client).await;
    root.delete(&format!("/api/auth/users/{}", ada.id)).await.expect_ok();
    assert_eq!(works().await, [false, false, false, false, true]);
    in_time("the stream", stream.end()).await;
    assert_eq!(ada.client.get("/api/tasks").await.refused(401), "INVALID_TOKEN");
    let refresh = json!({"refreshToken": ada.session["refreshToken"]});
    assert_eq!(root.post("/api/auth/refresh", &refresh).await.refused(401), "INVALID_TOKEN");
    assert_eq!(login(&server, &ada.email, SECRET).await.refused(401), "INVALID_CREDENTIALS");
    // The e-mail is free again.
    let body = json!({"email": ada.email, "password": SECRET, "role": "viewer"});
    root.post("/api/auth/users", &body).await.expect(201);
}

#[tokio::test]
async fn the_last_admin_stays() {
    let server = Server::start();
    let admin = server.admin().await;
    let users = admin.get("/api/auth/users").await.expect_ok();
    let path = format!("/api/auth/users/{}", text(&users[0], "id"));
    assert_eq!(admin.delete(&path).await.refused(409), "INVALID_STATE");
    let demotion = patch(&admin, text(&users[0], "id"), &json!({"role": "viewer"})).await;
    assert_eq!(demotion.refused(409), "INVALID_STATE");
    user(&server, &admin, "admin").await;
    admin.delete(&path).await.expect_ok();
    assert_eq!(admin.get("/api/tasks").await.refused(401), "INVALID_TOKEN");
    assert_eq!(admin.delete("/api/auth/users/none").await.refused(401), "INVALID_TOKEN");
}

#[tokio::test]
async fn a_plan_is_given_at_creation_and_by_patch() {
    let server = Server::with(&[("LIMITS_FREE__REQUESTS_PER_MINUTE", "7")]);
    let admin = server.admin().await;
    let body =
        json!({"email": "p@example.com", "password": SECRET, "role": "viewer", "plan": "pro"});
    let made = admin.post("/api/auth/users", &body).await.expect(201);
    assert_eq!(text(&made, "plan"), "pro");
    let changed = patch(&admin, text(&made, "id"), &json!({"plan": "free"})).await.expect_ok();
    assert_eq!((text(&changed, "plan"), text(&changed, "role")), ("free", "viewer"));
    let session = login(&server, "p@example.com", SECRET).await.expect_ok();
    let answer = Client::new(&server.url, text(&session, "token")).get("/api/tasks").await;
    assert_eq!(answer.headers["x-ratelimit-limit"], "7");
    let nothing = patch(&admin, text(&made, "id"), &json!({})).await;
    assert_eq!(nothing.fault(), ("role".into(), "required".into()));
    let unknown = patch(&admin, text(&made, "id"), &json!({"plan": "gold"})).await;
    assert_eq!(unknown.fault(), ("plan".into(), "enum".into()));
}

#[tokio::test]
async fn a_password_set_by_an_admin_is_good_for_nothing_but_another_one() {
    let server = Server::start();
    let admin = server.admin().await;
    let ada = user(&server, &admin, "operator").await;
    let weak = patch(&admin, &ada.id, &json!({"password": "short"})).await;
    assert_eq!(weak.refused(400), "WEAK_PASSWORD");
    let stream = Stream::open(&ada.client).await;
    let set = patch(&admin, &ada.id, &json!({"password": OTHER})).await.expect_ok();
    assert_eq!(set["passwordChangeRequired"], true);
    assert_eq!(ada.client.get("/api/tasks").await.refused(401), "INVALID_TOKEN");
    in_time("the stream", stream.end()).await;
    assert_eq!(login(&server, &ada.email, SECRET).await.refused(401), "INVALID_CREDENTIALS");

    let session = login(&server, &ada.email, OTHER).await.expect_ok();
    assert_eq!(session["user"]["passwordChangeRequired"], true);
    let client = Client::new(&server.url, text(&session, "token"));
    for path in ["/api/tasks", "/api/events", "/api/auth/sessions", "/api/auth/users"] {
        assert_eq!(client.get(path).await.refused(403), "PASSWORD_CHANGE_REQUIRED", "{path}");
    }
    let change = |current: &str, new: &str| {
        let (client, body) = (client.clone(), json!({"current": current, "new": new}));
        async move { client.post("/api/auth/password", &body).await }
    };
    assert_eq!(change(SECRET, "a third phrase").await.refused(401), "INVALID_CREDENTIALS");
    assert_eq!(change(OTHER, OTHER).await.refused(400), "WEAK_PASSWORD");
    assert_eq!(change(OTHER, "12345678").await.refused(400), "WEAK_PASSWORD");
    let changed = change(OTHER, "a third phrase").await.expect_ok();
    assert!(changed.get("passwordChangeRequired").is_none());
    client.get("/api/tasks").await.expect_ok();
    login(&server, &ada.email, "a third phrase").await.expect_ok();
    // Logout is open to one whose password must be changed.
    patch(&admin, &ada.id, &json!({"password": OTHER})).await.expect_ok();
    let session = login(&server, &ada.email, OTHER).await.expect_ok();
    let client = Client::new(&server.url, text(&session, "token"));
    client.post_raw("/api/auth/logout", "").await.expect_ok();
}

#[tokio::test]
async fn a_new_password_ends_all_other_sessions_even_over_a_kill() {
    let mut server = Server::start();
    let admin = server.admin().await;
    let ada = user(&server, &admin, "viewer").await;
    let others = [login(&server, &ada.email, SECRET).await.expect_ok(), ada.session.clone()];
    let session = login(&server, &ada.email, SECRET).await.expect_ok();
    let client = Client::new(&server.url, text(&session, "token"));
    let change = json!({"current": SECRET, "new": OTHER});
    client.post("/api/auth/password", &change).await.expect_ok();
    for _ in 0..2 {
        for other in &others {
            let client = Client::new(&server.url, text(other, "token"));
            assert_eq!(client.get("/api/tasks").await.refused(401), "INVALID_TOKEN");
            let refresh = json!({"refreshToken": other["refreshToken"]});
            let refused = client.post("/api/auth/refresh", &refresh).await;
            assert_eq!(refused.refused(401), "INVALID_TOKEN");
        }
        client.at(&server.url).get("/api/tasks").await.expect_ok();
        server.kill();
        server.restart();
    }
    let key = server.key("viewer").await;
    let refused = Client::new(&server.url, &key).post("/api/auth/password", &change).await;
    assert_eq!(refused.refused(403), "FORBIDDEN");
}

#[tokio::test]
async fn guesses_at_the_current_password_count_as_failed_sign_ins() {
    let server = Server::start();
    let admin = server.admin().await;
    let ada = user(&server, &admin, "viewer").await;
    let guess = json!({"current": "not the password", "new": OTHER});
    for _ in 0..5 {
        let refused = ada.client.post("/api/auth/password", &guess).await;
        assert_eq!(refused.refused(401), "INVALID_CREDENTIALS");
    }
    let right = json!({"current": SECRET, "new": OTHER});
    let refused = ada.client.post("/api/auth/password", &right).await;
    assert_eq!(refused.refused(429), "RATE_LIMIT_EXCEEDED");
    assert_eq!(login(&server, &ada.email, SECRET).await.refused(429), "RATE_LIMIT_EXCEEDED");
}

#[tokio::test]
async fn sessions_are_listed_and_ended_by_their_user_or_an_admin() {
    let server = Server::start();
    let admin = server.admin().await;
    let ada = user(&server, &admin, "viewer").await;
    let bob = user(&server, &admin, "viewer").await;
    let second = login(&server, &ada.email, SECRET).await.expect_ok();
    let second = Client::new(&server.url, text(&second, "token"));
    let own = second.get("/api/auth/sessions").await;
    assert_eq!(own.body["pagination"]["total"], 2);
    let own = own.expect_ok();
    assert_eq!((&own[0]["current"], &own[1]["current"]), (&json!(true), &json!(false)));
    assert!(own.as_array().expect("a list").iter().all(|one| one["userId"] == *ada.id));
    let all = admin.get("/api/auth/sessions").await;
    assert_eq!(all.body["pagination"]["total"], 4);
    let of_bob = format!("/api/auth/sessions?userId={}", bob.id);
    let bobs = admin.get(&of_bob).await.expect_ok();
    assert_eq!(bobs.as_array().expect("a list").len(), 1);
    assert_eq!(second.get(&of_bob).await.refused(403), "FORBIDDEN");

    let path = |session: &Value| format!("/api/auth/sessions/{}", text(session, "id"));
    assert_eq!(second.delete(&path(&bobs[0])).await.refused(404), "NOT_FOUND");
    bob.client.get("/api/tasks").await.expect_ok();
    second.delete(&path(&own[1])).await.expect_ok();
    assert_eq!(ada.client.get("/api/tasks").await.refused(401), "INVALID_TOKEN");
    let stream = Stream::open(&bob.client).await;
    admin.delete(&path(&bobs[0])).await.expect_ok();
    in_time("the stream", stream.end()).await;
    assert_eq!(bob.client.get("/api/tasks").await.refused(401), "INVALID_TOKEN");
    assert_eq!(admin.delete(&path(&bobs[0])).await.refused(404), "NOT_FOUND");

    // One, or all.
    let third = login(&server, &ada.email, SECRET).await.expect_ok();
    let third = Client::new(&server.url, text(&third, "token"));
    let ended = third.post("/api/auth/logout", &json!({"all": false})).await.expect_ok();
    assert_eq!(ended["ended"], 1);
    assert_eq!(third.get("/api/tasks").await.refused(401), "INVALID_TOKEN");
    let fourth = login(&server, &ada.email, SECRET).await.expect_ok();
    let fourth = Client::new(&server.url, text(&fourth, "token"));
    let ended = fourth.post("/api/auth/logout", &json!({"all": true})).await.expect_ok();
    assert_eq!(ended["ended"], 2);
    assert_eq!(second.get("/api/tasks").await.refused(401), "INVALID_TOKEN");
    let key = Client::new(&server.url, &server.key("operator").await);
    assert_eq!(key.post_raw("/api/auth/logout", "").await.refused(403), "FORBIDDEN");
    assert_eq!(key.get("/api/auth/sessions").await.refused(403), "FORBIDDEN");
}

#[tokio::test]
async fn an_author_is_an_account_and_not_a_name() {
    let server = Server::start();
    let admin = server.admin().await;
    let template = |version: &str| {
        json!({
            "name": "Mine", "version": version, "industry": "custom", "visibility": "private",
            "inputSchema": {"type": "object"}, "steps": [{"id": "a", "prompt": "p"}],
        })
    };
    let named = json!({"name": "ci", "role": "operator"});
    let [author, impostor] = [key(&admin, &named).await, key(&admin, &named).await]
        .map(|key| Client::new(&server.url, text(&key, "key")));
    author.post("/api/templates", &template("1.0.0")).await.expect(201);
    assert_eq!(impostor.get("/api/templates/mine-v1").await.refused(404), "NOT_FOUND");
    let refused = impostor.post("/api/templates", &template("1.1.0")).await;
    assert_eq!(refused.refused(409), "VERSION_EXISTS");
    // A version by an admin changes neither the author nor who may see it.
    let added = admin.post("/api/templates", &template("1.2.0")).await.expect(201);
    assert_eq!(text(&added, "author"), "key:ci");
    let seen = author.get("/api/templates/mine-v1").await.expect_ok();
    assert_eq!(text(&seen, "version"), "1.2.0");
    assert_eq!(impostor.get("/api/templates/mine-v1").await.refused(404), "NOT_FOUND");
    author.post("/api/templates", &template("1.3.0")).await.expect(201);
}

#[tokio::test]
async fn every_answer_with_a_token_or_a_key_is_kept_out_of_caches() {
    let server = Server::start();
    let admin = server.admin().await;
    let login = login(&server, ADMIN, PASSWORD).await;
    let refresh = json!({"refreshToken": login.body["data"]["refreshToken"]});
    let key = json!({"name": "k", "role": "viewer"});
    let refreshed = admin.post("/api/auth/refresh", &refresh).await;
    for answer in [login, refreshed, admin.post("/api/auth/keys", &key).await] {
        assert!(answer.status.is_success());
        assert_eq!(answer.headers["cache-control"], "no-store");
    }
}

#[tokio::test]
async fn the_log_tells_who_did_what_from_where_and_its_chain_holds() {
    let mut server = Server::start();
    let admin = server.admin().await;
    login(&server, ADMIN, "not the password").await.refused(401);
    login(&server, "nobody@example.com", "not the password").await.refused(401);
    let ada = user(&server, &admin, "operator").await;
    let made = key(&admin, &json!({"name": "k", "role": "viewer"})).await;
    admin.delete(&format!("/api/auth/keys/{}", text(&made, "id"))).await.expect_ok();
    let task = ada.client.submit(&json!({"prompt": "p"})).await;
    ada.client.delete(&format!("/api/tasks/{task}")).await.expect_ok();
    patch(&admin, &ada.id, &json!({"role": "viewer"})).await.expect_ok();
    assert_eq!(ada.client.get("/api/audit").await.refused(403), "FORBIDDEN");
    server.kill();
    server.restart();

    let admin = admin.at(&server.url);
    let page = admin.get("/api/audit?limit=100").await;
    let mut entries = page.body["data"].as_array().expect("a list").clone();
    assert_eq!(page.body["pagination"]["total"], entries.len());
    entries.reverse();
    let actions: Vec<_> = entries.iter().map(|entry| text(entry, "action")).collect();
    let expected = [
        "user.created",
        "server.started",
        "auth.signed_in",
        "auth.sign_in_refused",
        "auth.sign_in_refused",
        "user.created",
        "auth.signed_in",
        "key.created",
        "key.revoked",
        "task.cancelled",
        "user.changed",
        "server.started",
    ];
    assert_eq!(actions, expected);
    let refused = &entries[4];
    assert_eq!((text(refused, "actor"), text(refused, "address")), ("anonymous", "127.0.0.1"));
    assert_eq!(text(&refused["details"], "email"), "nobody@example.com");
    let cancelled = &entries[9];
    assert_eq!((text(cancelled, "actor"), text(cancelled, "target")), (&*ada.id, &*task));
    let changed = &entries[10]["details"];
    assert_eq!((text(changed, "role"), text(changed, "previousRole")), ("viewer", "operator"));
    assert_eq!(text(&entries[1]["details"], "audit.keep"), "365d");
    let mut previous = "0".repeat(64);
    for entry in &entries {
        assert_eq!(text(entry, "previousHash"), previous);
        previous = text(entry, "hash").to_owned();
    }
    let whole = json!(entries).to_string();
    for secret in [PASSWORD, SECRET, "not the password", "svc_live_", "svc_refresh_"] {
        assert!(!whole.contains(secret), "{secret}");
    }

    let total = async |query: &str| {
        let page = admin.get(&format!("/api/audit?{query}")).await;
        page.body["pagination"]["total"].as_u64()
    };
    assert_eq!(total("action=key.created,key.revoked").await, Some(2));
    assert_eq!(total(&format!("actor={}", ada.id)).await, Some(2));
    assert_eq!(total("actor=anonymous&action=user.created").await, Some(0));
    let at = text(&entries[7], "at");
    let (since, until) = (total(&format!("since={at}")).await, total(&format!("until={at}")).await);
    assert_eq!(since.zip(until).map(|(since, until)| since + until), Some(12));
    let unknown = admin.get("/api/audit?action=nonsense").await;
    assert_eq!(unknown.fault(), ("action".into(), "enum".into()));
}
