//! Ownership on PostgreSQL: the rows of nodes, writers and partitions, and the node's memory of its own.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio_postgres::types::{ToSql, Type};

use super::PostgresStore;
use super::link::Link;
use super::schema;
use crate::batch::{Epoch, Partition};
use crate::ownership::{NodeId, NodeRow, Ownership, PartitionRow, PartitionSet, View};
use crate::version::{PROGRAM, ROWS};
use crate::{Error, ReadFuture};

const PARTITIONS: usize = 256;

/// The number of the node's last group and its right to commit the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Writer {
    pub(super) node: Uuid,
    pub(super) incarnation: i64,
    /// Moves on when another node claims one of the writer's partitions.
    pub(super) fence: i64,
    pub(super) number: i64,
}

/// The right to commit and the claims of a node: another value once another node may have changed its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rights {
    incarnation: i64,
    fence: i64,
    tenure: u64,
}

impl Rights {
    pub(super) fn new(Writer { incarnation, fence, .. }: Writer, tenure: u64) -> Self {
        Self { incarnation, fence, tenure }
    }
}

/// A node's identifier as the database has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Uuid(pub(super) u128);

impl ToSql for Uuid {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut bytes::BytesMut,
    ) -> Result<tokio_postgres::types::IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(&self.0.to_be_bytes());
        Ok(tokio_postgres::types::IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::UUID
    }

    tokio_postgres::types::to_sql_checked!();
}

impl<'a> tokio_postgres::types::FromSql<'a> for Uuid {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(u128::from_be_bytes(raw.try_into()?)))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::UUID
    }
}

/// The partitions and the rights of this process, as far as it knows.
#[derive(Debug)]
pub(super) struct Owned(Mutex<State>);

#[derive(Debug)]
struct State {
    writer: Writer,
    epochs: Vec<Option<Epoch>>,
    tenure: u64,
}

