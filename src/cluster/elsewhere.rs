//! Home's questions to every other cell at once.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use bytes::Bytes;
use callboard_domain::cell::Cell;
use futures_util::future::join_all;
use tokio::time::timeout;
use url::Url;

use super::front::Front;
use crate::http::{Answers, AskCells, OF_CELL};

/// The time for an answer, after which the cell is called silent.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most bytes of an answer.
const MAX_ANSWER: usize = 16 << 20;

/// The other cells, and the door through which they are asked.
pub(super) struct OtherCells {
    pub(super) front: Front,
    pub(super) cells: Arc<[Cell]>,
}

impl AskCells for OtherCells {
    fn ask(&self, path: &str) -> Pin<Box<dyn Future<Output = Answers> + Send + '_>> {
        let path = format!("{OF_CELL}{path}");
        Box::pin(async move {
            let all = self.cells.iter().map(|cell| async {
                let answer = timeout(PATIENCE, self.ask_one(cell, &path)).await;
                (cell.name.clone(), answer.ok().flatten())
            });
            join_all(all).await
        })
    }
}

impl OtherCells {
    async fn ask_one(&self, cell: &Cell, path: &str) -> Option<Bytes> {
        let nodes: Vec<_> = cell.nodes.iter().filter_map(|node| Url::parse(node).ok()).collect();
        let answer = self.front.ask(Method::GET, &nodes, path).await?;
        if answer.status() != StatusCode::OK {
            tracing::warn!(cell = cell.name, status = %answer.status(), "a cell refuses home's question");
            return None;
        }
        axum::body::to_bytes(answer.into_body(), MAX_ANSWER).await.ok()
    }
}
