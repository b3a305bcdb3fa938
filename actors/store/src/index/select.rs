//! Answers a query from one list.
//!
//! The filters become one bitmap of main slots and one vector of delta documents. The page is then read in
//! order from both.
//!
//! Deliberately absent: rows. An answer is document ids and their number.

use std::borrow::Cow;

use roaring::{MultiOps, RoaringBitmap};

use super::list::List;
use super::terms::TermId;
use crate::query::{Filter, Order, Page, Query};

/// The filters of a query, in the term ids of one list.
#[derive(Default)]
struct Conditions {
    /// A document must have one term of each of these.
    any: Vec<Vec<TermId>>,
    /// A document must have all of these.
    all: Vec<TermId>,
    /// True if no document can match.
    impossible: bool,
    /// True if too many terms begin with a prefix.
    vague: bool,
    none: Vec<TermId>,
    /// Sort values: number, least, and the one above the greatest.
    sorted: Vec<(usize, u64, u64)>,
    from: u128,
    to: Option<u128>,
}

impl Conditions {
    fn new(list: &List, filters: &[Filter]) -> Self {
        let mut conditions = Self::default();
        for filter in filters {
            match filter {
                Filter::AnyOf(field, terms) => {
                    let ids = terms.iter().filter_map(|term| list.terms.find(*field, term));
                    let mut ids: Vec<_> = ids.collect();
                    ids.sort_unstable();
                    conditions.impossible |= ids.is_empty();
                    conditions.any.push(ids);
                }
                Filter::AllOf(field, terms) => {
                    for term in terms {
                        match list.terms.find(*field, term) {
                            Some(id) => conditions.all.push(id),
                            None => conditions.impossible = true,
                        }
                    }
                }
                Filter::NoneOf(field, terms) => {
                    let ids = terms.iter().filter_map(|term| list.terms.find(*field, term));
                    conditions.none.extend(ids);
                }
                Filter::Prefix(field, start) => {
                    let ids = list.terms.starting(*field, start);
                    conditions.vague |= ids.len() > Filter::MAX_BEGUN;
                    conditions.impossible |= ids.is_empty();
                    conditions.any.push(ids);
                }
                Filter::Sorted { value, from, to } => {
                    conditions.impossible |= from >= to;
                    conditions.sorted.push((*value, *from, *to));
                }
                Filter::Documents { from, to } => {
                    conditions.from = conditions.from.max(from.unwrap_or(0));
                    conditions.to = match (conditions.to, *to) {
                        (Some(a), Some(b)) => Some(a.min(b)),
                        (a, b) => a.or(b),
                    };
                }
            }
        }
        conditions.impossible |= conditions.to.is_some_and(|to| to <= conditions.from);
        conditions
    }

    fn main<'a>(&self, list: &'a List) -> Cow<'a, RoaringBitmap> {
        let any = self.any.iter().map(|terms| match terms.as_slice() {
            [term] => list.terms.slots(*term),
            terms => {
                let slots: Vec<_> = terms.iter().map(|term| list.terms.slots(*term)).collect();
                Cow::Owned(slots.iter().map(|slots| &**slots).union())
            }
        });
        let mut sets: Vec<_> =
            any.chain(self.all.iter().map(|term| list.terms.slots(*term))).collect();
        sets.sort_by_key(|set| set.len());
        let mut sets = sets.into_iter();
        let mut matches = sets.next().unwrap_or(Cow::Borrowed(&list.live));
        for set in sets {
            matches = match matches {
                Cow::Borrowed(matches) => Cow::Owned(matches & &*set),
                Cow::Owned(matches) => Cow::Owned(matches & &*set),
            };
        }
        for (value, from, to) in &self.sorted {
            *matches.to_mut() &= list.columns[*value].within(*from, *to);
        }
        for term in &self.none {
            *matches.to_mut() -= &*list.terms.slots(*term);
        }
        let start = list.ids.partition_point(|id| *id < self.from);
        let end = self.to.map_or(list.ids.len(), |to| list.ids.partition_point(|id| *id < to));
        if start > 0 || end < list.ids.len() {
            let matches = matches.to_mut();
            let [start, end] = [start, end].map(|at| u32::try_from(at).expect("slots are 32 bits"));
            matches.remove_range(..start);
            matches.remove_range(end..);
        }
        matches
    }

    fn delta(&self, list: &List) -> Vec<(u128, [Option<u64>; 2])> {
        let range = list.delta.range(self.from..);
        range
            .take_while(|(document, _)| self.to.is_none_or(|to| **document < to))
            .filter(|(_, delta)| {
                let contains = |term: &TermId| delta.terms.contains(term);
                // Of a prefix they may be many; they are in order.
                let has_any = |terms: &Vec<TermId>| {
                    delta.terms.iter().any(|term| terms.binary_search(term).is_ok())
                };
                self.all.iter().all(contains)
                    && self.any.iter().all(has_any)
                    && !self.none.iter().any(contains)
                    && self.sorted.iter().all(|(value, from, to)| {
                        delta.sort[*value].is_some_and(|value| (*from..*to).contains(&value))
                    })
            })
            .map(|(document, delta)| (*document, delta.sort))
            .collect()
    }
}

