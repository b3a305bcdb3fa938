//! For tests only: a disk that loses power, fails, or lies.
//!
//! ```text
//! program + shim ─▶ log of every write and sync, in order ─▶ image: the disk after a power cut
//!        └◀─ faults: the k-th write fails, the k-th sync fails, a sync that does nothing,
//!            a kill before or after the k-th, writes that are held back
//! ```
//!
//! Deliberately absent: what is written and what must be there afterwards, which the tests know.

mod image;
mod shim;

use std::fs;
use std::path::Path;

pub use image::{Event, Log, Model, power_cut};
pub use shim::{Counts, Fault, Moment, Outcome, Shim, Timing, What};

/// Chance that can be repeated.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The chance that begins with `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The chance that `CALLBOARD_SEED` names, or another each time; and its seed.
    ///
    /// # Panics
    /// Before 1970.
    #[must_use]
    pub fn chosen() -> (Self, u64) {
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

    /// A number from 0 to one below `limit`.
    ///
    /// # Panics
    /// If `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.draw() % limit as u64).expect("below a usize")
    }
}

/// Has the store under `directory` see that the machine was started again since it was in use.
///
/// # Panics
/// If the disk of the test fails.
pub fn boot_again(directory: &Path) {
    for entry in fs::read_dir(directory).expect("a directory of ours") {
        let path = entry.expect("a directory of ours").path();
        if path.is_dir() {
            boot_again(&path);
        } else if path.ends_with("callboard-state")
            && !fs::read(&path).expect("a file of ours").starts_with(b"closed")
        {
            fs::write(path, "another boot").expect("a file of ours");
        }
    }
}

/// Copies what is under `from` to `to`.
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
