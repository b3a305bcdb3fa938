//! The audit log: the actor, action, instant and origin of each change (docs/reference/accounts.md).
//!
//! One chain for the whole service ([`crate::chain`]), so that an entry that was removed is missed.
//! Old entries are trimmed from its beginning, and the trimmed part is remembered by its length and
//! last hash. Deliberately absent: passwords, keys, tokens, prompts and outputs; and the store.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Timestamp;
use crate::access::Account;
use crate::chain::{self, Broken, Chain, Linked};
use crate::digest::Digest;
use crate::id::{AuditId, Slot};
use crate::names::names;

mod budget;

pub use budget::{RefusalBudget, Refused};

names! {
    /// The action of an entry.
    Action {
        /// The server started, with these settings.
        ServerStarted = "server.started",
        /// The server read its settings again, and has these now.
        SettingsRead = "settings.read",
        /// A user signed in.
        SignedIn = "auth.signed_in",
        /// A sign-in, or the current password of a change, was refused.
        SignInRefused = "auth.sign_in_refused",
        /// Refused sign-ins that have no entries of their own.
        SignInsRefused = "auth.sign_ins_refused",
        /// A used refresh token came back, and the session was ended.
        TokenReused = "auth.token_reused",
        /// A session was ended by its user or an admin.
        SessionEnded = "auth.session_ended",
        /// Sessions ended together, without entries of their own.
        SessionsEnded = "auth.sessions_ended",
        /// Another key signs access tokens.
        SigningKeyRotated = "auth.signing_key_rotated",
        /// A user changed the own password.
        PasswordChanged = "auth.password_changed",
        /// A mail with a link was sent to a user who had forgotten the password.
        PasswordForgotten = "auth.password_forgotten",
        /// A user set another password with the link of a mail.
        PasswordReset = "auth.password_reset",
        /// A person was invited to make an account.
        InvitationCreated = "invitation.created",
        /// An invitation was revoked.
        InvitationRevoked = "invitation.revoked",
        /// A key was created.
        KeyCreated = "key.created",
        /// A key was rotated: it has a successor.
        KeyRotated = "key.rotated",
        /// A key was revoked.
        KeyRevoked = "key.revoked",
        /// A cell was added.
        CellAdded = "cell.added",
        /// A cell was removed.
        CellRemoved = "cell.removed",
        /// A project was created.
        ProjectCreated = "project.created",
        /// A project got another name or description, or went into the archive or out of it.
        ProjectChanged = "project.changed",
        /// A project was deleted: nobody sees it from then on.
        ProjectDeleted = "project.deleted",
        /// A project began to move to another cell.
        ProjectMoving = "project.moving",
        /// A project is in another cell.
        ProjectMoved = "project.moved",
        /// A move of a project was given up.
        ProjectStays = "project.stays",
        /// The last row of a deleted project was removed.
        ProjectPurged = "project.purged",
        /// A user became a member of a project, or got another role in it.
        MemberSet = "project.member_set",
        /// A user is no member of a project any more.
        MemberRemoved = "project.member_removed",
        /// A user was created.
        UserCreated = "user.created",
        /// A user got another role, billing tier or password.
        UserChanged = "user.changed",
        /// A user was deleted.
        UserDeleted = "user.deleted",
        /// The owner of the store gave an admin a password, or made one.
        AdminReset = "admin.reset",
        /// A held output was approved.
        Approved = "hitl.approved",
        /// A held output was rejected.
        Rejected = "hitl.rejected",
        /// A decision on an output was taken back, or another one was asked for beside it.
        Reopened = "hitl.reopened",
        /// A session made a link that signs its user in.
        LinkCreated = "auth.link_created",
        /// A task was cancelled.
        TaskCancelled = "task.cancelled",
        /// The texts of a task were erased.
        TextsErased = "task.texts_erased",
        /// The texts of an execution and of its tasks were erased.
        ExecutionTextsErased = "execution.texts_erased",
        /// A bulk job has erased texts.
        BulkErased = "bulk.erased",
        /// An execution was cancelled.
        ExecutionCancelled = "execution.cancelled",
        /// A schedule was made.
        ScheduleCreated = "schedule.created",
        /// A schedule was changed.
        ScheduleChanged = "schedule.changed",
        /// A schedule was deleted.
        ScheduleDeleted = "schedule.deleted",
        /// The work of a schedule was started by hand.
        ScheduleTriggered = "schedule.triggered",
        /// A budget was created.
        BudgetCreated = "budget.created",
        /// A budget was changed.
        BudgetChanged = "budget.changed",
        /// A budget was deleted.
        BudgetDeleted = "budget.deleted",
        /// A bulk job was started.
        BulkStarted = "bulk.started",
        /// A bulk job was stopped.
        BulkStopped = "bulk.stopped",
        /// A batch was created.
        BatchCreated = "batch.created",
        /// A batch was paused.
        BatchPaused = "batch.paused",
        /// A batch was resumed.
        BatchResumed = "batch.resumed",
        /// A batch was cancelled.
        BatchCancelled = "batch.cancelled",
        /// Failed rows of a batch were run anew.
        BatchRetried = "batch.retried",
        /// Reviews of outputs of a batch were asked for.
        BatchReviewed = "batch.reviewed",
        /// A batch was deleted with all its rows.
        BatchDeleted = "batch.deleted",
        /// A file was deleted.
        FileDeleted = "file.deleted",
        /// A queue was paused, resumed or limited.
        QueueChanged = "queue.changed",
        /// Everything was paused.
        SystemPaused = "system.paused",
        /// The pause of everything was ended.
        SystemResumed = "system.resumed",
        /// A worker was ordered to drain.
        WorkerDrained = "worker.drained",
        /// A node of the cluster was drained, or taken back.
        NodeDrained = "node.drained",
        /// A delivery was sent again.
        DeliveryRepeated = "delivery.repeated",
        /// The secret that signs webhooks was shown.
        WebhookSecretShown = "webhook.secret_shown",
        /// Another secret signs webhooks.
        WebhookSecretRotated = "webhook.secret_rotated",
        /// A backup was begun.
        BackupStarted = "backup.started",
        /// A backup is complete, as the command that made it says.
        BackupCompleted = "backup.completed",
        /// A backup was verified.
        BackupVerified = "backup.verified",
        /// A version of a template was added.
        TemplatePublished = "template.published",
        /// A template was deleted, or a version of it.
        TemplateDeleted = "template.deleted",
        /// Another version of a template is the latest.
        TemplateLatestSet = "template.latest_set",
        /// A version of a template was retired.
        TemplateRetired = "template.retired",
        /// A retired version of a template was restored.
        TemplateRestored = "template.restored",
        /// A shared view was created, or a private one was shared.
        ViewShared = "view.shared",
        /// A shared view was changed, or made private.
        ViewChanged = "view.changed",
        /// A shared view was deleted.
        ViewDeleted = "view.deleted",
        /// A model got other limits.
        ModelLimitsSet = "model.limits_set",
        /// A model was opened before its pause had ended.
        ModelPauseEnded = "model.pause_ended",
    }
}

