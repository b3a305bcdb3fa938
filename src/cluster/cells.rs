//! The other cells, as the active node of one sees them (docs/reference/cells.md).
//!
//! ```text
//!   a key ─▶ the project's number ─▶ its cell
//!   a session ─▶ home, which verifies it ─▶ the project's cell, with a signed header that names the person
//!   people, projects, cells ─▶ home
//! ```

use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, ETAG};
use axum::http::{HeaderName, Method, StatusCode, Uri};
use axum::response::Response;
use callboard_domain::Error;
use callboard_domain::access::{Account, Action, Caller};
use callboard_domain::cell::{Assigned, Cell, HOME};
use callboard_domain::credential;
use callboard_runtime::PermissionWatch;
use url::Url;

use super::elsewhere::OtherCells;
use super::forwarded::Forwarded;
use super::front::Front;
use crate::config;
use crate::http::{self, App, Elsewhere, OF_CELL, OfHome, Vouched};

/// The path at which a cell asks home for its list.
const LIST: &str = "/internal/cells/";
/// The path at which a cell asks another one, or home, about a move of a project.
pub(super) const MOVES: &str = "/internal/moves/";
/// The header, and the parameter, by which a request about a whole server names a cell.
const CELL: HeaderName = HeaderName::from_static("callboard-cell");
/// The pause before home is asked again after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// The most bytes of a list.
const MAX_LIST: usize = 64 << 20;

/// The other cells.
pub(crate) struct Cells {
    pub(super) app: Arc<App>,
    own: Own,
}

enum Own {
    Home,
    Cell(Box<Follower>),
}

/// A cell besides home.
struct Follower {
    name: String,
    /// The addresses of home's nodes.
    home: Vec<Url>,
    /// Home's list, as it was last.
    known: RwLock<Assigned>,
}

/// An answer to another cell.
type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Where a request is answered.
pub(super) enum Way {
    Here,
    Answered(Answer),
    Refused(Error),
    There(Place),
}

/// Another cell.
pub(super) struct Place {
    pub(super) name: String,
    pub(super) nodes: Vec<Url>,
    /// The person whose session was verified here.
    pub(super) person: Option<Person>,
}

/// A signed-in person.
pub(super) struct Person {
    app: Arc<App>,
    caller: Caller,
    vouched: Vouched,
}

impl Person {
    pub(super) const fn vouched(&self) -> Vouched {
        self.vouched
    }

    /// The right with which the person's streams end.
    pub(super) fn right(&self) -> PermissionWatch {
        self.app.handle.right(&self.caller, Action::ProjectsRead)
    }
}

impl Cells {
    /// The cells of these settings; `None` on a server without a cluster's key.
    pub(crate) fn of(settings: &config::Cluster, app: &Arc<App>) -> Option<Arc<Self>> {
        settings.key.as_ref()?;
        let own = match &settings.cell {
            Some(name) => Own::Cell(Box::new(Follower {
                name: name.clone(),
                home: settings.home.clone(),
                known: RwLock::default(),
            })),
            None => Own::Home,
        };
        Some(Arc::new(Self { app: Arc::clone(app), own }))
    }

    /// The way of a request.
    pub(super) fn way(&self, request: &mut Request, forwarded: Forwarded) -> Way {
        let path = request.uri().path();
        if forwarded.is_of_cell()
            && let Some(answer) = self.of_cell(request.uri())
        {
            return Way::Answered(answer);
        }
        let is_alone = matches!(self.own, Own::Home) && self.app.handle.cells().is_empty();
        if is_alone || !is_of_some_cell(path) || forwarded.person.is_some() {
            return Way::Here;
        }
        let named = request.headers().get(&CELL).and_then(|it| it.to_str().ok().map(str::to_owned));
        if let Some(cell) = named.or_else(|| http::parameter(request.uri().query(), "cell")) {
            return self.to_named(&cell, request);
        }
        if let Some(key) = key_of(request) {
            return match credential::project_named(&key) {
                Some(number) => self.to_number(number, forwarded),
                None if self.knows(&key) => Way::Here,
                None => self.to_home(),
            };
        }
        match &self.own {
            Own::Home => self.of_session(request),
            Own::Cell(_) => {
                // A socket whose credential comes in a frame.
                let project = http::project_of(request.headers(), request.uri().query());
                let is_here = |named: &str| {
                    self.app.handle.slot_of(named).is_ok_and(|slot| !slot.is_default())
                };
                if path == "/ws" && !has_session(request) && project.is_some_and(|it| is_here(&it))
                {
                    return Way::Here;
                }
                self.to_home()
            }
        }
    }

