use callboard_store::testing::memory::{Cluster, MemoryStore};
use callboard_store::{Batch, BatchId, Outcome, ReadFuture, Store};

use super::*;

const TERM: Duration = Duration::from_secs(5);

struct Member {
    store: Arc<MemoryStore>,
    membership: Membership,
}

impl Member {
    async fn join(cluster: &Cluster, number: u128) -> Self {
        let store = Arc::new(cluster.node(NodeId(number)));
        Self::join_by(store.clone(), store, number).await
    }

    /// A node whose claims are answered late.
    async fn join_slow(cluster: &Cluster, number: u128, claim: Duration) -> Self {
        let store = Arc::new(cluster.node(NodeId(number)));
        Self::join_by(Arc::new(SlowClaims { store: store.clone(), claim }), store, number).await
    }

    async fn join_by(ownership: Arc<dyn Ownership>, store: Arc<MemoryStore>, number: u128) -> Self {
        let membership = Membership::join(ownership, &format!("http://node-{number}")).await;
        Self { store, membership: membership.expect("it joins") }
    }

    /// Waits until the node has this part.
    async fn is(&self, wanted: impl Fn(&Standing) -> bool) -> Standing {
        let mut standing = self.membership.standing();
        let found = tokio::time::timeout(4 * TERM, standing.wait_for(wanted)).await;
        found.expect("in time").expect("it is a member").clone()
    }

    async fn is_active(&self) -> Standing {
        self.is(|it| matches!(it, Standing::Active(_))).await
    }

    async fn follows(&self, number: u128) {
        let active = Standing::Standby(Some(format!("http://node-{number}")));
        self.is(|it| *it == active).await;
    }

    /// Commits with the epochs of now.
    async fn commit(&self, epoch: callboard_store::Epoch) -> Outcome {
        let guards = vec![(Partition(7), epoch)];
        self.store.commit(Batch { id: BatchId(1), guards, ops: Vec::new() }).await
    }

    fn epoch(&self) -> callboard_store::Epoch {
        self.store.epoch(Partition(7)).expect("the node owns it")
    }
}

/// A node's ownership over a database that takes its time for a claim.
struct SlowClaims {
    store: Arc<MemoryStore>,
    claim: Duration,
}

impl Ownership for SlowClaims {
    fn id(&self) -> NodeId {
        self.store.id()
    }

    fn term(&self) -> Duration {
        self.store.term()
    }

    fn join<'a>(&'a self, address: &'a str) -> ReadFuture<'a, ()> {
        self.store.join(address)
    }

    fn renew(&self, report: Bytes) -> ReadFuture<'_, View> {
        self.store.renew(report)
    }

    fn claim(&self, partitions: PartitionSet) -> ReadFuture<'_, PartitionSet> {
        Box::pin(async move {
            let claimed = self.store.claim(partitions).await;
            tokio::time::sleep(self.claim).await;
            claimed
        })
    }

    fn release(&self, partitions: PartitionSet) -> ReadFuture<'_, ()> {
        self.store.release(partitions)
    }

    fn drain(&self, node: NodeId, is_draining: bool) -> ReadFuture<'_, bool> {
        self.store.drain(node, is_draining)
    }

    fn leave(&self) -> ReadFuture<'_, ()> {
        self.store.leave()
    }
}

#[tokio::test(start_paused = true)]
async fn one_node_is_active_and_the_others_follow_it() {
    let cluster = Cluster::new(TERM);
    let one = Member::join(&cluster, 1).await;
    one.is_active().await;
    let (two, three) = (Member::join(&cluster, 2).await, Member::join(&cluster, 3).await);
    two.follows(1).await;
    three.follows(1).await;
    tokio::time::sleep(10 * TERM).await;
    assert_eq!(*one.membership.standing().borrow(), Standing::Active(0));
    assert!(one.membership.term().is_current());
}

#[tokio::test(start_paused = true)]
async fn a_dead_node_is_replaced_after_its_term_and_a_leaving_one_at_once() {
    let cluster = Cluster::new(TERM);
    let one = Member::join(&cluster, 1).await;
    one.is_active().await;
    let two = Member::join(&cluster, 2).await;
    two.follows(1).await;
    let died_at = Instant::now();
    drop(one);
    two.is_active().await;
    let pause = died_at.elapsed();
    assert!(pause <= TERM + Duration::from_millis(1_500), "{pause:?}");
    let three = Member::join(&cluster, 3).await;
    three.follows(2).await;
    let left_at = Instant::now();
    two.membership.leave().await;
    three.is_active().await;
    assert!(left_at.elapsed() <= Duration::from_millis(1_500));
}

