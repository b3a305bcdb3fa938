//! Reads of plans and executions.

mod filter;

use std::collections::HashMap;
use std::sync::Arc;

use callboard_domain::Timestamp;
use callboard_domain::excerpts::Excerpts;
use callboard_domain::execution::program::{CompiledPlan, made};
use callboard_domain::execution::{
    DispatchState, Execution, ItemCounts, MAX_OUTPUT, Progress, Stage,
};
use callboard_domain::id::{Environment, ExecutionId, PlanId, TaskId};
use callboard_domain::machine::Machine;
use callboard_domain::query::{ExecutionOrder, Executions, Page, Plans, Window};
use callboard_domain::task::{State, Task};
use callboard_domain::template::{Caller, Version};
use callboard_domain::usage::Usage;
use callboard_store::{Error, Filter, Order, Query, Store};
use serde_json::{Map, Value};

use super::approvals::Correction;
use super::{TOGETHER, together};
use crate::node::Node;
use crate::tables::executions::{self, ExecutionInputsRow, how_far};
use crate::tables::plans::template_key;
use crate::tables::{
    self, Deployed, HeadRow, PLAN_NAMES, PLANS, TaskRow, execution_list, execution_sort, plan_list,
    plan_term, term_of,
};

pub(crate) use filter::matching;

/// The bytes of all outputs in one answer about an execution: of its steps, or of a page of items.
pub const MAX_OUTPUTS: usize = 8 << 20;
/// The number of names of plans that are read at a time.
const PAGE: usize = 1_000;

/// A plan.
#[derive(Debug, Clone)]
pub struct PlanDetail {
    /// The plan's identifier.
    pub id: PlanId,
    /// The instant of the plan's creation.
    pub created_at: Timestamp,
    /// The template that the plan was made of.
    pub deployed: Option<Deployed>,
    /// The definition.
    pub compiled: Arc<CompiledPlan>,
}

/// An execution, and the progress of its tasks.
#[derive(Debug, Clone)]
pub struct Overview {
    /// The execution.
    pub execution: Execution,
    /// The number of steps in each state.
    pub progress: Progress,
    /// The usage of outputs of its steps that wait for a reviewer, which is not part of the execution's yet.
    pub held: Usage,
    /// The task for which it waits, if no task of its steps runs.
    pub waits: Option<Task>,
}

/// An execution with its steps.
#[derive(Debug, Clone)]
pub struct ExecutionDetail {
    /// The execution, and the progress of its tasks.
    pub overview: Overview,
    /// The tasks of the execution's dispatched steps, as they are.
    pub tasks: HashMap<TaskId, Task>,
    /// The outputs of completed steps, by number, within [`MAX_OUTPUTS`]. The output of a step with a
    /// list is the JSON array, unless that has more than 1 MiB.
    pub outputs: Excerpts<u16>,
    /// The number of items in each status, by the number of the step with the list.
    pub items: HashMap<u16, ItemCounts>,
    /// The input, with defaults filled in.
    pub input: Map<String, Value>,
    /// The tasks whose outputs the steps of a fork have taken over.
    pub copies: HashMap<u16, TaskId>,
    /// The second decisions on the outputs of steps.
    pub corrections: HashMap<u16, Correction>,
}

/// The executions that a list loads side by side, each with its steps for a moment.
const LOADED: usize = 16;

pub(crate) async fn plan(
    node: &Node,
    environment: Environment,
    id: PlanId,
) -> Result<Option<PlanDetail>, Error> {
    let Some(known) = node.plan(environment, id).await? else { return Ok(None) };
    // A plan that was made for an execution alone goes with it, and the catalog remembers it for longer.
    if known.deployed.is_some() {
        let row = PLANS.get(node.store(), environment.number(), id.as_u128()).await?;
        if row.is_none() {
            return Ok(None);
        }
    }
    let (deployed, compiled) = (known.deployed.clone(), Arc::clone(&known.compiled));
    Ok(Some(PlanDetail { id, created_at: known.created_at, deployed, compiled }))
}

pub(crate) async fn plans(
    node: &Node,
    environment: Environment,
    query: &Plans,
    caller: Caller<'_>,
) -> Result<Page<PlanDetail>, Error> {
    let mut filters = Vec::new();
    let hidden = node.state.catalog.hidden(environment, caller);
    if !hidden.is_empty() {
        let term = |(id, version): &(String, Version)| {
            Box::from(template_key(id, &version.to_string()).to_be_bytes())
        };
        filters.push(Filter::NoneOf(plan_term::TEMPLATE, hidden.iter().map(term).collect()));
    }
    if !query.tags.is_empty() {
        let tags = query.tags.iter().map(|tag| term_of(tag)).collect();
        filters.push(Filter::AllOf(plan_term::TAG, tags));
    }
    if let Some(search) = &query.search {
        filters.push(Filter::AnyOf(plan_term::NAME, names(node, environment, search).await?));
    }
    let page = newest(node, plan_list(environment), filters, query.window).await?;
    let read = async |id| plan(node, environment, PlanId::from_u128(id)).await;
    let items = together(TOGETHER, page.items.into_iter().map(read)).await?;
    Ok(Page { items, total: page.total })
}

