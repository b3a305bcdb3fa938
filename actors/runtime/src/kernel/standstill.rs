//! Commits of projects that stand still while they are moved (docs/reference/cells.md).
//!
//! ```text
//!   commit ─▶ stands still? no ─▶ the store
//!                │ yes: waits here, unanswered ─▶ released: the store, in the same order
//!                └ the project is gone: not applied
//! ```
//!
//! An actor of such a project waits for its commit and does nothing else, so nothing of it is acknowledged.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use callboard_domain::id::{Environment, Slot};
use callboard_store::{Batch, Error, Op, Outcome, Store, Ticket};
use tokio::sync::oneshot;

/// The commits of all projects.
#[derive(Debug, Default)]
pub(crate) struct Standstill(RwLock<BTreeMap<Slot, Still>>);

#[derive(Debug)]
enum Still {
    Waiting(Mutex<Vec<(Batch, oneshot::Sender<Outcome>)>>),
    Gone,
}

impl Standstill {
    /// Puts a batch in line to be committed, or to wait. A batch that `may_wait` is not to is refused instead.
    pub(crate) fn commit(&self, store: &dyn Store, batch: Batch, may_wait: bool) -> Ticket {
        // Held until the store has the batch: a project that begins to stand still finds it there.
        let still = self.read();
        let found =
            if still.is_empty() { None } else { batch.ops.iter().find_map(|op| of(&still, op)) };
        match found {
            None => store.commit(batch),
            Some(Still::Waiting(waiting)) if may_wait => {
                let (reply, ticket) = Ticket::new();
                waiting.lock().unwrap_or_else(PoisonError::into_inner).push((batch, reply));
                ticket
            }
            Some(Still::Waiting(_) | Still::Gone) => Ticket::answered(refused()),
        }
    }

    /// Holds the commits of a project from now on.
    pub(crate) fn hold(&self, project: Slot) {
        self.write().entry(project).or_insert_with(|| Still::Waiting(Mutex::default()));
    }

    /// True if the commits of a project are held.
    pub(crate) fn holds(&self, project: Slot) -> bool {
        matches!(self.read().get(&project), Some(Still::Waiting(_)))
    }

    /// True if a project that was served by this process is in another cell.
    pub(crate) fn is_gone(&self, project: Slot) -> bool {
        matches!(self.read().get(&project), Some(Still::Gone))
    }

    /// Gives the waiting commits of a project to the store, before any later one.
    pub(crate) fn release(&self, project: Slot, store: &dyn Store) {
        let mut still = self.write();
        for (batch, reply) in waiting(still.remove(&project)) {
            // The ticket may have been dropped.
            store.commit(batch).then(move |outcome| drop(reply.send(outcome)));
        }
    }

    /// Refuses the waiting commits of a project, and all later ones.
    pub(crate) fn leave(&self, project: Slot) {
        let before = self.write().insert(project, Still::Gone);
        for (_, reply) in waiting(before) {
            // The ticket may have been dropped.
            let _ = reply.send(refused());
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<Slot, Still>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<Slot, Still>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn waiting(still: Option<Still>) -> Vec<(Batch, oneshot::Sender<Outcome>)> {
    match still {
        Some(Still::Waiting(waiting)) => {
            waiting.into_inner().unwrap_or_else(PoisonError::into_inner)
        }
        Some(Still::Gone) | None => Vec::new(),
    }
}

/// The standstill of the project that an operation belongs to.
fn of<'s>(still: &'s BTreeMap<Slot, Still>, op: &Op) -> Option<&'s Still> {
    let number = match op {
        Op::Put { key, .. } | Op::Insert { key, .. } | Op::Delete { key } => *key.0.get(1)?,
        Op::Append { log, .. } | Op::Trim { log, .. } => log.0,
    };
    still.get(&Environment::from_number(number).slot())
}

fn refused() -> Outcome {
    Outcome::NotApplied(Error::Io("the project is being moved to another cell".into()))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use callboard_domain::id::Mode;
    use callboard_store::testing::memory::MemoryStore;
    use callboard_store::{BatchId, Key};

    use super::*;

    fn put(slot: Slot, value: &'static [u8]) -> Batch {
        let key = Key::new(1, slot.environment(Mode::Test).number(), b"k");
        let op = Op::Put { key, value: Bytes::from_static(value), entry: None };
        Batch { id: BatchId(0), guards: Vec::new(), ops: vec![op] }
    }

    async fn at(store: &MemoryStore, slot: Slot) -> Option<Bytes> {
        let key = Key::new(1, slot.environment(Mode::Test).number(), b"k");
        store.get(&key).await.expect("the store answers")
    }

    #[tokio::test]
    async fn commits_of_one_project_wait_in_order_and_those_of_others_go_on() {
        let (still, store) = (Standstill::default(), MemoryStore::new());
        let [one, other] = [1, 2].map(|number| Slot::new(number).expect("a place"));
        still.hold(one);
        let first = still.commit(&store, put(one, b"1"), true);
        drop(still.commit(&store, put(one, b"2"), true));
        let third = still.commit(&store, put(one, b"3"), true);
        assert!(matches!(
            still.commit(&store, put(one, b"0"), false).await,
            Outcome::NotApplied(_)
        ));
        assert!(matches!(still.commit(&store, put(other, b"x"), false).await, Outcome::Committed));
        assert_eq!(at(&store, one).await, None);
        still.release(one, &store);
        assert!(matches!((first.await, third.await), (Outcome::Committed, Outcome::Committed)));
        assert_eq!(at(&store, one).await.as_deref(), Some(&b"3"[..]));
        assert!(matches!(still.commit(&store, put(one, b"4"), true).await, Outcome::Committed));
    }

    #[tokio::test]
    async fn commits_of_a_project_that_left_are_refused() {
        let (still, store) = (Standstill::default(), MemoryStore::new());
        let slot = Slot::new(1).expect("a place");
        still.hold(slot);
        let waiting = still.commit(&store, put(slot, b"1"), true);
        still.leave(slot);
        let late = still.commit(&store, put(slot, b"2"), true);
        for refused in [waiting.await, late.await] {
            assert!(matches!(refused, Outcome::NotApplied(_)), "{refused:?}");
        }
        assert_eq!((at(&store, slot).await, still.is_gone(slot)), (None, true));
    }
}
