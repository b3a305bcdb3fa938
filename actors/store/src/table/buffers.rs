//! The buffers in which rows are encoded, one pair a thread: a row costs one allocation, of its exact
//! length.

use std::cell::Cell;

use bytes::Bytes;
use serde::Serialize;

use super::compress::{COMPRESSED, compress};
use super::{HEADER, seal};

/// A longer buffer is freed: it was for one long text.
const KEPT: usize = 64 << 10;

thread_local! {
    static BUFFERS: Cell<EncodeBuffers> = Cell::default();
}

/// The buffers of a thread.
#[derive(Default)]
pub(super) struct EncodeBuffers {
    plain: Vec<u8>,
    /// The buffer only ever grows, so that each byte is zeroed once.
    compressed: Vec<u8>,
}

impl EncodeBuffers {
    /// Lends this thread's buffers to `work`.
    pub(super) fn with<T>(work: impl FnOnce(&mut Self) -> T) -> T {
        let mut buffers = BUFFERS.take();
        let done = work(&mut buffers);
        if buffers.plain.capacity().max(buffers.compressed.capacity()) <= KEPT {
            BUFFERS.set(buffers);
        }
        done
    }

    /// A row of `version` with `value` as its payload, compressed with `dictionary` if that pays.
    ///
    /// # Panics
    /// If the value cannot be JSON.
    pub(super) fn row<V: Serialize>(
        &mut self,
        version: u8,
        value: &V,
        dictionary: Option<&[u8]>,
    ) -> Bytes {
        self.plain.clear();
        self.plain.extend([version, 0, 0, 0, 0]);
        serde_json::to_writer(&mut self.plain, value).expect("a row's type can be JSON");
        let payload = &self.plain[HEADER..];
        debug_assert!(!payload.is_empty(), "no JSON is empty");
        let length = dictionary
            .and_then(|dictionary| compress(payload, dictionary, HEADER, &mut self.compressed));
        let row = match length {
            Some(length) => {
                self.compressed[0] = version | COMPRESSED;
                &mut self.compressed[..HEADER + length]
            }
            None => &mut self.plain[..],
        };
        seal(row);
        Bytes::copy_from_slice(row)
    }

    /// `text` compressed with `dictionary`, if that pays.
    pub(super) fn compressed(&mut self, text: &[u8], dictionary: &[u8]) -> Option<&[u8]> {
        let length = compress(text, dictionary, 0, &mut self.compressed)?;
        Some(&self.compressed[..length])
    }
}
