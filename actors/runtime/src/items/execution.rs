//! An execution's actor: the only writer of the execution. The actor commits the end of its tasks with
//! all consequences.
//!
//! ```text
//!   a task joins ─▶ waits here ─▶ one unit: the task, the steps, the next tasks ─▶ effects
//!                      ▲               │
//!                      └── joins that come during a commit go into the next one
//! ```
//!
//! The shard's supervisor spawns the actor when a message finds none awake; the actor stops when the execution has
//! ended, or after a second without a message: an execution that waits for workers or reviewers is rows.

pub(crate) mod fork;
pub(crate) mod signal;

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::Error;
use callboard_domain::access::Action;
use callboard_domain::execution::program::{OutputLocation, Outputs, Program};
use callboard_domain::execution::{Effect, Event, Execution, OutputSource, Refusal, State};
use callboard_domain::id::{Environment, TaskId};
use callboard_domain::machine::Machine;
use callboard_domain::render::Output;
use callboard_domain::task::Task;
use callboard_domain::unit::{Change, UnitBuilder};
use callboard_store::{Outcome, Store};
use ractor::ActorProcessingErr;

use crate::commit::durable::{self, PendingCommit};
use crate::commit::effects;
use crate::commit::sources::NodeSources;
pub(crate) use crate::kernel::address::ExecutionAddress as Address;
use crate::kernel::item::{Activation, Done, Item};
use crate::kernel::join::{Committed, Join, Participants};
use crate::kernel::supervisor::Reason;
pub(crate) use crate::messages::execution::{Message, Reply, Sending};
use crate::node::Node;
use crate::node::shard::Shard;
use crate::read;
use crate::tables::{self, LoadedTask, executions};

/// The time without a message after which the actor stops.
const IDLE: Duration = Duration::from_secs(1);

/// An execution in the memory of its actor.
#[derive(Default)]
pub(crate) struct ExecutionItem {
    /// `None` if there is no such execution.
    own: Option<Loaded>,
    /// The backlog of the next unit.
    backlog: Vec<BacklogItem>,
    /// The commit on its way, and the participants that hear of it.
    pending: Option<(PendingCommit, Waiting)>,
    /// The clients that wait until every task has stopped.
    cancelling: Vec<Reply>,
    /// True while a [`Message::Rest`] is on its way.
    resting: bool,
    /// The count of handled messages when the idle time began.
    rested: u64,
}

/// An execution in memory.
struct Loaded {
    state: Execution,
    program: Arc<Program>,
    outputs: Outputs,
    /// The original, if the execution is a fork.
    original: Option<Box<fork::Original>>,
}

impl Loaded {
    async fn of(
        node: &Node,
        environment: Environment,
        (state, program): (Execution, Arc<Program>),
    ) -> Result<Self, ActorProcessingErr> {
        let original = match &state.head.spec.forked_from {
            Some(fork) => Box::pin(fork::Original::of(node, environment, fork)).await?,
            None => None,
        };
        Ok(Self { state, program, outputs: Outputs::default(), original: original.map(Box::new) })
    }
}

/// A part of the backlog.
enum BacklogItem {
    Join(Box<Join>),
    TaskEnded(Box<Task>),
    Cancel(Reply),
    Retry(Reply),
    Signal(Box<Sending>),
    TimePassed,
    GivenUp,
    /// A step may be due that a crash or a full unit left undecided.
    Look,
}

/// The callers that a commit answers.
#[derive(Default)]
struct Waiting {
    /// The participants of each task that changes, in the order of the unit.
    joins: Vec<Participants>,
    retries: Vec<Reply>,
    signals: Vec<signal::Accepted>,
}

impl Item for ExecutionItem {
    const NAME: &'static str = "execution";
    type Address = Address;
    type Message = Message;
    type Shared = Node;

    fn new(_: &Arc<Node>, _: &Address) -> Self {
        Self::default()
    }

    async fn start(held: &mut Activation<Self>, reason: Reason) -> Done {
        held.load().await?;
        match reason {
            Reason::Woken => return Ok(()),
            Reason::Restarted => held.recover(),
            Reason::GivenUp => held.item.backlog.push(BacklogItem::GivenUp),
        }
        held.advance().await
    }

