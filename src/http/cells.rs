//! Cells at the edge: home's list, which the cells follow, and the routes that change it (docs/reference/cells.md).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::ETAG;
use axum::response::{IntoResponse, Response};
use callboard_domain::cell::Cell;
use callboard_domain::digest::Digest;
use callboard_domain::project::Project;
use callboard_domain::{Error, Timestamp};
use callboard_runtime::handle::moves::Question;
use callboard_wire::cells::{CellBody, CellHealth, CellName, MetricsTarget, PutCell};
use callboard_wire::common::Paging;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use super::elsewhere::Elsewhere;
use super::extract::Asker;
use super::system::examine;
use super::{Answer, App, Body, Id, Query, Reply};

/// The longest time for which a cell waits for a change of the list.
const WAIT: Duration = Duration::from_secs(1);
/// The longest time for which a change waits until its cell has it.
const KNOWN_WITHIN: Duration = Duration::from_secs(3);
/// The time without a sign after which a cell is called silent.
const SILENT: Duration = Duration::from_secs(5);

/// The cells that follow home, each with the last sign of it.
#[derive(Debug, Default)]
pub(crate) struct Followers(watch::Sender<BTreeMap<String, Heard>>);

#[derive(Debug, Clone)]
struct Heard {
    /// The version of the list that the cell has.
    version: String,
    at: Timestamp,
}

impl App {
    /// Home's list for a cell that has this version of it: once there is another one, else nothing after a second.
    pub(crate) async fn list_for(&self, cell: &str, has: &str) -> Response {
        let (mut changes, until) = (self.handle.account_changes(), Instant::now() + WAIT);
        loop {
            changes.borrow_and_update();
            let Some((version, list)) = self.list_of(cell) else {
                return StatusCode::NOT_FOUND.into_response();
            };
            let heard = Heard { version: has.to_owned(), at: self.handle.now() };
            self.followers.0.send_modify(|all| drop(all.insert(cell.to_owned(), heard)));
            if version != has {
                return ([(ETAG, version)], list).into_response();
            }
            if !matches!(timeout_at(until, changes.changed()).await, Ok(Ok(()))) {
                return StatusCode::NOT_MODIFIED.into_response();
            }
        }
    }

    /// The answer to the cell to which a project moves; 409 until the project stands still here.
    pub(crate) async fn answer_move(&self, id: &str, question: &str) -> Response {
        let (Ok(id), Ok(question)) = (id.parse(), question.parse::<Question>()) else {
            return StatusCode::NOT_FOUND.into_response();
        };
        match self.handle.answer_move(id, &question).await {
            Ok(bytes) => bytes.into_response(),
            Err(Error::NotFound { .. }) => StatusCode::CONFLICT.into_response(),
            Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        }
    }

    /// Makes another cell that of the project of this number; 409 if the move was given up.
    pub(crate) async fn switch_project(&self, id: &str, number: &str) -> Response {
        let (Ok(id), Ok(number)) = (id.parse(), number.parse()) else {
            return StatusCode::NOT_FOUND.into_response();
        };
        match self.handle.switch_project(number, id).await {
            Ok(()) => StatusCode::NO_CONTENT.into_response(),
            Err(Error::NotFound { .. } | Error::InvalidState(_)) => {
                StatusCode::CONFLICT.into_response()
            }
            Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        }
    }

    /// Passes if a cell was heard of a moment ago; home is heard always.
    ///
    /// # Errors
    /// [`Error::InvalidState`].
    pub(super) fn check_heard(&self, cell: &str) -> Result<(), Error> {
        let heard = self.followers.0.borrow().get(cell).map(|heard| heard.at);
        let is_known = self.handle.cells().iter().any(|known| known.name == cell);
        if !is_known || heard.is_some_and(|at| self.handle.now().since(at) <= SILENT) {
            return Ok(());
        }
        let message = format!("cell {cell} is silent: a project moves to a cell that follows home");
        Err(Error::InvalidState(message))
    }

