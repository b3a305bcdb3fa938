//! Backups of the embedded store.
//!
//! ```text
//! a store in use ─ Snapshot ─▶ frames ─ HTTP ─▶ Writer ─▶ a repository ─▶ restore ─▶ a new store
//!                                                          an archive of the journal ─┘
//! ```
//!
//! A repository is a directory of chunks, named by their SHA-256, and of one manifest per backup. Chunks end
//! at keys that a checksum picks, so that two backups share the chunks of all rows that did not change.
//!
//! Deliberately absent: the command line and HTTP.

mod frame;
mod keep;
mod local;
mod manifest;
mod repository;
mod restore;
mod writer;

#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

pub use callboard_store::init_archive;
pub use frame::{Frames, encode};
pub use keep::Keep;
pub use local::back_up;
pub use manifest::{Chunk, Manifest, NamedFile};
pub use repository::{Pruned, Repository};
pub use restore::{Restored, prune_archive, restore};
pub use writer::Writer;

/// An error of a backup.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the repository is damaged or missing.
    #[error("{0}")]
    Damaged(String),
    /// The stream of a backup is malformed or ended too soon.
    #[error("the backup is incomplete: {0}")]
    Incomplete(String),
    /// The store, the repository or the backup does not exist.
    #[error("{0}")]
    NotFound(String),
    /// A file could not be read or written.
    #[error("{0}")]
    Io(String),
    /// The store could not be written.
    #[error(transparent)]
    Store(#[from] callboard_store::Error),
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.display().to_string();
    move |error| {
        let is_full =
            matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let advice = if is_full {
            "; the disk of this path is full: make room there, and run the command again"
        } else {
            ""
        };
        Error::Io(format!("{path}: {error}{advice}"))
    }
}
