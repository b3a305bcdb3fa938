//! Sign-in by OIDC: against a real provider (`tests/oidc/server.py`), and one that lies.

use std::process::Stdio;

use callboard::auth::sign_on::challenge;
use callboard_domain::account::comparison::comparison_code;
use reqwest::header::{LOCATION, SET_COOKIE};
use reqwest::redirect::Policy;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use url::Url;

use self::liar::{Liar, Lie};
use super::*;

mod liar;

const PATIENCE: Duration = Duration::from_mins(1);

/// A provider in a process of its own. Ends when this is dropped.
struct Provider {
    issuer: String,
    _process: Child,
}

impl Provider {
    async fn start() -> Self {
        let scripts = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oidc");
        let installed = Command::new(scripts.join("install")).stdin(Stdio::null()).output().await;
        let installed = installed.expect("bash starts");
        assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
        let python = String::from_utf8_lossy(&installed.stdout).trim().to_owned();
        let mut process = Command::new(python)
            .arg(scripts.join("server.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the python that was installed starts");
        let mut lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("in time");
        let line = line.expect("text").expect("the provider starts");
        let port = line.strip_prefix("ready ").expect("it says its port");
        Self { issuer: format!("http://127.0.0.1:{port}"), _process: process }
    }

    /// Makes a user, or changes the claims of one.
    async fn user(&self, subject: &str, claims: &Value) {
        let client = Client::new(&self.issuer, "");
        let put = client.request(Method::PUT, &format!("/users/{subject}")).json(claims);
        assert!(put.send().await.expect("an answer").status().is_success());
    }
}

fn settings(issuer: &str) -> [(&str, &str); 6] {
    [
        ("OIDC__ISSUER", issuer),
        ("OIDC__CLIENT_ID", "callboard"),
        ("OIDC__CLIENT_SECRET", "a secret of the client: 100 %"),
        ("OIDC__ROLE_CLAIM", "groups"),
        ("OIDC__ROLE_MAP", "chiefs=admin,staff=operator"),
        ("OIDC__ALLOWED_DOMAINS", "example.com"),
    ]
}

fn ada() -> Value {
    json!({"email": "ada@example.com", "email_verified": true, "name": "Ada", "groups": ["staff"]})
}

/// A browser that follows one redirect at a time.
#[derive(Default)]
struct Browser {
    cookie: Option<String>,
}

impl Browser {
    async fn send(&mut self, method: Method, url: &str, form: Option<String>) -> reqwest::Response {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = crate::support::plain_http().redirect(Policy::none()).build();
        let mut request = http.expect("a client").request(method, url);
        if let Some(cookie) = &self.cookie {
            request = request.header("cookie", format!("x=1; {cookie}; y=2"));
        }
        if let Some(form) = form {
            let kind = "application/x-www-form-urlencoded";
            request = request.header("content-type", kind).body(form);
        }
        let answer = request.send().await.expect("an answer");
        if let Some(cookie) = answer.headers().get(SET_COOKIE) {
            let cookie = cookie.to_str().expect("text").split(';').next().expect("a pair");
            self.cookie = Some(cookie.to_owned());
        }
        answer
    }

    async fn get(&mut self, url: &str) -> reqwest::Response {
        self.send(Method::GET, url, None).await
    }

    /// Sends JSON as a page of the server does, with the cookie.
    async fn post(&self, server: &Server, path: &str, body: &Value) -> Answer {
        let client = Client::new(&server.url, "");
        let mut request = client.request(Method::POST, path).json(body);
        request = request.header("origin", &server.url);
        if let Some(cookie) = &self.cookie {
            request = request.header("cookie", cookie);
        }
        client.send(request).await
    }

    /// Begins a sign-in; returns where the provider is.
    async fn start(&mut self, server: &Server, query: &str) -> Url {
        let answer = self.get(&format!("{}/api/auth/oidc/start{query}", server.url)).await;
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["cache-control"]),
            (302, &"no-store".parse().expect("a value"))
        );
        location(&answer)
    }

    /// Fills in the provider's form; returns the callback's URL.
    async fn fill_in(&mut self, form: &Url, subject: &str) -> Url {
        assert_eq!(self.get(form.as_str()).await.status(), 200);
        let answer = self.send(Method::POST, form.as_str(), Some(format!("sub={subject}"))).await;
        assert_eq!(answer.status(), 302);
        location(&answer)
    }

    /// Signs in as the provider's user; returns what the server answers to the callback.
    async fn sign_in(&mut self, server: &Server, subject: &str) -> reqwest::Response {
        let form = self.start(server, "").await;
        let callback = self.fill_in(&form, subject).await;
        self.get(callback.as_str()).await
    }
}

