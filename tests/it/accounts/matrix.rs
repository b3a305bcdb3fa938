//! Every route of the OpenAPI document with every kind of credential, and the page that says who may.

use callboard::auth::token::AccessTokens;
use callboard::auth::token::key::SigningKey;
use callboard::http::document;
use callboard_domain::Timestamp;
use callboard_domain::access::{Action, Role, allows};
use callboard_domain::id::{SessionId, UserId};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{key, patch, text, user};
use crate::support::{Client, Server};

const SIGNING_KEY: &str = "a signing key of more than 32 bytes";
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/access.md");
const COLUMNS: [&str; 13] = [
    "none",
    "admin",
    "operator",
    "reviewer",
    "viewer",
    "worker",
    "backup",
    "bound worker",
    "test key",
    "revoked",
    "expired",
    "demoted",
    "deleted",
];

/// The routes that ask for no credentials. A new one is written here, on purpose.
const PUBLIC: [&str; 18] = [
    "GET /api/auth/methods",
    "GET /api/auth/oidc/callback",
    "GET /api/auth/oidc/start",
    "GET /api/health",
    "GET /api/openapi.json",
    "POST /api/auth/invitations/accept",
    "POST /api/auth/invitations/preview",
    "POST /api/auth/links/exchange",
    "POST /api/auth/links/preview",
    "POST /api/auth/login",
    "POST /api/auth/oidc/program",
    "POST /api/auth/oidc/program/preview",
    "POST /api/auth/oidc/token",
    "POST /api/auth/password/forgotten",
    "POST /api/auth/password/reset",
    "POST /api/auth/password/reset/preview",
    "POST /api/auth/refresh",
    "POST /api/auth/setup",
];

/// A token of this session that ran out yesterday.
fn expired(user: &str, session: &str) -> String {
    let key = SigningKey::configured(SIGNING_KEY).expect("it is long enough");
    let life = std::time::Duration::from_hours(24);
    let tokens = AccessTokens::new(key.into(), life).expect("a life within the limits");
    let user: UserId = user.parse().expect("an id");
    let session: SessionId = session.parse().expect("an id");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.expect("after 1970").saturating_sub(2 * life);
    tokens.issue(user, session, "x", Timestamp::default().after(now)).token
}

/// What the documents say of a route for a kind of caller: a status, or that it is let in.
fn expected(name: &str, route: &Value, column: &str) -> &'static str {
    let Some(action) = route["x-callboard-action"].as_str() else {
        return if PUBLIC.contains(&name) { "yes" } else { "no expectation" };
    };
    let role = match column {
        "none" | "revoked" | "expired" | "deleted" => return "401",
        "admin" => Role::Admin,
        "operator" | "test key" => Role::Operator,
        "reviewer" => Role::Reviewer,
        "viewer" | "demoted" => Role::Viewer,
        "worker" | "bound worker" => Role::Worker,
        "backup" => Role::Backup,
        other => panic!("no column {other}"),
    };
    let (is_test, is_own) = (column == "test key", action == "own account");
    // A bound key reads the files of tasks that it holds, and lists none.
    if column == "bound worker" && (is_own || ["GET /api/files", "GET /v1/files"].contains(&name)) {
        return "403";
    }
    let permitted = is_own || allows(role, Action::parse(action).expect("an action"));
    let closed = [
        "auth: ",
        "audit: ",
        "queues: ",
        "budgets: ",
        "metrics: ",
        "backups: ",
        "models: ",
        "workers: manage",
        "projects: manage",
        "tasks: execute",
        "webhooks: read secret",
        "own account",
    ];
    let is_closed = is_test && closed.iter().any(|closed| action.starts_with(closed));
    if permitted && !is_closed { "yes" } else { "403" }
}

