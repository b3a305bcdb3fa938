//! Brings projects that move to this cell: copies them, then tells home.
//!
//! ```text
//!   this cell ─ questions ─▶ the cell that the project leaves      until all rows are here, and equal
//!             ─ switch ────▶ home                                  which makes this cell the project's
//! ```

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use bytes::Bytes;
use callboard_domain::cell::HOME;
use callboard_domain::moving::{Part, Stage};
use callboard_runtime::handle::moves::{NotCopied, Question, Source};
use url::Url;

use super::cells::{Cells, MOVES};
use super::front::Front;

/// The pause before another attempt.
const PAUSE: Duration = Duration::from_millis(250);
/// The attempts in vain for one reason after which the log says it.
const TOLD_AFTER: u32 = 20;
/// The most bytes of an answer.
const MAX_PAGE: usize = 4 << 20;

impl Cells {
    /// Brings each project that comes, for as long as it is polled.
    pub(super) async fn bring(self: Arc<Self>, front: Front) {
        let mut changes = self.app.handle.account_changes();
        let (mut last, mut times) = (String::new(), 0);
        loop {
            changes.borrow_and_update();
            let coming = self.app.handle.coming_projects();
            for part in &coming {
                let Err(why) = self.bring_one(&front, part).await else { continue };
                let why = format!("project {} does not come: {why}", part.project);
                times = if why == last { times + 1 } else { 1 };
                if times == TOLD_AFTER {
                    tracing::warn!("{why}");
                }
                last = why;
            }
            tokio::select! {
                _ = changes.changed(), if coming.is_empty() => {}
                () = tokio::time::sleep(PAUSE), if !coming.is_empty() => {}
            }
        }
    }

    async fn bring_one(&self, front: &Front, part: &Part) -> Result<(), String> {
        if part.stage == Stage::Coming {
            let from = part.other.as_deref().unwrap_or(HOME);
            let nodes = self.nodes_of(from).ok_or_else(|| format!("there is no cell {from}"))?;
            let there = There { front, nodes, part };
            match self.app.handle.copy_project(part.id, &there).await {
                Ok(()) => tracing::info!(project = %part.project, from, "a project is copied"),
                Err(error @ NotCopied::Differs(_)) => {
                    tracing::error!(project = %part.project, from, %error, "copying it anew");
                    return Ok(());
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        let Some(home) = self.home() else {
            let switched = self.app.handle.switch_project(part.number, part.id).await;
            return switched.map_err(|error| error.to_string());
        };
        let path = format!("{MOVES}{}?switch={}", part.id, part.number);
        match front.ask(Method::POST, home, &path).await.map(|answer| answer.status()) {
            // If the move was given up, home's list says so.
            Some(StatusCode::NO_CONTENT | StatusCode::CONFLICT) => Ok(()),
            Some(status) => Err(format!("home answers {status}")),
            None => Err("home cannot be reached".to_owned()),
        }
    }
}

/// The cell that a project leaves.
struct There<'s> {
    front: &'s Front,
    nodes: Vec<Url>,
    part: &'s Part,
}

impl Source for There<'_> {
    async fn ask(&self, question: &Question) -> Result<Bytes, String> {
        let path = format!("{MOVES}{}?ask={question}", self.part.id);
        let answer = self.front.ask(Method::GET, &self.nodes, &path).await;
        let answer = answer.ok_or("no node of it can be reached")?;
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::CONFLICT => return Err("the project does not stand still there yet".into()),
            status => return Err(status.to_string()),
        }
        let body = axum::body::to_bytes(answer.into_body(), MAX_PAGE).await;
        body.map_err(|error| error.to_string())
    }
}
