//! Plans, executions, and deploys of templates (docs/reference/executions.md).

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard_domain::access::Role;
use callboard_domain::budget::Money;
use callboard_domain::estimate::{self, DryRun, KnownFork, StepDefaults};
use callboard_domain::execution;
use callboard_domain::fuel::{Fuel, OutOfFuel};
use callboard_domain::id::{Environment, ExecutionId, PlanId};
use callboard_domain::plan::{HitlSource, Plan, PlanSource};
use callboard_domain::problem::Problems;
use callboard_domain::query::{Executions, Items, Page, Plans};
use callboard_domain::schema::{self, Schema};
use callboard_domain::task::Request;
use callboard_domain::template::{Caller, Overrides};
use callboard_domain::{Error, Rule, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::{COMMAND, Handle, within};
use crate::items::execution::{Address, Message};
use crate::items::submission::{
    self, Created, Named, NewWork, Options, Runs, StartExecution, Submitted,
};
use crate::kernel::compute::Weight;
use crate::messages::submission::Owner;
use crate::read::answers::{self, Lengths, Of};
use crate::read::items::{self, ItemPage};
use crate::read::runs::{self, ExecutionDetail, Overview, PlanDetail};
use crate::read::unreadable;
use crate::tables::Deployed;
use callboard_domain::execution::program::{About, CompiledPlan, Program, ReviewPolicy};
use callboard_domain::schedule::Occurrence;

/// The request for an execution of a plan.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Start {
    /// The values of `{{input.*}}`.
    pub input: Map<String, Value>,
    /// The review settings, which say which outputs are held.
    pub hitl: Option<HitlSource>,
    /// The options.
    #[serde(skip)]
    pub options: Options,
    /// The instant before which the execution does not begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_at: Option<Timestamp>,
    /// The tags, the title and the callback.
    #[serde(skip_serializing_if = "Named::is_none")]
    pub named: Named,
}

/// The request for a deploy of a template.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Deploy {
    /// The input of the execution.
    pub start: Start,
    /// Another version than the latest.
    pub version: Option<String>,
    /// Models by step.
    pub models: BTreeMap<String, String>,
    /// Queues by step.
    pub queues: BTreeMap<String, String>,
}

impl Start {
    /// The parts of a request that a repetition under one idempotency key must share.
    fn same(&self) -> impl Serialize + '_ {
        let Options { timeout_ms, max_cost, fail_fast } = self.options;
        (self, timeout_ms, max_cost, fail_fast)
    }
}

/// The checked parts of a run.
#[derive(Clone)]
pub(super) struct Prepared {
    pub(super) compiled: Arc<CompiledPlan>,
    /// The plan whose past runs an estimate rests on.
    plan: Option<PlanId>,
    pub(super) template: Option<execution::Template>,
    pub(super) review: ReviewPolicy,
    pub(super) input: Map<String, Value>,
}

impl Prepared {
    /// The execution of this run, which begins at once.
    pub(super) fn begin(self, runs: Runs, options: Options, named: Named) -> StartExecution {
        let Self { compiled, review, input, .. } = self;
        let (start_at, forked_from, occurrence, row_of) = (None, None, None, None);
        StartExecution {
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
        }
    }
}

impl Handle {
    /// Makes a plan. After `Ok` the plan survives a power cut.
    ///
    /// # Errors
    /// [`Error::InvalidDefinition`] with every fault, [`Error::TooMuchWaits`], [`Error::Unavailable`].
    pub async fn create_plan(
        &self,
        owner: &Owner,
        source: PlanSource,
    ) -> Result<PlanDetail, Error> {
        let (node, given) = (Arc::clone(&self.node), source.clone());
        let environment = owner.environment;
        let compile = move || Plan::compile(given, node.env_allow(environment));
        let weight = (!source.is_brief()).then(|| Weight::new(source.size(), || source.takes()));
        let plan = self.ask(environment, &owner.id, weight, compile).await?;
        let plan = plan.map_err(Error::InvalidDefinition)?;
        let compiled = Arc::new(CompiledPlan::new(plan, None));
        let order = NewWork::Plan(Box::new(source), Arc::clone(&compiled));
        let Created::Plan(id, created_at) = self.make(owner, order, None).await?.made else {
            return Err(Error::Internal);
        };
        Ok(PlanDetail { id, created_at, deployed: None, compiled })
    }

