//! Signing in, keys, users, workers and the doctor, against the real server.

use serde_json::{Value, json};

use super::fake::{Fake, Told};
use super::program::{Home, mode};
use crate::support::{ADMIN, Client, FakeWorker, PASSWORD, Server};

fn stored(home: &Home, server: &Server) -> Value {
    let text = std::fs::read_to_string(home.credentials()).expect("a stored login");
    let logins: Value = serde_json::from_str(&text).expect("JSON");
    logins["logins"][&server.url].clone()
}

fn store(home: &Home, server: &Server, change: impl FnOnce(&mut Value)) {
    let text = std::fs::read_to_string(home.credentials()).expect("a stored login");
    let mut logins: Value = serde_json::from_str(&text).expect("JSON");
    change(&mut logins["logins"][&server.url]);
    std::fs::write(home.credentials(), logins.to_string()).expect("it is written");
}

#[tokio::test]
async fn a_login_is_kept_for_its_owner_alone_and_used_from_then_on() {
    let server = Server::start();
    let home = Home::new(&server.url);
    let wrong = home.run_with_input(&["auth", "login", "--email", ADMIN], "wrong").await;
    assert!(wrong.failed(4).contains("wrong"));
    assert!(!home.credentials().exists());
    home.run(&["auth", "login", "--email", ADMIN]).await.failed(2);

    let ended = home.run_with_input(&["auth", "login", "--email", ADMIN], PASSWORD).await;
    assert!(!format!("{ended:?}").contains(PASSWORD));
    let shown = ended.ok();
    let login = stored(&home, &server);
    assert_eq!(login["email"], ADMIN);
    for secret in ["token", "refreshToken"] {
        assert!(!shown.contains(login[secret].as_str().expect("text")), "{secret} is shown");
    }
    assert_eq!(mode(&home.credentials()), 0o600);
    assert_eq!(mode(home.credentials().parent().expect("a directory")), 0o700);
    // The server of the last login is the usual one.
    let anywhere =
        home.command(&["auth", "status", "-o", "json"]).env_remove("CALLBOARD_SERVER").output();
    let status: Value =
        serde_json::from_slice(&anywhere.await.expect("it runs").stdout).expect("JSON");
    assert_eq!(status["server"], server.url);
    assert_eq!((&status["role"], &status["accepted"]), (&json!("admin"), &json!(true)));

    let link = home.run(&["auth", "link"]).await.ok();
    assert!(link.contains(&format!("{}/sign-in#link=", server.url)), "{link}");
    home.run(&["auth", "logout"]).await.ok();
    home.run(&["auth", "status"]).await.failed(4);
    let text = std::fs::read_to_string(home.credentials()).expect("the file stays");
    assert!(!text.contains("svc_refresh_"), "{text}");
}

#[tokio::test]
async fn a_token_that_was_refused_or_is_about_to_end_is_renewed_once_for_all_processes() {
    let server = Server::start();
    let home = Home::new(&server.url).signed_in().await;
    let first = stored(&home, &server);
    home.run(&["users", "list"]).await.ok();
    assert_eq!(stored(&home, &server), first, "it is not renewed without need");

    store(&home, &server, |login| login["token"] = "stale".into());
    home.run(&["users", "list"]).await.ok();
    let second = stored(&home, &server);
    assert_ne!(second["refreshToken"], first["refreshToken"]);
    assert_eq!(mode(&home.credentials()), 0o600);

    store(&home, &server, |login| login["expiresAt"] = "2026-01-01T00:00:00.000Z".into());
    let runs = std::iter::repeat_with(|| home.run(&["users", "list"])).take(6);
    for ended in futures_util::future::join_all(runs).await {
        ended.ok();
    }
    let third = stored(&home, &server);
    assert_ne!(third["refreshToken"], second["refreshToken"]);

    store(&home, &server, |login| {
        login["token"] = "stale".into();
        login["refreshToken"] = "svc_refresh_nonsense".into();
    });
    let ended = home.run(&["users", "list"]).await.failed(4);
    assert!(ended.contains("auth login"), "{ended}");
    assert!(!ended.contains("svc_refresh_"), "{ended}");
}

#[tokio::test]
async fn of_many_processes_one_renews_the_login_and_the_others_use_what_it_got() {
    let session = |token: &str, year: u32| {
        json!({
            "token": token, "refreshToken": format!("svc_refresh_{token}"),
            "expiresAt": format!("{year}-01-01T00:00:00.000Z"),
            "user": {"email": ADMIN, "role": "admin"},
        })
    };
    let fake = Fake::start(move |asked, before| match (asked.line.as_str(), before) {
        ("POST /api/auth/login", _) => Told::Data(session("old", 2020)),
        ("POST /api/auth/refresh", 0) => Told::Data(session("new", 2999)),
        ("POST /api/auth/refresh", _) => Told::Refused(401, "INVALID_TOKEN"),
        _ if asked.header("authorization") == Some("Bearer new") => Told::Page(Vec::new()),
        _ => Told::Refused(401, "TOKEN_EXPIRED"),
    })
    .await;
    let home = Home::new(&fake.url).signed_in().await;
    let runs = std::iter::repeat_with(|| home.run(&["users", "list"])).take(8);
    for ended in futures_util::future::join_all(runs).await {
        ended.ok();
    }
    let refresh = fake.asked_for("POST /api/auth/refresh").json();
    assert_eq!(refresh, json!({"refreshToken": "svc_refresh_old"}));
}

