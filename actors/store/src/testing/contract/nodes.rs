//! Ownership: claims, releases, expiry and fencing, with several nodes.
#![expect(missing_docs, reason = "the names are sentences")]
#![expect(clippy::missing_panics_doc, reason = "a check panics if the store fails it")]

use std::time::Duration;

use bytes::Bytes;

use super::{batch, put, value};
use crate::batch::{Entry, Epoch, Key, LogId, Op, Partition};
use crate::ownership::{NodeId, Ownership, PartitionSet, View};
use crate::query::{Order, Query};
use crate::{Outcome, Store};

const LOG: LogId = LogId(1);
const P: Partition = Partition(200);

/// A store that several nodes share.
pub trait ClusterFixture: Sized {
    /// A node's connection.
    type Node: Store + Ownership;

    /// An empty store in which a node's row expires after `term`.
    fn new(term: Duration) -> Self;

    /// A new process of the node `id`.
    fn node(&self, id: NodeId) -> impl Future<Output = Self::Node>;

    /// Lets the row of the node expire now.
    fn expire(&self, id: NodeId);

    /// Lets the row of the node have been alive for a term.
    fn ripen(&self, id: NodeId);
}

/// Makes a test module `$name` of every check of ownership, for the [`ClusterFixture`] `$fixture`; or,
/// after `together`, one test of all checks.
#[macro_export]
macro_rules! ownership_tests {
    (together $name:ident, $fixture:ty) => {
        $crate::ownership_tests!(@list together $name, $fixture);
    };
    ($name:ident, $fixture:ty) => {
        $crate::ownership_tests!(@list each $name, $fixture);
    };
    (@list $how:ident $name:ident, $fixture:ty) => {
        $crate::ownership_tests!(@$how $name, $fixture:
            a_first_claim_gains_everything,
            a_live_owner_keeps_its_partitions,
            a_released_partition_is_claimed_at_once_and_its_old_owner_is_fenced,
            an_expired_owner_is_replaced_and_fenced,
            a_node_that_joins_again_owns_nothing_and_its_old_process_is_stopped,
            a_node_that_has_just_joined_waits_a_term_before_it_takes_over,
            every_node_hears_the_records_of_all,
            a_scan_of_some_partitions_has_their_rows_only,
            a_drained_node_is_marked_and_a_leaving_one_is_gone,
            a_row_that_another_owner_has_changed_is_listed_once,
            a_new_owner_knows_how_far_the_last_one_had_trimmed,
        );
    };
    (@each $name:ident, $fixture:ty: $($check:ident),* $(,)?) => {
        mod $name {
            use super::*;

            $(
                #[test]
                fn $check() {
                    $crate::testing::contract::block_on($crate::testing::contract::$check::<$fixture>());
                }
            )*
        }
    };
    (@together $name:ident, $fixture:ty: $($check:ident),* $(,)?) => {
        #[test]
        fn $name() {
            $(
                eprintln!(stringify!($check));
                $crate::testing::contract::block_on($crate::testing::contract::$check::<$fixture>());
            )*
        }
    };
}

/// Long enough for the machine to be slow between two calls.
const LONG: Duration = Duration::from_mins(10);

async fn joined<F: ClusterFixture>(cluster: &F, id: u128) -> F::Node {
    let node = cluster.node(NodeId(id)).await;
    node.join(&format!("node-{id}:1")).await.expect("the store answers");
    node
}

async fn claim(node: &impl Ownership) -> PartitionSet {
    node.claim(PartitionSet::ALL).await.expect("the store answers")
}

async fn renew(node: &impl Ownership) -> View {
    node.renew(Bytes::from_static(b"report")).await.expect("the store answers")
}

async fn write(node: &impl Store, epoch: Epoch, n: u8, text: &str) -> Outcome {
    let mut batch = batch(vec![put(n, text), Op::Append { log: LOG, record: value(text) }]);
    batch.guards.push((P, epoch));
    node.commit(batch).await
}

fn epoch(node: &impl Store) -> Epoch {
    node.epoch(P).expect("the node owns the partition")
}

pub async fn a_first_claim_gains_everything<F: ClusterFixture>() {
    let cluster = F::new(LONG);
    let node = joined(&cluster, 1).await;
    assert_eq!(node.epoch(P), None);
    assert_eq!(claim(&node).await, PartitionSet::ALL);
    assert_eq!(claim(&node).await, PartitionSet::EMPTY);
    assert!(matches!(write(&node, epoch(&node), 1, "a").await, Outcome::Committed));
    let view = renew(&node).await;
    assert_eq!(view.owned_by(NodeId(1)), PartitionSet::ALL);
    let me = view.owner(P).expect("the owner has a row");
    assert_eq!(
        (me.address.as_str(), &*me.report, me.is_alive()),
        ("node-1:1", &b"report"[..], true)
    );
}

