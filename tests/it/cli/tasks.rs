//! Tasks from the command line, and what holds for every command: exit codes, output, pipes.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use super::fake::{Fake, Told};
use super::program::Home;
use crate::support::{FakeWorker, Server};

async fn home(server: &Server, role: &str) -> Home {
    Home::new(&server.url).with_key(&server.key(role).await)
}

#[tokio::test]
async fn every_class_of_failure_has_its_exit_code() {
    let server = Server::start();
    let operator = home(&server, "operator").await;
    let id = operator.json(&["tasks", "submit", "hello"]).await["id"].clone();
    let id = id.as_str().expect("an id");

    let usage = operator.run(&["tasks", "submit"]).await;
    assert!(usage.stdout.is_empty());
    usage.failed(2);
    operator.run(&["tasks", "show", ".."]).await.failed(2);
    operator.run(&["tasks", "list", "--server", "ftp://x"]).await.failed(2);
    let unknown = operator.run(&["tasks", "show", "dt_task_1"]).await.failed(3);
    assert!(unknown.contains("dt_task_1") && unknown.contains("NOT_FOUND"), "{unknown}");
    let nobody = Home::new(&server.url).run(&["tasks", "list"]).await.failed(4);
    assert!(nobody.contains("callboard auth login"), "{nobody}");
    let later = ["tasks", "submit", "x", "--start-at", "2099-01-01T00:00:00Z"];
    let later = operator.json(&later).await;
    assert_eq!(later["startAt"], "2099-01-01T00:00:00.000Z", "{later}");
    let never = ["tasks", "submit", "x", "--start-at", "tomorrow"];
    assert!(operator.run(&never).await.failed(5).contains("startAt"));
    home(&server, "viewer").await.run(&["tasks", "submit", "x"]).await.failed(4);
    operator.run(&["tasks", "submit", "x", "--priority", "99"]).await.failed(5);
    operator.run(&["tasks", "submit", "x", "--idempotency-key", "k"]).await.ok();
    operator.run(&["tasks", "submit", "y", "--idempotency-key", "k"]).await.failed(6);
    operator.run(&["tasks", "wait", id, "--timeout", "200ms"]).await.failed(8);
    operator.run(&["tasks", "cancel", id]).await.ok();
    operator.run(&["tasks", "cancel", id]).await.failed(6);
    let cancelled = operator.run(&["tasks", "wait", id]).await.failed(10);
    assert!(cancelled.contains("was cancelled"), "{cancelled}");

    let odd = Home::new(&server.url).with_key("svc_live\u{7}x").run(&["tasks", "list"]).await;
    assert!(!odd.failed(4).contains('\u{7}'));
    let closed = Home::new("http://127.0.0.1:9").with_key("svc_live_x");
    let unreachable = closed.run(&["tasks", "list"]).await.failed(9);
    assert!(unreachable.contains("http://127.0.0.1:9"), "{unreachable}");
}

#[tokio::test]
async fn a_read_is_repeated_as_the_server_asks_and_a_write_is_not() {
    let busy = Fake::start(|_, before| match before {
        0 | 1 => Told::Refused(429, "RATE_LIMIT_EXCEEDED"),
        _ => Told::Data(json!({"id": "dt_task_1", "status": "pending"})),
    })
    .await;
    let home = Home::new(&busy.url).with_key("svc_live_x");
    home.run(&["tasks", "submit", "x"]).await.failed(7);
    assert_eq!(home.json(&["tasks", "show", "dt_task_1"]).await["status"], "pending");
    assert_eq!(busy.asked().len(), 1 + 3);
    assert_eq!(busy.asked()[0].header("authorization"), Some("Bearer svc_live_x"));
}

