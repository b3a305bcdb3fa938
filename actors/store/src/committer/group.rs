//! The batches that share a sync: what they come to together.
//!
//! A batch is checked against the store *and* against the batches before it in the group, and
//! then adds to the group's rows, or changes nothing at all.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use foldhash::{HashMap, HashMapExt};

use super::{Engine, block};
use crate::batch::{Batch, Entry, Epoch, Key, LogId, Op};
use crate::index::{Change, Index};
use crate::log::{self, Bounds};
use crate::row;
use crate::{Error, Outcome, Record};

/// How many rows of a log one trim removes from the disk. The rest is invisible at once, and goes
/// bit by bit with what is appended.
const TRIM: usize = 1024;
/// How many of those a group removes that appends, besides as many as it appends records: so they
/// become fewer.
const SWEEP: usize = 16;

/// What a row comes to.
struct Row<'g> {
    /// `None`: it goes.
    write: Option<Write<'g>>,
    /// How it was listed before the group.
    old: Option<Box<[u8]>>,
}

struct Write<'g> {
    value: &'g Bytes,
    entry: Option<&'g Entry>,
    stamp: u64,
}

/// A group in the making.
pub(super) struct Group<'e, 'g, E> {
    engine: &'e E,
    index: &'e Index,
    epoch: Epoch,
    logs: &'e mut BTreeMap<LogId, Bounds>,
    stamp: &'e mut u64,
    max_row: usize,
    /// Logs of which trimmed rows may be left.
    unswept: &'e mut BTreeSet<LogId>,
    written: Written<'g>,
}

/// What a group writes.
#[derive(Default)]
pub(super) struct Written<'g> {
    rows: HashMap<&'g Key, Row<'g>>,
    records: Vec<Record>,
    trims: BTreeMap<LogId, Vec<Vec<u8>>>,
}

impl<'e, 'g, E: Engine> Group<'e, 'g, E> {
    pub(super) fn new(
        engine: &'e E,
        index: &'e Index,
        epoch: Epoch,
        logs: &'e mut BTreeMap<LogId, Bounds>,
        stamp: &'e mut u64,
        max_row: usize,
        unswept: &'e mut BTreeSet<LogId>,
    ) -> Self {
        Self { engine, index, epoch, logs, stamp, max_row, unswept, written: Written::default() }
    }

