//! Projects and their members: translate only.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use callboard_domain::Error;
use callboard_domain::access::{Account, Action, Caller, Role, allows};
use callboard_domain::account::{Email, User};
use callboard_domain::project::{Member, Project, check_server};
use callboard_runtime::read::usage::Asked;
use callboard_wire::common::Paging;
use callboard_wire::projects::{
    AskFigures, ChangeProject, CreateProject, DeleteProject, MemberBody, MoveProject, ProjectBody,
    ProjectFiguresBody, ProjectsFiguresBody, SetMember,
};

use super::elsewhere::Elsewhere;
use super::extract::{Asker, Person, ProjectName, TwoIds};
use super::{Answer, App, Body, Id, Query, Reply};

/// The user of an id or an e-mail.
fn user(app: &App, Person(named): &Person) -> Result<User, Error> {
    let by_id = named.parse().ok().and_then(|id| app.handle.user(id));
    let by_email = || app.handle.user_by_email(&Email::parse(named).ok()?);
    by_id.or_else(by_email).ok_or_else(|| Error::not_found("user", named))
}

/// Make a project; whoever makes it is its first admin.
#[utoipa::path(
    post, path = "/api/projects", tag = "projects",
    responses(
        (status = 201, description = "the project is durable and takes work", body = ProjectBody),
        (status = 409, description = "another project has the name, or there are 128"),
    ),
)]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Body(new): Body<CreateProject>,
) -> Answer {
    let project = app.handle.create_project(new.into(), by).await?;
    app.known_there(&project).await;
    Ok(Reply::created(&shown(&app, &caller, &project)))
}

/// The projects in which one has a role, oldest first; an admin of the server sees all.
#[utoipa::path(
    get, path = "/api/projects", tag = "projects",
    responses((status = 200, body = [ProjectBody])),
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Query(paging): Query<Paging>,
) -> Answer {
    let (projects, window) = (app.handle.projects(&caller), paging.window());
    let page = projects.iter().skip(window.offset).take(window.limit);
    let page: Vec<_> = page.map(|project| shown(&app, &caller, project)).collect();
    Ok(Reply::page(&page, projects.len() as u64, window))
}

/// The counts and costs of the projects whose usage one may read, on every cell; an admin of the server sees all.
#[utoipa::path(
    get, path = "/api/projects/figures", tag = "projects",
    responses((status = 200, body = ProjectsFiguresBody)),
)]
pub(super) async fn figures(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    elsewhere: Elsewhere,
    Query(asked): Query<AskFigures>,
) -> Answer {
    let asked = asked.at(app.handle.now());
    let reads_costs = |role| allows(role, Action::BudgetsRead);
    let may_know = |project: &Project| {
        caller.is_admin_of_server() || role(&app, &caller, project).is_some_and(reads_costs)
    };
    let mut seen = app.handle.projects(&caller);
    seen.retain(|project| may_know(project));
    let _turn = app.searches.acquire(&caller).await;
    let mut known =
        app.figures(&asked, |project| seen.iter().any(|seen| seen.id == project.id)).await?;
    let mut silent = Vec::new();
    let there = seen.iter().filter(|project| project.cell.is_some());
    let there: Vec<_> = there.map(|project| project.id.to_string()).collect();
    if !there.is_empty() {
        let path = format!("figures/{}?from={}&to={}", there.join(","), asked.from, asked.to);
        let heard = elsewhere.ask::<Vec<ProjectFiguresBody>>(&path).await;
        known.extend(heard.answers.into_iter().flat_map(|(_, projects)| projects));
        silent = heard.silent;
    }
    let mut known: HashMap<_, _> = known.into_iter().map(|it| (it.project.clone(), it)).collect();
    let projects = seen.iter().filter_map(|project| known.remove(&project.id.to_string()));
    Ok(Reply::ok(&ProjectsFiguresBody::new(&asked, projects.collect(), silent)))
}

impl App {
    /// The figures of those projects of this cell that are asked for.
    pub(super) async fn figures(
        &self,
        asked: &Asked,
        is_asked: impl Fn(&Project) -> bool,
    ) -> Result<Vec<ProjectFiguresBody>, Error> {
        let mut all = Vec::new();
        for project in self.handle.projects_here().iter().filter(|project| is_asked(project)) {
            let Some(slot) = project.slot else { continue };
            let figures = self.handle.figures_of(slot, asked).await?;
            all.push(ProjectFiguresBody::new(project, &figures));
        }
        Ok(all)
    }
}

/// A project.
#[utoipa::path(
    get, path = "/api/projects/{id}", tag = "projects",
    responses((status = 200, body = ProjectBody)),
)]
pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(ProjectName(named)): Id<ProjectName>,
) -> Answer {
    let project = app.handle.project(&named, &caller)?;
    Ok(Reply::ok(&shown(&app, &caller, &project)))
}

/// Give a project another name or description, put it into the archive, or take it out.
#[utoipa::path(
    patch, path = "/api/projects/{id}", tag = "projects",
    responses(
        (status = 200, description = "the change is durable and holds", body = ProjectBody),
        (status = 409, description = "the project is default, or another one has the name"),
    ),
)]
pub(super) async fn change(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(ProjectName(named)): Id<ProjectName>,
    Body(change): Body<ChangeProject>,
) -> Answer {
    let id = app.handle.project(&named, &caller)?.id;
    let project = app.handle.change_project(id, change.into(), by).await?;
    app.known_there(&project).await;
    Ok(Reply::ok(&shown(&app, &caller, &project)))
}

