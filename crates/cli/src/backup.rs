//! `callboard backup`: backups of a server in use, or of a data directory, in a repository on this machine.
//!
//! Deliberately absent: a schedule. A timer of the system runs `callboard backup create`.

use std::path::PathBuf;

use callboard_backup::{
    Error, Frames, Keep, Manifest, Repository, Writer, back_up, init_archive, prune_archive,
    restore,
};
use callboard_client::{Call, Client, Page};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::access::{Access, Remote};
use super::failure::Failure;
use super::input::Body;
use super::output::{Column, details, status_line};

const COLUMNS: [Column; 7] = [
    ("ID", "id"),
    ("CREATED", "createdAt"),
    ("ROWS", "rows"),
    ("MB", "megabytes"),
    ("NEW MB", "newMegabytes"),
    ("GROUP", "group"),
    ("SECRETS", "secrets"),
];

const STATUS: [Column; 8] = [
    ("last backup", "lastBackup"),
    ("verified", "verifiedAt"),
    ("finding", "finding"),
    ("damage", "damage"),
    ("archive", "archive"),
    ("reason", "detail"),
    ("restorable from", "from"),
    ("restorable to", "to"),
];

/// The most characters that the server takes of a damage.
const MAX_DETAIL: usize = 1_000;

/// The commands on backups.
#[derive(Debug, Clone, Subcommand)]
pub enum Backup {
    /// Make a repository of backups, or an archive of the journal, in an empty or missing directory.
    ///
    /// No other command makes one, so that nothing is written to the directory below a disk that is not mounted.
    Init(Init),
    /// Show the last backup of a server, its archive, and the moments that can be restored.
    Status,
    /// Back up a running server, or with --data-dir a stopped one. Unchanged rows are stored once.
    Create {
        /// The repository.
        #[arg(long = "in", value_name = "DIRECTORY")]
        repository: PathBuf,
        /// The data directory of a stopped server: its secrets (signing.key, webhook.secret) are included.
        #[arg(long, value_name = "DIRECTORY")]
        data_dir: Option<PathBuf>,
        /// The stopped server's `[store] archive`, if it has one.
        #[arg(long, value_name = "DIRECTORY", requires = "data_dir")]
        archive: Option<PathBuf>,
    },
    /// List the backups of a repository, the oldest first.
    List {
        /// The repository.
        #[arg(long = "in", value_name = "DIRECTORY")]
        repository: PathBuf,
    },
    /// Compare every chunk of a backup with its checksum, and try a restore.
    ///
    /// With credentials of a server, the command tells it the finding, which `backup status` and the dashboard show.
    Verify {
        /// The backup; by default the newest.
        id: Option<String>,
        /// The repository.
        #[arg(long = "in", value_name = "DIRECTORY")]
        repository: PathBuf,
        /// Compare checksums only. Without this, the backup is also restored to a temporary directory in the
        /// repository, and opened there.
        #[arg(long)]
        quick: bool,
    },
    /// Restore a backup to a new data directory, to the moment of the backup or to a later one.
    Restore(Restoration),
    /// Remove old backups, and the parts of the archive that only they need.
    ///
    /// A backup stays if one of the rules keeps it.
    Prune {
        /// The repository.
        #[arg(long = "in", value_name = "DIRECTORY")]
        repository: PathBuf,
        #[command(flatten)]
        rules: Rules,
        /// The server's `[store] archive`.
        #[arg(long, value_name = "DIRECTORY")]
        archive: Option<PathBuf>,
    },
}

/// The directory that becomes a repository or an archive.
#[derive(Debug, Clone, Args)]
#[group(id = "directory", required = true, multiple = true)]
pub struct Init {
    /// The new repository.
    #[arg(long = "in", group = "directory", value_name = "DIRECTORY")]
    repository: Option<PathBuf>,
    /// The new archive, for `[store] archive`.
    #[arg(long, group = "directory", value_name = "DIRECTORY")]
    archive: Option<PathBuf>,
}

/// The backups to keep.
#[derive(Debug, Clone, Args)]
#[group(id = "rules", required = true, multiple = true)]
pub struct Rules {
    /// The newest backups to keep.
    #[arg(long, group = "rules", value_name = "BACKUPS", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// Days to keep: the newest backup of each of the last days that have one. Days, weeks and months are those of UTC.
    #[arg(long, group = "rules", value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..))]
    keep_daily: Option<u32>,
    /// Weeks to keep, from Monday on.
    #[arg(long, group = "rules", value_name = "WEEKS", value_parser = clap::value_parser!(u32).range(1..))]
    keep_weekly: Option<u32>,
    /// Months to keep.
    #[arg(long, group = "rules", value_name = "MONTHS", value_parser = clap::value_parser!(u32).range(1..))]
    keep_monthly: Option<u32>,
}

impl Rules {
    fn keep(&self) -> Keep {
        let count = |rule: Option<u32>| usize::try_from(rule.unwrap_or(0)).unwrap_or(usize::MAX);
        Keep {
            last: count(self.keep),
            daily: count(self.keep_daily),
            weekly: count(self.keep_weekly),
            monthly: count(self.keep_monthly),
        }
    }
}

