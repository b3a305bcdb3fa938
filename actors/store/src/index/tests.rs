//! The index against looking at every document, with lists long enough for every merge.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::batch::Entry;
use crate::query::{Filter, Order};
use crate::row::encode_listed;

const LIST: [u8; 2] = [1, 1];
const WORD: u8 = Filter::WORDS;

fn block(stamp: u64, entry: &Entry) -> Box<[u8]> {
    let mut row = Vec::new();
    let head = encode_listed(stamp, Some(entry), b"", &mut row);
    row[2..head].into()
}

fn key(document: u128) -> Key {
    Key::new(Key::FIRST_LISTED, 1, &document.to_be_bytes())
}

fn entry(status: u8, tag: u8, sort: [Option<u64>; 2]) -> Entry {
    Entry {
        list: LIST,
        terms: vec![(1, [status].into()), (2, [tag].into()), (WORD, [tag, status].into())],
        sort,
    }
}

type Documents = BTreeMap<u128, Entry>;

fn expected(documents: &Documents, query: &Query) -> Page {
    let contains =
        |entry: &Entry, field: u8, term: &[u8]| entry.terms.contains(&(field, term.into()));
    let matches = |entry: &Entry| {
        query.filters.iter().all(|filter| match filter {
            Filter::AnyOf(field, terms) => terms.iter().any(|term| contains(entry, *field, term)),
            Filter::AllOf(field, terms) => terms.iter().all(|term| contains(entry, *field, term)),
            Filter::NoneOf(field, terms) => !terms.iter().any(|term| contains(entry, *field, term)),
            Filter::Prefix(field, start) => {
                entry.terms.iter().any(|(of, term)| of == field && term.starts_with(start))
            }
            Filter::Sorted { value, from, to } => {
                entry.sort[*value].is_some_and(|value| (*from..*to).contains(&value))
            }
            Filter::Documents { .. } => true,
        })
    };
    let mut found: Vec<_> = documents.iter().filter(|(_, entry)| matches(entry)).collect();
    if query.descending {
        found.reverse();
    }
    if let Order::Sort(n) = query.order {
        found.sort_by(|(_, a), (_, b)| {
            let by_value = if query.descending {
                b.sort[n].cmp(&a.sort[n])
            } else {
                a.sort[n].cmp(&b.sort[n])
            };
            a.sort[n].is_none().cmp(&b.sort[n].is_none()).then(by_value)
        });
    }
    let total = found.len() as u64;
    let found = found.into_iter().skip(query.offset).take(query.limit);
    Page { documents: found.map(|(document, _)| *document).collect(), total }
}

/// Puts or takes off one document after the other.
fn play(steps: &[(u128, Option<Entry>)]) -> (Lists, Documents) {
    let (mut lists, mut documents, mut stamp) = (Lists::default(), Documents::new(), 0);
    for (document, entry) in steps {
        stamp += 1;
        let old = documents.get(document).map(|old| block(0, old));
        let new = entry.as_ref().map(|entry| block(stamp, entry));
        match entry {
            Some(entry) => documents.insert(*document, entry.clone()),
            None => documents.remove(document),
        };
        lists.apply(&[Change { key: key(*document), old, new }], &|_| None);
    }
    (lists, documents)
}

fn steps() -> impl Strategy<Value = Vec<(u128, Option<Entry>)>> {
    let sort = || prop::option::weighted(0.8, 0..20_u64);
    let some = (0..3_u8, 0..4_u8, sort(), sort()).prop_map(|(a, b, c, d)| entry(a, b, [c, d]));
    let step = (0..100_u128, any::<u8>(), prop::option::weighted(0.85, some));
    prop::collection::vec(step, 1..600).prop_map(|steps| {
        // Mostly ascending, some near the end, some anywhere.
        let near = |(at, (jitter, how, entry)): (usize, (u128, u8, Option<Entry>))| {
            let at = at as u128;
            let document = match how {
                0..180 => 100 + at,
                180..235 => 100 + at - jitter % 10,
                235.. => (100 + at) * jitter / 100,
            };
            (document, entry)
        };
        steps.into_iter().enumerate().map(near).collect()
    })
}