    async fn handle(held: &mut Activation<Self>, message: Message) -> Done {
        match message {
            Message::Join(join) => held.item.backlog.push(BacklogItem::Join(join)),
            Message::TaskEnded(task) => held.item.backlog.push(BacklogItem::TaskEnded(task)),
            Message::Cancel(reply) => held.item.backlog.push(BacklogItem::Cancel(reply)),
            Message::Retry(reply) => held.item.backlog.push(BacklogItem::Retry(reply)),
            Message::Signal(sending) => held.item.backlog.push(BacklogItem::Signal(sending)),
            Message::TimePassed => held.item.backlog.push(BacklogItem::TimePassed),
            Message::Recover => held.recover(),
            Message::Continue => held.item.backlog.push(BacklogItem::Look),
            Message::Committed(outcome) => held.committed(outcome)?,
            Message::Rest => {
                held.item.resting = false;
                let is_idle = held.item.rested == held.handled && held.item.waits_for_nothing();
                if is_idle && held.retire() {
                    return Ok(());
                }
            }
        }
        held.advance().await
    }

    fn is_idle(&self) -> bool {
        let ended = self.own.as_ref().is_none_or(|own| own.state.is_finished());
        ended && self.waits_for_nothing()
    }

    fn rest(held: &mut Activation<Self>) {
        let is_retired = held.is_retired() || held.item.is_idle() && held.retire();
        if !is_retired && !held.item.resting {
            held.item.resting = true;
            held.item.rested = held.handled;
            held.myself.tell_after(IDLE, || Message::Rest);
        }
    }

    fn retired(&mut self) {
        *self = Self { resting: self.resting, ..Self::default() };
    }
}

impl ExecutionItem {
    fn waits_for_nothing(&self) -> bool {
        self.cancelling.is_empty() && self.pending.is_none() && self.backlog.is_empty()
    }
}

impl Activation<ExecutionItem> {
    fn shard(&self) -> &Shard {
        self.node.shard(self.address.execution.partition())
    }

    async fn load(&mut self) -> Done {
        let environment = self.address.environment;
        let shard = self.shard();
        let Some((state, program)) = shard.new_executions.take(&self.address) else {
            // Boxed: most executions come with their creation, and would pay for the larger future.
            return Box::pin(self.read()).await;
        };
        self.item.own = Some(Loaded::of(&self.node, environment, (state, program)).await?);
        Ok(())
    }

    /// Reads the execution from the store.
    async fn read(&mut self) -> Done {
        let Address { environment, execution: id } = self.address;
        // Its rows are being removed, or lose texts that were erased.
        self.shard().leaving.decided(&self.address).await;
        let store = &*self.shard().store;
        let Some(head) = executions::head(store, environment, id).await? else {
            return Ok(());
        };
        let (state, program) = self.node.running_execution(environment, id, head).await?;
        let mut ended = Vec::new();
        for (_, task) in state.out() {
            ended.extend(ended_task(store, environment, task).await?.map(Box::new));
        }
        self.item.backlog.extend(ended.into_iter().map(BacklogItem::TaskEnded));
        self.item.own = Some(Loaded::of(&self.node, environment, (state, program)).await?);
        Ok(())
    }

