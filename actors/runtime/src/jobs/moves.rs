//! Opens projects that have come from another cell: reads their state, as a start does, and lets their actors begin.
//!
//! Requests for such a project are refused until then, and no actor of it acts on a part of the state.

use std::sync::Arc;

use callboard_domain::id::Slot;
use callboard_store::Error;

use super::batch;
use crate::node::Node;

/// Opens each project that comes, for as long as the process lives.
pub(crate) async fn run(node: Arc<Node>) {
    loop {
        for project in node.state.accounts.opening() {
            match open(&node, project).await {
                Ok(unfinished) => {
                    tracing::info!(place = project.number(), unfinished, "a project is open");
                }
                // A second attempt would count twice what the first one has read: a start reads it all anew.
                Err(error) => panic!("a project that has come cannot be read: {error}"),
            }
        }
        node.state.opening.notified().await;
    }
}

async fn open(node: &Arc<Node>, project: Slot) -> Result<usize, Error> {
    let environments = project.environments();
    let mut unfinished = node.recover_project(project).await?;
    for environment in environments {
        unfinished += batch::recover(node, environment).await?;
    }
    node.state.bulks.load(node, &environments).await?;
    node.load_chat_batches(&environments).await?;
    node.observers.review_stats.load_project(node.store(), &environments).await?;
    let of_stats = Arc::clone(node);
    tokio::spawn(async move {
        of_stats.observers.review_stats.finish_loading(&environments).await;
    });
    node.resume_project(project);
    node.state.accounts.opened(project);
    Ok(unfinished)
}
