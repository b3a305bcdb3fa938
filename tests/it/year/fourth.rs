//! October to December: a password is lost, a customer is erased, an archive has a gap, a moment is restored.

use std::path::PathBuf;
use std::time::Duration;

use jiff::ToSpan;
use serde_json::{Value, json};

use super::life::Year;
use crate::erasure::held;
use crate::support::{ADMIN, UNSET, credentials, until};

/// The customer's name, in a form that stands nowhere by chance.
const WORD: &str = "Mq7#Ermentrud!Vx2&";

/// Nobody knows the only admin's password.
pub(super) async fn lost_password(year: &mut Year) {
    year.on("2026-10-05T09:00:00Z").await;
    let data = year.path("data");
    let reset = ["admin", "reset", "--data-dir", &data];
    let refused = year.admin.run(&reset).await;
    assert!(refused.code != 0 && refused.stderr.contains("in use"), "{refused:?}");
    year.stop().await;
    let printed = year.run(&reset).await;
    let made =
        printed.lines().find_map(|line| line.strip_prefix("password until the first sign-in: "));
    let made = made.unwrap_or_else(|| panic!("{printed}")).to_owned();
    credentials::keep(&made);
    year.server.restart();
    let login = json!({"email": ADMIN, "password": year.password});
    year.client("").post("/api/auth/login", &login).await.refused(401);
    let login = json!({"email": ADMIN, "password": made});
    let session = year.client("").post("/api/auth/login", &login).await.expect_ok();
    let admin = year.client(session["token"].as_str().expect("a token"));
    let next = "a password that is written down this time".to_owned();
    let change = json!({"current": made, "new": next});
    admin.post("/api/auth/password", &change).await.expect_ok();
    year.password = next;
    year.sign_in().await;
    let reset = year.run(&["audit", "list", "--action", "admin.reset"]).await;
    assert!(reset.contains("admin.reset"), "{reset}");
    year.employ().await;
    let backups = year.path("backups");
    year.backup(&["create", "--in", &backups]).await;
    year.calm("the password was reset").await;
}

/// The customer's work: a plan with a step that a clerk edits, and a task.
async fn work(year: &Year, tag: &str, word: &str) {
    let operator = year.operator();
    let plan = operator
        .plan(&json!([
            {"id": "copy", "prompt": "{{input.name}}", "title": "About {{input.name}}"},
            {"id": "seen", "prompt": "{{copy.output}}", "dependsOn": ["copy"], "requiresApproval": true},
        ]))
        .await;
    let body = json!({"input": {"name": word}, "tags": [tag], "title": format!("Claim of {word}")});
    let execution = operator.execute(&plan, &body).await;
    year.until_total("/api/hitl/pending", 1).await;
    let waiting = operator.get("/api/hitl/pending").await.expect_ok();
    let approve = format!("/api/hitl/{}/approve", waiting[0]["taskId"].as_str().expect("an id"));
    let edit = json!({"modifiedOutput": format!("{word}, edited"), "comment": word});
    operator.post(&approve, &edit).await.expect_ok();
    operator.execution_with_status(&execution, "completed").await;
    let task = json!({"prompt": word, "title": word, "tags": [tag], "idempotencyKey": word});
    let task = operator.submit(&task).await;
    operator.task_with_status(&task, "completed").await;
}

/// All that the server answers and exports, for a search.
async fn said(year: &Year) -> String {
    let mut all = String::new();
    let admin = year.client(&year.key("admin").await);
    for path in [
        "/api/plans/executions?limit=100",
        "/api/tasks?limit=100",
        "/api/hitl?limit=100",
        "/api/bulk",
        "/api/audit?limit=100",
        "/api/webhooks/deliveries?limit=100",
        "/api/usage?groupBy=tag",
    ] {
        all.push_str(&admin.get(path).await.expect_ok().to_string());
    }
    let tasks = admin.get("/api/tasks?tags=customer-77&limit=100").await.expect_ok();
    for task in tasks.as_array().expect("a list") {
        let id = task["id"].as_str().expect("an id");
        all.push_str(&admin.get(&format!("/api/tasks/{id}")).await.expect_ok().to_string());
        all.push_str(&admin.get(&format!("/api/hitl/{id}/history")).await.body.to_string());
    }
    let export = year.path("export.jsonl");
    year.run(&["tasks", "export", &export]).await;
    all.push_str(&std::fs::read_to_string(&export).expect("an export"));
    for file in [export.clone(), format!("{export}.state")] {
        let _ = std::fs::remove_file(file);
    }
    all
}

