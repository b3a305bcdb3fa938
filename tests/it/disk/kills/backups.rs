//! `callboard backup create` is killed before and after its k-th write or sync: the next run makes a right
//! backup, older backups are intact, and the data directory has lost nothing.
//!
//! ```text
//! an empty repository ───────┐
//! a repository, and changes ─┴─▶ create, killed at the k-th call ─▶ create ─▶ verify ─▶ restore, compare
//! ```

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use callboard_disk::{Counts, Fault, Random, Shim, copy};
use callboard_store::sled::{SledOptions, SledStore};
use callboard_store::{Key, Row, Store};
use serde_json::{Value, json};

use super::boundaries::every;
use crate::disk::long;
use crate::disk::pool::{Sum, run_until_met};
use crate::support::Server;

/// Kills of each beginning in the short form.
const SAMPLE: usize = 12;

/// The state before the command that is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Empty,
    /// A backup, and tasks that came since.
    Used,
}

#[derive(Debug, Clone)]
struct Case {
    number: usize,
    found: Found,
    kill: Fault,
}

/// A data directory, and a repository with a backup of an earlier state of it.
struct Bench {
    directory: tempfile::TempDir,
    shim: Shim,
    server: Server,
    rows: Vec<Row>,
}

impl Bench {
    async fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory can be had");
        let shim = Shim::build(directory.path());
        let mut server = Server::start();
        submit(&server, 0..40).await;
        assert!(server.terminate(), "it ends in order");
        let repository = directory.path().join("repository");
        init(&repository);
        let made = create(&server.data(), &repository, |_| ());
        assert!(made.status.success(), "{made:?}");
        server.restart();
        submit(&server, 40..60).await;
        assert!(server.terminate(), "it ends in order");
        let rows = rows(&server.data()).await;
        assert!(rows.len() > 100, "{}", rows.len());
        Self { directory, shim, server, rows }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The data directory and the repository below `root`.
    fn place(&self, found: Found, root: &Path) -> (PathBuf, PathBuf) {
        let (data, repository) = (root.join("data"), root.join("backups"));
        copy(&self.server.data(), &data);
        match found {
            Found::Empty => init(&repository),
            Found::Used => copy(&self.path("repository"), &repository),
        }
        (data, repository)
    }

    /// The calls of a run that nobody kills.
    fn counted(&self, found: Found) -> Counts {
        let (root, counts) = (self.path(&format!("counted {found:?}")), self.path("counts"));
        let (data, repository) = self.place(found, &root);
        let made = create(&data, &repository, |command| {
            self.shim.load(command, &root);
            Shim::fail(command, None, &counts);
        });
        assert!(made.status.success(), "{made:?}");
        Counts::read(&counts)
    }

    /// Returns whether the kill was met.
    async fn run(&self, case: &Case, before: usize) -> Result<bool, String> {
        let name = |what: &str| format!("{what} {}.{before}", case.number);
        let (root, counts) = (self.path(&name("disk")), self.path(&name("counts")));
        let (data, repository) = self.place(case.found, &root);
        let killed = create(&data, &repository, |command| {
            self.shim.load(command, &root);
            Shim::fail(command, Some(case.kill), &counts);
        });
        if killed.status.signal() != Some(9) {
            return if killed.status.success() { Ok(false) } else { Err(format!("{killed:?}")) };
        }
        let made = create(&data, &repository, |_| ());
        let made = read(&made).map_err(|said| format!("the next backup: {said}"))?;
        let all = backup(&["list", "--in"], &repository, |_| ());
        let all = read(&all).map_err(|said| format!("the list: {said}"))?;
        let all = all["data"].as_array().cloned().unwrap_or_default();
        let before = usize::from(case.found == Found::Used);
        // The killed run may have been complete.
        if !(1 + before..=2 + before).contains(&all.len()) || all.last() != Some(&made) {
            return Err(format!("{} backups: {all:?}", all.len()));
        }
        for one in &all {
            let id = one["id"].as_str().expect("an id");
            let verified = backup(&["verify", id, "--in"], &repository, |_| ());
            read(&verified).map_err(|said| format!("{id}: {said}"))?;
        }
        let restored = root.join("restored");
        let done = backup(&["restore", "--in"], &repository, |command| {
            command.arg("--data-dir").arg(&restored);
        });
        read(&done).map_err(|said| format!("the restore: {said}"))?;
        for (name, data) in [("data", &data), ("restored", &restored)] {
            if rows(data).await != self.rows {
                return Err(format!("rows of {name} are lost"));
            }
            if !data.join("signing.key").exists() {
                return Err(format!("the signing key of {name} is lost"));
            }
        }
        std::fs::remove_dir_all(root).expect("a directory of ours");
        Ok(true)
    }
}

/// Tasks with texts that do not compress.
async fn submit(server: &Server, numbers: std::ops::Range<u64>) {
    let client = server.client("operator").await;
    for number in numbers {
        let mut random = Random::new(number);
        let words: Vec<_> = (0..600).map(|_| format!("{:x}", random.draw())).collect();
        client.submit(&json!({"prompt": words.join(" ")})).await;
    }
}

/// Every row of the store in a data directory.
async fn rows(data: &Path) -> Vec<Row> {
    let options =
        SledOptions::new(data.join("store"), 8 << 20, Box::new(|error| panic!("{error}")));
    let store = SledStore::open(options).expect("it opens");
    let (from, to) = (Key([0].into()), Key([255].into()));
    store.scan(from, to, usize::MAX).await.expect("it can be read")
}

fn init(repository: &Path) {
    let made = backup(&["init", "--in"], repository, |_| ());
    assert!(made.status.success(), "{made:?}");
}

fn create(data: &Path, repository: &Path, prepare: impl FnOnce(&mut Command)) -> Output {
    backup(&["create", "--in"], repository, |command| {
        prepare(command.arg("--data-dir").arg(data));
    })
}

fn backup(args: &[&str], repository: &Path, prepare: impl FnOnce(&mut Command)) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
    command.arg("backup").args(args).arg(repository).args(["-o", "json"]);
    command.env_clear().env("HOME", repository).stdin(Stdio::null());
    prepare(&mut command);
    command.output().expect("it runs")
}

fn read(output: &Output) -> Result<Value, String> {
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

#[test]
fn a_killed_backup_leaves_a_repository_in_which_the_next_one_is_right() {
    let (mut random, seed) = Random::from_env();
    let bench = tokio::runtime::Runtime::new().expect("a runtime").block_on(Bench::new());
    let mut cases = Vec::new();
    for found in [Found::Empty, Found::Used] {
        let counts = bench.counted(found);
        let all = every(counts);
        eprintln!("{found:?}: {counts:?}");
        let kills: Vec<_> =
            if long() { all } else { (0..SAMPLE).map(|_| all[random.below(all.len())]).collect() };
        cases.extend(kills.into_iter().map(|kill| Case { number: 0, found, kill }));
    }
    for (number, case) in (1..).zip(&mut cases) {
        case.number = number;
    }
    let Sum { met, unmet, wrong, .. } =
        run_until_met(cases, async |case: &Case, before| bench.run(case, before).await);
    eprintln!("{met} killed, {} ended before their kill", unmet.len());
    assert!(met > SAMPLE, "seed {seed}: {met} of them were killed");
    if !wrong.is_empty() {
        let kept = bench.directory.keep();
        panic!("seed {seed}: {} (kept in {})", wrong.join("\n"), kept.display());
    }
}
