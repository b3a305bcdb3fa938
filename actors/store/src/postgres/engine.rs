//! The committer's engine on PostgreSQL: a group is one call of one function, so one transaction.
//!
//! ```text
//! group n ─▶ commit_2(node, incarnation, fence, n, rows, records)
//!              writer's row is (node, incarnation, fence, n - 1)?  no ─▶ NULL: read it, and stage again
//!              rows; then records, which get the next numbers of their logs; number = n ─▶ the numbers
//! ```
//!
//! If the connection breaks, the fate of the group is unknown, and it is sent again under the same number:
//! the database takes each number once, even if the first call is still on its way. A claim of one of the
//! node's partitions by another node moves the fence on, in the transaction that changes the owner.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use foldhash::{HashMap, HashMapExt};
use tokio::runtime::Handle;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Statement};

use super::heads::Heads;
use super::link::Link;
use super::nodes::{Owned, Rights, Writer};
use super::rows;
use super::session::Warned;
use crate::Error;
use crate::batch::{Batch, Epoch, LogId, Op, Partition};
use crate::committer::{Applied, Engine};
use crate::index::Index;
use crate::log::{self, Bounds};
use crate::row::disk_key;

const COMMIT: &str =
    "SELECT callboard.commit_2($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";

/// The connection of the committer.
pub(super) struct PgEngine {
    runtime: Handle,
    link: Arc<Link>,
    owned: Arc<Owned>,
    session: Option<Session>,
    ahead: HashMap<Vec<u8>, Option<Bytes>>,
    heads: Heads,
    put: Vec<(Vec<u8>, Vec<u8>)>,
    deleted: Vec<Vec<u8>>,
    appended: Vec<Appended>,
    /// The newest numbers of the logs in the database.
    newest: BTreeMap<LogId, u64>,
    /// The rights under which the logs' bounds were read: before, another node may have moved them.
    read_under: Option<Rights>,
}

/// A row of log records, under the number that its first record would have without other nodes.
struct Appended {
    log: LogId,
    first: u64,
    part: u8,
    value: Vec<u8>,
}

struct Session {
    client: Client,
    commit: Statement,
    warned: Warned,
    made_after: u64,
}

/// The answer to a group.
enum Answer {
    Committed {
        /// The numbers before the first record of each log that the group appends to.
        bases: Vec<i64>,
        /// False if the primary has the group, and a synchronous standby may lack it.
        is_replicated: bool,
    },
    NotNext,
}

impl PgEngine {
    pub(super) fn new(runtime: Handle, link: Arc<Link>, owned: Arc<Owned>) -> Self {
        Self {
            runtime,
            link,
            owned,
            session: None,
            ahead: HashMap::new(),
            heads: Heads::default(),
            put: Vec::new(),
            deleted: Vec::new(),
            appended: Vec::new(),
            newest: BTreeMap::new(),
            read_under: None,
        }
    }