    /// Adds `batch`, or says why not. An error is the engine's, and the end.
    pub(super) fn stage(&mut self, batch: &'g Batch) -> Result<Outcome, Error> {
        if batch.guards.iter().any(|(_, epoch)| *epoch != self.epoch) {
            return Ok(Outcome::Fenced);
        }
        if let Err(error) = batch.ops.iter().try_for_each(|op| check(op, self.max_row)) {
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
                    let sequence = self.logs.entry(*log).or_default().append();
                    self.written.records.push(Record {
                        log: *log,
                        sequence,
                        bytes: record.clone(),
                    });
                }
                Op::Trim { log, before } => self.trim(*log, *before)?,
            }
        }
        Ok(Outcome::Committed)
    }

    /// What it comes to, with some of what earlier trims have left. An error is the engine's.
    pub(super) fn finish(mut self) -> Result<Written<'g>, Error> {
        for log in self.unswept.clone() {
            let appended = self.written.records.iter().filter(|record| record.log == log).count();
            if appended > 0 && !self.written.trims.contains_key(&log) {
                self.sweep(log, SWEEP + appended)?;
            }
        }
        Ok(self.written)
    }

    /// The first key that `batch` wants to insert and that is there by then.
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
                    let there = match before.or_else(|| self.written.there(key)) {
                        Some(there) => there,
                        None => self.on_disk(key)?,
                    };
                    if there {
                        return Ok(Some(key));
                    }
                }
                Op::Append { .. } | Op::Trim { .. } => {}
            }
        }
        Ok(None)
    }

    fn on_disk(&self, key: &Key) -> Result<bool, Error> {
        let mut on_disk = Vec::with_capacity(1 + key.0.len());
        row::encode_key(&key.0, &mut on_disk);
        self.engine.read(&on_disk, |row| row.is_some())
    }

    fn put(
        &mut self,
        key: &'g Key,
        value: &'g Bytes,
        entry: Option<&'g Entry>,
    ) -> Result<(), Error> {
        *self.stamp += 1;
        let stamp = *self.stamp;
        self.row(key)?.write = Some(Write { value, entry, stamp });
        Ok(())
    }

    /// The row as the group has it so far; one that may be in a list is looked up, to know what to
    /// withdraw. Most are new, and the index knows that sooner than the disk does.
    fn row(&mut self, key: &'g Key) -> Result<&mut Row<'g>, Error> {
        let vacant = match self.written.rows.entry(key) {
            std::collections::hash_map::Entry::Occupied(row) => return Ok(row.into_mut()),
            std::collections::hash_map::Entry::Vacant(vacant) => vacant,
        };
        let listed = key.is_listed() && self.index.may_list(key);
        let old = if listed { block(self.engine, key)? } else { None };
        Ok(vacant.insert(Row { write: None, old }))
    }

    fn trim(&mut self, log: LogId, before: u64) -> Result<(), Error> {
        let Some(bounds) = self.logs.get_mut(&log) else {
            return Ok(());
        };
        bounds.trim(before);
        self.sweep(log, TRIM)
    }

    /// Removes up to `limit` rows of records that are trimmed.
    fn sweep(&mut self, log: LogId, limit: usize) -> Result<(), Error> {
        let oldest = self.logs.get(&log).map_or(0, |bounds| bounds.oldest);
        let keys = self.engine.keys(&log::key(log, 0, 0), &log::key(log, oldest, 0), limit)?;
        if keys.len() < limit {
            self.unswept.remove(&log);
        } else {
            self.unswept.insert(log);
        }
        let first = |key: &Vec<u8>| log::read_key(key).map_or(0, |(first, _)| first);
        // A row goes when the next one begins at or before the oldest record to keep. For the
        // last of these rows the next one is on the disk, or is what this group appends.
        let next_begins_there = keys.len() < limit
            && (self.first_unwritten(log) <= oldest
                || !self
                    .engine
                    .keys(&log::key(log, oldest, 0), &log::key(log, oldest + 1, 0), 1)?
                    .is_empty());
        let last = keys.last().map_or(0, first);
        let gone = keys.into_iter().filter(|key| next_begins_there || first(key) < last);
        self.written.trims.entry(log).or_default().extend(gone);
        Ok(())
    }

    /// The number that the first record of this group gets, or would get.
    fn first_unwritten(&self, log: LogId) -> u64 {
        let newest = self.logs.get(&log).map_or(0, |bounds| bounds.newest);
        self.written.first_of(log).unwrap_or(newest + 1)
    }
}

impl Written<'_> {
    /// Whether there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.records.is_empty() && self.trims.is_empty()
    }

    /// Hands everything to `engine`, and returns what the index and the tail have to learn.
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
                engine.put(key, row);
            });
        }
        for (log, gone) in self.trims {
            for key in gone {
                engine.delete(&key);
            }
            engine.put(&log::trim_key(log), &log::encode_bounds(logs[&log]));
        }
        (changes, self.records)
    }

    fn there(&self, key: &Key) -> Option<bool> {
        self.rows.get(key).map(|row| row.write.is_some())
    }

    fn first_of(&self, log: LogId) -> Option<u64> {
        self.records.iter().find(|record| record.log == log).map(|record| record.sequence)
    }
}

/// Whether an operation can be written at all.
fn check(op: &Op, max_row: usize) -> Result<(), Error> {
    let misuse = |what: &str| Err(Error::Io(what.into()));
    match op {
        Op::Put { key, entry: Some(_), .. } if !key.is_listed() => {
            misuse("an entry was given for a row of a table that is not listed")
        }
        Op::Put { key, entry: Some(_), .. } if key.0.len() < 18 => {
            misuse("the key of a listed row does not end in a document id")
        }
        Op::Put { key, value, entry } => fits(row::size(key, value, entry.as_ref()), max_row),
        Op::Insert { key, value } => fits(row::size(key, value, None), max_row),
        Op::Append { record, .. } => fits(record.len(), log::MAX_RECORD),
        Op::Delete { .. } | Op::Trim { .. } => Ok(()),
    }
}

fn fits(size: usize, limit: usize) -> Result<(), Error> {
    if size > limit { Err(Error::TooLarge(size)) } else { Ok(()) }
}
