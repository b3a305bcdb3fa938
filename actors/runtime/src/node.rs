//! The shared state of all actors of this process: shards, directories, the settings and the ports.
//!
//! Deliberately absent: state that anything depends on after a restart.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use callboard_domain::Timestamp;
use callboard_domain::approval;
use callboard_domain::budget::Money;
use callboard_domain::caps::Caps;
use callboard_domain::confidence::ask::Expected;
use callboard_domain::delivery::WebhookPolicy;
use callboard_domain::execution::Execution;
use callboard_domain::execution::program::{About, CompiledPlan, Program, TaskDefaults};
use callboard_domain::id::{Environment, ExecutionId, Generator, PlanId, TaskId};
use callboard_domain::model_limits::ModelLimits;
use callboard_domain::queue::Ready;
use callboard_domain::rate::Quotas;
use callboard_domain::retention;
use callboard_domain::session::signing::SigningKeys;
use callboard_domain::task::{Called, Inputs, LeaseId, LeaseToken, State, Task};
use callboard_domain::template::Template;
use callboard_domain::trace::{TraceContext, span_of_attempt, span_of_task};
use callboard_domain::usage::Prices;
use callboard_domain::worker::LeasePolicy;
use callboard_store::{Error, Store};
use ractor::ActorRef;
use tokio::sync::{Notify, Semaphore, watch};

use crate::accounts::{self, AuditLog, Register};
use crate::batch::LiveBatches;
use crate::budgets::{Budgets, Reservation};
use crate::bulk::Bulks;
use crate::catalog::{self, Catalog};
use crate::compute::Compute;
use crate::concurrency::Concurrency;
use crate::delivery::SendPermits;
use crate::durable;
use crate::events::Events;
use crate::flow::Flow;
use crate::holdings::AccountHoldings;
use crate::metrics::Metrics;
use crate::models::Models;
use crate::pause::Paused;
use crate::ports::Ports;
use crate::queue::{self, QueueKind};
use crate::read;
use crate::retention::Holds;
use crate::review_stats::ReviewStats;
use crate::reviewers::Reviewers;
use crate::schedule::RunWatch;
use crate::shard::{Shard, TaskAddress};
use crate::sources::NodeSources;
use crate::submission;
use crate::supervisor::DirectoryOf;
use crate::tables::executions::ExecutionInputsRow;
use crate::tables::{
    self, EVENTS, EventRow, HeadRow, LIVE_TASKS, LoadedTask, WorkerRow, executions, items,
};
use crate::texts::Texts;
use crate::worker::{self, Workers};
use crate::{recovery, task, worker as workers};

/// The number of unfinished items that are read at a time.
pub(crate) const PAGE: usize = if cfg!(test) { 3 } else { 1_000 };
/// The approximate bytes that a fresh task takes in memory, besides its prompt.
const TASK: usize = 500;

/// The runtime's part of the configuration.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The number of shards that share the partitions.
    pub shards: usize,
    /// The most actors of tasks, executions and approvals that may be awake or starting before commands
    /// about such are refused. Submissions of tasks are not refused: these wait in their queues.
    pub active: usize,
    /// The wait that counts as one priority step.
    pub aging: Duration,
    /// The length of leases, and the silence that is borne.
    pub terms: LeasePolicy,
    /// The interval at which workers are to speak.
    pub heartbeat: Duration,
    /// The time that a worker has after the order to drain.
    pub drain_deadline: Duration,
    /// The settings that may change while the system runs.
    pub live: Live,
    /// The defaults for tasks of plans.
    pub task_defaults: Arc<TaskDefaults>,
    /// The time for which an outage of its provider uses up no attempt of a task.
    pub outage_patience: Duration,
    /// The environment variables that plans and templates may use.
    pub env_allow: Vec<String>,
    /// The templates that come with the service.
    pub built_in: Vec<Template>,
    /// The settings for approvals.
    pub approvals: approval::Policy,
    /// The time for which events are kept.
    pub keep_events: Duration,
    /// The most events that are kept.
    pub keep_events_max: u64,
    /// The retention of ended items.
    pub retention: retention::Policy,
    /// The time for which a refresh token is taken.
    pub refresh_token: Duration,
    /// The keys that sign access tokens, at the start.
    pub signing_keys: SigningKeys,
    /// The time for which entries of the audit log are kept; `None` is for ever.
    pub keep_audit: Option<Duration>,
    /// The settings for webhooks.
    pub webhooks: WebhookPolicy,
    /// True if nothing leaves the process, no task is leased, no schedule runs and nothing is removed by age.
    pub stands_still: bool,
}

