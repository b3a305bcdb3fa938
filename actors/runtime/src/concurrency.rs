//! The number of an account's running tasks, where its tier bounds them (PROTOCOL.md 8).
//!
//! The numbers are in memory and per node. A task is counted when it is given out, until its count is
//! dropped. Deliberately absent: the bound itself, which comes with the task.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use callboard_domain::task::Spec;

use crate::queue::{self, QueueKind};
use crate::supervisor::DirectoryOf;

/// The accounts that are bounded.
#[derive(Debug, Clone)]
pub(crate) struct Concurrency(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    accounts: Mutex<HashMap<Arc<str>, Account>>,
    queues: Arc<DirectoryOf<QueueKind>>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Account {
    bound: u32,
    running: u32,
}

impl Concurrency {
    pub(crate) fn new(queues: Arc<DirectoryOf<QueueKind>>) -> Self {
        Self(Arc::new(Inner { accounts: Mutex::default(), queues }))
    }

    /// The account of a task, if its tier bounds it.
    pub(crate) fn account(&self, spec: &Spec) -> Option<Arc<str>> {
        let bound = spec.concurrent?;
        let mut accounts = self.0.lock();
        let account = match accounts.get_key_value(spec.account.as_str()) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::from(spec.account.as_str()),
        };
        accounts.entry(Arc::clone(&account)).or_default().bound = bound;
        Some(account)
    }

    /// True if the account may start another task.
    pub(crate) fn has_room(&self, account: &str) -> bool {
        self.0.lock().get(account).is_none_or(|account| account.running < account.bound)
    }

    /// Counts a task that is given out.
    pub(crate) fn start(&self, account: Arc<str>) -> Running {
        self.0.lock().entry(Arc::clone(&account)).or_default().running += 1;
        Running { account, concurrency: Arc::downgrade(&self.0) }
    }

    /// Counts a task that was running before a restart.
    pub(crate) fn resume(&self, spec: &Spec) -> Option<Running> {
        self.account(spec).map(|account| self.start(account))
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Account>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running task's share of its account's bound, given back when dropped.
#[derive(Debug)]
pub(crate) struct Running {
    account: Arc<str>,
    concurrency: Weak<Inner>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(concurrency) = self.concurrency.upgrade() else {
            return;
        };
        if let Some(account) = concurrency.lock().get_mut(&self.account) {
            account.running = account.running.saturating_sub(1);
        }
        concurrency.queues.send_to_all_awake(|| queue::Message::Look);
    }
}