/// The names and descriptions in which a text is found.
async fn names(
    node: &Node,
    environment: Environment,
    search: &str,
) -> Result<Vec<Box<[u8]>>, Error> {
    let (search, mut found, mut after) = (search.to_lowercase(), Vec::new(), None);
    loop {
        let store = node.store();
        let page = PLAN_NAMES.scan(store, environment.number(), after.as_ref(), PAGE).await?;
        let Some((last, _)) = page.last() else { return Ok(found) };
        after = Some(*last);
        let within = page.into_iter().filter(|(_, row)| row.contains(&search));
        found.extend(within.map(|(key, _)| Box::from(key)));
    }
}

async fn newest(
    node: &Node,
    list: [u8; 2],
    filters: Vec<Filter>,
    window: Window,
) -> Result<Page<u128>, Error> {
    let Window { offset, limit } = window;
    let query = Query { list, filters, order: Order::Document, descending: true, offset, limit };
    let page = node.store().query(&query).await?;
    Ok(Page { items: page.documents, total: page.total })
}

pub(crate) async fn overview(
    node: &Node,
    environment: Environment,
    id: ExecutionId,
) -> Result<Option<Overview>, Error> {
    let Some(head) = executions::head(node.store(), environment, id).await? else {
        return Ok(None);
    };
    let Some((execution, ..)) = whole(node, environment, id, head).await? else { return Ok(None) };
    let store = node.store();
    let read = async |id| {
        let row = tables::unfinished_row(store, environment, id).await?;
        Ok(row.map(|row| (id, row)))
    };
    let out = execution.steps_out().map(|(_, task)| task);
    let rows: Vec<(TaskId, TaskRow)> = together(TOGETHER, out.map(read)).await?;
    let live = rows.iter().map(|(id, row)| (*id, how_far(row.state()))).collect();
    let uncounted = rows.iter().filter(|(id, _)| !execution.has_counted(*id));
    let usage = uncounted.filter_map(|(_, row)| row.held_usage()).sum();
    let waits = match foremost(rows, |(id, row)| (*id, row.state())) {
        Some((id, row)) => tables::unfinished(store, environment, id, row).await?,
        None => None,
    };
    Ok(Some(Overview { held: usage, waits, ..seen(execution, &live) }))
}

/// An execution whose head was read, its inputs, and its plan; `None` if the execution was removed
/// since then.
pub(crate) async fn whole(
    node: &Node,
    environment: Environment,
    id: ExecutionId,
    head: HeadRow,
) -> Result<Option<(Execution, ExecutionInputsRow, Arc<CompiledPlan>)>, Error> {
    let ended = head.ended_at().is_some();
    let read = node.execution(environment, id, head).await;
    if ended && executions::head(node.store(), environment, id).await?.is_none() {
        return Ok(None);
    }
    read.map(Some)
}

pub(crate) async fn execution(
    node: &Node,
    environment: Environment,
    id: ExecutionId,
) -> Result<Option<ExecutionDetail>, Error> {
    let read = detail(node, environment, id).await;
    // Outputs may have gone while they were read.
    let unsure = match &read {
        Ok(Some(detail)) => detail.overview.execution.is_finished(),
        Ok(None) => false,
        Err(_) => true,
    };
    if unsure && executions::head(node.store(), environment, id).await?.is_none() {
        return Ok(None);
    }
    read
}

