//! Removal of files that nothing refers to, and of chunks that belong to no file.
//!
//! Deliberately absent: removals on request, which `handle/files.rs` has; the chunks of these end here.

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::file::{File, KEPT_UNUSED};
use callboard_domain::id::Environment;
use callboard_store::Error;
use tokio::time::Instant;

use crate::node::files::durable;
use crate::node::{Node, PAGE};
use crate::tables::files::{self, Uses};
use crate::tables::{FILE_CHUNKS, FILES, LOOSE_CHUNKS};

/// The time between two looks at all files.
const LOOK: Duration = Duration::from_hours(1);
/// The chunks that one commit removes.
const LOT: usize = 256;

/// Removes at the start, every hour, and loose chunks as they come, for as long as the process lives.
pub(crate) async fn run(node: Arc<Node>) {
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let expires = tokio::select! {
            _ = looks.tick() => !node.settings.stands_still,
            () = node.state.files.loosened.notified() => false,
        };
        node.state.files.await_ended().await;
        for &environment in &*node.environments() {
            if expires && let Err(error) = remove_expired(&node, environment).await {
                tracing::warn!(%error, "could not remove files that nothing refers to");
            }
            if let Err(error) = remove_loose(&node, environment).await {
                tracing::warn!(%error, "could not remove the bytes of removed files");
            }
        }
    }
}

async fn remove_expired(node: &Node, environment: Environment) -> Result<(), Error> {
    let mut after = None;
    loop {
        let page = FILES.scan(node.store(), environment.number(), after.as_ref(), PAGE).await?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = Some(*last);
        for (_, file) in page {
            look_at(node, environment, &file).await?;
        }
    }
}

/// Notes whether something refers to a file, and removes one that nothing has referred to for long.
async fn look_at(node: &Node, environment: Environment, file: &File) -> Result<(), Error> {
    let Uses { task, over } = files::uses(node.store(), environment, file.id, false).await?;
    if !over.is_empty() {
        let partition = file.id.partition();
        let removed = durable(node.shard(partition).commit_or_refuse(partition, over)).await;
        removed.map_err(|_| Error::Stopped)?;
    }
    let done = match (task, file.unused_since) {
        (Some(_), Some(_)) => node.mark_file(environment, file, None).await,
        (None, None) => node.mark_file(environment, file, Some(node.now())).await,
        (None, Some(_)) if file.has_expired(node.now()) && node.may_remove(KEPT_UNUSED) => {
            node.remove_unused_file(environment, file.id).await.map(drop)
        }
        (Some(_), None) | (None, Some(_)) => Ok(()),
    };
    done.map_err(|_| Error::Stopped)
}

/// Removes the chunks that belong to no content and no upload.
pub(crate) async fn remove_loose(node: &Node, environment: Environment) -> Result<(), Error> {
    let (store, number) = (node.store(), environment.number());
    let mut after = None;
    loop {
        let page = LOOSE_CHUNKS.scan(store, number, after.as_ref(), PAGE).await?;
        let Some((last, ())) = page.last() else { return Ok(()) };
        after = Some(*last);
        for (place, ()) in page {
            if !node.state.files.is_under_way(place) {
                remove_chunks(node, environment, place).await?;
            }
        }
    }
}

async fn remove_chunks(node: &Node, environment: Environment, place: u128) -> Result<(), Error> {
    let (number, partition) = (environment.number(), callboard_domain::id::partition_of(place));
    loop {
        let began = Instant::now();
        let mut ops = FILE_CHUNKS.delete(node.store(), number, place, LOT).await?;
        let is_last = ops.len() < LOT;
        if is_last {
            ops.push(LOOSE_CHUNKS.delete(number, &place));
        }
        let removed = durable(node.shard(partition).commit_or_refuse(partition, ops)).await;
        removed.map_err(|_| Error::Stopped)?;
        if is_last {
            return Ok(());
        }
        // Other writers have half of the time.
        tokio::time::sleep(began.elapsed()).await;
    }
}