fn location(answer: &reqwest::Response) -> Url {
    let location = answer.headers()[LOCATION].to_str().expect("text");
    location.parse().expect("an address")
}

fn parameter(url: &Url, name: &str) -> String {
    let found = url.query_pairs().find(|(known, _)| known == name);
    found.unwrap_or_else(|| panic!("{name} in {url}")).1.into_owned()
}

async fn exchange(server: &Server, body: &Value) -> Answer {
    Client::new(&server.url, "").post("/api/auth/oidc/token", body).await
}

/// What the answer of a callback brings behind `#NAME=`.
fn fragment(answer: &reqwest::Response, name: &str) -> String {
    assert_eq!(answer.status(), 302);
    let page = location(answer);
    let brought = page.fragment().and_then(|it| it.strip_prefix(&format!("{name}=")));
    brought.unwrap_or_else(|| panic!("{name} in {page}")).to_owned()
}

/// The session that the code in the answer of a callback to this browser is worth.
async fn session(server: &Server, browser: &Browser, answer: &reqwest::Response) -> Value {
    assert!(location(answer).as_str().starts_with(&format!("{}/#code=", server.url)));
    let body = json!({"code": fragment(answer, "code")});
    let answer = browser.post(server, "/api/auth/oidc/token", &body).await;
    assert_eq!(answer.headers["cache-control"], "no-store");
    let taken_away = answer.headers[SET_COOKIE].to_str().expect("text").to_owned();
    assert!(taken_away.starts_with("callboard-oidc=; Path=/; Max-Age=0"), "{taken_away}");
    let session = answer.expect_ok();
    let again = browser.post(server, "/api/auth/oidc/token", &body).await;
    assert_eq!(again.refused(401), "INVALID_TOKEN", "a code counts once");
    session
}

/// Status, code and message of a refused callback.
async fn refusal(answer: reqwest::Response) -> (u16, String, String) {
    let status = answer.status().as_u16();
    let body: Value = answer.json().await.expect("JSON");
    let error = |name: &str| text(&body["error"], name).to_owned();
    (status, error("code"), error("message"))
}

#[tokio::test]
async fn a_user_of_a_real_provider_signs_in_with_the_role_that_the_provider_tells() {
    let provider = Provider::start().await;
    let server = Server::with(&settings(&provider.issuer));
    let admin = server.admin().await;
    provider.user("42", &ada()).await;
    let mut browser = Browser::default();
    let answer = browser.sign_in(&server, "42").await;
    let first = session(&server, &browser, &answer).await;
    let user = &first["user"];
    assert_eq!((text(user, "email"), text(user, "name")), ("ada@example.com", "Ada"));
    assert_eq!(text(user, "role"), "operator");
    let ada_now = Client::new(&server.url, text(&first, "token"));
    ada_now.submit(&json!({"prompt": "p"})).await;
    let body = json!({"refreshToken": first["refreshToken"]});
    admin.post("/api/auth/refresh", &body).await.expect_ok();

    // The same subject is the same user, under any e-mail and name; the role follows.
    let mut claims = ada();
    claims["email"] = json!("ada.lovelace@example.com");
    claims["groups"] = json!(["staff", "chiefs"]);
    provider.user("42", &claims).await;
    let mut browser = Browser::default();
    let answer = browser.sign_in(&server, "42").await;
    let second = session(&server, &browser, &answer).await;
    assert_eq!((&second["user"]["id"], text(&second["user"], "role")), (&user["id"], "admin"));
    ada_now.get("/api/auth/users").await.expect_ok();
    claims["groups"] = json!(["staff"]);
    provider.user("42", &claims).await;
    let mut browser = Browser::default();
    let answer = browser.sign_in(&server, "42").await;
    session(&server, &browser, &answer).await;
    assert_eq!(ada_now.get("/api/auth/users").await.refused(403), "FORBIDDEN");

    // A role that no longer maps is refused, and ends the sessions of before.
    claims["groups"] = json!(["guests"]);
    provider.user("42", &claims).await;
    let refused = refusal(Browser::default().sign_in(&server, "42").await).await;
    assert_eq!((refused.0, &*refused.1), (403, "FORBIDDEN"));
    assert_eq!(ada_now.get("/api/tasks").await.refused(401), "INVALID_TOKEN");

    // No password signs such a user in.
    for password in ["", "42", PASSWORD] {
        let answer = login(&server, "ada@example.com", password).await;
        assert!(matches!(answer.status.as_u16(), 400 | 401), "{answer:?}");
    }
    let log = admin.get("/api/audit?action=user.created,user.changed&limit=100").await.expect_ok();
    let log: Vec<_> =
        log.as_array().expect("a list").iter().filter(|it| it["target"] == user["id"]).collect();
    assert_eq!(log.len(), 3);
    let made = &log[2]["details"];
    assert_eq!((text(made, "issuer"), text(made, "subject")), (&*provider.issuer, "42"));
}

