//! Listed rows: the results of a query.
#![expect(missing_docs, reason = "the names are sentences")]
#![expect(clippy::missing_panics_doc, reason = "a check panics if the store fails it")]

use std::future::{Ready, ready};
use std::thread;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};

use super::{Fixture, block_on, commit, value};
use crate::Store;
use crate::batch::{Entry, Key, Op};
use crate::query::{Filter, Order, Page, Query};
use crate::testing::memory::MemoryStore;

const LIST: [u8; 2] = [1, 1];
const OPEN: u8 = Key::FIRST_LISTED;
const DONE: u8 = Key::FIRST_LISTED + 1;

fn listed(table: u8, document: u128) -> Key {
    Key::new(table, 1, &document.to_be_bytes())
}

fn entry(status: &str, sort: [Option<u64>; 2]) -> Entry {
    Entry { list: LIST, terms: vec![(1, status.as_bytes().into())], sort }
}

fn list(table: u8, document: u128, status: &str) -> Op {
    let entry = Some(entry(status, [None, None]));
    Op::Put { key: listed(table, document), value: value(status), entry }
}

fn delete(table: u8, document: u128) -> Op {
    Op::Delete { key: listed(table, document) }
}

fn all(order: Order, descending: bool) -> Query {
    Query { list: LIST, filters: Vec::new(), order, descending, offset: 0, limit: 1000 }
}

fn status(text: &str) -> Query {
    let filters = vec![Filter::AnyOf(1, vec![text.as_bytes().into()])];
    Query { filters, ..all(Order::Document, false) }
}

async fn found(store: &dyn Store, query: &Query) -> Vec<u128> {
    let page = store.query(query).await.expect("the store answers");
    assert_eq!(page.total, page.documents.len() as u64);
    page.documents
}

pub async fn a_row_that_moves_keeps_its_place<F: Fixture>() {
    let fixture = F::new();
    commit(fixture.store(), (1..=4).map(|document| list(OPEN, document, "open")).collect()).await;
    commit(fixture.store(), vec![delete(OPEN, 1), list(DONE, 1, "done")]).await;
    commit(fixture.store(), vec![list(DONE, 2, "done"), delete(OPEN, 2)]).await;
    commit(fixture.store(), vec![list(DONE, 3, "done")]).await;
    commit(fixture.store(), vec![delete(OPEN, 3)]).await;
    let check = async |store: &dyn Store| {
        assert_eq!(found(store, &all(Order::Document, false)).await, [1, 2, 3, 4]);
        assert_eq!(found(store, &status("done")).await, [1, 2, 3]);
        assert_eq!(found(store, &status("open")).await, [4]);
    };
    check(fixture.store()).await;
    check(fixture.reopen().store()).await;
}

pub async fn a_document_stands_once_and_as_last_put<F: Fixture>() {
    let fixture = F::new();
    commit(fixture.store(), vec![list(DONE, 1, "first"), list(OPEN, 1, "second")]).await;
    commit(fixture.store(), vec![list(OPEN, 2, "first")]).await;
    commit(fixture.store(), vec![list(DONE, 2, "second")]).await;
    commit(fixture.store(), vec![list(OPEN, 3, "first"), delete(OPEN, 3), list(OPEN, 3, "second")])
        .await;
    assert_eq!(found(fixture.store(), &all(Order::Document, true)).await, [3, 2, 1]);
    let fixture = fixture.reopen();
    assert_eq!(found(fixture.store(), &all(Order::Document, true)).await, [3, 2, 1]);
    assert_eq!(found(fixture.store(), &status("second")).await, [1, 2, 3]);
    // Without the row that was put last, the one before it shows again.
    commit(fixture.store(), vec![delete(OPEN, 1), delete(DONE, 2)]).await;
    assert_eq!(found(fixture.store(), &status("first")).await, [1, 2]);
    assert_eq!(found(fixture.reopen().store(), &status("first")).await, [1, 2]);
}

pub async fn a_deleted_row_leaves_its_list<F: Fixture>() {
    let fixture = F::new();
    commit(fixture.store(), vec![list(OPEN, 1, "open"), list(OPEN, 2, "open")]).await;
    commit(fixture.store(), vec![delete(OPEN, 1), delete(OPEN, 9)]).await;
    assert_eq!(found(fixture.store(), &status("open")).await, [2]);
    let fixture = fixture.reopen();
    assert_eq!(found(fixture.store(), &status("open")).await, [2]);
    commit(fixture.store(), vec![list(OPEN, 1, "again")]).await;
    assert_eq!(found(fixture.store(), &all(Order::Document, false)).await, [1, 2]);
}

pub async fn a_listed_row_without_an_entry_is_on_no_list<F: Fixture>() {
    let fixture = F::new();
    let insert = Op::Insert { key: listed(OPEN, 1), value: value("plain") };
    commit(fixture.store(), vec![insert, list(OPEN, 2, "open")]).await;
    let plain = Op::Put { key: listed(OPEN, 2), value: value("plain"), entry: None };
    commit(fixture.store(), vec![plain]).await;
    assert_eq!(found(fixture.store(), &all(Order::Document, false)).await, [0; 0]);
    let fixture = fixture.reopen();
    assert_eq!(found(fixture.store(), &all(Order::Document, false)).await, [0; 0]);
    for document in [1, 2] {
        let row = fixture.store().get(&listed(OPEN, document)).await.expect("the store answers");
        assert_eq!(row, Some(value("plain")));
    }
}

