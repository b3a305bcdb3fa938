//! A gate looks at an output: what goes into the step of its task.
//!
//! Deliberately absent: the commit, which is the task's, and the rule, which is
//! [`callboard_domain::task::Gate`].

use std::sync::Arc;

use callboard_domain::Timestamp;
use callboard_domain::approval::{Approval, Held, Record, Wanted};
use callboard_domain::digest::Digest;
use callboard_domain::machine::Step;
use callboard_domain::task::{State, Task};
use callboard_store::Op;

use crate::durable::Persist;
use crate::node::Node;
use crate::shard::Address;
use crate::tables::TRACK;
use crate::tables::approvals::Written;

/// What a gate makes of an output, yet to become durable.
pub(crate) enum Gated {
    /// It is held: the first step of its approval.
    Held(Box<Step<Approval>>),
    /// It passes, which is kept for the track record.
    Passed(Record),
}

impl Gated {
    /// What the gate makes of the output that leads to this state of its task.
    pub(crate) fn of(
        node: &Node,
        address: Address,
        next: &Task,
        output: &str,
        now: Timestamp,
    ) -> Option<Self> {
        match next.state {
            State::AwaitingApproval { why, .. } => {
                let confidence = next.result.as_ref().and_then(|result| result.confidence);
                let held = Held { why, confidence, shown: Digest::of(output) };
                let asked = node.asked(address, Wanted::Anybody);
                let policy = node.settings.approvals;
                let step = Approval::opened(Arc::clone(&next.spec), &held, policy, asked, now);
                Some(Self::Held(Box::new(step)))
            }
            State::Completed { .. } => Record::of_passed(next, now).map(Self::Passed),
            State::Ready
            | State::Backoff { .. }
            | State::Running { .. }
            | State::Failed { .. }
            | State::Cancelled { .. }
            | State::Rejected { .. } => None,
        }
    }

    /// What is committed with the task's step.
    pub(crate) fn rows(&self, address: Address, now: Timestamp) -> Vec<Op> {
        match self {
            Self::Held(step) => Approval::rows(step, address.environment, now, Written::default()),
            Self::Passed(record) => {
                let (number, id) = (address.environment.number(), address.task.as_u128());
                vec![TRACK.put(number, &id, record, None)]
            }
        }
    }

    /// What follows, now that the task has become `task`: something else than was foreseen if the
    /// output is not what its execution asked for.
    pub(crate) fn settled(self, node: &Node, address: Address, task: &Task) {
        match self {
            Self::Held(step) if matches!(task.state, State::AwaitingApproval { .. }) => {
                let Step { next, effects, .. } = *step;
                super::became(node, address, None, &next, effects);
            }
            Self::Held(_) => node.reviewers.assign(address, None),
            Self::Passed(record) if matches!(task.state, State::Completed { .. }) => {
                node.track.changed(address.environment, address.task, None, &record);
            }
            Self::Passed(_) => {}
        }
    }
}
