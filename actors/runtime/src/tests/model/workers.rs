//! Workers as the model plays them: they do nothing by themselves, and remember every lease that they
//! ever had.

use std::collections::VecDeque;

use callboard_domain::id::WorkerId;
use callboard_domain::task::{Completion, Ending, EndingCode, Failure, LeaseToken};
use callboard_domain::usage::Usage;
use callboard_domain::worker::Profile;
use tokio::sync::mpsc;

use super::limits::{PAUSED, RATED};
use super::oracle::{Oracle, Sent};
use crate::handle::WorkerLink;
use crate::items::worker::{Of, WorkerCommand, WorkerMessage};
use crate::tests::completion;

/// A worker.
pub(super) struct Player {
    pub(super) number: usize,
    pub(super) profile: Profile,
    pub(super) id: Option<WorkerId>,
    line: Option<Line>,
    /// Its unacknowledged results: a result may be taken although the connection ends.
    pub(super) sent: VecDeque<Sent>,
    /// The leases that it believes to hold.
    pub(super) holds: Vec<LeaseToken>,
    /// Those that it had and that are over for all it knows.
    pub(super) old: Vec<LeaseToken>,
    /// It says nothing, not even that it lives.
    pub(super) silent: bool,
    pub(super) draining: bool,
}

/// A connection.
struct Line {
    link: Option<WorkerLink>,
    commands: mpsc::UnboundedReceiver<WorkerCommand>,
}

impl Player {
    pub(super) fn new(number: usize, concurrency: usize) -> Self {
        let profile = Profile {
            name: format!("w{number}"),
            version: "0".into(),
            queues: vec!["default".into(), PAUSED.into(), RATED.into(), own_queue(number)],
            models: vec!["*".into()],
            functions: [].into(),
            concurrency,
        };
        Self {
            number,
            profile,
            id: None,
            line: None,
            sent: VecDeque::new(),
            holds: Vec::new(),
            old: Vec::new(),
            silent: false,
            draining: false,
        }
    }

    /// It connects, and may receive a command before it hears that it is let in. Returns the leases that it
    /// holds until then.
    pub(super) fn connecting(
        &mut self,
        commands: mpsc::UnboundedReceiver<WorkerCommand>,
    ) -> (Option<WorkerId>, Vec<LeaseToken>) {
        self.line = Some(Line { link: None, commands });
        (self.id, std::mem::take(&mut self.holds))
    }

    /// It is let in, with `kept` of what it `held`.
    pub(super) fn connected(
        &mut self,
        link: WorkerLink,
        held: Vec<LeaseToken>,
        kept: Vec<LeaseToken>,
    ) {
        if self.id.replace(link.worker()) != Some(link.worker()) {
            self.sent.clear();
        }
        if let Some(line) = &mut self.line {
            line.link = Some(link);
        }
        self.old.extend(held.into_iter().filter(|lease| !kept.contains(lease)));
        self.holds.extend(kept);
        (self.silent, self.draining) = (false, false);
    }

    /// It is not let in, and still holds what it `held`.
    pub(super) fn refused(&mut self, held: Vec<LeaseToken>) {
        self.cut();
        self.holds = held;
    }

    /// The link for its messages, if it is connected.
    pub(super) fn link(&self) -> Option<&WorkerLink> {
        self.line.as_ref().and_then(|line| line.link.as_ref())
    }

    /// Its connection is over.
    pub(super) fn cut(&mut self) {
        self.line = None;
    }

    /// The server is gone, and with it every unacknowledged result: it may have been taken or not.
    pub(super) fn orphaned(&mut self) {
        self.cut();
        self.sent.clear();
    }

    /// Takes in its commands so far; returns lines for the trace.
    pub(super) fn hear(&mut self, oracle: &mut Oracle, start: u32, strict: bool) -> Vec<String> {
        let mut heard = Vec::new();
        while let Some(command) = self.line.as_mut().and_then(|line| line.commands.try_recv().ok())
        {
            heard.push(self.take_command(oracle, command, start, strict));
        }
        heard
    }

    fn take_command(
        &mut self,
        oracle: &mut Oracle,
        command: WorkerCommand,
        start: u32,
        strict: bool,
    ) -> String {
        let number = self.number;
        match command {
            WorkerCommand::Assign(assignment) => {
                oracle.assigned(start, &assignment, strict);
                self.holds.push(assignment.lease);
                format!("w{number} is given {}", assignment.lease)
            }
            WorkerCommand::Ack(lease, of, settled) => {
                let lease = oracle.was_sent_under(lease);
                oracle.acknowledged(&mut self.sent, (lease, of, settled), strict);
                self.forget(lease);
                format!("w{number} hears {settled:?} of {lease}")
            }
            WorkerCommand::Cancel(lease, why) => {
                oracle.revoked(lease);
                self.forget(lease);
                format!("w{number} hears that {lease} is over: {why}")
            }
            WorkerCommand::Leases(leases, _) => {
                leases.lost.iter().for_each(|lease| self.forget(*lease));
                format!("w{number} keeps {} and lost {:?}", leases.renewed.len(), leases.lost)
            }
            WorkerCommand::Drain(_) => {
                self.draining = true;
                format!("w{number} is to drain")
            }
            WorkerCommand::Close => {
                self.cut();
                format!("w{number} is sent away")
            }
        }
    }

    fn forget(&mut self, lease: LeaseToken) {
        self.holds.retain(|held| *held != lease);
        if !self.old.contains(&lease) {
            self.old.push(lease);
        }
    }

    /// Says that it lives.
    pub(super) fn beat(&self) {
        if let (Some(link), false) = (self.link(), self.silent) {
            link.say(WorkerMessage::Heartbeat(self.holds.clone(), vec![]));
        }
    }

    /// Answers under a lease, its own or not, with so many percent of the tokens that it may have.
    pub(super) fn answer(
        &mut self,
        oracle: &mut Oracle,
        lease: LeaseToken,
        answer: Result<String, bool>,
        (confidence, share): (Option<f64>, u64),
    ) {
        let Some(link) = self.line.as_ref().and_then(|line| line.link.as_ref()) else { return };
        let of = if answer.is_ok() { Of::Complete } else { Of::Fail };
        self.sent.push_back(oracle.sends(lease, of, answer.clone()));
        let lease = oracle.arrives_under(lease);
        link.say(match answer {
            Ok(output) => {
                let most = oracle.leases.get(&lease).map_or(0, |lease| lease.max_tokens);
                let usage = Usage { output: most * share / 100, ..Usage::default() };
                let completion = Completion { confidence, usage, ..completion() };
                WorkerMessage::Completed(lease, output.into(), completion)
            }
            Err(retryable) => {
                let ending = Ending { code: EndingCode::ProviderError, message: "no".into() };
                WorkerMessage::Failed(lease, Failure::new(ending, retryable))
            }
        });
    }
}

/// The queue that only this worker serves.
pub(super) fn own_queue(number: usize) -> String {
    format!("only-w{number}")
}
