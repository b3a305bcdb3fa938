//! Batches: whole, in order, fenced, and readable.
#![expect(missing_docs, reason = "the names are sentences")]
#![expect(clippy::missing_panics_doc, reason = "a check panics if the store fails it")]

use std::collections::BTreeMap;
use std::future::{Ready, ready};

use super::{Fixture, batch, commit, get, insert, key, put, value};
use crate::batch::{Epoch, Key, MAX_ROW, Op, Partition};
use crate::{Error, Outcome, Size, Store};

fn epoch(store: &dyn Store) -> Epoch {
    store.epoch(Partition(7)).expect("a lone node owns every partition")
}

pub async fn a_committed_batch_is_there_and_stays<F: Fixture>() {
    let fixture = F::new();
    commit(fixture.store(), vec![put(1, "a"), insert(2, "b")]).await;
    commit(
        fixture.store(),
        vec![put(1, "c"), Op::Delete { key: key(2) }, Op::Delete { key: key(9) }],
    )
    .await;
    let fixture = fixture.reopen();
    assert_eq!(get(fixture.store(), 1).await, Some(value("c")));
    assert_eq!(get(fixture.store(), 2).await, None);
}

pub async fn a_refused_batch_changes_nothing<F: Fixture>() {
    let fixture = F::new();
    commit(fixture.store(), vec![put(1, "a")]).await;
    let large = Op::Put { key: key(3), value: vec![0; MAX_ROW].into(), entry: None };
    let outcome = fixture.store().commit(batch(vec![put(1, "b"), put(2, "b"), large])).await;
    assert!(
        matches!(outcome, Outcome::NotApplied(Error::TooLarge(size)) if size > MAX_ROW),
        "{outcome:?}"
    );
    let outcome =
        fixture.store().commit(batch(vec![put(1, "b"), put(2, "b"), insert(1, "b")])).await;
    assert!(matches!(outcome, Outcome::Conflict(at) if at == key(1)));
    let fixture = fixture.reopen();
    assert_eq!(get(fixture.store(), 1).await, Some(value("a")));
    assert_eq!(get(fixture.store(), 2).await, None);
}

pub async fn of_two_operations_on_one_key_the_later_holds<F: Fixture>() {
    let fixture = F::new();
    let delete = |n| Op::Delete { key: key(n) };
    commit(
        fixture.store(),
        vec![put(1, "a"), put(1, "b"), put(2, "a"), delete(2), delete(3), put(3, "a")],
    )
    .await;
    let fixture = fixture.reopen();
    assert_eq!(get(fixture.store(), 1).await, Some(value("b")));
    assert_eq!(get(fixture.store(), 2).await, None);
    assert_eq!(get(fixture.store(), 3).await, Some(value("a")));
}

pub async fn an_insert_is_refused_where_a_key_is_taken<F: Fixture>() {
    let fixture = F::new();
    commit(fixture.store(), vec![put(1, "a")]).await;
    let fixture = fixture.reopen();
    let store = fixture.store();
    for ops in [
        vec![insert(1, "b")],
        vec![insert(2, "b"), insert(2, "c")],
        vec![put(2, "b"), insert(2, "c")],
        vec![Op::Delete { key: key(1) }, insert(1, "b"), insert(1, "c")],
    ] {
        let outcome = store.commit(batch(ops)).await;
        assert!(matches!(outcome, Outcome::Conflict(_)), "{outcome:?}");
    }
    commit(store, vec![Op::Delete { key: key(1) }, insert(1, "b")]).await;
    assert_eq!(get(store, 1).await, Some(value("b")));
    assert_eq!(get(store, 2).await, None);
}

pub async fn batches_in_line_see_those_before_them<F: Fixture>() {
    let fixture = F::new();
    let store = fixture.store();
    let tickets: Vec<_> = (0..40)
        .map(|round| {
            let op = match round % 4 {
                0 | 1 => insert(1, "a"),
                2 => Op::Delete { key: key(1) },
                _ => Op::Append { log: crate::LogId(1), record: value("r") },
            };
            store.commit(batch(vec![op, put(2, &round.to_string())]))
        })
        .collect();
    for (round, ticket) in tickets.into_iter().enumerate() {
        let outcome = ticket.await;
        let conflict = matches!(outcome, Outcome::Conflict(_));
        assert_eq!(conflict, round % 4 == 1, "{round}: {outcome:?}");
    }
    assert_eq!(get(store, 1).await, None);
    assert_eq!(get(store, 2).await, Some(value("39")));
}

pub async fn a_batch_with_a_guard_of_another_epoch_is_fenced<F: Fixture>() {
    let fixture = F::new();
    let old = epoch(fixture.store());
    let guarded = |n, epoch| {
        let mut batch = batch(vec![put(n, "a")]);
        batch.guards.push((Partition(7), epoch));
        batch
    };
    assert!(matches!(fixture.store().commit(guarded(1, old)).await, Outcome::Committed));
    let fixture = fixture.reopen();
    assert!(matches!(fixture.store().commit(guarded(2, old)).await, Outcome::Fenced));
    assert!(matches!(fixture.store().commit(guarded(2, Epoch(u64::MAX))).await, Outcome::Fenced));
    assert_eq!(get(fixture.store(), 2).await, None);
    let current = epoch(fixture.store());
    assert!(matches!(fixture.store().commit(guarded(2, current)).await, Outcome::Committed));
}

