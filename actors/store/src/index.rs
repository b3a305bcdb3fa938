//! The index of listed rows, in memory: a query never scans a table.
//!
//! ```text
//! committer ──hold_while_loading──▶ Loading(changes) ◀── loader: scans the rows, builds, then catches up
//!           ──apply───────────────▶ Ready(lists)     ──▶ queries
//! ```
//!
//! An opening builds the index from the rows in the background. Until then the index holds the changes of
//! commits, and queries wait. A held change replaces the row that the scan read, and changes are held
//! *before* they are written, so that the scan reads no change that is not held.
//!
//! Deliberately absent: files. Rows hold their own entries.

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

use list::{List, PrefixId};

pub(crate) use load::Loader;

/// The change of one listed row by a group of batches: its entry block before and after.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) key: Key,
    pub(crate) old: Option<Box<[u8]>>,
    pub(crate) new: Option<Box<[u8]>>,
}

impl Change {
    fn undone(&self) -> Self {
        Self { key: self.key.clone(), old: self.new.clone(), new: self.old.clone() }
    }
}

/// The changes of a group on its way to the disk.
#[derive(Debug)]
pub(crate) enum StagedChanges {
    /// The changes to apply once they are durable.
    Ready(Vec<Change>),
    /// The loading index holds the changes; `undo` takes them back.
    Held {
        /// The opposite changes, in reverse order.
        undo: Vec<Change>,
    },
}

