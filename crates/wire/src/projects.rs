//! Projects and their members, in both directions.

use std::collections::BTreeMap;

use callboard_domain::Timestamp;
use callboard_domain::access::Role;
use callboard_domain::account::User;
use callboard_domain::cell::HOME;
use callboard_domain::id::{ProjectId, UserId};
use callboard_domain::project::{Change, Member, Project};
use callboard_runtime::accounts::NewProject;
use callboard_runtime::read::projects::Figures;
use callboard_runtime::read::usage::Asked;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::accounts::{name, role};
use crate::budgets::{UsageSumBody, in_order, in_period};
use crate::common::{Iso, Text};
use crate::read::rule::{self, characters, text};
use crate::read::{Fields, Refused};
use crate::request;

/// The most days for which a project keeps ended items.
const MAX_RETENTION_DAYS: u16 = 3_650;

/// The most characters of a description.
const MAX_DESCRIPTION: usize = 1_000;

request! {
    /// A project to be made.
    #[derive(Debug, Clone)]
    pub struct CreateProject as "CreateProject" {
        /// The name, which no other project has.
        name: String = required("name", name()),
        /// A text for people.
        description: Option<String> = optional("description", text(characters(0..=MAX_DESCRIPTION))),
        /// The cell that has its rows; by default the one with the fewest projects.
        cell: Option<String> = optional("cell", text(characters(1..=32))),
    }
}

impl From<CreateProject> for NewProject {
    fn from(CreateProject { name, description, cell }: CreateProject) -> Self {
        Self { name, description: description.filter(|text| !text.is_empty()), cell }
    }
}

request! {
    /// A change of a project.
    #[derive(Debug, Clone)]
    pub struct ChangeProject as "ChangeProject" {
        /// The name.
        name: Option<String> = optional("name", name()),
        /// A text for people; an empty one takes it away.
        description: Option<String> = optional("description", text(characters(0..=MAX_DESCRIPTION))),
        /// The days for which ended items of the project are kept; 0 for as long as the server's settings say.
        retention_days: Option<u16> = optional("retentionDays", rule::whole(0..=MAX_RETENTION_DAYS)),
        /// True to take no new work any more, false to take it again.
        archived: Option<bool> = optional("archived", rule::flag()),
    }
}

impl From<ChangeProject> for Change {
    fn from(ChangeProject { name, description, retention_days, archived }: ChangeProject) -> Self {
        Self { name, description, retention_days, archived }
    }
}

request! {
    /// The deletion of a project.
    #[derive(Debug, Clone)]
    pub struct DeleteProject as "DeleteProject" {
        /// The project's name again.
        confirm: String = required("confirm", name()),
    }
}

request! {
    /// A move of a project to another cell.
    #[derive(Debug, Clone)]
    pub struct MoveProject as "MoveProject" {
        /// The cell; `home` is the one where people sign in.
        cell: String = required("cell", text(characters(1..=32))),
    }
}

request! {
    /// The role of a user in a project.
    #[derive(Debug, Clone)]
    pub struct SetMember as "SetMember" {
        /// One of admin, operator, reviewer, viewer.
        role: Role = required("role", role()),
    }
}

/// A project.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectBody {
    /// `prj_…`
    #[schema(value_type = String)]
    id: Text<ProjectId>,
    /// The name.
    name: String,
    /// The text for people.
    description: Option<String>,
    /// The caller's role in the project; without one the caller sees no text of it.
    role: Option<&'static str>,
    /// The number of its members; `default` has every user.
    members: usize,
    /// The days for which ended items are kept, if not as long as the server's settings say.
    retention_days: Option<u16>,
    /// The time since which the project takes no new work.
    archived_at: Option<Iso>,
    /// The cell that has its rows; absent on a server without cells.
    cell: Option<String>,
    /// The cell to which the project is being moved; it stands still until then.
    moving_to: Option<String>,
    /// The time of creation; `default` is as old as the server.
    created_at: Option<Iso>,
    /// The creator: the id of a user or a key.
    created_by: Option<String>,
}

