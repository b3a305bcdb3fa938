//! The wall clock of a machine: libfaketime shows it to every program that is started with its variables.

use std::path::{Path, PathBuf};
use std::process::Command;

use jiff::Timestamp;

/// Whole seconds by which a clock is ahead, in a file. A program may be reading it.
pub(crate) fn write(file: &Path, ahead: i64) {
    let next = file.with_extension("next");
    std::fs::write(&next, format!("{ahead:+}\n")).expect("it is written");
    std::fs::rename(&next, file).expect("it is replaced whole");
}

/// The path of libfaketime.
fn library() -> String {
    let install = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faketime/install");
    let installed = Command::new(install).output().expect("bash starts");
    assert!(installed.status.success(), "{installed:?}");
    String::from_utf8(installed.stdout).expect("a path").trim().to_owned()
}

/// The variables of a program that sees the clock of a file. The monotonic clocks are the machine's own, so time-outs
/// are true.
pub(crate) fn variables(file: &Path) -> [(&'static str, String); 5] {
    [
        ("LD_PRELOAD", library()),
        ("FAKETIME_TIMESTAMP_FILE", file.display().to_string()),
        ("FAKETIME_NO_CACHE", "1".into()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ("NO_FAKE_STAT", "1".into()),
    ]
}

/// A clock that is set to instants.
pub(crate) struct Clock(PathBuf);

impl Clock {
    /// A clock that shows this instant now and runs on; `file` keeps how far it is from the real one.
    pub(crate) fn at(file: PathBuf, instant: &str) -> Self {
        let clock = Self(file);
        clock.set(instant);
        clock
    }

    /// Sets it; programs that run see that at once.
    pub(crate) fn set(&self, instant: &str) {
        let instant: Timestamp = instant.parse().expect("an instant");
        let ahead = instant.as_second() - Timestamp::now().as_second();
        write(&self.0, ahead);
    }

    /// The instant that it shows.
    pub(crate) fn now(&self) -> Timestamp {
        let ahead = std::fs::read_to_string(&self.0).expect("it is set");
        let ahead: i64 = ahead.trim().parse().expect("seconds");
        Timestamp::now() + jiff::Span::new().seconds(ahead)
    }

    /// The variables of a program that sees it.
    pub(crate) fn variables(&self) -> [(&'static str, String); 5] {
        variables(&self.0)
    }
}
