//! Submissions of one shard: makes tasks, plans and executions durable, and remembers the idempotency keys
//! that made them.
//!
//! A submission without a key is made durable by the request that brings it. The others go through an actor
//! per shard, spawned by the system: it alone knows the keys whose submissions are pending. The actor does
//! not wait for the disk: each submission is finished by a continuation of its own, which goes on after its
//! client has left. Deliberately absent: the checks of a request, which were made before.

pub(crate) mod creation;
pub(crate) mod prices;
pub(crate) mod warnings;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use callboard_domain::batch::RowOf;
use callboard_domain::budget::Money;
use callboard_domain::digest::Digest;
use callboard_domain::execution::{Execution, ForkedFrom, Template};
use callboard_domain::id::{BatchId, Environment, PlanId, TaskId};
use callboard_domain::labels::Labels;
use callboard_domain::machine::Machine;
use callboard_domain::plan::PlanSource;
use callboard_domain::schedule::Occurrence;
use callboard_domain::task::{Request, Task};
use callboard_domain::trace::TraceContext;
use callboard_domain::unit::MAX_RENDERED;
use callboard_domain::{Error, Timestamp};
use callboard_store::Op;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::node::Node;
use crate::read::runs::whole;
use crate::tables::{self, Deployed, IDEMPOTENCY, IdempotencyRow, TEXTS, executions, text};
use callboard_domain::execution::program::{CompiledPlan, ReviewPolicy};

pub(crate) use creation::create;

/// The time for which a key is remembered, at least until its items have ended.
pub(crate) const KEPT: Duration = Duration::from_hours(24);

/// The KiB that may be on their way to the disk before more is refused: a disk that stands still
/// must not fill the memory with the retries of callers.
pub(crate) const MAX_PENDING_KIB: usize = 64 << 10;
/// The approximate size of a submission besides its texts, in KiB.
const OVERHEAD: usize = 2;

/// Something to be made durable, whole or not at all.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) environment: Environment,
    pub(crate) account: String,
    pub(crate) trace: Option<Box<TraceContext>>,
    pub(crate) order: NewWork,
    pub(crate) key: Option<Key>,
    /// The partition that the submission lives in: that of the key, if there is one.
    pub(crate) partition: u8,
    /// The submission's share of [`MAX_PENDING_KIB`].
    pub(crate) admitted: OwnedSemaphorePermit,
    /// The occurrence of a schedule, or the row of a batch, that the submission is.
    pub(crate) scheduled: Option<Box<Scheduled>>,
}

/// An occurrence of a schedule or a row of a batch: the number of its work, and its own rows.
#[derive(Debug)]
pub(crate) struct Scheduled {
    pub(crate) number: u128,
    pub(crate) rows: Vec<Op>,
}

impl NewWork {
    /// The plan that an execution is started of.
    pub(crate) fn plan(&self) -> Option<PlanId> {
        match self {
            Self::Execution(begin) => match begin.runs {
                Runs::Plan(id, _) => Some(id),
                Runs::Deployed(_) => None,
            },
            Self::Tasks(..) | Self::Retry(..) | Self::Plan(..) => None,
        }
    }

    /// The approximate memory of the submission, in KiB.
    pub(crate) fn weight(&self) -> usize {
        let task = |request: &Request| {
            let context =
                request.inputs.context.as_ref().map_or(0, |context| length(context.values()));
            OVERHEAD + (request.inputs.length() + context) / 1024
        };
        match self {
            Self::Tasks(requests, _) => requests.iter().map(task).sum(),
            Self::Retry(request, _) => task(request),
            Self::Plan(source, _) => OVERHEAD * (1 + source.steps.len()) + source.size() / 1024,
            Self::Execution(begin) => {
                let (steps, input) = (begin.compiled.graph.len(), length(begin.input.values()));
                // Each step may render the whole input, until a commit is full.
                let rendered = begin.compiled.plan.source().size() + steps * input;
                OVERHEAD * (1 + steps) + (input + rendered.min(MAX_RENDERED)) / 1024
            }
        }
    }
}

