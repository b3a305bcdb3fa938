//! Power cuts: every acknowledged batch is there afterwards, and each other batch is whole or absent.
//!
//! ```text
//! worker + shim ─▶ log of every write, sync and acknowledgement, in order
//!        cut anywhere ─▶ an image: the synced writes, and a random part of the rest
//!               open it ─▶ compare all of it with the model      ─▶ work on it, and cut again
//! ```
//!
//! A failure prints its seed; `CALLBOARD_SEED=<seed>` begins with it. `CALLBOARD_LONG=1` makes 500 cuts
//! instead of 20. No run of the worker is the same twice, so a seed repeats the choice of cuts and losses,
//! and not the interleaving of threads; the images of a failure are kept.
//!
//! The test itself is tested: it must fail on a disk that does not sync the journal, or not sled's file,
//! and so must sled without the store's other measures (`sled_alone.rs`). In `failed_syncs.rs` the syncs
//! of sled's own thread fail.

mod failed_syncs;
mod sled_alone;
mod work;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use callboard_disk::{Event, Log, Model, Random, Shim, copy, in_parallel, power_cut, reboot};
use work::{Progress, Work, acknowledge};

const WORKER: &str = "CALLBOARD_POWER_LOSS_WORKER";

/// The power cuts, the worker and the disk of a test.
#[derive(Clone, Copy)]
struct Plan {
    cuts: usize,
    /// True if the power is cut only while a store opens.
    openings: bool,
    subject: Subject,
    /// Plants a bug of the disk.
    plant: fn(&mut Command),
    /// Opens a copy of the image, and returns its progress.
    check: fn(&Path, Progress) -> Result<Progress, String>,
}

/// The store that a worker writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Store,
    /// sled, and rows of 200 KB.
    SledAlone,
}

/// The store itself. So many cuts find every planted bug.
const PLAN: Plan =
    Plan { cuts: 500, openings: false, subject: Subject::Store, plant: |_| (), check: work::check };

/// The directories of a test.
struct Bench {
    directory: tempfile::TempDir,
    shim: Shim,
    paths: AtomicUsize,
}

/// The disk at the start of a run, and the events of the run.
struct Run {
    start: PathBuf,
    events: Vec<Event>,
    /// The first event after the opening of the store.
    opened: usize,
}

/// The disk after a cut, and the progress that it must have.
struct Cut {
    image: PathBuf,
    acknowledged: Progress,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory can be had");
        let shim = Shim::build(directory.path());
        Self { directory, shim, paths: AtomicUsize::new(0) }
    }

    fn path(&self, what: &str) -> PathBuf {
        let number = self.paths.fetch_add(1, Ordering::Relaxed);
        self.directory.path().join(format!("{what}-{number}"))
    }

    /// Runs the worker `command` on a copy of the disk `start`.
    fn run(&self, start: &Path, mut command: Command) -> Run {
        let (root, log, acks) = (self.path("disk"), self.path("log"), self.path("acks"));
        copy(start, &root);
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

    /// Cuts the power before the event `at`. `known` is the progress before the run.
    fn cut(&self, run: &Run, at: usize, known: Progress, model: Model, random: &mut Random) -> Cut {
        let image = self.path("image");
        power_cut(&run.start, &run.events, at, model, random, &image);
        reboot(&image);
        Cut { image, acknowledged: acknowledged(known, &run.events[..at]) }
    }

    /// Checks a copy of the image, and returns its progress.
    fn check(
        &self,
        cut: &Cut,
        check: fn(&Path, Progress) -> Result<Progress, String>,
    ) -> Result<Progress, String> {
        let copied = self.path("checked");
        copy(&cut.image, &copied);
        let found = check(&copied.join("data"), cut.acknowledged);
        // A store that panicked in its opening may still hold files; the test removes them at its end.
        let _ = std::fs::remove_dir_all(copied);
        found
    }

    /// Makes the power cuts of `plan`, in runs on empty and on crashed disks, until a check fails.
    fn torture(&self, plan: &Plan, seed: u64) -> Result<(), String> {
        const CUTS_PER_RUN: usize = 5;
        let empty = self.path("empty");
        std::fs::create_dir_all(&empty).expect("a directory can be made");
        let mut random = Random::new(seed);
        let mut next = (empty.clone(), Progress::default());
        for run_number in 0..plan.cuts.div_ceil(CUTS_PER_RUN) {
            let (start, known) = next.clone();
            let mut command = worker(plan.subject, 12 + random.below(30), random.below(2) == 0);
            (plan.plant)(&mut command);
            let run = self.run(&start, command);
            // Every third disk is empty.
            next = (empty.clone(), Progress::default());
            let cuts: Vec<_> = (0..CUTS_PER_RUN)
                .map(|cut_number| {
                    // An opening is short, and has dangers of its own.
                    let at = if plan.openings || cut_number % 3 == 0 {
                        random.below(run.opened + 1)
                    } else {
                        run.opened + random.below(run.events.len() + 1 - run.opened)
                    };
                    let model = if random.below(2) == 0 { Model::Ordered } else { Model::Harsh };
                    let cut = self.cut(&run, at, known, model, &mut random);
                    let place = format!(
                        "cut {cut_number} of run {run_number}, {model:?}, before event {at} of {} \
                         (open at {})",
                        run.events.len(),
                        run.opened,
                    );
                    (place, cut)
                })
                .collect();
            let check = |(place, cut): (String, Cut)| match self.check(&cut, plan.check) {
                Ok(found) => Ok((cut.image, found)),
                Err(reason) => {
                    Err(format!("{place}: {reason}; the image is {}", cut.image.display()))
                }
            };
            for survived in in_parallel(CUTS_PER_RUN, cuts, check) {
                let survived = survived?;
                if run_number % 3 < 2 {
                    next = survived;
                }
            }
        }
        Ok(())
    }
}