/// Reads the current entry block of the row at a key.
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

    /// Begins to load anew: the rows were another process's until now.
    pub(crate) fn restart(&self) {
        let mut state = self.state.write().expect("no holder panics");
        self.loaded.send_replace(false);
        *state = State::Loading(Vec::new());
    }

    /// False if the row at `key` is in no list. Only the committer may ask: it alone knows that no
    /// change is on its way.
    pub(crate) fn may_contain(&self, key: &Key) -> bool {
        match &*self.state.read().expect("no holder panics") {
            State::Ready(lists) => lists.contains(key),
            State::Loading(_) | State::Failed(_) => true,
        }
    }

    /// Holds changes that are about to be written while the index is loading. Otherwise returns them, to
    /// be applied once they are durable.
    pub(crate) fn hold_while_loading(&self, changes: Vec<Change>) -> StagedChanges {
        if changes.is_empty() || *self.loaded.borrow() {
            return StagedChanges::Ready(changes);
        }
        match &mut *self.state.write().expect("no holder panics") {
            State::Loading(pending) => {
                let undo = changes.iter().rev().map(Change::undone).collect();
                pending.extend(changes);
                StagedChanges::Held { undo }
            }
            State::Ready(_) | State::Failed(_) => StagedChanges::Ready(changes),
        }
    }

    /// Takes back the changes of a group that was not written.
    pub(crate) fn withdraw(&self, staged: StagedChanges, fetch: Fetch<'_>) {
        if let StagedChanges::Held { undo } = staged
            && let StagedChanges::Ready(undo) = self.hold_while_loading(undo)
        {
            self.apply(&undo, fetch);
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

    /// Ends the loading with the rows of `loader` and the changes that were held meanwhile.
    pub(crate) fn finish_loading(&self, loader: Result<Loader, Error>, fetch: Fetch<'_>) {
        let built = self.take_pending();
        let lists = loader.map(|loader| loader.build(&built));
        let mut state = self.state.write().expect("no holder panics");
        let next = match lists {
            Ok(mut lists) => {
                if let State::Loading(pending) = &mut *state {
                    lists.catch_up(&built, pending, fetch);
                }
                State::Ready(lists)
            }
            Err(error) => State::Failed(error),
        };
        *state = next;
        drop(state);
        self.loaded.send_replace(true);
    }

    /// Answers a query once the index is loaded.
    pub(crate) async fn query(&self, query: &Query) -> Result<Page, Error> {
        let mut loaded = self.loaded.subscribe();
        if loaded.wait_for(|loaded| *loaded).await.is_err() {
            return Err(Error::Stopped);
        }
        match &*self.state.read().expect("no holder panics") {
            State::Ready(lists) => lists.select(query).ok_or(Error::Vague),
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

/// All lists, and the prefixes of their rows' keys.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    lists: HashMap<[u8; 2], List>,
    prefixes: Prefixes,
}

impl Lists {
    /// The answer to a query; `None` if too many terms begin with a prefix.
    pub(crate) fn select(&self, query: &Query) -> Option<Page> {
        self.lists
            .get(&query.list)
            .map_or_else(|| Some(Page::default()), |list| select::select(list, query))
    }

    /// True if the row at `key` is in any list, shown or shadowed.
    fn contains(&self, key: &Key) -> bool {
        let Some((prefix, document)) = key.0.split_last_chunk::<16>() else { return false };
        let Some(prefix) = self.prefixes.numbers.get(prefix) else { return false };
        let document = u128::from_be_bytes(*document);
        self.lists.values().any(|list| list.contains(document, *prefix))
    }

    /// Applies the changes of one group: removes the old entries, then adds the new ones in the order of
    /// the puts.
    pub(crate) fn apply(&mut self, changes: &[Change], fetch: Fetch<'_>) {
        let mut removed = HashSet::new();
        let mut added = Vec::with_capacity(changes.len());
        for change in changes {
            let Some((prefix, document)) = self.prefixes.split(&change.key) else {
                continue;
            };
            if let Some(block) = change.old.as_deref().and_then(Block::read) {
                let list = self.lists.entry(block.list).or_default();
                list.remove(document, prefix, Some(block));
                if !list.shadowed.is_empty() {
                    removed.insert((block.list, document));
                }
            }
            if let Some(block) = change.new.as_deref().and_then(Block::read) {
                added.push((block, prefix, document));
            }
        }
        added.sort_by_key(|(block, ..)| block.stamp);
        for (block, prefix, document) in added {
            let list = self.lists.entry(block.list).or_default();
            if let Some(other) = list.prefix(document) {
                list.remove(document, other, None);
                let shadowed = fetch(&self.prefixes.key(other, document));
                if let Some(shadowed) = shadowed.as_deref().and_then(Block::read)
                    && shadowed.list == block.list
                    && other != prefix
                {
                    list.shadowed.entry(document).or_default().push((shadowed.stamp, other));
                }
            }
            list.put(document, prefix, block);
        }
        for (name, document) in removed {
            self.unshadow(name, document, fetch);
        }
    }

    /// Applies the changes that were held while the lists were built from the rows and from `built`. Each
    /// change may be of another group, and not yet written: so the last change of a row is its current one,
    /// and `fetch` reads the rows that have none.
    fn catch_up(&mut self, built: &[Change], held: &[Change], fetch: Fetch<'_>) {
        let current: HashMap<_, _> =
            built.iter().chain(held).map(|change| (&change.key, &change.new)).collect();
        let mut net: HashMap<_, Change> = HashMap::new();
        for change in held {
            net.entry(&change.key)
                .and_modify(|net| net.new.clone_from(&change.new))
                .or_insert_with(|| change.clone());
        }
        let net: Vec<_> = net.into_values().collect();
        self.apply(&net, &|key| current.get(key).map_or_else(|| fetch(key), |new| (*new).clone()));
    }

    /// Shows the row that was put before the removed one, if there is one.
    fn unshadow(&mut self, name: [u8; 2], document: u128, fetch: Fetch<'_>) {
        let list = self.lists.entry(name).or_default();
        while list.prefix(document).is_none() {
            let Some(rows) = list.shadowed.get(&document) else {
                return;
            };
            let Some((_, prefix)) = rows.iter().max().copied() else {
                return;
            };
            list.remove(document, prefix, None);
            let block = fetch(&self.prefixes.key(prefix, document));
            if let Some(block) =
                block.as_deref().and_then(Block::read).filter(|block| block.list == name)
            {
                list.put(document, prefix, block);
            }
        }
    }
}

/// Interns the prefixes of keys, up to the document id: one for each table and environment.
#[derive(Debug, Default)]
struct Prefixes {
    numbers: HashMap<Box<[u8]>, PrefixId>,
    names: Vec<Box<[u8]>>,
}

impl Prefixes {
    fn split(&mut self, key: &Key) -> Option<(PrefixId, u128)> {
        let (prefix, document) = key.0.split_last_chunk::<16>()?;
        let document = u128::from_be_bytes(*document);
        if let Some(number) = self.numbers.get(prefix) {
            return Some((*number, document));
        }
        let number = PrefixId::try_from(self.names.len()).expect("tables and environments are few");
        self.names.push(prefix.into());
        self.numbers.insert(prefix.into(), number);
        Some((number, document))
    }

    fn key(&self, prefix: PrefixId, document: u128) -> Key {
        let mut key = self.names[usize::from(prefix)].to_vec();
        key.extend(document.to_be_bytes());
        Key(key.into())
    }
}

/// The number of documents that a merge moves from the delta to the main part, and the least that stay
/// there; also the least number of misplaced documents that is worth a rebuild. Tests exceed it.
const MERGE_BATCH: usize = if cfg!(test) { 8 } else { 1024 };

/// Reserves a sixteenth more rather than twice as much: a list of a million documents must not cost two.
fn grow<T>(vec: &mut Vec<T>) {
    if vec.len() == vec.capacity() {
        vec.reserve_exact((vec.len() / 16).max(1024));
    }
}