/// The backup to restore, and its destination.
#[derive(Debug, Clone, Args)]
pub struct Restoration {
    /// The backup; by default the newest, or the newest before --until.
    id: Option<String>,
    /// The repository.
    #[arg(long = "in", value_name = "DIRECTORY")]
    repository: PathBuf,
    /// The new data directory, which must not have a store.
    #[arg(long, value_name = "DIRECTORY")]
    data_dir: PathBuf,
    /// The server's `[store] archive`: restores everything in it since the backup.
    #[arg(long, value_name = "DIRECTORY")]
    archive: Option<PathBuf>,
    /// The moment to restore to, such as 2026-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME", requires = "archive")]
    until: Option<Timestamp>,
}

/// Runs the command.
pub(super) async fn run(Remote { access, command }: Remote<Backup>) -> Result<(), Failure> {
    match command {
        Backup::Init(Init { repository, archive }) => {
            if let Some(repository) = &repository {
                drop(Repository::init(repository)?);
            }
            if let Some(archive) = &archive {
                init_archive(archive).map_err(Error::from)?;
            }
            let made = json!({"repository": repository, "archive": archive});
            let lines = [("repository", "repository"), ("archive", "archive")];
            access.output.item(&made, |made| details(made, &lines, &[]))
        }
        Backup::Status => {
            let status = access.client()?.data(Call::get(&["system", "backup"])).await?;
            access.output.item(&status, |status| details(&flat(status), &STATUS, &[]))
        }
        Backup::Create { repository, data_dir, archive } => {
            let repository = Repository::open(&repository)?;
            let id = id_of(Timestamp::now());
            let writer = Writer::begin(&repository, &id, env!("CARGO_PKG_VERSION"))?;
            let manifest = if let Some(data) = data_dir {
                back_up(&data, archive, writer)?
            } else {
                let client = access.client()?;
                let manifest = receive(&client, writer).await?;
                report(&client, &manifest).await;
                manifest
            };
            access.output.item(&shown(&manifest), table)
        }
        Backup::List { repository } => {
            let backups = Repository::open(&repository)?.list()?;
            let data: Vec<_> = backups.iter().map(shown).collect();
            let pagination = json!({"total": data.len(), "offset": 0, "hasMore": false});
            access.output.list("backups", &Page { data, pagination }, &COLUMNS)
        }
        Backup::Verify { id, repository, quick } => {
            let repository = Repository::open(&repository)?;
            let manifest = repository.find(id.as_deref())?;
            let verified = verify(&repository, &manifest, quick);
            report_verification(&access, &manifest, quick, &verified).await;
            verified?;
            let found = if quick { "every chunk is intact" } else { "intact, and it restores" };
            status_line(&format!("backup {}: {found}", manifest.id));
            access.output.item(&shown(&manifest), table)
        }
        Backup::Restore(restoration) => {
            let restored = restoration.run()?;
            status_line(&format!(
                "restored; start it with: callboard serve --data-dir {}",
                restoration.data_dir.display()
            ));
            access.output.item(&restored, |restored| {
                details(
                    restored,
                    &[
                        ("backup", "backup"),
                        ("group", "group"),
                        ("archived groups", "archivedGroups"),
                        ("last archived at", "lastArchivedAt"),
                        ("secrets", "secrets"),
                    ],
                    &[],
                )
            })
        }
        Backup::Prune { repository, rules, archive } => {
            let repository = Repository::open(&repository)?;
            let pruned = repository.prune(rules.keep())?;
            let segments = match archive {
                Some(archive) => prune_archive(&archive, &repository.list()?)?,
                None => 0,
            };
            let pruned = json!({
                "backups": pruned.backups.len(),
                "chunks": pruned.chunks,
                "megabytes": megabytes(pruned.bytes),
                "archiveSegments": segments,
            });
            access.output.item(&pruned, |pruned| {
                details(
                    pruned,
                    &[
                        ("removed backups", "backups"),
                        ("removed chunks", "chunks"),
                        ("freed MB", "megabytes"),
                        ("removed archive segments", "archiveSegments"),
                    ],
                    &[],
                )
            })
        }
    }
}

/// Tells the server that a backup is complete. The backup is one whether or not the server hears of it.
async fn report(client: &Client, manifest: &Manifest) {
    let report = json!({"id": manifest.id, "lineage": manifest.lineage, "group": manifest.group});
    if let Err(error) = client.data(Call::post(&["system", "backup"]).json(&report)).await {
        let failure = Failure::from(error);
        status_line(&format!(
            "the backup is complete, but the server could not record it: {}",
            failure.words()
        ));
    }
}

fn verify(repository: &Repository, manifest: &Manifest, quick: bool) -> Result<(), Error> {
    repository.verify(manifest)?;
    if quick { Ok(()) } else { manifest.try_restore(repository) }
}