    async fn send(
        &mut self,
        writer: Writer,
        moves: &[(i16, i64, i64)],
        deadline: Instant,
    ) -> Result<Result<Answer, tokio_postgres::Error>, Error> {
        let made_after = self.link.moves();
        let is_over = |it: &Session| it.client.is_closed() || it.made_after != made_after;
        if self.session.as_ref().is_none_or(is_over) {
            let (client, warned) = self.link.connect_watched(deadline).await?;
            match client.prepare(COMMIT).await {
                Ok(commit) => self.session = Some(Session { client, commit, warned, made_after }),
                Err(error) => return Ok(Err(error)),
            }
        }
        let Some(Session { client, commit, warned, .. }) = &self.session else {
            return Err(Error::Stopped);
        };
        let (keys, values): (Vec<_>, Vec<_>) =
            self.put.iter().map(|(key, value)| (key.as_slice(), value.as_slice())).unzip();
        let deleted: Vec<_> = self.deleted.iter().map(Vec::as_slice).collect();
        let logs: Vec<_> = moves.iter().map(|it| it.0).collect();
        let before: Vec<_> = moves.iter().map(|it| it.1).collect();
        let counts: Vec<_> = moves.iter().map(|it| it.2).collect();
        let ids: Vec<_> = self.appended.iter().map(|row| i16::from(row.log.0)).collect();
        let firsts: Vec<_> = self.appended.iter().map(|row| row.first.cast_signed()).collect();
        let parts: Vec<_> = self.appended.iter().map(|row| i16::from(row.part)).collect();
        let records: Vec<_> = self.appended.iter().map(|row| row.value.as_slice()).collect();
        let Writer { node, incarnation, fence, number } = writer;
        let next = number + 1;
        let arguments: [&(dyn ToSql + Sync); 14] = [
            &node,
            &incarnation,
            &fence,
            &next,
            &keys,
            &values,
            &deleted,
            &logs,
            &before,
            &counts,
            &ids,
            &firsts,
            &parts,
            &records,
        ];
        warned.take();
        Ok(match client.query_one(commit, &arguments).await {
            Ok(row) => Ok(match row.get::<_, Option<Vec<i64>>>(0) {
                Some(bases) => Answer::Committed { bases, is_replicated: !warned.take() },
                None => Answer::NotNext,
            }),
            Err(error) => Err(error),
        })
    }

    /// Sends the group until its fate is known.
    async fn settle(&mut self, moves: &[(i16, i64, i64)]) -> Result<Answer, Error> {
        let writer = self.owned.writer();
        let deadline = self.link.deadline();
        let mut was_sent = false;
        loop {
            let error = match self.send(writer, moves, deadline).await? {
                Ok(Answer::NotNext) if was_sent => {
                    let (now, bases) = self.owned.read_writer(&self.link).await?;
                    let is_ours = now.incarnation == writer.incarnation;
                    if !is_ours || now.number != writer.number + 1 {
                        return Ok(Answer::NotNext);
                    }
                    // The first call may have ended before a standby had its transaction.
                    self.replicate(writer, deadline).await?;
                    return Ok(Answer::Committed { bases, is_replicated: true });
                }
                Ok(Answer::Committed { bases, is_replicated: false }) => {
                    tracing::warn!(
                        "a wait for a synchronous standby was cancelled; it begins anew"
                    );
                    self.replicate(writer, deadline).await?;
                    return Ok(Answer::Committed { bases, is_replicated: true });
                }
                Ok(answer) => {
                    self.link.works();
                    return Ok(answer);
                }
                Err(error) => error,
            };
            was_sent = true;
            self.link.pause(&error, deadline).await?;
        }
    }

    /// Waits until the standbys have every transaction up to now, by the commit of another one.
    async fn replicate(&self, writer: Writer, deadline: Instant) -> Result<(), Error> {
        let node = writer.node;
        loop {
            let (client, warned) = self.link.connect_watched(deadline).await?;
            let touch = "UPDATE callboard.writer SET fence = fence WHERE node = $1";
            match client.execute_typed(touch, &[(&node, Type::UUID)]).await {
                Ok(_) if !warned.take() => return Ok(()),
                Ok(_) => {}
                Err(error) => self.link.pause(&error, deadline).await?,
            }
        }
    }

    /// Reads the bounds of the logs, on which the group is to be staged again.
    fn read_logs(&mut self) -> Result<Applied, Error> {
        let rights = self.owned.rights();
        let logs = self.runtime.block_on(rows::logs(&self.link))?;
        self.newest = logs.iter().map(|(log, bounds)| (*log, bounds.newest)).collect();
        self.read_under = Some(rights);
        Ok(Applied::Moved(logs))
    }

    /// The logs that the group appends to: the number of the newest record before, and of new ones.
    fn moves(&self, logs: &BTreeMap<LogId, Bounds>) -> Vec<(i16, i64, i64)> {
        let before = |log| self.newest.get(log).copied().unwrap_or_default();
        let moved = logs.iter().filter(|(log, bounds)| bounds.newest != before(log));
        moved
            .map(|(log, bounds)| {
                let count = bounds.newest - before(log);
                (i16::from(log.0), before(log).cast_signed(), count.cast_signed())
            })
            .collect()
    }
}

