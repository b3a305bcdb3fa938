//! A worker's state of the protocol: the leases that it holds, the results that it keeps, and the reaction
//! to each frame. Pure: no socket, no clock, no task.
//!
//! ```text
//! lease:  (none) ──assign──▶ running ──ended──▶ kept ──ack──▶ (none)
//!                               └── cancel, lost ──┴─────────▶ (none)
//! ```
//!
//! Deliberately absent: deadlines and the limit of tasks at once (the call and the runner keep
//! those), and back-pressure (the outbox).

use std::collections::BTreeMap;
use std::time::Duration;

use super::frames::{
    Assign, Delta, FromWorker, Of, Register, Registered, Report, Resume, ToWorker,
};

/// The orders to the runner, performed in the given order.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Effect {
    /// Write this frame.
    Send(FromWorker),
    /// Begin a model call.
    Start(Box<Assign>),
    /// Drop the model call of this lease.
    Abort(String),
    /// Send heartbeats from now on at this interval.
    BeatEvery(Duration),
    /// Leave after this time, even with running calls.
    LeaveWithin(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Down,
    Registering,
    Up,
}

#[derive(Debug, Clone, PartialEq)]
enum Held {
    Running,
    /// The result, kept until the server acknowledged it.
    Kept(Box<Report>),
}

/// The state of one worker, over all its connections.
#[derive(Debug)]
pub(super) struct Session {
    register: Register,
    link: Link,
    worker_id: Option<String>,
    held: BTreeMap<String, Held>,
    draining: bool,
    /// The members of results that earlier servers refuse and this one takes.
    takes: Vec<String>,
}

impl Session {
    /// A worker that was never connected. Later registrations fill in `register.resume`.
    pub(super) fn new(register: Register) -> Self {
        Self {
            register,
            link: Link::Down,
            worker_id: None,
            held: BTreeMap::new(),
            draining: false,
            takes: Vec::new(),
        }
    }

    /// True if the server answered the registration of this connection.
    pub(super) fn is_up(&self) -> bool {
        self.link == Link::Up
    }

    /// The number of leases held, results not yet acknowledged included.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// True if the worker should leave and holds no lease any more.
    pub(super) fn is_done(&self) -> bool {
        self.draining && self.held.is_empty()
    }

    /// Handles a new connection: the worker registers on it.
    pub(super) fn connected(&mut self) -> Vec<Effect> {
        self.link = Link::Registering;
        let resume =
            self.worker_id.clone().map(|worker_id| Resume { worker_id, leases: self.leases() });
        vec![Effect::Send(FromWorker::Register(Register { resume, ..self.register.clone() }))]
    }

    /// Handles the end of the connection. Running calls go on.
    pub(super) fn disconnected(&mut self) {
        self.link = Link::Down;
    }

    /// Handles a frame of the server.
    pub(super) fn received(&mut self, frame: ToWorker) -> Vec<Effect> {
        match frame {
            ToWorker::Registered(registered) => self.registered(registered),
            ToWorker::Assign(assign) => self.assigned(assign),
            ToWorker::Leases { lost } => self.lost(lost),
            ToWorker::Ack { lease, of, result: _ } => {
                self.acknowledged(&lease, of);
                Vec::new()
            }
            ToWorker::Cancel { lease, reason: _ } => self.lost(vec![lease]),
            ToWorker::Drain { deadline_ms } => {
                let mut effects = self.drain();
                effects.push(Effect::LeaveWithin(Duration::from_millis(deadline_ms)));
                effects
            }
            ToWorker::Error { .. } => Vec::new(),
        }
    }

    /// Handles the result of a lease. It is kept until acknowledged; that of a lease no longer held is dropped.
    pub(super) fn ended(&mut self, lease: &str, result: Report) -> Vec<Effect> {
        match self.held.get_mut(lease) {
            Some(held @ Held::Running) => *held = Held::Kept(Box::new(result.clone())),
            Some(Held::Kept(_)) | None => return Vec::new(),
        }
        if self.is_up() { vec![self.sent(result)] } else { Vec::new() }
    }

