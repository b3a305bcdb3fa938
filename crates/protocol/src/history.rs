//! An entry of an approval's history on the wire, in both directions: the server writes it, and
//! a verifier of the chain reads it back (docs/reference/approvals.md).
//!
//! ```text
//! Entry, comment, edit ── EntryBody::of ──▶ JSON ── EntryBody::entry ──▶ Entry
//! ```
//!
//! Some members repeat another one (`assignedTo`, `wasModified`), for people and for earlier programs. No hash covers
//! those, so reading refuses an entry whose members do not agree.

use std::str::FromStr;

use callboard_domain::approval::history::Version;
use callboard_domain::approval::{Action, Details, Entry, Salt};
use callboard_domain::task::HoldReason;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

/// The rule by which reviewers are chosen.
const ASSIGNMENT: &str = "least_loaded";

/// One entry of the history of an approval; members of other actions are left out.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EntryBody {
    /// Counted from 1.
    number: u32,
    /// The version of the entry's format: 1 if absent, or 2, in which hashes of texts are salted.
    version: Option<u8>,
    /// pending, assigned, escalated, expired, claimed, released, extended, approved, rejected, retried, cancelled
    /// or `notification_skipped`.
    action: String,
    /// The instant.
    #[schema(format = DateTime)]
    timestamp: String,
    /// The actor: the identifier of a user or a key, or `system`.
    actor: String,
    /// The model's confidence, 0 to 1.
    confidence: Option<f64>,
    /// The chosen reviewer.
    assigned_to: Option<String>,
    /// The reviewer assigned before.
    from: Option<String>,
    /// The reviewer assigned now.
    to: Option<String>,
    /// The user named as the reviewer.
    reviewer_id: Option<String>,
    /// The reviewer's comment.
    comment: Option<String>,
    /// The reason of the rejection, or of more time.
    reason: Option<String>,
    /// True if the reviewer's text replaces the output.
    was_modified: Option<bool>,
    /// The reviewer's text.
    modified_output: Option<String>,
    /// The task that tries again.
    retry_task_id: Option<String>,
    /// The end of the claim.
    #[schema(format = DateTime)]
    claimed_until: Option<String>,
    /// Further details.
    #[serde(skip_serializing_if = "MoreBody::is_empty")]
    details: MoreBody,
    /// The salt of the hashes of texts: 32 hexadecimal digits; absent once the texts are erased.
    salt: Option<String>,
    /// The SHA-256 of the salt and the output that was shown.
    output_hash: Option<String>,
    /// The SHA-256 of the salt and `comment`, or `reason`.
    comment_hash: Option<String>,
    /// The SHA-256 of the salt and `modifiedOutput`.
    edit_hash: Option<String>,
    /// The hash of the entry before; 64 zeros for the first.
    previous_hash: String,
    /// The SHA-256 of the entry in its canonical form.
    hash: String,
}

/// Further details of the action.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MoreBody {
    /// Minimum confidence to skip review.
    threshold: Option<f64>,
    /// required, `below_threshold`, `no_confidence` or sampled.
    why: Option<String>,
    /// The execution that the task belongs to.
    plan_execution_id: Option<String>,
    /// The step that the task is.
    step_id: Option<String>,
    /// The item of the step's list that the task is for, from 0.
    item: Option<u16>,
    /// The end of the reviewers' time.
    #[schema(format = DateTime)]
    timeout_at: Option<String>,
    /// The rule that chose the reviewer.
    assignment_method: Option<String>,
    /// The text for people.
    reason: Option<String>,
    /// The number of outputs that the reviewer approved at once; absent if it was this one alone.
    bulk: Option<u32>,
    /// The length of the wait, in milliseconds.
    escalation_after_ms: Option<u64>,
}

impl MoreBody {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The texts of an entry, of which the entry itself holds only hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Texts<'a> {
    /// The comment, or the reason of a rejection.
    pub comment: Option<&'a str>,
    /// The text that replaces the output.
    pub edit: Option<&'a str>,
    /// The salt of the commitments, for the entries that hold any.
    pub salt: Option<Salt>,
}

/// The reason why JSON is no entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Misread {
    /// A member cannot be read.
    #[error("has a {0} that cannot be read")]
    Malformed(&'static str),
    /// A member that no hash covers contradicts those that a hash covers.
    #[error("contradicts itself: what is shown is not what was hashed")]
    Contradiction,
}

