//! The disk after a power cut: the synced data, and a random part of the rest.
//!
//! Two models. *Ordered*: names change in order, and a sync of any file makes all earlier changes of names
//! durable, as the journal of ext4 does. *Harsh*: a change of names is durable only after a sync of its
//! directory, and each other change is kept or lost by itself. In both, an unsynced write is kept or lost by
//! sectors of 512 bytes, and a lost sector of a file that became longer holds zeros. The data of a failed
//! sync is lost, in spite of any later sync: the system takes it for written.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::Random;

const SECTOR: usize = 512;

/// The changes of names that survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// All up to one of them.
    Ordered,
    /// Each by itself.
    Harsh,
}

/// One record of the shim's log.
#[derive(Debug)]
#[expect(missing_docs, reason = "the fields are the arguments of these calls")]
pub enum Event {
    Open {
        inode: u64,
        created: bool,
        truncated: bool,
        directory: bool,
        path: PathBuf,
    },
    Write {
        inode: u64,
        at: u64,
        bytes: Vec<u8>,
    },
    Truncate {
        inode: u64,
        length: u64,
    },
    Sync {
        inode: u64,
        covered: usize,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Exchange {
        one: PathBuf,
        other: PathBuf,
    },
    Unlink {
        path: PathBuf,
    },
    MakeDirectory {
        path: PathBuf,
    },
    Link {
        from: PathBuf,
        to: PathBuf,
    },
    Acknowledged {
        text: String,
    },
    SyncFailed {
        inode: u64,
        covered: usize,
    },
    /// The file was dropped from the page cache.
    CacheDropped {
        inode: u64,
    },
}

/// The events of a disk.
#[derive(Debug, Default)]
pub struct Log {
    /// In order.
    pub events: Vec<Event>,
    /// The offset of each in the shim's file.
    starts: Vec<u64>,
}

impl Log {
    /// Reads the shim's log, with paths relative to `root`. A kill may cut the last record short.
    ///
    /// # Panics
    /// If `log` is no log of the shim.
    #[must_use]
    pub fn read(log: &Path, root: &Path) -> Self {
        let bytes = fs::read(log).expect("the shim left a log");
        let (mut read, mut at) = (Self::default(), 0);
        while let Some((event, length)) = event(&bytes[at..], root) {
            read.events.push(event);
            read.starts.push(at as u64);
            at += length;
        }
        read
    }

    /// The files of which a sync failed.
    #[must_use]
    pub fn failed_syncs(&self) -> Vec<&Path> {
        self.named(
            |event| if let Event::SyncFailed { inode, .. } = event { Some(*inode) } else { None },
        )
    }

    /// The files that were dropped from the page cache.
    #[must_use]
    pub fn dropped_caches(&self) -> Vec<&Path> {
        self.named(
            |event| if let Event::CacheDropped { inode } = event { Some(*inode) } else { None },
        )
    }

    fn named(&self, inode_of: impl Fn(&Event) -> Option<u64>) -> Vec<&Path> {
        let (mut names, mut found) = (HashMap::new(), Vec::new());
        for event in &self.events {
            if let Event::Open { inode, directory: false, path, .. } = event {
                names.insert(*inode, path.as_path());
            }
            found.extend(inode_of(event).and_then(|inode| names.get(&inode).copied()));
        }
        found
    }

    /// The most events that there were when the shim's file had this length.
    #[must_use]
    pub fn events_by(&self, length: u64) -> usize {
        self.starts.partition_point(|start| *start < length)
    }
}

/// The first event of `bytes`, and its length.
fn event(bytes: &[u8], root: &Path) -> Option<(Event, usize)> {
    const HEAD: usize = 33;
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("8 bytes"));
    let length =
        |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("4 bytes")) as usize;
    let (op, inode, a, b) = (head[0], number(1), number(9), number(17));
    let (first, second) = (length(25), length(29));
    let (first, second) = rest.get(..first + second)?.split_at(first);
    let path = |bytes: &[u8]| {
        let path = PathBuf::from(String::from_utf8(bytes.to_vec()).expect("a path of ours"));
        path.strip_prefix(root).expect("only the root is watched").to_path_buf()
    };
    let event = match op {
        1 => Event::Open {
            inode,
            created: a & 1 != 0,
            truncated: a & 2 != 0,
            directory: b != 0,
            path: path(first),
        },
        2 => Event::Write { inode, at: a, bytes: first.to_vec() },
        3 => Event::Truncate { inode, length: a },
        4 => Event::Sync { inode, covered: usize::try_from(a).expect("a count") },
        5 => Event::Rename { from: path(first), to: path(second) },
        6 => Event::Unlink { path: path(first) },
        7 => Event::MakeDirectory { path: path(first) },
        8 => Event::Link { from: path(first), to: path(second) },
        9 => Event::Acknowledged { text: String::from_utf8_lossy(first).into_owned() },
        10 => Event::Exchange { one: path(first), other: path(second) },
        11 => Event::SyncFailed { inode, covered: usize::try_from(a).expect("a count") },
        12 => Event::CacheDropped { inode },
        other => panic!("the shim wrote a record of kind {other}"),
    };
    Some((event, HEAD + first.len() + second.len()))
}

