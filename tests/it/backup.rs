//! Backups: a server in use is backed up, killed and restored, to the backup's moment and to later ones.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use callboard_disk::{Call, Counts, Fault, Moment, Outcome, Random, Shim, Timing};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::support::{ADMIN, Client, FakeWorker, PASSWORD, PROGRAM, Server, until};

const UNLIMITED: (&str, &str) = ("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "1000000");

fn command(server: &Server, token: &str, args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .arg("backup")
        .args(args)
        .args(["-o", "json"])
        .env_clear()
        .env("HOME", server.dir.path())
        .env("CALLBOARD_SERVER", &server.url)
        .env("CALLBOARD_API_KEY", token)
        .current_dir(server.dir.path());
    command
}

async fn callboard(server: &Server, token: &str, args: &[&str]) -> Output {
    let command = command(server, token, args);
    tokio::process::Command::from(command).output().await.expect("it runs")
}

async fn done(server: &Server, token: &str, args: &[&str]) -> Value {
    let output = callboard(server, token, args).await;
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// Makes the repository `backups`, and an archive.
async fn init(server: &Server) {
    done(server, "", &["init", "--in", "backups"]).await;
}

/// A server with an archive, in the directories `data`, `backups` and `archive` of its own.
fn start() -> Server {
    let mut server = Server::with(&[UNLIMITED]);
    assert!(server.terminate());
    let archive = server.dir.path().join("archive");
    server.set("STORE__ARCHIVE", archive.to_str().expect("a path in UTF-8"));
    server.restart();
    server
}

/// Puts another data directory in the place of the server's.
fn exchange(server: &Server, restored: &str) {
    let data = server.data();
    if data.exists() {
        std::fs::rename(&data, server.dir.path().join(format!("before {restored}")))
            .expect("moved");
    }
    std::fs::rename(server.dir.path().join(restored), data).expect("moved");
}

/// Submits tasks until it is stopped. Returns the acknowledged ones.
fn submit(
    client: Client,
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Vec<String>>>,
) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        for number in 0.. {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let task =
                json!({"prompt": format!("{number} {}", "words ".repeat(50)), "tags": ["backup"]});
            let request = client.request(Method::POST, "/api/tasks").json(&task);
            let Some(answer) = client.try_send(request).await else { return };
            if answer.status.as_u16() == 201 {
                let id = answer.body["data"]["id"].as_str().expect("an id").to_owned();
                seen.lock().await.push(id);
            }
        }
    })
}

async fn has(client: &Client, task: &str) -> bool {
    client.get(&format!("/api/tasks/{task}")).await.status.as_u16() == 200
}

