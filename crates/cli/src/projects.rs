//! `callboard projects`.

use callboard_client::{Call, Page};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::access::Remote;
use super::failure::Failure;
use super::input::{Body, Window};
use super::output::{Column, Format, details, status_line};

const COLUMNS: [Column; 6] = [
    ("ID", "id"),
    ("NAME", "name"),
    ("YOUR ROLE", "role"),
    ("MEMBERS", "members"),
    ("ARCHIVED", "archivedAt"),
    ("CREATED", "createdAt"),
];

const FIELDS: [Column; 11] = [
    ("id", "id"),
    ("name", "name"),
    ("description", "description"),
    ("your role", "role"),
    ("members", "members"),
    ("kept for days", "retentionDays"),
    ("archived", "archivedAt"),
    ("cell", "cell"),
    ("moving to", "movingTo"),
    ("created", "createdAt"),
    ("created by", "createdBy"),
];

const MEMBERS: [Column; 5] = [
    ("USER", "userId"),
    ("E-MAIL", "email"),
    ("NAME", "name"),
    ("ROLE", "role"),
    ("SINCE", "since"),
];

const FIGURES: [Column; 9] = [
    ("CELL", "cell"),
    ("NAME", "name"),
    ("PENDING", "tasks.pending"),
    ("RUNNING", "tasks.running"),
    ("FAILED", "tasks.failed"),
    ("REVIEWS", "reviews"),
    ("INPUT", "usage.input"),
    ("OUTPUT", "usage.output"),
    ("COST (USD)", "usage.totalCost"),
];

/// The commands on projects.
#[derive(Debug, Clone, Subcommand)]
pub enum Projects {
    /// List the projects in which you have a role.
    List(Window),
    /// Show the counts and costs of the projects, on every cell.
    Figures {
        /// Usage of results at this time or later, such as 2026-11-01T00:00:00Z; by default 30 days ago.
        #[arg(long, value_name = "TIME")]
        from: Option<String>,
        /// Usage of results before this time; by default now.
        #[arg(long, value_name = "TIME")]
        to: Option<String>,
    },
    /// Create a project; you are its first admin.
    Create {
        /// Name, which no other project has.
        name: String,
        /// Text for people.
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
        /// Cell that stores the project; by default the one with the fewest projects.
        #[arg(long = "in", value_name = "CELL")]
        of_cell: Option<String>,
    },
    /// Show a project.
    Show {
        /// The project: its name or id.
        project: String,
    },
    /// Give a project another name or description.
    Set(Set),
    /// Put a project into the archive: it takes no new work.
    Archive {
        /// The project: its name or id.
        project: String,
    },
    /// Take a project out of the archive.
    Unarchive {
        /// The project: its name or id.
        project: String,
    },
    /// Delete a project and everything in it; unfinished work is cancelled. Only a backup brings it back.
    Delete {
        /// The project: its name or id.
        project: String,
        /// The project's name again.
        #[arg(long, value_name = "NAME")]
        confirm: String,
    },
    /// Move a project to another cell. It stands still until it is there.
    Move {
        /// The project: its name or id.
        project: String,
        /// Cell; home is the one where people sign in.
        #[arg(long = "to", value_name = "CELL")]
        to_cell: String,
    },
    /// Give up the move of a project that is not there yet: it goes on where it was.
    Stay {
        /// The project: its name or id.
        project: String,
    },
    /// List the members of a project.
    Members {
        /// The project: its name or id.
        project: String,
        #[command(flatten)]
        window: Window,
    },
    /// Give a user a role in a project.
    Join {
        /// The project: its name or id.
        project: String,
        /// The user: the e-mail or the id.
        user: String,
        /// Role: admin, operator, reviewer or viewer.
        #[arg(long)]
        role: String,
    },
    /// End a user's membership of a project.
    Leave {
        /// The project: its name or id.
        project: String,
        /// The user: the e-mail or the id.
        user: String,
    },
}

/// The change of a project.
#[derive(Debug, Clone, Args)]
pub struct Set {
    /// The project: its name or id.
    project: String,
    /// Name, which no other project has.
    #[arg(long)]
    name: Option<String>,
    /// Text for people; an empty text removes it.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Days for which ended items are kept; 0 for the time in the server's settings.
    #[arg(long, value_name = "DAYS")]
    retention_days: Option<u16>,
}

/// Runs the command.
pub(super) async fn run(Remote { access, command }: Remote<Projects>) -> Result<(), Failure> {
    let client = access.client()?;
    let (project, change) = match command {
        Projects::List(window) => {
            let page = client.page(window.of(Call::get(&["projects"]))).await?;
            return access.output.list("projects", &page, &COLUMNS);
        }
        Projects::Figures { from, to } => {
            let call = Call::get(&["projects", "figures"]).query("from", from).query("to", to);
            let figures = client.data(call).await?;
            if access.output != Format::Table {
                return access.output.item(&figures, Value::to_string);
            }
            for cell in figures["silent"].as_array().into_iter().flatten() {
                status_line(&format!(
                    "cell {} does not answer: its projects are missing",
                    text(cell)
                ));
            }
            let data = figures["projects"].as_array().cloned().unwrap_or_default();
            let has_cells = data.iter().any(|project| project.get("cell").is_some());
            let page = Page { data, pagination: Value::Null };
            return access.output.list("projects", &page, &FIGURES[usize::from(!has_cells)..]);
        }
        Projects::Create { name, description, of_cell } => {
            let body = Body::default().set("name", Some(name)).set("description", description);
            let body = body.set("cell", of_cell);
            let made = client.data(Call::post(&["projects"]).json(&body.value())).await?;
            return access.output.item(&made, shown);
        }
        Projects::Show { project } => {
            let found = client.data(Call::get(&["projects", &project])).await?;
            return access.output.item(&found, shown);
        }
        Projects::Delete { project, confirm } => {
            let call = Call::delete(&["projects", &project]).json(&json!({"confirm": confirm}));
            return access.output.item(&client.data(call).await?, shown);
        }
        Projects::Move { project, to_cell } => {
            let call = Call::post(&["projects", &project, "move"]).json(&json!({"cell": to_cell}));
            return access.output.item(&client.data(call).await?, shown);
        }
        Projects::Stay { project } => {
            let stays = client.data(Call::delete(&["projects", &project, "move"])).await?;
            return access.output.item(&stays, shown);
        }
        Projects::Members { project, window } => {
            let page =
                client.page(window.of(Call::get(&["projects", &project, "members"]))).await?;
            return access.output.list("members", &page, &MEMBERS);
        }
        Projects::Join { project, user, role } => {
            let call = Call::put(&["projects", &project, "members", &user]);
            let member = client.data(call.json(&json!({"role": role}))).await?;
            return access.output.item(&member, member_shown);
        }
        Projects::Leave { project, user } => {
            let member =
                client.data(Call::delete(&["projects", &project, "members", &user])).await?;
            return access.output.item(&member, member_shown);
        }
        Projects::Set(Set { project, name, description, retention_days }) => {
            let change = Body::default().set("name", name).set("description", description);
            (project, change.set("retentionDays", retention_days))
        }
        Projects::Archive { project } => (project, Body::default().set("archived", Some(true))),
        Projects::Unarchive { project } => (project, Body::default().set("archived", Some(false))),
    };
    let changed = client.data(Call::patch(&["projects", &project]).json(&change.value())).await?;
    access.output.item(&changed, shown)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn shown(project: &Value) -> String {
    details(project, &FIELDS, &[])
}

fn member_shown(member: &Value) -> String {
    details(member, &MEMBERS.map(|(_, path)| (path, path)), &[])
}
