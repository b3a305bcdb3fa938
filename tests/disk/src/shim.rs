//! The shim: a library that is loaded before the C library and sees every change that a program makes to
//! its files (`shim.c`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The shim, compiled.
#[derive(Debug)]
pub struct Shim(PathBuf);

/// The kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// A change of a file or a name: write, truncate, create, rename, link, remove.
    Write,
    /// fsync, fdatasync, `sync_file_range`.
    Sync,
}

/// The calls that fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// One call.
    Once,
    /// The call and all later ones.
    FromThenOn,
    /// The call, and every n-th one after it; n is at least 1.
    Every(u64),
}

/// The moment of a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before the call is made.
    Before,
    /// After the call is made and before it returns.
    After,
}

/// A fault of the disk, or a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The kind of the call.
    pub call: Call,
    /// The number of the call among those of its kind, from 1.
    pub at: u64,
    /// The outcome of the call.
    pub outcome: Outcome,
}

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The call fails.
    Fails {
        /// The error: 5 is EIO, 28 is ENOSPC; 0 reports success, although nothing is done.
        errno: i32,
        /// The calls that fail.
        timing: Timing,
    },
    /// The program is killed, as by SIGKILL from outside.
    Kills(Moment),
}

/// The number of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Of [`Call::Write`].
    pub writes: u64,
    /// Of [`Call::Sync`].
    pub syncs: u64,
    /// Calls that met the fault; a kill is one.
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

    /// Has `command` run under the shim, which watches the files under `root`.
    pub fn load(&self, command: &mut Command, root: &Path) {
        command.env("LD_PRELOAD", &self.0).env("SHIM_ROOT", root);
    }

    /// Logs every change and sync to the file `log`.
    pub fn log(command: &mut Command, log: &Path) {
        command.env("SHIM_LOG", log);
    }

    /// Logs the writes to the file `acks`, too.
    pub fn log_acknowledgements(command: &mut Command, acks: &Path) {
        command.env("SHIM_ACKS", acks);
    }

    /// Has fdatasync of each file whose name begins with `files` do nothing and report success.
    pub fn lie(command: &mut Command, files: &str) {
        command.env("SHIM_LIES", files);
    }

    /// Has no other descriptor of a file report that a sync of it failed.
    pub fn conceal(command: &mut Command) {
        command.env("SHIM_CONCEALS", "1");
    }

    /// Delays the last `writes` writes to the journal, up to 64, so that the program acknowledges a commit
    /// before it is made.
    pub fn delay(command: &mut Command, writes: u8) {
        command.env("SHIM_DELAY", writes.to_string());
    }

    /// The variable that has each sync take more than a second while the file that it names exists.
    pub const SLOW: &str = "SHIM_SLOW";

    /// The path of the compiled library, for programs that load several.
    #[must_use]
    pub fn library(&self) -> &Path {
        &self.0
    }

    /// Makes `fault`, and counts calls in the file `counts`.
    pub fn fail(command: &mut Command, fault: Option<Fault>, counts: &Path) {
        command.env("SHIM_COUNTS", counts);
        let Some(Fault { call, at, outcome }) = fault else { return };
        let call = u8::from(call == Call::Sync);
        match outcome {
            Outcome::Fails { errno, timing } => {
                let stays = match timing {
                    Timing::Once => 0,
                    Timing::FromThenOn => 1,
                    Timing::Every(calls) => calls,
                };
                command.env("SHIM_FAULT", format!("{call} {at} {errno} {stays}"));
            }
            Outcome::Kills(moment) => {
                let after = u8::from(moment == Moment::After);
                command.env("SHIM_KILL", format!("{call} {at} {after}"));
            }
        }
    }

    /// Fails a sync by the thread of this name with EIO: the first after the `at`-th change, which returns
    /// only then. Counts calls in the file `counts`.
    pub fn fail_thread(command: &mut Command, thread: &str, at: u64, counts: &Path) {
        const EIO: i32 = 5;
        command.env("SHIM_COUNTS", counts).env("SHIM_FAIL_THREAD", format!("{at} {EIO} {thread}"));
    }
}

impl Counts {
    /// Reads the file `counts` of [`Shim::fail`].
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