async fn has_all(client: &Client, tasks: &[String]) {
    for task in tasks {
        assert!(has(client, task).await, "{task} was acknowledged and is lost");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_server_is_backed_up_and_restored_to_any_moment() {
    let mut server = start();
    let (operator, worker) = (server.key("operator").await, server.key("worker").await);
    let token = server.admin().await.token().to_owned();
    let running = FakeWorker::connect_to(&server.url, &worker, 4).await.run(|_| Ok("done".into()));
    let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
    let client = |url: &str| Client::new(url, &operator);
    let clients: Vec<_> =
        (0..4).map(|_| submit(client(&server.url), stop.clone(), seen.clone())).collect();
    let count = async || seen.lock().await.len();
    until("some tasks are there", async || count().await > 300).await;

    init(&server).await;
    let before_first = seen.lock().await.clone();
    let first = done(&server, &token, &["create", "--in", "backups"]).await;
    assert!(first["group"].as_u64() > Some(100), "{first}");
    assert_eq!(first["secrets"], false);
    let at_first = count().await;
    until("more tasks came", async || count().await > at_first + 100).await;
    let second = done(&server, &token, &["create", "--in", "backups"]).await;
    assert_eq!(done(&server, &token, &["list", "--in", "backups"]).await["pagination"]["total"], 2);
    done(&server, &token, &["verify", "--in", "backups", "--quick"]).await;
    let status = async || done(&server, &token, &["status"]).await["lastVerification"].clone();
    assert_eq!(status().await["result"], "intact");
    done(&server, &token, &["verify", "--in", "backups"]).await;
    let verified = status().await;
    assert_eq!((&verified["result"], &verified["backup"]), (&json!("restores"), &second["id"]));
    let unknown = callboard(&server, "", &["verify", "20200101T000000.000Z", "--in", "backups"]);
    assert_eq!(unknown.await.status.code(), Some(3), "it does not exist");

    // A moment that lies two seconds behind the second backup, with tasks on both sides.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before_moment = seen.lock().await.clone();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let moment = jiff::Timestamp::now().to_string();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let at_end = count().await;
    until("more tasks came", async || count().await > at_end + 50).await;

    server.kill();
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("it ends");
    }
    running.abort();
    // The opening archives the rest of the journal.
    server.restart();
    assert!(server.terminate());
    let all = seen.lock().await.clone();

    // The first backup alone.
    let id = first["id"].as_str().expect("an id");
    done(&server, "", &["restore", id, "--in", "backups", "--data-dir", "one"]).await;
    exchange(&server, "one");
    server.set("STORE__ARCHIVE", server.dir.path().join("other").to_str().expect("UTF-8"));
    server.restart();
    has_all(&client(&server.url), &before_first).await;
    assert!(!has(&client(&server.url), all.last().expect("there are some")).await);
    // It works on: what had not run runs, keys and passwords are those of before.
    let running = FakeWorker::connect_to(&server.url, &worker, 4).await.run(|_| Ok("done".into()));
    let task = client(&server.url).submit(&json!({"prompt": "after"})).await;
    client(&server.url).task_with_status(&task, "completed").await;
    client(&server.url).task_with_status(&before_first[0], "completed").await;
    let login = json!({"email": ADMIN, "password": PASSWORD});
    Client::new(&server.url, "").post("/api/auth/login", &login).await.expect_ok();
    running.abort();
    server.kill();

    // A moment behind the second backup.
    let to_moment = ["--archive", "archive", "--until", &moment, "--data-dir", "two"];
    let args = [&["restore", "--in", "backups"][..], &to_moment].concat();
    let restored = done(&server, "", &args).await;
    assert_eq!(restored["backup"], second["id"]);
    assert!(restored["archivedGroups"].as_u64() > Some(0), "{restored}");
    exchange(&server, "two");
    server.restart();
    has_all(&client(&server.url), &before_moment).await;
    assert!(!has(&client(&server.url), all.last().expect("there are some")).await);
    server.kill();

    // A backup cannot go back to before its end, whose changes it holds.
    let begun = first["createdAt"].as_str().expect("a time");
    let args = ["restore", id, "--in", "backups", "--archive", "archive", "--until", begun];
    let refused = callboard(&server, "", &[&args[..], &["--data-dir", "no"]].concat()).await;
    let says = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && says.contains("holds later changes"), "{says}");

    // Everything, from the older backup.
    let whole = ["restore", id, "--in", "backups", "--archive", "archive", "--data-dir", "three"];
    done(&server, "", &whole).await;
    exchange(&server, "three");
    server.restart();
    has_all(&client(&server.url), &all).await;
    let page = client(&server.url).get("/api/tasks?tags=backup&limit=1").await;
    assert!(page.body["pagination"]["total"].as_u64() >= Some(all.len() as u64), "{page:?}");
}