pub async fn a_live_owner_keeps_its_partitions<F: ClusterFixture>() {
    let cluster = F::new(LONG);
    let (first, second) = (joined(&cluster, 1).await, joined(&cluster, 2).await);
    claim(&first).await;
    assert_eq!(claim(&second).await, PartitionSet::EMPTY);
    assert_eq!(second.epoch(P), None);
    assert_eq!(renew(&second).await.owned_by(NodeId(1)), PartitionSet::ALL);
}

pub async fn a_released_partition_is_claimed_at_once_and_its_old_owner_is_fenced<
    F: ClusterFixture,
>() {
    let cluster = F::new(LONG);
    let (first, second) = (joined(&cluster, 1).await, joined(&cluster, 2).await);
    claim(&first).await;
    let old = epoch(&first);
    let released = [P].into_iter().collect();
    first.release(released).await.expect("the store answers");
    assert_eq!(first.epoch(P), None);
    assert_eq!(claim(&second).await, released);
    assert!(epoch(&second) > old);
    assert!(matches!(write(&first, old, 1, "zombie").await, Outcome::Fenced));
    assert!(matches!(write(&second, epoch(&second), 1, "owner").await, Outcome::Committed));
    assert_eq!(second.get(&super::key(1)).await.expect("the store answers"), Some(value("owner")));
}

pub async fn an_expired_owner_is_replaced_and_fenced<F: ClusterFixture>() {
    let cluster = F::new(LONG);
    let (first, second) = (joined(&cluster, 1).await, joined(&cluster, 2).await);
    claim(&first).await;
    let old = epoch(&first);
    cluster.expire(NodeId(1));
    assert_eq!(claim(&second).await, PartitionSet::EMPTY);
    cluster.ripen(NodeId(2));
    assert_eq!(claim(&second).await, PartitionSet::ALL);
    // The first node knows nothing of it until it writes.
    assert_eq!(first.epoch(P), Some(old));
    assert!(matches!(write(&first, old, 1, "zombie").await, Outcome::Fenced));
    assert_eq!(first.epoch(P), None);
    let view = renew(&first).await;
    assert_eq!((view.owned_by(NodeId(1)), first.epoch(Partition(0))), (PartitionSet::EMPTY, None));
    assert_eq!(second.get(&super::key(1)).await.expect("the store answers"), None);
}

pub async fn a_node_that_joins_again_owns_nothing_and_its_old_process_is_stopped<
    F: ClusterFixture,
>() {
    let cluster = F::new(LONG);
    let first = joined(&cluster, 1).await;
    claim(&first).await;
    let old = epoch(&first);
    let again = joined(&cluster, 1).await;
    assert_eq!(claim(&again).await, PartitionSet::ALL);
    assert!(epoch(&again) > old);
    assert!(matches!(write(&first, old, 1, "zombie").await, Outcome::Fenced));
    assert!(matches!(first.renew(Bytes::new()).await, Err(crate::Error::Stopped)));
}

pub async fn a_node_that_has_just_joined_waits_a_term_before_it_takes_over<F: ClusterFixture>() {
    let cluster = F::new(LONG);
    let first = joined(&cluster, 1).await;
    claim(&first).await;
    cluster.ripen(NodeId(1));
    cluster.expire(NodeId(1));
    // As after an outage: everybody's row has expired, and the owner is about to renew.
    let second = joined(&cluster, 2).await;
    assert_eq!(claim(&second).await, PartitionSet::EMPTY);
    let view = renew(&first).await;
    assert_eq!(view.owned_by(NodeId(1)), PartitionSet::ALL);
    assert!(matches!(write(&first, epoch(&first), 1, "a").await, Outcome::Committed));
}

pub async fn every_node_hears_the_records_of_all<F: ClusterFixture>() {
    let cluster = F::new(LONG);
    let (first, second) = (joined(&cluster, 1).await, joined(&cluster, 2).await);
    claim(&first).await;
    let released = [P].into_iter().collect();
    let own = Partition(1);
    let mut tails = [first.tail(), second.tail()];
    first.release(released).await.expect("the store answers");
    claim(&second).await;
    for n in 0..10 {
        let mut other = batch(vec![Op::Append { log: LOG, record: value("first") }]);
        other.guards.push((own, first.epoch(own).expect("the first node owns it")));
        assert!(matches!(first.commit(other).await, Outcome::Committed));
        assert!(matches!(write(&second, epoch(&second), n, "second").await, Outcome::Committed));
    }
    for tail in &mut tails {
        let mut heard = Vec::new();
        while heard.len() < 20 {
            heard.extend(tail.recv().await.expect("the tail is open"));
        }
        for (at, record) in (1..).zip(heard) {
            let text = if at % 2 == 1 { "first" } else { "second" };
            assert_eq!((record.sequence, record.bytes), (at, value(text)));
        }
    }
}

