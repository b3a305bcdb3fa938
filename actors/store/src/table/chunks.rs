//! Bytes of any length, in chunks of one row each, of which a part can be read.
//!
//! ```text
//! key     [table][environment][document 16][chunk u32, big-endian]
//! value   [version u8][crc32 u32][bytes …]
//! ```
//!
//! Every chunk but the last has [`Chunks::SIZE`] bytes, so the offset of a byte names its chunk.
//!
//! Deliberately absent: the length of the whole, which the user's row has, and compression: images and PDFs have their
//! own.

use bytes::Bytes;

use super::{HEADER, corrupt, open, seal};
use crate::batch::{Key, MAX_ROW, Op};
use crate::{Error, Store};

const VERSION: u8 = 1;
const KEY: usize = 2 + 16 + 4;

/// Bytes by document, in a table that is not listed.
#[derive(Debug)]
pub struct Chunks {
    number: u8,
}

impl Chunks {
    /// The bytes of a chunk. Stored chunks have this length, so it never changes.
    pub const SIZE: usize = 4_000;

    /// The bytes in the table `number`.
    ///
    /// # Panics
    /// If that is the number of a listed table.
    #[must_use]
    pub const fn new(number: u8) -> Self {
        assert!(number < Key::FIRST_LISTED, "chunks are not listed");
        // A store may add 16 bytes to a row.
        const { assert!(KEY + HEADER + Self::SIZE + 16 <= MAX_ROW, "a chunk fits in a row") };
        Self { number }
    }

    /// Writes a chunk.
    ///
    /// # Panics
    /// If the chunk is longer than [`Chunks::SIZE`].
    #[must_use]
    pub fn put(&self, environment: u8, document: u128, chunk: u32, bytes: &[u8]) -> Op {
        assert!(bytes.len() <= Self::SIZE, "a chunk has at most {} bytes", Self::SIZE);
        let mut value = Vec::with_capacity(HEADER + bytes.len());
        value.extend([VERSION, 0, 0, 0, 0]);
        value.extend_from_slice(bytes);
        seal(&mut value);
        Op::Put { key: self.key(environment, document, chunk), value: value.into(), entry: None }
    }

    /// The bytes of at most `count` chunks from the chunk `first` on, in one piece; fewer at the end of the document.
    ///
    /// # Errors
    /// The store's, and [`Error::Corrupt`] if a chunk is missing between others or cannot be read.
    pub async fn read(
        &self,
        store: &dyn Store,
        environment: u8,
        document: u128,
        first: u32,
        count: u32,
    ) -> Result<Bytes, Error> {
        let from = self.key(environment, document, first);
        let to = self.key(environment, document, first.saturating_add(count));
        let rows = store.scan(from, to, count as usize).await?;
        let mut bytes = Vec::with_capacity(rows.len() * Self::SIZE);
        for ((key, row), chunk) in rows.iter().zip(first..) {
            if *key != self.key(environment, document, chunk) {
                return Err(corrupt(self.number, key, "a chunk before it is missing"));
            }
            match open(row) {
                Ok((VERSION, chunk)) => bytes.extend_from_slice(chunk),
                Ok((version, _)) => {
                    let reason = format!("it has version {version}, of a newer program");
                    return Err(corrupt(self.number, key, &reason));
                }
                Err(reason) => return Err(corrupt(self.number, key, reason)),
            }
        }
        Ok(bytes.into())
    }

    /// Deletes the first `limit` chunks of a document that are in `store` now; none if no chunk is left.
    ///
    /// # Errors
    /// The store's.
    pub async fn delete(
        &self,
        store: &dyn Store,
        environment: u8,
        document: u128,
        limit: usize,
    ) -> Result<Vec<Op>, Error> {
        let from = self.key(environment, document, 0);
        let to = self.key(environment, document, u32::MAX);
        let rows = store.scan(from, to, limit).await?;
        Ok(rows.into_iter().map(|(key, _)| Op::Delete { key }).collect())
    }

    fn key(&self, environment: u8, document: u128, chunk: u32) -> Key {
        let mut rest = [0; 20];
        rest[..16].copy_from_slice(&document.to_be_bytes());
        rest[16..].copy_from_slice(&chunk.to_be_bytes());
        Key::new(self.number, environment, &rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::memory::MemoryStore;
    use crate::{Batch, BatchId, Outcome};

    const CHUNKS: Chunks = Chunks::new(0x4c);

    async fn commit(store: &MemoryStore, id: u128, ops: Vec<Op>) {
        let batch = Batch { id: BatchId(id), guards: Vec::new(), ops };
        assert!(matches!(store.commit(batch).await, Outcome::Committed));
    }

    #[tokio::test]
    async fn a_part_of_the_bytes_is_read_and_a_gap_is_an_error() {
        let store = MemoryStore::new();
        let whole: Vec<u8> = (0..251_u8).cycle().take(Chunks::SIZE * 2 + 5).collect();
        let chunks = whole.chunks(Chunks::SIZE).zip(0..);
        let ops = chunks.map(|(bytes, at)| CHUNKS.put(0, 7, at, bytes)).collect();
        commit(&store, 1, ops).await;
        let read = |first, count| CHUNKS.read(&store, 0, 7, first, count);
        assert_eq!(read(0, 10).await.expect("three chunks"), whole);
        assert_eq!(read(1, 1).await.expect("one chunk"), whole[Chunks::SIZE..2 * Chunks::SIZE]);
        assert!(read(3, 1).await.expect("nothing").is_empty());
        assert!(CHUNKS.read(&store, 1, 7, 0, 1).await.expect("nothing").is_empty());
        let first = CHUNKS.delete(&store, 0, 7, 1).await.expect("a chunk");
        commit(&store, 2, first).await;
        assert!(matches!(read(0, 10).await, Err(Error::Corrupt { .. })));
        let rest = CHUNKS.delete(&store, 0, 7, 9).await.expect("two chunks");
        assert_eq!(rest.len(), 2);
        commit(&store, 3, rest).await;
        assert!(CHUNKS.delete(&store, 0, 7, 9).await.expect("none").is_empty());
    }
}
