//! Executions from the command line: started, watched over breaks, waited for.

use serde_json::{Value, json};

use super::fake::{After, Asked, Fake, Told, execution, step_event};
use super::program::Home;

const STATE: &str = "GET /api/plans/executions/dt_exec_1";

fn is_stream(asked: &Asked) -> bool {
    asked.line.starts_with("GET /api/events")
}

/// Its stream breaks after an event, and then sends the rest.
async fn breaking() -> Fake {
    Fake::start(|asked, before| match (is_stream(asked), before) {
        (true, 0) => Told::Events(vec![step_event("e1", "step.started", "one")], After::Break),
        (true, _) => {
            let end =
                "id: e3\nevent: execution.completed\ndata: {\"event\":\"execution.completed\"}\n\n";
            let rest = vec![step_event("e2", "step.completed", "one"), end.into()];
            Told::Events(rest, After::Silence)
        }
        (false, 0) => Told::Data(execution("running", "pending", "pending")),
        (false, 1 | 2) => Told::Data(execution("running", "running", "pending")),
        (false, 3) => Told::Data(execution("running", "completed", "running")),
        (false, _) => Told::Data(execution("completed", "completed", "completed")),
    })
    .await
}

#[tokio::test]
async fn without_a_terminal_every_change_of_a_step_is_a_line() {
    let fake = breaking().await;
    let home = Home::new(&fake.url).with_key("k");
    let shown = home.run(&["executions", "watch", "dt_exec_1"]).await.ok();
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    let lines: Vec<_> = shown.lines().map(|line| line.get(11..).unwrap_or(line)).collect();
    let steps = ["one  running  1.2 s", "one  completed  1.2 s", "two  running", "two  completed"];
    assert_eq!(lines[..4], steps, "{shown}");
    let end = "dt_exec_1 completed: 2 of 2 steps completed, 3 tokens, 0.5000 USD";
    assert_eq!(shown.lines().last(), Some(end));
    let streams: Vec<_> = fake.asked().into_iter().filter(is_stream).collect();
    assert!(streams[0].line.ends_with("?executionId=dt_exec_1"), "{streams:?}");
    assert_eq!(streams[0].header("last-event-id"), None);
    assert_eq!(streams[1].header("last-event-id"), Some("e1"));
}

#[tokio::test]
async fn as_jsonl_the_events_are_shown_and_the_last_of_them_is_the_end() {
    let fake = breaking().await;
    let home = Home::new(&fake.url).with_key("k");
    let shown = home.run(&["executions", "watch", "dt_exec_1", "-o", "jsonl"]).await.ok();
    let events: Vec<Value> =
        shown.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(events.last().expect("some")["event"], "execution.completed", "{shown}");
    let heard = |name: &str| events.iter().filter(|event| event["cursor"] == name).count();
    assert_eq!((heard("e1"), heard("e2")), (1, 1), "{shown}");
}

#[tokio::test]
async fn without_a_stream_the_state_is_read_until_the_end_and_a_failure_is_10() {
    let fake = Fake::start(|asked, before| match (is_stream(asked), before) {
        (true, _) => Told::Refused(403, "FORBIDDEN"),
        (false, 0) => Told::Data(execution("running", "running", "pending")),
        (false, 1) => Told::Refused(503, "UNAVAILABLE"),
        (false, 2) => {
            let mut held = execution("running", "completed", "pending");
            held["progress"]["awaitingApproval"] = 1.into();
            Told::Data(held)
        }
        (false, _) => {
            let mut failed = execution("failed", "completed", "failed");
            failed["error"] =
                json!({"code": "PROVIDER_ERROR", "message": "\u{7}no", "stepId": "two"});
            Told::Data(failed)
        }
    })
    .await;
    let home = Home::new(&fake.url).with_key("k");
    let ended = home.run(&["executions", "watch", "dt_exec_1"]).await;
    assert!(ended.stdout.contains("a step waits for a reviewer's approval"), "{ended:?}");
    assert!(ended.stdout.contains("two  failed"), "{ended:?}");
    let told = ended.failed(10);
    assert!(told.contains("\\u{7}no (PROVIDER_ERROR)"), "{told}");
}

