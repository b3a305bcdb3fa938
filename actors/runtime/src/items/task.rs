//! A task's actor: the only writer of the task.
//!
//! The shard's supervisor spawns the actor, or the pool gives it, when a message finds none awake;
//! the actor retires unless a worker holds the task: a task that waits (in its queue, in a backoff, for a
//! reviewer) or has ended is a row. The task's execution decides and commits an event that can end a
//! step's task. Deliberately absent: every rule. [`callboard_domain::unit`] decides.

mod call;

use std::sync::Arc;

use callboard_domain::Error;
use callboard_domain::access::Action as Permission;
use callboard_domain::confidence::ask::Calls;
use callboard_domain::function::MAX_OUTPUT;
use callboard_domain::id::TaskId;
use callboard_domain::machine::Machine;
use callboard_domain::retry::Jitter;
use callboard_domain::schema::Schema;
use callboard_domain::task::{
    self, Chance, Completion, Effect, Event, Failure, Inputs, LeaseId, LeaseToken, State, Task,
};
use callboard_domain::unit::{self, Refusal};
use ractor::ActorProcessingErr;
use tokio::sync::oneshot;

use crate::commit::sources::NodeSources;
use crate::commit::{durable, effects};
use crate::items::worker::{AckResult, Assignment};
use crate::items::{approval, execution};
use crate::kernel::address::TaskAddress;
use crate::kernel::item::{Activation, Done, Item};
use crate::kernel::join::{Committed, Join};
use crate::kernel::planted::{Fault, is_planted};
use crate::kernel::supervisor::Reason;
use crate::limits::budgets::Room;
use crate::limits::flow::QueueLease;
use crate::limits::permits::Permits;
use crate::messages::capacity::SlotPermit;
pub(crate) use crate::messages::task::{Answer, Message, WorkerResult};
use crate::node::Node;
use crate::tables::{self, FILES};

/// A task in the memory of its actor.
#[derive(Default)]
pub(crate) struct TaskItem {
    /// `None` if there is no such task.
    task: Option<Task>,
    /// The task's texts, if they were read with the task.
    inputs: Option<Inputs>,
    /// What the task holds of the limits while it runs.
    permits: Permits,
    /// The calls of the answer that follows.
    called: Option<Calls>,
    /// The schema of the output, while a worker holds the task; the execution knows that of a step.
    schema: Option<Schema>,
}

/// `Ok(Err(_))` is a refusal.
type TransitionResult = Result<Result<(), Refusal>, ActorProcessingErr>;

impl Item for TaskItem {
    const NAME: &'static str = "task";
    type Address = TaskAddress;
    type Message = Message;
    type Shared = Node;

    fn new(_: &Arc<Node>, _: &TaskAddress) -> Self {
        Self::default()
    }

    async fn start(held: &mut Activation<Self>, reason: Reason) -> Done {
        held.load().await?;
        match reason {
            Reason::Woken => {}
            Reason::Restarted => held.recover(),
            Reason::GivenUp => held.give_up().await?,
        }
        Ok(())
    }

    // The rare branch is boxed: otherwise every message would pay for the larger future.
    async fn handle(held: &mut Activation<Self>, message: Message) -> Done {
        match message {
            Message::Lease(slot, permits) => held.lease(slot, permits).await?,
            Message::Result(result) => held.result(*result).await?,
            Message::Reported(lease, reported) => held.reported(lease, &reported),
            Message::Called(lease, called, bound) => {
                Box::pin(held.called(lease, *called, bound)).await?;
            }
            // A lease that is not current any more is refused, as the sender wants.
            Message::LeaseExpired(lease) => drop(held.take(Event::LeaseExpired { lease }).await?),
            Message::Undelivered(lease) => drop(held.take(Event::Undelivered { lease }).await?),
            Message::TimePassed => Box::pin(held.time_passed()).await?,
            Message::Stop => Box::pin(held.stop()).await?,
            Message::Cancel(by, reply) => Box::pin(held.cancel(by, reply)).await?,
            Message::Reprioritize(priority, reply) => {
                Box::pin(held.reprioritize(priority, reply)).await?;
            }
            Message::Join(join) => drop(held.join(*join, false).await?),
            Message::Recover(permits) => held.resume(permits),
        }
        Ok(())
    }