/// The originator of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct By {
    /// The account; `None` for the service itself, or for a caller that is not known.
    pub account: Option<Account>,
    /// The address of the client; `None` for the service itself.
    pub address: Option<IpAddr>,
    /// The project within which the originator acts.
    pub project: Slot,
}

impl By {
    /// The service itself.
    pub const SYSTEM: Self = Self { account: None, address: None, project: Slot::DEFAULT };

    /// The account, `anonymous`, or `system`.
    #[must_use]
    pub fn actor(&self) -> String {
        match (self.account, self.address) {
            (Some(account), _) => account.to_string(),
            (None, Some(_)) => "anonymous".to_owned(),
            (None, None) => "system".to_owned(),
        }
    }
}

/// The places where erased texts still are, for the report of an erasure.
pub const STAYS: &str = "files of the data directory until a compaction; the archive and backups until they are \
    pruned; tags, concurrency and fairness keys, plans, schedules and batches until they are deleted";

/// The longest detail, in characters; the rest is cut.
const MAX_DETAIL: usize = 256;

/// The content of an entry that has no place in the chain yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The action.
    pub action: Action,
    /// The originator.
    pub by: By,
    /// The identifier of the subject.
    pub target: Option<String>,
    /// Further texts by name.
    pub details: BTreeMap<String, String>,
}

