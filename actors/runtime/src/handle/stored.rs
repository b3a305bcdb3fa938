//! The size of what is stored.

use std::time::Duration;

use super::Handle;
use crate::node::stored::Stored;

/// The age up to which a measurement is answered again.
const FRESH: Duration = Duration::from_mins(1);
/// A measurement that took long is answered for this multiple of the time it took.
const SPARING: u32 = 10;
/// The wait for a measurement that has begun.
const PATIENCE: Duration = Duration::from_secs(2);

impl Handle {
    /// The rows and bytes of each kind of data, as they were measured last. An old measurement makes another one begin;
    /// the answer waits for that for two seconds.
    pub async fn stored(&self) -> Stored {
        let mut last = self.node.state.stored.last.subscribe();
        let asked_at = self.node.now();
        let is_fresh = {
            let (stored, took) = &*last.borrow();
            let fresh = FRESH.max(*took * SPARING);
            stored.is_whole && stored.measured_at.is_some_and(|at| asked_at.since(at) < fresh)
        };
        if !is_fresh {
            self.node.state.stored.wanted.notify_one();
            let is_new = |(stored, _): &(Stored, Duration)| {
                stored.is_whole && stored.measured_at.is_some_and(|at| at >= asked_at)
            };
            // The sender lives as long as the node. A measurement that takes longer is told when it is asked for again.
            let _ = tokio::time::timeout(PATIENCE, last.wait_for(is_new)).await;
        }
        last.borrow().0.clone()
    }
}
