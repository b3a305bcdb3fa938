//! For tests only: a disk that loses power, fails, or lies.
//!
//! ```text
//! program + shim ─▶ log of every write and sync, in order ─▶ image: the disk after a power cut
//!        └◀─ faults: the k-th write fails, the k-th sync fails, a sync does nothing,
//!            a kill before or after the k-th, delayed writes
//! ```

mod image;
mod shim;

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

pub use image::{Event, Log, Model, power_cut};
pub use shim::{Call, Counts, Fault, Moment, Outcome, Shim, Timing};

/// A random generator that can be repeated.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The generator of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The generator of the seed in `CALLBOARD_SEED`, or of another each time; and the seed.
    ///
    /// # Panics
    /// Before 1970.
    #[must_use]
    pub fn from_env() -> (Self, u64) {
        let chosen = std::env::var("CALLBOARD_SEED").ok().and_then(|seed| seed.parse().ok());
        let now = std::time::UNIX_EPOCH.elapsed().expect("it is later than 1970").as_nanos();
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are what changes")]
        let seed = chosen.unwrap_or_else(|| Self::new(now as u64).draw());
        (Self::new(seed), seed)
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let n = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        n ^ n >> 31
    }

    /// A number from 0 to `limit` - 1.
    ///
    /// # Panics
    /// If `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.draw() % limit as u64).expect("below a usize")
    }
}

/// Runs `cases` on so many threads, for work that mostly waits. Returns the results in the order of the
/// cases.
///
/// # Panics
/// If a case panics.
pub fn in_parallel<C: Send, T: Send>(
    threads: usize,
    cases: impl IntoIterator<Item = C>,
    run: impl Fn(C) -> T + Sync,
) -> Vec<T> {
    let cases: Vec<C> = cases.into_iter().collect();
    let queue = Mutex::new(cases.into_iter().enumerate());
    let work = || {
        let next = || queue.lock().expect("no holder panics").next();
        std::iter::from_fn(next).map(|(number, case)| (number, run(case))).collect::<Vec<_>>()
    };
    let mut done: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let done = threads.into_iter().map(|thread| thread.join().expect("no case panics"));
        done.flatten().collect()
    });
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Has the store under `directory` find another boot id than its own, as after a start of the machine.
///
/// # Panics
/// If the disk of the test fails.
pub fn reboot(directory: &Path) {
    for entry in fs::read_dir(directory).expect("a directory of ours") {
        let path = entry.expect("a directory of ours").path();
        if path.is_dir() {
            reboot(&path);
        } else if path.ends_with("callboard-state")
            && !fs::read(&path).expect("a file of ours").starts_with(b"closed")
        {
            fs::write(path, "another boot").expect("a file of ours");
        }
    }
}

/// Copies the directory `from` to `to`.
///
/// # Panics
/// If the disk of the test fails.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory can be made");
    for entry in fs::read_dir(from).expect("a directory of ours") {
        let entry = entry.expect("a directory of ours");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a file of ours").is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a file can be copied");
        }
    }
}
