//! The dashboard from outside: its pages, and the session that a browser keeps.

use reqwest::header::{COOKIE, HeaderMap, HeaderValue, ORIGIN, SET_COOKIE, UPGRADE};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{ADMIN, Client, PASSWORD, PROGRAM, Server, UNSET, until};

/// The access token of a fresh session.
async fn token(server: &Server) -> String {
    let login = json!({"email": ADMIN, "password": PASSWORD});
    let session = Client::new(&server.url, "").post("/api/auth/login", &login).await.expect_ok();
    session["token"].as_str().expect("a token").to_owned()
}

/// A request with a cookie and an origin.
async fn send(
    server: &Server,
    method: Method,
    path: &str,
    cookie: &str,
    origin: Option<&str>,
) -> reqwest::Response {
    let mut request = Client::new(&server.url, "").request(method.clone(), path);
    request = request.header(COOKIE, cookie);
    if let Some(origin) = origin {
        request = request.header(ORIGIN, origin);
    }
    if method == Method::POST {
        request = request.json(&json!({"prompt": "hello"}));
    }
    request.send().await.expect("an answer")
}

/// The cookie of a session, as a browser sends it back.
async fn cookie(client: &Client) -> (String, HeaderMap) {
    let answer = client.post("/api/auth/cookie", &json!({})).await;
    let headers = answer.headers.clone();
    answer.expect_ok();
    let set = headers[SET_COOKIE].to_str().expect("text");
    (set.split(';').next().expect("a pair").to_owned(), headers)
}

async fn json_of(response: reqwest::Response) -> Value {
    response.json().await.expect("JSON")
}

#[tokio::test]
async fn a_session_is_kept_in_a_cookie_that_no_script_reads_and_ends_with_it() {
    let server = Server::start();
    let client = Client::new(&server.url, &token(&server).await);
    let (cookie, headers) = cookie(&client).await;
    let set = headers[SET_COOKIE].to_str().expect("text");
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(set.contains(attribute), "{set}");
    }
    assert!(!set.contains("Domain"), "{set}");
    assert_eq!(headers["cache-control"], "no-store");
    let who = json_of(send(&server, Method::GET, "/api/auth/session", &cookie, None).await).await;
    assert_eq!(who["data"]["user"]["email"], ADMIN);
    let actions = who["data"]["actions"].as_array().expect("a list");
    assert!(actions.contains(&json!("auth: manage users")));
    // The token of the cookie is none for programs, and theirs is none for browsers.
    let (name, value) = cookie.split_once('=').expect("a pair");
    let confused = Client::new(&server.url, value);
    assert_eq!(confused.get("/api/tasks").await.refused(401), "INVALID_TOKEN");
    let access = format!("{name}={}", token(&server).await);
    let refused = send(&server, Method::GET, "/api/tasks", &access, None).await;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    // The cookie is of the session that it was made from.
    let answer = client.post("/api/auth/logout", &json!({})).await;
    let cleared = answer.headers[SET_COOKIE].to_str().expect("text").to_owned();
    answer.expect_ok();
    assert!(cleared.starts_with(&format!("{name}=;")) && cleared.contains("Max-Age=0"));
    let gone = send(&server, Method::GET, "/api/auth/session", &cookie, None).await;
    assert_eq!(gone.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_write_by_cookie_and_a_socket_need_a_page_of_the_server() {
    let own = "https://board.example";
    let server = Server::with(&[("SERVER__ALLOWED_ORIGINS", own)]);
    let (cookie, _) = cookie(&Client::new(&server.url, &token(&server).await)).await;
    let host = server.url.clone();
    let cases = [
        (Some(host.as_str()), 201),
        (Some(own), 201),
        (None, 403),
        (Some("null"), 403),
        (Some("http://127.0.0.1"), 403),
        (Some("https://evil.example"), 403),
        (Some("https://board.example.evil.example"), 403),
    ];
    for (origin, status) in cases {
        let answer = send(&server, Method::POST, "/api/tasks", &cookie, origin).await;
        assert_eq!(answer.status().as_u16(), status, "{origin:?}");
    }
    let read = send(&server, Method::GET, "/api/tasks", &cookie, None).await;
    assert_eq!(read.status(), StatusCode::OK);
    let foreign = Some("https://evil.example");
    let read = send(&server, Method::GET, "/api/tasks", &cookie, foreign).await;
    assert_eq!(read.status(), StatusCode::FORBIDDEN);
    for (origin, status) in [(Some(host.as_str()), 101), (None, 403), (foreign, 403)] {
        let mut request = Client::new(&server.url, "").request(Method::GET, "/ws");
        request = request.header(COOKIE, &cookie).header("connection", "upgrade");
        request = request.header(UPGRADE, "websocket").header("sec-websocket-version", "13");
        request = request.header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        if let Some(origin) = origin {
            request = request.header(ORIGIN, origin);
        }
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status().as_u16(), status, "{origin:?}");
    }
    // A program's own credential needs no origin, and goes before the cookie.
    let bearer = format!("Bearer {}", token(&server).await);
    let request = Client::new(&server.url, "").request(Method::POST, "/api/tasks");
    let request = request.header(COOKIE, &cookie);
    let request = request.header("authorization", bearer).json(&json!({"prompt": "hello"}));
    assert_eq!(request.send().await.expect("an answer").status(), StatusCode::CREATED);
}

