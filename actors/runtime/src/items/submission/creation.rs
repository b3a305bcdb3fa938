//! Creates the items of a submission: one commit, and then their dispatch.

use std::sync::Arc;

use callboard_domain::approval::Salt;
use callboard_domain::execution::program::{About, CompiledPlan, Outputs, Program};
use callboard_domain::execution::{Execution, Spec, Status, Template};
use callboard_domain::id::{BatchId, Environment, ExecutionId, PlanId, TaskId};
use callboard_domain::plan::PlanSource;
use callboard_domain::task::{EndingCode, Origin, Request, Task};
use callboard_domain::trace::TraceContext;
use callboard_domain::unit::{Change, Unit, UnitBuilder};
use callboard_domain::{Error, Timestamp};
use callboard_store::{Op, Ticket};

use super::prices::{self, Asker};
use super::{Created, Key, Named, Runs, StartExecution, Submission, Submitted};
use crate::commit::durable::{self, PendingCommit};
use crate::commit::sources::NodeSources;
use crate::items::execution::{Address, fork};
use crate::kernel::removal_locks::UseGuard;
use crate::limits::admission::Admission;
use crate::limits::reservation::Reservation;
use crate::node::Node;
use crate::node::catalog::Known;
use crate::tables::{
    Deployed, IDEMPOTENCY, IdempotencyRow, PLANS, PlanRow, TEXTS, executions, plans, text,
};

/// The approximate bytes that a fresh execution takes in memory, and those of each step.
const EXECUTION: (usize, usize) = (2_000, 100);

/// The creation of a submission: one unit, the records beside it, and the new plan and execution.
struct Creation<'n> {
    node: &'n Node,
    environment: Environment,
    partition: u8,
    account: String,
    trace: Option<Box<TraceContext>>,
    unit: Unit,
    records: Vec<Op>,
    /// What is reserved for the tasks of the unit.
    reserved: Reservation,
    /// The idempotency key.
    key: Option<Box<str>>,
    /// The number of the work, if it is given.
    number: Option<u128>,
    begun: Option<Arc<Program>>,
    plan: Option<(PlanId, Known)>,
    /// The guard of the plan that is executed: the plan stays until the unit is durable.
    kept: Option<UseGuard<(Environment, PlanId)>>,
}

/// Makes a submission durable, and dispatches its items.
pub(crate) async fn create(node: Arc<Node>, submission: Submission) -> Result<Submitted, Error> {
    let Submission { environment, account, trace, order, key, partition, .. } = submission;
    let Submission { admitted, files, scheduled, .. } = submission;
    let turn = node.limits.turn(node.store(), environment.slot(), admitted.amount()).await;
    let (number, records) = scheduled.map_or((None, Vec::new()), |it| (Some(it.number), it.rows));
    let mut creation = Creation {
        node: &node,
        environment,
        partition,
        account,
        trace,
        unit: Unit::at(node.now()),
        records,
        reserved: Reservation::default(),
        key: key.as_ref().map(|key| key.text.clone()),
        number,
        begun: None,
        plan: None,
        kept: None,
    };
    let made = match order {
        super::NewWork::Tasks(requests, as_batch) => creation.tasks(requests, as_batch),
        super::NewWork::Retry(request, of) => creation.retry(*request, of),
        super::NewWork::Plan(source, compiled) => creation.plan(&source, compiled),
        // Boxed: tasks do without, and would pay for the larger future.
        super::NewWork::Execution(begin) => Box::pin(creation.execution(*begin)).await?,
    };
    let admission = creation.admit()?;
    if let Some(key) = key {
        let now = creation.unit.now;
        creation.records.extend(idempotency_rows(&node, environment, &key, now, &made));
    }
    let _kept = creation.kept.take();
    let (ticket, commit) = creation.submit(admission);
    let outcome = ticket.await;
    drop((admitted, turn, files));
    match commit.finish(&node, outcome) {
        Ok(_) => Ok(Submitted { made, replayed: false, warnings: Vec::new() }),
        Err(_) => Err(Error::Unavailable("the submission could not be stored")),
    }
}

