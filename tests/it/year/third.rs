//! July to September: somebody leaves, keys leak, disks are full and slow, a certificate ends.

use std::path::{Path, PathBuf};
use std::process::Command;

use callboard_disk::Shim;
use rcgen::{CertificateParams, KeyPair};
use serde_json::json;

use super::life::Year;
use crate::metrics::Scrape;
use crate::support::small_disk::{MIB, SmallDisk};
use crate::support::{ADMIN, PASSWORD, UNSET, until};

/// Ann, whose schedule writes the monthly report, leaves; it goes on.
pub(super) async fn user_leaves(year: &mut Year) {
    year.on("2026-07-02T09:00:00Z").await;
    year.employ().await;
    year.until_total("/api/tasks?tags=monthly&status=pending", 0).await;
    let refused = year.admin.run(&["users", "delete", "ann@example.com"]).await;
    assert!(refused.code != 0 && refused.stderr.contains("schedule"), "{refused:?}");
    year.run(&["users", "delete", "ann@example.com", "--hand-over-to", ADMIN]).await;
    let login = json!({"email": "ann@example.com", "password": PASSWORD});
    year.client("").post("/api/auth/login", &login).await.refused(401);
    let written = async |year: &Year| {
        let path = "/api/tasks?tags=monthly&status=completed";
        year.operator().get(path).await.body["pagination"]["total"].as_u64().expect("a number")
    };
    let before = written(year).await;
    year.on("2026-08-01T09:00:00Z").await;
    year.employ().await;
    until("the next report is written", async || written(year).await == before + 1).await;
    year.calm("somebody left").await;
}

/// A key is found in a build log: the steps of the page, until everything goes on.
pub(super) async fn leak(year: &mut Year) {
    year.on("2026-08-03T09:00:00Z").await;
    let stolen = year.key("admin").await;
    let leaked = year.admin.json(&["keys", "list", "--limit", "1"]).await;
    let leaked = leaked["data"][0]["id"].as_str().expect("an id").to_owned();
    let theft = json!({"name": "theirs", "role": "operator"});
    let theirs = year.client(&stolen).post("/api/auth/keys", &theft).await.expect(201);
    let theirs = year.client(theirs["key"].as_str().expect("a key"));
    year.run(&["pause", "--all", "--reason", "leaked credentials"]).await;
    let waits = theirs.submit(&json!({"prompt": "mine some coins"})).await;
    year.employ().await;
    let dry = year.run(&["keys", "revoke", "--made-by", &leaked, "--dry-run"]).await;
    assert!(dry.contains("2 keys would be revoked"), "{dry}");
    let revoke =
        ["keys", "revoke", "--made-by", &leaked, "--reason", "in a build log", "--expect", "2"];
    year.run(&revoke).await;
    theirs.get("/api/tasks").await.refused(401);
    let wrong = year.admin.run(&["keys", "revoke", "--all", "--expect", "1"]).await;
    assert!(wrong.code != 0, "{wrong:?}");
    year.run(&["auth", "rotate-signing-key", "--overlap", "0s"]).await;
    let over = year.admin.run(&["users", "list"]).await;
    assert!(over.code != 0, "the admin's session is over, too: {over:?}");
    year.sign_in().await;
    let did = year.run(&["audit", "list", "--actor", &leaked]).await;
    assert!(did.contains("key.created"), "{did}");
    year.run(&["audit", "verify"]).await;
    assert_eq!(year.operator().task(&waits).await["status"], "pending", "nothing is leased");
    year.seen("everything is paused", 20, &["CallboardPaused"]).await;
    year.run(&["bulk", "cancel", "--status", "pending", "--expect", "1", "--wait"]).await;
    year.run(&["resume", "--all"]).await;
    let task = year.operator().submit(&json!({"prompt": "on"})).await;
    year.operator().task_with_status(&task, "completed").await;
    year.calm("the leak was stopped").await;
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.expect("cp runs").success());
}

