//! `/metrics`: names, labels, counts, and who may read them; the dashboard and the alerts that use them.
#![expect(clippy::float_cmp, reason = "counts are exact")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{Client, FakeWorker, Server, until};

/// The samples of a scrape.
pub(crate) struct Scrape(pub(crate) Vec<Sample>);

#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

impl Scrape {
    pub(crate) async fn of(client: &Client) -> Self {
        let (status, _, text) = fetched(client, "/metrics", None).await;
        assert_eq!(status, 200, "{text}");
        Self::read(&text)
    }

    /// The samples of an answer.
    pub(crate) fn read(text: &str) -> Self {
        Self(text.lines().filter(|line| !line.starts_with('#')).map(sample).collect())
    }

    /// The value of a sample whose labels include these.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let fits = |sample: &&Sample| {
            sample.name == name
                && labels.iter().all(|(label, value)| {
                    sample.labels.get(*label).map(String::as_str) == Some(value)
                })
        };
        let found: Vec<_> = self.0.iter().filter(fits).collect();
        assert_eq!(found.len(), 1, "{name} {labels:?}: {found:?}");
        found[0].value
    }

    /// Every name with the labels that its samples have.
    fn names(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut names = BTreeMap::<_, BTreeSet<_>>::new();
        for sample in &self.0 {
            let labels = sample.labels.keys().map(String::as_str);
            names.entry(sample.name.as_str()).or_default().extend(labels);
        }
        names
    }
}

/// `name{label="value",…} 1.5`
fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').expect("a value");
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    let labels = labels.trim_end_matches('}');
    let labels = labels.split_terminator("\",").filter_map(|pair| pair.split_once("=\""));
    let labels =
        labels.map(|(label, value)| (label.to_owned(), value.trim_end_matches('"').to_owned()));
    let value = value.parse().unwrap_or_else(|_| panic!("a number: {line}"));
    Sample { name: name.to_owned(), labels: labels.collect(), value }
}

/// The status, the media type and the text of an answer.
async fn fetched(
    client: &Client,
    path: &str,
    accept: Option<&str>,
) -> (StatusCode, String, String) {
    let mut request = client.request(Method::GET, path);
    if let Some(accept) = accept {
        request = request.header("accept", accept);
    }
    let answer = request.send().await.expect("an answer");
    let media =
        answer.headers().get("content-type").map(|media| media.to_str().expect("text").to_owned());
    (answer.status(), media.unwrap_or_default(), answer.text().await.expect("a text"))
}

const SPECIFIED: [(&str, &[&str]); 6] = [
    ("svc_tasks_total", &["model", "status"]),
    ("svc_tasks_duration_seconds", &["model", "quantile"]),
    ("svc_plans_total", &["status"]),
    ("svc_hitl_pending_count", &[]),
    ("svc_workers_active", &[]),
    ("svc_queue_depth", &["queue"]),
];

#[tokio::test]
async fn the_specified_names_and_labels_are_there_from_the_start() {
    let server = Server::start();
    let viewer = server.client("viewer").await;
    let scrape = Scrape::of(&viewer).await;
    let names = scrape.names();
    for (name, labels) in SPECIFIED {
        let found: Vec<_> =
            names.get(name).unwrap_or_else(|| panic!("{name}")).iter().copied().collect();
        assert_eq!(found, labels, "{name}");
    }
    let model = ("model", "smollm2-135m");
    for status in ["pending", "running", "completed", "failed", "cancelled", "rejected"] {
        assert_eq!(scrape.value("svc_tasks_total", &[("status", status), model]), 0.0);
    }
    for status in ["running", "completed", "failed", "cancelled"] {
        assert_eq!(scrape.value("svc_plans_total", &[("status", status)]), 0.0);
    }
    assert_eq!(scrape.value("svc_queue_depth", &[("queue", "default")]), 0.0);
    assert!(scrape.value("process_resident_memory_bytes", &[]) > 1e6);
    assert!(scrape.value("svc_disk_free_bytes", &[]) > 0.0);
    assert!(scrape.value("svc_store_bytes", &[("part", "journal")]) > 0.0);
    assert!(scrape.value("svc_http_connections", &[]) >= 1.0);
}

