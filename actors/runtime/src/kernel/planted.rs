//! Faults that the model of the runtime plants in the program under test, to show that it finds them.
//!
//! Each was there once. Outside of tests there is none, and asking for one costs nothing.

#[cfg(test)]
use std::cell::{Cell, RefCell};

#[cfg(test)]
use callboard_domain::Timestamp;
#[cfg(test)]
use callboard_domain::task::Spec;

/// A fault where parts meet: in the limits, the recovery or the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The rate of a queue counts a lease that was not given out.
    RateCountsParked,
    /// A commit that failed leaves its new tasks on every limit.
    FailedCommitStands,
    /// Actors and timers act while a start still reads its pages, and an attempt has no term to be heard from.
    ActsWhileRecovering,
    /// Steps that come due together are compared with the same free amount.
    StepsReserveLate,
    /// The budgets of a cost stand in one row, however many they are.
    CostInOneRow,
    /// A model keeps room for a task that cannot go.
    RoomIsKept,
    /// A task whose cost cannot be bounded waits for its budget.
    UnpricedWaits,
    /// An account's bound is the one that counted when its newest task was made.
    #[cfg(test)]
    BoundOfTheTask,
}

/// True if the fault is planted.
#[cfg(not(test))]
pub(crate) const fn is_planted(_: Fault) -> bool {
    false
}

#[cfg(test)]
thread_local! {
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
    /// The bounds of accounts, each with the instant from which it counted.
    static BOUNDS: RefCell<Vec<(Timestamp, String, u32)>> = const { RefCell::new(Vec::new()) };
}

/// True if the fault is planted on this thread.
#[cfg(test)]
pub(crate) fn is_planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Plants the fault on this thread until it is dropped.
#[cfg(test)]
pub(crate) struct Planted(());

#[cfg(test)]
impl Planted {
    pub(crate) fn set(fault: Option<Fault>) -> Self {
        PLANTED.set(fault);
        BOUNDS.with_borrow_mut(Vec::clear);
        Self(())
    }
}

#[cfg(test)]
impl Drop for Planted {
    fn drop(&mut self) {
        PLANTED.set(None);
    }
}

/// Notes that an account has this bound from now on.
#[cfg(test)]
pub(crate) fn bound_is(account: &str, bound: u32, now: Timestamp) {
    BOUNDS.with_borrow_mut(|bounds| bounds.push((now, account.to_owned(), bound)));
}

/// The bound that counted when the task was made, with [`Fault::BoundOfTheTask`].
#[cfg(test)]
pub(crate) fn bound_of(task: &Spec) -> Option<u32> {
    if !is_planted(Fault::BoundOfTheTask) {
        return None;
    }
    BOUNDS.with_borrow(|bounds| {
        let mut earlier = bounds.iter().rev().filter(|(_, account, _)| *account == task.account);
        earlier.find(|(at, ..)| *at <= task.id.created_at()).map(|(.., bound)| *bound)
    })
}