/// The data lies on a small disk for a day, and something else fills it.
pub(super) async fn full_disk(year: &mut Year) {
    let Some(disk) = SmallDisk::mount(224 * MIB) else {
        year.alerts.leave_out("CallboardDiskLow", "no namespace can be made here");
        year.alerts.leave_out("CallboardServerErrors", "no namespace can be made here");
        return;
    };
    year.on("2026-08-20T22:00:00Z").await;
    year.stop().await;
    let home = PathBuf::from(year.path("data"));
    copy(&home, &disk.path("data"));
    year.will_run(&disk.enter(), &disk.data(), "");
    for bytes in ["STORE__MIN_FREE_BYTES", "STORE__RESERVE_BYTES"] {
        year.server.set(bytes, "67108864");
    }
    year.start().await;
    year.alerts.has_disk = true;
    year.employ().await;
    let operator = year.operator();
    let before = operator.submit(&json!({"prompt": "before"})).await;
    operator.task_with_status(&before, "completed").await;
    let is_said = async |words: &str| {
        let health = operator.get("/health/database").await.body;
        health["detail"].as_str().unwrap_or("ok").contains(words)
    };
    disk.fill(1);
    until("half the reserve is given back", async || disk.free() > 24 * MIB).await;
    disk.fill(12);
    until("the disk is full", async || is_said("full").await).await;
    for _ in 0..300 {
        let refused = operator.post("/api/tasks", &json!({"prompt": "new"})).await;
        assert!(refused.headers.contains_key("retry-after"));
        assert_eq!(refused.refused(507), "INSUFFICIENT_STORAGE");
    }
    assert_eq!(operator.task(&before).await["prompt"], "before", "reads go on");
    let full = ["CallboardDiskLow", "CallboardServerErrors"];
    year.seen("the disk is full", 20, &full).await;
    disk.empty();
    until("there is room", async || is_said("ok").await).await;
    let after = operator.submit(&json!({"prompt": "after"})).await;
    operator.task_with_status(&after, "completed").await;
    year.calm("room was made").await;
    year.alerts.has_disk = false;

    year.stop().await;
    std::fs::remove_dir_all(&home).expect("it is there");
    copy(&disk.path("data"), &home);
    year.will_run("", &home, "");
    year.server.set("STORE__MIN_FREE_BYTES", "0");
    year.server.set("STORE__RESERVE_BYTES", "0");
    year.start().await;
    assert_eq!(year.operator().task(&after).await["status"], "completed");
}

/// Each sync of the disk takes more than a second; nothing is lost.
pub(super) async fn slow_disk(year: &mut Year) {
    year.stop().await;
    let shim = Shim::build(year.server.dir.path());
    let (home, slow) = (PathBuf::from(year.path("data")), year.path("slow"));
    let seen = year.clock.variables();
    let (root, library) = (home.display(), shim.library().display());
    let more = format!("LD_PRELOAD={}:{library} SHIM_ROOT={root} {}={slow}", seen[0].1, Shim::SLOW);
    year.will_run("", &home, &more);
    year.clock.set("2026-09-01T09:00:00Z");
    year.start().await;
    year.employ().await;
    // The monthly report is written before.
    year.until_total("/api/tasks?tags=monthly&status=pending,running", 0).await;
    std::fs::write(&slow, "").expect("it is made");
    let operator = year.operator();
    let submit = async |number: u32| {
        operator.submit(&json!({"prompt": format!("slow {number}"), "queue": "nobody"})).await
    };
    let (first, second) = tokio::join!(submit(1), submit(2));
    let third = submit(3).await;
    std::fs::remove_file(&slow).expect("it is there");
    for task in [first, second, third] {
        operator.delete(&format!("/api/tasks/{task}")).await.expect_ok();
    }
    year.seen("the disk is slow", 25, &["CallboardCommitSlow"]).await;
    year.will_run("", &home, "");
    year.on("2026-09-02T09:00:00Z").await;
    year.employ().await;
    year.calm("the disk was replaced").await;
}

/// The server's own certificate ends in ten days; a new one is read while it runs.
pub(super) async fn certificate(year: &mut Year) {
    let (cert, key) = (year.path("cert.pem"), year.path("key.pem"));
    let certify = |year: i32| {
        let pair = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a name");
        params.not_before = rcgen::date_time_ymd(2025, 9, 25);
        params.not_after = rcgen::date_time_ymd(year, 9, 25);
        let made = params.self_signed(&pair).expect("a certificate");
        std::fs::write(&cert, made.pem()).expect("it is written");
        std::fs::write(&key, pair.serialize_pem()).expect("it is written");
    };
    certify(2026);
    year.stop().await;
    year.clock.set("2026-09-15T09:00:00Z");
    let plain = year.server.url.clone();
    year.server.set("TLS__CERT", &cert);
    year.server.set("TLS__KEY", &key);
    year.server.restart();
    // The client of the scrape does not mind who signed it.
    let client = reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true);
    let client = client.build().expect("a client");
    let scrape = async |year: &Year| {
        let url = format!("{}/metrics", year.server.url);
        let answer = client.get(url).bearer_auth(&year.viewer).send().await.expect("an answer");
        Scrape::read(&answer.text().await.expect("a text"))
    };
    let left = |scrape: &Scrape| {
        scrape.value("svc_certificate_expires_seconds", &[("certificate", "server")])
    };
    let ends = scrape(year).await;
    assert!((0.0..11.0 * 86_400.0).contains(&left(&ends)), "{}", left(&ends));
    year.alerts.saw("the certificate ends", 15, Some(&ends), &["CallboardCertificateEnds"]);
    certify(2027);
    let id = year.server.pid().to_string();
    assert!(Command::new("kill").args(["-HUP", &id]).status().expect("kill runs").success());
    until("the new one is taken", async || left(&scrape(year).await) > 300.0 * 86_400.0).await;
    let renewed = scrape(year).await;
    year.alerts.saw("the certificate was renewed", 75, Some(&renewed), &[]);
    year.stop().await;
    year.server.set("TLS__CERT", UNSET);
    year.server.set("TLS__KEY", UNSET);
    year.server.restart();
    assert_eq!(year.server.url, plain);
}
