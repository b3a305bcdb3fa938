//! A task's actor: it alone changes the task.
//!
//! Spawned by its shard's supervisor when a message finds no awake actor and no spare; retires when
//! nothing keeps it moving: a task that waits (in its queue, in a backoff, for a reviewer) or has ended
//! is a row. The last step of a task that belongs to an execution is committed by the execution, with
//! what follows. Deliberately absent: every rule. [`callboard_domain::task`] decides.

mod message;

use std::sync::Arc;

use callboard_domain::Error;
use callboard_domain::id::{Environment, ExecutionId, TaskId};
use callboard_domain::machine::Machine;
use callboard_domain::retry::Jitter;
use callboard_domain::task::{
    Chance, Effect, Event, Inputs, LeaseId, LeaseToken, Refusal, State as Life, Task,
};
use callboard_domain::usage::{Tokens, Usage};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use crate::approval::{self, Gated};
use crate::concurrency::Running;
use crate::durable::{Durable, Persist};
use crate::execution::{self, TaskEnd};
use crate::node::Node;
use crate::seat::Taken;
use crate::shard::{Address, Shard};
use crate::supervisor::{Birth, Kind, Reason};
use crate::worker::{Assignment, Settled};
use crate::{queue, tables, timers, worker};

pub(crate) use message::{Alongside, Answer, Judgement, Message, Settlement};

/// Tasks, for their supervisor.
#[derive(Debug)]
pub(crate) struct TaskKind(pub(crate) Arc<Node>);

impl Kind for TaskKind {
    type Address = Address;
    type Actor = TaskActor;
    const NAME: &'static str = "task";

    fn actor(&self) -> TaskActor {
        TaskActor(Arc::clone(&self.0))
    }
}

/// The actor.
#[derive(Debug)]
pub(crate) struct TaskActor(Arc<Node>);

/// What the actor remembers.
pub(crate) struct State {
    birth: Birth<TaskKind>,
    /// `None` until it is loaded, or if there is no such task.
    task: Option<Durable<Task>>,
    /// Its texts, if they came with it.
    inputs: Option<Inputs>,
    /// The place at the worker, from the lease until it is handed to the worker.
    place: Option<Taken>,
    /// Its share of what its account may run at once.
    running: Option<Running>,
    handled: u64,
}

impl State {
    /// A spare keeps nothing of the task that it was the actor of.
    fn forget(&mut self) {
        self.birth.reason = Reason::Woken;
        (self.task, self.inputs, self.place, self.running) = (None, None, None, None);
        self.handled = 0;
    }
}

type Done = Result<(), ActorProcessingErr>;

/// `Ok(Err(_))` is a refusal.
type Tried = Result<Result<(), Refusal>, ActorProcessingErr>;

impl TaskActor {
    fn shard(&self, state: &State) -> &Shard {
        self.0.shard(state.birth.address.task.partition())
    }

    async fn load(&self, state: &mut State) -> Done {
        let address = state.birth.address;
        let shard = self.shard(state);
        let found = match shard.newborns.take(&address) {
            Some(found) => Some(found),
            // In a box, so that what most do without is no part of every message's work.
            None => {
                Box::pin(tables::task(&*shard.store, address.environment, address.task)).await?
            }
        };
        if let Some(found) = found {
            state.task = Some(Durable::loaded(address.environment, found.task));
            state.inputs = found.inputs;
        }
        Ok(())
    }

    /// Commits the step that `event` leads to, then acts. `Ok(Err(_))` is a refusal.
    async fn take(&self, state: &mut State, event: Event) -> Tried {
        self.take_along(state, event, None, Alongside::default()).await
    }

