//! Commands that a person talks to, on a terminal, against the real server.

use serde_json::json;

use super::program::Home;
use super::terminal::{CTRL_C, Terminal};
use crate::support::{Client, FakeWorker, Server, until};

/// A task whose output waits for a reviewer, for a millisecond if it is to be overdue at once.
async fn held(client: &Client, worker: &mut FakeWorker, timeout_ms: u64) -> String {
    let hitl = json!({"required": true, "timeoutMs": timeout_ms});
    let task = client.submit(&json!({"prompt": "Say it.", "hitl": hitl})).await;
    let assigned = worker.assignment().await;
    worker.complete(&assigned["lease"], "said").await;
    client.task_when(&task, |task| task["awaitingApproval"] == true).await;
    task
}

#[tokio::test]
async fn a_review_can_be_gone_back_from_and_decides_after_a_yes_alone() {
    let server = Server::start();
    let home = Home::new(&server.url).with("EDITOR", "true").signed_in().await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let task = held(&server.client("operator").await, &mut worker, 60_000).await;

    let mut review = Terminal::start(&home, &["hitl", "review"]);
    review.shows("a approve").await.types("e\n").await;
    review.shows("the text is unchanged").await.shows("Comment").await.types("q\n").await;
    review.shows("a approve").await.types("r\n").await.shows("Reason").await.types(".\n").await;
    review.shows("a approve").await.types("a\n").await.shows("Comment").await.types("\n").await;
    review.shows("Approve the output as it is? [y/N]").await.types("n\n").await;
    review.shows("a approve").await.types("q\n").await;
    let (code, seen) = review.ends().await;
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.ends_with("0 approved, 0 rejected, 0 skipped\n"), "{seen}");
    assert_eq!(home.json(&["tasks", "show", &task]).await["awaitingApproval"], true);

    let home = home.with("VISUAL", "printf 'better said' >");
    let mut review = Terminal::start(&home, &["hitl", "review"]);
    review.shows("a approve").await.types("e\n").await.shows("+ better said").await;
    review.shows("Comment").await.types("nearly\n").await;
    review.shows("Approve with your text, comment \"nearly\"? [y/N]").await.types("y\n").await;
    let (code, seen) = review.ends().await;
    assert!(code == Some(0) && seen.contains("approved with your text"), "{seen}");
    assert_eq!(home.json(&["tasks", "show", &task]).await["output"], "better said");
}

#[tokio::test]
async fn overdue_outputs_stay_are_marked_counted_and_reviewed() {
    let server = Server::start();
    let home = Home::new(&server.url).signed_in().await;
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let overdue = held(&client, &mut worker, 1).await;
    let item = format!("/api/hitl/{overdue}");
    until("it is overdue", async || client.get(&item).await.expect_ok()["status"] == "expired")
        .await;
    held(&client, &mut worker, 60_000).await;

    let listed = home.run(&["hitl", "list"]).await;
    assert!(listed.stderr.contains("1 of them is overdue"), "{listed:?}");
    let table = listed.ok();
    assert!(
        table.lines().any(|line| line.contains(&overdue) && line.contains("overdue")),
        "{table}"
    );
    assert!(table.contains("admin@"), "reviewers are shown by e-mail: {table}");
    let stats = home.run(&["hitl", "stats"]).await.ok();
    assert!(stats.contains("overdue             1\n"), "{stats}");

    let mut review = Terminal::start(&home, &["hitl", "review"]);
    review.shows("2 waiting for a reviewer, 1 overdue").await.shows(&overdue).await;
    review.shows("a approve").await.types("a\n").await.shows("Comment").await.types("\n").await;
    review.shows("[y/N]").await.types("y\n").await.shows("approved").await;
    review.shows("a approve").await.types("q\n").await;
    assert_eq!(review.ends().await.0, Some(0));
    client.task_with_status(&overdue, "completed").await;
}

#[tokio::test]
async fn a_decided_output_is_not_edited_and_an_edit_that_came_too_late_is_kept() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let task = held(&client, &mut worker, 60_000).await;
    let home = Home::new(&server.url).signed_in().await;
    let go = home.file("edited", "");
    std::fs::remove_file(&go).expect("it is there");
    // The editor waits until the test has decided.
    let editor = format!(
        "sh -c 'printf late > \"$0\"; echo editing; while ! [ -e {go} ]; do sleep 0.05; done'"
    );
    let home = home.with("VISUAL", &editor);
    let approve = ["hitl", "approve", &task, "--edit"];
    let mut edit = Terminal::start(&home, &approve);
    edit.shows("editing").await;
    home.run(&["hitl", "approve", &task]).await.ok();
    std::fs::write(&go, "").expect("it is written");
    let (code, seen) = edit.ends().await;
    assert_eq!(code, Some(6), "{seen}");
    let kept = seen.split("your text is kept in ").nth(1).and_then(|rest| rest.lines().next());
    let kept = kept.unwrap_or_else(|| panic!("{seen}"));
    assert_eq!(std::fs::read_to_string(kept).expect("it is kept"), "late");

    let home = home.with("VISUAL", "echo the editor starts;");
    let (code, seen) = Terminal::start(&home, &approve).ends().await;
    assert_eq!(code, Some(6), "{seen}");
    assert!(seen.contains("was approved by") && !seen.contains("the editor starts"), "{seen}");
}