    /// Decides the backlog as one unit and puts it in line, unless a commit is pending.
    async fn advance(&mut self) -> Done {
        let Address { environment, execution: id } = self.address;
        let node = Arc::clone(&self.node);
        let ExecutionItem { own, backlog, pending, cancelling, .. } = &mut self.item;
        let Some(own) = own else {
            for work in backlog.drain(..) {
                match work {
                    BacklogItem::Cancel(reply) | BacklogItem::Retry(reply) => {
                        let _ = reply.send(Err(Error::not_found("execution", id)));
                    }
                    BacklogItem::Signal(sending) => {
                        sending.refuse(Error::not_found("execution", id));
                    }
                    // The others hear it from the channel, which closes.
                    BacklogItem::Join(_)
                    | BacklogItem::TaskEnded(_)
                    | BacklogItem::TimePassed
                    | BacklogItem::GivenUp
                    | BacklogItem::Look => {}
                }
            }
            return Ok(());
        };
        if pending.is_some() || backlog.is_empty() {
            return Ok(());
        }
        let partition = id.partition();
        let mut sources = NodeSources::of(&node, environment, partition);
        let mut records = Vec::new();
        own.outputs.unit_begins();
        let (mut waiting, mut builder) =
            (Waiting::default(), UnitBuilder::of(&own.program, &own.state, node.now()));
        for work in backlog.drain(..) {
            match work {
                BacklogItem::Join(join) => {
                    let Join { event, task, approval, participants } = *join;
                    let items = callboard_domain::unit::Items {
                        task: task.as_deref(),
                        approval: approval.as_deref(),
                    };
                    let checked =
                        items.task.and_then(|task| Some((task, builder.schema_of(task)?)));
                    let (event, fault) = match checked {
                        Some((task, schema)) => {
                            let longest = task.longest_of_attempt(|model| {
                                node.limits.prices.longest_output(model)
                            });
                            node.kernel
                                .compute
                                .check_answer(environment, schema, task, event, longest)
                                .await?
                        }
                        None => (event, None),
                    };
                    match builder.join(items, event, fault, &mut own.outputs, &mut sources) {
                        Ok(()) => waiting.joins.push(participants),
                        Err(refusal) => participants.notify(&Err(refusal)),
                    }
                }
                BacklogItem::TaskEnded(task) => builder.task_ended(&task),
                BacklogItem::Cancel(reply) => match builder.happened(Event::CancelRequested) {
                    Ok(()) => cancelling.push(reply),
                    Err(refusal) => drop(reply.send(Err(refused(&own.state, refusal)))),
                },
                BacklogItem::Retry(reply) => match builder.happened(Event::RetryRequested) {
                    Ok(()) => waiting.retries.push(reply),
                    Err(refusal) => drop(reply.send(Err(refused(&own.state, refusal)))),
                },
                BacklogItem::Signal(sending) => {
                    let of = (node.store(), self.address);
                    let unit = (&mut builder, &mut own.outputs, &mut sources);
                    let taken = sending.take(of, unit, (&mut waiting.signals, &mut records));
                    Box::pin(taken).await?;
                }
                BacklogItem::TimePassed => time_passed(&node, self.address, &mut builder),
                BacklogItem::GivenUp => drop(builder.happened(Event::GivenUp)),
                BacklogItem::Look => {}
            }
            while let Some(due) = builder.due() {
                let of = (&own.program, own.original.as_deref());
                let out = (&mut own.outputs, &mut records);
                fork::decide(&node, environment, of, (&mut builder, due), out, &mut sources)
                    .await?;
            }
        }
        let unit = builder.done(&mut sources);
        if unit.changes.is_empty() {
            waiting.signals.into_iter().for_each(signal::Accepted::answer);
            return Ok(());
        }
        let taken = (records, sources.reserved);
        let (ticket, commit) = durable::submit(&node, environment, partition, unit, taken);
        *pending = Some((commit, waiting));
        let myself = self.myself.clone();
        // Fails only if the actor is gone; the commit stands all the same.
        ticket.then(move |outcome| {
            myself.tell(Message::Committed(outcome));
        });
        Ok(())
    }

    /// Takes the next state from the pending unit, and notifies the participants.
    fn committed(&mut self, outcome: Outcome) -> Done {
        let (Some(own), Some((commit, waiting))) = (&mut self.item.own, self.item.pending.take())
        else {
            return Ok(());
        };
        let mut unit = commit.finish(&self.node, outcome)?;
        if let Some(Change::Execution(..)) = unit.changes.last()
            && let Some(Change::Execution(_, step)) = unit.changes.pop()
        {
            own.state = step.next;
        }
        for (participants, committed) in waiting.joins.into_iter().zip(Committed::all(unit)) {
            participants.notify(&Ok(committed));
        }
        for reply in waiting.retries {
            // The client may have left.
            let _ = reply.send(Ok(()));
        }
        waiting.signals.into_iter().for_each(signal::Accepted::answer);
        self.answer_cancels();
        Ok(())
    }

