//! Staging: the batches that share a sync come to one set of rows.
//!
//! A batch is checked against the store *and* against the batches before it in the group. Then its
//! operations are staged, or none of them.

use std::collections::BTreeMap;

use bytes::Bytes;
use foldhash::{HashMap, HashMapExt};

use super::{Committer, Engine, block};
use crate::batch::{Batch, Entry, Key, LogId, Op};
use crate::index::Change;
use crate::log::{self, Bounds};
use crate::row;
use crate::{Error, Outcome, Record};

/// The most rows of a log that one trim removes from the disk. The others are invisible at once, and are removed
/// with later appends.
const TRIM: usize = 1024;
/// The most of those that an appending group removes, besides one for each record: so they become fewer.
const SWEEP: usize = 20;
// A record goes with the one behind it: less than its rows would never remove it.
const _: () = assert!(SWEEP >= log::MAX_PARTS);

/// A row that the group writes.
struct Row<'g> {
    /// `None` deletes the row.
    write: Option<Write<'g>>,
    /// The row's entry block before the group.
    old: Option<Box<[u8]>>,
}

struct Write<'g> {
    value: &'g Bytes,
    entry: Option<&'g Entry>,
    stamp: u64,
}

/// The batches so far, above the store.
pub(super) struct Staging<'c, 'g, E> {
    committer: &'c mut Committer<E>,
    staged: Staged<'g>,
}

/// The rows and records that a group writes.
#[derive(Default)]
pub(super) struct Staged<'g> {
    rows: HashMap<&'g Key, Row<'g>>,
    records: Vec<Record>,
    /// The keys of trimmed rows.
    trims: BTreeMap<LogId, Vec<Vec<u8>>>,
}

impl<'c, 'g, E: Engine> Staging<'c, 'g, E> {
    pub(super) fn new(committer: &'c mut Committer<E>) -> Self {
        Self { committer, staged: Staged::default() }
    }

    /// Stages `batch`, unless its outcome is another than [`Outcome::Committed`]. An error is the engine's.
    pub(super) fn stage(&mut self, batch: &'g Batch) -> Result<Outcome, Error> {
        let engine = &self.committer.engine;
        if batch.guards.iter().any(|(at, epoch)| engine.epoch(*at) != Some(*epoch)) {
            return Ok(Outcome::Fenced);
        }
        if let Err(error) = batch.ops.iter().try_for_each(row::check) {
            return Ok(Outcome::NotApplied(error));
        }
        if let Some(key) = self.conflict(batch)? {
            return Ok(Outcome::Conflict(key.clone()));
        }
        for op in &batch.ops {
            match op {
                Op::Put { key, value, entry } => self.put(key, value, entry.as_ref())?,
                Op::Insert { key, value } => self.put(key, value, None)?,
                Op::Delete { key } => self.row(key)?.write = None,
                Op::Append { log, record } => {
                    let sequence = self.committer.logs.entry(*log).or_default().append();
                    self.staged.records.push(Record { log: *log, sequence, bytes: record.clone() });
                }
                Op::Trim { log, before } => self.trim(*log, *before)?,
            }
        }
        Ok(Outcome::Committed)
    }