    /// Gives a request that is about all cells the way to ask them.
    pub(super) fn introduce(&self, front: &Front, request: &mut Request) {
        let cells = self.app.handle.cells();
        if matches!(self.own, Own::Home) && !cells.is_empty() && is_about_all(request.uri().path())
        {
            let others = OtherCells { front: front.clone(), cells };
            request.extensions_mut().insert(Elsewhere::new(Arc::new(others)));
        }
    }

    /// The answer to another cell.
    fn of_cell(&self, uri: &Uri) -> Option<Answer> {
        let app = Arc::clone(&self.app);
        let given = |name| http::parameter(uri.query(), name);
        if let (Own::Home, Some(cell)) = (&self.own, uri.path().strip_prefix(LIST)) {
            let (cell, has) = (cell.to_owned(), given("version").unwrap_or_default());
            return Some(Box::pin(async move { app.list_for(&cell, &has).await }));
        }
        if let (Own::Cell(_), Some(asked)) = (&self.own, uri.path().strip_prefix(OF_CELL)) {
            let (asked, query) = (asked.to_owned(), uri.query().unwrap_or_default().to_owned());
            return Some(Box::pin(async move { app.answer_home(&asked, &query).await }));
        }
        let id = uri.path().strip_prefix(MOVES)?.to_owned();
        if let (Own::Home, Some(number)) = (&self.own, given("switch")) {
            return Some(Box::pin(async move { app.switch_project(&id, &number).await }));
        }
        let question = given("ask")?;
        Some(Box::pin(async move { app.answer_move(&id, &question).await }))
    }

    /// The way of a request without a key at home: to the cell of the project that it names.
    fn of_session(&self, request: &mut Request) -> Way {
        let project = http::project_of(request.headers(), request.uri().query());
        let cell = project.and_then(|named| self.app.handle.cell_named(&named));
        let Some(cell) = cell else { return Way::Here };
        if is_of_home(request.uri().path()) {
            request.extensions_mut().insert(OfHome);
            return Way::Here;
        }
        self.with_person(&cell, request)
    }

    /// The way to a cell that a request names: for what is about a whole server.
    fn to_named(&self, cell: &str, request: &Request) -> Way {
        let own = match &self.own {
            Own::Home => HOME,
            Own::Cell(follower) => &follower.name,
        };
        let has_key = key_of(request).is_some();
        let is_open = request.uri().path() == "/ws" && !has_session(request);
        match &self.own {
            _ if cell == own && (has_key || is_open || own == HOME) => Way::Here,
            Own::Home => self.with_person(cell, request),
            Own::Cell(_) if has_key && cell != HOME => self.to(cell, None),
            Own::Cell(_) => self.to_home(),
        }
    }

    /// The way to a cell with the signed-in person, if there is one.
    fn with_person(&self, cell: &str, request: &Request) -> Way {
        let person = match http::person(&self.app, request) {
            // Only the first frame of a socket can still bring credentials.
            None if request.uri().path() == "/ws" => None,
            None => return Way::Here,
            Some(Err(error)) => return Way::Refused(error),
            Some(Ok(caller)) => {
                if let Err(error) = caller.check_password() {
                    return Way::Refused(error);
                }
                let (Account::User(user), Some(session)) = (caller.account, caller.session) else {
                    return Way::Refused(Error::Internal);
                };
                let vouched = Vouched { user, session, expires_at: caller.expires_at };
                Some(Person { app: Arc::clone(&self.app), caller, vouched })
            }
        };
        self.to(cell, person)
    }

    /// True for a key of this cell as a whole.
    fn knows(&self, key: &str) -> bool {
        let parsed = credential::parse(key);
        parsed.is_ok_and(|(_, digest)| self.app.handle.caller_of_key(&digest).is_ok())
    }

    fn to_number(&self, number: u32, forwarded: Forwarded) -> Way {
        if self.app.handle.has_project(number) {
            return Way::Here;
        }
        match &self.own {
            Own::Home => {
                self.app.handle.cell_of(number).map_or(Way::Here, |cell| self.to(&cell, None))
            }
            Own::Cell(follower) => {
                let known = follower.known.read().unwrap_or_else(PoisonError::into_inner);
                let at = known.places.binary_search_by_key(&number, |place| place.number);
                let cell = at.ok().map(|at| known.places[at].cell.clone());
                drop(known);
                match cell {
                    Some(cell) if cell == follower.name => Way::Here,
                    Some(cell) => self.to(&cell, None),
                    // Home has sent it here, or another cell that knows home's list.
                    None if forwarded.hops > 0 => Way::Here,
                    None => self.to_home(),
                }
            }
        }
    }

    fn to_home(&self) -> Way {
        match &self.own {
            Own::Home => Way::Here,
            Own::Cell(follower) => {
                let (name, nodes) = (HOME.to_owned(), follower.home.clone());
                Way::There(Place { name, nodes, person: None })
            }
        }
    }

