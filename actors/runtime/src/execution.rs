//! An execution's actor: it alone changes the execution, and commits the end of its tasks with what
//! follows from it.
//!
//! ```text
//!   a task ends ─▶ waits here ─▶ one commit: the task's rows, the steps', the next tasks' ─▶ effects
//!                    ▲                │
//!                    └── what comes while a commit is under way goes into the next
//! ```
//!
//! Spawned by its shard's supervisor when a message finds no awake actor; stops when it has ended, or
//! when nothing came for a while: an execution that waits for workers or reviewers is rows. Deliberately
//! absent: every rule ([`callboard_domain::execution`] decides), and its tasks' supervision: they are
//! awake while it sleeps.

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::Error;
use callboard_domain::execution::{Effect, Event, Execution, Refusal, Report, Retry, Status};
use callboard_domain::id::{Environment, ExecutionId, TaskId};
use callboard_domain::machine::Machine;
use callboard_domain::task::{self, EndingCode, State as Life, Task};
use callboard_store::Outcome;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use crate::advance::{Advance, Departing};
use crate::durable::Durable;
use crate::node::Node;
use crate::script::{Outputs, Script};
use crate::shard::{self, Shard};
use crate::supervisor::{Birth, Kind, Reason};
use crate::tables::{self, Found, executions};
use crate::task::Alongside;
use crate::{task as tasks, timers};

/// How long nothing must come for it to sleep.
const IDLE: Duration = Duration::from_secs(1);

/// An execution's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Address {
    /// Production or sandbox.
    pub(crate) environment: Environment,
    /// The execution.
    pub(crate) execution: ExecutionId,
}

type Reply = oneshot::Sender<Result<(), Error>>;

/// What an execution is told. Everything but `Committed` and `Rest` comes by way of the directory.
#[derive(Debug)]
pub(crate) enum Message {
    /// A task of it is about to end: what it wants to commit.
    TaskEnds(Box<TaskEnd>),
    /// A task of it had ended before.
    TaskEnded(Box<Task>),
    /// Somebody wants it to stop.
    Cancel(Reply),
    /// Somebody wants what did not end well to run again.
    Retry(Reply),
    /// An instant passed that it had asked for.
    TimePassed,
    /// The server was started again: perform what is outstanding.
    Recover,
    /// What became of the commit under way.
    Committed(Outcome),
    /// Nothing may have come for a while.
    Rest,
}

/// A task's last step, to be committed with what follows from it.
#[derive(Debug)]
pub(crate) struct TaskEnd {
    /// The task as it is.
    pub(crate) task: Task,
    /// What happened to it.
    pub(crate) event: task::Event,
    /// Its output, if it has one.
    pub(crate) output: Option<String>,
    /// What is committed with it.
    pub(crate) along: Alongside,
    /// Where the task hears what it became. Dropped without a word if this actor breaks.
    pub(crate) reply: oneshot::Sender<Became>,
}

/// What became of a task's last step: the committed state and the effects to perform.
pub(crate) type Became = Result<(Task, Vec<task::Effect>), task::Refusal>;

/// Executions, for their supervisor.
#[derive(Debug)]
pub(crate) struct ExecutionKind(pub(crate) Arc<Node>);

impl Kind for ExecutionKind {
    type Address = Address;
    type Actor = ExecutionActor;
    const NAME: &'static str = "execution";

    fn actor(&self) -> ExecutionActor {
        ExecutionActor(Arc::clone(&self.0))
    }
}

/// The actor.
#[derive(Debug)]
pub(crate) struct ExecutionActor(Arc<Node>);

/// What the actor remembers.
pub(crate) struct State {
    birth: Birth<ExecutionKind>,
    /// `None` if there is no such execution.
    own: Option<Own>,
    /// What waits for the commit under way.
    waiting: Vec<Work>,
    /// What is told once that commit is there.
    under_way: Option<UnderWay>,
    /// Who waits for everything to have stopped.
    cancelling: Vec<Reply>,
    resting: bool,
    handled: u64,
    rested: u64,
}

