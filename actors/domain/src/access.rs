//! Permissions: the roles, the actions that routes ask for, and the one table of both.
//!
//! The table is that of docs/reference/accounts.md.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::error::Error;
use crate::id::{self, Environment, KeyId, SessionId, UserId};
use crate::names::names;
use crate::project::check_server;
use crate::rate::Tier;

names! {
    /// The role of a user or a key, in the order of the table's
    /// columns.
    Role {
        /// May do everything.
        Admin = "admin",
        /// Creates, reads and cancels; decides approvals.
        Operator = "operator",
        /// Reads and decides approvals, and does nothing else.
        Reviewer = "reviewer",
        /// Reads.
        Viewer = "viewer",
        /// Runs tasks.
        Worker = "worker",
        /// Makes backups.
        Backup = "backup",
    }
}

names! {
    /// The action that a route asks permission for, in the order of the table's rows.
    Action {
        /// Submit a task or a batch.
        TasksCreate = "tasks: create",
        /// See tasks.
        TasksRead = "tasks: read",
        /// Cancel a task.
        TasksCancel = "tasks: cancel",
        /// Run tasks: connect as a worker.
        TasksExecute = "tasks: execute",
        /// Create a plan.
        PlansCreate = "plans: create",
        /// Execute a plan.
        PlansExecute = "plans: execute",
        /// See plans.
        PlansRead = "plans: read",
        /// Create a template, or a version of one.
        TemplatesCreate = "templates: create",
        /// See templates and their versions.
        TemplatesRead = "templates: read",
        /// Deploy a template.
        TemplatesDeploy = "templates: deploy",
        /// Approve or reject.
        HitlDecide = "hitl: approve/reject",
        /// See approvals and their history.
        HitlRead = "hitl: read",
        /// See the statistics and the calibration of approvals.
        HitlStatistics = "hitl: read statistics",
        /// Give the reviewers of an output more time.
        HitlExtend = "hitl: extend",
        /// Drain a worker.
        WorkersManage = "workers: manage",
        /// See the projects in which one has a role.
        ProjectsRead = "projects: read",
        /// Create, rename and archive projects.
        ProjectsManage = "projects: manage",
        /// Give users a role in a project, and take it away.
        MembersManage = "projects: manage members",
        /// Create, list, rotate and revoke keys.
        KeysManage = "auth: manage keys",
        /// Create, list, change and delete users.
        UsersManage = "auth: manage users",
        /// Erase the texts of a task.
        TextsErase = "tasks: erase texts",
        /// Cancel an execution.
        ExecutionsCancel = "executions: cancel",
        /// Retry an execution.
        ExecutionsRetry = "executions: retry",
        /// Send a signal to an execution.
        ExecutionsSignal = "executions: signal",
        /// See executions.
        ExecutionsRead = "executions: read",
        /// Create, change, delete and trigger schedules.
        SchedulesManage = "schedules: manage",
        /// See schedules and their occurrences.
        SchedulesRead = "schedules: read",
        /// Claim an approval, or release the claim.
        HitlClaim = "hitl: claim",
        /// Delete a template, or a version of one.
        TemplatesDelete = "templates: delete",
        /// Send a webhook again.
        DeliveriesRedeliver = "deliveries: redeliver",
        /// See webhook deliveries.
        DeliveriesRead = "deliveries: read",
        /// See the secret that signs webhooks.
        WebhookSecretRead = "webhooks: read secret",
        /// Read the whole store, for a backup.
        BackupsCreate = "backups: create",
        /// See what can be restored.
        BackupsRead = "backups: read",
        /// See the nodes of a cluster, and drain them.
        ClusterManage = "cluster: manage",
        /// See workers.
        WorkersRead = "workers: read",
        /// See the metrics.
        MetricsRead = "metrics: read",
        /// Follow events, over SSE or WebSocket.
        EventsRead = "events: read",
        /// See the audit log.
        AuditRead = "audit: read",
        /// See models, their limits and their use.
        ModelsRead = "models: read",
        /// Set the limits of a model.
        ModelsManage = "models: manage",
        /// See queues.
        QueuesRead = "queues: read",
        /// Pause, resume and limit queues.
        QueuesManage = "queues: manage",
        /// See budgets and their use.
        BudgetsRead = "budgets: read",
        /// Create, change and delete budgets.
        BudgetsManage = "budgets: manage",
        /// See bulk jobs.
        BulkRead = "bulk: read",
        /// Start a bulk job.
        BulkRun = "bulk: run",
        /// See batches and their rows.
        BatchesRead = "batches: read",
        /// Create, pause, resume, cancel and retry batches.
        BatchesRun = "batches: run",
        /// Delete a batch with all its rows.
        BatchesDelete = "batches: delete",
        /// See files and their bytes.
        FilesRead = "files: read",
        /// Upload and delete files.
        FilesManage = "files: manage",
        /// Save own views, and use shared ones.
        ViewsManage = "views: manage own",
        /// Share views.
        ViewsShare = "views: share",
    }
}

