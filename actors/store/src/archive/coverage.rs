//! The record of what can be restored: the groups that the archive holds without a gap, and the last backup.
//!
//! ```text
//! groups    … 70 ─────────── 100 ── gap ── 130 ────────────── now
//! archive      │ its groups   │             │ since
//! backups          ▲ reaches until here            ▲ covers: every moment from here on
//! ```
//!
//! The record stands in the directory of the store, whose history it tells: a restored directory begins without one.
//! Deliberately absent: older backups, which `callboard backup list` shows.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use serde::{Deserialize, Serialize};

use crate::directory::replace;

pub(crate) const FILE: &str = "callboard-restorable";

/// A backup that is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupNote {
    /// Its end, in milliseconds since 1970: it holds what was committed up to then.
    pub ended_at_ms: u64,
    /// The number of its last group.
    pub group: u64,
    /// The time up to which the archive continued it before a gap, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reaches_ms: Option<u64>,
}

/// The finding of a verification of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Finding {
    /// Every chunk is intact, and a trial restored the backup and opened it.
    Restores,
    /// Every chunk is intact; no restore was tried.
    Intact,
    /// A chunk is damaged or missing, or the trial failed.
    Damaged,
}

impl Finding {
    /// All findings.
    pub const ALL: [Self; 3] = [Self::Restores, Self::Intact, Self::Damaged];

    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Restores => "restores",
            Self::Intact => "intact",
            Self::Damaged => "damaged",
        }
    }
}

/// The last verification of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerificationRecord {
    /// Its end, in milliseconds since 1970.
    pub at_ms: u64,
    /// The name of the backup in its repository.
    pub backup: String,
    /// The finding.
    pub finding: Finding,
    /// The damage, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The archive, as far as it protects the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveState {
    /// The archive's directory.
    pub directory: PathBuf,
    /// The reason why the archive takes no groups now.
    pub fault: Option<String>,
    /// True if the archive continues the last backup without a gap.
    pub continues_backup: bool,
}

/// The backups and the archive of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protection {
    /// The lineage of the directory, which its backups have too.
    pub lineage: u32,
    /// The last backup that the store knows of.
    pub backup: Option<BackupNote>,
    /// The last verification of a backup that the store knows of.
    pub verification: Option<VerificationRecord>,
    /// The archive, if there is one.
    pub archive: Option<ArchiveState>,
}

impl Protection {
    /// The first and the last moment, in milliseconds since 1970, to which the last backup and the archive behind it
    /// restore the store; `now_ms` is the present one. `None` without a backup.
    #[must_use]
    pub fn restorable(&self, now_ms: u64) -> Option<(u64, u64)> {
        let backup = self.backup?;
        let from = backup.ended_at_ms;
        let continues = self.archive.as_ref().is_some_and(|archive| archive.continues_backup);
        let to = if continues { now_ms } else { backup.reaches_ms.unwrap_or(from) };
        Some((from, to.max(from)))
    }

    /// The reason why a restore to the present moment would fail, although there is an archive.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let archive = self.archive.as_ref()?;
        if let Some(fault) = &archive.fault {
            return Some(format!("the archive of the journal cannot be written: {fault}"));
        }
        let text = match self.backup {
            None => {
                "the archive of the journal has no backup to continue: make one with callboard backup create"
            }
            Some(_) => {
                "the archive of the journal has a gap behind the last backup: make a backup with callboard backup create"
            }
        };
        (!archive.continues_backup).then(|| text.to_owned())
    }
}

/// The record as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Record {
    /// The mark of the archive.
    archive: Option<String>,
    /// The archive holds every group behind this one; `None` while it takes none.
    since: Option<u64>,
    backup: Option<BackupNote>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verification: Option<VerificationRecord>,
}

impl Record {
    fn continues_backup(&self) -> bool {
        let since = self.since;
        self.backup.is_some_and(|backup| since.is_some_and(|since| backup.group >= since))
    }
}

/// The record of one directory.
#[derive(Debug)]
pub(crate) struct Coverage {
    directory: PathBuf,
    record: Mutex<Record>,
}

impl Coverage {
    /// Reads the record in the directory of a store. A damaged one counts as none.
    pub(crate) fn read(directory: &Path) -> io::Result<Self> {
        let record = match fs::read(directory.join(FILE)) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|error| {
                tracing::warn!(%error, "the record of the last backup is damaged: make a backup");
                Record::default()
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Record::default(),
            Err(error) => return Err(error),
        };
        Ok(Self { directory: directory.into(), record: Mutex::new(record) })
    }

    /// The mark of the archive that the store had last.
    pub(crate) fn archive(&self) -> Option<String> {
        self.record().archive.clone()
    }

    /// The group from which on the archive `id` is known to have every group.
    pub(crate) fn since(&self, id: &str) -> Option<u64> {
        let record = self.record();
        record.since.filter(|_| record.archive.as_deref() == Some(id))
    }

    pub(crate) fn continues_backup(&self) -> bool {
        self.record().continues_backup()
    }