/// The answer of `list` to `query`; `None` if too many terms begin with a prefix.
pub(super) fn select(list: &List, query: &Query) -> Option<Page> {
    let conditions = Conditions::new(list, &query.filters);
    if conditions.vague || conditions.impossible {
        return (!conditions.vague).then(Page::default);
    }
    let main = conditions.main(list);
    let delta = conditions.delta(list);
    let total = main.len() + delta.len() as u64;
    let sorted_by = match query.order {
        Order::Sort(n) if n < list.columns.len() => Some(n),
        Order::Sort(_) | Order::Document => None,
    };
    let documents = if query.limit == 0 || query.offset as u64 >= total {
        Vec::new()
    } else if let Some(n) = sorted_by {
        by_value(list, n, &main, &delta, query)
    } else {
        by_document(list, &main, delta.iter().map(|(document, _)| *document), query)
            .skip(query.offset)
            .take(query.limit)
            .collect()
    };
    Some(Page { documents, total })
}

fn by_value(
    list: &List,
    n: usize,
    main: &RoaringBitmap,
    delta: &[(u128, [Option<u64>; 2])],
    query: &Query,
) -> Vec<u128> {
    let column = &list.columns[n];
    let none = main & column.none();
    let delta_none =
        delta.iter().filter(|(_, sort)| sort[n].is_none()).map(|(document, _)| *document);
    let delta_some = delta.iter().filter_map(|(document, sort)| Some((sort[n]?, *document)));

    let with_value = main.len() - none.len() + delta_some.clone().count() as u64;
    let with_value = usize::try_from(with_value).expect("documents fit in memory");
    let needed = query.offset.saturating_add(query.limit);
    let mut documents = Vec::new();
    if query.offset < with_value {
        let found = column.first(main, needed, query.descending);
        let found = found.into_iter().map(|(value, slot)| (value, list.ids[slot as usize]));
        let mut found: Vec<_> = found.chain(delta_some).collect();
        if query.descending {
            found.sort_unstable_by(|a, b| b.cmp(a));
        } else {
            found.sort_unstable();
        }
        let page = found.into_iter().skip(query.offset).take(query.limit);
        documents.extend(page.map(|(_, document)| document));
    }
    let rest = query.limit - documents.len();
    if rest > 0 && needed > with_value {
        let passed = query.offset.saturating_sub(with_value);
        documents.extend(by_document(list, &none, delta_none, query).skip(passed).take(rest));
    }
    documents
}

/// Main slots and delta documents, both ascending, as documents in the order of their ids.
fn by_document<'a>(
    list: &'a List,
    main: &'a RoaringBitmap,
    delta: impl DoubleEndedIterator<Item = u128> + 'a,
    query: &Query,
) -> Box<dyn Iterator<Item = u128> + 'a> {
    let main = main.iter().map(|slot| list.ids[slot as usize]);
    if query.descending {
        Box::new(merged(main.rev(), delta.rev(), |a, b| a > b))
    } else {
        Box::new(merged(main, delta, |a, b| a < b))
    }
}

fn merged(
    a: impl Iterator<Item = u128>,
    b: impl Iterator<Item = u128>,
    before: impl Fn(&u128, &u128) -> bool,
) -> impl Iterator<Item = u128> {
    let (mut a, mut b) = (a.peekable(), b.peekable());
    std::iter::from_fn(move || match (a.peek(), b.peek()) {
        (Some(left), Some(right)) if before(right, left) => b.next(),
        (Some(_), _) => a.next(),
        (None, _) => b.next(),
    })
}