    fn is_idle(&self) -> bool {
        !self.task.as_ref().is_some_and(|task| matches!(task.state, State::Running { .. }))
    }

    fn retired(&mut self) {
        *self = Self::default();
    }

    /// Its worker goes on: the places stay taken.
    fn broke(held: &mut Activation<Self>) {
        let permits = std::mem::take(&mut held.item.permits);
        if permits.running.is_some() {
            let (shard, size) = (held.node.shard(held.partition()), size_of::<Permits>());
            shard.permits.add(held.address, permits, size);
        }
    }
}

impl Activation<TaskItem> {
    fn partition(&self) -> u8 {
        self.address.task.partition()
    }

    async fn load(&mut self) -> Done {
        let TaskAddress { environment, task } = self.address;
        let shard = self.node.shard(self.partition());
        let found = match shard.handoff.take(&self.address) {
            Some(found) => Some(found),
            // Boxed: most tasks do without, and every message would pay for the larger future.
            None => Box::pin(tables::task(&*shard.store, environment, task)).await?,
        };
        if let Some(found) = found {
            self.item.task = Some(found.task);
            self.item.inputs = found.inputs;
        }
        Ok(())
    }

    /// Takes the step that an event of the task alone leads to.
    async fn take(&mut self, event: Event) -> TransitionResult {
        self.join(Join::alone(unit::Event::Task { event, output: None }), false).await
    }

    /// Decides a unit and takes the next state from it. The task's execution decides in its slot if the
    /// event can end the task, unless the task acts `by_itself`.
    async fn join(&mut self, mut join: Join, by_itself: bool) -> TransitionResult {
        let Some(task) = &self.item.task else {
            let refusal = Refusal::from(task::Refusal::NotHeld);
            join.participants.notify(&Err(refusal.clone()));
            return Ok(Err(refusal));
        };
        let (environment, partition) = (self.address.environment, self.partition());
        let step = task.spec.origin.step.as_ref().filter(|_| !by_itself);
        let execution = step.map(|(id, _)| *id).filter(|_| unit::can_end(task, &join.event));
        let joined = if let Some(execution) = execution {
            let answer = join.participate();
            join.task = Some(Box::new(task.clone()));
            let address = execution::Address { environment, execution };
            let message = execution::Message::Join(Box::new(join));
            self.node.shard(partition).executions.send(address, message);
            answer.await.map_err(|_| "its execution broke")?
        } else {
            let Join { event, approval, participants, .. } = join;
            let items = unit::Items { task: Some(task), approval: approval.as_deref() };
            let mut sources = NodeSources::of(&self.node, environment, partition);
            let joined = match unit::decide(items, event, self.node.now(), &mut sources) {
                Ok(unit) => {
                    let unit =
                        durable::commit(&self.node, environment, partition, unit, sources.reserved)
                            .await?;
                    Ok(Committed::one(unit).expect("a task's unit changes the task"))
                }
                Err(refusal) => Err(refusal),
            };
            participants.notify(&joined);
            joined
        };
        Ok(joined.map(|committed| {
            let before = self.item.task.replace(committed.task);
            if self.item.is_idle() {
                self.item.permits = Permits::default();
                self.item.schema = None;
            }
            self.report_attempt(before.as_ref());
        }))
    }

