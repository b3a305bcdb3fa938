//! Batches in the form of `OpenAI`'s interface that ended long ago.

use callboard_domain::Timestamp;
use callboard_domain::id::Environment;
use callboard_store::Error;

use super::LOT;
use crate::node::Node;
use crate::node::files::durable;
use crate::tables::CHAT_BATCHES;

/// Removes the batches that ended before `until`. Their files have ends of their own.
pub(super) async fn remove_old(
    node: &Node,
    environment: Environment,
    until: Timestamp,
) -> Result<(), Error> {
    let (number, mut after) = (environment.number(), None);
    loop {
        let page = CHAT_BATCHES.scan(node.store(), number, after.as_ref(), LOT).await?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = Some(*last);
        for (_, batch) in page {
            if batch.cleared && batch.at(batch.status).is_some_and(|at| at < until) {
                let (id, partition) = (batch.id.as_u128(), batch.id.partition());
                let ops = CHAT_BATCHES.delete(node.store(), number, id).await?;
                let removed = durable(node.shard(partition).commit_or_refuse(partition, ops)).await;
                removed.map_err(|_| Error::Stopped)?;
            }
        }
    }
}