#[tokio::test]
async fn an_e_mail_alone_makes_nobody_somebody_else() {
    let provider = Provider::start().await;
    let server = Server::with(&settings(&provider.issuer));
    let admin = server.admin().await;
    let mut claims = ada();
    claims["email"] = json!(ADMIN);
    claims["groups"] = json!(["chiefs"]);
    provider.user("7", &claims).await;
    let refused = refusal(Browser::default().sign_in(&server, "7").await).await;
    assert_eq!((refused.0, &*refused.1), (409, "EMAIL_EXISTS"));
    for (member, value, why) in [
        ("email_verified", json!(false), "not verified"),
        ("email", json!("ada@evil.example"), "domain"),
        ("groups", json!(["visitors"]), "role"),
    ] {
        let mut claims = ada();
        claims[member] = value;
        provider.user("8", &claims).await;
        let (status, code, message) = refusal(Browser::default().sign_in(&server, "8").await).await;
        assert_eq!((status, &*code), (403, "FORBIDDEN"), "{message}");
        assert!(message.contains(why), "{message}");
    }
    let users = admin.get("/api/auth/users").await;
    assert_eq!(users.body["pagination"]["total"], 1, "nobody was made");
    let refusals = admin.get("/api/audit?action=auth.sign_in_refused").await;
    assert_eq!(refusals.body["pagination"]["total"], 4);
}

#[tokio::test]
async fn an_e_mail_that_the_provider_says_nothing_of_counts_only_where_the_settings_say_so() {
    let provider = Provider::start().await;
    let mut claims = ada();
    claims.as_object_mut().expect("an object").remove("email_verified");
    provider.user("9", &claims).await;
    let server = Server::with(&settings(&provider.issuer));
    let (status, _, message) = refusal(Browser::default().sign_in(&server, "9").await).await;
    assert_eq!(status, 403);
    for part in ["the claim email_verified is missing", "oidc.trust_email = true"] {
        assert!(message.contains(part), "{message}");
    }
    let trusting = [&settings(&provider.issuer)[..], &[("OIDC__TRUST_EMAIL", "true")]].concat();
    let server = Server::with(&trusting);
    let mut browser = Browser::default();
    let answer = browser.sign_in(&server, "9").await;
    session(&server, &browser, &answer).await;
}

#[tokio::test]
async fn a_callback_counts_once_and_only_in_the_browser_that_began() {
    let provider = Provider::start().await;
    let server = Server::with(&settings(&provider.issuer));
    provider.user("42", &ada()).await;
    let mut browser = Browser::default();
    let form = browser.start(&server, "").await;
    let cookie = browser.cookie.clone().expect("a cookie");
    let callback = browser.fill_in(&form, "42").await;
    let state = parameter(&callback, "state");
    let mut thief = Browser::default();
    thief.start(&server, "").await;
    let wrong = callback.as_str().replace(&state, "x");
    let without = callback.as_str().replace("state=", "stat=");
    for (cookie, url) in [
        (None, callback.as_str()),
        (thief.cookie, callback.as_str()),
        (browser.cookie.clone(), &wrong),
        (browser.cookie.clone(), &without),
    ] {
        let mut browser = Browser { cookie };
        let (status, code, _) = refusal(browser.get(url).await).await;
        assert_eq!((status, &*code), (401, "INVALID_TOKEN"), "{url}");
    }
    let answer = browser.get(callback.as_str()).await;
    session(&server, &browser, &answer).await;
    // The browser forgets the sign-in; with the cookie kept, the provider knows the code as used.
    browser.cookie = Some("callboard-oidc=".to_owned());
    assert_eq!(refusal(browser.get(callback.as_str()).await).await.0, 401);
    browser.cookie = Some(cookie);
    let (status, code, message) = refusal(browser.get(callback.as_str()).await).await;
    assert_eq!((status, &*code), (401, "INVALID_TOKEN"));
    assert!(message.contains("invalid_grant"), "{message}");
    // A user who says no at the provider sees that.
    let form = browser.start(&server, "").await;
    let denied = browser.send(Method::POST, form.as_str(), Some("action=deny".into())).await;
    let mut denied = location(&denied);
    if !denied.as_str().contains("state=") {
        denied.query_pairs_mut().append_pair("state", &parameter(&form, "state"));
    }
    let (status, code, message) = refusal(browser.get(denied.as_str()).await).await;
    assert_eq!((status, &*code), (403, "FORBIDDEN"));
    assert!(message.contains("access_denied"), "{message}");
}