#[tokio::test]
async fn a_cookie_that_is_set_again_does_not_outlive_its_session() {
    let server = Server::start();
    let client = Client::new(&server.url, &token(&server).await);
    let seconds = async || {
        let (_, headers) = cookie(&client).await;
        let set = headers[SET_COOKIE].to_str().expect("text").to_owned();
        let (_, age) = set.split_once("Max-Age=").expect("an age");
        let (age, _) = age.split_once(';').expect("more attributes");
        age.parse::<u64>().expect("seconds")
    };
    let first = seconds().await;
    until("the session has less time left", async || seconds().await < first).await;
}

#[tokio::test]
async fn a_sign_in_link_counts_once_and_only_for_its_user() {
    let server = Server::start();
    let admin = server.admin().await;
    let link = admin.post("/api/auth/links", &json!({})).await.expect(201);
    let token = link["token"].as_str().expect("a token");
    let url = link["url"].as_str().expect("an address");
    assert_eq!(url, format!("{}/sign-in#link={token}", server.url));
    let anybody = Client::new(&server.url, "");
    let exchange = json!({"token": token});
    // A look says whose account it is, and uses nothing up: a scanner of mails opens every link.
    for _ in 0..2 {
        let whose = anybody.post("/api/auth/links/preview", &exchange).await.expect_ok();
        assert_eq!((&whose["email"], &whose["expiresAt"]), (&json!(ADMIN), &link["expiresAt"]));
    }
    let session = anybody.post("/api/auth/links/exchange", &exchange).await.expect_ok();
    assert_eq!(session["user"]["email"], ADMIN);
    for path in ["/api/auth/links/exchange", "/api/auth/links/preview"] {
        let again = anybody.post(path, &exchange).await;
        assert_eq!(again.refused(401), "INVALID_TOKEN");
    }
    // A key has no session to hand on.
    let key = server.client("admin").await;
    assert_eq!(key.post("/api/auth/links", &json!({})).await.refused(403), "FORBIDDEN");
    assert_eq!(key.post("/api/auth/cookie", &json!({})).await.refused(403), "FORBIDDEN");
}

#[tokio::test]
async fn the_ways_to_sign_in_are_told_to_everybody() {
    let server = Server::start();
    let methods = Client::new(&server.url, "").get("/api/auth/methods").await.expect_ok();
    assert_eq!(
        methods,
        json!({"password": true, "oidc": false, "setup": false, "passwordReset": false})
    );
    let unset = [("ADMIN_EMAIL", UNSET), ("ADMIN_PASSWORD", UNSET)];
    let server = Server::with(&unset);
    let methods = Client::new(&server.url, "").get("/api/auth/methods").await.expect_ok();
    assert_eq!(
        methods,
        json!({"password": true, "oidc": false, "setup": true, "passwordReset": false})
    );
}

#[tokio::test]
async fn pages_answer_only_where_the_dashboard_has_some() {
    let server = Server::start();
    let http = Client::new(&server.url, "");
    let get = async |method: Method, path: &str| {
        http.request(method, path).send().await.expect("an answer")
    };
    for path in ["/", "/review", "/review/dt_task_x", "/executions/a?view=graph", "/docs/api"] {
        for method in [Method::GET, Method::HEAD] {
            let answer = get(method, path).await;
            assert_eq!(answer.status(), StatusCode::OK, "{path}");
            let headers = answer.headers();
            assert_eq!(headers["content-type"], "text/html; charset=utf-8");
            assert_eq!(headers["x-content-type-options"], "nosniff");
            let policy = headers["content-security-policy"].to_str().expect("text");
            assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
            assert!(!policy.contains("unsafe"), "{policy}");
        }
    }
    let json = HeaderValue::from_static("application/json");
    for path in ["/api/nothing", "/v1/nothing", "/ws/x", "/other", "/assets/no.js", "/.gitignore"] {
        let answer = get(Method::GET, path).await;
        assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{path}");
        assert_eq!(answer.headers()["content-type"], json, "{path}");
    }
    // A person who types an address is told by a page.
    for (path, is_page) in [("/shifts", true), ("/api/schedules/x/y", false)] {
        let asked = http.request(Method::GET, path).header("accept", "text/html,*/*;q=0.8");
        let answer = asked.send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{path}");
        let is_html = answer.headers()["content-type"] == "text/html; charset=utf-8";
        assert_eq!(is_html, is_page, "{path}");
    }
    assert_eq!(get(Method::POST, "/review").await.status(), StatusCode::NOT_FOUND);
    assert_eq!(get(Method::GET, "/metrics").await.status(), StatusCode::UNAUTHORIZED);
}