/// The approximate length of values as JSON, in bytes.
pub(crate) fn length<'v>(values: impl Iterator<Item = &'v Value>) -> usize {
    values
        .map(|value| match value {
            Value::String(text) => text.len(),
            Value::Array(items) => length(items.iter()),
            Value::Object(members) => {
                members.keys().map(String::len).sum::<usize>() + length(members.values())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        })
        .sum()
}

/// The items to create.
#[derive(Debug)]
pub(crate) enum NewWork {
    /// Tasks; as a batch with an identifier of its own, or one alone.
    Tasks(Vec<Request>, bool),
    /// A task that repeats another one, which has ended.
    Retry(Box<Request>, TaskId),
    Plan(Box<PlanSource>, Arc<CompiledPlan>),
    Execution(Box<StartExecution>),
}

/// An execution to be started.
#[derive(Debug)]
pub(crate) struct StartExecution {
    pub(crate) runs: Runs,
    pub(crate) compiled: Arc<CompiledPlan>,
    pub(crate) review: ReviewPolicy,
    pub(crate) input: Map<String, Value>,
    pub(crate) options: Options,
    pub(crate) start_at: Option<Timestamp>,
    pub(crate) forked_from: Option<Box<ForkedFrom>>,
    pub(crate) occurrence: Option<Box<Occurrence>>,
    pub(crate) row_of: Option<Box<RowOf>>,
    pub(crate) named: Named,
}

/// The members of a start by which its execution is found and announced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// The tags of its tasks, beside those of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The URL that receives webhooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<String>,
    /// The title, and what the webhooks announce.
    #[serde(default, skip_serializing_if = "Labels::is_none")]
    pub labels: Labels,
}

impl Named {
    /// True if no member was given.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// The plan of an execution.
#[derive(Debug)]
pub(crate) enum Runs {
    Plan(PlanId, Option<Template>),
    /// The plan of a deploy, made with the execution.
    Deployed(Deployed),
}

impl Runs {
    /// The id of the template, if the plan is one's.
    pub(crate) fn template(&self) -> Option<String> {
        match self {
            Self::Plan(_, template) => template.as_ref().map(|template| template.id.clone()),
            Self::Deployed(deployed) => Some(deployed.template.clone()),
        }
    }
}

/// The options of an execution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// The time limit of the execution, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// The cap on the execution's cost.
    pub max_cost: Option<Money>,
    /// True if the first failure cancels all other work.
    pub fail_fast: bool,
}

/// An idempotency key.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    /// A digest of environment, account, endpoint and key.
    pub(crate) scope: [u8; 32],
    /// A digest of the parsed body.
    pub(crate) body: String,
    /// The key.
    pub(crate) text: Box<str>,
}

impl Key {
    /// The digest of the body under a salt.
    fn salted(&self, salt: &str) -> String {
        Digest::of(&format!("{salt} {}", self.body)).to_string()
    }
}

/// The created items, as they were at their creation, by this request or an earlier one with its key.
#[derive(Debug, Clone)]
pub struct Submitted {
    /// The items.
    pub made: Created,
    /// True if an earlier request created them.
    pub replayed: bool,
    /// The work that no connected worker takes now, one sentence for each model and queue.
    pub warnings: Vec<String>,
}

/// The created items.
#[derive(Debug, Clone)]
pub enum Created {
    /// Tasks, in order, and the batch, if they are one.
    Tasks(Vec<Task>, Option<BatchId>),
    /// A plan.
    Plan(PlanId, Timestamp),
    /// An execution, before its first steps were decided.
    Execution(Box<Execution>),
}

impl Created {
    /// The tasks, if tasks were created.
    #[must_use]
    pub fn tasks(&self) -> &[Task] {
        match self {
            Self::Tasks(tasks, _) => tasks,
            Self::Plan(..) | Self::Execution(_) => &[],
        }
    }

    /// The batch, if one was created.
    #[must_use]
    pub const fn batch(&self) -> Option<BatchId> {
        match self {
            Self::Tasks(_, batch) => *batch,
            Self::Plan(..) | Self::Execution(_) => None,
        }
    }
}

type Reply = oneshot::Sender<Result<Submitted, Error>>;

/// A message to the actor.
#[derive(Debug)]
pub(crate) enum Message {
    /// Make this durable.
    Submit(Box<Submission>, Reply),
    /// The submission with this key is durable, or has failed.
    Finished([u8; 32]),
}

/// The actor.
#[derive(Debug)]
pub(crate) struct Submissions(pub(crate) Arc<Node>);

/// The keys whose submissions are under way, and their waiting callers.
pub(crate) type State = HashMap<[u8; 32], Vec<(Box<Submission>, Reply)>>;

/// The items of an idempotency key.
struct Made {
    /// The items as they were created.
    items: Created,
    ended: bool,
    /// True if texts of them were erased.
    erased: bool,
}