#[tokio::test]
async fn kills_leave_no_gap_in_the_archive() {
    let mut server = start();
    let operator = server.key("operator").await;
    let token = server.admin().await.token().to_owned();
    init(&server).await;
    done(&server, &token, &["create", "--in", "backups"]).await;
    let mut all = Vec::new();
    for cycle in 0..6_u64 {
        let client = Client::new(&server.url, &operator);
        for number in 0..20 {
            all.push(client.submit(&json!({"prompt": format!("{cycle}.{number}")})).await);
        }
        // Before, during and after a checkpoint.
        tokio::time::sleep(Duration::from_millis(300 * (cycle % 5))).await;
        server.kill();
        server.restart();
    }
    assert!(server.terminate());
    let args = ["restore", "--in", "backups", "--archive", "archive", "--data-dir", "restored"];
    done(&server, "", &args).await;
    exchange(&server, "restored");
    server.restart();
    has_all(&Client::new(&server.url, &operator), &all).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_command_is_in_nobodys_way_on_a_running_server() {
    let mut server = Server::with(&[UNLIMITED]);
    let operator = server.client("operator").await;
    let token = server.admin().await.token().to_owned();
    let (mut random, seed) = Random::from_env();
    let mut all = Vec::new();
    for _ in 0..40 {
        let words: Vec<_> = (0..600).map(|_| format!("{:x}", random.draw())).collect();
        all.push(operator.submit(&json!({"prompt": words.join(" ")})).await);
    }
    let shim = Shim::build(server.dir.path());
    let create = async |repository: &str, fault| {
        let (counts, repository) =
            (server.dir.path().join("counts"), server.dir.path().join(repository));
        let path = repository.to_str().expect("a path in UTF-8");
        let mut create = command(&server, &token, &["create", "--in", path]);
        shim.load(&mut create, &repository);
        Shim::fail(&mut create, fault, &counts);
        let ran = tokio::process::Command::from(create).output().await.expect("it runs");
        (ran, Counts::read(&counts))
    };
    init(&server).await;
    done(&server, "", &["init", "--in", "counted"]).await;
    let (made, calls) = create("counted", None).await;
    assert!(made.status.success() && calls.writes > 10, "{made:?} {calls:?}");
    let mut killed = 0;
    for number in 0..8 {
        let at = 1 + random.below(usize::try_from(calls.writes).expect("few")) as u64;
        let fault = Fault { call: Call::Write, at, outcome: Outcome::Kills(Moment::Before) };
        let (ran, _) = create("backups", Some(fault)).await;
        killed += usize::from(ran.status.signal() == Some(9));
        all.push(operator.submit(&json!({"prompt": format!("after {number}")})).await);
    }
    assert!(killed > 0, "seed {seed}: the backups ended before their kills");
    // The server may still be sending to the client that was killed last.
    let mut made = callboard(&server, &token, &["create", "--in", "backups"]).await;
    for _ in 0..100 {
        if made.status.success() {
            break;
        }
        let says = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(says.contains("is being made"), "seed {seed}: {says}");
        tokio::time::sleep(Duration::from_millis(100)).await;
        made = callboard(&server, &token, &["create", "--in", "backups"]).await;
    }
    let listed = done(&server, &token, &["list", "--in", "backups"]).await;
    for backup in listed["data"].as_array().expect("backups") {
        let id = backup["id"].as_str().expect("an id");
        done(&server, &token, &["verify", id, "--in", "backups"]).await;
    }
    done(&server, "", &["restore", "--in", "backups", "--data-dir", "restored"]).await;
    assert!(server.terminate());
    exchange(&server, "restored");
    server.restart();
    has_all(&operator.at(&server.url), &all).await;
}

#[tokio::test]
async fn backups_are_an_admins_and_damage_is_told() {
    let server = Server::start();
    let admin = server.admin().await;
    for role in ["operator", "viewer", "worker"] {
        let client = server.client(role).await;
        assert_eq!(client.post("/api/backups", &json!({})).await.refused(403), "FORBIDDEN");
    }
    init(&server).await;
    done(&server, "", &["init", "--in", "new"]).await;
    let refused = callboard(&server, &server.key("viewer").await, &["create", "--in", "new"]).await;
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
    assert!(!callboard(&server, "", &["list", "--in", "nothing"]).await.status.success());

    let made = done(&server, admin.token(), &["create", "--in", "backups"]).await;
    let data = server.data();
    let stopped = data.to_str().expect("UTF-8");
    // The server has the directory.
    let args = ["create", "--in", "backups", "--data-dir", stopped];
    let locked = callboard(&server, "", &args).await;
    assert!(String::from_utf8_lossy(&locked.stderr).contains("in use"), "{locked:?}");

    let chunks = server.dir.path().join("backups/chunks");
    let shelf =
        std::fs::read_dir(&chunks).expect("there are some").next().expect("one").expect("one");
    let chunk = std::fs::read_dir(shelf.path()).expect("read").next().expect("one").expect("one");
    flip(&chunk.path());
    let damaged = callboard(&server, "", &["verify", "--in", "backups"]).await;
    assert_eq!(damaged.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&damaged.stderr).contains("is damaged"), "{damaged:?}");
    let id = made["id"].as_str().expect("an id");
    let args = ["restore", id, "--in", "backups", "--data-dir", "restored"];
    assert!(!callboard(&server, "", &args).await.status.success());

    let audit = admin.get("/api/audit?action=backup.started").await.expect_ok();
    assert_eq!(audit.as_array().map(Vec::len), Some(1), "{audit}");
}

#[tokio::test]
async fn a_stopped_server_is_backed_up_with_its_secrets() {
    let mut server = Server::start();
    let operator = server.key("operator").await;
    let token = server.admin().await.token().to_owned();
    let task = Client::new(&server.url, &operator).submit(&json!({"prompt": "kept"})).await;
    assert!(server.terminate());
    let data = server.data();
    init(&server).await;
    let args = ["create", "--in", "backups", "--data-dir", data.to_str().expect("UTF-8")];
    assert_eq!(done(&server, "", &args).await["secrets"], true);
    done(&server, "", &["restore", "--in", "backups", "--data-dir", "restored"]).await;
    exchange(&server, "restored");
    server.restart();
    // The session of before counts: the signing key is the same.
    assert!(has(&Client::new(&server.url, &token), &task).await);
}

