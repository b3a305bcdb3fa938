//! Requests about approvals: lists and decisions.

use callboard_domain::approval::{SYSTEM, State};
use callboard_domain::id::UserId;
use callboard_domain::query::{ApprovalOrder, Approvals, Instants, OfBatch};
use callboard_domain::render::MAX_PROMPT;
use callboard_domain::{Error, Rule, Timestamp};

use crate::batches::of_batch;
use crate::common::{MAX_SEARCH, Paging, tags};
use crate::hitl::review_time;
use crate::read::rule::{self, Parse};
use crate::read::{Fields, Refused, shape};
use crate::request;

/// The most characters of a comment or a reason.
const MAX_REMARK: usize = 10_000;
/// The most outputs that one approval covers.
const MAX_BULK: u32 = 1000;
/// The most characters of a reviewer's name.
const MAX_REVIEWER: usize = 128;

request! {
    /// The waiting items to list.
    #[derive(Debug, Clone)]
    pub struct ListPending as "ListPending" {
        /// Only items of this queue.
        queue: Option<String> = optional("queue", name()),
        /// Only items with all of these tags.
        tags: Option<Vec<String>> = optional("tags", tags()),
        /// Assigned to this user.
        reviewer_id: Option<String> = optional("reviewerId", name()),
        /// Only outputs of the rows of this batch; none: of no rows of batches.
        batch: Option<OfBatch> = optional("batch", of_batch()),
        /// One of these statuses: pending, assigned, escalated, expired; by default all but expired.
        status: Option<Vec<State>> = optional("status", open_statuses()),
        /// The id of the item, or beginnings of words of its title, tags or keys: an item has all of them.
        search: Option<String> = optional("search", rule::text(rule::characters(1..=MAX_SEARCH))),
        /// Held at this instant or later.
        created_after: Option<Timestamp> = optional("createdAfter", rule::instant()),
        /// Held before this instant.
        created_before: Option<Timestamp> = optional("createdBefore", rule::instant()),
        /// True also lists overdue ones; by default false. Not with `status`.
        include_expired: Option<bool> = optional("includeExpired", rule::flag()),
        /// The page.
        page: Paging = flat(shape::<Paging>()),
    }
    check one_way_to_ask
}

request! {
    /// The approvals to list, decided or not.
    #[derive(Debug, Clone)]
    pub struct ListApprovals as "ListApprovals" {
        /// One of these statuses.
        status: Option<Vec<State>> = optional("status", statuses()),
        /// Only items of this queue.
        queue: Option<String> = optional("queue", name()),
        /// Only items with all of these tags.
        tags: Option<Vec<String>> = optional("tags", tags()),
        /// Only items that this reviewer is assigned to or has decided.
        reviewer_id: Option<String> = optional("reviewerId", name()),
        /// Only outputs of the rows of this batch; none: of no rows of batches.
        batch: Option<OfBatch> = optional("batch", of_batch()),
        /// The order, the latest first: createdAt (by default) is the time of the hold, decidedAt that of the decision.
        order_by: Option<ApprovalOrder> = optional("orderBy", rule::one_of(&ORDERS, order_name)),
        /// The id of the item, or beginnings of words of its title, tags or keys: an item has all of them.
        search: Option<String> = optional("search", rule::text(rule::characters(1..=MAX_SEARCH))),
        /// Held at this instant or later.
        created_after: Option<Timestamp> = optional("createdAfter", rule::instant()),
        /// Held before this instant.
        created_before: Option<Timestamp> = optional("createdBefore", rule::instant()),
        /// The page.
        page: Paging = flat(shape::<Paging>()),
    }
}

request! {
    /// The approval of an output.
    #[derive(Debug, Clone, Default)]
    pub struct ApproveBody as "Approve" {
        /// The comment.
        comment: Option<String> = optional("comment", rule::text(rule::characters(0..=MAX_REMARK))),
        /// The text that replaces the output.
        modified_output: Option<String> = optional("modifiedOutput", rule::text(rule::bytes(0..=usize::MAX))),
        /// The number of outputs of one step that are approved at once, this one included; the history shows it.
        bulk: Option<u32> = optional("bulk", rule::whole(2..=MAX_BULK)),
        /// The reviewer: a session names only its own user, an admin's session any user, a key any user.
        reviewer_id: Option<String> = optional("reviewerId", reviewer()),
    }
}