    pub(crate) fn backup(&self) -> Option<BackupNote> {
        self.record().backup
    }

    pub(crate) fn verification(&self) -> Option<VerificationRecord> {
        self.record().verification.clone()
    }

    /// The archive `id` has every group behind `since`.
    pub(crate) fn begins(&self, id: &str, since: u64) {
        self.change(|record| (record.archive, record.since) = (Some(id.to_owned()), Some(since)));
    }

    /// The archive has a gap behind the groups that it took until `archived_ms`.
    pub(crate) fn breaks(&self, archived_ms: Option<u64>) {
        self.change(|record| {
            let continued = record.continues_backup();
            if let Some(backup) = record.backup.as_mut().filter(|_| continued) {
                backup.reaches_ms = archived_ms;
            }
            record.since = None;
        });
    }

    /// A backup is complete. An older one than the last changes nothing.
    pub(crate) fn backed_up(&self, backup: BackupNote) -> io::Result<()> {
        let mut record = self.record();
        if record.backup.is_none_or(|last| last.group <= backup.group) {
            record.backup = Some(backup);
            return self.write(&record);
        }
        Ok(())
    }

    /// A backup was verified.
    pub(crate) fn verified(&self, verification: VerificationRecord) -> io::Result<()> {
        let mut record = self.record();
        record.verification = Some(verification);
        self.write(&record)
    }

    fn change(&self, change: impl FnOnce(&mut Record)) {
        let mut record = self.record();
        let before = record.clone();
        change(&mut record);
        if *record != before
            && let Err(error) = self.write(&record)
        {
            tracing::error!(%error, "the record of what can be restored cannot be written");
        }
    }

    fn write(&self, record: &Record) -> io::Result<()> {
        let text = serde_json::to_string(record).expect("a record is JSON");
        replace(&self.directory, FILE, &text)
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().expect("no holder panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backup(group: u64, ended_at_ms: u64) -> BackupNote {
        BackupNote { ended_at_ms, group, reaches_ms: None }
    }

    fn protection(coverage: &Coverage, fault: Option<&str>) -> Protection {
        let archive = ArchiveState {
            directory: "archive".into(),
            fault: fault.map(str::to_owned),
            continues_backup: coverage.continues_backup(),
        };
        let (backup, verification) = (coverage.backup(), coverage.verification());
        Protection { lineage: 1, backup, verification, archive: Some(archive) }
    }

    #[test]
    fn a_gap_stays_a_fault_until_a_backup_covers_it() {
        let directory = tempfile::tempdir().expect("a directory can be had");
        let coverage = Coverage::read(directory.path()).expect("it can be read");
        coverage.begins("a", 70);
        assert!(protection(&coverage, None).fault().is_some_and(|it| it.contains("no backup")));
        assert_eq!(protection(&coverage, None).restorable(9_000), None);
        coverage.backed_up(backup(80, 1_000)).expect("it is written");
        assert_eq!(protection(&coverage, None).fault(), None);
        assert_eq!(protection(&coverage, None).restorable(9_000), Some((1_000, 9_000)));
        // The gap: the archive continued the backup until 2 s, and is written again from group 130 on.
        coverage.breaks(Some(2_000));
        assert!(protection(&coverage, Some("its disk")).fault().is_some());
        coverage.begins("a", 130);
        let again = Coverage::read(directory.path()).expect("it can be read");
        for coverage in [&coverage, &again] {
            assert!(protection(coverage, None).fault().is_some_and(|it| it.contains("a gap")));
            assert_eq!(protection(coverage, None).restorable(9_000), Some((1_000, 2_000)));
        }
        // A backup from before its end does not cover it; one from behind it does.
        again.backed_up(backup(129, 3_000)).expect("it is written");
        assert!(protection(&again, None).fault().is_some());
        again.backed_up(backup(130, 4_000)).expect("it is written");
        assert_eq!(protection(&again, None).fault(), None);
        assert_eq!(protection(&again, None).restorable(9_000), Some((4_000, 9_000)));
        assert_eq!((again.since("a"), again.since("b")), (Some(130), None));
    }

    #[test]
    fn the_last_verification_stays_whatever_becomes_of_the_archive() {
        let directory = tempfile::tempdir().expect("a directory can be had");
        let read = || Coverage::read(directory.path()).expect("it can be read");
        let verified = |at_ms, finding, detail: Option<&str>| {
            let (backup, detail) = ("20261121T100000.000Z".to_owned(), detail.map(str::to_owned));
            VerificationRecord { at_ms, backup, finding, detail }
        };
        assert_eq!(read().verification(), None);
        read().verified(verified(1, Finding::Restores, None)).expect("it is written");
        let damaged = verified(2, Finding::Damaged, Some("a chunk is missing"));
        read().verified(damaged.clone()).expect("it is written");
        let coverage = read();
        coverage.begins("a", 70);
        coverage.backed_up(backup(80, 1_000)).expect("it is written");
        coverage.breaks(None);
        assert_eq!(read().verification(), Some(damaged));
    }
}