const YES: bool = true;
const NO: bool = false;

/// The table: for each action, the permission of each of [`Role::ALL`].
#[rustfmt::skip]
#[expect(clippy::match_same_arms, reason = "one line for each line of the table")]
const fn row(action: Action) -> [bool; 6] {
    match action {
        //                              admin operator reviewer viewer worker backup
        Action::TasksCreate         => [YES,  YES,     NO,       NO,     NO,    NO ],
        Action::TasksRead           => [YES,  YES,     NO,       YES,    YES,   NO ],
        Action::TasksCancel         => [YES,  YES,     NO,       NO,     NO,    NO ],
        Action::TasksExecute        => [YES,  NO,      NO,       NO,     YES,   NO ],
        Action::PlansCreate         => [YES,  YES,     NO,       NO,     NO,    NO ],
        Action::PlansExecute        => [YES,  YES,     NO,       NO,     NO,    NO ],
        Action::PlansRead           => [YES,  YES,     NO,       YES,    NO,    NO ],
        Action::TemplatesCreate     => [YES,  YES,     NO,       NO,     NO,    NO ],
        Action::TemplatesRead       => [YES,  YES,     NO,       YES,    NO,    NO ],
        Action::TemplatesDeploy     => [YES,  YES,     NO,       NO,     NO,    NO ],
        Action::HitlDecide          => [YES,  YES,     YES,      NO,     NO,    NO ],
        Action::HitlRead            => [YES,  YES,     YES,      YES,    NO,    NO ],
        Action::HitlStatistics      => [YES,  YES,     NO,       YES,   NO,    NO ],
        Action::WorkersManage       => [YES,  NO,      NO,       NO,     NO,    NO ],
        Action::KeysManage          => [YES,  NO,      NO,       NO,     NO,    NO ],
        Action::UsersManage         => [YES,  NO,      NO,       NO,     NO,    NO ],
        Action::ProjectsManage      => [YES,  NO,      NO,       NO,     NO,    NO ],
        Action::MembersManage       => [YES,  NO,      NO,       NO,     NO,    NO ],
        Action::TextsErase          => [YES,  NO,      NO,       NO,     NO,    NO ],
        // Everything else: writing as operator
        Action::ExecutionsCancel    => [YES,  YES,     NO,       NO,     NO,    NO ],
        Action::ExecutionsRetry     => [YES,  YES,     NO,       NO,     NO,    NO ],
        Action::ExecutionsSignal    => [YES,  YES,     NO,       NO,     NO,    NO ],
        Action::SchedulesManage     => [YES,  YES,     NO,       NO,     NO,    NO ],
        Action::HitlClaim           => [YES,  YES,     YES,      NO,     NO,    NO ],
        Action::HitlExtend          => [YES,  YES,     NO,       NO,    NO,    NO ],
        Action::TemplatesDelete     => [YES,  YES,     NO,       NO,     NO,    NO ],
        Action::DeliveriesRedeliver => [YES,  YES,     NO,       NO,     NO,    NO ],
        Action::QueuesManage        => [YES,  YES,     NO,       NO,     NO,    NO ],
        Action::BulkRun             => [YES,  YES,     NO,       NO,     NO,    NO ],
        Action::BatchesRun          => [YES,  YES,     NO,       NO,     NO,    NO ],
        Action::FilesManage         => [YES,  YES,     NO,       NO,     NO,    NO ],
        Action::ViewsShare          => [YES,  YES,     NO,       NO,     NO,    NO ],
        // ... and reading as viewer
        Action::ProjectsRead        => [YES,  YES,     YES,      YES,    NO,    NO ],
        Action::BudgetsRead         => [YES,  YES,     NO,       YES,    NO,    NO ],
        Action::BulkRead            => [YES,  YES,     NO,       YES,    NO,    NO ],
        Action::BatchesRead         => [YES,  YES,     NO,       YES,    NO,    NO ],
        Action::QueuesRead          => [YES,  YES,     NO,       YES,    NO,    NO ],
        Action::ExecutionsRead      => [YES,  YES,     NO,       YES,    NO,    NO ],
        Action::SchedulesRead       => [YES,  YES,     NO,       YES,    NO,    NO ],
        Action::DeliveriesRead      => [YES,  YES,     NO,       YES,    NO,    NO ],
        Action::WorkersRead         => [YES,  YES,     NO,       YES,    NO,    NO ],
        Action::MetricsRead         => [YES,  YES,     NO,       YES,    NO,    NO ],
        Action::EventsRead          => [YES,  YES,     YES,      YES,    NO,    NO ],
        Action::ModelsRead          => [YES,  YES,     NO,       YES,    NO,    NO ],
        // ... and whoever sees lists keeps views of them
        Action::ViewsManage         => [YES,  YES,     YES,      YES,    NO,    NO ],
        // ... as a worker and a reviewer too, whose work has files
        Action::FilesRead           => [YES,  YES,     YES,      YES,    YES,   NO ],
        // ... but secrets, the audit log and the spending limits of operators are for admins
        Action::BudgetsManage       => [YES,  NO,      NO,       NO,     NO,    NO ],
        Action::WebhookSecretRead   => [YES,  NO,      NO,       NO,     NO,    NO ],
        Action::AuditRead           => [YES,  NO,      NO,       NO,     NO,    NO ],
        Action::BackupsCreate       => [YES,  NO,      NO,       NO,     NO,    YES],
        Action::BackupsRead         => [YES,  YES,     NO,       YES,    NO,    YES],
        Action::ClusterManage       => [YES,  NO,      NO,       NO,     NO,    NO ],
        // ... and what cannot be brought back
        Action::BatchesDelete       => [YES,  NO,      NO,       NO,     NO,    NO ],
        // ... and the limits of models count for all accounts
        Action::ModelsManage        => [YES,  NO,      NO,       NO,     NO,    NO ],
    }
}