/// An execution that exists.
struct Own {
    durable: Durable<Execution>,
    script: Arc<Script>,
    outputs: Outputs,
}

/// Something that changes the execution.
enum Work {
    TaskEnds(Box<TaskEnd>),
    TaskEnded(Box<Task>),
    Cancel(Reply),
    Retry(Reply),
    Happened(Event),
    /// Something may be due.
    Look,
}

/// What follows a commit.
#[derive(Default)]
struct UnderWay {
    became: Vec<(oneshot::Sender<Became>, Task, Vec<task::Effect>)>,
    replies: Vec<Reply>,
    departing: Vec<Departing>,
}

type Done = Result<(), ActorProcessingErr>;

impl ExecutionActor {
    fn shard(&self, address: Address) -> &Shard {
        self.0.shard(address.execution.partition())
    }

    async fn load(&self, state: &mut State) -> Done {
        let Address { environment, execution: id } = state.birth.address;
        let store = &*self.shard(state.birth.address).store;
        let shard = self.shard(state.birth.address);
        // One that is being removed is gone for whoever wakes it.
        if shard.leaving.is_leaving(&state.birth.address) {
            return Ok(());
        }
        if let Some((execution, script)) = shard.new_executions.take(&state.birth.address) {
            let durable = Durable::loaded(environment, execution);
            state.own = Some(Own { durable, script, outputs: Outputs::default() });
            return Ok(());
        }
        let Some(head) = executions::head(store, environment, id).await? else {
            return Ok(());
        };
        let (execution, script) = self.0.running_execution(environment, id, head).await?;
        let tasks: Vec<_> = execution.out().map(|(_, task)| task).collect();
        let durable = Durable::loaded(environment, execution);
        state.own = Some(Own { durable, script, outputs: Outputs::default() });
        for task in tasks {
            if let Some(task) = self.ended(state.birth.address, task).await? {
                state.waiting.push(Work::TaskEnded(Box::new(task)));
            }
        }
        Ok(())
    }

    /// Commits all that waits, unless a commit is under way.
    async fn advance(&self, state: &mut State, myself: &ActorRef<Message>) -> Done {
        let Some(own) = &mut state.own else {
            // Whoever asked hears that there is no such execution, or that nobody listens.
            for work in state.waiting.drain(..) {
                if let Work::Cancel(reply) | Work::Retry(reply) = work {
                    let id = state.birth.address.execution;
                    let _ = reply.send(Err(Error::not_found("execution", id)));
                }
            }
            return Ok(());
        };
        if state.under_way.is_some() || state.waiting.is_empty() {
            return Ok(());
        }
        let before = own.durable.state().clone();
        let environment = state.birth.address.environment;
        let mut under_way = UnderWay::default();
        let mut advance = Advance::from(&self.0, environment, &own.script, before.clone());
        for work in state.waiting.drain(..) {
            match work {
                Work::TaskEnds(end) => {
                    let TaskEnd { task, event, output, along, reply } = *end;
                    match advance.task_ends(&task, event, output, along, &mut own.outputs) {
                        Ok((next, effects)) => under_way.became.push((reply, next, effects)),
                        // The task may have broken; it will be started again.
                        Err(refusal) => drop(reply.send(Err(refusal))),
                    }
                }
                Work::TaskEnded(task) => advance.task_ended(&task),
                Work::Cancel(reply) => match advance.happened(Event::CancelRequested) {
                    Ok(()) => state.cancelling.push(reply),
                    Err(refusal) => drop(reply.send(Err(refused(&before, refusal)))),
                },
                Work::Retry(reply) => match advance.happened(Event::RetryRequested) {
                    Ok(()) => under_way.replies.push(reply),
                    Err(refusal) => drop(reply.send(Err(refused(&before, refusal)))),
                },
                // Refused when it is not due any more, or has ended.
                Work::Happened(event) => drop(advance.happened(event)),
                Work::Look => {}
            }
            advance.decide(&mut own.outputs).await?;
        }
        let (step, rows, born) = advance.done(Some(&before));
        under_way.departing = self.0.remember(born);
        if rows.is_empty() {
            self.tell(under_way);
            return Ok(());
        }
        let id = state.birth.address.execution;
        let ticket = own.durable.propose(self.0.shard(id.partition()), id.partition(), step, rows);
        state.under_way = Some(under_way);
        let myself = myself.clone();
        tokio::spawn(async move {
            let outcome = ticket.await;
            // Fails only when the actor is gone; what is committed is there all the same.
            let _ = myself.cast(Message::Committed(outcome));
        });
        Ok(())
    }