#[tokio::test]
async fn an_interrupted_wait_names_the_task_and_the_command_that_goes_on() {
    let server = Server::start();
    let home = Home::new(&server.url).with_key(&server.key("operator").await);
    let mut wait = Terminal::start(&home, &["tasks", "submit", "hello", "--model", "m", "--wait"]);
    wait.shows("dt_task_").await.shows("submitted").await;
    wait.shows("no connected worker runs m").await.types(CTRL_C).await;
    wait.shows("continues; callboard tasks wait dt_task_").await;
    assert_eq!(wait.ends().await.0, Some(130));
}

#[tokio::test]
async fn a_watched_gate_names_the_item_and_the_next_command() {
    let server = Server::start();
    let home = Home::new(&server.url).signed_in().await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let plan = home.file(
        "plan.yaml",
        "name: gated\nsteps:\n  - {id: one, prompt: Say it., requiresApproval: true}\n  \
         - {id: two, prompt: 'So {{one.output}}', dependsOn: [one]}\n",
    );
    let plan = home.json(&["plans", "create", &plan]).await;
    let run = home.json(&["plans", "execute", plan["id"].as_str().expect("an id")]).await;
    let id = run["id"].as_str().expect("an id");
    let mut watch = Terminal::start(&home, &["executions", "watch", id]);
    let assigned = worker.assignment().await;
    worker.complete(&assigned["lease"], "said").await;
    let task = assigned["task"]["id"].as_str().expect("an id");
    let next = format!("callboard hitl show {task}");
    watch.shows("waits for approval").await.shows(&next).await.types(CTRL_C).await;
    watch.shows(&format!("{id} continues; callboard executions watch {id}")).await;
    assert_eq!(watch.ends().await.0, Some(130));

    let shown = home.run(&["executions", "show", id]).await.ok();
    assert!(shown.contains("one waits for a reviewer, ") && shown.contains(&next), "{shown}");
    // Without a terminal: what happened before has its own time, or none.
    let mut child = home.command(&["executions", "watch", id]).spawn().expect("it starts");
    let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(
        child.stdout.take().expect("it is piped"),
    ));
    let line = lines.next_line().await.expect("text").expect("a line");
    assert_eq!(line, format!("  earlier  one  waits for approval  {next}"));
    child.kill().await.expect("it runs");
}

#[tokio::test]
async fn users_are_named_by_e_mail_and_an_unknown_one_is_an_error() {
    let server = Server::start();
    let home = Home::new(&server.url).signed_in().await;
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let task = held(&client, &mut worker, 60_000).await;
    let admin = crate::support::ADMIN;
    let listed = home.json(&["hitl", "list", "--reviewer", admin]).await;
    assert_eq!(listed["data"][0]["taskId"], task.as_str());
    let told =
        home.run(&["hitl", "list", "--reviewer", "nobody@callboard.example"]).await.failed(3);
    assert!(told.contains("reviewer nobody@callboard.example does not exist"), "{told}");
    home.run(&["hitl", "approve", &task, "--reviewer", "nobody"]).await.failed(5);
    let approved = home.run(&["hitl", "approve", &task, "--reviewer", admin]).await.ok();
    assert!(approved.contains(&format!("approved by  {admin}")), "{approved}");
    let told = home.run(&["plans", "show", &task]).await.failed(3);
    assert!(told.contains("it is the identifier of a task; use callboard tasks show"), "{told}");
    home.run(&["users", "role", "nobody@callboard.example", "viewer"]).await.failed(3);
    home.run(&["users", "plan", admin, "pro"]).await.ok();
}

#[tokio::test]
async fn a_backtest_without_data_is_no_good_result() {
    let server = Server::start();
    let home = Home::new(&server.url).with_key(&server.key("operator").await);
    let told = home.run(&["hitl", "backtest", "--threshold", "0.8"]).await.failed(1);
    assert!(told.contains("no data"), "{told}");
    let of = async |template: &str, step: &str| {
        home.run(&["hitl", "backtest", "--threshold=0.8", "--template", template, "--step", step])
            .await
            .failed(3)
    };
    assert!(of("nope", "x").await.contains("template nope does not exist"));
    assert!(
        of("contract-review-v1", "nope").await.contains("has no step nope; its steps: extract")
    );
}

#[tokio::test]
async fn an_output_that_missed_its_schema_is_shown_with_its_step() {
    let server = Server::start();
    let home = Home::new(&server.url).with_key(&server.key("operator").await);
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let plan =
        "name: shaped\nsteps:\n  - {id: one, prompt: Count., outputSchema: {type: integer}}\n";
    let plan = home.json(&["plans", "create", &home.file("plan.yaml", plan)]).await;
    let run = home.json(&["plans", "execute", plan["id"].as_str().expect("an id")]).await;
    let id = run["id"].as_str().expect("an id");
    for _ in 0..2 {
        let assigned = worker.assignment().await;
        worker.complete(&assigned["lease"], "seven, paid for").await;
    }
    server.client("viewer").await.execution_with_status(id, "failed").await;
    let shown = home.run(&["executions", "show", id]).await.ok();
    assert!(shown.contains("one (does not count):\n  seven, paid for\n"), "{shown}");
}