#[tokio::test]
async fn work_is_counted_and_a_restart_keeps_what_is_and_resets_what_was() {
    let mut server = Server::start();
    let client = server.client("operator").await;
    let held = json!({"prompt": "p", "model": "held", "hitl": {"required": true}});
    let held = client.submit(&held).await;
    let plan = client.plan(&json!([{"id": "a", "prompt": "p"}])).await;
    let worker = FakeWorker::connect(&server, &server.key("worker").await, 4).await;
    let running = worker.run(|task| match task["prompt"].as_str() {
        Some("fail") => Err("it fails".to_owned()),
        _ => Ok("out".to_owned()),
    });
    let failing = client.submit(&json!({"prompt": "fail", "model": "x-y"})).await;
    client.task_with_status(&failing, "failed").await;
    let execution = client.execute(&plan, &json!({})).await;
    client.execution_with_status(&execution, "completed").await;
    client.task_when(&held, |task| task["awaitingApproval"] == true).await;
    // An actor counts a moment after the commit that can be read.
    let counted = async || {
        let scrape = Scrape::of(&client).await;
        let plans = scrape.value("svc_plans_total", &[("status", "completed")]);
        let attempts = scrape.0.iter().filter(|one| one.name == "svc_task_run_seconds_count");
        plans == 1.0 && attempts.map(|one| one.value).sum::<f64>() == 3.0
    };
    until("three attempts and an execution are counted", counted).await;

    let scrape = Scrape::of(&client).await;
    let entries =
        |status, model| scrape.value("svc_tasks_total", &[("status", status), ("model", model)]);
    assert_eq!((entries("pending", "held"), entries("running", "held")), (2.0, 1.0));
    assert_eq!((entries("failed", "x-y"), entries("completed", "smollm2-135m")), (1.0, 1.0));
    assert_eq!(scrape.value("svc_plans_total", &[("status", "completed")]), 1.0);
    assert_eq!(scrape.value("svc_task_failures_total", &[("code", "PROVIDER_ERROR")]), 1.0);
    assert_eq!(scrape.value("svc_tokens_total", &[("model", "held"), ("kind", "input")]), 3.0);
    assert_eq!(scrape.value("svc_hitl_pending_count", &[]), 1.0);
    assert_eq!(scrape.value("svc_workers_active", &[]), 1.0);
    assert_eq!(scrape.value("svc_task_run_seconds_count", &[("model", "held")]), 1.0);
    assert!(
        scrape
            .value("svc_tasks_duration_seconds", &[("model", "smollm2-135m"), ("quantile", "0.5")])
            > 0.0
    );
    assert!(scrape.value("svc_http_responses_total", &[("class", "2xx")]) > 3.0);

    client
        .post(&format!("/api/hitl/{held}/approve"), &json!({"modifiedOutput": "other"}))
        .await
        .expect_ok();
    let scrape = Scrape::of(&client).await;
    assert_eq!(scrape.value("svc_hitl_decisions_total", &[("decision", "edited")]), 1.0);
    assert_eq!(scrape.value("svc_hitl_pending_count", &[]), 0.0);

    running.abort();
    for _ in 0..3 {
        client.submit(&json!({"prompt": "p", "queue": "nobody"})).await;
    }
    client.submit(&json!({"prompt": "p", "queue": "nobody", "hitl": {"required": true}})).await;
    assert!(server.terminate());
    server.restart();
    let client = client.at(&server.url);
    let scrape = Scrape::of(&client).await;
    assert_eq!(scrape.value("svc_queue_depth", &[("queue", "nobody")]), 4.0);
    assert!(scrape.value("svc_queue_oldest_seconds", &[("queue", "nobody")]) > 0.0);
    assert_eq!(scrape.value("svc_plans_total", &[("status", "completed")]), 0.0);
}