/// A customer asks to be forgotten: the steps of the page, until no byte is left.
pub(super) async fn erasure(year: &mut Year) {
    year.on("2026-10-20T09:00:00Z").await;
    year.employ().await;
    work(year, "customer-77", WORD).await;
    let data = PathBuf::from(year.path("data"));
    let directories = ["data", "backups", "archive"].map(|name| PathBuf::from(year.path(name)));
    assert!(said(year).await.contains(WORD));
    assert_eq!(held(&data, &[WORD]), [WORD], "the search finds what is there");

    let erase = ["bulk", "erase", "--tag", "customer-77", "--reason", "request 4711"];
    let dry = year.admin.json(&[&erase[..], &["--dry-run"]].concat()).await;
    // The execution, its two tasks, and the task alone.
    assert_eq!(dry["total"], 4, "{dry}");
    for of in ["executions", "tasks"] {
        let unfinished = [of, "list", "--tag", "customer-77", "--status", "pending,running"];
        assert_eq!(year.admin.json(&unfinished).await["pagination"]["total"], 0, "{of}");
    }
    year.run(&[&erase[..], &["--expect", "4", "--wait"]].concat()).await;
    let left = ["bulk", "erase", "--search", "Ermentrud", "--reason", "request 4711", "--dry-run"];
    assert_eq!(year.admin.json(&left).await["total"], 0);
    let found = year.run(&["search", "Ermentrud"]).await;
    assert!(!found.contains("Ermentrud"), "{found}");
    let audit = year.admin.json(&["audit", "list", "--action", "bulk.erased"]).await;
    let details: &Value = &audit["data"][0]["details"];
    assert_eq!(
        (&details["reason"], &details["tasks"]),
        (&json!("request 4711"), &json!("3")),
        "{audit}"
    );
    assert!(details["stays"].as_str().is_some_and(|stays| stays.contains("backups")), "{audit}");
    let all = said(year).await;
    assert!(!all.contains(WORD), "{all}");
    year.run(&["hitl", "verify"]).await;

    year.stop().await;
    year.run(&["compact", "--data-dir", &data.display().to_string()]).await;
    assert_eq!(held(&data, &[WORD]), [] as [&str; 0], "after the compaction");
    year.start().await;
    year.employ().await;
    // The backups and the archive of before are pruned.
    let [_, backups, archive] = directories.each_ref().map(|path| path.display().to_string());
    year.backup(&["create", "--in", &backups]).await;
    until("the archive goes on and its beginning is pruned", async || {
        year.backup(&["prune", "--in", &backups, "--keep", "1", "--archive", &archive]).await;
        directories.iter().all(|directory| held(directory, &[WORD]).is_empty())
    })
    .await;
    assert!(!said(year).await.contains(WORD));
    year.calm("an erasure").await;
}

/// The disk of the archive is not mounted at a start.
pub(super) async fn archive_gap(year: &mut Year) {
    year.stop().await;
    let (archive, away) = (year.path("archive"), year.path("archive-of-yesterday"));
    std::fs::rename(&archive, &away).expect("it is there");
    std::fs::create_dir(&archive).expect("the directory below the mount");
    year.clock.set("2026-10-26T09:00:00Z");
    year.start().await;
    year.employ().await;
    let task = year.operator().submit(&json!({"prompt": "while it is away"})).await;
    year.operator().task_with_status(&task, "completed").await;
    let health = year.operator().get("/health").await.body;
    assert_eq!(
        (&health["status"], &health["components"]["database"]["status"]),
        (&json!("degraded"), &json!("degraded")),
        "{health}"
    );
    year.seen("the archive has a gap", 15, &["CallboardArchiveGap"]).await;
    assert_eq!(std::fs::read_dir(&archive).expect("it is there").count(), 0, "nothing is written");
    std::fs::remove_dir(&archive).expect("it is empty");
    std::fs::rename(&away, &archive).expect("it is mounted");
    let backups = year.path("backups");
    let operator = year.operator();
    until("a backup covers the gap", async || {
        operator.submit(&json!({"prompt": "p"})).await;
        year.backup(&["create", "--in", &backups]).await;
        year.backup(&["status"]).await["archive"]["status"] == "ok"
    })
    .await;
    year.calm("the archive is back").await;
}