pub async fn a_scan_of_some_partitions_has_their_rows_only<F: ClusterFixture>() {
    let cluster = F::new(LONG);
    let node = joined(&cluster, 1).await;
    claim(&node).await;
    let key = |n: u8| Key::new(1, 1, &u128::from(n).to_be_bytes());
    for n in 0..4 {
        let mut batch = batch(vec![Op::Put { key: key(n), value: value("a"), entry: None }]);
        let partition = Partition(n);
        batch.guards.push((partition, node.epoch(partition).expect("the node owns it")));
        assert!(matches!(node.commit(batch).await, Outcome::Committed));
    }
    let some = [Partition(1), Partition(3)].into_iter().collect();
    let rows = node.scan_partitions(some, key(0), key(255), 10).await.expect("the store answers");
    assert_eq!(rows.iter().map(|(key, _)| key.0[17]).collect::<Vec<_>>(), [1, 3]);
}

pub async fn a_drained_node_is_marked_and_a_leaving_one_is_gone<F: ClusterFixture>() {
    let cluster = F::new(LONG);
    let (first, second) = (joined(&cluster, 1).await, joined(&cluster, 2).await);
    claim(&first).await;
    assert!(second.drain(NodeId(1), true).await.expect("the store answers"));
    assert!(!second.drain(NodeId(9), true).await.expect("the store answers"));
    assert!(renew(&first).await.node(NodeId(1)).is_some_and(|node| node.is_draining));
    first.leave().await.expect("the store answers");
    assert_eq!(claim(&second).await, PartitionSet::ALL);
    assert_eq!(renew(&second).await.nodes.len(), 1);
}

pub async fn a_row_that_another_owner_has_changed_is_listed_once<F: ClusterFixture>() {
    let cluster = F::new(LONG);
    let (first, second) = (joined(&cluster, 1).await, joined(&cluster, 2).await);
    claim(&first).await;
    let listed = async |node: &F::Node, list: u8, term: &str| {
        let terms = vec![(1, term.as_bytes().into())];
        let entry = Some(Entry { list: [1, list], terms, ..Entry::default() });
        let key = Key::new(Key::FIRST_LISTED, 1, &[7; 16]);
        let mut batch = batch(vec![Op::Put { key, value: value(term), entry }]);
        batch.guards.push((P, epoch(node)));
        assert!(matches!(node.commit(batch).await, Outcome::Committed));
    };
    let totals = async |node: &F::Node| {
        let mut totals = Vec::new();
        for list in 1..=3 {
            totals.push(total(node, list).await);
        }
        totals
    };
    listed(&first, 1, "a").await;
    listed(&first, 1, "b").await;
    for (from, to, id, list) in [(&first, &second, 2, 2), (&second, &first, 1, 3)] {
        renew(to).await;
        cluster.ripen(NodeId(id));
        from.release(PartitionSet::ALL).await.expect("the store answers");
        assert_eq!(claim(to).await, PartitionSet::ALL);
        // The index is loaded when it answers.
        totals(to).await;
        listed(to, list, "a").await;
        listed(to, list, "b").await;
    }
    assert_eq!(totals(&first).await, [0, 0, 1]);
}

/// The number of rows in a list.
async fn total(node: &impl Store, list: u8) -> u64 {
    let query = Query {
        list: [1, list],
        filters: Vec::new(),
        order: Order::Document,
        descending: false,
        offset: 0,
        limit: 10,
    };
    node.query(&query).await.expect("the store answers").total
}

pub async fn a_new_owner_knows_how_far_the_last_one_had_trimmed<F: ClusterFixture>() {
    let cluster = F::new(LONG);
    let first = joined(&cluster, 1).await;
    claim(&first).await;
    for _ in 0..10 {
        write(&first, epoch(&first), 1, "a").await;
    }
    let (second, third) = (joined(&cluster, 2).await, joined(&cluster, 3).await);
    let trim = |node: &F::Node, before| {
        let mut batch = batch(vec![Op::Trim { log: LOG, before }]);
        batch.guards.push((P, epoch(node)));
        node.commit(batch)
    };
    for _ in 0..10 {
        write(&first, epoch(&first), 1, "b").await;
    }
    assert!(matches!(trim(&first, 15).await, Outcome::Committed));
    first.release(PartitionSet::ALL).await.expect("the store answers");
    claim(&second).await;
    assert!(matches!(write(&second, epoch(&second), 1, "c").await, Outcome::Committed));
    assert_eq!(second.log_bounds(LOG).await.expect("the store answers"), (15, 21));

    second.release(PartitionSet::ALL).await.expect("the store answers");
    claim(&third).await;
    assert!(matches!(trim(&third, 18).await, Outcome::Committed));
    assert_eq!(third.log_bounds(LOG).await.expect("the store answers"), (18, 21));
}
