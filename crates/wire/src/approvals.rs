//! Approvals on the wire (docs/reference/approvals.md).

mod answers;
mod requests;

use callboard_domain::Timestamp;
use callboard_domain::approval::{Approval, Chain, Decision, Outcome};
use callboard_domain::function::Work;
use callboard_domain::id::{ExecutionId, FileId, TaskId, UserId};
use callboard_domain::schema::Schema;
use callboard_domain::task::{Completion, HoldReason, Message};
use callboard_domain::unit::ReviewTexts;
pub use callboard_protocol::history as entry;
use callboard_runtime::read::approvals::{ApprovalDetail, Correction, LISTED};
use serde::Serialize;
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::common::{Iso, Text};
use super::messages::{self, TurnBody};
use super::tasks::UsageBody;

pub use answers::{Approved, Assigned, Claimed, Extended, Rejected, Reopened, ReviewerNameBody};
pub use requests::{
    ApproveBody, AssignBody, ExtendBody, ListApprovals, ListPending, RejectBody, ReopenBody,
};

/// The characters of an output that make its summary.
const SUMMARY: usize = 140;

/// An approval.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "each is a member of the answer")]
pub struct ApprovalBody<'a> {
    /// The task whose output waits; also the approval's identifier.
    #[schema(value_type = String)]
    task_id: Text<TaskId>,
    /// The execution that the task belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    plan_execution_id: Option<Text<ExecutionId>>,
    /// The step that the task is.
    #[serde(skip_serializing_if = "Option::is_none")]
    step_id: Option<&'a str>,
    /// The item of the step's list that the task is for, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<u16>,
    /// The template that the execution was deployed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    template_id: Option<&'a str>,
    /// The model's name.
    model: &'a str,
    /// The queue's name.
    queue: &'a str,
    /// The confidence in the output, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<f64>,
    /// The source of the confidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence_source: Option<&'a str>,
    /// True if fewer than 20 outputs of its template, step, method and model were decided on, too few to
    /// know how good such confidences are.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    untested: bool,
    /// Minimum confidence to skip review.
    #[serde(skip_serializing_if = "Option::is_none")]
    threshold: Option<f64>,
    /// The reason of the hold: required, `below_threshold`, `no_confidence` or sampled; requested if the output has
    /// passed, and nothing waits for the decision.
    reason: &'static str,
    /// True if the output is a sample of those that pass.
    sampled: bool,
    /// The member of the output that a requested review judges.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    /// True if the output, or the member `field`, and the confidence are hidden until the decision, which must have
    /// `modifiedOutput`: the reviewer's own answer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    blind: bool,
    /// The beginning of the output; not in events.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
    /// The model's output, in lists its first 2,000 characters; not in events.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a str>,
    /// True if a list shows only the beginning of the output.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    output_truncated: bool,
    /// The function whose value the output is.
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<&'a str>,
    /// The args of the function; in lists, their JSON stands in prompt; not in events.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    args: Option<&'a Map<String, Value>>,
    /// The prompt, in lists its first 2,000 characters; not in events.
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<&'a str>,
    /// True if a list shows only the beginning of the prompt.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    prompt_truncated: bool,
    /// The title of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    /// The idempotency key of the request that made it alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    /// The concurrency key of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency_key: Option<&'a str>,
    /// The tags of the task.
    tags: &'a [String],
    /// pending, assigned, escalated, expired, approved, rejected or cancelled.
    status: &'static str,
    /// The time of the hold.
    created_at: Iso,
    /// The wait so far, or until the decision, in milliseconds.
    waiting_ms: u64,
    /// The end of the reviewers' time.
    timeout_at: Iso,
    /// The assigned reviewer.
    #[schema(value_type = Option<String>)]
    assigned_to: Option<Text<UserId>>,
    /// The time of the first escalation.
    #[serde(skip_serializing_if = "Option::is_none")]
    escalated_at: Option<Iso>,
    /// The reviewer who has claimed the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    claimed_by: Option<&'a str>,
    /// The end of the claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    claimed_until: Option<Iso>,
    /// The channels that notify reviewers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notify_channels: Vec<&'static str>,
    /// The rest of the task that the output was made from; only for a single approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<ReviewedTaskBody<'a>>,
    /// The decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<DecisionBody<'a>>,
    /// The decision before, which others have gone by: `decision` stands beside it, and changes nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    corrects: Option<DecisionBody<'a>>,
    /// The number of times that it was opened again after a decision.
    #[serde(skip_serializing_if = "is_zero")]
    #[schema(required = false)]
    reopened: u8,
    /// The length and the last hash of its history.
    history: ChainBody,
    /// The time at which the texts of the task were erased.
    #[serde(skip_serializing_if = "Option::is_none")]
    erased_at: Option<Iso>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(times: &u8) -> bool {
    *times == 0
}

