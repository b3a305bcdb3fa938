//! Invitations, passwords that must be changed, and passwords that were forgotten.

use serde_json::{Value, json};

use super::{OTHER, SECRET, login, patch, text, user};
use crate::mail::Post;
use crate::support::{ADMIN, Client, Server};

const INVITATIONS: &str = "/api/auth/invitations";

async fn accept(server: &Server, token: &str, rest: &Value) -> crate::support::Answer {
    let mut body = json!({"token": token, "password": SECRET});
    body.as_object_mut().expect("an object").extend(rest.as_object().expect("an object").clone());
    Client::new(&server.url, "").post(&format!("{INVITATIONS}/accept"), &body).await
}

#[tokio::test]
async fn an_invited_person_sets_the_own_password_once_even_over_a_kill() {
    let mut server = Server::start();
    let admin = server.admin().await;
    let asked = json!({"email": "ann@example.com", "name": "Ann", "role": "reviewer"});
    let made = admin.post(INVITATIONS, &asked).await.expect(201);
    let (id, token) = (text(&made, "id").to_owned(), text(&made, "token").to_owned());
    assert!(text(&made, "url").ends_with(&format!("/sign-in#invite={token}")));
    server.kill();
    server.restart();
    let admin = admin.at(&server.url);
    let listed = admin.get(INVITATIONS).await.expect_ok();
    assert_eq!((text(&listed[0], "id"), listed[0].get("token")), (&*id, None));

    let nobody = Client::new(&server.url, "");
    let shown = nobody.post(&format!("{INVITATIONS}/preview"), &json!({"token": token})).await;
    let shown = shown.expect_ok();
    assert_eq!((text(&shown, "email"), text(&shown, "role")), ("ann@example.com", "reviewer"));

    let other = accept(&server, &token, &json!({"email": "eve@example.com"})).await;
    assert_eq!(other.fault(), ("email".into(), "enum".into()));
    let weak = json!({"password": "12345678"});
    assert_eq!(accept(&server, &token, &weak).await.refused(400), "WEAK_PASSWORD");
    let session = accept(&server, &token, &json!({})).await.expect(201);
    assert_eq!(
        (text(&session["user"], "name"), text(&session["user"], "role")),
        ("Ann", "reviewer")
    );
    Client::new(&server.url, text(&session, "token")).get("/api/hitl/pending").await.expect_ok();
    login(&server, "ann@example.com", SECRET).await.expect_ok();

    assert_eq!(accept(&server, &token, &json!({})).await.refused(401), "INVALID_TOKEN");
    assert_eq!(admin.get(INVITATIONS).await.expect_ok(), json!([]));
    assert_eq!(admin.post(INVITATIONS, &asked).await.refused(409), "EMAIL_EXISTS");
    let audit = admin.get("/api/audit?action=invitation.created,user.created").await.expect_ok();
    assert_eq!(audit[0]["details"]["invitation"], id);
    assert_eq!(audit[1]["target"], id);
    assert!(!audit.to_string().contains(&token));
}

#[tokio::test]
async fn an_invitation_is_refused_once_revoked_or_its_maker_may_invite_nobody() {
    let server = Server::start();
    let root = server.admin().await;
    let second = user(&server, &root, "admin").await;
    let open = json!({"role": "viewer", "expiresIn": "1d"});
    let by_second = second.client.post(INVITATIONS, &open).await.expect(201);
    let revoked = root.post(INVITATIONS, &open).await.expect(201);
    root.delete(&format!("{INVITATIONS}/{}", text(&revoked, "id"))).await.expect_ok();
    root.delete(&format!("{INVITATIONS}/{}", text(&revoked, "id"))).await.refused(404);
    patch(&root, &second.id, &json!({"role": "operator"})).await.expect_ok();
    let me = json!({"email": "bob@example.com"});
    for made in [&by_second, &revoked] {
        let answer = accept(&server, text(made, "token"), &me).await;
        assert_eq!(answer.refused(401), "INVALID_TOKEN");
    }
    assert_eq!(second.client.post(INVITATIONS, &open).await.refused(403), "FORBIDDEN");
    let long = root.post(INVITATIONS, &json!({"role": "viewer", "expiresIn": "31d"})).await;
    assert_eq!(long.fault(), ("expiresIn".into(), "range".into()));
    let made = root.post(INVITATIONS, &open).await.expect(201);
    let without = accept(&server, text(&made, "token"), &json!({})).await;
    assert_eq!(without.fault(), ("email".into(), "required".into()));
    accept(&server, text(&made, "token"), &me).await.expect(201);
}

#[tokio::test]
async fn an_admin_requires_another_password_at_creation_and_later() {
    let server = Server::start();
    let admin = server.admin().await;
    let body = json!({
        "email": "new@example.com", "password": SECRET, "role": "viewer", "mustChangePassword": true,
    });
    let made = admin.post("/api/auth/users", &body).await.expect(201);
    assert_eq!(made["passwordChangeRequired"], true);
    let ada = user(&server, &admin, "viewer").await;
    patch(&admin, &ada.id, &json!({"mustChangePassword": true})).await.expect_ok();
    let refused = ada.client.get("/api/tasks").await;
    assert_eq!(refused.refused(403), "PASSWORD_CHANGE_REQUIRED");
    let change = json!({"current": SECRET, "new": OTHER});
    ada.client.post("/api/auth/password", &change).await.expect_ok();
    ada.client.get("/api/tasks").await.expect_ok();
}