/// Before: a link outlived the session that made it, so a new password did not lock out a thief's.
#[tokio::test]
async fn a_sign_in_link_ends_with_the_session_that_made_it() {
    let server = Server::start();
    let admin = server.admin().await;
    let anybody = Client::new(&server.url, "");
    let link = async |client: &Client| {
        let made = client.post("/api/auth/links", &json!({})).await.expect(201);
        json!({"token": made["token"]})
    };
    let exchange = async |link: &Value| anybody.post("/api/auth/links/exchange", link).await;
    let stolen = Client::new(&server.url, &token(&server).await);
    let (thiefs, own) = (link(&stolen).await, link(&admin).await);
    let change = json!({"current": PASSWORD, "new": "countess of computing 1843"});
    admin.post("/api/auth/password", &change).await.expect_ok();
    assert_eq!(exchange(&thiefs).await.refused(401), "INVALID_TOKEN");
    exchange(&own).await.expect_ok();
    let late = link(&admin).await;
    admin.post("/api/auth/logout", &json!({})).await.expect_ok();
    assert_eq!(exchange(&late).await.refused(401), "INVALID_TOKEN");
}

/// Before: the session of a link outlived the one that made it, and could make the next link; nothing was
/// written down.
#[tokio::test]
async fn a_session_from_a_link_ends_with_the_one_that_made_the_link() {
    let server = Server::start();
    let admin = server.admin().await;
    let anybody = Client::new(&server.url, "");
    let follow = async |client: &Client| {
        let link = client.post("/api/auth/links", &json!({})).await.expect(201);
        let exchange = json!({"token": link["token"]});
        let session = anybody.post("/api/auth/links/exchange", &exchange).await.expect_ok();
        let refresh = json!({"refreshToken": session["refreshToken"]});
        (Client::new(&server.url, session["token"].as_str().expect("a token")), refresh)
    };
    let parent = Client::new(&server.url, &token(&server).await);
    let (child, of_child) = follow(&parent).await;
    let (grandchild, of_grandchild) = follow(&child).await;
    grandchild.get("/api/tasks").await.expect_ok();
    let sessions = admin.get("/api/auth/sessions").await.expect_ok();
    let ends: Vec<_> =
        sessions.as_array().expect("a list").iter().map(|it| &it["expiresAt"]).collect();
    assert_eq!((ends[0], ends[1]), (ends[2], ends[2]), "{sessions}");
    let links = admin.get("/api/audit?action=auth.link_created").await;
    assert_eq!(links.body["pagination"]["total"], 2, "{:#}", links.body);

    parent.post("/api/auth/logout", &json!({})).await.expect_ok();
    for client in [&parent, &child, &grandchild] {
        assert_eq!(client.get("/api/tasks").await.refused(401), "INVALID_TOKEN");
    }
    for refresh in [of_child, of_grandchild] {
        assert_eq!(anybody.post("/api/auth/refresh", &refresh).await.refused(401), "INVALID_TOKEN");
    }
    admin.get("/api/tasks").await.expect_ok();
}

/// Before: behind a proxy that speaks TLS, the cookie was not Secure, and nobody said so.
#[tokio::test]
async fn a_server_behind_a_proxy_says_that_it_lacks_its_public_url() {
    let proxied = ("SERVER__BEHIND_PROXY", "true");
    let plain = ("SERVER__PUBLIC_URL", "http://callboard.example.com");
    let secure = ("SERVER__PUBLIC_URL", "https://callboard.example.com");
    for (settings, is_told) in [
        (&[proxied][..], true),
        (&[proxied, plain], true),
        (&[proxied, secure], false),
        (&[], false),
    ] {
        let server = Server::traced(settings);
        let anybody = Client::new(&server.url, "");
        let health = anybody.get("/api/health").await.expect_ok();
        let told = health["warnings"].to_string();
        assert_eq!(told.contains("server.public_url"), is_told, "{settings:?}: {health}");
        assert_eq!(health.get("warnings").is_some(), is_told);
        let logged = server.logged();
        assert_eq!(
            logged.contains("server.public_url is not an https address"),
            is_told,
            "{logged}"
        );

        let (_, headers) = cookie(&Client::new(&server.url, &token(&server).await)).await;
        let cookie = headers[SET_COOKIE].to_str().expect("text");
        let is_secure = cookie.starts_with("__Host-") && cookie.ends_with("; Secure");
        assert_eq!(is_secure, settings.contains(&secure), "{cookie}");
        let home = tempfile::tempdir().expect("a directory");
        let mut doctor = tokio::process::Command::new(PROGRAM);
        doctor.args(["doctor", "--server", &server.url, "-o", "json"]).env_clear();
        let output = doctor.env("HOME", home.path()).output().await.expect("it runs");
        let findings = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(findings.contains("server.public_url is not an https"), is_told, "{findings}");
    }
}
