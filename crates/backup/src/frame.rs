//! The stream of a snapshot.
//!
//! ```text
//! frame    [kind u8][length u32][payload]
//! origin   'O' [lineage u32][group u64]      overlay 'V' operations      rows 'R' operations
//! group    'G' [number u64] operations       end 'E' [group u64]         fault 'F' text
//! ```
//!
//! Integers are little-endian. A stream without its end is incomplete.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use callboard_store::sled::Piece;

use crate::Error;

const HEADER: usize = 1 + 4;
/// The most bytes of a payload: an overlay of two checkpoints, with room to spare.
const MAX: usize = 256 << 20;

/// A piece, or an error of the server, as a frame.
#[must_use]
pub fn encode(piece: Result<&Piece, &str>) -> Bytes {
    let mut bytes = BytesMut::new();
    let kind = match &piece {
        Ok(Piece::Origin { .. }) => b'O',
        Ok(Piece::Overlay(_)) => b'V',
        Ok(Piece::Rows(_)) => b'R',
        Ok(Piece::Group { .. }) => b'G',
        Ok(Piece::End { .. }) => b'E',
        Err(_) => b'F',
    };
    bytes.put_u8(kind);
    bytes.put_u32_le(0);
    match piece {
        Ok(Piece::Origin { lineage, group }) => {
            bytes.put_u32_le(*lineage);
            bytes.put_u64_le(*group);
        }
        Ok(Piece::Overlay(ops) | Piece::Rows(ops)) => bytes.put_slice(ops),
        Ok(Piece::Group { number, ops }) => {
            bytes.put_u64_le(*number);
            bytes.put_slice(ops);
        }
        Ok(Piece::End { group }) => bytes.put_u64_le(*group),
        Err(text) => bytes.put_slice(text.as_bytes()),
    }
    let length = u32::try_from(bytes.len() - HEADER).unwrap_or(u32::MAX);
    bytes[1..HEADER].copy_from_slice(&length.to_le_bytes());
    bytes.freeze()
}

/// The frames of a stream that comes in parts.
#[derive(Debug, Default)]
pub struct Frames(BytesMut);

impl Frames {
    /// Takes the next part of the stream.
    pub fn push(&mut self, part: &[u8]) {
        self.0.extend_from_slice(part);
    }

    /// The next whole piece; `None` if more of the stream is needed.
    ///
    /// # Errors
    /// [`Error::Incomplete`] if the server reports a fault, or if the stream is malformed.
    pub fn next_piece(&mut self) -> Result<Option<Piece>, Error> {
        let Some((header, _)) = self.0.split_first_chunk::<HEADER>() else { return Ok(None) };
        let [kind, length @ ..] = *header;
        let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        if length > MAX {
            return Err(malformed());
        }
        if self.0.len() < HEADER + length {
            return Ok(None);
        }
        self.0.advance(HEADER);
        let mut payload = self.0.split_to(length).freeze();
        let fixed = match kind {
            b'O' => 12,
            b'G' | b'E' => 8,
            _ => 0,
        };
        if payload.len() < fixed {
            return Err(malformed());
        }
        Ok(Some(match kind {
            b'O' => Piece::Origin { lineage: payload.get_u32_le(), group: payload.get_u64_le() },
            b'V' => Piece::Overlay(payload),
            b'R' => Piece::Rows(payload),
            b'G' => Piece::Group { number: payload.get_u64_le(), ops: payload },
            b'E' => Piece::End { group: payload.get_u64_le() },
            b'F' => return Err(Error::Incomplete(String::from_utf8_lossy(&payload).into_owned())),
            _ => return Err(malformed()),
        }))
    }
}

fn malformed() -> Error {
    Error::Incomplete("the stream is malformed; are both programs of the same version?".into())
}
