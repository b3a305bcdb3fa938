//! The index of listed rows, in memory: queries never scan a table.
//!
//! ```text
//! committer ──note──▶ Loading(changes) ◀── loader: scans the rows, builds, then catches up
//!           ──apply─▶ Ready(lists)     ──▶ queries
//! ```
//!
//! It is built from the rows in the background after an opening. Until then commits leave their
//! changes with it, and queries wait. What of a row the scan saw does not matter once the row
//! stands among the changes: changes are noted *before* they are written, so that a scan can
//! have seen none that is not noted.
//!
//! Deliberately absent: anything on disk. Rows carry their entries themselves.

mod column;
mod list;
mod load;
mod select;
mod terms;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::RwLock;

use tokio::sync::watch;

use crate::Error;
use crate::batch::Key;
use crate::query::{Page, Query};
use crate::row::Block;

use list::{List, Owner};

pub(crate) use load::Loader;

/// What a group of batches made of one listed row: its entry block before and after.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) key: Key,
    pub(crate) old: Option<Box<[u8]>>,
    pub(crate) new: Option<Box<[u8]>>,
}

/// Reads the entry block of the row at a key, as it is now.
pub(crate) type Fetch<'a> = &'a dyn Fn(&Key) -> Option<Box<[u8]>>;

/// The index, shared by the committer, the loader and the readers.
#[derive(Debug)]
pub(crate) struct Index {
    state: RwLock<State>,
    loaded: watch::Sender<bool>,
}

#[derive(Debug)]
enum State {
    Loading(Vec<Change>),
    Ready(Lists),
    Failed(Error),
}

impl Index {
    pub(crate) fn new() -> Self {
        Self { state: RwLock::new(State::Loading(Vec::new())), loaded: watch::Sender::new(false) }
    }

    /// Whether the row at `key` may be listed. Only for the committer: nobody else knows that no change
    /// is on its way.
    pub(crate) fn may_list(&self, key: &Key) -> bool {
        match &*self.state.read().expect("no holder panics") {
            State::Ready(lists) => lists.has(key),
            State::Loading(_) | State::Failed(_) => true,
        }
    }

    /// Takes changes that are about to be written if the index is still loading; else they come
    /// back, to be applied once they are durable.
    pub(crate) fn note(&self, changes: Vec<Change>) -> Option<Vec<Change>> {
        if changes.is_empty() || *self.loaded.borrow() {
            return Some(changes);
        }
        match &mut *self.state.write().expect("no holder panics") {
            State::Loading(pending) => {
                pending.extend(changes);
                None
            }
            State::Ready(_) | State::Failed(_) => Some(changes),
        }
    }

    /// Applies changes that became durable.
    pub(crate) fn apply(&self, changes: &[Change], fetch: Fetch<'_>) {
        if changes.is_empty() {
            return;
        }
        if let State::Ready(lists) = &mut *self.state.write().expect("no holder panics") {
            lists.apply(changes, fetch);
        }
    }

    /// Takes over what `loader` has read, with what was committed meanwhile.
    pub(crate) fn finish(&self, loader: Result<Loader, Error>, fetch: Fetch<'_>) {
        let next = match loader {
            Ok(loader) => {
                let pending = self.take_pending();
                let mut lists = loader.build(&pending);
                let mut state = self.state.write().expect("no holder panics");
                if let State::Loading(pending) = &mut *state {
                    for change in std::mem::take(pending) {
                        lists.apply(&[change], fetch);
                    }
                }
                *state = State::Ready(lists);
                drop(state);
                self.loaded.send_replace(true);
                return;
            }
            Err(error) => State::Failed(error),
        };
        *self.state.write().expect("no holder panics") = next;
        self.loaded.send_replace(true);
    }

    /// Answers a query once the index is loaded.
    pub(crate) async fn query(&self, query: &Query) -> Result<Page, Error> {
        let mut loaded = self.loaded.subscribe();
        if loaded.wait_for(|loaded| *loaded).await.is_err() {
            return Err(Error::Stopped);
        }
        match &*self.state.read().expect("no holder panics") {
            State::Ready(lists) => Ok(lists.select(query)),
            State::Failed(error) => Err(error.clone()),
            State::Loading(_) => Err(Error::Stopped),
        }
    }

