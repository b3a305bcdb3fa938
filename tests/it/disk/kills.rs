//! SIGKILL at any moment: every acknowledged change is there after the next start, and
//! everything ends right.
//!
//! - `random`: at any moment of a mixed load, and of a start, in one directory that lives on;
//! - `boundaries`: before and after each write and sync of a run, and of a recovery;
//! - `backups`: before and after each write and sync of `callboard backup create`;
//! - `planted`: bugs that these must find, one of them with `careless` before the server.

mod backups;
mod boundaries;
mod careless;
mod planted;
mod random;