/// Delete a project with everything that is in it; what has not ended is cancelled.
#[utoipa::path(
    delete, path = "/api/projects/{id}", tag = "projects",
    responses(
        (status = 200, description = "nobody sees the project any more, its keys are revoked, its work is cancelled and \
                                      its rows go in the background", body = ProjectBody),
        (status = 409, description = "the project is default"),
    ),
)]
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(ProjectName(named)): Id<ProjectName>,
    Body(DeleteProject { confirm }): Body<DeleteProject>,
) -> Answer {
    let before = app.handle.project(&named, &caller)?;
    let body = shown(&app, &caller, &before);
    app.handle.delete_project(before.id, confirm, by).await?;
    app.known_there(&before).await;
    Ok(Reply::ok(&body))
}

/// Begin to move a project to another cell; it stands still until it is there.
#[utoipa::path(
    post, path = "/api/projects/{id}/move", tag = "projects",
    responses(
        (status = 200, description = "the move has begun, and ends by itself", body = ProjectBody),
        (status = 409, description = "the project is default, moves already or is there, or the cell is silent or full"),
    ),
)]
pub(super) async fn begin_move(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(ProjectName(named)): Id<ProjectName>,
    Body(MoveProject { cell }): Body<MoveProject>,
) -> Answer {
    check_server(by.project, "moving a project")?;
    let id = app.handle.project(&named, &caller)?.id;
    app.check_heard(&cell)?;
    let project = app.handle.move_project(id, cell, by).await?;
    Ok(Reply::ok(&shown(&app, &caller, &project)))
}

/// Give up a move of a project that has not ended: it goes on where it was.
#[utoipa::path(
    delete, path = "/api/projects/{id}/move", tag = "projects",
    responses(
        (status = 200, description = "the project stays", body = ProjectBody),
        (status = 409, description = "the project is not being moved: it may be there already"),
    ),
)]
pub(super) async fn give_up_move(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(ProjectName(named)): Id<ProjectName>,
) -> Answer {
    check_server(by.project, "moving a project")?;
    let id = app.handle.project(&named, &caller)?.id;
    let project = app.handle.stay_project(id, by).await?;
    app.known_there(&project).await;
    Ok(Reply::ok(&shown(&app, &caller, &project)))
}

/// The members of a project, by name.
#[utoipa::path(
    get, path = "/api/projects/{id}/members", tag = "projects",
    responses((status = 200, body = [MemberBody])),
)]
pub(super) async fn list_members(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(ProjectName(named)): Id<ProjectName>,
    Query(paging): Query<Paging>,
) -> Answer {
    let (project, window) = (app.handle.project(&named, &caller)?, paging.window());
    let mut users = app.handle.users_of(&project);
    users.sort_by(|one, other| (&one.name, one.id).cmp(&(&other.name, other.id)));
    let member = |user: &User| {
        let since = user.id.created_at();
        let of_default = Member { role: user.role, since };
        MemberBody::new(user, project.members.get(&user.id).copied().unwrap_or(of_default))
    };
    let page = users.iter().skip(window.offset).take(window.limit).map(member);
    Ok(Reply::page(&page.collect::<Vec<_>>(), users.len() as u64, window))
}

/// Give a user a role in a project.
#[utoipa::path(
    put, path = "/api/projects/{id}/members/{user}", tag = "projects",
    responses(
        (status = 200, description = "the role is durable and counts", body = MemberBody),
        (status = 409, description = "the project is default, or has 1,000 members"),
    ),
)]
pub(super) async fn set_member(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    TwoIds(ProjectName(named), person): TwoIds<ProjectName, Person>,
    Body(SetMember { role }): Body<SetMember>,
) -> Answer {
    let (project, user) = (app.handle.project(&named, &caller)?, user(&app, &person)?);
    let member = app.handle.set_member(project.id, user.id, role, by).await?;
    app.known_there(&project).await;
    Ok(Reply::ok(&MemberBody::new(&user, member)))
}

/// End a user's membership; the keys that the user answers for in the project are revoked.
#[utoipa::path(
    delete, path = "/api/projects/{id}/members/{user}", tag = "projects",
    responses(
        (status = 200, description = "the user sees nothing of the project any more", body = MemberBody),
        (status = 409, description = "the project is default"),
    ),
)]
pub(super) async fn remove_member(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    TwoIds(ProjectName(named), person): TwoIds<ProjectName, Person>,
) -> Answer {
    let (project, user) = (app.handle.project(&named, &caller)?, user(&app, &person)?);
    let member = app.handle.remove_member(project.id, user.id, by).await?;
    app.known_there(&project).await;
    Ok(Reply::ok(&MemberBody::new(&user, member)))
}

fn shown(app: &App, caller: &Caller, project: &Project) -> ProjectBody {
    let role = role(app, caller, project);
    ProjectBody::new(project, app.handle.member_count(project), role)
}

/// The caller's role in a project.
fn role(app: &App, caller: &Caller, project: &Project) -> Option<Role> {
    match caller.account {
        Account::User(user) => app.handle.role_of(project, user),
        Account::Key(_) => {
            Some(caller.role).filter(|_| project.slot == Some(caller.environment.slot()))
        }
    }
}