/// Tells the server of a verification, if this machine has credentials for one. What was found stands whether or not the
/// server hears of it, and a failure that says nothing about the backup is not told.
async fn report_verification(
    access: &Access,
    manifest: &Manifest,
    quick: bool,
    verified: &Result<(), Error>,
) {
    let (result, detail) = match verified {
        Ok(()) if quick => ("intact", None),
        Ok(()) => ("restores", None),
        Err(error @ (Error::Damaged(_) | Error::Incomplete(_) | Error::Store(_))) => {
            ("damaged", Some(error.to_string()))
        }
        Err(Error::NotFound(_) | Error::Io(_)) => return,
    };
    let detail = detail.map(|text| text.chars().take(MAX_DETAIL).collect::<String>());
    let report = Body::default()
        .set("id", Some(manifest.id.as_str()))
        .set("lineage", Some(manifest.lineage))
        .set("result", Some(result))
        .set("detail", detail);
    let call = Call::post(&["system", "backup", "verification"]).json(&report.value());
    let told = match access.known_client() {
        Ok(Some(client)) => client.data(call).await.map(drop).map_err(Failure::from),
        Ok(None) => return,
        Err(failure) => Err(failure),
    };
    if let Err(failure) = told {
        status_line(&format!("the server was not told of the verification: {}", failure.words()));
    }
}

/// The answer about backups, with one member for each line.
fn flat(status: &Value) -> Value {
    json!({
        "lastBackup": status["lastBackup"]["endedAt"],
        "verifiedAt": status["lastVerification"]["at"],
        "finding": status["lastVerification"]["result"],
        "damage": status["lastVerification"]["detail"],
        "archive": status["archive"]["status"],
        "detail": status["archive"]["detail"],
        "from": status["restorable"]["from"],
        "to": status["restorable"]["to"],
    })
}

/// Reads the server's stream to its end.
async fn receive(client: &Client, mut writer: Writer<'_>) -> Result<Manifest, Failure> {
    let mut response = client.stream(&Call::post(&["backups"]).bytes()).await?;
    let mut frames = Frames::default();
    loop {
        let part = response.chunk().await;
        let part =
            part.map_err(|error| Failure::Other(format!("the backup broke off: {error}")))?;
        let Some(part) = part else { return Ok(writer.finish(Some(id_of(Timestamp::now())))?) };
        frames.push(&part);
        while let Some(piece) = frames.next_piece()? {
            writer.push(&piece)?;
        }
    }
}

/// A time as it names a backup.
fn id_of(time: Timestamp) -> String {
    time.strftime("%Y%m%dT%H%M%S%.3fZ").to_string()
}

impl Restoration {
    fn run(&self) -> Result<Value, Failure> {
        let repository = Repository::open(&self.repository)?;
        let manifest = match (&self.id, self.until) {
            (None, Some(until)) => {
                let id = id_of(until);
                let is_before = |manifest: &Manifest| manifest.state_of() <= id.as_str();
                let none = || Failure::Other(format!("there is no backup from before {until}"));
                repository.list()?.into_iter().rfind(is_before).ok_or_else(none)?
            }
            (id, _) => repository.find(id.as_deref())?,
        };
        if let Some(until) = self.until
            && manifest.state_of() > id_of(until).as_str()
        {
            let says = "holds later changes than those up to --until; leave out its name";
            return Err(Failure::Other(format!("backup {} {says}", manifest.id)));
        }
        let until = self
            .until
            .map_or(u64::MAX, |until| u64::try_from(until.as_millisecond()).unwrap_or_default());
        let archive = self.archive.as_deref().map(|archive| (archive, until));
        let restored = restore(&repository, &manifest, &self.data_dir, archive)?;
        let last = restored.last_archived.and_then(|last| i64::try_from(last).ok());
        let last = last.and_then(|last| Timestamp::from_millisecond(last).ok());
        Ok(json!({
            "backup": manifest.id,
            "group": restored.group,
            "archivedGroups": restored.archived,
            "lastArchivedAt": last.map(|last| last.to_string()),
            "secrets": !manifest.files.is_empty(),
            "dataDir": self.data_dir,
        }))
    }
}

fn shown(manifest: &Manifest) -> Value {
    let created = manifest.id.parse::<Timestamp>().ok().map(|created| created.to_string());
    json!({
        "id": manifest.id,
        "createdAt": created,
        "version": manifest.version,
        "rows": manifest.rows,
        "bytes": manifest.bytes,
        "newBytes": manifest.new_bytes,
        "megabytes": megabytes(manifest.bytes),
        "newMegabytes": megabytes(manifest.new_bytes),
        "group": manifest.group,
        "secrets": !manifest.files.is_empty(),
    })
}

fn table(manifest: &Value) -> String {
    details(manifest, &COLUMNS, &[])
}

fn megabytes(bytes: u64) -> String {
    format!("{}.{:02}", bytes / 1_000_000, bytes / 10_000 % 100)
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::NotFound(_) => Self::Missing(error.to_string()),
            Error::Damaged(_) | Error::Incomplete(_) | Error::Io(_) | Error::Store(_) => {
                Self::Other(error.to_string())
            }
        }
    }
}
