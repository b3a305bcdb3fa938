//! Human approval from the command line, against a server with scripted answers.

use callboard_domain::Timestamp;
use callboard_domain::approval::{Action, Details, Entry};
use callboard_domain::digest::Digest;
use callboard_domain::id::TaskId;
use callboard_protocol::history::{EntryBody, Texts};
use serde_json::{Value, json};

use super::completions::complete;
use super::fake::{Fake, Told};
use super::program::Home;

const FIRST: TaskId = TaskId::from_u128(1 << 10);
const SECOND: TaskId = TaskId::from_u128(2 << 10);

/// An item with its history: held, and approved by ann.
fn decided(task: TaskId) -> (Value, Vec<Value>) {
    let shown = Some(Digest::of("it is so"));
    let comment = Some(Digest::of("fine"));
    let (mut previous, mut entries) = (Digest::ZERO, Vec::new());
    for (number, action, comment) in [(1, Action::Pending, None), (2, Action::Approved, comment)] {
        let details = Details { shown, comment, ..Details::default() };
        let (at, actor) = (Timestamp::from_millis(7), "ann".to_owned());
        let version = callboard_domain::approval::history::Version::Plain;
        let entry =
            Entry { version, number, action, at, actor, details, previous, hash: Digest::ZERO };
        let entry = Entry { hash: entry.digest(task), ..entry };
        previous = entry.hash;
        let texts = Texts { comment: comment.map(|_| "fine"), edit: None, salt: None };
        entries.push(serde_json::to_value(EntryBody::of(&entry, texts)).expect("JSON"));
    }
    let item = json!({
        "taskId": task.to_string(), "stepId": "judge", "status": "approved", "model": "m",
        "queue": "default", "reason": "below_threshold", "confidence": 0.71, "threshold": 0.85,
        "waitingMs": 61_000, "timeoutAt": "2026-11-21T10:00:00.000Z", "assignedTo": null,
        "prompt": "Say it.", "output": "it is so", "tags": [],
        "decision": {"status": "approved", "at": "1970-01-01T00:00:00.007Z", "by": "ann",
                     "wasModified": false, "comment": "fine"},
        "history": {"length": 2, "hash": previous.to_string()},
    });
    (item, entries)
}

/// Two items on two pages; the history of the second is not the one that was written.
async fn board() -> Fake {
    Fake::start(|asked, _| {
        let (path, query) = asked.line.split_once('?').unwrap_or((&asked.line, ""));
        let (first, second) = (decided(FIRST), decided(SECOND));
        match path.strip_prefix("GET /api/hitl").expect("only reads") {
            "" if query.contains("offset=1") => Told::Page(vec![second.0, first.0]),
            "" => Told::PageOf(2, vec![first.0]),
            "/pending" => Told::Page(vec![first.0]),
            "/reviewers" => {
                let ann = json!({"id": "usr_1", "name": "ann", "email": "ann@callboard.example"});
                Told::Page(vec![ann])
            }
            path => {
                let (task, what) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
                let is_first = task == FIRST.to_string();
                let (item, mut entries) = if is_first { first } else { second };
                if !is_first {
                    entries[1]["actor"] = "bob".into();
                }
                if what == "history" { Told::Page(entries) } else { Told::Data(item) }
            }
        }
    })
    .await
}

#[tokio::test]
async fn what_waits_is_listed_with_what_a_reviewer_needs() {
    let fake = board().await;
    let home = Home::new(&fake.url).with_key("k");
    let table = home.run(&["hitl", "list"]).await.ok();
    let headings: Vec<_> = table.lines().next().expect("a line").split_whitespace().collect();
    assert_eq!(headings, ["TASK", "STEP", "STATUS", "WHY", "CONFIDENCE", "WAITING", "UNTIL"]);
    assert!(table.contains("below the threshold  0.71 < 0.85  1 min"), "{table}");
    assert_eq!(home.json(&["hitl", "list"]).await["data"][0]["confidence"], 0.71);

    let flags =
        ["--queue", "q", "--tag", "a,b", "--reviewer", "ann@callboard.example", "--limit", "5"];
    home.run(&[&["hitl", "list"][..], &flags].concat()).await.ok();
    let query = "queue=q&tags=a%2Cb&reviewerId=usr_1";
    fake.asked_for(&format!("GET /api/hitl/pending?includeExpired=true&{query}&limit=5"));
    fake.asked_for(&format!("GET /api/hitl?{query}&status=expired&limit=1"));
    home.run(&["hitl", "list", "--reviewer", "nobody"]).await.failed(3);
    home.run(&["hitl", "list", "--status", "overdue"]).await.ok();
    fake.asked_for("GET /api/hitl?status=expired");
    home.run(&["hitl", "list", "--status", "approved,rejected"]).await.ok();
    fake.asked_for("GET /api/hitl?status=approved%2Crejected");
    home.run(&["hitl", "list", "--all", "--offset", "1"]).await.ok();
    fake.asked_for("GET /api/hitl?offset=1");
    home.run(&["hitl", "list", "--all", "--status", "approved"]).await.failed(2);
}

