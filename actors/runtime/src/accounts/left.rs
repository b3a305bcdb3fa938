//! The work that a deleted user leaves: it is cancelled, or another user answers for it.
//!
//! ```text
//!   deletion ─▶ what becomes of the work, in the commit that deletes the user
//!            └▶ cancelled: all unfinished tasks and executions, in the background; a start does the rest
//!            └▶ handed over: the other user's rights count wherever the owner's are asked
//! ```
//!
//! A lease, a late start, a delivery and an occurrence of a schedule ask for the owner's rights; for a key, for those
//! of the person behind it. Deliberately absent: requests, whose credential says what they may.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use callboard_domain::Error;
use callboard_domain::access::{Account, Action, Role};
use callboard_domain::account::WorkLeft;
use callboard_domain::approval::SYSTEM;
use callboard_domain::id::{Environment, ExecutionId, TaskId, UserId};
use callboard_store::{Error as StoreError, Op, Outcome};
use tokio::sync::oneshot;

use super::register::Register;
use super::rights::of_user;
use super::{NUMBER, PARTITION};
use crate::node::{Node, PAGE};
use crate::shard::TaskAddress;
use crate::tables::{self, LEFT_WORK, LIVE_EXECUTIONS, LIVE_TASKS, executions};
use crate::{durable, execution, task};

/// The most users in a row who were deleted and handed their work over.
const MAX_HEIRS: usize = 100;

impl Register {
    /// Notes what becomes of the work of a deleted user.
    pub(crate) fn put_left(&self, user: UserId, left: WorkLeft) {
        self.write().left.insert(user, left);
        self.anybody_left.store(true, Ordering::Release);
    }

    /// True if a deleted user left work.
    pub(crate) fn has_left_work(&self) -> bool {
        self.anybody_left.load(Ordering::Acquire)
    }

    /// The role in which the work of an account may go on; `None` if the account is none of a user, as far as is
    /// known.
    ///
    /// # Errors
    /// [`Error::Forbidden`] if the person behind the account was deleted, or may not do this any more.
    pub(crate) fn owner_may(&self, account: &str, action: Action) -> Result<Option<Role>, Error> {
        let Ok(Account::User(mut person)) = self.person_of(account).parse() else {
            return Ok(None);
        };
        let inner = self.read();
        for _ in 0..MAX_HEIRS {
            if let Some(user) = inner.users.get(&person) {
                return of_user(user, None).may(action).map(|()| Some(user.role));
            }
            match inner.left.get(&person) {
                Some(WorkLeft::HandedOver(to)) => person = *to,
                Some(WorkLeft::ToCancel | WorkLeft::Cancelled) | None => break,
            }
        }
        Err(Error::Forbidden(format!("the user behind {account} was deleted")))
    }

    /// True if a deleted user handed the work of the account over.
    pub(crate) fn is_handed_over(&self, account: &str) -> bool {
        let Ok(Account::User(person)) = self.person_of(account).parse() else { return false };
        let inner = self.read();
        !inner.users.contains_key(&person)
            && matches!(inner.left.get(&person), Some(WorkLeft::HandedOver(_)))
    }

    /// The users whose work is still to be cancelled.
    fn to_cancel(&self) -> Vec<UserId> {
        let inner = self.read();
        let left = inner.left.iter().filter(|(_, left)| **left == WorkLeft::ToCancel);
        left.map(|(user, _)| *user).collect()
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
    let is_left = |account: &str| node.accounts.owner_may(account, Action::TasksCreate).is_err();
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