/// True if the role may do this in production.
#[must_use]
pub const fn allows(role: Role, action: Action) -> bool {
    let [admin, operator, reviewer, viewer, worker, backup] = row(action);
    match role {
        Role::Admin => admin,
        Role::Operator => operator,
        Role::Reviewer => reviewer,
        Role::Viewer => viewer,
        Role::Worker => worker,
        Role::Backup => backup,
    }
}

/// True if a user with the role `giver` may give `role` to a key: every permission of `role` is one
/// of the giver's own.
#[must_use]
pub fn covers(giver: Role, role: Role) -> bool {
    Action::ALL.into_iter().all(|action| allows(giver, action) || !allows(role, action))
}

/// True if the sandbox has this action: it has no accounts, no metrics, no models and no workers of
/// its own to run or drain.
const fn is_in_sandbox(action: Action) -> bool {
    match action {
        Action::KeysManage
        | Action::UsersManage
        | Action::ProjectsManage
        | Action::MembersManage
        | Action::MetricsRead
        | Action::WorkersManage
        | Action::TasksExecute
        | Action::WebhookSecretRead
        | Action::ModelsRead
        | Action::ModelsManage
        | Action::AuditRead
        | Action::BackupsCreate
        | Action::BackupsRead
        | Action::ClusterManage
        | Action::QueuesRead
        | Action::QueuesManage
        | Action::BudgetsRead
        | Action::BudgetsManage => false,
        Action::TasksCreate
        | Action::TasksRead
        | Action::TasksCancel
        | Action::ProjectsRead
        | Action::TextsErase
        | Action::PlansCreate
        | Action::PlansExecute
        | Action::PlansRead
        | Action::TemplatesCreate
        | Action::TemplatesRead
        | Action::TemplatesDelete
        | Action::TemplatesDeploy
        | Action::HitlDecide
        | Action::HitlRead
        | Action::HitlStatistics
        | Action::HitlExtend
        | Action::ExecutionsCancel
        | Action::ExecutionsRetry
        | Action::ExecutionsSignal
        | Action::ExecutionsRead
        | Action::SchedulesManage
        | Action::SchedulesRead
        | Action::HitlClaim
        | Action::DeliveriesRedeliver
        | Action::DeliveriesRead
        | Action::WorkersRead
        | Action::EventsRead
        | Action::BulkRead
        | Action::BulkRun
        | Action::BatchesRead
        | Action::BatchesRun
        | Action::BatchesDelete
        | Action::FilesRead
        | Action::FilesManage
        | Action::ViewsManage
        | Action::ViewsShare => true,
    }
}

