//! The archive: a copy of every group of the journal in a directory of its own, for a restore to a moment.
//!
//! ```text
//! <lineage>-<number of the first group>.journal
//!   segment   [magic u32][salt u64][epoch u64][crc32 of these u32] record …
//!   record    [milliseconds since 1970 u64][crc32 of these and of the group's header u32][group, without padding]
//! ```
//!
//! Integers are little-endian. The magic names the format: in segments of format 1, which are still read, a
//! record has no checksum of its own, so that nothing covers its time. A checkpoint appends the groups since the last one, with one sync, before
//! sled counts them; so an opening finds in the journal every group that the archive lacks. A segment takes
//! 64 MiB; each opening begins a new one.
//!
//! A write that fails, or takes too long, stops no server: the archive then has a gap, which the log and [`Archive::fault`]
//! report, and later groups go to a new segment. A restore does not pass a gap. A directory without the file
//! `callboard-archive` (`archive/mark.rs`) takes no segment: the disk of the archive is not mounted.
//!
//! Deliberately absent: the removal of old segments (`callboard backup prune`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::Error;
use crate::batch::Epoch;
use crate::directory::io_error;
use crate::journal::{self, Checkpoint, group, lineage, number};

mod coverage;
mod mark;
mod reader;

#[cfg(test)]
mod tests;

pub use coverage::{ArchiveState, BackupNote, Finding, Protection, VerificationRecord};
pub(crate) use coverage::{Coverage, FILE as COVERAGE_FILE};
pub use mark::init_archive;
pub use reader::ArchiveReader;

const HEADER: usize = 4 + 8 + 8 + 4;
/// The bytes of a record's time, and of its checksum.
const TIME: usize = 8;
const CHECKSUM: usize = 4;
/// The bytes from which on a segment takes no further groups.
const SEGMENT: u64 = 64 << 20;
const SUFFIX: &str = ".journal";

/// The time that an append may take before the archive gets a gap: the journal waits for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// The archive of one opened directory, written by a thread of its own, so that a disk that does not answer
/// stops nobody else.
#[derive(Debug)]
pub(crate) struct Archive {
    appends: mpsc::Sender<Append>,
    state: Mutex<State>,
    patience: Duration,
    directory: PathBuf,
    coverage: Arc<Coverage>,
}

#[derive(Debug, Default)]
struct State {
    fault: Option<String>,
    /// The number of the last group, if no gap is behind it, and the time at which it was archived.
    last: Option<(u64, u64)>,
    /// The archive's mark, once it was seen.
    id: Option<String>,
    /// The answer to an append that took too long.
    late: Option<mpsc::Receiver<io::Result<()>>>,
}

/// Groups to append, and where the outcome goes.
type Append = (Vec<Bytes>, mpsc::Sender<io::Result<()>>);

/// The segments of an archive, as its thread writes them.
struct Segments {
    directory: PathBuf,
    salt: u64,
    epoch: Epoch,
    /// The file that takes more groups, its length, and the number of its last group.
    current: Option<(File, u64, u64)>,
}