    fn to(&self, cell: &str, person: Option<Person>) -> Way {
        match self.nodes_of(cell) {
            Some(nodes) => Way::There(Place { name: cell.to_owned(), nodes, person }),
            None => Way::Refused(Error::not_found("cell", cell)),
        }
    }

    /// The addresses of home's nodes; `None` at home.
    pub(super) fn home(&self) -> Option<&[Url]> {
        match &self.own {
            Own::Home => None,
            Own::Cell(follower) => Some(&follower.home),
        }
    }

    /// The addresses of the nodes of a cell, if there is such a cell besides this one.
    pub(super) fn nodes_of(&self, cell: &str) -> Option<Vec<Url>> {
        let nodes = |cells: &[Cell]| {
            let found = cells.iter().find(|known| known.name == cell)?;
            Some(found.nodes.iter().filter_map(|node| Url::parse(node).ok()).collect())
        };
        match &self.own {
            Own::Home => nodes(&self.app.handle.cells()),
            Own::Cell(follower) if cell == HOME => Some(follower.home.clone()),
            Own::Cell(follower) => {
                nodes(&follower.known.read().unwrap_or_else(PoisonError::into_inner).cells)
            }
        }
    }

    /// Follows home, and brings the projects that move to this cell, for as long as it is polled.
    pub(crate) async fn run(self: Arc<Self>, front: Front) {
        tokio::join!(Arc::clone(&self).follow(front.clone()), self.bring(front));
    }

    /// Keeps the projects and people of a cell as home's list has them, for as long as it is polled.
    async fn follow(self: Arc<Self>, front: Front) {
        let Own::Cell(follower) = &self.own else { return };
        let (mut version, mut is_told) = (String::new(), false);
        loop {
            match self.next(follower, &front, &version).await {
                Ok(Some(next)) => (version, is_told) = (next, false),
                Ok(None) => {}
                Err(why) => {
                    if !is_told {
                        tracing::warn!(
                            cell = follower.name,
                            why,
                            "home's list cannot be followed; the last one counts"
                        );
                        is_told = true;
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Asks home for a list after `version` and adopts it; returns its version.
    async fn next(
        &self,
        follower: &Follower,
        front: &Front,
        version: &str,
    ) -> Result<Option<String>, String> {
        let path = format!("{LIST}{}?version={version}", follower.name);
        let answer =
            front.ask(Method::GET, &follower.home, &path).await.ok_or("home cannot be reached")?;
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::NOT_MODIFIED => return Ok(None),
            StatusCode::NOT_FOUND => {
                return Err(format!(
                    "home has no such cell: add it with callboard cells add {}",
                    follower.name
                ));
            }
            status => return Err(format!("home answers {status}")),
        }
        let next = answer.headers().get(ETAG).and_then(|it| it.to_str().ok().map(str::to_owned));
        let body = axum::body::to_bytes(answer.into_body(), MAX_LIST).await;
        let list: Assigned = serde_json::from_slice(&body.map_err(|error| error.to_string())?)
            .map_err(|error| format!("home's list cannot be read: {error}"))?;
        let adopted = self.app.handle.follow_home(&follower.name, list.clone()).await;
        adopted.map_err(|error| error.to_string())?;
        *follower.known.write().unwrap_or_else(PoisonError::into_inner) = list;
        next.map(Some).ok_or_else(|| "home's list has no version".to_owned())
    }
}

/// True for what a cell answers; pages, health and metrics are each node's.
fn is_of_some_cell(path: &str) -> bool {
    let is_own = matches!(path, "/api/health" | "/api/metrics" | "/api/openapi.json");
    let is_api = path.starts_with("/api/") || path.starts_with("/v1/");
    (is_api && !is_own) || matches!(path, "/ws" | "/mcp")
}

/// True for what home tells of every cell.
fn is_about_all(path: &str) -> bool {
    matches!(path, "/api/projects/figures" | "/api/audit" | "/api/cells")
}

/// True for what home answers whatever project a session names: people, projects, cells.
fn is_of_home(path: &str) -> bool {
    let is = |prefix: &str| {
        path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    is("/api/projects") || is("/api/cells") || (is("/api/auth") && !is("/api/auth/keys"))
}

/// The API key of a request.
fn key_of(request: &Request) -> Option<String> {
    let header = request.headers().get(AUTHORIZATION).and_then(|header| header.to_str().ok());
    let token =
        header.and_then(|text| text.split_once(' ')).map(|(_, token)| token.trim().to_owned());
    let key = token.or_else(|| http::key_in(request.uri().query()));
    key.filter(|key| credential::has_service_prefix(key))
}

fn has_session(request: &Request) -> bool {
    let headers = request.headers();
    headers.contains_key(AUTHORIZATION) || headers.contains_key(axum::http::header::COOKIE)
}