/// What was acknowledged before the second is there, and nothing after it.
pub(super) async fn restore_to_the_second(year: &mut Year) {
    year.on("2026-11-20T12:00:00Z").await;
    year.employ().await;
    let submit = async |year: &Year, prompt: &str| {
        let operator = year.operator();
        let task = operator.submit(&json!({"prompt": prompt, "tags": ["restored"]})).await;
        operator.task_with_status(&task, "completed").await;
        task
    };
    let before = submit(year, "before").await;
    // The archive takes a change within about a second, and notes that time.
    let moment = year.clock.now().round(jiff::Unit::Second).expect("a second") + 2.seconds();
    until("the moment is over", async || year.clock.now() > moment).await;
    let after = submit(year, "after").await;
    year.stop().await;
    let (backups, archive, restored) =
        (year.path("backups"), year.path("archive"), year.path("restored"));
    let moment = moment.to_string();
    let restore = ["restore", "--in", &backups, "--archive", &archive, "--until", &moment];
    year.backup(&[&restore[..], &["--data-dir", &restored]].concat()).await;
    let data = year.path("data");
    std::fs::rename(&data, year.path("data-of-before")).expect("it is there");
    std::fs::rename(&restored, &data).expect("it was made");
    year.clock.set("2026-11-20T13:00:00Z");
    year.start().await;
    year.employ().await;
    let operator = year.operator();
    assert_eq!(operator.task(&before).await["status"], "completed");
    assert_eq!(operator.get(&format!("/api/tasks/{after}")).await.refused(404), "NOT_FOUND");
    year.backup(&["create", "--in", &backups]).await;
    year.run(&["hitl", "verify"]).await;
    year.run(&["audit", "verify"]).await;
    let first = year.told.as_object().expect("paths").keys().find(|path| path.contains("/tasks/"));
    let first = operator.get(first.expect("a task of the older program")).await.expect_ok();
    assert_eq!(first["status"], "completed", "what the older program wrote is there at the end");
    year.calm("the restore").await;
}

/// The clock of the machine jumps over a month under a running server, and again while it is stopped.
pub(super) async fn clock_jumps_ahead(year: &mut Year) {
    let task = year.operator().submit(&json!({"prompt": "kept over a jump"})).await;
    year.operator().task_with_status(&task, "completed").await;
    // Retention is 30 days; these are 35 and more.
    year.clock.set("2026-12-25T13:00:00Z");
    year.until_logged("\"by_ms\":302").await;
    assert_eq!(year.operator().task(&task).await["status"], "completed", "its time did not jump");
    year.on("2026-12-28T09:00:00Z").await;
    let shown = year.operator().task(&task).await;
    assert_eq!(shown["status"], "completed", "a server that begins removes nothing by its age");
}

/// The clock of the machine is set back under a running server, whose time is then a month ahead.
pub(super) async fn clock_is_set_under_way(year: &mut Year) {
    const ENDED: Duration = Duration::from_secs(2);
    year.server.set("RETENTION__ENDED", "2s");
    year.server.set("STORE__ARCHIVE", UNSET);
    year.on("2026-12-31T09:00:00Z").await;
    year.clock.set("2026-11-30T09:00:00Z");
    year.employ().await;
    year.until_logged("the machine's clock was set").await;
    let operator = year.operator();
    let task = operator.submit(&json!({"prompt": "kept while the clocks disagree"})).await;
    operator.task_with_status(&task, "completed").await;
    let ended = std::time::Instant::now();
    until("it is old enough", async || ended.elapsed() > 2 * ENDED).await;
    assert_eq!(operator.task(&task).await["status"], "completed", "removal waits");
    year.clock.set("2026-12-31T09:05:00Z");
    let path = format!("/api/tasks/{task}");
    until("it is removed by its age", async || operator.get(&path).await.status == 404).await;
}
