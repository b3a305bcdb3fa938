//! Long texts, in chunks of one row each.
//!
//! ```text
//! key     [table][environment][document 16][field u8][chunk u16, big-endian]
//! chunk 0 [version u8][crc32 u32][length of the text u32][crc32 of the text u32][text …]
//! chunk n [version u8][crc32 u32][text …]
//! ```
//!
//! A table with a dictionary first compresses a text of up to 256 KB if that pays, and the version says
//! so (`compress.rs`); length and checksum are then those of the compressed text.
//!
//! Chunk 0 has the length and the checksum of the text: the chunks that an earlier, longer text has left
//! are never read, and a mixture of two texts is an error.
//!
//! Deliberately absent: changes to a part of a text. A text is written once, or replaced.

use bytes::Bytes;

use super::buffers::EncodeBuffers;
use super::compress::{COMPRESSED, decompress};
use super::{HEADER, corrupt, next, open, seal};
use crate::batch::{Key, MAX_ROW, Op};
use crate::{Error, Row, Store};

const VERSION: u8 = 1;
const KEY: usize = 2 + 16 + 1 + 2;
const HEAD: usize = 8;
/// The bytes of a text in one chunk. A store may add 16 bytes to a row.
const CHUNK: usize = MAX_ROW - KEY - HEADER - 16;
/// The most chunks that one scan reads.
const PAGE: usize = 64;
/// A longer text is not compressed: it would take the thread for more than a millisecond.
const MAX_COMPRESSED: usize = 256 << 10;

/// Long texts by document and field, in a table that is not listed.
#[derive(Debug)]
pub struct Texts {
    number: u8,
    dictionary: Option<&'static [u8]>,
}

/// A text as it is stored.
#[derive(Debug)]
pub struct StoredText {
    place: (u128, u8),
    /// The rows of its chunks.
    first: Row,
    rest: Vec<Row>,
}

impl StoredText {
    /// The document.
    #[must_use]
    pub const fn document(&self) -> u128 {
        self.place.0
    }

    /// The stored bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.rest.iter().fold(self.first.1.len(), |length, (_, row)| length + row.len())
    }
}

/// The head of a text, and the beginning of it.
struct Head<'r> {
    is_compressed: bool,
    length: usize,
    crc: u32,
    start: &'r [u8],
}

impl Texts {
    /// The texts in the table `number`.
    ///
    /// # Panics
    /// If that is the number of a listed table.
    #[must_use]
    pub const fn new(number: u8) -> Self {
        assert!(number < Key::FIRST_LISTED, "texts are not listed");
        Self { number, dictionary: None }
    }

    /// The same, with compressed texts: `dictionary` holds their common parts, and never changes.
    #[must_use]
    pub const fn compressed_with(self, dictionary: &'static [u8]) -> Self {
        Self { dictionary: Some(dictionary), ..self }
    }

    /// Writes a text, or replaces it. An empty text is a text.
    ///
    /// # Panics
    /// If the text is longer than 2^16 chunks, some 260 MB.
    #[must_use]
    pub fn put(&self, environment: u8, document: u128, field: u8, text: &str) -> Vec<Op> {
        let at = (environment, document, field);
        let dictionary = self.dictionary.filter(|_| text.len() <= MAX_COMPRESSED);
        let text = text.as_bytes();
        EncodeBuffers::with(|buffers| {
            match dictionary.and_then(|dictionary| buffers.compressed(text, dictionary)) {
                Some(compressed) => self.chunks(at, VERSION | COMPRESSED, compressed),
                None => self.chunks(at, VERSION, text),
            }
        })
    }

    fn chunks(
        &self,
        (environment, document, field): (u8, u128, u8),
        version: u8,
        text: &[u8],
    ) -> Vec<Op> {
        let length = u32::try_from(text.len()).expect("a text is shorter than 4 GB");
        let (first, rest) = text.split_at(text.len().min(CHUNK - HEAD));
        let head = [length.to_le_bytes(), crc32fast::hash(text).to_le_bytes()].concat();
        let pieces =
            std::iter::once([&*head, first]).chain(rest.chunks(CHUNK).map(|rest| [rest, &[]]));
        let mut ops = Vec::with_capacity(1 + rest.len().div_ceil(CHUNK));
        for (at, piece) in pieces.enumerate() {
            let chunk = u16::try_from(at).expect("a text is shorter than 2^16 chunks");
            let key = self.key(environment, document, field, chunk);
            ops.push(Op::Put { key, value: row(version, piece), entry: None });
        }
        ops
    }