    /// Counts and traces an attempt, if the attempt is over now.
    fn report_attempt(&self, before: Option<&Task>) {
        let (Some(before), Some(after)) = (before, &self.item.task) else { return };
        let Some(leased_at) = before.leased_at().filter(|_| self.item.is_idle()) else { return };
        let now = self.node.now();
        if let Some(batch) = after.spec.origin.rows {
            self.node.state.batches.spend(
                (self.address.environment, batch),
                before.paid(),
                after.paid(),
            );
        }
        if self.address.environment.is_live() {
            let (metrics, run) = (&self.node.observers.metrics, now.since(leased_at));
            metrics.attempt_ended(self.address.environment, (before, after), run);
        }
        if let Some(tracer) = &self.node.kernel.ports.tracer {
            tracer.attempt_ended(before, after, now);
        }
    }

    /// Gives the task to the worker whose slot came. The task refuses if it was cancelled meanwhile
    /// or is with another worker; the slot and the permits are then dropped, which frees them.
    async fn lease(&mut self, slot: SlotPermit, mut permits: Permits) -> Done {
        if self.is_paused(&permits) {
            // The pause began after the queue had taken the task out.
            if let Some(task) = self.item.task.as_ref().filter(|task| task.state == State::Ready) {
                effects::of_tasks(&self.node, self.address.environment, task, Effect::Enqueue);
            }
            return Ok(());
        }
        let Ok(call) = self.reserve(permits.call.take()).await? else { return Ok(()) };
        permits.call = call;
        let Some(task) = &self.item.task else { return Ok(()) };
        let lease = LeaseId::from_random(self.node.kernel.ports.entropy.bits());
        let event = Event::Leased { lease, worker: slot.worker() };
        let items = unit::Items { task: Some(task), approval: None };
        let event = unit::Event::Task { event, output: None };
        let (environment, partition) = (self.address.environment, self.partition());
        let mut sources = NodeSources::of(&self.node, environment, partition);
        let Ok(unit) = unit::decide(items, event, self.node.now(), &mut sources) else {
            return Ok(());
        };
        let reserved = sources.reserved;
        if self.node.state.accounts.is_abandoned(&task.spec.account) {
            drop((slot, permits));
            let message = "nobody answers for the work of its account".to_owned();
            drop(Box::pin(self.take(Event::OwnerGone { message })).await?);
            return Ok(());
        }
        if self.node.limits.budgets(environment).is_some() {
            match Box::pin(self.room_in_budgets()).await? {
                Room::Now => {}
                // Dropping the slot offers it to the next task.
                Room::Later => return Ok(()),
                Room::Never(reason) => {
                    drop((slot, permits));
                    drop(Box::pin(self.take(Event::Unaffordable { reason })).await?);
                    return Ok(());
                }
            }
        }
        let unit = durable::commit(&self.node, environment, partition, unit, reserved).await?;
        let task = Committed::one(unit).expect("a lease changes its task").task;
        let State::Running { deadline, .. } = task.state else { return Ok(()) };
        self.item.task = Some(task.clone());
        self.item.permits = permits;
        // A further attempt is rare, and reads the texts again.
        let inputs = if let Some(inputs) = self.item.inputs.take() {
            inputs
        } else {
            let store = &*self.node.shard(partition).store;
            Box::pin(tables::inputs(store, environment, self.address.task)).await?
        };
        if task.spec.origin.step.is_none() {
            self.item.schema.clone_from(&inputs.output_schema);
        }
        let inputs = task.amended(inputs);
        let mut files = Vec::with_capacity(inputs.files.len());
        for id in &inputs.files {
            let file = FILES.get(self.node.store(), environment.number(), &id.as_u128()).await?;
            files.push((*id, file));
        }
        let max_tokens =
            task.max_tokens_of_call(|model| self.node.limits.prices.longest_output(model));
        let trace = self.node.trace_of_attempt(&task, lease);
        if self.is_paused(&self.item.permits) {
            // The pause began meanwhile: from its answer on no worker is given anything.
            drop(self.take(Event::Undelivered { lease }).await?);
            return Ok(());
        }
        self.item.permits = std::mem::take(&mut self.item.permits).given();
        let lease = LeaseToken { task: self.address.task, lease };
        slot.assign(Assignment { lease, deadline, task, inputs, files, max_tokens, trace });
        Ok(())
    }

