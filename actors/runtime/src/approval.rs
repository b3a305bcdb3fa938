//! An approval's actor: it alone changes the approval, and every decision about a held output goes
//! through it, whatever its channel.
//!
//! ```text
//!   a decision ─▶ this machine ─▶ the task's actor ─▶ (its execution) ─▶ one commit of all three
//! ```
//!
//! Made by its task's step that brings the output; spawned by its shard's supervisor when a message
//! or an instant finds no awake actor; stops after each message, for while it waits it is a row. It
//! waits for its task's actor, never the other way round. Deliberately absent: every rule
//! ([`callboard_domain::approval`] decides).

mod again;
mod opening;

use std::sync::Arc;

use callboard_domain::Error;
use callboard_domain::approval::{
    Approval, Decider, Effect, Event, Record, Refusal, SYSTEM, TIMED_OUT, Wanted,
};
use callboard_domain::digest::Digest;
use callboard_domain::id::TaskId;
use callboard_domain::machine::{Machine, Step};
use callboard_domain::task::{self, Task};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use crate::durable::{Durable, Persist, Unchanged};
use crate::node::Node;
use crate::shard::{Address, Shard};
use crate::supervisor::{Birth, Kind, Reason};
use crate::tables::approvals::{self, Written};
use crate::task::{Alongside, Judgement};
use crate::{delivery, task as tasks, timers};

pub(crate) use again::NextPrompt;
pub(crate) use opening::Gated;

type Reply = oneshot::Sender<Result<Approval, Error>>;

/// What an approval is told.
#[derive(Debug)]
pub(crate) enum Message {
    /// A reviewer decides.
    Decide(Box<Ruling>, Reply),
    /// A reviewer looks at it.
    Claim(Decider, Reply),
    /// A reviewer has turned away.
    Release(Decider, Reply),
    /// Its task is to stop.
    TaskStops(Stop),
    /// Its task has ended without it.
    TaskEnded,
    /// An instant passed that it had asked for.
    TimePassed,
}

/// What a reviewer decides.
#[derive(Debug)]
pub(crate) struct Ruling {
    /// Who.
    pub(crate) by: Decider,
    /// What.
    pub(crate) verdict: Verdict,
}

/// Whether an output counts, with what was written.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It does.
    Approve {
        /// The text that replaces it.
        edit: Option<String>,
        /// What is said to it.
        comment: Option<String>,
    },
    /// It does not.
    Reject {
        /// Why.
        reason: String,
        /// Whether it is tried again, and what is asked then.
        retry: Option<NextPrompt>,
    },
}

/// Why a task is to stop that waits for a reviewer.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Somebody cancels it.
    Cancelled(String, oneshot::Sender<Result<Task, Error>>),
    /// Its execution has let go of it.
    LetGo,
}

/// Approvals, for their supervisor.
#[derive(Debug)]
pub(crate) struct ApprovalKind(pub(crate) Arc<Node>);

impl Kind for ApprovalKind {
    type Address = Address;
    type Actor = ApprovalActor;
    const NAME: &'static str = "approval";

    fn actor(&self) -> ApprovalActor {
        ApprovalActor(Arc::clone(&self.0))
    }
}

/// The actor.
#[derive(Debug)]
pub(crate) struct ApprovalActor(Arc<Node>);

/// What the actor remembers.
pub(crate) struct State {
    birth: Birth<ApprovalKind>,
    /// `None` if the output of the task is not held.
    approval: Option<Durable<Approval>>,
    handled: u64,
}

type Done = Result<(), ActorProcessingErr>;

/// What the task made of a decision; `Ok` is the ended task.
type Judged = Result<Task, task::Refusal>;

impl ApprovalActor {
    fn shard(&self, state: &State) -> &Shard {
        self.0.shard(state.birth.address.task.partition())
    }

    async fn load(&self, state: &mut State) -> Done {
        let Address { environment, task } = state.birth.address;
        let found = approvals::approval(&*self.shard(state).store, environment, task).await?;
        state.approval = found.map(|approval| Durable::loaded(environment, approval));
        Ok(())
    }

