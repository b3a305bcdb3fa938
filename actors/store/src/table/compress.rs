//! Compression: LZ4, with a dictionary of the common parts of a table's rows.
//!
//! ```text
//! compressed   [length of the payload varint][a block of LZ4]
//! ```
//!
//! The highest bit of its version says that a row or a chunk is compressed. Deliberately absent: changes of
//! a dictionary. A row is read with the dictionary that it was written with.

use crate::row::{read_varint, varint_size, write_varint};

/// The bit of a version that says that the row is compressed.
pub(super) const COMPRESSED: u8 = 0x80;
/// A smaller payload is not compressed: there is nothing to gain.
const MIN_PAYLOAD: usize = 64;

/// Writes `payload` compressed to `buffer` from `at` on, and returns the length, if that saves an eighth at
/// least. The rest of `buffer` from `at` on is undefined afterwards.
pub(super) fn compress(
    payload: &[u8],
    dictionary: &[u8],
    at: usize,
    buffer: &mut Vec<u8>,
) -> Option<usize> {
    if payload.len() < MIN_PAYLOAD {
        return None;
    }
    let head = varint_size(payload.len());
    let most = at + head + lz4_flex::block::get_maximum_output_size(payload.len());
    if buffer.len() < most {
        buffer.resize(most, 0);
    }
    let (mut length, block) = buffer[at..].split_at_mut(head);
    write_varint(payload.len(), &mut length);
    let block = lz4_flex::block::compress_into_with_dict(payload, block, dictionary);
    let length = head + block.expect("the buffer has the space for the worst case");
    (length < payload.len() - payload.len() / 8).then_some(length)
}

/// The payload that [`compress`] was given; `None` if it is damaged or longer than `limit` bytes.
pub(super) fn decompress(compressed: &[u8], dictionary: &[u8], limit: usize) -> Option<Vec<u8>> {
    let (length, block) = read_varint(compressed)?;
    if length > limit {
        return None;
    }
    let payload = lz4_flex::block::decompress_with_dict(block, length, dictionary).ok()?;
    (payload.len() == length).then_some(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DICTIONARY: &[u8] = br#"{"spec":{"id":"dt_task_01","model":"default"}}"#;

    fn compressed(payload: &[u8]) -> Option<Vec<u8>> {
        let mut buffer = b"what stood there before".to_vec();
        let length = compress(payload, DICTIONARY, 5, &mut buffer)?;
        assert_eq!(&buffer[..5], b"what ");
        Some(buffer[5..5 + length].to_vec())
    }

    #[test]
    fn a_payload_like_the_dictionary_takes_few_bytes_and_comes_back() {
        let payload = br#"{"spec":{"id":"dt_task_01","model":"another"},"and":"some more that no dictionary has"}"#;
        let bytes = compressed(payload).expect("it is much alike");
        assert!(bytes.len() < payload.len() * 3 / 4, "{}", bytes.len());
        assert_eq!(decompress(&bytes, DICTIONARY, 100).as_deref(), Some(&payload[..]));
        assert_eq!(decompress(&bytes, DICTIONARY, 50), None);
        assert_ne!(decompress(&bytes, b"", 100).as_deref(), Some(&payload[..]));
    }

    #[test]
    fn a_payload_that_would_not_shrink_is_not_compressed() {
        let noise: Vec<u8> =
            (0..200_u32).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
        assert_eq!(compressed(&noise), None);
        assert_eq!(compressed(&DICTIONARY[..20]), None);
    }
}
