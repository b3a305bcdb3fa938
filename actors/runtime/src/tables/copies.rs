//! The rows of a project on their way to another cell: pages of bytes, and the digests by which both sides compare.
//!
//! ```text
//!   page of rows     (length of the key u16, [table][key within the table …], length of the value u32, value, entry) …
//!   entry            0 for none, else 1, list u8, (0 or 1 and the value) twice, number of terms u16,
//!                    (field u8, length u16, term) …
//!   page of records  number of the first u64, (length u32, record) …
//! ```
//!
//! Integers are big-endian. The environment is left out: the project has another place in the other cell. The marks of
//! the server's starts are left out too: a cursor of one cell's events means nothing in another one.

use callboard_domain::id::Environment;
use callboard_store::{Entry, Error, Key, Op, Record, Store, WholeRow};

use super::{STARTS_NUMBER, event_log};

/// The rows of a page: at most a megabyte.
pub(crate) const ROWS: usize = 256;
/// The records of a page: at most a megabyte.
pub(crate) const RECORDS: usize = 16;
/// More bytes than any key has.
pub(crate) const LONGEST: [u8; 128] = [0xff; 128];

/// The rows of an environment behind a place, which is the table and the key within it of a row; empty for the
/// beginning. At most [`ROWS`]; none behind the last one.
pub(crate) async fn rows_after(
    store: &dyn Store,
    environment: Environment,
    place: &[u8],
) -> Result<Vec<WholeRow>, Error> {
    let number = environment.number();
    let (first, rest) = place.split_first().unwrap_or((&0, &[]));
    let mut rows = Vec::new();
    for table in (*first..=u8::MAX).filter(|table| *table != STARTS_NUMBER) {
        let begun = [rest, &[0]].concat();
        let is_begun = table == *first && !place.is_empty();
        let from = Key::new(table, number, if is_begun { &begun } else { &[] });
        let to = Key::new(table, number, &LONGEST);
        rows.extend(store.scan_whole(from, to, ROWS - rows.len()).await?);
        if rows.len() == ROWS {
            break;
        }
    }
    Ok(rows)
}

/// The place of a row.
pub(crate) fn place_of(key: &Key) -> Vec<u8> {
    let (head, rest) = key.0.split_at(2);
    [&head[..1], rest].concat()
}

/// The page of some rows.
pub(crate) fn page(rows: &[WholeRow]) -> Vec<u8> {
    let mut page = Vec::new();
    for (key, value, entry) in rows {
        put_short(&mut page, &place_of(key));
        put_long(&mut page, value);
        put_entry(&mut page, entry.as_ref());
    }
    page
}

fn put_entry(page: &mut Vec<u8>, entry: Option<&Entry>) {
    let Some(Entry { list, terms, sort }) = entry else { return page.push(0) };
    page.extend([1, list[0]]);
    for value in sort {
        page.push(u8::from(value.is_some()));
        page.extend(value.unwrap_or_default().to_be_bytes());
    }
    let mut terms: Vec<_> = terms.iter().collect();
    // One digest for one set of terms, in whatever order a store has them.
    terms.sort_unstable();
    page.extend(u16::try_from(terms.len()).expect("a row is short").to_be_bytes());
    for (field, term) in terms {
        page.push(*field);
        put_short(page, term);
    }
}

fn put_short(page: &mut Vec<u8>, bytes: &[u8]) {
    page.extend(u16::try_from(bytes.len()).expect("a row is short").to_be_bytes());
    page.extend(bytes);
}

fn put_long(page: &mut Vec<u8>, bytes: &[u8]) {
    page.extend(u32::try_from(bytes.len()).expect("a record is short").to_be_bytes());
    page.extend(bytes);
}

/// The operations that put the rows of a page into an environment, and the place of the last row; `None` for bytes
/// that are no page.
pub(crate) fn puts_of(page: &[u8], environment: Environment) -> Option<(Vec<Op>, Vec<u8>)> {
    let (mut rest, mut ops, mut last) = (Reader(page), Vec::new(), Vec::new());
    while !rest.0.is_empty() {
        let place = rest.short()?;
        let (table, key) = place.split_first()?;
        last = place.to_vec();
        let key = Key::new(*table, environment.number(), key);
        let value = rest.long()?.to_vec().into();
        let entry = rest.entry(environment)?;
        ops.push(Op::Put { key, value, entry });
    }
    Some((ops, last))
}

/// The page of some records, which follow each other.
pub(crate) fn page_of_records(records: &[Record]) -> Vec<u8> {
    let Some(first) = records.first() else { return Vec::new() };
    let mut page = first.sequence.to_be_bytes().to_vec();
    for record in records {
        put_long(&mut page, &record.bytes);
    }
    page
}