    fn take_pending(&self) -> Vec<Change> {
        match &mut *self.state.write().expect("no holder panics") {
            State::Loading(pending) => std::mem::take(pending),
            State::Ready(_) | State::Failed(_) => Vec::new(),
        }
    }
}

/// All lists, and the names of the rows that stand in them.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    lists: HashMap<[u8; 2], List>,
    owners: Owners,
}

impl Lists {
    pub(crate) fn select(&self, query: &Query) -> Page {
        self.lists.get(&query.list).map_or_else(Page::default, |list| select::select(list, query))
    }

    /// Whether the row at `key` stands in any list, be it behind another row.
    fn has(&self, key: &Key) -> bool {
        let Some((name, document)) = key.0.split_last_chunk::<16>() else { return false };
        let Some(owner) = self.owners.numbers.get(name) else { return false };
        let document = u128::from_be_bytes(*document);
        self.lists.values().any(|list| list.has(document, *owner))
    }

    /// Applies the changes of one group: what rows were listed as leaves, what they are listed as
    /// now comes, in the order of the puts.
    pub(crate) fn apply(&mut self, changes: &[Change], fetch: Fetch<'_>) {
        let mut vacated = HashSet::new();
        let mut arrived = Vec::with_capacity(changes.len());
        for change in changes {
            let Some((owner, document)) = self.owners.split(&change.key) else {
                continue;
            };
            if let Some(block) = change.old.as_deref().and_then(Block::read) {
                let list = self.lists.entry(block.list).or_default();
                list.remove(document, owner, Some(block));
                if !list.shadowed.is_empty() {
                    vacated.insert((block.list, document));
                }
            }
            if let Some(block) = change.new.as_deref().and_then(Block::read) {
                arrived.push((block, owner, document));
            }
        }
        arrived.sort_by_key(|(block, ..)| block.stamp);
        for (block, owner, document) in arrived {
            let list = self.lists.entry(block.list).or_default();
            if let Some(other) = list.owner(document) {
                list.remove(document, other, None);
                let shadowed = fetch(&self.owners.key(other, document));
                if let Some(shadowed) = shadowed.as_deref().and_then(Block::read)
                    && shadowed.list == block.list
                    && other != owner
                {
                    list.shadowed.entry(document).or_default().push((shadowed.stamp, other));
                }
            }
            list.put(document, owner, block);
        }
        for (name, document) in vacated {
            self.uncover(name, document, fetch);
        }
    }

    /// Shows the row that was put before the one that left, if there is one.
    fn uncover(&mut self, name: [u8; 2], document: u128, fetch: Fetch<'_>) {
        let list = self.lists.entry(name).or_default();
        while list.owner(document).is_none() {
            let Some(rows) = list.shadowed.get(&document) else {
                return;
            };
            let Some((_, owner)) = rows.iter().max().copied() else {
                return;
            };
            list.remove(document, owner, None);
            let block = fetch(&self.owners.key(owner, document));
            if let Some(block) =
                block.as_deref().and_then(Block::read).filter(|block| block.list == name)
            {
                list.put(document, owner, block);
            }
        }
    }
}

/// Numbers for the first parts of keys, up to the document id: there are few.
#[derive(Debug, Default)]
struct Owners {
    numbers: HashMap<Box<[u8]>, Owner>,
    names: Vec<Box<[u8]>>,
}

impl Owners {
    fn split(&mut self, key: &Key) -> Option<(Owner, u128)> {
        let (name, document) = key.0.split_last_chunk::<16>()?;
        let document = u128::from_be_bytes(*document);
        if let Some(number) = self.numbers.get(name) {
            return Some((*number, document));
        }
        let number = Owner::try_from(self.names.len()).expect("tables and environments are few");
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        Some((number, document))
    }

    fn key(&self, owner: Owner, document: u128) -> Key {
        let mut key = self.names[usize::from(owner)].to_vec();
        key.extend(document.to_be_bytes());
        Key(key.into())
    }
}

/// How many young documents stay loose at least, and how many are folded at once; also the least
/// number of misplaced ones worth any tidying. Tests are to get past it.
const YOUNG: usize = if cfg!(test) { 8 } else { 1024 };

/// Makes room for one more by a sixteenth rather than by doubling: a list of a million documents
/// must not cost two.
fn grow<T>(vec: &mut Vec<T>) {
    if vec.len() == vec.capacity() {
        vec.reserve_exact((vec.len() / 16).max(1024));
    }
}
