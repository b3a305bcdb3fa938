//! A manifest: the chunks of one backup.

use serde::{Deserialize, Serialize};

/// The format that is written. A greater one is a newer program's.
pub(crate) const FORMAT: u32 = 1;

/// One backup. Its JSON stands in `backups/ID.json`, with its own SHA-256 in the second line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// The format of the repository.
    pub format: u32,
    /// The time of its creation, which names the backup: `20260131T120000.000Z`.
    pub id: String,
    /// The time of its end, in the form of `id`: the backup holds what was committed up to then. Absent from
    /// backups of older programs, and if the server was stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// The version of the program that wrote the backup.
    pub version: String,
    /// The lineage of the data directory that was backed up.
    pub lineage: u32,
    /// The number of the first group that the backup holds as a group, less one.
    pub from_group: u64,
    /// The number of the backup's last group. An archive continues behind it.
    pub group: u64,
    /// The number of rows in `chunks`.
    pub rows: u64,
    /// The bytes of all chunks.
    pub bytes: u64,
    /// The bytes of the chunks that no earlier backup had.
    pub new_bytes: u64,
    /// The rows, in the order of their keys.
    pub chunks: Vec<Chunk>,
    /// The overlay and the groups, in order, as frames.
    pub tail: Vec<Chunk>,
    /// The files beside the store: secrets, if the backup was made from the data directory.
    pub files: Vec<NamedFile>,
}

/// A chunk: `chunks/ab/abcd…`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// The SHA-256 of the chunk's bytes, in hexadecimal digits.
    pub sha256: String,
    /// The chunk's length.
    pub bytes: u64,
}

/// A file beside the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedFile {
    /// The file's name in the data directory.
    pub name: String,
    /// The file's contents.
    pub chunk: Chunk,
}

impl Manifest {
    /// The time of the state that the backup holds, in the form of `id`.
    #[must_use]
    pub fn state_of(&self) -> &str {
        self.ended_at.as_ref().unwrap_or(&self.id)
    }

    /// Every chunk, in the order of the manifest.
    pub fn all_chunks(&self) -> impl Iterator<Item = &Chunk> {
        self.chunks.iter().chain(&self.tail).chain(self.files.iter().map(|file| &file.chunk))
    }
}
