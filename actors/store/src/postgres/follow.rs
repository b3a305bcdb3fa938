//! A node's reads in the background: the records that other nodes append, and the list index.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::link::Link;
use super::rows;
use crate::Error;
use crate::batch::Key;
use crate::committer::Shared;
use crate::index::Loader;
use crate::ownership::PartitionSet;
use crate::row::{ROWS, disk_key, entry_block, split_listed};

/// The pause between two looks at the logs, unless a gap is found.
const LOOK: Duration = Duration::from_millis(200);
const RECORDS: usize = 1_000;
/// The rows of one read of the loader.
const PAGE: usize = 5_000;

/// Sends the tail the records that this node has not appended itself, until the store closes.
pub(super) async fn run(link: Arc<Link>, shared: Arc<Shared>) {
    loop {
        let _ = tokio::time::timeout(LOOK, shared.gap.notified()).await;
        match look(&link, &shared).await {
            Ok(()) => {}
            Err(Error::Stopped) => return,
            Err(error) => tracing::warn!(%error, "the logs could not be read"),
        }
    }
}

async fn look(link: &Link, shared: &Shared) -> Result<(), Error> {
    for (log, bounds) in rows::logs(link).await? {
        loop {
            let published = shared.published(log);
            if published >= bounds.newest {
                break;
            }
            let records = rows::records(link, log, published, RECORDS).await?;
            match records.first() {
                Some(first) => shared.skip(log, first.sequence - 1),
                None => shared.skip(log, bounds.newest),
            }
            shared.publish(records);
        }
    }
    Ok(())
}

/// The loading of the index, of which the last begun counts.
#[derive(Debug, Default)]
pub(super) struct Load(Mutex<u64>);

impl Load {
    /// Begins a loading: the index holds the changes of commits from now on.
    pub(super) fn begin(&self, shared: &Shared) -> u64 {
        let mut turn = self.0.lock().expect("no holder panics");
        *turn += 1;
        shared.index.restart();
        *turn
    }

    /// Reads every listed row's entry, and ends the loading unless a later one has begun.
    pub(super) async fn run(self: Arc<Self>, turn: u64, link: Arc<Link>, shared: Arc<Shared>) {
        let loader = match self.read(turn, &link).await {
            Ok(Some(loader)) => Ok(loader),
            Ok(None) => return,
            Err(error) => Err(error),
        };
        if let Err(error) = &loader {
            tracing::error!(%error, "the list index cannot be loaded");
        }
        let runtime = tokio::runtime::Handle::current();
        let finish = move || {
            let now = self.0.lock().expect("no holder panics");
            if *now == turn {
                let fetch = |key: &Key| {
                    let row = runtime.block_on(rows::get(&link, &disk_key(key))).ok().flatten();
                    entry_block(row.as_deref())
                };
                shared.index.finish_loading(loader, &fetch);
            }
        };
        // Building takes seconds, and the runtime's one thread serves the connections.
        let _ = tokio::task::spawn_blocking(finish).await;
    }

    /// Reads every listed row's entry; `None` once a later loading has begun.
    async fn read(&self, turn: u64, link: &Link) -> Result<Option<Loader>, Error> {
        let mut loader = Loader::default();
        let mut from = vec![ROWS, Key::FIRST_LISTED];
        let to = [ROWS + 1];
        loop {
            let page = rows::page(link, &from, &to, PartitionSet::ALL, PAGE).await?;
            if *self.0.lock().expect("no holder panics") != turn {
                return Ok(None);
            }
            let Some((last, _)) = page.last() else { return Ok(Some(loader)) };
            from.clone_from(last);
            from.push(0);
            for (key, row) in page {
                let key = Key(key[1..].into());
                let added = split_listed(&row)
                    .and_then(|(block, _)| block.map_or(Some(()), |block| loader.row(&key, block)));
                added.ok_or_else(|| Error::Corrupt {
                    path: format!("the row {key:?}"),
                    reason: "its entry is malformed".into(),
                })?;
            }
        }
    }
}