/// The parts of a task that its reviewer needs besides the prompt and the output.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewedTaskBody<'a> {
    /// The texts that its step shows a reviewer beside the output.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    shown: &'a [String],
    /// The system prompt.
    system_prompt: Option<&'a str>,
    /// The earlier turns.
    #[schema(value_type = Option<Vec<TurnBody>>)]
    messages: Option<Vec<Message<Text<FileId>, &'a str>>>,
    /// The ids of the files that the model saw with the prompt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>, required = false)]
    files: Vec<Text<FileId>>,
    /// The context.
    #[schema(value_type = Option<Object>)]
    context: Option<&'a Map<String, Value>>,
    /// The JSON Schema of the output.
    #[schema(value_type = Option<Object>)]
    output_schema: Option<&'a Value>,
    /// The usage of the model call.
    usage: Option<UsageBody>,
    /// The reason why the model stopped, in the provider's word.
    finish_reason: Option<&'a str>,
    /// The rejected task that it tries again.
    #[schema(value_type = Option<String>)]
    retry_of: Option<Text<TaskId>>,
}

/// The decision.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionBody<'a> {
    /// approved or rejected.
    status: &'static str,
    /// The time of the decision.
    at: Iso,
    /// The user or key that decided.
    by: &'a str,
    /// The comment, or the reason of a rejection; not in events.
    comment: Option<&'a str>,
    /// True if a reviewer's text replaces the output.
    was_modified: bool,
    /// The reviewer's text, in lists its first 2,000 characters; not in events.
    modified_output: Option<&'a str>,
    /// True if a list shows only the beginning of that text.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    modified_output_truncated: bool,
    /// The task that tries again.
    #[schema(value_type = Option<String>)]
    retry_task_id: Option<Text<TaskId>>,
}

/// The length and the last hash of a history.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChainBody {
    /// The number of entries.
    length: u32,
    /// The hash of the last.
    #[schema(value_type = String)]
    hash: Text<callboard_domain::digest::Digest>,
}

impl<'a> ApprovalBody<'a> {
    /// An approval with all that a reviewer needs.
    #[must_use]
    pub fn whole(detail: &'a ApprovalDetail, now: Timestamp) -> Self {
        let mut body = Self::in_event(&detail.approval, now);
        let result = detail.result.as_deref();
        let is_hidden = detail.approval.is_hidden();
        let source = result.and_then(|result| result.confidence_source.as_deref());
        body.confidence_source = source.filter(|_| !is_hidden);
        body.task = Some(ReviewedTaskBody::of(detail, result));
        body.untested = detail.untested;
        body.summary = Some(summary(&detail.output)).filter(|_| !is_hidden);
        body.output = Some(&*detail.output).filter(|output| !is_hidden || !output.is_empty());
        body.args = detail.inputs.args.as_deref();
        body.prompt = Some(&*detail.inputs.prompt).filter(|_| detail.inputs.args.is_none());
        body.erased_at = detail.erased_at.map(Iso);
        let texts = (detail.edit.as_deref(), detail.comment.as_deref());
        body.decision = body.decision.map(|decision| decision.with(texts));
        let ReviewTexts { edit, comment, .. } = &detail.corrected;
        let texts = (edit.as_deref(), comment.as_deref());
        body.corrects = body.corrects.map(|decision| decision.with(texts));
        body
    }

    /// An approval as a list shows it: of long texts only the beginning.
    #[must_use]
    pub fn listed(detail: &'a ApprovalDetail, now: Timestamp) -> Self {
        let mut body = Self::whole(detail, now);
        body.task = None;
        body.output_truncated = cut(&mut body.output);
        body.prompt_truncated = cut(&mut body.prompt);
        body.decision = body.decision.map(DecisionBody::shortened);
        body.corrects = body.corrects.map(DecisionBody::shortened);
        body
    }