/// Before: the claims outlasted the term, and the node gave the partitions up again, for ever.
#[tokio::test(start_paused = true)]
async fn a_claim_that_takes_longer_than_a_term_makes_a_node_active() {
    for claim in [TERM / 2, 2 * TERM] {
        let cluster = Cluster::new(TERM);
        let one = Member::join(&cluster, 1).await;
        one.is_active().await;
        let two = Member::join_slow(&cluster, 2, claim).await;
        two.follows(1).await;
        let died_at = Instant::now();
        drop(one);
        two.is_active().await;
        let pause = died_at.elapsed();
        assert!(pause <= TERM + claim + Duration::from_millis(1_500), "{claim:?}: {pause:?}");
        tokio::time::sleep(2 * TERM).await;
        assert_eq!(*two.membership.standing().borrow(), Standing::Active(0), "{claim:?}");
        assert!(two.membership.term().is_current());
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_without_the_store_stops_before_another_may_begin_and_its_commits_are_fenced() {
    for cuts in [MemoryStore::cut_off, MemoryStore::freeze] {
        let cluster = Cluster::new(TERM);
        let one = Member::join(&cluster, 1).await;
        one.is_active().await;
        let two = Member::join(&cluster, 2).await;
        two.follows(1).await;
        tokio::time::sleep(2 * TERM).await;
        let (epoch, term) = (one.epoch(), one.membership.term());
        cuts(&one.store);
        one.is(|it| *it == Standing::Standby(None)).await;
        assert!(!term.is_current());
        assert!(!matches!(*two.membership.standing().borrow(), Standing::Active(_)));
        two.is_active().await;
        one.store.heal();
        one.follows(2).await;
        assert!(matches!(one.commit(epoch).await, Outcome::Fenced));
        assert!(matches!(two.commit(two.epoch()).await, Outcome::Committed));
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_lost_its_term_alone_begins_an_active_period_with_new_epochs() {
    let cluster = Cluster::new(TERM);
    let one = Member::join(&cluster, 1).await;
    assert_eq!(one.is_active().await, Standing::Active(0));
    let epoch = one.epoch();
    one.store.cut_off();
    one.is(|it| *it == Standing::Standby(None)).await;
    one.store.heal();
    assert_eq!(one.is_active().await, Standing::Active(1));
    assert!(matches!(one.commit(epoch).await, Outcome::Fenced));
    let epoch = one.epoch();
    one.membership.release().await;
    assert_eq!(one.is(|it| *it == Standing::Active(2)).await, Standing::Active(2));
    assert!(matches!(one.commit(epoch).await, Outcome::Fenced));
}

#[tokio::test(start_paused = true)]
async fn a_draining_node_hands_over_unless_nobody_else_can_take_over() {
    let cluster = Cluster::new(TERM);
    let one = Member::join(&cluster, 1).await;
    one.is_active().await;
    assert!(one.store.drain(NodeId(1), true).await.expect("the store answers"));
    tokio::time::sleep(2 * TERM).await;
    assert_eq!(*one.membership.standing().borrow(), Standing::Active(0));
    let two = Member::join(&cluster, 2).await;
    one.is(|it| *it == Standing::Standby(None)).await;
    one.membership.ended().await;
    two.is_active().await;
    one.follows(2).await;
}

#[tokio::test(start_paused = true)]
async fn a_leaving_node_learns_which_node_took_over_if_one_can() {
    let cluster = Cluster::new(TERM);
    let one = Member::join(&cluster, 1).await;
    one.is_active().await;
    let epoch = one.epoch();
    let (two, three) = (Member::join(&cluster, 2).await, Member::join(&cluster, 3).await);
    two.follows(1).await;
    three.follows(1).await;
    assert!(three.store.drain(NodeId(3), true).await.expect("the store answers"));
    let left_at = Instant::now();
    assert_eq!(one.membership.hand_over().await.as_deref(), Some("http://node-2"));
    assert!(left_at.elapsed() <= Duration::from_millis(1_500), "{:?}", left_at.elapsed());
    assert!(matches!(one.commit(epoch).await, Outcome::Fenced));
    one.membership.leave().await;
    // A draining node waits until no other can take over.
    let left_at = Instant::now();
    assert_eq!(two.membership.hand_over().await, None);
    two.membership.leave().await;
    three.is_active().await;
    assert!(left_at.elapsed() <= Duration::from_millis(1_500), "{:?}", left_at.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_drained_node_keeps_its_partitions_until_its_active_period_has_ended() {
    for is_said in [true, false] {
        let cluster = Cluster::new(TERM);
        let one = Member::join(&cluster, 1).await;
        one.is_active().await;
        let (two, epoch) = (Member::join(&cluster, 2).await, one.epoch());
        two.follows(1).await;
        assert!(one.store.drain(NodeId(1), true).await.expect("the store answers"));
        one.is(|it| *it == Standing::Standby(None)).await;
        tokio::time::sleep(ENDING / 2).await;
        assert!(matches!(one.commit(epoch).await, Outcome::Committed));
        assert!(!matches!(*two.membership.standing().borrow(), Standing::Active(_)));
        if is_said {
            one.membership.ended().await;
        }
        two.is_active().await;
        assert!(matches!(one.commit(epoch).await, Outcome::Fenced));
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_process_of_a_node_replaces_the_first() {
    let cluster = Cluster::new(TERM);
    let one = Member::join(&cluster, 1).await;
    one.is_active().await;
    let again = Member::join(&cluster, 1).await;
    one.is(|it| *it == Standing::Replaced).await;
    again.is_active().await;
}

#[tokio::test(start_paused = true)]
async fn the_lag_of_a_node_is_the_time_since_its_last_renewal() {
    let cluster = Cluster::new(TERM);
    let one = Member::join(&cluster, 1).await;
    one.is_active().await;
    let two = Member::join(&cluster, 2).await;
    two.follows(1).await;
    let lag = || {
        let view = one.membership.view().borrow().clone().expect("it was read");
        let node = view.node(NodeId(2)).expect("it has joined");
        let report = Report::read(node).expect("it has renewed");
        assert_eq!(report.term(), TERM);
        report.heard_ago(node)
    };
    tokio::time::sleep(2 * TERM).await;
    assert!(lag() <= RENEW, "{:?}", lag());
    drop(two);
    tokio::time::sleep(3 * TERM).await;
    assert!(lag() > 2 * TERM && lag() <= 3 * TERM, "{:?}", lag());
}