/// The rows by which a repetition of the submission finds its items. The digest of the body is salted, and the salt
/// goes with the items' texts: an erasure leaves nothing to compare a guess with.
fn idempotency_rows(
    node: &Node,
    environment: Environment,
    key: &Key,
    at: Timestamp,
    made: &Created,
) -> Vec<Op> {
    let (tasks, execution) = match made {
        Created::Tasks(tasks, _) => (tasks.iter().map(|task| task.spec.id).collect(), None),
        Created::Execution(execution) => (Vec::new(), Some(execution.head.spec.id)),
        Created::Plan(..) => (Vec::new(), None),
    };
    let salted_by = match made {
        Created::Tasks(_, Some(batch)) => Some(batch.as_u128()),
        Created::Tasks(tasks, None) => tasks.first().map(|task| task.spec.id.as_u128()),
        Created::Execution(execution) => Some(execution.head.spec.id.as_u128()),
        // A plan is no text that can be erased.
        Created::Plan(..) => None,
    };
    let number = environment.number();
    let mut rows = Vec::with_capacity(2);
    let body = match salted_by {
        Some(item) => {
            let salt = Salt::of(node.kernel.ports.entropy.bits()).to_string();
            rows.extend(TEXTS.put(number, item, text::KEY_SALT, &salt));
            key.salted(&salt)
        }
        None => key.body.clone(),
    };
    let row = IdempotencyRow { body, salted_by, at, tasks, execution };
    rows.push(IDEMPOTENCY.put(number, &key.scope, &row, None));
    rows
}