/// The settings that may change while the system runs.
#[derive(Debug, Clone, Default)]
pub struct Live {
    /// The prices of models.
    pub prices: Arc<Prices>,
    /// The limits of models, by name.
    pub model_limits: BTreeMap<String, ModelLimits>,
    /// The caps of an account.
    pub caps: Caps,
    /// The quotas of each tier.
    pub quotas: Quotas,
}

/// The shared state.
pub(crate) struct Node {
    pub(crate) ports: Ports,
    pub(crate) settings: Settings,
    pub(crate) shards: Vec<Shard>,
    pub(crate) queues: Arc<DirectoryOf<QueueKind>>,
    pub(crate) workers: Workers,
    prices: RwLock<Arc<Prices>>,
    pub(crate) concurrency: Concurrency,
    pub(crate) models: Models,
    pub(crate) budgets: Arc<Budgets>,
    pub(crate) bulks: Bulks,
    pub(crate) batches: LiveBatches,
    pub(crate) flow: Flow,
    pub(crate) paused: Paused,
    pub(crate) holdings: Arc<AccountHoldings>,
    /// Held by whoever makes a budget or the settings of a queue, of which there may be so many only.
    pub(crate) counting: tokio::sync::Mutex<()>,
    /// The lock of whoever cancels the work of deleted users.
    pub(crate) cancelling_left_work: tokio::sync::Mutex<()>,
    pub(crate) events: Arc<Events>,
    pub(crate) metrics: Metrics,
    pub(crate) texts: Arc<Texts>,
    pub(crate) accounts: Register,
    pub(crate) audit: AuditLog,
    pub(crate) catalog: Catalog,
    pub(crate) compute: Compute,
    pub(crate) reviewers: Reviewers,
    pub(crate) review_stats: ReviewStats,
    /// The permits to post webhooks.
    pub(crate) send_permits: Arc<SendPermits>,
    /// Plans that are being removed, or executed.
    pub(crate) run_watch: RunWatch,
    pub(crate) leaving_plans: Holds<(Environment, PlanId)>,
    /// The permits for submissions on their way to the disk, one for each KiB.
    pub(crate) submission_permits: Arc<Semaphore>,
    /// The sandbox has work: its worker is to connect.
    pub(crate) sandbox_used: Notify,
    pub(crate) publisher: OnceLock<ActorRef<catalog::Message>>,
    pub(crate) account_writer: OnceLock<ActorRef<accounts::Message>>,
    ids: Mutex<Generator>,
    draining: AtomicBool,
    /// True once a commit was fenced, or its outcome cannot be known: the state in memory is void.
    pub(crate) lost: watch::Sender<bool>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("shards", &self.shards).finish_non_exhaustive()
    }
}