#[tokio::test]
async fn a_gate_that_flags_of_reviewers_imply_is_told() {
    let server = Server::start();
    let home = Home::new(&server.url).with_key(&server.key("operator").await);
    let said = async |flags: &[&str]| {
        home.run(&[&["tasks", "submit", "hello"][..], flags].concat()).await.stderr
    };
    assert!(said(&["--notify", "email"]).await.contains("if its confidence is below 0.85"));
    for flags in [&[][..], &["--notify", "email", "--threshold", "0.5"], &["--require-approval"]] {
        let said = said(flags).await;
        assert!(!said.contains("confidence"), "{flags:?}: {said}");
    }
    let told = home.run(&["templates", "show", "contract-review-v1", "--version", "9.9.9"]).await;
    assert!(told.failed(3).contains("version 9.9.9 of template contract-review-v1"));
}

#[tokio::test]
async fn a_dry_run_applies_the_budget_and_the_conditions() {
    let server = Server::start();
    let home = Home::new(&server.url).with_key(&server.key("operator").await);
    let plan = "name: dear\nsteps:\n\
         \x20 - {id: one, prompt: Say it., model: gpt-4o-mini, maxTokens: 1000}\n\
         \x20 - {id: two, prompt: 'So {{one.output}}', model: gpt-4o-mini, maxTokens: 1000, dependsOn: [one]}\n\
         \x20 - {id: deep, prompt: Look., model: gpt-4o-mini, condition: 'input.deep == true'}\n\
         \x20 - {id: free, prompt: Look., model: nobody-knows, dependsOn: [deep, two], condition: '{{two.output}} == \"x\"'}\n";
    let plan = home.json(&["plans", "create", &home.file("plan.yaml", plan)]).await;
    let id = plan["id"].as_str().expect("an id");
    let dry = async |max: &str| {
        home.run(&["plans", "execute", id, "--set", "deep:=false", "--dry-run", "--max-cost", max])
            .await
    };
    let at_start = dry("0.0001").await;
    let run = ["plans", "execute", id, "--set", "deep:=false", "--max-cost", "0.0001"];
    let refused = home.run(&run).await.failed(1);
    let shown = at_start.stdout.clone();
    assert!(shown.contains("deep") && shown.contains("skips"), "the plan is shown too: {shown}");
    let told = at_start.failed(1);
    let reason = |told: &str| {
        let from = told.find("step `one`").expect("it names the step");
        told[from..].split(" (BUDGET_EXCEEDED").next().map(|why| why.trim_end().to_owned())
    };
    assert_eq!(reason(&told), reason(&refused), "the dry run says what the run says");
    assert!(
        told.contains("step `one` may cost 0.000") && told.contains("maxCost 0.0001 USD"),
        "{told}"
    );
    let later = dry("1").await;
    assert!(later.stdout.contains("skips") && later.stdout.contains("unknown"), "{later:?}");
    assert!(later.failed(1).contains("step `free` has a model without a price"));
    let whole = home.json(&["plans", "execute", id, "--set", "deep:=true", "--dry-run"]).await;
    let states: Vec<_> = (0..4).map(|step| whole["steps"][step]["condition"].as_str()).collect();
    assert_eq!(states, [None, None, Some("runs"), Some("unknown")]);
    assert_eq!(whole["steps"][3]["priceUnknown"], true);
}

#[tokio::test]
async fn the_lifetime_of_a_key_is_asked_at_a_terminal_and_said_elsewhere() {
    let server = Server::start();
    let home = Home::new(&server.url).signed_in().await;
    let create = ["keys", "create", "--name", "backup", "--role", "viewer"];
    for (answer, days) in [("400\n", 400), ("\n", 90)] {
        let mut asked = Terminal::start(&home, &create);
        asked.shows("Days until the key ends").await.types(answer).await;
        let (code, seen) = asked.ends().await;
        assert_eq!(code, Some(0), "{seen}");
        let made = home.json(&["keys", "list"]).await["data"][0].clone();
        let instant = |name: &str| made[name].as_str().and_then(|at| at.parse().ok());
        let [from, until]: [jiff::Timestamp; 2] =
            ["createdAt", "expiresAt"].map(|name| instant(name).expect("an instant"));
        assert_eq!(until.as_second() - from.as_second(), days * 86_400, "{made}");
    }
    let said = home.run(&create).await.stderr;
    assert!(said.contains("90 days") && said.contains("callboard keys rotate key_"), "{said}");
    let said = home.run(&[&create[..], &["--expires-in", "365d"]].concat()).await.stderr;
    assert!(!said.contains("90 days"), "{said}");
}