impl Creation<'_> {
    /// Counts the items to their account, if the limits have room.
    fn admit(&mut self) -> Result<Admission, Error> {
        let (limits, reserved) = (&self.node.limits, std::mem::take(&mut self.reserved));
        let (environment, account) = (self.environment, &self.account);
        let admission =
            Admission::of_submission(limits, environment, account, &self.unit, reserved)?;
        limits.holdings.store(environment, account, &self.records);
        Ok(admission)
    }

    fn fresh_id(&self) -> u128 {
        self.node.fresh_id(self.unit.now, self.partition)
    }

    fn tasks(&mut self, requests: Vec<Request>, as_batch: bool) -> Created {
        let batch = as_batch.then(|| BatchId::from_u128(self.fresh_id()));
        // A batch is found by its own identifier.
        let key = self.key.clone().filter(|_| !as_batch);
        let origin =
            |trace| Origin { batch, idempotency_key: key.clone(), trace, ..Origin::default() };
        let trace = self.trace.clone();
        let task = |request| self.task(request, origin(trace.clone()));
        let made = requests.into_iter().map(task).collect();
        Created::Tasks(made, batch)
    }

    fn retry(&mut self, request: Request, of: TaskId) -> Created {
        let trace = self.trace.clone();
        let idempotency_key = self.key.clone();
        let origin = Origin { retry_of: Some(of), idempotency_key, trace, ..Origin::default() };
        Created::Tasks(vec![self.task(request, origin)], None)
    }

    fn task(&mut self, request: Request, origin: Origin) -> Task {
        let id = TaskId::from_u128(self.number.unwrap_or_else(|| self.fresh_id()));
        let (spec, inputs) = request.accepted(id, self.account.clone(), origin);
        let step = Task::submitted(spec);
        let made = step.next.clone();
        self.unit.changes.push(Change::NewTask(step, inputs));
        made
    }

    fn plan(&mut self, source: &PlanSource, compiled: Arc<CompiledPlan>) -> Created {
        let (id, now) = (PlanId::from_u128(self.fresh_id()), self.unit.now);
        let row = plan_row(source, self.account.clone(), now);
        self.records.extend(plans::plan_rows(self.environment, id, &row, Some(source)));
        self.plan = Some((id, Known { created_at: now, deployed: None, compiled }));
        Created::Plan(id, now)
    }

    /// Keeps a plan that a deploy made, which goes with its last execution.
    async fn keep(&mut self, plan: PlanId) -> Result<(), Error> {
        self.kept = Some(self.node.state.leaving_plans.keep(&(self.environment, plan)).await);
        let (store, number) = (self.node.store(), self.environment.number());
        let row = PLANS.get(store, number, plan.as_u128()).await;
        let row = row.map_err(|_| Error::Unavailable("the store cannot be read"))?;
        row.map(drop).ok_or_else(|| Error::not_found("plan", plan))
    }

    /// Adds the plan that a deploy makes.
    fn deployed(&mut self, deployed: Deployed, compiled: &Arc<CompiledPlan>) -> (PlanId, Template) {
        let (plan, now) = (PlanId::from_u128(self.fresh_id()), self.unit.now);
        let template =
            Template { id: deployed.template.clone(), version: deployed.version.clone() };
        let row = PlanRow {
            deployed: Some(deployed),
            ..plan_row(compiled.plan.source(), self.account.clone(), now)
        };
        self.records.extend(plans::plan_rows(self.environment, plan, &row, None));
        let compiled = Arc::clone(compiled);
        self.plan = Some((plan, Known { created_at: now, deployed: row.deployed, compiled }));
        (plan, template)
    }

    async fn execution(&mut self, begin: StartExecution) -> Result<Created, Error> {
        let StartExecution {
            runs,
            compiled,
            review,
            input,
            options,
            start_at,
            forked_from,
            occurrence,
            row_of,
            named,
        } = begin;
        let Named { tags: own, callback_url, mut labels } = named;
        let tags = compiled.tags_with(&own);
        let is_fork = forked_from.is_some();
        let number = self.number.unwrap_or_else(|| self.fresh_id());
        let (id, now) = (ExecutionId::from_u128(number), self.unit.now);
        let (plan, template) = match runs {
            Runs::Plan(plan, template) => {
                if template.is_some() {
                    self.keep(plan).await?;
                }
                (plan, template)
            }
            Runs::Deployed(deployed) => {
                let (plan, template) = self.deployed(deployed, &compiled);
                (plan, Some(template))
            }
        };
        let about = About::new(id, start_at.unwrap_or(now), occurrence.clone());
        let about = about.with_tags(tags.clone());
        let defaults = self.node.task_defaults(self.environment);
        let review_of_row = review.clone();
        let program = Program::new(about, Arc::clone(&compiled), review, input, defaults);
        let program = program.titled(labels.title.take());
        labels.title = program.title().map(str::to_owned);
        let spec = Spec {
            id,
            plan,
            template,
            account: self.account.clone(),
            tags,
            callback_url,
            labels: labels.boxed(),
            fail_fast: options.fail_fast,
            timeout_ms: options.timeout_ms,
            max_cost: options.max_cost,
            output_checked: compiled.checked(),
            start_at,
            forked_from,
            occurrence,
            row_of,
            idempotency_key: self.key.clone(),
            created_at: now,
            trace: self.trace.clone(),
        };
        let first = Execution::started(spec, Arc::clone(&compiled.graph), now);
        let made = first.next.clone();
        let asked = (Arc::clone(&made.head.spec), review_of_row);
        self.records.extend(executions::first_rows(self.environment, asked, &program.input));
        let program = Arc::new(program);
        let mut sources = NodeSources::of(self.node, self.environment, self.partition);
        let mut builder = UnitBuilder::first(&program, first, now);
        let mut outputs = Outputs::default();
        let original = match &made.head.spec.forked_from {
            Some(fork) => {
                let original = fork::Original::of(self.node, self.environment, fork);
                let original = Box::pin(original).await;
                original.map_err(|_| Error::Unavailable("the store cannot be read"))?
            }
            None => None,
        };
        while let Some(due) = builder.due() {
            let (of, out) = ((&program, original.as_ref()), (&mut outputs, &mut self.records));
            let (node, environment) = (self.node, self.environment);
            fork::decide(node, environment, of, (&mut builder, due), out, &mut sources)
                .await
                .map_err(|_| Error::Internal)?;
        }
        refuse_if_too_dear(builder.state())?;
        // A fork that goes on in its next unit has not taken over all that it can.
        if !is_fork || builder.state().next_due().is_none() {
            let template = made.head.spec.template.as_ref().map(|template| template.id.as_str());
            let by = Asker { environment: self.environment, account: &self.account, template };
            let is_open = |step| builder.state().step(step).is_some_and(|row| row.stage.is_open());
            prices::check(self.node, by, (&*program, options.max_cost), is_open)?;
        }
        self.unit = builder.done(&mut sources);
        self.reserved = sources.reserved;
        self.begun = Some(program);
        Ok(Created::Execution(Box::new(made)))
    }

    /// Hands everything new to its first actor, and puts the unit in line.
    fn submit(self, admission: Admission) -> (Ticket, PendingCommit) {
        let Self { node, environment, partition, unit, records, begun, plan, .. } = self;
        if let Some((id, known)) = plan {
            node.state.catalog.keep_plan(environment, id, Arc::new(known));
        }
        if let (Some(program), Some(Change::Execution(_, step))) = (begun, unit.changes.last()) {
            let execution = step.next.head.spec.id;
            let size = EXECUTION.0 + EXECUTION.1 * program.compiled.graph.len();
            let new = &node.shard(execution.partition()).new_executions;
            new.add(Address { environment, execution }, (step.next.clone(), program), size);
        }
        durable::submit_admitted(node, environment, partition, unit, (records, admission))
    }
}

pub(crate) fn plan_row(source: &PlanSource, account: String, now: Timestamp) -> PlanRow {
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

/// Refuses an execution of which no first step fits into its budget.
fn refuse_if_too_dear(execution: &Execution) -> Result<(), Error> {
    let started = execution.out().next().is_some() || execution.status() != Status::Failed;
    match &execution.head.error {
        Some(cause) if !started && cause.ending.code == EndingCode::BudgetExceeded => {
            Err(Error::BudgetExceeded(cause.ending.message.clone()))
        }
        Some(_) | None => Ok(()),
    }
}
