//! The takeover of a fork: completed steps of its original that ask the same again.
//!
//! ```text
//!   due step ─▶ evaluated ─┬─ the original's task was asked the same ─▶ a copy of it, completed
//!                          └─ else ─▶ decided like any other
//! ```
//!
//! A copy is rows beside the unit that completes its step: it has an end and no life. The original is
//! read again after a restart; one that was removed meanwhile has nothing to give. Deliberately
//! absent: the equality of two tasks' requests, which the domain decides.

use std::collections::HashSet;
use std::sync::Arc;

use callboard_domain::budget::Money;
use callboard_domain::execution::program::{CompiledPlan, Evaluation, Outputs, Program};
use callboard_domain::execution::signal::Sent;
use callboard_domain::execution::{Due, Execution, ForkedFrom, OutputSource, Signal, Stage};
use callboard_domain::id::{Environment, SignalId, TaskId};
use callboard_domain::task::{Origin, Request, Task};
use callboard_domain::unit::{Sources, UnitBuilder};
use callboard_store::{Op, Store};
use ractor::ActorProcessingErr;
use serde_json::Value;

use super::read_outputs;
use crate::commit::sources::NodeSources;
use crate::node::Node;
use crate::tables::{self, LoadedTask, executions, items};

/// The original of a fork, with the steps that it had completed when it was read.
pub(crate) struct Original {
    execution: Execution,
    compiled: Arc<CompiledPlan>,
    from_step: Option<String>,
}

