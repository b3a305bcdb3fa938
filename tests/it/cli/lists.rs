//! Lists on a terminal: within its width, with relative times and colours; in a pipe exact.

use serde_json::json;

use super::program::Home;
use super::terminal::Terminal;
use crate::support::{FakeWorker, Server};

const LISTS: [&[&str]; 13] = [
    &["tasks", "list"],
    &["executions", "list"],
    &["plans", "list"],
    &["templates", "list"],
    &["hitl", "list"],
    &["keys", "list"],
    &["users", "list"],
    &["sessions", "list"],
    &["workers", "list"],
    &["audit", "list", "--limit", "5"],
    &["budgets", "list"],
    &["queues", "list"],
    &["models", "list"],
];

/// The text without the sequences that colour it.
fn plain(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| plain + part.split_once('m').map_or(part, |(_, rest)| rest))
}

#[tokio::test]
async fn every_list_fits_terminals_of_80_and_120_columns() {
    let server = Server::start();
    let home = Home::new(&server.url).signed_in().await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let client = server.client("operator").await;
    let task = json!({
        "prompt": "Say it.", "hitl": {"required": true}, "tags": ["a-long-tag-of-a-user", "another"],
        "model": "a-vendor/a-model-with-a-long-name:latest", "queue": "default",
    });
    let held = client.submit(&task).await;
    let assigned = worker.assignment().await;
    worker.complete(&assigned["lease"], "said").await;
    client.task_when(&held, |task| task["awaitingApproval"] == true).await;
    home.run(&["templates", "deploy", "contract-review-v1", "--sample"]).await.ok();
    home.run(&["budgets", "create", "50", "--period", "month", "--tag", "team:search"]).await.ok();
    let model = "a-vendor/a-model-with-a-long-name:latest";
    let most = ["--requests", "500", "--tokens", "30000", "--concurrent", "4"];
    home.run(&[&["models", "limit", model], &most[..]].concat()).await.ok();
    let most = ["--concurrent", "4", "--requests-per-minute", "60"];
    home.run(&[&["queues", "limit", "default"], &most[..]].concat()).await.ok();

    for columns in [80, 120] {
        for arguments in LISTS {
            let (code, seen) = Terminal::sized(&home, arguments, columns).ends().await;
            assert_eq!(code, Some(0), "{arguments:?}: {seen}");
            let seen = plain(&seen);
            assert!(seen.lines().count() >= 2, "{arguments:?}: {seen}");
            for line in seen.lines() {
                let wide = line.chars().count();
                assert!(wide <= columns.into(), "{arguments:?} at {columns}: {wide}: {line}");
            }
        }
    }
    let (_, seen) = Terminal::sized(&home, &["tasks", "list"], 100).ends().await;
    let is_relative =
        seen.contains(" s ago") || seen.lines().any(|line| line.trim_end().ends_with("  now"));
    assert!(seen.contains("\u{1b}[1mID") && is_relative, "{seen:?}");
    let home = home.with("NO_COLOR", "1");
    let (_, seen) = Terminal::sized(&home, &["tasks", "list"], 100).ends().await;
    assert!(!seen.contains("\u{1b}["), "{seen:?}");
    let piped = home.run(&["tasks", "list"]).await.ok();
    assert!(piped.contains("a-vendor/a-model-with-a-long-name:latest"), "{piped}");
    assert!(!piped.contains(" ago"), "{piped}");
}

#[tokio::test]
async fn a_list_longer_than_the_terminal_goes_through_the_pager_and_not_in_a_pipe() {
    let server = Server::start();
    let home = Home::new(&server.url).signed_in().await;
    let home = home.with("PAGER", "sed s/^/paged:/");
    let client = server.client("operator").await;
    client.submit(&json!({"prompt": "Say it."})).await;
    let list = ["tasks", "list", "--limit", "50"];
    let (code, short) = Terminal::start(&home, &list).ends().await;
    assert!(code == Some(0) && !short.contains("paged:"), "{short}");

    // The terminal has 40 lines.
    let tasks: Vec<_> = (0..45).map(|_| json!({"prompt": "Say it."})).collect();
    client.post("/api/tasks/batch", &json!({"tasks": tasks})).await.expect(201);
    let (code, long) = Terminal::start(&home, &list).ends().await;
    assert!(code == Some(0) && long.lines().count() >= 47, "{long}");
    assert!(long.lines().all(|line| line.starts_with("paged:")), "{long}");
    let piped = home.run(&list).await.ok();
    assert!(!piped.contains("paged:") && piped.lines().count() >= 46, "{piped}");
}

/// Before: JSON left DEL, C1 and the marks that turn text as they were, and a terminal obeyed them.
#[tokio::test]
async fn json_commands_no_terminal_and_is_the_same_value() {
    let server = Server::start();
    let home = Home::new(&server.url).signed_in().await;
    let prompt = "a\u{1b}[31m b\u{9b}31m c\u{7f} d\u{202e} e\u{2066} f\u{85} g\u{2028} h\u{200f}";
    let client = server.client("operator").await;
    let held = client.submit(&json!({"prompt": prompt, "tags": ["t"]})).await;
    let is_raw = |it: char| {
        (it.is_control() && it != '\n') || "\u{202e}\u{2066}\u{2028}\u{200f}".contains(it)
    };
    for arguments in
        [&["tasks", "show", &held, "-o", "json"][..], &["tasks", "show", &held, "-o", "jsonl"]]
    {
        let shown = home.run(arguments).await.ok();
        assert!(!shown.contains(is_raw), "{arguments:?}: {shown:?}");
        let value: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
        assert_eq!(value["prompt"], prompt, "{arguments:?}");
    }
}

#[tokio::test]
async fn a_list_with_more_pages_says_so_in_every_format() {
    let server = Server::start();
    let home = Home::new(&server.url).signed_in().await;
    let client = server.client("operator").await;
    for _ in 0..3 {
        client.submit(&json!({"prompt": "p"})).await;
    }
    for format in [&["-o", "table"][..], &["-o", "json"], &["-o", "jsonl"], &["-q"]] {
        let list = |more: &[&'static str]| [&["tasks", "list"][..], more, format].concat();
        let some = home.run(&list(&["--limit", "2"])).await;
        assert_eq!(some.stderr.trim_end(), "1 to 2 of 3; --offset 2 shows more", "{format:?}");
        let all = home.run(&list(&[])).await;
        assert_eq!(all.stderr, "", "{format:?}");
    }
}

#[tokio::test]
async fn the_occurrences_of_a_schedule_are_shown_in_part_and_listed_in_pages() {
    let server = Server::start();
    let home = Home::new(&server.url).signed_in().await;
    let client = server.client("operator").await;
    let target = json!({"task": {"prompt": "p"}});
    let schedule = json!({"name": "s", "cron": "0 0 1 1 *", "overlap": "allow", "target": target});
    let made = client.post("/api/schedules", &schedule).await.expect(201);
    let id = made["id"].as_str().expect("an id");
    for _ in 0..21 {
        client.post(&format!("/api/schedules/{id}/trigger"), &json!({})).await.expect_ok();
    }
    let shown = home.run(&["schedules", "show", id]).await;
    let note = format!("The last 20 of 21 occurrences; callboard schedules runs {id} lists all.");
    assert_eq!(shown.stderr.trim_end(), note);
    assert!(shown.stdout.contains("runs a task with the prompt:\n  p\n"), "{}", shown.stdout);
    let listed = home.run(&["schedules", "runs", id, "--offset", "20", "-o", "jsonl"]).await;
    assert_eq!((listed.stdout.lines().count(), listed.stderr.as_str()), (1, ""));
}
