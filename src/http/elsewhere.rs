//! The other cells, as home asks them for what is about all of them (docs/reference/cells.md).
//!
//! Home asks as itself, and shows a caller the part that the caller may see. A cell that does not answer is named.

use std::collections::HashSet;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use callboard_domain::Error;
use callboard_domain::id::ProjectId;
use callboard_wire::audit::ListAudit;
use callboard_wire::projects::AskFigures;
use callboard_wire::read;
use serde::de::DeserializeOwned;

use super::describe::{Input, Operation};
use super::{App, Failure, Reply};

/// The paths at which a cell answers home.
pub(crate) const OF_CELL: &str = "/internal/cell/";
/// The header that names the cells which did not answer.
const SILENT: HeaderName = HeaderName::from_static("callboard-silent-cells");

/// The answer of each cell, by name; `None` of one that did not give any.
pub(crate) type Answers = Vec<(String, Option<Bytes>)>;

/// A way to ask every other cell at once.
pub(crate) trait AskCells: Send + Sync {
    /// Asks at a path behind [`OF_CELL`].
    fn ask(&self, path: &str) -> Pin<Box<dyn Future<Output = Answers> + Send + '_>>;
}

/// The other cells; none on a server without cells.
#[derive(Clone, Default)]
pub(crate) struct Elsewhere(Option<Arc<dyn AskCells>>);

/// What the cells answered, and those that were silent.
pub(super) struct Heard<T> {
    pub(super) answers: Vec<(String, T)>,
    pub(super) silent: Vec<String>,
}

impl Elsewhere {
    pub(crate) fn new(cells: Arc<dyn AskCells>) -> Self {
        Self(Some(cells))
    }

    /// Asks every other cell.
    pub(super) async fn ask<T: DeserializeOwned>(&self, path: &str) -> Heard<T> {
        let mut heard = Heard { answers: Vec::new(), silent: Vec::new() };
        let Some(cells) = &self.0 else { return heard };
        for (cell, bytes) in cells.ask(path).await {
            match bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
                Some(answer) => heard.answers.push((cell, answer)),
                None => heard.silent.push(cell),
            }
        }
        heard
    }
}

impl<S: Sync> FromRequestParts<S> for Elsewhere {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}

impl Input for Elsewhere {
    fn describe(_: &mut Operation) {}
}

impl Reply {
    /// This answer with the names of the cells that did not answer, if there are any.
    pub(super) fn without(self, silent: &[String]) -> Self {
        match HeaderValue::from_str(&silent.join(", ")) {
            Ok(names) if !silent.is_empty() => self.header(SILENT, names),
            Ok(_) | Err(_) => self,
        }
    }
}

impl App {
    /// The answer of this cell to home.
    pub(crate) async fn answer_home(&self, path: &str, query: &str) -> Response {
        let answer = match path.split_once('/').unwrap_or((path, "")) {
            ("figures", projects) => self.figures_for_home(projects, query).await,
            ("audit", _) => self.audit_for_home(query).await,
            ("health", _) => Ok(Reply::ok_bare(&self.cell_health())),
            _ => Err(Error::not_found("path", path).into()),
        };
        answer.into_response()
    }

    /// The figures of some projects, whose identifiers commas separate.
    async fn figures_for_home(&self, projects: &str, query: &str) -> Result<Reply, Failure> {
        let asked = read::query::parse::<AskFigures>(query)?.at(self.handle.now());
        let of: HashSet<ProjectId> = projects.split(',').filter_map(|id| id.parse().ok()).collect();
        Ok(Reply::ok_bare(&self.figures(&asked, |project| of.contains(&project.id)).await?))
    }

    async fn audit_for_home(&self, query: &str) -> Result<Reply, Failure> {
        let list = read::query::parse::<ListAudit>(query)?;
        Ok(Reply::ok_bare(&self.audit_up_to(list).await?))
    }
}