    /// A plan.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn plan(
        &self,
        environment: Environment,
        caller: Caller<'_>,
        id: PlanId,
    ) -> Result<PlanDetail, Error> {
        let found = runs::plan(&self.node, environment, id).await;
        let found = found.map_err(|error| unreadable(&error))?;
        let is_visible = |plan: &PlanDetail| {
            plan.deployed.as_ref().is_none_or(|of| {
                let version = (of.template.as_str(), of.version.as_str());
                self.node.state.catalog.may_see(environment, version, caller)
            })
        };
        found.filter(is_visible).ok_or_else(|| Error::not_found("plan", id))
    }

    /// Plans, and their total number.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn plans(
        &self,
        environment: Environment,
        caller: Caller<'_>,
        query: &Plans,
    ) -> Result<Page<PlanDetail>, Error> {
        runs::plans(&self.node, environment, query, caller)
            .await
            .map_err(|error| unreadable(&error))
    }

    /// Starts an execution of a plan. After `Ok` the execution survives a power cut.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InvalidDefinition`] for the input or `hitl`,
    /// [`Error::Forbidden`] if `hitl` asks for fewer gates than the template, [`Error::BudgetExceeded`] if no first step fits, those of an idempotency key,
    /// [`Error::Unavailable`].
    pub async fn execute(
        &self,
        owner: &Owner,
        id: PlanId,
        start: Start,
        idempotency_key: Option<&str>,
    ) -> Result<Submitted, Error> {
        self.admit()?;
        let endpoint = format!("plans/{id}/execute");
        let key = idempotency_key.map(|key| self.scoped_key(owner, &endpoint, key, &start.same()));
        let (options, start_at, named) = (start.options, start.start_at, start.named.clone());
        let plan = self.plan(owner.environment, owner.caller(), id).await?;
        let prepared = self.of_plan(owner, plan, start).await?;
        let runs = Runs::Plan(id, prepared.template.clone());
        let begin = StartExecution { start_at, ..prepared.begin(runs, options, named) };
        self.make(owner, NewWork::Execution(Box::new(begin)), key).await
    }

    /// A dry run of a plan; nothing is stored or started.
    ///
    /// # Errors
    /// Those of [`Self::execute`], and a prompt that cannot be rendered.
    pub async fn dry_run(&self, owner: &Owner, id: PlanId, start: Start) -> Result<DryRun, Error> {
        let plan = self.plan(owner.environment, owner.caller(), id).await?;
        let max_cost = start.options.max_cost;
        let prepared = self.of_plan(owner, plan, start).await?;
        self.would((owner.environment, &owner.id), prepared, max_cost).await
    }

    /// Deploys a template: makes a plan of it and starts the plan. After `Ok` both survive a power cut.
    ///
    /// # Errors
    /// Those of [`Self::execute`]; an unknown step in an override has the rule `step`; [`Error::InvalidState`] if the
    /// version is retired.
    pub async fn deploy(
        &self,
        owner: &Owner,
        caller: Caller<'_>,
        id: &str,
        deploy: Deploy,
        idempotency_key: Option<&str>,
    ) -> Result<Submitted, Error> {
        self.admit()?;
        let endpoint = format!("templates/{id}/deploy");
        let key = idempotency_key
            .map(|key| self.scoped_key(owner, &endpoint, key, &(&deploy, deploy.start.same())));
        let Start { options, start_at, .. } = deploy.start;
        let named = deploy.start.named.clone();
        let (deployed, prepared) = self.prepared(owner.environment, caller, id, deploy).await?;
        let runs = Runs::Deployed(deployed);
        let begin = StartExecution { start_at, ..prepared.begin(runs, options, named) };
        self.make(owner, NewWork::Execution(Box::new(begin)), key).await
    }

    /// A dry run of a deploy; nothing is stored or started.
    ///
    /// # Errors
    /// Those of [`Self::deploy`], and a prompt that cannot be rendered.
    pub async fn dry_deploy(
        &self,
        environment: Environment,
        caller: Caller<'_>,
        id: &str,
        deploy: Deploy,
    ) -> Result<DryRun, Error> {
        let max_cost = deploy.start.options.max_cost;
        let (_, prepared) = self.prepared(environment, caller, id, deploy).await?;
        self.would((environment, caller.account), prepared, max_cost).await
    }

    pub(super) async fn prepared(
        &self,
        environment: Environment,
        caller: Caller<'_>,
        id: &str,
        mut deploy: Deploy,
    ) -> Result<(Deployed, Prepared), Error> {
        let input = std::mem::take(&mut deploy.start.input);
        let (deployed, mut prepared) = self.deployment(environment, caller, id, deploy).await?;
        if let Some(schema) = &prepared.compiled.input_schema {
            prepared.input = self.checked_input(environment, caller.account, schema, input).await?;
        }
        Ok((deployed, prepared))
    }

    /// The deploy of a template, without an input.
    pub(super) async fn deployment(
        &self,
        environment: Environment,
        caller: Caller<'_>,
        id: &str,
        deploy: Deploy,
    ) -> Result<(Deployed, Prepared), Error> {
        let Deploy { start, version, models, queues } = deploy;
        let published = self.template(environment, caller, id, version.as_deref())?;
        let template = &published.template;
        self.node.check_in_use(environment, id, template.version())?;
        let overrides = Overrides { models, queues, hitl: start.hitl };
        let bytes = (!template.source().is_brief()).then(|| template.source().size());
        let (node, of) = (Arc::clone(&self.node), Arc::clone(&published));
        let deploy = move || {
            let made = of.template.deploy(&overrides, node.env_allow(environment));
            (made, overrides)
        };
        let (made, overrides) = self.ask(environment, caller.account, bytes, deploy).await?;
        let made = made.map_err(Error::InvalidDefinition)?;
        if caller.role != Role::Admin {
            let hitl = template.source().hitl.as_ref();
            HitlSource::check_not_less(made.hitl.as_ref(), hitl, &made.plan.source().steps)?;
        }
        let deployed = Deployed {
            template: id.to_owned(),
            version: template.version().to_string(),
            models: overrides.models,
            queues: overrides.queues,
            hitl: overrides.hitl,
        };
        let review = ReviewPolicy { hitl: made.hitl.clone() };
        let compiled = Arc::new(CompiledPlan::of_template(template, made));
        let (template, input) = (Some(template_of(&deployed)), Map::new());
        Ok((deployed, Prepared { compiled, plan: None, template, review, input }))
    }

    /// An execution of a plan; one that a deploy made keeps the schema and the gates of its template.
    pub(super) async fn of_plan(
        &self,
        owner: &Owner,
        plan: PlanDetail,
        start: Start,
    ) -> Result<Prepared, Error> {
        let template = plan.deployed.as_ref().map(template_of);
        if let Some(template) = &template
            && let Ok(version) = template.version.parse()
        {
            self.node.check_in_use(owner.environment, &template.id, version)?;
        }
        let (id, compiled) = (plan.id, plan.compiled);
        let steps = &compiled.plan.source().steps;
        let faults = start.hitl.as_ref().map(|hitl| hitl.faults(steps)).unwrap_or_default();
        Problems::none_of(faults).map_err(Error::InvalidDefinition)?;
        let hitl = HitlSource::for_run(compiled.hitl.as_ref(), start.hitl.as_ref());
        if owner.role != Role::Admin {
            HitlSource::check_not_less(hitl.as_ref(), compiled.hitl.as_ref(), steps)?;
        }
        let input = if let Some(schema) = &compiled.input_schema {
            self.checked_input(owner.environment, &owner.id, schema, start.input).await?
        } else {
            compiled.plan.check_input(&start.input).map_err(Error::InvalidDefinition)?;
            start.input
        };
        Ok(Prepared { compiled, plan: Some(id), template, review: ReviewPolicy { hitl }, input })
    }

    /// The input with its defaults, checked by the schema: here and now if that is brief, else on a
    /// thread that no other request waits for.
    pub(crate) async fn checked_input(
        &self,
        environment: Environment,
        account: &str,
        schema: &Schema,
        input: Map<String, Value>,
    ) -> Result<Map<String, Value>, Error> {
        let check = |schema: &Schema, input: Map<String, Value>, fuel: &mut Fuel| {
            let filled = Value::Object(schema.with_defaults(input, fuel)?);
            Ok::<_, OutOfFuel>(schema.check_input(&filled, fuel)?.map(|()| filled))
        };
        let brief = if schema.is_brief() {
            check(schema, input.clone(), &mut Fuel::new(schema::BRIEF_FUEL)).ok()
        } else {
            None
        };
        let checked = if let Some(checked) = brief {
            checked
        } else {
            let schema = schema.clone();
            let bytes = schema.length() + submission::length(input.values());
            let full = move || check(&schema, input, &mut Fuel::new(schema::FUEL));
            let checked = self.ask(environment, account, Some(bytes), full).await?;
            let message = "input takes too many steps to check against inputSchema";
            checked.map_err(|OutOfFuel| Error::invalid("input", Rule::Length, message))?
        };
        match checked.map_err(invalid)? {
            Value::Object(input) => Ok(input),
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_) => Err(Error::Internal),
        }
    }

    async fn would(
        &self,
        who: (Environment, &str),
        run: Prepared,
        max_cost: Option<Money>,
    ) -> Result<DryRun, Error> {
        self.would_forking(who, run, max_cost, (KnownFork::default(), None)).await
    }

    /// The preview of a fork.
    pub(super) async fn would_forking(
        &self,
        (environment, account): (Environment, &str),
        run: Prepared,
        max_cost: Option<Money>,
        (fork, occurrence): (KnownFork, Option<Box<Occurrence>>),
    ) -> Result<DryRun, Error> {
        let Prepared { compiled, plan, template, review, input } = run;
        let usual = self.node.task_defaults(environment);
        let now = self.node.now();
        let id = ExecutionId::from_u128(self.node.fresh_id(now, 0));
        let about = About::new(id, now, occurrence);
        let hitl = review.hitl.clone();
        let program = Program::new(about, Arc::clone(&compiled), review, input, Arc::clone(&usual));
        let past = match Of::run(plan, template.as_ref()) {
            Some(of) => answers::past(&self.node, environment, of, Lengths::Counted).await,
            None => Ok(Default::default()),
        };
        let (past, _) = past.map_err(|error| unreadable(&error))?;
        let prices = self.node.limits.prices.get();
        let is_brief = estimate::is_brief(&compiled.plan, &program.scope_at_start());
        let bytes = (!is_brief).then(|| compiled.plan.source().size());
        let dry_run = move || {
            let targets = StepDefaults { model: &usual.model, queue: Request::DEFAULT_QUEUE };
            let scope = program.scope_at_start();
            estimate::dry_run(&compiled, &scope, hitl.as_ref(), targets, &past, &prices, &fork)
        };
        let run = self.ask(environment, account, bytes, dry_run).await?;
        let run = run.map_err(|(step, error)| {
            let message = format!("the prompt of step {step} cannot be rendered: {error}");
            Error::invalid("input", Rule::Placeholder, message)
        })?;
        let budget = max_cost.map(|max| run.under(max));
        Ok(DryRun { budget, ..run })
    }

    /// An execution with its steps and outputs.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn execution(
        &self,
        environment: Environment,
        id: ExecutionId,
    ) -> Result<ExecutionDetail, Error> {
        let found = runs::execution(&self.node, environment, id).await;
        found.map_err(|error| unreadable(&error))?.ok_or_else(|| Error::not_found("execution", id))
    }

    /// A page of the items of a step, in the order of its list.
    ///
    /// # Errors
    /// [`Error::NotFound`], also for a step without a list; [`Error::Unavailable`].
    pub async fn execution_items(
        &self,
        environment: Environment,
        id: ExecutionId,
        step: &str,
        query: &Items,
    ) -> Result<ItemPage, Error> {
        self.overview(environment, id).await?;
        let found = items::page(&self.node, environment, id, step, query).await;
        let missing = || Error::not_found("step with forEach", step);
        found.map_err(|error| unreadable(&error))?.ok_or_else(missing)
    }

    /// An execution without its steps.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn overview(
        &self,
        environment: Environment,
        id: ExecutionId,
    ) -> Result<Overview, Error> {
        let found = runs::overview(&self.node, environment, id).await;
        found.map_err(|error| unreadable(&error))?.ok_or_else(|| Error::not_found("execution", id))
    }

    /// Executions, and their total number.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn executions(
        &self,
        environment: Environment,
        query: &Executions,
    ) -> Result<Page<Overview>, Error> {
        runs::executions(&self.node, environment, query).await.map_err(|error| unreadable(&error))
    }

    /// Cancels an execution. After `Ok` no worker is given a step of the execution any more.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InvalidState`] if it has ended, [`Error::Unavailable`].
    pub async fn cancel_execution(
        &self,
        environment: Environment,
        id: ExecutionId,
    ) -> Result<Overview, Error> {
        let cancelled = self.command(environment, id, Message::Cancel).await?;
        self.flush_workers().await;
        Ok(cancelled)
    }

    /// The same for one of many, without the wait for the workers.
    ///
    /// # Errors
    /// Those of [`Self::cancel_execution`].
    pub(crate) async fn cancel_one_of_many(
        &self,
        environment: Environment,
        id: ExecutionId,
    ) -> Result<(), Error> {
        self.command(environment, id, Message::Cancel).await.map(drop)
    }

    /// Runs the steps of a failed or cancelled execution again that did not end well.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InvalidState`] if it runs or is completed,
    /// [`Error::Unavailable`].
    pub async fn retry_execution(
        &self,
        environment: Environment,
        id: ExecutionId,
    ) -> Result<Overview, Error> {
        self.command(environment, id, Message::Retry).await
    }

    async fn command(
        &self,
        environment: Environment,
        id: ExecutionId,
        message: impl FnOnce(oneshot::Sender<Result<(), Error>>) -> Message,
    ) -> Result<Overview, Error> {
        self.admit()?;
        self.overview(environment, id).await?;
        let (reply, answer) = oneshot::channel();
        let address = Address { environment, execution: id };
        self.node.shard(id.partition()).executions.send(address, message(reply));
        within(COMMAND, answer).await??;
        self.overview(environment, id).await
    }
}

fn template_of(deployed: &Deployed) -> execution::Template {
    let (id, version) = (deployed.template.clone(), deployed.version.clone());
    execution::Template { id, version }
}

fn invalid(problems: Vec<callboard_domain::problem::Problem>) -> Error {
    match Problems::none_of(problems) {
        Err(problems) => Error::InvalidDefinition(problems),
        Ok(()) => Error::Internal,
    }
}
