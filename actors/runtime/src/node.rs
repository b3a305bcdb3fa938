//! The shared state of all actors of this process: shards, directories, the settings and the ports.
//!
//! Deliberately absent: state that anything depends on after a restart.

pub(crate) mod audit;
pub(crate) mod bulks;
pub(crate) mod catalog;
pub(crate) mod chat_batches;
pub(crate) mod files;
pub(crate) mod live;
mod moves;
pub(crate) mod pause;
pub(crate) mod register;
pub(crate) mod rights;
pub(crate) mod roster;
pub(crate) mod shard;
pub(crate) mod stored;
pub(crate) mod timers;
pub(crate) mod watch;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use callboard_domain::Timestamp;
use callboard_domain::approval;
use callboard_domain::caps::Caps;
use callboard_domain::delivery::WebhookPolicy;
use callboard_domain::execution::Execution;
use callboard_domain::execution::program::{About, CompiledPlan, Program, TaskDefaults};
use callboard_domain::id::{Environment, ExecutionId, Generator, PlanId, ProjectId, TaskId};
use callboard_domain::model_limits::ModelLimits;
use callboard_domain::queue::Ready;
use callboard_domain::rate::Quotas;
use callboard_domain::retention;
use callboard_domain::session::signing::SigningKeys;
use callboard_domain::share::ProjectWeight;
use callboard_domain::task::{Inputs, LeaseId, LeaseToken, State as TaskState, Task};
use callboard_domain::template::Template;
use callboard_domain::trace::{TraceContext, span_of_attempt, span_of_task};
use callboard_domain::usage::Prices;
use callboard_domain::worker::LeasePolicy;
use callboard_store::{Error, Store};
use ractor::ActorRef;

use crate::kernel::address::{ExecutionAddress, QueueAddress, TaskAddress, WorkerAddress};
use crate::kernel::compute::Compute;
use crate::kernel::environments::{Environments, Sandboxes};
use crate::kernel::ports::Ports;
use crate::kernel::removal_locks::RemovalLocks;
use crate::kernel::standstill::Standstill;
use crate::kernel::together::{TOGETHER, together};
use crate::limits::permits::Permits;
use crate::limits::{Limits, Queues};
use crate::messages::permits::SendPermits;
use crate::messages::queue::QueueDirectory;
use crate::messages::{accounts, execution, task, templates};
use crate::node::audit::AuditLog;
use crate::node::bulks::Bulks;
use crate::node::catalog::Catalog;
use crate::node::chat_batches::ChatBatches;
use crate::node::files::Files;
use crate::node::live::LiveBatches;
use crate::node::pause::Paused;
use crate::node::register::Register;
use crate::node::roster::Workers;
use crate::node::shard::Shard;
use crate::node::stored::Measurement;
use crate::node::watch::RunWatch;
use crate::observers::Observers;
use crate::observers::events::Events;
use crate::observers::metrics::Metrics;
use crate::observers::review_stats::ReviewStats;
use crate::tables::executions::{self, ExecutionInputsRow};
use crate::tables::log::{self, Kind};
use crate::tables::{self, HeadRow, LIVE_TASKS, LoadedTask, WorkerRow, items};

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
    /// The environment variables that plans and templates of `default` may use.
    pub env_allow: Vec<String>,
    /// Those of other projects.
    pub projects: BTreeMap<ProjectId, AllowedVariables>,
    /// The weights of projects that have another than the usual one.
    pub weights: BTreeMap<ProjectId, ProjectWeight>,
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

/// Environment variables that plans and templates of a project may use.
#[derive(Debug, Clone, Default)]
pub struct AllowedVariables {
    /// Their names.
    pub names: Vec<String>,
    /// The values of those that are set.
    pub values: HashMap<String, String>,
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
    pub(crate) kernel: Kernel,
    pub(crate) settings: Settings,
    pub(crate) actors: Actors,
    pub(crate) limits: Arc<Limits>,
    pub(crate) observers: Observers,
    pub(crate) state: State,
}

