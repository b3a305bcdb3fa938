//! Who may do what: the roles, every action that a route can ask for, and the one table of both.
//!
//! The table follows SPEC.md, "Roles and permissions"; where that is silent, PROTOCOL.md 7. It also
//! names what no route does yet: webhook deliveries, metrics, listing, rotating and revoking keys,
//! deleting users.
//! Deliberately absent: how a caller proves who it is ([`crate::credential`], and the edge), and
//! rules about one thing rather than a kind of things, such as "only its author": these belong to
//! the thing.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Rule};
use crate::id::{Environment, KeyId, UserId};
use crate::rate::Plan;

/// A role of a user or a key (SPEC.md, "Roles and permissions").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Everything.
    Admin,
    /// Creates, reads and cancels; decides approvals.
    Operator,
    /// Reads.
    Viewer,
    /// Executes tasks.
    Worker,
}

impl Role {
    /// All of them, in the order of the columns of SPEC.md's table.
    pub const ALL: [Self; 4] = [Self::Admin, Self::Operator, Self::Viewer, Self::Worker];

    /// Its name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Operator => "operator",
            Self::Viewer => "viewer",
            Self::Worker => "worker",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = Error;

    /// The role of this name.
    ///
    /// # Errors
    /// [`Error::Invalid`], field `role`, rule `enum`.
    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or_else(|| {
            let message = "role must be one of admin, operator, viewer, worker";
            Error::invalid("role", Rule::Enum, message)
        })
    }
}