#[tokio::test]
async fn the_command_line_signs_in_through_a_browser() {
    let provider = Provider::start().await;
    let server = Server::with(&settings(&provider.issuer));
    provider.user("42", &ada()).await;
    let home = tempfile::tempdir().expect("a directory");
    let command = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
        command.args(arguments).env_clear().env("HOME", home.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        command
    };
    let arguments = ["auth", "login", "--oidc", "--server", &server.url, "-o", "json"];
    for (groups, works) in [(json!(["staff"]), true), (json!([]), false)] {
        let mut claims = ada();
        claims["groups"] = groups;
        provider.user("42", &claims).await;
        let mut child = command(&arguments).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("in time");
        let line = line.expect("text").expect("it says where to go");
        let url = line.strip_prefix("to sign in, open ").expect("an address").to_owned();
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await.expect("in time");
        let line = line.expect("text").expect("it shows a code to compare");
        let mut browser = Browser::default();
        let form = location(&browser.get(&url).await);
        let callback = browser.fill_in(&form, "42").await;
        let answer = browser.get(callback.as_str()).await;
        let back = if works {
            let ticket = fragment(&answer, "program");
            let shown = json!({"ticket": ticket});
            let shown = browser.post(&server, "/api/auth/oidc/program/preview", &shown).await;
            let shown = shown.expect_ok();
            assert_eq!(text(&shown, "email"), "ada@example.com");
            assert!(line.ends_with(&format!(" {}", text(&shown, "comparison"))), "{line} {shown}");
            allow(&server, &browser, &ticket, true).await
        } else {
            location(&answer)
        };
        assert!(back.as_str().starts_with("http://127.0.0.1:"), "{back}");
        if works {
            // The code is worth nothing without the program's verifier.
            let stolen = json!({"code": "x".repeat(43), "verifier": "y".repeat(43)});
            assert_eq!(exchange(&server, &stolen).await.refused(401), "INVALID_TOKEN");
        }
        let icon = back.join("/favicon.ico").expect("an address");
        assert_eq!(browser.get(icon.as_str()).await.status(), 404);
        let page = browser.get(back.as_str()).await.text().await.expect("text");
        let ended = child.wait_with_output().await.expect("it ends");
        assert_eq!(ended.status.code(), Some(if works { 0 } else { 4 }));
        assert_eq!(page.contains("You are signed in"), works, "{page}");
        if works {
            let known: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
            assert_eq!(
                (text(&known, "email"), text(&known, "role")),
                ("ada@example.com", "operator")
            );
            let listed = command(&["tasks", "list"]).output().await.expect("it runs");
            assert!(listed.status.success(), "{listed:?}");
        }
    }
}

/// Answers a program that wants to sign in; returns where it waits for the answer.
async fn allow(server: &Server, browser: &Browser, ticket: &str, allow: bool) -> Url {
    let answer = json!({"ticket": ticket, "allow": allow});
    let answer = browser.post(server, "/api/auth/oidc/program", &answer).await.expect_ok();
    text(&answer, "location").parse().expect("an address")
}

