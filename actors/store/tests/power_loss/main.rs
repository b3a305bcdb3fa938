//! Power cuts: whatever was acknowledged is there afterwards, and everything else is whole or
//! absent.
//!
//! ```text
//! worker + shim ─▶ log of every write, sync and acknowledgement, in order
//!        cut anywhere ─▶ an image: what was synced, and a random part of the rest
//!               open it ─▶ compare all of it with the model      ─▶ work on it, and cut again
//! ```
//!
//! A failure prints its seed; `CALLBOARD_SEED=<seed>` begins with it. `CALLBOARD_LONG=1` makes 500
//! cuts instead of 20. A run of the worker is not the same twice, so a seed repeats the choice of
//! cuts and losses, not the interleaving of threads; the images of a failure are kept.
//!
//! The test itself is tested: with any of the measures in `sled.rs` left out it must fail.
//!
//! And syncs fail that sled makes in a thread of its own (`failed_syncs.rs`).

mod failed_syncs;
mod work;

use std::path::{Path, PathBuf};
use std::process::Command;

use callboard_store::sled::Sabotage;

use callboard_disk::{Event, Log, Model, Random, Shim, boot_again, copy, power_cut};
use work::{Progress, acknowledge, check};

const WORKER: &str = "CALLBOARD_POWER_LOSS_WORKER";

/// Which power cuts are made.
#[derive(Debug, Clone, Copy)]
struct Plan {
    cuts: usize,
    seed: u64,
    sabotage: Option<Sabotage>,
    /// Only while a store opens.
    openings: bool,
}

/// Where power cuts are made.
struct Bench {
    directory: tempfile::TempDir,
    shim: Shim,
    runs: usize,
}

/// A disk that was worked on, and everything that happened to it.
struct Run {
    start: PathBuf,
    events: Vec<Event>,
    /// The event after the worker's store had opened.
    opened: usize,
}

