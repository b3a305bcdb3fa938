//! One shard's timers: the wake-ups of tasks, executions, approvals, deliveries and schedules.
//!
//! The instants of timetables are of the wall clock, which may jump, and all others are of the process; the timers
//! look at both at least once a second. The system spawns one actor per shard, which is rebuilt from the
//! unfinished items. Deliberately absent: the reaction at the instant. The woken actor decides.

mod deadlines;

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::Timestamp;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::task::JoinHandle;

use crate::kernel::address::{DeliveryAddress, ExecutionAddress, ScheduleAddress, TaskAddress};
use crate::kernel::directory::Directory;
use crate::kernel::ports::Clock;
use crate::messages::{approval, delivery, execution, schedule, task};

use deadlines::Deadlines;

const LONGEST_NAP: Duration = Duration::from_secs(1);

/// The actor to wake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum TimerKey {
    Task(TaskAddress),
    Execution(ExecutionAddress),
    Approval(TaskAddress),
    Delivery(DeliveryAddress),
    Schedule(ScheduleAddress),
}

/// A message to the timers.
#[derive(Debug)]
pub(crate) enum Message {
    /// Wake the item at this instant, and not at any earlier named one.
    Set(TimerKey, Timestamp),
    /// The item need not be woken.
    Forget(TimerKey),
    /// The state is whole: look at the clock from now on.
    Begin,
    /// Look at the clock.
    Look,
    /// Say the number of items that are to be woken.
    #[cfg(test)]
    Count(tokio::sync::oneshot::Sender<usize>),
}

/// The actor.
#[derive(Debug)]
pub(crate) struct Timers;

pub(crate) struct State {
    begun: bool,
    deadlines: Deadlines,
    /// The occurrences of schedules, by the wall clock.
    occurrences: Deadlines,
    clock: Arc<dyn Clock>,
    tasks: Arc<Directory<TaskAddress, task::Message>>,
    executions: Arc<Directory<ExecutionAddress, execution::Message>>,
    approvals: Arc<Directory<TaskAddress, approval::Message>>,
    deliveries: Arc<Directory<DeliveryAddress, delivery::Message>>,
    schedules: Arc<Directory<ScheduleAddress, schedule::Message>>,
    nap: Option<(Timestamp, JoinHandle<()>)>,
}

impl State {
    fn of(&mut self, key: TimerKey) -> &mut Deadlines {
        match key {
            TimerKey::Task(_)
            | TimerKey::Execution(_)
            | TimerKey::Approval(_)
            | TimerKey::Delivery(_) => &mut self.deadlines,
            TimerKey::Schedule(_) => &mut self.occurrences,
        }
    }

    fn due(&mut self) -> Option<TimerKey> {
        let due = self.deadlines.due(self.clock.now());
        due.or_else(|| self.occurrences.due(self.clock.wall()))
    }

    /// Makes sure that the clock is looked at in time.
    fn doze(&mut self, myself: &ActorRef<Message>) {
        let now = self.clock.now();
        let deadline = self.deadlines.next().map(|at| at.since(now));
        let occurrence = self.occurrences.next().map(|at| at.since(self.clock.wall()));
        let Some(wait) = deadline.into_iter().chain(occurrence).min().filter(|_| self.begun) else {
            return;
        };
        let until = now.after(wait.min(LONGEST_NAP));
        if let Some((planned, nap)) = &self.nap {
            if *planned <= until && !nap.is_finished() {
                return;
            }
            nap.abort();
        }
        let (myself, wait) = (myself.clone(), until.since(now));
        let nap = tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            // Fails only when the system is stopping.
            let _ = myself.cast(Message::Look);
        });
        self.nap = Some((until, nap));
    }
}

impl Actor for Timers {
    type Msg = Message;
    type State = State;
    type Arguments = (
        Arc<dyn Clock>,
        Arc<Directory<TaskAddress, task::Message>>,
        Arc<Directory<ExecutionAddress, execution::Message>>,
        Arc<Directory<TaskAddress, approval::Message>>,
        Arc<Directory<DeliveryAddress, delivery::Message>>,
        Arc<Directory<ScheduleAddress, schedule::Message>>,
    );

    async fn pre_start(
        &self,
        _: ActorRef<Message>,
        (clock, tasks, executions, approvals, deliveries, schedules): Self::Arguments,
    ) -> Result<State, ActorProcessingErr> {
        Ok(State {
            begun: false,
            deadlines: Deadlines::default(),
            occurrences: Deadlines::default(),
            clock,
            tasks,
            executions,
            approvals,
            deliveries,
            schedules,
            nap: None,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Set(key, at) => state.of(key).set(key, at),
            Message::Forget(key) => state.of(key).forget(key),
            Message::Begin => state.begun = true,
            #[cfg(test)]
            Message::Count(reply) => {
                let _ = reply.send(state.deadlines.len() + state.occurrences.len());
            }
            Message::Look => {
                state.nap = None;
                while let Some(key) = state.due() {
                    match key {
                        TimerKey::Task(task) => state.tasks.send(task, task::Message::TimePassed),
                        TimerKey::Execution(execution) => {
                            state.executions.send(execution, execution::Message::TimePassed);
                        }
                        TimerKey::Approval(approval) => {
                            state.approvals.send(approval, approval::Message::TimePassed);
                        }
                        TimerKey::Delivery(delivery) => {
                            state.deliveries.send(delivery, delivery::Message::TimePassed);
                        }
                        TimerKey::Schedule(schedule) => {
                            state.schedules.send(schedule, schedule::Message::TimePassed);
                        }
                    }
                }
            }
        }
        state.doze(&myself);
        Ok(())
    }
}
