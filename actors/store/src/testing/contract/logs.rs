//! Logs: numbers, sizes, trims and the tail.
#![expect(missing_docs, reason = "the names are sentences")]
#![expect(clippy::missing_panics_doc, reason = "a check panics if the store fails it")]

use std::collections::VecDeque;

use bytes::Bytes;

use super::{Fixture, batch, commit, insert, put, value};
use crate::batch::{LogId, Op};
use crate::{Error, Outcome, Store};

const LOG: LogId = LogId(1);
const OTHER: LogId = LogId(2);

fn append(log: LogId, text: &str) -> Op {
    Op::Append { log, record: value(text) }
}

async fn read(store: &dyn Store, log: LogId, after: u64, limit: usize) -> Vec<(u64, Bytes)> {
    let records = store.read_log(log, after, limit).await.expect("the store answers");
    assert!(records.iter().all(|record| record.log == log));
    records.into_iter().map(|record| (record.sequence, record.bytes)).collect()
}

async fn bounds(store: &dyn Store, log: LogId) -> (u64, u64) {
    store.log_bounds(log).await.expect("the store answers")
}

pub async fn log_numbers_are_dense_and_survive<F: Fixture>() {
    let mut fixture = F::new();
    assert_eq!(bounds(fixture.store(), LOG).await, (0, 0));
    assert_eq!(read(fixture.store(), LOG, 0, 10).await, []);
    for round in 0..3 {
        let store = fixture.store();
        let tickets: Vec<_> = (0..30)
            .map(|n| {
                store.commit(batch(vec![append(LOG, &format!("{round}/{n}")), append(OTHER, "o")]))
            })
            .collect();
        for ticket in tickets {
            assert!(matches!(ticket.await, Outcome::Committed));
        }
        fixture = fixture.reopen();
    }
    let all = read(fixture.store(), LOG, 0, 1000).await;
    let expected: Vec<_> =
        (0..90).map(|at| (at + 1, value(&format!("{}/{}", at / 30, at % 30)))).collect();
    assert_eq!(all, expected);
    assert_eq!(bounds(fixture.store(), LOG).await, (1, 90));
    assert_eq!(bounds(fixture.store(), OTHER).await, (1, 90));
    for after in 0..92_usize {
        let page = read(fixture.store(), LOG, after as u64, 4).await;
        assert_eq!(page, expected.iter().skip(after).take(4).cloned().collect::<Vec<_>>());
    }
}

pub async fn log_records_of_every_size_are_read_back<F: Fixture>() {
    let fixture = F::new();
    let sizes = [0, 10, 4000, 4084, 4085, 4086, 65_536, 1, 20_000, 8170, 2];
    let record = |size: &usize| Op::Append { log: LOG, record: vec![9; *size].into() };
    commit(fixture.store(), sizes.iter().map(record).collect()).await;
    commit(fixture.store(), sizes.iter().map(record).collect()).await;
    let outcome = fixture.store().commit(batch(vec![record(&65_537)])).await;
    assert!(matches!(outcome, Outcome::NotApplied(Error::TooLarge(65_537))), "{outcome:?}");
    let fixture = fixture.reopen();
    for after in 0..22 {
        let found = read(fixture.store(), LOG, after as u64, 100).await;
        let found: Vec<_> = found.into_iter().map(|(_, record)| record.len()).collect();
        let twice: Vec<_> = sizes.iter().chain(&sizes).skip(after).copied().collect();
        assert_eq!(found, twice, "after {after}");
    }
}

pub async fn a_trimmed_log_goes_on_counting<F: Fixture>() {
    let fixture = F::new();
    commit(fixture.store(), (0..500).map(|_| append(LOG, "some record")).collect()).await;
    commit(
        fixture.store(),
        vec![Op::Trim { log: LOG, before: 9999 }, Op::Trim { log: OTHER, before: 5 }],
    )
    .await;
    let fixture = fixture.reopen();
    assert_eq!(bounds(fixture.store(), LOG).await, (501, 500));
    assert_eq!(bounds(fixture.store(), OTHER).await, (0, 0));
    assert_eq!(read(fixture.store(), LOG, 0, 10).await, []);
    commit(fixture.store(), vec![append(LOG, "next")]).await;
    let fixture = fixture.reopen();
    assert_eq!(bounds(fixture.store(), LOG).await, (501, 501));
    assert_eq!(read(fixture.store(), LOG, 0, 10).await, [(501, value("next"))]);
}

