//! The settings of a queue at work: the obstacles to its leases, and changes by operators.

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::event::EventName;
use callboard_domain::id::TaskId;
use callboard_domain::queue::{QueueChange, QueueSettings, Throttle, Wait};
use callboard_domain::task::{Flow, Status};
use callboard_store::{Filter, Order, Outcome, Query};
use tokio::sync::oneshot;

use super::{Message, QueueItem};
use crate::commit::durable;
use crate::items::task;
use crate::kernel::address::TaskAddress;
use crate::kernel::item::{Activation, Done};
use crate::limits::flow::{Limited, Share};
use crate::limits::permits::RatePermit;
use crate::tables::log::{self, Kind};
use crate::tables::{self, QueueChanged, term};

/// The partition of the settings of all queues.
const PARTITION: u8 = 0;

impl Activation<QueueItem> {
    /// True if a lease may be given out now. If only the rate bars it, the queue hears when that has
    /// room again.
    pub(super) fn may_lease(&mut self) -> bool {
        let Some(throttle) = &mut self.item.throttle else { return true };
        let queue = Limited::queue(&self.address);
        let checked = throttle.check(self.node.limits.flow.running(&queue), self.node.now());
        let waits = matches!(checked, Err(Wait::Rate(_)));
        if throttle.settings().requests_per_minute.is_some() {
            self.node.limits.flow.set_throttled(&self.address, waits);
        }
        if let (Err(Wait::Rate(seconds)), false) = (checked, self.item.waits_for_rate) {
            self.item.waits_for_rate = true;
            self.myself.tell_after(Duration::from_secs(seconds), || Message::RateFrees);
        }
        checked.is_ok()
    }

    /// Counts a lease; returns the shares that its task holds while it runs, and its place in the queue's rate.
    pub(super) fn leases(&mut self, flow: Option<&Flow>) -> (Vec<Share>, Option<Box<RatePermit>>) {
        let (mut shares, mut rate) = (Vec::new(), None);
        if let Some(throttle) = &mut self.item.throttle {
            let place = throttle.leased(self.node.now());
            rate = place.map(|place| {
                Box::new(RatePermit::new(self.node.queues_of_limits(), &self.address, place))
            });
            if throttle.settings().concurrent.is_some() {
                let queue = Limited::queue(&self.address);
                shares.push(self.node.limits.flow.start(queue));
            }
        }
        if let Some(concurrency) = flow.and_then(|flow| flow.concurrency.as_ref()) {
            let key = Limited::Key(self.address.environment, concurrency.key.as_str().into());
            shares.push(self.node.limits.flow.start(key));
        }
        (shares, rate)
    }

    /// Makes a change of the settings durable, and goes by the new ones from then on.
    pub(super) async fn change(
        &mut self,
        change: QueueChange,
        reply: oneshot::Sender<QueueSettings>,
    ) -> Done {
        let name = Arc::clone(&self.address.queue);
        let before = self.item.throttle.as_ref().map(|it| it.settings()).unwrap_or_default();
        let after = before.with(change);
        if after != before {
            let changed = QueueChanged { name: name.to_string(), settings: after };
            let event = EventName::QueueChanged.as_str();
            let event = (event, self.node.now());
            let ops = vec![
                tables::queue_row(self.address.environment, &name, after),
                log::append(self.address.environment, event, Kind::Queue, changed),
            ];
            let shard = self.node.shard(PARTITION);
            let outcome = shard.commit_or_refuse(PARTITION, ops).await;
            if !matches!(outcome, Outcome::Committed) {
                return Err(durable::NotCommitted(outcome).into());
            }
            self.node.limits.flow.set(&self.address, after);
            match &mut self.item.throttle {
                Some(throttle) if !after.is_default() => throttle.set(after),
                throttle => {
                    *throttle = (!after.is_default()).then(|| Box::new(Throttle::new(after)));
                }
            }
            if before.concurrent.is_none() && after.concurrent.is_some() {
                self.count_running().await?;
            }
        }
        // The client may have left; the change stands all the same.
        let _ = reply.send(after);
        Ok(())
    }

    /// Makes every running task of the queue take its share of a new limit.
    async fn count_running(&mut self) -> Done {
        let environment = self.address.environment;
        let query = Query {
            list: tables::task_list(environment),
            filters: vec![
                Filter::AnyOf(term::STATUS, tables::status_terms(&[Status::Running])),
                Filter::AnyOf(term::QUEUE, vec![tables::term_of(&self.address.queue)]),
            ],
            order: Order::Document,
            descending: false,
            offset: 0,
            limit: usize::MAX,
        };
        for id in self.node.store().query(&query).await?.documents {
            let share = self.node.limits.flow.start(Limited::queue(&self.address));
            let address = TaskAddress { environment, task: TaskId::from_u128(id) };
            self.node.send(address, task::Message::TakeShares(vec![share]));
        }
        Ok(())
    }
}