    /// True if somebody has paused everything, or the queue.
    fn is_paused(&self, permits: &Permits) -> bool {
        self.node.is_paused() || permits.queue.as_ref().is_some_and(QueueLease::is_paused)
    }

    /// The room for a lease in the budgets of many tasks, which is reserved; the task waits for them otherwise.
    async fn room_in_budgets(&mut self) -> Result<Room, ActorProcessingErr> {
        let TaskAddress { environment, task: id } = self.address;
        if self.item.inputs.is_none() {
            let store = &*self.node.shard(self.partition()).store;
            self.item.inputs = Some(tables::inputs(store, environment, id).await?);
        }
        let (Some(task), Some(inputs)) = (&self.item.task, &self.item.inputs) else {
            return Ok(Room::Now);
        };
        let called = task.called_next();
        let amended = task.correction.is_some().then(|| task.amended(inputs.clone()));
        let inputs = amended.as_ref().unwrap_or(inputs);
        let worst = self.node.limits.prices.worst_cost(called, inputs, task.max_tokens());
        let budgets = self.node.limits.budgets_of(environment);
        Ok(budgets.lease(task, worst, self.node.now()))
    }

    async fn result(&mut self, WorkerResult { lease, answer, bound, ack }: WorkerResult) -> Done {
        let lease = lease.lease;
        let answer = match answer {
            Answer::Output(output, _) if self.is_call() && output.length() > MAX_OUTPUT => {
                let says = format!("the output of a function has at most {MAX_OUTPUT} bytes");
                Answer::Failure(Failure::of_worker("OUTPUT_INVALID", says, false))
            }
            answer @ (Answer::Output(..) | Answer::Failure(_)) => answer,
        };
        let patience = self.call_ended(lease, &answer, bound);
        let event = match answer {
            Answer::Output(output, mut completion) => {
                let output = if self.is_call() { output.of_function() } else { output.of_prompt() };
                self.price(&mut completion);
                let chance = Chance((self.node.kernel.ports.entropy.bits() & 0xffff_ffff) as u32);
                let event = Event::Completed { lease, completion, chance };
                unit::Event::Task { event, output: Some(output) }
            }
            Answer::Failure(mut failure) => {
                self.price_of_failure(&mut failure);
                let jitter = self.jitter();
                let event = Event::AttemptFailed { lease, failure, patience, jitter };
                unit::Event::Task { event, output: None }
            }
        };
        let event = self.checked(event).await?;
        ack.send(match self.join(Join::alone(event), false).await? {
            Ok(()) => AckResult::Applied,
            Err(Refusal::Task(task::Refusal::Duplicate)) => AckResult::Duplicate,
            Err(
                Refusal::Task(_)
                | Refusal::Approval(_)
                | Refusal::NotAdmitted(_)
                | Refusal::Used(_),
            ) => AckResult::Stale,
        });
        Ok(())
    }

    /// Checks an answer whose output must match a schema; the execution checks that of a step.
    async fn checked(&self, event: unit::Event) -> Result<unit::Event, ActorProcessingErr> {
        let is_due = |task: &&Task| task.spec.checked && task.spec.origin.step.is_none();
        let Some(task) = self.item.task.as_ref().filter(is_due) else { return Ok(event) };
        let schema = if let Some(schema) = &self.item.schema {
            Some(schema.clone())
        } else {
            // The server was started again while a worker held the task.
            let store = &*self.node.shard(self.partition()).store;
            let (environment, id) = (self.address.environment, self.address.task);
            Box::pin(tables::inputs(store, environment, id)).await?.output_schema
        };
        let Some(schema) = schema else { return Ok(event) };
        let longest =
            task.longest_of_attempt(|model| self.node.limits.prices.longest_output(model));
        let (compute, environment) = (&self.node.kernel.compute, self.address.environment);
        let checked = compute.check_answer(environment, &schema, task, event, longest);
        Ok(match Box::pin(checked).await? {
            (event, Some(fault)) => event.faulted(fault),
            (event, None) => event,
        })
    }

