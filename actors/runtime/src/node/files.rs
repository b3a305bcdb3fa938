//! Changes of files and their contents: one at a time, because files with the same bytes share a content.
//!
//! ```text
//!   chunks of an upload (loose) ─▶ the file and its content, in one commit ─▶ the last file goes: loose again
//! ```
//!
//! Loose chunks are removed in the background (`upkeep/files.rs`), after a crash too. A file and its content share a
//! partition, which the digest names.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use callboard_domain::file::File;
use callboard_domain::id::{Environment, FileId};
use callboard_domain::{Error, Timestamp};
use callboard_store::{Error as StoreError, Outcome, Ticket};
use tokio::sync::Notify;

use crate::kernel::removal_locks::RemovalLocks;
use crate::node::Node;
use crate::tables::{CONTENTS, ContentRow, FILES, LOOSE_CHUNKS, files};

/// The state of files in memory.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// The turn to change the files of a content.
    turn: tokio::sync::Mutex<()>,
    /// The documents of the chunks of uploads under way.
    uploads: Mutex<HashSet<u128>>,
    /// Uploads that have ended, with their commits on the way.
    ended: Mutex<Vec<(u128, VecDeque<Ticket>)>>,
    /// Files that are being removed, or that a submission refers to.
    pub(crate) held: RemovalLocks<(Environment, FileId)>,
    /// Some chunks are loose, and belong to no upload.
    pub(crate) loosened: Notify,
}

impl Files {
    fn uploads(&self) -> MutexGuard<'_, HashSet<u128>> {
        self.uploads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An upload begins to write chunks.
    pub(crate) fn begin(&self, place: u128) {
        self.uploads().insert(place);
    }

    /// An upload has ended: chunks that no file took are to be removed.
    pub(crate) fn end(&self, place: u128, commits: VecDeque<Ticket>) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push((place, commits));
        self.loosened.notify_one();
    }

    /// Waits until no chunk of an upload that has ended is on its way to the disk.
    pub(crate) async fn await_ended(&self) {
        let ended = std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        for (place, commits) in ended {
            for ticket in commits {
                // A chunk that was not written is not removed either.
                let _ = ticket.await;
            }
            self.uploads().remove(&place);
        }
    }

    /// True while an upload writes these chunks.
    pub(crate) fn is_under_way(&self, place: u128) -> bool {
        self.uploads().contains(&place)
    }
}

/// Waits for a commit of rows of files.
pub(crate) async fn durable(ticket: impl Future<Output = Outcome>) -> Result<(), Error> {
    match ticket.await {
        Outcome::Committed => Ok(()),
        Outcome::Fenced | Outcome::Conflict(_) | Outcome::NotApplied(_) | Outcome::Unknown(_) => {
            Err(Error::Unavailable("the file could not be stored"))
        }
    }
}

fn unreadable(error: &StoreError) -> Error {
    tracing::error!(%error, "a file cannot be read");
    Error::Unavailable("the store cannot be read")
}

impl Node {
    /// Makes a file of uploaded chunks. If there is a content with its bytes, the file takes that and the chunks stay
    /// loose.
    pub(crate) async fn keep_file(
        &self,
        environment: Environment,
        place: u128,
        file: &File,
    ) -> Result<(), Error> {
        let _turn = self.state.files.turn.lock().await;
        let (number, partition) = (environment.number(), file.id.partition());
        let found = files::content(self.store(), environment, file.digest).await;
        let mut ops = vec![files::put(environment, file)];
        let content = if let Some(content) = found.map_err(|error| unreadable(&error))? {
            ContentRow { files: content.files + 1, ..content }
        } else {
            ops.push(LOOSE_CHUNKS.delete(number, &place));
            ContentRow { place, files: 1 }
        };
        ops.push(CONTENTS.put(number, file.digest.as_bytes(), &content, None));
        durable(self.shard(partition).commit_or_refuse(partition, ops)).await
    }

    /// Removes a file that nothing refers to; one that something refers to stays. True if the file is gone.
    pub(crate) async fn remove_unused_file(
        &self,
        environment: Environment,
        file: FileId,
    ) -> Result<bool, Error> {
        let Some(_leaving) = self.state.files.held.leave(&(environment, file)) else {
            return Ok(false);
        };
        if self.state.chat_batches.reader_of(environment, file).is_some() {
            return Ok(false);
        }
        let read = |error: StoreError| unreadable(&error);
        if files::uses(self.store(), environment, file, false).await.map_err(read)?.task.is_some() {
            return Ok(false);
        }
        let found = FILES.get(self.store(), environment.number(), &file.as_u128()).await;
        match found.map_err(read)? {
            Some(file) => self.remove_file(environment, &file).await.map(|()| true),
            None => Ok(true),
        }
    }

    /// Says from when on nothing refers to a file.
    pub(crate) async fn mark_file(
        &self,
        environment: Environment,
        file: &File,
        unused_since: Option<Timestamp>,
    ) -> Result<(), Error> {
        let _turn = self.state.files.turn.lock().await;
        let partition = file.id.partition();
        let found = FILES.get(self.store(), environment.number(), &file.id.as_u128()).await;
        let Some(found) = found.map_err(|error| unreadable(&error))? else { return Ok(()) };
        let ops = vec![files::put(environment, &File { unused_since, ..found })];
        durable(self.shard(partition).commit_or_refuse(partition, ops)).await
    }

    /// Removes a file, and its content with the last file. A file that is gone is no error.
    pub(crate) async fn remove_file(
        &self,
        environment: Environment,
        file: &File,
    ) -> Result<(), Error> {
        let _turn = self.state.files.turn.lock().await;
        let (number, id, partition) =
            (environment.number(), file.id.as_u128(), file.id.partition());
        let read = |error: StoreError| unreadable(&error);
        if FILES.get(self.store(), number, &id).await.map_err(read)?.is_none() {
            return Ok(());
        }
        let mut ops = vec![FILES.delete(number, &id)];
        let content = files::content(self.store(), environment, file.digest).await.map_err(read)?;
        match content {
            Some(content) if content.files > 1 => {
                let content = ContentRow { files: content.files - 1, ..content };
                ops.push(CONTENTS.put(number, file.digest.as_bytes(), &content, None));
            }
            Some(content) => {
                ops.push(CONTENTS.delete(number, file.digest.as_bytes()));
                ops.push(LOOSE_CHUNKS.put(number, &content.place, &(), None));
            }
            None => {}
        }
        durable(self.shard(partition).commit_or_refuse(partition, ops)).await?;
        self.state.files.loosened.notify_one();
        loop {
            let ops =
                files::without_uses(self.store(), environment, file.id).await.map_err(read)?;
            if ops.is_empty() {
                return Ok(());
            }
            durable(self.shard(partition).commit_or_refuse(partition, ops)).await?;
        }
    }
}