    /// A cancellation is acknowledged once every task has stopped.
    fn answer_cancels(&mut self) {
        let own = self.item.own.as_ref();
        if own.is_none_or(|own| own.state.stopping().next().is_none()) {
            for reply in self.item.cancelling.drain(..) {
                // The client may have left; the execution is cancelled all the same.
                let _ = reply.send(Ok(()));
            }
        }
    }

    fn recover(&mut self) {
        let owed = self.item.own.as_ref().map(|own| own.state.outstanding());
        for effect in owed.unwrap_or_default() {
            if let Effect::Decide(_) = effect {
                self.item.backlog.push(BacklogItem::Look);
            }
            effects::of_executions(&self.node, self.address, effect);
        }
    }
}

/// Reads the outputs that a due step refers to and that are not remembered.
async fn read_outputs(
    store: &dyn Store,
    environment: Environment,
    builder: &UnitBuilder<'_>,
    step: u16,
    outputs: &mut Outputs,
) -> Result<(), callboard_store::Error> {
    for (step, made) in outputs.missing(builder.state(), step) {
        // A payload of this unit is not in the store yet.
        let fresh = match made {
            OutputLocation::One(OutputSource::Signal(signal)) => {
                builder.payload(signal).map(str::to_owned)
            }
            OutputLocation::One(OutputSource::Task(task)) => {
                outputs.item_output(task).map(str::to_owned)
            }
            OutputLocation::Items(_) => None,
        };
        let is_call = builder.source(step).is_some_and(|source| source.call.is_some());
        let form = if is_call { Output::Json } else { Output::Completed };
        let known = |task| outputs.item_output(task).map(form);
        let output = match fresh {
            Some(payload) => Some(payload),
            None => Box::pin(read::items::output(store, environment, &made, known)).await?,
        };
        if let Some(output) = output {
            outputs.keep(step, &output);
        }
    }
    Ok(())
}

/// The task, if it has ended.
async fn ended_task(
    store: &dyn Store,
    environment: Environment,
    task: TaskId,
) -> Result<Option<Task>, ActorProcessingErr> {
    let found = tables::task(store, environment, task).await?;
    Ok(found.map(|LoadedTask { task, .. }| task).filter(Machine::is_finished))
}

/// The answer to a client whose request is refused.
fn refused(execution: &Execution, refusal: Refusal) -> Error {
    let id = execution.head.spec.id;
    Error::InvalidState(match refusal {
        Refusal::Finished(status) => format!("execution {id} is already {}", status.as_str()),
        Refusal::Running => {
            format!("execution {id} is {}: there is nothing to retry", execution.status().as_str())
        }
        Refusal::StillStopping => {
            format!("execution {id} still has tasks that are being stopped; try again in a moment")
        }
        Refusal::TextsErased => {
            format!(
                "the texts of a completed step of execution {id} were erased, so later steps cannot run: \
                 start a new execution"
            )
        }
        Refusal::Signalled => {
            format!(
                "execution {id} has a signal of this name; replace: true replaces an unused one"
            )
        }
        Refusal::WaitOver => {
            format!("execution {id} no longer waits for a signal of this name")
        }
        Refusal::StaleTask | Refusal::NotReady | Refusal::NotReopened | Refusal::NotDue => {
            format!("execution {id} changed in the meantime: try again")
        }
    })
}

/// Tells an execution that its timer fired.
fn time_passed(node: &Node, address: Address, builder: &mut UnitBuilder<'_>) {
    let head = &builder.state().head;
    let is_start = matches!(head.state, State::Scheduled { .. });
    let may = || {
        let account = &head.spec.account;
        node.state.accounts.owner_may(account, address.environment, Action::TasksCreate)
    };
    let event = match is_start.then(may) {
        Some(Err(error)) => {
            tracing::info!(execution = %address.execution, %error, "a late start is cancelled");
            Event::CancelRequested
        }
        Some(Ok(_)) | None => Event::TimePassed,
    };
    // Refused if nothing is due, or the execution has ended.
    if builder.happened(event) == Err(Refusal::NotDue)
        && let Some(at) = builder.state().wakes_at()
    {
        // The clock went back since the timer looked at it.
        effects::of_executions(node, address, Effect::WakeAt(at));
    }
}
