//! Sessions from outside: signed in, gone on with, ended.

use callboard_domain::credential::ENTROPY_BYTES;
use callboard_domain::credential::refresh::RefreshToken;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{ADMIN, Answer, Client, PASSWORD, Server};

const REFRESH: &str = "/api/auth/refresh";

async fn login(server: &Server) -> Value {
    let login = json!({"email": ADMIN, "password": PASSWORD});
    Client::new(&server.url, "").post("/api/auth/login", &login).await.expect_ok()
}

async fn refresh(server: &Server, token: &Value) -> Answer {
    Client::new(&server.url, "").post(REFRESH, &json!({"refreshToken": token})).await
}

/// A client with the access token of a session.
fn signed_in(server: &Server, session: &Value) -> Client {
    Client::new(&server.url, session["token"].as_str().expect("a token"))
}

fn entropy() -> [u8; ENTROPY_BYTES] {
    std::array::from_fn(|_| rand::random())
}

#[tokio::test]
async fn a_refresh_answers_as_the_login_did_with_other_tokens() {
    let server = Server::start();
    let first = login(&server).await;
    assert!(first["refreshToken"].as_str().expect("text").starts_with("svc_refresh_"));
    let second = refresh(&server, &first["refreshToken"]).await.expect_ok();
    let names = |session: &Value| -> Vec<_> {
        session.as_object().expect("an object").keys().cloned().collect()
    };
    assert_eq!(names(&second), names(&first));
    assert_eq!(names(&first), ["token", "refreshToken", "expiresAt", "user"]);
    assert_eq!(second["user"], first["user"]);
    assert_ne!(second["token"], first["token"]);
    assert_ne!(second["refreshToken"], first["refreshToken"]);
    for session in [&first, &second] {
        signed_in(&server, session).get("/api/auth/users").await.expect_ok();
    }
    // A refresh token is no access token, and the other way round.
    let confused = Client::new(&server.url, second["refreshToken"].as_str().expect("text"));
    assert_eq!(confused.get("/api/tasks").await.refused(401), "INVALID_TOKEN");
    assert_eq!(refresh(&server, &second["token"]).await.refused(401), "INVALID_TOKEN");
}

