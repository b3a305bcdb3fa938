//! An approval's actor: the only writer of the approval. Every decision about a held output goes
//! through it, from every channel.
//!
//! ```text
//!   a decision ─▶ the approval joins ─▶ its task joins ─▶ (its execution) ─▶ one commit of them all
//! ```
//!
//! The unit in which the task's output comes creates the approval. The shard's supervisor spawns the actor when a
//! message or a timer finds none awake; the actor retires after each message, because a waiting approval is a row.

use std::sync::Arc;

use callboard_domain::approval::{
    Approval, Assignee, Decider, Event, MAX_EXTENSIONS, MAX_REOPENED, Record, Refusal, ReviewWay,
    ReviewerPool, SYSTEM, State, prompt_again,
};
use callboard_domain::id::TaskId;
use callboard_domain::machine::Machine;
use callboard_domain::task::{self, Inputs};
use callboard_domain::unit::{self, Items, NextTry, Sources};
use callboard_domain::{Error, Timestamp};
use ractor::ActorProcessingErr;

use crate::commit::sources::NodeSources;
use crate::commit::{durable, effects};
use crate::items::task as tasks;
use crate::kernel::address::TaskAddress;
use crate::kernel::item::{Activation, Done, Item};
use crate::kernel::join::{Committed, Join, Joined};
use crate::kernel::supervisor::Reason;
pub(crate) use crate::messages::approval::{Decision, Message, NextPrompt, Reply, Stop};
use crate::node::Node;
use crate::tables::{self, REVIEW_RECORDS, approvals};

/// An approval in the memory of its actor; `None` if the output of the task is not held.
#[derive(Default)]
pub(crate) struct ApprovalItem(Option<Approval>);

impl Item for ApprovalItem {
    const NAME: &'static str = "approval";
    type Address = TaskAddress;
    type Message = Message;
    type Shared = Node;

    fn new(_: &Arc<Node>, _: &TaskAddress) -> Self {
        Self::default()
    }

    async fn start(held: &mut Activation<Self>, reason: Reason) -> Done {
        let TaskAddress { environment, task } = held.address;
        let shard = held.node.shard(task.partition());
        // The texts of the task are being erased.
        shard.leaving_approvals.decided(&held.address).await;
        let store = &*shard.store;
        held.item.0 = approvals::approval(store, environment, task).await?;
        match reason {
            Reason::Woken => {}
            Reason::Restarted => held.recover(),
            // The actor broke too often: its task fails, and the rest goes on.
            Reason::GivenUp if held.is_unawaited() => held.end_alone().await?,
            Reason::GivenUp => drop(held.end_held(SYSTEM, task::Event::GivenUp).await?),
        }
        Ok(())
    }

    async fn handle(held: &mut Activation<Self>, message: Message) -> Done {
        match message {
            Message::Ask(way, reply) => held.ask(way, reply).await?,
            Message::Reopen { by, may_correct, decided_at, reply } => {
                held.reopen(by, may_correct, decided_at, reply).await?;
            }
            Message::Decide(decision, reply) => held.decide(*decision, reply).await?,
            Message::Claim(by, reply) => {
                held.answer(unit::Event::Approval(Event::Claimed { by }), reply).await?;
            }
            Message::Release(by, reply) => {
                held.answer(unit::Event::Approval(Event::Released { by }), reply).await?;
            }
            Message::Extend(by, timeout_ms, reason, reply) => {
                held.answer(unit::Event::Extend { by, timeout_ms, reason }, reply).await?;
            }
            Message::Assign(by, to, reply) => {
                let by_mail = held.node.kernel.ports.mailer.is_some();
                let asked = Assignee { reviewer: Some(to), by_mail };
                held.answer(unit::Event::Approval(Event::Assigned { by, asked }), reply).await?;
            }
            Message::AssigneeGone => held.find_another().await?,
            Message::TaskStops(stop) => held.task_stops(stop).await?,
            Message::TaskEnded => held.end_alone().await?,
            Message::TimePassed => held.time_passed().await?,
        }
        Ok(())
    }

    fn is_idle(&self) -> bool {
        true
    }
}

impl Activation<ApprovalItem> {
    fn is_unawaited(&self) -> bool {
        self.item.0.as_ref().is_some_and(Approval::is_unawaited)
    }