    async fn decide(
        &self,
        state: &mut State,
        Ruling { by, verdict }: Ruling,
        reply: Reply,
    ) -> Done {
        let Some(approval) = &state.approval else {
            // The client may have left, here and below.
            let _ = reply.send(Err(not_held(state.birth.address.task)));
            return Ok(());
        };
        if let Some(refusal) = approval.state().finished() {
            let _ = reply.send(Err(refused(state.birth.address.task, refusal)));
            return Ok(());
        }
        let now = self.0.now();
        let (event, judgement, written, again) = match verdict {
            Verdict::Approve { edit, comment } => {
                let digest = |text: &Option<String>| text.as_deref().map(Digest::of);
                let event = Event::Approved { by, edit: digest(&edit), comment: digest(&comment) };
                let judgement = task::Event::Approved { edited: edit.is_some() };
                (event, judgement, Written { edit, remark: comment }, None)
            }
            Verdict::Reject { reason, retry } => {
                let again = match retry {
                    Some(prompt) => Some(self.again(state, &prompt, &reason).await?),
                    None => None,
                };
                let retry = again.as_ref().map(|again| again.retry.task);
                let event = Event::Rejected { by, reason: Digest::of(&reason), retry };
                let judgement = task::Event::Rejected { reason: reason.clone() };
                (event, judgement, Written { edit: None, remark: Some(reason) }, again)
            }
        };
        let step = match approval.state().transition(event, now) {
            Ok(step) => step,
            Err(refusal) => {
                let _ = reply.send(Err(refused(state.birth.address.task, refusal)));
                return Ok(());
            }
        };
        let mut along = Alongside { edit: written.edit.clone(), ..Alongside::default() };
        along.rows = Approval::rows(&step, state.birth.address.environment, now, written);
        let departing = again.map_or_else(Vec::new, |again| {
            along.rows.extend(again.rows);
            along.retry = Some(again.retry);
            self.0.remember(vec![again.born])
        });
        let answer = match self.judge(state, judgement, along, Some(step)).await? {
            Ok(_) => {
                self.0.send_on_their_way(departing);
                let approval = state.approval.as_ref().expect("it was there above");
                Ok(approval.state().clone())
            }
            Err(refusal) => Err(Error::InvalidState(format!(
                "task {} is no longer held: {refusal:?}",
                state.birth.address.task
            ))),
        };
        let _ = reply.send(answer);
        Ok(())
    }

    /// Has the task take the step that goes with one of the approval, both in one commit.
    async fn judge(
        &self,
        state: &mut State,
        event: task::Event,
        along: Alongside,
        step: Option<Step<Approval>>,
    ) -> Result<Judged, ActorProcessingErr> {
        let address = state.birth.address;
        let (reply, judged) = oneshot::channel();
        let judgement = Judgement { event, along, reply };
        self.0.send(address, tasks::Message::Judged(Box::new(judgement)));
        let judged = judged.await.map_err(|_| "its task broke")?;
        if let (Ok(_), Some(step), Some(approval)) = (&judged, step, &mut state.approval) {
            let before = Record::from(approval.state());
            approval.follow(step.next);
            became(&self.0, address, Some(&before), approval.state(), step.effects);
        }
        Ok(judged)
    }

    /// Takes a step that concerns nobody but the approval. `Ok(Err(_))` is a refusal.
    async fn take(
        &self,
        state: &mut State,
        event: Event,
    ) -> Result<Result<(), Refusal>, ActorProcessingErr> {
        let address = state.birth.address;
        let shard = self.0.shard(address.task.partition());
        let Some(approval) = &mut state.approval else { return Ok(Err(Refusal::Cancelled)) };
        let before = Record::from(approval.state());
        match approval.take(shard, event, self.0.now(), Written::default()).await {
            Ok(effects) => {
                became(&self.0, address, Some(&before), approval.state(), effects);
                Ok(Ok(()))
            }
            Err(Unchanged::Refused(refusal)) => Ok(Err(refusal)),
            Err(Unchanged::Broken(error)) => Err(error.into()),
        }
    }

    async fn claim(&self, state: &mut State, event: Event, reply: Reply) -> Done {
        let id = state.birth.address.task;
        let taken = self.take(state, event).await?;
        let answer = match (taken, &state.approval) {
            (_, None) => Err(not_held(id)),
            (Ok(()) | Err(Refusal::NotClaimed), Some(approval)) => Ok(approval.state().clone()),
            (Err(refusal), Some(_)) => Err(refused(id, refusal)),
        };
        let _ = reply.send(answer);
        Ok(())
    }

    /// The step of an approval whose task ends without a decision, and its rows. There is none if it
    /// was decided a moment before: then the task says so.
    fn ended(&self, state: &State, by: &str) -> (Option<Step<Approval>>, Alongside) {
        let (environment, now) = (state.birth.address.environment, self.0.now());
        let ended = Event::TaskEnded { by: by.to_owned() };
        let approval = state.approval.as_ref().map(Durable::state);
        let step = approval.and_then(|approval| approval.transition(ended, now).ok());
        let rows = |step| Approval::rows(step, environment, now, Written::default());
        let rows = step.as_ref().map(rows).unwrap_or_default();
        (step, Alongside { rows, ..Alongside::default() })
    }

    async fn task_stops(&self, state: &mut State, why: Stop) -> Done {
        let address = state.birth.address;
        let by = match &why {
            Stop::Cancelled(by, _) => by,
            Stop::LetGo => SYSTEM,
        };
        let (step, along) = self.ended(state, by);
        let judged = self.judge(state, task::Event::CancelRequested, along, step).await?;
        match why {
            Stop::Cancelled(_, reply) => {
                let _ = reply.send(tasks::cancelled(address.task, judged));
            }
            // It has ended otherwise, which its execution is yet to hear.
            Stop::LetGo if judged.is_err() => self.0.send(address, tasks::Message::Stop),
            Stop::LetGo => {}
        }
        Ok(())
    }