/// The machinery of everything else: ports, threads, identifiers.
pub(crate) struct Kernel {
    pub(crate) ports: Ports,
    pub(crate) compute: Compute,
    pub(crate) environments: Arc<Environments>,
    /// The commits of projects that are moved.
    pub(crate) standstill: Arc<Standstill>,
    ids: Mutex<Generator>,
    draining: AtomicBool,
    /// True once a commit was fenced, or its outcome cannot be known: the state in memory is void.
    pub(crate) lost: tokio::sync::watch::Sender<bool>,
}

/// The ways to actors.
pub(crate) struct Actors {
    pub(crate) shards: Vec<Shard>,
    pub(crate) queues: Arc<QueueDirectory>,
    pub(crate) workers: Workers,
    pub(crate) publisher: OnceLock<ActorRef<templates::Message>>,
    pub(crate) account_writer: OnceLock<ActorRef<accounts::Message>>,
    /// The permits to post webhooks.
    pub(crate) send_permits: Arc<SendPermits>,
    /// The sandboxes that have work, whose workers are to connect.
    pub(crate) sandboxes: Sandboxes,
}

/// The state in memory: copies of rows, and facts that no row says.
pub(crate) struct State {
    pub(crate) accounts: Register,
    pub(crate) audit: AuditLog,
    pub(crate) catalog: Catalog,
    pub(crate) bulks: Bulks,
    pub(crate) batches: LiveBatches,
    pub(crate) chat_batches: ChatBatches,
    pub(crate) files: Files,
    pub(crate) paused: Paused,
    pub(crate) run_watch: RunWatch,
    /// Plans that are being removed, or executed.
    pub(crate) leaving_plans: RemovalLocks<(Environment, PlanId)>,
    pub(crate) stored: Measurement,
    /// Told when a project was deleted, or has left this cell.
    pub(crate) purging: tokio::sync::Notify,
    /// Told when a project has come to this cell.
    pub(crate) opening: tokio::sync::Notify,
    /// The lock of whoever cancels the work of deleted users.
    pub(crate) cancelling_left_work: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("shards", &self.actors.shards).finish_non_exhaustive()
    }
}

impl Node {
    pub(crate) fn new(store: &Arc<dyn Store>, settings: Settings, ports: Ports) -> Self {
        let standstill = Arc::<Standstill>::default();
        let shards: Vec<_> = (0..settings.shards.clamp(1, 256))
            .map(|_| Shard::new(Arc::clone(store), ports.clone(), Arc::clone(&standstill)))
            .collect();
        let deliveries = shards.iter().map(|shard| Arc::clone(&shard.deliveries)).collect();
        let queues = Arc::<QueueDirectory>::default();
        let environments = Arc::<Environments>::default();
        let limits = {
            let live = &settings.live;
            let told: Arc<dyn Queues> = Arc::clone(&queues) as Arc<dyn Queues>;
            let given = (live.quotas, live.caps, live.model_limits.clone());
            let (prices, clock) = (Arc::clone(&live.prices), Arc::clone(&ports.clock));
            Limits::new(prices, given, &told, clock, Arc::clone(&environments))
        };
        let observers = Observers {
            events: Arc::new(Events::new(Arc::clone(store))),
            metrics: Metrics::new(&settings.task_defaults.model),
            texts: Arc::default(),
            review_stats: ReviewStats::default(),
        };
        let kernel = Kernel {
            ports,
            compute: Compute::new(Arc::clone(&environments)),
            environments: Arc::clone(&environments),
            standstill,
            ids: Mutex::default(),
            draining: AtomicBool::new(false),
            lost: tokio::sync::watch::Sender::new(false),
        };
        let actors = Actors {
            shards,
            queues,
            workers: Workers::default(),
            publisher: OnceLock::new(),
            account_writer: OnceLock::new(),
            send_permits: SendPermits::new(deliveries, environments),
            sandboxes: Sandboxes::default(),
        };
        let state = State {
            accounts: Register::new(settings.signing_keys.clone()),
            audit: AuditLog::default(),
            catalog: Catalog::default(),
            bulks: Bulks::default(),
            batches: LiveBatches::default(),
            chat_batches: ChatBatches::default(),
            files: Files::default(),
            paused: Paused::default(),
            run_watch: RunWatch::default(),
            leaving_plans: RemovalLocks::default(),
            stored: Measurement::default(),
            purging: tokio::sync::Notify::new(),
            opening: tokio::sync::Notify::new(),
            cancelling_left_work: tokio::sync::Mutex::default(),
        };
        Self { kernel, settings, actors, limits: Arc::new(limits), observers, state }
    }