impl Engine for PgEngine {
    fn read<R>(&self, key: &[u8], with: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, Error> {
        if let Some(row) = self.ahead.get(key) {
            return Ok(with(row.as_deref()));
        }
        if let Some(head) = self.heads.get(key) {
            return Ok(with(Some(head)));
        }
        let row = self.runtime.block_on(rows::get(&self.link, key))?;
        Ok(with(row.as_deref()))
    }

    fn keys(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Vec<u8>>, Error> {
        if from >= to || limit == 0 {
            return Ok(Vec::new());
        }
        self.runtime.block_on(rows::keys(&self.link, from, to, limit))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.put.push((key.to_vec(), value.to_vec()));
    }

    fn delete(&mut self, key: &[u8]) {
        self.deleted.push(key.to_vec());
    }

    fn append(&mut self, key: &[u8], value: &[u8]) {
        let (log, at) = (LogId(key[1]), log::read_key(key));
        let (first, part) = at.expect("the key is a log's");
        self.appended.push(Appended { log, first, part, value: value.to_vec() });
    }

    fn epoch(&self, partition: Partition) -> Option<Epoch> {
        self.owned.epoch(partition)
    }

    fn least_stamp(&self) -> u64 {
        self.owned.tenure() << 40
    }

    fn read_ahead(&mut self, batches: &[Batch], index: &Index) -> Result<(), Error> {
        self.ahead.clear();
        self.heads.keep_under(self.owned.rights());
        let asked = |op: &Op| match op {
            Op::Put { key, .. } | Op::Delete { key } => {
                (key.is_listed() && index.may_contain(key)).then(|| disk_key(key))
            }
            Op::Insert { key, .. } => Some(disk_key(key)),
            Op::Append { .. } | Op::Trim { .. } => None,
        };
        let ops = batches.iter().flat_map(|batch| &batch.ops);
        let is_unknown = |key: &Vec<u8>| self.heads.get(key).is_none();
        let keys: Vec<_> = ops.filter_map(asked).filter(is_unknown).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let found = self.runtime.block_on(rows::at(&self.link, &keys))?;
        self.ahead.extend(keys.into_iter().map(|key| (key, None)));
        self.ahead.extend(found.into_iter().map(|(key, row)| (key, Some(row))));
        Ok(())
    }

    fn commit(&mut self, logs: &BTreeMap<LogId, Bounds>) -> Result<Applied, Error> {
        self.ahead.clear();
        if self.read_under != Some(self.owned.rights()) {
            self.put.clear();
            self.deleted.clear();
            self.appended.clear();
            return self.read_logs();
        }
        // Rows of one table side by side: the database finds them on the same pages.
        self.put.sort_unstable();
        let moves = self.moves(logs);
        let runtime = self.runtime.clone();
        let answer = runtime.block_on(self.settle(&moves));
        let (put, deleted) = (std::mem::take(&mut self.put), std::mem::take(&mut self.deleted));
        self.appended.clear();
        match answer? {
            Answer::Committed { bases, .. } => {
                for (key, row) in &put {
                    self.heads.record(key, row);
                }
                for key in &deleted {
                    self.heads.forget(key);
                }
                self.owned.committed();
                let mut shifts = Vec::new();
                for ((log, before, count), base) in moves.iter().zip(bases) {
                    let log = LogId(u8::try_from(*log).map_err(|_| Error::Stopped)?);
                    self.newest.insert(log, (base + count).cast_unsigned());
                    if base != *before {
                        shifts.push((log, (base - before).cast_unsigned()));
                    }
                }
                Ok(Applied::Yes(shifts))
            }
            Answer::NotNext => {
                runtime.block_on(self.owned.reload(&self.link))?;
                self.heads = Heads::default();
                self.read_logs()
            }
        }
    }
}