fn flip(path: &Path) {
    let mut bytes = std::fs::read(path).expect("it can be read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).expect("it can be written");
}

/// The paths below this one, and itself, that others may read.
fn open_to_others(path: &Path) -> Vec<String> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = std::fs::metadata(path).expect("it is there");
    let mode = metadata.permissions().mode() & 0o777;
    let mut found = Vec::new();
    if mode & 0o077 != 0 {
        found.push(format!("{} {mode:o}", path.display()));
    }
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path).expect("it can be read") {
            found.extend(open_to_others(&entry.expect("an entry").path()));
        }
    }
    found
}

/// Before: a restore followed the umask, so everybody on the machine could read every prompt.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_command_writes_is_for_nobody_else_whatever_the_umask() {
    use std::fs::{Permissions, create_dir, set_permissions};
    use std::os::unix::fs::PermissionsExt;
    let mut server = start();
    server.client("operator").await.submit(&json!({"prompt": "a secret"})).await;
    assert!(server.terminate());
    let root = server.dir.path().to_owned();
    let run = async |line: &str| {
        let script = format!("umask 000; exec {PROGRAM} {line}");
        let mut command = tokio::process::Command::new("sh");
        command.args(["-c", &script]).env_clear().env("HOME", &root).current_dir(&root);
        let output = command.output().await.expect("it runs");
        assert!(output.status.success(), "{line}: {output:?}");
    };
    run("backup init --in repository").await;
    run("backup create --in repository --data-dir data --archive archive").await;
    run("backup verify --in repository").await;
    run("backup restore --in repository --archive archive --data-dir restored").await;
    create_dir(root.join("there")).expect("it is ours");
    set_permissions(root.join("there"), Permissions::from_mode(0o755)).expect("it is ours");
    run("backup restore --in repository --data-dir there").await;
    run("compact --data-dir restored").await;
    for written in ["repository", "restored", "there", "data"] {
        assert_eq!(open_to_others(&root.join(written)), [""; 0], "{written}");
    }
    assert!(root.join("restored/store/db").exists());
}

/// The state of the database in the health of a server.
async fn database(client: &Client) -> (String, String) {
    let found = client.get("/health/database").await.body;
    let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
    (text("status"), text("detail"))
}

