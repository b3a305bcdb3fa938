//! The clock of the year's machine: libfaketime shows it to every program that is started with its variables.

use std::path::PathBuf;
use std::process::Command;

use jiff::Timestamp;

pub(super) struct Clock {
    library: String,
    file: PathBuf,
}

impl Clock {
    /// A clock that shows this instant now and runs on; `file` keeps how far it is from the real one.
    pub(super) fn at(file: PathBuf, instant: &str) -> Self {
        let install = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faketime/install");
        let installed = Command::new(install).output().expect("bash starts");
        assert!(installed.status.success(), "{installed:?}");
        let library = String::from_utf8(installed.stdout).expect("a path").trim().to_owned();
        let clock = Self { library, file };
        clock.set(instant);
        clock
    }

    /// Sets it; programs that run see that at once.
    pub(super) fn set(&self, instant: &str) {
        let instant: Timestamp = instant.parse().expect("an instant");
        let ahead = instant.as_second() - Timestamp::now().as_second();
        let next = self.file.with_extension("next");
        std::fs::write(&next, format!("{ahead:+}\n")).expect("it is written");
        std::fs::rename(&next, &self.file).expect("it is replaced whole");
    }

    /// The instant that it shows.
    pub(super) fn now(&self) -> Timestamp {
        let ahead = std::fs::read_to_string(&self.file).expect("it is set");
        let ahead: i64 = ahead.trim().parse().expect("seconds");
        Timestamp::now() + jiff::Span::new().seconds(ahead)
    }

    /// The variables of a program that sees it. The monotonic clocks are the machine's own, so time-outs are true.
    pub(super) fn variables(&self) -> [(&'static str, String); 5] {
        [
            ("LD_PRELOAD", self.library.clone()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string()),
            ("FAKETIME_NO_CACHE", "1".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
            ("NO_FAKE_STAT", "1".into()),
        ]
    }
}
