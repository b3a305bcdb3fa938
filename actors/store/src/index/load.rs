//! Builds the lists from all rows at once.

use std::collections::{HashMap, HashSet};

use super::list::{Item, List};
use super::terms::{TermId, Terms};
use super::{Change, Lists, Prefixes};
use crate::batch::Key;
use crate::row::Block;

/// The rows so far.
#[derive(Default)]
pub(crate) struct Loader {
    lists: HashMap<[u8; 2], Building>,
    prefixes: Prefixes,
}

#[derive(Default)]
struct Building {
    terms: Terms,
    term_ids: Vec<TermId>,
    items: Vec<Item>,
}

impl Loader {
    /// Adds a listed row. `None` if its entry block is malformed.
    pub(crate) fn row(&mut self, key: &Key, block: &[u8]) -> Option<()> {
        let (prefix, document) = self.prefixes.split(key)?;
        let block = Block::read(block)?;
        let building = self.lists.entry(block.list).or_default();
        let start = building.end();
        for (field, term) in block.terms() {
            let id = building.terms.intern(field, term);
            building.term_ids.push(id);
        }
        let terms = start..building.end();
        building.items.push(Item { document, stamp: block.stamp, prefix, sort: block.sort, terms });
        Some(())
    }

    /// The lists. Only the last change of a row among `changes` counts.
    pub(crate) fn build(mut self, changes: &[Change]) -> Lists {
        let mut last = HashMap::new();
        let mut known = HashSet::new();
        for change in changes {
            known.extend(self.prefixes.split(&change.key));
            last.insert(&change.key, change.new.as_deref());
        }
        if !known.is_empty() {
            for building in self.lists.values_mut() {
                building.items.retain(|item| !known.contains(&(item.prefix, item.document)));
            }
        }
        for (key, block) in last {
            if let Some(block) = block {
                self.row(key, block).expect("the committer wrote this block");
            }
        }
        let lists = self.lists.into_iter().map(|(name, building)| {
            (name, List::build(building.terms, &building.term_ids, building.items))
        });
        Lists { lists: lists.collect(), prefixes: self.prefixes }
    }
}

impl Building {
    fn end(&self) -> u32 {
        u32::try_from(self.term_ids.len()).expect("fewer terms than memory holds")
    }
}