/// What a cut left, and what must be there.
struct Cut {
    image: PathBuf,
    acknowledged: Progress,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory can be had");
        let shim = Shim::build(directory.path());
        Self { directory, shim, runs: 0 }
    }

    fn path(&mut self, what: &str) -> PathBuf {
        self.runs += 1;
        self.directory.path().join(format!("{what}-{}", self.runs))
    }

    /// Works on a copy of the disk `start`.
    fn run(
        &mut self,
        start: &Path,
        batches: usize,
        orderly: bool,
        sabotage: Option<Sabotage>,
    ) -> Run {
        let (root, log, acks) = (self.path("disk"), self.path("log"), self.path("acks"));
        copy(start, &root);
        let mut command = worker(batches, orderly, sabotage);
        self.shim.load(&mut command, &root);
        Shim::log(&mut command, &log);
        Shim::log_acknowledgements(&mut command, &acks);
        let worker = command.output().expect("the worker starts");
        assert!(
            worker.status.success(),
            "the worker failed: {}",
            String::from_utf8_lossy(&worker.stderr)
        );
        let events = Log::read(&log, &root).events;
        std::fs::remove_dir_all(&root).expect("a directory of ours");
        std::fs::remove_file(&log).expect("a file of ours");
        let acknowledged = |event: &Event| matches!(event, Event::Acknowledged { .. });
        let opened = events.iter().position(acknowledged).expect("something was acknowledged");
        Run { start: start.into(), events, opened }
    }

    /// Cuts the power before the event `at`. `known` was there before the run.
    fn cut(
        &mut self,
        run: &Run,
        at: usize,
        known: Progress,
        model: Model,
        random: &mut Random,
    ) -> Cut {
        let image = self.path("image");
        power_cut(&run.start, &run.events, at, model, random, &image);
        boot_again(&image);
        let mut acknowledged = known;
        for event in &run.events[..at] {
            if let Event::Acknowledged { text } = event {
                acknowledge(&mut acknowledged, text);
            }
        }
        Cut { image, acknowledged }
    }

    /// Checks a copy of the image, and returns what is there.
    fn check(&mut self, cut: &Cut, sabotage: Option<Sabotage>) -> Result<Progress, String> {
        let copied = self.path("checked");
        copy(&cut.image, &copied);
        let found = check(&copied.join("data"), cut.acknowledged, sabotage);
        // A store whose opening panicked may still hold on to its files; the whole goes at the end.
        let _ = std::fs::remove_dir_all(copied);
        found
    }

    /// Makes the power cuts of `plan`, in runs that begin with an empty disk and with crashed ones,
    /// until one is not survived.
    fn torture(&mut self, plan: Plan) -> Result<(), String> {
        const CUTS_PER_RUN: usize = 5;
        let empty = self.path("empty");
        std::fs::create_dir_all(&empty).expect("a directory can be made");
        let Plan { cuts, seed, sabotage, openings } = plan;
        let mut random = Random::new(seed);
        let mut next = (empty.clone(), Progress::default());
        for run_number in 0..cuts.div_ceil(CUTS_PER_RUN) {
            let (start, known) = next.clone();
            let run = self.run(&start, 12 + random.below(30), random.below(2) == 0, sabotage);
            // Every third disk is a new one.
            next = (empty.clone(), Progress::default());
            for cut_number in 0..CUTS_PER_RUN {
                // An opening is short, and has dangers of its own.
                let at = if openings || cut_number % 3 == 0 {
                    random.below(run.opened + 1)
                } else {
                    run.opened + random.below(run.events.len() + 1 - run.opened)
                };
                let model = if random.below(2) == 0 { Model::Ordered } else { Model::Harsh };
                let cut = self.cut(&run, at, known, model, &mut random);
                match self.check(&cut, sabotage) {
                    Ok(found) if run_number % 3 < 2 => next = (cut.image, found),
                    Ok(_) => {}
                    Err(reason) => {
                        return Err(format!(
                            "cut {cut_number} of run {run_number}, {model:?}, before event {at} of {} \
                             (open at {}): {reason}; the image is {}",
                            run.events.len(),
                            run.opened,
                            cut.image.display()
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

/// This test, as the worker.
fn worker(batches: usize, orderly: bool, sabotage: Option<Sabotage>) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this test has a binary"));
    command
        .args(["--exact", "the_worker_works_only_when_told_to", "--test-threads=1", "--nocapture"])
        .env(WORKER, format!("{batches} {} {}", u8::from(orderly), name(sabotage)));
    command
}

/// Whether it may take long.
fn long() -> bool {
    std::env::var_os("CALLBOARD_LONG").is_some_and(|long| long == "1")
}

fn name(sabotage: Option<Sabotage>) -> &'static str {
    match sabotage {
        None => "none",
        Some(Sabotage::NoSync) => "no-sync",
        Some(Sabotage::NoSettling) => "no-settling",
        Some(Sabotage::NoRepair) => "no-repair",
        Some(Sabotage::LargeRows) => "large-rows",
        Some(Sabotage::LateDescriptor) => "late-descriptor",
    }
}

#[test]
fn the_worker_works_only_when_told_to() {
    let Ok(order) = std::env::var(WORKER) else {
        return;
    };
    let words: Vec<_> = order.split(' ').collect();
    let [batches, orderly, sabotage] = words.as_slice() else { panic!("{order} is no order") };
    let sabotages = [
        Sabotage::NoSync,
        Sabotage::NoSettling,
        Sabotage::NoRepair,
        Sabotage::LargeRows,
        Sabotage::LateDescriptor,
    ];
    let sabotage = sabotages.into_iter().find(|known| name(Some(*known)) == *sabotage);
    let [root, acks] = ["SHIM_ROOT", "SHIM_ACKS"]
        .map(|name| PathBuf::from(std::env::var(name).expect("it is set")));
    work::work(
        &root.join("data"),
        &acks,
        batches.parse().expect("a number"),
        *orderly == "1",
        sabotage,
    );
}

#[test]
fn whatever_was_acknowledged_survives_a_power_cut() {
    let cuts = if long() { 500 } else { 20 };
    let (_, seed) = Random::chosen();
    let mut bench = Bench::new();
    if let Err(reason) = bench.torture(Plan { cuts, seed, sabotage: None, openings: false }) {
        let kept = bench.directory.keep();
        panic!("seed {seed}: {reason} (kept in {})", kept.display());
    }
}

/// A measure left out must not go unnoticed for long.
fn is_caught(sabotage: Sabotage, openings: bool) {
    let plan = Plan { cuts: 500, seed: Random::chosen().1, sabotage: Some(sabotage), openings };
    match Bench::new().torture(plan) {
        Ok(()) => panic!("{plan:?} went unnoticed"),
        Err(reason) => eprintln!("{plan:?} is caught: {reason}"),
    }
}

#[test]
fn a_commit_without_a_sync_is_caught() {
    is_caught(Sabotage::NoSync, false);
}

#[test]
fn a_journal_overwritten_too_early_is_caught() {
    is_caught(Sabotage::NoSettling, false);
}

#[test]
fn an_opening_without_repair_is_caught() {
    is_caught(Sabotage::NoRepair, true);
}

#[test]
fn a_row_of_200_kb_let_through_is_caught() {
    is_caught(Sabotage::LargeRows, false);
}