pub async fn rows_without_a_value_come_last_in_both_directions<F: Fixture>() {
    let fixture = F::new();
    let put = |document, sort| {
        let entry = Some(entry("open", [sort, None]));
        Op::Put { key: listed(OPEN, document), value: value(""), entry }
    };
    let ops =
        vec![put(1, Some(5)), put(2, None), put(3, Some(u64::MAX)), put(4, None), put(5, Some(5))];
    commit(fixture.store(), ops).await;
    let fixture = fixture.reopen();
    let up = all(Order::Sort(0), false);
    assert_eq!(found(fixture.store(), &up).await, [1, 5, 3, 2, 4]);
    let down = all(Order::Sort(0), true);
    assert_eq!(found(fixture.store(), &down).await, [3, 5, 1, 4, 2]);
    let page = fixture.store().query(&Query { offset: 2, limit: 2, ..down }).await;
    assert_eq!(page.expect("the store answers"), Page { documents: vec![1, 4], total: 5 });
}

pub async fn filters_combine<F: Fixture>() {
    let fixture = F::new();
    for document in 1..=60_u128 {
        let mut terms =
            vec![(1, if document % 2 == 0 { b"even".as_slice() } else { b"odd" }.into())];
        terms.extend(
            [3, 5]
                .iter()
                .filter(|n| document % **n == 0)
                .map(|n| (2, Box::from([b'0' + u8::try_from(*n).expect("small")]))),
        );
        let entry = Some(Entry { list: LIST, terms, sort: [None, None] });
        commit(
            fixture.store(),
            vec![Op::Put { key: listed(OPEN, document), value: value(""), entry }],
        )
        .await;
    }
    let any = |field, terms: &[&str]| {
        Filter::AnyOf(field, terms.iter().map(|t| t.as_bytes().into()).collect())
    };
    let both = |field, terms: &[&str]| {
        Filter::AllOf(field, terms.iter().map(|t| t.as_bytes().into()).collect())
    };
    let ask = async |filters| {
        found(fixture.store(), &Query { filters, ..all(Order::Document, false) }).await
    };
    let numbers = |test: &dyn Fn(u128) -> bool| (1..=60).filter(|n| test(*n)).collect::<Vec<_>>();
    assert_eq!(ask(vec![any(1, &["odd"]), both(2, &["3", "5"])]).await, [15, 45]);
    assert_eq!(ask(vec![any(2, &["3", "5", "7"])]).await, numbers(&|n| n % 3 == 0 || n % 5 == 0));
    assert_eq!(ask(vec![any(2, &["7"])]).await, [0; 0]);
    assert_eq!(ask(vec![any(2, &[])]).await, [0; 0]);
    assert_eq!(ask(vec![both(2, &[])]).await, numbers(&|_| true));
    assert_eq!(ask(vec![any(2, &["odd"])]).await, [0; 0]);
    let within = |from, to| Filter::Documents { from, to };
    assert_eq!(ask(vec![any(1, &["even"]), within(Some(10), Some(15))]).await, [10, 12, 14]);
    assert_eq!(ask(vec![within(Some(58), None), within(None, Some(60))]).await, [58, 59]);
    assert_eq!(ask(vec![within(Some(7), Some(7))]).await, [0; 0]);
}

/// A field of words.
const WORD: u8 = Filter::WORDS;

/// The operations of some batches.
fn operations() -> impl Strategy<Value = Vec<Vec<Op>>> {
    let table = || prop_oneof![Just(OPEN), Just(DONE)];
    let document = || prop_oneof![3 => 0..60_u128, 1 => any::<u128>()];
    let field = prop_oneof![0..3_u8, Just(WORD)];
    let term = (field, prop::collection::vec(0..3_u8, 0..3));
    let terms = prop::collection::btree_set(term, 0..4);
    let sort = || prop::option::of(prop_oneof![0..4_u64, any::<u64>()]);
    let entry = (0..2_u8, terms, sort(), sort()).prop_map(|(list, terms, first, second)| Entry {
        list: [list, 1],
        terms: terms.into_iter().map(|(field, term)| (field, term.into())).collect(),
        sort: [first, second],
    });
    let put = (table(), document(), prop::option::weighted(0.95, entry)).prop_map(
        |(table, document, entry)| Op::Put {
            key: listed(table, document),
            value: value("row"),
            entry,
        },
    );
    let gone = (table(), document()).prop_map(|(table, document)| delete(table, document));
    let op = prop_oneof![4 => put, 1 => gone];
    prop::collection::vec(prop::collection::vec(op, 1..6), 1..50)
}