pub async fn a_trim_keeps_exactly_what_it_should<F: Fixture>() {
    let mut fixture = F::new();
    let large = || Op::Append { log: LOG, record: vec![1; 9000].into() };
    for _ in 0..10 {
        let mut ops: Vec<_> = (0..9).map(|n| append(LOG, &n.to_string())).collect();
        ops.push(large());
        commit(fixture.store(), ops).await;
    }
    for before in [0, 1, 2, 10, 11, 12, 35, 34, 60, 61, 100] {
        commit(fixture.store(), vec![Op::Trim { log: LOG, before }, append(OTHER, "o")]).await;
        fixture = fixture.reopen();
        let (oldest, newest) = bounds(fixture.store(), LOG).await;
        assert_eq!(newest, 100);
        assert!(oldest >= before.max(1));
        let kept = read(fixture.store(), LOG, 0, 1000).await;
        assert_eq!(
            kept.iter().map(|(n, _)| *n).collect::<Vec<_>>(),
            (oldest..=100).collect::<Vec<_>>()
        );
        assert!(kept.iter().all(|(n, record)| (record.len() == 9000) == (n % 10 == 0)));
    }
    // In one batch: records appended after the trim stay, those before it go.
    let ops =
        vec![append(LOG, "gone"), Op::Trim { log: LOG, before: u64::MAX }, append(LOG, "kept")];
    commit(fixture.store(), ops).await;
    fixture = fixture.reopen();
    assert_eq!(read(fixture.store(), LOG, 0, 10).await, [(102, value("kept"))]);
}

pub async fn refused_batches_leave_no_gap_in_a_log<F: Fixture>() {
    let fixture = F::new();
    commit(fixture.store(), vec![put(1, "a"), append(LOG, "first")]).await;
    let outcome = fixture.store().commit(batch(vec![append(LOG, "refused"), insert(1, "b")])).await;
    assert!(matches!(outcome, Outcome::Conflict(_)));
    commit(fixture.store(), vec![append(LOG, "second")]).await;
    let fixture = fixture.reopen();
    assert_eq!(
        read(fixture.store(), LOG, 0, 10).await,
        [(1, value("first")), (2, value("second"))]
    );
}

pub async fn the_tail_is_in_order_and_before_the_ticket<F: Fixture>() {
    let fixture = F::new();
    commit(fixture.store(), vec![append(LOG, "too early")]).await;
    let mut tail = fixture.store().tail();
    let mut came = VecDeque::new();
    let mut tickets = Vec::new();
    for n in 0..20 {
        let ops = vec![append(LOG, &n.to_string()), append(OTHER, "o"), put(1, "a")];
        tickets.push(fixture.store().commit(batch(ops)));
    }
    for (n, ticket) in (0..).zip(tickets) {
        assert!(matches!(ticket.await, Outcome::Committed));
        while let Ok(records) = tail.try_recv() {
            came.extend(records);
        }
        let one = came.pop_front().expect("a record is there when its ticket resolves");
        assert_eq!((one.log, one.sequence, one.bytes), (LOG, n + 2, value(&n.to_string())));
        let other = came.pop_front().expect("a record is there when its ticket resolves");
        assert_eq!((other.log, other.sequence), (OTHER, n + 1));
    }
}

pub async fn a_second_tail_closes_the_first<F: Fixture>() {
    let fixture = F::new();
    let mut first = fixture.store().tail();
    let mut second = fixture.store().tail();
    commit(fixture.store(), vec![append(LOG, "record")]).await;
    assert!(first.recv().await.is_none());
    let sequences = second.recv().await.map(|records| records.iter().map(|r| r.sequence).collect());
    assert_eq!(sequences, Some(vec![1]));
    drop(second);
    commit(fixture.store(), vec![append(LOG, "nobody listens")]).await;
}