    /// Opens a review of an output that has passed; one that was opened before stays as it is.
    async fn ask(&mut self, way: ReviewWay, reply: Reply) -> Done {
        let TaskAddress { environment, task: id } = self.address;
        let store = &*self.node.shard(id.partition()).store;
        let opened = match tables::task(store, environment, id).await? {
            Some(found) if found.task.erased_at.is_some() => Err(not_held(id)),
            Some(mut found) => {
                let output = found.output(store, environment).await?.unwrap_or_default();
                let before: Option<Record> =
                    REVIEW_RECORDS.get(store, environment.number(), &id.as_u128()).await?;
                let event = unit::Event::AskReview { output, way, before };
                let taken = self.take(Some(&found.task), event).await?;
                taken.map_err(|refusal| refused_all(id, refusal))
            }
            None => Err(Error::not_found("task", id)),
        };
        let opened = opened.and_then(|()| self.item.0.clone().ok_or_else(|| not_held(id)));
        let _ = reply.send(opened);
        Ok(())
    }

    /// Opens the output again. One that was opened again and waits stays as it is, so a repeated request is one.
    async fn reopen(
        &mut self,
        by: Decider,
        may_correct: bool,
        decided_at: Option<Timestamp>,
        reply: Reply,
    ) -> Done {
        let TaskAddress { environment, task: id } = self.address;
        if let Some(approval) = &self.item.0
            && approval.decision.as_ref().is_some_and(|it| Some(it.at) != decided_at)
        {
            let refusal = approval.finished().unwrap_or(Refusal::Undecided);
            let _ = reply.send(Err(refused(id, refusal)));
            return Ok(());
        }
        let is_open_again = |it: &Approval| it.reopened > 0 && !it.is_finished();
        let is_alone = self.item.0.as_ref().is_some_and(|it| it.opening.is_requested());
        let reopened = if self.item.0.as_ref().is_some_and(is_open_again) {
            Ok(())
        } else {
            let store = &*self.node.shard(id.partition()).store;
            let found = tables::task(store, environment, id).await?;
            if found.is_none_or(|found| found.task.erased_at.is_some()) {
                let message =
                    format!("the texts of task {id} were erased, so nobody can judge them");
                let _ = reply.send(Err(Error::InvalidState(message)));
                return Ok(());
            }
            let event = unit::Event::Reopen { by: by.clone() };
            let taken = match self.item.0 {
                None => Err(Refusal::Cancelled.into()),
                Some(_) if is_alone => self.take(None, event).await?,
                Some(_) => self.join(event).await?.map(drop),
            };
            match taken {
                Err(unit::Refusal::Used(_)) if may_correct => {
                    self.take(None, unit::Event::Correct { by }).await?
                }
                taken => taken,
            }
        };
        let reopened = reopened.map_err(|refusal| refused_all(id, refusal));
        let answer = reopened.and_then(|()| self.item.0.clone().ok_or_else(|| not_held(id)));
        // The client may have left.
        let _ = reply.send(answer);
        Ok(())
    }

    /// Ends the approval without its task. Refused if it was decided before.
    async fn end_alone(&mut self) -> Done {
        let ended = Event::TaskEnded { by: SYSTEM.to_owned() };
        let _ = self.take(None, unit::Event::Approval(ended)).await?;
        Ok(())
    }

    async fn decide(&mut self, decision: Decision, reply: Reply) -> Done {
        let id = self.address.task;
        let finished = match &self.item.0 {
            None => Some(not_held(id)),
            Some(approval) => approval.finished().map(|refusal| refused(id, refusal)),
        };
        if let Some(error) = finished {
            // The client may have left, here and below.
            let _ = reply.send(Err(error));
            return Ok(());
        }
        let event = match decision {
            Decision::Approve { by, edit, comment } => unit::Event::Approve { by, edit, comment },
            Decision::Reject { by, reason, retry } => {
                let retry = match retry {
                    Some(prompt) => Some(self.next_try(&prompt, &reason).await?),
                    None => None,
                };
                unit::Event::Reject { by, reason, retry }
            }
        };
        let decided = if self.is_unawaited() {
            self.take(None, event).await?
        } else {
            self.join(event).await?.map(drop)
        };
        let decided = decided.map_err(|refusal| refused_all(id, refusal));
        let answer = decided.and_then(|()| self.item.0.clone().ok_or_else(|| not_held(id)));
        let _ = reply.send(answer);
        Ok(())
    }

