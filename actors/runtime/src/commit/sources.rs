//! The sources of a decision: fresh identifiers, reviewers and prices of this node.

use callboard_domain::approval::{Assignee, Policy, ReviewerPool, Salt};
use callboard_domain::budget::Money;
use callboard_domain::event::EventName;
use callboard_domain::id::{DeliveryId, Environment, Mode, TaskId};
use callboard_domain::spending::Subject;
use callboard_domain::task::{Called, Inputs, Spec};
use callboard_domain::unit::Sources;
use callboard_domain::{Error, Timestamp};

use crate::kernel::address::TaskAddress;
use crate::limits::reservation::Reservation;
use crate::node::Node;

/// The sources of a unit in one partition.
pub(crate) struct NodeSources<'n> {
    pub(crate) node: &'n Node,
    pub(crate) environment: Environment,
    pub(crate) partition: u8,
    /// What the unit's decisions have reserved so far.
    pub(crate) reserved: Reservation,
}

impl<'n> NodeSources<'n> {
    /// The sources of a decision in `partition`.
    pub(crate) fn of(node: &'n Node, environment: Environment, partition: u8) -> Self {
        Self { node, environment, partition, reserved: Reservation::default() }
    }
}

impl NodeSources<'_> {
    /// A fresh identifier's number in the partition of the unit.
    pub(crate) fn fresh(&self, now: Timestamp) -> u128 {
        self.node.fresh_id(now, self.partition)
    }
}

impl Sources for NodeSources<'_> {
    fn task_id(&mut self, now: Timestamp) -> TaskId {
        TaskId::from_u128(self.fresh(now))
    }

    fn delivery_id(&mut self, now: Timestamp) -> DeliveryId {
        DeliveryId::from_u128(self.fresh(now))
    }

    fn salt(&mut self) -> Salt {
        Salt::of(self.node.kernel.ports.entropy.bits())
    }

    /// The reviewer to ask; none in the sandbox, which no session sees.
    fn ask(&mut self, task: &Spec, wanted: ReviewerPool) -> Assignee {
        let mut users = match self.environment.mode() {
            Mode::Live => self.node.state.accounts.users_in(self.environment.slot()),
            Mode::Test => Vec::new(),
        };
        if self.policy().four_eyes {
            let person = |account| self.node.state.accounts.person_of(account);
            let submitters: Vec<_> = task.submitters().map(person).collect();
            users.retain(|user| !submitters.contains(&user.id.to_string()));
        }
        let item = TaskAddress { environment: self.environment, task: task.id };
        let reviewer = self.node.limits.reviewers.choose(item, &users, wanted);
        Assignee { reviewer, by_mail: self.node.kernel.ports.mailer.is_some() }
    }

    fn policy(&self) -> Policy {
        self.node.settings.approvals
    }

    fn announces(&self, event: EventName) -> bool {
        self.node.settings.webhooks.events.contains(&event)
    }

    fn worst_cost(
        &self,
        called: Called<'_>,
        inputs: &Inputs,
        max_tokens: Option<u64>,
    ) -> Option<Money> {
        self.node.limits.prices.worst_cost(called, inputs, max_tokens)
    }

    fn budget_refusal(&mut self, subject: Subject<'_>, worst: Option<Money>) -> Option<String> {
        let budgets = self.node.limits.budgets(self.environment)?;
        let reserved = budgets.reserve(subject, worst, &mut self.reserved, self.node.now());
        reserved.err().map(|refusal| refusal.to_string())
    }

    fn admit(&mut self, task: &Spec, worst: Option<Money>, now: Timestamp) -> Result<(), Error> {
        let node = self.node;
        let counted = node.limits.holdings.reserve(self.environment, &task.account)?;
        if let Some(budgets) = node.limits.budgets(self.environment) {
            budgets.reserve(Subject::from(task), worst, &mut self.reserved, now)?;
        }
        node.limits.flow.admit_task(self.environment, task, &mut self.reserved)?;
        self.reserved.hold(counted);
        Ok(())
    }
}
