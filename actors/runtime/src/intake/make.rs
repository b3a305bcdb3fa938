//! Makes what was submitted: one commit, and then what is made is sent on its way.

use std::sync::Arc;

use callboard_domain::execution::{Effect, Execution, Spec, Status, Template};
use callboard_domain::id::{BatchId, Environment, ExecutionId, PlanId, TaskId};
use callboard_domain::machine::Step;
use callboard_domain::plan::PlanSource;
use callboard_domain::task::{EndingCode, Origin, Request, Task};
use callboard_domain::{Error, Timestamp};
use callboard_store::{Op, Outcome};

use super::{Begin, Made, Runs, Submission, Submitted};
use crate::advance::{Advance, Born, Departing};
use crate::catalog::Known;
use crate::durable::{self, Persist};
use crate::execution::{self, Address};
use crate::node::Node;
use crate::retention::Used;
use crate::script::{Compiled, Outputs, Script};
use crate::tables::executions;
use crate::tables::{IDEMPOTENCY, IdempotencyRow, PLANS, PlanRow, first_rows, plans};
use crate::timers;

/// About how many bytes a fresh execution takes in memory, and how many for each step.
const EXECUTION: (usize, usize) = (2_000, 100);

/// What is made: the rows to commit, and what follows.
struct Making<'n> {
    node: &'n Node,
    environment: Environment,
    partition: u8,
    now: Timestamp,
    account: String,
    concurrent: Option<u32>,
    rows: Vec<Op>,
    born: Vec<Born>,
    begun: Option<(Step<Execution>, Arc<Script>)>,
    plan: Option<(PlanId, Known)>,
    /// The plan that is executed: it stays until that is durable.
    kept: Option<Used<'n, (Environment, PlanId)>>,
}

/// Makes a submission durable, and sends what it made on its way.
pub(crate) async fn make(node: Arc<Node>, submission: Submission) -> Result<Submitted, Error> {
    let Submission { environment, account, concurrent, order, key, partition, admitted } =
        submission;
    let mut making = Making {
        node: &node,
        environment,
        partition,
        now: node.now(),
        account,
        concurrent,
        rows: Vec::new(),
        born: Vec::new(),
        begun: None,
        plan: None,
        kept: None,
    };
    let made = match order {
        super::Order::Tasks(requests, as_batch) => making.tasks(requests, as_batch),
        super::Order::Plan(source, compiled) => making.plan(&source, compiled),
        // In a box of its own, which tasks do without.
        super::Order::Execution(begin) => Box::pin(making.execution(*begin)).await?,
    };
    if let Some(key) = key {
        let (tasks, execution) = match &made {
            Made::Tasks(tasks, _) => (tasks.iter().map(|task| task.spec.id).collect(), None),
            Made::Execution(execution) => (Vec::new(), Some(execution.head.spec.id)),
            Made::Plan(..) => (Vec::new(), None),
        };
        let row = IdempotencyRow { body: key.body, at: making.now, tasks, execution };
        making.rows.push(IDEMPOTENCY.put(environment.number(), &key.scope, &row, None));
    }
    let rows = std::mem::take(&mut making.rows);
    let _kept = making.kept.take();
    let departure = making.remember();
    let ticket = durable::commit_rows(node.shard(partition), partition, rows);
    #[cfg(test)]
    let departure = departure.ahead_if_planted(&node);
    #[cfg(test)]
    if crate::planted::is(crate::planted::Bug::ReplyBeforeCommit) {
        let node = Arc::clone(&node);
        tokio::spawn(async move {
            if matches!(ticket.await, Outcome::Committed) {
                departure.send_on_its_way(&node);
            }
        });
        return Ok(Submitted { made, replayed: false });
    }
    let outcome = ticket.await;
    drop(admitted);
    match outcome {
        Outcome::Committed => {
            departure.send_on_its_way(&node);
            Ok(Submitted { made, replayed: false })
        }
        Outcome::Fenced | Outcome::Conflict(_) | Outcome::NotApplied(_) | Outcome::Unknown(_) => {
            Err(Error::Unavailable("what was submitted could not be stored"))
        }
    }
}

