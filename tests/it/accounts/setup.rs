//! The setup link: the first admin of a server that has none.

use std::process::Stdio;

use super::*;
use crate::support::{UNSET, credentials};

const NOBODY: [(&str, &str); 2] = [("ADMIN_EMAIL", UNSET), ("ADMIN_PASSWORD", UNSET)];

/// The token of the link that the server prints.
fn token(server: &mut Server) -> String {
    let told = server.line();
    let beginning = format!("setup at {}/setup#token=", server.url);
    told.strip_prefix(&*beginning).unwrap_or_else(|| panic!("no link in {told}")).to_owned()
}

async fn set_up(server: &Server, token: &str, password: &str) -> Answer {
    let body = json!({"token": token, "email": ADMIN, "password": password, "name": "Ada"});
    Client::new(&server.url, "").post("/api/auth/setup", &body).await
}

#[tokio::test]
async fn the_bearer_of_the_setup_link_becomes_the_first_admin_and_nobody_else_does() {
    let mut server = Server::with(&NOBODY);
    let right = token(&mut server);
    let (rest, last) = right.split_at(right.len() - 1);
    let wrong = format!("{rest}{}", if last == "A" { "E" } else { "A" });
    for guess in ["", "x", "svc_setup_", &wrong] {
        let answer = set_up(&server, guess, PASSWORD).await;
        assert!(matches!(answer.status.as_u16(), 400 | 401), "{guess}: {answer:?}");
    }
    assert_eq!(set_up(&server, &wrong, PASSWORD).await.refused(401), "INVALID_TOKEN");
    // A fault in the rest does not use the link up.
    assert_eq!(set_up(&server, &right, "password").await.refused(400), "WEAK_PASSWORD");
    let answer = set_up(&server, &right, PASSWORD).await;
    assert_eq!(answer.headers["cache-control"], "no-store");
    let session = answer.expect(201);
    assert_eq!((text(&session["user"], "role"), text(&session["user"], "name")), ("admin", "Ada"));
    let admin = Client::new(&server.url, text(&session, "token"));
    assert_eq!(set_up(&server, &right, PASSWORD).await.refused(409), "INVALID_STATE");
    let log = admin.get("/api/audit?action=user.created,auth.sign_in_refused").await.expect_ok();
    let log = log.as_array().expect("a list");
    assert_eq!((text(&log[0], "action"), text(&log[0], "actor")), ("user.created", "anonymous"));
    assert!(log.len() > 1, "the wrong token is on record");
    assert!(!json!(log).to_string().contains(&right[10..]));
    // After a restart there is no link any more.
    server.kill();
    server.restart();
    assert_eq!(set_up(&server, &right, PASSWORD).await.refused(409), "INVALID_STATE");
    server.admin().await;
}

#[tokio::test]
async fn of_many_bearers_at_once_one_becomes_the_first_admin() {
    let mut server = Server::with(&NOBODY);
    let right = token(&mut server);
    let body = |number| {
        let email = format!("u{number}@example.com");
        json!({"token": right, "email": email, "password": PASSWORD})
    };
    let anybody = Client::new(&server.url, "");
    let tries = (0..6).map(|number| {
        let (client, body) = (anybody.clone(), body(number));
        async move { client.post("/api/auth/setup", &body).await.status.as_u16() }
    });
    let mut answers = futures_util::future::join_all(tries).await;
    answers.sort_unstable();
    assert_eq!(answers, [201, 409, 409, 409, 409, 409]);
}

#[tokio::test]
async fn each_start_prints_another_link_and_no_log_line_has_it() {
    let mut server = Server::with(&NOBODY);
    let first = token(&mut server);
    server.kill();
    server.restart();
    let second = token(&mut server);
    assert_ne!(first, second);
    assert_eq!(set_up(&server, &first, PASSWORD).await.refused(401), "INVALID_TOKEN");
    server.kill();

    let child = std::process::Command::new(env!("CARGO_BIN_EXE_callboard"))
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(server.data())
        .env("CALLBOARD_LOG", "trace")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.expect("the program starts");
    let mut lines =
        std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().expect("piped")));
    let mut next = || lines.next().expect("a line").expect("UTF-8");
    let (listening, link) = (next(), next());
    let url = listening.strip_prefix("listening on ").expect("an address");
    let token = link.rsplit('=').next().expect("a token").to_owned();
    let body = json!({"token": token, "email": ADMIN, "password": PASSWORD});
    Client::new(url, "").post("/api/auth/setup", &body).await.expect(201);
    child.kill().expect("it runs");
    let ended = child.wait_with_output().expect("it ends");
    let log = String::from_utf8_lossy(&ended.stderr);
    assert!(log.contains("there is no admin yet"), "{log}");
    assert!(!log.contains(&token[10..]), "the token is in the log");
    std::fs::write(server.dir.path().join("other.log"), &*log).expect("it is written");
    credentials::assert_none_in(&[server.dir.path()]);
}
