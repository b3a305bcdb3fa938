//! Human approval (docs/reference/approvals.md).

use callboard_domain::access::{Action as Permission, Caller, allows};
use callboard_domain::account::User;
use callboard_domain::approval::{Approval, Decider, Record, check_four_eyes, check_reopener};
use callboard_domain::delivery::{Notification, Subject};
use callboard_domain::event::EventName;
use callboard_domain::execution::{Use, UseKind};
use callboard_domain::id::{Environment, TaskId, UserId};
use callboard_domain::labels::CallbackEvent;
use callboard_domain::plan::FOREIGN;
use callboard_domain::query::{Approvals, Deliveries, Page, Window};
use callboard_domain::schema::Schema;
use callboard_domain::{Error, Rule, Timestamp};
use serde::de::IgnoredAny;
use tokio::sync::oneshot;

use super::{COMMAND, Handle, within};
use crate::items::approval::{Decision, Message, NextPrompt, refused};
use crate::kernel::address::TaskAddress;
use crate::read::approvals::{self, ApprovalDetail, HistoryEntry};
use crate::read::unreadable;
use crate::tables;

/// The longest prompt of a task, in bytes.
const MAX_PROMPT: usize = 1 << 20;

/// The most webhooks that a refusal names.
const MAX_WEBHOOKS: usize = 10;

/// A reviewer lets an output pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approve {
    /// The deciding user or key.
    pub by: Decider,
    /// The text that replaces the output.
    pub modified_output: Option<String>,
    /// The comment.
    pub comment: Option<String>,
}

/// A reviewer does not let an output pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reject {
    /// The deciding user or key.
    pub by: Decider,
    /// The reason.
    pub reason: String,
    /// True if the task is tried again.
    pub retry: bool,
    /// The prompt of the next try, if it is not to be the one before.
    pub retry_prompt: Option<String>,
}

