//! The buffers that rows are written in, one set a thread: a row comes out exactly as long as it is,
//! and costs one allocation.

use std::cell::Cell;

use bytes::Bytes;
use serde::Serialize;

use super::squeeze::{self, SQUEEZED};
use super::{HEADER, seal};

/// A longer buffer is given back: it came of one long text.
const KEPT: usize = 64 << 10;

thread_local! {
    static ROOM: Cell<Room> = Cell::default();
}

/// Buffers for one row or text.
#[derive(Default)]
pub(super) struct Room {
    plain: Vec<u8>,
    /// Only ever grows, so that it is filled with zeros once.
    squeezed: Vec<u8>,
}

impl Room {
    /// Lends this thread's buffers to `work`.
    pub(super) fn with<T>(work: impl FnOnce(&mut Self) -> T) -> T {
        let mut room = ROOM.take();
        let done = work(&mut room);
        if room.plain.capacity().max(room.squeezed.capacity()) <= KEPT {
            ROOM.set(room);
        }
        done
    }

    /// A row of `version` with `value` as its payload, squeezed by `dictionary` if that is worth it.
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
            .and_then(|words| squeeze::squeeze(payload, words, HEADER, &mut self.squeezed));
        let row = match length {
            Some(length) => {
                self.squeezed[0] = version | SQUEEZED;
                &mut self.squeezed[..HEADER + length]
            }
            None => &mut self.plain[..],
        };
        seal(row);
        Bytes::copy_from_slice(row)
    }

    /// `text` squeezed by `dictionary`, if that is worth it.
    pub(super) fn squeezed(&mut self, text: &[u8], dictionary: &[u8]) -> Option<&[u8]> {
        let length = squeeze::squeeze(text, dictionary, 0, &mut self.squeezed)?;
        Some(&self.squeezed[..length])
    }
}
