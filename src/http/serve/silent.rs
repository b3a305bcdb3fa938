//! The connections that have not sent a whole head of a request yet: the first to go when no slot is left.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The time that a connection has for its first head while no slot is left.
const PATIENCE: Duration = Duration::from_secs(1);

/// The silent connections, in the order of their arrival.
#[derive(Debug, Clone, Default)]
pub(super) struct Silent(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    waiting: BTreeMap<u64, (Instant, Arc<Notify>)>,
}

impl Silent {
    /// A connection that has said nothing yet.
    pub(super) fn enter(&self) -> SilentPermit {
        let close = Arc::new(Notify::new());
        let mut inner = self.lock();
        let number = inner.next;
        inner.next += 1;
        inner.waiting.insert(number, (Instant::now(), Arc::clone(&close)));
        SilentPermit { of: self.clone(), number, close }
    }

    /// Closes the connections that have been silent for too long; returns their number.
    pub(super) fn close_slow(&self) -> usize {
        let mut inner = self.lock();
        let mut closed = 0;
        while let Some(first) = inner.waiting.first_entry()
            && first.get().0.elapsed() >= PATIENCE
        {
            let (_, close) = first.remove();
            close.notify_one();
            closed += 1;
        }
        closed
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A silent connection; it is silent no more once the permit is dropped.
#[derive(Debug)]
pub(super) struct SilentPermit {
    of: Silent,
    number: u64,
    close: Arc<Notify>,
}

impl SilentPermit {
    /// The notice that the connection is to close.
    pub(super) fn closing(&self) -> Arc<Notify> {
        Arc::clone(&self.close)
    }
}

impl Drop for SilentPermit {
    fn drop(&mut self) {
        self.of.lock().waiting.remove(&self.number);
    }
}