/// Makes the enum, the list of all and the name of each from one place, so that none is forgotten.
macro_rules! actions {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// What a route asks leave for. Each is written `resource: action`, as in SPEC.md's table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Action {
            $($(#[$doc])* $name,)*
        }

        impl Action {
            /// All of them, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its name, such as `tasks: create`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

actions! {
    /// Submit a task or a batch.
    TasksCreate = "tasks: create",
    /// See tasks.
    TasksRead = "tasks: read",
    /// Cancel a task.
    TasksCancel = "tasks: cancel",
    /// Run tasks: connect as a worker.
    TasksExecute = "tasks: execute",
    /// Make a plan.
    PlansCreate = "plans: create",
    /// Execute a plan.
    PlansExecute = "plans: execute",
    /// See plans.
    PlansRead = "plans: read",
    /// Make a template, or a version of one.
    TemplatesCreate = "templates: create",
    /// See templates and their versions.
    TemplatesRead = "templates: read",
    /// Deploy a template.
    TemplatesDeploy = "templates: deploy",
    /// Approve or reject.
    HitlDecide = "hitl: approve/reject",
    /// See approvals, their history and their statistics.
    HitlRead = "hitl: read",
    /// Drain a worker.
    WorkersManage = "workers: manage",
    /// Make, list, rotate and revoke keys.
    KeysManage = "auth: manage keys",
    /// Make, list, change and delete users.
    UsersManage = "auth: manage users",
    /// Cancel an execution.
    ExecutionsCancel = "executions: cancel",
    /// Retry an execution.
    ExecutionsRetry = "executions: retry",
    /// See executions.
    ExecutionsRead = "executions: read",
    /// Claim an approval, or give it back.
    HitlClaim = "hitl: claim",
    /// Send a webhook again.
    DeliveriesRedeliver = "deliveries: redeliver",
    /// See webhook deliveries.
    DeliveriesRead = "deliveries: read",
    /// See workers.
    WorkersRead = "workers: read",
    /// See the metrics.
    MetricsRead = "metrics: read",
    /// Follow events, as SSE or over `/ws`.
    EventsRead = "events: read",
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

const YES: bool = true;
const NO: bool = false;

/// The table: for each action, what each of [`Role::ALL`] may do.
#[rustfmt::skip]
#[expect(clippy::match_same_arms, reason = "one line for each line of the table")]
const fn row(action: Action) -> [bool; 4] {
    match action {
        // SPEC.md's table              admin operator viewer worker
        Action::TasksCreate         => [YES,  YES,     NO,    NO ],
        Action::TasksRead           => [YES,  YES,     YES,   YES],
        Action::TasksCancel         => [YES,  YES,     NO,    NO ],
        Action::TasksExecute        => [YES,  NO,      NO,    YES],
        Action::PlansCreate         => [YES,  YES,     NO,    NO ],
        Action::PlansExecute        => [YES,  YES,     NO,    NO ],
        Action::PlansRead           => [YES,  YES,     YES,   NO ],
        Action::TemplatesCreate     => [YES,  YES,     NO,    NO ],
        Action::TemplatesRead       => [YES,  YES,     YES,   NO ],
        Action::TemplatesDeploy     => [YES,  YES,     NO,    NO ],
        Action::HitlDecide          => [YES,  YES,     NO,    NO ],
        Action::HitlRead            => [YES,  YES,     YES,   NO ],
        Action::WorkersManage       => [YES,  NO,      NO,    NO ],
        Action::KeysManage          => [YES,  NO,      NO,    NO ],
        Action::UsersManage         => [YES,  NO,      NO,    NO ],
        // PROTOCOL.md 7, where the table is silent: writing as operator
        Action::ExecutionsCancel    => [YES,  YES,     NO,    NO ],
        Action::ExecutionsRetry     => [YES,  YES,     NO,    NO ],
        Action::HitlClaim           => [YES,  YES,     NO,    NO ],
        Action::DeliveriesRedeliver => [YES,  YES,     NO,    NO ],
        // ... and reading as viewer
        Action::ExecutionsRead      => [YES,  YES,     YES,   NO ],
        Action::DeliveriesRead      => [YES,  YES,     YES,   NO ],
        Action::WorkersRead         => [YES,  YES,     YES,   NO ],
        Action::MetricsRead         => [YES,  YES,     YES,   NO ],
        Action::EventsRead          => [YES,  YES,     YES,   NO ],
    }
}

/// Whether the role may do this in production.
#[must_use]
pub const fn allows(role: Role, action: Action) -> bool {
    let [admin, operator, viewer, worker] = row(action);
    match role {
        Role::Admin => admin,
        Role::Operator => operator,
        Role::Viewer => viewer,
        Role::Worker => worker,
    }
}

/// Whether the sandbox has this at all: it has no accounts, no metrics and no workers of its own
/// to run or drain (PROTOCOL.md 7).
const fn is_in_sandbox(action: Action) -> bool {
    match action {
        Action::KeysManage
        | Action::UsersManage
        | Action::MetricsRead
        | Action::WorkersManage
        | Action::TasksExecute => false,
        Action::TasksCreate
        | Action::TasksRead
        | Action::TasksCancel
        | Action::PlansCreate
        | Action::PlansExecute
        | Action::PlansRead
        | Action::TemplatesCreate
        | Action::TemplatesRead
        | Action::TemplatesDeploy
        | Action::HitlDecide
        | Action::HitlRead
        | Action::ExecutionsCancel
        | Action::ExecutionsRetry
        | Action::ExecutionsRead
        | Action::HitlClaim
        | Action::DeliveriesRedeliver
        | Action::DeliveriesRead
        | Action::WorkersRead
        | Action::EventsRead => true,
    }
}

/// What requests are counted by and things are owned by: all sessions of a user, or one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Account {
    /// A user, whatever the session.
    User(UserId),
    /// An API key.
    Key(KeyId),
}

impl fmt::Display for Account {
    /// Its identifier: what audit entries and logs show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(id) => id.fmt(f),
            Self::Key(id) => id.fmt(f),
        }
    }
}

/// Who asks: what a valid credential was found to stand for, read at this moment and not from a
/// claim in a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Whose credential it is.
    pub account: Account,
    /// The e-mail of a user, or the name of a key.
    pub name: String,
    /// The role it has now.
    pub role: Role,
    /// The keyspace it sees; a session's is always live.
    pub environment: Environment,
    /// Its plan, where it has one of its own.
    pub plan: Option<Plan>,
}

impl Caller {
    /// Passes if the caller may do this.
    ///
    /// # Errors
    /// [`Error::Forbidden`] when the role may not, or the sandbox has no such thing.
    pub fn may(&self, action: Action) -> Result<(), Error> {
        if self.environment == Environment::Test && !is_in_sandbox(action) {
            let message = format!("a test key may not do this ({action})");
            return Err(Error::Forbidden(message));
        }
        if allows(self.role, action) {
            Ok(())
        } else {
            let message = format!("the role {} may not do this ({action})", self.role);
            Err(Error::Forbidden(message))
        }
    }

    /// What it is called as the author of a template: a user's e-mail, or `key:<name>`
    /// (PROTOCOL.md 5).
    #[must_use]
    pub fn author(&self) -> String {
        match self.account {
            Account::User(_) => self.name.clone(),
            Account::Key(_) => format!("key:{}", self.name),
        }
    }
}

impl fmt::Display for Caller {
    /// Its account's identifier; never its name, which is personal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.account.fmt(f)
    }
}

#[cfg(test)]
mod tests;
