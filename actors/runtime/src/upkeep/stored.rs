//! The measurement of what is stored, in the background, when somebody asks for it.
//!
//! The embedded store is read whole, a part at a time, with pauses: sled knows no sizes. A shared database gives a
//! sample. Deliberately absent: a schedule. What nobody looks at is not measured.

use std::sync::Arc;

use callboard_store::{Error as StoreError, Size};
use tokio::time::Instant;

use crate::node::Node;
use crate::node::stored::Stored;
use crate::tables::event_log;

/// The pause after a part, as a multiple of the time that reading it took.
const REST: u32 = 3;

/// Measures whenever it is wanted, for as long as the process lives.
pub(crate) async fn run(node: Arc<Node>) {
    loop {
        node.state.stored.wanted.notified().await;
        if let Err(error) = measure(&node).await {
            tracing::warn!(%error, "could not measure what is stored");
        }
    }
}

async fn measure(node: &Node) -> Result<(), StoreError> {
    let begun = Instant::now();
    let (mut stored, mut after) = (Stored::default(), Vec::new());
    loop {
        let read_at = Instant::now();
        let part = node.store().measure(after).await?;
        stored.add(&part);
        let Some(next) = part.next else { break };
        after = next;
        stored.measured_at = Some(node.now());
        // Until all was read once, a part says more than nothing.
        node.state.stored.last.send_if_modified(|(last, _)| {
            let shows = !last.is_whole;
            if shows {
                last.clone_from(&stored);
            }
            shows
        });
        tokio::time::sleep(read_at.elapsed() * REST).await;
    }
    let mut events = 0;
    for &environment in &*node.environments() {
        let (oldest, newest) = node.store().log_bounds(event_log(environment)).await?;
        events += (newest + 1).saturating_sub(oldest.max(1));
    }
    // A row of the log holds many events.
    if let Some(Size { rows, .. }) = stored.kinds.get_mut("events") {
        *rows = events;
    }
    (stored.measured_at, stored.is_whole) = (Some(node.now()), true);
    node.state.stored.last.send_replace((stored, begun.elapsed()));
    Ok(())
}