impl Node {
    pub(crate) fn new(store: &Arc<dyn Store>, settings: Settings, ports: Ports) -> Self {
        let shards: Vec<_> = (0..settings.shards.clamp(1, 256))
            .map(|_| Shard::new(Arc::clone(store), ports.clone()))
            .collect();
        let deliveries = shards.iter().map(|shard| Arc::clone(&shard.deliveries)).collect();
        let queues = Arc::<DirectoryOf<QueueKind>>::default();
        Self {
            prices: RwLock::new(Arc::clone(&settings.live.prices)),
            concurrency: Concurrency::new(settings.live.quotas, Arc::clone(&queues)),
            models: Models::new(
                settings.live.model_limits.clone(),
                Arc::clone(&queues),
                Arc::clone(&ports.clock),
            ),
            budgets: Arc::default(),
            bulks: Bulks::default(),
            counting: tokio::sync::Mutex::default(),
            batches: LiveBatches::default(),
            flow: Flow::new(Arc::clone(&queues)),
            paused: Paused::default(),
            holdings: Arc::new(AccountHoldings::new(settings.live.caps)),
            cancelling_left_work: tokio::sync::Mutex::default(),
            events: Arc::new(Events::new(Arc::clone(store))),
            accounts: Register::new(settings.signing_keys.clone()),
            metrics: Metrics::new(&settings.task_defaults.model),
            texts: Arc::default(),
            ports,
            settings,
            shards,
            queues,
            workers: Workers::default(),
            audit: AuditLog::default(),
            catalog: Catalog::default(),
            compute: Compute::default(),
            reviewers: Reviewers::default(),
            review_stats: ReviewStats::default(),
            send_permits: SendPermits::new(deliveries),
            run_watch: RunWatch::default(),
            leaving_plans: Holds::default(),
            submission_permits: Arc::new(Semaphore::new(submission::MAX_PENDING_KIB)),
            sandbox_used: Notify::new(),
            publisher: OnceLock::new(),
            account_writer: OnceLock::new(),
            ids: Mutex::default(),
            draining: AtomicBool::new(false),
            lost: watch::Sender::new(false),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.ports.clock.now()
    }

    /// The time by which timetables go, which may jump.
    pub(crate) fn wall(&self) -> Timestamp {
        self.ports.clock.wall()
    }

    /// The shard that a partition belongs to.
    pub(crate) fn shard(&self, partition: u8) -> &Shard {
        &self.shards[usize::from(partition) % self.shards.len()]
    }

    /// The engine that holds all shards' rows, for reads across partitions; each shard keeps to its
    /// own partitions when it writes.
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.shard(0).store
    }

    /// Sends a message to a task.
    pub(crate) fn send(&self, address: TaskAddress, message: task::Message) {
        self.shard(address.task.partition()).tasks.send(address, message);
    }