    /// Fills in the cost: the model's own calls at the price of the model that was used, in the service
    /// tier that the provider says it gave, or else the one that was asked for; those of a judge at the
    /// judge's price, in no tier. The cost of a function is what its worker reported.
    fn price(&self, completion: &mut Completion) {
        if self.is_call() {
            completion.usage.price_unknown = false;
            completion.judge = None;
            return;
        }
        let prices = self.node.limits.prices.get();
        let tier = completion.service_tier;
        let tier = tier.or(self.item.task.as_ref().and_then(|task| task.spec.service_tier()));
        if let Some(task) = &self.item.task {
            completion.usage = prices.usage_in(task.model(), tier, completion.usage.tokens());
        }
        if let Some(judge) = &mut completion.judge {
            judge.usage = prices.usage_in(&judge.model, None, judge.usage.tokens());
            completion.usage += judge.usage;
        }
    }

    /// Fills in the cost of a call that failed, as far as the worker saw its usage.
    fn price_of_failure(&self, failure: &mut Failure) {
        if let (Some(usage), Some(task)) = (&mut failure.usage, &self.item.task) {
            let prices = self.node.limits.prices.get();
            *usage = prices.usage_in(task.model(), task.spec.service_tier(), usage.tokens());
        }
    }

    /// True if the task calls a function.
    fn is_call(&self) -> bool {
        self.item.task.as_ref().is_some_and(|task| task.spec.work().function().is_some())
    }

    fn jitter(&self) -> Jitter {
        Jitter((self.node.kernel.ports.entropy.bits() & 0xffff) as u16)
    }

    /// Cancels a late start if the person behind its account may not begin it any more; true if it did.
    async fn cancels_start(&mut self) -> Result<bool, ActorProcessingErr> {
        let Some(task) = &self.item.task else { return Ok(false) };
        let may = self.node.state.accounts.owner_may(
            &task.spec.account,
            self.address.environment,
            Permission::TasksCreate,
        );
        let Err(error) = may else { return Ok(false) };
        let message = format!("the task was not begun: {error}");
        Ok(self.take(Event::OwnerGone { message }).await?.is_ok())
    }

    async fn time_passed(&mut self) -> Done {
        let is_late_start =
            |task: &Task| matches!(task.state, State::Scheduled { at } if at <= self.node.now());
        if self.item.task.as_ref().is_some_and(is_late_start)
            && Box::pin(self.cancels_start()).await?
        {
            return Ok(());
        }
        let taken = self.take(Event::TimePassed { jitter: self.jitter() }).await?;
        if taken == Err(task::Refusal::NotDue.into()) {
            // The clock went back after the timer had fired: ask for the instant again.
            self.recover();
        }
        Ok(())
    }

    /// Stops for the execution, which hears of an end that came before.
    async fn stop(&mut self) -> Done {
        if self.is_held() {
            self.tell_approval(approval::Message::TaskStops(approval::Stop::LetGo));
            return Ok(());
        }
        let taken = self.take(Event::CancelRequested).await?;
        if let Err(Refusal::Task(task::Refusal::Finished(_))) = taken {
            self.tell_execution();
        }
        Ok(())
    }

    async fn cancel(&mut self, by: String, reply: oneshot::Sender<Result<Task, Error>>) -> Done {
        if self.is_held() {
            let stop = approval::Stop::Cancelled(by, reply);
            self.tell_approval(approval::Message::TaskStops(stop));
            return Ok(());
        }
        let id = self.address.task;
        let taken = self.take(Event::CancelRequested).await?;
        let answer = match &self.item.task {
            Some(task) => cancelled(id, taken.map(|()| task.clone())),
            None => Err(Error::not_found("task", id)),
        };
        // The client may have left; the task is cancelled all the same.
        let _ = reply.send(answer);
        Ok(())
    }