    /// Becomes what was committed, and acts.
    fn committed(&self, state: &mut State, outcome: Outcome) -> Done {
        let Some(own) = &mut state.own else { return Ok(()) };
        let effects = own.durable.settle(outcome)?;
        let under_way = state.under_way.take().unwrap_or_default();
        self.tell(under_way);
        for effect in effects {
            self.perform(state, effect);
        }
        Self::answer_cancels(state);
        Ok(())
    }

    fn tell(&self, under_way: UnderWay) {
        for (reply, task, effects) in under_way.became {
            // The task may have broken meanwhile; it is started again from what is durable.
            let _ = reply.send(Ok((task, effects)));
        }
        self.0.send_on_their_way(under_way.departing);
        for reply in under_way.replies {
            // The client may have left.
            let _ = reply.send(Ok(()));
        }
    }

    /// A cancellation is acknowledged when every task has stopped.
    fn answer_cancels(state: &mut State) {
        let stopped =
            state.own.as_ref().is_none_or(|own| own.durable.state().stopping().next().is_none());
        if stopped {
            for reply in state.cancelling.drain(..) {
                // The client may have left; it is cancelled all the same.
                let _ = reply.send(Ok(()));
            }
        }
    }

    fn recover(&self, state: &mut State) {
        let owed = state.own.as_ref().map(|own| own.durable.state().outstanding());
        for effect in owed.unwrap_or_default() {
            self.perform(state, effect);
        }
    }

    fn perform(&self, state: &mut State, effect: Effect) {
        let address = state.birth.address;
        let shard = self.shard(address);
        match effect {
            // Decided before the commit; only what a crash left undecided is decided now.
            Effect::Decide(_) => state.waiting.push(Work::Look),
            // A fresh task was sent on its way; whether an old one has ended was looked at when this
            // was loaded.
            Effect::Watch { .. } => {}
            Effect::CancelTask { task, .. } => {
                let task = shard::Address { environment: address.environment, task };
                self.0.send(task, tasks::Message::Stop);
            }
            Effect::WakeAt(at) => {
                shard.timers(timers::Message::Set(timers::Sleeper::Execution(address), at));
            }
            Effect::ForgetWake => {
                shard.timers(timers::Message::Forget(timers::Sleeper::Execution(address)));
            }
        }
    }

    /// The task, if it has ended.
    async fn ended(
        &self,
        address: Address,
        task: TaskId,
    ) -> Result<Option<Task>, ActorProcessingErr> {
        let store = &*self.shard(address).store;
        let found = tables::task(store, address.environment, task).await?;
        Ok(found.map(|Found { task, .. }| task).filter(Machine::is_finished))
    }

    /// Stops if it has ended, or if nothing came since it was asked before.
    fn rest(myself: &ActorRef<Message>, state: &mut State, asked: bool) {
        let waited_for = !state.cancelling.is_empty();
        let busy = waited_for || state.under_way.is_some() || !state.waiting.is_empty();
        let ended = state.own.as_ref().is_none_or(|own| own.durable.state().is_finished());
        if asked {
            state.resting = false;
        }
        let idle = asked && state.rested == state.handled;
        let Birth { address, directory, .. } = &state.birth;
        let rests = !busy && (ended || idle) && directory.retire(address, state.handled, myself);
        if !rests && !state.resting {
            state.resting = true;
            state.rested = state.handled;
            myself.send_after(IDLE, || Message::Rest);
        }
    }
}

