//! Every command of the page "Credentials leaked", in its order.

use serde_json::{Value, json};

use super::program::Home;
use crate::support::{Client, Server};

/// The commands of the page, with these words in place of the examples.
fn commands(page: &str, words: &[(&str, &str)]) -> Vec<Vec<String>> {
    let lines = page.lines().filter_map(|line| line.strip_prefix("    callboard "));
    let read = |line: &str| {
        let line =
            words.iter().fold(line.to_owned(), |line, (name, word)| line.replace(name, word));
        shlex::split(&line).expect("a command")
    };
    lines.map(read).collect()
}

async fn key(client: &Client, name: &str, role: &str) -> (String, Client) {
    let made =
        client.post("/api/auth/keys", &json!({"name": name, "role": role})).await.expect(201);
    let text = |name: &str| made[name].as_str().expect("a text").to_owned();
    (text("id"), Client::new(&client.url, &text("key")))
}

async fn totals(client: &Client, body: &Value) -> (u64, Vec<String>) {
    let found = client.post("/api/auth/keys/revoke", body).await.expect_ok();
    let keys = found["keys"].as_array().expect("a list");
    let names = keys.iter().map(|key| key["name"].as_str().expect("a text").to_owned());
    (found["total"].as_u64().expect("a number"), names.collect())
}

#[tokio::test]
async fn the_steps_after_a_leak_stop_the_key_and_all_that_it_made() {
    let page = include_str!("../../../docs/how-to/leaked-credentials.md");
    let server = Server::start();
    let admin = server.admin().await;
    let user =
        json!({"email": "ann@example.com", "role": "operator", "password": "a long enough secret"});
    admin.post("/api/auth/users", &user).await.expect(201);
    let (leaked, thief) = key(&admin, "leaked", "admin").await;
    let (_, made) = key(&thief, "made by the thief", "operator").await;
    let (_, innocent) = key(&admin, "innocent", "operator").await;
    let home = Home::new(&server.url).signed_in().await;
    let words = [("KEY", leaked.as_str()), ("USER", "ann@example.com")];
    let mut ran = 0;
    for command in commands(page, &words) {
        let command: Vec<_> = command.iter().map(String::as_str).collect();
        if command[..2] == ["pause", "--all"] {
            assert_eq!(thief.get("/api/auth/keys").await.status, 200);
        }
        let printed = home.run(&command).await.ok();
        ran += 1;
        match command[..] {
            ["keys", "revoke", _, _, "--dry-run"] => {
                assert!(printed.contains("2 keys would be revoked"), "{printed}");
                assert_eq!(made.get("/api/tasks").await.status, 200, "nothing is done yet");
            }
            ["keys", "revoke", ..] => {
                assert!(printed.contains("2 keys were revoked"), "{printed}");
                for gone in [&thief, &made] {
                    assert_eq!(gone.get("/api/tasks").await.status, 401);
                }
                assert_eq!(innocent.get("/api/tasks").await.status, 200);
            }
            ["auth", "rotate-signing-key", ..] => {
                assert_eq!(admin.get("/api/auth/keys").await.status, 401, "the session is over");
                let again = ["auth", "login", "--email", crate::support::ADMIN];
                home.run_with_input(&again, crate::support::PASSWORD).await.ok();
                home.keep_logins();
            }
            ["audit", "list", "--actor", ..] => {
                assert!(printed.contains("key.created"), "{printed}");
            }
            _ => {}
        }
    }
    assert!(ran >= 12, "{ran} commands");
}

#[tokio::test]
async fn keys_are_selected_by_maker_user_and_age_and_the_own_one_stays() {
    let server = Server::start();
    let admin = server.admin().await;
    let (own_id, own) = key(&admin, "own", "admin").await;
    let (child, _) = key(&own, "child", "viewer").await;
    let me = admin.get("/api/auth/session").await.expect_ok();
    let me = me["user"]["id"].as_str().expect("an id").to_owned();
    assert_eq!(
        admin.post("/api/auth/keys/revoke", &json!({})).await.fault(),
        ("all".into(), "required".into())
    );
    for (wrong, field) in [
        (json!({"all": true, "madeBy": me}), "all"),
        (json!({"madeBy": "ann"}), "madeBy"),
        (json!({"userId": own_id}), "userId"),
    ] {
        assert_eq!(admin.post("/api/auth/keys/revoke", &wrong).await.fault().0, field, "{wrong}");
    }
    let dry = |mut body: Value| {
        body["dryRun"] = json!(true);
        body
    };
    assert_eq!(
        totals(&admin, &dry(json!({"madeBy": own_id}))).await,
        (2, vec!["own".into(), "child".into()])
    );
    assert_eq!(totals(&own, &dry(json!({"userId": me}))).await.0, 1, "the own key is left out");
    assert_eq!(
        totals(&admin, &dry(json!({"userId": me, "before": "2020-01-01T00:00:00Z"}))).await.0,
        0
    );
    let wrong = json!({"all": true, "expect": 7});
    assert_eq!(admin.post("/api/auth/keys/revoke", &wrong).await.refused(409), "INVALID_STATE");
    let operator = server.client("operator").await;
    assert_eq!(operator.post("/api/auth/keys/revoke", &wrong).await.refused(403), "FORBIDDEN");
    let all = own
        .post("/api/auth/keys/revoke", &json!({"all": true, "reason": "drill"}))
        .await
        .expect_ok();
    assert_eq!((&all["kept"], &all["dryRun"]), (&json!(own_id), &json!(false)));
    assert_eq!(own.get("/api/auth/keys").await.status, 200);
    assert_eq!(operator.get("/api/tasks").await.status, 401);
    let audit = admin.get("/api/audit?action=key.revoked&limit=100").await.expect_ok();
    let of_child = audit.as_array().expect("a list").iter().find(|it| it["target"] == json!(child));
    assert_eq!(of_child.expect("an entry")["details"]["reason"], "drill");
}
