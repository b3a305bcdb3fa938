//! January to March: a first start beside it, the upgrade from the older program, the first alerts.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use super::life::{Year, free_port, home, script};
use crate::support::clock::Clock;
use crate::support::{ADMIN, Client, PASSWORD, Server, UNSET, credentials, until};

/// An empty directory becomes a server with an admin, a worker, a scrape and a backup.
pub(super) async fn start() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let clock = Clock::at(dir.path().join("clock"), "2026-01-02T10:00:00Z");
    let program = dir.path().join("server");
    script(&program, &clock, free_port(), Path::new(&path("data")), "", "");
    let nobody = [("ADMIN_EMAIL", UNSET), ("ADMIN_PASSWORD", UNSET)];
    let mut server = Server::of(&program, &nobody);
    let [setup, key, _] = std::array::from_fn(|_| server.line());
    let (_, token) = setup.split_once("#token=").expect("a link");
    let home = home(&server.url, &clock)
        .with("CALLBOARD_SETUP_TOKEN", token)
        .with("CALLBOARD_PASSWORD", PASSWORD);
    home.run(&["auth", "setup", "--email", ADMIN]).await.ok();
    home.keep_logins();

    let key_file = key.strip_prefix("worker key in ").expect("a path");
    credentials::keep(std::fs::read_to_string(key_file).expect("a key").trim());
    let work = ["worker", "--key-file", key_file, "--provider", "simulated"];
    let mut worker = home.command(&work);
    let _worker = worker.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let said = home.run(&["tasks", "submit", "Say hello.", "--wait", "--output-only"]).await.ok();
    assert!(!said.trim().is_empty());

    let mut keys = Vec::new();
    for (name, role) in [("prometheus", "viewer"), ("backups", "backup")] {
        let create = ["keys", "create", "--name", name, "--role", role, "--expires-in", "365d"];
        keys.push(home.run(&create).await.ok().trim().to_owned());
    }
    let scrape = Client::new(&server.url, &keys[0]).request(reqwest::Method::GET, "/metrics");
    let scraped = scrape.send().await.expect("an answer").text().await.expect("a text");
    assert!(scraped.contains("svc_workers_active 1"), "{scraped}");
    home.run(&["backup", "init", "--in", &path("backups")]).await.ok();
    let key = home.file("backup.key", &keys[1]);
    for words in [
        &["backup", "create", "--in", &path("backups"), "--api-key-file", &key][..],
        &["backup", "verify", "--in", &path("backups"), "--api-key-file", &key],
        &["doctor"],
    ] {
        home.run(words).await.ok();
    }
    let status = home.json(&["backup", "status"]).await;
    assert_eq!(status["lastVerification"]["result"], "restores", "{status}");
    assert!(server.terminate());
}

/// What of `old` is not in `new`. Waits grow; so does usage: that of outputs that wait was not counted then.
fn missing(path: &str, old: &Value, new: &Value) -> Vec<String> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let all = old.iter().flat_map(|(name, value)| {
                missing(&format!("{path}.{name}"), value, new.get(name).unwrap_or(&Value::Null))
            });
            all.collect()
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            old.iter().zip(new).flat_map(|(old, new)| missing(path, old, new)).collect()
        }
        (Value::Number(old), Value::Number(new))
            if (path.contains(".usage.") || path.ends_with(".waitingMs"))
                && old.as_u64() <= new.as_u64() =>
        {
            Vec::new()
        }
        _ if old == new => Vec::new(),
        _ => vec![format!("{path}: {old} is {new}")],
    }
}

/// All that the older program said is said by this one, and its work goes on.
pub(super) async fn upgrade(year: &mut Year) {
    let admin = year.client(&year.key("admin").await);
    let told = year.told.as_object().expect("paths").clone();
    let mut changed = Vec::new();
    for (path, old) in &told {
        changed.extend(missing(path, old, &admin.get(path).await.expect_ok()));
    }
    assert!(changed.is_empty(), "{changed:#?}");
    let backups = year.path("backups");
    year.run(&["backup", "init", "--in", &backups]).await;
    year.backup(&["create", "--in", &backups]).await;
    year.run(&["backup", "verify", "--in", &backups]).await;

    year.employ().await;
    let held = told["/api/hitl/pending"].as_array().expect("a list");
    assert_eq!(held.len(), 2, "{held:?}");
    for item in held {
        let task = item["taskId"].as_str().expect("an id");
        year.run(&["hitl", "approve", task, "--comment", "After the upgrade."]).await;
    }
    year.run(&["hitl", "verify"]).await;
    let operator = year.operator();
    for (path, old) in &told {
        if old["status"].is_string() && old["id"].is_string() && !path.contains("template") {
            until("the work of the older program ends", async || {
                operator.get(path).await.expect_ok()["status"] == "completed"
            })
            .await;
        }
    }
    year.calm("the upgrade").await;
}

/// A month without a backup, and a weekend without a worker.
pub(super) async fn old_backup_and_no_worker(year: &mut Year) {
    year.on("2026-02-02T09:00:00Z").await;
    // The occurrence that fell into the time in which the server was down.
    year.until_total("/api/tasks?tags=monthly", 1).await;
    year.on("2026-02-02T11:00:00Z").await;
    let alone = ["CallboardBackupOld", "CallboardNoWorkers", "CallboardQueueAge"];
    year.seen("no worker and an old backup", 15, &alone).await;
    let health = year.operator().get("/health").await.body;
    assert_eq!(health["status"], "degraded", "{health}");

    year.employ().await;
    year.until_total("/api/tasks?tags=monthly&status=completed", 1).await;
    // From now on every moment can be restored.
    let (archive, backups) = (year.path("archive"), year.path("backups"));
    year.run(&["backup", "init", "--archive", &archive]).await;
    year.server.set("STORE__ARCHIVE", &archive);
    year.on("2026-02-02T12:00:00Z").await;
    year.employ().await;
    year.backup(&["create", "--in", &backups]).await;
    let status = year.backup(&["status"]).await;
    assert_eq!(status["archive"]["status"], "ok", "{status}");
    year.calm("a weekend").await;
}