#[tokio::test]
async fn a_server_says_what_it_can_restore_and_a_lost_mount_becomes_no_archive() {
    let mut server = start();
    let admin = server.admin().await;
    let operator = server.client("operator").await;
    let key = server.key("backup").await;
    let (status, detail) = database(&admin).await;
    assert_eq!(status, "degraded");
    assert!(detail.contains("no backup to continue: make one"), "{detail}");
    let none = callboard(&server, &key, &["create", "--in", "backups"]).await;
    assert_eq!(none.status.code(), Some(3), "{none:?}");
    assert!(String::from_utf8_lossy(&none.stderr).contains("backup init --in backups"), "{none:?}");
    assert!(!server.dir.path().join("backups").exists(), "no repository is made by chance");

    // A key for backups makes them, and may nothing else.
    init(&server).await;
    let made = done(&server, &key, &["create", "--in", "backups"]).await;
    assert_eq!(database(&admin).await.0, "ok");
    let shown = done(&server, &key, &["status"]).await;
    assert_eq!(shown["lastBackup"]["group"], made["group"], "{shown}");
    assert_eq!(shown["archive"]["status"], "ok", "{shown}");
    let moment = |name: &str| -> jiff::Timestamp {
        shown["restorable"][name].as_str().expect("a time").parse().expect("a time")
    };
    assert!(moment("from") < moment("to"), "{shown}");
    let backup = Client::new(&server.url, &key);
    assert_eq!(backup.get("/api/tasks").await.refused(403), "FORBIDDEN");
    let metrics = admin.request(Method::GET, "/metrics").send().await.expect("an answer");
    let metrics = metrics.text().await.expect("a text");
    assert!(metrics.contains("svc_archive_continuous 1"), "{metrics}");
    assert!(metrics.contains("svc_restorable_to_seconds 1"), "{metrics}");
    let audit = admin.get("/api/audit?action=backup.completed").await.expect_ok();
    assert_eq!(audit[0]["details"]["backup"], made["id"], "{audit}");
    let lineage = |lineage: u64, group: u64| json!({"id": "x", "lineage": lineage, "group": group});
    for report in [lineage(1, 1), lineage(1, 1 << 50)] {
        let refused = backup.post("/api/system/backup", &report).await;
        assert_eq!(refused.refused(409), "INVALID_STATE");
    }

    // The disk of the archive is not mounted: an empty directory is in its place.
    assert!(server.terminate());
    let (archive, mounted) = (server.dir.path().join("archive"), server.dir.path().join("mounted"));
    std::fs::rename(&archive, &mounted).expect("moved");
    std::fs::create_dir(&archive).expect("it is ours");
    server.restart();
    let (admin, operator) = (admin.at(&server.url), operator.at(&server.url));
    let (status, detail) = database(&admin).await;
    assert!(status == "degraded" && detail.contains("mount its disk"), "{status} {detail}");
    operator.submit(&json!({"prompt": "in the gap"})).await;
    assert!(server.terminate());
    assert_eq!(std::fs::read_dir(&archive).expect("it is there").count(), 0, "nothing was written");

    // It is mounted again: the gap stays a fault until a backup covers it.
    std::fs::remove_dir(&archive).expect("it is empty");
    std::fs::rename(&mounted, &archive).expect("moved");
    server.restart();
    let (admin, operator) = (admin.at(&server.url), operator.at(&server.url));
    let task = operator.submit(&json!({"prompt": "behind the gap"})).await;
    let (status, detail) = database(&admin).await;
    assert!(status == "degraded" && detail.contains("a gap behind the last backup"), "{detail}");
    let shown = done(&server, &key, &["status"]).await;
    assert_eq!(shown["archive"]["status"], "degraded", "{shown}");
    let mut doctor = tokio::process::Command::new(PROGRAM);
    doctor.args(["doctor", "--server", &server.url, "-o", "json"]).env_clear();
    doctor.env("HOME", server.dir.path()).env("CALLBOARD_API_KEY", server.key("viewer").await);
    let found = String::from_utf8(doctor.output().await.expect("it runs").stdout).expect("UTF-8");
    assert!(found.contains("has a gap behind the last backup"), "{found}");
    done(&server, &key, &["create", "--in", "backups"]).await;
    assert_eq!(database(&admin).await.0, "ok");

    // What was promised: a restore of the newest backup and the archive has everything.
    let last = operator.submit(&json!({"prompt": "behind the backup"})).await;
    server.kill();
    server.restart();
    assert!(server.terminate());
    let args = ["restore", "--in", "backups", "--archive", "archive", "--data-dir", "restored"];
    done(&server, "", &args).await;
    exchange(&server, "restored");
    server.restart();
    has_all(&operator.at(&server.url), &[task, last]).await;
}

#[tokio::test]
async fn a_full_disk_of_the_repository_is_named_and_left_as_it_was() {
    let mut server = Server::start();
    let operator = server.client("operator").await;
    let token = server.admin().await.token().to_owned();
    for number in 0..40 {
        let mut random = Random::new(number);
        let words: Vec<_> = (0..600).map(|_| format!("{:x}", random.draw())).collect();
        operator.submit(&json!({"prompt": words.join(" ")})).await;
    }
    init(&server).await;
    let shim = Shim::build(server.dir.path());
    let (counts, path) = (server.dir.path().join("counts"), server.dir.path().join("backups"));
    let repository = path.to_str().expect("a path in UTF-8");
    let run = async |fault| {
        let mut create = command(&server, &token, &["create", "--in", repository]);
        shim.load(&mut create, &path);
        Shim::fail(&mut create, fault, &counts);
        tokio::process::Command::from(create).output().await.expect("it runs")
    };
    let files = || open_files(&path);
    let before = files();
    for at in [1, 3] {
        let outcome = Outcome::Fails { errno: 28, timing: Timing::FromThenOn };
        let full = run(Some(Fault { call: Call::Write, at, outcome })).await;
        let says = String::from_utf8_lossy(&full.stderr).into_owned();
        assert!(!full.status.success() && says.contains(repository), "{says}");
        assert!(says.contains("the disk of this path is full"), "{says}");
        assert!(!says.contains("data directory"), "{says}");
        assert_eq!(files(), before, "nothing is left");
    }
    assert!(run(None).await.status.success());
    assert!(server.terminate());
}

/// Every file below `path`.
fn open_files(path: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).expect("it can be read") {
        let entry = entry.expect("an entry").path();
        if entry.is_dir() { found.extend(open_files(&entry)) } else { found.push(entry) }
    }
    found.sort();
    found
}