/// The operations that append the records of a page, and the number of the last one in the other cell; `None` for
/// bytes that are no page.
pub(crate) fn appends_of(page: &[u8], environment: Environment) -> Option<(Vec<Op>, u64)> {
    let (mut rest, mut ops) = (Reader(page), Vec::new());
    if page.is_empty() {
        return Some((ops, 0));
    }
    let first = u64::from_be_bytes(rest.take(8)?.try_into().ok()?);
    while !rest.0.is_empty() {
        let record = rest.long()?.to_vec().into();
        ops.push(Op::Append { log: event_log(environment), record });
    }
    let last = first.checked_add(ops.len() as u64)?.checked_sub(1)?;
    Some((ops, last))
}

struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    fn number(&mut self) -> Option<usize> {
        Some(usize::from(u16::from_be_bytes(self.take(2)?.try_into().ok()?)))
    }

    fn short(&mut self) -> Option<&'b [u8]> {
        let length = self.number()?;
        self.take(length)
    }

    fn long(&mut self) -> Option<&'b [u8]> {
        let length = u32::from_be_bytes(self.take(4)?.try_into().ok()?);
        self.take(usize::try_from(length).ok()?)
    }

    /// The entry of a row; the outer `None` is for bytes that are none.
    #[expect(clippy::option_option, reason = "a row has no entry, or the bytes are broken")]
    fn entry(&mut self, environment: Environment) -> Option<Option<Entry>> {
        match self.byte()? {
            0 => return Some(None),
            1 => {}
            _ => return None,
        }
        let list = [self.byte()?, environment.number()];
        let mut sort = [None; 2];
        for value in &mut sort {
            let is_there = self.byte()? == 1;
            let number = u64::from_be_bytes(self.take(8)?.try_into().ok()?);
            *value = is_there.then_some(number);
        }
        let count = self.number()?;
        let mut terms = Vec::with_capacity(count);
        for _ in 0..count {
            terms.push((self.byte()?, self.short()?.into()));
        }
        Some(Some(Entry { list, terms, sort }))
    }
}

#[cfg(test)]
mod tests {
    use callboard_domain::id::{Mode, Slot};

    use super::*;

    fn environment(slot: u8) -> Environment {
        Slot::new(slot).expect("a place").environment(Mode::Test)
    }

    fn row(slot: u8, table: u8, value: &'static [u8], entry: Option<Entry>) -> WholeRow {
        let key = Key::new(table, environment(slot).number(), &[7; 16]);
        (key, value.into(), entry)
    }

    fn entry(slot: u8) -> Entry {
        let terms = vec![(1, b"a"[..].into()), (2, b""[..].into())];
        Entry { list: [0x80, environment(slot).number()], terms, sort: [None, Some(9)] }
    }

    #[test]
    fn rows_arrive_as_they_were_in_another_place() {
        let rows = [row(1, 0x10, b"v", None), row(1, 0x80, b"", Some(entry(1)))];
        let (ops, last) = puts_of(&page(&rows), environment(5)).expect("a page");
        let expected = [row(5, 0x10, b"v", None), row(5, 0x80, b"", Some(entry(5)))];
        let put = |(key, value, entry)| Op::Put { key, value, entry };
        assert_eq!(ops, expected.map(put));
        assert_eq!(last, [&[0x80][..], &[7; 16]].concat());
    }

    #[test]
    fn the_order_of_terms_is_no_difference_and_everything_else_is() {
        let same = |one: WholeRow, other: WholeRow| page(&[one]) == page(&[other]);
        let of = |entry| row(1, 0x80, b"v", Some(entry));
        let mut turned = entry(1);
        turned.terms.reverse();
        assert!(same(of(entry(1)), of(turned)));
        assert!(!same(of(entry(1)), row(1, 0x80, b"v", None)));
        assert!(!same(of(entry(1)), of(Entry { sort: [Some(9), None], ..entry(1) })));
        assert!(!same(of(entry(1)), row(1, 0x80, b"w", Some(entry(1)))));
        assert!(!same(of(entry(1)), row(1, 0x81, b"v", Some(entry(1)))));
    }

    #[test]
    fn records_follow_each_other() {
        let record = |sequence| Record {
            log: event_log(environment(1)),
            sequence,
            bytes: vec![0; usize::try_from(sequence).expect("small")].into(),
        };
        let page = page_of_records(&[record(4), record(5)]);
        let (ops, last) = appends_of(&page, environment(2)).expect("a page");
        assert_eq!((ops.len(), last), (2, 5));
        assert_eq!(appends_of(&[], environment(2)), Some((Vec::new(), 0)));
    }

    #[test]
    fn bytes_that_are_cut_short_are_no_page() {
        let whole = page(&[row(1, 0x80, b"v", Some(entry(1)))]);
        for length in 1..whole.len() {
            assert!(puts_of(&whole[..length], environment(2)).is_none(), "{length}");
        }
    }
}