    /// The task that tries again, with the reviewer's words in its prompt.
    async fn next_try(
        &self,
        prompt: &NextPrompt,
        reason: &str,
    ) -> Result<NextTry, ActorProcessingErr> {
        let TaskAddress { environment, task } = self.address;
        let store = &*self.node.shard(task.partition()).store;
        let inputs = tables::inputs(store, environment, task).await?;
        if inputs.args.is_some() {
            // A function is called again with the same args: it reads no words.
            return Ok(NextTry { inputs, rewritten: false });
        }
        let given = match prompt {
            NextPrompt::AsBefore => None,
            NextPrompt::Given(prompt) => Some(prompt.as_str()),
        };
        let prompt = prompt_again(&inputs.prompt, given, reason);
        Ok(NextTry { inputs: Inputs { prompt, ..inputs }, rewritten: given.is_some() })
    }

    /// Makes the task decide an event together with the approval, and takes the next state from the unit.
    async fn join(&mut self, event: unit::Event) -> Result<Joined, ActorProcessingErr> {
        let mut join = Join::alone(event);
        join.approval = self.item.0.clone().map(Box::new);
        let answer = join.participate();
        self.node.send(self.address, tasks::Message::Join(Box::new(join)));
        let joined = answer.await.map_err(|_| "its task broke")?;
        if let Ok(Committed { approval: Some(approval), .. }) = &joined {
            self.item.0 = Some(Approval::clone(approval));
        }
        Ok(joined)
    }

    async fn end_held(
        &mut self,
        by: &str,
        event: task::Event,
    ) -> Result<Joined, ActorProcessingErr> {
        self.join(unit::Event::EndHeld { by: by.to_owned(), event }).await
    }