async fn detail(
    node: &Node,
    environment: Environment,
    id: ExecutionId,
) -> Result<Option<ExecutionDetail>, Error> {
    let store = node.store();
    let Some(head) = executions::head(store, environment, id).await? else {
        return Ok(None);
    };
    let Some((execution, mut begun, _)) = whole(node, environment, id, head).await? else {
        return Ok(None);
    };
    let execution = super::items::with_items(store, environment, execution).await?;
    let mut counts = HashMap::new();
    let mut outputs = Excerpts::within(MAX_OUTPUTS);
    let (mut copies, mut corrections) = (HashMap::new(), HashMap::new());
    let is_fork = execution.head.spec.forked_from.is_some();
    for (number, row) in execution.steps() {
        if let Some(task) = row.task.filter(|_| is_fork && row.stage == Stage::Completed) {
            let made = tables::made(store, environment, task).await?;
            let copy_of = made.and_then(|made| made.spec.origin.copy_of);
            copies.extend(copy_of.map(|task| (number, task)));
        }
        if row.map.is_some() {
            let live = super::items::live(store, environment, &execution, number).await?;
            let how_far = |task: TaskId| live.get(&task).copied().unwrap_or(DispatchState::Running);
            counts.extend(execution.item_counts(number, how_far).map(|found| (number, found)));
            let made = made(&execution, number);
            if let Some(made) = made
                && let Some(output) =
                    super::items::output(store, environment, &made, |_| None).await?
                && output.len() < MAX_OUTPUT
            {
                outputs.insert(number, output);
            }
            continue;
        }
        if let (Some(task), Stage::Completed | Stage::Rejected) = (row.task, row.stage) {
            let found = super::approvals::correction(store, environment, task).await?;
            corrections.extend(found.map(|found| (number, found)));
        }
        if let Some(source) = row.output_source()
            && let Some(output) = tables::output(store, environment, source).await?
        {
            outputs.insert(number, output);
        }
    }
    let out = execution.steps().filter(|(_, row)| row.stage == Stage::Dispatched);
    let out = out.filter(|(_, row)| row.map.is_none()).filter_map(|(_, row)| row.task);
    let read = async |id| {
        let found = tables::task(store, environment, id).await?;
        Ok(found.map(|found| (id, found.task)))
    };
    let tasks: HashMap<_, _> = together(TOGETHER, out.map(read)).await?.into_iter().collect();
    let live = tasks.iter().map(|(id, task)| (*id, how_far(&task.state))).collect();
    let input = begun.take_input(store, environment).await?;
    let is_held = |task: &&Task| {
        let is_held = matches!(task.state, State::AwaitingApproval { .. });
        is_held && !execution.has_counted(task.spec.id)
    };
    let results = tasks.values().filter(is_held).filter_map(|task| task.result.as_ref());
    let usage = results.map(|result| result.usage).sum();
    let waits = foremost(tasks.values().collect(), |task: &&Task| (task.spec.id, &task.state));
    let waits = waits.cloned();
    let (overview, items) = (Overview { held: usage, waits, ..seen(execution, &live) }, counts);
    Ok(Some(ExecutionDetail { overview, tasks, outputs, items, input, copies, corrections }))
}

/// The output of the last step of an execution, if that is completed.
pub(crate) async fn last_output(
    store: &dyn Store,
    environment: Environment,
    execution: Execution,
) -> Result<Option<String>, Error> {
    let execution = super::items::with_items(store, environment, execution).await?;
    let last = execution.steps().last().map(|(number, _)| number);
    match last.and_then(|number| made(&execution, number)) {
        Some(made) => super::items::output(store, environment, &made, |_| None).await,
        None => Ok(None),
    }
}

/// The task for which an execution waits: one that is held, or else the oldest; none while one of them runs.
fn foremost<T>(tasks: Vec<T>, of: impl Fn(&T) -> (TaskId, &State)) -> Option<T> {
    if tasks.iter().any(|task| how_far(of(task).1) == DispatchState::Running) {
        return None;
    }
    let is_held = |state: &State| matches!(state, State::AwaitingApproval { .. });
    tasks.into_iter().min_by_key(|task| {
        let (id, state) = of(task);
        (!is_held(state), id)
    })
}

/// A task that has ended, of which the execution has not heard yet, counts as running.
fn seen(execution: Execution, live: &HashMap<TaskId, DispatchState>) -> Overview {
    let progress =
        execution.progress(|task| live.get(&task).copied().unwrap_or(DispatchState::Running));
    Overview { execution, progress, held: Usage::default(), waits: None }
}

pub(crate) async fn executions(
    node: &Node,
    environment: Environment,
    query: &Executions,
) -> Result<Page<Overview>, Error> {
    let filters = filter::filters(query);
    let Window { offset, limit } = query.window;
    let order = match query.order {
        ExecutionOrder::CreatedAt => Order::Document,
        ExecutionOrder::CompletedAt => Order::Sort(execution_sort::COMPLETED_AT),
    };
    let (list, descending) = (execution_list(environment), !query.ascending);
    let asked = Query { list, filters, order, descending, offset, limit };
    let page = node.store().query(&asked).await?;
    let read = async |id| overview(node, environment, ExecutionId::from_u128(id)).await;
    let items = together(LOADED, page.documents.into_iter().map(read)).await?;
    Ok(Page { items, total: page.total })
}
