//! The content of a delivery, read when it is sent; or the reason why it has none.

use std::sync::Arc;

use callboard_domain::access::Role;
use callboard_domain::approval::Mail;
use callboard_domain::delivery::{ExecutionWebhook, KeyEnd, Notification, Webhook};
use callboard_domain::event::EventName;
use callboard_domain::execution::State as ExecutionState;
use callboard_domain::id::Environment;
use callboard_domain::machine::Machine;
use callboard_domain::task::{State, Task};
use callboard_store::Error;

use crate::kernel::ports::{
    ExecutionNotice, KeyEndMail, ReviewerMail, TaskDetails, WebhookContent, WebhookSubject,
};
use crate::node::Node;
use crate::read::{self, runs};
use crate::tables::{self, approvals, executions};

/// The reason why a call for a reviewer is not made.
const DECIDED: &str = "the output does not wait for a reviewer any more";

/// The content of a mail; otherwise the reason why the mail is not needed.
pub(super) async fn letter(
    node: &Node,
    environment: Environment,
    mail: &Mail,
) -> Result<Result<ReviewerMail, &'static str>, Error> {
    let role = node.state.accounts.role_in(environment.slot(), mail.to);
    let Some(user) = node.state.accounts.user(mail.to).filter(|_| role.is_some()) else {
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
        project: node.state.accounts.project_id(environment),
        task: mail.task,
        title: approval.task.title().map(str::to_owned),
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

/// The content of a mail about a key that ends soon; otherwise the reason why the mail is not needed.
pub(super) fn key_end(node: &Node, mail: &KeyEnd) -> Result<KeyEndMail, &'static str> {
    let admin = node.state.accounts.user(mail.to).filter(|user| user.role == Role::Admin);
    let admin = admin.ok_or("the recipient is no admin any more")?;
    let known =
        node.state.accounts.key_by_id(mail.key).filter(|known| known.key.revoked_at.is_none());
    let known = known.ok_or("the key was revoked or rotated")?;
    let key = &known.key;
    Ok(KeyEndMail {
        delivery: mail.id,
        to: admin.email,
        name: admin.name,
        key: key.id,
        key_name: key.name.clone(),
        role: key.role,
        ends_at: key.expires_at,
        last_used_at: known.last_used_at(),
        now: node.now(),
    })
}

/// The content of a webhook; otherwise the reason why it is not needed. Retention keeps an item whose webhook is
/// pending, so only a redelivery can come too late.
pub(super) async fn notice(
    node: &Node,
    environment: Environment,
    notification: &Notification,
) -> Result<Result<WebhookContent, &'static str>, Error> {
    match notification {
        Notification::Webhook(webhook) => of_task(node, environment, webhook).await,
        Notification::ExecutionWebhook(webhook) => {
            Box::pin(of_execution(node, environment, webhook)).await
        }
        Notification::Mail(_) | Notification::KeyEnd(_) => Ok(Err("a mail is no webhook")),
    }
}

/// The content of a task's webhook: the task as it ended, or as it waits for a reviewer.
async fn of_task(
    node: &Node,
    environment: Environment,
    webhook: &Webhook,
) -> Result<Result<WebhookContent, &'static str>, Error> {
    let store = &*node.shard(webhook.task.partition()).store;
    let Some(detail) = read::task(store, environment, webhook.task).await? else {
        return Ok(Err("retention removed the task"));
    };
    if node.state.accounts.is_abandoned(&detail.task.spec.account) {
        return Ok(Err("the user who submitted the task was deleted"));
    }
    let ended_at = detail.task.state.ended_at();
    let is_held = matches!(detail.task.state, State::AwaitingApproval { .. });
    let calls_reviewer = webhook.event == EventName::TaskAwaitingApproval;
    if calls_reviewer && !is_held {
        return Ok(Err(DECIDED));
    }
    if !calls_reviewer && ended_at.is_none() {
        return Ok(Err("the task has not ended"));
    }
    let asks = detail.task.spec.labels.as_ref().is_some_and(|labels| labels.callback_details);
    let details = if asks {
        let approval = approvals::approval(store, environment, webhook.task).await?;
        let review = approval.and_then(|approval| approval.decision);
        Some(Box::new(TaskDetails { task: detail.task.clone(), review }))
    } else {
        None
    };
    let Task { state, result, .. } = &detail.task;
    Ok(Ok(WebhookContent {
        delivery: webhook.id,
        environment,
        project: node.state.accounts.project_id(environment),
        url: webhook.url.clone(),
        event: webhook.event.as_str(),
        about: WebhookSubject::Task(webhook.task, details),
        status: detail.task.status().as_str(),
        output: detail.output.filter(|_| matches!(state, State::Completed { .. })),
        usage: result.as_ref().map(|result| result.usage).unwrap_or_default(),
        ended_at,
        trace: node.trace_of_task(&detail.task),
    }))
}

/// The content of an execution's webhook: the execution as it ended, or with the output that waits for a
/// reviewer.
async fn of_execution(
    node: &Node,
    environment: Environment,
    webhook: &ExecutionWebhook,
) -> Result<Result<WebhookContent, &'static str>, Error> {
    let (store, id) = (&*node.shard(webhook.execution.partition()).store, webhook.execution);
    let Some(head) = executions::head(store, environment, id).await? else {
        return Ok(Err("retention removed the execution"));
    };
    let Some((execution, ..)) = runs::whole(node, environment, id, head).await? else {
        return Ok(Err("retention removed the execution"));
    };
    let spec = Arc::clone(&execution.head.spec);
    if node.state.accounts.is_abandoned(&spec.account) {
        return Ok(Err("the user who started the execution was deleted"));
    }
    let waits = match webhook.held {
        Some(task) => match tables::task(store, environment, task).await? {
            Some(found) if matches!(found.task.state, State::AwaitingApproval { .. }) => {
                let step = found.task.spec.origin.step.as_ref();
                Some((task, step.map(|(_, step)| step.clone()).unwrap_or_default()))
            }
            Some(_) | None => return Ok(Err(DECIDED)),
        },
        None => None,
    };
    let ended_at = execution.head.state.ended_at();
    if waits.is_none() && ended_at.is_none() {
        return Ok(Err("the execution runs again"));
    }
    let is_completed = matches!(execution.head.state, ExecutionState::Completed { .. });
    let output = if is_completed {
        runs::last_output(store, environment, execution.clone()).await?
    } else {
        None
    };
    let name = |step| execution.graph().name(step).to_owned();
    let error = execution.head.error.as_ref().filter(|_| ended_at.is_some());
    let error = error.map(|cause| (cause.ending.clone(), cause.step.map(name)));
    Ok(Ok(WebhookContent {
        delivery: webhook.id,
        environment,
        project: node.state.accounts.project_id(environment),
        url: webhook.url.clone(),
        event: webhook.event.of_execution(),
        status: execution.status().as_str(),
        output,
        usage: execution.usage(),
        ended_at,
        trace: spec.trace.as_deref().copied(),
        about: WebhookSubject::Execution(Box::new(ExecutionNotice { spec, error, held: waits })),
    }))
}