impl EntryBody {
    /// An entry with its texts.
    #[must_use]
    pub fn of(entry: &Entry, texts: Texts<'_>) -> Self {
        /// The value as text on the wire.
        fn text<T: ToString>(value: Option<&T>) -> Option<String> {
            value.map(ToString::to_string)
        }
        let Entry { version, number, action, at, actor, details, previous, hash } = entry;
        // Every detail is named here, so that a new one cannot be forgotten.
        let Details {
            why,
            confidence,
            threshold,
            execution,
            step,
            item,
            shown,
            edit,
            comment,
            reviewer,
            bulk,
            from,
            to,
            reason,
            after_ms,
            until,
            retry,
        } = details;
        let (assigned_to, to) = either(*action == Action::Assigned, text(to.as_ref()));
        let (claimed_until, timeout_at) = either(*action == Action::Claimed, text(until.as_ref()));
        let said = texts.comment.map(str::to_owned);
        let has_reason = matches!(action, Action::Rejected | Action::Extended);
        let (rejected_for, said) = either(has_reason, said);
        Self {
            number: *number,
            version: (*version != Version::Plain).then(|| u8::from(*version)),
            action: action.as_str().into(),
            timestamp: at.to_string(),
            actor: actor.clone(),
            confidence: *confidence,
            assigned_to,
            from: text(from.as_ref()),
            to,
            reviewer_id: reviewer.clone(),
            comment: said,
            reason: rejected_for,
            was_modified: (*action == Action::Approved).then_some(edit.is_some()),
            modified_output: texts.edit.map(str::to_owned),
            retry_task_id: text(retry.as_ref()),
            claimed_until,
            details: MoreBody {
                threshold: *threshold,
                why: why.map(|why| why.as_str().into()),
                plan_execution_id: text(execution.as_ref()),
                step_id: step.clone(),
                item: *item,
                timeout_at,
                assignment_method: (*action == Action::Assigned).then(|| ASSIGNMENT.into()),
                reason: reason.clone(),
                bulk: *bulk,
                escalation_after_ms: *after_ms,
            },
            salt: text(texts.salt.as_ref()),
            output_hash: text(shown.as_ref()),
            comment_hash: text(comment.as_ref()),
            edit_hash: text(edit.as_ref()),
            previous_hash: previous.to_string(),
            hash: hash.to_string(),
        }
    }

    /// The entry that the body shows.
    ///
    /// # Errors
    /// [`Misread`], if a member cannot be read or does not agree with the others.
    pub fn entry(&self) -> Result<Entry, Misread> {
        let more = &self.details;
        let version = self.version.map(Version::try_from).transpose();
        let entry = Entry {
            version: version.map_err(|_| Misread::Malformed("version"))?.unwrap_or_default(),
            number: self.number,
            action: named(&Action::ALL, Action::as_str, &self.action, "action")?,
            at: parsed(&self.timestamp, "timestamp")?,
            actor: self.actor.clone(),
            details: Details {
                why: more
                    .why
                    .as_ref()
                    .map(|why| named(&HoldReason::ALL, HoldReason::as_str, why, "why"))
                    .transpose()?,
                confidence: self.confidence,
                threshold: more.threshold,
                execution: option(more.plan_execution_id.as_ref(), "planExecutionId")?,
                step: more.step_id.clone(),
                item: more.item,
                shown: option(self.output_hash.as_ref(), "outputHash")?,
                edit: option(self.edit_hash.as_ref(), "editHash")?,
                comment: option(self.comment_hash.as_ref(), "commentHash")?,
                reviewer: self.reviewer_id.clone(),
                bulk: more.bulk,
                from: option(self.from.as_ref(), "from")?,
                to: option(self.assigned_to.as_ref().or(self.to.as_ref()), "to")?,
                reason: more.reason.clone(),
                after_ms: more.escalation_after_ms,
                until: option(self.claimed_until.as_ref().or(more.timeout_at.as_ref()), "until")?,
                retry: option(self.retry_task_id.as_ref(), "retryTaskId")?,
            },
            previous: parsed(&self.previous_hash, "previousHash")?,
            hash: parsed(&self.hash, "hash")?,
        };
        // An entry that is written anew must be the same, or some member says more than the hashes
        // cover.
        if Self::of(&entry, self.texts()?) == *self {
            Ok(entry)
        } else {
            Err(Misread::Contradiction)
        }
    }

    /// The entry's own number, counted from 1.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// The texts and the salt.
    ///
    /// # Errors
    /// [`Misread::Malformed`], if the salt cannot be read.
    pub fn texts(&self) -> Result<Texts<'_>, Misread> {
        let comment = self.comment.as_deref().or(self.reason.as_deref());
        let salt = option(self.salt.as_ref(), "salt")?;
        Ok(Texts { comment, edit: self.modified_output.as_deref(), salt })
    }
}

/// The value in the first place if so, else in the second.
fn either<T>(first: bool, value: Option<T>) -> (Option<T>, Option<T>) {
    if first { (value, None) } else { (None, value) }
}

fn named<T: Copy>(
    all: &[T],
    name: impl Fn(T) -> &'static str,
    text: &str,
    member: &'static str,
) -> Result<T, Misread> {
    all.iter().copied().find(|one| name(*one) == text).ok_or(Misread::Malformed(member))
}

fn parsed<T: FromStr>(text: &str, member: &'static str) -> Result<T, Misread> {
    text.parse().map_err(|_| Misread::Malformed(member))
}

fn option<T: FromStr>(text: Option<&String>, member: &'static str) -> Result<Option<T>, Misread> {
    text.map(|text| parsed(text, member)).transpose()
}

#[cfg(test)]
mod tests;
