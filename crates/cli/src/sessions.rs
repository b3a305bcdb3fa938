//! `callboard sessions`.

use callboard_client::Call;
use clap::Subcommand;

use super::access::Remote;
use super::failure::Failure;
use super::input::{self, Window};
use super::output::{Column, details};
use super::people;

const COLUMNS: [Column; 6] = [
    ("ID", "id"),
    ("USER", "userId"),
    ("CURRENT", "current"),
    ("SIGNED IN", "createdAt"),
    ("REFRESHED", "refreshedAt"),
    ("EXPIRES", "expiresAt"),
];

/// The commands on sessions.
#[derive(Debug, Clone, Subcommand)]
pub enum Sessions {
    /// List open sessions, the newest first: your own, or as an admin those of all users.
    List {
        /// Sessions of this user, by e-mail or id.
        #[arg(long, value_parser = input::id)]
        user: Option<String>,
        /// The page of the list.
        #[command(flatten)]
        window: Window,
    },
    /// End a session: its tokens are refused at once.
    End {
        /// The session's id.
        #[arg(value_parser = input::id)]
        id: String,
    },
}

/// Runs the command.
pub(super) async fn run(Remote { access, command }: Remote<Sessions>) -> Result<(), Failure> {
    let client = access.client()?;
    match command {
        Sessions::List { user, window } => {
            let user = match user {
                Some(user) => Some(people::user(&client, user).await?),
                None => None,
            };
            let call = window.of(Call::get(&["auth", "sessions"])).query("userId", user);
            access.output.list("sessions", &client.page(call).await?, &COLUMNS)
        }
        Sessions::End { id } => {
            let session = client.data(Call::delete(&["auth", "sessions", &id])).await?;
            let fields = COLUMNS.map(|(_, path)| (path, path));
            access.output.item(&session, |session| details(session, &fields, &[]))
        }
    }
}
