//! The OpenAPI document: what it says, that it is true, and one answer for each route and status.

use std::process::Command;

use callboard::http::document;
use reqwest::Method;
use serde_json::{Value, json};

use crate::approvals::fixture::Fixture;
use crate::support::Client;

#[test]
fn a_change_of_the_document_is_seen_in_review() {
    insta::assert_json_snapshot!("document", document());
}

/// Sends requests that the document allows, and some that it does not, and compares each answer with it.
#[tokio::test(flavor = "multi_thread")]
async fn the_document_is_true() {
    let cases = if std::env::var_os("CALLBOARD_LONG").is_some() { "300" } else { "5" };
    let root = env!("CARGO_MANIFEST_DIR");
    let install = Command::new(format!("{root}/tests/schemathesis/install"))
        .output()
        .expect("the script runs");
    assert!(install.status.success(), "{}", String::from_utf8_lossy(&install.stderr));
    let python = String::from_utf8(install.stdout).expect("a path");
    let fixture = Fixture::open().await;
    let url = format!("{}/api/openapi.json", fixture.server.url);
    let answer = fixture.operator.get("/api/openapi.json").await;
    let file = fixture.server.dir.path().join("openapi.json");
    std::fs::write(&file, answer.body.to_string()).expect("the document can be written");
    let directory = fixture.server.dir.path().to_owned();
    let key = fixture.key("admin").await;
    let run = move |program: &str, arguments: &[&str]| {
        let program = python.trim().replace("bin/python", &format!("bin/{program}"));
        let output = Command::new(program).args(arguments).current_dir(&directory).output();
        let output = output.expect("the program runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        text
    };
    let report = tokio::task::spawn_blocking(move || {
        run("openapi-spec-validator", &[file.to_str().expect("UTF-8")]);
        let arguments = [
            "--config-file",
            &format!("{root}/tests/schemathesis/schemathesis.toml"),
            "run",
            &url,
            "--header",
            &format!("Authorization: Bearer {}", key.secret),
            "--checks",
            "all",
            "--max-examples",
            cases,
            // Streams have no end.
            "--exclude-path-regex",
            "/api/(events|workers/connect)|/ws|/stream$",
            "--phases",
            "examples,coverage,fuzzing",
            "--seed",
            "1",
        ];
        run("schemathesis", &arguments)
    });
    let report = report.await.expect("no panic");
    println!("{}", report.split("= SUMMARY =").nth(1).unwrap_or_default());
}

/// Requests in order, with the answers as a text that is the same every time.
struct Tour {
    answers: String,
    seen: Vec<String>,
}

impl Tour {
    async fn go(
        &mut self,
        client: &Client,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Value {
        let mut request = client.request(method.clone(), path);
        if let Some(body) = &body {
            request = request.json(body);
        }
        let answer = client.send(request).await;
        let sent = body.map(|body| format!(" {body}")).unwrap_or_default();
        let head = self.plain(&format!("{method} {path}{sent}"));
        let shown = serde_json::to_string_pretty(&answer.body).expect("JSON");
        let shown = self.plain(&shown);
        let status = answer.status.as_u16();
        self.answers.extend([&head, "\n", &status.to_string(), "\n", &shown, "\n\n"]);
        answer.body["data"].clone()
    }

    /// Puts names in place of what differs from run to run.
    fn plain(&mut self, text: &str) -> String {
        let mut plain = String::new();
        let is_word = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
        for part in text.split_inclusive(|c: char| !is_word(c)) {
            let end = part.trim_end_matches(|c: char| !is_word(c)).len();
            let (word, rest) = part.split_at(end);
            plain.push_str(&self.name(word));
            plain.push_str(rest);
        }
        let measured = ["duration", "waitingMs", "avgWaitTimeMs", "durationMs", "last4"];
        let lines = plain.lines().map(|line| {
            let known = measured.iter().find(|name| line.contains(&format!("\"{name}\":")));
            let (head, value) =
                line.split_once(':').filter(|_| known.is_some()).unwrap_or((line, ""));
            let end = if value.ends_with(',') { "," } else { "" };
            if known.is_some() { format!("{head}: …{end}") } else { line.to_owned() }
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn name(&mut self, word: &str) -> String {
        let is_time = word.len() == 24 && word.ends_with('Z') && word.as_bytes()[10] == b'T';
        if is_time {
            return "TIME".into();
        }
        let prefix = word.rsplit_once('_').map_or("", |(prefix, _)| prefix);
        let is_id =
            ["dt_task", "dt_plan", "dt_exec", "dt_batch", "usr", "key", "wrk"].contains(&prefix);
        let is_hash =
            matches!(word.len(), 32 | 64) && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_id || (is_hash && word.bytes().any(|byte| byte != b'0')) {
            let at = self.seen.iter().position(|seen| seen == word).unwrap_or_else(|| {
                self.seen.push(word.to_owned());
                self.seen.len() - 1
            });
            return if is_id { format!("{prefix}_{at}") } else { format!("HASH_{at}") };
        }
        for secret in ["req_", "svc_", "rt_", "eyJ"] {
            if word.len() > 12 && word.starts_with(secret) {
                return format!("{secret}…");
            }
        }
        word.to_owned()
    }
}

#[tokio::test]
async fn a_change_of_an_answer_on_tasks_and_approvals_is_seen_in_review() {
    let fixture = Fixture::open().await;
    let mut tour = Tour { answers: String::new(), seen: Vec::new() };
    let (admin, operator) = (&fixture.admin, &fixture.operator);
    let viewer = fixture.key("viewer").await.client;
    let nobody = Client::new(&fixture.server.url, "");
    let full = json!({
        "prompt": "four words of text@0.71", "model": "m", "queue": "default", "systemPrompt": "s",
        "context": {"a": 1}, "priority": 7, "timeoutMs": 60_000, "tags": ["x"], "maxTokens": 50,
        "temperature": 0.5, "hitl": {"confidenceThreshold": 0.9, "timeoutMs": 100_000},
    });
    let task = tour.go(operator, Method::POST, "/api/tasks", Some(full)).await;
    let held = task["id"].as_str().expect("an id").to_owned();
    operator.task_when(&held, |task| task["awaitingApproval"] == true).await;
    let path = format!("/api/tasks/{held}");
    tour.go(operator, Method::GET, &path, None).await;
    tour.go(operator, Method::GET, "/api/tasks?limit=1", None).await;
    tour.go(operator, Method::GET, "/api/tasks?limit=0&order=up", None).await;
    tour.go(
        operator,
        Method::POST,
        "/api/tasks",
        Some(json!({"prompt": "", "priority": 11, "x": 1})),
    )
    .await;
    tour.go(&viewer, Method::POST, "/api/tasks", Some(json!({"prompt": "p"}))).await;
    tour.go(&nobody, Method::GET, "/api/tasks", None).await;
    tour.go(operator, Method::GET, "/api/tasks/dt_task_none", None).await;
    tour.go(operator, Method::PUT, &path, None).await;
    let batch =
        json!({"tasks": [{"prompt": "a", "queue": "idle"}, {"prompt": "b", "queue": "idle"}]});
    let batch = tour.go(operator, Method::POST, "/api/tasks/batch", Some(batch)).await;
    let idle = batch["tasks"][0]["id"].as_str().expect("an id").to_owned();
    tour.go(operator, Method::DELETE, &format!("/api/tasks/{idle}"), None).await;
    tour.go(operator, Method::DELETE, &format!("/api/tasks/{idle}"), None).await;
    insta::assert_snapshot!("tasks", std::mem::take(&mut tour.answers));

    for path in ["pending", "stats", "calibration?threshold=0.5", &held, &format!("{held}/history")]
    {
        tour.go(operator, Method::GET, &format!("/api/hitl/{path}"), None).await;
    }
    tour.go(admin, Method::POST, &format!("/api/hitl/{held}/claim"), None).await;
    tour.go(admin, Method::POST, &format!("/api/hitl/{held}/release"), None).await;
    let edit = json!({"comment": "fine", "modifiedOutput": "five words of other text"});
    tour.go(admin, Method::POST, &format!("/api/hitl/{held}/approve"), Some(edit)).await;
    tour.go(admin, Method::POST, &format!("/api/hitl/{held}/approve"), None).await;
    let task = operator.submit(&json!({"prompt": "no", "hitl": {"required": true}})).await;
    operator.task_when(&task, |task| task["awaitingApproval"] == true).await;
    let reject = json!({"reason": "too short", "retry": true, "retryPrompt": "yes"});
    tour.go(admin, Method::POST, &format!("/api/hitl/{task}/reject"), Some(reject)).await;
    tour.go(admin, Method::POST, &format!("/api/hitl/{task}/reject"), Some(json!({}))).await;
    tour.go(operator, Method::GET, "/api/hitl?status=approved", None).await;
    tour.go(operator, Method::GET, &format!("/api/hitl/{idle}"), None).await;
    insta::assert_snapshot!("approvals", std::mem::take(&mut tour.answers));
}

#[tokio::test]
async fn a_change_of_an_answer_on_plans_is_seen_in_review() {
    let fixture = Fixture::open().await;
    let mut tour = Tour { answers: String::new(), seen: Vec::new() };
    let operator = &fixture.operator;
    let plan = json!({"name": "p", "tags": ["t"], "steps": [
        {"id": "a", "prompt": "first {{input.x}}"},
        {"id": "b", "prompt": "{{a.output}}", "dependsOn": ["a"], "condition": "false"},
    ]});
    let plan = tour.go(operator, Method::POST, "/api/plans", Some(plan)).await;
    let id = plan["id"].as_str().expect("an id").to_owned();
    tour.go(operator, Method::GET, &format!("/api/plans/{id}"), None).await;
    tour.go(operator, Method::GET, "/api/plans", None).await;
    let broken = json!({"steps": [{"id": "a", "prompt": "{{b.output}}", "dependsOn": ["c"]}]});
    tour.go(operator, Method::POST, "/api/plans", Some(broken)).await;
    let execute = format!("/api/plans/{id}/execute");
    let dry = json!({"input": {"x": "y"}, "options": {"dryRun": true}});
    tour.go(operator, Method::POST, &execute, Some(dry)).await;
    tour.go(operator, Method::POST, &execute, None).await;
    let execution =
        tour.go(operator, Method::POST, &execute, Some(json!({"input": {"x": "y"}}))).await;
    let id = execution["id"].as_str().expect("an id").to_owned();
    operator.execution_with_status(&id, "completed").await;
    let path = format!("/api/plans/executions/{id}");
    tour.go(operator, Method::GET, &path, None).await;
    tour.go(operator, Method::GET, "/api/plans/executions", None).await;
    tour.go(operator, Method::DELETE, &path, None).await;
    tour.go(operator, Method::POST, &format!("{path}/retry"), None).await;
    insta::assert_snapshot!("plans", std::mem::take(&mut tour.answers));
}

#[tokio::test]
async fn a_change_of_an_answer_on_templates_is_seen_in_review() {
    let fixture = Fixture::open().await;
    let mut tour = Tour { answers: String::new(), seen: Vec::new() };
    let operator = &fixture.operator;
    let template = json!({
        "name": "T", "version": "1.0.0", "industry": "custom", "inputSchema": {"type": "object"},
        "steps": [{"id": "a", "prompt": "p"}], "hitl": {"requiredFor": ["a"]},
        "defaults": {"model": "m"}, "metadata": {"estimates": {"cost": 1, "durationMs": 2}},
    });
    tour.go(operator, Method::POST, "/api/templates", Some(template.clone())).await;
    let mut other = template;
    other["steps"][0]["prompt"] = "q".into();
    tour.go(operator, Method::POST, "/api/templates", Some(other)).await;
    tour.go(operator, Method::GET, "/api/templates/t-v1", None).await;
    tour.go(operator, Method::GET, "/api/templates/t-v1/versions", None).await;
    tour.go(operator, Method::GET, "/api/templates?industry=custom", None).await;
    tour.go(
        operator,
        Method::POST,
        "/api/templates/t-v1/deploy",
        Some(json!({"options": {"dryRun": true}})),
    )
    .await;
    tour.go(operator, Method::POST, "/api/templates/none-v1/deploy", None).await;
    insta::assert_snapshot!("templates", std::mem::take(&mut tour.answers));
}

#[tokio::test]
async fn a_change_of_an_answer_on_accounts_and_the_system_is_seen_in_review() {
    let fixture = Fixture::open().await;
    let mut tour = Tour { answers: String::new(), seen: Vec::new() };
    let (admin, operator) = (&fixture.admin, &fixture.operator);
    let nobody = Client::new(&fixture.server.url, "");
    let login = json!({"email": "admin@example.com", "password": "correct horse battery staple"});
    let session = tour.go(&nobody, Method::POST, "/api/auth/login", Some(login)).await;
    let token = json!({"refreshToken": session["refreshToken"]});
    tour.go(&nobody, Method::POST, "/api/auth/refresh", Some(token)).await;
    let user = json!({"email": "v@example.com", "password": "an unusual phrase", "role": "viewer"});
    let user = tour.go(admin, Method::POST, "/api/auth/users", Some(user.clone())).await;
    let path = format!("/api/auth/users/{}", user["id"].as_str().expect("an id"));
    tour.go(admin, Method::PATCH, &path, Some(json!({"role": "operator"}))).await;
    tour.go(admin, Method::GET, "/api/auth/users", None).await;
    tour.go(operator, Method::GET, "/api/auth/users", None).await;
    tour.go(admin, Method::POST, "/api/auth/keys", Some(json!({"name": "k", "role": "viewer"})))
        .await;
    tour.go(admin, Method::POST, "/api/auth/keys", Some(json!({"name": "k", "role": "boss"})))
        .await;
    insta::assert_snapshot!("accounts", std::mem::take(&mut tour.answers));

    tour.go(operator, Method::GET, "/api/workers", None).await;
    tour.go(operator, Method::GET, "/api/workers/connect", None).await;
    tour.go(operator, Method::GET, "/api/nowhere", None).await;
    tour.go(&nobody, Method::GET, "/health/live", None).await;
    insta::assert_snapshot!("system", std::mem::take(&mut tour.answers));
}