impl Owned {
    pub(super) fn new(node: NodeId) -> Self {
        let writer = Writer { node: Uuid(node.0), incarnation: 0, fence: 0, number: 0 };
        Self(Mutex::new(State { writer, epochs: vec![None; PARTITIONS], tenure: 0 }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder panics")
    }

    pub(super) fn epoch(&self, partition: Partition) -> Option<Epoch> {
        self.state().epochs[usize::from(partition.0)]
    }

    pub(super) fn tenure(&self) -> u64 {
        self.state().tenure
    }

    /// Remembers the claimed partitions; returns them.
    fn gain(&self, claimed: Vec<(Partition, Epoch)>) -> PartitionSet {
        let mut state = self.state();
        for (partition, epoch) in &claimed {
            state.epochs[usize::from(partition.0)] = Some(*epoch);
            state.tenure = state.tenure.max(epoch.0);
        }
        drop(state);
        claimed.into_iter().map(|(partition, _)| partition).collect()
    }

    pub(super) fn writer(&self) -> Writer {
        self.state().writer
    }

    pub(super) fn rights(&self) -> Rights {
        let state = self.state();
        Rights::new(state.writer, state.tenure)
    }

    /// Counts a group that was committed.
    pub(super) fn committed(&self) {
        self.state().writer.number += 1;
    }

    /// The writer's row in the database; fenced for good if there is none.
    pub(super) async fn read_writer(&self, link: &Link) -> Result<(Writer, Vec<i64>), Error> {
        let node = self.writer().node;
        let found = link.read(|client| async move {
            let row =
                "SELECT incarnation, fence, number, bases FROM callboard.writer WHERE node = $1";
            client.query_typed(row, &[(&node, Type::UUID)]).await
        });
        let found = found.await?;
        let absent = Writer { node, incarnation: -1, fence: -1, number: -1 };
        Ok(found.first().map_or((absent, Vec::new()), |row| {
            let (incarnation, fence, number) = (row.get(0), row.get(1), row.get(2));
            (Writer { node, incarnation, fence, number }, row.get(3))
        }))
    }

    /// Takes over the epochs that were read, unless a claim has come since `known`.
    fn follow(&self, known: &[Option<Epoch>], rows: &[PartitionRow]) {
        let mut state = self.state();
        if state.epochs == known {
            state.follow(rows);
        }
    }

    /// Learns from the database which partitions are still owned.
    pub(super) async fn reload(&self, link: &Link) -> Result<(), Error> {
        // The fence first: a claim after it is read moves it on, and the next commit is refused again.
        let (now, _) = self.read_writer(link).await?;
        let rows = partitions(link).await?;
        let mut state = self.state();
        if now.incarnation == state.writer.incarnation {
            state.writer = now;
            state.follow(&rows);
        } else {
            state.epochs.fill(None);
        }
        Ok(())
    }
}

impl State {
    /// Forgets the partitions that another node owns, or that this one has under another epoch. A row that is
    /// older than the node's claim says nothing about it: epochs ascend.
    fn follow(&mut self, rows: &[PartitionRow]) {
        let me = NodeId(self.writer.node.0);
        for (known, row) in self.epochs.iter_mut().zip(rows) {
            let held = (row.owner == Some(me)).then_some(row.epoch);
            known.take_if(|known| row.epoch >= *known && Some(*known) != held);
        }
    }
}

async fn partitions(link: &Link) -> Result<Vec<PartitionRow>, Error> {
    let found = link.read(|client| async move {
        client.query_typed("SELECT owner, epoch FROM callboard.part ORDER BY p", &[]).await
    });
    let row = |row: &tokio_postgres::Row| PartitionRow {
        owner: row.get::<_, Option<Uuid>>(0).map(|id| NodeId(id.0)),
        epoch: Epoch(row.get::<_, i64>(1).cast_unsigned()),
    };
    Ok(found.await?.iter().map(row).collect())
}

async fn nodes(link: &Link) -> Result<Vec<NodeRow>, Error> {
    let found = link.read(|client| async move {
        let nodes = "SELECT id, incarnation, address, version, draining, report, \
                     (extract(epoch FROM expires - clock_timestamp()) * 1000)::bigint \
                     FROM callboard.node ORDER BY id";
        client.query_typed(nodes, &[]).await
    });
    let millis = |count: i64| Duration::from_millis(u64::try_from(count).unwrap_or(0));
    let node = |row: &tokio_postgres::Row| NodeRow {
        id: NodeId(row.get::<_, Uuid>(0).0),
        incarnation: row.get::<_, i64>(1).cast_unsigned(),
        address: row.get(2),
        version: row.get(3),
        is_draining: row.get(4),
        report: Bytes::copy_from_slice(row.get(5)),
        expires_in: millis(row.get(6)),
        expired_for: millis(-row.get::<_, i64>(6)),
    };
    Ok(found.await?.iter().map(node).collect())
}

fn numbers(partitions: PartitionSet) -> Vec<i16> {
    partitions.iter().map(|partition| i16::from(partition.0)).collect()
}

impl PostgresStore {
    /// Calls a function whose last argument is the term.
    async fn call(
        &self,
        sql: &str,
        arguments: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<tokio_postgres::Row>, Error> {
        self.link.read(|client| async move { client.query(sql, arguments).await }).await
    }

    /// The partitions of `wanted` that a claim after the epoch `before` gave to this node, whose answer was
    /// lost with its connection: no commit has named their epochs.
    async fn unheard(
        &self,
        wanted: PartitionSet,
        before: Epoch,
    ) -> Result<Vec<(Partition, Epoch)>, Error> {
        let known = self.owned.writer();
        if self.owned.read_writer(&self.link).await?.0.incarnation != known.incarnation {
            // Another process is this node now.
            return Ok(Vec::new());
        }
        let rows = partitions(&self.link).await?;
        let rows = (0..=u8::MAX).map(Partition).zip(rows);
        let is_unheard = |(partition, row): &(Partition, PartitionRow)| {
            wanted.contains(*partition) && row.owner == Some(self.id()) && row.epoch > before
        };
        Ok(rows.filter(is_unheard).map(|(partition, row)| (partition, row.epoch)).collect())
    }

    fn term_ms(&self) -> f64 {
        self.term.as_secs_f64()
    }
}

impl Ownership for PostgresStore {
    fn id(&self) -> NodeId {
        NodeId(self.owned.writer().node.0)
    }

    fn term(&self) -> Duration {
        self.term
    }

    fn join<'a>(&'a self, address: &'a str) -> ReadFuture<'a, ()> {
        Box::pin(async move {
            let node = self.owned.writer().node;
            let join = "SELECT * FROM callboard.join_1($1, $2, $3, make_interval(secs => $4))";
            let rows = self.call(join, &[&node, &address, &PROGRAM, &self.term_ms()]).await?;
            let row = rows.first().ok_or(Error::Stopped)?;
            let mut state = self.owned.state();
            state.writer =
                Writer { node, incarnation: row.get(0), fence: row.get(1), number: row.get(2) };
            state.epochs.fill(None);
            Ok(())
        })
    }

    fn renew(&self, report: Bytes) -> ReadFuture<'_, View> {
        Box::pin(async move {
            let Writer { node, incarnation, .. } = self.owned.writer();
            let renew = "SELECT callboard.renew_1($1, $2, make_interval(secs => $3), $4)";
            let report = &report[..];
            let arguments: [&(dyn ToSql + Sync); 4] =
                [&node, &incarnation, &self.term_ms(), &report];
            let call = self.call(renew, &arguments);
            let rows = self.link.warn_if_silent(self.term / 2, call).await?;
            self.link.works();
            if !rows.first().is_some_and(|row| row.get(0)) {
                self.owned.state().epochs.fill(None);
                return Err(Error::Stopped);
            }
            let known = self.owned.state().epochs.clone();
            let partitions = partitions(&self.link).await?;
            self.owned.follow(&known, &partitions);
            Ok(View { nodes: nodes(&self.link).await?, partitions })
        })
    }

    fn fault(&self) -> Option<String> {
        self.link.fault()
    }

    fn claim(&self, wanted: PartitionSet) -> ReadFuture<'_, PartitionSet> {
        Box::pin(async move {
            let Writer { node, incarnation, .. } = self.owned.writer();
            let before = self.owned.tenure();
            let claim = "SELECT gained, claimed FROM \
                         callboard.claim_3($1, $2, $3, make_interval(secs => $4), $5, $6)";
            let (asked, term, version) = (numbers(wanted), self.term_ms(), ROWS.cast_signed());
            let arguments: [&(dyn ToSql + Sync); 6] =
                [&node, &incarnation, &asked, &term, &version, &PROGRAM];
            let rows = self.call(claim, &arguments).await?;
            if rows.is_empty() {
                // A newer program may have been active since this node joined.
                schema::check_rows(&self.link).await?;
            }
            let mut claimed = Vec::with_capacity(rows.len());
            for row in &rows {
                let at = u8::try_from(row.get::<_, i16>(0)).map_err(|_| Error::Stopped)?;
                claimed.push((Partition(at), Epoch(row.get::<_, i64>(1).cast_unsigned())));
            }
            if claimed.len() < wanted.len() {
                claimed.extend(self.unheard(wanted, Epoch(before)).await?);
            }
            let gained = self.owned.gain(claimed);
            if !gained.is_empty() {
                self.load_index();
            }
            Ok(gained)
        })
    }

    fn release(&self, partitions: PartitionSet) -> ReadFuture<'_, ()> {
        Box::pin(async move {
            for partition in partitions.iter() {
                self.owned.state().epochs[usize::from(partition.0)] = None;
            }
            let Writer { node, incarnation, .. } = self.owned.writer();
            let release = "SELECT callboard.release_1($1, $2, $3)";
            self.call(release, &[&node, &incarnation, &numbers(partitions)]).await.map(|_| ())
        })
    }