request! {
    /// The rejection of an output.
    #[derive(Debug, Clone, Default)]
    pub struct RejectBody as "Reject" {
        /// The reason; a task that tries again has it in its prompt.
        reason: String = required("reason", rule::text(rule::characters(1..=MAX_REMARK))),
        /// True submits the task again, with the reason in its prompt; by default false.
        retry: Option<bool> = optional("retry", rule::flag()),
        /// The prompt of that task; by default the one before. Only with `retry: true`.
        retry_prompt: Option<String> = optional("retryPrompt", rule::text(rule::bytes(1..=MAX_PROMPT))),
        /// The reviewer, as in an approval.
        reviewer_id: Option<String> = optional("reviewerId", reviewer()),
    }
    check retry_is_asked_for
}

request! {
    /// More time for the reviewers of an output.
    #[derive(Debug, Clone)]
    pub struct ExtendBody as "Extend" {
        /// The time from now on, in milliseconds: at most 30 days.
        timeout_ms: u64 = required("timeoutMs", review_time()),
        /// The reason, for the history.
        reason: Option<String> = optional("reason", rule::text(rule::characters(1..=MAX_REMARK))),
    }
}

request! {
    /// The decision that is taken back.
    #[derive(Debug, Clone, Default)]
    pub struct ReopenBody as "Reopen" {
        /// True asks for another decision beside the first if the output was used; by default false, which answers with
        /// the uses.
        as_correction: Option<bool> = optional("asCorrection", rule::flag()),
    }
}

request! {
    /// The reviewer to whom an output is given.
    #[derive(Debug, Clone)]
    pub struct AssignBody as "Assign" {
        /// The id of a user who may decide: `usr_…`
        assignee: UserId = required("assignee", user_id()),
    }
}

fn user_id() -> impl Parse<UserId> {
    let is_id = |text: &String| text.parse::<UserId>().is_ok();
    name()
        .only(is_id, Rule::Format, "must be the id of a user: usr_…")
        .then(|text| text.parse().map_err(|_| Error::Internal))
}

fn one_way_to_ask(list: ListPending, fields: &Fields<'_>) -> Result<ListPending, Refused> {
    if list.status.is_some() && list.include_expired.is_some() {
        let says = "must not be given beside status, which names expired itself";
        return Err(fields.refuse("includeExpired", Rule::Reserved, says));
    }
    Ok(list)
}

fn retry_is_asked_for(body: RejectBody, fields: &Fields<'_>) -> Result<RejectBody, Refused> {
    if body.retry_prompt.is_some() && body.retry != Some(true) {
        let says = "must be true where retryPrompt is given";
        return Err(fields.refuse("retry", Rule::Required, says));
    }
    Ok(body)
}

fn name() -> impl Parse<String> {
    rule::text(rule::characters(1..=MAX_REVIEWER))
}

const ORDERS: [ApprovalOrder; 2] = [ApprovalOrder::HeldAt, ApprovalOrder::DecidedAt];

const fn order_name(order: ApprovalOrder) -> &'static str {
    match order {
        ApprovalOrder::HeldAt => "createdAt",
        ApprovalOrder::DecidedAt => "decidedAt",
    }
}

fn statuses() -> impl Parse<Vec<State>> {
    rule::commas(1..=State::ALL.len(), rule::one_of(&State::ALL, State::as_str))
}

/// The states of an output that waits.
const OPEN: [State; 4] = [State::Pending, State::Assigned, State::Escalated, State::Expired];

fn open_statuses() -> impl Parse<Vec<State>> {
    rule::commas(1..=OPEN.len(), rule::one_of(&OPEN, State::as_str))
}

fn reviewer() -> impl Parse<String> {
    let says = "must not be system, which stands for the clock";
    name().only(|given| given != SYSTEM, Rule::Reserved, says)
}

impl From<ListPending> for Approvals {
    fn from(list: ListPending) -> Self {
        let mut statuses = vec![State::Pending, State::Assigned, State::Escalated];
        if list.include_expired == Some(true) {
            statuses.push(State::Expired);
        }
        Self {
            statuses: list.status.unwrap_or(statuses),
            queue: list.queue,
            tags: list.tags.unwrap_or_default(),
            reviewer: list.reviewer_id,
            batch: list.batch,
            order: ApprovalOrder::HeldAt,
            search: list.search,
            held: Instants { after: list.created_after, before: list.created_before },
            window: list.page.window(),
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
            batch: list.batch,
            order: list.order_by.unwrap_or_default(),
            search: list.search,
            held: Instants { after: list.created_after, before: list.created_before },
            window: list.page.window(),
        }
    }
}