    /// The queues, for what a limit gives out.
    pub(crate) fn queues_of_limits(&self) -> Weak<dyn Queues> {
        let queues: Arc<dyn Queues> = Arc::clone(&self.actors.queues) as Arc<dyn Queues>;
        Arc::downgrade(&queues)
    }

    /// The permits of a task that runs, and whose lease was given out before a restart.
    pub(crate) fn permits_of_running(&self, environment: Environment, task: &Task) -> Permits {
        let age = task.leased_at().map(|at| self.now().since(at));
        self.limits.of_running(&self.state.accounts, environment, task, age)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.kernel.ports.clock.now()
    }

    /// The time by which timetables go, which may jump.
    pub(crate) fn wall(&self) -> Timestamp {
        self.kernel.ports.clock.wall()
    }

    /// The retention of ended items of an environment.
    pub(crate) fn retention(&self, environment: Environment) -> retention::Policy {
        let project = self.state.accounts.project_at(environment.slot());
        self.settings.retention.of_project(project.and_then(|project| project.retention_days))
    }

    fn allowed_variables(&self, environment: Environment) -> Option<&AllowedVariables> {
        self.settings.projects.get(&self.state.accounts.project_id(environment))
    }

    /// The environment variables that plans and templates of an environment may use.
    pub(crate) fn env_allow(&self, environment: Environment) -> &[String] {
        if environment.slot().is_default() {
            return &self.settings.env_allow;
        }
        self.allowed_variables(environment).map_or(&[], |allowed| &allowed.names)
    }

    /// The defaults of tasks of an environment, with the variables of its project.
    pub(crate) fn task_defaults(&self, environment: Environment) -> Arc<TaskDefaults> {
        let usual = &self.settings.task_defaults;
        if environment.slot().is_default() {
            return Arc::clone(usual);
        }
        let allowed = self.allowed_variables(environment);
        let env = allowed.map(|allowed| allowed.values.clone()).unwrap_or_default();
        let (model, pass_unknown) = (usual.model.clone(), usual.pass_unknown);
        Arc::new(TaskDefaults { model, env, pass_unknown })
    }

    /// True if what is older than `keep` may be removed by its age.
    pub(crate) fn may_remove(&self, keep: Duration) -> bool {
        retention::may_remove(
            keep,
            self.kernel.ports.clock.moment().elapsed(),
            self.now(),
            self.wall(),
        )
    }

    /// The environments in use.
    pub(crate) fn environments(&self) -> Arc<[Environment]> {
        self.kernel.environments.all()
    }

    /// The shard that a partition belongs to.
    pub(crate) fn shard(&self, partition: u8) -> &Shard {
        &self.actors.shards[usize::from(partition) % self.actors.shards.len()]
    }