#[tokio::test]
async fn an_item_is_shown_with_its_history() {
    let fake = board().await;
    let home = Home::new(&fake.url).with_key("k");
    let task = FIRST.to_string();
    let shown = home.run(&["hitl", "show", &task]).await.ok();
    for part in
        ["held because  below the threshold", "output:\n  it is so\n", "approved  ann  fine"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let text = home.run(&["hitl", "show", &task, "--output-only"]).await.ok();
    assert_eq!(text, "it is so\n");
    let whole = home.json(&["hitl", "show", &task]).await;
    assert_eq!((&whole["taskId"], &whole["entries"][1]["number"]), (&json!(task), &json!(2)));
    let history = home.run(&["hitl", "history", &task]).await.ok();
    let hash = decided(FIRST).1[1]["hash"].as_str().expect("a hash")[..12].to_owned();
    assert!(history.contains(&hash), "{history}");
}

#[tokio::test]
async fn every_history_is_recomputed_and_a_broken_one_is_1() {
    let fake = board().await;
    let home = Home::new(&fake.url).with_key("k");
    let one = home.json(&["hitl", "verify", &FIRST.to_string()]).await;
    assert_eq!((&one["ok"], &one["entries"]), (&json!(true), &json!(2)), "{one}");

    let ended = home.run(&["hitl", "verify"]).await;
    let lines: Vec<_> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "each is told once: {ended:?}");
    assert!(lines[1].starts_with(&format!("{FIRST}  ok")), "{ended:?}");
    let why = "broken  2        2          was changed: its hash does not match its content";
    assert_eq!(lines[2], format!("{SECOND}  {why}"));
    assert!(ended.failed(1).contains("1 of 2 items is broken"));

    let lines = home.run(&["hitl", "verify", "-o", "jsonl"]).await;
    let second = lines.stdout.lines().nth(1).expect("a line");
    let second: Value = serde_json::from_str(second).expect("JSON");
    assert_eq!(second["broken"]["number"], 2);
    lines.failed(1);
}

#[tokio::test]
async fn a_decision_is_sent_as_it_was_made() {
    let fake = Fake::start(|asked, _| match asked.line.rsplit_once('/') {
        Some((_, "approve")) => Told::Data(json!({"taskId": "t", "approvedBy": "usr_1"})),
        Some((_, path)) if path.starts_with("calibration") => {
            Told::Data(json!({"deciles": [{"from": 0.7, "to": 0.8, "approved": 1}]}))
        }
        Some((_, "reject")) => Told::Data(json!({"taskId": "t", "retryTaskId": "dt_task_9"})),
        _ => Told::Data(json!({"taskId": "t", "claimedBy": "usr_1"})),
    })
    .await;
    let home = Home::new(&fake.url).with_key("k");
    let approve = ["hitl", "approve", "t", "--comment", "fine", "--output-file", "-"];
    home.run_with_input(&approve, "better\n").await.ok();
    let sent = fake.asked_for("POST /api/hitl/t/approve").json();
    assert_eq!(sent, json!({"comment": "fine", "modifiedOutput": "better\n"}));

    let prompt = home.file("prompt.txt", "Try again.");
    let reject = ["hitl", "reject", "t", "--reason", "no", "--reviewer", "usr_2", "--retry"];
    let rejected = home.run(&[&reject[..], &["--retry-prompt-file", &prompt]].concat()).await.ok();
    assert!(rejected.contains("tried again as  dt_task_9"), "{rejected}");
    let sent = fake.asked_for("POST /api/hitl/t/reject").json();
    let expected = json!({"reason": "no", "retry": true, "retryPrompt": "Try again.",
                          "reviewerId": "usr_2"});
    assert_eq!(sent, expected);

    assert!(home.run(&["hitl", "claim", "t"]).await.ok().contains("claimed by  usr_1"));
    home.run(&["hitl", "release", "t"]).await.ok();
    fake.asked_for("POST /api/hitl/t/release");
    home.run(&["hitl", "stats"]).await.ok();
    let backtest = ["hitl", "backtest", "--threshold", "0.8", "--template", "x-v1", "--step", "s"];
    home.run(&backtest).await.ok();
    fake.asked_for("GET /api/hitl/calibration?templateId=x-v1&stepId=s&threshold=0.8");
}

#[tokio::test]
async fn who_was_first_is_told_and_the_exit_code_is_6() {
    let fake = Fake::start(|_, _| Told::Decided("usr_ann", "2026-11-21T10:00:00.000Z")).await;
    let home = Home::new(&fake.url).with_key("k");
    for decision in [&["hitl", "approve", "t"][..], &["hitl", "reject", "t", "--reason", "no"]] {
        let told = home.run(decision).await.failed(6);
        assert!(told.contains("ALREADY_DECIDED, by usr_ann at 2026-11-21T10:00"), "{told}");
    }
    assert_eq!(fake.asked().len(), 2, "a decision is not repeated");
}

#[tokio::test]
async fn what_makes_no_sense_is_2_before_the_server_is_asked() {
    let fake = board().await;
    let home = Home::new(&fake.url).with_key("k");
    for arguments in [
        &["reject", "t"][..],
        &["reject", "t", "--reason", "no", "--retry-prompt", "x"],
        &["approve", "t", "--edit", "--output-file", "x"],
        &["approve", "t", "--edit"],
        &["backtest"],
        &["review"],
    ] {
        let told = home.run(&[&["hitl"][..], arguments].concat()).await.failed(2);
        assert!(!told.is_empty(), "{arguments:?}");
    }
    let told = home.run(&["hitl", "review"]).await.failed(2);
    assert!(told.contains("hitl review needs a terminal"), "{told}");
    assert!(fake.asked().is_empty());
}

#[tokio::test]
async fn every_command_of_it_is_completed() {
    let home = Home::new("http://127.0.0.1:9");
    let completed = complete(&home, &["callboard", "hitl", ""]).await;
    for command in [
        "list", "show", "claim", "release", "approve", "reject", "history", "stats", "verify",
        "backtest", "review",
    ] {
        assert!(completed.iter().any(|word| word == command), "{command}: {completed:?}");
    }
}
