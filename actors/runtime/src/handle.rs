//! The only door to the runtime: every call of the edge, and every time-out.
//!
//! Each write is one message to an actor, or one commit of something new. Once the message is sent or the
//! commit is begun, the write is finished even if the caller leaves. A read before that ends with the
//! caller, and a session whose asker has left before its turn is not renewed.
//! Deliberately absent: permissions. The edge has checked them.

mod accounts;
mod approvals;
pub mod batches;
mod budgets;
pub(crate) mod bulk;
mod cells;
pub(crate) mod chat_batches;
mod deliveries;
mod erasure;
mod figures;
mod files;
mod forks;
mod models;
pub mod moves;
mod pause;
mod projects;
mod queues;
mod review_stats;
mod runs;
mod schedules;
mod signals;
mod stored;
mod tasks;
mod templates;
mod views;
mod workers;

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::cost;
use callboard_domain::digest::Digest;
use callboard_domain::id::{Environment, FileId, Slot, TaskId};
use callboard_domain::plan::compile_schema;
use callboard_domain::problem::Problems;
use callboard_domain::query::{Page, Tasks};
use callboard_domain::schema::Schema;
use callboard_domain::share::ProjectWeight;
use callboard_domain::task::{Request, State, Task};
use callboard_domain::worker::Monotonic;
use callboard_domain::{Error, Timestamp};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::{mpsc, oneshot};

pub use approvals::{Approve, Reject};
pub use batches::{BatchBegun, BatchOrder, Reuse, ReviewsAsked, ReviewsOrder};
pub use bulk::BulkOrder;
pub use erasure::ErasedExecution;
pub use files::{FileReader, FileUpload, NewFile};
pub use forks::Fork;
pub use models::ModelView;
pub use queues::QueueView;
pub use runs::{Deploy, Start};
pub use schedules::{GivenTarget, ScheduleDetail};
pub use signals::SendSignal;
pub use workers::WorkerLink;

pub use crate::node::stored::Stored;

use crate::items::submission::{self, NewWork, Submission, Submitted};
use crate::items::{task, worker};
use crate::kernel::address::TaskAddress;
use crate::kernel::compute::Weight;
use crate::kernel::finish::Finish;
use crate::kernel::removal_locks::UseGuard;
use crate::messages::submission::Owner;
use crate::node::{Live, Node};
use crate::observers::events::{Cursor, Subscription, Transient};
use crate::observers::metrics::Figures;
use crate::observers::texts::TextReader;
use crate::read::batches::Kept;
use crate::read::{self, TaskDetail, unreadable};

/// The time after which a caller is asked to try again.
const COMMAND: Duration = Duration::from_secs(10);
/// The wait of a submission for another one with the same idempotency key.
const SAME_KEY: Duration = Duration::from_secs(2);

/// The most schemas of one submission that are compiled while others wait, in bytes of compact JSON.
const BRIEF_SCHEMAS: usize = 16 * 1024;

/// The door.
#[derive(Debug, Clone)]
pub struct Handle {
    node: Arc<Node>,
    /// True if what is asked for was accepted before, such as an occurrence of a schedule: it waits for
    /// its turn to be computed, however much waits already.
    is_owed: bool,
    /// Figures of batches' rows that were read lately.
    kept: Arc<Kept>,
}

