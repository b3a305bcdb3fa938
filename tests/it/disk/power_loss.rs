//! The power goes while the server works: every acknowledged change is there afterwards.
//!
//! ```text
//! server + shim ─▶ log of every write and sync        clients ─▶ what was acknowledged, and when
//!        cut anywhere ─▶ an image: what was synced, and a random part of the rest
//!            start there ─▶ compare ─▶ finish the work ─▶ compare      ─▶ or work on, and cut again
//! ```
//!
//! The store alone goes through the same in `actors/store/tests/power_loss`, with more cuts.

use std::path::{Path, PathBuf};

use callboard_disk::{Log, Model, Random, Shim, copy, power_cut, reboot};

use super::ledger::{Fact, Ledger};
use super::load::{Amount, check, is_loss, set_up, work};
use super::long;
use super::program::Program;

const CUTS_PER_RUN: usize = 5;

/// Where power cuts are made.
struct Bench {
    directory: tempfile::TempDir,
    shim: Shim,
    paths: usize,
    lies: bool,
}

/// A disk that was worked on, and everything that happened to it.
struct Run {
    start: PathBuf,
    log: Log,
    /// How many events there were when the server listened.
    opened: usize,
    /// What was acknowledged, and the event after it.
    facts: Vec<(usize, Fact)>,
}

impl Bench {
    fn new(lies: bool) -> Self {
        let directory = tempfile::tempdir().expect("a directory can be had");
        let shim = Shim::build(directory.path());
        Self { directory, shim, paths: 0, lies }
    }

    fn path(&mut self, what: &str) -> PathBuf {
        self.paths += 1;
        self.directory.path().join(format!("{what}-{}", self.paths))
    }

    /// Works on a copy of the disk `start`.
    async fn run(&mut self, start: &Path, random: &mut Random) -> Result<Run, String> {
        let (root, log, stderr) = (self.path("disk"), self.path("log"), self.path("stderr"));
        copy(start, &root);
        let program = Program::start(&root.join("data"), &stderr, |command| {
            self.shim.load(command, &root);
            Shim::log(command, &log);
            if self.lies {
                Shim::lie(command, "");
            }
        });
        let program = program.map_err(|ended| format!("it does not start: {ended:?}"))?;
        let opened = std::fs::metadata(&log).expect("the shim's log").len();
        let ledger = Ledger::beside(log.clone());
        let keys = set_up(&program.url, &ledger).await.expect("the server works");
        let rounds = 6 + random.below(10);
        let amount = Amount { users: 6, rounds, long: 12_000, seed: random.draw() };
        work(&program.url, &keys, &ledger, amount).await;
        if random.below(2) == 0 {
            let ended = program.terminate();
            assert!(ended.code == Some(0), "{ended:?}");
        } else {
            program.kill();
        }
        assert!(ledger.refusals().is_empty(), "{:?}", ledger.refusals());
        let events = Log::read(&log, &root);
        let facts = ledger.all().into_iter();
        let facts = facts.map(|(length, fact)| (events.events_by(length), fact)).collect();
        std::fs::remove_dir_all(&root).expect("a directory of ours");
        std::fs::remove_file(&log).expect("a file of ours");
        Ok(Run { start: start.into(), opened: events.events_by(opened), log: events, facts })
    }

    /// Starts on a copy of the image and compares it with `facts`.
    async fn check(&mut self, image: &Path, facts: &[Fact]) -> Result<(), String> {
        let (root, stderr) = (self.path("checked"), self.path("stderr"));
        copy(image, &root);
        let program = Program::start(&root.join("data"), &stderr, |_| ());
        let program = program.map_err(|ended| format!("it does not start: {ended:?}"))?;
        check(&program.url, facts).await?;
        let ended = program.terminate();
        let _ = std::fs::remove_dir_all(root);
        if ended.code != Some(0) || ended.panicked() {
            return Err(format!("it does not end in order: {ended:?}"));
        }
        Ok(())
    }

    /// Makes power cuts in runs that begin with an empty disk and with crashed ones, until one is
    /// not survived. Says how many facts were compared.
    async fn torture(&mut self, cuts: usize, seed: u64) -> Result<usize, String> {
        let mut random = Random::new(seed);
        let empty = self.path("empty");
        std::fs::create_dir_all(&empty).expect("a directory can be made");
        let (mut start, mut known, mut compared) = (empty.clone(), Vec::new(), 0);
        for run_number in 0..cuts.div_ceil(CUTS_PER_RUN) {
            let run = self.run(&start, &mut random).await?;
            // Every third disk is a new one.
            let fresh = run_number % 3 == 2;
            let mut next = (empty.clone(), Vec::new());
            for cut_number in 0..CUTS_PER_RUN {
                // An opening is short, and has dangers of its own.
                let at = if cut_number % 3 == 2 {
                    random.below(run.opened + 1)
                } else {
                    run.opened + random.below(run.log.events.len() + 1 - run.opened)
                };
                let model = if random.below(2) == 0 { Model::Ordered } else { Model::Harsh };
                let image = self.path("image");
                power_cut(&run.start, &run.log.events, at, model, &mut random, &image);
                reboot(&image);
                let mut facts: Vec<Fact> = Vec::clone(&known);
                let acknowledged = run.facts.iter().filter(|(after, _)| *after <= at);
                facts.extend(acknowledged.map(|(_, fact)| fact.clone()));
                compared += facts.len();
                self.check(&image, &facts).await.map_err(|reason| {
                    format!(
                        "cut {cut_number} of run {run_number}, {model:?}, before event {at} of {} \
                         (listening at {}): {reason}; the image is {}",
                        run.log.events.len(),
                        run.opened,
                        image.display()
                    )
                })?;
                if !fresh {
                    next = (image, facts);
                }
            }
            (start, known) = next;
        }
        Ok(compared)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_the_server_acknowledged_survives_a_power_cut() {
    let cuts = if long() { 200 } else { 10 };
    let (_, seed) = Random::from_env();
    let mut bench = Bench::new(false);
    match bench.torture(cuts, seed).await {
        Ok(compared) => {
            assert!(compared > 20 * cuts, "there was work: {compared}");
            eprintln!("{cuts} cuts, {compared} acknowledgements compared");
        }
        Err(reason) => {
            let kept = bench.directory.keep();
            panic!("seed {seed}: {reason} (kept in {})", kept.display());
        }
    }
}

/// The test of the test: a server whose syncs do nothing answers before its commits are durable. After a
/// power cut it mostly knows that something is missing, and refuses to start; now and then it does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_before_the_sync_is_caught_by_power_cuts() {
    let (_, seed) = Random::from_env();
    match Bench::new(true).torture(100, seed).await {
        Ok(_) => panic!("seed {seed}: it went unnoticed"),
        Err(reason) => {
            let misses = reason.contains("restore it from a backup") || is_loss(&reason);
            assert!(misses, "seed {seed}: something else was caught: {reason}");
            eprintln!("it is caught: {reason}");
        }
    }
}