/// Before: the code went to the port at once, so whoever listened there and sent a link had a session of the
/// user who opened it.
#[tokio::test]
async fn no_code_goes_to_a_port_before_the_user_has_compared_and_pressed() {
    let liar = Liar::start().await;
    let server = Server::with(&settings(&liar.issuer));
    let verifier = "v".repeat(43);
    let challenge = challenge(&verifier);
    let query = format!("?port=4711&challenge={challenge}");
    let (mut browser, other) = (Browser::default(), Browser::default());
    let begin = async |browser: &mut Browser| {
        let asked = browser.start(&server, &query).await;
        let answer = lied_to(browser, &liar, &asked, Lie::None).await;
        assert!(
            location(&answer).as_str().starts_with(&format!("{}/sign-in#program=", server.url))
        );
        fragment(&answer, "program")
    };
    let ticket = begin(&mut browser).await;
    let as_code = json!({"code": ticket, "verifier": verifier});
    assert_eq!(exchange(&server, &as_code).await.refused(401), "INVALID_TOKEN");

    // Only this browser sees and answers the question, from a page of the server's own.
    let preview = json!({"ticket": ticket});
    let path = "/api/auth/oidc/program/preview";
    assert_eq!(other.post(&server, path, &preview).await.refused(401), "INVALID_TOKEN");
    let shown = browser.post(&server, path, &preview).await.expect_ok();
    assert_eq!(shown["comparison"], comparison_code(&challenge));
    assert_eq!(shown["port"], 4711);
    let answer = json!({"ticket": ticket, "allow": true});
    let client = Client::new(&server.url, "");
    let request = client.request(Method::POST, "/api/auth/oidc/program").json(&answer);
    let request = request.header("cookie", browser.cookie.as_deref().expect("a cookie"));
    let foreign = client.send(request.header("origin", "http://127.0.0.1:4711")).await;
    assert_eq!(foreign.refused(403), "FORBIDDEN");

    // A refusal reaches the program, and the question is over.
    let refused = allow(&server, &browser, &ticket, false).await;
    assert_eq!((refused.port(), &*parameter(&refused, "error")), (Some(4711), "FORBIDDEN"));
    let again = browser.post(&server, "/api/auth/oidc/program", &answer).await;
    assert_eq!(again.refused(401), "INVALID_TOKEN");
    let refusals = server.admin().await.get("/api/audit?action=auth.sign_in_refused").await;
    assert!(refusals.body.to_string().contains("was refused in the browser"), "{refusals:?}");

    let ticket = begin(&mut browser).await;
    let back = allow(&server, &browser, &ticket, true).await;
    let code = parameter(&back, "code");
    let without = exchange(&server, &json!({"code": code})).await;
    assert_eq!(without.refused(401), "INVALID_TOKEN", "the program alone has the verifier");
    let ticket = begin(&mut browser).await;
    let back = allow(&server, &browser, &ticket, true).await;
    let right = json!({"code": parameter(&back, "code"), "verifier": verifier});
    exchange(&server, &right).await.expect_ok();
}

/// Before: a page with somebody else's code signed the browser in as that person.
#[tokio::test]
async fn a_code_of_another_browser_signs_nobody_in() {
    let liar = Liar::start().await;
    let server = Server::with(&settings(&liar.issuer));
    let mut attacker = Browser::default();
    let (mut victim, unaware) = (Browser::default(), Browser::default());
    victim.start(&server, "").await;
    for browser in [&victim, &unaware] {
        let answer = lied_in(&mut attacker, &server, &liar, Lie::None).await;
        let code = json!({"code": fragment(&answer, "code")});
        let refused = browser.post(&server, "/api/auth/oidc/token", &code).await;
        assert_eq!(refused.refused(401), "INVALID_TOKEN");
        let gone = attacker.post(&server, "/api/auth/oidc/token", &code).await;
        assert_eq!(gone.refused(401), "INVALID_TOKEN", "a code counts once");
    }
}

/// A sign-in at the liar, who is asked by nobody but the server.
async fn lied(server: &Server, liar: &Liar, lie: Lie) -> reqwest::Response {
    lied_in(&mut Browser::default(), server, liar, lie).await
}

/// The same in this browser.
async fn lied_in(
    browser: &mut Browser,
    server: &Server,
    liar: &Liar,
    lie: Lie,
) -> reqwest::Response {
    let asked = browser.start(server, "").await;
    lied_to(browser, liar, &asked, lie).await
}

/// The session of a sign-in at the liar.
async fn session_of(server: &Server, liar: &Liar, lie: Lie) -> Value {
    let mut browser = Browser::default();
    let answer = lied_in(&mut browser, server, liar, lie).await;
    session(server, &browser, &answer).await
}

async fn lied_to(browser: &mut Browser, liar: &Liar, asked: &Url, lie: Lie) -> reqwest::Response {
    for (name, value) in [("response_type", "code"), ("code_challenge_method", "S256")] {
        assert_eq!(parameter(asked, name), value);
    }
    assert_eq!(parameter(asked, "scope"), "openid email profile");
    let code = liar.code(&parameter(asked, "nonce"), &parameter(asked, "code_challenge"), lie);
    let callback = parameter(asked, "redirect_uri");
    let state = parameter(asked, "state");
    browser.get(&format!("{callback}?code={code}&state={state}&session_state=x&iss=y")).await
}