impl Handle {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        Self { node, is_owed: false, kept: Arc::default() }
    }

    /// A door for what was accepted before.
    pub(crate) fn owed(node: Arc<Node>) -> Self {
        Self { is_owed: true, ..Self::new(node) }
    }

    /// The time by the service's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.node.now()
    }

    /// True once a commit was fenced, or its outcome cannot be known ([`crate::System::lost`]).
    #[must_use]
    pub fn is_lost(&self) -> bool {
        *self.node.kernel.lost.borrow()
    }

    /// The monotonic time, by which a worker's silence is measured.
    #[must_use]
    pub fn moment(&self) -> Monotonic {
        self.node.kernel.ports.clock.moment()
    }

    /// Makes tasks durable, all or none: as a batch with an identifier, or one alone. After `Ok` the tasks survive a power cut.
    ///
    /// # Errors
    /// [`Error::InvalidDefinition`] for an output schema or a confidence that is none, [`Error::IdempotencyKeyReused`],
    /// [`Error::IdempotencyKeyInUse`], [`Error::Unavailable`].
    pub async fn submit(
        &self,
        owner: &Owner,
        tasks: Vec<Request>,
        as_batch: bool,
        idempotency_key: Option<&str>,
    ) -> Result<Submitted, Error> {
        let place = |index| if as_batch { format!("tasks[{index}].") } else { String::new() };
        let files = self.check_tasks(owner, &tasks, place).await?;
        let endpoint = if as_batch { "tasks/batch" } else { "tasks" };
        let key = idempotency_key.map(|key| self.scoped_key(owner, endpoint, key, &tasks));
        self.make_with(owner, NewWork::Tasks(tasks, as_batch), key, files).await
    }

    /// Passes if the schemas, confidences and files of tasks are valid, and keeps the files from removal until the
    /// guards are dropped. `place` begins the field of the task with this index.
    async fn check_tasks(
        &self,
        owner: &Owner,
        tasks: &[Request],
        place: impl Fn(usize) -> String,
    ) -> Result<Vec<UseGuard<(Environment, FileId)>>, Error> {
        let mut has_schema = false;
        for (index, task) in tasks.iter().enumerate() {
            has_schema |= task.inputs.output_schema.is_some();
            if let Some(ask) = &task.inputs.confidence {
                Problems::none_of(ask.faults(&format!("{}confidence", place(index))))?;
            }
        }
        if has_schema {
            let of = |(index, task): (usize, &Request)| {
                let schema = task.inputs.output_schema.clone()?;
                Some((format!("{}outputSchema", place(index)), schema))
            };
            let schemas = tasks.iter().enumerate().filter_map(of).collect();
            Box::pin(self.check_schemas(owner, schemas)).await?;
        }
        if tasks.iter().all(|task| task.inputs.files.is_empty()) {
            return Ok(Vec::new());
        }
        Box::pin(self.hold_files(owner.environment, tasks, place)).await
    }

    /// Compiles the schemas of a submission once, to see that they are valid; each comes with its field.
    async fn check_schemas(
        &self,
        owner: &Owner,
        schemas: Vec<(String, Schema)>,
    ) -> Result<(), Error> {
        let bytes = schemas.iter().map(|(_, schema)| schema.length()).sum();
        let is_brief =
            schemas.iter().all(|(_, schema)| schema.is_brief()) && bytes <= BRIEF_SCHEMAS;
        let weight = (!is_brief).then(|| Weight::new(bytes, || cost::time(costs(&schemas))));
        let compile = move || {
            Problems::none_of(cost::fault(costs(&schemas)).into_iter().collect())?;
            schemas.iter().try_for_each(|(field, schema)| {
                let faults = compile_schema(field, schema.source()).err().unwrap_or_default();
                Problems::none_of(faults)
            })
        };
        let compiled = self.ask(owner.environment, &owner.id, weight, compile).await?;
        compiled.map_err(Error::InvalidDefinition)
    }

    /// Makes a submission durable. After `Ok` the submission survives a power cut.
    async fn make(
        &self,
        owner: &Owner,
        order: NewWork,
        key: Option<submission::Key>,
    ) -> Result<Submitted, Error> {
        self.make_with(owner, order, key, Vec::new()).await
    }

    /// The same with files that stay until the submission is durable, also if the caller leaves.
    async fn make_with(
        &self,
        owner: &Owner,
        order: NewWork,
        key: Option<submission::Key>,
        files: Vec<UseGuard<(Environment, FileId)>>,
    ) -> Result<Submitted, Error> {
        if let Some(pause) = self.node.pause().filter(|_| !self.is_owed) {
            pause.admit()?;
        }
        // The items of a key share the key's partition, so that one commit holds both.
        let partition = match &key {
            Some(key) => key.scope[0],
            None => (self.node.kernel.ports.entropy.bits() & 0xff) as u8,
        };
        let (wait, keyed) = if key.is_some() { (SAME_KEY, true) } else { (COMMAND, false) };
        let (pool, project) = (&self.node.limits.submissions, owner.environment.slot());
        let admitted = pool.try_take(project, order.weight()).ok_or(Error::Unavailable(
            "too many submissions wait for the disk: send this again in a few seconds",
        ))?;
        let warnings = submission::warnings::warnings(&self.node, owner.environment, &order);
        let submission = Submission {
            environment: owner.environment,
            account: owner.id.clone(),
            trace: owner.trace.map(Box::new),
            order,
            key,
            partition,
            admitted,
            files,
            scheduled: None,
        };
        let answer = async {
            if keyed {
                return self.ask_submissions(submission)?.await.unwrap_or(Err(Error::Internal));
            }
            // A submission without a key has nothing to be compared with, and so needs no actor.
            Finish::new(submission::create(Arc::clone(&self.node), submission)).await
        };
        match tokio::time::timeout(wait, answer).await {
            Ok(answer) => answer.map(|submitted| Submitted { warnings, ..submitted }),
            Err(_) if keyed => Err(Error::IdempotencyKeyInUse),
            Err(_) => Err(Error::Unavailable(
                "the store takes too long, and the submission may still succeed: look for it before you send \
                 this again",
            )),
        }
    }

    fn ask_submissions(
        &self,
        submission: Submission,
    ) -> Result<oneshot::Receiver<Result<Submitted, Error>>, Error> {
        let (reply, answer) = oneshot::channel();
        let submissions =
            self.node.shard(submission.partition).submissions.get().ok_or(STOPPING)?;
        submissions
            .cast(submission::Message::Submit(Box::new(submission), reply))
            .map_err(|_| STOPPING)?;
        Ok(answer)
    }

    /// A task with its texts.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn task(&self, environment: Environment, id: TaskId) -> Result<TaskDetail, Error> {
        let store = &*self.node.shard(id.partition()).store;
        read::task(store, environment, id)
            .await
            .map_err(|error| unreadable(&error))?
            .ok_or_else(|| Error::not_found("task", id))
    }

    /// Tasks, and their total number.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn tasks(
        &self,
        environment: Environment,
        query: &Tasks,
    ) -> Result<Page<Task>, Error> {
        if query.waiting_for.is_empty() {
            let page = read::tasks(self.node.store(), environment, query).await;
            return page.map_err(|error| unreadable(&error));
        }
        self.waiting_page(environment, query).await
    }

    /// Cancels a task, for the account `by`. After `Ok` no worker is given the task any more, and a
    /// late answer changes nothing.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::InvalidState`] if it has ended, [`Error::Unavailable`].
    pub async fn cancel(
        &self,
        environment: Environment,
        id: TaskId,
        by: &str,
    ) -> Result<Task, Error> {
        self.admit()?;
        let store = &*self.node.shard(id.partition()).store;
        if crate::tables::task(store, environment, id)
            .await
            .map_err(|error| unreadable(&error))?
            .is_none()
        {
            return Err(Error::not_found("task", id));
        }
        let (reply, answer) = oneshot::channel();
        let message = task::Message::Cancel(by.to_owned(), reply);
        self.node.send(TaskAddress { environment, task: id }, message);
        let cancelled = within(COMMAND, answer).await??;
        self.flush_workers().await;
        Ok(cancelled)
    }

    /// Waits until every worker received its earlier frames: a task that was on its way
    /// out when it was cancelled is followed by its cancellation.
    async fn flush_workers(&self) {
        let (said, mut all_said) = mpsc::channel(1);
        let flush = || worker::Message::Flush(said.clone());
        self.node.actors.workers.directory.send_to_all_awake(flush);
        drop(said);
        // Ends when the last worker's actor has dropped its part.
        let _ = all_said.recv().await;
    }

    /// The obstacle of a pending task; `None` if the task is not pending.
    #[must_use]
    pub fn waiting_for(&self, environment: Environment, task: &Task) -> Option<&'static str> {
        match task.state {
            State::Ready if self.model_room(environment, task).is_err() => Some("limit"),
            State::Ready
                if !self.node.limits.concurrency.has_room(environment, &task.spec.account) =>
            {
                Some("limit")
            }
            State::Ready => Some("worker"),
            State::Scheduled { .. } => Some("schedule"),
            State::Backoff { .. } => Some("backoff"),
            State::AwaitingApproval { .. } => Some("approval"),
            State::Running { .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Cancelled { .. }
            | State::Rejected { .. } => None,
        }
    }

    /// The events after `cursor`, or from now on, and passing ones of these kinds.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn subscribe(
        &self,
        environment: Environment,
        cursor: Option<Cursor>,
        passing: Transient,
    ) -> Result<Subscription, Error> {
        let subscribed = self.node.observers.events.subscribe(environment, cursor, passing).await;
        subscribed.map_err(|error| unreadable(&error))
    }

    /// The number of projects, and the weight of one among them.
    #[must_use]
    pub fn sharing(&self, project: Option<Slot>) -> (usize, ProjectWeight) {
        let environments = &self.node.kernel.environments;
        let weight = project.map(|project| environments.weight(project));
        (environments.projects(), weight.unwrap_or_default())
    }

    /// Computes for `account`: here and now if `weight` is `None`, else on another thread once it is its turn.
    async fn ask<T: Send + 'static>(
        &self,
        environment: Environment,
        account: &str,
        weight: Option<impl Into<Weight>>,
        computation: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        if self.is_owed && weight.is_some() {
            let computed = self.node.kernel.compute.run(environment, account, computation).await;
            return computed.map_err(|_| Error::Internal);
        }
        self.node.kernel.compute.ask(environment, account, weight, computation).await
    }

    /// Runs a long computation on a thread that no request waits for, once it is the turn of `account`:
    /// the projects take turns, and in each its accounts. A request that asks for it holds so many
    /// `bytes` while it waits; `None` is for what is bounded elsewhere, and never refused.
    ///
    /// # Errors
    /// [`Error::TooMuchWaits`] and [`Error::Unavailable`] if too much of a request's waits,
    /// [`Error::Internal`] if the computation panicked.
    pub async fn compute<T: Send + 'static>(
        &self,
        environment: Environment,
        account: &str,
        bytes: Option<usize>,
        computation: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        if bytes.is_some() {
            return self.ask(environment, account, bytes, computation).await;
        }
        self.node
            .kernel
            .compute
            .run(environment, account, computation)
            .await
            .map_err(|_| Error::Internal)
    }

    /// Follows the text of a task's attempts, from the beginning of the current one.
    #[must_use]
    pub fn follow_text(&self, environment: Environment, task: TaskId) -> TextReader {
        self.node.observers.texts.of(environment, task).follow()
    }

    /// The counters, distributions and gauges of production.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub async fn figures(&self) -> Result<Figures, Error> {
        self.node.figures().await
    }

    /// Takes other settings of those that may change while the system runs: they count for whatever begins from now on.
    pub async fn adopt(&self, live: Live) {
        self.node.adopt(live).await;
    }

    /// True if the node gives out no new work.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.node.is_draining()
    }

    /// The number of actors of tasks, executions and approvals that are awake or starting.
    #[must_use]
    pub fn awake(&self) -> usize {
        self.node.awake()
    }

    /// The number of wake-ups that are asked for.
    #[cfg(test)]
    pub(crate) fn timer_count(&self) -> usize {
        self.node.timer_count()
    }

    /// The places and reservations that limits keep for tasks and calls: none at rest.
    #[cfg(test)]
    pub(crate) fn held_by_limits(&self) -> Vec<String> {
        let node = &self.node;
        let running = node.limits.concurrency.running();
        let running = running.iter().map(|(account, count)| format!("{account} runs {count}"));
        let keepers = [
            node.limits.budgets_of(Environment::LIVE).held(),
            node.limits.flow.held(),
            node.limits.models_of(Environment::LIVE).held(),
            node.limits.holdings.held(),
        ];
        keepers.into_iter().flatten().chain(running).collect()
    }

    /// The running tasks of an account, as its bound counts them.
    #[cfg(test)]
    pub(crate) fn running_of(&self, account: &str) -> u32 {
        self.node.limits.concurrency.running().get(account).copied().unwrap_or_default()
    }

    /// The running tasks of a concurrency key.
    #[cfg(test)]
    pub(crate) fn running_of_key(&self, environment: Environment, key: &str) -> u32 {
        self.node.limits.flow.running(environment, key)
    }

    /// The unfinished tasks and stored bytes of an account.
    #[cfg(test)]
    pub(crate) fn holdings(&self, account: &str) -> callboard_domain::caps::Holdings {
        self.node.limits.holdings.of(Environment::LIVE, account)
    }

    /// Passes if the node may wake one more actor.
    fn admit(&self) -> Result<(), Error> {
        if self.node.awake() >= self.node.settings.active {
            return Err(Error::Unavailable(
                "too many tasks, executions and approvals are in memory ([runtime] active): send this again \
                 in a few seconds",
            ));
        }
        Ok(())
    }
}

