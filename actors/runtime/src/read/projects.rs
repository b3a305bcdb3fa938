//! The work of a project that has not ended.

use callboard_domain::id::{BatchId, ExecutionId, Slot, TaskId};
use callboard_store::Error;

use crate::node::{Node, PAGE};
use crate::tables::{BATCHES, LIVE_EXECUTIONS, LIVE_TASKS};

/// The name of something in a project that has not ended.
pub(crate) async fn unfinished(node: &Node, project: Slot) -> Result<Option<String>, Error> {
    let store = node.store();
    for environment in project.environments() {
        let number = environment.number();
        if let Some((id, _)) = LIVE_EXECUTIONS.scan(store, number, None, 1).await?.first() {
            return Ok(Some(format!("execution {}", ExecutionId::from_u128(*id))));
        }
        if let Some((id, _)) = LIVE_TASKS.scan(store, number, None, 1).await?.first() {
            return Ok(Some(format!("task {}", TaskId::from_u128(*id))));
        }
        let mut chats = node.state.chat_batches.all().into_iter();
        if let Some((_, id)) = chats.find(|(of, _)| *of == environment) {
            return Ok(Some(format!("batch {id}")));
        }
        let mut after = None;
        loop {
            let page = BATCHES.scan(store, number, after.as_ref(), PAGE).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            if let Some((id, _)) = page.iter().find(|(_, batch)| !batch.is_over()) {
                return Ok(Some(format!("batch {}", BatchId::from_u128(*id))));
            }
        }
    }
    Ok(None)
}