    /// The text of a field. A text that is replaced or removed meanwhile is read as it is then.
    ///
    /// # Errors
    /// The store's, and [`Error::Corrupt`] if the text cannot be read.
    pub async fn get(
        &self,
        store: &dyn Store,
        environment: u8,
        document: u128,
        field: u8,
    ) -> Result<Option<String>, Error> {
        let first = self.key(environment, document, field, 0);
        let mut row = store.get(&first).await?;
        loop {
            let Some(begun) = row else { return Ok(None) };
            let of = (environment, document, field);
            let damage = match self.read(store, of, &first, &begun).await {
                Err(error @ Error::Corrupt { .. }) => error,
                read => return read.map(Some),
            };
            // The chunks are read one after the other, and a commit may come between.
            row = store.get(&first).await?;
            if row.as_ref() == Some(&begun) {
                return Err(damage);
            }
        }
    }

    /// The texts of the documents up to before `to` as they are stored, for [`Texts::read_stored`] on another thread:
    /// those in about `limit` rows from a document and a field on, and the place of the next one.
    ///
    /// # Errors
    /// The store's, and [`Error::Corrupt`] for a key of another kind.
    pub async fn page(
        &self,
        store: &dyn Store,
        environment: u8,
        from: (u128, u8),
        to: u128,
        limit: usize,
    ) -> Result<(Vec<StoredText>, Option<(u128, u8)>), Error> {
        let mut first = self.key(environment, from.0, from.1, 0);
        let end = Key::new(self.number, environment, &to.to_be_bytes());
        let mut texts: Vec<StoredText> = Vec::new();
        loop {
            let rows = store.scan(first.clone(), end.clone(), limit).await?;
            let is_last = rows.len() < limit;
            for row in rows {
                let place = place(&row.0)
                    .ok_or_else(|| corrupt(self.number, &row.0, "its key is of another kind"))?;
                first = next(&row.0);
                match texts.last_mut() {
                    Some(text) if text.place == place => text.rest.push(row),
                    _ => texts.push(StoredText { place, first: row, rest: Vec::new() }),
                }
            }
            if is_last {
                return Ok((texts, None));
            }
            // Only a text behind which another begins is known to be whole.
            let is_next = texts.len() > 1;
            if let Some(begun) = texts.pop_if(|_| is_next) {
                return Ok((texts, Some(begun.place)));
            }
        }
    }

    /// A text that [`Texts::page`] has read.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the text cannot be read, or was replaced while its rows were read.
    pub fn read_stored(&self, stored: &StoredText) -> Result<String, Error> {
        let StoredText { first: (first, row), rest, .. } = stored;
        let head = self.head(first, row)?;
        let mut text = head.start.to_vec();
        for (key, row) in rest {
            if text.len() < head.length {
                text.extend_from_slice(self.open_chunk(key, row)?.1);
            }
        }
        self.finish(first, &head, text)
    }

    /// The text whose first chunk is `row`.
    async fn read(
        &self,
        store: &dyn Store,
        (environment, document, field): (u8, u128, u8),
        first: &Key,
        row: &[u8],
    ) -> Result<String, Error> {
        let corrupt = |reason: &str| corrupt(self.number, first, reason);
        let head = self.head(first, row)?;
        let mut text = head.start.to_vec();
        let mut next = 1;
        while text.len() < head.length {
            let missing = (head.length - text.len()).div_ceil(CHUNK);
            let until = next + missing.min(PAGE);
            let at = |chunk| u16::try_from(chunk).map_err(|_| corrupt("it is too long"));
            let from = self.key(environment, document, field, at(next)?);
            let to = self.key(environment, document, field, at(until)?);
            let rows = store.scan(from, to, PAGE).await?;
            if rows.len() != until - next {
                return Err(corrupt("a chunk is missing"));
            }
            for (key, row) in rows {
                text.extend_from_slice(self.open_chunk(&key, &row)?.1);
            }
            next = until;
        }
        self.finish(first, &head, text)
    }

