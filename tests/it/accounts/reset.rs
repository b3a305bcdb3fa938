//! The way back in of a server whose admins have lost their passwords.

use std::process::{Command, Output};

use super::*;
use crate::support::{PROGRAM, credentials};

/// `callboard admin reset` on the server's data directory.
fn reset(server: &Server, arguments: &[&str], password: Option<&str>) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(["admin", "reset", "--data-dir"]).arg(server.data()).args(arguments);
    command.env_clear().envs(password.map(|text| ("CALLBOARD_NEW_PASSWORD", text)));
    command.output().expect("it runs")
}

/// The password that it printed.
fn made(output: &Output) -> String {
    let told = String::from_utf8_lossy(&output.stdout);
    let line =
        told.lines().find_map(|line| line.strip_prefix("password until the first sign-in: "));
    let password = line.unwrap_or_else(|| panic!("{output:?}")).to_owned();
    credentials::keep(&password);
    password
}

#[tokio::test]
async fn the_owner_of_the_data_gives_the_only_admin_a_password() {
    let mut server = Server::start();
    let admin = server.admin().await;
    let refused = reset(&server, &[], None);
    assert!(!refused.status.success(), "a server runs: {refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("in use"), "{refused:?}");
    assert!(server.terminate());

    let done = reset(&server, &[], None);
    assert!(done.status.success(), "{done:?}");
    let password = made(&done);
    server.restart();
    let admin = admin.at(&server.url);
    assert_eq!(admin.get("/api/auth/users").await.refused(401), "INVALID_TOKEN");
    assert_eq!(login(&server, ADMIN, PASSWORD).await.refused(401), "INVALID_CREDENTIALS");
    let session = login(&server, ADMIN, &password).await.expect_ok();
    let admin = Client::new(&server.url, text(&session, "token"));
    assert_eq!(admin.get("/api/auth/users").await.refused(403), "PASSWORD_CHANGE_REQUIRED");
    let change = json!({"current": password, "new": OTHER});
    admin.post("/api/auth/password", &change).await.expect_ok();
    let log = admin.get("/api/audit?action=admin.reset,auth.session_ended").await.expect_ok();
    let log = log.as_array().expect("a list");
    let entry = log.iter().find(|entry| entry["action"] == "admin.reset").expect("an entry");
    assert_eq!((text(entry, "actor"), text(&entry["details"], "email")), ("system", ADMIN));
    assert_eq!(text(entry, "target"), text(&session["user"], "id"));
    assert!(entry["details"]["uid"].is_string() && entry["details"]["made"] == "false", "{entry}");
    assert!(log.len() > 1, "the end of the session is on record: {log:?}");
    assert!(!json!(log).to_string().contains(&password));
}

#[tokio::test]
async fn a_reset_names_the_admin_or_makes_one_and_obeys_the_rules_of_passwords() {
    let mut server = Server::start();
    let admin = server.admin().await;
    let viewer = user(&server, &admin, "viewer").await;
    let second = user(&server, &admin, "admin").await;
    assert!(server.terminate());

    let refused = |arguments: &[&str], password, why: &str| {
        let output = reset(&server, arguments, password);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(why), "{why}: {said}");
    };
    refused(&[], None, &second.email);
    refused(&["--email", "no address"], None, "must be an address");
    refused(&["--email", ADMIN], Some("password"), "most common passwords");
    refused(&["--data-dir", "/nowhere"], None, "cannot be used multiple times");
    let nowhere = server.dir.path().join("nowhere");
    let mut command = Command::new(PROGRAM);
    let output = command.args(["admin", "reset", "--data-dir"]).arg(&nowhere).output();
    let output = output.expect("it runs");
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no store in"), "{output:?}");
    assert!(!nowhere.exists(), "nothing was made");

    assert!(reset(&server, &["--email", &viewer.email], Some(OTHER)).status.success());
    assert!(reset(&server, &["--email", "new@example.com"], Some(OTHER)).status.success());
    server.restart();
    for email in [viewer.email.as_str(), "new@example.com"] {
        let session = login(&server, email, OTHER).await.expect_ok();
        assert_eq!(text(&session["user"], "role"), "admin", "{email}");
        let client = Client::new(&server.url, text(&session, "token"));
        client.get("/api/auth/users").await.expect_ok();
    }
    // Nobody else was touched.
    server.admin().await;
    second.client.at(&server.url).get("/api/auth/users").await.expect_ok();
}

#[tokio::test]
async fn ignored_variables_are_said_at_the_start() {
    let mut server = Server::traced(&[("RETENTION_ENDED", "30d")]);
    let unknown = "CALLBOARD_RETENTION_ENDED is not a setting and is ignored; CALLBOARD_RETENTION__ENDED is one";
    assert!(server.logged().contains(unknown));
    let ignored = "CALLBOARD_ADMIN_EMAIL and CALLBOARD_ADMIN_PASSWORD(_FILE) are ignored";
    assert!(!server.logged().contains(ignored), "they made the admin");
    assert!(server.terminate());
    server.restart();
    assert!(server.logged().contains(ignored));
}
