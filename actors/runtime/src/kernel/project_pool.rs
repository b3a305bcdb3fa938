//! A pool that the projects share by [`Room`](callboard_domain::share::Room): the memory of submissions on their way to the disk, and that of outputs
//! that are posted.
//!
//! ```text
//!   try_take ─▶ room? ─▶ a permit, or nothing
//!   take ─────▶ those of a project wait in the order of their coming; the first of each asks again when
//!               a permit is dropped
//! ```

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use callboard_domain::id::Slot;
use tokio::sync::Notify;

use crate::kernel::environments::Environments;

/// The pool.
#[derive(Debug)]
pub(crate) struct ProjectPool {
    limit: usize,
    environments: Arc<Environments>,
    held: Mutex<Held>,
    /// Told when a permit was dropped.
    freed: Notify,
    /// Each project's line of those who wait.
    lines: Box<[tokio::sync::Mutex<()>]>,
}

#[derive(Debug)]
struct Held {
    all: usize,
    projects: Box<[OfProject]>,
}

#[derive(Debug, Clone, Copy, Default)]
struct OfProject {
    held: usize,
    /// The first of the line has found no room yet, and comes before whoever does not wait.
    waits: bool,
}

/// A part of the pool; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct PoolPermit {
    pool: Arc<ProjectPool>,
    project: Slot,
    amount: usize,
}

/// The first of a project's line while it waits.
struct First<'p>(&'p ProjectPool, Slot);

impl ProjectPool {
    pub(crate) fn new(limit: usize, environments: Arc<Environments>) -> Arc<Self> {
        let slots = usize::from(Slot::COUNT);
        let projects = vec![OfProject::default(); slots].into();
        let lines = (0..slots).map(|_| tokio::sync::Mutex::default()).collect();
        let held = Mutex::new(Held { all: 0, projects });
        Arc::new(Self { limit, environments, held, freed: Notify::new(), lines })
    }

    /// A part of the pool for a project, at most the whole; `None` if there is no room for it.
    pub(crate) fn try_take(self: &Arc<Self>, project: Slot, amount: usize) -> Option<PoolPermit> {
        self.take_now(project, amount, false)
    }

    /// A part of the pool for a project, at most the whole, once there is room for it.
    pub(crate) async fn take(self: &Arc<Self>, project: Slot, amount: usize) -> PoolPermit {
        let _place = self.lines[usize::from(project.number())].lock().await;
        if let Some(permit) = self.take_now(project, amount, false) {
            return permit;
        }
        let _first = First::wait(self, project);
        loop {
            let mut freed = pin!(self.freed.notified());
            // `enable` registers the wait first, so that room freed in between is noticed.
            freed.as_mut().enable();
            if let Some(permit) = self.take_now(project, amount, true) {
                return permit;
            }
            freed.await;
        }
    }

    fn take_now(
        self: &Arc<Self>,
        project: Slot,
        amount: usize,
        is_first: bool,
    ) -> Option<PoolPermit> {
        let amount = amount.min(self.limit);
        let mut held = self.held();
        let room = self.environments.room(project, self.limit - held.all);
        let of_project = held.of(project);
        if amount > 0 && (of_project.waits != is_first || !room.fits(of_project.held, amount)) {
            return None;
        }
        of_project.held += amount;
        held.all += amount;
        Some(PoolPermit { pool: Arc::clone(self), project, amount })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn of(&mut self, project: Slot) -> &mut OfProject {
        &mut self.projects[usize::from(project.number())]
    }
}

impl<'p> First<'p> {
    fn wait(pool: &'p ProjectPool, project: Slot) -> Self {
        pool.held().of(project).waits = true;
        Self(pool, project)
    }
}

impl Drop for First<'_> {
    fn drop(&mut self) {
        self.0.held().of(self.1).waits = false;
    }
}

impl PoolPermit {
    /// The part of the pool.
    pub(crate) const fn amount(&self) -> usize {
        self.amount
    }
}

impl Drop for PoolPermit {
    fn drop(&mut self) {
        let mut held = self.pool.held();
        held.all -= self.amount;
        held.of(self.project).held -= self.amount;
        drop(held);
        self.pool.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const OTHER: Slot = Slot::new(1).expect("a slot");

    fn pool(limit: usize, projects: &[Slot]) -> Arc<ProjectPool> {
        let environments = Arc::new(Environments::default());
        for project in projects {
            environments.put(*project);
        }
        ProjectPool::new(limit, environments)
    }

    fn flood(pool: &Arc<ProjectPool>, project: Slot) -> Vec<PoolPermit> {
        std::iter::from_fn(|| pool.try_take(project, 1)).collect()
    }

    #[test]
    fn one_project_has_the_whole_pool() {
        let pool = pool(100, &[]);
        let all = flood(&pool, Slot::DEFAULT);
        assert_eq!(all.len(), 100);
        drop(all);
        assert!(
            pool.try_take(Slot::DEFAULT, 1_000).is_some(),
            "what is larger counts as all of it"
        );
    }

    #[test]
    fn a_project_that_floods_leaves_room_for_another() {
        let pool = pool(100, &[OTHER]);
        let of_one = flood(&pool, Slot::DEFAULT);
        assert_eq!(of_one.len(), 75);
        let of_other = pool.try_take(OTHER, 20).expect("there is room");
        assert!(pool.try_take(Slot::DEFAULT, 1).is_none());
        drop((of_one, of_other));
        assert_eq!(flood(&pool, OTHER).len(), 75);
    }

    #[tokio::test]
    async fn those_who_wait_come_in_order_and_before_those_who_do_not() {
        let pool = pool(100, &[OTHER]);
        let mut all = flood(&pool, Slot::DEFAULT);
        let mut large = Box::pin(pool.take(Slot::DEFAULT, 10));
        assert!(large.as_mut().now_or_never().is_none());
        let mut second = Box::pin(pool.take(Slot::DEFAULT, 1));
        drop(all.split_off(70));
        assert!(second.as_mut().now_or_never().is_none(), "it came later");
        assert!(pool.try_take(Slot::DEFAULT, 1).is_none());
        assert!(pool.try_take(Slot::DEFAULT, 0).is_some(), "nothing is always there");
        assert!(pool.take(OTHER, 20).now_or_never().is_some(), "another project does not wait");
        drop(all.split_off(60));
        let large = large.await;
        assert!(second.as_mut().now_or_never().is_some());
        drop(large);
        assert!(pool.try_take(Slot::DEFAULT, 1).is_some());
    }

    #[tokio::test]
    async fn a_waiter_who_leaves_holds_nobody_up() {
        let pool = pool(100, &[]);
        let all = flood(&pool, Slot::DEFAULT);
        let mut waiter = Box::pin(pool.take(Slot::DEFAULT, 100));
        assert!(waiter.as_mut().now_or_never().is_none());
        drop((waiter, all));
        assert_eq!(flood(&pool, Slot::DEFAULT).len(), 100);
    }
}