    /// A fresh identifier's number, in `partition`, that says it was made at `now`.
    pub(crate) fn fresh_id(&self, now: Timestamp, partition: u8) -> u128 {
        let entropy = self.ports.entropy.bits();
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).next(now, partition, entropy)
    }

    /// The worst-case cost of an attempt of a task; `None` if one of its models has no price.
    pub(crate) fn worst_cost(
        &self,
        called: Called<'_>,
        inputs: &Inputs,
        max_tokens: Option<u64>,
    ) -> Option<Money> {
        // The provider counts a schema as a part of the prompt; without one, no answer has a fault.
        let schema = inputs.output_schema.as_ref();
        let called = if schema.is_some() { called } else { called.once() };
        let schema = schema.map_or(0, |schema| schema.length() as u64 / 4);
        let call = Expected { prompt: inputs.tokens().saturating_add(schema), max_tokens };
        let ask = inputs.confidence.as_deref();
        called.worst_case(call, ask, &self.prices()).map(Money::from_usd)
    }

    /// The most tokens that a model can answer with, if the price table knows it.
    pub(crate) fn longest_output(&self, model: &str) -> Option<u64> {
        self.prices().get(model).and_then(|price| price.max_output_tokens)
    }

    /// The prices of models.
    pub(crate) fn prices(&self) -> Arc<Prices> {
        Arc::clone(&self.prices.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes other settings of those that may change while the system runs.
    pub(crate) async fn adopt(&self, live: Live) {
        let Live { prices, model_limits, caps, quotas } = live;
        *self.prices.write().unwrap_or_else(PoisonError::into_inner) = prices;
        self.holdings.set_caps(caps);
        self.concurrency.set_quotas(&self.accounts, quotas);
        self.configure_models(model_limits).await;
    }

    /// Stops giving out tasks, for good.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// The number of actors of tasks, executions and approvals that are awake or starting, without
    /// pooled ones.
    pub(crate) fn awake(&self) -> usize {
        let awake = |shard: &Shard| {
            shard.tasks.awake() + shard.executions.awake() + shard.approvals.awake()
        };
        self.shards.iter().map(awake).sum()
    }

    /// The number of workers that are connected and heard of, in production.
    pub(crate) fn reachable_workers(&self) -> usize {
        let moment = self.ports.clock.moment();
        let live = self.workers.list(Environment::Live);
        live.iter().filter(|view| view.worker.is_reachable(moment)).count()
    }

    /// The trace context that the holder of a lease works under: its attempt, if that is recorded.
    pub(crate) fn trace_of_attempt(
        &self,
        task: &Task,
        lease: LeaseId,
    ) -> Option<Box<TraceContext>> {
        self.trace_of(task, || span_of_attempt(lease)).map(Box::new)
    }

    /// The trace context of the consequences of a task: its span, if that is recorded.
    pub(crate) fn trace_of_task(&self, task: &Task) -> Option<TraceContext> {
        self.trace_of(task, || span_of_task(task.spec.id))
    }

    fn trace_of(&self, task: &Task, span: impl FnOnce() -> u64) -> Option<TraceContext> {
        let trace = *task.spec.origin.trace.as_deref()?;
        let is_recorded = trace.is_sampled() && self.ports.tracer.is_some();
        Some(if is_recorded { trace.with_span(span()) } else { trace })
    }

    /// Makes every shard give up memory that was not needed for a while.
    pub(crate) fn slim(&self) {
        self.shards.iter().for_each(Shard::slim);
    }

    /// A ready task's place in its queue.
    pub(crate) fn ready(&self, task: &Task) -> Ready {
        #[cfg(test)]
        if let Some(bound) = crate::planted::bound_of(&task.spec) {
            self.concurrency.bind(&task.spec.account, bound);
        }
        Ready {
            task: task.spec.id,
            model: task.model().into(),
            priority: task.priority(),
            since: task.eligible_since(),
            account: self.concurrency.account(&self.accounts, &task.spec.account),
            flow: task.spec.flow.clone(),
        }
    }

    /// Tells the event log something of a worker, which has no row.
    pub(crate) fn append_event(
        &self,
        environment: Environment,
        event: &'static str,
        worker: WorkerRow,
    ) {
        let partition = worker.id.partition();
        let row = EventRow::of_worker(event, self.now(), worker);
        let ops = vec![EVENTS.append(tables::events(environment), &row)];
        drop(durable::commit_rows(self.shard(partition), partition, ops));
    }

    /// Unfinished tasks of an environment, from the one after `after`; none if there is no more.
    pub(crate) async fn unfinished(
        &self,
        environment: Environment,
        after: Option<u128>,
    ) -> Result<Vec<Task>, Error> {
        let store = self.store();
        let page = LIVE_TASKS.scan(store, environment.number(), after.as_ref(), PAGE).await?;
        let read = async |(id, row)| {
            tables::unfinished(store, environment, TaskId::from_u128(id), row).await
        };
        read::together(read::TOGETHER, page.into_iter().map(read)).await
    }

    /// Calls `visit` with every unfinished task of an environment.
    pub(crate) async fn each_unfinished(
        &self,
        environment: Environment,
        mut visit: impl FnMut(Task) + Send,
    ) -> Result<(), Error> {
        let mut after = None;
        loop {
            let page = self.unfinished(environment, after).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.spec.id.as_u128());
            page.into_iter().for_each(&mut visit);
        }
    }

    /// The ready tasks of a queue, read from the disk.
    pub(crate) async fn ready_in(&self, queue: &queue::Address) -> Result<Vec<Ready>, Error> {
        let (mut ready, environment) = (Vec::new(), queue.environment);
        self.each_unfinished(environment, |task| {
            if task.state == State::Ready && queue::Address::of(environment, &task) == *queue {
                ready.push(self.ready(&task));
            }
        })
        .await?;
        Ok(ready)
    }

    /// The leases that a worker holds, read from the disk.
    pub(crate) async fn running_on(
        &self,
        worker: workers::Address,
    ) -> Result<Vec<LeaseToken>, Error> {
        let mut leases = Vec::new();
        self.each_unfinished(worker.environment, |task| match task.state {
            State::Running { lease, worker: holder, .. } if holder == worker.worker => {
                leases.push(LeaseToken { task: task.spec.id, lease });
            }
            State::Scheduled { .. }
            | State::Ready
            | State::Backoff { .. }
            | State::Running { .. }
            | State::AwaitingApproval { .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Cancelled { .. }
            | State::Rejected { .. } => {}
        })
        .await?;
        Ok(leases)
    }

    /// Starts no actor but those of queues until [`Self::open`]; no worker is connected, so queues give out nothing.
    pub(crate) fn close(&self) {
        self.shards.iter().for_each(Shard::close);
        self.workers.directory.close();
    }

    /// Lets the actors begin for which messages wait.
    pub(crate) fn open(&self) {
        // The leases are watched before anything else is done.
        self.workers.directory.open();
        self.shards.iter().for_each(Shard::open);
    }

    /// Brings back the work from before a restart: a waiting task returns to its queue or timer, a
    /// running one is watched over.
    pub(crate) async fn recover(&self) -> Result<usize, Error> {
        self.events.begin(self).await?;
        self.load_templates().await?;
        self.load_models().await?;
        self.flow.load(self.store()).await?;
        self.load_pause().await?;
        self.budgets.load(self).await?;
        let mut count = 0;
        for environment in Environment::ALL {
            count += recovery::recover(self, environment).await?;
        }
        Ok(count)
    }

    /// An execution whose head was read, without the items of its steps, with its inputs and its plan.
    pub(crate) async fn execution(
        &self,
        environment: Environment,
        id: ExecutionId,
        mut head: HeadRow,
    ) -> Result<(Execution, ExecutionInputsRow, Arc<CompiledPlan>), Error> {
        let store = self.store();
        let corrupt = |reason: &str| Error::Corrupt { path: id.to_string(), reason: reason.into() };
        let begun = executions::begun(store, environment, id).await?;
        let begun = begun.ok_or_else(|| corrupt("what it was started with is missing"))?;
        let plan = self.plan(environment, begun.spec.plan).await?;
        let plan = plan.ok_or_else(|| corrupt("its plan is missing"))?;
        let compiled = Arc::clone(&plan.compiled);
        let graph = Arc::clone(&compiled.graph);
        let steps = executions::steps(store, environment, id, &graph, head.take_steps()).await?;
        let execution = Execution::loaded(head.of(Arc::clone(&begun.spec)), graph, steps);
        let execution = execution.map_err(|mismatch| corrupt(&mismatch.to_string()))?;
        Ok((execution, begun, compiled))
    }

    /// The same execution with all that it needs to run.
    pub(crate) async fn running_execution(
        &self,
        environment: Environment,
        id: ExecutionId,
        head: HeadRow,
    ) -> Result<(Execution, Arc<Program>), Error> {
        let (execution, mut begun, compiled) = self.execution(environment, id, head).await?;
        let execution = items::with_items(self.store(), environment, execution).await?;
        let input = begun.take_input(self.store(), environment).await?;
        let usual = Arc::clone(&self.settings.task_defaults);
        let about = About::from(&*begun.spec);
        Ok((execution, Arc::new(Program::new(about, compiled, begun.terms, input, usual))))
    }

    /// Hands a task that is about to become durable to its first actor.
    pub(crate) fn hand_off(&self, environment: Environment, task: Task, inputs: Inputs) {
        let address = TaskAddress { environment, task: task.spec.id };
        let size = TASK + inputs.length();
        let found = LoadedTask { task, inputs: Some(inputs), output: None };
        self.shard(address.task.partition()).handoff.add(address, found, size);
    }

    /// The sources of a decision in `partition`.
    pub(crate) fn sources(&self, environment: Environment, partition: u8) -> NodeSources<'_> {
        NodeSources { node: self, environment, partition, reserved: Reservation::default() }
    }

    /// The number of wake-ups that are asked for.
    #[cfg(test)]
    pub(crate) async fn timer_count(&self) -> usize {
        let mut count = 0;
        for shard in &self.shards {
            let (reply, answer) = tokio::sync::oneshot::channel();
            shard.timers(crate::timers::Message::Count(reply));
            count += answer.await.unwrap_or_default();
        }
        count
    }

    /// Ends every worker's connection.
    pub(crate) fn close_workers(&self) {
        self.workers.directory.send_to_all_awake(|| worker::Message::Close);
    }
}