#[tokio::test]
async fn a_key_is_written_once_and_taken_from_a_file() {
    let server = Server::start();
    let home = Home::new(&server.url).signed_in().await;
    let ended = home.run(&["keys", "create", "--name", "ci", "--role", "operator"]).await;
    assert!(!ended.stderr.contains("svc_live_"), "{ended:?}");
    let key = ended.ok();
    assert!(key.starts_with("svc_live_") && key.lines().count() == 1, "{key}");

    let fresh = Home::new(&server.url);
    let file = fresh.file("ci.key", &key);
    fresh.run(&["tasks", "list", "--api-key-file", &file]).await.ok();
    let by_variable = Home::new(&server.url).with("CALLBOARD_API_KEY_FILE", &file);
    by_variable.run(&["tasks", "list"]).await.ok();
    fresh
        .run(&["keys", "create", "--name", "x", "--role", "viewer", "--api-key-file", &file])
        .await
        .failed(4);
    let missing = fresh.run(&["tasks", "list", "--api-key-file", "/nowhere"]).await.failed(1);
    assert!(missing.contains("/nowhere"), "{missing}");
}

#[tokio::test]
async fn no_command_takes_a_secret_as_a_value_of_a_flag() {
    let home = Home::new("http://127.0.0.1:9");
    for command in [&["auth", "login"][..], &["users", "create"], &["tasks", "list"]] {
        let help = home.run(&[command, &["--help"]].concat()).await.ok();
        for flag in ["--password", "--api-key ", "--token ", "--key "] {
            assert!(!help.contains(flag), "{command:?} has {flag}");
        }
    }
    let told = home.run(&["tasks", "list", "--server", "http://me:hunter2@h"]).await.failed(2);
    assert!(!told.contains("hunter2"), "{told}");
}

#[tokio::test]
async fn users_are_made_and_given_another_role() {
    let server = Server::start();
    let home = Home::new(&server.url).signed_in().await;
    // The e-mail stands as in every other command on users.
    let create = ["users", "create", "v@example.com", "--role", "viewer", "-o", "json"];
    home.run(&["users", "create", "--role", "viewer"]).await.failed(2);
    let made = home.run_with_input(&create, "a long enough secret 1").await.ok();
    let user: Value = serde_json::from_str(&made).expect("JSON");
    let id = user["id"].as_str().expect("an id");
    let changed = home.json(&["users", "set-role", id, "operator"]).await;
    assert_eq!(changed["role"], "operator");
    home.run_with_input(&create, "a long enough secret 1").await.failed(6);
    let table = home.run(&["users", "list"]).await.ok();
    assert!(table.contains("v@example.com") && table.starts_with("ID "), "{table}");
    home.run(&["users", "set-role", "usr_1", "operator"]).await.failed(3);
    assert_eq!(home.json(&["users", "must-change", id]).await["passwordChangeRequired"], true);
}

#[tokio::test]
async fn people_are_invited_by_a_link_that_can_be_revoked() {
    let server = Server::start();
    let home = Home::new(&server.url).signed_in().await;
    let invite = ["users", "invite", "--role", "reviewer", "--email", "ann@example.com"];
    let told = home.run(&invite).await.ok();
    assert!(told.contains("/sign-in#invite=svc_invite_"), "{told}");
    let made = home.json(&["users", "invite", "--role", "viewer", "--expires-in", "1d"]).await;
    let table = home.run(&["users", "invitations"]).await.ok();
    assert!(table.contains("ann@example.com") && !table.contains("svc_invite_"), "{table}");
    let id = made["id"].as_str().expect("an id");
    home.run(&["users", "uninvite", id]).await.ok();
    home.run(&["users", "uninvite", id]).await.failed(3);
    home.run(&["users", "invite", "--role", "boss"]).await.failed(5);
}

#[tokio::test]
async fn the_doctor_says_what_to_do() {
    let server = Server::start();
    let home = Home::new(&server.url);
    let nobody = home.run(&["doctor"]).await;
    assert!(nobody.stdout.contains("no worker is connected"), "{nobody:?}");
    assert!(nobody.stdout.contains("callboard auth login"), "{nobody:?}");
    nobody.failed(4);

    let home = home.signed_in().await;
    let worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let findings = home.json(&["doctor"]).await;
    let findings = findings.as_array().expect("a list");
    let is_fine = |finding: &Value| match finding["check"].as_str() {
        Some("provider") => finding["state"] == "skip",
        // Nobody has backed it up.
        Some("backup") => finding["state"] == "warn",
        _ => finding["state"] == "ok",
    };
    assert!(findings.iter().all(is_fine), "{findings:#?}");
    let away = home.run(&["doctor", "--base-url", "http://127.0.0.1:9/v1"]).await;
    assert!(away.stdout.contains("fail  provider"), "{away:?}");
    assert!(away.stdout.contains("start the provider"), "{away:?}");
    away.failed(1);

    assert_eq!(home.json(&["workers", "list"]).await["data"][0]["id"], worker.id);
    assert_eq!(home.json(&["workers", "drain", &worker.id]).await["status"], "draining");

    let closed = Home::new("http://127.0.0.1:9").run(&["doctor"]).await;
    assert!(closed.stdout.contains("callboard serve"), "{closed:?}");
    closed.failed(9);
}