#[tokio::test]
async fn a_task_is_submitted_listed_and_waited_for() {
    let server = Server::start();
    let home = home(&server, "operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let prompt = home.file("prompt.txt", "Say hello.\n");
    let arguments = [
        "tasks",
        "submit",
        "--file",
        &prompt,
        "--tag",
        "a",
        "--tag",
        "b",
        "--priority",
        "7",
        "--timeout",
        "60s",
        "--max-tokens",
        "9",
        "--temperature",
        "0.5",
        "--seed",
        "-7",
        "--top-p",
        "0.25",
        "--stop",
        "END",
        "--system",
        "Be kind.",
        "--wait",
        "-o",
        "json",
    ];
    let (ended, ()) = tokio::join!(home.run(&arguments), async {
        let assigned = worker.assignment().await;
        assert_eq!(assigned["task"]["prompt"], "Say hello.\n");
        assert_eq!(assigned["task"]["systemPrompt"], "Be kind.");
        assert_eq!(assigned["task"]["maxTokens"], 9);
        assert_eq!(
            (&assigned["task"]["seed"], &assigned["task"]["topP"]),
            (&json!(-7), &json!(0.25))
        );
        assert_eq!(assigned["task"]["stop"], json!(["END"]));
        worker.complete(&assigned["lease"], "hello\u{1b}]0;x\u{7}\nthere").await;
    });
    let task: Value = serde_json::from_str(&ended.ok()).expect("JSON and nothing else");
    assert_eq!((&task["status"], &task["priority"]), (&json!("completed"), &json!(7)));
    assert_eq!(task["timeoutMs"], 60_000);
    assert_eq!(task["output"], "hello\u{1b}]0;x\u{7}\nthere");

    let id = task["id"].as_str().expect("an id");
    let shown = home.run(&["tasks", "show", id]).await.ok();
    assert!(shown.contains("output:\n  hello\\u{1b}]0;x\\u{7}\n  there\n"), "{shown:?}");
    assert!(!shown.contains('\u{1b}'));

    home.run_with_input(&["tasks", "submit", "-", "--tag", "a"], "From a pipe.").await.ok();
    let list = home.json(&["tasks", "list", "--tag", "a", "--order", "asc", "--limit", "1"]).await;
    assert_eq!(list["data"][0]["id"], id);
    assert_eq!(list["pagination"], json!({"total": 2, "limit": 1, "offset": 0, "hasMore": true}));
    let lines = home.run(&["tasks", "list", "-o", "jsonl"]).await.ok();
    assert_eq!(lines.lines().count(), 2);
    assert!(lines.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    let table = home.run(&["tasks", "list", "--status", "completed,failed"]).await.ok();
    assert_eq!(table.lines().count(), 2, "{table}");
}

#[tokio::test]
async fn a_task_is_submitted_with_a_schema_and_a_confidence() {
    let server = Server::start();
    let home = home(&server, "operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let schema = home.file("schema.yaml", "type: object\nrequired: [n]\n");
    let arguments = [
        "tasks",
        "submit",
        "p",
        "--output-schema",
        &schema,
        "--confidence",
        "judge",
        "--samples",
        "2",
        "--judge",
        "j",
        "--rubric",
        "It counts.",
        "--confidence-field",
        "n",
    ];
    home.run(&arguments).await.ok();
    let task = worker.assignment().await["task"].clone();
    assert_eq!(task["outputSchema"], json!({"type": "object", "required": ["n"]}));
    let expected = json!({
        "method": "judge", "n": 2, "fields": ["n"], "judgeModel": "j", "rubric": "It counts.",
    });
    assert_eq!(task["confidence"], expected);
    home.run(&["tasks", "submit", "p", "--samples", "2"]).await.failed(2);
}

#[tokio::test]
async fn a_wait_outlives_a_restart_of_the_server() {
    // The port must be the same again, so the settings choose it.
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = port.local_addr().expect("an address");
    let gone = Home::new(&format!("http://{address}")).with_key("svc_live_x");
    drop(port);
    let mut waiting = gone
        .command(&["tasks", "wait", "dt_task_1", "--timeout", "20s"])
        .spawn()
        .expect("it starts");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(waiting.try_wait().expect("it is there").is_none(), "it does not give up");
    let router = axum::Router::new().fallback(|| async {
        r#"{"success":true,"data":{"id":"dt_task_1","status":"completed"},"meta":{}}"#
    });
    let listener = tokio::net::TcpListener::bind(address).await.expect("the port again");
    tokio::spawn(async move { axum::serve(listener, router).await });
    assert!(waiting.wait().await.expect("it ends").success());
}

#[tokio::test]
async fn a_closed_pipe_ends_a_command_quietly() {
    let many = Fake::start(|_, _| {
        Told::Page(
            (0..5_000)
                .map(|n| json!({"id": format!("dt_task_{n}"), "x": "y".repeat(99)}))
                .collect(),
        )
    })
    .await;
    let home = Home::new(&many.url).with_key("svc_live_x");
    for arguments in [&["tasks", "list", "-o", "jsonl"][..], &["completions", "bash"]] {
        let mut child = home.command(arguments).stdout(Stdio::piped()).spawn().expect("it starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().await.expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
    }
}

#[tokio::test]
async fn work_that_failed_is_10_even_if_nobody_reads_what_the_command_prints() {
    let fake = Fake::start(|asked, _| match asked.line.as_str() {
        line if line.contains("/executions/") => {
            if line.contains("stream") {
                return Told::Refused(403, "FORBIDDEN");
            }
            Told::Data(json!({"id": "dt_exec_1", "status": "failed", "error": {"code": "X"}}))
        }
        "POST /api/bulk" => Told::Data(json!({"id": "blk_1", "status": "running"})),
        _ => Told::Data(json!({"id": "dt_task_1", "status": "failed", "total": 3, "failed": 1})),
    })
    .await;
    let home = Home::new(&fake.url).with_key("svc_live_x");
    for arguments in [
        &["executions", "retry", "dt_exec_1", "--wait", "-o", "json"][..],
        &["executions", "watch", "dt_exec_1", "-o", "json"],
        &["tasks", "wait", "dt_task_1"],
        &["bulk", "cancel", "--queue", "q", "--wait"],
    ] {
        let mut child = home.command(arguments).stdout(Stdio::piped()).spawn().expect("it starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().await.expect("it ends");
        assert_eq!(output.status.code(), Some(10), "{arguments:?}: {output:?}");
    }
    let shown = home.run(&["bulk", "show", "blk_1"]).await.ok();
    assert!(shown.contains("failed"), "to show a job is no wait for it: {shown}");
}

#[tokio::test]
async fn a_wait_for_a_bulk_job_outlives_a_restart_of_the_server() {
    let fake = Fake::start(|asked, before| match (asked.line.as_str(), before) {
        ("POST /api/bulk", _) | (_, 1) => Told::Data(json!({"id": "blk_1", "status": "running"})),
        (_, 0) => Told::Refused(503, "UNAVAILABLE"),
        _ => Told::Data(json!({"id": "blk_1", "status": "completed", "total": 1, "failed": 0})),
    })
    .await;
    let home = Home::new(&fake.url).with_key("svc_live_x");
    home.run(&["bulk", "cancel", "--queue", "q", "--wait"]).await.ok();
}

#[tokio::test]
async fn a_wait_ends_in_time_even_if_the_server_does_not_answer() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let home = Home::new(&format!("http://{}", listener.local_addr().expect("an address")));
    let home = home.with_key("svc_live_x");
    for (name, id) in [("tasks", "dt_task_1"), ("executions", "dt_exec_1")] {
        let wait = if name == "tasks" { "wait" } else { "watch" };
        let begun = std::time::Instant::now();
        home.run(&[name, wait, id, "--timeout", "1s"]).await.failed(8);
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn what_is_no_callboard_server_is_named() {
    let router = axum::Router::new().fallback(|| async { "<html>welcome</html>" });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let told = Home::new(&url).with_key("k").run(&["workers", "list"]).await.failed(1);
    assert!(told.contains(&url) && told.contains("<html>"), "{told}");
}

#[tokio::test]
async fn a_warning_of_the_server_goes_to_standard_error() {
    let server = Server::start();
    let home = Home::new(&server.url).with_key(&server.key("operator").await);
    for arguments in [
        &["tasks", "submit", "p", "-o", "json"][..],
        &["templates", "deploy", "contract-review-v1", "--sample", "-o", "json"],
    ] {
        let ended = home.run(arguments).await;
        assert!(ended.stderr.contains("warning: no worker is connected"), "{ended:?}");
        assert!(serde_json::from_str::<Value>(&ended.ok()).is_ok());
    }
}
