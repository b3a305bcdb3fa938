//! What is asked of approvals: lists and decisions (SPEC.md, HITL).

use callboard_domain::approval::{SYSTEM, State};
use callboard_domain::query::Approvals;
use callboard_domain::{Error, Rule};
use utoipa::{IntoParams, ToSchema};

use crate::wire::common::Paging;
use crate::wire::read::{Fields, Read, rule};

/// How many characters a reviewer may write to a decision.
const MAX_REMARK: usize = 10_000;
/// How many characters the name of a reviewer may have.
const MAX_REVIEWER: usize = 128;
/// How many bytes a prompt may have (PROTOCOL.md 2).
const MAX_PROMPT: usize = 1 << 20;

/// Whose and which items wait (SPEC.md, Pending query parameters).
#[derive(Debug, Clone, Default, IntoParams)]
#[into_params(rename_all = "camelCase", parameter_in = Query)]
pub struct ListPending {
    /// Of this queue.
    pub queue: Option<String>,
    /// With all of these tags, separated by commas.
    #[param(value_type = Option<String>)]
    pub tags: Option<Vec<String>>,
    /// Assigned to this user.
    pub reviewer_id: Option<String>,
    /// Also those whose time is over.
    pub include_expired: Option<bool>,
    /// 1 to 100; by default 20.
    pub limit: Option<usize>,
    /// How many to pass over.
    pub offset: Option<usize>,
}

/// Which approvals, decided or not (+).
#[derive(Debug, Clone, Default, IntoParams)]
#[into_params(rename_all = "camelCase", parameter_in = Query)]
pub struct ListApprovals {
    /// pending, assigned, escalated, expired, approved, rejected, cancelled; separated by commas.
    #[param(value_type = Option<String>)]
    pub status: Option<Vec<State>>,
    /// Of this queue.
    pub queue: Option<String>,
    /// With all of these tags, separated by commas.
    #[param(value_type = Option<String>)]
    pub tags: Option<Vec<String>>,
    /// That this reviewer is to decide, or has decided.
    pub reviewer_id: Option<String>,
    /// 1 to 100; by default 20.
    pub limit: Option<usize>,
    /// How many to pass over.
    pub offset: Option<usize>,
}

/// Lets an output pass.
#[derive(Debug, Clone, Default, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct ApproveBody {
    /// What is said to it: at most 10,000 characters.
    pub comment: Option<String>,
    /// The text that replaces the output.
    pub modified_output: Option<String>,
    /// Who decides: a session may name only itself, an admin's also others; a key anybody.
    pub reviewer_id: Option<String>,
}

/// Does not let an output pass.
#[derive(Debug, Clone, Default, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct RejectBody {
    /// Why: 1 to 10,000 characters.
    pub reason: String,
    /// Whether another task tries again, with the reason in its prompt; by default not.
    pub retry: Option<bool>,
    /// The prompt of that task; by default the one before.
    pub retry_prompt: Option<String>,
    /// As in an approval.
    pub reviewer_id: Option<String>,
}

impl Read for ListPending {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let ListApprovals { queue, tags, reviewer_id, limit, offset, .. } = shared(fields)?;
        let include_expired = fields.optional("includeExpired", rule::flag)?;
        Ok(Self { queue, tags, reviewer_id, include_expired, limit, offset })
    }
}

impl Read for ListApprovals {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let status = rule::one_of(&State::ALL, State::as_str);
        let status = fields.optional("status", rule::commas(1..=State::ALL.len(), status))?;
        Ok(Self { status, ..shared(fields)? })
    }
}

/// What both lists can be asked for.
fn shared(fields: &mut Fields<'_>) -> Result<ListApprovals, Error> {
    let name = || rule::text(rule::characters(1..=MAX_REVIEWER));
    let tag = rule::text(rule::characters(1..=64));
    let Paging { limit, offset } = Paging::read(fields)?;
    Ok(ListApprovals {
        status: None,
        queue: fields.optional("queue", name())?,
        tags: fields.optional("tags", rule::commas(1..=32, tag))?,
        reviewer_id: fields.optional("reviewerId", name())?,
        limit,
        offset,
    })
}

impl From<ListPending> for Approvals {
    fn from(list: ListPending) -> Self {
        let mut statuses = vec![State::Pending, State::Assigned, State::Escalated];
        if list.include_expired == Some(true) {
            statuses.push(State::Expired);
        }
        Self {
            statuses,
            queue: list.queue,
            tags: list.tags.unwrap_or_default(),
            reviewer: list.reviewer_id,
            window: Paging { limit: list.limit, offset: list.offset }.window(),
        }
    }
}

impl From<ListApprovals> for Approvals {
    fn from(list: ListApprovals) -> Self {
        Self {
            statuses: list.status.unwrap_or_default(),
            queue: list.queue,
            tags: list.tags.unwrap_or_default(),
            reviewer: list.reviewer_id,
            window: Paging { limit: list.limit, offset: list.offset }.window(),
        }
    }
}

impl Read for ApproveBody {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let remark = rule::text(rule::characters(0..=MAX_REMARK));
        Ok(Self {
            comment: fields.optional("comment", remark)?,
            modified_output: fields
                .optional("modifiedOutput", rule::text(rule::bytes(0..=usize::MAX)))?,
            reviewer_id: reviewer(fields)?,
        })
    }
}

impl Read for RejectBody {
    fn read(fields: &mut Fields<'_>) -> Result<Self, Error> {
        let body = Self {
            reason: fields.required("reason", rule::text(rule::characters(1..=MAX_REMARK)))?,
            retry: fields.optional("retry", rule::flag)?,
            retry_prompt: fields
                .optional("retryPrompt", rule::text(rule::bytes(1..=MAX_PROMPT)))?,
            reviewer_id: reviewer(fields)?,
        };
        if body.retry_prompt.is_some() && body.retry != Some(true) {
            let says = "must be true where retryPrompt is given";
            return Err(fields.refuse("retry", Rule::Required, says));
        }
        Ok(body)
    }
}

fn reviewer(fields: &mut Fields<'_>) -> Result<Option<String>, Error> {
    let given = fields.optional("reviewerId", rule::text(rule::characters(1..=MAX_REVIEWER)))?;
    if given.as_deref() == Some(SYSTEM) {
        let says = "must not be system, which stands for the clock";
        return Err(fields.refuse("reviewerId", Rule::Reserved, says));
    }
    Ok(given)
}
