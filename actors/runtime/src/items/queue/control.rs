//! The settings of a queue at work: the obstacles to its leases, and changes by operators.

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::event::EventName;
use callboard_domain::queue::{QueueChange, QueueSettings, Throttle, Wait};
use callboard_store::Outcome;
use tokio::sync::oneshot;

use super::{Message, QueueItem};
use crate::commit::durable;
use crate::kernel::item::{Activation, Done};
use crate::limits::permits::RatePermit;
use crate::tables::log::{self, Kind};
use crate::tables::{self, QueueChanged};

/// The partition of the settings of all queues.
const PARTITION: u8 = 0;

impl Activation<QueueItem> {
    /// True if a lease may be given out now. If only the rate bars it, the queue hears when that has
    /// room again.
    pub(super) fn may_lease(&mut self) -> bool {
        let Some(throttle) = &mut self.item.throttle else { return true };
        let checked = throttle.check(self.item.leases.running(), self.node.now());
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

    /// Counts a lease in the queue's rate, if it has one.
    pub(super) fn place_in_rate(&mut self) -> Option<Box<RatePermit>> {
        let place = self.item.throttle.as_mut()?.leased(self.node.now())?;
        let queues = self.node.queues_of_limits();
        Some(Box::new(RatePermit::new(queues, &self.address, place)))
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
        }
        // The client may have left; the change stands all the same.
        let _ = reply.send(after);
        Ok(())
    }
}
