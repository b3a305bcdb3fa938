//! One node's membership of a cluster: it keeps the node's row alive, and tells if the node is active.
//!
//! ```text
//! standby ─ partition 0 is free ─▶ claims all, and renews meanwhile ─▶ active
//!    ▲ └ another node owns it: that node is active                │
//!    └──── an epoch moved on, no renewal within a term, drained ──┘
//! ```
//!
//! One node at a time is active, and owns every partition; the others stand by. One call claims all partitions, so two
//! nodes never divide them. Safety rests on the epochs that the store compares in each commit; the term only decides
//! the moment of a takeover.

mod active_period;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use callboard_store::ownership::{NodeId, NodeRow, Ownership, View};
use callboard_store::{Error, Partition, PartitionSet};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub use active_period::{Ended, Part, take_part};

/// The renewals in a term.
const RENEWALS: u32 = 5;
/// The longest time between two renewals.
const RENEW: Duration = Duration::from_secs(1);
/// The longest wait for the end of an active period, after a drain.
const ENDING: Duration = Duration::from_secs(15);
/// The longest wait of a node that leaves for the one that takes its place.
const HAND_OVER: Duration = Duration::from_secs(5);
/// The pause between two looks for that node.
const LOOK: Duration = Duration::from_millis(100);
/// The partition whose owner is the active node.
const FIRST: Partition = Partition(0);

/// The part of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Another node is active, at this address, or none is.
    Standby(Option<String>),
    /// This node owns every partition, and may answer as long as its term lasts. The number tells the
    /// node's active periods apart.
    Active(u64),
    /// Another process joined as this node; this one must end.
    Replaced,
}

/// The words of a node to the others, with each renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    term_ms: u64,
}

impl Report {
    fn of(ownership: &dyn Ownership) -> Bytes {
        let term_ms = u64::try_from(ownership.term().as_millis()).unwrap_or(u64::MAX);
        serde_json::to_vec(&Self { term_ms }).expect("a number is JSON").into()
    }

    /// The report in a node's row; `None` before its first renewal, and from a program without reports.
    #[must_use]
    pub fn read(node: &NodeRow) -> Option<Self> {
        serde_json::from_slice(&node.report).ok()
    }

    /// The length of the node's term.
    #[must_use]
    pub const fn term(self) -> Duration {
        Duration::from_millis(self.term_ms)
    }

    /// The time since the node last renewed its term, by the store's clock.
    #[must_use]
    pub fn heard_ago(self, node: &NodeRow) -> Duration {
        (self.term() + node.expired_for).saturating_sub(node.expires_in)
    }
}

/// The time up to which no other node can have taken over, by this node's clock.
#[derive(Debug, Clone)]
pub struct Term(watch::Receiver<Instant>);

impl Term {
    /// True until the term is over.
    #[must_use]
    pub fn is_current(&self) -> bool {
        Instant::now() < *self.0.borrow()
    }

    /// The time left, unless the term is renewed.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.0.borrow().saturating_duration_since(Instant::now())
    }
}

#[derive(Debug)]
enum Order {
    /// Give every partition up.
    Release(oneshot::Sender<()>),
    /// The active period has ended in order: give every partition up, if the node has stepped down.
    Ended(oneshot::Sender<()>),
    /// Give every partition up, and claim none again: the address of the node that took them.
    HandOver(oneshot::Sender<Option<String>>),
    /// Release everything and end.
    Leave(oneshot::Sender<()>),
}

/// A node's membership.
#[derive(Debug)]
pub struct Membership {
    standing: watch::Receiver<Standing>,
    term: Term,
    view: watch::Receiver<Option<Arc<View>>>,
    orders: mpsc::UnboundedSender<Order>,
    running: JoinHandle<()>,
}

impl Membership {
    /// Joins, and keeps the membership until it is dropped or left.
    ///
    /// # Errors
    /// The store's.
    pub async fn join(ownership: Arc<dyn Ownership>, address: &str) -> Result<Self, Error> {
        let joined_at = Instant::now();
        ownership.join(address).await?;
        let (standing, of_standing) = watch::channel(Standing::Standby(None));
        let (until, of_until) = watch::channel(joined_at + own_term(&*ownership));
        let (view, of_view) = watch::channel(None);
        let (orders, from_orders) = mpsc::unbounded_channel();
        let periods = AtomicU64::new(0);
        let (ending_until, is_leaving) = (None, false);
        let keeper = Keeper { ownership, standing, until, view, periods, ending_until, is_leaving };
        let running = tokio::spawn(keeper.run(from_orders));
        let term = Term(of_until);
        Ok(Self { standing: of_standing, term, view: of_view, orders, running })
    }

