//! Failed syncs of sled's own thread, which ignores them. The store's next sync must report them, before it
//! acknowledges anything that relies on them.
//!
//! ```text
//! for every change k of a run:
//!     change k is done ─▶ the next sync of sled's thread fails ─▶ the run goes on, or ends with an error
//!                                        the power goes: every acknowledged commit must be there
//! ```

use std::process::Command;

use callboard_disk::{Counts, Log, Model, Random, Shim, in_parallel, power_cut, reboot};

use super::work::{Progress, check};
use super::{Bench, Cut, Subject, acknowledged, long, worker};

/// The name of sled's thread (`Db::start_inner`).
const SLEDS_THREAD: &str = "log flusher";
/// So many batches of each writer stay in the journal, and so many go to sled one by one (`work.rs`). With
/// more of them sled soon writes everything again, the lost data too.
const IN_THE_JOURNAL: usize = 3;
const IN_SLED: usize = 4;
/// The changes of an opening of a new directory, and about those of the opening with the work after it.
const OPENING: usize = 22;
const ALL: usize = 60;
/// A run mostly waits for sled's thread, which syncs ten times a second.
const AT_A_TIME: usize = 4;

impl Bench {
    /// Has every writer make so many batches on an empty disk, where the next sync of sled's thread after
    /// change `at` fails; then cuts the power. Returns whether that sync failed, and the fault of the store.
    fn fail_thread(
        &self,
        batches: usize,
        at: usize,
        plant: fn(&mut Command),
    ) -> (bool, Result<(), String>) {
        let (start, root) = (self.path("empty"), self.path("disk"));
        let (log, acks, counts) = (self.path("log"), self.path("acks"), self.path("counts"));
        for directory in [&start, &root] {
            std::fs::create_dir_all(directory).expect("a directory can be made");
        }
        let mut command = worker(Subject::Store, batches, false);
        self.shim.load(&mut command, &root);
        Shim::log(&mut command, &log);
        Shim::log_acknowledgements(&mut command, &acks);
        Shim::fail_thread(&mut command, SLEDS_THREAD, at as u64, &counts);
        plant(&mut command);
        let ended = command.output().expect("the worker starts");
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(matches!(ended.status.code(), Some(0 | 1)), "change {at}: {stderr}");
        let events = Log::read(&log, &root).events;
        let image = self.path("image");
        power_cut(&start, &events, events.len(), Model::Harsh, &mut Random::new(at as u64), &image);
        reboot(&image);
        let acknowledged = acknowledged(Progress::default(), &events);
        let found = self.check(&Cut { image, acknowledged }, check);
        let located = |reason| format!("after change {at}: {reason}; the worker: {stderr}");
        (Counts::read(&counts).faults > 0, found.map(|_| ()).map_err(located))
    }
}

#[test]
fn a_failed_sync_of_sleds_own_thread_is_heard_of() {
    let (bench, (mut random, seed)) = (Bench::new(), Random::from_env());
    let step = if long() { 1 } else { 4 };
    // A descriptor that is opened too late shows at two of these changes only.
    let opening = (1..=OPENING).map(|at| (IN_THE_JOURNAL, at));
    let whole = (1 + random.below(step)..=ALL).step_by(step).map(|at| (IN_SLED, at));
    let cases: Vec<_> = opening.chain(whole).collect();
    in_parallel(AT_A_TIME, cases, |(batches, at)| {
        let (came, survived) = bench.fail_thread(batches, at, |_| ());
        survived.unwrap_or_else(|reason| panic!("seed {seed}: {reason}"));
        assert!(came, "seed {seed}: no sync failed after change {at} of {batches} batches");
    });
}

/// The test of the test: as if the store opened the file only after sled had.
#[test]
fn a_failed_sync_that_no_other_descriptor_reports_is_caught() {
    let bench = Bench::new();
    let caught =
        (1..=OPENING).find_map(|at| bench.fail_thread(IN_THE_JOURNAL, at, Shim::conceal).1.err());
    eprintln!("it is caught: {}", caught.expect("it went unnoticed"));
}
