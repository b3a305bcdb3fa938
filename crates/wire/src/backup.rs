//! Backups on the wire: the report of a complete one, and what can be restored.

use callboard_domain::Timestamp;
use callboard_store::{Finding, Protection, VerificationRecord};
use serde::Serialize;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::common::Iso;
use super::read::rule;
use crate::request;

/// The last number of a group: above it, JSON numbers are not exact.
const MAX_GROUP: u64 = (1 << 53) - 1;

request! {
    /// A backup that is complete, as its maker has it.
    #[derive(Debug)]
    pub struct BackupReport as "BackupReport" {
        /// The name of the backup in its repository.
        id: String = required("id", rule::text(rule::characters(1..=64))),
        /// The lineage of the data directory, from the beginning of the stream.
        lineage: u32 = required("lineage", rule::whole(0..=u32::MAX)),
        /// The number of the last group of the stream.
        group: u64 = required("group", rule::whole(0..=MAX_GROUP)),
    }
}

request! {
    /// A verification of a backup, as its command found it.
    #[derive(Debug)]
    pub struct BackupVerification as "BackupVerification" {
        /// The name of the backup in its repository.
        id: String = required("id", rule::text(rule::characters(1..=64))),
        /// The lineage of the data directory, as the backup has it.
        lineage: u32 = required("lineage", rule::whole(0..=u32::MAX)),
        /// The finding: every chunk is intact and the backup restores, it is intact and no restore was tried, or it is
        /// damaged.
        result: Finding = required("result", rule::one_of(&Finding::ALL, Finding::as_str)),
        /// The damage, in words.
        detail: Option<String> = optional("detail", rule::text(rule::characters(1..=1_000))),
    }
}

impl BackupVerification {
    /// The verification as it is stored.
    #[must_use]
    pub fn note(self, at: Timestamp) -> VerificationRecord {
        let Self { id, result, detail, .. } = self;
        VerificationRecord { at_ms: at.as_millis(), backup: id, finding: result, detail }
    }
}

/// The last backup, the archive behind it, and the moments to which the two restore the server.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupStatusBody {
    /// The last complete backup that the server was told of.
    last_backup: Option<LastBackup>,
    /// The last verification of a backup that the server was told of.
    last_verification: Option<LastVerification>,
    /// The archive of the journal; absent without one.
    archive: Option<ArchiveBody>,
    /// The moments to which the last backup, and the archive behind it, restore the server; absent without a backup.
    restorable: Option<Restorable>,
}

/// A complete backup.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastBackup {
    /// Its end: it holds everything that was acknowledged before it began.
    ended_at: Iso,
    /// The number of its last group.
    group: u64,
}

/// A verification of a backup.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastVerification {
    /// Its end.
    at: Iso,
    /// The name of the backup in its repository.
    backup: String,
    /// restores: every chunk is intact, and a trial restored and opened the backup; intact: no restore was tried;
    /// damaged.
    result: &'static str,
    /// The damage, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

/// The archive of the journal.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArchiveBody {
    /// ok, or degraded: a restore to the present moment would fail.
    status: &'static str,
    /// The reason, and the remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

/// A span of time, every moment of which can be restored.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Restorable {
    /// The first moment: the end of the last backup. Older backups, if there are any, restore to earlier ones.
    from: Iso,
    /// The last moment: the present one while the archive continues the backup; what was committed in the last
    /// second or so may be missing.
    to: Iso,
}

impl BackupStatusBody {
    /// The state of a store at `now`.
    #[must_use]
    pub fn of(protection: &Protection, now: Timestamp) -> Self {
        let iso = |millis| Iso(Timestamp::from_millis(millis));
        let fault = protection.fault();
        let archive = protection.archive.as_ref().map(|_| ArchiveBody {
            status: if fault.is_some() { "degraded" } else { "ok" },
            detail: fault,
        });
        let last_backup = protection
            .backup
            .map(|backup| LastBackup { ended_at: iso(backup.ended_at_ms), group: backup.group });
        let verified = protection.verification.clone();
        let last_verification = verified.map(|it| LastVerification {
            at: iso(it.at_ms),
            backup: it.backup,
            result: it.finding.as_str(),
            detail: it.detail,
        });
        let restorable = protection
            .restorable(now.as_millis())
            .map(|(from, to)| Restorable { from: iso(from), to: iso(to) });
        Self { last_backup, last_verification, archive, restorable }
    }
}