#[tokio::test]
async fn keys_are_listed_rotated_and_revoked() {
    let server = Server::start();
    let home = Home::new(&server.url).signed_in().await;
    let create = ["keys", "create", "--name", "ci", "--role", "operator"];
    let old = home.run(&create).await.ok().trim().to_owned();
    let id =
        home.json(&["keys", "list"]).await["data"][0]["id"].as_str().expect("an id").to_owned();
    let rotated = home.run(&["keys", "rotate", &id, "--overlap", "1h"]).await;
    assert!(!rotated.stderr.contains("svc_live_"), "{rotated:?}");
    let new = rotated.ok().trim().to_owned();
    for key in [&old, &new] {
        Home::new(&server.url).with_key(key).run(&["tasks", "list"]).await.ok();
    }
    home.run(&["keys", "rotate", &id]).await.failed(6);
    assert_eq!(home.json(&["keys", "revoke", &id]).await["status"], "revoked");
    Home::new(&server.url).with_key(&old).run(&["tasks", "list"]).await.failed(4);
    let table = home.run(&["keys", "list"]).await.ok();
    assert!(table.contains("revoked") && table.contains("active"), "{table}");
    assert!(!table.contains(&new), "{table}");
    home.run(&["keys", "revoke", "key_1"]).await.failed(3);
}

#[tokio::test]
async fn users_get_passwords_and_are_deleted_and_sessions_are_ended() {
    let server = Server::start();
    let home = Home::new(&server.url).signed_in().await;
    let create = ["users", "create", "--email", "v@example.com", "--role", "viewer", "-o", "json"];
    let made = home.run_with_input(&create, "a long enough secret 1").await.ok();
    let user: Value = serde_json::from_str(&made).expect("JSON");
    let id = user["id"].as_str().expect("an id");
    let set = home.run_with_input(&["users", "password", id], "a long enough secret 2").await.ok();
    assert!(set.contains("passwordChangeRequired"), "{set}");

    let theirs = Home::new(&server.url)
        .with("CALLBOARD_PASSWORD", "a long enough secret 2")
        .with("CALLBOARD_NEW_PASSWORD", "a long enough secret 3");
    theirs.run(&["auth", "login", "--email", "v@example.com"]).await.ok();
    let refused = theirs.run(&["tasks", "list"]).await.failed(4);
    assert!(refused.contains("password must be changed"), "{refused}");
    theirs.run(&["auth", "password"]).await.ok();
    theirs.run(&["tasks", "list"]).await.ok();

    let sessions = home.json(&["sessions", "list", "--user", id]).await;
    let session = sessions["data"][0]["id"].as_str().expect("an id");
    home.run(&["sessions", "end", session]).await.ok();
    theirs.run(&["tasks", "list"]).await.failed(4);
    home.run(&["users", "delete", id]).await.ok();
    home.run(&["users", "delete", id]).await.failed(3);
}

#[tokio::test]
async fn a_logout_ends_the_session_at_the_server_too() {
    let server = Server::start();
    let home = Home::new(&server.url).signed_in().await;
    let other = Home::new(&server.url).signed_in().await;
    let login = stored(&home, &server);
    home.run(&["auth", "logout"]).await.ok();
    let client = Client::new(&server.url, login["token"].as_str().expect("text"));
    assert_eq!(client.get("/api/tasks").await.refused(401), "INVALID_TOKEN");
    other.run(&["tasks", "list"]).await.ok();
    let third = Home::new(&server.url).signed_in().await;
    third.run(&["auth", "logout", "--all"]).await.ok();
    other.run(&["tasks", "list"]).await.failed(4);
    assert_eq!(mode(&home.credentials()), 0o600);
}

#[tokio::test]
async fn the_audit_log_is_listed_and_verified() {
    let server = Server::start();
    let home = Home::new(&server.url).signed_in().await;
    for number in 0..60 {
        let name = format!("k{number}");
        let admin = server.admin().await;
        let key = json!({"name": name, "role": "viewer"});
        admin.post("/api/auth/keys", &key).await.expect(201);
    }
    let found = home.json(&["audit", "verify"]).await;
    assert_eq!((&found["result"], &found["first"]), (&json!("ok"), &json!(1)));
    assert!(found["entries"].as_u64().is_some_and(|entries| entries > 120), "{found:#}");
    let list = ["audit", "list", "--action", "key.created", "--limit", "1"];
    let listed = home.json(&list).await;
    assert_eq!(listed["pagination"]["total"], 60);
    assert_eq!(listed["data"][0]["details"]["name"], "k59");
    let table = home.run(&["audit", "list"]).await.ok();
    assert!(table.contains("key.created"), "{table}");
}