type FileId = usize;
type DirectoryId = usize;

const ROOT: DirectoryId = 0;

#[derive(Debug, Clone, Copy)]
enum Node {
    File(FileId),
    Directory(DirectoryId),
}

/// A name in a directory, which may have been renamed.
type Name = (DirectoryId, OsString);
type Names = BTreeMap<Name, Node>;

/// A change of names.
#[derive(Debug, Clone)]
enum Change {
    Put(Name, Node),
    Remove(Name),
    Rename(Name, Name),
    Exchange(Name, Name),
}

impl Change {
    fn directory(&self) -> DirectoryId {
        let (Self::Put((directory, _), _)
        | Self::Remove((directory, _))
        | Self::Rename((directory, _), _)
        | Self::Exchange((directory, _), _)) = self;
        *directory
    }

    fn apply(self, names: &mut Names) {
        match self {
            Self::Put(name, node) => {
                names.insert(name, node);
            }
            Self::Remove(name) => {
                names.remove(&name);
            }
            Self::Rename(from, to) => {
                if let Some(node) = names.remove(&from) {
                    names.insert(to, node);
                }
            }
            Self::Exchange(one, other) => {
                let nodes = (names.remove(&one), names.remove(&other));
                names.extend(nodes.0.map(|node| (other, node)));
                names.extend(nodes.1.map(|node| (one, node)));
            }
        }
    }
}

/// A file: its contents at the start, in place, and the sectors written since.
#[derive(Debug, Default)]
struct Content {
    base: Option<PathBuf>,
    /// The length of the base that is left.
    base_length: u64,
    length: u64,
    sectors: BTreeMap<u64, [u8; SECTOR]>,
    /// Unsynced writes, and truncations (`None`), each with the number of its record.
    pending: Vec<(usize, u64, Option<Vec<u8>>)>,
}

impl Content {
    fn of(base: PathBuf) -> Self {
        let length = fs::metadata(&base).expect("a file of ours").len();
        Self { base: Some(base), base_length: length, length, ..Self::default() }
    }

    fn apply(&mut self, at: u64, bytes: Option<&[u8]>) {
        let Some(mut bytes) = bytes else {
            self.truncate(at);
            return;
        };
        self.length = self.length.max(at + bytes.len() as u64);
        let mut at = at;
        while !bytes.is_empty() {
            let (number, from) = (at / SECTOR as u64, usize::try_from(at % SECTOR as u64));
            let from = from.expect("small");
            let (piece, rest) = bytes.split_at(bytes.len().min(SECTOR - from));
            let mut sector = if piece.len() == SECTOR { [0; SECTOR] } else { self.sector(number) };
            sector[from..from + piece.len()].copy_from_slice(piece);
            self.sectors.insert(number, sector);
            at += piece.len() as u64;
            bytes = rest;
        }
    }

    fn truncate(&mut self, length: u64) {
        let (number, from) = (length / SECTOR as u64, usize::try_from(length % SECTOR as u64));
        let mut last = self.sector(number);
        last[from.expect("small")..].fill(0);
        self.sectors.split_off(&number);
        self.base_length = self.base_length.min(length);
        self.length = length;
        if !length.is_multiple_of(SECTOR as u64) {
            self.sectors.insert(number, last);
        }
    }

    fn sector(&self, number: u64) -> [u8; SECTOR] {
        if let Some(sector) = self.sectors.get(&number) {
            return *sector;
        }
        let mut sector = [0; SECTOR];
        let at = number * SECTOR as u64;
        if let Some(base) = self.base.as_ref().filter(|_| at < self.base_length) {
            let there = usize::try_from((self.base_length - at).min(SECTOR as u64));
            let file = fs::File::open(base).expect("a file of ours");
            file.read_exact_at(&mut sector[..there.expect("small")], at).expect("a file of ours");
        }
        sector
    }

    fn write(&self, to: &Path) {
        let file = match &self.base {
            Some(base) => {
                fs::copy(base, to).expect("a file can be copied");
                fs::OpenOptions::new().write(true).open(to).expect("a file of ours")
            }
            None => fs::File::create(to).expect("a file can be made"),
        };
        file.set_len(self.base_length).expect("a file of ours");
        file.set_len(self.length).expect("a file of ours");
        for (number, sector) in &self.sectors {
            let at = number * SECTOR as u64;
            let there = usize::try_from(self.length.saturating_sub(at).min(SECTOR as u64));
            file.write_all_at(&sector[..there.expect("small")], at).expect("a file of ours");
        }
    }