    async fn time_passed(&self, state: &mut State) -> Done {
        let Some(approval) = &state.approval else { return Ok(()) };
        let address = state.birth.address;
        let before = approval.state().assignee;
        let asked = self.0.asked(address, Wanted::AdminBut(before));
        let now = self.0.now();
        let step = match approval.state().transition(Event::TimePassed { asked }, now) {
            Ok(step) if step.next.is_finished() => step,
            Ok(_) => {
                // The same transition again, now to be committed.
                let _ = self.take(state, Event::TimePassed { asked }).await?;
                return Ok(());
            }
            // The clock went back after the timer had fired, or it was decided a moment before.
            Err(_) => {
                let (approval, owed) = (approval.state(), approval.state().outstanding());
                self.0.reviewers.assign(address, before.filter(|_| !approval.is_finished()));
                perform(&self.0, address, owed);
                return Ok(());
            }
        };
        let written = Written { edit: None, remark: Some(TIMED_OUT.to_owned()) };
        let rows = Approval::rows(&step, address.environment, now, written);
        let along = Alongside { rows, ..Alongside::default() };
        let event = task::Event::Rejected { reason: TIMED_OUT.to_owned() };
        // Refused when the task has ended meanwhile.
        let _ = self.judge(state, event, along, Some(step)).await?;
        Ok(())
    }

    /// Its actor broke too often: its task fails, and the rest goes on.
    async fn give_up(&self, state: &mut State) -> Done {
        let (step, along) = self.ended(state, SYSTEM);
        let _ = self.judge(state, task::Event::GivenUp, along, step).await?;
        Ok(())
    }

    fn recover(&self, state: &State) {
        if let Some(approval) = &state.approval {
            let owed = approval.state().outstanding();
            perform(&self.0, state.birth.address, owed);
        }
    }
}

/// Keeps the track record of a step that is durable now, and performs what follows.
fn became(
    node: &Node,
    address: Address,
    before: Option<&Record>,
    approval: &Approval,
    effects: Vec<Effect>,
) {
    node.track.changed(address.environment, address.task, before, &Record::from(approval));
    perform(node, address, effects);
}

/// Performs effects, also of approvals that are passive, at a start.
pub(crate) fn perform(node: &Node, address: Address, effects: Vec<Effect>) {
    let sleeper = timers::Sleeper::Approval(address);
    let shard = node.shard(address.task.partition());
    for effect in effects {
        match effect {
            Effect::WakeAt(at) => shard.timers(timers::Message::Set(sleeper, at)),
            Effect::ForgetWake => shard.timers(timers::Message::Forget(sleeper)),
            Effect::Assign(user) => node.reviewers.assign(address, user),
            Effect::Mail(mail) => delivery::begin(node, address.environment, &mail),
        }
    }
}

fn not_held(task: TaskId) -> Error {
    Error::InvalidState(format!("task {task} waits for no reviewer"))
}

/// What a reviewer is told whose wish is refused.
fn refused(task: TaskId, refusal: Refusal) -> Error {
    match refusal {
        Refusal::AlreadyDecided { by, at } => {
            Error::AlreadyDecided { task: task.to_string(), by, at }
        }
        Refusal::Cancelled => {
            Error::InvalidState(format!("task {task} was ended before anybody decided"))
        }
        Refusal::ClaimedBy { by, until } => {
            Error::InvalidState(format!("the approval of {task} is claimed by {by} until {until}"))
        }
        Refusal::NotClaimed | Refusal::NotDue => not_held(task),
    }
}

impl Actor for ApprovalActor {
    type Msg = Message;
    type State = State;
    type Arguments = Birth<ApprovalKind>;

    async fn pre_start(
        &self,
        _: ActorRef<Message>,
        birth: Birth<ApprovalKind>,
    ) -> Result<State, ActorProcessingErr> {
        Ok(State { birth, approval: None, handled: 0 })
    }

    async fn post_start(&self, myself: ActorRef<Message>, state: &mut State) -> Done {
        self.load(state).await?;
        match state.birth.reason {
            Reason::Woken => return Ok(()),
            Reason::Restarted => self.recover(state),
            Reason::GivenUp => self.give_up(state).await?,
        }
        rest(&myself, state);
        Ok(())
    }

    async fn handle(&self, myself: ActorRef<Message>, message: Message, state: &mut State) -> Done {
        state.handled += 1;
        match message {
            Message::Decide(ruling, reply) => self.decide(state, *ruling, reply).await?,
            Message::Claim(by, reply) => self.claim(state, Event::Claimed { by }, reply).await?,
            Message::Release(by, reply) => self.claim(state, Event::Released { by }, reply).await?,
            Message::TaskStops(stop) => self.task_stops(state, stop).await?,
            Message::TaskEnded => {
                // Refused when it was decided before.
                let _ = self.take(state, Event::TaskEnded { by: SYSTEM.to_owned() }).await?;
            }
            Message::TimePassed => self.time_passed(state).await?,
        }
        rest(&myself, state);
        Ok(())
    }
}

/// Stops: while it waits it is a row.
fn rest(myself: &ActorRef<Message>, state: &State) {
    state.birth.directory.retire(&state.birth.address, state.handled, myself);
}
