//! An event on its way to the outermost owner of the items that it concerns.
//!
//! ```text
//!   approval ─▶ task ─▶ execution      each adds its item; the last one decides and commits
//!      ▲──────────▲─────────┘          each hears its next state, or the refusal
//! ```
//!
//! A participant waits for its answer and handles nothing meanwhile, so its item stays as it joined.

use callboard_domain::approval::Approval;
use callboard_domain::task::Task;
use callboard_domain::unit::{Change, Event, Refusal, Unit};
use tokio::sync::oneshot;

/// The answer to a participant. The channel closes without one if the owner breaks.
pub(crate) type Joined = Result<Committed, Refusal>;

/// The items of a participant after the commit.
#[derive(Debug, Clone)]
pub(crate) struct Committed {
    pub(crate) task: Task,
    /// The approval, if it changed.
    pub(crate) approval: Option<Box<Approval>>,
}

/// The event, the items so far, and the participants.
#[derive(Debug)]
pub(crate) struct Join {
    pub(crate) event: Event,
    pub(crate) task: Option<Box<Task>>,
    pub(crate) approval: Option<Box<Approval>>,
    pub(crate) participants: Participants,
}

/// The channels on which the participants wait.
#[derive(Debug, Default)]
pub(crate) struct Participants(Vec<oneshot::Sender<Joined>>);

impl Join {
    /// An event without participants: the caller decides by itself.
    pub(crate) fn alone(event: Event) -> Self {
        Self { event, task: None, approval: None, participants: Participants::default() }
    }

    /// Adds a participant; it waits on the channel that is returned.
    pub(crate) fn participate(&mut self) -> oneshot::Receiver<Joined> {
        let (sender, receiver) = oneshot::channel();
        self.participants.0.push(sender);
        receiver
    }
}

impl Participants {
    /// Answers every participant. A participant may have broken meanwhile; it is started again from the
    /// store.
    pub(crate) fn notify(self, joined: &Joined) {
        for sender in self.0 {
            let _ = sender.send(joined.clone());
        }
    }
}

impl Committed {
    /// The items of a committed unit that changed one task.
    pub(crate) fn one(unit: Unit) -> Option<Self> {
        let (mut task, mut approval) = (None, None);
        for change in unit.changes {
            match change {
                Change::Task(step, _) => task = Some(step.next),
                Change::Approval(step, _) => approval = Some(Box::new(step.next)),
                Change::NewTask(..)
                | Change::Execution(..)
                | Change::Signal(..)
                | Change::Delivery(_)
                | Change::Review(..) => {}
            }
        }
        task.map(|task| Self { task, approval })
    }

    /// The items of a committed unit, one entry for each task that changed, in the unit's order.
    pub(crate) fn all(unit: Unit) -> Vec<Self> {
        let (mut all, mut approvals) = (Vec::with_capacity(1), Vec::new());
        for change in unit.changes {
            match change {
                Change::Task(step, _) => all.push(Self { task: step.next, approval: None }),
                Change::Approval(step, _) => approvals.push(step.next),
                Change::NewTask(..)
                | Change::Execution(..)
                | Change::Signal(..)
                | Change::Delivery(_)
                | Change::Review(..) => {}
            }
        }
        for approval in approvals {
            if let Some(of) = all.iter_mut().find(|of| of.task.spec.id == approval.id()) {
                of.approval = Some(Box::new(approval));
            }
        }
        all
    }
}