/// True if a project other than `default` has this action: the others are about the whole server.
const fn is_in_project(action: Action) -> bool {
    !matches!(
        action,
        Action::UsersManage
            | Action::ProjectsManage
            | Action::MetricsRead
            | Action::AuditRead
            | Action::BackupsCreate
            | Action::BackupsRead
            | Action::ClusterManage
    )
}

/// The owner of resources and of a request quota: a user with all sessions, or one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Account {
    /// A user, in any session.
    User(UserId),
    /// An API key.
    Key(KeyId),
}

impl fmt::Display for Account {
    /// The identifier, which audit entries and logs show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(id) => id.fmt(f),
            Self::Key(id) => id.fmt(f),
        }
    }
}

impl FromStr for Account {
    type Err = id::InvalidId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self::User).or_else(|_| text.parse().map(Self::Key))
    }
}

/// The authenticated caller of a request. Every field is read from the account at the request, none
/// from a claim in a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The user or the key.
    pub account: Account,
    /// The e-mail of a user, or the name of a key.
    pub name: String,
    /// The current role.
    pub role: Role,
    /// Production or sandbox; always production for a session.
    pub environment: Environment,
    /// The billing tier; `None` means the configured default.
    pub tier: Option<Tier>,
    /// The queues that a worker key is bound to; empty for every other caller.
    pub queues: Vec<String>,
    /// The session of a user; a key has none.
    pub session: Option<SessionId>,
    /// True for a user whose password an admin set, until the user changes it.
    pub must_change_password: bool,
    /// The instant from which the credential is refused.
    pub expires_at: Option<Timestamp>,
}

impl Caller {
    /// Passes unless the password must be changed first.
    ///
    /// # Errors
    /// [`Error::PasswordChangeRequired`].
    pub const fn check_password(&self) -> Result<(), Error> {
        if self.must_change_password { Err(Error::PasswordChangeRequired) } else { Ok(()) }
    }

    /// Passes if the caller may do this.
    ///
    /// # Errors
    /// [`Error::Forbidden`] if the role lacks the permission, or the sandbox or the project has no such action;
    /// [`Error::PasswordChangeRequired`].
    pub fn may(&self, action: Action) -> Result<(), Error> {
        self.check_password()?;
        if self.environment.is_test() && !is_in_sandbox(action) {
            let message = format!("the sandbox has no {action}: use a live key");
            return Err(Error::Forbidden(message));
        }
        if !is_in_project(action) {
            check_server(self.environment.slot(), action.as_str())?;
        }
        if allows(self.role, action) {
            Ok(())
        } else {
            let message = format!(
                "the role {} does not permit {action}; ask an admin for a role that does",
                self.role
            );
            Err(Error::Forbidden(message))
        }
    }

    /// True for an admin of the project `default`, to whom the whole server belongs.
    #[must_use]
    pub fn is_admin_of_server(&self) -> bool {
        self.environment.slot().is_default() && self.role == Role::Admin
    }

    /// True for a worker key that is bound to queues: of tasks it reads those that it holds a lease of.
    #[must_use]
    pub const fn is_bound(&self) -> bool {
        !self.queues.is_empty()
    }

    /// Passes if the caller may serve these queues as a worker.
    ///
    /// # Errors
    /// [`Error::Forbidden`], which names the first queue that a bound key lacks, and those that it has.
    pub fn may_serve(&self, queues: &[String]) -> Result<(), Error> {
        let lacks = |queue: &&String| self.is_bound() && !self.queues.contains(queue);
        match queues.iter().find(lacks) {
            None => Ok(()),
            Some(queue) => {
                let own = self.queues.join(", ");
                let message = format!("queue {queue} is not one of this key's, which are {own}");
                Err(Error::Forbidden(message))
            }
        }
    }

    /// The caller as the author of a template: a user's e-mail, or `key:<name>`.
    #[must_use]
    pub fn author(&self) -> String {
        match self.account {
            Account::User(_) => self.name.clone(),
            Account::Key(_) => format!("key:{}", self.name),
        }
    }
}

impl fmt::Display for Caller {
    /// The account's identifier; the name is personal data and stays out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.account.fmt(f)
    }
}

#[cfg(test)]
mod tests;