    fn drain(&self, node: NodeId, is_draining: bool) -> ReadFuture<'_, bool> {
        Box::pin(async move {
            let drain = "UPDATE callboard.node SET draining = $2 WHERE id = $1 RETURNING id";
            Ok(!self.call(drain, &[&Uuid(node.0), &is_draining]).await?.is_empty())
        })
    }

    fn leave(&self) -> ReadFuture<'_, ()> {
        Box::pin(async move {
            self.release(PartitionSet::ALL).await?;
            let Writer { node, incarnation, .. } = self.owned.writer();
            let leave = "DELETE FROM callboard.node WHERE id = $1 AND incarnation = $2";
            self.call(leave, &[&node, &incarnation]).await.map(|_| ())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_from_before_a_claim_take_nothing_of_it_away() {
        let me = NodeId(7);
        let owned = Owned::new(me);
        let row = |owner, epoch| PartitionRow { owner, epoch: Epoch(epoch) };
        let after = |row: PartitionRow| {
            owned.gain(vec![(Partition(3), Epoch(5))]);
            let mut rows = vec![free(); PARTITIONS];
            rows[3] = row;
            owned.state().follow(&rows);
            owned.epoch(Partition(3))
        };
        assert_eq!(after(row(None, 4)), Some(Epoch(5)), "released before the claim");
        assert_eq!(after(row(Some(NodeId(8)), 4)), Some(Epoch(5)), "another's before the claim");
        assert_eq!(after(row(Some(me), 5)), Some(Epoch(5)), "the claim itself");
        assert_eq!(after(row(None, 5)), None, "released");
        assert_eq!(after(row(Some(NodeId(8)), 6)), None, "claimed by another");
    }

    fn free() -> PartitionRow {
        PartitionRow { owner: None, epoch: Epoch(0) }
    }
}
