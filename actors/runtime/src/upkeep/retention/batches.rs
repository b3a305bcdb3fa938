//! Batches that ended long ago: each is removed by its actor, as by a deletion.

use callboard_domain::Timestamp;
use callboard_domain::id::Environment;
use callboard_store::Error;
use tokio::sync::oneshot;

use super::LOT;
use crate::kernel::address::BatchAddress as Address;
use crate::messages::batch::Message;
use crate::node::Node;
use crate::tables::BATCHES;

/// Asks the batches that ended before `until` to go. Their rows are older, and most of them are gone already.
pub(super) async fn remove_old(
    node: &Node,
    environment: Environment,
    until: Timestamp,
) -> Result<(), Error> {
    let mut after = None;
    loop {
        let page = BATCHES.scan(node.store(), environment.number(), after.as_ref(), LOT).await?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = Some(*last);
        let is_old = |at: Timestamp| at < until;
        for (_, batch) in page {
            if batch.is_over() && batch.ended_at.is_some_and(is_old) {
                // A refusal (rows were run anew) or a crash: the next sweep asks again.
                let (reply, _) = oneshot::channel();
                let address = Address { environment, batch: batch.id };
                node.shard(batch.id.partition()).batches.send(address, Message::Delete(reply));
            }
        }
    }
}