impl Archive {
    /// Opens the archive in `directory`, and appends those of `groups` that it lacks: the groups after the
    /// last `checkpoint`, in order, up to the journal's end. An archive that is not there is a fault, and not an error;
    /// a store that never had one gets a new one.
    ///
    /// # Errors
    /// [`Error::Io`] if a new directory cannot be made, or if the archive holds groups behind the journal's end.
    pub(crate) fn open(
        directory: &Path,
        checkpoint: Checkpoint,
        epoch: Epoch,
        groups: &[Bytes],
        coverage: Arc<Coverage>,
    ) -> Result<Self, Error> {
        let failed = |error: &io::Error| {
            Error::Io(format!("the archive {}: {error}", directory.display()).into())
        };
        let (directory_of, salt) = (directory.into(), checkpoint.salt);
        let segments = Segments { directory: directory_of, salt, epoch, current: None };
        let known = coverage.archive();
        let found =
            mark::find(directory, known.as_deref()).and_then(|id| Ok((id, segments.ends()?)));
        let mut state = State::default();
        let last = match found {
            Ok((id, ends)) => {
                let last = ends.map(|ends| ends.last);
                check_age(directory, last, groups.last().map_or(checkpoint.group, number))?;
                state.last = ends.map(|ends| (ends.last, ends.last_ms));
                if last.is_none_or(|last| last < checkpoint.group) {
                    tracing::warn!(
                        archived = last.unwrap_or_default(),
                        next = checkpoint.group + 1,
                        "the archive has no older groups of the journal: make a backup to restore from"
                    );
                    coverage.breaks(ends.map(|ends| ends.last_ms));
                    coverage.begins(&id, checkpoint.group);
                    state.last = Some((checkpoint.group, 0));
                } else if let Some(ends) = ends {
                    let is_known = known.as_ref() == Some(&id);
                    let since = if is_known { ends.last } else { ends.first.saturating_sub(1) };
                    coverage.begins(&id, coverage.since(&id).unwrap_or(since));
                }
                state.id = Some(id);
                last
            }
            Err(error) if known.is_none() => return Err(failed(&error)),
            Err(error) => {
                tracing::error!(%error, "the archive cannot be written: it has a gap from here on");
                state.fault = Some(error.to_string());
                coverage.breaks(None);
                None
            }
        };
        let appends = segments.thread().map_err(|error| failed(&error))?;
        let archive = Self::of(appends, PATIENCE, directory, coverage);
        *archive.state() = state;
        let missing = groups.iter().filter(|group| last.is_none_or(|last| last < number(group)));
        archive.append(missing.cloned().collect());
        Ok(archive)
    }

    fn of(
        appends: mpsc::Sender<Append>,
        patience: Duration,
        directory: &Path,
        coverage: Arc<Coverage>,
    ) -> Self {
        let directory = directory.into();
        Self { appends, state: Mutex::default(), patience, directory, coverage }
    }

    /// Appends groups, synced. A failure, or a disk that does not answer in time, leaves a gap and is reported.
    pub(crate) fn append(&self, groups: Vec<Bytes>) {
        let Some(first) = groups.first().map(number) else { return };
        let last = groups.last().map_or(first, number);
        let late = self.state().late.take();
        if let Some(late) = late
            && let Err(mpsc::TryRecvError::Empty) = late.try_recv()
        {
            // The groups are missing from the archive; its disk still holds on to earlier ones.
            self.state().late = Some(late);
            return;
        }
        let (done, outcome) = mpsc::channel();
        // Fails only if the thread has broken, and then nobody answers.
        let _ = self.appends.send((groups, done));
        let appended = match outcome.recv_timeout(self.patience) {
            Ok(appended) => appended,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                self.state().late = Some(outcome);
                Err(io::Error::new(io::ErrorKind::TimedOut, "its disk does not answer"))
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(io::Error::other("its thread has broken"))
            }
        };
        match appended {
            Ok(()) => self.appended(first, last),
            Err(error) => {
                tracing::error!(%error, "the archive cannot be written: it has a gap from here on");
                let mut state = self.state();
                state.fault = Some(error.to_string());
                let last = state.last.take();
                drop(state);
                self.coverage.breaks(last.map(|(_, time)| time));
            }
        }
    }

    /// Notes groups that the archive has taken.
    fn appended(&self, first: u64, last: u64) {
        let mut state = self.state();
        if state.fault.take().is_some() {
            tracing::warn!(
                from = first,
                "the archive is written again, behind a gap: make a backup"
            );
        }
        let follows = state.last.is_some_and(|(last, _)| last + 1 == first);
        state.last = Some((last, milliseconds()));
        if !follows {
            // The mark was there for the first segment behind the gap.
            let id = state.id.clone().or_else(|| mark::find(&self.directory, Some("")).ok());
            state.id.clone_from(&id);
            drop(state);
            self.coverage.begins(&id.unwrap_or_default(), first - 1);
        }
    }

    /// The last failure; `None` while the archive takes every group.
    pub(crate) fn fault(&self) -> Option<String> {
        self.state().fault.clone()
    }

    /// The archive as far as it protects the store.
    pub(crate) fn protection(&self) -> ArchiveState {
        let continues_backup = self.coverage.continues_backup();
        ArchiveState { directory: self.directory.clone(), fault: self.fault(), continues_backup }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }
}