/// A due step's decision, for a fork and for any other execution: the rows of copies are added to
/// `records`.
pub(crate) async fn decide(
    node: &Node,
    environment: Environment,
    (program, original): (&Arc<Program>, Option<&Original>),
    (builder, due): (&mut UnitBuilder<'_>, Due),
    (outputs, records): (&mut Outputs, &mut Vec<Op>),
    sources: &mut NodeSources<'_>,
) -> Result<(), ActorProcessingErr> {
    let store = node.store();
    read_outputs(store, environment, builder, due.step, outputs).await?;
    let id = builder.state().head.spec.id;
    if let Some(number) = outputs.missing_list(program, due) {
        let list = items::list(store, environment, id, number).await?;
        outputs.keep_list(due.step, list);
    }
    let evaluation =
        node.kernel.compute.evaluate(environment, program, builder, due, outputs).await?;
    let Some(original) = original else {
        builder.decide(due, evaluation, outputs, sources);
        return Ok(());
    };
    match &evaluation {
        Evaluation::Run(request, _) => {
            let found =
                Box::pin(original.task_of(node, environment, builder, due, request)).await?;
            if let Some((task, output)) = found {
                let copy = copied(builder, due, request, &task, sources);
                records.extend(tables::copy_rows(
                    environment,
                    builder.now(),
                    &copy,
                    request,
                    &output,
                ));
                let saved = Box::pin(cost_of(store, environment, &task)).await?;
                builder.take_over(due, (&copy.next, saved), &output, outputs);
                return Ok(());
            }
            builder.decide(due, evaluation, outputs, sources);
        }
        Evaluation::Await(_) => {
            let payload = Box::pin(original.payload_of(store, environment, builder, due)).await?;
            builder.decide(due, evaluation, outputs, sources);
            if let Some((name, payload)) = payload {
                let id = SignalId::from_u128(sources.fresh(builder.now()));
                let (signal, steps) = (Signal { id, at: builder.now() }, builder.waits_for(&name));
                // Refused if another one of its name came before.
                let _ = builder.signalled(Sent { steps, signal, replace: false }, payload, outputs);
            }
        }
        Evaluation::Expand(list) if list.costs.is_some() => {
            let there = original.items_of(store, environment, builder, due.step, &list.items);
            let there = Box::pin(there).await?;
            let Evaluation::Expand(mut list) = evaluation else { return Ok(()) };
            list.are_there(|item| there.contains(&item));
            builder.decide(due, Evaluation::Expand(list), outputs, sources);
        }
        Evaluation::Skip | Evaluation::Fail(_) | Evaluation::Expand(_) => {
            builder.decide(due, evaluation, outputs, sources);
        }
    }
    Ok(())
}

/// The copy of a task for a due step or item.
fn copied(
    builder: &UnitBuilder<'_>,
    Due { step, item }: Due,
    request: &Request,
    of: &Task,
    sources: &mut NodeSources<'_>,
) -> callboard_domain::machine::Step<Task> {
    let head = Arc::clone(&builder.state().head.spec);
    let name = builder.state().graph().name(step).to_owned();
    let origin = Origin {
        step: Some((head.id, name)),
        item,
        rows: head.row_of.as_ref().map(|of| of.batch),
        template: head.template.as_ref().map(|template| template.id.clone()),
        copy_of: Some(of.spec.id),
        trace: head.trace.clone(),
        ..Origin::default()
    };
    let id = sources.task_id(builder.now());
    let (spec, _) = request.clone().accepted(id, head.account.clone(), origin);
    Task::copied(spec, of, builder.now())
}

impl Original {
    /// The original of a fork; `None` if it was removed.
    pub(crate) async fn of(
        node: &Node,
        environment: Environment,
        fork: &ForkedFrom,
    ) -> Result<Option<Self>, ActorProcessingErr> {
        let store = node.store();
        let Some(head) = executions::head(store, environment, fork.execution).await? else {
            return Ok(None);
        };
        let whole = crate::read::runs::whole(node, environment, fork.execution, head).await?;
        let Some((execution, _, compiled)) = whole else { return Ok(None) };
        // The original may go on meanwhile.
        let execution = crate::read::items::with_items(store, environment, execution).await?;
        Ok(Some(Self { execution, compiled, from_step: fork.from_step.clone() }))
    }

    /// The number of the original's step of this name, unless the fork runs that one anew.
    fn position(&self, builder: &UnitBuilder<'_>, step: u16) -> Option<u16> {
        let name = builder.state().graph().name(step);
        let is_anew = self.from_step.as_deref() == Some(name);
        let position = self.compiled.plan.position(name).filter(|_| !is_anew)?;
        u16::try_from(position).ok()
    }

    /// The completed task of the same request, and its output. Only the first decision about a step takes
    /// over, not its retry.
    async fn task_of(
        &self,
        node: &Node,
        environment: Environment,
        builder: &UnitBuilder<'_>,
        Due { step, item }: Due,
        request: &Request,
    ) -> Result<Option<(Task, String)>, ActorProcessingErr> {
        let row_of = |execution: &Execution, step: u16| match item {
            Some(item) => execution.item(step, item).cloned(),
            None => execution.step(step).cloned(),
        };
        let is_first = row_of(builder.state(), step).is_some_and(|row| row.runs == 0);
        let Some(step_then) = self.position(builder, step).filter(|_| is_first) else {
            return Ok(None);
        };
        let row = row_of(&self.execution, step_then).filter(|row| row.stage == Stage::Completed);
        let Some(id) = row.filter(|row| row.map.is_none()).and_then(|row| row.task) else {
            return Ok(None);
        };
        let store = node.store();
        let Some((task, output)) = same(store, environment, id, request).await? else {
            return Ok(None);
        };
        // The schema of the last step may be another one in another version.
        if let Some(schema) = builder.schema_of_step(step)
            && !matches!(
                node.kernel
                    .compute
                    .check(environment, &builder.state().head.spec.account, schema, &output)
                    .await?,
                Ok(None)
            )
        {
            return Ok(None);
        }
        Ok(Some((task, output)))
    }

    /// The items of a list that were completed for the same value of the same step: what they would cost need not
    /// be reserved. Each is compared once more when it is its turn.
    async fn items_of(
        &self,
        store: &dyn Store,
        environment: Environment,
        builder: &UnitBuilder<'_>,
        own: u16,
        values: &[Value],
    ) -> Result<HashSet<u16>, callboard_store::Error> {
        let then = self.position(builder, own).and_then(|then| {
            let step = self.compiled.plan.steps().get(usize::from(then))?;
            let is_same = builder.source(own) == Some(step.source());
            Some((then, step.for_each()?.number())).filter(|_| is_same)
        });
        let Some((then, number)) = then else { return Ok(HashSet::new()) };
        if self.execution.step(then).is_none_or(|row| row.map.is_none()) {
            return Ok(HashSet::new());
        }
        let list = items::list(store, environment, self.execution.head.spec.id, number).await?;
        let is_done = |item: u16| {
            self.execution.item(then, item).is_some_and(|row| row.stage == Stage::Completed)
        };
        let same = (0..).zip(values.iter().zip(&list)).filter(|(_, (now, then))| now == then);
        Ok(same.map(|(item, _)| item).filter(|item| is_done(*item)).collect())
    }

    /// The signal that the same wait has used, with its payload.
    async fn payload_of(
        &self,
        store: &dyn Store,
        environment: Environment,
        builder: &UnitBuilder<'_>,
        Due { step, .. }: Due,
    ) -> Result<Option<(String, String)>, ActorProcessingErr> {
        let Some(step_then) = self.position(builder, step) else { return Ok(None) };
        let row = self.execution.step(step_then);
        let row = row.filter(|row| row.stage == Stage::Completed);
        let Some(signal) = row.and_then(|row| row.signal.as_deref()) else { return Ok(None) };
        let source = |compiled: &CompiledPlan, step: u16| {
            let step = compiled.plan.steps().get(usize::from(step))?;
            step.source().wait.clone()
        };
        let wait = source(&self.compiled, step_then);
        let Some(wait) = wait.filter(|wait| builder.wait_source(step) == Some(wait)) else {
            return Ok(None);
        };
        let payload = tables::output(store, environment, OutputSource::Signal(signal.id)).await?;
        Ok(payload.map(|payload| (wait.signal, payload)))
    }
}

/// The most takeovers between an answer and the one that was paid.
const MOST_COPIES: usize = 16;

/// The cost of an answer where it was asked for.
async fn cost_of(
    store: &dyn Store,
    environment: Environment,
    answer: &Task,
) -> Result<Money, callboard_store::Error> {
    let (mut cost, mut copy_of) = (answer.paid().total_cost, answer.spec.origin.copy_of);
    for _ in 0..MOST_COPIES {
        let Some(before) = copy_of.take() else { break };
        let Some(found) = tables::task(store, environment, before).await? else { break };
        (cost, copy_of) = (found.task.paid().total_cost, found.task.spec.origin.copy_of);
    }
    Ok(Money::from_usd(cost))
}

/// The most tasks that a reviewer's retries put before a completed one.
const MOST_RETRIES: usize = 64;

/// The task and its output, if the first of the tasks that it repeats had the same request.
async fn same(
    store: &dyn Store,
    environment: Environment,
    id: TaskId,
    request: &Request,
) -> Result<Option<(Task, String)>, ActorProcessingErr> {
    let readable = |found: Option<LoadedTask>| found.filter(|found| found.task.erased_at.is_none());
    let Some(mut found) = readable(tables::task(store, environment, id).await?) else {
        return Ok(None);
    };
    let mut asked = found.clone();
    for _ in 0..MOST_RETRIES {
        let Some(before) = asked.task.spec.origin.retry_of else { break };
        match readable(tables::task(store, environment, before).await?) {
            Some(before) => asked = before,
            None => return Ok(None),
        }
    }
    let inputs = asked.inputs(store, environment).await?;
    if !request.asks_the_same(&asked.task.spec, &inputs) {
        return Ok(None);
    }
    let output = found.output(store, environment).await?;
    Ok(output.map(|output| (found.task, output)))
}