    async fn reprioritize(
        &mut self,
        priority: u8,
        reply: oneshot::Sender<Result<(), Error>>,
    ) -> Done {
        let id = self.address.task;
        let answer = match &self.item.task {
            Some(task) if !task.is_finished() && task.priority() == priority => Ok(()),
            Some(_) => self
                .take(Event::Reprioritized { priority })
                .await?
                .map_err(|_| Error::InvalidState(format!("task {id} does not wait for a lease"))),
            None => Err(Error::not_found("task", id)),
        };
        // The client may have left; the task has its priority all the same.
        let _ = reply.send(answer);
        Ok(())
    }

    /// The actor broke too often, perhaps over the execution: the task fails by itself.
    async fn give_up(&mut self) -> Done {
        let was_held = self.is_held();
        drop(self.node.shard(self.partition()).permits.take(&self.address));
        let event = unit::Event::Task { event: Event::GivenUp, output: None };
        // Refused only if the task has ended.
        let _ = self.join(Join::alone(event), true).await?;
        self.tell_execution();
        if was_held {
            self.tell_approval(approval::Message::TaskEnded);
        }
        Ok(())
    }

    fn recover(&mut self) {
        let Some(task) = &self.item.task else { return };
        let held = self.node.shard(self.partition()).permits.take(&self.address);
        if let (State::Running { .. }, None) = (&task.state, &self.item.permits.running) {
            let anew = || self.node.permits_of_running(self.address.environment, task);
            self.item.permits = held.unwrap_or_else(anew);
        }
        for effect in task.outstanding() {
            effects::of_tasks(&self.node, self.address.environment, task, effect);
        }
    }

    /// Goes on after a restart of the server: the worker has one term to be heard from before the time limit
    /// of its attempt counts.
    fn resume(&mut self, permits: Permits) {
        let Some(task) = &self.item.task else { return };
        let State::Running { deadline, .. } = task.state else { return };
        self.item.permits = permits;
        let heard_by = self.node.now().after(self.node.settings.terms.lease);
        let heard_by = if is_planted(Fault::ActsWhileRecovering) { deadline } else { heard_by };
        effects::of_tasks(
            &self.node,
            self.address.environment,
            task,
            Effect::WakeAt(deadline.max(heard_by)),
        );
    }

    /// True if the output waits for a reviewer.
    fn is_held(&self) -> bool {
        let task = self.item.task.as_ref();
        task.is_some_and(|task| matches!(task.state, State::AwaitingApproval { .. }))
    }

    /// Tells the execution that the task has ended, outside of the execution's own commit.
    fn tell_execution(&self) {
        let Some(task) = &self.item.task else { return };
        if let Some((execution, _)) = task.spec.origin.step {
            let address = execution::Address { environment: self.address.environment, execution };
            let message = execution::Message::TaskEnded(Box::new(task.clone()));
            self.node.shard(execution.partition()).executions.send(address, message);
        }
    }

    /// Tells the approval, which waits for the task and never the other way round.
    fn tell_approval(&self, message: approval::Message) {
        self.node.shard(self.partition()).approvals.send(self.address, message);
    }
}

/// The answer to a cancellation.
pub(crate) fn cancelled(id: TaskId, taken: Result<Task, Refusal>) -> Result<Task, Error> {
    taken.map_err(|refusal| match refusal {
        Refusal::Task(task::Refusal::Finished(status)) => {
            Error::InvalidState(format!("task {id} is already {}", status.as_str()))
        }
        Refusal::Task(_) | Refusal::Approval(_) | Refusal::NotAdmitted(_) | Refusal::Used(_) => {
            Error::InvalidState(format!(
                "task {id} changed while it was being cancelled: try again"
            ))
        }
    })
}
