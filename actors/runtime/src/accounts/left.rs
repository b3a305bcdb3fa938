//! The work that a deleted user leaves: it is cancelled, or another user answers for it.
//!
//! ```text
//!   deletion ─▶ the fate of the work, in the commit that deletes the user
//!            └▶ cancelled: all unfinished tasks and executions, in the background; a start does the rest
//!            └▶ handed over: the other user's rights count wherever the owner's are asked
//! ```
//!
//! A late start and an occurrence of a schedule ask for the owner's rights, for a key those of the person behind it; a
//! lease and a delivery ask only whether anybody answers for the work. Deliberately absent: requests, whose credential says what they may.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use callboard_domain::Error;
use callboard_domain::access::{Account, Action, Role};
use callboard_domain::account::WorkLeft;
use callboard_domain::approval::SYSTEM;
use callboard_domain::credential::ApiKey;
use callboard_domain::id::{Environment, ExecutionId, TaskId, UserId};
use callboard_store::{Error as StoreError, Op, Outcome};
use tokio::sync::oneshot;

use super::register::{Inner, Register};
use super::rights::of_user;
use super::{NUMBER, PARTITION};
use crate::node::{Node, PAGE};
use crate::shard::TaskAddress;
use crate::tables::{self, LEFT_WORK, LIVE_EXECUTIONS, LIVE_TASKS, executions};
use crate::{durable, execution, task};

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

    /// The role in which the work of an account may go on; `None` if the account is none of a user, as far as is
    /// known.
    ///
    /// # Errors
    /// [`Error::Forbidden`] if the person behind the account was deleted, or may not do this any more.
    pub(crate) fn owner_may(&self, account: &str, action: Action) -> Result<Option<Role>, Error> {
        let Ok(Account::User(person)) = self.person_of(account).parse() else { return Ok(None) };
        let inner = self.read();
        match inner.users.get(&inner.answers_for(person)) {
            Some(user) => of_user(user, None).may(action).map(|()| Some(user.role)),
            None => Err(Error::Forbidden(format!("the user behind {account} was deleted"))),
        }
    }

    /// True if a deleted user handed the work of the account over.
    pub(crate) fn is_handed_over(&self, account: &str) -> bool {
        let Ok(Account::User(person)) = self.person_of(account).parse() else { return false };
        self.read().answers_for(person) != person
    }

    /// The accounts for whose work a user answers: the user's own and keys, and those that were handed over.
    pub(super) fn accounts_of(&self, user: UserId) -> Vec<String> {
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
    fn to_cancel(&self) -> Vec<UserId> {
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

/// The row of the work that a deleted user leaves.
pub(super) fn row(user: UserId, left: WorkLeft) -> Op {
    LEFT_WORK.put(NUMBER, &user.as_u128(), &left, None)
}

/// Cancels the unfinished work that deleted users have left to be cancelled.
pub(crate) async fn cancel(node: Arc<Node>) {
    let _one_at_a_time = node.cancelling_left_work.lock().await;
    let users = node.accounts.to_cancel();
    if users.is_empty() {
        return;
    }
    if let Err(error) = cancel_all(&node).await {
        tracing::warn!(%error, "the work of deleted users was not cancelled; the next start goes on with it");
        return;
    }
    for user in users {
        node.accounts.put_left(user, WorkLeft::Cancelled);
        let rows = vec![row(user, WorkLeft::Cancelled)];
        let stored = durable::commit_rows(node.shard(PARTITION), PARTITION, rows).await;
        if !matches!(stored, Outcome::Committed) {
            tracing::warn!(%user, "the next start looks for the work of a deleted user again");
        }
    }
}

async fn cancel_all(node: &Node) -> Result<(), StoreError> {
    let is_left = |account: &str| node.accounts.is_abandoned(account);
    for environment in Environment::ALL {
        let (store, number) = (node.store(), environment.number());
        let mut after = None;
        loop {
            let page = LIVE_EXECUTIONS.scan(store, number, after.as_ref(), PAGE).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            for (id, _) in page {
                let execution = ExecutionId::from_u128(id);
                let begun = executions::begun(store, environment, execution).await?;
                if begun.is_some_and(|begun| is_left(&begun.spec.account)) {
                    // The answer has no receiver, here and below.
                    let (reply, _) = oneshot::channel();
                    let address = execution::Address { environment, execution };
                    let shard = node.shard(execution.partition());
                    shard.executions.send(address, execution::Message::Cancel(reply));
                }
            }
        }
        let mut after = None;
        loop {
            let page = LIVE_TASKS.scan(store, number, after.as_ref(), PAGE).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            for (id, _) in page {
                let task = TaskId::from_u128(id);
                let made = tables::made(store, environment, task).await?;
                let Some(spec) = made.map(|made| made.spec) else { continue };
                if spec.origin.step.is_none() && is_left(&spec.account) {
                    let (reply, _) = oneshot::channel();
                    let message = task::Message::Cancel(SYSTEM.to_owned(), reply);
                    node.send(TaskAddress { environment, task }, message);
                }
            }
        }
    }
    Ok(())
}
