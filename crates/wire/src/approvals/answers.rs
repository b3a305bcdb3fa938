//! The answers to a decision, a claim and a release (docs/reference/approvals.md).

use callboard_domain::Timestamp;
use callboard_domain::account::User;
use callboard_domain::approval::{Approval, Outcome};
use callboard_domain::id::{TaskId, UserId};
use serde::Serialize;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::common::{Iso, Text};

/// The answer to an approval.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "as the specification names them")]
pub struct Approved<'a> {
    #[schema(value_type = String)]
    task_id: Text<TaskId>,
    /// completed.
    status: &'static str,
    approved_at: Iso,
    /// The user who approved the output.
    approved_by: &'a str,
    /// The comment.
    #[serde(skip_serializing_if = "Option::is_none")]
    comment: Option<&'a str>,
    /// True if another text replaces the output.
    was_modified: bool,
}

/// The answer to a rejection.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "as the specification names them")]
pub struct Rejected<'a> {
    #[schema(value_type = String)]
    task_id: Text<TaskId>,
    /// rejected.
    status: &'static str,
    rejected_at: Iso,
    /// The user who rejected the output.
    rejected_by: &'a str,
    /// The reason that the reviewer gave.
    reason: &'a str,
    /// The task that tries again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    retry_task_id: Option<Text<TaskId>>,
}

/// The answer to a claim or a release.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "as the specification names them")]
pub struct Claimed<'a> {
    #[schema(value_type = String)]
    task_id: Text<TaskId>,
    /// The reviewer who has claimed the output.
    claimed_by: Option<&'a str>,
    /// The end of the claim.
    claimed_until: Option<Iso>,
}

/// The answer to an extension.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Extended {
    #[schema(value_type = String)]
    task_id: Text<TaskId>,
    /// pending, assigned or escalated.
    status: &'static str,
    /// The end of the reviewers' time.
    timeout_at: Iso,
}

impl Extended {
    /// The approval's time now.
    #[must_use]
    pub fn of(approval: &Approval) -> Self {
        let (task_id, status) = (Text(approval.id()), approval.state.as_str());
        Self { task_id, status, timeout_at: Iso(approval.opening.expires_at) }
    }
}

/// The answer to a decision that is taken back.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reopened {
    #[schema(value_type = String)]
    task_id: Text<TaskId>,
    /// pending, assigned, escalated or expired.
    status: &'static str,
    /// True if the decision before stands, because others have gone by it: the next one stands beside it.
    corrects: bool,
    /// The reviewer.
    #[schema(value_type = Option<String>)]
    assigned_to: Option<Text<UserId>>,
    /// The end of the reviewers' time.
    timeout_at: Iso,
}

impl Reopened {
    /// The approval, which waits again.
    #[must_use]
    pub fn of(approval: &Approval) -> Self {
        Self {
            task_id: Text(approval.id()),
            status: approval.state.as_str(),
            corrects: approval.corrects.is_some(),
            assigned_to: approval.assignee.map(Text),
            timeout_at: Iso(approval.opening.expires_at),
        }
    }
}

/// The answer to an assignment.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Assigned {
    #[schema(value_type = String)]
    task_id: Text<TaskId>,
    /// assigned, escalated or expired.
    status: &'static str,
    /// The reviewer.
    #[schema(value_type = Option<String>)]
    #[serde(rename = "assignedTo")]
    reviewer: Option<Text<UserId>>,
}

impl Assigned {
    /// The approval's reviewer now.
    #[must_use]
    pub fn of(approval: &Approval) -> Self {
        let (task_id, status) = (Text(approval.id()), approval.state.as_str());
        Self { task_id, status, reviewer: approval.assignee.map(Text) }
    }
}

/// A user who decides.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReviewerNameBody<'a> {
    /// `usr_…`, as approvals and histories name it.
    #[schema(value_type = String)]
    id: Text<UserId>,
    /// The name.
    name: &'a str,
    /// The user's e-mail address.
    email: &'a str,
}

impl<'a> From<&'a User> for ReviewerNameBody<'a> {
    fn from(user: &'a User) -> Self {
        Self { id: Text(user.id), name: &user.name, email: user.email.as_str() }
    }
}

impl<'a> Approved<'a> {
    /// The approval's decision; `None` if it was not approved.
    #[must_use]
    pub fn of(approval: &'a Approval, comment: Option<&'a str>) -> Option<Self> {
        let decision = approval.decision.as_ref()?;
        let Outcome::Approved { edited } = decision.outcome else { return None };
        Some(Self {
            task_id: Text(approval.id()),
            status: "completed",
            approved_at: Iso(decision.at),
            approved_by: decision.by.name(),
            comment,
            was_modified: edited,
        })
    }
}

impl<'a> Rejected<'a> {
    /// The approval's decision; `None` if it was not rejected.
    #[must_use]
    pub fn of(approval: &'a Approval, reason: &'a str) -> Option<Self> {
        let decision = approval.decision.as_ref()?;
        let Outcome::Rejected { retry } = decision.outcome else { return None };
        Some(Self {
            task_id: Text(approval.id()),
            status: "rejected",
            rejected_at: Iso(decision.at),
            rejected_by: decision.by.name(),
            reason,
            retry_task_id: retry.map(Text),
        })
    }
}

impl<'a> Claimed<'a> {
    /// The claim of an approval.
    #[must_use]
    pub fn of(approval: &'a Approval, now: Timestamp) -> Self {
        let claim = approval.claimed(now);
        Self {
            task_id: Text(approval.id()),
            claimed_by: claim.map(|claim| claim.by.as_str()),
            claimed_until: claim.map(|claim| Iso(claim.until)),
        }
    }
}
