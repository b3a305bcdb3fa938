//! Payloads in fewer bytes: LZ4, with a dictionary of what the rows of a table have in common.
//!
//! ```text
//! squeezed   [length of the payload varint][a block of LZ4]
//! ```
//!
//! A row or a chunk says by the upper half of its version that it is squeezed. Deliberately absent:
//! dictionaries that change. What was written with one is read with the same.

use crate::row::{read_varint, varint_size, write_varint};

/// The bit of a version that says so.
pub(super) const SQUEEZED: u8 = 0x80;
/// Below this there is nothing to gain.
const SMALL: usize = 64;

/// Writes `payload` in fewer bytes to `room` from `at` on, if they are fewer by an eighth at least, and
/// returns how many they are. What else is in `room` from there on is of no use afterwards.
pub(super) fn squeeze(
    payload: &[u8],
    dictionary: &[u8],
    at: usize,
    room: &mut Vec<u8>,
) -> Option<usize> {
    if payload.len() < SMALL {
        return None;
    }
    let head = varint_size(payload.len());
    let most = at + head + lz4_flex::block::get_maximum_output_size(payload.len());
    if room.len() < most {
        room.resize(most, 0);
    }
    let (mut length, block) = room[at..].split_at_mut(head);
    write_varint(payload.len(), &mut length);
    let block = lz4_flex::block::compress_into_with_dict(payload, block, dictionary);
    let length = head + block.expect("there is room for the worst case");
    (length < payload.len() - payload.len() / 8).then_some(length)
}

/// What [`squeeze`] was given, at most `limit` bytes; `None` if it is damaged.
pub(super) fn unsqueezed(squeezed: &[u8], dictionary: &[u8], limit: usize) -> Option<Vec<u8>> {
    let (length, block) = read_varint(squeezed)?;
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

    fn squeezed(payload: &[u8]) -> Option<Vec<u8>> {
        let mut room = b"what stood there before".to_vec();
        let length = squeeze(payload, DICTIONARY, 5, &mut room)?;
        assert_eq!(&room[..5], b"what ");
        Some(room[5..5 + length].to_vec())
    }

    #[test]
    fn what_is_like_the_dictionary_takes_few_bytes_and_comes_back() {
        let payload = br#"{"spec":{"id":"dt_task_01","model":"another"},"and":"some more that no dictionary has"}"#;
        let bytes = squeezed(payload).expect("it is much alike");
        assert!(bytes.len() < payload.len() * 3 / 4, "{}", bytes.len());
        assert_eq!(unsqueezed(&bytes, DICTIONARY, 100).as_deref(), Some(&payload[..]));
        assert_eq!(unsqueezed(&bytes, DICTIONARY, 50), None);
        assert_ne!(unsqueezed(&bytes, b"", 100).as_deref(), Some(&payload[..]));
    }

    #[test]
    fn what_saves_nothing_stays_as_it_is() {
        let noise: Vec<u8> =
            (0..200_u32).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
        assert_eq!(squeezed(&noise), None);
        assert_eq!(squeezed(&DICTIONARY[..20]), None);
    }
}