    /// Handles more text of a running call. Text of other leases is dropped.
    pub(super) fn delta(&self, lease: String, text: String) -> Vec<Effect> {
        let running = self.held.get(&lease) == Some(&Held::Running);
        if !(running && self.is_up()) {
            return Vec::new();
        }
        vec![Effect::Send(FromWorker::Delta(Delta { lease, text }))]
    }

    /// The heartbeat that is due.
    pub(super) fn beat(&self) -> Vec<Effect> {
        if !self.is_up() {
            return Vec::new();
        }
        vec![Effect::Send(FromWorker::Heartbeat { leases: self.leases() })]
    }

    /// Makes the worker leave: it tells the server once per connection. Running calls go on.
    pub(super) fn drain(&mut self) -> Vec<Effect> {
        let first = !std::mem::replace(&mut self.draining, true);
        if !(first && self.is_up()) {
            return Vec::new();
        }
        vec![Effect::Send(FromWorker::Drain)]
    }

    /// Ends the calls that still run, and gives their leases back, so that others have the tasks at once. An
    /// earlier server waits until the leases end.
    pub(super) fn give_back(&mut self) -> Vec<Effect> {
        let takes = self.is_up() && Registered::takes_return(&self.takes);
        let running = self.held.iter().filter(|(_, held)| **held == Held::Running);
        let leases: Vec<_> = running.map(|(lease, _)| lease.clone()).collect();
        let mut effects = self.lost(leases.clone());
        if takes && !leases.is_empty() {
            effects.push(Effect::Send(FromWorker::Return { leases }));
        }
        effects
    }

    fn registered(&mut self, registered: Registered) -> Vec<Effect> {
        self.link = Link::Up;
        self.worker_id = Some(registered.worker_id);
        self.takes = registered.takes;
        let beat = Duration::from_millis(registered.heartbeat_ms.max(1));
        let mut effects = vec![Effect::BeatEvery(beat)];
        effects.extend(self.lost(registered.lost));
        if self.draining {
            effects.push(Effect::Send(FromWorker::Drain));
        }
        let kept = self.held.values().filter_map(|held| match held {
            Held::Kept(result) => Some(self.sent((**result).clone())),
            Held::Running => None,
        });
        effects.extend(kept);
        effects
    }

    /// Runs a lease that crossed our `drain` on its way: the lease is ours, and leaving it would
    /// delay the task by half a minute.
    fn assigned(&mut self, assign: Box<Assign>) -> Vec<Effect> {
        match self.held.get(&assign.lease) {
            None => {
                self.held.insert(assign.lease.clone(), Held::Running);
                vec![Effect::Start(assign)]
            }
            Some(Held::Running) => Vec::new(),
            Some(Held::Kept(result)) => vec![self.sent((**result).clone())],
        }
    }

    /// The result, in the form that the server of this connection takes.
    fn sent(&self, result: Report) -> Effect {
        Effect::Send(FromWorker::Result(result.taken(&self.takes)))
    }

    /// Drops the calls and the results of leases that are no longer ours.
    fn lost(&mut self, leases: Vec<String>) -> Vec<Effect> {
        let mut effects = Vec::new();
        for lease in leases {
            match self.held.remove(&lease) {
                Some(Held::Running) => effects.push(Effect::Abort(lease)),
                Some(Held::Kept(_)) | None => {}
            }
        }
        effects
    }

    /// Removes the result that the server acknowledges. An acknowledgement of another frame removes
    /// nothing.
    fn acknowledged(&mut self, lease: &str, of: Of) {
        if matches!(self.held.get(lease), Some(Held::Kept(result)) if result.of == of) {
            self.held.remove(lease);
        }
    }

    fn leases(&self) -> Vec<String> {
        self.held.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests;
