//! A store in memory, for tests: the model that the others are compared with, and the store under the
//! actors' tests.
//!
//! Its contents survive a [`MemoryStore::reopen`], as on a disk. It has one map, and a query looks at every
//! row.
//!
//! Deliberately absent: indexes, threads, and answers that take time.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Mutex, MutexGuard};

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::batch::{Batch, Entry, Epoch, Key, LogId, Op};
use crate::log::Bounds;
use crate::query::{Filter, Order, Page, Query};
use crate::{Outcome, ReadFuture, Record, Row, Stats, Store, Ticket, row};

/// A store in memory.
#[derive(Debug)]
pub struct MemoryStore {
    state: Mutex<State>,
    epoch: Epoch,
}

#[derive(Debug, Default)]
struct State {
    disk: Disk,
    tail: Option<mpsc::UnboundedSender<Vec<Record>>>,
    stats: Stats,
}

/// The contents, which survive a reopening.
#[derive(Debug, Clone, Default)]
struct Disk {
    rows: BTreeMap<Key, Stored>,
    logs: BTreeMap<LogId, (Bounds, BTreeMap<u64, Bytes>)>,
    puts: u64,
}

#[derive(Debug, Clone)]
struct Stored {
    value: Bytes,
    entry: Option<Entry>,
    /// Ascends with every put.
    stamp: u64,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self { state: Mutex::default(), epoch: Epoch(1) }
    }

    /// A store with the contents of this one, as after a restart of the process. The two share nothing
    /// afterwards.
    #[must_use]
    pub fn reopen(&self) -> Self {
        let state = State { disk: self.state().disk.clone(), ..State::default() };
        Self { state: Mutex::new(state), epoch: Epoch(self.epoch.0 + 1) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    fn apply(&self, batch: Batch) -> Outcome {
        if batch.guards.iter().any(|(_, epoch)| *epoch != self.epoch) {
            return Outcome::Fenced;
        }
        if let Err(error) = batch.ops.iter().try_for_each(row::check) {
            return Outcome::NotApplied(error);
        }
        let mut state = self.state();
        let state = &mut *state;
        let mut undo = BTreeMap::new();
        for op in &batch.ops {
            let key = match op {
                Op::Put { key, .. } | Op::Insert { key, .. } | Op::Delete { key } => key,
                Op::Append { .. } | Op::Trim { .. } => continue,
            };
            let before = state.disk.rows.get(key).cloned();
            if before.is_some() && matches!(op, Op::Insert { .. }) {
                state.disk.restore(undo);
                return Outcome::Conflict(key.clone());
            }
            undo.entry(key.clone()).or_insert(before);
            state.disk.write(op);
        }
        for op in batch.ops {
            match op {
                Op::Append { log, record } => {
                    let (bounds, records) = state.disk.logs.entry(log).or_default();
                    let sequence = bounds.append();
                    records.insert(sequence, record.clone());
                    if let Some(tail) = &state.tail {
                        // The receiver may have been dropped.
                        let _ = tail.send(vec![Record { log, sequence, bytes: record }]);
                    }
                }
                Op::Trim { log, before } => {
                    let (bounds, records) = state.disk.logs.entry(log).or_default();
                    bounds.trim(before);
                    *records = records.split_off(&bounds.oldest);
                }
                Op::Put { .. } | Op::Insert { .. } | Op::Delete { .. } => {}
            }
        }
        state.stats.batches += 1;
        state.stats.syncs += 1;
        Outcome::Committed
    }
}

impl Disk {
    fn write(&mut self, op: &Op) {
        let (key, value, entry) = match op {
            Op::Put { key, value, entry } => (key, value, entry.clone()),
            Op::Insert { key, value } => (key, value, None),
            Op::Delete { key } => {
                self.rows.remove(key);
                return;
            }
            Op::Append { .. } | Op::Trim { .. } => return,
        };
        self.puts += 1;
        self.rows.insert(key.clone(), Stored { value: value.clone(), entry, stamp: self.puts });
    }

    fn restore(&mut self, rows: BTreeMap<Key, Option<Stored>>) {
        for (key, row) in rows {
            match row {
                Some(row) => self.rows.insert(key, row),
                None => self.rows.remove(&key),
            };
        }
    }

    fn select(&self, query: &Query) -> Page {
        let mut listed: BTreeMap<u128, &Stored> = BTreeMap::new();
        for (key, row) in &self.rows {
            let (Some(entry), Some(document)) = (&row.entry, key.0.last_chunk()) else {
                continue;
            };
            if entry.list == query.list {
                let shown = listed.entry(u128::from_be_bytes(*document)).or_insert(row);
                if shown.stamp < row.stamp {
                    *shown = row;
                }
            }
        }
        let entry = |row: &Stored| row.entry.clone().unwrap_or_default();
        let mut found: Vec<(Option<u64>, u128)> = listed
            .into_iter()
            .filter(|(document, row)| {
                query.filters.iter().all(|filter| matches(filter, *document, &entry(row)))
            })
            .map(|(document, row)| {
                let value = match query.order {
                    Order::Document => None,
                    Order::Sort(n) => entry(row).sort.get(n).copied().flatten(),
                };
                (value, document)
            })
            .collect();
        if query.descending {
            found.sort_by_key(|(value, document)| (value.is_none(), Reverse((*value, *document))));
        } else {
            found.sort_by_key(|(value, document)| (value.is_none(), *value, *document));
        }
        let total = found.len() as u64;
        let documents = found.into_iter().skip(query.offset).take(query.limit);
        Page { documents: documents.map(|(_, document)| document).collect(), total }
    }
}

fn matches(filter: &Filter, document: u128, entry: &Entry) -> bool {
    let has = |field: &u8, term: &[u8]| entry.terms.iter().any(|(f, t)| f == field && **t == *term);
    match filter {
        Filter::AnyOf(field, terms) => terms.iter().any(|term| has(field, term)),
        Filter::AllOf(field, terms) => terms.iter().all(|term| has(field, term)),
        Filter::Documents { from, to } => {
            from.is_none_or(|from| from <= document) && to.is_none_or(|to| document < to)
        }
    }
}

impl Store for MemoryStore {
    fn commit(&self, batch: Batch) -> Ticket {
        let (reply, ticket) = Ticket::new();
        // The ticket is still here.
        let _ = reply.send(self.apply(batch));
        ticket
    }

    fn get<'a>(&'a self, key: &'a Key) -> ReadFuture<'a, Option<Bytes>> {
        let value = self.state().disk.rows.get(key).map(|row| row.value.clone());
        Box::pin(ready(Ok(value)))
    }

    fn scan(&self, from: Key, to: Key, limit: usize) -> ReadFuture<'_, Vec<Row>> {
        if from >= to {
            return Box::pin(ready(Ok(Vec::new())));
        }
        let state = self.state();
        let rows = state.disk.rows.range(from..to).take(limit);
        let rows = rows.map(|(key, row)| (key.clone(), row.value.clone())).collect();
        drop(state);
        Box::pin(ready(Ok(rows)))
    }

    fn query<'a>(&'a self, query: &'a Query) -> ReadFuture<'a, Page> {
        Box::pin(ready(Ok(self.state().disk.select(query))))
    }

    fn read_log(&self, log: LogId, after: u64, limit: usize) -> ReadFuture<'_, Vec<Record>> {
        let state = self.state();
        let records = state
            .disk
            .logs
            .get(&log)
            .into_iter()
            .flat_map(|(_, records)| records.range(after.saturating_add(1)..).take(limit));
        let records = records
            .map(|(sequence, bytes)| Record { log, sequence: *sequence, bytes: bytes.clone() })
            .collect();
        drop(state);
        Box::pin(ready(Ok(records)))
    }

    fn log_bounds(&self, log: LogId) -> ReadFuture<'_, (u64, u64)> {
        let bounds =
            self.state().disk.logs.get(&log).map(|(bounds, _)| *bounds).unwrap_or_default();
        Box::pin(ready(Ok((bounds.oldest, bounds.newest))))
    }

    fn tail(&self) -> mpsc::UnboundedReceiver<Vec<Record>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.state().tail = Some(sender);
        receiver
    }

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn stats(&self) -> Stats {
        self.state().stats
    }
}