impl Segments {
    /// Starts the thread, which ends with the sender.
    fn thread(mut self) -> io::Result<mpsc::Sender<Append>> {
        let (appends, orders) = mpsc::channel::<Append>();
        let run = move || {
            for (groups, done) in orders {
                let first = groups.first().map_or(0, number);
                let _ = done.send(self.write(first, &groups));
            }
        };
        std::thread::Builder::new().name("archive".into()).spawn(run)?;
        Ok(appends)
    }

    /// Appends groups, synced; to a new segment after a failure or a gap.
    fn write(&mut self, first: u64, groups: &[Bytes]) -> io::Result<()> {
        let follows = |written: &(File, u64, u64)| written.1 < SEGMENT && written.2 + 1 == first;
        let (mut file, length) = match self.current.take().filter(follows) {
            Some((file, length, _)) => (file, length),
            _ => (self.begin(first)?, HEADER as u64),
        };
        let now = milliseconds();
        let mut bytes = Vec::new();
        for group in groups {
            bytes.extend_from_slice(&Format::CURRENT.prefix(now, group));
            bytes.extend_from_slice(group);
        }
        file.write_all(&bytes)?;
        file.sync_data()?;
        let last = groups.last().map_or(first, number);
        self.current = Some((file, length + bytes.len() as u64, last));
        Ok(())
    }

    /// A new segment, whose name is durable.
    fn begin(&self, first: u64) -> io::Result<File> {
        mark::check(&self.directory)?;
        let path = self.directory.join(name(lineage(self.salt), first));
        let has_groups = |path: &Path| -> io::Result<bool> {
            Ok(Segment::read(path)?.is_some_and(|segment| segment.records().next().is_some()))
        };
        if path.exists() && has_groups(&path)? {
            return Err(io::Error::other(format!("{} holds other groups", path.display())));
        }
        let mut file = File::create(path)?;
        let mut header = Vec::with_capacity(HEADER);
        header.extend_from_slice(&Format::CURRENT.magic());
        header.extend_from_slice(&self.salt.to_le_bytes());
        header.extend_from_slice(&self.epoch.0.to_le_bytes());
        header.extend_from_slice(&crc32fast::hash(&header).to_le_bytes());
        file.write_all(&header)?;
        file.sync_all()?;
        File::open(&self.directory)?.sync_all()?;
        Ok(file)
    }

    /// The ends of what is archived, durably; `None` if there is nothing.
    fn ends(&self) -> io::Result<Option<Ends>> {
        let mut segments = segments(&self.directory, lineage(self.salt))?;
        let Some((begin, path)) = segments.pop_last() else { return Ok(None) };
        // A process that was killed may have left groups that no sync has seen.
        File::open(&path)?.sync_all()?;
        let first = segments.first_key_value().map_or(begin, |(first, _)| *first);
        let last = Segment::read(&path)?.and_then(|segment| segment.records().last());
        let last = last.map(|(time, group)| (number(&group), time));
        let (last, last_ms) = last.unwrap_or((begin.saturating_sub(1), 0));
        Ok(Some(Ends { first, last, last_ms }))
    }
}

/// The numbers of the first and of the last archived group, and the time of the last.
#[derive(Debug, Clone, Copy)]
struct Ends {
    first: u64,
    last: u64,
    last_ms: u64,
}

/// Refuses a data directory that ends before its archive does.
fn check_age(directory: &Path, last: Option<u64>, end: u64) -> Result<(), Error> {
    let Some(last) = last.filter(|last| *last > end) else { return Ok(()) };
    Err(Error::Io(
        format!(
            "the archive {} has the journal up to group {last}, and this data directory ends at group {end}: \
             the directory is an older copy; name another archive",
            directory.display()
        )
        .into(),
    ))
}

/// The time, in milliseconds since 1970.
pub(crate) fn milliseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The format of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// Nothing covers the time of a record.
    One,
    Two,
}

impl Format {
    const CURRENT: Self = Self::Two;

