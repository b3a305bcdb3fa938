//! The number of approvals that each user has to decide, in memory.
//!
//! Approvals are counted by item, so that a repeated report changes nothing; a start counts the undecided ones.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use callboard_domain::account::User;
use callboard_domain::approval::{ReviewerPool, choose};
use callboard_domain::id::{Slot, UserId};

use crate::kernel::address::TaskAddress;

/// The open items of each reviewer.
#[derive(Debug, Default)]
pub(crate) struct Reviewers(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// The user of each item: users have numbers here, as there are many items and few users.
    assigned: HashMap<TaskAddress, u32>,
    numbers: HashMap<UserId, u32>,
    /// The number of items of each user, by the users' numbers.
    open: Vec<usize>,
}

impl Reviewers {
    /// Chooses the reviewer, and counts the item to them at once: the next choice knows of it,
    /// though this one is not durable yet.
    pub(crate) fn choose(
        &self,
        item: TaskAddress,
        users: &[User],
        wanted: ReviewerPool,
    ) -> Option<UserId> {
        let mut inner = self.lock();
        let chosen = choose(users, wanted, |user| inner.open_of(user));
        if let Some(user) = chosen {
            inner.assign(item, Some(user));
        }
        chosen
    }

    /// The items of a user.
    pub(crate) fn items_of(&self, user: UserId) -> Vec<TaskAddress> {
        let inner = self.lock();
        let Some(number) = inner.numbers.get(&user) else { return Vec::new() };
        let own = inner.assigned.iter().filter(|(_, assigned)| *assigned == number);
        own.map(|(item, _)| *item).collect()
    }

    /// Assigns the item to this user, or to none.
    pub(crate) fn assign(&self, item: TaskAddress, user: Option<UserId>) {
        self.lock().assign(item, user);
    }

    /// Forgets the items of a project that is gone.
    pub(crate) fn forget_project(&self, project: Slot) {
        let mut inner = self.lock();
        let items: Vec<_> = inner.assigned.keys().copied().collect();
        for item in items.into_iter().filter(|item| item.environment.slot() == project) {
            inner.assign(item, None);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn assign(&mut self, item: TaskAddress, user: Option<UserId>) {
        let number = user.map(|user| self.number(user));
        let before = match number {
            Some(number) => self.assigned.insert(item, number),
            None => self.assigned.remove(&item),
        };
        if let Some(before) = before {
            self.open[before as usize] -= 1;
        }
        if let Some(number) = number {
            self.open[number as usize] += 1;
        }
    }

    fn open_of(&self, user: UserId) -> usize {
        self.numbers.get(&user).map_or(0, |number| self.open[*number as usize])
    }

    fn number(&mut self, user: UserId) -> u32 {
        *self.numbers.entry(user).or_insert_with(|| {
            self.open.push(0);
            u32::try_from(self.open.len() - 1).expect("there are fewer than 2^32 users")
        })
    }
}

#[cfg(test)]
mod tests {
    use callboard_domain::Timestamp;
    use callboard_domain::access::Role;
    use callboard_domain::account::{Email, PasswordHash};
    use callboard_domain::id::{Environment, TaskId};

    use super::*;

    #[test]
    fn choices_that_are_not_durable_yet_count() {
        let user = |number: u128| User {
            id: UserId::from_u128(number << 10),
            email: Email::parse("a@example.com").expect("an e-mail"),
            name: String::new(),
            role: Role::Operator,
            tier: None,
            password_hash: PasswordHash::new("$argon2id$".into()),
            must_change_password: false,
            external: None,
            created_at: Timestamp::default(),
        };
        let item = |number: u128| TaskAddress {
            environment: Environment::LIVE,
            task: TaskId::from_u128(number << 10),
        };
        let (users, reviewers) = ([user(1), user(2)], Reviewers::default());
        let choose = |number| reviewers.choose(item(number), &users, ReviewerPool::Anybody);
        assert_eq!((choose(1), choose(2)), (Some(users[0].id), Some(users[1].id)));
        reviewers.assign(item(2), Some(users[1].id));
        reviewers.assign(item(2), None);
        reviewers.assign(item(2), None);
        assert_eq!(choose(3), Some(users[1].id));
    }
}