impl Submissions {
    async fn submit(
        &self,
        myself: &ActorRef<Message>,
        state: &mut State,
        submission: Box<Submission>,
        reply: Reply,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(key) = &submission.key {
            if let Some(waiting) = state.get_mut(&key.scope) {
                waiting.push((submission, reply));
                return Ok(());
            }
            // Boxed: most submissions have no key, and every one would pay for the larger future.
            if let Some(answer) = Box::pin(self.remembered(&submission, key)).await? {
                let _ = reply.send(answer);
                return Ok(());
            }
            state.insert(key.scope, Vec::new());
        }
        let (node, myself) = (Arc::clone(&self.0), myself.clone());
        tokio::spawn(async move {
            let scope = submission.key.as_ref().map(|key| key.scope);
            // The client may have left; its items are durable all the same.
            let _ = reply.send(create(node, *submission).await);
            if let Some(scope) = scope {
                // Fails only when the system is stopping.
                let _ = myself.cast(Message::Finished(scope));
            }
        });
        Ok(())
    }

    /// The earlier use of the key, if that is remembered.
    async fn remembered(
        &self,
        submission: &Submission,
        key: &Key,
    ) -> Result<Option<Result<Submitted, Error>>, ActorProcessingErr> {
        let environment = submission.environment;
        let store = &*self.0.shard(submission.partition).store;
        let row = IDEMPOTENCY.get(store, environment.number(), &key.scope).await?;
        let Some(row) = row else { return Ok(None) };
        let made = self.made(environment, &row).await?;
        let ended = made.as_ref().is_none_or(|made| made.ended);
        if self.0.now().since(row.at) >= KEPT && ended {
            return Ok(None);
        }
        // A repetition of the submission would do its work twice.
        let Some(Made { items: made, erased, .. }) = made else {
            let removed =
                "what this idempotency key made has ended and was removed; use another key";
            return Ok(Some(Err(Error::InvalidState(removed.into()))));
        };
        let body = match row.salted_by {
            None => Some(key.body.clone()),
            Some(item) => {
                let number = environment.number();
                let salt = TEXTS.get(store, number, item, text::KEY_SALT).await?;
                salt.filter(|salt| !salt.is_empty()).map(|salt| key.salted(&salt))
            }
        };
        let answer = match body.filter(|_| !erased) {
            None => Err(Error::InvalidState(
                "the texts of what this idempotency key made were erased; use another key".into(),
            )),
            Some(body) if body != row.body => Err(Error::IdempotencyKeyReused),
            Some(_) => Ok(Submitted { made, replayed: true, warnings: Vec::new() }),
        };
        Ok(Some(answer))
    }

    /// The items of a key; `None` if some of it was removed.
    async fn made(
        &self,
        environment: Environment,
        row: &IdempotencyRow,
    ) -> Result<Option<Made>, ActorProcessingErr> {
        let store = self.0.store();
        if let Some(id) = row.execution {
            let Some(head) = executions::head(store, environment, id).await? else {
                return Ok(None);
            };
            let Some((execution, _, compiled)) = whole(&self.0, environment, id, head).await?
            else {
                return Ok(None);
            };
            let (spec, started_at) =
                ((*execution.head.spec).clone(), execution.head.spec.created_at);
            let graph = Arc::clone(&compiled.graph);
            let first = Execution::started(spec, graph, started_at).next;
            let (ended, erased) = (execution.is_finished(), execution.has_erased_output());
            return Ok(Some(Made { items: Created::Execution(Box::new(first)), ended, erased }));
        }
        let mut tasks = Vec::with_capacity(row.tasks.len());
        for id in &row.tasks {
            let Some(found) = tables::task(store, environment, *id).await? else {
                return Ok(None);
            };
            tasks.push(found.task);
        }
        let ended = tasks.iter().all(Machine::is_finished);
        let erased = tasks.iter().any(|task| task.erased_at.is_some());
        let batch = tasks.first().and_then(|task| task.spec.origin.batch);
        let tasks =
            tasks.into_iter().map(|task| Task::submitted((*task.spec).clone()).next).collect();
        Ok(Some(Made { items: Created::Tasks(tasks, batch), ended, erased }))
    }
}

impl Actor for Submissions {
    type Msg = Message;
    type State = State;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Message>, (): ()) -> Result<State, ActorProcessingErr> {
        Ok(HashMap::new())
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Submit(submission, reply) => {
                self.submit(&myself, state, submission, reply).await?;
            }
            Message::Finished(scope) => {
                for (submission, reply) in state.remove(&scope).unwrap_or_default() {
                    self.submit(&myself, state, submission, reply).await?;
                }
            }
        }
        Ok(())
    }
}