    /// The engine that holds all shards' rows, for reads across partitions; each shard keeps to its
    /// own partitions when it writes.
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.shard(0).store
    }

    /// Sends a message to an execution.
    pub(crate) fn tell_execution(&self, to: ExecutionAddress, message: execution::Message) {
        self.shard(to.execution.partition()).executions.send(to, message);
    }

    /// Sends a message to a task.
    pub(crate) fn send(&self, address: TaskAddress, message: task::Message) {
        self.shard(address.task.partition()).tasks.send(address, message);
    }

    /// A fresh identifier's number, in `partition`, that says it was made at `now`.
    pub(crate) fn fresh_id(&self, now: Timestamp, partition: u8) -> u128 {
        let entropy = self.kernel.ports.entropy.bits();
        self.kernel.ids.lock().unwrap_or_else(PoisonError::into_inner).next(now, partition, entropy)
    }

    /// Takes other settings of those that may change while the system runs.
    pub(crate) async fn adopt(&self, live: Live) {
        let Live { prices, model_limits, caps, quotas } = live;
        self.limits.prices.set(prices);
        self.limits.holdings.set_caps(caps);
        self.limits.concurrency.set_quotas(&self.state.accounts, quotas);
        self.configure_models(model_limits).await;
    }

    /// Stops giving out tasks, for good.
    pub(crate) fn drain(&self) {
        self.kernel.draining.store(true, Ordering::Release);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.kernel.draining.load(Ordering::Acquire)
    }

    /// The number of actors of tasks, executions and approvals that are awake or starting, without
    /// pooled ones.
    pub(crate) fn awake(&self) -> usize {
        let awake = |shard: &Shard| {
            shard.tasks.awake() + shard.executions.awake() + shard.approvals.awake()
        };
        self.actors.shards.iter().map(awake).sum()
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
        let is_recorded = trace.is_sampled() && self.kernel.ports.tracer.is_some();
        Some(if is_recorded { trace.with_span(span()) } else { trace })
    }

    /// Makes every shard give up memory that was not needed for a while.
    pub(crate) fn slim(&self) {
        self.actors.shards.iter().for_each(Shard::slim);
    }

    /// A ready task's place in its queue.
    pub(crate) fn ready(&self, environment: Environment, task: &Task) -> Ready {
        #[cfg(test)]
        if let Some(bound) = crate::kernel::planted::bound_of(&task.spec) {
            self.limits.concurrency.bind(environment, &task.spec.account, bound);
        }
        let (tiers, account) = (&self.state.accounts, &task.spec.account);
        let account = self.limits.concurrency.account(tiers, environment, account);
        Ready {
            task: task.spec.id,
            model: task.model().into(),
            priority: task.priority(),
            since: task.eligible_since(),
            account,
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
        let record = log::append(environment, (event, self.now()), Kind::Worker, worker);
        drop(self.shard(partition).commit(partition, vec![record]));
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
        together(TOGETHER, page.into_iter().map(read)).await
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
    pub(crate) async fn ready_in(&self, queue: &QueueAddress) -> Result<Vec<Ready>, Error> {
        let (mut ready, environment) = (Vec::new(), queue.environment);
        self.each_unfinished(environment, |task| {
            if task.state == TaskState::Ready && QueueAddress::of(environment, &task) == *queue {
                ready.push(self.ready(environment, &task));
            }
        })
        .await?;
        Ok(ready)
    }

    /// The leases that a worker holds, read from the disk.
    pub(crate) async fn running_on(&self, worker: WorkerAddress) -> Result<Vec<LeaseToken>, Error> {
        let mut leases = Vec::new();
        self.each_unfinished(worker.environment, |task| match task.state {
            TaskState::Running { lease, worker: holder, .. } if holder == worker.worker => {
                leases.push(LeaseToken { task: task.spec.id, lease });
            }
            TaskState::Scheduled { .. }
            | TaskState::Ready
            | TaskState::Backoff { .. }
            | TaskState::Running { .. }
            | TaskState::AwaitingApproval { .. }
            | TaskState::Completed { .. }
            | TaskState::Failed { .. }
            | TaskState::Cancelled { .. }
            | TaskState::Rejected { .. } => {}
        })
        .await?;
        Ok(leases)
    }

    /// Starts no actor but those of queues until [`Self::open`]; no worker is connected, so queues give out nothing.
    pub(crate) fn close(&self) {
        self.actors.shards.iter().for_each(Shard::close);
        self.actors.workers.directory.close();
    }

    /// Lets the actors begin for which messages wait.
    pub(crate) fn open(&self) {
        // The leases are watched before anything else is done.
        self.actors.workers.directory.open();
        self.actors.shards.iter().for_each(Shard::open);
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
        let usual = self.task_defaults(environment);
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

    /// The number of wake-ups that are asked for.
    #[cfg(test)]
    pub(crate) fn timer_count(&self) -> usize {
        self.actors.shards.iter().map(|shard| shard.timers.count()).sum()
    }

    /// Ends every worker's connection.
    pub(crate) fn close_workers(&self) {
        self.actors.workers.directory.send_to_all_awake(|| crate::messages::worker::Message::Close);
    }
}