impl Making<'_> {
    fn tasks(&mut self, requests: Vec<Request>, as_batch: bool) -> Made {
        let batch = as_batch.then(|| BatchId::from_u128(self.node.fresh_id(self.partition)));
        let mut made = Vec::with_capacity(requests.len());
        self.rows.reserve(3 * requests.len());
        for request in requests {
            let id = TaskId::from_u128(self.node.fresh_id(self.partition));
            let origin = Origin { batch, ..Origin::default() };
            let (spec, inputs) =
                request.accepted(id, self.account.clone(), self.concurrent, origin);
            let step = Task::submitted(spec);
            self.rows.extend(first_rows(self.environment, &step.next, &inputs));
            self.rows.extend(Task::rows(&step, self.environment, self.now, None));
            made.push(step.next.clone());
            self.born.push(Born { environment: self.environment, step, inputs });
        }
        Made::Tasks(made, batch)
    }

    fn plan(&mut self, source: &PlanSource, compiled: Arc<Compiled>) -> Made {
        let id = PlanId::from_u128(self.node.fresh_id(self.partition));
        let row = plan_row(source, self.account.clone(), self.now);
        self.rows.extend(plans::plan_rows(self.environment, id, &row, Some(source)));
        self.plan = Some((id, Known { created_at: self.now, deployed: None, compiled }));
        Made::Plan(id, self.now)
    }

    /// Keeps a plan that a deploy made, which goes with its last execution.
    async fn keep(&mut self, plan: PlanId) -> Result<(), Error> {
        self.kept = self.node.leaving_plans.keep(&(self.environment, plan));
        let (store, number) = (self.node.store(), self.environment.number());
        let row = PLANS.get(store, number, &plan.as_u128()).await;
        let row = row.map_err(|_| Error::Unavailable("the disk cannot be read"))?;
        match (&self.kept, row) {
            (Some(_), Some(_)) => Ok(()),
            (None, _) | (_, None) => Err(Error::not_found("plan", plan)),
        }
    }

    async fn execution(&mut self, begin: Begin) -> Result<Made, Error> {
        let Begin { runs, compiled, terms, input, options } = begin;
        let id = ExecutionId::from_u128(self.node.fresh_id(self.partition));
        let (plan, template) = match runs {
            Runs::Plan(plan, template) => {
                if template.is_some() {
                    self.keep(plan).await?;
                }
                (plan, template)
            }
            Runs::Deployed(deployed) => {
                let plan = PlanId::from_u128(self.node.fresh_id(self.partition));
                let (id, version) = (deployed.template.clone(), deployed.version.clone());
                let source = compiled.plan.source();
                let row = PlanRow {
                    deployed: Some(deployed),
                    ..plan_row(source, self.account.clone(), self.now)
                };
                self.rows.extend(plans::plan_rows(self.environment, plan, &row, None));
                let compiled = Arc::clone(&compiled);
                let known = Known { created_at: self.now, deployed: row.deployed, compiled };
                self.plan = Some((plan, known));
                (plan, Some(Template { id, version }))
            }
        };
        let spec = Spec {
            id,
            plan,
            template,
            account: self.account.clone(),
            concurrent: self.concurrent,
            fail_fast: options.fail_fast,
            timeout_ms: options.timeout_ms,
            max_cost: options.max_cost,
            output_checked: compiled.checked(),
            created_at: self.now,
        };
        let first = Execution::started(spec, Arc::clone(&compiled.graph), self.now);
        let made = first.next.clone();
        let asked = (Arc::clone(&made.head.spec), terms.clone());
        self.rows.extend(executions::first_rows(self.environment, asked, &input));
        let usual = Arc::clone(&self.node.settings.usual);
        let script = Arc::new(Script::new(id, compiled, terms, input, usual));
        let mut advance = Advance::first(self.node, self.environment, &script, first);
        // Reads nothing: no step is completed yet.
        let decided = advance.decide(&mut Outputs::default()).await;
        decided.map_err(|_| Error::Unavailable("the disk cannot be read"))?;
        refuse_if_too_dear(advance.state())?;
        let (step, rows, born) = advance.done(None);
        self.rows.extend(rows);
        self.born.extend(born);
        self.begun = Some((step, script));
        Ok(Made::Execution(Box::new(made)))
    }

    /// Remembers what is made, before the commit (see [`Node::remember`]).
    fn remember(self) -> Departure {
        let Self { node, environment, born, begun, plan, .. } = self;
        if let Some((id, known)) = plan {
            node.catalog.keep_plan(environment, id, Arc::new(known));
        }
        let execution = begun.map(|(step, script)| {
            let id = step.next.head.spec.id;
            let address = Address { environment, execution: id };
            let size = EXECUTION.0 + EXECUTION.1 * script.compiled.graph.len();
            let new = &node.shard(id.partition()).new_executions;
            new.add(address, (step.next, script), size);
            (address, step.effects)
        });
        Departure { execution, tasks: node.remember(born) }
    }
}

/// What is to be sent on its way once it is durable.
struct Departure {
    execution: Option<(Address, Vec<Effect>)>,
    tasks: Vec<Departing>,
}

impl Departure {
    #[cfg(test)]
    fn ahead_if_planted(self, node: &Node) -> Self {
        if !crate::planted::is(crate::planted::Bug::EffectBeforeCommit) {
            return self;
        }
        self.send_on_its_way(node);
        Self { execution: None, tasks: Vec::new() }
    }

    fn send_on_its_way(self, node: &Node) {
        node.send_on_their_way(self.tasks);
        let Some((address, effects)) = self.execution else { return };
        let shard = node.shard(address.execution.partition());
        for effect in &effects {
            if let Effect::WakeAt(at) = effect {
                let sleeper = timers::Sleeper::Execution(address);
                shard.timers(timers::Message::Set(sleeper, *at));
            }
        }
        if effects.iter().any(|effect| matches!(effect, Effect::CancelTask { .. })) {
            shard.executions.send(address, execution::Message::Recover);
        }
    }
}

fn plan_row(source: &PlanSource, account: String, now: Timestamp) -> PlanRow {
    PlanRow {
        name: source.name.clone(),
        description: source.description.clone(),
        tags: source.tags.clone(),
        steps: u16::try_from(source.steps.len()).unwrap_or(u16::MAX),
        account,
        created_at: now,
        deployed: None,
    }
}

/// An execution of which no first step fits into its budget is not started.
fn refuse_if_too_dear(execution: &Execution) -> Result<(), Error> {
    let started = execution.out().next().is_some() || execution.status() != Status::Failed;
    match &execution.head.error {
        Some(cause) if !started && cause.ending.code == EndingCode::BudgetExceeded => {
            Err(Error::BudgetExceeded(cause.ending.message.clone()))
        }
        Some(_) | None => Ok(()),
    }
}
