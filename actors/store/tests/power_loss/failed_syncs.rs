//! sled syncs its file in a thread of its own, and tells nobody if that fails. So a sync of ours must be
//! told, before anything more is acknowledged that rests on it.
//!
//! ```text
//! for every change k of a run:
//!     change k is done ─▶ the next sync of sled's thread fails ─▶ the run goes on, or ends in words
//!                                        the power goes: what was acknowledged must be there
//! ```
//!
//! Deliberately absent: syncs of ours that fail, and the whole program (`tests/it/disk/faults.rs`).

use callboard_disk::{Counts, Event, Log, Model, Random, Shim, boot_again, power_cut};
use callboard_store::sled::Sabotage;

use super::work::{Progress, acknowledge};
use super::{Bench, Cut, long, worker};

/// What sled calls it (`Db::start_inner`).
const SLEDS_THREAD: &str = "log flusher";
/// So many batches of each writer stay in the journal, and so many go to sled as they come (`work.rs`); then
/// it soon writes everything again, and what was lost with it.
const IN_THE_JOURNAL: usize = 3;
const IN_SLED: usize = 4;
/// How many changes an opening of a new directory makes, and at least one with the work after it.
const OPENING: usize = 22;
const ALL: usize = 60;

impl Bench {
    /// Has every writer make so many batches on an empty disk, where the sync of sled's thread after change
    /// `at` fails; then the power goes. Whether that sync came, and what is wrong.
    fn fail_beside(
        &mut self,
        batches: usize,
        at: usize,
        sabotage: Option<Sabotage>,
    ) -> (bool, Result<(), String>) {
        let (start, root) = (self.path("empty"), self.path("disk"));
        let (log, acks, counts) = (self.path("log"), self.path("acks"), self.path("counts"));
        for directory in [&start, &root] {
            std::fs::create_dir_all(directory).expect("a directory can be made");
        }
        let mut command = worker(batches, false, sabotage);
        self.shim.load(&mut command, &root);
        Shim::log(&mut command, &log);
        Shim::log_acknowledgements(&mut command, &acks);
        Shim::fail_beside(&mut command, SLEDS_THREAD, at as u64, &counts);
        let ended = command.output().expect("the worker starts");
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(matches!(ended.status.code(), Some(0 | 1)), "change {at}: {stderr}");
        let events = Log::read(&log, &root).events;
        let image = self.path("image");
        power_cut(&start, &events, events.len(), Model::Harsh, &mut Random::new(at as u64), &image);
        boot_again(&image);
        let mut acknowledged = Progress::default();
        for event in &events {
            if let Event::Acknowledged { text } = event {
                acknowledge(&mut acknowledged, text);
            }
        }
        let found = self.check(&Cut { image, acknowledged }, sabotage);
        let told = |reason| format!("after change {at}: {reason}; the worker: {stderr}");
        (Counts::read(&counts).faults > 0, found.map(|_| ()).map_err(told))
    }
}

#[test]
fn a_failed_sync_of_sleds_own_thread_is_heard_of() {
    let (mut bench, (mut random, seed)) = (Bench::new(), Random::chosen());
    let step = if long() { 1 } else { 4 };
    for (batches, changes) in [(IN_THE_JOURNAL, OPENING), (IN_SLED, ALL)] {
        for at in (1 + random.below(step)..=changes).step_by(step) {
            let (came, survived) = bench.fail_beside(batches, at, None);
            survived.unwrap_or_else(|reason| panic!("seed {seed}: {reason}"));
            assert!(came, "seed {seed}: no sync failed after change {at} of {batches} batches");
        }
    }
}

#[test]
fn a_descriptor_that_is_opened_too_late_is_caught() {
    let (mut bench, late) = (Bench::new(), Some(Sabotage::LateDescriptor));
    let caught = (1..=OPENING).find_map(|at| bench.fail_beside(IN_THE_JOURNAL, at, late).1.err());
    eprintln!("it is caught: {}", caught.expect("it went unnoticed"));
}