#[tokio::test]
async fn what_calls_an_operator_is_counted() {
    let server = Server::with(&[("LIMITS_FREE__REQUESTS_PER_MINUTE", "2")]);
    let client = server.client("operator").await;
    let before = Scrape::of(&client).await;
    assert_eq!(before.value("svc_queue_workers", &[("queue", "default")]), 0.0);
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    client.submit(&json!({"prompt": "p"})).await;
    worker.assignment().await;

    let login = json!({"email": "admin@example.com", "password": "not the password"});
    assert_eq!(client.post("/api/auth/login", &login).await.status, 401);
    let admin = server.admin().await;
    let key = json!({"name": "small", "role": "viewer", "plan": "free"});
    let key = admin.post("/api/auth/keys", &key).await.expect(201);
    let small = Client::new(&server.url, key["key"].as_str().expect("a key"));
    let asked = [small.get("/api/tasks").await, small.get("/api/tasks").await];
    assert!(asked.iter().all(|answer| answer.status == 200));
    assert_eq!(small.get("/api/tasks").await.status, 429);

    let target = json!({"task": {"prompt": "p", "queue": "nobody"}});
    let schedule = json!({"name": "yearly", "cron": "0 0 1 1 *", "target": target});
    let schedule = client.post("/api/schedules", &schedule).await.expect(201);
    let run = format!("/api/schedules/{}/trigger", schedule["id"].as_str().expect("an id"));
    client.post(&run, &json!({})).await.expect_ok();

    let scrape = Scrape::of(&client).await;
    assert_eq!(scrape.value("svc_queue_workers", &[("queue", "default")]), 1.0);
    assert_eq!(scrape.value("svc_tasks_running", &[]), 1.0);
    assert_eq!(scrape.value("svc_sign_ins_refused_total", &[]), 1.0);
    assert_eq!(scrape.value("svc_http_limited_total", &[("limit", "requests")]), 1.0);
    assert_eq!(scrape.value("svc_http_limited_total", &[("limit", "waiting")]), 0.0);
    let started = [("outcome", "started")];
    assert_eq!(scrape.value("svc_schedule_occurrences_total", &started), 1.0);
    let requests = "svc_http_request_seconds_count";
    assert!(scrape.value(requests, &[]) > before.value(requests, &[]));
    assert_eq!(
        scrape.value("svc_log_events_total", &[("level", "error")]),
        before.value("svc_log_events_total", &[("level", "error")])
    );
    assert!(scrape.value("process_max_fds", &[]) > scrape.value("process_open_fds", &[]));
}

#[tokio::test]
async fn failed_attempts_lost_leases_and_deliveries_are_counted() {
    let server = Server::with(&[
        ("WEBHOOKS__ALLOW", "127.0.0.1/32"),
        ("WEBHOOKS__RETRY_SECONDS", "0"),
        ("WORKER__LEASE", "3s"),
        ("WORKER__HEARTBEAT", "1s"),
        ("WORKER__SILENT_AFTER", "2500ms"),
    ]);
    let client = server.client("operator").await;
    let key = server.key("worker").await;
    // Nobody listens there any more.
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", nobody.local_addr().expect("an address"));
    drop(nobody);
    let task = json!({"prompt": "p", "model": "gpt-6-astra", "callbackUrl": url});
    let id = client.submit(&task).await;
    let mut worker = FakeWorker::connect(&server, &key, 1).await;
    let assigned = worker.assignment().await;
    let error = json!({"code": "PROVIDER_RATE_LIMITED", "message": "busy"});
    let fail = json!({
        "type": "fail", "lease": assigned["lease"], "error": error, "retryable": true,
    });
    worker.send(fail).await;
    worker.assignment().await;
    drop(worker);
    let _worker = FakeWorker::connect(&server, &key, 1).await.run(|_| Ok("done".into()));
    let task = client.task_with_status(&id, "completed").await;
    assert_eq!((&task["workersLost"], &task["retryCount"]), (&json!(1), &json!(1)));
    let path = format!("/api/webhooks/deliveries?status=dead&taskId={id}");
    until("it is given up", async || client.get(&path).await.expect_ok() != json!([])).await;
    let counted = async || {
        let dead = [("kind", "webhook"), ("outcome", "dead")];
        Scrape::of(&client).await.value("svc_deliveries_total", &dead) == 1.0
    };
    until("its end is counted", counted).await;

    let scrape = Scrape::of(&client).await;
    let limited = [("code", "PROVIDER_RATE_LIMITED")];
    assert_eq!(scrape.value("svc_task_retries_total", &limited), 1.0);
    assert_eq!(scrape.value("svc_leases_lost_total", &[("queue", "default")]), 1.0);
    let failed = [("kind", "webhook"), ("outcome", "failed")];
    assert_eq!(scrape.value("svc_deliveries_total", &failed), 1.0);
    let model = ("model", "gpt-6-astra");
    // Three tokens in, five out.
    let cost = scrape.value("svc_cost_usd_total", &[model]);
    assert!((cost - (3.0 * 0.000_01 + 5.0 * 0.000_05)).abs() < 1e-9, "{cost}");
    assert_eq!(scrape.value("svc_tokens_total", &[model, ("kind", "output")]), 5.0);
    assert_eq!(scrape.value("svc_task_run_seconds_count", &[model]), 3.0);
    assert_eq!(scrape.value("svc_task_queue_wait_seconds_count", &[("queue", "default")]), 1.0);
    assert!(scrape.value("svc_commit_seconds_count", &[]) > 0.0);
}