    /// Takes a step that changes the approval alone. `Ok(Err(_))` is a refusal.
    async fn take(
        &mut self,
        completed: Option<&task::Task>,
        event: unit::Event,
    ) -> Result<Result<(), unit::Refusal>, ActorProcessingErr> {
        let TaskAddress { environment, task } = self.address;
        let partition = task.partition();
        let mut sources = NodeSources::of(&self.node, environment, partition);
        let items = Items { task: completed, approval: self.item.0.as_ref() };
        let unit = match unit::decide(items, event, self.node.now(), &mut sources) {
            Ok(unit) => unit,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let unit =
            durable::commit(&self.node, environment, partition, unit, sources.reserved).await?;
        for change in unit.changes {
            if let unit::Change::Approval(step, _) = change {
                self.item.0 = Some(step.next);
            }
        }
        Ok(Ok(()))
    }

    /// Assigns the output to somebody else, if whom it was assigned to has left the project.
    async fn find_another(&mut self) -> Done {
        let Some(approval) = self.item.0.as_ref().filter(|it| !it.is_finished()) else {
            return Ok(());
        };
        let slot = self.address.environment.slot();
        let has_left = |user| self.node.state.accounts.role_in(slot, user).is_none();
        if !approval.assignee.is_some_and(has_left) {
            return Ok(());
        }
        let wanted = match approval.state {
            State::Escalated | State::Expired => ReviewerPool::AdminBut(approval.assignee),
            State::Pending
            | State::Assigned
            | State::Approved
            | State::Rejected
            | State::Cancelled => ReviewerPool::Anybody,
        };
        let TaskAddress { environment, task } = self.address;
        let mut sources = NodeSources::of(&self.node, environment, task.partition());
        let asked = sources.ask(&approval.task, wanted);
        let by = Decider { account: SYSTEM.to_owned(), reviewer: None, bulk: None };
        // Refused if the history is full: then an admin is asked when it escalates.
        drop(self.take(None, unit::Event::Approval(Event::Assigned { by, asked })).await?);
        Ok(())
    }

    /// Takes a step that concerns the approval alone, and answers with its state.
    async fn answer(&mut self, event: unit::Event, reply: Reply) -> Done {
        let id = self.address.task;
        let taken = self.take(None, event).await?;
        let answer = match (taken, &self.item.0) {
            (Ok(()) | Err(unit::Refusal::Approval(Refusal::NotClaimed)), Some(approval)) => {
                Ok(approval.clone())
            }
            (Err(unit::Refusal::Approval(refusal)), Some(_)) => Err(refused(id, refusal)),
            (
                Err(
                    unit::Refusal::Task(_) | unit::Refusal::NotAdmitted(_) | unit::Refusal::Used(_),
                ),
                Some(_),
            )
            | (_, None) => Err(not_held(id)),
        };
        let _ = reply.send(answer);
        Ok(())
    }

    async fn task_stops(&mut self, why: Stop) -> Done {
        let by = match &why {
            Stop::Cancelled(by, _) => by.as_str(),
            Stop::LetGo => SYSTEM,
        };
        let joined = self.end_held(by, task::Event::CancelRequested).await?;
        let id = self.address.task;
        match why {
            Stop::Cancelled(_, reply) => {
                let _ = reply.send(tasks::cancelled(id, joined.map(|committed| committed.task)));
            }
            // The task has ended otherwise, which its execution has yet to hear.
            Stop::LetGo if joined.is_err() => self.node.send(self.address, tasks::Message::Stop),
            Stop::LetGo => {}
        }
        Ok(())
    }

    async fn time_passed(&mut self) -> Done {
        let Some(approval) = &self.item.0 else { return Ok(()) };
        let taken = if approval.rejects_at(self.node.now()) {
            self.join(unit::Event::ReviewTimePassed).await?.map(|_| ())
        } else {
            self.take(None, unit::Event::ReviewTimePassed).await?
        };
        if let Err(unit::Refusal::Approval(_)) = taken {
            // The clock went back after the timer had fired, or it was decided a moment before.
            self.recover();
        }
        Ok(())
    }

    fn recover(&mut self) {
        if let Some(approval) = &self.item.0 {
            approval
                .outstanding()
                .into_iter()
                .for_each(|effect| effects::of_approvals(&self.node, self.address, effect));
        }
    }
}

fn not_held(task: TaskId) -> Error {
    Error::InvalidState(format!("task {task} does not wait for a reviewer"))
}

/// The answer to a request that is refused.
fn refused_all(task: TaskId, refusal: unit::Refusal) -> Error {
    match refusal {
        unit::Refusal::Approval(refusal) => refused(task, refusal),
        unit::Refusal::Task(_) => not_held(task),
        unit::Refusal::NotAdmitted(error) => *error,
        unit::Refusal::Used(used_by) => Error::OutputUsed { task: task.to_string(), used_by },
    }
}

/// The answer to a reviewer whose request is refused.
pub(crate) fn refused(task: TaskId, refusal: Refusal) -> Error {
    match refusal {
        Refusal::AlreadyDecided { by, at } => {
            Error::AlreadyDecided { task: task.to_string(), by, at }
        }
        Refusal::AlreadyAsked => {
            Error::InvalidState(format!("a review of task {task} was asked for before: decide it"))
        }
        Refusal::Cancelled => {
            Error::InvalidState(format!("task {task} ended before anybody decided"))
        }
        Refusal::ClaimedBy { by, until } => {
            Error::InvalidState(format!("the approval of {task} is claimed by {by} until {until}"))
        }
        Refusal::Undecided => Error::InvalidState(format!(
            "task {task} waits for a decision: there is none to take back"
        )),
        Refusal::StillStopping => Error::InvalidState(format!(
            "the step of task {task} has a task that is being stopped: try again in a moment"
        )),
        Refusal::ReopenedTooOften => Error::InvalidState(format!(
            "the output of task {task} was reopened {MAX_REOPENED} times, which is the limit: its decision stays"
        )),
        Refusal::AssignedTooOften => Error::InvalidState(format!(
            "the history of the approval of {task} is full: decide it, or cancel the task"
        )),
        Refusal::ExtendedTooOften => Error::InvalidState(format!(
            "the time to review task {task} was extended {MAX_EXTENSIONS} times, which is the limit: decide \
             it, or cancel the task"
        )),
        Refusal::NotClaimed | Refusal::NotDue => not_held(task),
    }
}
