//! The contents of a memory store: one map of rows, and the logs.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use bytes::Bytes;

use crate::batch::{Batch, Entry, Key, LogId, Op};
use crate::log::Bounds;
use crate::query::{Filter, Order, Page, Query};
use crate::{Outcome, Record, row};

/// The contents, which survive a reopening.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk {
    pub(super) rows: BTreeMap<Key, Stored>,
    pub(super) logs: BTreeMap<LogId, (Bounds, BTreeMap<u64, Bytes>)>,
    puts: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) value: Bytes,
    pub(super) entry: Option<Entry>,
    /// Ascends with every put.
    stamp: u64,
}

impl Disk {
    /// Applies a batch, unless an insert finds its key taken. Returns the appended records.
    pub(super) fn apply(&mut self, batch: Batch) -> Result<Vec<Record>, Outcome> {
        if let Err(error) = batch.ops.iter().try_for_each(row::check) {
            return Err(Outcome::NotApplied(error));
        }
        let mut undo = BTreeMap::new();
        for op in &batch.ops {
            let key = match op {
                Op::Put { key, .. } | Op::Insert { key, .. } | Op::Delete { key } => key,
                Op::Append { .. } | Op::Trim { .. } => continue,
            };
            let before = self.rows.get(key).cloned();
            if before.is_some() && matches!(op, Op::Insert { .. }) {
                self.restore(undo);
                return Err(Outcome::Conflict(key.clone()));
            }
            undo.entry(key.clone()).or_insert(before);
            self.write(op);
        }
        let mut appended = Vec::new();
        for op in batch.ops {
            match op {
                Op::Append { log, record } => {
                    let (bounds, records) = self.logs.entry(log).or_default();
                    let sequence = bounds.append();
                    records.insert(sequence, record.clone());
                    appended.push(Record { log, sequence, bytes: record });
                }
                Op::Trim { log, before } => {
                    let (bounds, records) = self.logs.entry(log).or_default();
                    bounds.trim(before);
                    *records = records.split_off(&bounds.oldest);
                }
                Op::Put { .. } | Op::Insert { .. } | Op::Delete { .. } => {}
            }
        }
        Ok(appended)
    }

    /// The records of `log` after one, in order.
    pub(super) fn records(&self, log: LogId, after: u64) -> impl Iterator<Item = Record> {
        let logged = self.logs.get(&log).into_iter();
        let records = logged.flat_map(move |(_, records)| records.range(after.saturating_add(1)..));
        records.map(move |(sequence, bytes)| Record {
            log,
            sequence: *sequence,
            bytes: bytes.clone(),
        })
    }

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

    /// The newest number of each log.
    pub(super) fn newest(&self) -> BTreeMap<LogId, u64> {
        self.logs.iter().map(|(log, (bounds, _))| (*log, bounds.newest)).collect()
    }

    pub(super) fn select(&self, query: &Query) -> Page {
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
        Filter::NoneOf(field, terms) => !terms.iter().any(|term| has(field, term)),
        Filter::Sorted { value, from, to } => {
            entry.sort[*value].is_some_and(|value| (*from..*to).contains(&value))
        }
        Filter::Prefix(field, start) => {
            entry.terms.iter().any(|(f, term)| f == field && term.starts_with(start))
        }
        Filter::Documents { from, to } => {
            from.is_none_or(|from| from <= document) && to.is_none_or(|to| document < to)
        }
    }
}