    /// The head of a text, in its first chunk.
    fn head<'r>(&self, first: &Key, row: &'r [u8]) -> Result<Head<'r>, Error> {
        let corrupt = |reason: &str| corrupt(self.number, first, reason);
        let (is_compressed, payload) = self.open_chunk(first, row)?;
        let head = payload.split_first_chunk::<4>();
        let head = head.and_then(|(length, rest)| Some((length, rest.split_first_chunk::<4>()?)));
        let (length, (crc, start)) = head.ok_or_else(|| corrupt("it is cut short"))?;
        let length =
            usize::try_from(u32::from_le_bytes(*length)).map_err(|_| corrupt("it is too long"))?;
        Ok(Head { is_compressed, length, crc: u32::from_le_bytes(*crc), start })
    }

    /// The text of these bytes, which its chunks hold.
    fn finish(&self, first: &Key, head: &Head<'_>, mut text: Vec<u8>) -> Result<String, Error> {
        let corrupt = |reason: &str| corrupt(self.number, first, reason);
        // A chunk of another text must not pass for one of this text.
        if text.len() != head.length || crc32fast::hash(&text) != head.crc {
            return Err(corrupt("its chunks do not belong together"));
        }
        if head.is_compressed {
            let dictionary =
                self.dictionary.ok_or_else(|| corrupt("it is compressed, with no dictionary"))?;
            let decompressed = decompress(&text, dictionary, MAX_COMPRESSED);
            text = decompressed.ok_or_else(|| corrupt("it cannot be decompressed"))?;
        }
        String::from_utf8(text).map_err(|_| corrupt("it is not UTF-8"))
    }

    /// The stored length of a text, in bytes; `None` if there is no text.
    ///
    /// # Errors
    /// The store's, and [`Error::Corrupt`] if the text cannot be read.
    pub async fn stored_length(
        &self,
        store: &dyn Store,
        environment: u8,
        document: u128,
        field: u8,
    ) -> Result<Option<u32>, Error> {
        let first = self.key(environment, document, field, 0);
        let Some(row) = store.get(&first).await? else { return Ok(None) };
        let (_, payload) = self.open_chunk(&first, &row)?;
        let length = payload.first_chunk().map(|length| u32::from_le_bytes(*length));
        length.map(Some).ok_or_else(|| corrupt(self.number, &first, "it is cut short"))
    }

    /// Deletes a text of at most `length` bytes.
    ///
    /// # Panics
    /// Those of [`Texts::put`].
    #[must_use]
    pub fn delete(&self, environment: u8, document: u128, field: u8, length: usize) -> Vec<Op> {
        let chunks = 1 + length.saturating_sub(CHUNK - HEAD).div_ceil(CHUNK);
        let chunks = u16::try_from(chunks).expect("a text is shorter than 2^16 chunks");
        let keys = (0..chunks).map(|chunk| self.key(environment, document, field, chunk));
        keys.map(|key| Op::Delete { key }).collect()
    }

    /// Deletes every text of a document that is in `store` now.
    ///
    /// # Errors
    /// The store's.
    pub async fn delete_all(
        &self,
        store: &dyn Store,
        environment: u8,
        document: u128,
    ) -> Result<Vec<Op>, Error> {
        let mut from = Key::new(self.number, environment, &document.to_be_bytes());
        let to = self.key(environment, document, u8::MAX, u16::MAX);
        let mut ops = Vec::new();
        loop {
            let rows = store.scan(from, to.clone(), PAGE).await?;
            let ended = rows.len() < PAGE;
            ops.extend(rows.into_iter().map(|(key, _)| Op::Delete { key }));
            match ops.last() {
                Some(Op::Delete { key }) if !ended => from = Key([&*key.0, &[0]].concat().into()),
                _ => return Ok(ops),
            }
        }
    }

    fn key(&self, environment: u8, document: u128, field: u8, chunk: u16) -> Key {
        let mut rest = [0; 19];
        rest[..16].copy_from_slice(&document.to_be_bytes());
        rest[16] = field;
        rest[17..].copy_from_slice(&chunk.to_be_bytes());
        Key::new(self.number, environment, &rest)
    }

    /// True if the text is compressed, and the chunk's part of it.
    fn open_chunk<'r>(&self, key: &Key, row: &'r [u8]) -> Result<(bool, &'r [u8]), Error> {
        match open(row) {
            Ok((VERSION, payload)) => Ok((false, payload)),
            Ok((version, payload)) if version == VERSION | COMPRESSED => Ok((true, payload)),
            Ok((version, _)) => {
                let reason = format!("it has version {version}, of a newer program");
                Err(corrupt(self.number, key, &reason))
            }
            Err(reason) => Err(corrupt(self.number, key, reason)),
        }
    }
}

/// The document and the field in the key of a chunk.
fn place(key: &Key) -> Option<(u128, u8)> {
    let (document, rest) = key.0.get(2..)?.split_first_chunk()?;
    Some((u128::from_be_bytes(*document), *rest.first()?))
}

fn row(version: u8, pieces: [&[u8]; 2]) -> Bytes {
    let mut row = Vec::with_capacity(HEADER + pieces[0].len() + pieces[1].len());
    row.extend([version, 0, 0, 0, 0]);
    for piece in pieces {
        row.extend_from_slice(piece);
    }
    seal(&mut row);
    row.into()
}