impl Record {
    /// A record without a target and details.
    #[must_use]
    pub const fn new(action: Action, by: By) -> Self {
        Self { action, by, target: None, details: BTreeMap::new() }
    }

    /// The record with this subject.
    #[expect(clippy::needless_pass_by_value, reason = "identifiers and literals, by the dozen")]
    #[must_use]
    pub fn of(mut self, target: impl ToString) -> Self {
        self.target = Some(target.to_string());
        self
    }

    /// The record with a further detail.
    #[expect(clippy::needless_pass_by_value, reason = "identifiers and literals, by the dozen")]
    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Self {
        let value = value.to_string().chars().take(MAX_DETAIL).collect();
        self.details.insert(name.to_owned(), value);
        self
    }
}

/// An entry of the audit log.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The identifier.
    pub id: AuditId,
    /// The number, counted from 1 since the first start.
    pub number: u32,
    /// The action.
    pub action: Action,
    /// The identifier of a user or a key, `anonymous`, or `system`.
    pub actor: String,
    /// The time of the action.
    pub at: Timestamp,
    /// The address of the client.
    pub address: Option<String>,
    /// The identifier of the subject.
    pub target: Option<String>,
    /// Further texts by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, String>,
    /// The hash of the previous entry.
    pub previous: Digest,
    /// The hash of this one.
    pub hash: Digest,
}

impl Entry {
    /// The entry that follows `chain`.
    #[must_use]
    pub fn after(chain: Chain, id: AuditId, at: Timestamp, record: Record) -> Self {
        let Record { action, by, target, details } = record;
        let mut entry = Self {
            id,
            number: chain.length + 1,
            action,
            actor: by.actor(),
            at,
            address: by.address.map(|address| address.to_string()),
            target,
            details,
            previous: chain.head,
            hash: Digest::ZERO,
        };
        entry.hash = entry.digest();
        entry
    }

    /// The hashed text. A detail is a member named `details.` and its name.
    #[must_use]
    pub fn canonical(&self) -> String {
        let names: Vec<_> = self.details.keys().map(|name| format!("details.{name}")).collect();
        let mut texts: BTreeMap<&str, String> = BTreeMap::from([
            ("action", self.action.as_str().to_owned()),
            ("actor", self.actor.clone()),
            ("at", self.at.to_string()),
            ("id", self.id.to_string()),
            ("number", self.number.to_string()),
            ("previous", self.previous.to_string()),
        ]);
        let options = [("address", &self.address), ("target", &self.target)];
        texts.extend(options.into_iter().filter_map(|(name, text)| Some((name, text.clone()?))));
        let details = names.iter().map(String::as_str).zip(self.details.values().cloned());
        texts.extend(details);
        chain::canonical(&texts)
    }

    /// The correct hash of the entry.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(&self.canonical())
    }
}

impl Linked for Entry {
    fn number(&self) -> u32 {
        self.number
    }

    fn previous(&self) -> Digest {
        self.previous
    }

    fn hash(&self) -> Digest {
        self.hash
    }
}

/// The two ends of the stored part of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ends {
    /// The part that was trimmed.
    pub trimmed: Chain,
    /// The whole.
    pub whole: Chain,
    /// The identifier of the last entry: identifiers ascend with the numbers, even if the clock went
    /// back between two starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<AuditId>,
}

impl Ends {
    /// Appends an entry and returns it. The entry's identifier is `fresh`, or the next one after the last
    /// entry's if that is greater.
    pub fn append(&mut self, fresh: AuditId, at: Timestamp, record: Record) -> Entry {
        const NEXT: u128 = 1 << 10;
        let least = self.last.map_or(0, |last| last.as_u128() + NEXT);
        let id = AuditId::from_u128(fresh.as_u128().max(least));
        let entry = Entry::after(self.whole, id, at, record);
        self.whole = self.whole.with(&entry);
        self.last = Some(id);
        entry
    }

    /// Verifies that these are all stored entries, unchanged, the oldest first.
    ///
    /// # Errors
    /// The first entry with a fault.
    pub fn verify(self, entries: &[Entry]) -> Result<(), Broken> {
        self.whole.verify_from(self.trimmed, entries, Entry::digest)
    }
}

#[cfg(test)]
mod tests;