    fn sync(&mut self, covered: usize) {
        let covered = self.pending.partition_point(|(number, ..)| *number < covered);
        let pending: Vec<_> = self.pending.drain(..covered).collect();
        for (_, at, bytes) in pending {
            self.apply(at, bytes.as_deref());
        }
    }

    fn lose(&mut self, covered: usize) {
        self.pending.retain(|(number, _, bytes)| *number >= covered || bytes.is_none());
    }

    /// Keeps a random part of the unsynced writes: of every other file the first ones completely, and of
    /// the others some sectors, many or few.
    fn tear(&mut self, random: &mut Random) {
        let whole = random.below(2) * random.below(self.pending.len() + 1);
        let rest = [0, 20, 50, 80, 100][random.below(5)];
        for (number, (_, at, bytes)) in std::mem::take(&mut self.pending).into_iter().enumerate() {
            let keep = if number < whole { 100 } else { rest };
            let Some(bytes) = bytes else {
                if number < whole || random.below(2) == 0 {
                    self.apply(at, None);
                }
                continue;
            };
            let long = number < whole || random.below(2) == 0;
            if long {
                self.length = self.length.max(at + bytes.len() as u64);
            }
            let mut start = 0;
            while start < bytes.len() {
                let from = at + start as u64;
                let sector = usize::try_from(from % SECTOR as u64).expect("small");
                let end = bytes.len().min(start + SECTOR - sector);
                if random.below(100) < keep {
                    self.apply(from, Some(&bytes[start..end]));
                }
                start = end;
            }
        }
    }
}

/// A disk at some event.
#[derive(Debug, Default)]
struct Disk {
    names: Names,
    changes: Vec<(usize, Change)>,
    files: Vec<Content>,
    directories: DirectoryId,
    /// The node of each inode now: inodes are used again.
    inodes: HashMap<u64, Node>,
}

impl Disk {
    /// The disk under `root`, all of it durable.
    fn load(root: &Path) -> Self {
        let mut disk = Self::default();
        let mut directories = vec![(ROOT, root.to_path_buf())];
        while let Some((directory, path)) = directories.pop() {
            for entry in fs::read_dir(path).expect("a directory of ours") {
                let entry = entry.expect("a directory of ours");
                let node = if entry.file_type().expect("a file of ours").is_dir() {
                    let id = disk.new_directory();
                    directories.push((id, entry.path()));
                    Node::Directory(id)
                } else {
                    disk.files.push(Content::of(entry.path()));
                    Node::File(disk.files.len() - 1)
                };
                disk.names.insert((directory, entry.file_name()), node);
            }
        }
        disk
    }

    const fn new_directory(&mut self) -> DirectoryId {
        self.directories += 1;
        self.directories
    }

    /// The names as the process sees them.
    fn seen(&self) -> Names {
        let mut names = self.names.clone();
        for (_, change) in &self.changes {
            change.clone().apply(&mut names);
        }
        names
    }

    /// The name that a path of the process leads to.
    fn name(&self, path: &Path) -> Name {
        let names = self.seen();
        let parent = path.parent().into_iter().flatten().fold(ROOT, |directory, part| match names
            .get(&(directory, part.to_owned()))
        {
            Some(Node::Directory(directory)) => *directory,
            found => panic!("{} stands in no directory: {found:?}", path.display()),
        });
        (parent, path.file_name().expect("a path of ours").to_owned())
    }

    fn find(&self, path: &Path) -> Option<Node> {
        if path == Path::new("") {
            return Some(Node::Directory(ROOT));
        }
        self.seen().get(&self.name(path)).copied()
    }

    fn play(&mut self, number: usize, event: &Event, model: Model) {
        match event {
            Event::Open { inode, created: true, path, .. } => {
                let node = Node::File(self.files.len());
                self.files.push(Content::default());
                self.inodes.insert(*inode, node);
                self.change(number, Change::Put(self.name(path), node));
            }
            Event::Open { inode, truncated, path, .. } => {
                let Some(node) = self.find(path) else { return };
                self.inodes.insert(*inode, node);
                if let (Node::File(id), true) = (node, *truncated) {
                    self.files[id].pending.push((number, 0, None));
                }
            }
            Event::Write { inode, at, bytes } => {
                self.write_to(*inode, (number, *at, Some(bytes.clone())));
            }
            Event::Truncate { inode, length } => self.write_to(*inode, (number, *length, None)),
            Event::Sync { inode, covered } => self.sync(*inode, *covered, model),
            Event::Rename { from, to } => {
                self.change(number, Change::Rename(self.name(from), self.name(to)));
            }
            Event::Exchange { one, other } => {
                self.change(number, Change::Exchange(self.name(one), self.name(other)));
            }
            Event::Unlink { path } => self.change(number, Change::Remove(self.name(path))),
            Event::MakeDirectory { path } => {
                let node = Node::Directory(self.new_directory());
                self.change(number, Change::Put(self.name(path), node));
            }
            Event::Link { from, to } => {
                if let Some(node) = self.find(from) {
                    self.change(number, Change::Put(self.name(to), node));
                }
            }
            Event::SyncFailed { inode, covered } => {
                if let Some(Node::File(id)) = self.inodes.get(inode) {
                    self.files[*id].lose(*covered);
                }
            }
            Event::Acknowledged { .. } | Event::CacheDropped { .. } => {}
        }
    }