#[tokio::test]
async fn a_provider_that_lies_signs_nobody_in() {
    let liar = Liar::start().await;
    let server = Server::with(&settings(&liar.issuer));
    session_of(&server, &liar, Lie::None).await;
    for lie in Lie::INVALID {
        let (status, code, message) = refusal(lied(&server, &liar, lie).await).await;
        assert_eq!((status, &*code), (401, "INVALID_TOKEN"), "{lie:?}: {message}");
    }
    for lie in Lie::BROKEN {
        let (status, code, message) = refusal(lied(&server, &liar, lie).await).await;
        assert_eq!((status, &*code), (503, "UNAVAILABLE"), "{lie:?}: {message}");
    }
    let mut open = Value::Null;
    for lie in [
        Lie::HalfAMinuteOld,
        Lie::MailInUserInfo,
        Lie::GroupsInUserInfo,
        Lie::FlagInUserInfo,
        Lie::NoKid,
    ] {
        open = session_of(&server, &liar, lie).await;
    }
    // What is not known refuses nobody for good.
    for lie in [Lie::UserInfoFails, Lie::UserInfoTellsNothing] {
        let (status, code, message) = refusal(lied(&server, &liar, lie).await).await;
        assert_eq!((status, &*code), (503, "UNAVAILABLE"), "{lie:?}: {message}");
    }
    Client::new(&server.url, text(&open, "token")).get("/api/tasks").await.expect_ok();
    let refused = refusal(lied(&server, &liar, Lie::UserInfoOfAnother).await).await;
    assert_eq!((refused.0, &*refused.1), (403, "FORBIDDEN"));
}

#[tokio::test]
async fn a_code_that_waits_ends_with_all_sessions() {
    let liar = Liar::start().await;
    let server = Server::with(&settings(&liar.issuer));
    let open = session_of(&server, &liar, Lie::None).await;
    let mut browser = Browser::default();
    let waits = lied_in(&mut browser, &server, &liar, Lie::None).await;
    let ada = Client::new(&server.url, text(&open, "token"));
    ada.post("/api/auth/logout", &json!({"all": true})).await.expect_ok();
    let code = json!({"code": fragment(&waits, "code")});
    let exchanged = browser.post(&server, "/api/auth/oidc/token", &code).await;
    assert_eq!(exchanged.refused(401), "INVALID_TOKEN");
}

#[tokio::test]
async fn new_keys_of_the_provider_are_found_and_unknown_ones_do_not_flood_it() {
    let liar = Liar::start().await;
    let server = Server::with(&settings(&liar.issuer));
    session_of(&server, &liar, Lie::None).await;
    liar.rotate();
    session_of(&server, &liar, Lie::None).await;
    let before = liar.key_reads();
    for _ in 0..5 {
        assert_eq!(lied(&server, &liar, Lie::UnknownKid).await.status(), 401);
    }
    assert_eq!(liar.key_reads(), before, "not again within ten seconds");
    session_of(&server, &liar, Lie::None).await;
}

#[tokio::test]
async fn without_a_provider_there_is_no_sign_in_and_one_that_is_down_is_said_to_be() {
    let server = Server::start();
    for path in ["start", "callback"] {
        let answer = Client::new(&server.url, "").get(&format!("/api/auth/oidc/{path}")).await;
        assert_eq!(answer.refused(409), "INVALID_STATE");
    }
    let down = Server::with(&settings("http://127.0.0.1:9"));
    let anybody = Client::new(&down.url, "");
    assert_eq!(anybody.get("/api/auth/oidc/start").await.refused(503), "UNAVAILABLE");
    for (query, field) in
        [("port=0", "port"), ("port=5", "challenge"), ("challenge=x", "challenge"), ("x=1", "x")]
    {
        let answer = anybody.get(&format!("/api/auth/oidc/start?{query}")).await;
        assert_eq!(answer.fault().0, field);
    }
    // Metadata of another issuer is another provider's.
    let liar = Liar::start().await;
    let foreign = Server::with(&settings(&format!("{}/", liar.issuer)));
    let answer = Client::new(&foreign.url, "").get("/api/auth/oidc/start").await;
    assert_eq!(answer.refused(503), "UNAVAILABLE");
}