const STOPPING: Error =
    Error::Unavailable("the server is stopping: send this again once it has restarted");

async fn within<T>(limit: Duration, answer: oneshot::Receiver<T>) -> Result<T, Error> {
    match tokio::time::timeout(limit, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        // The actor broke over it; it is logged there.
        Ok(Err(_)) => Err(Error::Internal),
        Err(_) => {
            Err(Error::Unavailable("the server takes too long: send this again in a few seconds"))
        }
    }
}

impl Handle {
    fn scoped_key(
        &self,
        owner: &Owner,
        endpoint: &str,
        key: &str,
        body: &(impl Serialize + ?Sized),
    ) -> submission::Key {
        self.key_of((owner.environment, &owner.id), endpoint, key, body)
    }

    /// An idempotency key of an account. A project that has come from another cell keeps the digests that it had there.
    fn key_of(
        &self,
        (environment, account): (Environment, &str),
        endpoint: &str,
        key: &str,
        body: &(impl Serialize + ?Sized),
    ) -> submission::Key {
        let project = self.node.state.accounts.project_at(environment.slot());
        let digests_of = project.and_then(|project| project.digests_of);
        let slot = digests_of.unwrap_or(environment.slot());
        digest_of((slot.environment(environment.mode()), account), endpoint, key, body)
    }
}

fn digest_of(
    (environment, account): (Environment, &str),
    endpoint: &str,
    key: &str,
    body: &(impl Serialize + ?Sized),
) -> submission::Key {
    let mut scope = Sha256::new();
    for part in [&[environment.number()], account.as_bytes(), endpoint.as_bytes(), key.as_bytes()] {
        // The length keeps two scopes from running together to the same bytes.
        scope.update((part.len() as u64).to_be_bytes());
        scope.update(part);
    }
    let body = serde_json::to_string(body).expect("a request has a JSON form");
    let body = Digest::of(&body).to_string();
    submission::Key { scope: scope.finalize().into(), body, text: key.into() }
}

/// The schemas with their fields, for the count of what they cost.
fn costs(schemas: &[(String, Schema)]) -> impl Iterator<Item = (String, &Value)> {
    schemas.iter().map(|(field, schema)| (field.clone(), schema.source()))
}