impl Handle {
    /// Approvals, those that wait for the shortest time first, and their total number.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn approvals(
        &self,
        environment: Environment,
        query: &Approvals,
    ) -> Result<Page<ApprovalDetail>, Error> {
        let page = approvals::approvals(self.node.store(), environment, query).await;
        let mut page = page.map_err(|error| unreadable(&error))?;
        for detail in &mut page.items {
            detail.untested = self.is_untested(environment, &detail.approval);
        }
        Ok(page)
    }

    /// True if an approval waits whose confidence is of an origin that few reviewers decided on.
    fn is_untested(&self, environment: Environment, approval: &Approval) -> bool {
        let record = Record::from(approval);
        record.is_open()
            && record.confidence.is_some()
            && self.node.observers.review_stats.is_untested(environment, &record)
    }

    /// The approval of a task, with all that a reviewer needs.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such task or its output was never held,
    /// [`Error::Unavailable`].
    pub async fn approval(
        &self,
        environment: Environment,
        task: TaskId,
    ) -> Result<ApprovalDetail, Error> {
        let store = &*self.node.shard(task.partition()).store;
        let found = approvals::approval(store, environment, task).await;
        let mut detail = found
            .map_err(|error| unreadable(&error))?
            .ok_or_else(|| Error::not_found("the approval of", task))?;
        detail.untested = self.is_untested(environment, &detail.approval);
        Ok(detail)
    }

    /// The history of an approval, oldest first.
    ///
    /// # Errors
    /// Those of [`Self::approval`].
    pub async fn approval_history(
        &self,
        environment: Environment,
        task: TaskId,
    ) -> Result<Vec<HistoryEntry>, Error> {
        let store = &*self.node.shard(task.partition()).store;
        let history = approvals::history(store, environment, task).await;
        history
            .map_err(|error| unreadable(&error))?
            .ok_or_else(|| Error::not_found("the approval of", task))
    }

    /// Lets a held output pass, as it is or edited: the task is completed, and its execution goes
    /// on with the passed text. After `Ok` the decision survives a power cut, and no other can be made.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::AlreadyDecided`], [`Error::InvalidState`] if nothing waits,
    /// [`Error::Forbidden`] for the submitter's own approval where that is not allowed,
    /// [`Error::Invalid`] if the edit does not match the template's outputSchema,
    /// [`Error::Unavailable`].
    pub async fn approve(
        &self,
        environment: Environment,
        task: TaskId,
        approve: Approve,
    ) -> Result<Approval, Error> {
        let Approve { by, modified_output, comment } = approve;
        let found = self.undecided(environment, task).await?;
        if self.node.settings.approvals.four_eyes {
            let person = |account: &str| self.node.state.accounts.person_of(account);
            check_four_eyes(&found.task, &by, person)?;
        }
        let modified_output = match modified_output {
            Some(answer) if found.is_hidden() => {
                Some(self.blind_answer(environment, &found, answer).await?)
            }
            None if found.is_hidden() => {
                let says = "modifiedOutput is required: the output is hidden, and you give your own answer";
                return Err(Error::invalid("modifiedOutput", Rule::Required, says));
            }
            given => given,
        };
        // An edit that equals the output is none, as it was sent or as it was repaired.
        let is_edit = |edit: &String| found.commit(edit) != found.opening.shown;
        let mut edit = modified_output.filter(is_edit);
        if let (Some(text), true) = (&edit, found.task.work().function().is_some())
            && let Err(error) = serde_json::from_str::<IgnoredAny>(text)
        {
            let message =
                format!("modifiedOutput must be JSON, as the output of a function is: {error}");
            return Err(Error::invalid("modifiedOutput", Rule::Format, message));
        }
        if let (Some(text), true) = (&edit, found.task.checked) {
            let repaired = self.check_edit(environment, &by.account, &found, text).await?;
            edit = repaired.or(edit).filter(is_edit);
        }
        let decision = Decision::Approve { by, edit, comment };
        self.call_approval(environment, task, |reply| Message::Decide(Box::new(decision), reply))
            .await
    }

    /// Does not let a held output pass: the task is rejected, and tried again as another task if
    /// the reviewer wants that. After `Ok` the decision and the new task survive a power cut.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::AlreadyDecided`], [`Error::InvalidState`] if nothing waits,
    /// [`Error::Invalid`] if the next prompt would be too long, [`Error::Unavailable`].
    pub async fn reject(
        &self,
        environment: Environment,
        task: TaskId,
        reject: Reject,
    ) -> Result<Approval, Error> {
        let Reject { by, reason, retry, retry_prompt } = reject;
        let found = self.undecided(environment, task).await?;
        if found.is_hidden() {
            return Err(Error::InvalidState(format!(
                "the output of task {task} is hidden: approve it with your own answer in modifiedOutput"
            )));
        }
        if retry && found.is_unawaited() {
            let says =
                "retry must not be true: the output has passed, and its work went on with it";
            return Err(Error::invalid("retry", Rule::Reserved, says));
        }
        if retry {
            self.check_prompt(environment, task, retry_prompt.as_deref(), &reason).await?;
        }
        let prompt = || retry_prompt.map_or(NextPrompt::AsBefore, NextPrompt::Given);
        let retry = retry.then(prompt);
        let decision = Decision::Reject { by, reason, retry };
        self.call_approval(environment, task, |reply| Message::Decide(Box::new(decision), reply))
            .await
    }

    /// Tells other reviewers for five minutes that this one looks at the output; a claim bars no one.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::AlreadyDecided`], [`Error::InvalidState`] if another reviewer has
    /// claimed it, [`Error::Unavailable`].
    pub async fn claim(
        &self,
        environment: Environment,
        task: TaskId,
        by: Decider,
    ) -> Result<Approval, Error> {
        self.held(environment, task).await?;
        self.call_approval(environment, task, |reply| Message::Claim(by, reply)).await
    }

    /// Takes a claim back; without one, nothing changes.
    ///
    /// # Errors
    /// Those of [`Self::claim`].
    pub async fn release(
        &self,
        environment: Environment,
        task: TaskId,
        by: Decider,
    ) -> Result<Approval, Error> {
        self.held(environment, task).await?;
        self.call_approval(environment, task, |reply| Message::Release(by, reply)).await
    }

    /// Gives the reviewers this time from now on, in milliseconds. An overdue output is no more so.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::AlreadyDecided`], [`Error::InvalidState`] if nothing waits or the time was
    /// extended 32 times, [`Error::Unavailable`].
    pub async fn extend(
        &self,
        environment: Environment,
        task: TaskId,
        by: Decider,
        (timeout_ms, reason): (u64, Option<String>),
    ) -> Result<Approval, Error> {
        self.held(environment, task).await?;
        let message = |reply| Message::Extend(by, timeout_ms, reason, reply);
        self.call_approval(environment, task, message).await
    }

    /// Gives an output to a user who may decide.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `to` is no such user, [`Error::NotFound`], [`Error::AlreadyDecided`],
    /// [`Error::InvalidState`] if nothing waits or the history is full, [`Error::Unavailable`].
    pub async fn assign(
        &self,
        environment: Environment,
        task: TaskId,
        by: Decider,
        to: UserId,
    ) -> Result<Approval, Error> {
        let may = |user: &User| user.id == to && allows(user.role, Permission::HitlDecide);
        if environment.is_test() || !self.users_in(environment.slot()).iter().any(may) {
            let says =
                "must be the id of a user who may decide, as GET /api/hitl/reviewers lists them";
            return Err(Error::invalid("assignee", Rule::Ref, says));
        }
        let held = self.held(environment, task).await?;
        if held.assignee == Some(to) && held.finished().is_none() {
            return Ok(held);
        }
        self.call_approval(environment, task, |reply| Message::Assign(by, to, reply)).await
    }

    /// Takes the decision on an output back: the output is held again, and its execution waits. If it was used, another
    /// decision is asked for beside the first with `may_correct`. One that was opened again and waits stays as it is.
    ///
    /// # Errors
    /// [`Error::OutputUsed`] without `may_correct`, [`Error::NotFound`], [`Error::Forbidden`] for a reviewer whose
    /// decision it is not, [`Error::InvalidState`] if there is no decision, the texts were erased or it was opened again
    /// 16 times, [`Error::AlreadyDecided`] if another decision was made meanwhile, [`Error::Unavailable`].
    pub async fn reopen(
        &self,
        caller: &Caller,
        task: TaskId,
        by: Decider,
        may_correct: bool,
    ) -> Result<Approval, Error> {
        let environment = caller.environment;
        let found = self.held(environment, task).await?;
        if let Some(decision) = &found.decision {
            let person = |account: &str| self.node.state.accounts.person_of(account);
            check_reopener(caller, decision, person)?;
        }
        let decided_at = found.decision.as_ref().map(|decision| decision.at);
        let way = (may_correct, decided_at);
        match self.take_back(environment, task, by, way).await {
            Err(Error::OutputUsed { task: id, mut used_by }) => {
                used_by.extend(self.webhooks_about(environment, &found).await?);
                Err(Error::OutputUsed { task: id, used_by })
            }
            answered => answered,
        }
    }

    /// The webhooks that were ordered of the end of a task, or of that of its execution.
    async fn webhooks_about(
        &self,
        environment: Environment,
        approval: &Approval,
    ) -> Result<Vec<Use>, Error> {
        let of_execution =
            approval.task.origin.step.as_ref().map(|(id, _)| Subject::Execution(*id));
        let since = approval.counting().map_or(approval.opening.since, |decision| decision.at);
        let mut uses = Vec::new();
        for subject in [Subject::Task(approval.id())].into_iter().chain(of_execution) {
            let window = Window { limit: MAX_WEBHOOKS, offset: 0 };
            let query = Deliveries { about: Some(subject), window, ..Deliveries::default() };
            let page = self.deliveries(environment, &query).await?;
            for delivery in page.items {
                let (id, url) = match delivery.notification {
                    Notification::Webhook(it) if it.event != EventName::TaskAwaitingApproval => {
                        (it.id, it.url)
                    }
                    Notification::ExecutionWebhook(it)
                        if it.event != CallbackEvent::AwaitingApproval =>
                    {
                        (it.id, it.url)
                    }
                    Notification::Webhook(_)
                    | Notification::ExecutionWebhook(_)
                    | Notification::Mail(_)
                    | Notification::KeyEnd(_) => continue,
                };
                let (at, id, name) = (id.created_at(), id.to_string(), Some(url));
                if at >= since {
                    uses.push(Use { kind: UseKind::Webhook, id, name, at });
                }
            }
        }
        Ok(uses)
    }

    /// The approval of a task, as it is stored; the error names the state that is there instead.
    async fn held(&self, environment: Environment, task: TaskId) -> Result<Approval, Error> {
        self.admit()?;
        let store = &*self.node.shard(task.partition()).store;
        let found = tables::approvals::approval(store, environment, task).await;
        if let Some(approval) = found.map_err(|error| unreadable(&error))? {
            return Ok(approval);
        }
        let status = self.task(environment, task).await?.task.status();
        let status = status.as_str();
        Err(Error::InvalidState(format!(
            "task {task} is {status} and does not wait for a reviewer"
        )))
    }

    /// Takes back the decision that was made then.
    pub(crate) async fn take_back(
        &self,
        environment: Environment,
        task: TaskId,
        by: Decider,
        (may_correct, decided_at): (bool, Option<Timestamp>),
    ) -> Result<Approval, Error> {
        let message = |reply| Message::Reopen { by, may_correct, decided_at, reply };
        self.call_approval(environment, task, message).await
    }

    /// An approval that nobody has decided. One that is decided is refused here, with nothing checked: its decision may
    /// be taken back before the next one comes to its turn.
    async fn undecided(&self, environment: Environment, task: TaskId) -> Result<Approval, Error> {
        let found = self.held(environment, task).await?;
        match found.finished() {
            Some(refusal) => Err(refused(task, refusal)),
            None => Ok(found),
        }
    }

    /// The output with the answer of a reviewer who did not see it.
    async fn blind_answer(
        &self,
        environment: Environment,
        approval: &Approval,
        answer: String,
    ) -> Result<String, Error> {
        let found = tables::task(self.node.store(), environment, approval.id()).await;
        let found = found.map_err(|error| unreadable(&error))?;
        let Some(mut found) = found else { return Err(Error::not_found("task", approval.id())) };
        let output = found.output(self.node.store(), environment).await;
        let output = output.map_err(|error| unreadable(&error))?.unwrap_or_default();
        Ok(approval.opening.way.answered(&output, answer))
    }

    pub(super) async fn call_approval(
        &self,
        environment: Environment,
        task: TaskId,
        message: impl FnOnce(oneshot::Sender<Result<Approval, Error>>) -> Message,
    ) -> Result<Approval, Error> {
        let (reply, answer) = oneshot::channel();
        let address = TaskAddress { environment, task };
        self.node.shard(task.partition()).approvals.send(address, message(reply));
        within(COMMAND, answer).await?
    }

    /// An edited output must match the task's output schema. Returns the repaired text, if the edit
    /// was not JSON as it came.
    async fn check_edit(
        &self,
        environment: Environment,
        account: &str,
        approval: &Approval,
        edit: &str,
    ) -> Result<Option<String>, Error> {
        let Some(schema) = self.schema_of(environment, approval).await? else { return Ok(None) };
        let checked = self.node.kernel.compute.check(environment, account, &schema, edit).await;
        let checked = checked.map_err(|_| Error::Internal)?;
        checked.map_err(|wrong| {
            let message = format!("modifiedOutput must match the outputSchema: {wrong}");
            Error::invalid("modifiedOutput", Rule::Format, message)
        })
    }

    /// The output schema of a held task.
    async fn schema_of(
        &self,
        environment: Environment,
        approval: &Approval,
    ) -> Result<Option<Schema>, Error> {
        let task = &approval.task;
        let own = self.task(environment, task.id).await?.inputs.output_schema;
        let (None, Some((execution, step))) = (&own, &task.origin.step) else { return Ok(own) };
        // The task was stored before tasks had schemas of their own.
        let compiled = approvals::plan_of(&self.node, environment, *execution).await;
        Ok(compiled.map_err(|error| unreadable(&error))?.and_then(|compiled| {
            let position = u16::try_from(compiled.plan.position(step)?).ok()?;
            compiled.schema_of(position).cloned()
        }))
    }

    async fn check_prompt(
        &self,
        environment: Environment,
        task: TaskId,
        given: Option<&str>,
        reason: &str,
    ) -> Result<(), Error> {
        let inputs = self.task(environment, task).await?.inputs;
        if let (Some(_), Some(_)) = (&inputs.args, given) {
            let message = format!("retryPrompt {FOREIGN}: leave it out to call it again");
            return Err(Error::invalid("retryPrompt", Rule::Unknown, message));
        }
        let length = given.map_or(inputs.prompt.len(), str::len);
        if length + reason.len() + "\n\nFeedback:\n".len() > MAX_PROMPT {
            let message = format!(
                "the prompt with the reason behind it must have at most {MAX_PROMPT} bytes"
            );
            return Err(Error::invalid("retryPrompt", Rule::Length, message));
        }
        Ok(())
    }
}