    const fn magic(self) -> [u8; 4] {
        match self {
            Self::One => *b"cba1",
            Self::Two => *b"cba2",
        }
    }

    /// The length of a record before its group.
    const fn prefix_length(self) -> usize {
        match self {
            Self::One => TIME,
            Self::Two => TIME + CHECKSUM,
        }
    }

    /// The bytes of a record before its group. `group` is whole, or cut behind its header.
    fn prefix(self, time: u64, group: &[u8]) -> Vec<u8> {
        let mut prefix = Vec::with_capacity(TIME + CHECKSUM);
        prefix.extend_from_slice(&time.to_le_bytes());
        if self == Self::Two {
            let mut crc = crc32fast::Hasher::new();
            crc.update(&prefix);
            crc.update(&group[..journal::HEADER.min(group.len())]);
            prefix.extend_from_slice(&crc.finalize().to_le_bytes());
        }
        prefix
    }

    /// The time of the record that `bytes` begin with, and its rest from the group on; `None` if the time
    /// is damaged.
    fn split(self, bytes: &Bytes) -> Option<(u64, Bytes)> {
        let time = u64::from_le_bytes(*bytes.first_chunk()?);
        let group = bytes.get(self.prefix_length()..).map(|group| bytes.slice_ref(group))?;
        bytes.starts_with(&self.prefix(time, &group)).then_some((time, group))
    }
}

/// A segment with a valid header.
struct Segment {
    format: Format,
    salt: u64,
    epoch: Epoch,
    bytes: Bytes,
}

impl Segment {
    /// The segment at `path`; `None` if its header is torn or damaged.
    ///
    /// # Errors
    /// The file cannot be read, or has the format of a newer program.
    fn read(path: &Path) -> io::Result<Option<Self>> {
        let bytes = Bytes::from(fs::read(path)?);
        let Some((header, _)) = bytes.split_first_chunk::<HEADER>() else { return Ok(None) };
        let (fields, crc) = header.split_at(HEADER - 4);
        if crc != crc32fast::hash(fields).to_le_bytes() {
            return Ok(None);
        }
        let known = [Format::One, Format::Two].into_iter();
        let Some(format) = known.into_iter().find(|it| fields.starts_with(&it.magic())) else {
            let text = format!("{} has the format of a newer program", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        };
        let field = |at: usize| {
            let bytes = fields[at..].first_chunk().expect("the header has it");
            u64::from_le_bytes(*bytes)
        };
        let (salt, epoch) = (field(4), Epoch(field(12)));
        Ok(Some(Self { format, salt, epoch, bytes: bytes.slice(HEADER..) }))
    }

    fn records(&self) -> Records {
        Records { format: self.format, rest: self.bytes.clone(), salt: self.salt }
    }
}

/// The times and the groups of a segment, up to the first that is torn or damaged.
struct Records {
    format: Format,
    rest: Bytes,
    salt: u64,
}

impl Iterator for Records {
    type Item = (u64, Bytes);

    fn next(&mut self) -> Option<(u64, Bytes)> {
        let (time, group) = self.first_of(&self.rest)?;
        self.rest = self.rest.slice(self.format.prefix_length() + group.len()..);
        Some((time, group))
    }
}

impl Records {
    /// The intact record that `bytes` begin with.
    fn first_of(&self, bytes: &Bytes) -> Option<(u64, Bytes)> {
        let (time, rest) = self.format.split(bytes)?;
        let (_, group) = group(&rest, self.salt)?;
        Some((time, group))
    }