#[tokio::test]
async fn a_task_that_could_not_run_earlier_is_no_older() {
    let server = Server::start();
    let client = server.client("operator").await;
    let (begun, ahead) = (Instant::now(), Duration::from_secs(2));
    let at = Timestamp::now() + ahead;
    let task = json!({"prompt": "p", "queue": "nobody", "startAt": at.to_string()});
    client.submit(&task).await;
    let nobody = [("queue", "nobody")];
    let ready = async || {
        let scrape = Scrape::of(&client).await;
        let depth = scrape.0.iter().find(|one| {
            one.name == "svc_queue_depth"
                && one.labels.get("queue").is_some_and(|it| it == "nobody")
        });
        depth.is_some_and(|depth| depth.value == 1.0)
    };
    until("the task is ready", ready).await;
    let oldest = Scrape::of(&client).await.value("svc_queue_oldest_seconds", &nobody);
    let could_run = begun.elapsed().saturating_sub(ahead).as_secs_f64();
    assert!(oldest <= could_run + 0.1, "{oldest} s, but it could run for {could_run} s");
}

#[tokio::test]
async fn models_and_queues_beyond_the_200th_count_together() {
    let server = Server::start();
    let client = server.client("operator").await;
    let tasks = (0..250)
        .map(|n| json!({"prompt": "p", "model": format!("m{n}"), "queue": format!("q{n}")}));
    let tasks: Vec<_> = tasks.collect();
    for batch in tasks.chunks(100) {
        client.post("/api/tasks/batch", &json!({"tasks": batch})).await.expect(201);
    }
    let scrape = Scrape::of(&client).await;
    let sum = |name: &str, label: &str, only: &str| {
        let of = |one: &&Sample| {
            one.name == name && one.labels.get("status").is_none_or(|it| it == only)
        };
        let found: Vec<_> = scrape.0.iter().filter(of).collect();
        let values: BTreeSet<_> = found.iter().map(|one| one.labels[label].clone()).collect();
        assert!(values.contains("other") && values.len() <= 201, "{}", values.len());
        found.iter().map(|one| one.value).sum::<f64>()
    };
    assert_eq!(sum("svc_tasks_total", "model", "pending"), 250.0);
    assert_eq!(sum("svc_queue_depth", "queue", ""), 250.0);
}

#[tokio::test]
async fn metrics_are_for_viewers_unless_they_are_public() {
    let server = Server::start();
    let nobody = Client::new(&server.url, "");
    let admin = server.admin().await;
    let test = json!({"name": "t", "role": "viewer", "environment": "test"});
    let test = admin.post("/api/auth/keys", &test).await.expect(201);
    let test = Client::new(&server.url, test["key"].as_str().expect("a key"));
    let viewer = Client::new(&server.url, &server.key("viewer").await);
    let worker = Client::new(&server.url, &server.key("worker").await);
    for path in ["/metrics", "/api/metrics"] {
        for (client, status) in [(&nobody, 401), (&test, 403), (&worker, 403), (&viewer, 200)] {
            assert_eq!(fetched(client, path, None).await.0, status, "{path}");
        }
    }
    let server = Server::with(&[("METRICS__PUBLIC", "true")]);
    let nobody = Client::new(&server.url, "");
    for path in ["/metrics", "/api/metrics"] {
        assert_eq!(fetched(&nobody, path, None).await.0, 200, "{path}");
    }
}

#[tokio::test]
async fn the_text_is_prometheus_or_open_metrics_as_the_client_accepts() {
    let server = Server::start();
    let viewer = server.client("viewer").await;
    let (_, media, text) = fetched(&viewer, "/api/metrics", None).await;
    assert_eq!(media, "text/plain; version=0.0.4; charset=utf-8");
    assert!(text.contains("# TYPE svc_tasks_total counter\n") && !text.contains("# EOF"));
    let accept = "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5";
    let (_, media, text) = fetched(&viewer, "/metrics", Some(accept)).await;
    assert_eq!(media, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(text.contains("# TYPE svc_tasks counter\n") && text.ends_with("\n# EOF\n"));
}

/// Words of the query language that are neither metrics nor labels.
const WORDS: [&str; 4] = ["and", "or", "unless", "bool"];
/// Labels that Prometheus adds.
const ADDED: [&str; 3] = ["job", "instance", "__name__"];

/// The metrics and the labels that an expression names.
fn named(expression: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut metrics, mut labels) = (BTreeSet::new(), BTreeSet::new());
    let (mut rest, mut braces, mut groups) = (expression, 0, false);
    while let Some(character) = rest.chars().next() {
        if character == '"' {
            rest = rest[1..].split_once('"').expect("a closing quote").1;
            continue;
        }
        if character == '[' {
            rest = rest.split_once(']').expect("a closing bracket").1;
            continue;
        }
        let length =
            rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        if length == 0 {
            match character {
                '{' => braces += 1,
                '}' => braces -= 1,
                ')' => groups = false,
                _ => {}
            }
            rest = &rest[character.len_utf8()..];
            continue;
        }
        let (word, after) = rest.split_at(length);
        rest = after;
        if word.starts_with(|c: char| c.is_ascii_digit()) {
        } else if braces > 0 || groups {
            labels.insert(word.to_owned());
        } else if ["by", "on", "ignoring"].contains(&word) {
            groups = true;
        } else if !WORDS.contains(&word)
            && !after.trim_start().starts_with('(')
            && !after.starts_with(" by")
        {
            metrics.insert(word.to_owned());
        }
    }
    (metrics, labels)
}

