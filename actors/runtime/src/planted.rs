//! Bugs that a test asks for, to see that the model finds them ([`crate::tests::model`]).
//!
//! Compiled into this package's own tests only, and on for one thread while the test holds it. To add
//! one: name it, and ask [`is`] where the rule stands.

use std::cell::Cell;

use callboard_domain::task::{LeaseId, State, Task};

/// A bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A task takes an answer under whatever lease.
    LeaseNotCompared,
    /// What is submitted is given out before it is durable.
    EffectBeforeCommit,
    /// Whoever submits is answered before it is durable.
    ReplyBeforeCommit,
}

thread_local! {
    static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// The bug is there until this is dropped.
#[derive(Debug)]
pub(crate) struct Planted(());

/// Plants a bug for this thread.
pub(crate) fn plant(bug: Bug) -> Planted {
    PLANTED.set(Some(bug));
    Planted(())
}

impl Drop for Planted {
    fn drop(&mut self) {
        PLANTED.set(None);
    }
}

/// Whether the bug is there.
pub(crate) fn is(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// The lease that an answer is compared with the task's by.
pub(crate) fn compared(answered: LeaseId, task: Option<&Task>) -> LeaseId {
    match task.map(|task| &task.state) {
        Some(State::Running { lease, .. }) if is(Bug::LeaseNotCompared) => *lease,
        _ => answered,
    }
}