    /// The list for a cell, and its version.
    fn list_of(&self, cell: &str) -> Option<(String, String)> {
        let list = serde_json::to_string(&self.handle.assigned_to(cell)?).ok()?;
        Some((Digest::of(&list).to_string(), list))
    }

    /// Waits a short while until the cell of a project has the list of now.
    pub(super) async fn known_there(&self, project: &Project) {
        let Some(cell) = &project.cell else { return };
        let mut followers = self.followers.0.subscribe();
        let has_it = |all: &BTreeMap<String, Heard>| {
            let version = self.list_of(cell).map(|(version, _)| version);
            all.get(cell).map(|heard| &heard.version) == version.as_ref()
        };
        if timeout(KNOWN_WITHIN, followers.wait_for(has_it)).await.is_err() {
            tracing::warn!(cell, project = %project.id, "a cell has not heard of a change yet");
        }
    }

    /// The health of this cell.
    pub(super) fn cell_health(&self) -> CellHealth {
        CellHealth::of(&examine(self))
    }

    fn cell_body(&self, cell: &Cell) -> CellBody {
        let projects = self.handle.number_of_projects(Some(&cell.name));
        let heard = self.followers.0.borrow().get(&cell.name).cloned();
        let now = self.handle.now();
        let status = match &heard {
            Some(heard) if now.since(heard.at) <= SILENT => {
                let version = self.list_of(&cell.name).map(|(version, _)| version);
                if version.as_ref() == Some(&heard.version) { "following" } else { "behind" }
            }
            Some(_) | None => "silent",
        };
        CellBody::new(cell, projects, status, heard.map(|heard| heard.at))
    }
}

/// Add a cell, or give one other addresses.
#[utoipa::path(
    post, path = "/api/cells", tag = "system",
    responses(
        (status = 201, description = "new projects may be made there", body = CellBody),
        (status = 409, description = "there are 100 cells"),
    ),
)]
pub(super) async fn add_cell(
    State(app): State<Arc<App>>,
    Asker(by): Asker,
    Body(cell): Body<PutCell>,
) -> Answer {
    let cell = app.handle.put_cell(cell.cell(app.handle.now())?, by).await?;
    Ok(Reply::created(&app.cell_body(&cell)))
}

/// The cells, home first.
#[utoipa::path(
    get, path = "/api/cells", tag = "system",
    responses((status = 200, body = [CellBody])),
)]
pub(super) async fn list_cells(
    State(app): State<Arc<App>>,
    elsewhere: Elsewhere,
    Query(paging): Query<Paging>,
) -> Answer {
    let cells = app.handle.cells();
    let mut heard: HashMap<_, _> =
        elsewhere.ask::<CellHealth>("health").await.answers.into_iter().collect();
    let home = CellBody::home(app.handle.number_of_projects(None), app.cell_health());
    let others = cells.iter().map(|cell| app.cell_body(cell).with(heard.remove(&cell.name)));
    let all: Vec<_> = [home].into_iter().chain(others).collect();
    let (window, total) = (paging.window(), all.len() as u64);
    let page: Vec<_> = all.into_iter().skip(window.offset).take(window.limit).collect();
    Ok(Reply::page(&page, total, window))
}

/// The nodes of the other cells as Prometheus discovers targets over HTTP, without the envelope; each has the label
/// `cell`.
pub(super) async fn targets(State(app): State<Arc<App>>) -> Reply {
    let cells = app.handle.cells();
    let targets: Vec<_> = cells.iter().flat_map(MetricsTarget::of).collect();
    Reply::ok_bare(&targets)
}

/// Remove a cell that has no project.
#[utoipa::path(
    delete, path = "/api/cells/{name}", tag = "system",
    responses(
        (status = 200, description = "no project is made there any more", body = CellBody),
        (status = 409, description = "it has projects"),
    ),
)]
pub(super) async fn remove_cell(
    State(app): State<Arc<App>>,
    Asker(by): Asker,
    Id(CellName(name)): Id<CellName>,
) -> Answer {
    let cell = app.handle.remove_cell(name, by).await?;
    Ok(Reply::ok(&app.cell_body(&cell)))
}
