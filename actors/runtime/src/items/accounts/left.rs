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

use callboard_domain::account::WorkLeft;
use callboard_domain::approval::SYSTEM;
use callboard_domain::id::{Environment, ExecutionId, TaskId, UserId};
use callboard_store::{Error as StoreError, Op, Outcome};
use tokio::sync::oneshot;

use super::{NUMBER, PARTITION};
use crate::items::{execution, task};
use crate::kernel::address::TaskAddress;
use crate::node::{Node, PAGE};
use crate::tables::{self, LEFT_WORK, LIVE_EXECUTIONS, LIVE_TASKS, executions};

/// The row of the work that a deleted user leaves.
pub(super) fn row(user: UserId, left: WorkLeft) -> Op {
    LEFT_WORK.put(NUMBER, &user.as_u128(), &left, None)
}

/// Cancels the unfinished work that deleted users have left to be cancelled.
pub(crate) async fn cancel(node: Arc<Node>) {
    let _one_at_a_time = node.state.cancelling_left_work.lock().await;
    let users = node.state.accounts.to_cancel();
    if users.is_empty() {
        return;
    }
    let is_left = |account: &str| node.state.accounts.is_abandoned(account);
    for &environment in &*node.environments() {
        if let Err(error) = cancel_all(&node, environment, is_left).await {
            tracing::warn!(%error, "the work of deleted users was not cancelled; the next start goes on with it");
            return;
        }
    }
    for user in users {
        node.state.accounts.put_left(user, WorkLeft::Cancelled);
        let rows = vec![row(user, WorkLeft::Cancelled)];
        let stored = node.shard(PARTITION).commit(PARTITION, rows).await;
        if !matches!(stored, Outcome::Committed) {
            tracing::warn!(%user, "the next start looks for the work of a deleted user again");
        }
    }
}

/// Cancels the unfinished tasks and executions of some accounts. What has ended meanwhile refuses, and stays as it is.
pub(crate) async fn cancel_all(
    node: &Node,
    environment: Environment,
    is_meant: impl Fn(&str) -> bool,
) -> Result<(), StoreError> {
    let (store, number) = (node.store(), environment.number());
    let mut after = None;
    loop {
        let page = LIVE_EXECUTIONS.scan(store, number, after.as_ref(), PAGE).await?;
        let Some((last, _)) = page.last() else { break };
        after = Some(*last);
        for (id, _) in page {
            let execution = ExecutionId::from_u128(id);
            let begun = executions::begun(store, environment, execution).await?;
            if begun.is_some_and(|begun| is_meant(&begun.spec.account)) {
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
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = Some(*last);
        for (id, _) in page {
            let task = TaskId::from_u128(id);
            let made = tables::made(store, environment, task).await?;
            let Some(spec) = made.map(|made| made.spec) else { continue };
            if spec.origin.step.is_none() && is_meant(&spec.account) {
                let (reply, _) = oneshot::channel();
                let message = task::Message::Cancel(SYSTEM.to_owned(), reply);
                node.send(TaskAddress { environment, task }, message);
            }
        }
    }
}