#[tokio::test]
async fn a_forgotten_password_is_set_by_the_link_of_a_mail_once() {
    let server_of_mail = Post::with(&[]).await;
    let port = server_of_mail.port.to_string();
    let server = Server::with(&[
        ("SMTP__HOST", "127.0.0.1"),
        ("SMTP__PORT", &port),
        ("SMTP__FROM", "callboard@example.com"),
        ("SMTP__TLS", "none"),
        ("SERVER__PUBLIC_URL", "https://board.example"),
    ]);
    let admin = server.admin().await;
    let nobody = Client::new(&server.url, "");
    let ada = user(&server, &admin, "viewer").await;
    let forgotten = "/api/auth/password/forgotten";
    let unknown = nobody.post(forgotten, &json!({"email": "nobody@example.com"})).await;
    let known = nobody.post(forgotten, &json!({"email": ada.email})).await;
    assert_eq!((known.status, &known.body["data"]), (unknown.status, &unknown.body["data"]));
    known.expect_ok();
    let mails = server_of_mail.first_mails().await;
    assert_eq!(mails.len(), 1, "{mails:?}");
    let token = token_in(&mails[0].to_string(), "https://board.example/sign-in#reset=");

    let reset = "/api/auth/password/reset";
    let shown = nobody.post(&format!("{reset}/preview"), &json!({"token": token})).await;
    assert_eq!(shown.expect_ok()["email"], ada.email);
    let with = |password: &str| json!({"token": token, "password": password});
    assert_eq!(nobody.post(reset, &with("12345678")).await.refused(400), "WEAK_PASSWORD");
    let session = nobody.post(reset, &with(OTHER)).await.expect_ok();
    Client::new(&server.url, text(&session, "token")).get("/api/tasks").await.expect_ok();
    assert_eq!(ada.client.get("/api/tasks").await.refused(401), "INVALID_TOKEN");
    assert_eq!(login(&server, &ada.email, SECRET).await.refused(401), "INVALID_CREDENTIALS");
    assert_eq!(nobody.post(reset, &with(SECRET)).await.refused(401), "INVALID_TOKEN");
    let audit = admin.get("/api/audit?action=auth.password_forgotten,auth.password_reset").await;
    let targets: Vec<_> = audit
        .expect_ok()
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| it["target"].clone())
        .collect();
    assert_eq!(targets, [json!(ada.id), json!(ada.id)]);

    // An address that asks too often is told, whoever it asks for.
    for _ in 0..3 {
        nobody.post(forgotten, &json!({"email": ADMIN})).await.expect_ok();
    }
    let refused = nobody.post(forgotten, &json!({"email": ADMIN})).await;
    assert_eq!(refused.refused(429), "RATE_LIMIT_EXCEEDED");
}

/// The token behind `before` in a mail.
fn token_in(mail: &str, before: &str) -> String {
    // Lines as long as the link are quoted-printable.
    let mail = mail.replace("=\\r\\n", "").replace("=\\n", "").replace("=3D", "=");
    let (_, link) = mail.split_once(before).expect("a link");
    link.chars().take_while(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect()
}

#[tokio::test]
async fn an_invitation_to_an_address_goes_there_by_mail() {
    let server_of_mail = Post::with(&[]).await;
    let port = server_of_mail.port.to_string();
    let server = Server::with(&[
        ("SMTP__HOST", "127.0.0.1"),
        ("SMTP__PORT", &port),
        ("SMTP__FROM", "callboard@example.com"),
        ("SMTP__TLS", "none"),
        ("SERVER__PUBLIC_URL", "https://board.example"),
    ]);
    let admin = server.admin().await;
    let open = admin.post(INVITATIONS, &json!({"role": "viewer"})).await.expect(201);
    assert_eq!(open["mailed"], false);
    let asked = json!({"email": "ann@example.com", "role": "reviewer"});
    let made = admin.post(INVITATIONS, &asked).await.expect(201);
    assert_eq!(made["mailed"], true);
    let mails = server_of_mail.first_mails().await;
    assert_eq!(mails.len(), 1, "{mails:?}");
    let token = token_in(&mails[0].to_string(), "https://board.example/sign-in#invite=");
    assert_eq!(token, text(&made, "token"));
    let session = accept(&server, &token, &json!({})).await.expect(201);
    assert_eq!(text(&session["user"], "role"), "reviewer");
}

#[tokio::test]
async fn a_server_without_mail_says_whom_to_ask() {
    let server = Server::start();
    let nobody = Client::new(&server.url, "");
    let body = json!({"email": ADMIN});
    let answer = nobody.post("/api/auth/password/forgotten", &body).await;
    assert_eq!(answer.refused(409), "INVALID_STATE");
    assert_eq!(nobody.get("/api/auth/methods").await.expect_ok()["passwordReset"], false);
}