fn questions() -> impl Strategy<Value = Vec<Query>> {
    let terms =
        || prop::collection::vec(prop::collection::vec(0..3_u8, 0..2).prop_map(Box::from), 0..3);
    let bound = || prop::option::of(0..60_u128);
    let filter = prop_oneof![
        (0..3_u8, terms()).prop_map(|(field, terms)| Filter::AnyOf(field, terms)),
        (0..3_u8, terms()).prop_map(|(field, terms)| Filter::AllOf(field, terms)),
        prop::collection::vec(0..3_u8, 0..2).prop_map(|start| Filter::Prefix(WORD, start.into())),
        (0..2_usize, 0..4_u64, 0..6_u64).prop_map(|(value, from, to)| Filter::Sorted {
            value,
            from,
            to
        }),
        (0..3_u8, terms()).prop_map(|(field, terms)| Filter::NoneOf(field, terms)),
        (bound(), bound()).prop_map(|(from, to)| Filter::Documents { from, to }),
    ];
    let order = prop_oneof![Just(Order::Document), (0..3_usize).prop_map(Order::Sort)];
    let filters = prop_oneof![1 => Just(Vec::new()), 2 => prop::collection::vec(filter, 1..3)];
    let query = (0..2_u8, filters, order, any::<bool>(), 0..30_usize, 0..30_usize).prop_map(
        |(list, filters, order, descending, offset, limit)| Query {
            list: [list, 1],
            filters,
            order,
            descending,
            offset,
            limit,
        },
    );
    prop::collection::vec(query, 30)
}

pub fn queries_agree_with_looking_at_every_row<F: Fixture>() -> Ready<()> {
    let cases = F::CASES / F::THREADS;
    let config = Config { failure_persistence: None, cases, ..Config::default() };
    let check = || {
        let mut runner = TestRunner::new(config.clone());
        runner.run(&(operations(), questions()), |(batches, questions)| {
            let mut agrees = Ok(());
            block_on(async { agrees = agree::<F>(&batches, &questions).await });
            agrees
        })
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..F::THREADS).map(|_| scope.spawn(check)).collect();
        for thread in threads {
            if let Err(failure) = thread.join().expect("a check returns its failure") {
                panic!("{failure}");
            }
        }
    });
    ready(())
}

async fn agree<F: Fixture>(batches: &[Vec<Op>], questions: &[Query]) -> TestCaseResult {
    let model = MemoryStore::new();
    let mut fixture = F::new();
    let middle = batches.len() / 2;
    for (at, ops) in batches.iter().enumerate() {
        if at == middle {
            fixture = fixture.reopen();
        }
        commit(&model, ops.clone()).await;
        commit(fixture.store(), ops.clone()).await;
    }
    for reopened in [false, true] {
        if reopened {
            fixture = fixture.reopen();
        }
        for query in questions {
            let expected = model.query(query).await.expect("the model answers");
            let page = fixture.store().query(query).await.expect("the store answers");
            prop_assert_eq!(page, expected, "{:?}, reopened: {}", query, reopened);
        }
    }
    Ok(())
}

pub async fn whole_rows_can_be_put_into_another_list<F: Fixture>() {
    let fixture = F::new();
    let entry = Entry {
        list: LIST,
        terms: vec![(1, b"open"[..].into()), (4, b""[..].into()), (1, b"red"[..].into())],
        sort: [None, Some(7)],
    };
    let plain = Key::new(OPEN - 1, 1, &[9]);
    let rows = vec![
        Op::Put { key: plain.clone(), value: value("plain"), entry: None },
        Op::Put { key: listed(OPEN, 1), value: value("one"), entry: Some(entry) },
        Op::Put { key: listed(OPEN, 2), value: value("off every list"), entry: None },
        list(DONE, 3, "done"),
    ];
    commit(fixture.store(), rows.clone()).await;
    let check = async |store: &dyn Store| {
        let (from, to) = (plain.clone(), Key::new(u8::MAX, 1, &[]));
        let found = store.scan_whole(from, to.clone(), 9).await.expect("the store answers");
        let puts = found.into_iter().map(|(key, value, entry)| Op::Put { key, value, entry });
        assert_eq!(puts.collect::<Vec<_>>(), rows);
        let two = store.scan_whole(listed(OPEN, 2), to, 1).await.expect("the store answers");
        assert_eq!(two.len(), 1);
    };
    check(fixture.store()).await;
    let fixture = fixture.reopen();
    check(fixture.store()).await;
    let (from, to) = (plain.clone(), Key::new(u8::MAX, 1, &[]));
    let found = fixture.store().scan_whole(from, to, 9).await.expect("the store answers");
    let other = |(key, value, entry): (Key, _, Option<Entry>)| {
        let mut bytes = key.0.clone();
        bytes[1] = 2;
        let entry = entry.map(|entry| Entry { list: [LIST[0], 2], ..entry });
        Op::Put { key: Key(bytes), value, entry }
    };
    commit(fixture.store(), found.into_iter().map(other).collect()).await;
    let query = Query { list: [LIST[0], 2], ..status("red") };
    assert_eq!(self::found(fixture.store(), &query).await, [1]);
}