    /// Returns all that is staged, with some rows that earlier trims have left. An error is the engine's.
    pub(super) fn finish(mut self) -> Result<Staged<'g>, Error> {
        let unswept: Vec<_> = self.committer.unswept.keys().copied().collect();
        for log in unswept {
            let appended = self.staged.records.iter().filter(|record| record.log == log).count();
            if appended > 0 && !self.staged.trims.contains_key(&log) {
                self.sweep(log, SWEEP + appended)?;
            }
        }
        Ok(self.staged)
    }

    /// The first key that `batch` inserts and that exists by then.
    fn conflict(&self, batch: &'g Batch) -> Result<Option<&'g Key>, Error> {
        if !batch.ops.iter().any(|op| matches!(op, Op::Insert { .. })) {
            return Ok(None);
        }
        let mut within = HashMap::new();
        for op in &batch.ops {
            match op {
                Op::Put { key, .. } => {
                    within.insert(key, true);
                }
                Op::Delete { key } => {
                    within.insert(key, false);
                }
                Op::Insert { key, .. } => {
                    let before = within.insert(key, true);
                    let exists = match before.or_else(|| self.staged.exists(key)) {
                        Some(exists) => exists,
                        None => {
                            self.committer.engine.read(&row::disk_key(key), |row| row.is_some())?
                        }
                    };
                    if exists {
                        return Ok(Some(key));
                    }
                }
                Op::Append { .. } | Op::Trim { .. } => {}
            }
        }
        Ok(None)
    }

    fn put(
        &mut self,
        key: &'g Key,
        value: &'g Bytes,
        entry: Option<&'g Entry>,
    ) -> Result<(), Error> {
        self.committer.stamp += 1;
        let stamp = self.committer.stamp;
        self.row(key)?.write = Some(Write { value, entry, stamp });
        Ok(())
    }

    /// The staged row at `key`. The old entry of a row that may be in a list is read, to be withdrawn. Most
    /// rows are new, and the index knows that sooner than the disk.
    fn row(&mut self, key: &'g Key) -> Result<&mut Row<'g>, Error> {
        let vacant = match self.staged.rows.entry(key) {
            std::collections::hash_map::Entry::Occupied(row) => return Ok(row.into_mut()),
            std::collections::hash_map::Entry::Vacant(vacant) => vacant,
        };
        let listed = key.is_listed() && self.committer.shared.index.may_contain(key);
        let old = if listed { block(&self.committer.engine, key)? } else { None };
        Ok(vacant.insert(Row { write: None, old }))
    }

    fn trim(&mut self, log: LogId, before: u64) -> Result<(), Error> {
        let Some(bounds) = self.committer.logs.get_mut(&log) else {
            return Ok(());
        };
        bounds.trim(before);
        self.staged.trims.entry(log).or_default();
        self.sweep(log, TRIM)
    }

    /// Removes up to `limit` rows whose records are all trimmed.
    fn sweep(&mut self, log: LogId, limit: usize) -> Result<(), Error> {
        let oldest = self.committer.logs.get(&log).map_or(0, |bounds| bounds.oldest);
        // The rows that earlier sweeps removed are on the disk until a checkpoint: this one begins behind them.
        let from = self.committer.unswept.remove(&log).unwrap_or_default();
        let (from, to) = (log::key(log, from, 0), log::key(log, oldest, 0));
        let keys = self.committer.engine.keys(&from, &to, limit)?;
        let first = |key: &Vec<u8>| log::read_key(key).map_or(0, |(first, _)| first);
        // A row is removed when the next row begins at or before the oldest record to keep. The next
        // row after the last of these is on the disk, or this group appends it.
        let next_begins_there = keys.len() < limit
            && (self.first_unwritten(log) <= oldest
                || !self
                    .committer
                    .engine
                    .keys(&log::key(log, oldest, 0), &log::key(log, oldest + 1, 0), 1)?
                    .is_empty());
        let last = keys.last().map_or(0, first);
        if keys.len() == limit {
            self.committer.unswept.insert(log, last);
        }
        let is_removed = |key: &Vec<u8>| next_begins_there || first(key) < last;
        let removed: Vec<_> = keys.into_iter().filter(is_removed).collect();
        if !removed.is_empty() {
            self.staged.trims.entry(log).or_default().extend(removed);
        }
        Ok(())
    }

    /// The number of the first record that this group appends, or would append.
    fn first_unwritten(&self, log: LogId) -> u64 {
        let newest = self.committer.logs.get(&log).map_or(0, |bounds| bounds.newest);
        self.staged.first_of(log).unwrap_or(newest + 1)
    }
}

impl Staged<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.records.is_empty() && self.trims.is_empty()
    }

    /// Hands everything to `engine`. Returns the changes for the index and the records for the tail.
    pub(super) fn write<E: Engine>(
        self,
        engine: &mut E,
        logs: &BTreeMap<LogId, Bounds>,
    ) -> (Vec<Change>, Vec<Record>) {
        let mut changes = Vec::new();
        let (mut key, mut value) = (Vec::with_capacity(64), Vec::new());
        for (name, row) in self.rows {
            row::encode_key(&name.0, &mut key);
            let Some(write) = row.write else {
                engine.delete(&key);
                changes.extend(row.old.map(|old| Change {
                    key: name.clone(),
                    old: Some(old),
                    new: None,
                }));
                continue;
            };
            if !name.is_listed() {
                engine.put(&key, write.value);
                continue;
            }
            let head = row::encode_listed(write.stamp, write.entry, write.value, &mut value);
            engine.put(&key, &value);
            let new = write.entry.map(|_| Box::from(&value[2..head]));
            if new.is_some() || row.old.is_some() {
                changes.push(Change { key: name.clone(), old: row.old, new });
            }
        }
        let mut by_log: BTreeMap<LogId, Vec<&Record>> = BTreeMap::new();
        for record in &self.records {
            by_log.entry(record.log).or_default().push(record);
        }
        for (log, records) in by_log {
            let bytes = records.iter().map(|record| &record.bytes);
            log::pack(log, records[0].sequence, bytes, |key, row| {
                engine.append(key, row);
            });
        }
        for (log, keys) in self.trims {
            for key in keys {
                engine.delete(&key);
            }
            engine.put(&log::trim_key(log), &log::encode_bounds(logs[&log]));
        }
        (changes, self.records)
    }

    fn exists(&self, key: &Key) -> Option<bool> {
        self.rows.get(key).map(|row| row.write.is_some())
    }

    fn first_of(&self, log: LogId) -> Option<u64> {
        self.records.iter().find(|record| record.log == log).map(|record| record.sequence)
    }
}
