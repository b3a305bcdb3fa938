//! The content of a delivery, read when it is sent; or the reason why it has none.

use callboard_domain::approval::Mail;
use callboard_domain::delivery::Webhook;
use callboard_domain::id::Environment;
use callboard_domain::machine::Machine;
use callboard_domain::task::{State, Task};
use callboard_store::Error;

use crate::node::Node;
use crate::ports::{ReviewerMail, WebhookContent};
use crate::read;
use crate::tables::approvals;

/// The content of a mail; otherwise the reason why the mail is not needed.
pub(super) async fn letter(
    node: &Node,
    environment: Environment,
    mail: &Mail,
) -> Result<Result<ReviewerMail, &'static str>, Error> {
    let Some(user) = node.accounts.user(mail.to) else {
        return Ok(Err("the reviewer's account was deleted"));
    };
    let Some(approval) = approvals::approval(node.store(), environment, mail.task).await? else {
        return Ok(Err("retention removed the task"));
    };
    if approval.is_finished() || approval.assignee != Some(mail.to) {
        return Ok(Err("the output does not wait for this reviewer any more"));
    }
    let (origin, opening) = (&approval.task.origin, &approval.opening);
    Ok(Ok(ReviewerMail {
        delivery: mail.id,
        to: user.email,
        name: user.name,
        task: mail.task,
        step: origin.step.clone(),
        template: origin.template.clone(),
        why: opening.why,
        confidence: opening.confidence,
        threshold: opening.threshold,
        since: opening.since,
        expires_at: opening.expires_at,
        cause: mail.cause,
    }))
}

/// The content of a webhook: the task as it ended. Retention keeps a task whose webhook is pending, so only
/// a redelivery can come too late.
pub(super) async fn notice(
    node: &Node,
    environment: Environment,
    webhook: &Webhook,
) -> Result<Result<WebhookContent, &'static str>, Error> {
    let store = &*node.shard(webhook.task.partition()).store;
    let Some(detail) = read::task(store, environment, webhook.task).await? else {
        return Ok(Err("retention removed the task"));
    };
    if node.accounts.is_abandoned(&detail.task.spec.account) {
        return Ok(Err("the user who submitted the task was deleted"));
    }
    let Some(ended_at) = detail.task.state.ended_at() else {
        return Ok(Err("the task has not ended"));
    };
    let Task { state, result, .. } = &detail.task;
    Ok(Ok(WebhookContent {
        delivery: webhook.id,
        environment,
        url: webhook.url.clone(),
        event: webhook.event,
        task: webhook.task,
        status: detail.task.status(),
        output: detail.output.filter(|_| matches!(state, State::Completed { .. })),
        usage: result.as_ref().map(|result| result.usage).unwrap_or_default(),
        ended_at,
        trace: node.trace_of_task(&detail.task),
    }))
}