    /// True if the rest is more than the torn end of an append, and may concern a time up to `until`.
    ///
    /// A crash during an append leaves a record that the end of the file, or zeros, cut off. Every other rest,
    /// and a rest with an intact group, is damage.
    fn is_damaged(&self, until: u64) -> bool {
        if self.rest.len() < TIME {
            return false;
        }
        let prefix = self.format.prefix_length();
        let later = (1..self.rest.len().saturating_sub(prefix)).find_map(|at| {
            if !self.rest[at + prefix..].starts_with(&journal::MAGIC.to_le_bytes()) {
                return None;
            }
            self.first_of(&self.rest.slice(at..)).map(|(time, _)| time)
        });
        let length = self.rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let time = self.format.split(&self.rest).map(|(time, _)| time);
        let is_cut = journal::is_cut(self.rest[..length].get(prefix..).unwrap_or_default())
            && (time.is_some() || length < prefix + journal::HEADER);
        let is_damaged = later.is_some() || !is_cut;
        // A damaged time may be any.
        let concerns = time.is_none_or(|time| time <= until);
        is_damaged && (concerns || later.is_some_and(|later| later <= until))
    }
}

/// Makes a directory, and its name durable.
fn create(directory: &Path) -> io::Result<()> {
    let missing = directory.ancestors().take_while(|it| !it.as_os_str().is_empty() && !it.exists());
    let missing: Vec<_> = missing.map(Path::to_owned).collect();
    fs::create_dir_all(directory)?;
    for made in missing {
        let parent = made.parent().filter(|it| !it.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

/// The segments of a lineage by the numbers of their first groups.
fn segments(directory: &Path, lineage: u32) -> io::Result<BTreeMap<u64, PathBuf>> {
    let mut found = BTreeMap::new();
    for file in fs::read_dir(directory)? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        let first = name
            .strip_prefix(&format!("{lineage:08x}-"))
            .and_then(|name| name.strip_suffix(SUFFIX))
            .and_then(|first| first.parse().ok());
        if let Some(first) = first {
            found.insert(first, file.path());
        }
    }
    Ok(found)
}

fn name(lineage: u32, first: u64) -> String {
    format!("{lineage:08x}-{first:020}{SUFFIX}")
}

/// Removes the segments of a lineage that hold only groups numbered up to `group`. Returns their number.
///
/// # Errors
/// [`Error::Io`] if a file cannot be removed.
pub fn prune_archive(directory: &Path, lineage: u32, group: u64) -> Result<usize, Error> {
    let io = |error: io::Error| io_error(&error);
    let segments: Vec<_> = segments(directory, lineage).map_err(io)?.into_iter().collect();
    let mut removed = 0;
    for pair in segments.windows(2) {
        let [(_, path), (next, _)] = pair else { continue };
        if *next <= group + 1 {
            fs::remove_file(path).map_err(io)?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// Removes the segments of each lineage that is not among `kept` and ends before one of these: the server has been
/// compacted or restored since. A lineage with the latest record stays, since a server may be writing to it. Returns
/// the number of removed segments.
///
/// # Errors
/// [`Error::Io`] if the directory cannot be read, or a file cannot be removed.
pub fn prune_lineages(directory: &Path, kept: &[u32]) -> Result<usize, Error> {
    let remove = || -> io::Result<usize> {
        let mut ends = BTreeMap::new();
        for lineage in lineages(directory)? {
            ends.insert(lineage, last_time(directory, lineage)?);
        }
        let latest = kept.iter().filter_map(|lineage| ends.get(lineage)).max().copied();
        ends.retain(|lineage, end| !kept.contains(lineage) && Some(*end) < latest);
        let mut removed = 0;
        for lineage in ends.into_keys() {
            for path in segments(directory, lineage)?.into_values() {
                fs::remove_file(path)?;
                removed += 1;
            }
        }
        Ok(removed)
    };
    remove().map_err(|error| io_error(&error))
}

/// The lineages that have a segment.
fn lineages(directory: &Path) -> io::Result<BTreeSet<u32>> {
    let mut found = BTreeSet::new();
    for file in fs::read_dir(directory)? {
        let name = file?.file_name().to_string_lossy().into_owned();
        let parts = name.strip_suffix(SUFFIX).and_then(|name| name.split_once('-'));
        found.extend(parts.and_then(|(lineage, _)| u32::from_str_radix(lineage, 16).ok()));
    }
    Ok(found)
}

/// The time of the last record of a lineage, in milliseconds since 1970; `None` without one.
fn last_time(directory: &Path, lineage: u32) -> io::Result<Option<u64>> {
    for path in segments(directory, lineage)?.values().rev() {
        if let Some((time, _)) = Segment::read(path)?.and_then(|it| it.records().last()) {
            return Ok(Some(time));
        }
    }
    Ok(None)
}
