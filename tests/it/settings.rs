//! Settings that a running server reads again.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::support::{ADMIN, Client, PASSWORD, PROGRAM, credentials, until};

/// A server with a file of settings. Killed when dropped.
struct Configured {
    child: Child,
    url: String,
    dir: tempfile::TempDir,
}

impl Configured {
    fn start(settings: &str) -> Self {
        credentials::keep(PASSWORD);
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("c.toml"), settings).expect("it is written");
        let log = fs::File::create(dir.path().join("log")).expect("a file");
        let mut child = Command::new(PROGRAM)
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data", "--config", "c.toml"])
            .current_dir(dir.path())
            .env_remove("CALLBOARD_LOG")
            .env("CALLBOARD_ADMIN_EMAIL", ADMIN)
            .env("CALLBOARD_ADMIN_PASSWORD", PASSWORD)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the program starts");
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
        out.read_line(&mut line).expect("a line");
        let url = line.trim_end().strip_prefix("listening on ").expect("an address").to_owned();
        Self { child, url, dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn logged(&self) -> String {
        fs::read_to_string(self.path("log")).expect("a log")
    }

    fn signal(&self, kind: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([kind, &id]).status().expect("kill runs").success());
    }

    /// Sends SIGHUP with these settings, and waits for the line in the log.
    async fn hang_up(&self, settings: &str, line: &str) {
        fs::write(self.path("c.toml"), settings).expect("it is written");
        let before = self.logged().matches(line).count();
        self.signal("-HUP");
        until(line, async || self.logged().matches(line).count() > before).await;
    }

    async fn admin(&self) -> Client {
        let login = json!({"email": ADMIN, "password": PASSWORD});
        let session = Client::new(&self.url, "").post("/api/auth/login", &login).await.expect_ok();
        Client::new(&self.url, session["token"].as_str().expect("a token"))
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn prices(path: &Path, input: &str) {
    let price = format!(
        "{{\"smollm2-135m\": {{\"input_cost_per_token\": {input}, \"output_cost_per_token\": 0.5}}}}"
    );
    fs::write(path, price).expect("it is written");
}

#[tokio::test]
async fn a_hang_up_reads_limits_prices_and_the_log_again_and_never_ends_the_process() {
    let settings = |log: &str, requests: u32, concurrent: u32, aging: &str| {
        format!(
            "[server]\nlog = \"{log}\"\n[queue]\naging = \"{aging}\"\n[models]\nprices = \"prices.json\"\n\
             [models.limits.\"smollm2-135m\"]\nconcurrent = {concurrent}\n\
             [limits.enterprise]\nrequests_per_minute = {requests}\n"
        )
    };
    let server = Configured::start("");
    prices(&server.path("prices.json"), "0.25");
    server.hang_up(&settings("info", 900, 4, "60s"), "were read again").await;
    let admin = server.admin().await;
    let limit = async || admin.get("/api/models").await.headers["x-ratelimit-limit"].clone();
    let model = async || admin.get("/api/models").await.expect_ok()[0].clone();
    assert_eq!(limit().await, "900");
    let before = model().await;
    assert_eq!(before["limits"]["concurrent"], 4, "{before:#}");

    prices(&server.path("prices.json"), "0.75");
    server
        .hang_up(&settings("debug", 77, 5, "61s"), "the settings and the prices were read again")
        .await;
    assert_eq!(limit().await, "77");
    let after = model().await;
    assert_eq!(after["limits"]["concurrent"], 5, "{after:#}");
    assert_ne!(before["price"], after["price"], "{before:#} {after:#}");
    let log = server.logged();
    for line in [
        "limits.enterprise is now 77 requests a minute, unlimited tasks",
        "server.log is now debug",
        "models.limits is now smollm2-135m: 5 calls",
        "queue.aging = 61s takes effect at the next start",
    ] {
        assert!(log.contains(line), "{line}: {log}");
    }
    assert!(log.contains("\"level\":\"DEBUG\""), "{log}");
    let read = admin.get("/api/audit?action=settings.read").await.expect_ok();
    assert_eq!(read[0]["details"]["limits.enterprise"], "77 requests a minute, unlimited tasks");
    assert_eq!(read[0]["details"]["queue.aging"], "1m", "what counts, not what waits: {read:#}");

    // A fault anywhere leaves all of it as it was.
    let kept = "the settings stay as they are";
    server.hang_up("[limits.enterprise]\nrequests_per_minute = \"many\"\n", kept).await;
    server.hang_up("[limits]\nrequests = 5\n", kept).await;
    fs::write(server.path("prices.json"), "no prices").expect("it is written");
    server.hang_up(&settings("error", 55, 6, "60s"), kept).await;
    fs::remove_file(server.path("c.toml")).expect("it was there");
    let before = server.logged().matches(kept).count();
    server.signal("-HUP");
    until(kept, async || server.logged().matches(kept).count() > before).await;
    assert_eq!(limit().await, "77");
    assert_eq!(model().await["limits"]["concurrent"], 5);
    let mut server = server;
    server.signal("-TERM");
    assert!(server.child.wait().expect("it ends").success());
}