fn query() -> impl Strategy<Value = Query> {
    let any_of = |field, terms: Vec<u8>| {
        Filter::AnyOf(field, terms.into_iter().map(|t| [t].into()).collect())
    };
    let terms =
        (1..3_u8, prop::collection::vec(0..4_u8, 1..3)).prop_map(move |(f, t)| any_of(f, t));
    let sorted = (0..2_usize, 0..20_u64, 0..25_u64).prop_map(|(value, from, to)| Filter::Sorted {
        value,
        from,
        to,
    });
    let prefix =
        prop::collection::vec(0..4_u8, 0..3).prop_map(|start| Filter::Prefix(WORD, start.into()));
    let filter = prop_oneof![4 => terms, 1 => sorted, 1 => prefix];
    let order = prop_oneof![Just(Order::Document), (0..2_usize).prop_map(Order::Sort)];
    (prop::collection::vec(filter, 0..3), order, any::<bool>(), 0..300_usize, 0..300_usize)
        .prop_map(|(filters, order, descending, offset, limit)| Query {
            list: LIST,
            filters,
            order,
            descending,
            offset,
            limit,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_query_agrees_with_looking_at_every_document(
        steps in steps(),
        queries in prop::collection::vec(query(), 20),
    ) {
        let (lists, documents) = play(&steps);
        for query in &queries {
            prop_assert_eq!(lists.select(query).expect("few terms"), expected(&documents, query), "{:?}", query);
        }
        for (document, _) in &steps {
            prop_assert_eq!(lists.contains(&key(*document)), documents.contains_key(document));
        }
        prop_assert!(!lists.contains(&Key::new(Key::FIRST_LISTED, 0, &steps[0].0.to_be_bytes())));
    }

    #[test]
    fn what_is_loaded_while_commits_go_on_is_what_was_committed(
        steps in steps(),
        queries in prop::collection::vec(query(), 10),
        moments in prop::array::uniform3(any::<prop::sample::Index>()),
    ) {
        let (_, documents) = play(&steps);
        // The scan begins with the rows of one moment, sees some of the later ones,
        // is taken over at the second moment, and becomes visible at the third.
        let mut at = moments.map(|moment| moment.index(steps.len()));
        at.sort_unstable();
        let index = Index::new();
        let (mut before, mut stamp, mut seen) = (Documents::new(), 0, Documents::new());
        let mut note = |index: &Index, before: &mut Documents, (document, entry): &(u128, Option<Entry>)| {
            stamp += 1;
            let change = Change {
                key: key(*document),
                old: before.get(document).map(|old| block(0, old)),
                new: entry.as_ref().map(|entry| block(stamp, entry)),
            };
            match entry {
                Some(entry) => before.insert(*document, entry.clone()),
                None => before.remove(document),
            };
            index.hold_while_loading(vec![change])
        };
        for (n, step) in steps[..at[1]].iter().enumerate() {
            if n < at[0] {
                let _ = note(&Index::new(), &mut before, step);
            } else {
                let staged = note(&index, &mut before, step);
                let is_held = matches!(staged, StagedChanges::Held { .. });
                prop_assert!(is_held);
            }
            if n + 1 == at[0] {
                seen.clone_from(&before);
            } else if n >= at[0] && n % 2 == 0 {
                match before.get(&step.0) {
                    Some(entry) => seen.insert(step.0, entry.clone()),
                    None => seen.remove(&step.0),
                };
            }
        }
        let mut loader = Loader::default();
        for (document, entry) in &seen {
            loader.row(&key(*document), &block(0, entry)).unwrap();
        }
        index.finish_loading(Ok(loader), &|_| None);
        for step in &steps[at[1]..] {
            let StagedChanges::Ready(changes) = note(&index, &mut before, step) else {
                panic!("the index is loaded")
            };
            index.apply(&changes, &|_| None);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for query in &queries {
            let page = runtime.block_on(index.query(query)).unwrap();
            prop_assert_eq!(page, expected(&documents, query), "{:?}", query);
        }
    }
}

#[test]
fn terms_of_documents_that_are_gone_do_not_pile_up() {
    let mut lists = Lists::default();
    let of = |document: u128| Entry {
        list: LIST,
        terms: (0..32)
            .map(|n: u8| (1, [&document.to_be_bytes()[..], &[n]].concat().into()))
            .collect(),
        sort: [None; 2],
    };
    for document in 0..3_000 {
        let new = Some(block(1, &of(document)));
        lists.apply(&[Change { key: key(document), old: None, new }], &|_| None);
        if let Some(gone) = document.checked_sub(10) {
            let old = Some(block(1, &of(gone)));
            lists.apply(&[Change { key: key(gone), old, new: None }], &|_| None);
        }
    }
    let terms = lists.lists[&LIST].terms.len();
    assert!(terms < 20_000, "{terms} terms of 10 documents");
    assert_eq!(
        lists
            .select(&Query {
                list: LIST,
                filters: Vec::new(),
                order: Order::Document,
                descending: false,
                offset: 0,
                limit: 1
            })
            .expect("no prefix")
            .total,
        10
    );
}

#[test]
fn a_beginning_of_too_many_words_is_refused_and_a_longer_one_is_not() {
    let mut lists = Lists::default();
    for number in 0..=Filter::MAX_BEGUN as u128 {
        let terms = vec![(WORD, format!("w{number:05}").into_bytes().into())];
        let new = Some(block(1, &Entry { list: LIST, terms, sort: [None; 2] }));
        lists.apply(&[Change { key: key(number), old: None, new }], &|_| None);
    }
    let asked = |start: &str| {
        let filters = vec![Filter::Prefix(WORD, start.as_bytes().into())];
        let (order, descending) = (Order::Document, false);
        lists.select(&Query { list: LIST, filters, order, descending, offset: 0, limit: 2 })
    };
    assert_eq!(asked("w"), None);
    assert_eq!(asked("w0000"), Some(Page { documents: vec![0, 1], total: 10 }));
    assert_eq!(asked("x"), Some(Page::default()));
}

#[test]
fn a_row_behind_another_is_still_in_the_list() {
    let mut lists = Lists::default();
    let rows = [0, 1].map(|table| Key::new(Key::FIRST_LISTED + table, 1, &7_u128.to_be_bytes()));
    for (stamp, key) in (1..).zip(&rows) {
        let new = Some(block(stamp, &entry(0, 0, [None; 2])));
        lists.apply(&[Change { key: key.clone(), old: None, new }], &|_| {
            Some(block(1, &entry(0, 0, [None; 2])))
        });
    }
    assert!(lists.contains(&rows[0]) && lists.contains(&rows[1]));
}

/// Two rows of one document, and the lists after `held` was caught up with. The rows of the
/// document are never written meanwhile: `fetch` reads the earlier ones.
fn caught_up(before: Option<u8>, held: &[(usize, u64, Option<u8>)]) -> (Lists, [Key; 2]) {
    let keys = [0, 1].map(|table| Key::new(Key::FIRST_LISTED + table, 1, &7_u128.to_be_bytes()));
    let status = |stamp, status: u8| block(stamp, &entry(status, 0, [None; 2]));
    let mut current = [before.map(|before| status(1, before)), None];
    let changes: Vec<_> = held
        .iter()
        .map(|(table, stamp, new)| {
            let new = new.map(|new| status(*stamp, new));
            let old = std::mem::replace(&mut current[*table], new.clone());
            Change { key: keys[*table].clone(), old, new }
        })
        .collect();
    let mut loader = Loader::default();
    let stale = before.map(|before| status(1, before));
    if let Some(row) = &stale {
        loader.row(&keys[0], row).unwrap();
    }
    let mut lists = loader.build(&[]);
    lists.catch_up(&[], &changes, &|key| stale.clone().filter(|_| *key == keys[0]));
    (lists, keys)
}

fn with_status(lists: &Lists, status: u8) -> u64 {
    let filters = vec![Filter::AllOf(1, vec![[status].into()])];
    let (order, descending) = (Order::Document, false);
    lists
        .select(&Query { list: LIST, filters, order, descending, offset: 0, limit: 0 })
        .expect("no prefix")
        .total
}

#[test]
fn changes_held_while_loading_are_caught_up_with_in_the_order_of_their_puts() {
    // A group's changes come in any order.
    let (lists, _) = caught_up(Some(0), &[(1, 3, Some(2)), (0, 2, Some(1))]);
    assert_eq!([0, 1, 2].map(|status| with_status(&lists, status)), [0, 0, 1]);
}

#[test]
fn a_row_that_is_not_yet_written_is_shown_once_the_one_before_it_is_gone() {
    let (mut lists, keys) = caught_up(None, &[(0, 2, Some(1)), (1, 3, Some(2))]);
    let [old, row] =
        [(3, 2), (2, 1)].map(|(stamp, status)| block(stamp, &entry(status, 0, [None; 2])));
    let gone = Change { key: keys[1].clone(), old: Some(old), new: None };
    lists.apply(&[gone], &|key| Some(row.clone()).filter(|_| *key == keys[0]));
    assert_eq!([1, 2].map(|status| with_status(&lists, status)), [1, 0]);
}
