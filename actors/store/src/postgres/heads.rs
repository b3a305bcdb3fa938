//! The heads of listed rows that this node has written: the next change of a row needs its old entry, and then
//! costs no read of the database.
//!
//! No other node changes a row while its owner's fence holds, so the heads are forgotten when the node's
//! rights change. The fence refuses a group that was staged on heads of before.

use foldhash::{HashMap, HashMapExt};

use super::nodes::Rights;
use crate::batch::Key;
use crate::row::{ROWS, split_listed};

/// The most heads of a generation; there are two.
const GENERATION: usize = 8_192;

/// The heads of the rows that were written last.
#[derive(Default)]
pub(super) struct Heads {
    rights: Option<Rights>,
    young: HashMap<Box<[u8]>, Box<[u8]>>,
    old: HashMap<Box<[u8]>, Box<[u8]>>,
}

impl Heads {
    /// Forgets everything if the node's rights are not those under which the heads were noted.
    pub(super) fn keep_under(&mut self, rights: Rights) {
        if self.rights != Some(rights) {
            *self = Self { rights: Some(rights), ..Self::default() };
        }
    }

    /// The start of the row at `key` on disk, with its whole entry.
    pub(super) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.young.get(key).or_else(|| self.old.get(key)).map(AsRef::as_ref)
    }

    /// Notes a row that was committed.
    pub(super) fn record(&mut self, key: &[u8], row: &[u8]) {
        if !key.starts_with(&[ROWS]) || key.get(1).is_none_or(|table| *table < Key::FIRST_LISTED) {
            return;
        }
        let Some((_, end)) = split_listed(row) else { return };
        if self.young.len() >= GENERATION {
            self.old = std::mem::replace(&mut self.young, HashMap::with_capacity(GENERATION));
        }
        self.young.insert(key.into(), row[..end].into());
    }

    /// Forgets a row that was deleted.
    pub(super) fn forget(&mut self, key: &[u8]) {
        self.young.remove(key);
        self.old.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::nodes::{Uuid, Writer};

    fn rights(fence: i64, tenure: u64) -> Rights {
        let writer = Writer { node: Uuid(1), incarnation: 1, fence, number: 0 };
        Rights::new(writer, tenure)
    }

    fn key(number: u64) -> Vec<u8> {
        [&[ROWS, Key::FIRST_LISTED][..], &number.to_be_bytes()].concat()
    }

    /// A row with an entry of two bytes.
    const ROW: &[u8] = b"\x02\0entry";

    #[test]
    fn a_head_is_kept_while_the_rights_are_the_same() {
        let mut heads = Heads::default();
        heads.keep_under(rights(1, 1));
        heads.record(&key(1), ROW);
        heads.record(&[ROWS, 1, 1], ROW);
        heads.keep_under(rights(1, 1));
        assert_eq!(heads.get(&key(1)), Some(&b"\x02\0en"[..]));
        assert_eq!(heads.get(&[ROWS, 1, 1]), None, "its table is on no list");
        heads.forget(&key(1));
        assert_eq!(heads.get(&key(1)), None);
        for changed in [rights(2, 1), rights(1, 2)] {
            heads.keep_under(rights(1, 1));
            heads.record(&key(1), ROW);
            heads.keep_under(changed);
            assert_eq!(heads.get(&key(1)), None);
        }
    }

    #[test]
    fn the_oldest_heads_make_room() {
        let mut heads = Heads::default();
        for number in 0..3 * GENERATION as u64 {
            heads.record(&key(number), ROW);
        }
        assert!(heads.young.len() + heads.old.len() <= 2 * GENERATION);
        assert_eq!(heads.get(&key(0)), None);
        assert!(heads.get(&key(3 * GENERATION as u64 - 1)).is_some());
    }
}