#[tokio::test]
async fn every_route_lets_in_whom_the_page_says_and_nobody_else() {
    let unlimited = ("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "1000000");
    let server = Server::with(&[unlimited, ("AUTH__SIGNING_KEY", SIGNING_KEY)]);
    let root = server.admin().await;
    let mut clients = vec![Client::new(&server.url, "")];
    let mut first = None;
    for role in Role::ALL {
        let user = user(&server, &root, role.as_str()).await;
        clients.push(user.client.clone());
        first.get_or_insert(user);
    }
    let bound = json!({"name": "b", "role": "worker", "queues": ["letters"]});
    clients.push(Client::new(&server.url, text(&key(&root, &bound).await, "key")));
    let test = json!({"name": "t", "role": "operator", "environment": "test"});
    let test = key(&root, &test).await;
    clients.push(Client::new(&server.url, text(&test, "key")));
    let revoked = key(&root, &json!({"name": "r", "role": "admin"})).await;
    root.delete(&format!("/api/auth/keys/{}", text(&revoked, "id"))).await.expect_ok();
    clients.push(Client::new(&server.url, text(&revoked, "key")));
    let first = first.expect("an admin");
    let sessions = first.client.get(&format!("/api/auth/sessions?userId={}", first.id)).await;
    let session = text(&sessions.expect_ok()[0], "id").to_owned();
    clients.push(Client::new(&server.url, &expired(&first.id, &session)));
    let demoted = user(&server, &root, "admin").await;
    patch(&root, &demoted.id, &json!({"role": "viewer"})).await.expect_ok();
    clients.push(demoted.client.clone());
    let deleted = user(&server, &root, "admin").await;
    root.delete(&format!("/api/auth/users/{}", deleted.id)).await.expect_ok();
    clients.push(deleted.client.clone());
    assert_eq!(clients.len(), COLUMNS.len());

    let mut page = format!(
        "# Access\n\nEach route of the [HTTP API](api.md) with each kind of caller: `yes` passes the \
         check of credentials, any other answer is the status of the refusal. `admin` to `backup` are \
         signed-in users; a live key is treated as a user of its role, except that the routes of \
         sessions and passwords are for signed-in users (a key: 403; an admin's key may list and end \
         sessions). The bound worker is a key for some queues, which reads only the tasks that it holds. \
         The test key is an operator's. `demoted` is an admin who became a viewer. A test \
         sends every one of these requests and writes this page.\n\n| route | {} |\n|---|{}\n",
        COLUMNS.join(" | "),
        "---|".repeat(COLUMNS.len()),
    );
    let mut wrong = Vec::new();
    let document = document();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, route) in methods.as_object().expect("methods") {
            let method: Method = method.to_uppercase().parse().expect("a method");
            let mut row = format!("| `{method} {path}` |");
            for (client, column) in clients.iter().zip(COLUMNS) {
                let answer = status(client, &method, path).await;
                let is_public = route["x-callboard-action"].is_null();
                let shown = match answer {
                    StatusCode::UNAUTHORIZED if !is_public => "401",
                    StatusCode::FORBIDDEN => "403",
                    _ => "yes",
                };
                row.extend([" ", shown, " |"]);
                let name = format!("{method} {path}");
                if shown != expected(&name, route, column) {
                    wrong.push(format!("{method} {path} {column}: {answer}"));
                }
            }
            page.push_str(&row);
            page.push('\n');
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    if std::env::var_os("CALLBOARD_WRITE_DOCS").is_some() {
        std::fs::write(PAGE, &page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(PAGE).expect("the page is there");
    assert_eq!(page, written, "CALLBOARD_WRITE_DOCS=1 writes the page");
}

/// The status of a request that names nothing that exists and has a body that no route accepts.
async fn status(client: &Client, method: &Method, path: &str) -> StatusCode {
    let path: String = path
        .split_inclusive('}')
        .map(|part| {
            part.split_once('{').map_or(part.to_owned(), |(before, _)| format!("{before}none"))
        })
        .collect();
    let mut request = client.request(method.clone(), &path);
    if method != Method::GET && method != Method::DELETE {
        request = request.json(&json!([]));
    }
    // An event stream has no end: its head is enough.
    request.send().await.expect("an answer").status()
}