/// What the execution hears of a task that has ended.
pub(crate) fn report(task: &Task) -> Report {
    let result = task.result.as_ref();
    Report {
        task: task.spec.id,
        started_at: task.started_at,
        attempt: task.attempt,
        usage: result.map(|result| result.usage).unwrap_or_default(),
        confidence: result.and_then(|result| result.confidence),
    }
}

/// The event that the end of a task is for its execution, and the task that tries it again; `None`
/// if it has not ended.
pub(crate) fn end_of(task: &Task, step: u16, retried_as: Option<Retry>) -> Option<Event> {
    let report = report(task);
    let ending = || {
        task.error.clone().unwrap_or_else(|| task::Ending {
            code: EndingCode::InternalError,
            message: "it ended without a reason".into(),
        })
    };
    match task.state {
        Life::Completed { .. } => Some(Event::StepCompleted { step, report }),
        Life::Failed { .. } => Some(Event::StepFailed { step, report, ending: ending() }),
        Life::Rejected { .. } => {
            Some(Event::StepRejected { step, report, ending: ending(), retried_as })
        }
        Life::Cancelled { .. } => Some(Event::StepCancelled { step, report }),
        Life::Ready
        | Life::Backoff { .. }
        | Life::Running { .. }
        | Life::AwaitingApproval { .. } => None,
    }
}

/// What somebody is told whose wish is refused.
fn refused(execution: &Execution, refusal: Refusal) -> Error {
    let id = execution.head.spec.id;
    Error::InvalidState(match refusal {
        Refusal::Finished(status) => format!("execution {id} is already {}", status.as_str()),
        Refusal::Running => {
            format!("execution {id} is {}: there is nothing to retry", Status::Running.as_str())
        }
        Refusal::StillStopping => {
            format!("execution {id} still has tasks that are being stopped; try again in a moment")
        }
        Refusal::StaleTask | Refusal::NotReady | Refusal::NotChecked | Refusal::NotDue => {
            format!("execution {id} has moved on")
        }
    })
}

impl Actor for ExecutionActor {
    type Msg = Message;
    type State = State;
    type Arguments = Birth<ExecutionKind>;

    async fn pre_start(
        &self,
        _: ActorRef<Message>,
        birth: Birth<ExecutionKind>,
    ) -> Result<State, ActorProcessingErr> {
        Ok(State {
            birth,
            own: None,
            waiting: Vec::new(),
            under_way: None,
            cancelling: Vec::new(),
            resting: false,
            handled: 0,
            rested: 0,
        })
    }

    async fn post_start(&self, myself: ActorRef<Message>, state: &mut State) -> Done {
        self.load(state).await?;
        match state.birth.reason {
            Reason::Woken => return Ok(()),
            Reason::Restarted => self.recover(state),
            Reason::GivenUp => state.waiting.push(Work::Happened(Event::GivenUp)),
        }
        self.advance(state, &myself).await?;
        Self::rest(&myself, state, false);
        Ok(())
    }

    async fn handle(&self, myself: ActorRef<Message>, message: Message, state: &mut State) -> Done {
        let direct = matches!(message, Message::Committed(_) | Message::Rest);
        state.handled += u64::from(!direct);
        let asked = matches!(message, Message::Rest);
        match message {
            Message::TaskEnds(end) => state.waiting.push(Work::TaskEnds(end)),
            Message::TaskEnded(task) => state.waiting.push(Work::TaskEnded(task)),
            Message::Cancel(reply) => state.waiting.push(Work::Cancel(reply)),
            Message::Retry(reply) => state.waiting.push(Work::Retry(reply)),
            Message::TimePassed => state.waiting.push(Work::Happened(Event::TimePassed)),
            Message::Recover => self.recover(state),
            Message::Committed(outcome) => self.committed(state, outcome)?,
            Message::Rest => {}
        }
        self.advance(state, &myself).await?;
        Self::rest(&myself, state, asked);
        Ok(())
    }
}