    /// An approval without its texts.
    #[must_use]
    pub fn in_event(approval: &'a Approval, now: Timestamp) -> Self {
        let Approval { task, opening, .. } = approval;
        let step = task.origin.step.as_ref();
        let claim = approval.claimed(now);
        let waited = u64::try_from(approval.waited(now).as_millis()).unwrap_or(u64::MAX);
        let Chain { length, head } = approval.chain;
        Self {
            task_id: Text(approval.id()),
            plan_execution_id: step.map(|(execution, _)| Text(*execution)),
            step_id: step.map(|(_, step)| step.as_str()),
            item: task.origin.item,
            template_id: task.origin.template.as_deref(),
            model: &task.model,
            queue: &task.queue,
            confidence: opening.confidence.filter(|_| !approval.is_hidden()),
            confidence_source: None,
            untested: false,
            threshold: opening.threshold,
            reason: opening.why.as_str(),
            sampled: opening.why == HoldReason::Sampled,
            field: opening.way.field.as_deref(),
            blind: opening.way.blind,
            summary: None,
            output: None,
            output_truncated: false,
            function: Work::of(&task.model).function(),
            args: None,
            prompt: None,
            prompt_truncated: false,
            title: task.title(),
            idempotency_key: task.origin.idempotency_key.as_deref(),
            concurrency_key: task
                .flow
                .as_ref()
                .and_then(|flow| flow.concurrency.as_ref())
                .map(|it| it.key.as_str()),
            tags: &task.tags,
            status: approval.state.as_str(),
            created_at: Iso(opening.since),
            waiting_ms: waited,
            timeout_at: Iso(opening.expires_at),
            assigned_to: approval.assignee.map(Text),
            escalated_at: approval.escalated_at.map(Iso),
            claimed_by: claim.map(|claim| claim.by.as_str()),
            claimed_until: claim.map(|claim| Iso(claim.until)),
            notify_channels: opening.notify.names().collect(),
            task: None,
            decision: approval.decision.as_ref().map(DecisionBody::of),
            corrects: approval.corrects.as_ref().map(|before| DecisionBody::of(&before.decision)),
            reopened: approval.reopened,
            history: ChainBody { length, hash: Text(head) },
            erased_at: None,
        }
    }
}

impl<'a> ReviewedTaskBody<'a> {
    fn of(detail: &'a ApprovalDetail, result: Option<&'a Completion>) -> Self {
        let inputs = &detail.inputs;
        Self {
            shown: &inputs.shown,
            system_prompt: inputs.system_prompt.as_deref(),
            messages: messages::of_task(inputs),
            files: inputs.own_files().iter().copied().map(Text).collect(),
            context: inputs.context.as_ref(),
            output_schema: inputs.output_schema.as_ref().map(Schema::source),
            usage: result.map(|result| UsageBody::from(result.usage)),
            finish_reason: result.and_then(|result| result.finish_reason.as_deref()),
            retry_of: detail.approval.task.origin.retry_of.map(Text),
        }
    }
}

impl<'a> From<&'a Correction> for DecisionBody<'a> {
    fn from(correction: &'a Correction) -> Self {
        let texts = (correction.edit.as_deref(), correction.comment.as_deref());
        Self::of(&correction.decision).with(texts)
    }
}

impl<'a> DecisionBody<'a> {
    /// This body with the reviewer's text in place of the output, and the text about the decision.
    fn with(self, (modified_output, comment): (Option<&'a str>, Option<&'a str>)) -> Self {
        Self { comment, modified_output, ..self }
    }

    /// This body as a list shows it: of a long text only the beginning.
    pub(crate) fn shortened(mut self) -> Self {
        self.modified_output_truncated = cut(&mut self.modified_output);
        self
    }

    fn of(decision: &'a Decision) -> Self {
        let (status, was_modified, retry) = match decision.outcome {
            Outcome::Approved { edited } => ("approved", edited, None),
            Outcome::Rejected { retry } => ("rejected", false, retry),
        };
        Self {
            status,
            at: Iso(decision.at),
            by: decision.by.name(),
            comment: None,
            was_modified,
            modified_output: None,
            modified_output_truncated: false,
            retry_task_id: retry.map(Text),
        }
    }
}

/// Leaves only the beginning of a text; true if there was more.
fn cut(text: &mut Option<&str>) -> bool {
    let Some(whole) = *text else { return false };
    let end = whole.char_indices().nth(LISTED).map(|(end, _)| end);
    *text = Some(&whole[..end.unwrap_or(whole.len())]);
    end.is_some()
}

/// The beginning of an output, on one line.
fn summary(output: &str) -> String {
    let mut words = String::new();
    for word in output.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
        if let Some((end, _)) = words.char_indices().nth(SUMMARY) {
            words.truncate(end);
            words.push('…');
            break;
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_one_short_line() {
        assert_eq!(summary("  a\n\tb  c "), "a b c");
        let long = summary(&"ü".repeat(1_000));
        assert_eq!((long.chars().count(), long.ends_with('…')), (SUMMARY + 1, true));
        assert_eq!(summary(""), "");
    }
}