impl ProjectBody {
    /// A project with so many members, in which the caller has this role.
    #[must_use]
    pub fn new(project: &Project, members: usize, role: Option<Role>) -> Self {
        let moving = project.moving.as_ref();
        let moving_to = moving.map(|moving| moving.to.as_deref().unwrap_or(HOME));
        let created_at = (project.id != ProjectId::DEFAULT).then(|| project.id.created_at());
        Self {
            id: Text(project.id),
            name: project.name.clone(),
            description: project.description.clone(),
            role: role.map(Role::as_str),
            members,
            retention_days: project.retention_days,
            archived_at: project.archived_at.map(Iso),
            cell: project.cell.clone(),
            moving_to: moving_to.map(str::to_owned),
            created_at: created_at.map(Iso),
            created_by: project.created_by.map(|account| account.to_string()),
        }
    }
}

request! {
    /// The period of the figures of projects.
    #[derive(Debug, Clone, Copy)]
    pub struct AskFigures as "AskFigures" {
        /// The earliest result of the tasks whose usage counts; by default 30 days before `to`.
        from: Option<Timestamp> = optional("from", rule::instant()),
        /// The instant before which their results came; by default now.
        to: Option<Timestamp> = optional("to", rule::instant()),
    }
    check is_a_time
}

fn is_a_time(asked: AskFigures, fields: &mut Fields<'_>) -> Result<AskFigures, Refused> {
    in_order(asked.from, asked.to, fields)?;
    Ok(asked)
}

impl AskFigures {
    /// The question, with defaults filled in.
    #[must_use]
    pub fn at(self, now: Timestamp) -> Asked {
        in_period(self.from, self.to, now)
    }
}

/// The counts and costs of a project, without the sandbox.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectFiguresBody {
    /// `prj_…`
    pub project: String,
    /// The name.
    name: String,
    /// The cell that has its rows; absent on a server without cells.
    cell: Option<String>,
    /// The stored tasks by status.
    tasks: BTreeMap<String, u64>,
    /// The stored executions by status.
    executions: BTreeMap<String, u64>,
    /// The outputs that wait for a reviewer.
    reviews: u64,
    /// The usage of the period; absent for more than 100,000 tasks.
    usage: Option<UsageSumBody<'static>>,
}

impl ProjectFiguresBody {
    /// The figures of a project.
    #[must_use]
    pub fn new(project: &Project, figures: &Figures) -> Self {
        let counts = |of: &[(&str, u64)]| {
            of.iter().map(|(status, count)| ((*status).to_owned(), *count)).collect()
        };
        Self {
            project: project.id.to_string(),
            name: project.name.clone(),
            cell: project.cell.clone(),
            tasks: counts(&figures.tasks),
            executions: counts(&figures.executions),
            reviews: figures.reviews,
            usage: figures.usage.as_ref().map(|sum| UsageSumBody::of(None, sum)),
        }
    }
}

/// The figures of projects, of all cells.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectsFiguresBody {
    /// The earliest result of the tasks whose usage counts.
    from: Iso,
    /// The instant before which their results came.
    to: Iso,
    /// The projects, in the order of their list.
    projects: Vec<ProjectFiguresBody>,
    /// The cells that did not answer, whose projects are missing.
    silent: Vec<String>,
}

impl ProjectsFiguresBody {
    /// The figures of these projects in a period.
    #[must_use]
    pub const fn new(
        asked: &Asked,
        projects: Vec<ProjectFiguresBody>,
        silent: Vec<String>,
    ) -> Self {
        Self { from: Iso(asked.from), to: Iso(asked.to), projects, silent }
    }
}

/// A member of a project.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberBody {
    /// The user: `usr_…`
    #[schema(value_type = String)]
    user_id: Text<UserId>,
    /// The user's e-mail.
    email: String,
    /// The user's name.
    name: String,
    /// The role within the project.
    role: &'static str,
    /// The time of joining.
    since: Iso,
}

impl MemberBody {
    /// A member with the user's e-mail and name.
    #[must_use]
    pub fn new(user: &User, member: Member) -> Self {
        Self {
            user_id: Text(user.id),
            email: user.email.to_string(),
            name: user.name.clone(),
            role: member.role.as_str(),
            since: Iso(member.since),
        }
    }
}