#[tokio::test]
async fn a_token_just_replaced_is_refused_and_the_session_goes_on() {
    let server = Server::start();
    let first = login(&server).await;
    let second = refresh(&server, &first["refreshToken"]).await.expect_ok();
    let again = refresh(&server, &first["refreshToken"]).await;
    assert_eq!(again.headers["www-authenticate"], "Bearer");
    assert_eq!(again.refused(401), "INVALID_TOKEN");
    signed_in(&server, &first).get("/api/tasks").await.expect_ok();
    refresh(&server, &second["refreshToken"]).await.expect_ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_refreshes_at_once_exactly_one_wins() {
    let server = Server::start();
    let mut session = login(&server).await;
    for _ in 0..5 {
        let body = json!({"refreshToken": session["refreshToken"]});
        let racers: Vec<_> = (0..8)
            .map(|_| {
                let (client, body) = (Client::new(&server.url, ""), body.clone());
                tokio::spawn(async move { client.post(REFRESH, &body).await })
            })
            .collect();
        let mut winners = Vec::new();
        for racer in racers {
            let answer = racer.await.expect("an answer");
            if answer.status == 200 {
                winners.push(answer.expect_ok());
            } else {
                assert_eq!(answer.refused(401), "INVALID_TOKEN");
            }
        }
        assert_eq!(winners.len(), 1);
        session = winners.remove(0);
    }
    signed_in(&server, &session).get("/api/tasks").await.expect_ok();
}

#[tokio::test]
async fn a_revoked_session_is_over_at_once_and_no_other_is() {
    let mut server = Server::start();
    let (session, other) = (login(&server).await, login(&server).await);
    // A token of the family that is not the current one, as a thief's is after ten seconds.
    let token = RefreshToken::parse(session["refreshToken"].as_str().expect("text"));
    let stolen = token.expect("well formed").rotated(&entropy()).expect("enough randomness");
    assert_eq!(refresh(&server, &json!(stolen.expose())).await.refused(401), "INVALID_TOKEN");
    for _ in 0..2 {
        let access = signed_in(&server, &session).get("/api/tasks").await;
        assert_eq!(access.refused(401), "INVALID_TOKEN");
        assert_eq!(refresh(&server, &session["refreshToken"]).await.refused(401), "INVALID_TOKEN");
        signed_in(&server, &other).get("/api/tasks").await.expect_ok();
        server.kill();
        server.restart();
    }
    refresh(&server, &other["refreshToken"]).await.expect_ok();
}

#[tokio::test]
async fn what_a_refresh_told_survives_a_kill() {
    let mut server = Server::start();
    let mut session = login(&server).await;
    for _ in 0..3 {
        let next = refresh(&server, &session["refreshToken"]).await.expect_ok();
        server.kill();
        server.restart();
        assert_eq!(refresh(&server, &session["refreshToken"]).await.refused(401), "INVALID_TOKEN");
        signed_in(&server, &next).get("/api/tasks").await.expect_ok();
        session = next;
    }
    refresh(&server, &session["refreshToken"]).await.expect_ok();
}

#[tokio::test]
async fn role_and_user_are_read_at_the_refresh() {
    let server = Server::start();
    let admin = server.admin().await;
    let (email, password) = ("ada@example.com", "lovelace-engine-1843");
    let user = json!({"email": email, "password": password, "name": "Ada", "role": "viewer"});
    let made = admin.post("/api/auth/users", &user).await.expect(201);
    let credentials = json!({"email": email, "password": password});
    let session = admin.post("/api/auth/login", &credentials).await.expect_ok();
    let ada = format!("/api/auth/users/{}", made["id"].as_str().expect("an id"));
    let patch = admin.request(Method::PATCH, &ada).json(&json!({"role": "operator"}));
    admin.send(patch).await.expect_ok();
    let renewed = refresh(&server, &session["refreshToken"]).await.expect_ok();
    assert_eq!(renewed["user"]["role"], "operator");
    signed_in(&server, &renewed).submit(&json!({"prompt": "p"})).await;
}

#[tokio::test]
async fn a_refresh_ignores_credentials_and_counts_for_the_address() {
    let server = Server::with(&[("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "4")]);
    let session = login(&server).await;
    let nonsense = Client::new(&server.url, "nonsense");
    let renewed = nonsense.post(REFRESH, &json!({"refreshToken": session["refreshToken"]})).await;
    assert_eq!(renewed.headers["x-ratelimit-remaining"], "2");
    let renewed = renewed.expect_ok();
    for _ in 0..2 {
        refresh(&server, &json!("nonsense")).await.refused(401);
    }
    let refused = refresh(&server, &renewed["refreshToken"]).await;
    assert_eq!(refused.refused(429), "RATE_LIMIT_EXCEEDED");
    assert!(refused.headers.contains_key("retry-after"));
    // The session's own requests are counted for its user.
    signed_in(&server, &renewed).get("/api/tasks").await.expect_ok();
}

#[tokio::test]
async fn every_broken_body_of_a_refresh_is_named_with_its_rule() {
    let server = Server::start();
    let anybody = Client::new(&server.url, "");
    for (body, field, rule) in [
        (json!({}), "refreshToken", "required"),
        (json!({"refreshToken": null}), "refreshToken", "required"),
        (json!({"refreshToken": ""}), "refreshToken", "length"),
        (json!({"refreshToken": "x".repeat(1025)}), "refreshToken", "length"),
        (json!({"refreshToken": 5}), "refreshToken", "type"),
        (json!({"refreshToken": ["x"]}), "refreshToken", "type"),
        (json!({"refreshToken": "x", "surprise": 1}), "surprise", "unknown"),
        (json!([]), "body", "type"),
    ] {
        let fault = anybody.post(REFRESH, &body).await.fault();
        assert_eq!(fault, (field.into(), rule.into()), "{body}");
    }
    assert_eq!(anybody.post_raw(REFRESH, "{").await.refused(400), "INVALID_JSON");
}

#[tokio::test]
async fn a_thousand_bad_tokens_are_refused_and_end_nothing() {
    let server = Server::with(&[("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "1000000")]);
    let session = login(&server).await;
    let real = session["refreshToken"].as_str().expect("text");
    let anybody = Client::new(&server.url, "");
    for number in 0..1_000_usize {
        let fresh = RefreshToken::new_family(&entropy()).expect("enough randomness");
        let text = match number % 5 {
            // Well formed, and never made.
            0 | 1 => fresh.expose().to_owned(),
            // The real one with a character changed, whose checksum is wrong.
            2 => {
                let place = number / 5 % real.len();
                let other = if real.as_bytes()[place] == b'~' { "x" } else { "~" };
                format!("{}{other}{}", &real[..place], &real[place + 1..])
            }
            3 => fresh.expose()[..number % 50].to_owned(),
            _ => (0..number % 1_100).map(|_| rand::random::<char>()).collect(),
        };
        let answer = anybody.post(REFRESH, &json!({"refreshToken": text})).await;
        assert!(matches!(answer.status.as_u16(), 400 | 401), "{text:?}: {answer:?}");
    }
    signed_in(&server, &session).get("/api/tasks").await.expect_ok();
    refresh(&server, &session["refreshToken"]).await.expect_ok();
}