    /// The same with the output that comes with it, and with what is committed alongside.
    async fn take_along(
        &self,
        state: &mut State,
        event: Event,
        output: Option<String>,
        along: Alongside,
    ) -> Tried {
        let shard = self.0.shard(state.birth.address.task.partition());
        let environment = state.birth.address.environment;
        let Some(task) = &mut state.task else {
            return Ok(Err(Refusal::StaleLease));
        };
        let now = self.0.now();
        let step = match task.state().transition(event.clone(), now) {
            Ok(step) => step,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let last_resort = state.birth.reason == Reason::GivenUp;
        let parent = parent(task.state(), &event, &step.next).filter(|_| !last_resort);
        let effects = if let Some(execution) = parent {
            let (reply, became) = oneshot::channel();
            let end = TaskEnd { task: task.state().clone(), event, output, along, reply };
            let address = execution::Address { environment, execution };
            shard.executions.send(address, execution::Message::TaskEnds(Box::new(end)));
            match became.await.map_err(|_| "its execution broke")? {
                Ok((next, effects)) => {
                    task.follow(next);
                    effects
                }
                Err(refusal) => return Ok(Err(refusal)),
            }
        } else {
            let partition = step.next.spec.id.partition();
            let mut rows = Task::rows(&step, environment, now, output);
            rows.extend(along.rows);
            let ticket = task.propose(shard, partition, step, rows);
            task.settle(ticket.await)?
        };
        self.act(state, effects).await?;
        Ok(Ok(()))
    }

    /// Stops for its execution, which hears how it ended if it had done so before.
    async fn stop(&self, state: &mut State) -> Done {
        if is_held(state) {
            return self.tell_approval(state, approval::Message::TaskStops(approval::Stop::LetGo));
        }
        let refused = self.take(state, Event::CancelRequested).await?;
        if let (Err(Refusal::Finished(_)), Some(task)) = (refused, &state.task) {
            let task = task.state().clone();
            self.tell_execution(state.birth.address.environment, task);
        }
        Ok(())
    }

    /// Tells its execution that it has ended, outside of that execution's own commit.
    fn tell_execution(&self, environment: Environment, task: Task) {
        if let Some((execution, _)) = task.spec.origin.step {
            let address = execution::Address { environment, execution };
            let shard = self.0.shard(execution.partition());
            shard.executions.send(address, execution::Message::TaskEnded(Box::new(task)));
        }
    }

    /// Has its approval, which waits for it and not the other way round, end its wait.
    #[expect(clippy::unnecessary_wraps, reason = "as its callers answer")]
    fn tell_approval(&self, state: &State, message: approval::Message) -> Done {
        self.shard(state).approvals.send(state.birth.address, message);
        Ok(())
    }

    async fn lease(&self, state: &mut State, place: Taken, running: Option<Running>) -> Done {
        let shard = self.0.shard(state.birth.address.task.partition());
        let lease = LeaseId::from_random(self.0.ports.entropy.bits());
        let event = Event::Leased { lease, worker: place.worker() };
        let Some(task) = &mut state.task else {
            return Ok(());
        };
        // Refused when it was cancelled meanwhile, or is with another worker: the place is dropped
        // with the message and thereby free again.
        if let Ok(effects) = task.take_ahead(shard, event, self.0.now()) {
            state.place = Some(place);
            state.running = running;
            self.act(state, effects).await?;
        }
        Ok(())
    }

    async fn settle(&self, state: &mut State, settlement: Settlement) -> Done {
        let Settlement { lease: LeaseToken { lease, .. }, answer, verdict } = settlement;
        #[cfg(test)]
        let lease = crate::planted::compared(lease, state.task.as_ref().map(Durable::state));
        let (event, output) = match answer {
            Answer::Output(output, mut completion) => {
                self.price(state, &mut completion.usage);
                let chance = Chance((self.0.ports.entropy.bits() & 0xffff_ffff) as u32);
                (Event::Completed { lease, completion, chance }, Some(output))
            }
            Answer::Failure(failure) => {
                (Event::AttemptFailed { lease, failure, jitter: self.jitter() }, None)
            }
        };
        let (address, now) = (state.birth.address, self.0.now());
        let foreseen = state.task.as_ref().and_then(|task| {
            let output = output.as_deref().filter(|_| task.state().spec.gate.is_some())?;
            let next = task.state().transition(event.clone(), now).ok()?.next;
            Gated::of(&self.0, address, &next, output, now)
        });
        let rows = foreseen.as_ref().map(|gated| gated.rows(address, now));
        let along = Alongside { rows: rows.unwrap_or_default(), ..Alongside::default() };
        let taken = self.take_along(state, event, output, along).await?;
        if let (Some(gated), Some(task)) = (foreseen, &state.task) {
            gated.settled(&self.0, address, task.state());
        }
        match taken {
            Ok(()) => verdict.give(Settled::Applied),
            Err(Refusal::Duplicate) => verdict.give(Settled::Duplicate),
            Err(
                Refusal::StaleLease
                | Refusal::NotReady
                | Refusal::NotHeld
                | Refusal::Finished(_)
                | Refusal::NotDue,
            ) => {
                verdict.give(Settled::Stale);
            }
        }
        Ok(())
    }

    fn price(&self, state: &State, usage: &mut Usage) {
        if let Some(task) = &state.task {
            let tokens = Tokens { input: usage.input, output: usage.output, ..Tokens::default() };
            *usage = self.0.settings.prices.usage(&task.state().spec.model, tokens);
        }
    }

    fn jitter(&self) -> Jitter {
        Jitter((self.0.ports.entropy.bits() & 0xffff) as u16)
    }

    async fn time_passed(&self, state: &mut State) -> Done {
        let event = Event::TimePassed { jitter: self.jitter() };
        if self.take(state, event).await? == Err(Refusal::NotDue) {
            // The clock went back after the timer had fired: ask for the instant again.
            self.recover(state).await?;
        }
        Ok(())
    }

    async fn cancel(
        &self,
        state: &mut State,
        by: String,
        reply: oneshot::Sender<Result<Task, Error>>,
    ) -> Done {
        if is_held(state) {
            let stop = approval::Stop::Cancelled(by, reply);
            return self.tell_approval(state, approval::Message::TaskStops(stop));
        }
        let id = state.birth.address.task;
        let taken = self.take(state, Event::CancelRequested).await?;
        let answer = match &state.task {
            Some(task) => cancelled(id, taken.map(|()| task.state().clone())),
            None => Err(Error::not_found("task", id)),
        };
        // The client may have left; the task is cancelled all the same.
        let _ = reply.send(answer);
        Ok(())
    }

    async fn judged(&self, state: &mut State, judgement: Judgement) -> Done {
        let Judgement { event, along, reply } = judgement;
        let taken = self.take_along(state, event, None, along).await?;
        let judged = match &state.task {
            Some(task) => taken.map(|()| task.state().clone()),
            None => Err(Refusal::NotHeld),
        };
        // The approval may have broken meanwhile; it is started again from what is durable.
        let _ = reply.send(judged);
        Ok(())
    }

    async fn recover(&self, state: &mut State) -> Done {
        let Some(task) = &state.task else {
            return Ok(());
        };
        let effects = task.state().outstanding();
        if let (Life::Running { .. }, None) = (&task.state().state, &state.running) {
            state.running = self.0.concurrency.resume(&task.state().spec);
        }
        self.act(state, effects).await
    }

    async fn act(&self, state: &mut State, effects: Vec<Effect>) -> Done {
        for effect in effects {
            self.perform(state, effect).await?;
        }
        if state
            .task
            .as_ref()
            .is_some_and(|task| !matches!(task.state().state, Life::Running { .. }))
        {
            state.running = None;
        }
        Ok(())
    }

    async fn perform(&self, state: &mut State, effect: Effect) -> Done {
        let Some(task) = &state.task else {
            return Ok(());
        };
        let address = state.birth.address;
        match effect {
            Effect::Assign { lease, deadline, .. } => {
                let Some(place) = state.place.take() else {
                    return Ok(());
                };
                let store = &*self.shard(state).store;
                // Another attempt is rare, and reads them again.
                let inputs = match state.inputs.take() {
                    Some(inputs) => inputs,
                    None => {
                        Box::pin(tables::inputs(store, address.environment, address.task)).await?
                    }
                };
                let task = state.task.as_ref().expect("it was there above").state().clone();
                let lease = LeaseToken { task: address.task, lease };
                place.assign(Assignment { lease, deadline, task, inputs });
            }
            Effect::Enqueue
            | Effect::Dequeue
            | Effect::Watch { .. }
            | Effect::Revoke { .. }
            | Effect::WakeAt(_)
            | Effect::ForgetWake => perform(&self.0, address, task.state(), effect),
        }
        Ok(())
    }

    /// Stops unless something keeps it moving.
    fn rest(myself: &ActorRef<Message>, state: &mut State) {
        let moving = state
            .task
            .as_ref()
            .is_some_and(|task| matches!(task.state().state, Life::Running { .. }));
        let Birth { address, directory, .. } = &state.birth;
        if !moving && directory.retire(address, state.handled, myself) {
            state.forget();
        }
    }
}

/// Whether it waits for a reviewer.
fn is_held(state: &State) -> bool {
    let task = state.task.as_ref().map(Durable::state);
    task.is_some_and(|task| matches!(task.state, Life::AwaitingApproval { .. }))
}

/// The execution that commits this step of its task: the last one, or one that brings an output
/// which it checks.
fn parent(task: &Task, event: &Event, next: &Task) -> Option<ExecutionId> {
    let (execution, _) = task.spec.origin.step.as_ref()?;
    let checked = task.spec.checked && matches!(event, Event::Completed { .. });
    (checked || next.is_finished()).then_some(*execution)
}

/// What somebody is told who wanted it to stop.
pub(crate) fn cancelled(id: TaskId, taken: Result<Task, Refusal>) -> Result<Task, Error> {
    taken.map_err(|refusal| match refusal {
        Refusal::Finished(status) => {
            Error::InvalidState(format!("task {id} is already {}", status.as_str()))
        }
        Refusal::StaleLease
        | Refusal::Duplicate
        | Refusal::NotReady
        | Refusal::NotHeld
        | Refusal::NotDue => Error::InvalidState(format!("task {id} has moved on")),
    })
}

/// Performs an effect that needs no actor: also for passive tasks, at a start.
pub(crate) fn perform(node: &Node, address: Address, task: &Task, effect: Effect) {
    match effect {
        Effect::Enqueue => {
            let ready = node.ready(task);
            node.queues
                .send(queue::Address::of(address.environment, task), queue::Message::Push(ready));
        }
        Effect::Dequeue => {
            let queue = queue::Address::of(address.environment, task);
            node.queues.send_if_awake(&queue, queue::Message::Remove(address.task));
        }
        Effect::Watch { lease, worker } => {
            let lease = LeaseToken { task: address.task, lease };
            let worker = worker::Address { environment: address.environment, worker };
            node.workers.directory.send(worker, worker::Message::Watch(lease));
        }
        Effect::Revoke { lease, worker, reason } => {
            let lease = LeaseToken { task: address.task, lease };
            let worker = worker::Address { environment: address.environment, worker };
            node.workers.directory.send_if_awake(&worker, worker::Message::Revoke(lease, reason));
        }
        Effect::WakeAt(at) => {
            let sleeper = timers::Sleeper::Task(address);
            node.shard(address.task.partition()).timers(timers::Message::Set(sleeper, at));
        }
        Effect::ForgetWake => {
            let sleeper = timers::Sleeper::Task(address);
            node.shard(address.task.partition()).timers(timers::Message::Forget(sleeper));
        }
        // Only an awake task has a place at a worker to hand over.
        Effect::Assign { .. } => {}
    }
}

impl Actor for TaskActor {
    type Msg = Message;
    type State = State;
    type Arguments = Birth<TaskKind>;

