//! The shim: a library that is loaded before the C library and sees what a program does to its
//! files (`shim.c`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The shim, compiled.
#[derive(Debug)]
pub struct Shim(PathBuf);

/// What a fault is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Whatever changes a file or a name: write, truncate, create, rename, link, remove.
    Write,
    /// fsync, fdatasync, `sync_file_range`.
    Sync,
}

/// How often it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// Only there.
    Once,
    /// There and from then on.
    FromThenOn,
    /// There, and at every call that comes so many calls later; at least 1.
    Every(u64),
}

/// On which side of a call the program is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Nothing of the call was done.
    Before,
    /// It was done, and the program does not know.
    After,
}

/// A fault of the disk, or a kill in the middle of its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// What it is about.
    pub what: What,
    /// At which of these calls, counted from 1.
    pub at: u64,
    /// What happens there.
    pub outcome: Outcome,
}

/// What happens at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It fails.
    Fails {
        /// What the program is told: 5 is EIO, 28 is ENOSPC, 0 is success, although nothing is done.
        errno: i32,
        /// How often.
        timing: Timing,
    },
    /// The whole program is killed, as by SIGKILL from outside.
    Kills(Moment),
}

/// How many calls there were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Of [`What::Write`].
    pub writes: u64,
    /// Of [`What::Sync`].
    pub syncs: u64,
    /// That met the fault; a kill is one.
    pub faults: u64,
}

impl Shim {
    /// Compiles the shim into `directory`.
    ///
    /// # Panics
    /// Without a C compiler.
    #[must_use]
    pub fn build(directory: &Path) -> Self {
        let (source, library) = (directory.join("shim.c"), directory.join("shim.so"));
        fs::write(&source, include_str!("shim.c")).expect("a file can be made");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
            .args([library.as_path(), source.as_path()])
            .args(["-ldl", "-lpthread"])
            .status();
        assert!(compiled.is_ok_and(|status| status.success()), "the shim needs a C compiler, cc");
        Self(library)
    }

    /// Has `command` run under the shim, which looks after what is under `root`.
    pub fn load(&self, command: &mut Command, root: &Path) {
        command.env("LD_PRELOAD", &self.0).env("SHIM_ROOT", root);
    }

    /// Has everything logged to the file `log`.
    pub fn log(command: &mut Command, log: &Path) {
        command.env("SHIM_LOG", log);
    }

    /// Has what is written to the file `acks` stand in the log as well.
    pub fn log_acknowledgements(command: &mut Command, acks: &Path) {
        command.env("SHIM_ACKS", acks);
    }

    /// Has fdatasync do nothing, and say that it did.
    pub fn lie(command: &mut Command) {
        command.env("SHIM_LIES", "1");
    }

    /// Has the last `writes` writes to the journal stay in memory, so that whoever is answered hears
    /// of a commit before it is done: up to 64.
    pub fn hold(command: &mut Command, writes: u8) {
        command.env("SHIM_HOLD", writes.to_string());
    }

    /// Has `fault` happen, and calls counted in the file `counts`.
    pub fn fail(command: &mut Command, fault: Option<Fault>, counts: &Path) {
        command.env("SHIM_COUNTS", counts);
        let Some(Fault { what, at, outcome }) = fault else { return };
        let what = u8::from(what == What::Sync);
        match outcome {
            Outcome::Fails { errno, timing } => {
                let stays = match timing {
                    Timing::Once => 0,
                    Timing::FromThenOn => 1,
                    Timing::Every(calls) => calls,
                };
                command.env("SHIM_FAULT", format!("{what} {at} {errno} {stays}"));
            }
            Outcome::Kills(moment) => {
                let after = u8::from(moment == Moment::After);
                command.env("SHIM_KILL", format!("{what} {at} {after}"));
            }
        }
    }

    /// Has a sync by the thread called `thread` fail with EIO, the first after the `at`-th change, which
    /// returns only then; and calls counted in the file `counts`.
    pub fn fail_beside(command: &mut Command, thread: &str, at: u64, counts: &Path) {
        const EIO: i32 = 5;
        command.env("SHIM_COUNTS", counts).env("SHIM_BESIDE", format!("{at} {EIO} {thread}"));
    }
}

impl Counts {
    /// What stands in the file `counts` of [`Shim::fail`].
    ///
    /// # Panics
    /// If the program did not run under the shim.
    #[must_use]
    pub fn read(counts: &Path) -> Self {
        let bytes = fs::read(counts).expect("the shim counted");
        let number = |at: usize| {
            let bytes = bytes.get(at * 8..at * 8 + 8);
            bytes.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes")))
        };
        Self { writes: number(0), syncs: number(1), faults: number(2) }
    }
}