    /// The node's part, which changes.
    #[must_use]
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.clone()
    }

    /// The node's term.
    #[must_use]
    pub fn term(&self) -> Term {
        self.term.clone()
    }

    /// The cluster as it was read last.
    #[must_use]
    pub fn view(&self) -> watch::Receiver<Option<Arc<View>>> {
        self.view.clone()
    }

    /// Gives every partition up; this node or another one claims them again. The caller has stopped
    /// all writers of these partitions.
    pub async fn release(&self) {
        self.order(Order::Release).await;
    }

    /// Hands over after a drain: the caller has ended the active period.
    pub async fn ended(&self) {
        self.order(Order::Ended).await;
    }

    /// Gives every partition up for good; the caller has ended its active period. Returns the address of the node that
    /// took them, `None` if there is none within five seconds or none that could.
    pub async fn hand_over(&self) -> Option<String> {
        self.order(Order::HandOver).await.flatten()
    }

    /// Leaves the cluster, so that another node takes over at once.
    pub async fn leave(self) {
        self.order(Order::Leave).await;
    }

    /// The answer to an order; a membership without a keeper has nothing to give up.
    async fn order<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> Option<T> {
        let (done, is_done) = oneshot::channel();
        let _ = self.orders.send(order(done));
        is_done.await.ok()
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// The next thing to do about ownership.
#[derive(Debug, PartialEq, Eq)]
enum Move {
    /// Nothing: the part stays as it is.
    Stay,
    /// Stop being active.
    StepDown,
    /// Claim all.
    Claim,
    /// Give these up.
    Release(PartitionSet),
    /// Wait for the node at this address.
    Follow(String),
}

/// The term by the node's own clock: the term ends before the row expires, also if a timer is late.
fn own_term(ownership: &dyn Ownership) -> Duration {
    ownership.term() / 10 * 9
}

/// True if this node can take over from `me`.
fn can_replace(node: &NodeRow, me: NodeId) -> bool {
    node.id != me && node.is_alive() && !node.is_draining
}

/// Decides by a view, for a node that is active or not.
fn decide(view: &View, me: NodeId, is_active: bool) -> Move {
    let own = view.owned_by(me);
    let is_draining = view.node(me).is_some_and(|node| node.is_draining);
    let is_replaceable = is_draining && view.nodes.iter().any(|it| can_replace(it, me));
    if is_active {
        let is_complete = own == PartitionSet::ALL;
        return if is_complete && !is_replaceable { Move::Stay } else { Move::StepDown };
    }
    let other = view.owner(FIRST).filter(|owner| owner.id != me && owner.is_alive());
    if !own.is_empty() {
        // Claimed again, they have a new epoch: commits of the active period before are fenced.
        return Move::Release(own);
    }
    if let Some(owner) = other {
        return Move::Follow(owner.address.clone());
    }
    if is_replaceable { Move::Stay } else { Move::Claim }
}

struct Keeper {
    ownership: Arc<dyn Ownership>,
    standing: watch::Sender<Standing>,
    until: watch::Sender<Instant>,
    view: watch::Sender<Option<Arc<View>>>,
    periods: AtomicU64,
    /// The end of the wait for the end of an active period, after a drain.
    ending_until: Option<Instant>,
    /// True once the node has handed over for good.
    is_leaving: bool,
}

impl Keeper {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let pause = self.pause();
        loop {
            let asked_at = Instant::now();
            self.renew(asked_at).await;
            if *self.standing.borrow() == Standing::Replaced {
                return;
            }
            let until = *self.until.borrow();
            let wake_at =
                if self.is_active() { until.min(asked_at + pause) } else { asked_at + pause };
            let order = tokio::time::timeout_at(wake_at, orders.recv()).await;
            match order {
                Err(_) => {}
                Ok(None) => return,
                Ok(Some(Order::Release(done))) => {
                    self.give_up(PartitionSet::ALL).await;
                    let _ = done.send(());
                }
                Ok(Some(Order::Ended(done))) => {
                    if self.ending_until.is_some() {
                        self.give_up(PartitionSet::ALL).await;
                    }
                    let _ = done.send(());
                }
                Ok(Some(Order::HandOver(done))) => {
                    let _ = done.send(self.hand_over().await);
                }
                Ok(Some(Order::Leave(done))) => {
                    self.set(Standing::Standby(None));
                    let left = tokio::time::timeout(self.ownership.term(), self.ownership.leave());
                    if let Ok(Err(error)) = left.await {
                        tracing::warn!(%error, "the node's row stays until its term is over");
                    }
                    let _ = done.send(());
                    return;
                }
            }
        }
    }

    /// Renews the term and acts on the view. A renewal that takes too long, or fails, ends the active
    /// part with the term.
    async fn renew(&mut self, asked_at: Instant) {
        let until = *self.until.borrow();
        let term = self.ownership.term();
        let limit = if self.is_active() { until } else { asked_at + term };
        match tokio::time::timeout_at(limit, self.ownership.renew(self.report())).await {
            Ok(Ok(view)) => {
                let view = self.renewed(asked_at, view);
                self.act(&view).await;
            }
            Ok(Err(Error::Stopped)) => {
                tracing::error!("another process joined the cluster as this node");
                self.set(Standing::Replaced);
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "the node's term could not be renewed");
                self.expire(until);
            }
            Err(_) => {
                tracing::warn!("the node's term could not be renewed in time");
                self.expire(until);
            }
        }
    }

    fn report(&self) -> Bytes {
        Report::of(&*self.ownership)
    }

    fn expire(&self, until: Instant) {
        if Instant::now() >= until {
            self.set(Standing::Standby(None));
        }
    }

    async fn act(&mut self, view: &View) {
        match decide(view, self.ownership.id(), self.is_active()) {
            Move::Stay => {}
            Move::StepDown => {
                let is_complete = view.owned_by(self.ownership.id()) == PartitionSet::ALL;
                self.ending_until = is_complete.then(|| Instant::now() + ENDING);
                self.set(Standing::Standby(None));
            }
            // The caller ends its active period, and says so.
            Move::Release(_) if self.ending_until.is_some_and(|until| Instant::now() < until) => {}
            Move::Release(own) => self.give_up(own).await,
            Move::Follow(address) => self.set(Standing::Standby(Some(address))),
            Move::Claim if self.is_leaving => {}
            Move::Claim => {
                self.set(Standing::Standby(None));
                match self.claim().await {
                    Ok(true) => {
                        let period = self.periods.fetch_add(1, Ordering::Relaxed);
                        self.set(Standing::Active(period));
                    }
                    Ok(false) => {}
                    Err(error) => tracing::warn!(%error, "the partitions could not be claimed"),
                }
            }
        }
    }

    /// Remembers a renewal that was asked for at this time.
    fn renewed(&self, asked_at: Instant, view: View) -> Arc<View> {
        self.until.send_replace(asked_at + own_term(&*self.ownership));
        let view = Arc::new(view);
        self.view.send_replace(Some(Arc::clone(&view)));
        view
    }

    /// Claims every partition, however long the database takes: the node's row stays alive meanwhile. True if
    /// this node owns all of them now, under a term that has just begun.
    async fn claim(&self) -> Result<bool, Error> {
        let claimed = tokio::select! {
            claimed = self.ownership.claim(PartitionSet::ALL) => claimed?,
            never = self.stay_alive() => match never {},
        };
        if claimed != PartitionSet::ALL {
            return Ok(false);
        }
        let asked_at = Instant::now();
        self.renewed(asked_at, self.ownership.renew(self.report()).await?);
        Ok(true)
    }

    /// Renews the node's term until the call is dropped.
    async fn stay_alive(&self) -> Infallible {
        loop {
            tokio::time::sleep(self.pause()).await;
            let asked_at = Instant::now();
            match self.ownership.renew(self.report()).await {
                Ok(view) => drop(self.renewed(asked_at, view)),
                Err(error) => tracing::warn!(%error, "the node's term could not be renewed"),
            }
        }
    }

    fn pause(&self) -> Duration {
        RENEW.min(self.ownership.term() / RENEWALS)
    }

    async fn give_up(&mut self, partitions: PartitionSet) {
        self.ending_until = None;
        self.set(Standing::Standby(None));
        if let Err(error) = self.ownership.release(partitions).await {
            tracing::warn!(%error, "the partitions stay until the node's term is over");
        }
    }

    /// Gives every partition up, and looks for the node that takes them.
    async fn hand_over(&mut self) -> Option<String> {
        self.is_leaving = true;
        let me = self.ownership.id();
        let handing_over = async {
            self.give_up(PartitionSet::ALL).await;
            loop {
                let view = self.ownership.renew(self.report()).await.ok()?;
                let other = view.owner(FIRST).filter(|owner| owner.id != me && owner.is_alive());
                if let Some(owner) = other {
                    return Some(owner.address.clone());
                }
                if !view.nodes.iter().any(|node| can_replace(node, me)) {
                    return None;
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(HAND_OVER, handing_over).await.ok().flatten()
    }

    fn is_active(&self) -> bool {
        matches!(*self.standing.borrow(), Standing::Active(_))
    }

    fn set(&self, standing: Standing) {
        self.standing.send_if_modified(|current| {
            let changes = *current != standing;
            *current = standing;
            changes
        });
    }
}

#[cfg(test)]
mod tests;