    async fn pre_start(
        &self,
        _: ActorRef<Message>,
        birth: Birth<TaskKind>,
    ) -> Result<State, ActorProcessingErr> {
        Ok(State { birth, task: None, inputs: None, place: None, running: None, handled: 0 })
    }

    async fn post_start(&self, myself: ActorRef<Message>, state: &mut State) -> Done {
        self.load(state).await?;
        match state.birth.reason {
            Reason::Woken => {}
            Reason::Restarted => self.recover(state).await?,
            Reason::GivenUp => {
                // Refused only if it has ended by itself.
                let held = is_held(state);
                let _ = self.take(state, Event::GivenUp).await?;
                if let Some(task) = state.task.as_ref().map(|task| task.state().clone()) {
                    self.tell_execution(state.birth.address.environment, task);
                }
                if held {
                    self.tell_approval(state, approval::Message::TaskEnded)?;
                }
            }
        }
        if state.birth.reason != Reason::Woken {
            Self::rest(&myself, state);
        }
        Ok(())
    }

    async fn handle(&self, myself: ActorRef<Message>, message: Message, state: &mut State) -> Done {
        state.handled += u64::from(!matches!(message, Message::Become(_)));
        match message {
            Message::Lease { place, running } => self.lease(state, place, running).await?,
            Message::Settle(settlement) => self.settle(state, *settlement).await?,
            Message::LeaseExpired(lease) => {
                // Refused when the lease is not current any more, which is what was wanted.
                let _ = self.take(state, Event::LeaseExpired { lease }).await?;
            }
            Message::Undelivered(lease) => {
                let _ = self.take(state, Event::Undelivered { lease }).await?;
            }
            Message::TimePassed => self.time_passed(state).await?,
            Message::Stop => self.stop(state).await?,
            Message::Cancel(by, reply) => self.cancel(state, by, reply).await?,
            Message::Judged(judgement) => self.judged(state, *judgement).await?,
            Message::Recover => self.recover(state).await?,
            Message::Become(address) => {
                state.birth.address = address;
                return self.load(state).await;
            }
        }
        Self::rest(&myself, state);
        Ok(())
    }
}