    fn change(&mut self, number: usize, change: Change) {
        self.changes.push((number, change));
    }

    fn write_to(&mut self, inode: u64, write: (usize, u64, Option<Vec<u8>>)) {
        if let Some(Node::File(id)) = self.inodes.get(&inode) {
            self.files[*id].pending.push(write);
        }
    }

    fn sync(&mut self, inode: u64, covered: usize, model: Model) {
        let synced = match self.inodes.get(&inode) {
            Some(Node::File(id)) => {
                self.files[*id].sync(covered);
                None
            }
            Some(Node::Directory(id)) => Some(*id),
            None => return,
        };
        for (number, change) in std::mem::take(&mut self.changes) {
            let here = synced == Some(change.directory());
            if number < covered && (model == Model::Ordered || here) {
                change.apply(&mut self.names);
            } else {
                self.changes.push((number, change));
            }
        }
    }

    /// Loses a random part of the unsynced changes.
    fn cut(&mut self, model: Model, random: &mut Random) {
        let changes = std::mem::take(&mut self.changes);
        let kept = random.below(changes.len() + 1);
        for (at, (_, change)) in changes.into_iter().enumerate() {
            let keep = match model {
                Model::Ordered => at < kept,
                Model::Harsh => random.below(2) == 0,
            };
            if keep {
                change.apply(&mut self.names);
            }
        }
        for file in &mut self.files {
            file.tear(random);
        }
    }

    /// Writes the disk to `root`, without the contents of lost directories.
    fn write(&self, root: &Path) {
        let mut directories = vec![(ROOT, root.to_path_buf())];
        while let Some((directory, path)) = directories.pop() {
            fs::create_dir_all(&path).expect("a directory can be made");
            let names = self.names.range((directory, OsString::new())..);
            for ((_, name), node) in names.take_while(|((parent, _), _)| *parent == directory) {
                let path = path.join(name);
                match node {
                    Node::Directory(id) => directories.push((*id, path)),
                    Node::File(id) => self.files[*id].write(&path),
                }
            }
        }
    }
}

/// Writes to `image` the disk that began as `start`, after a power cut before the event `cut`.
///
/// # Panics
/// If the disk of the test fails.
pub fn power_cut(
    start: &Path,
    events: &[Event],
    cut: usize,
    model: Model,
    random: &mut Random,
    image: &Path,
) {
    let mut disk = Disk::load(start);
    for (number, event) in events[..cut].iter().enumerate() {
        disk.play(number, event, model);
    }
    disk.cut(model, random);
    disk.write(image);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(inode: u64, at: u64, byte: u8) -> Event {
        Event::Write { inode, at, bytes: vec![byte; SECTOR] }
    }

    #[test]
    fn the_data_of_a_failed_sync_is_lost_whatever_is_synced_later() {
        let directory = tempfile::tempdir().expect("a directory can be had");
        let (start, image) = (directory.path().join("start"), directory.path().join("image"));
        fs::create_dir_all(&start).expect("a directory can be made");
        fs::write(start.join("file"), [1; 2 * SECTOR]).expect("a file can be made");
        let path = PathBuf::from("file");
        let open =
            Event::Open { inode: 7, created: false, truncated: false, directory: false, path };
        let events = [
            open,
            written(7, 0, 2),
            Event::SyncFailed { inode: 7, covered: 2 },
            written(7, SECTOR as u64, 3),
            Event::Sync { inode: 7, covered: 4 },
        ];
        power_cut(&start, &events, events.len(), Model::Harsh, &mut Random::new(1), &image);
        let left = fs::read(image.join("file")).expect("a file of ours");
        assert_eq!((left[0], left[SECTOR]), (1, 3));
        let mut log = Log { events: events.into(), starts: Vec::new() };
        assert_eq!((log.failed_syncs(), log.dropped_caches()), (vec![Path::new("file")], vec![]));
        log.events.push(Event::CacheDropped { inode: 7 });
        assert_eq!(log.dropped_caches(), [Path::new("file")]);
    }
}