#[tokio::test]
async fn a_watch_that_may_not_go_on_says_so() {
    let fake = Fake::start(|asked, _| {
        if is_stream(asked) {
            let held = step_event("e1", "step.awaiting_approval", "two");
            return Told::Events(vec![held], After::Silence);
        }
        Told::Data(execution("running", "completed", "pending"))
    })
    .await;
    let home = Home::new(&fake.url).with_key("k");
    let ended = home.run(&["executions", "watch", "dt_exec_1", "--timeout", "1500ms"]).await;
    assert!(ended.stdout.contains("two  waits for approval"), "{ended:?}");
    assert!(ended.failed(8).contains("still running"));
    let unknown = Fake::start(|_, _| Told::Refused(404, "NOT_FOUND")).await;
    Home::new(&unknown.url).with_key("k").run(&["executions", "watch", "x"]).await.failed(3);
}

#[tokio::test]
async fn a_plan_is_made_from_yaml_and_executed_with_settings() {
    let fake = Fake::start(|asked, _| match asked.line.as_str() {
        "POST /api/plans" => Told::Data(json!({"id": "dt_plan_1", "name": "p", "steps": []})),
        STATE => Told::Data(execution("completed", "completed", "completed")),
        line if line.starts_with("GET /api/events") => Told::Refused(404, "NOT_FOUND"),
        _ => Told::Data(execution("running", "pending", "pending")),
    })
    .await;
    let home = Home::new(&fake.url).with_key("k");
    let plan =
        home.file("plan.yaml", "name: p\nsteps:\n  - id: one\n    prompt: 'Say {{input.x}}.'\n");
    assert_eq!(home.json(&["plans", "create", &plan]).await["id"], "dt_plan_1");
    let steps = json!([{"id": "one", "prompt": "Say {{input.x}}."}]);
    assert_eq!(fake.asked_for("POST /api/plans").json(), json!({"name": "p", "steps": steps}));
    let bad = home.file("bad.yaml", "name: p\nname: q\n");
    assert!(home.run(&["plans", "create", &bad]).await.failed(5).contains("bad.yaml"));

    let text = home.file("x.txt", "from a file");
    let input = home.file("input.json", r#"{"x": "a", "y": 1}"#);
    let arguments = [
        "plans",
        "execute",
        "dt_plan_1",
        "--input",
        &input,
        "--set",
        &format!("x=@{text}"),
        "--set",
        "z:=[1]",
        "--max-cost",
        "0.5",
        "--timeout",
        "10m",
        "--fail-fast",
        "--require-approval",
        "one",
        "--threshold",
        "0.9",
        "--start-at",
        "2026-12-01T06:00:00Z",
        "--idempotency-key",
        "k1",
        "--wait",
        "-o",
        "json",
    ];
    let ended = home.run(&arguments).await;
    assert!(ended.stderr.contains("dt_exec_1"), "{ended:?}");
    let execution: Value = serde_json::from_str(&ended.ok()).expect("JSON and nothing else");
    assert_eq!(execution["status"], "completed");
    let asked = fake.asked_for("POST /api/plans/dt_plan_1/execute");
    assert_eq!(asked.header("idempotency-key"), Some("k1"));
    assert_eq!(
        asked.json(),
        json!({
            "input": {"x": "from a file", "y": 1, "z": [1]},
            "hitl": {"requiredFor": ["one"], "confidenceThreshold": 0.9},
            "options": {"timeoutMs": 600_000, "maxCost": 0.5, "failFast": true},
            "startAt": "2026-12-01T06:00:00Z",
        })
    );
}

#[tokio::test]
async fn executions_are_listed_shown_cancelled_and_run_again() {
    let fake = Fake::start(|asked, _| match asked.line.as_str() {
        line if line.starts_with("GET /api/plans/executions?") => {
            Told::Page(vec![execution("running", "completed", "pending")])
        }
        line if line.starts_with("DELETE") => Told::Refused(409, "INVALID_STATE"),
        _ => Told::Data(execution("failed", "completed", "failed")),
    })
    .await;
    let home = Home::new(&fake.url).with_key("k");
    let list =
        ["executions", "list", "--status", "running,failed", "--template", "t-v1", "--limit", "5"];
    assert!(home.run(&list).await.ok().contains("dt_exec_1  running  1     2   dt_plan_1"));
    fake.asked_for("GET /api/plans/executions?status=running%2Cfailed&templateId=t-v1&limit=5");
    let shown = home.run(&["executions", "show", "dt_exec_1"]).await.ok();
    assert!(shown.contains("one:\n  fine\\u{1b}[2J"), "{shown}");
    let show = ["executions", "show", "dt_exec_1", "--output-only"];
    assert_eq!(home.run(&show).await.ok(), "fine\u{1b}[2J\n", "a file gets the text as it is");
    let named = |step| [&show[..], &["--step", step]].concat();
    assert_eq!(home.run(&named("one")).await.ok(), "fine\u{1b}[2J\n");
    assert!(home.run(&named("three")).await.failed(3).contains("the steps are one, two"));
    home.run(&["executions", "cancel", "dt_exec_1"]).await.failed(6);
    home.run(&["executions", "retry", "dt_exec_1"]).await.ok();
    fake.asked_for("POST /api/plans/executions/dt_exec_1/retry");
    home.run(&["executions", "retry", "dt_exec_1", "--wait"]).await.failed(10);
}

#[tokio::test]
async fn a_list_of_a_template_that_does_not_exist_is_no_empty_list() {
    let fake = Fake::start(|asked, _| match asked.line.as_str() {
        line if line.starts_with("GET /api/plans/executions?") => Told::Page(Vec::new()),
        "GET /api/templates/known" => Told::Data(json!({"id": "known"})),
        _ => Told::Refused(404, "NOT_FOUND"),
    })
    .await;
    let home = Home::new(&fake.url).with_key("k");
    home.run(&["executions", "list", "--template", "known"]).await.ok();
    home.run(&["executions", "list", "--template", "nope"]).await.failed(3);
    fake.asked_for("GET /api/templates/nope");
    home.run(&["executions", "list", "--plan", "dt_plan_1"]).await.failed(3);
}

#[tokio::test]
async fn a_fork_is_sent_as_it_was_asked_for_and_shown() {
    let fake = Fake::start(|asked, _| match asked.line.as_str() {
        line if line.ends_with("/fork") && asked.json()["dryRun"] == true => Told::Data(json!({
            "status": "dry_run", "forkOf": "dt_exec_1", "criticalPath": ["two"],
            "estimate": {"cost": 0.25, "costHigh": 0.5, "durationMs": 10, "basis": "prices"},
            "steps": [
                {"id": "one", "level": 0, "reused": true, "estimatedCost": 0},
                {"id": "two", "level": 1, "estimatedCost": 0.25},
            ],
        })),
        line if line.starts_with("GET /api/events") => Told::Refused(404, "NOT_FOUND"),
        _ => Told::Data(execution("completed", "completed", "completed")),
    })
    .await;
    let home = Home::new(&fake.url).with_key("k");
    let fork = ["executions", "fork", "dt_exec_1"];
    let dry = [&fork[..], &["--from-step", "two", "--dry-run"]].concat();
    let shown = home.run(&dry).await.ok();
    let line = |step: &str| shown.lines().find(|line| line.contains(step)).expect("its line");
    assert!(line("one").contains("true") && !line("two").contains("true"), "{shown}");
    assert!(shown.contains("REUSED") && line("two").contains("0.25"), "{shown}");
    let sent = fake.asked_for("POST /api/plans/executions/dt_exec_1/fork");
    assert_eq!(sent.json(), json!({"fromStep": "two", "dryRun": true}));

    let input = home.file("input.yaml", "x: a\ny: 1\n");
    let options = ["--input", &input, "--set", "y:=2", "--template-version", "1.1.0"];
    let whole = [&fork[..], &options, &["--idempotency-key", "k1", "--wait"]].concat();
    home.run(&whole).await.ok();
    let asked = fake.asked();
    let sent = asked.iter().rfind(|asked| asked.line.ends_with("/fork")).expect("a second fork");
    assert_eq!(sent.json(), json!({"input": {"x": "a", "y": 2}, "version": "1.1.0"}));
    assert_eq!(sent.header("idempotency-key"), Some("k1"));
}