/// The progress after `events`.
fn acknowledged(known: Progress, events: &[Event]) -> Progress {
    let mut progress = known;
    for event in events {
        if let Event::Acknowledged { text } = event {
            acknowledge(&mut progress, text);
        }
    }
    progress
}

/// This test's binary as the worker.
fn worker(subject: Subject, batches: usize, orderly: bool) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this test has a binary"));
    command
        .args(["--exact", "the_worker_works_only_when_told_to", "--test-threads=1", "--nocapture"])
        .env(WORKER, format!("{subject:?} {batches} {}", u8::from(orderly)));
    command
}

/// True for the long form of a test.
fn long() -> bool {
    std::env::var_os("CALLBOARD_LONG").is_some_and(|long| long == "1")
}

#[test]
fn the_worker_works_only_when_told_to() {
    let Ok(order) = std::env::var(WORKER) else {
        return;
    };
    let words: Vec<_> = order.split(' ').collect();
    let [subject, batches, orderly] = words.as_slice() else { panic!("{order} is no order") };
    let path = |name| std::env::var_os(name).map(PathBuf::from);
    let work = Work {
        data: path("SHIM_ROOT").expect("it is set").join("data"),
        acks: path("SHIM_ACKS").expect("it is set"),
        batches: batches.parse().expect("a number"),
        orderly: *orderly == "1",
        until_fault: path("SHIM_COUNTS"),
    };
    match *subject {
        "Store" => work::work(&work),
        "SledAlone" => sled_alone::work(&work),
        other => panic!("nothing works on {other}"),
    }
}

#[test]
fn whatever_was_acknowledged_survives_a_power_cut() {
    let plan = Plan { cuts: if long() { 500 } else { 20 }, ..PLAN };
    let (_, seed) = Random::from_env();
    let bench = Bench::new();
    if let Err(reason) = bench.torture(&plan, seed) {
        let kept = bench.directory.keep();
        panic!("seed {seed}: {reason} (kept in {})", kept.display());
    }
}

/// The tests of the test: `plan` must not be survived.
fn caught(plan: &Plan) {
    let (_, seed) = Random::from_env();
    let reason = Bench::new().torture(plan, seed).expect_err("no power cut finds it");
    eprintln!("seed {seed}: it is caught: {reason}");
}

#[test]
fn a_commit_without_a_sync_is_caught() {
    caught(&Plan { plant: |command| Shim::lie(command, "journal."), ..PLAN });
}

#[test]
fn a_journal_overwritten_too_early_is_caught() {
    caught(&Plan { plant: |command| Shim::lie(command, "db"), ..PLAN });
}