/// The values that an expression asks of a metric's labels: metric, label, value.
fn matched(expression: &str) -> Vec<(&str, &str, &str)> {
    let mut found = Vec::new();
    let (mut before, mut rest) = ("", expression);
    while let Some((name, after)) = rest.split_once('{') {
        before =
            name.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or(before);
        let (matchers, after) = after.split_once('}').expect("a closing brace");
        for matcher in matchers.split("\",") {
            let (label, values) = matcher.split_once('=').expect("a matcher");
            let values = values.trim_start_matches('~').trim_matches('"');
            found.extend(values.split('|').map(|value| (before, label, value)));
        }
        rest = after;
    }
    found
}

/// Every value of the member `expr` in a document.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(expression)) = members.get("expr") {
                found.push(expression.clone());
            }
            members.values().for_each(|member| expressions(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn an_expression_is_read_for_its_metrics_and_labels() {
    let (metrics, labels) = named(
        "histogram_quantile(0.9, sum by (le, queue) (rate(svc_x_bucket{model=~\"a|b\"}[5m]))) > 2 and up{job=\"y\"} == 0",
    );
    assert_eq!(metrics.into_iter().collect::<Vec<_>>(), ["svc_x_bucket", "up"]);
    assert_eq!(labels.into_iter().collect::<Vec<_>>(), ["job", "le", "model", "queue"]);
    assert_eq!(
        matched("rate(svc_x{a=\"b\",c=~\"d|e\"}[5m]) / on (a) up{job=\"y\"}"),
        [("svc_x", "a", "b"), ("svc_x", "c", "d"), ("svc_x", "c", "e"), ("up", "job", "y")],
    );
}

/// Served once there is a certificate, a backup, an archive, a spent budget: the year of operating a server sees them.
const LATER: &str = "svc_certificate_expires_seconds{certificate=\"server\"} 1
svc_restorable_to_seconds 1
svc_archive_continuous 1
svc_tasks_waiting{queue=\"default\",waiting_for=\"budget\"} 1";

#[tokio::test]
async fn the_dashboard_and_the_alerts_name_only_what_a_server_serves() {
    let dashboard: Value =
        serde_json::from_str(include_str!("../../config/monitoring/grafana.json")).expect("JSON");
    assert!(dashboard["title"].is_string() && dashboard["schemaVersion"].is_u64());
    let mut all = Vec::new();
    expressions(&dashboard, &mut all);
    assert!(all.len() >= 15, "{}", all.len());
    let alerts = callboard_protocol::document::yaml::parse(include_bytes!(
        "../../config/monitoring/alerts.yml"
    ))
    .expect("YAML");
    let before = all.len();
    expressions(&alerts, &mut all);
    assert!(all.len() >= before + 5, "queue age, failures, approvals, dead letters, disk");

    let server = Server::start();
    let mut scrape = Scrape::of(&server.client("viewer").await).await;
    scrape.0.extend(Scrape::read(LATER).0);
    let names = scrape.names();
    for expression in all {
        let (metrics, labels) = named(&expression);
        let metrics = metrics.iter().filter(|metric| *metric != "up");
        let known: BTreeSet<_> = metrics
            .flat_map(|metric| {
                let labels = names.get(metric.as_str());
                labels.unwrap_or_else(|| panic!("{metric} of {expression} is not served"))
            })
            .copied()
            .chain(ADDED)
            .collect();
        for label in labels {
            assert!(
                known.contains(label.as_str()),
                "{expression}: no metric has the label {label}"
            );
        }
        for (metric, label, value) in matched(&expression) {
            let has = |one: &Sample| {
                one.name == metric && one.labels.get(label).is_some_and(|it| it == value)
            };
            let is_added = ADDED.contains(&label);
            assert!(is_added || scrape.0.iter().any(has), "{metric} has no {label}={value}");
        }
    }
}
