//! The accounts for whose work somebody answers after a user was deleted.

use std::sync::atomic::Ordering;

use callboard_domain::Error;
use callboard_domain::access::{Account, Action, Role};
use callboard_domain::account::WorkLeft;
use callboard_domain::credential::ApiKey;
use callboard_domain::id::{Environment, UserId};

use super::{Inner, Register};

/// The most users in a row who were deleted and handed their work over.
const MAX_HEIRS: usize = 100;

impl Register {
    /// Notes the fate of the work of a deleted user.
    pub(crate) fn put_left(&self, user: UserId, left: WorkLeft) {
        self.write().left.insert(user, left);
        self.anybody_left.store(true, Ordering::Release);
    }

    /// True if the work of the account is to be cancelled: the person behind it was deleted, and nobody answers for it.
    pub(crate) fn is_abandoned(&self, account: &str) -> bool {
        // Without such a person, a lease reads this flag and nothing else.
        if !self.anybody_left.load(Ordering::Acquire) {
            return false;
        }
        let Ok(Account::User(person)) = self.person_of(account).parse() else { return false };
        let inner = self.read();
        let left = inner.left.get(&inner.answers_for(person));
        matches!(left, Some(WorkLeft::ToCancel | WorkLeft::Cancelled))
    }

    /// The role in which the work of an account may go on in an environment; `None` if the account is none of a user, as far as is
    /// known.
    ///
    /// # Errors
    /// [`Error::Forbidden`] if the person behind the account was deleted, or may not do this any more;
    /// [`Error::NotFound`] if the person is no member of the project any more.
    pub(crate) fn owner_may(
        &self,
        account: &str,
        environment: Environment,
        action: Action,
    ) -> Result<Option<Role>, Error> {
        let Ok(Account::User(person)) = self.person_of(account).parse() else { return Ok(None) };
        let user = {
            let inner = self.read();
            inner.users.get(&inner.answers_for(person)).cloned()
        };
        match user {
            Some(user) => {
                let caller = self.caller_in(environment.slot(), &user, None)?;
                caller.may(action).map(|()| Some(caller.role))
            }
            None => Err(Error::Forbidden(format!("the user behind {account} was deleted"))),
        }
    }

    /// True if a deleted user handed the work of the account over.
    pub(crate) fn is_handed_over(&self, account: &str) -> bool {
        let Ok(Account::User(person)) = self.person_of(account).parse() else { return false };
        self.read().answers_for(person) != person
    }

    /// The accounts for whose work a user answers: the user's own and keys, and those that were handed over.
    pub(crate) fn accounts_of(&self, user: UserId) -> Vec<String> {
        let people: Vec<_> = {
            let inner = self.read();
            let handed_over = inner.left.keys().filter(|left| inner.answers_for(**left) == user);
            handed_over.copied().chain([user]).collect()
        };
        let keys = self.keys();
        let is_theirs = |key: &ApiKey| key.user.is_some_and(|user| people.contains(&user));
        let keys = keys.iter().filter(|known| is_theirs(&known.key));
        let keys = keys.map(|known| known.key.id.to_string());
        people.iter().map(UserId::to_string).chain(keys).collect()
    }

    /// The users whose work is still to be cancelled.
    pub(crate) fn to_cancel(&self) -> Vec<UserId> {
        let inner = self.read();
        let left = inner.left.iter().filter(|(_, left)| **left == WorkLeft::ToCancel);
        left.map(|(user, _)| *user).collect()
    }
}

impl Inner {
    /// The user who answers for a person's work: the person, or else whoever took it over last.
    fn answers_for(&self, mut person: UserId) -> UserId {
        for _ in 0..MAX_HEIRS {
            let Some(WorkLeft::HandedOver(to)) = self.left.get(&person) else { break };
            person = *to;
        }
        person
    }
}