pub fn the_epoch_grows_with_every_opening<F: Fixture>() -> Ready<()> {
    let mut fixture = F::new();
    for _ in 0..3 {
        let before = epoch(fixture.store());
        fixture = fixture.reopen();
        assert!(epoch(fixture.store()) > before);
    }
    ready(())
}

pub async fn a_row_of_exactly_the_limit_fits<F: Fixture>() {
    let fixture = F::new();
    let row = |size: usize| Op::Put { key: key(1), value: vec![7; size].into(), entry: None };
    // A store may add up to 16 bytes of its own to a plain row.
    commit(fixture.store(), vec![row(MAX_ROW - 3 - 16)]).await;
    let outcome = fixture.store().commit(batch(vec![row(MAX_ROW + 1)])).await;
    assert!(matches!(outcome, Outcome::NotApplied(Error::TooLarge(_))));
    let fixture = fixture.reopen();
    assert_eq!(get(fixture.store(), 1).await.map(|row| row.len()), Some(MAX_ROW - 19));
}

pub async fn a_scan_is_in_order_and_within_its_bounds<F: Fixture>() {
    let fixture = F::new();
    commit(fixture.store(), [5, 1, 200, 3, 9].map(|n| put(n, "a")).into()).await;
    let other = Op::Put { key: Key::new(2, 1, &[4]), value: value("other"), entry: None };
    let listed = Op::Put {
        key: Key::new(Key::FIRST_LISTED, 1, &[4; 16]),
        value: value("listed"),
        entry: Some(crate::Entry::default()),
    };
    commit(fixture.store(), vec![other, listed]).await;
    let fixture = fixture.reopen();
    let numbers = async |from: u8, to: u8, limit| {
        let rows =
            fixture.store().scan(key(from), key(to), limit).await.expect("the store answers");
        rows.iter().map(|(key, _)| key.0[2]).collect::<Vec<_>>()
    };
    assert_eq!(numbers(0, 255, 10).await, [1, 3, 5, 9, 200]);
    assert_eq!(numbers(3, 9, 10).await, [3, 5]);
    assert_eq!(numbers(2, 255, 2).await, [3, 5]);
    assert_eq!(numbers(9, 3, 10).await, [0; 0]);
    let all = fixture.store().scan(Key::new(0, 0, &[]), Key::new(255, 255, &[]), 100).await;
    let all = all.expect("the store answers");
    assert_eq!(all.len(), 7);
    assert_eq!(all[6].1, value("listed"));
}

pub async fn answers_can_be_read_at_once<F: Fixture>() {
    let fixture = F::new();
    for round in 0..50_u8 {
        commit(fixture.store(), vec![put(round, "a")]).await;
        assert_eq!(get(fixture.store(), round).await, Some(value("a")));
    }
}

pub async fn an_empty_batch_is_committed<F: Fixture>() {
    let fixture = F::new();
    commit(fixture.store(), Vec::new()).await;
}

/// The sizes of tables, after a whole measurement.
async fn sizes(store: &dyn Store) -> BTreeMap<u8, Size> {
    let (mut found, mut after): (BTreeMap<u8, Size>, _) = (BTreeMap::new(), Vec::new());
    loop {
        let part = store.measure(after).await.expect("the store answers");
        assert!(!part.is_sample, "so few rows are all counted");
        for (table, size) in part.tables {
            if let Some(table) = table {
                *found.entry(table).or_default() += size;
            }
        }
        let Some(next) = part.next else { return found };
        after = next;
    }
}

pub async fn a_measurement_counts_the_rows_of_each_table<F: Fixture>() {
    let fixture = F::new();
    assert_eq!(sizes(fixture.store()).await, BTreeMap::new());
    let row = |table, n: u16, bytes| {
        let key = Key::new(table, 1, &n.to_be_bytes());
        Op::Put { key, value: vec![7; bytes].into(), entry: None }
    };
    // More bytes than one part of a measurement reads.
    for part in 0..10 {
        commit(fixture.store(), (0..50).map(|n| row(1, part * 50 + n, 1_000)).collect()).await;
    }
    commit(fixture.store(), (0..3).map(|n| row(2, n, 10)).collect()).await;
    let size = |rows: u64, value: u64| Size { rows, bytes: rows * (5 + value) };
    let whole = BTreeMap::from([(1, size(500, 1_000)), (2, size(3, 10))]);
    assert_eq!(sizes(fixture.store()).await, whole);
    let fixture = fixture.reopen();
    commit(fixture.store(), vec![Op::Delete { key: Key::new(1, 1, &7_u16.to_be_bytes()) }]).await;
    commit(fixture.store(), vec![row(1, 8, 500)]).await;
    let mut found = sizes(fixture.store()).await;
    let one = found.remove(&1).expect("it has rows");
    assert_eq!(one, Size { rows: 499, bytes: 499 * 1_005 - 500 });
    assert_eq!(found, BTreeMap::from([(2, size(3, 10))]));
}
