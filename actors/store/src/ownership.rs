//! Ownership of partitions among the nodes that share a store.
//!
//! ```text
//! node ─ join ─▶ a row: incarnation, address, expires = now + term   (the store's clock)
//!      ─ renew ▶ expires = now + term; the view: nodes, owners, epochs
//!      ─ claim ▶ partitions without an owner, or whose owner's row expired: epoch + 1
//!      ─ release, leave
//! ```
//!
//! A commit names the epochs of its partitions, and the store refuses it once one of them has moved on:
//! safety depends on epochs alone, never on clocks. Expiry only decides the moment of a takeover.

use std::time::Duration;

use bytes::Bytes;

use crate::ReadFuture;
use crate::batch::{Epoch, Partition};

/// Identifies a node over its restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u128);

impl std::fmt::Display for NodeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A set of partitions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PartitionSet([u64; 4]);

impl PartitionSet {
    /// No partition.
    pub const EMPTY: Self = Self([0; 4]);
    /// All 256 partitions.
    pub const ALL: Self = Self([u64::MAX; 4]);

    /// True if `partition` is in the set.
    #[must_use]
    pub fn contains(&self, partition: Partition) -> bool {
        self.0[usize::from(partition.0 / 64)] >> (partition.0 % 64) & 1 == 1
    }

    /// Adds a partition.
    pub fn insert(&mut self, partition: Partition) {
        self.0[usize::from(partition.0 / 64)] |= 1 << (partition.0 % 64);
    }

    /// Takes a partition out.
    pub fn remove(&mut self, partition: Partition) {
        self.0[usize::from(partition.0 / 64)] &= !(1 << (partition.0 % 64));
    }

    /// The number of partitions in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// True if no partition is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    /// The partitions in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Partition> + use<> {
        let set = *self;
        (0..=u8::MAX).map(Partition).filter(move |partition| set.contains(*partition))
    }
}

impl FromIterator<Partition> for PartitionSet {
    fn from_iter<I: IntoIterator<Item = Partition>>(partitions: I) -> Self {
        let mut set = Self::EMPTY;
        partitions.into_iter().for_each(|partition| set.insert(partition));
        set
    }
}

impl std::fmt::Debug for PartitionSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter().map(|partition| partition.0)).finish()
    }
}

/// A node's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    /// The node.
    pub id: NodeId,
    /// Grows with each [`Ownership::join`] of the node.
    pub incarnation: u64,
    /// The address at which other nodes reach this one.
    pub address: String,
    /// The version of the node's program.
    pub version: String,
    /// True while the node is asked to give its partitions up.
    pub is_draining: bool,
    /// The time until the node's row expires, by the store's clock; zero once it has expired.
    pub expires_in: Duration,
    /// The time since the node's row expired, by the store's clock; zero before.
    pub expired_for: Duration,
    /// The bytes of the node's last [`Ownership::renew`].
    pub report: Bytes,
}

impl NodeRow {
    /// True if the row has not expired.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        !self.expires_in.is_zero()
    }
}

/// A partition's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionRow {
    /// The owner; `None` before the first claim and after a release. An owner may have expired.
    pub owner: Option<NodeId>,
    /// The epoch of the last claim; 0 before the first.
    pub epoch: Epoch,
}

/// The rows of all nodes and partitions, read at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The nodes, by their ids.
    pub nodes: Vec<NodeRow>,
    /// The 256 partitions.
    pub partitions: Vec<PartitionRow>,
}

impl View {
    /// The row of a node.
    #[must_use]
    pub fn node(&self, id: NodeId) -> Option<&NodeRow> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// The owner's row of a partition, expired or not.
    #[must_use]
    pub fn owner(&self, partition: Partition) -> Option<&NodeRow> {
        let row = self.partitions.get(usize::from(partition.0))?;
        self.node(row.owner?)
    }

    /// The partitions that `node` owns.
    #[must_use]
    pub fn owned_by(&self, node: NodeId) -> PartitionSet {
        let all = (0..=u8::MAX).map(Partition);
        all.zip(&self.partitions)
            .filter(|(_, row)| row.owner == Some(node))
            .map(|(partition, _)| partition)
            .collect()
    }
}

/// One node's part in the ownership of a shared store.
///
/// [`crate::Store::epoch`] of the same node follows: a claim adds a partition; a release, a fenced commit
/// and a view that names another owner take it away.
pub trait Ownership: Send + Sync + 'static {
    /// The node.
    fn id(&self) -> NodeId;

    /// The time from a renewal until the node's row expires.
    fn term(&self) -> Duration;

    /// Writes the node's row with the next incarnation. Partitions that an earlier incarnation owned are
    /// released.
    ///
    /// # Errors
    /// The store's.
    fn join<'a>(&'a self, address: &'a str) -> ReadFuture<'a, ()>;

    /// Extends the node's term, stores `report` for the other nodes, and reads the view.
    ///
    /// # Errors
    /// [`crate::Error::Stopped`] if another process joined as this node; else the store's.
    fn renew(&self, report: Bytes) -> ReadFuture<'_, View>;

    /// The reason why the store does not take the node's calls, without names of hosts and users; `None` once one
    /// succeeds.
    fn fault(&self) -> Option<String> {
        None
    }

    /// Claims the partitions of `partitions` without an owner, or whose owner's row has expired.
    /// Returns those that were gained. After an outage, partitions of expired owners can be claimed
    /// only by a node whose own row has been alive for one term.
    ///
    /// # Errors
    /// The store's.
    fn claim(&self, partitions: PartitionSet) -> ReadFuture<'_, PartitionSet>;

    /// Gives partitions up, for others to claim at once.
    ///
    /// # Errors
    /// The store's.
    fn release(&self, partitions: PartitionSet) -> ReadFuture<'_, ()>;

    /// Asks a node to give its partitions up, or to take some again. Returns false if there is no such node.
    ///
    /// # Errors
    /// The store's.
    fn drain(&self, node: NodeId, is_draining: bool) -> ReadFuture<'_, bool>;

    /// Releases the node's partitions and removes its row.
    ///
    /// # Errors
    /// The store's.
    fn leave(&self) -> ReadFuture<'_, ()>;
}
